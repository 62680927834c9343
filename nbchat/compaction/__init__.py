"""Replace old parts of a conversation by a summary: when, what and how.

| question | modules |
|---|---|
| when | `triggers/` (meters, limits, the tracker of the context), `policies` |
| what | `plan` (what is covered and kept), `pruning/` (tool outputs without a model) |
| how | `summarizer/` (the text), `memory/` (what code copies), `summary_entry` (both) |
| afterwards | `edits` (undo, redo, edit, regenerate, exclude, include) |

`engine` composes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbchat.compaction.engine import CompactionEngine

__all__ = ["CompactionEngine"]


def __getattr__(name: str) -> object:
    """Load the engine at its first use: its parts import this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("nbchat.compaction.engine"), name)
