"""The model's changes of the notebook, turn by turn, and how a turn is undone.

Each change holds its cell before and after. An undo is itself a change, of the same
turn. A cell is restored only if it is still as the turn left it; else a person sees the
difference. Stores keep no secrets: an undo takes them from the cell as it is now.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

from nbchat.conversation.secret_masking import (
    HIDDEN,
    without_secrets,
    without_secrets_in,
)

TURNS_KEPT = 20

CHARACTERS_KEPT = 20_000_000
"""Characters of a session's changes, after which the oldest turns are dropped."""


@dataclass(frozen=True, slots=True)
class CellState:
    """A cell at one moment, without its pictures."""

    kind: str
    source: str
    metadata: str = "{}"
    """A JSON object."""
    attachments: str = "{}"
    """A JSON object: the pictures that a text cell has pasted in."""
    outputs: str = "[]"
    """A JSON list of outputs as in a notebook's file, those with text only."""
    above: str = ""
    """Id of the cell above it; empty at the top."""
    below: str = ""
    """Id of the cell below it; empty at the bottom, and where it isn't known."""
    left_out: int = 0
    """Number of outputs that are not kept: pictures, and what was too long."""

    @property
    def written(self) -> tuple[str, str]:
        """The parts that a person writes: the kind and the source."""
        return self.kind, self.source


@dataclass(frozen=True, slots=True)
class CellChange:
    """One change of a cell; without `before` it was inserted, without `after` deleted.

    `turn` is the index in the transcript where the turn begins.
    """

    turn: int
    cell: str
    before: CellState | None
    after: CellState | None
    is_undo: bool = False

    @property
    def size(self) -> int:
        """Number of characters."""
        states = filter(None, (self.before, self.after))
        texts = ((s.source, s.metadata, s.attachments, s.outputs) for s in states)
        return sum(len(text) for each in texts for text in each)

    @property
    def is_move(self) -> bool:
        """True if the cell has another place now."""
        if self.before is None or self.after is None:
            return False
        return self.before.above != self.after.above

    def to_json(self) -> str:
        """The change as a store keeps it."""
        states = {
            name: state and asdict(state)
            for name, state in (("before", self.before), ("after", self.after))
        }
        return json.dumps({"cell": self.cell, "is_undo": self.is_undo, **states})

    @classmethod
    def from_json(cls, turn: int, text: str) -> Self:
        """Read a stored change; raises ValueError, KeyError or TypeError."""
        found = json.loads(text)
        before, after = (
            CellState(**found[name]) if found[name] else None
            for name in ("before", "after")
        )
        return cls(turn, str(found["cell"]), before, after, found["is_undo"] is True)


class CellChanges:
    """The changes of a session, oldest first, as many as are kept."""

    def __init__(self, changes: Iterable[CellChange] = ()) -> None:
        """Start with what a store has kept."""
        self._kept = [*changes]
        self.count = len(self._kept)
        """How many there were ever."""

    def __iter__(self) -> Iterator[CellChange]:
        """The changes that are kept."""
        return iter(self._kept)

    def append(self, change: CellChange) -> None:
        """Add a change, and drop the oldest turns beyond what is kept."""
        self.count += 1
        self._kept = _within_limits([*self._kept, change])

    def since(self, count: int) -> tuple[CellChange, ...]:
        """The changes that are kept of those after the first `count` ones."""
        new = self.count - count
        return tuple(self._kept[-new:]) if new > 0 else ()

    def of_turn(self, turn: int) -> list[CellChange]:
        """The changes of one turn."""
        return [each for each in self._kept if each.turn == turn]

    @property
    def turns(self) -> list[int]:
        """The turns that changed cells, oldest first."""
        return sorted({each.turn for each in self._kept})


def _within_limits(changes: list[CellChange]) -> list[CellChange]:
    newest = sorted({each.turn for each in changes})[-TURNS_KEPT:]
    size, kept = 0, set[int]()
    for turn in reversed(newest):
        size += sum(each.size for each in changes if each.turn == turn)
        if size > CHARACTERS_KEPT:
            break
        kept.add(turn)
    return [each for each in changes if each.turn in kept]


Outcome = Literal["restored", "same", "edited", "deleted", "moved", "hidden"]
"""An undo's effect on a cell: nothing if it is the same as before, if the person has
edited, deleted or moved it since, or if a secret in it was not kept."""


@dataclass(frozen=True, slots=True)
class CellUndo:
    """How one cell is undone: from what a turn left to what was before it."""

    cell: str
    left: CellState | None
    """None where the turn deleted it."""
    before: CellState | None
    """None where the turn inserted it: an undo deletes it."""
    moved: CellState | None = None
    """The cell after the last move by the turn; None if the turn left it in place."""

    def outcome(self, present: CellState | None) -> Outcome:
        """The effect of undoing, given the cell as it is now; None if there is none."""
        written = _written(present)
        if written == _written(self.before) and self._is_in_place(present):
            return "same"
        if present is None and self.left is not None:
            return "deleted"
        if not _is_same(written, _written(self.left)):
            return "edited"
        if self.is_moved_since(present) and written == _written(self.before):
            return "moved"
        return "restored" if self.restored(present) else "hidden"

    def restored(self, present: CellState | None) -> tuple[CellState | None] | None:
        """The state to restore, in a tuple; None where a secret in it is not known.

        Secrets that a store did not keep are taken from the cell as it is now.
        """
        if self.before is None or HIDDEN not in self.before.source:
            return (self.before,)
        source = with_secrets_of(present.source if present else "", self.before.source)
        return None if source is None else (replace(self.before, source=source),)

    def is_moved_since(self, present: CellState | None) -> bool:
        """True if the turn moved the cell and both its neighbours are others now.

        Where one is another, that one may have been inserted, moved or deleted.
        """
        if self.moved is None or present is None or self.before is None:
            return False
        is_above_same = present.above == self.moved.above
        return not (is_above_same or present.below == self.moved.below)

    def _is_in_place(self, present: CellState | None) -> bool:
        if self.moved is None or present is None or self.before is None:
            return True
        return present.above == self.before.above


@dataclass(frozen=True, slots=True)
class LeftCell:
    """A cell that an undo has left as it is, and why."""

    cell: str
    number: int
    """Its position now, from 1; 0 where there is none."""
    outcome: Outcome
    difference: str = ""
    """The lines that restoring it would change."""
    is_added: bool = False
    """True if the turn inserted it, so that restoring it means to delete it."""


def masked(change: CellChange) -> CellChange:
    """The change as a store keeps it: without keys and passwords."""
    before, after = map(_masked_state, (change.before, change.after))
    return replace(change, before=before, after=after)


def undo_of(changes: Iterable[CellChange]) -> list[CellUndo]:
    """How the changes of one turn are undone, the newest first.

    Without cells that an undo has restored and the turn has not changed since.
    """
    by_cell: dict[str, list[CellChange]] = {}
    for change in changes:
        own = by_cell.pop(change.cell, [])
        by_cell[change.cell] = [] if change.is_undo else [*own, change]
    found = (
        CellUndo(cell, own[-1].after, own[0].before, _last_move(own))
        for cell, own in reversed(by_cell.items())
        if own
    )
    return [each for each in found if each.left or each.before]


def with_secrets_of(present: str, source: str) -> str | None:
    """A source with its hidden lines as they are in the present one.

    None where a hidden line has no equal there, or more than one.
    """
    if HIDDEN not in source:
        return source
    lines = present.splitlines()
    hidden = without_secrets(present)[0].splitlines()
    pairs = set(zip(hidden, lines, strict=True)) if len(hidden) == len(lines) else ()
    own = dict(pairs)
    restored = "\n".join(own.get(each, each) for each in source.split("\n"))
    is_unclear = HIDDEN in restored or len(own) < len(pairs)
    return None if is_unclear else restored  # two secrets may look the same


def difference(present: CellState | None, before: CellState | None) -> str:
    """The lines that an undo would change, as a unified diff without its head."""
    old, new = (_source(each).splitlines() for each in (present, before))
    return "\n".join([*difflib.unified_diff(old, new, lineterm="", n=3)][2:])


def counts(undo: Iterable[CellUndo]) -> Mapping[str, int]:
    """How many cells a turn changed, added, deleted and moved."""
    found = dict.fromkeys(("changed", "added", "deleted", "moved"), 0)
    for each in undo:
        if each.before is None:
            found["added"] += 1
        elif each.left is None:
            found["deleted"] += 1
        elif _written(each.before) == _written(each.left):
            found["moved"] += 1
        else:
            found["changed"] += 1
    return found


def _last_move(changes: Iterable[CellChange]) -> CellState | None:
    return next((c.after for c in reversed([*changes]) if c.is_move), None)


def _written(state: CellState | None) -> tuple[str, str] | None:
    return None if state is None else state.written


def _is_same(present: tuple[str, str] | None, left: tuple[str, str] | None) -> bool:
    """True if a cell is as a turn left it, whose secrets a store may have hidden."""
    if present is None or left is None or HIDDEN not in left[1]:
        return present == left
    return present[0] == left[0] and without_secrets(present[1])[0] == left[1]


def _masked_state(state: CellState | None) -> CellState | None:
    if state is None:
        return None
    return replace(
        state,
        source=without_secrets(state.source)[0],
        metadata=_masked_json(state.metadata),
        outputs=_masked_json(state.outputs),
    )


def _masked_json(text: str) -> str:
    return json.dumps(without_secrets_in(json.loads(text)), ensure_ascii=False)


def _source(state: CellState | None) -> str:
    return "" if state is None else state.source
