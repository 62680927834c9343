"""Undo of what the model changed in a notebook, through the page that shows it.

The page reports the cell before each change. With the result of the call this
is kept in the session and its store. An undo restores cell by cell, in the view where a
person asks for it, and only what they have not edited since.
"""

from collections.abc import Callable, Iterator

from nbchat.conversation.cell_changes import (
    CellChange,
    CellState,
    CellUndo,
    LeftCell,
    difference,
    undo_of,
)
from nbchat.conversation.session import Session
from nbchat.conversation.turns import last_turn
from nbchat.errors import NbchatError
from nbchat.jupyter.notebook_page import Details, PageRequests
from nbchat.jupyter.notebook_tools import CellEdit
from nbchat.jupyter.panel.protocol import KeptCell, NotebookAnswer

NOTHING_LEFT = "What this turn changed isn't kept any longer."


class NotebookUndo:
    """Keeps what the model changes in a notebook, and undoes it."""

    def __init__(
        self, page: Callable[[], PageRequests], session: Callable[[], Session]
    ) -> None:
        """`session` is the one whose turn runs, and whose turns are undone."""
        self._page = page
        self._session = session
        self._before: CellState | None = None

    def before_change(self, edit: CellEdit) -> None:
        """Keep a cell's current state; raises NbchatError without an answer."""
        kept = self._kept(edit.cell.id) if edit.cell else None
        self._before = _state(kept) if kept else None

    def after_change(self, edit: CellEdit, answer: NotebookAnswer) -> None:
        """Note a change in the session."""
        session, before = self._session(), self._before
        turn = last_turn(session.transcript)
        (cell,) = answer.cells
        above, below = (before.above, before.below) if before else ("", "")
        if edit.change in ("insert", "move"):
            above, below = edit.after.id if edit.after else "", answer.below
        after = CellState(cell.kind, cell.source, above=above, below=below)
        left = None if edit.change == "delete" else after
        start = turn.start if turn else 0
        session.cell_changes.append(CellChange(start, cell.id, before, left))

    def undo(self, turn: int, *, cell: str = "", view: str = "") -> list[LeftCell]:
        """Undo what a turn changed; returns the cells that stay as they are.

        With a `cell` this one alone is restored, whatever a person has edited in it.
        Raises NbchatError where nothing can be undone.
        """
        changes = self._session().cell_changes
        found = undo_of(changes.of_turn(turn))
        if not found:
            raise NbchatError(NOTHING_LEFT)
        wanted = [each for each in found if cell in ("", each.cell)]
        return [
            left for undo in wanted for left in self._undone(turn, undo, cell, view)
        ]

    def _undone(
        self, turn: int, undo: CellUndo, forced: str, view: str
    ) -> Iterator[LeftCell]:
        """Restore a cell, or say why it stays as it is."""
        kept = self._kept(undo.cell, view)
        present = _state(kept) if kept else None
        outcome = undo.outcome(present)
        is_forced = bool(forced) and outcome in ("edited", "deleted")
        if outcome == "restored" or is_forced:
            outcome = "hidden"
            if (restored := undo.restored(present)) is not None:
                self._restore(undo, present, restored[0], view)
                change = CellChange(turn, undo.cell, present, restored[0], is_undo=True)
                self._session().cell_changes.append(change)
                if not undo.is_moved_since(present):
                    return
                outcome = "moved"
        yield LeftCell(
            undo.cell,
            kept.number if kept else 0,
            outcome,
            difference(present, undo.before),
            is_added=undo.before is None,
        )

    def _restore(
        self,
        undo: CellUndo,
        present: CellState | None,
        before: CellState | None,
        view: str,
    ) -> None:
        details: dict[str, str | int | bool | None] = {
            "cell": undo.cell,
            "expected": present.source if present else None,
            "change": "delete",
        }
        if before is not None:
            is_placed = present is None or (
                undo.moved is not None and not undo.is_moved_since(present)
            )
            details |= {
                "change": "replace" if present else "insert",
                "source": before.source,
                "kind": before.kind,
                "metadata": before.metadata,
                "attachments": before.attachments,
                "outputs": before.outputs,
                **({"after": before.above} if is_placed else {}),
            }
        self._asked("restore", details, view)

    def _kept(self, cell: str, view: str = "") -> KeptCell | None:
        """The cell as it is now; None if the notebook has none with this id."""
        return next(iter(self._asked("keep", {"cell": cell}, view).kept), None)

    def _asked(self, action: str, details: Details, view: str) -> NotebookAnswer:
        answer = self._page().ask(action, details, view=view)
        if answer.problem:
            raise NbchatError(answer.problem)
        return answer


def _state(kept: KeptCell) -> CellState:
    return CellState(
        kept.kind,
        kept.source,
        kept.metadata,
        kept.attachments,
        kept.outputs,
        kept.above,
        kept.below,
        kept.left_out,
    )
