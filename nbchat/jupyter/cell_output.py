"""Show a turn in a notebook cell: rendered Markdown, and its compactions as banners.

The answer grows in one display and is readable in a saved notebook without a kernel.
Below a turn that failed is the button *Try again*. It and its answer are displays of
that cell, which a click updates: no other cell has to run.
"""

import json
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from nbchat.agent.live_output import CellOutput, NotebookOutput, cell_output
from nbchat.agent.running_turn import STOP_NOTES, Turn
from nbchat.chat.chat_events import ChatEvent, CommandReplied
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import (
    Branched,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionProposed,
    CompactionSkipped,
    CompactionUndone,
    ContentLeftOut,
    EntryAdded,
    PinsChanged,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    ToolRequested,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session, usage_text
from nbchat.errors import NbchatError
from nbchat.rendering.banners import (
    compaction_cell_html,
    compaction_text,
    notice_text,
    progress_text,
    proposal_text,
)
from nbchat.rendering.conversation import (
    conversation_html,
    conversation_text,
    kept_html,
)
from nbchat.rendering.entries import escaped, listing_html
from nbchat.rendering.plain_text import terminal_text

RETRY_LABEL = "Try again"

HOW_TO_RETRY = "To try again, run the cell again."
"""Shown where no page draws the button, and in a notebook that is opened later."""

# Hidden for three seconds, until the button is drawn. Where it cannot be drawn, the
# page's own line about a missing model is hidden.
HOW_TO_RETRY_HTML = f"""<style>
.nbc-unused {{ animation: nbc-unused 3s step-end backwards; }}
@keyframes nbc-unused {{ from {{ visibility: hidden; }} }}
.jp-OutputArea-child:has(> .jp-OutputArea-output > .jupyter-button)
  + .jp-OutputArea-child:has(> .jp-OutputArea-output > .nbc-unused),
.jp-OutputArea-child:not(:has(> .jp-OutputArea-output > .jupyter-button)):has(
  + .jp-OutputArea-child > .jp-OutputArea-output > .nbc-unused) {{
  display: none;
}}
</style><div class="nbc-unused">{HOW_TO_RETRY}</div>"""

RETRY_ANSWERED = "The answer after Try again:"
"""Shown in place of the button; the error above it stays in the cell."""

KNOWN = (
    "The model also saw an outline of this notebook. To change that, run %chat /set "
    "notebook_context off."
)

Answer = Callable[[NotebookOutput], object]
"""Continues the turn and shows it; raises UsageError when it fails again."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text, and the HTML that a notebook shows in its place."""

    text: str
    html: str

    def __repr__(self) -> str:
        """The text, where no HTML is shown."""
        return terminal_text(self.text)

    def _repr_html_(self) -> str:
        return self.html


def listing(reply: CommandReplied) -> Shown:
    """A command's table."""
    table = listing_html(reply.columns, reply.rows)
    # JupyterLab aligns the cells of a table to the right.
    style = "<style>.nbc-cell .nbc-reply :is(th, td) { text-align: left; }</style>"
    html = f'<div class="nbc-cell mathjax_ignore">{style}{table}</div>'
    return Shown(reply.text, html)


def known_notebook(text: str) -> Shown:
    """The notebook context that was sent, as one line that unfolds."""
    block = f"<pre>{escaped(text)}</pre>"
    return Shown(KNOWN, f"<details><summary>{KNOWN}</summary>{block}</details>")


@dataclass(frozen=True, slots=True)
class Banner:
    """A compaction as a cell shows it."""

    compaction: Compaction

    def __repr__(self) -> str:
        """One line, for terminals and plain text."""
        return terminal_text(compaction_text(self.compaction))

    def _repr_html_(self) -> str:
        return compaction_cell_html(self.compaction)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole session, for a cell to show."""

    session: Session

    def __repr__(self) -> str:
        """The messages as plain text, for terminals."""
        return terminal_text(conversation_text(self.session))

    def _repr_html_(self) -> str:
        return conversation_html(self.session)


class KeptTranscript:
    """A display of the conversation that is updated after each turn.

    It is saved with the notebook, and can be read there without a kernel.
    """

    def __init__(self) -> None:
        self._publisher: Any = None
        self._id = uuid4().hex
        self._shown = ""

    def begin(self, publisher: Any, session: Session) -> None:
        """Show the newest messages in the cell that runs."""
        self._publisher, self._id, self._shown = publisher, uuid4().hex, ""
        self.write(session)

    def write(self, session: Session) -> None:
        """Show the newest messages, in the display that has shown them before."""
        html = "" if self._publisher is None else kept_html(session)
        if html == self._shown:
            return
        self._publisher.publish(
            {"text/html": html, "text/plain": "The transcript of this chat"},
            transient={"display_id": self._id},
            update=bool(self._shown),
        )
        self._shown = html

    def without(self, text: str, session: Session, path: Path) -> str:
        """Update it without text that was removed from the session.

        Returns a sentence about the notebook's file if that still has the text.
        """
        self.write(session)
        try:
            saved = path.read_text(encoding="utf-8") if path.is_file() else ""
        except (OSError, ValueError) as error:
            return f"Can't read {path.name} to check it for the text: {error}"
        forms = {text, json.dumps(text)[1:-1], json.dumps(escaped(text))[1:-1]}
        if not any(each in saved for each in forms):
            return ""
        if self._shown:
            return f"{path.name} still has it. Save the notebook to remove it there."
        return f"{path.name} still has it. Clear the output that shows it, then save."


def show(events: Iterator[ChatEvent], output: CellOutput | None = None) -> None:
    """Print a turn as it happens, with the banner of every compaction.

    Raises UsageError, one line without a traceback, when the turn failed.
    """
    try:
        failure = _show_all(events, output or cell_output())
    finally:
        if isinstance(events, Generator | Turn):
            events.close()  # else a kept traceback keeps it, and the chat is locked
    if failure:
        raise UsageError(terminal_text(failure))


def _show_all(events: Iterator[ChatEvent], output: CellOutput) -> str:
    """Show all events; returns the error of a turn that failed."""
    failure, usage = "", Usage()
    try:
        for event in events:
            if isinstance(event, TurnFailed):
                failure = event.message
            elif isinstance(event, UsageReported):
                usage += event.usage
            elif isinstance(event, TurnFinished) and usage.total_tokens:
                output.usage(usage_text(usage))
            _show(event, output)
    finally:
        output.end_text()
    return failure


def _show(event: ChatEvent, output: CellOutput) -> None:
    match event:
        case TextDelta(piece):
            output.text(piece)
        case EntryAdded(_, entry) if entry.is_answer:
            output.end_text(entry.content)
        case EntryAdded(_, entry) if entry.role in ("user", "tool"):
            _show_sent(entry, output)
        case CommandReplied():
            output.end_text()
            _show_reply(event)
        case ToolRequested(call):
            output.line(terminal_text(f"[{call.tool_name} {call.tool_args}]"))
        case Compacted(compaction):
            output.end_text()
            display(Banner(compaction))  # type: ignore[no-untyped-call]
        case _:
            if note := _note(event):
                output.end_text()
                # JupyterLab shows stderr on red, like the error of any cell.
                where = sys.stderr if _is_failure(event) else None
                print(terminal_text(note), file=where)


def _is_failure(event: ChatEvent) -> bool:
    """True for an event that reports a failure or an incomplete answer."""
    if isinstance(event, SavingFailed):
        return not event.is_resolved
    return isinstance(event, CompactionFailed | TurnFinished)


def _show_sent(entry: Entry, output: CellOutput) -> None:
    """Say that the model is asked, after a line about rules from a file."""
    if entry.is_rules:
        output.line(terminal_text(f"[{entry.content}]"))
    output.wait("Waiting for the model …")


def _show_reply(reply: CommandReplied) -> None:
    """A table where the command lists things, else its text."""
    if reply.columns:
        display(listing(reply))  # type: ignore[no-untyped-call]
    else:
        print(terminal_text(reply.text))


def _note(event: ChatEvent) -> str:
    """A notice in one line; empty for events that need none."""
    match event:
        case (
            Branched()
            | CompactionSkipped()
            | CompactionFailed()
            | CompactionUndone()
            | CompactionChanged()
            | ContentLeftOut()
            | PinsChanged()
            | SavingFailed()
        ):
            return notice_text(event)
        case CompactionProposed():
            return f"{proposal_text(event)} To do it now: %chat /compact"
        case CompactionProgress():
            return f"Compacting, {progress_text(event)}"
        case RetryScheduled(_, wait, reason):
            return f"{reason} Retrying in {wait:.0f} s."
        case TurnFinished(reason) if reason in STOP_NOTES and reason != "stopped":
            return STOP_NOTES[reason]
        case _:
            return ""


class RetryButton:
    """A button that continues a failed turn and shows the answer below it.

    Where no page draws widgets, a line says how to try again.
    """

    def __init__(self, shell: InteractiveShell, answer: Answer) -> None:
        self._shell = shell
        self._answer = answer
        self._button_id = uuid4().hex
        self._button: Any = None
        self._below: Any = None

    def show_after_cell(self) -> None:
        """Show the button once the cell has ended, which is below its error."""
        self._shell.events.register("post_run_cell", self._show)

    def _show(self, _result: object) -> None:
        self._shell.events.unregister("post_run_cell", self._show)
        kernel = getattr(self._shell, "kernel", None)
        if kernel is None:
            sys.stdout.write(f"{HOW_TO_RETRY}\n")
            return
        # A run that takes no input is not watched: nbconvert, nbval, papermill.
        if not getattr(kernel, "_allow_stdin", True):
            self._publish({"text/plain": HOW_TO_RETRY}, is_update=False)
            return
        button = self._made()._repr_mimebundle_()
        self._publish({**button, "text/plain": ""}, is_update=False)
        how = {"text/plain": HOW_TO_RETRY, "text/html": HOW_TO_RETRY_HTML}
        self._below = _OneDisplay(self._shell.display_pub, how)

    def _made(self) -> Any:
        # Not at the top: it takes a tenth of a second, and few turns fail.
        from ipywidgets import Button  # noqa: PLC0415

        self._button = Button(description=RETRY_LABEL, tooltip="Ask the model again")
        self._button.on_click(self.click)
        return self._button

    def click(self, _button: object = None) -> None:
        """Continue the turn; the button stays if it fails again."""
        self._button.disabled = True
        output = NotebookOutput(self._below.emptied())
        try:
            self._answer(output)
        except (UsageError, NbchatError) as error:
            output.line(str(error))
            self._button.disabled = False
        else:
            self._publish({"text/plain": RETRY_ANSWERED}, is_update=True)
            self._button.close()

    def _publish(self, shown: dict[str, Any], *, is_update: bool) -> None:
        self._shell.display_pub.publish(
            shown, transient={"display_id": self._button_id}, update=is_update
        )


class _OneDisplay:
    """A publisher that puts all displays of a turn into a single existing one.

    A display that is new after its cell has ended would have no place in the page.
    """

    def __init__(self, publisher: Any, first: dict[str, str]) -> None:
        self._publisher = publisher
        self._id = uuid4().hex
        self._parts: dict[str, dict[str, str]] = {}
        self._send(first, is_update=False)

    def emptied(self) -> "_OneDisplay":
        """Forget what an earlier turn has shown."""
        self._parts.clear()
        return self

    def publish(
        self, data: dict[str, str], *, transient: dict[str, str], update: bool
    ) -> None:
        """Show a part in its place; `update` is known by its id."""
        del update
        self._parts[transient["display_id"]] = data
        parts = [each for each in self._parts.values() if each["text/plain"]]
        shown = {"text/plain": "\n\n".join(each["text/plain"] for each in parts)}
        if parts:
            shown["text/html"] = "".join(map(_html, parts))
        self._send(shown, is_update=True)

    def _send(self, shown: dict[str, str], *, is_update: bool) -> None:
        self._publisher.publish(
            shown, transient={"display_id": self._id}, update=is_update
        )


def _html(part: dict[str, str]) -> str:
    line = f"<div>{escaped(part['text/plain'])}</div>"
    return part.get("text/html", line)
