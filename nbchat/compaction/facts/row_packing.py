"""Pack rows of values into a budget.

Values compete across rows: the highest weight for its size comes first. A value that is
in one row already is repeated only where it links its row to another.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ROW_TOKENS = 110
"""The longest row."""

MOST_CELLS = 400
"""Cells of one row that are considered."""

KIN, AGAIN = 0.7, 0.05
"""Factors for a value that is in the block already: a name that links rows, and any
other."""

SIZE_MATTERS = 0.7
"""A value's weight is divided by its tokens to this power: at 1 long names, as paths
and addresses are, would hardly ever come in."""

OPENING = 2
"""Tokens of a new line."""

ROUNDS, NEARLY_FULL = 4, 0.97
"""Attempts, and the share of the budget that is good enough."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Values that are in a row together or not at all."""

    texts: tuple[str, ...]
    weight: float
    is_link: bool = False
    """Whether it links its row to others, so that it is worth repeating."""


@dataclass(slots=True)
class Row:
    """An entity and its cells, in order."""

    label: str
    score: float
    title: str
    """The title above rows of its kind."""
    limit_tokens: int | None = ROW_TOKENS
    cells: list[Cell] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)
    """Cells that begin another part."""
    implied: set[str] = field(default_factory=set)
    """Entities whose own rows name this one."""
    index: int = 0
    """Its index in the transcript."""

    def line(self, taken: dict[int, tuple[str, ...]]) -> str:
        """The row as a line with the cells that were taken."""
        line, has_break = self.label, False
        for index in range(len(self.cells)):
            has_break = has_break or index in self.breaks
            if index in taken:
                is_first = len(line) == len(self.label)
                line += "; " if has_break and not is_first else " "
                line += " ".join(taken[index])
                has_break = False
        return line


@dataclass(frozen=True, slots=True)
class Block:
    """Rows as lines, and the rows that did not fit."""

    lines: tuple[str, ...] = ()
    missing: tuple[Row, ...] = ()


def block_within(
    rows: Sequence[Row], budget_tokens: int, count: Callable[[str], int]
) -> Block:
    """Pack rows into a budget, the most important values first.

    Sizes add up only roughly, so packing is repeated with a corrected budget until the
    lines nearly fill it.
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
    """Takes cells one by one, the densest first, until the budget is used."""

    def __init__(
        self, rows: Sequence[Row], budget_tokens: int, sizes: dict[str, int]
    ) -> None:
        self._rows = rows
        self._left = budget_tokens
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
        """The rows with taken cells, under their titles."""
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
        repeated: set[tuple[int, int]] = set()
        while self._waiting:
            density, number, index = heapq.heappop(self._waiting)
            cell = self._rows[number].cells[index]
            fresh = tuple(text for text in cell.texts if text not in self._shown)
            if len(fresh) < len(cell.texts) and (number, index) not in repeated:
                repeated.add((number, index))
                factor = KIN if cell.is_link or fresh else AGAIN
                heapq.heappush(self._waiting, (density * factor, number, index))
            else:
                texts = cell.texts if cell.is_link else fresh or cell.texts
                self._take(number, index, texts)

    def _take(self, number: int, index: int, texts: tuple[str, ...]) -> None:
        row = self._rows[number]
        size = self._size(*texts)
        if number not in self._taken:
            size += self._size(row.label) + OPENING
            size += 0 if row.title in self._titles else self._size(row.title)
        is_full = row.limit_tokens and self._filled[number] + size > row.limit_tokens
        if size > self._left or is_full:
            return
        self._left -= size
        self._filled[number] += size
        self._taken[number][index] = texts
        self._shown.update(texts, (row.label,))
        self._titles.add(row.title)

    def _size(self, *texts: str) -> int:
        return sum(self._sizes[text] for text in texts) + 1
