"""Find each line of a memory in the one place of the transcript that says it.

The judge knows the forms of lines and nothing of how they were made. It reads the lines
with their positions and judges by the entries alone: a copied text stands there, a row
is one object of a result and no newer result has another value, a call was made with
these arguments and returned these words, a counted call was made so many times.
"""

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from nbchat.compaction.memory.memory import masked
from nbchat.conversation.entries import Compaction, Entry, Fact, MemoryLine
from nbchat.conversation.turns import calls_by_result, turns

CUT, NOTHING, ARROW = "…", "-", " → "

OwnId = Callable[[dict[str, Any]], str | None]
"""The id of what an object describes; None where it has none of its own."""

OF_CODE = ("defined", "column", "literal", "file", "table", "address", "error")
"""Fields of facts that no JSON names: what code and outputs show, by its kind."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_OMITTED = re.compile(r"\n\[([\d,]+) characters omitted\]\n")
_MARK = re.compile(
    r"\[pasted, [\d,]+ characters: (.*?) \.\.\.; \d+\]|\[pasted: (.*?)\]"
    r"|\[\.\.\. [\d,]+ words; \d+\]",
    re.DOTALL,
)
_SIZE = re.compile(r"\[pasted, ([\d,]+) characters: |\[\.\.\. ([\d,]+) words; \d+\]")
_RAISED = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:: .*)?")
_ATTACHED = re.compile(r"\[(\w+) (\d+): (.*)\]", re.DOTALL)
_BULLET = re.compile(
    r"(.*?)(?: \(asked (\d+) times\))?(?: \[([^\]]*)\])?(?: → (.*))?", re.DOTALL
)
_TIMES = re.compile(r" \(([\d,]+) times\)$")
_BEFORE = re.compile(r"\(before (.+)\)")
_MISSING = re.compile(r"([\d,]+) messages? \((\d+)(?: to (\d+))?\)")
_COLUMN = re.compile(r"(.*?) \((.*)\)")
_EXIT = re.compile(r"exit_?(?:code|status)|return_?code", re.IGNORECASE)
_EXIT_TAG = re.compile(r"<(\w+)>\s*[+-]?0*[1-9]\d*\s*</\1>")
_NOT_TYPED = re.compile(r"(?ms)^\s*(```|~~~).*?(?:^\s*\1|\Z)|^\s*>[^\n]*")


def one_line(text: str) -> str:
    """A text with one space for all that only moves or controls."""
    return _SPACE.sub(" ", text).strip()


def are_in_order(pieces: Iterable[str], text: str) -> bool:
    """True if a text has all pieces, one after the other."""
    at, text = 0, one_line(text)
    for piece in map(one_line, pieces):
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def top_level(text: str) -> Iterator[int]:
    """The indices of a text that are outside of quotes and brackets."""
    depth, is_quoted, at = 0, False, 0
    while at < len(text):
        sign = text[at]
        if is_quoted:
            at += sign == "\\"
            is_quoted = sign != '"'
        elif sign == '"' and (at == 0 or text[at - 1] in " (:,;/|{["):
            is_quoted = True
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        if depth == 0 and not is_quoted:
            yield at
        at += 1


_CHANGES = re.compile(
    r"  # (?:then(?:, last of several:)? |the last of several changes$)"
)


def split(text: str, sign: str, most: int = -1) -> list[str]:
    """Split at a sign outside of quotes and brackets."""
    parts, start = list[str](), 0
    for at in top_level(text):
        if at >= start and text.startswith(sign, at) and len(parts) != most:
            parts.append(text[start:at])
            start = at + len(sign)
    return [*parts, text[start:]] if text else []


def plain(value: Any) -> str:
    """A plain value of JSON as it is written."""
    return value if isinstance(value, str) else json.dumps(value)


def unquoted(text: str) -> str:
    """A text without the quotes that protect it."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    return text


def shows(text: str, value: Any) -> bool:
    """True if a text shows a value, of which parts may be hidden."""
    if text == CUT or value is None:
        return text in (CUT, NOTHING)
    if isinstance(value, dict):
        is_object = text[:1] + text[-1:] == "{}"
        return is_object and shows_pairs(split(text[1:-1], ", "), value)
    if isinstance(value, list):
        items, places = split(text[1:-1], ", "), iter(value)
        is_whole = CUT in items or len(items) == len(value)
        are_shown = all(t == CUT or any(shows(t, v) for v in places) for t in items)
        return text[:1] + text[-1:] == "[]" and is_whole and are_shown
    source = one_line(plain(value))
    if text.endswith(CUT):
        return source.startswith(one_line(unquoted(text[:-1])))
    return source == one_line(unquoted(text))


def shows_pairs(pairs: Sequence[str], value: Mapping[str, Any]) -> bool:
    """True if each `name: value` is one of an object's, and none is missing unmarked."""
    shown = [split(pair, ": ", 1) for pair in pairs if pair != CUT]
    is_whole = CUT in pairs or len(shown) == len(value)
    return is_whole and all(
        len(pair) > 1
        and any(shows(pair[0], n) and shows(pair[1], v) for n, v in value.items())
        for pair in shown
    )


def shows_cell(column: str, text: str, node: Mapping[str, Any]) -> bool:
    """True if a cell shows a field of an object, or some of the items in it.

    The name of a column of objects ends with their fields, which part the values.
    """
    found = _COLUMN.fullmatch(column)
    value = field_of(found[1] if found else column, node)
    if found and value not in (None, [], {}):
        fields = [unquoted(name) for name in split(found[2], ", ")]
        parts = [split(part, ", ") for part in split(text, "; ")]
        return all(
            any(_shows_fields(fields, part, each) for each in nodes_in(value))
            for part in parts
        )
    if isinstance(value, list) and value:
        parts = [split(text, sign) for sign in (", ", "; ")]
        return any(all(any(shows(t, v) for v in value) for t in ts) for ts in parts)
    return shows(text, value)


def has_column(column: str, node: Mapping[str, Any]) -> bool:
    """True if an object has the field of a column."""
    found = _COLUMN.fullmatch(column)
    return any(shows(found[1] if found else column, name) for name in node)


def _shows_fields(
    fields: Sequence[str], texts: Sequence[str], node: Mapping[str, Any]
) -> bool:
    return len(fields) == len(texts) and all(
        shows(text, node.get(name)) for name, text in zip(fields, texts, strict=True)
    )


def nodes_in(value: Any) -> list[dict[str, Any]]:
    """The objects in a field: in a list, by their keys, or one."""
    if isinstance(value, dict) and all(isinstance(v, dict) for v in value.values()):
        keyed = [{"key": name, **each} for name, each in value.items()]
        return [*keyed, value]
    nodes = value if isinstance(value, list) else [value]
    return [each for each in nodes if isinstance(each, dict)]


def field_of(name: str, node: Mapping[str, Any]) -> Any:
    """The value of a field by its name as it is shown."""
    return next((value for key, value in node.items() if shows(name, key)), None)


class Digits(str):
    """A number as it is written."""

    __slots__ = ()


def decoded(text: str) -> Any:
    """The JSON of a text with its numbers as written, or the rows of its table."""
    try:
        value = json.loads(text, parse_int=Digits, parse_float=Digits)
    except (ValueError, RecursionError):
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines):
            return [decoded(line) for line in lines]
        return rows_of(text)
    is_text = isinstance(value, str) and not isinstance(value, Digits)
    return decoded(value) if is_text else value


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a table: with bars, CSV, or a printed frame."""
    lines = text.rsplit(", as CSV:\n", maxsplit=1)[-1].strip("\r\n").splitlines()
    lines = [line for line in lines if set(line) - set("|-+=: ")]
    if sum("|" in line for line in lines) > 1:
        rows = [
            re.split(r"(?<!\\)\|", each.strip(" |")) for each in lines if "|" in each
        ]
        return _objects_of(rows)
    for sign in "\t;,":
        if lines and sign in lines[0]:
            return _objects_of(list(csv.reader(lines, delimiter=sign)))
    lines = [line for line in lines if not line.startswith("[")]
    stops = [0, *_column_ends(lines)]
    return _objects_of([[line[a:b] for a, b in pairwise(stops)] for line in lines])


def _objects_of(rows: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    cells = [[cell.strip().replace("\\|", "|") for cell in row] for row in rows]
    header = [name or "index" for name in cells[0]] if cells else []
    return [dict(zip(header, row, strict=False)) for row in cells[1:]]


def _column_ends(lines: Sequence[str]) -> list[int]:
    """Where the words of the header end and a cell of every row, the index before."""
    names = list(re.finditer(r"\S+", lines[0])) if lines else []

    def is_end(at: int) -> bool:
        return all(e[at - 1 : at].strip() and not e[at : at + 1].strip() for e in lines)

    ends = [name.end() for name in names if is_end(name.end())]
    blank = (
        (
            k
            for k in range(1, names[0].end())
            if not any(e[k].strip() for e in lines if e[k:])
        )
        if names
        else iter(())
    )
    return [next(blank, 0), *ends]


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a result, also those that stand by their keys or by columns."""
    if isinstance(value, list):
        for each in value:
            yield from objects_in(each)
    elif isinstance(value, dict):
        yield value
        lists = [each for each in value.values() if isinstance(each, list)]
        for names in lists:
            if all(isinstance(name, str) for name in names):
                rows = [r for rows in lists for r in rows if isinstance(r, list)]
                yield from (dict(zip(names, row, strict=False)) for row in rows)
        inner = {k: v for k, v in value.items() if isinstance(v, dict)}
        yield from ({"key": name, **each} for name, each in inner.items())
        for key in filter(str.isdigit, next(iter(inner.values()), {})):
            yield {name: each.get(key) for name, each in inner.items()}
        yield from objects_in(list(value.values()))


def leaves_of(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The plain values of JSON, each with the name of the field that it is in."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield "key", key
            yield from leaves_of(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from leaves_of(each, name)
    else:
        yield name, plain(value)


@dataclass(frozen=True)
class Source:
    """A call with its result."""

    call: Entry
    result: Entry
    call_index: int
    index: int

    @cached_property
    def asked(self) -> dict[str, Any]:
        """The arguments."""
        return self.call.arguments

    @cached_property
    def code(self) -> str:
        """The texts among the arguments, on one line."""
        return one_line("\n".join(text for _, text in leaves_of(self.asked)))

    @cached_property
    def key(self) -> str:
        """The same for equal calls."""
        return json.dumps([self.call.tool_name, self.asked], sort_keys=True)

    @cached_property
    def answer(self) -> Any:
        """The JSON or the table of the result; an empty list for words."""
        return decoded(self.result.content)

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """All objects of the result."""
        return list(objects_in(self.answer))

    @cached_property
    def leaves(self) -> list[tuple[str, str]]:
        """The plain values of the result, and of the arguments."""
        return [*leaves_of(self.objects), *leaves_of(self.asked)]

    @cached_property
    def has_failed(self) -> bool:
        """True if it reports an error, or a process's exit status that is not zero."""
        nodes = [self.answer] if isinstance(self.answer, dict) else []
        nodes += [v for each in nodes for v in each.values() if isinstance(v, dict)]
        statuses = (
            value
            for node in nodes
            for name, value in node.items()
            if _EXIT.fullmatch(name)
        )
        lines = self.result.content.strip().split("\n")
        tags = (_EXIT_TAG.fullmatch(line.strip()) for line in (lines[0], lines[-1]))
        return (
            self.result.is_error
            or any(isinstance(each, Digits) and float(each) for each in statuses)
            or any(tag is not None and _EXIT.fullmatch(tag[1]) for tag in tags)
        )

    @property
    def has_raised(self) -> bool:
        """True if the call failed, or its result ends in a traceback of Python."""
        _, mark, trace = self.result.content.rpartition(
            "Traceback (most recent call last)"
        )
        lines = [_COLOUR.sub("", line).strip() for line in trace.splitlines()]
        lines = [line for line in lines if line and not line.startswith("</")]
        raised = bool(mark) and any(map(_RAISED.fullmatch, lines[-3:]))
        return self.result.is_error or raised

    @cached_property
    def before_error(self) -> str:
        """The code above the line that a traceback marks, on one line."""
        trace = _COLOUR.sub("", self.result.content)
        for number, marked in re.findall(r"(?m)^-+> *(\d+) (.*\S)", trace):
            for _, text in leaves_of(self.asked):
                *above, last = text.split("\n")[: int(number)]
                if len(above) + 1 == int(number) and last.strip() == marked.strip():
                    return one_line("\n".join(above))
        return ""

    def sets(self, name: str) -> bool:
        """True if the code gives a variable a value that does not depend on it."""
        for _, text in leaves_of(self.asked):
            code = re.sub(r"(?m)^\s*[%!].*", "", text)
            try:
                body = ast.parse(code).body
            except (SyntaxError, ValueError, RecursionError):
                continue
            for each in body:
                if isinstance(each, ast.Assign) and name in map(
                    ast.unparse, each.targets
                ):
                    used = {getattr(n, "id", "") for n in ast.walk(each.value)}
                    return name not in used
        return False


_Found = tuple[Source, dict[str, Any]]
"""An object, and the call that returned it."""


class Judge:
    """Judges lines by the entries that they copy."""

    def __init__(self, entries: Iterable[Entry], own_id: OwnId | None = None) -> None:
        """`own_id` knows what the objects of made-up results describe."""
        self._entries = list(map(masked, entries))
        self._own_id = own_id
        self._sources = [
            Source(self._entries[call], self._entries[result], call, result)
            for result, call in sorted(calls_by_result(self._entries).items())
            if self._entries[call].tool_name != "recall"
        ]
        self._by_result = {each.index: each for each in self._sources}
        self._by_call = {each.call_index: each for each in self._sources}
        self.checked = 0

    def false(self, record: Compaction) -> list[str]:
        """What is wrong with a memory, its values and its rules; empty if nothing."""
        values = [f"{f} {each}" for each in record.facts for f in self._of_fact(each)]
        told = "\n".join(e.text for e in record.memory if e.part != "words")
        unsaid = [f"no line has {e}" for e in record.facts if e.value not in told]
        rules = [f"no rule {e}" for e in record.rules if not self._is_typed(*e)]
        return [*self.false_lines(record.memory), *values, *unsaid, *rules]

    def false_lines(self, lines: Sequence[MemoryLine]) -> list[str]:
        """What is wrong with lines."""
        found, heading, newest = list[str](), "", dict[str, int]()
        for line in lines:
            self.checked += 1
            if line.position is None:
                heading = line.text
                faults = list(self._of_note(line, lines))
            else:
                faults = list(self._of_line(line, line.position, heading))
                if line.part in ("words", "newest"):
                    is_next = line.position > newest.get(line.part, -1)
                    faults += [] if is_next else ["out of order"]
                    newest[line.part] = line.position
            found += [f"{each}: {line.text} [{line.position}]" for each in faults]
        return found

    def _of_line(self, line: MemoryLine, at: int, heading: str) -> Iterator[str]:
        text = line.text.replace("\n  ", "\n")
        match line.part:
            case "rules":
                is_true = self._is_typed(text.removeprefix('- "').removesuffix('"'), at)
                yield from () if is_true else ("nobody typed this",)
            case "words":
                text = text.removeprefix("- ")
                is_true = self._is_said(text, at) or self._is_exchange(text, at)
                yield from () if is_true else ("no person said this",)
            case "newest":
                is_true = self._is_copied(text, at) or self._is_gist(text, at)
                yield from () if is_true else ("it is other words",)
            case "work":
                yield from self._of_work(text, at, heading)
            case "calls":
                yield from self._of_call(text, at)
            case "records":
                yield from self._of_row(text, at, heading)
            case part:
                yield f"no part is {part}"

    def _of_note(self, note: MemoryLine, lines: Iterable[MemoryLine]) -> Iterator[str]:
        """The messages that found no room are counted."""
        shown = {line.position for line in lines if line.part == "words"}
        said = [n for n, each in enumerate(self._entries) if each.is_of_user]
        hidden = [n for n in said if n not in shown]
        for count, first, last in _MISSING.findall(note.text):
            told = int(count.replace(",", "")), int(first), int(last or first)
            if not hidden or told != (len(hidden), hidden[0], hidden[-1]):
                yield f"{len(hidden)} messages are not shown"

    def _of_fact(self, fact: Fact) -> Iterator[str]:
        """A value is in its entry; JSON has it in a field of this name."""
        self.checked += 1
        entry, at = self._entries[fact.position], fact.position
        source = self._by_result.get(at) or self._by_call.get(at)
        leaves = source.leaves if source else []
        texts = [entry.content, entry.tool_args, *(text for _, text in leaves)]
        if not any(fact.value.removesuffix(CUT) in text for text in texts):
            yield "nothing there is"
        elif fact.field not in (*OF_CODE, "returned"):
            named = [text for name, text in leaves if fact.field.endswith(name)]
            if not any(fact.value.removesuffix(CUT) in text for text in named):
                yield "no field there has"

    # What people said, and what is copied word for word

    def _is_typed(self, sentence: str, at: int) -> bool:
        """True if a person typed it, from the beginning of a sentence on."""
        entry, text = self._entries[at], self._entries[at].content
        for start, stop in reversed(entry.pasted):
            text = f"{text[:start]}\n{text[stop:]}"
        words = r"\s+".join(map(re.escape, sentence.split()))
        begins = r"(?:^|[.!?\n\u3002\uff01\uff1f\u0964])\s*"
        found = re.search(begins + words, _NOT_TYPED.sub("\n", text))
        return entry.is_prompt and found is not None

    def _is_said(self, text: str, at: int) -> bool:
        """True if a message says this; what is not shown of it is marked."""
        entry = self._entries[at]
        text = text.removesuffix(" (The user says: no longer a rule.)")
        if found := _ATTACHED.fullmatch(text):
            shown = found[1], int(found[2]), one_line(found[3])
            return shown == (entry.tool_name, at, one_line(entry.content))
        text = self._without_question(text, at)
        pieces = [each for each in _MARK.split(text) if each and each.strip()]
        is_whole = not _MARK.search(text)
        if is_whole and one_line(text) != one_line(entry.content):
            return False
        pasted = {f"{stop - start:,}" for start, stop in entry.pasted}
        sizes = {f"{len(entry.content.split()):,}"} if not pasted else None
        return (
            entry.is_of_user
            and are_in_order(pieces, entry.content)
            and all(
                (not size or size in pasted)
                and (not words or not sizes or words in sizes)
                for size, words in _SIZE.findall(text)
            )
        )

    def _without_question(self, text: str, at: int) -> str:
        """A message without the end of a line of the answer before it."""
        said = [e for e in self._entries[:at] if e.is_answer or e.is_prompt]
        lines = said[-1].content.splitlines() if said and said[-1].is_answer else []
        opening = "(assistant: "
        for found in re.finditer(r"\) ", text if text.startswith(opening) else ""):
            asked = text[len(opening) : found.start()]
            if any(one_line(line).endswith(asked) for line in lines):
                return text[found.end() :]
        return text

    def _is_exchange(self, text: str, at: int) -> bool:
        """True if a line says what was asked, called and answered in one exchange."""
        spans = [each for each in turns(self._entries) if each.start == at]
        found = _BULLET.fullmatch(text)
        if not spans or found is None:
            return False
        exchange = self._entries[at : spans[0].stop]
        called = {e.tool_name for e in exchange if e.is_call}
        asked = " ".join(e.content for e in exchange if e.is_of_user)
        answered = " ".join(e.content for e in exchange if e.is_answer)
        return (
            are_in_order(found[1].split(CUT), asked)
            and called == set(filter(None, (found[3] or "").split(", ")))
            and are_in_order((found[4] or "").split(CUT), answered)
        )

    def _is_copied(self, text: str, at: int) -> bool:
        """True if an entry says this; what is not shown is counted, or after it."""
        entry = self._entries[at]
        kind = "failed result" if entry.is_error else "result"
        kind = f"call {entry.tool_name}" if entry.is_call else kind
        kind = "assistant" if entry.is_answer else kind
        whole = (
            f"{kind}: {(entry.tool_args if entry.is_call else entry.content).strip()}"
        )
        head, *rest = _OMITTED.split(text, maxsplit=1)
        if rest and whole.startswith(head) and whole.endswith(rest[1]):
            return len(whole) == len(head) + len(rest[1]) + int(
                rest[0].replace(",", "")
            )
        shown, is_cut = one_line(text.removesuffix(" ...")), text.endswith(" ...")
        is_beginning = is_cut and one_line(whole).startswith(shown)
        is_all = one_line(text) == one_line(whole)
        return not entry.is_of_user and (is_all or is_beginning)

    def _is_gist(self, text: str, at: int) -> bool:
        """Whether an answer says this, though it may say more."""
        entry, shown = self._entries[at], text.removeprefix("- ").strip(CUT)
        answer = one_line(entry.content)
        return text.startswith("- ") and entry.is_answer and one_line(shown) in answer

    # What tools were called with, and what they returned

    def _of_work(self, text: str, at: int, heading: str) -> Iterator[str]:
        if heading.startswith("Written in answers"):
            yield from self._of_answered(text, at)
            return
        call, result = self._by_call.get(at), self._by_result.get(at)
        match heading.split(maxsplit=1)[0].strip(","), call, result:
            case ("Defined" | "Written") as kind, Source(), _:
                yield from self._of_definition(text, call, is_failed=kind == "Written")
            case "Columns", _, Source():
                yield from self._of_columns(text, result)
            case (("Files" | "Values"), Source(), _):
                codes = [each.code.replace("`", "") for each in self._sources]
                for piece in text.split(" | "):
                    if not any(
                        one_line(piece).replace("`", "") in each for each in codes
                    ):
                        yield f"no call names {piece!r}"
            case "Last", _, Source():
                yield from self._of_error(text, result)
            case _:
                yield "it stands in no call and no result"

    def _of_answered(self, text: str, at: int) -> Iterator[str]:
        entry = self._entries[at]
        for piece in text.split(" | "):
            if not are_in_order([piece.removesuffix(CUT)], entry.content):
                yield f"the answer does not say {piece!r}"
        if not entry.is_answer:
            yield "it stands in no answer"

    def _of_definition(
        self, text: str, call: Source, *, is_failed: bool
    ) -> Iterator[str]:
        text, *changes = _CHANGES.split(text)
        for change in changes:
            yield from self._of_change(change or text, call)
        if not are_in_order([text.removesuffix(CUT)], call.code):
            yield "the call does not say this"
        has_run = are_in_order([text.removesuffix(CUT)], call.before_error)
        if call.has_raised and not is_failed and not has_run:
            yield "the call failed"
        if is_failed and not call.has_raised:
            yield "the call did not fail"
        name = re.match(r"(\w+) = ", text)
        later = (e for e in self._sources if e.index > call.index and not e.has_raised)
        same = (e for e in later if e.call.tool_name == call.call.tool_name)
        if name and not is_failed and any(e.sets(name[1]) for e in same):
            yield f"{name[1]} was set again"

    def _of_change(self, change: str, call: Source) -> Iterator[str]:
        """The newest statement that changes a variable."""
        since = [each.code for each in self._sources if each.index >= call.index]
        if not any(are_in_order([change.removesuffix(CUT)], code) for code in since):
            yield f"no later call says {change!r}"

    def _of_columns(self, text: str, result: Source) -> Iterator[str]:
        """Names with types: both stand in one line of the output."""
        label, colon, rest = text.partition(": ")
        if colon and are_in_order([label.removesuffix(CUT)], result.code):
            text = rest
        lines = re.split(r"\n|\), \(", result.result.content)
        for cell in text.split(" | "):
            name, _, kind = cell.rpartition(" ")
            forms = ([cell], [name, kind])
            if not any(are_in_order(each, line) for each in forms for line in lines):
                yield f"the output does not show {cell!r}"

    def _of_error(self, text: str, result: Source) -> Iterator[str]:
        error, _, code = text.partition(" (running: ")
        lines = _COLOUR.sub("", result.result.content)
        if not result.has_raised or not are_in_order([error.removesuffix(CUT)], lines):
            yield "the call did not fail so"
        if not are_in_order([code.removesuffix(")")], result.code):
            yield "other code was run"
        if any(
            each.result.is_error for each in self._sources if each.index > result.index
        ):
            yield "it is not the last error"

    def _of_call(self, text: str, at: int) -> Iterator[str]:
        """Calls that differ in one argument at most, and what all of them returned."""
        head, *rest = split(text, ARROW, 1)
        opening = head.find("(")
        end = next((n for n in top_level(head) if n > opening >= 0), 0)
        if not (rest and end):
            yield "it is no call"
            return
        pairs, shared = split(head[opening + 1 : end], ", "), head[end + 1 :]
        wanted = [(pairs, shared)]
        if len(parts := split(shared.strip(), ": ", 1)) > 1:
            wanted = [
                ([*pairs, f"{parts[0]}: {_TIMES.sub('', each)}"], each)
                for each in split(parts[1], " | ")
            ]
        is_here = False
        for given, noted in wanted:
            made = [
                each
                for each in self._sources
                if one_line(each.call.tool_name) == head[:opening]
                and shows_pairs(given, each.asked)
            ]
            returned = [each for each in made if _returned(rest[0], each)]
            is_here = is_here or any(each.index == at for each in returned)
            times = _TIMES.search(noted)
            count = int(times[1].replace(",", "")) if times else 1
            if not made:
                yield "no such call was made"
            elif not returned:
                yield "it did not return this"
            elif not _was_called(count, returned, is_exact=" record" not in rest[0]):
                yield f"it was not called {count} times"
        if not is_here:
            yield "its result is not here"

    def _of_row(self, text: str, at: int, heading: str) -> Iterator[str]:
        """A row is one object of a result, in its newest state."""
        *scope, header = split(heading, ": ")
        columns, cells = split(header[1:-1], " | "), split(text, " | ")
        if len(cells) == len(columns) + 1 and (note := _BEFORE.fullmatch(cells[-1])):
            cells.pop()
            if not self._was_called(note[1], unquoted(cells[0]), after=at):
                yield f"{note[1]} was not called after it"
        if len(cells) != len(columns):
            yield "it has other columns"
        elif scope:
            yield from self._of_unnamed(scope[0], columns, cells, at)
        else:
            yield from self._of_named(columns, cells)

    def _was_called(self, tool: str, value: str, *, after: int) -> bool:
        return any(
            each.index > after
            and one_line(each.call.tool_name) == tool
            and value in [text for _, text in leaves_of(each.asked)]
            for each in self._sources
        )

    def _of_unnamed(
        self, scope: str, columns: Sequence[str], cells: Sequence[str], at: int
    ) -> Iterator[str]:
        """A row below a call is one object of its newest result."""
        source = self._by_result.get(at)
        pairs = split(scope[scope.find("(") + 1 : -1], ", ")
        if source is None or not shows_pairs(pairs, source.asked):
            yield "no such call was made"
        elif not any(
            all(shows_cell(c, t, node) for c, t in zip(columns, cells, strict=True))
            for node in source.objects
        ):
            yield "the result has no such object"
        elif any(
            each.key == source.key and each.index > at and not each.has_failed
            for each in self._sources
        ):
            yield "a newer result replaced it"

    def _of_named(self, columns: Sequence[str], cells: Sequence[str]) -> list[str]:
        """A row is about one thing: each cell is what its newest result has there."""
        objects = list(self._objects(columns[0], cells[0]))
        if not objects:
            return ["no object has this id"]
        things: dict[str | None, list[_Found]] = {}
        for each in objects:
            own = self._own_id(each[1]) if self._own_id else None
            things.setdefault(own, []).append(each)
        rest = things.pop(None, [])
        found = [
            list(_of_cells(columns, cells, [*some, *rest]))
            for some in things.values() or [rest]
        ]
        return min(found, key=len)

    def _objects(self, label: str, code: str) -> Iterator[_Found]:
        """The objects with an id, and what a call returned that asked for it alone."""
        for source in self._sources:
            is_asked = shows_pairs([f"{label}: {code}"], source.asked)
            for node in () if source.has_failed else source.objects:
                has_it = any(shows(label, name) for name in node)
                is_it = shows(code, field_of(label, node)) if has_it else is_asked
                if is_it:
                    yield source, node


def _of_cells(
    columns: Sequence[str], cells: Sequence[str], objects: Sequence[_Found]
) -> Iterator[str]:
    for column, text in zip(columns[1:], cells[1:], strict=True):
        having = [each for each in objects if has_column(column, each[1])]
        saying = [each for each in having if shows_cell(column, text, each[1])]
        if not saying:
            yield f"no {column} is {text}"
        elif all(_is_replaced(old, having, saying, cells[0]) for old in saying):
            yield f"the {column} {text} was replaced"


def _is_replaced(
    old: _Found, having: Iterable[_Found], saying: Collection[_Found], code: str
) -> bool:
    """True if a newer result has the same object with another value there.

    A number may be the id of several things, each of which a tool of its own returns.
    An object with the id of another thing in it has other fields than that.
    """
    source, node = old
    current = {each.index for each, _ in saying}
    is_clear = any(map(str.isalpha, code))
    return any(
        newer.index > source.index
        and newer.index not in current
        and (is_clear or newer.call.tool_name == source.call.tool_name)
        and 2 * len(node.keys() & other.keys()) > min(len(node), len(other))
        for newer, other in having
    )


def _was_called(count: int, returned: Iterable[Source], *, is_exact: bool) -> bool:
    """True if some equal calls are so many; a number of records may be of others."""
    counts = Counter(each.key for each in returned).values()
    return count in counts or (not is_exact and count < max(counts))


def _returned(words: str, source: Source) -> bool:
    """True if a call returned these words: its ends in quotes, objects, or a count."""
    is_failure = words.startswith("failed: ")
    if is_failure is not source.has_failed:
        return False
    words = words.removeprefix("failed: ")
    lines = source.result.content.strip().split("\n")
    if words == "nothing":
        return lines == [""]
    if words.startswith('"'):
        parts, ends = split(words, f" {CUT} "), [lines[0], lines[-1]]
        return len(parts) == 1 + (len(lines) > 1) and all(
            shows(part, end) for part, end in zip(parts, ends, strict=False)
        )
    return all(_is_returned(each, source) for each in split(words, ", "))


def _is_returned(part: str, source: Source) -> bool:
    count, _, what = part.partition(" record")
    if what in ("", "s") and count.replace(",", "").isdigit():
        number, rows = int(count.replace(",", "")), source.answer
        is_list = isinstance(rows, list) and all(isinstance(e, dict) for e in rows)
        return number == len(rows) if is_list else number <= len(source.objects)
    return any(_shows_rest(part, node) for node in source.objects)


def _shows_rest(text: str, node: Mapping[str, Any]) -> bool:
    """True if a text shows an object, perhaps without the records in it."""
    shown = [split(pair, ": ", 1)[0] for pair in split(text[1:-1], ", ")]
    rest = {
        name: value
        for name, value in node.items()
        if any(shows(each, name) for each in shown)
        or not isinstance(value, dict | list)
    }
    return shows(text, rest)
