"""Which values come into a block of rows, when not all of them have room.

Rows compete value by value: what is most telling for its size comes first. A value that
stands somewhere already comes in again only where it ties its row to another.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ROW_TOKENS = 110
"""A row ends there: a line that is longer is no row to read any more."""

MOST_CELLS = 400
"""Cells of one row that are considered at all."""

KIN, AGAIN = 0.7, 0.05
"""How much less a value counts that stands somewhere already, when it is a name that
ties rows together, and when it is not."""

SIZE_MATTERS = 0.7
"""A value's weight is divided by its tokens to this power: at 1 long names, as paths
and addresses are, would hardly ever come in."""

OPENING = 2
"""Tokens of a new line."""

ROUNDS, NEARLY_FULL = 4, 0.97
"""How often the choice is made anew, and the share of the room that will do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Some values that come into a row together or not at all."""

    texts: tuple[str, ...]
    weight: float
    is_tie: bool = False
    """Whether it ties its row to others, so that it is worth repeating."""


@dataclass(slots=True)
class Row:
    """A thing and the cells that may stand for it, in order."""

    label: str
    score: float
    title: str
    """What stands above rows of its kind."""
    limit_tokens: int | None = ROW_TOKENS
    cells: list[Cell] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)
    """Cells that begin another part."""
    implied: set[str] = field(default_factory=set)
    """Things whose own rows name this one."""
    place: int = 0
    """Where in the transcript it was told."""

    def line(self, taken: dict[int, tuple[str, ...]]) -> str:
        """The row with what was taken of its cells."""
        line, has_break = self.label, False
        for place in range(len(self.cells)):
            has_break = has_break or place in self.breaks
            if place in taken:
                is_first = len(line) == len(self.label)
                line += "; " if has_break and not is_first else " "
                line += " ".join(taken[place])
                has_break = False
        return line


@dataclass(frozen=True, slots=True)
class Block:
    """Rows as lines, and the rows that found no room."""

    lines: tuple[str, ...] = ()
    missing: tuple[Row, ...] = ()


def block_within(
    rows: Sequence[Row], budget_tokens: int, count: Callable[[str], int]
) -> Block:
    """The rows within a budget, the most telling values in them.

    Sizes add up only roughly, so the choice is made again with a corrected budget until
    the lines nearly fill the room and never more than it.
    """
    sizes = {text: count(f" {text}") for text in _texts(rows)}
    aim, best, best_size = budget_tokens, Block(missing=tuple(rows)), 0
    for _ in range(ROUNDS):
        block = _Choice(rows, aim, sizes).block()
        size = count("\n".join(block.lines))
        if best_size < size <= budget_tokens:
            best, best_size = block, size
        if not size or budget_tokens * NEARLY_FULL <= size <= budget_tokens:
            break
        aim = int(aim * budget_tokens / size) - 2
    return best


def _texts(rows: Sequence[Row]) -> set[str]:
    cells = (cell for row in rows for cell in row.cells[:MOST_CELLS])
    texts = {text for cell in cells for text in cell.texts}
    return texts | {row.label for row in rows} | {row.title for row in rows}


class _Choice:
    """Cells taken one by one, the densest first, until the room is full."""

    def __init__(
        self, rows: Sequence[Row], room_tokens: int, sizes: dict[str, int]
    ) -> None:
        self._rows = rows
        self._room = room_tokens
        self._sizes = sizes
        self._taken: dict[int, dict[int, tuple[str, ...]]] = defaultdict(dict)
        self._filled: Counter[int] = Counter()
        self._shown: set[str] = set()
        self._titles: set[str] = set()
        self._waiting = [
            (-row.score * cell.weight / self._size(*cell.texts) ** SIZE_MATTERS, n, p)
            for n, row in enumerate(rows)
            for p, cell in enumerate(row.cells[:MOST_CELLS])
        ]

    def block(self) -> Block:
        """The rows that have something to say, under their titles."""
        self._fill()
        under: dict[str, list[str]] = {}
        for number in sorted(self._taken):
            row = self._rows[number]
            under.setdefault(row.title, []).append(row.line(self._taken[number]))
        lines = (
            line
            for title, lines in under.items()
            for line in ([title] if title else []) + lines
        )
        missing = (r for n, r in enumerate(self._rows) if n not in self._taken)
        return Block(tuple(lines), tuple(missing))

    def _fill(self) -> None:
        heapq.heapify(self._waiting)
        seen_again: set[tuple[int, int]] = set()
        while self._waiting:
            density, number, place = heapq.heappop(self._waiting)
            cell = self._rows[number].cells[place]
            fresh = tuple(text for text in cell.texts if text not in self._shown)
            if len(fresh) < len(cell.texts) and (number, place) not in seen_again:
                seen_again.add((number, place))
                factor = KIN if cell.is_tie or fresh else AGAIN
                heapq.heappush(self._waiting, (density * factor, number, place))
            else:
                texts = cell.texts if cell.is_tie else fresh or cell.texts
                self._take(number, place, texts)

    def _take(self, number: int, place: int, texts: tuple[str, ...]) -> None:
        row = self._rows[number]
        size = self._size(*texts)
        if number not in self._taken:
            size += self._size(row.label) + OPENING
            size += 0 if row.title in self._titles else self._size(row.title)
        is_full = row.limit_tokens and self._filled[number] + size > row.limit_tokens
        if size > self._room or is_full:
            return
        self._room -= size
        self._filled[number] += size
        self._taken[number][place] = texts
        self._shown.update(texts, (row.label,))
        self._titles.add(row.title)

    def _size(self, *texts: str) -> int:
        return sum(self._sizes[text] for text in texts) + 1
