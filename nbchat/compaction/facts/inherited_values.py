"""Show values that an entity inherits, such as an order's address, in its owner's row.

The address of three orders is mostly their customer's: it is in the customer's row,
beside the orders and the ways to pay, and the rows of the orders have space for what is
their own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nbchat.compaction.facts.records import is_identity
from nbchat.compaction.facts.tables import Cell, Row

INHERITED = 0.3
"""How much a value counts that the entity has, too, to which its own refers."""


def without_inherited(rows: Sequence[Row]) -> list[Row]:
    """The rows, in which values that another row holds for them count less.

    These count there as if they were as new as the newest row that shares them.
    """
    holders = {row.label: row for row in rows if row.label}
    newest: dict[tuple[str, str, str], float] = {}
    found = []
    for row in rows:
        cells = list(row.cells)
        for at, holder in _inherited(row, holders):
            cell = cells[at]
            cells[at] = replace(cell, weight=row.cells[at].weight * INHERITED)
            key = (holder, cell.column, cell.text)
            newest[key] = max(newest.get(key, 0), row.score)
        found.append(replace(row, cells=cells))
    return [replace(row, cells=_as_new(row, newest)) for row in found]


def _inherited(row: Row, holders: dict[str, Row]) -> Iterator[tuple[int, str]]:
    """The cells of a row that a holder has, too, and that holder."""
    for label in _references(row):
        holder = holders.get(label)
        if holder is None or not _is_above(holder, row):
            continue
        known = {(c.column, c.text) for c in holder.cells if not ids_in([c])}
        values = {fact.value for cell in holder.cells for fact in cell.facts}
        for at, cell in enumerate(row.cells):
            names_holder = [fact.value for fact in cell.facts] == [label]
            is_listed_there = names_holder and row.label in values
            if is_listed_there or (cell.column, cell.text) in known:
                yield at, label


def _as_new(row: Row, newest: dict[tuple[str, str, str], float]) -> list[Cell]:
    """The cells of a row, of which some count as if the row had a higher score."""
    cells = []
    for cell in row.cells:
        score = newest.get((row.label, cell.column, cell.text), 0)
        factor = score / row.score if score > row.score > 0 else 1
        cells.append(replace(cell, weight=cell.weight * factor))
    return cells


def ids_in(cells: Sequence[Cell]) -> frozenset[str]:
    """The ids of things among the values of cells."""
    facts = (fact for cell in cells for fact in cell.facts)
    return frozenset(fact.value for fact in facts if is_identity(fact.field))


def _references(row: Row) -> list[str]:
    """The values of fields that a row has once, which may name another entity."""
    facts = [fact for cell in row.cells for fact in cell.facts]
    names = Counter(fact.field for fact in facts)
    once = (fact.value for fact in facts if names[fact.field] == 1)
    return [value for value in dict.fromkeys(once) if value != row.label]


def _is_above(holder: Row, row: Row) -> bool:
    """Whether a row that another refers to does not refer to it, or was there before.

    A customer who has one order refers to it as the order does to the customer.
    """
    return row.label not in _references(holder) or holder.index <= row.index
