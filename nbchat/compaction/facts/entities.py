"""Make rows of the records in tool results: each entity in its newest state.

Records with an id are entities. A newer result of an entity replaces an older one; a
field that only the older one has stays, unless the newer one is of the same kind. What
a search returned is valid for its arguments alone, so its rows stay under its call.
"""

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from nbchat.compaction.facts.entity_cells import (
    SIGNS,
    VALUE_SIGNS,
    EntityNames,
    FieldsOf,
    Shown,
    all_fields,
    described,
    field_names,
    ids_in,
    is_unique,
    part_cells,
    shown_fields,
    with_telling_values,
    without_inherited,
)
from nbchat.compaction.facts.records import (
    KEY,
    MOST_SPACES_OF_ID,
    Call,
    Field,
    Record,
    kind_of,
    quoted,
    record_texts,
)
from nbchat.compaction.facts.tables import Cell, Row
from nbchat.compaction.facts.tool_names import snake, word_set
from nbchat.compaction.facts.value_ranking import (
    LISTED,
    NAME,
    Weights,
    form_weight,
    words,
)
from nbchat.conversation.entries import Entry, Fact

MOST_ENTITIES = 1_000
"""Entities and results that rows are made for, the newest."""

MOST_CALLS = 4_000
"""Calls that rows are made from, the newest: a compaction of a longer chat takes no
more time. What only older ones returned can be recalled."""

MANY, BEST, LEAST_MENTIONED = 6, 3, 0.3
"""More parts than this are a choice, as in a catalogue; the most of them that are
shown, and the least share of a part's words that one message must have used."""

BEFORE, AFTER = 3, 30
"""Messages before and after a result in which its parts may be mentioned."""

MENTIONED = 1.0
"""How much more an entity counts that people mention."""

SETTLED = 0.3
"""How much an entity counts of a matter in which an action was the last thing done."""

_FORM = re.compile(
    r"(?:cursor|expand|fields?|format|include|lang|language|limit|locale|offset|order_by"
    r"|page|page_size|page_token|per_page|select|sort|sort_by|timeout|verbose|view)$"
)
"""Arguments that say only how a result is written."""

_SELF_EXPLAINING = word_set(
    """
    address address1 address2 address_1 address_2 brand building city country
    country_code county district email extension first first_name house_number last
    last_four last_name last4 line1 line2 middle_name name phone phone_number
    postal_code postcode province region salutation state state_code street street1
    street2 suffix suite title town zip zip_code zipcode
    """
)
"""Fields of addresses, names and cards, whose values tell what they are."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A record, and the call that returned it."""

    record: Record
    call: Call
    scope: str = ""
    """The call, where the record is valid for its arguments alone."""
    older: frozenset[str] = frozenset()
    """The fields of all older records of the entity."""
    name: str = ""
    """The entity, distinguished from others with the same id."""
    holder: str = ""
    """The field of another record that holds this one."""

    @property
    def label_field(self) -> str:
        """The field of the id, with what holds the record where `id` tells nothing."""
        field = self.record.label_field
        return f"{self.holder}.{field}" if self.holder and not kind_of(field) else field


def entity_rows(
    calls: Sequence[Call],
    entries: Sequence[Entry],
    said: Container[str],
    weights: Weights,
    *,
    is_short: bool = True,
) -> list[Row]:
    """A row for each entity, and for each record without an id under its call.

    `said` has what people said. Short ones have only the best fields of parts.
    """
    calls = calls[-MOST_CALLS:]
    mentions = _Mentions(entries)
    newest, replaced = _newest(calls, mentions)
    known = newest[-MOST_ENTITIES:]
    changed, settled = _changed_by(calls), _settled(calls)
    reported = _by_entity(known, replaced)
    groups, notes = [], []
    for group in known:
        at, tool = _newer(group, changed, reported)
        for own in _before_and_after(at, group):
            groups.append(own)
            notes.append(_before(tool) if own[0].call.index < at else "")
    shown = [[_shown_parts(each, mentions) for each in group] for group in groups]
    fields = _fields_by_table(groups, shown, weights, is_short=is_short)
    rows: list[Row] = []
    for group, parts, note in zip(groups, shown, notes, strict=True):
        row = _row(group, parts, fields, weights, {} if note else reported)
        row.note = note
        label = group[-1].record.label or group[-1].call.scope
        is_settled = label in settled and not weights.waits(row.index)
        row.score *= SETTLED if is_settled else 1
        others = (e for e in reported.get(group[-1].name, ()) if e not in group)
        row.older = row.older.union(*map(_names, others))
        row.ids = ids_in(row.cells)
        rows.append(row)
    return with_telling_values(without_inherited(rows), said, weights)


def _before_and_after(at: int, group: Sequence[_Known]) -> Iterator[list[_Known]]:
    """The records from before a call, then the others; either may be none."""
    for is_later in (False, True):
        if found := [e for e in group if (e.call.index >= at) == is_later]:
            yield found


def _settled(calls: Sequence[Call]) -> set[str]:
    """The entities and calls of matters in which nothing came after an action.

    A matter is what calls name together, such as a customer and the orders. One that
    waits for a "yes" was looked up last.
    """
    matter: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := matter.setdefault(name, name)) != name:
            matter[name] = matter[above]
            name = matter[name]
        return name

    last: dict[str, bool] = {}
    for call in calls:
        if call.status == "failed":
            continue
        names = [call.scope, *_identities(call)]
        for name in names[1:]:
            matter[root(name)] = root(names[0])
    for call in calls:
        last[root(call.scope)] = call.status == "done"
    return {name for name in matter if last.get(root(name), False)}


def _identities(call: Call) -> Iterator[str]:
    """The entities that a call is about: its own ids, and those of what it returned."""
    yield from (field.text for field in call.asked if field.is_identity)
    if call.record is not None and call.record.label:
        yield call.record.label
        yield from (f.text for f in call.record.fields if f.is_identity)


def _newest(
    calls: Sequence[Call], mentions: "_Mentions"
) -> tuple[list[list[_Known]], list[_Known]]:
    """Of every entity the newest records, the newest last, in the order of results.

    Of equal calls only the newest result is valid, unless it names what it is about;
    the records of the others come second.
    """
    found = [c for c in calls if c.record is not None and c.status != "failed"]
    answered = (c for c in calls if c.status not in ("failed", "interrupted"))
    last = {call.scope: call.index for call in answered}
    conditions: dict[tuple[str, str], set[frozenset[Field]]] = defaultdict(set)
    for call in found:
        if call.record is not None and call.record.label:
            conditions[call.tool, call.record.label].add(_conditions(call, call.record))
    states: dict[tuple[str, str], list[_Known]] = {}
    replaced: list[_Known] = []
    names = EntityNames()
    for call in found:
        is_named = call.record is not None and bool(call.record.label)
        if not is_named and call.index < last[call.scope]:
            some = (each for each in _records(call) if each.record.label)
            replaced += [
                replace(each, name=names.name_of(each.record, call)) for each in some
            ]
            continue
        for each in _records(call, mentions):
            several = len(conditions.get((call.tool, each.record.label), ())) > 1
            known = _under_conditions(each, are_several=several)
            name = names.name_of(known.record, call)
            key = (name, known.scope)
            before = states.pop(key, [])
            kept = [_without(each, known) for each in before]
            older = frozenset[str]().union(*map(_names, before))
            newest = replace(known, name=name, older=older)
            states[key] = [*(each for each in kept if each is not None), newest]
    return list(states.values()), replaced


def _conditions(call: Call, record: Record) -> frozenset[Field]:
    """What a look-up of an entity was asked with besides, and the result does not say.

    The result is valid for these alone, such as the stock of an article in a store.
    """
    own = set(record_texts(record))
    is_asked = any(field.text == record.label for field in call.asked)
    if call.status != "called" or not is_asked:
        return frozenset()
    return frozenset(
        field
        for field in call.asked
        if field.text not in own
        and field.text not in ("true", "false")
        and field.text.count(" ") <= MOST_SPACES_OF_ID
        and not _FORM.match(snake(field.name))
    )


def _under_conditions(known: _Known, *, are_several: bool) -> _Known:
    """A record whose call is shown where it is valid for its conditions alone.

    An id among these mostly says whose the entity is, unless several were asked with.
    What an action reports that is not confirmed, as of a trial, is no state.
    """
    found = _conditions(known.call, known.record)
    is_state = known.call.status != "unconfirmed"
    if is_state and not are_several and all(field.is_identity for field in found):
        return known
    return replace(known, scope=known.scope or known.call.scope)


def _names(known: _Known) -> frozenset[str]:
    """The fields that a record or an older one of the entity has."""
    fields = {field.group for field in known.record.fields}
    return known.older.union(fields, (name for name, _ in known.record.parts))


def _without(older: _Known, newer: _Known) -> _Known | None:
    """What an older record says that a newer one of the same entity does not."""
    own, names = field_names(older.record), field_names(newer.record)
    if older.call.tool == newer.call.tool or len(own & names) * 2 >= len(own):
        return None
    fields = tuple(field for field in older.record.fields if field.name not in names)
    parts = tuple(part for part in older.record.parts if part[0] not in names)
    record = Record(older.record.label, older.record.label_field, fields, parts)
    return replace(older, record=record)


def _records(call: Call, mentions: "_Mentions | None" = None) -> Iterator[_Known]:
    """The entities of a result: its root, or the records in a list.

    Of offers those that `mentions` chooses; all without it.
    """
    root = call.record
    if root is None:
        return
    if root.label or root.fields:
        yield from _hoisted(root, call)
        return
    parts = [part for _, part in root.parts]
    shown: Sequence[int] = range(len(parts))
    if mentions and (
        len(parts) > MANY * 2
        or any(not part.label or _needs_call(part, call) for part in parts)
    ):
        shown = mentions.chosen(parts, call.index)
    for number in shown:
        part = parts[number]
        scope = call.scope if _needs_call(part, call) else ""
        if not part.label:
            scope = f"{call.scope} {number}"
        yield _Known(part, call, scope)


def _hoisted(root: Record, call: Call) -> Iterator[_Known]:
    """A root, and the single entities directly inside it as their own rows."""
    singles = Counter(name for name, _ in root.parts)
    inner = [
        (n, p) for n, p in root.parts if p.label and singles[n] == 1 and not p.is_listed
    ]
    parts = tuple(part for part in root.parts if part not in inner)
    refers = tuple(
        Field(f"{n}.{p.label_field}", p.label)
        for n, p in inner
        if p.label != root.label
    )
    fields = (*root.fields, *refers)
    for name, part in inner:
        yield _Known(part, call, holder=name)
    is_said_inside = any(part.label == root.label for _, part in inner)
    if (fields or parts) and not (is_said_inside and not parts and len(fields) < 2):  # noqa: PLR2004
        yield _Known(Record(root.label, root.label_field, fields, parts), call)


def _needs_call(part: Record, call: Call) -> bool:
    """Whether a record in a list is valid for the arguments of its call alone."""
    own = {field.text for field in part.fields} | {part.label}
    return any(field.text not in own for field in call.asked)


def _changed_by(calls: Iterable[Call]) -> dict[str, tuple[int, str]]:
    """The last action on each entity: where it is, and the tool."""
    return {
        field.text: (call.index, call.tool)
        for call in calls
        if call.status == "done"
        for field in call.asked
        if field.is_identity or form_weight(field.text) >= NAME
    }


def _by_entity(
    known: Sequence[Sequence[_Known]], replaced: Iterable[_Known]
) -> dict[str, list[_Known]]:
    """All records that are shown or replaced, by their entities."""
    found: dict[str, list[_Known]] = defaultdict(list)
    for each in (*replaced, *(each for group in known for each in group)):
        if each.record.label:
            found[each.name].append(each)
    return found


def _newer(
    group: Sequence[_Known],
    changed: dict[str, tuple[int, str]],
    reported: dict[str, list[_Known]],
) -> tuple[int, str]:
    """Index and tool of the last call that says something else of an entity."""
    newest = group[-1]
    at, tool = changed.get(newest.record.label, (0, ""))
    for other in reported.get(newest.name, ()):
        is_other_condition = bool(newest.scope and other.scope)
        is_newer = any(_contradicts(other, each) for each in group)
        if is_newer and not is_other_condition and other.call.index > at:
            at, tool = other.call.index, other.call.tool
    return at, tool


def _contradicts(newer: _Known, older: _Known) -> bool:
    """Whether a later record has another value of a field that an older one shows."""
    own = dict(older.record.fields)
    is_other = any(own.get(f.name, f.text) != f.text for f in newer.record.fields)
    return is_other and newer.call.index > older.call.index


def _shown_parts(known: _Known, mentions: "_Mentions") -> Shown:
    """The parts of a record to show, of many those that people mention."""
    found: Shown = []
    for name in dict.fromkeys(name for name, _ in known.record.parts):
        parts = [part for other, part in known.record.parts if other == name]
        chosen = mentions.chosen(parts, known.call.index)
        found += [(name, at, parts[at]) for at in chosen]
    return _without_echoes(found)


def _without_echoes(parts: Shown) -> Shown:
    """Parts without the ids of other parts, as a parcel's list of items."""
    labels = {part.label for _, _, part in parts} - {""}
    kept = []
    for name, at, part in parts:
        fields = tuple(f for f in part.fields if f.text not in labels)
        if part.label or fields or part.parts:
            kept.append((name, at, replace(part, fields=fields)))
    return kept


def _table(known: _Known) -> str:
    """The name of a record's table: rows of one table have the same fields."""
    if known.scope or not known.record.label:
        return f"{known.call.scope} {known.label_field}"
    return f"{known.label_field} {_generic(known)}"


def _fields_by_table(
    known: Sequence[Sequence[_Known]],
    shown: Sequence[Sequence[Shown]],
    weights: Weights,
    *,
    is_short: bool,
) -> FieldsOf:
    same: dict[tuple[str, str], list[Record]] = defaultdict(list)
    titled: dict[str, Collection[Field]] = {}
    for group, parts_of in zip(known, shown, strict=True):
        titled[_table(_named(group))] = _in_title(_named(group))
        for parts in parts_of:
            for name, _, part in parts:
                same[_table(_named(group)), name].append(part)
    return {
        key: shown_fields(parts, weights, titled[key[0]], is_short=is_short)
        for key, parts in same.items()
    }


def _in_title(known: _Known) -> tuple[Field, ...]:
    """What the title above the rows of one list says: the call."""
    return known.call.asked if known.scope else ()


def _named(group: Sequence[_Known]) -> _Known:
    """The newest record whose field of the id tells more than a key in a dictionary."""
    own = (each for each in reversed(group) if each.record.label_field != KEY)
    return next(own, group[-1])


def _before(tool: str) -> str:
    """What is said of a state that a later call may have changed."""
    return f"(before {tool})"


def _row(
    group: Sequence[_Known],
    shown: Sequence[Shown],
    fields: FieldsOf,
    weights: Weights,
    reported: dict[str, list[_Known]],
) -> Row:
    """The row of an entity, from records that are valid.

    `reported` are the records that may say otherwise of its parts.
    """
    newest = _named(group)
    table = _table(newest)
    record, call, told = newest.record, newest.call, _in_title(newest)
    is_scoped = bool(newest.scope) or not record.label
    entity = record.label or call.scope
    is_mentioned = bool(record.label) and weights.is_used(record.label)
    is_asked = any(field.text == record.label for field in call.asked)
    is_said_above = is_scoped and is_asked and not record.is_listed
    label = quoted(record.label, SIGNS, most_spaces=MOST_SPACES_OF_ID)
    row = Row(
        table,
        "" if is_said_above else newest.label_field,
        "" if is_said_above else label,
        weights.freshness(entity, call.index) * (1 + MENTIONED * is_mentioned),
        call.index,
        f"{call.scope}:" if is_scoped else "",
        older=newest.older,
    )
    for known, parts in zip(group, shown, strict=True):
        at = known.call.index
        own = [each for each in known.record.fields if each not in told]
        row.cells += _field_cells(own, entity, at, weights)
        cells = part_cells(
            parts, table, fields, entity=entity, call=known.call, weights=weights
        )
        for part, cell in cells:
            is_before, tool = _newer((_inner(known, part),), {}, reported)
            note = f" {_before(tool)}" if is_before else ""
            row.cells.append(replace(cell, text=cell.text + note))
    if not record.label and not record.fields:
        row.cells = _as_one(row.cells)
    return row


def _as_one(cells: Sequence[Cell]) -> list[Cell]:
    """The parts of a list without a name as one value, such as a connection's flights.

    One flight of a connection is worth nothing without the other.
    """
    together: dict[str, Cell] = {}
    for cell in cells:
        if (one := together.get(cell.column)) is None:
            together[cell.column] = cell
            continue
        text = f"{one.text}{one.separator}{cell.text}"
        weight, facts = one.weight + cell.weight, (*one.facts, *cell.facts)
        together[cell.column] = replace(one, text=text, weight=weight, facts=facts)
    return list(together.values())


def _inner(known: _Known, part: Record) -> _Known:
    """A part of a record as what is known of the entity that it names."""
    label = part.label
    name = label if is_unique(label) else f"{part.label_field} {label}"
    return replace(known, record=part, name=name)


def _generic(known: _Known) -> str:
    """The tool, where `id` alone would name different kinds of things."""
    return known.call.tool if known.label_field in ("id", "key", "no") else ""


def _field_cells(
    fields: Sequence[Field], entity: str, index: int, weights: Weights
) -> Iterator[Cell]:
    """A cell for each plain field; a description, such as an address, is one cell."""
    for group, found in groupby(fields, key=lambda each: each.group):
        same = list(found)
        is_described = any("." in field.name for field in same)
        if is_described and not _needs_names(same):
            yield _grouped(group, same, entity, index, weights)
            continue
        is_listed = len(same) > 1
        for field in same:
            weight = weights.weight(field.name, field.text)
            weight *= LISTED if is_listed and weight >= NAME else 1
            fact = Fact(entity, field.name, field.text, index)
            yield Cell(field.name, quoted(field.text, VALUE_SIGNS), weight, (fact,))


def _needs_names(fields: Sequence[Field]) -> bool:
    """Whether values mean nothing without the names of their fields.

    Only one address, name or card does not need them.
    """
    names = [snake(field.name.rpartition(".")[2]) for field in fields]
    return len(set(names)) < len(names) or not _SELF_EXPLAINING.issuperset(names)


def _grouped(
    group: str, fields: Sequence[Field], entity: str, index: int, weights: Weights
) -> Cell:
    text = ", ".join(described(field) for field in fields)
    weight = sum(weights.weight(field.name, field.text) for field in fields)
    facts = tuple(Fact(entity, f.name, f.text, index) for f in fields)
    return Cell(group, text, weight, facts)


class _Mentions:
    """Finds the parts of a result that people talk about around it."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def chosen(self, parts: Sequence[Record], index: int) -> list[int]:
        """The parts to show: all of a few, of many the ones that were mentioned.

        The sums are exact (`fsum`), so that the order of a set does not decide between
        parts that are nearly as good.
        """
        if len(parts) <= MANY:
            return list(range(len(parts)))
        own = [self._words(part) for part in parts]
        spread = Counter(word for each in own for word in each)
        weigh = {word: math.log(1 + len(own) / n) for word, n in spread.items()}
        totals = [math.fsum(weigh[word] for word in each) or 1 for each in own]
        names = [
            {f.text.lower() for f in all_fields(p) if f.is_identity} for p in parts
        ]
        best: dict[int, float] = defaultdict(float)
        for age, said in enumerate(self._around(index)):
            for at, each in enumerate(own):
                share = math.fsum(weigh[word] for word in each & said) / totals[at]
                is_named = bool(names[at] & said)
                if share > LEAST_MENTIONED or is_named:
                    best[at] = max(best[at], share + is_named + age / 100)
        return sorted(heapq.nlargest(BEST, best, key=lambda at: best[at]))

    def _words(self, part: Record) -> frozenset[str]:
        return frozenset().union(*(words(field.text) for field in all_fields(part)))

    def _around(self, index: int) -> Iterator[frozenset[str]]:
        """The words of messages shortly before a result, and after it."""
        entries = self._entries
        asked = (
            entries[n] for n in range(index - 1, -1, -1) if entries[n].role == "user"
        )
        before = reversed(list(islice(asked, BEFORE)))
        later = (entries[n] for n in range(index + 1, len(entries)))
        after = (e for e in later if e.role == "user" or e.is_answer)
        for entry in [*before, *islice(after, AFTER)]:
            yield words(entry.content)
