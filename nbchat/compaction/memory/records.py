"""The newest state of each object that tools returned, by its id, as tables.

    [order_id | status | items (name, item_id)]
    #W2905754 | delivered | Laptop, 3478699712; Speaker, 9844888101
    get_weather(city: Paris): [day | sky]
    Monday | clear

A row is one object, and a cell is one of its fields as it was written. An object that
has no id stands below the call that returned it. A newer result of the same tool
replaces an object; another tool's result updates the fields that it has.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

from nbchat.compaction.memory.calls import (
    CUT,
    LINE_LENGTH,
    Leaf,
    ValueWriter,
    Written,
    digest,
    echo_in,
    is_plain,
    is_told,
    joined,
    namer,
    plain_text,
    shown_call,
    shown_name,
    tool_name,
    words_of,
    written_arguments,
)
from nbchat.compaction.memory.lines import Call, Line, Source
from nbchat.compaction.results import (
    KEY,
    Node,
    Number,
    Siblings,
    is_id,
    siblings_in,
    with_key,
    written,
)
from nbchat.conversation.entries import Fact
from nbchat.conversation.search_index import TOOL_NAME as RECALL
from nbchat.conversation.tools import Tool, argument_names

MOST_RECORDS = 2_000
"""Objects that are kept, the newest: more than any allowance has room for."""

MOST_FIELDS, MOST_ITEMS, DEEPEST = 100, 200, 6
"""Fields of an object, items of a list, and levels of nesting that are kept."""

LONGEST_VALUE, LONGEST_TEXT = 2_000, 120
"""Characters of a text that are kept, and that are shown in a table."""

FEW = 5
"""Rows of a list that are a first look at it; the others are less important."""

RETURNED = "returned"
"""The field of what a call returned in words."""

Key = tuple[str, str, str]
"""Kind, field and value of an id; or nothing, nothing, and the digest of a call."""


@dataclass(frozen=True, slots=True)
class Record:
    """An object that a tool returned, for programs to read."""

    entity: str
    """Its id, or the call that returned it, such as `get_weather(city: Paris)`."""
    values: Mapping[str, str]
    """Its fields as they were written; lists and objects as JSON."""
    positions: Mapping[str, int]
    """The index in the transcript of each value."""


@dataclass(frozen=True)
class _Object(Source):
    """An object in its newest state, and what was written of it."""

    tool: str
    scope: str
    """The call that returned it, as it is shown."""
    fields: Node
    positions: dict[str, int]
    read_at: int
    label: str = ""
    """The field that has its id; empty where it has none."""
    asked: Mapping[str, Any] | None = None
    """The subject of a call, and its place, for an object without an id."""
    asked_at: int = 0
    is_in_words: bool = False
    """True if the line of its call says all of it."""
    is_sure: bool = True
    """True if the tool's name or the call says that the id is its own.

    The only id of an order may be that of its customer.
    """
    is_narrow: bool = False
    """True if only those fields are shown that tools take."""

    @cached_property
    def table(self) -> Hashable:
        """The same for all objects of one table."""
        return self.label or self.scope, frozenset(self.fields), self.is_narrow

    @cached_property
    def nodes(self) -> dict[str, list[Node]]:
        """The objects in each field that has some."""
        found = ((name, _nodes(value)) for name, value in self.fields.items())
        return {name: nodes for name, nodes in found if nodes}

    @cached_property
    def newest(self) -> int:
        """The index in the transcript of its newest value."""
        return max(self.positions.values(), default=0)

    def updated(self, newer: "_Object") -> "_Object":
        """With the fields that another result has of it."""
        return replace(
            self,
            fields=self.fields | newer.fields,
            positions=self.positions | newer.positions,
            read_at=newer.read_at,
        )

    @cached_property
    def id(self) -> str:
        """The value by which it is known; empty where it has none."""
        return plain_text(self.fields[self.label]) if self.label else ""


class Records:
    """The objects that tools returned, each in its newest state."""

    def __init__(self, most_records: int = MOST_RECORDS) -> None:
        """Start without a record; the newest `most_records` are kept."""
        self._most = most_records
        self._kept: dict[Key, tuple[_Object, ...]] = {}
        self._count = 0
        self._acts: dict[str, tuple[str, int]] = {}
        """The newest action that was asked for with a value, and where."""
        self._argument_names: set[str] = set()

    def read_tools(self, tools: Iterable[Tool]) -> None:
        """Note the names of arguments: fields with these names come first in a row."""
        self._argument_names |= argument_names(tools)

    def read_call(self, call: Call) -> None:
        """Read what a call returned; a call without a result is not read."""
        if call.tool == RECALL or call.result_position is None:
            return
        arguments = written_arguments(call.arguments)
        leaves = [leaf for _, each in arguments for leaf in each.leaves]
        self._argument_names |= {leaf.path.rpartition(".")[2] for leaf in leaves}
        if call.has_failed:
            return
        if not call.is_look_up:
            self._note_action(call, leaves)
        scope = shown_call(tool_name(call), arguments)
        self._count -= len(self._kept.pop(_unnamed_key(call), ()))
        for key, objects in _Reading(call, scope).objects(call.value):
            self._keep(key, objects)
        self._drop_oldest()

    def _note_action(self, call: Call, leaves: Iterable[Leaf]) -> None:
        for leaf in leaves:
            self._acts.pop(leaf.value, None)
            self._acts[leaf.value] = tool_name(call), call.result_position or 0

    def _keep(self, key: Key, objects: tuple[_Object, ...]) -> None:
        before = self._kept.pop(key, ())
        if before and objects[0].label:
            old, new = before[0], objects[0]
            is_other = old.tool != new.tool or old.read_at == new.read_at
            is_update = is_other and _is_same(old, new)
            objects = (old.updated(new),) if is_update else objects
        self._kept[key] = objects
        self._count += len(objects) - len(before)

    def _drop_oldest(self) -> None:
        while self._count > self._most and len(self._kept) > 1:
            self._count -= len(self._kept.pop(next(iter(self._kept))))
        while len(self._acts) > self._most:
            del self._acts[next(iter(self._acts))]

    def rows(self) -> list[Record]:
        """All objects that are kept, and calls that returned words, oldest first."""
        return [_record(each) for objects in self._kept.values() for each in objects]

    def lines(self, wide_share: float = 1.0) -> list[Line]:
        """Rows below the names of their columns, oldest first in each table.

        Only the newest `wide_share` of the objects have all their fields; of the others
        there are ids, and what arguments of tools are called.
        """
        tables: dict[Hashable, list[tuple[int, _Object]]] = {}
        taken = len(self._argument_names)  # names are only added
        narrow = len(self._kept) - round(len(self._kept) * wide_share)
        for order, objects in enumerate(self._kept.values()):
            for number, found in enumerate(objects):
                if found.is_in_words:
                    continue
                each = found
                if order < narrow:
                    each = found.once("narrow", taken, partial(self._narrowed, found))
                tables.setdefault(each.table, []).append((number, each))
        groups: dict[str, list[Line]] = {}
        for table in tables.values():
            for line in self._lines_of(table):
                groups.setdefault(line.group, []).append(line)
        return [line for lines in groups.values() for line in lines]

    def _narrowed(self, each: _Object) -> _Object:
        """An object with its id, and the fields that tools take or that hold such."""
        fields = {
            name: value
            for name, value in each.fields.items()
            if name == each.label
            or any(self._is_taken(n) for node in each.nodes.get(name, ()) for n in node)
            or (name not in each.nodes and self._is_taken(name))
        }
        return replace(each, fields=fields, is_narrow=True) if fields else each

    def _is_taken(self, name: str) -> bool:
        """True if tools take such a value: `orders` has what `order_id` takes."""
        one = singular(name)
        names = {name, one, f"{one}_id", f"{one}Id"}
        is_known = not names.isdisjoint(self._argument_names)
        return is_known or is_id(name) or name == KEY

    def _lines_of(self, table: Sequence[tuple[int, _Object]]) -> Iterator[Line]:
        """The lines of objects that have the same fields; each begins with its id."""
        columns = self._columns([each for _, each in table])
        if not columns:
            return
        rows = _longest_last([self._row(each, columns) for _, each in table])
        pieces = _pieces(rows, int(bool(table[0][1].label)))
        for (number, each), row in zip(table, rows, strict=True):
            layout = row, pieces, number, self._note(each)
            yield from each.once("lines", layout, partial(_lines, each, *layout))

    def _columns(self, objects: Sequence[_Object]) -> tuple["_Column", ...]:
        """The columns of a table: the id, what tools ask for, the rest."""
        label = objects[0].label
        is_shown = self._is_taken if objects[0].is_narrow else None
        columns = [
            _column(name, objects, is_shown)
            for name in objects[0].fields
            if any(each.fields[name] is not None for each in objects)
        ]

        def rank(each: _Column) -> tuple[bool, bool]:
            return each.name != label, not self._is_asked_for(each)

        return tuple(sorted(columns, key=rank))

    def _is_asked_for(self, column: "_Column") -> bool:
        """True if tools take such values: ids, and what arguments are called."""
        names = (column.name, *column.fields)
        return any(is_id(name) or name in self._argument_names for name in names)

    def _row(self, each: _Object, columns: tuple["_Column", ...]) -> "_Row":
        """The cells of an object, without what newer objects say of those in it."""
        old = {
            name: [
                self._old_fields(node, each.positions[name])
                for node in each.nodes[name]
            ]
            for name, fields in (columns if each.nodes else ())
            if fields and name in each.nodes
        }
        layout = columns, old
        return each.once("row", layout, partial(_cells, each, *layout))

    def _old_fields(self, node: Node, position: int) -> set[str]:
        """The fields of an inner object of which its own row has a newer state."""
        names = [name for name in node if is_id(name) and is_plain(node[name])]
        found = (self._kept.get(("", n, plain_text(node[n])), ()) for n in names)
        return {
            name
            for objects in found
            for newer in objects
            for name, value in node.items()
            if newer.positions.get(name, -1) > position and newer.fields[name] != value
        }

    def _note(self, each: _Object) -> str:
        """The action that was asked for with its id after it was read."""
        tool, position = self._acts.get(each.id, ("", -1))
        is_old = position > each.newest
        return f"(before {tool})" if each.label and is_old else ""


class _Reading:
    """Reads the result of one call."""

    def __init__(self, call: Call, scope: str) -> None:
        self._call, self._scope = call, scope
        self._asked = {
            name: bounded(value)
            for name, value in islice(call.arguments.items(), MOST_FIELDS)
            if is_plain(value)
        }
        self._is_named = namer(call)
        self._asked_texts = set(map(plain_text, self._asked.values()))
        self._tool_words = [singular(word) for word in words_of(call.tool)]

    def objects(self, value: Any) -> Iterator[tuple[Key, tuple[_Object, ...]]]:
        """The objects of a result by their keys; those without an id together."""
        groups = siblings_in(value, self._is_named)
        is_whole = len(groups) == 1 and not groups[0].is_list
        unnamed: list[_Object] = []
        for siblings in groups:
            label = self._label_of(siblings)
            nodes = siblings.objects
            if not label and is_whole and (label := self._only_argument()):
                yield self._named_by(label, nodes[0])
            elif label:
                key_of = partial(self._key, label, siblings.place)
                yield from (
                    (key_of(node), (self._made(node, label),)) for node in nodes
                )
            else:
                is_in_words = is_told(siblings, self._is_named)
                made = map(self._made, nodes)
                unnamed += [replace(each, is_in_words=is_in_words) for each in made]
        if not groups:
            unnamed += self._words()
        if unnamed:
            yield _unnamed_key(self._call), tuple(unnamed)

    def _only_argument(self) -> str:
        """The argument of a call that asked for one thing by its id."""
        names = list(self._call.arguments)
        return names[0] if len(names) == 1 and is_id(names[0]) and self._asked else ""

    def _named_by(self, argument: str, node: Node) -> tuple[Key, tuple[_Object]]:
        """The object that a call asked for, with the argument as its id."""
        rest = {name: value for name, value in node.items() if name != argument}
        made = self._made({argument: self._asked[argument], **rest}, argument)
        made.positions[argument] = self._call.position
        return self._key(argument, "", made.fields), (made,)

    def _words(self) -> Iterator[_Object]:
        """The words that a call with arguments returned; its own line shows them."""
        words = self._call.result.strip()
        if words and self._asked:
            yield replace(self._made({RETURNED: words}), is_in_words=True)

    def _made(self, node: Node, label: str = "") -> _Object:
        position = self._call.result_position or 0
        fields = bounded(node)
        positions = dict.fromkeys(fields, position)
        return _Object(
            tool_name(self._call),
            self._scope,
            fields,
            positions,
            position,
            label,
            {} if label else self._asked,
            self._call.position,
            is_sure=not label or self._is_own(label) or self._was_asked(label, [node]),
        )

    def _label_of(self, siblings: Siblings) -> str:
        """The field with the ids of objects; empty where none tells them apart.

        In a list, an id that was asked for is that of what the list belongs to.
        """
        nodes = siblings.objects
        names = [name for name in nodes[0] if self._names_each(name, nodes)]
        if siblings.is_list:
            names = [
                n for n in names if self._is_own(n) or not self._was_asked(n, nodes)
            ]
        names.sort(key=lambda n: (not self._is_own(n), not self._was_asked(n, nodes)))
        if names or siblings.is_list:
            return next(iter(names), "")
        return echo_in(nodes[0], self._call)

    def _names_each(self, name: str, nodes: Sequence[Node]) -> bool:
        if not (is_id(name) or name == KEY) or not all(
            is_plain(n.get(name)) for n in nodes
        ):
            return False
        return len({plain_text(node[name]) for node in nodes}) == len(nodes)

    def _is_own(self, name: str) -> bool:
        """True if a field is the id of what the tool is about, not of another thing."""
        words = words_of(name)[:-1]
        return name == KEY or not words or singular(words[-1]) in self._tool_words

    def _was_asked(self, name: str, nodes: Sequence[Node]) -> bool:
        return plain_text(nodes[0][name]) in self._asked_texts

    def _key(self, label: str, place: str, node: Node) -> Key:
        """The keys of an object in all results.

        Short ids of several kinds of things are equal, such as two `id: 7`: where the
        field does not say the kind, the tool's name does, such as `get_user`'s.
        """
        text = plain_text(node[label])
        is_code = any(map(str.isdigit, text)) and any(map(str.isalpha, text))
        if is_code or (words_of(label)[:-1] and label != KEY):
            return "", label, text
        return ".".join(["", *self._tool_words[1:], place]), label, text


def _unnamed_key(call: Call) -> Key:
    """By what the objects without an id are known that a call returned."""
    return "", "", digest(call).hex()


def singular(word: str) -> str:
    """A word without the `s` of a plural."""
    return word.removesuffix("s")


def bounded(value: Any, depth: int = 0) -> Any:
    """A value as far as it is kept."""
    if isinstance(value, dict):
        pairs = islice(value.items(), MOST_FIELDS)
        return {n: bounded(v, depth + 1) for n, v in pairs} if depth < DEEPEST else CUT
    if isinstance(value, list):
        items = value[:MOST_ITEMS]
        return [bounded(v, depth + 1) for v in items] if depth < DEEPEST else CUT
    if isinstance(value, Number) or not isinstance(value, str):
        return value
    return value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + CUT


def _is_same(old: _Object, new: _Object) -> bool:
    """True if two objects with one id are certainly the same thing.

    If not, one of them has no other fields than the other, and changes them only where
    the id certainly belongs to one of them.
    """
    if old.is_sure and new.is_sure:
        return True
    common = old.fields.keys() & new.fields.keys()
    is_part = len(common) == min(len(old.fields), len(new.fields))
    are_equal = all(old.fields[name] == new.fields[name] for name in common)
    return is_part and (are_equal or old.is_sure or new.is_sure)


def _record(each: _Object) -> Record:
    asked = dict(each.asked or {})
    values = {n: v for n, v in (asked | each.fields).items() if v is not None}
    positions = dict.fromkeys(asked, each.asked_at) | each.positions
    return Record(
        each.id or each.scope,
        {n: plain_text(v) if is_plain(v) else written(v) for n, v in values.items()},
        {name: positions[name] for name in values},
    )


class _Column(NamedTuple):
    """A field of the objects of a table."""

    name: str
    fields: tuple[str, ...] = ()
    """The fields of the objects in it; empty where it has no objects."""

    @property
    def header(self) -> str:
        """Its name, and those of the fields in it."""
        inner = ", ".join(map(shown_name, self.fields))
        return f"{shown_name(self.name)} ({inner})" if inner else shown_name(self.name)


@dataclass(frozen=True)
class _Cell:
    """A field of one object: one text, or one for each object or item in it."""

    column: _Column
    parts: tuple[Written, ...]
    separator: str = ", "

    @cached_property
    def size(self) -> int:
        """Characters of all parts."""
        return sum(len(part.text) + len(self.separator) for part in self.parts)

    @cached_property
    def text(self) -> str:
        """All parts."""
        return self.separator.join(part.text for part in self.parts)


_Row = tuple[_Cell, ...]

_Piece = tuple[int, int]
"""The first of the columns that stand together on a line, and where the next begin."""


def _column(
    name: str, objects: Sequence[_Object], is_shown: Callable[[str], bool] | None
) -> _Column:
    """A column of a table, with the names of inner fields where they are regular.

    `is_shown` tells which inner fields are shown, if not all are.
    """
    found = [each.nodes[name] for each in objects if name in each.nodes]
    nodes = [node for each in found for node in each]
    fields = tuple(dict.fromkeys(field for node in nodes for field in node))
    if nodes and is_shown:
        return _Column(name, tuple(filter(is_shown, fields)))
    has_more_gaps = len(fields) * len(nodes) > 2 * sum(map(len, nodes))
    full = sum(each.fields[name] not in (None, [], {}) for each in objects)
    if has_more_gaps or len(found) < full:
        return _Column(name)
    return _Column(name, fields)


def _nodes(value: Any) -> list[Node]:
    """The objects in a field, in a list or by their keys; empty for other values."""
    if isinstance(value, dict) and all(
        isinstance(each, dict) for each in value.values()
    ):
        return [with_key(name, each) for name, each in value.items()]
    nodes = value if isinstance(value, list) else [value]
    return nodes if all(isinstance(each, dict) and each for each in nodes) else []


def _cells(
    each: _Object, columns: Iterable[_Column], old: Mapping[str, Sequence[set[str]]]
) -> _Row:
    """The cells of an object; `old` has the fields of which others are newer."""
    return tuple(
        _cell_of_nodes(column, each.nodes[column.name], old[column.name])
        if column.name in old
        else _plain_cell(column, each.fields[column.name])
        for column in columns
    )


def _plain_cell(column: _Column, value: Any) -> _Cell:
    """A plain value, or the items of a list."""
    values = value if isinstance(value, list) and value else [value]
    has_objects = any(isinstance(each, dict) for each in values)
    parts = tuple(_written(each, column.name) for each in values)
    return _Cell(column, parts, "; " if has_objects else ", ")


def _cell_of_nodes(
    column: _Column, nodes: Sequence[Node], old: Sequence[set[str]]
) -> _Cell:
    """The objects in a field; `…` stands for a value of which a newer one is known."""
    parts = []
    for node, hidden in zip(nodes, old, strict=True):
        values = [
            Written(CUT)
            if field in hidden
            else _written(node.get(field), joined(column.name, field))
            for field in column.fields
        ]
        leaves = tuple(leaf for each in values for leaf in each.leaves)
        parts.append(Written(", ".join(each.text for each in values), leaves))
    return _Cell(column, tuple(parts), "; ")


def _written(value: Any, path: str) -> Written:
    writer = ValueWriter(LONGEST_TEXT, LINE_LENGTH)
    return Written(writer.text(value, path), tuple(writer.leaves))


def _longest_last(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Rows with the columns at the end that need lines of their own."""
    is_long = [size > LINE_LENGTH for size in _sizes(rows)]
    if not any(is_long):
        return rows
    order = sorted(range(len(is_long)), key=is_long.__getitem__)
    return [tuple(row[at] for at in order) for row in rows]


def _sizes(rows: Sequence[_Row]) -> list[int]:
    """The characters of the longest cell of each column."""
    return [max(cell.size for cell in cells) for cells in zip(*rows, strict=True)]


def _pieces(rows: Sequence[_Row], first: int) -> list[_Piece]:
    """Which columns stand together on a line: all, or as many as it has room for."""
    sizes, found, start = _sizes(rows), [], first
    for at in range(first + 1, len(sizes)):
        if sum(sizes[start : at + 1]) > LINE_LENGTH:
            found.append((start, at))
            start = at
    return [*found, (start, len(sizes))]


def _parts(cells: Sequence[_Cell]) -> Iterator[Sequence[_Cell]]:
    """Cells as they are, or one that is too long for a line in several parts."""
    if len(cells) != 1 or cells[0].size <= LINE_LENGTH:
        yield cells
        return
    taken: list[Written] = []
    size = 0
    for part in cells[0].parts:
        if taken and size + len(part.text) > LINE_LENGTH:
            yield [replace(cells[0], parts=tuple(taken))]
            taken, size = [], 0
        taken.append(part)
        size += len(part.text)
    yield [replace(cells[0], parts=tuple(taken))]


def _lines(
    each: _Object, row: _Row, pieces: Iterable[_Piece], number: int, note: str
) -> list[Line]:
    """The lines of one object, one for each piece or part of a cell, with its id."""
    first = row[: int(bool(each.label))]
    lines = []
    for start, stop in pieces:
        count = number
        for cells in _parts(row[start:stop]):
            weight = min(FEW - count, 0)
            lines.append(_line(each, [*first, *cells], note, weight))
            count += max((len(cell.parts) for cell in cells), default=0)
    return lines


def _line(each: _Object, row: Sequence[_Cell], note: str, weight: int) -> Line:
    leaves = [
        (cell, leaf) for cell in row for part in cell.parts for leaf in part.leaves
    ]
    entity = each.scope
    if each.label:
        label = row[0].parts[0]
        entity = label.leaves[0].value if label.leaves else label.text
    facts = tuple(
        Fact(entity, leaf.path, leaf.value, each.positions[cell.column.name])
        for cell, leaf in leaves
    )
    texts = [cell.text for cell in row]
    header = " | ".join(cell.column.header for cell in row)
    return Line(
        " | ".join([*texts, note] if note else texts),
        max(each.positions[cell.column.name] for cell in row),
        facts,
        f"[{header}]" if each.label else f"{each.scope}: [{header}]",
        _names(each, leaves),
        weight,
    )


def _names(each: _Object, leaves: Iterable[tuple[_Cell, Leaf]]) -> tuple[str, ...]:
    """The names by which messages and calls refer to it: its id, and ids inside it.

    The id of another thing, such as an order's customer, is not a name of it.
    """
    asked = set(map(plain_text, (each.asked or {}).values()))
    found = [each.id] if each.label else []
    for cell, leaf in leaves:
        is_inside = (
            not each.label or cell.column.name != leaf.path or len(cell.parts) > 1
        )
        if leaf.is_name and is_inside and leaf.value not in asked:
            found.append(leaf.value)
    return tuple(dict.fromkeys(found))
