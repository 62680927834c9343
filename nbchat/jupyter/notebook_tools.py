"""Tools with which a model reads, changes and runs the cells of its notebook.

They act through the page that shows the panel, on the document that JupyterLab has
open, never on the file: its undo works, and the edits of other users stay. A cell is
changed only if its source is what the model has read last, so that nothing is lost
which a person typed since. Each change is approved by its difference, and each run by
the code that will run. Secrets in cells and outputs are hidden from the model, and stay
when it changes what is around them.
"""

import difflib
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, TypedDict

from nbchat.chat.attachments.attachments import load_attachment, unknown_name
from nbchat.chat.attachments.mentions import Mention, Resolver
from nbchat.conversation.cell_changes import with_secrets_of
from nbchat.conversation.secret_masking import HIDDEN, without_secrets
from nbchat.conversation.tools import Preview, Tool, is_stopped, tool
from nbchat.errors import NbchatError, Stopped
from nbchat.jupyter.notebook_page import (
    ANSWER_SECONDS,
    NOTHING,
    STEP_SECONDS,
    Details,
    PageRequests,
    Reply,
)
from nbchat.jupyter.panel.protocol import CellOutput, NotebookAnswer, NotebookCell
from nbchat.jupyter.shell_contents import RunningCell
from nbchat.providers.tokens import TokenCounter, most_tokens

Change = Literal["replace", "insert", "move", "delete", "kind"]

CellKind = Literal["code", "markdown", "raw"]


class _NeededOfProposed(TypedDict):
    change: Change


class Proposed(_NeededOfProposed, total=False):
    """A change, with the arguments of edit_notebook."""

    cell: str
    source: str
    old: str
    after: str
    kind: CellKind
    run: bool


RUN_SECONDS = 60

MOST_SECONDS = 600
"""Time that one call waits for cells that run; a later call may wait on."""

STILL_SECONDS = 2.0
"""Interval at which a run asks whether its page is still there."""

UNSEEN_SECONDS = 0.3
"""A wait for the kernel that is too short to be shown."""

TITLE_CHARACTERS = 50
"""Of a cell's first line in the title of a card."""

NAMES_SHOWN = 5
"""Cells that are named in a line, which a person reads whole."""

PICTURES_SENT = 3
"""Pictures of one call that the model sees: each takes about 1,500 tokens."""

OUTLINE_LINES = 200
"""Cells in one outline, about 5,000 tokens."""

READ_CHARACTERS = 24_000
"""Of all cells in one call: what a model reads whole, about 6,000 tokens.

A longer cell can only be changed in parts.
"""

RUN_TOKENS, RUN_CHARACTERS = 4_000, 9_000
"""Most of the outputs of a run, or of one cell that is read: as a text of short lines
may have a token in each character, both count."""

FEWEST_CHARACTERS = 200
"""Of what is left of many outputs."""

SHARES = 20
"""Outputs among which the room is shared."""

COUNTER = TokenCounter()

OUTPUT_CHARACTERS = 2_000
"""Of the outputs of one of several cells that are read or run."""

IN_A_CELL = (
    "a %%chat cell is running, and no other cell can run until it ends; ask in the "
    "panel of %chat instead"
)

KEEP_SECRETS = (
    f'"{HIDDEN}" replaces a value that is hidden from you; leave its whole line '
    "unchanged, or ask the user to edit this cell"
)

RELOADED = (
    "the notebook's page was closed, reloaded or put to sleep; if the cell ran, what "
    "it put out since then may not be in the notebook"
)


@dataclass(frozen=True, slots=True)
class CellEdit:
    """A change of the notebook that the page has checked and may make now."""

    change: Change
    total: int
    """Number of cells of the notebook."""
    cell: NotebookCell | None = None
    """The cell before the change; None for a new one."""
    source: str = ""
    after: NotebookCell | None = None
    """The cell above a new or a moved one; None for the top."""
    kind: CellKind = "code"
    is_by_person: bool = False
    """True if a person edited the source before approving it."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A change as the model asks for it."""

    change: Change
    cell: str
    source: str
    old: str
    after: str
    kind: CellKind


class NotebookTools:
    """The tools of one notebook."""

    def __init__(
        self,
        page: Callable[[], PageRequests],
        *,
        is_in_cell: Callable[[], bool] = lambda: False,
        session: Callable[[], object] = lambda: None,
        contents: Resolver | None = None,
        running: RunningCell | None = None,
    ) -> None:
        """`is_in_cell` says whether the turn that runs belongs to a cell.

        What the model has read is forgotten in another `session`. `contents` finds
        variables, and `running` is what the kernel runs.
        """
        self._page = page
        self._is_in_cell = is_in_cell
        self._session = session
        self._contents = contents
        self._running = running
        self._reader: object = None
        self._read: dict[str, str] = {}
        """The source of each cell, by its id, as the model has read it last."""
        self._edits: dict[_Wanted, CellEdit] = {}
        """Previews that a person approved, by the arguments of the call."""
        self._codes: dict[str, str] = {}
        """The code that a person saw before approving, by cell."""
        self._view_of_run = ""
        self.before_change: Callable[[CellEdit], object] = lambda _edit: None
        """Called just before a change is made; what it raises prevents the change."""
        self.after_change: Callable[[CellEdit, NotebookAnswer], object] = (
            lambda _edit, _answer: None
        )
        self.tools: tuple[Tool, ...] = tuple(map(_briefly, self._made()))
        proposing = tool(read_only=False, timeout_seconds=MOST_SECONDS)
        self.proposing: Tool = replace(
            proposing(self.propose_changes), preview=self._proposal
        )
        """Makes several changes that a person approves together."""

    def _made(self) -> Iterator[Tool]:
        """The tools, changing ones with what a person sees before approving."""
        longest = MOST_SECONDS + 6 * ANSWER_SECONDS
        reading = tool(read_only=True, timeout_seconds=longest)
        changing = tool(read_only=False, timeout_seconds=longest)
        yield reading(self.read_notebook)
        edit, run = changing(self.edit_notebook), changing(self.run_cells)
        group = "notebook"
        effect = _effect_of_edit
        yield replace(edit, preview=self._edit_preview, group=group, effect=effect)
        yield replace(run, preview=self._run_preview, group=group)
        yield reading(self.interrupt)
        yield reading(self.inspect)

    def read_notebook(
        self,
        cells: Sequence[str] = (),
        search: str = "",
        first: int = 1,
        wait_seconds: int = 0,
    ) -> str:
        """Read cells with their outputs; without ids an outline of all cells.

        Args:
            cells: Ids.
            search: Outline of cells with this text.
            first: Position where the outline begins.
            wait_seconds: Wait for a running cell.

        """
        if wait_seconds and self._running is not None:
            self._await_end(wait_seconds)
        if not cells:
            return self._outline(search, first)
        shown = list[str]()
        for number, cell in enumerate(cells):
            answer = self._page().ask("read", {"cell": cell})
            if answer.problem and len(cells) > 1:  # the others are shown all the same
                shown.append(answer.problem)
                continue
            text = self._shown(self._checked(answer), is_only=len(cells) == 1)
            if shown and len("".join(shown)) + len(text) > READ_CHARACTERS:
                shown.append(f"[not shown, read apart: {_named(cells[number:])}]")
                break
            self.note_read(answer.cells[0].id, answer.cells[0].source)
            shown.append(text)
        return self._with_tab("\n\n".join(shown))

    def edit_notebook(  # noqa: D417  # each request repeats what is written here
        self,
        *,
        change: Change,
        cell: str = "",
        source: str = "",
        old: str = "",
        after: str = "",
        kind: CellKind = "code",
        run: bool = False,
    ) -> object:
        """Replace, insert, move or delete a cell, or change its kind.

        Args:
            cell: Id; none for insert.
            old: Replace only this text, which occurs once in the cell.
            after: Id of the cell above a new or moved one; empty: top.
            run: Run it then.

        """
        if run:
            self._refuse_in_cell()
        wanted = _Wanted(change, cell, source, old, after, kind)
        edit = self._edits.pop(wanted, None) or self._planned(wanted)
        self.before_change(edit)
        answer = self._asked("edit", _details(edit, is_trial=False))
        self.after_change(edit, answer)
        self._plan_parts_again(answer.cells[0].id)
        line = self._with_tab(self._changed(edit, answer))
        if edit.is_by_person:
            line = f"{line}\nthe user has edited your source:\n{edit.source}"
        (changed,) = answer.cells
        if not run or change == "delete" or changed.kind != "code":
            return line
        try:
            ran = self._run([changed.id], [changed.source], RUN_SECONDS)
        except NbchatError as error:
            if isinstance(error, Stopped):
                raise
            return f"{line}\n{error}"
        text, *pictures = ran if isinstance(ran, list) else [ran]
        return [f"{line}\n{text}", *pictures] if pictures else f"{line}\n{text}"

    def propose_changes(self, changes: Sequence[Proposed]) -> str:
        """Make several changes of the notebook, which the user approves together.

        Args:
            changes: In order, each as edit_notebook takes it.

        """
        lines = list[str]()
        for number, each in enumerate(changes, 1):
            try:
                done = self.edit_notebook(**each)
            except NbchatError as error:
                lines.append(f"{number}. {error}")
                rest = len(changes) - number
                lines += [f"{rest} more were not made"] if rest else []
                break
            lines.append(f"{number}. {done[0] if isinstance(done, list) else done}")
        return "\n".join(lines)

    def _proposal(self, changes: Sequence[Proposed]) -> Preview:
        """Preview for a person: each change as on its own card."""
        shown = list[str]()
        for number, each in enumerate(changes, 1):
            preview = self._edit_preview(**each)
            shown.append(f"{number}. {preview.title}\n{preview.text}")
        title = f"makes {len(changes)} change{'s' * (len(changes) != 1)}"
        return Preview(title, "\n\n".join(shown), "diff")

    def run_cells(  # noqa: D417  # as above
        self, cells: Sequence[str], wait_seconds: int = RUN_SECONDS
    ) -> object:
        """Run cells, by id, up to the first error; returns their outputs.

        Args:
            wait_seconds: Then return the output so far; the cell runs on.

        """
        self._refuse_in_cell()
        if not cells:
            raise NbchatError("give the ids of the cells to run")
        codes = [self._codes.pop(cell, None) for cell in cells]
        return self._run(cells, codes, wait_seconds)

    def interrupt(self) -> str:
        """Stop the cell that you have started."""
        answer = self._asked("interrupt", view=self._view_of_run)
        return f"stopped\n{self._shown(answer)}"

    def inspect(self, name: str) -> object:
        """Show a variable, or a part such as df.amount, without running code."""
        if (contents := self._contents) is None:
            raise NbchatError("this chat has no kernel whose variables can be read")
        mention = Mention("variable", name.removeprefix("@"), f"@{name}")
        found = load_attachment(mention, contents)
        if found is None:
            unknown = unknown_name(mention, contents).split(" It's sent")[0]
            raise NbchatError(unknown or f"{name!r} is no variable with a value")
        entry = found.entry
        data = str(entry.arguments["data"])
        return data if entry.is_text_file else [entry.content, b64decode(data)]

    def note_read(self, cell_id: str, source: str) -> None:
        """Note that the model has now read a cell, unless it is too long for that."""
        if (reader := self._session()) is not self._reader:
            self._reader, self._read = reader, {}
        if len(source) <= READ_CHARACTERS:
            self._read[cell_id] = source

    def close(self) -> None:
        """Stop following the kernel."""
        if self._running is not None:
            self._running.close()

    # Reading

    def _outline(self, search: str, first: int) -> str:
        answer = self._asked("outline", {"search": search, "first": first})
        cells = answer.cells[:OUTLINE_LINES]
        found = f", {len(answer.cells):,} with {search!r}" if search else ""
        lines = [f"{answer.total:,} cells{found}"]
        lines += [_line(each, is_selected=each.id == answer.selected) for each in cells]
        if len(answer.cells) > len(cells):
            lines.append(f"[more from first={cells[-1].number + 1} on]")
        return self._with_tab(without_secrets("\n".join(lines))[0])

    def _shown(self, answer: NotebookAnswer, *, is_only: bool = True) -> str:
        """A cell as the model reads it; long outputs by their start and end."""
        (cell,) = answer.cells
        outputs = _outputs_text(cell, RUN_CHARACTERS if is_only else OUTPUT_CHARACTERS)
        parts = [_head(cell, answer.total), cell.source]
        parts += ["output:", outputs] if outputs else []
        return without_secrets("\n".join(parts))[0]

    def _await_end(self, seconds: float) -> None:
        """Wait for the end of the cell that runs; raises Stopped."""
        until = time.monotonic() + min(seconds, MOST_SECONDS)
        while self._running is not None and not self._running.wait(STEP_SECONDS):
            if is_stopped():
                raise Stopped("stopped")
            if time.monotonic() >= until:
                return

    # Changing

    def _planned(self, wanted: "_Wanted") -> CellEdit:
        """The checked change; raises NbchatError if it can't be made."""
        change, source, kind = wanted.change, wanted.source, wanted.kind
        after = wanted.after or (wanted.cell if change == "insert" else "")
        trial = _details(CellEdit(change, 0, kind=kind), is_trial=True)
        answer = self._asked("edit", {**trial, "cell": wanted.cell, "after": after})
        if change == "insert":
            if HIDDEN in source:
                raise NbchatError(KEEP_SECRETS)
            above = answer.cells[0] if answer.cells else None
            return CellEdit(change, answer.total, None, source, above, kind)
        (found,) = answer.cells
        is_new_text = change == "replace" or (change == "kind" and bool(source))
        self._check_read(found, is_part=is_new_text and bool(wanted.old))
        above = None
        if change == "move" and after:
            above = self._asked("read", {"cell": after}).cells[0]
        if is_new_text:
            source = self._new_source(found, source, wanted.old)
        return CellEdit(change, answer.total, found, source, above, kind)

    def _check_read(self, cell: NotebookCell, *, is_part: bool) -> None:
        """Refuse to change a cell whose current state the model hasn't read.

        Where a part is replaced, the model knows at least that part.
        """
        is_forgotten = self._session() is not self._reader
        known = None if is_forgotten else self._read.get(cell.id)
        if known == cell.source or (known is None and is_part):
            return
        self.note_read(cell.id, cell.source)
        why = "you have not read this cell" if known is None else "it has changed since"
        raise NbchatError(_refusal(cell, why))

    def _new_source(self, cell: NotebookCell, source: str, old: str) -> str:
        """The source that a cell gets, with the lines that the model can't see."""
        hidden = without_secrets(cell.source)[0]
        if old:
            if (count := hidden.count(old)) != 1:
                self.note_read(cell.id, cell.source)
                times = f"the old text occurs {count} times in this cell, not once"
                raise NbchatError(_refusal(cell, times))
            source = hidden.replace(old, source)
        restored = with_secrets_of(cell.source, source)
        if restored is None:
            raise NbchatError(KEEP_SECRETS)
        return restored

    def _plan_parts_again(self, cell_id: str) -> None:
        """Forget what was planned for other parts of a cell that has changed."""
        self._edits = {
            wanted: edit
            for wanted, edit in self._edits.items()
            if not (wanted.old and edit.cell is not None and edit.cell.id == cell_id)
        }

    def _changed(self, edit: CellEdit, answer: NotebookAnswer) -> str:
        """One line about a change, with the cell's current id and position."""
        if edit.change == "delete":
            self._read.pop(answer.cells[0].id, None)
            return f"deleted {_name(answer.cells[0])}; {answer.total:,} cells are left"
        (cell,) = answer.cells
        if edit.change != "move":
            self.note_read(cell.id, cell.source)
        done = {
            "replace": "changed" if cell.kind == "code" else f"changed, {cell.kind}:",
            "insert": f"new {cell.kind}",
            "move": "moved, now",
            "kind": f"now {cell.kind}:",
        }[edit.change]
        return f"{done} {_head(cell, answer.total, is_short=True)}"

    def _edit_preview(
        self,
        *,
        change: Change,
        cell: str = "",
        source: str = "",
        old: str = "",
        after: str = "",
        kind: CellKind = "code",
        run: bool = False,
    ) -> Preview:
        """Preview for a person: the lines that change."""
        if run:
            self._refuse_in_cell()
        wanted = _Wanted(change, cell, source, old, after, kind)
        edit = self._edits[wanted] = self._planned(wanted)
        preview = _preview(edit, run=run)
        if change not in ("replace", "insert") or HIDDEN in edit.source:
            return preview

        def take(draft: str) -> None:
            self._edits[wanted] = replace(edit, source=draft, is_by_person=True)

        return replace(preview, draft=edit.source, take=take)

    # Running

    def _run(
        self, cells: Sequence[str], codes: Sequence[str | None], wait_seconds: float
    ) -> object:
        """Run cells up to the first that fails or runs on; their outputs."""
        until = time.monotonic() + min(max(wait_seconds, 1), MOST_SECONDS)
        texts, pictures = list[str](), list[bytes]()
        for number, (cell, code) in enumerate(zip(cells, codes, strict=True)):
            try:
                answer, is_over = self._run_one(cell, code, until)
            except NbchatError as error:
                if not texts or isinstance(error, Stopped):
                    raise
                texts += [str(error), *_not_run(cells[number + 1 :])]
                break
            (ran,) = answer.cells
            has_failed = any(each.kind == "error" for each in ran.outputs)
            is_last = not is_over or has_failed or number == len(cells) - 1
            texts.append(self._ran(answer, is_over=is_over, is_last=is_last))
            if is_over:
                drawn = self._pictures(ran, PICTURES_SENT - len(pictures))
                pictures += filter(None, drawn)
                texts += ["[the page can't draw one of them]"] * drawn.count(b"")
            if not is_over or has_failed:
                texts += _not_run(cells[number + 1 :])
                break
        text = self._with_tab("\n\n".join(texts))
        return [text, *pictures] if pictures else text

    def _run_one(
        self, cell: str, code: str | None, until: float
    ) -> tuple[NotebookAnswer, bool]:
        """The cell after its run, or its state after the time limit."""
        self._await_kernel(until)
        with self._page().asking("run", {"cell": cell, "expected": code}) as reply:
            self._view_of_run = reply.view
            try:
                answer = self._awaited(reply, until)
            except Stopped:
                self._page().tell("interrupt", reply.view)
                raise
        if answer is not None:
            return self._checked(answer), True
        return self._asked("read", {"cell": cell}), False

    def _awaited(self, reply: Reply, until: float) -> NotebookAnswer | None:
        """The answer of a run; None after the time limit."""
        was_silent = False
        while (left := until - time.monotonic()) > 0:
            answer = reply.wait(min(left, STILL_SECONDS))
            if answer is not None:
                return answer
            is_silent = not self._page().is_there(reply.view)
            if is_silent and was_silent:  # a page that draws much may miss one
                raise NbchatError(RELOADED)
            was_silent = is_silent
        return None

    def _await_kernel(self, until: float) -> None:
        """Wait for the end of another cell; a person may end the wait."""
        running = self._running
        if running is None or running.wait(UNSEEN_SECONDS):
            return
        busy = f"the kernel is busy with {self._running_name(running.id)}"
        with self._page().notice(f"Waiting: {busy}.") as reply:
            while not running.wait(0):
                answer = reply.wait(UNSEEN_SECONDS)
                if answer is not None:
                    raise NbchatError(answer.problem)
                if time.monotonic() >= until:
                    seconds = running.seconds or 0
                    raise NbchatError(f"not run: {busy}, for {seconds:.0f} s now")

    def _running_name(self, cell_id: str) -> str:
        with suppress(NbchatError):
            if cell_id:
                return _name(self._asked("read", {"cell": cell_id}).cells[0])
        return "other code"

    def _ran(self, answer: NotebookAnswer, *, is_over: bool, is_last: bool) -> str:
        """Output of a cell, below its name; of the last one most."""
        (cell,) = answer.cells
        limit = RUN_CHARACTERS if is_last else OUTPUT_CHARACTERS
        nothing = "no output" if cell.kind == "code" else f"{cell.kind}: nothing to run"
        text = without_secrets(_outputs_text(cell, limit))[0] or nothing
        asks = _ASKS if "asks" in cell.states else "still running"
        state = "" if is_over else f"\n{asks}; interrupt, or read it later"
        return f"{_head(cell, answer.total, is_short=True)}{state}\n{text}"

    def _pictures(self, cell: NotebookCell, most: int) -> list[bytes]:
        """The first pictures of a cell; empty ones that the page can't draw."""
        places = [n for n, each in enumerate(cell.outputs) if each.kind == "picture"]
        ask = self._page().ask
        answers = [
            ask("picture", {"cell": cell.id, "number": place})
            for place in places[:most]
        ]
        return [b64decode(answer.picture) for answer in answers]

    def _run_preview(self, cells: Sequence[str], **_waiting: int) -> Preview:
        """Preview for a person: the code that will run."""
        self._refuse_in_cell()
        if not cells:
            raise NbchatError("give the ids of the cells to run")
        answers = [self._asked("read", {"cell": cell}) for cell in cells]
        found = [answer.cells[0] for answer in answers]
        self._codes |= {
            cell: each.source for cell, each in zip(cells, found, strict=True)
        }
        names = _named([_name(each) for each in found])
        code = "\n\n".join(each.source for each in found)
        line = f", {_first_line(found[0])}" if len(found) == 1 else ""
        title = f"runs {names} of {answers[0].total:,}{line}"
        return Preview(title, code, "python", found[0].id)

    def _refuse_in_cell(self) -> None:
        if self._is_in_cell():
            raise NbchatError(IN_A_CELL)

    # Asking the page

    def _asked(
        self, action: str, details: Details = NOTHING, *, view: str = ""
    ) -> NotebookAnswer:
        return self._checked(self._page().ask(action, details, view=view))

    def _checked(self, answer: NotebookAnswer) -> NotebookAnswer:
        """An answer without a problem; raises it, with the cell as it is now."""
        if not answer.problem:
            return answer
        if answer.cells:
            (cell,) = answer.cells
            self.note_read(cell.id, cell.source)
            raise NbchatError(_refusal(cell, "it has changed since"))
        raise NbchatError(answer.problem)

    def _with_tab(self, text: str) -> str:
        return "\n".join(filter(None, (text, self._page().other_tab())))


def _briefly(made: Tool) -> Tool:
    """A tool without the empty defaults in its schema, which each request repeats."""
    properties = {
        name: {
            key: value for key, value in described.items() if key != "default" or value
        }
        for name, described in made.parameters["properties"].items()
    }
    return replace(made, parameters={**made.parameters, "properties": properties})


def _details(edit: CellEdit, *, is_trial: bool) -> Details:
    """A change as the page is asked to make it."""
    return {
        "change": edit.change,
        "cell": edit.cell.id if edit.cell else "",
        "source": edit.source,
        "after": edit.after.id if edit.after else "",
        "kind": edit.kind,
        "expected": edit.cell.source if edit.cell else None,
        "is_trial": is_trial,
    }


def _refusal(cell: NotebookCell, why: str) -> str:
    """Why a cell was not changed or run, with its source for another try."""
    source = _ends(without_secrets(cell.source)[0], READ_CHARACTERS)
    return f"not done: {why}. {_name(cell).capitalize()} now:\n{source}"


def _preview(edit: CellEdit, *, run: bool) -> Preview:
    """Preview of a change for a person."""
    then = ", and runs it" if run else ""
    place = f"below {_name(edit.after)}" if edit.after else "at the top"
    language = "python" if edit.kind == "code" else "markdown"
    if edit.cell is None:
        title = f"new {edit.kind} cell {place} of {edit.total:,}{then}"
        return Preview(title, edit.source, language)
    place_id = edit.cell.id
    name = f"{_name(edit.cell)} of {edit.total:,}, {_first_line(edit.cell)}"
    if edit.change != "replace" and not (edit.change == "kind" and edit.source):
        title = {
            "move": f"moves {name} {place}",
            "delete": f"deletes {name}",
            "kind": f"makes {name} a {edit.kind} cell",
        }[edit.change]
        shown = edit.cell.source
        return Preview(f"{title}{then}", shown, language, place_id)
    lines = difflib.unified_diff(
        edit.cell.source.splitlines(), edit.source.splitlines(), lineterm="", n=3
    )
    changes = "\n".join(list(lines)[2:]) or "(nothing changes)"
    is_new_kind = edit.kind not in ("code", edit.cell.kind) or edit.change == "kind"
    made = f", and makes it a {edit.kind} cell" if is_new_kind else ""
    title = f"changes {name}{made}{then}"
    return Preview(title, changes, "diff", place_id)


def _effect_of_edit(*, run: bool = False, **_others: object) -> str:
    """True if an edit also runs code: always approving edits never covers runs."""
    return "run" if run else ""


def _first_line(cell: NotebookCell) -> str:
    """The first line of a cell, which names it for a person."""
    lines = (line.strip() for line in cell.source.splitlines())
    return f"`{next(filter(None, lines), '')[:TITLE_CHARACTERS]}`"


def _name(cell: NotebookCell) -> str:
    return f"cell {cell.number:,}"


def _named(names: Sequence[str]) -> str:
    """The first of some cells and the number of the others."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _not_run(cells: Sequence[str]) -> list[str]:
    return [f"not run: {_named(cells)}"] if cells else []


def _head(cell: NotebookCell, total: int, *, is_short: bool = False) -> str:
    """The place, id and state of a cell."""
    place = f"{_name(cell)} of {total:,}, id {cell.short}"
    return place if is_short else ", ".join([place, *_state(cell)])


def _state(cell: NotebookCell) -> Iterator[str]:
    yield cell.kind
    if cell.count:
        yield f"run as [{cell.count}]"
    yield from (_STATES[each] for each in cell.states)


_ASKS = "waiting for the user to answer its input()"

_STATES = {
    "running": "running",
    "asks": _ASKS,
    "error": "error",
    "changed": "changed since it ran",
}


def _line(cell: NotebookCell, *, is_selected: bool) -> str:
    """A cell in the outline: position, id, kind, state and first line."""
    state = ", ".join([*_state(cell), *(["selected"] if is_selected else [])])
    return f"{cell.number} {cell.short} {state}: {cell.source}"


def _outputs_text(cell: NotebookCell, limit: int) -> str:
    """Outputs of a cell within some characters, and as many tokens as of plain text."""
    most = limit * RUN_TOKENS // RUN_CHARACTERS
    text = _outputs_within(cell, limit)
    while most_tokens(text) > most and (size := COUNTER.count(text)) > most:
        if (limit := min(limit * 3 // 4, limit * most // size)) < FEWEST_CHARACTERS:
            break
        text = _outputs_within(cell, limit)
    return text


def _outputs_within(cell: NotebookCell, limit: int) -> str:
    """Outputs of a cell in order. An error's message is repeated first.

    Of what is long an error keeps most. Of a progress bar the last state is shown.
    """
    outputs = _few([replace(e, data=_last_state(e.data)) for e in cell.outputs])
    titles = [e.title for e in outputs if e.title and e.title != e.data]
    room = _room(outputs, limit)
    pictures = sum(each.kind == "picture" for each in outputs)
    lines, number = titles, 0
    for each in outputs:
        if each.kind == "picture":
            number += 1
            about = f": {each.data}" if each.data else ""
            if number <= PICTURES_SENT:
                lines.append(f"[picture {number} of {pictures}{about}]")
        elif each.data:
            most = 2 * limit // 3 if each.kind == "error" else room
            lines.append(_ends(each.data, most))
    more = pictures - PICTURES_SENT
    return "\n".join([*lines, *([f"[{more} more pictures]"] if more > 0 else [])])


def _few(outputs: list[CellOutput]) -> list[CellOutput]:
    """The outputs, of very many neighbouring texts as one."""
    if len(outputs) <= SHARES:
        return outputs
    found: list[CellOutput] = []
    for is_text, run in groupby(outputs, lambda each: each.kind == "text"):
        texts = [*run]
        joined = CellOutput("text", "\n".join(each.data for each in texts))
        found += [joined] if is_text else texts
    return found


def _last_state(text: str) -> str:
    """A text without lines that were overwritten, as by a progress bar."""
    lines = text.rstrip("\n").split("\n")
    plain = [each.rstrip("\r") for each in lines]
    return "\n".join(
        kept.rpartition("\r")[2] + line[len(kept) :]
        for line, kept in zip(lines, plain, strict=True)
    )


def _room(outputs: Sequence[CellOutput], limit: int) -> int:
    """Characters of each text: all, or an equal share of what errors leave."""
    texts = [len(each.data) for each in outputs if each.kind == "text"]
    errors = sum(min(len(e.data), 2 * limit // 3) for e in outputs if e.kind == "error")
    left = max(limit - errors, limit // 4)
    if sum(texts) <= left:
        return limit
    share, rest = left // len(texts), [each for each in texts if each]
    short = sum(each for each in rest if each <= share)
    long = sum(each > share for each in rest)
    return (left - short) // long if long else share


def _ends(text: str, limit: int) -> str:
    """A text, or the start and the end of a long one."""
    removed = len(text) - limit
    if removed <= 0:
        return text
    half = max(limit // 2, 1)
    return f"{text[:half]}\n[{removed:,} characters removed]\n{text[-half:]}"
