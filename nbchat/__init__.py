"""nbchat: a notebook chat whose conversations never hit the context wall.

    %load_ext nbchat        then %chat for the panel, %%chat for a turn in a cell

    from nbchat import Agent
    agent = Agent(tools=[my_function], system="You triage tickets.")
    for event in agent.run("Work through all tickets."): ...

Names are loaded when they are first used: importing nbchat opens nothing and loads no
SDK.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbchat.agent.agent import Agent
    from nbchat.compaction.engine import CompactionEngine
    from nbchat.compaction.policies import Policy
    from nbchat.config.factory import build_agent
    from nbchat.config.settings import settings
    from nbchat.conversation.entries import Compaction, Entry, Usage
    from nbchat.conversation.session import Session
    from nbchat.conversation.tools import tool
    from nbchat.jupyter.cell_output import show
    from nbchat.jupyter.panel.chat_ui import ChatUI
    from nbchat.providers import connect
    from nbchat.storage.store import SessionStore

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "ChatUI",
    "Compaction",
    "CompactionEngine",
    "Entry",
    "Policy",
    "Session",
    "SessionStore",
    "Usage",
    "build_agent",
    "connect",
    "settings",
    "show",
    "tool",
]

_HOMES = {
    "Agent": "nbchat.agent.agent",
    "ChatUI": "nbchat.jupyter.panel.chat_ui",
    "Compaction": "nbchat.conversation.entries",
    "CompactionEngine": "nbchat.compaction.engine",
    "Entry": "nbchat.conversation.entries",
    "Policy": "nbchat.compaction.policies",
    "Session": "nbchat.conversation.session",
    "SessionStore": "nbchat.storage.store",
    "Usage": "nbchat.conversation.entries",
    "build_agent": "nbchat.config.factory",
    "connect": "nbchat.providers",
    "settings": "nbchat.config.settings",
    "show": "nbchat.jupyter.cell_output",
    "tool": "nbchat.conversation.tools",
}


def __getattr__(name: str) -> object:
    """Load a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nbchat' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Make %chat and %%chat available; silent."""
    import_module("nbchat.jupyter.magics").load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """Leave no trace in the shell."""
    import_module("nbchat.jupyter.magics").unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where Jupyter Server finds the routes under `nbchat/`."""
    return [{"module": "nbchat.jupyter.server"}]
