# The public names for type checkers; __init__.py loads them on demand.
from nbchat import errors, testing
from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals
from nbchat.agent.budget import Budget
from nbchat.agent.map_agents import MapRun, map_agents
from nbchat.agent.mcp import McpServers
from nbchat.agent.running_turn import Answer, Turn
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.plan import Plan
from nbchat.compaction.policies import PRESETS, Policy
from nbchat.config.layers import settings
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import (
    Branched,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionProposed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    ContentLeftOut,
    EntryAdded,
    Event,
    PinsChanged,
    RequestQueued,
    RetryScheduled,
    SavingFailed,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolRequested,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session
from nbchat.conversation.tools import idempotency_key, tool
from nbchat.jupyter.cell_output import show
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.providers.base import Provider
from nbchat.providers.connect import connect
from nbchat.providers.model_info import ModelInfo, Prices, model_info
from nbchat.storage.factory import build_agent
from nbchat.storage.run_store import Store
from nbchat.storage.session_log import session_log
from nbchat.storage.store import SessionStore

__version__: str

__all__ = [
    "PRESETS",
    "Agent",
    "Answer",
    "Approvals",
    "Branched",
    "Budget",
    "ChatUI",
    "Commands",
    "Compacted",
    "Compaction",
    "CompactionChanged",
    "CompactionEngine",
    "CompactionFailed",
    "CompactionProgress",
    "CompactionProposed",
    "CompactionSkipped",
    "CompactionStarted",
    "CompactionUndone",
    "ContentLeftOut",
    "Entry",
    "EntryAdded",
    "Event",
    "MapRun",
    "McpServers",
    "ModelInfo",
    "PinsChanged",
    "Plan",
    "Policy",
    "Prices",
    "Provider",
    "RequestQueued",
    "RetryScheduled",
    "SavingFailed",
    "Session",
    "SessionStore",
    "StopReason",
    "Store",
    "TextDelta",
    "ThinkingDelta",
    "ToolRequested",
    "Turn",
    "TurnFailed",
    "TurnFinished",
    "Usage",
    "UsageReported",
    "build_agent",
    "connect",
    "errors",
    "idempotency_key",
    "map_agents",
    "model_info",
    "session_log",
    "settings",
    "show",
    "testing",
    "tool",
]

def load_ipython_extension(shell: object) -> None: ...
def unload_ipython_extension(shell: object) -> None: ...
