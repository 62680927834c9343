"""The model's changes of the notebook, turn by turn, so that a turn can be undone.

Each change holds its cell before and after. An undo is itself a change, of the same
turn. `cell_undo` says how a turn is undone.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Self

TURNS_KEPT = 20

CHARACTERS_KEPT = 20_000_000
"""Characters of a session's changes, after which the oldest turns are dropped."""

OUTPUT_CHARACTERS = 100_000
"""Characters of a cell's text outputs."""


@dataclass(frozen=True, slots=True)
class CellState:
    """A cell at one moment, without its pictures."""

    kind: str
    source: str
    metadata: str = "{}"
    """A JSON object."""
    outputs: str = "[]"
    """A JSON list of outputs as in a notebook's file, those with text only."""
    above: str = ""
    """Id of the cell above it; empty at the top."""
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
        return sum(len(s.source) + len(s.metadata) + len(s.outputs) for s in states)

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
