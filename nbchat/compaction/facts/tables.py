"""Arrange records as tables, and choose what fits a budget.

    [order_id | status | payment_method_id | items (name, item_id)]
    #W2905754 | delivered | credit_card_3677959 | Laptop, 34786; Speaker, 98448
    line_id: L1001 | plan_id: P1001 | data_used_gb: 3.2

A row is one entity, or one record that a call returned. A table has the names of its
fields once; where that would be longer, each value has its name. Values compete for the
budget, the highest weight for its size first.
"""

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nbchat.conversation.entries import Fact

OPENING = 3
"""Tokens of a new line and its separators."""

SEPARATOR = 1
"""Tokens between two values."""

SIZE_MATTERS = 0.7
"""A weight is divided by the value's tokens to this power: at 1 long names, such as
paths and addresses, would hardly ever be chosen."""

ROW_TOKENS = 100
"""Tokens of a row; a longer one continues in another line with the same label."""

AGAIN, RELATED = 0.3, 0.4
"""Factor for a value that another line has already; and how much is news of an id that
only other entities have: no line of a card says which orders it has paid."""

SAID_IN_ROW = -0.3
"""News of a value that the row itself has already: as a second payment by one card."""

ROUNDS, NEARLY_FULL = 5, 0.96
"""Attempts to fill a budget, and the share of it that is good enough."""

GAP_TOKENS = 2
"""Tokens of a value that is not shown."""

LEAST_ROWS = 2
"""Rows from which the names of fields may be given once, above them."""

KNOWN_TITLE = "Known, newest state:"
"""The title of rows that have none."""

ARROW = "→"
"""The name of what a call returned."""

NOT_SHOWN = "…"
"""A value that exists and did not fit the budget."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, or values that are shown together, of one field of a row."""

    column: str
    text: str
    weight: float
    facts: tuple[Fact, ...] = ()
    separator: str = ", "
    """Between this cell and another one of the same field."""


@dataclass(slots=True)
class Row:
    """A record: what it is about, and its cells in order."""

    table: str
    """Rows of one table have the same fields."""
    label_field: str
    label: str
    score: float
    index: int = 0
    """Its index in the transcript."""
    title: str = ""
    """The line above the table."""
    cells: list[Cell] = field(default_factory=list)
    older: frozenset[str] = frozenset()
    """Fields that only replaced records of the entity may have."""
    ids: frozenset[str] = frozenset()
    """The ids of things among its values."""
    note: str = ""
    """What is true of all its values, such as since when they may be old."""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines, the facts in them, and the rows of which nothing fitted."""

    lines: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    missing: tuple[Row, ...] = ()
    is_whole: bool = True
    """Whether all values are shown."""


def block_within(
    rows: Sequence[Row], budget_tokens: int, count: Callable[[str], int]
) -> Block:
    """Choose cells for a budget, the most important ones for their size first.

    Sizes add up only roughly, so the choice is repeated with a corrected budget until
    the lines nearly fill it.
    """
    sizes = {text: count(f" {text}") for text in _texts(rows)}
    best = Block(missing=tuple(rows), is_whole=not rows)
    best_size, aim = 0, budget_tokens
    for _ in range(ROUNDS):
        block = _Choice(rows, aim, sizes).block()
        size = count("\n".join(block.lines)) + 1 if block.lines else 0
        if best_size < size <= budget_tokens:
            best, best_size = block, size
        if not size or budget_tokens * NEARLY_FULL <= size <= budget_tokens:
            break
        aim = int(aim * budget_tokens / size) - 2
    return best


def _texts(rows: Sequence[Row]) -> set[str]:
    texts = {row.note for row in rows}
    texts |= {text for row in rows for text in (row.label, row.label_field, row.title)}
    return texts | {
        t for row in rows for cell in row.cells for t in (cell.column, cell.text)
    }


class _Choice:
    """Takes cells one by one until the budget is used."""

    def __init__(
        self, rows: Sequence[Row], budget_tokens: int, sizes: dict[str, int]
    ) -> None:
        self._rows, self._left, self._sizes = rows, budget_tokens, sizes
        self._taken: dict[int, set[int]] = defaultdict(set)
        self._columns: set[tuple[str, str]] = set()
        self._tables: set[str] = set()
        self._shown: set[str] = set()
        """Values that some line has."""
        self._said: set[tuple[str, str]] = set()
        """Entities with the values that their lines have."""

    def block(self) -> Block:
        """The chosen cells as lines, table by table."""
        waiting = [
            (-row.score * cell.weight / self._size(cell.text) ** SIZE_MATTERS, n, p)
            for n, row in enumerate(self._rows)
            for p, cell in enumerate(row.cells)
        ]
        heapq.heapify(waiting)
        repeated: set[tuple[int, int]] = set()
        while waiting and self._left > 0:
            density, number, position = heapq.heappop(waiting)
            row = self._rows[number]
            news = self._news(row, row.cells[position])
            if (number, position) not in repeated and news < 1:
                repeated.add((number, position))
                density *= AGAIN + (1 - AGAIN) * news
                heapq.heappush(waiting, (density, number, position))
            else:
                self._take(number, position)
        return self._rendered()

    def _news(self, row: Row, cell: Cell) -> float:
        """The share of a cell that no line says yet; below 0 for what its own says."""
        if not cell.facts:
            return 1
        if row.label and all((row.label, f.value) in self._said for f in cell.facts):
            return SAID_IN_ROW
        news = sum(
            1.0 if fact.value not in self._shown else self._relation(row, fact)
            for fact in cell.facts
        )
        return news / len(cell.facts)

    def _relation(self, row: Row, fact: Fact) -> float:
        """What the id of a thing says that other lines have, but not with this entity.

        An order's customer is known from the line that lists the customer's orders.
        """
        is_known = not row.label or (fact.value, row.label) in self._said
        return RELATED if fact.value in row.ids and not is_known else 0

    def _take(self, number: int, position: int) -> None:
        row = self._rows[number]
        cell = row.cells[position]
        column = (row.table, cell.column)
        size = self._size(cell.text) + SEPARATOR
        if column not in self._columns:
            size += self._size(cell.column) + SEPARATOR
        if number not in self._taken:
            size += self._size(row.label) + self._size(row.note) + OPENING
            if row.table not in self._tables:
                size += self._size(row.title) + self._size(row.label_field) + OPENING
        if size > self._left:
            return
        self._left -= size
        self._taken[number].add(position)
        self._columns.add(column)
        self._tables.add(row.table)
        self._shown.update([row.label, *(fact.value for fact in cell.facts)])
        self._said.update((row.label, fact.value) for fact in cell.facts)

    def _size(self, text: str) -> int:
        return self._sizes[text] if text else 0

    def _rendered(self) -> Block:
        tables: dict[str, list[tuple[Row, list[Cell]]]] = {}
        for number in sorted(self._taken):
            row = self._rows[number]
            cells = [row.cells[at] for at in sorted(self._taken[number])]
            tables.setdefault(row.table, []).append((row, cells))
        titled: dict[str, list[str]] = {}
        headed: list[str] = []
        for whole in tables.values():
            shown = self._continued(whole)
            lines, has_header = _lines(shown, self._size)
            if has_header:
                title = shown[0][0].title
                headed += [*([title] if title else []), *lines]
            else:
                titled.setdefault(shown[0][0].title, []).extend(lines)
        labelled = [KNOWN_TITLE, *titled.pop("")] if "" in titled else []
        for title, lines in titled.items():
            labelled += [title, *lines]
        facts = (
            fact for t in tables.values() for _, cs in t for c in cs for fact in c.facts
        )
        missing = (row for n, row in enumerate(self._rows) if n not in self._taken)
        is_whole = all(
            len(self._taken[n]) == len(row.cells) for n, row in enumerate(self._rows)
        )
        return Block((*labelled, *headed), tuple(facts), tuple(missing), is_whole)

    def _continued(
        self, whole: Sequence[tuple[Row, list[Cell]]]
    ) -> list[tuple[Row, list[Cell]]]:
        """The rows of a table, each in as many lines as it needs."""
        named = ({c.column: c.text for c in cells} for _, cells in whole)
        header = frozenset(_columns(list(named), self._size))
        return [
            (row, each)
            for row, cells in whole
            for each in self._chunks(row, cells, header)
        ]

    def _chunks(
        self, row: Row, cells: list[Cell], header: frozenset[str]
    ) -> list[list[Cell]]:
        """Cells for one line, or for several; in the first what weighs most by size.

        A field of the header takes no name in the line.
        """
        if not row.label_field:
            return [cells]
        chunks: list[set[int]] = [set()]
        sizes = [self._size(cell.text) + SEPARATOR for cell in cells]
        columns, left = set(header), ROW_TOKENS
        for at in sorted(range(len(cells)), key=lambda n: -cells[n].weight / sizes[n]):
            column = cells[at].column
            size = sizes[at] + self._size(column) * (column not in columns)
            if size > left and chunks[-1]:
                chunks.append(set())
                columns, left = set(header), ROW_TOKENS
                size = sizes[at] + self._size(column) * (column not in columns)
            chunks[-1].add(at)
            columns.add(column)
            left -= size
        return [[cells[at] for at in sorted(each)] for each in chunks]


def _lines(
    shown: Sequence[tuple[Row, list[Cell]]], size: Callable[[str], int]
) -> tuple[list[str], bool]:
    """The lines of a table, with a header of the fields that most rows show.

    A row names the values that are not in the header.
    """
    first = shown[0][0]
    taken = Counter((id(row), c.column) for row, cells in shown for c in cells)
    rows = [(row, _values(row, cells, taken)) for row, cells in shown]
    columns = _columns([values for _, values in rows], size)
    if not columns or not _begins_rows(first, columns[0], rows):
        return [_labelled(*each) for each in rows], False
    lines = [_positional(row, values, columns) for row, values in rows]
    names = filter(None, [first.label_field, *columns])
    return [f"[{' | '.join(names)}]", *lines], True


def _begins_rows(
    first: Row, column: str, rows: Sequence[tuple[Row, dict[str, str]]]
) -> bool:
    """Whether rows begin with a label, or all with a value of the first column."""
    if first.label:
        return bool(first.label_field)
    return all(column in values for _, values in rows)


def _columns(rows: Sequence[dict[str, str]], size: Callable[[str], int]) -> list[str]:
    """The fields whose names are shorter once, above the rows, than in each row."""
    names = dict.fromkeys(name for values in rows for name in values)
    columns = []
    for name in filter(None, names):
        count = sum(name in values for values in rows)
        label = size(name) + SEPARATOR
        if count >= LEAST_ROWS and label * (count - 1) > GAP_TOKENS * (
            len(rows) - count
        ):
            columns.append(name)
    return columns


def _positional(row: Row, values: dict[str, str], columns: Sequence[str]) -> str:
    """A row under a header; values of other fields have their names."""
    own = [values.get(name, _gap(row, name)) for name in columns]
    others = [_named(n, text) for n, text in values.items() if n not in columns]
    label = [row.label] if row.label_field else []
    rest = [*others, *filter(None, [row.note])]
    while own and own[-1] == NOT_SHOWN and not rest:
        own.pop()
    return " | ".join(filter(None, [*label, *own, *rest]))


def _gap(row: Row, column: str) -> str:
    """What a table shows where a value is not shown, or where there is none."""
    is_there = any(_are_alike(cell.column, column) for cell in row.cells)
    return NOT_SHOWN if is_there or re.split(r"[. ]", column)[0] in row.older else "-"


def _are_alike(one: str, other: str) -> bool:
    """Whether two columns are the same, or show the same parts."""
    is_of_parts = one.endswith(")") or other.endswith(")")
    names = [
        re.split(r"[. ]", each)[0] if is_of_parts else each for each in (one, other)
    ]
    return names[0] == names[1]


def _values(
    row: Row, cells: Sequence[Cell], taken: Counter[tuple[int, str]]
) -> dict[str, str]:
    """The values of a line by their fields; a list says how many are in no line."""
    values: dict[str, str] = {}
    for cell in cells:
        known = values.get(cell.column)
        values[cell.column] = (
            f"{known}{cell.separator}{cell.text}" if known else cell.text
        )
    for name in values:
        missing = sum(each.column == name for each in row.cells)
        if missing := missing - taken[id(row), name]:
            values[name] += f" +{missing} more"
    return values


def _labelled(row: Row, values: dict[str, str]) -> str:
    named = [_named(name, text) for name, text in values.items()]
    if not row.label_field:
        is_call = all(name in ("", ARROW) for name in values)
        shown = filter(None, [row.label, *named, row.note])
        return (" " if is_call else " | ").join(shown)
    return " | ".join(
        filter(None, [f"{row.label_field}: {row.label}", *named, row.note])
    )


def _named(name: str, text: str) -> str:
    if name == ARROW:
        return f"{ARROW} {text}"
    return f"{name}: {text}" if name else text
