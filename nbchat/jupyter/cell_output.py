"""Print a turn in a notebook cell: its text as it streams, its compactions as banners.

The text is a plain stream: safe, readable in a saved notebook without a kernel, and
cheap for the browser.
"""

import re
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from IPython.core.error import UsageError
from IPython.display import display

from nbchat.agent.turn import STOP_NOTES, Turn
from nbchat.chat.runner_events import ChatEvent, CommandReplied
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
from nbchat.rendering.markdown import terminal_text

FLUSH_SECONDS = 0.1
"""Longest time between flushes; JupyterLab draws the whole output at each of them."""

WIDTH = 96
"""Characters of a printed line; as many as fit beside JupyterLab's file browser."""


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
    """A whole session, for a cell to show."""

    session: Session

    def __repr__(self) -> str:
        """The messages as plain text, for terminals."""
        return conversation_text(self.session)

    def _repr_html_(self) -> str:
        return conversation_html(self.session)


class WrappedText:
    """Prints streamed text and wraps it between words; code blocks stay as they are.

    Notebooks wrap long lines of plain output in the middle of words.
    """

    def __init__(self) -> None:
        """Start at the beginning of a line."""
        self._column = 0
        self._word = ""
        self._is_code = False
        self._flushed_at = 0.0

    def write(self, text: str) -> None:
        """Print the complete words so far; the last one may still go on."""
        for part in re.findall(r"\s|\S+", text):
            if part.isspace():
                self._print_word()
                self._print(part)
            else:
                self._word += part
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self._flush()

    def end(self) -> None:
        """Print the last word, and end the line."""
        self._print_word()
        self._print("\n")
        self._flush()

    def end_line(self) -> None:
        """End the line that was started, if any."""
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


def show(events: Iterator[ChatEvent]) -> None:
    """Print a turn as it happens, with the banner of every compaction.

    Raises UsageError, one line without a traceback, when the turn failed.
    """
    try:
        failure = _show_all(events)
    finally:
        if isinstance(events, Generator | Turn):
            events.close()  # else a kept traceback keeps it, and the chat is locked
    if failure:
        raise UsageError(failure)


def _show_all(events: Iterator[ChatEvent]) -> str:
    """Print all events; returns the error of a turn that failed."""
    failure, text = "", WrappedText()
    try:
        for event in events:
            if isinstance(event, TurnFailed):
                failure = event.message
            else:
                _show(event, text)
    finally:
        text.end_line()
    return failure


def _show(event: ChatEvent, text: WrappedText) -> None:
    match event:
        case TextDelta(piece):
            text.write(piece)
        case EntryAdded(_, entry) if entry.is_answer:
            text.end()
        case CommandReplied(reply):
            print(reply)
        case ToolRequested(call):
            print(terminal_text(f"[{call.tool_name} {call.tool_args}]"))
        case Compacted(compaction):
            display(Banner(compaction))  # type: ignore[no-untyped-call]
        case _:
            if note := _note(event):
                print(note, file=sys.stderr)


def _note(event: ChatEvent) -> str:
    """A notice in one line; empty for events that need none."""
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
        case TurnFinished(reason) if reason in STOP_NOTES and reason != "stopped":
            return f"incomplete answer: {STOP_NOTES[reason]}"
        case _:
            return ""
