"""nbchat: a notebook chat whose conversations fit the context window.

    %load_ext nbchat        then %chat for the panel, %%chat for a turn in a cell

    from nbchat import Agent
    agent = Agent(tools=[my_function], system="You triage tickets.")
    agent.chat("Work through all tickets.")

Names are loaded when they are first used: importing nbchat opens nothing and loads no
SDK. Type checkers read them in `__init__.pyi`.
"""

import sys
from importlib import import_module

__version__ = "0.2.0"

_MODULES = {
    "agent.agent": "Agent",
    "agent.approvals": "Approvals",
    "agent.budget": "Budget",
    "agent.map_agents": "MapRun map_agents",
    "agent.mcp": "McpServers",
    "agent.running_turn": "Answer Turn",
    "chat.commands": "Commands",
    "compaction.engine": "CompactionEngine",
    "compaction.plan": "Plan",
    "compaction.policies": "PRESETS Policy",
    "storage.factory": "build_agent",
    "config.layers": "settings",
    "conversation.entries": "Compaction Entry Usage",
    "conversation.events": (
        "Branched Compacted CompactionChanged CompactionFailed CompactionProgress "
        "CompactionProposed CompactionSkipped CompactionStarted CompactionUndone "
        "ContentLeftOut EntryAdded Event PinsChanged RequestQueued RetryScheduled "
        "SavingFailed StopReason TextDelta ThinkingDelta ToolRequested TurnFailed "
        "TurnFinished UsageReported"
    ),
    "conversation.session": "Session",
    "conversation.tools": "idempotency_key tool",
    "jupyter.cell_output": "show",
    "jupyter.panel.chat_ui": "ChatUI",
    "providers.connect": "connect",
    "providers.base": "Provider",
    "providers.model_info": "ModelInfo Prices model_info",
    "storage.run_store": "Store",
    "storage.session_log": "session_log",
    "storage.store": "SessionStore",
}
"""The public names of each module."""

_HOMES = {name: module for module in _MODULES for name in _MODULES[module].split()}
_SUBMODULES = ("errors", "testing")

__all__ = [*_SUBMODULES, *_HOMES]  # noqa: PLE0604  # names, all of them


def __getattr__(name: str) -> object:
    """Load a public name at its first use."""
    if name in _SUBMODULES:
        return import_module(f"nbchat.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'nbchat' has no attribute {name!r}")
    if _HOMES[name] == "agent.map_agents" and "IPython" in sys.modules:
        import_module("nbchat.jupyter.run_display").follow_runs()
    return getattr(import_module(f"nbchat.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


def load_ipython_extension(shell: object) -> None:
    """Make %chat and %%chat available; silent."""
    import_module("nbchat.jupyter.magics").load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Remove the magics, the panel and all that loading added to the shell."""
    import_module("nbchat.jupyter.magics").unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where Jupyter Server finds the routes under `nbchat/`."""
    return [{"module": "nbchat.jupyter.server"}]
