"""Name an entity and make the cells of its row: parts of its record, inherited values.

Entities with equal ids are kept separate: the user 7 is not the order 7. A long id with
letters identifies one entity. For other ids the name of the field, or of the tool that
looked it up, says what kind of entity it is, else the fields that its records have.

A part of a record, such as an item of an order, has a cell with the fields that are
worth their tokens, named once in the column; parts that would look the same show what
tells them apart.

The address of three orders is mostly their customer's: it is in the customer's row,
beside the orders and the ways to pay, and the rows of the orders have space for what is
their own.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from nbchat.compaction.facts.records import (
    KEY,
    SHORT_ID,
    Call,
    Field,
    Record,
    is_identity,
    kind_of,
    quoted,
)
from nbchat.compaction.facts.tables import NOT_SHOWN, Cell, Row
from nbchat.compaction.facts.tool_names import snake, things_looked_up, word_set
from nbchat.compaction.facts.value_ranking import (
    LISTED,
    NAME,
    NEEDED,
    NUMBER,
    PHRASE,
    SPOKEN,
    UNASKED,
    Weights,
    form_weight,
)
from nbchat.conversation.entries import Fact

FIELDS_OF_PARTS, LEAST_FIELD = 4, 0.4
"""Fields shown of parts, and the least mean weight of one."""

NAMELESS = 0.5
"""How much a part counts that names nothing: later calls can hardly ask for it."""

MEANT = 1.25
"""How much more a part counts that a question means; 1.25 to 1.5 are alike."""

LEAST_DESCRIBED = 2
"""Words that describe something."""

BEST_OF_NONE = 2
"""Fields shown where none has that weight."""

_BARE = re.compile(r"true|false|[-+$€£]?\d{1,6}(?:[.,]\d+)*%?")
"""Values that mean nothing without the names of their fields."""

_GENERAL = word_set("display_name id key label name text title type value")
"""Names of fields that tell little without the object around them."""

_NAMES = ("name", "title")
"""Fields that say what people call a thing."""

MOST_DIFFERING = 3
"""Fields that tell parts of one name apart, or parts without names."""

PARTS = "parts"
"""The name of parts in a list without a name."""

SIGNS, VALUE_SIGNS, PART_SIGNS = ("|", ": ", "<"), ("|", ": ", "<", ","), "|;,/<"
"""Signs that separate cells, or with which a name of a field, a person's message or a
tag begins; of values in a list; and those that separate what is inside a part."""

Shown = list[tuple[str, int, Record]]
"""Parts to show: the field that holds each, its position there, and the record."""

FieldsOf = dict[tuple[str, str], list[str]]
"""The fields shown of parts, by table and by the field that holds the parts."""

INHERITED = 0.3
"""How much a value counts that the entity has, too, to which its own refers."""


class _Thing(NamedTuple):
    """One of the things that share an id."""

    name: str
    label_field: str
    fields: frozenset[str]
    """Those of all its records: a batch may tell only how one of them went."""


class EntityNames:
    """Gives each record the name of its entity.

    A call that does not say what it is about returned the entity whose fields it has.
    """

    def __init__(self) -> None:
        self._things: dict[str, dict[str, _Thing]] = defaultdict(dict)

    def name_of(self, record: Record, call: Call) -> str:
        """The name of a record's entity; of one without an id the call."""
        label = record.label
        if not label:
            return call.scope
        if is_unique(label):
            return label
        is_long = len(label) > SHORT_ID
        field, fields = record.label_field, field_names(record)
        kind = ("" if field == KEY else field) if is_long else _kind(record, call)
        things = self._things[label]
        thing = things.pop(kind, None) or self._alike(field, fields, kind, things)
        name, before = (thing.name, thing.fields) if thing else (kind, frozenset())
        things[kind] = _Thing(name, field, before | fields)
        return f"{name} {label}"

    @staticmethod
    def _alike(
        field: str, fields: frozenset[str], kind: str, things: dict[str, _Thing]
    ) -> _Thing | None:
        """The newest thing with the same fields, where a call did not say its kind."""
        possible = (
            reversed(things.values()) if not kind else filter(None, [things.get("")])
        )
        return next(
            (
                each
                for each in possible
                if _may_be_same(each.label_field, field)
                and _share_fields(each.fields, fields)
            ),
            None,
        )


def is_unique(label: str) -> bool:
    """Whether no two things have an id by chance."""
    return len(label) > SHORT_ID and form_weight(label) > NUMBER


def field_names(record: Record) -> frozenset[str]:
    """The fields and parts of a record."""
    names = (field.name for field in record.fields)
    return frozenset(names).union(name for name, _ in record.parts)


def _may_be_same(one: str, other: str) -> bool:
    """Whether ids may be of one thing: `ticket_id` is not the `id` of another."""
    return one == other or KEY in (one, other)


def _share_fields(own: frozenset[str], names: frozenset[str]) -> bool:
    """Whether one of two records has at least half of the fields of the other."""
    return len(own & names) * 2 >= min(len(own), len(names))


def _kind(record: Record, call: Call) -> str:
    """What kind of thing an id names: by its own name, or by a look-up's; or empty."""
    found = things_looked_up(call.tool)
    place = -1 if record.is_listed else 0
    return kind_of(record.label_field) or (found[place] if found else "")


def described(field: Field) -> str:
    """A value of a description, with its field's name if it is a bare number."""
    text = quoted(field.text, VALUE_SIGNS)
    is_bare = _BARE.fullmatch(field.text) is not None
    return f"{field.name.rpartition('.')[2]} {text}" if is_bare else text


def _told_with_name(field: Field) -> str:
    """A value of a part that is in no column, with the end of its field's path."""
    *outer, own = field.name.split(".")
    is_general = snake(own) in _GENERAL and outer
    name = f"{outer[-1]}.{own}" if is_general else own
    return f"{name} {quoted(field.text, PART_SIGNS)}"


def shown_fields(
    parts: Sequence[Record],
    weights: Weights,
    said: Collection[Field] = (),
    *,
    is_short: bool = True,
) -> list[str]:
    """The fields of parts that are worth their tokens, the label first.

    A field of which the title above the parts says all values is not shown again; of
    short parts neither an id beside their own that only look-ups take, nor amounts.
    """
    values: dict[str, set[str]] = defaultdict(set)
    for field in (field for part in parts for field in all_fields(part)):
        values[field.name].add(field.text)
    told = {f.name for f in said if values[f.name] == {f.text}}
    totals: dict[str, float] = defaultdict(float)
    for part in parts:
        for field in all_fields(part):
            is_own = field.name == part.label_field
            if field.name in told or (not is_own and _says(part.label, field.text)):
                continue  # which the title or the id says
            if not is_own and is_short and _is_had_again(field, part, weights):
                continue
            totals[field.name] += weights.weight(field.name, field.text)
            if field.name.lower() in _NAMES:
                totals[field.name] += 1
    least = LEAST_FIELD if is_short or len(totals) > FIELDS_OF_PARTS else 0
    worth = [name for name, sum_ in totals.items() if sum_ / len(parts) >= least]
    worth = worth or sorted(totals, key=lambda name: -totals[name])[:BEST_OF_NONE]
    best = set(sorted(worth, key=lambda name: -totals[name])[:FIELDS_OF_PARTS])
    return [name for name in totals if name in best]


def _is_had_again(field: Field, part: Record, weights: Weights) -> bool:
    """Whether only look-ups take a value, and one by the part's own id returns it."""
    return bool(part.label) and weights.is_for_lookups(field.name)


def telling_apart(
    parts: Shown, table: str, fields: FieldsOf
) -> dict[int, tuple[Field, ...]]:
    """The fields that differ between parts of which only the ids would differ."""
    same: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, (name, _, part) in enumerate(parts):
        shown = fields[table, name]
        known = (f.text for f in all_fields(part) if f.name in shown)
        words = (text for text in known if form_weight(text) < NAME)
        if part.label:
            same[name, *words].append(number)
    found: dict[int, tuple[Field, ...]] = {}
    for numbers in same.values():
        shown = fields[table, parts[numbers[0]][0]]
        own = {n: _unsaid_by_label(parts[n][2]) for n in numbers}
        names = dict.fromkeys(name for each in own.values() for name in each)
        differing = [
            name
            for name in names
            if name not in shown and len({own[n].get(name) for n in numbers}) > 1
        ]
        some = own[numbers[0]]
        said = [n for n in differing if form_weight(some.get(n, "0")) != NUMBER]
        differing = (said or differing[:1])[:MOST_DIFFERING]
        for n in numbers:
            found[n] = tuple(Field(f, own[n][f]) for f in differing if f in own[n])
    return found


def _unsaid_by_label(part: Record) -> dict[str, str]:
    """The values of a part by field, without those that its id says already."""
    fields = list(all_fields(part))
    counts = Counter(field.name for field in fields)
    once = (field for field in fields if counts[field.name] == 1)
    return {f.name: f.text for f in once if not _says(part.label, f.text)}


def _says(label: str, text: str) -> bool:
    """Whether an id has a value in it: `gift_card_9935` says `gift_card`, not 35."""
    if text not in label:  # most are not, and a search takes longer
        return False
    own = rf"(?<![^\W_]){re.escape(text)}(?![^\W_])"
    return re.search(own, label) is not None


def all_fields(part: Record) -> Iterator[Field]:
    """The label and all fields of a part, those of its own parts included."""
    if part.label:
        yield Field(part.label_field, part.label)
    yield from part.fields
    for name, inner in part.parts:
        for field in all_fields(inner):
            yield Field(f"{name}.{field.name}", field.text)


def part_cells(
    parts: list[tuple[str, int, Record]],
    table: str,
    fields: dict[tuple[str, str], list[str]],
    *,
    entity: str,
    call: Call,
    weights: Weights,
) -> Iterator[tuple[Record, Cell]]:
    """Each part that has one of the fields of its kind, and its cell."""
    extra = telling_apart(parts, table, fields)
    meant = _meant(parts, call, weights)
    for number, part in enumerate(parts):
        shape, more = fields[table, part[0]], extra.get(number, ())
        if cell := _part_cell(part, shape, entity, call, weights, more=more):
            yield part[2], replace(cell, weight=cell.weight * meant.get(number, 1))


def _part_cell(
    shown: tuple[str, int, Record],
    fields: Sequence[str],
    entity: str,
    call: Call,
    weights: Weights,
    *,
    more: Sequence[Field],
) -> Cell | None:
    """The cell of a part: its values in the order of the fields, then what differs."""
    name, number, part = shown
    own = [field for field in all_fields(part) if field.name in fields]
    if not own:
        return None
    is_single = len(fields) == 1 and not more
    column = _column(name, fields, is_single=is_single)
    values: dict[str, list[str]] = {n: [] for n in fields}
    for field in own:
        values[field.name].append(quoted(field.text, PART_SIGNS))
    texts = list(map("/".join, _aligned(values)))
    texts += [_told_with_name(field) for field in more]
    own += more
    weight = sum(weights.weight(_asked_as(field, name), field.text) for field in own)
    if not any(field.is_identity for field in all_fields(part)):
        weight *= NAMELESS
    elif part.label and len(fields) == 1:
        weight *= LISTED
    holder = (
        f"{name}[{part.label or number + 1}]"
        if name
        else f"[{part.label or number + 1}]"
    )
    facts = tuple(Fact(entity, f"{holder}.{f.name}", f.text, call.index) for f in own)
    separator = ", " if is_single else "; "
    return Cell(column, ", ".join(texts), weight, facts, separator)


def _asked_as(field: Field, holder: str) -> str:
    """The name by which a tool may take a field: `id` in `cards` is a `card_id`."""
    is_own = holder and snake(field.name) in ("id", KEY)
    return f"{holder}_id" if is_own else field.name


def _meant(
    parts: Sequence[tuple[str, int, Record]], call: Call, weights: Weights
) -> dict[int, float]:
    """How much more or less parts count for a question which waits on their call.

    It means a part by its id, its name, or all that words say of it, such as "15-inch,
    black". Where it means none, those without a name may still be meant.
    """
    if not weights.waits(call.index):
        return {}
    labelled = {n: part for n, (_, _, part) in enumerate(parts) if part.label}
    meant = {n for n, part in labelled.items() if _is_meant(part, weights)}
    others = {n for n, part in labelled.items() if meant or _called(part)} - meant
    return dict.fromkeys(meant, MEANT) | dict.fromkeys(others, UNASKED)


def _called(part: Record) -> list[str]:
    return [field.text for field in part.fields if field.name.lower() in _NAMES]


def _is_meant(part: Record, weights: Weights) -> bool:
    if any(map(weights.is_in_question, [part.label, *_called(part)])):
        return True
    texts = {field.text for field in all_fields(part) if not field.is_identity}
    said = {text for text in texts if not _is_plain(text)}
    return len(said) >= LEAST_DESCRIBED and weights.is_described(said)


def _is_plain(text: str) -> bool:
    """Whether a value is a number, yes or no, which many parts have."""
    return text in ("true", "false") or form_weight(text) == NUMBER


def _aligned(values: dict[str, list[str]]) -> Iterator[list[str]]:
    """The values of each field; of objects in a list only those that all of them have.

    Else nothing would say which of the objects a value belongs to.
    """
    most: dict[str, int] = defaultdict(int)
    for name, found in values.items():
        group = name.rpartition(".")[0]
        most[group] = max(most[group], len(found))
    for name, found in values.items():
        group = name.rpartition(".")[0]
        is_ragged = bool(group) and most[group] > max(1, len(found))
        yield [NOT_SHOWN] if is_ragged and found else found or ["-"]


def _column(name: str, fields: Sequence[str], *, is_single: bool) -> str:
    """The name of parts with those of their fields; values in a list have none."""
    named = [field for field in fields if field and not field.endswith(".")]
    if is_single and named:
        return f"{name}.{named[0]}".removeprefix(".").removesuffix(f".{KEY}")
    return f"{name or PARTS} ({', '.join(named)})" if named else name or PARTS


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


def with_telling_values(
    rows: Sequence[Row], said: Container[str], weights: Weights
) -> list[Row]:
    """The rows, in which what tells one of several things from others counts more.

    Of a customer's lines it is the number that a person has said; of orders the status,
    where the names of actions say it: one is for pending orders, another for delivered;
    of a customer's cards the one that paid for an order. Where a question waits that
    names some of several things, the others count less.
    """
    by_row = [list(_listed(row)) for row in rows]
    lists = list(chain.from_iterable(by_row))
    several = set[str]().union(*lists)
    asked = {row.label for row in rows if row.label and _is_asked(row, weights)}
    others = set[str]().union(*(e - asked for e in lists if not asked.isdisjoint(e)))
    found = []
    for row, own in zip(rows, by_row, strict=True):
        elsewhere = several.difference(*own)
        cells = [_choosing(cell, elsewhere) for cell in row.cells]
        if row.label in several:
            cells = [_telling(cell, said, several, weights) for cell in cells]
        is_unasked = row.label in others and weights.waits(row.index)
        score = row.score * (UNASKED if is_unasked else 1)
        found.append(replace(row, cells=cells, score=score))
    return found


def _listed(row: Row) -> Iterator[set[str]]:
    """The ids and dates that a row has several of in one field."""
    found: dict[str, set[str]] = defaultdict(set)
    for cell in row.cells:
        if cell.facts and form_weight(cell.facts[0].value) >= NAME:
            found[cell.column].add(cell.facts[0].value)
    return (same for same in found.values() if len(same) > 1)


def _choosing(cell: Cell, several: Container[str]) -> Cell:
    """A cell, which counts more where it says which of several things was taken."""
    is_choice = len(cell.facts) == 1 and cell.facts[0].value in several
    return replace(cell, weight=cell.weight * SPOKEN) if is_choice else cell


def _is_asked(row: Row, weights: Weights) -> bool:
    """Whether a question names a thing, or what people call a part of it."""
    facts = (fact for cell in row.cells for fact in cell.facts)
    names = [f.value for f in facts if f.field.rpartition(".")[2].lower() in _NAMES]
    return any(map(weights.is_in_question, [row.label.strip("#"), *names]))


def _telling(
    cell: Cell, said: Container[str], several: Collection[str], weights: Weights
) -> Cell:
    if len(cell.facts) != 1:
        return cell
    value, is_name = cell.facts[0].value, form_weight(cell.text) >= NAME
    if not is_name and weights.names_action(value):
        return replace(cell, weight=max(cell.weight, PHRASE))
    is_telling = is_name and value not in several and value in said
    return replace(cell, weight=cell.weight * NEEDED) if is_telling else cell


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
