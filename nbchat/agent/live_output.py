"""Show a turn in the cell that runs it: Markdown that grows as the answer streams.

In a notebook the text is a display that is updated a few times a second. Elsewhere
(terminal, script, nbchat without IPython) it is printed as it comes.
"""

import sys
import time
import uuid
from html import escape
from typing import Any

from nbchat.agent.running_turn import Answer, Turn
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionProgress,
    CompactionProposed,
    CompactionSkipped,
    CompactionStarted,
    ContentLeftOut,
    EntryAdded,
    Event,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    ToolRequested,
)
from nbchat.rendering.banners import notice_text, progress_text, proposal_text
from nbchat.rendering.markdown import markdown_cell_html
from nbchat.rendering.plain_text import terminal_text

FLUSH_SECONDS = 0.1
"""Longest time between flushes of what is printed."""

UPDATE_SECONDS = 0.2
"""Shortest time between two updates."""

CHARACTERS_PER_SECOND = 40_000
"""Most text sent per second: each update sends the whole text so far."""


class ShownAnswer(Answer):
    """An answer that its cell has already shown and that isn't shown again."""

    __slots__ = ("cell",)

    cell: object
    """The number of the cell that has shown it."""

    def _ipython_display_(self) -> None:
        """Show nothing in the cell that streamed it, and the answer in every other."""
        if self.cell != _cell_number():
            raise NotImplementedError  # IPython continues with _repr_markdown_


def shown(turn: Turn) -> Answer:
    """Run a turn, show it in the cell or on stdout, and return its answer.

    Raises what `Turn.result` raises. An interrupt ends the turn, keeps what had
    arrived, and passes through.
    """
    output = cell_output()
    if not is_watched():
        turn.hold_back()
    try:
        for event in turn:
            _show(event, output)
        return _finished(turn, output)
    finally:
        turn.close()
        output.end_text()


def cell_output() -> "CellOutput":
    """Where a turn is shown: displays of a notebook's cell, or lines on stdout."""
    shell = _shell()
    if getattr(shell, "kernel", None) is None:
        return PrintedOutput()
    return NotebookOutput(shell.display_pub, is_watched=is_watched())


def is_watched() -> bool:
    """True if a person may read output while it appears, in a cell or a script.

    A run that takes no input is not watched: nbconvert, nbval, papermill.
    """
    kernel = getattr(_shell(), "kernel", None)
    return kernel is None or bool(getattr(kernel, "_allow_stdin", True))


def _finished(turn: Turn, output: "CellOutput") -> Answer:
    answer = turn.result()
    if answer.note:
        output.line(f"({answer.note})")
    made = ShownAnswer(
        answer,
        usage=answer.usage,
        stop_reason=answer.stop_reason,
        events=answer.events,
        value=answer.value,
    )
    made.cell = _cell_number()
    return made


class PrintedOutput:
    """Plain text on stdout, as it arrives."""

    def __init__(self) -> None:
        self._has_text = False
        self._is_in_line = False
        self._flushed_at = 0.0

    def text(self, piece: str) -> None:
        """Print a piece of an answer."""
        _write(terminal_text(piece))
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self._flush()
        self._has_text = True
        self._is_in_line = not piece.endswith("\n")

    def wait(self, _text: str) -> None:
        """Show nothing: what is printed stays."""

    def end_text(self, whole: str = "") -> None:
        """End the line; print the whole text first if nothing of it was streamed."""
        if whole and not self._has_text:
            self.text(whole)
        if self._is_in_line:
            self.text("\n")
        self._has_text = False
        self._flush()

    def _flush(self) -> None:
        sys.stdout.flush()
        self._flushed_at = time.monotonic()

    def line(self, text: str) -> None:
        """Print a line."""
        self.end_text()
        self.text(f"{text}\n")
        self._has_text = False

    def usage(self, _text: str) -> None:
        """Show nothing, because a script's output is the answer."""

    def progress(self, text: str, *, is_over: bool) -> None:
        """Print a step."""
        del is_over  # each step is a line
        self.line(text)


def _write(text: str) -> None:
    """Write to stdout; a character that the console cannot show becomes `?`."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


class NotebookOutput:
    """Displays of a notebook cell: one of Markdown for each text, one for each line.

    Unless it is watched each text is shown once, when it is whole.
    """

    def __init__(self, publisher: Any, *, is_watched: bool = True) -> None:
        self._publisher = publisher
        self._is_watched = is_watched
        self._text = ""
        self._text_id = ""
        self._progress_id = ""
        self._updated_at = 0.0

    def wait(self, text: str) -> None:
        """Show what the cell waits for, until a text replaces it."""
        if self._is_watched and not self._text_id:
            self._text_id = self._show({"text/plain": text}, "")

    def text(self, piece: str) -> None:
        """Show an answer as it grows, a few times a second."""
        self._text += piece
        if not self._is_watched:
            return
        wait = max(UPDATE_SECONDS, len(self._text) / CHARACTERS_PER_SECOND)
        if time.monotonic() - self._updated_at >= wait:
            self._show_text()

    def end_text(self, whole: str = "") -> None:
        """Show the whole text; what comes next is a display of its own."""
        self._text = whole or self._text
        if self._text:
            self._show_text()
        elif self._text_id:
            self._show({"text/plain": ""}, self._text_id)
        self._text = self._text_id = ""
        self._updated_at = 0.0

    def line(self, text: str) -> None:
        """Show a line in a display of its own."""
        self.end_text()
        self._show({"text/plain": text}, "")

    def usage(self, text: str) -> None:
        """Show tokens and costs, small."""
        self.end_text()
        html = f"<small style='opacity: 0.7'>{escape(text)}</small>"
        self._show({"text/html": html, "text/plain": text}, "")

    def progress(self, text: str, *, is_over: bool) -> None:
        """Show a line that the next steps replace, until it is over."""
        self.end_text()
        shown_id = self._show({"text/plain": text}, self._progress_id)
        self._progress_id = "" if is_over else shown_id

    def _show_text(self) -> None:
        shown = {
            "text/html": markdown_cell_html(
                self._text
            ),  # notebooks prefer it: it is safe
            "text/markdown": self._text,
            "text/plain": self._text,
        }
        self._text_id = self._show(shown, self._text_id)
        self._updated_at = time.monotonic()

    def _show(self, data: dict[str, str], display_id: str) -> str:
        """Show data, in the display with this id or a new one; returns the id."""
        shown_id = display_id or uuid.uuid4().hex
        data |= {"text/plain": terminal_text(data["text/plain"])}
        self._publisher.publish(
            data, transient={"display_id": shown_id}, update=bool(display_id)
        )
        return shown_id


CellOutput = PrintedOutput | NotebookOutput


def _show(event: Event, output: CellOutput) -> None:
    match event:
        case TextDelta(piece):
            output.text(piece)
        case EntryAdded(_, entry) if entry.is_answer:
            output.end_text(entry.content)
        case CompactionStarted() | CompactionProgress():
            output.progress(_line(event), is_over=False)
        case Compacted() | CompactionFailed():
            output.progress(_line(event), is_over=True)
        case _:
            if line := _line(event):
                output.line(line)


def _line(event: Event) -> str:
    """An event in one line; empty for events that need none."""
    match event:
        case ToolRequested(call):
            return terminal_text(f"[{call.tool_name} {call.tool_args}]")
        case RetryScheduled(_, wait, reason):
            return f"{reason} Retrying in {wait:.0f} s."
        case CompactionProposed():
            return f"{proposal_text(event)} agent.compact() does it now."
        case (
            CompactionSkipped() | CompactionFailed() | ContentLeftOut() | SavingFailed()
        ):
            return notice_text(event)
        case _:
            return _compaction_line(event)


def _compaction_line(event: Event) -> str:
    match event:
        case CompactionStarted(_, _, tokens):
            return f"Compacting {tokens:,} tokens …"
        case CompactionProgress():
            return f"Compacting {progress_text(event)} …"
        case Compacted(made):
            what = "Tool outputs shortened" if made.kind == "pruning" else "Compacted"
            return f"{what}: {made.tokens_before:,} → {made.tokens_after:,} tokens"
        case _:
            return ""


def _shell() -> Any:
    """The running IPython shell; None when IPython was not loaded."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _cell_number() -> object:
    return getattr(_shell(), "execution_count", None)
