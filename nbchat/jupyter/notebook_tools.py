"""Tools with which a model reads, edits and runs the cells of its notebook.

They act through the page that shows the panel, on the document that JupyterLab has
open, never on the file: its undo works, and the edits of other users stay. All views
hear a request (`PageRequests`), but one that acts is done by one view. Each edit
is approved by its difference, and each run by the code that will run. Secrets in cells
and outputs are hidden from the model, and stay when it edits what is around them.
"""

import difflib
import queue
import re
import secrets
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from nbchat.conversation.secret_masking import HIDDEN, without_secrets
from nbchat.conversation.tools import Preview, Tool, tool
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.protocol import NotebookAnswer, NotebookCell

FIND_SECONDS = 3.0
"""How long a page with the notebook may take to answer that it is there."""

NO_PAGE = (
    "no open page shows this notebook with the chat panel, or its notebook cannot be "
    "edited; open it in JupyterLab or Notebook and run %chat"
)

Answers = queue.SimpleQueue[NotebookAnswer]

ANSWER_SECONDS = 10.0

RUN_SECONDS = 120.0

CELLS_READ = 30

OUTPUT_SHOWN = 2_000
"""Characters of a cell's outputs when cells are read; a run returns all of them."""

_OVERWRITTEN = re.compile(r"[^\n\r]*\r+(?=[^\n\r])")
"""A state of a line that the next one has overwritten on the screen."""

IN_A_CELL = (
    "a %%chat cell is running, and no other cell can run until it ends; ask in the "
    "panel of %chat instead"
)

KEEP_SECRETS = (
    f'"{HIDDEN}" replaces a value that is hidden from you; leave its whole line '
    "unchanged, or ask the user to edit this cell"
)


class PageRequests:
    """Requests to the views of one panel, to act in the notebook of one of them."""

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        find_seconds: float = FIND_SECONDS,
    ) -> None:
        """`send` sends a message to all views."""
        self._send = send
        self._find_seconds = find_seconds
        self._waiting: dict[str, Answers] = {}

    def ask(
        self, action: str, *, timeout_seconds: float, **details: str | None
    ) -> tuple[NotebookCell, ...]:
        """Have one view act, and return the cells that it answers with.

        Raises NbchatError where no view has the notebook, where it refuses, and when
        the answer takes longer than the timeout.
        """
        return self._acted(action, timeout_seconds, details).cells

    def _acted(
        self, action: str, timeout_seconds: float, details: dict[str, str | None]
    ) -> NotebookAnswer:
        """What the view answers that has the notebook."""
        found = self._answer("find", "", self._find_seconds, {})
        if found is None:
            raise NbchatError(NO_PAGE)
        answer = self._answer(action, found.view, timeout_seconds, details)
        if answer is None:
            raise NbchatError(
                f"the notebook's page did not answer within {timeout_seconds:g} s; "
                "a running cell continues"
            )
        if answer.problem:
            raise NbchatError(answer.problem)
        return answer

    def identify(self, notebook_id: str) -> str:
        """Give the notebook an id if it has none; returns its id.

        Raises NbchatError where no view has the notebook.
        """
        details: dict[str, str | None] = {"notebook_id": notebook_id}
        return self._acted("identify", self._find_seconds, details).notebook_id

    def receive(self, answer: NotebookAnswer) -> None:
        """Take a view's answer, unless nothing waits for it any more."""
        if (waiting := self._waiting.get(answer.token)) is not None:
            waiting.put(answer)

    def _answer(
        self, action: str, view: str, seconds: float, details: dict[str, str | None]
    ) -> NotebookAnswer | None:
        token = secrets.token_hex(8)
        arrived = self._waiting[token] = queue.SimpleQueue()
        asked = {"action": action, "view": view, "token": token, **details}
        try:
            self._send({"type": "notebook", **asked})
            return arrived.get(timeout=seconds)
        except queue.Empty:
            return None
        finally:
            del self._waiting[token]


class NotebookTools:
    """The tools of one notebook."""

    def __init__(
        self,
        page: Callable[[], PageRequests],
        *,
        is_in_cell: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_in_cell` says whether the turn that runs belongs to a cell."""
        self._page = page
        self._is_in_cell = is_in_cell
        self._seen: dict[str, str] = {}
        """The code that a person saw before approving, by cell."""
        edit = tool(read_only=False, timeout_seconds=4 * ANSWER_SECONDS)(self.edit_cell)
        run = tool(read_only=False, timeout_seconds=RUN_SECONDS + ANSWER_SECONDS)(
            self.run_cell
        )
        self.tools: tuple[Tool, ...] = (
            tool(read_only=True)(self.read_cells),
            replace(edit, preview=self._edit_preview),
            replace(run, preview=self._run_preview),
        )

    def read_cells(self, first: int = 1, count: int = CELLS_READ) -> str:
        """Read cells of the notebook: their numbers, ids, sources and outputs.

        Args:
            first: Number of the first cell to read, from 1.
            count: How many cells to read.

        """
        cells = self._ask("read")
        start = max(first, 1) - 1
        wanted = cells[start : start + max(count, 1)]
        head = f"{len(cells)} cells" if cells else "the notebook has no cells"
        numbered = enumerate(wanted, start + 1)
        return "\n\n".join([head, *(_described(n, each) for n, each in numbered)])

    def edit_cell(
        self,
        cell: str,
        source: str,
        place: Literal["replace", "below"] = "replace",
        kind: Literal["code", "markdown"] = "code",
    ) -> str:
        """Change the source of a cell, or insert a new cell below it.

        Args:
            cell: Id of the cell; with place "below" an empty id means the top.
            source: The whole new source.
            place: "replace" changes this cell, "below" inserts a new one.
            kind: Of a new cell.

        """
        source = self._with_secrets(cell, source, place)
        expected = self._seen.pop(cell, None) if place == "replace" else None
        (changed,) = self._ask(
            "edit",
            cell=cell,
            source=source,
            place=place,
            kind=kind,
            expected=expected,
        )
        return f"{'changed' if place == 'replace' else 'new'} cell, id {changed.id}"

    def run_cell(self, cell: str) -> object:
        """Run a code cell of the notebook and return its outputs.

        Args:
            cell: Id of the cell.

        """
        self._refuse_in_cell()
        expected = self._seen.pop(cell, None)
        (ran,) = self._ask("run", RUN_SECONDS, cell=cell, expected=expected)
        outputs = ran.outputs
        pictures = [b64decode(e.data) for e in outputs if e.kind == "png"]
        text = without_secrets(_outputs_text(ran))[0] or "no output"
        return [text, *pictures] if pictures else text

    def _edit_preview(
        self, cell: str, source: str, place: str = "replace", kind: str = "code"
    ) -> Preview:
        """What a person sees: the lines that change."""
        source = self._with_secrets(cell, source, place)
        if place == "below":
            after = f"below the cell {cell}" if cell else "at the top"
            return Preview(f"new {kind} cell {after}", source, "source", "python")
        found = self._found(cell)
        before = self._seen[cell] = found.source
        lines = difflib.unified_diff(
            before.splitlines(), source.splitlines(), lineterm="", n=3
        )
        changes = "\n".join(list(lines)[2:]) or "(nothing changes)"
        return Preview(f"changes to the cell {cell}", changes, "source", "diff")

    def _run_preview(self, cell: str) -> Preview:
        """What a person sees: the code that will run."""
        self._refuse_in_cell()
        code = self._seen[cell] = self._found(cell).source
        return Preview("runs this code", code, "", "python")

    def _found(self, cell: str) -> NotebookCell:
        found = {each.id: each for each in self._ask("read")}
        if cell not in found:
            raise NbchatError(
                f"the notebook has no cell {cell!r}; read_cells lists them"
            )
        return found[cell]

    def _with_secrets(self, cell: str, source: str, place: str) -> str:
        """A new source with the lines that were hidden from the model."""
        if HIDDEN not in source:
            return source
        before = self._found(cell).source if place == "replace" else ""
        lines = before.splitlines()
        hidden = without_secrets(before)[0].splitlines()
        pairs = (
            set(zip(hidden, lines, strict=True)) if len(hidden) == len(lines) else ()
        )
        own = dict(pairs)
        restored = "\n".join(own.get(each, each) for each in source.split("\n"))
        if HIDDEN in restored or len(own) < len(pairs):  # two secrets look the same
            raise NbchatError(KEEP_SECRETS)
        return restored

    def _refuse_in_cell(self) -> None:
        if self._is_in_cell():
            raise NbchatError(IN_A_CELL)

    def _ask(
        self,
        action: str,
        timeout_seconds: float = ANSWER_SECONDS,
        **details: str | None,
    ) -> tuple[NotebookCell, ...]:
        return self._page().ask(action, timeout_seconds=timeout_seconds, **details)


def _described(number: int, cell: NotebookCell) -> str:
    """A cell as the model reads it."""
    ran = f", run as [{cell.count}]" if cell.count else ""
    source, outputs = (
        without_secrets(each)[0] for each in (cell.source, _outputs_text(cell))
    )
    lines = [f"cell {number}, id {cell.id}, {cell.kind}{ran}", source]
    if len(outputs) > OUTPUT_SHOWN:
        removed = f"[{len(outputs) - OUTPUT_SHOWN:,} characters removed]"
        outputs = f"{outputs[:OUTPUT_SHOWN]}\n{removed}"
    return "\n".join(lines + (["output:", outputs] if outputs else []))


def _outputs_text(cell: NotebookCell) -> str:
    """What a cell has put out, as text; of a progress bar its last state."""
    return "\n".join(
        "[picture]"
        if each.kind == "png"
        else _OVERWRITTEN.sub("", each.data).rstrip("\n")
        for each in cell.outputs
    )
