"""Parse a block of facts, line by line, and find each statement in its source.

The parser knows the forms of a block and nothing of how it was made. A statement is
true when one JSON object of one result says it: the object holds the field with that
value, and it, or one around it, is the entity's: it has the entity as its own id, or the
call asked for it. A value that a newer result of the entity replaced is false. What was
done is true when that call was made and its result does not say otherwise.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import calls_by_result

GAP, CUT, NONE, HIDDEN, ARROW = "[…]", "…", "-", "…", "→"

_MORE = re.compile(r",? ?\+(\d+) more$")
_NOTE = re.compile(r"^\((?:\d+ more not shown|\d+ earlier omitted).*\)$")
_BEFORE = re.compile(r"^\(before ([\w.:/-]+)\)$")
_PART_BEFORE = re.compile(r" \(before [\w.:/-]+\)$")
_CALL = re.compile(r"^([\w.:/-]+)\((.*)\)$", re.DOTALL)
_TALLY = re.compile(r"^Calls made: (\d+) in all(?:, (.+))?$")
_TALLIED = re.compile(r"([\w.:/-]+) x(\d+)(?: \(([^)]*)\))?(?:, |$)")
_RANGE = re.compile(r"(.*?)(\d{1,9}) to (\1)(\d{1,9})")
_COLUMN = re.compile(r"^(.*) \(([^()]*)\)$")
_WHOSE = re.compile(r'^(- ".*") \(([\w.]+): ([\w.@#+-]+)\)$')

OwnId = Callable[[dict[str, Any]], str | None]
"""The id of what an object describes; None where it has none of its own."""


class Statement(NamedTuple):
    """What one line says."""

    line: str
    kind: str
    """row, call, done, failed, unknown, returned, quote, tally, or unparsed."""
    scope: str = ""
    """The call above a row, as it is written."""
    label: tuple[str, str] = ("", "")
    """Field and value that name the entity of a row."""
    cells: tuple[tuple[str, str], ...] = ()
    """Columns and their contents, unparsed."""


def split(text: str, sign: str) -> list[str]:
    """Split at a sign, but not inside quotation marks or brackets."""
    parts, depth, is_quoted, start, at = [], 0, False, 0, 0
    while at < len(text):
        if is_quoted:
            is_quoted = text[at] != '"'
            at += text[at] == "\\"
        elif text[at] == '"' and (at == 0 or text[at - 1] in " (:,;/|"):
            is_quoted = True
        elif text[at] in "([":
            depth += 1
        elif text[at] in ")]":
            depth = max(0, depth - 1)
        elif not depth and text.startswith(sign, at):
            parts.append(text[start:at])
            at += len(sign)
            start = at
            continue
        at += 1
    return [*parts, text[start:]]


def plain(text: str) -> str:
    """A value without the quotation marks that protect it."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return text


def one_line(value: Any) -> str:
    """A value as a block would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(str(value).split())


TITLES = {
    "done": "done",
    "tried": "failed",
    "failed": "failed",
    "interrupted": "unknown",
    "returned": "returned",
    "called": "returned",
    "used in calls": "used",
    "also named": "named",
    "known": "row",
}
"""Kinds of lines by the word that the title above them begins with."""


def parse(lines: Sequence[str]) -> Iterator[Statement]:
    """The statements of a block, in order."""
    reader = _Reader()
    for raw in lines:
        line = raw.replace("&lt;", "<").rstrip()
        if line and not _NOTE.match(line) and not reader.is_heading(line):
            yield reader.statement(line)


@dataclass
class _Reader:
    """Reads a block line by line; headings say what the lines below them are."""

    kind: str = "row"
    scope: str = ""
    header: list[str] = field(default_factory=list)
    is_below_title: bool = False

    def is_heading(self, line: str) -> bool:
        """Whether a line is a title or a table's header, which is then in force."""
        if line.startswith("[") and line.endswith("]"):
            self.scope = self.scope if self.is_below_title else ""
            self.kind, self.header = "row", split(line[1:-1], " | ")
        elif line.endswith(":") and (call := _CALL.match(line[:-1])):
            self.kind, self.scope, self.header = "row", call[0], []
        elif line.endswith(":"):
            kinds = (k for word, k in TITLES.items() if line.lower().startswith(word))
            self.kind, self.scope, self.header = next(kinds, "row"), "", []
        else:
            return False
        self.is_below_title = True
        return True

    def statement(self, line: str) -> Statement:
        """What a line says that is no heading."""
        self.is_below_title = False
        if _TALLY.match(line):
            return Statement(line, "tally")
        if line.startswith("- ") or self.kind == "quote":
            return _quote(line)
        if self.kind != "row":
            return Statement(line, self.kind)
        return _row(line, self.scope, self.header)


def _quote(line: str) -> Statement:
    found = _WHOSE.match(line)
    text, *owner = found.groups() if found else (line,)
    cells = (("", plain(text.lstrip("- "))), *([tuple(owner)] if owner else []))
    return Statement(line, "quote", cells=cells)


def _row(line: str, scope: str, header: Sequence[str]) -> Statement:
    cells = split(line, " | ")
    named = cells[len(header) :]  # values that few rows have follow with their names
    pairs = [*zip(header, map(str.strip, cells), strict=False), *map(_named, named)]
    name = pairs[0][0]
    is_label = name and name != "parts" and not _COLUMN.match(name)
    label = pairs[0] if is_label else ("", "")
    return Statement(line, "row", scope, (label[0], plain(label[1])), tuple(pairs))


def _named(cell: str) -> tuple[str, str]:
    parts = split(cell, ": ")
    return ("", cell) if len(parts) == 1 else (parts[0].strip(), ": ".join(parts[1:]))


@dataclass(frozen=True)
class Source:
    """One call, as it is in the transcript."""

    tool: str
    index: int
    asked: dict[str, Any]
    content: str
    is_error: bool = False

    @cached_property
    def answer(self) -> Any:
        """The JSON or the table of the result; None for words."""
        try:
            return _decoded(_by_row(json.loads(self.content)))
        except (ValueError, RecursionError):
            return _table(self.content)

    @cached_property
    def asked_texts(self) -> dict[str, list[str]]:
        """The arguments by their paths."""
        return leaves_by_path(self.asked)

    @cached_property
    def nodes(self) -> list["Node"]:
        """All objects of the result."""
        return list(_nodes(self.answer, ()))


def _by_row(answer: Any) -> Any:
    """The rows of an object that holds its columns apart."""
    if not isinstance(answer, dict) or not isinstance(answer.get("columns"), list):
        return answer
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["data"]]


def _decoded(answer: Any) -> Any:
    """An answer with the resources of JSON:API as plain objects."""
    if isinstance(answer, list):
        return [_decoded(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    if {"type", "id", "attributes"} <= answer.keys():
        related = answer.get("relationships", {}).items()
        ids = {f"{name}_id": each["data"]["id"] for name, each in related}
        own = {f"{answer['type'].removesuffix('s')}_id": answer["id"]}
        return {**own, **ids, **answer["attributes"]}
    return {key: _decoded(each) for key, each in answer.items()}


def _table(content: str) -> list[dict[str, str]] | None:
    """The rows of CSV, or of a table in Markdown."""
    lines = content.rsplit(", as CSV:\n", maxsplit=1)[-1].strip().splitlines()
    if len(lines) < 2:
        return None
    if lines[0].startswith("|"):
        rows = [[c.strip() for c in line.strip("| ").split("|")] for line in lines]
        del rows[1]
    else:
        rows = list(csv.reader(lines, delimiter="\t" if "\t" in lines[0] else ","))
    is_table = len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)
    return [dict(zip(rows[0], row, strict=True)) for row in rows] if is_table else None


@dataclass(frozen=True)
class Node:
    """An object of a result, and those around it, the outermost first."""

    value: dict[str, Any]
    around: tuple[dict[str, Any], ...]
    keys: tuple[str, ...]
    """Keys on the way to it."""

    @cached_property
    def leaves(self) -> dict[str, list[str]]:
        """All plain values in it by their paths."""
        return leaves_by_path(self.value)


def _nodes(
    value: Any, around: tuple[dict[str, Any], ...], keys: tuple[str, ...] = ()
) -> Iterator[Node]:
    if isinstance(value, dict):
        yield Node(value, around, keys)
        for key, inner in value.items():
            yield from _nodes(inner, (*around, value), (*keys, str(key)))
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, list):  # a row of its own, such as two flights
                yield Node({"parts": inner}, around, keys)
            yield from _nodes(inner, around, keys)


def leaves_by_path(value: Any, path: str = "") -> dict[str, list[str]]:
    """Plain values by dotted paths; the elements of a list have the list's path."""
    found: dict[str, list[str]] = {}
    waiting = [(path, value)]
    while waiting:
        name, each = waiting.pop()
        if isinstance(each, dict):
            waiting += [(f"{name}.{k}" if name else str(k), v) for k, v in each.items()]
            if name and each and all(isinstance(v, dict) for v in each.values()):
                waiting += [(name, key) for key in each]  # objects by their ids
        elif isinstance(each, list):
            waiting += [(name, inner) for inner in each]
        elif each is not None:
            found.setdefault(one_line(name), []).append(one_line(each))
    return found


def sources(entries: Sequence[Entry]) -> list[Source]:
    """All calls in the order of their results; a call without one comes last."""
    by_result = calls_by_result(entries)
    found = [
        Source(
            entries[call].tool_name,
            result,
            entries[call].arguments,
            entries[result].content,
            entries[result].is_error,
        )
        for result, call in sorted(by_result.items())
    ]
    answered = set(by_result.values())
    return found + [
        Source(entry.tool_name, index, entry.arguments, "", is_error=True)
        for index, entry in enumerate(entries)
        if entry.is_call and index not in answered
    ]


def any_id(node: dict[str, Any]) -> str | None:
    """For recorded results, whose ids are not known: any value may be the id."""
    del node
    return None


@dataclass
class Judge:
    """Finds the statements of a block in the transcript that it covers."""

    entries: Sequence[Entry]
    own_id: OwnId = any_id
    """Of generated results it is known."""
    acts: Callable[[Source], bool] = lambda source: (
        not re.match(
            r"(?:get|find|search|list|look|read|calc|think|check|run|fetch|query|view)",
            source.tool,
        )
    )
    """Whether a call did what it says: a tool that acts, an answer that says so."""
    checked: int = 0
    _said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the transcript."""
        self.sources = sources(self.entries)
        self._said = [
            one_line(entry.content)
            for entry in self.entries
            if entry.role in ("user", "assistant", "summary")
        ]

    def false(self, lines: Sequence[str]) -> list[str]:
        """What is wrong, a line each: the reason and the line it stands in."""
        return [
            f"{reason}: {statement.line}"
            for statement in parse(lines)
            for reason in self._faults(statement)
        ]

    def _faults(self, statement: Statement) -> Iterator[str]:
        match statement.kind:
            case "row":
                yield from self._row_faults(statement)
            case "tally":
                yield from self._tally_faults(statement.line)
            case "quote":
                yield from self._quote_faults(statement.cells[0][1])
                for name, value in statement.cells[1:]:
                    yield from self._owner_faults(name, value)
            case "named":
                for name in split(_MORE.sub("", statement.line), ", "):
                    yield from self._quote_faults(plain(name))
            case "used":
                yield from self._used_faults(statement.line)
            case kind:
                yield from self._call_faults(statement.line, kind)

    def _quote_faults(self, text: str) -> Iterator[str]:
        self.checked += 1
        parts = [one_line(part) for part in text.removesuffix(CUT).split(GAP)]
        if not any(all(part in said for part in parts) for said in self._said):
            yield "no message says this"

    def _owner_faults(self, name: str, value: str) -> Iterator[str]:
        self.checked += 1
        answers = (leaves_by_path(source.answer) for source in self.sources)
        told = chain(answers, (source.asked_texts for source in self.sources))
        if not any(
            path.rpartition(".")[2] == name.rpartition(".")[2] and value in texts
            for paths in told
            for path, texts in paths.items()
        ):
            yield f"no record has {name} {value}"

    def _tally_faults(self, line: str) -> Iterator[str]:
        found = _TALLY.match(line)
        made = [source for source in self.sources if source.tool != "recall"]
        if found is None or int(found[1]) != len(made):
            yield f"{len(made)} calls were made"
            return
        for tool, count, _ in _TALLIED.findall(found[2] or ""):
            self.checked += 1
            if int(count) != sum(source.tool == tool for source in made):
                yield f"{tool} was not called {count} times"

    def _used_faults(self, line: str) -> Iterator[str]:
        """Arguments of calls: a name, and values that calls were made with; or a call."""
        if _CALL.match(split(line, f" {ARROW} ")[0]):
            yield from self._call_faults(line, "used")
            return
        name, text = _named(_MORE.sub("", line))
        for value in split(text, ", "):
            self.checked += 1
            made = (source.asked_texts.get(name, []) for source in self.sources)
            if not any(plain(value) in texts for texts in made):
                yield f"no call was made with {name} {value!r}"

    def _call_faults(self, line: str, kind: str) -> Iterator[str]:
        """A line names a call; after an arrow stands what came back."""
        self.checked += 1
        parts = split(line, f" {ARROW} ")
        shown, words = _MORE.sub("", parts[0]), " ".join(parts[1:])
        made = list(self._made(shown))
        if not made:
            yield "no such call was made"
        elif kind == "done" and not all(any(map(self.acts, each)) for each in made):
            yield "it was not done"
        elif words and not any(_is_said(words, s) for each in made for s in each):
            yield "it did not return this"

    def _made(self, shown: str) -> Iterator[list[Source]]:
        """The calls that a text names, each with all equal ones; none if one is not."""
        if shown.endswith(")"):
            wanted = [shown]
        else:  # one call for each of the values after it
            opening, *values = split(", ".join(split(shown, " | ")), ", ")
            opening, _, value = opening.rpartition(": ")
            value, *values = _in_full([value, *values])
            call, _, name = opening.rpartition(" ")
            if name == "for":  # entities that the results name
                yield from self._named(call, [value, *values])
                return
            inner = call[:-1] + ("" if call.endswith("()") else ", ")
            wanted = [f"{inner}{name}: {each})" for each in [value, *values]]
        found = [self._equal(text) for text in wanted]
        if all(found):
            yield from found

    def _named(self, call: str, names: Sequence[str]) -> Iterator[list[Source]]:
        made = self._equal(call)
        found = [[s for s in made if s.content.startswith(f"{n}:")] for n in names]
        if all(found):
            yield from found

    def _equal(self, shown: str) -> list[Source]:
        call = _CALL.match(shown.strip())
        if call is None:
            return []
        asked = [_named(part) for part in split(call[2], ", ")] if call[2] else []
        found = [
            source
            for source in self.sources
            if source.tool == call[1] and _is_asked(asked, source)
        ]
        exact = [
            source
            for source in found
            if sum(map(len, source.asked_texts.values())) == len(asked)
        ]
        return exact or found

    def _row_faults(self, statement: Statement) -> Iterator[str]:
        if statement.scope:
            yield from self._result_faults(statement)
            return
        if any(_CALL.match(column) for column, _ in statement.cells):
            yield from self._decision_faults(statement)
            return
        own = list(self._own(statement))
        if not own:
            yield "no object has this id"
            return
        for column, text in statement.cells:
            if (column, plain(text)) != statement.label:
                yield from self._cell_faults(column, text, own, statement)

    def _result_faults(self, statement: Statement) -> Iterator[str]:
        """A row under a call is one object of its newest result."""
        made = self._equal(statement.scope)
        if not made:
            yield "no such call was made"
            return
        shortest: list[str] = ["the call returned nothing like this"]
        for number, node in enumerate(made[-1].nodes):
            faults = [
                fault
                for column, text in statement.cells
                for fault in self._cell_faults(
                    column, text, [(made[-1], node)], statement
                )
            ]
            if not number or len(faults) < len(shortest):
                shortest = faults
        yield from shortest

    def _decision_faults(self, statement: Statement) -> Iterator[str]:
        """What actions set for an entity, which the call or its result names."""
        name, subject = statement.label
        for column, text in statement.cells[1:]:
            call = _CALL.match(column)
            self.checked += 1
            if call is None:
                yield f"{column} is no call"
                continue
            made = [
                source
                for source in self.sources
                if source.tool == call[1]
                and self.acts(source)
                and (
                    subject in source.asked_texts.get(name, ())
                    or (name == "for" and source.content.startswith(f"{subject}:"))
                )
            ]
            if text == NONE:
                if made:
                    yield f"{column} was done"
            elif text != HIDDEN and (
                not made or plain(text) not in made[-1].asked_texts.get(call[2], ())
            ):
                yield f"{column} was not {text!r}"

    def _own(self, statement: Statement) -> Iterator[tuple[Source, Node]]:
        """The objects that a row is about, the oldest first."""
        name, value = statement.label
        for source in self.sources:
            for node in source.nodes:
                if name and self._is_about(name, value, source, node):
                    yield source, node

    def _is_about(self, name: str, value: str, source: Source, node: Node) -> bool:
        holder, _, end = name.rpartition(".")
        if holder and holder in node.keys:  # such as `owner.id`
            return one_line(node.value.get(end, "")) == value
        own = self.own_id(node.value)
        if own is not None:  # the same number may be an order's and a ticket's
            is_own = one_line(node.value.get(name, "")) == value
            is_unlike_others = len(value) > 3 and any(map(str.isalpha, value))
            return one_line(own) == value and (
                is_own or is_unlike_others or value in source.asked_texts.get(name, ())
            )
        is_keyed = bool(node.keys) and one_line(node.keys[-1]) == value
        is_known = self.own_id is not any_id  # equal ids may be those of other things
        asked = source.asked_texts
        lists = [asked.get(name, [])] if is_known else asked.values()
        is_asked = any(value in texts for texts in lists)
        is_outer = not any(self.own_id(outer) for outer in node.around)
        if node.value.get("status") == "failed":  # of the call, not of what it was for
            return False
        holds = value in node.leaves.get(name, ())
        return holds or is_keyed or (is_asked and is_outer)

    def _cell_faults(
        self,
        column: str,
        text: str,
        own: Sequence[tuple[Source, Node]],
        statement: Statement,
    ) -> Iterator[str]:
        self.checked += 1
        text, header = _MORE.sub("", text), _COLUMN.match(column)
        name = header[1] if header else column
        if text == HIDDEN:
            return
        if text == NONE:
            if _is_there(own, name):
                yield f"{column} is not missing"
        elif header or name == "parts":
            yield from _part_faults(name, header[2] if header else "", text, own)
        elif before := _BEFORE.match(text):
            if not any(source.tool == before[1] for source in self.sources):
                yield "no such action"
        elif name != "key" or not any(plain(text) in node.keys for _, node in own):
            yield from self._value_faults(name, text, _holding(own, name), statement)

    def _value_faults(
        self,
        name: str,
        text: str,
        holding: Sequence[tuple[Source, Node]],
        statement: Statement,
    ) -> Iterator[str]:
        if not any(_says(node, name, text) for _, node in holding):
            yield f"{statement.label[1]!r} has no {name} {text!r}"
        elif not statement.scope and self._is_old(name, text, holding):
            is_marked = any(_BEFORE.match(each) for _, each in statement.cells)
            if not is_marked:
                yield f"{name} {text!r} was replaced"

    def _is_old(
        self, name: str, text: str, holding: Sequence[tuple[Source, Node]]
    ) -> bool:
        """Whether every result that says it was followed by one that does not."""

        def replaces(later: tuple[Source, Node], source: Source, node: Node) -> bool:
            other, newer = later
            is_known = self.own_id is not any_id
            is_same = is_known or other.tool == source.tool
            is_newer = other.index > source.index and is_same
            common = len(newer.value.keys() & node.value.keys())
            is_alike = common * 2 > min(len(newer.value), len(node.value))
            is_kind = is_known or is_alike
            return is_newer and is_kind and not _says(newer, name, text)

        saying = [each for each in holding if _says(each[1], name, text)]
        return all(any(replaces(n, *each) for n in holding) for each in saying)


def _in_full(values: Sequence[str]) -> Iterator[str]:
    """Values, and for `T1 to T3` each of the ids."""
    for value in values:
        if found := _RANGE.fullmatch(value):
            width = len(found[2]) if found[2].startswith("0") else 1
            for number in range(int(found[2]), int(found[4]) + 1):
                yield f"{found[1]}{number:0{width}}"
        else:
            yield value


def _is_said(words: str, source: Source) -> bool:
    """Whether a result says these words, of which the end may be cut."""
    words = plain(words).removesuffix(CUT).strip()
    texts = [one_line(source.content)]
    if source.answer is not None:
        texts += [t for each in leaves_by_path(source.answer).values() for t in each]
        nodes = [node.leaves for node in source.nodes]
        if all(_is_object(each, nodes) for each in split(words, "; ")):
            return True
    return any(words in text for text in texts) or words == "nothing found"


def _is_object(shown: str, nodes: Sequence[dict[str, list[str]]]) -> bool:
    """Whether one object of a result has all these values; the last may be cut."""
    pairs = [_named(pair) for pair in split(shown, ", ")]
    return any(
        all(
            any(value.startswith(plain(text)) for value in leaves.get(name, []))
            for name, text in pairs
        )
        for leaves in nodes
    )


def _is_asked(asked: Sequence[tuple[str, str]], source: Source) -> bool:
    for name, text in asked:
        texts = source.asked_texts.get(name.strip(), [])
        wanted = plain(text)
        start = wanted.removesuffix(CUT) if wanted.endswith(CUT) else None
        if not any(t == wanted or (start and t.startswith(start)) for t in texts):
            return False
    return True


def _is_there(own: Sequence[tuple[Source, Node]], name: str) -> bool:
    """Whether the newest result of some tool has the field.

    What a search returned is said under the search.
    """
    newest = {
        source.tool: (source, node) for source, node in own if not _is_list(source)
    }
    return bool(_holding(list(newest.values()), name))


def _is_list(source: Source) -> bool:
    """Whether a result is a list of records, in an envelope or not."""
    answer = source.answer
    if isinstance(answer, dict):
        return any(isinstance(answer.get(name), list) for name in ("data", "result"))
    return isinstance(answer, list)


def _part_faults(
    name: str, fields: str, text: str, own: Sequence[tuple[Source, Node]]
) -> Iterator[str]:
    for part in split(text, "; "):
        names = fields.split(", ") if fields else []
        if not any(_has_part(node, name, names, part) for _, node in own):
            yield f"no {name} {part!r}"


def _holding(
    own: Sequence[tuple[Source, Node]], name: str
) -> list[tuple[Source, Node]]:
    """The objects that have a field."""
    return [each for each in own if _value(each[1], "" if name == "parts" else name)]


def _value(node: Node, name: str) -> list[str]:
    return [
        text
        for path, texts in node.leaves.items()
        if _leads_to(path, name)
        for text in texts
    ]


def _leads_to(path: str, name: str) -> bool:
    """Whether a path is a field's, or inside it; ids of objects may stand between."""
    if not name or path == name or path.startswith(f"{name}."):
        return True
    first, *rest = name.split(".")
    steps = iter(path.split("."))
    return bool(rest) and next(steps) == first and all(r in steps for r in rest)


def _says(node: Node, name: str, text: str) -> bool:
    """Whether the field has the value, or holds all values of a description."""
    texts = _value(node, name)
    if plain(text) in texts or _says_parts(node, name, text):
        return True
    return all(
        _is_described(node, name, part)
        for group in split(text, "; ")
        for part in split(group, ", ")
    )


def _says_parts(node: Node, name: str, text: str) -> bool:
    """Whether `items.id` with several values is true of one item each."""
    first, _, own = name.partition(".")
    groups = split(text, "; ")
    return bool(own) and all(_has_part(node, first, [own], each) for each in groups)


def _is_described(node: Node, name: str, part: str) -> bool:
    """Whether a part of a description is a value there, or `zip 12345`."""
    value = plain(part)
    if value in _value(node, name):
        return True
    return any(
        part.strip().startswith(f"{own} ")
        and plain(part.strip().removeprefix(f"{own} ")) in texts
        for path, texts in node.leaves.items()
        if path.startswith(name)
        for own in _ends_of(path)
    )


def _ends_of(path: str) -> list[str]:
    """The last steps of a path: one, and two."""
    steps = path.split(".")
    return [".".join(steps[-count:]) for count in (1, 2)]


def _has_part(node: Node, name: str, fields: Sequence[str], part: str) -> bool:
    """Whether one object inside, under the field's name, has all the values."""
    if name in ("parts", ""):
        inside = list(_nodes(node.value, ()))
    else:
        inside = [each for key in _paths(node.value, name) for each in _nodes(key, ())]
    values = split(_PART_BEFORE.sub("", part), ", ")
    return any(_matches(each, fields, values) for each in inside)


def _paths(value: Any, name: str) -> Iterator[Any]:
    """What stands under a field, wherever inside the object it is."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if one_line(key) == name:
                yield inner
                if isinstance(inner, dict):  # objects by their ids
                    yield from (
                        {"": k, **v} for k, v in inner.items() if isinstance(v, dict)
                    )
            yield from _paths(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, name)


def _matches(node: Node, fields: Sequence[str], values: Sequence[str]) -> bool:
    keyed = dict(zip(fields, values, strict=False))
    for name, text in keyed.items():
        texts = [*node.leaves.get(name, []), *node.leaves.get("", [])]
        if (
            plain(text) not in (NONE, HIDDEN)
            and not all(plain(each) in texts for each in split(text, "/"))
            and plain(text) not in texts
        ):
            return False
    return all(_is_described(node, "", text) for text in values[len(fields) :])
