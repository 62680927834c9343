"""One turn in a notebook cell: events become printed text and a banner.

Text goes out as a plain stream: it is safe, it is readable in a saved notebook without
a kernel, and it costs the browser least.
"""

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from IPython.core.error import UsageError
from IPython.display import display

from nbchat.events import (
    Compacted,
    CompactionFailed,
    CompactionSkipped,
    CompactionUndone,
    EntryAdded,
    Event,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    ToolRequested,
    TurnFailed,
    TurnFinished,
)
from nbchat.history import Compaction
from nbchat.render import compaction_html, compaction_text, notice_text


@dataclass(frozen=True, slots=True)
class Banner:
    """A compaction as a cell shows it."""

    compaction: Compaction

    def __repr__(self) -> str:
        """One line, for terminals and plain text."""
        return compaction_text(self.compaction)

    def _repr_html_(self) -> str:
        return compaction_html(self.compaction)


def show(events: Iterator[Event], stop: threading.Event | None = None) -> None:
    """Print a turn as it happens, with the banner of every compaction.

    The kernel's interrupt sets `stop`, and the turn ends keeping what had arrived.
    Raises UsageError, one line without a traceback, when the turn failed.
    """
    while True:
        try:
            for event in events:
                _show(event)
        except KeyboardInterrupt:
            if stop is None or stop.is_set():
                raise
            stop.set()
            print("stopped; what had arrived is kept", file=sys.stderr)
        else:
            return


def _show(event: Event) -> None:
    match event:
        case TextDelta(text):
            print(text, end="", flush=True)
        case EntryAdded(_, entry) if entry.role == "assistant" and not entry.is_call:
            print()
        case ToolRequested(call):
            print(f"[{call.tool_name} {call.tool_args}]")
        case Compacted(compaction):
            display(Banner(compaction))  # type: ignore[no-untyped-call]
        case TurnFailed(message):
            raise UsageError(message)
        case _:
            if note := _note(event):
                print(note, file=sys.stderr)


def _note(event: Event) -> str:
    """What else a person wants to know, in one line; empty for all that flows."""
    match event:
        case (
            CompactionSkipped()
            | CompactionFailed()
            | CompactionUndone()
            | SavingFailed()
        ):
            return notice_text(event)
        case RetryScheduled(_, wait, reason):
            return f"trying again in {wait:.0f} s: {reason}"
        case TurnFinished(reason) if reason not in ("end_turn", "stopped"):
            return f"the turn ended early: {reason}"
        case _:
            return ""
