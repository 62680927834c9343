"""One turn in a notebook cell: events become printed text and a banner.

Text goes out as a plain stream: it is safe, it is readable in a saved notebook without
a kernel, and it costs the browser least.
"""

import re
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from IPython.core.error import UsageError
from IPython.display import display

from nbchat.agent.approvals import Approvals, PendingCall
from nbchat.agent.turn import Turn
from nbchat.conversation.entries import Compaction
from nbchat.conversation.events import (
    Branched,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionSkipped,
    CompactionUndone,
    EntryAdded,
    Event,
    PinsChanged,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    ToolRequested,
    TurnFailed,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.rendering.banners import (
    compaction_cell_html,
    compaction_text,
    notice_text,
    progress_text,
)
from nbchat.rendering.conversation import conversation_html, conversation_text

FLUSH_SECONDS = 0.1
"""The longest that printed text waits; JupyterLab draws all of it for each flush."""

WIDTH = 96
"""Characters of a line of printed text; what fits beside JupyterLab's file browser."""


@dataclass(frozen=True, slots=True)
class Banner:
    """A compaction as a cell shows it."""

    compaction: Compaction

    def __repr__(self) -> str:
        """One line, for terminals and plain text."""
        return compaction_text(self.compaction)

    def _repr_html_(self) -> str:
        return compaction_cell_html(self.compaction)


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that was said in a session, for a cell to show."""

    session: Session

    def __repr__(self) -> str:
        """What people and models said, for terminals and plain text."""
        return conversation_text(self.session)

    def _repr_html_(self) -> str:
        return conversation_html(self.session)


class WrappedText:
    """Prints text as it streams, broken between words; code blocks stay as they are.

    Notebooks break a long line of plain output wherever it ends, also within a word.
    """

    def __init__(self) -> None:
        """Begin at the start of a line."""
        self._column = 0
        self._word = ""
        self._is_code = False
        self._flushed_at = 0.0

    def write(self, text: str) -> None:
        """Print all whole words that have come; the last one waits for its end."""
        for part in re.findall(r"\s|\S+", text):
            if part.isspace():
                self._print_word()
                self._print(part)
            else:
                self._word += part
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self._flush()

    def end(self) -> None:
        """Print what waits, and end the line."""
        self._print_word()
        self._print("\n")
        self._flush()

    def break_off(self) -> None:
        """End the line that was begun, if any: nothing more of it comes."""
        if self._word or self._column:
            self.end()

    def _flush(self) -> None:
        sys.stdout.flush()
        self._flushed_at = time.monotonic()

    def _print_word(self) -> None:
        is_too_long = self._column + len(self._word) > WIDTH
        if is_too_long and self._column and not self._is_code:
            self._print("\n")
        if self._word.startswith("```"):
            self._is_code = not self._is_code
        self._print(self._word)
        self._word = ""

    def _print(self, text: str) -> None:
        self._column = 0 if text == "\n" else self._column + len(text)
        print(text, end="")


def show(events: Iterator[Event], stop: threading.Event | None = None) -> None:
    """Print a turn as it happens, with the banner of every compaction.

    The kernel's interrupt sets `stop`, and the turn ends keeping what had arrived.
    Raises UsageError, one line without a traceback, when the turn failed.
    """
    text = WrappedText()
    try:
        failure = _show_all(events, text, stop)
    finally:
        if isinstance(events, Generator | Turn):
            events.close()  # else a kept traceback keeps it, and the chat is locked
    if failure:
        raise UsageError(failure)


@contextmanager
def announcing(approvals: Approvals | None, *, has_panel: bool) -> Iterator[None]:
    """While a cell's turn runs, print which call waits and where it is answered."""
    where = (
        "answer in the chat panel, or interrupt the kernel"
        if has_panel
        else "there is no panel to answer in; interrupt the kernel and run %chat first"
    )

    def announce(pending: tuple[PendingCall, ...]) -> None:
        for each in pending:
            print(f"{each.call.tool_name} waits for you: {where}", flush=True)

    end = approvals.subscribe(announce) if approvals is not None else None
    try:
        yield
    finally:
        if end is not None:
            end()


def _show_all(
    events: Iterator[Event], text: WrappedText, stop: threading.Event | None
) -> str:
    """Why the turn failed, if it did; all that it has to tell is shown first."""
    while True:
        try:
            return _show_rest(events, text)
        except KeyboardInterrupt:
            if stop is None or stop.is_set():
                raise
            stop.set()
            print("stopped; what had arrived is kept", file=sys.stderr)


def _show_rest(events: Iterator[Event], text: WrappedText) -> str:
    """Print what is still to come; of an answer that breaks off its last word, too."""
    failure = ""
    try:
        for event in events:
            if isinstance(event, TurnFailed):
                failure = event.message
            else:
                _show(event, text)
    finally:
        text.break_off()
    return failure


def _show(event: Event, text: WrappedText) -> None:
    match event:
        case TextDelta(piece):
            text.write(piece)
        case EntryAdded(_, entry) if entry.is_answer:
            text.end()
        case ToolRequested(call):
            print(f"[{call.tool_name} {call.tool_args}]")
        case Compacted(compaction):
            display(Banner(compaction))  # type: ignore[no-untyped-call]
        case _:
            if note := _note(event):
                print(note, file=sys.stderr)


def _note(event: Event) -> str:
    """What else a person wants to know, in one line; empty for all that flows."""
    match event:
        case (
            Branched()
            | CompactionSkipped()
            | CompactionFailed()
            | CompactionUndone()
            | CompactionChanged()
            | PinsChanged()
            | SavingFailed()
        ):
            return notice_text(event)
        case CompactionProgress():
            return f"compacting, {progress_text(event)}"
        case RetryScheduled(_, wait, reason):
            return f"trying again in {wait:.0f} s: {reason}"
        case TurnFinished(reason) if reason not in ("end_turn", "stopped"):
            return f"the turn ended early: {reason}"
        case _:
            return ""
