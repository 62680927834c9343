"""The calls that were made: their arguments, how often, and the first words returned.

    Actions:
    cancel_order(order_id: W1, reason: late) → "cancelled"
    set_priority(priority: normal) ticket_id: T1 | T2 (2 times) | T7 → "ok"
    Look-ups:
    get_order(order_id: W1) → 1 record

Nothing here says that something is done: a reader sees what was asked and what came
back. A call failed if its tool raised an error or a process had an exit status.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from nbchat.compaction.memory.lines import NAME_LENGTH, Call, Line, Source
from nbchat.compaction.results import (
    Node,
    Number,
    Siblings,
    is_id,
    siblings_in,
)
from nbchat.conversation.entries import Fact
from nbchat.conversation.search_index import TOOL_NAME as RECALL

LOOK_UP_VERBS = frozenset(
    {"check", "count", "describe", "fetch", "find", "get", "list", "look", "lookup"}
    | {"query", "read", "retrieve", "search", "show", "view"}
)
"""First words of the names of tools that only read, where a tool does not say it."""

MOST_CALLS = 4_000
"""Different calls that are kept, the newest: more than any allowance has room for."""

ARGUMENT_LENGTH, ARGUMENTS_LENGTH = 60, 300
"""Characters of an argument and of all arguments of a call; `work` has longer ones."""

WORDS_LENGTH = 80
"""Characters of the first and of the last line that came back: a line of a screen."""

LINE_LENGTH = 400
"""Characters of a line, about 100 tokens; what is longer goes on in another line."""

MOST_SPACES = 7
"""Spaces in a value that does not read like a sentence, which is put in quotes."""

DEEPEST, MOST_ITEMS = 5, 50
"""Levels of nesting, and arguments, fields or items, that are written of one value."""

CUT, NOTHING = "…", "-"
"""The end of a text that is not shown; a value that is null or missing."""

ACTIONS, LOOK_UPS = "Actions:", "Look-ups:"

_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_NEEDS_QUOTES = re.compile(rf'["|(){{}}\[\]→]|[,;:](?=\s|$)|^\s|\s$|^-?$|{CUT}$')
_ESCAPED = re.compile(r'["\\]')
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def is_look_up(name: str, read_only: bool | None) -> bool:  # noqa: FBT001  # of a Tool
    """True if a tool only reads: it says so, or else its name's first word does."""
    if read_only is not None:
        return read_only
    return next(iter(words_of(name)), "") in LOOK_UP_VERBS


def words_of(name: str) -> list[str]:
    """The words of a name in small letters, without the server's before `__`."""
    return [word.lower() for word in _WORDS.findall(name.rpartition("__")[2])]


class Leaf(NamedTuple):
    """A plain value inside of a value that was written."""

    path: str
    value: str
    """A part of the written text and of the source, word for word."""

    @property
    def is_name(self) -> bool:
        """True if messages and calls may refer to something by it."""
        is_code = any(map(str.isdigit, self.value)) and not self.value.isdigit()
        is_word = " " not in self.value
        return is_word and (is_code or is_id(self.path.rpartition(".")[2]))


class Written(NamedTuple):
    """A text, and the plain values in it."""

    text: str
    leaves: tuple[Leaf, ...] = ()


Arguments = tuple[tuple[str, Written], ...]


class Calls:
    """Each call that was made; equal ones are counted."""

    def __init__(self) -> None:
        """Start without a call."""
        self._made: dict[bytes, _Made] = {}
        self._open: dict[int, bytes] = {}
        """Keys of the calls that had no result, by their positions."""

    def read_call(self, call: Call) -> None:
        """Read a call; it replaces what was read of it before it had a result."""
        if call.tool == RECALL:
            return
        made = _made(call)
        self._made.pop(self._open.pop(call.position, b""), None)
        key = digest(call, made.outcome.text)
        if call.result_position is None:
            key += str(call.position).encode()
            self._open[call.position] = key
        before = self._made.pop(key, None)
        count = 1 + (before.count if before else 0)
        self._made[key] = replace(made, count=count)
        if len(self._made) > MOST_CALLS:
            del self._made[next(iter(self._made))]

    def lines(self) -> list[Line]:
        """Actions, then look-ups, each oldest first."""
        made = list(self._made.values())
        actions = [each for each in made if not each.is_look_up]
        look_ups = [each for each in made if each.is_look_up]
        return [*_lines(actions, ACTIONS), *_lines(look_ups, LOOK_UPS)]


@dataclass(frozen=True)
class _Made(Source):
    """Equal calls, as they are shown."""

    tool: str
    arguments: Arguments
    outcome: Written
    position: int
    result_position: int | None
    is_look_up: bool
    count: int = 1

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """The values of the arguments, and the words that came back."""
        entity = shown_call(self.tool, self.arguments)
        asked = (
            Fact(entity, path, value, self.position)
            for _, argument in self.arguments
            for path, value in argument.leaves
        )
        returned = (
            Fact(entity, "returned", value, self.result_position or 0)
            for _, value in self.outcome.leaves
        )
        return *asked, *returned

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The values by which messages and later calls may refer to it."""
        leaves = (leaf for _, argument in self.arguments for leaf in argument.leaves)
        return tuple(leaf.value for leaf in leaves if leaf.is_name)

    def argument(self, name: str) -> str:
        """An argument as it is shown, with the number of calls that had it."""
        return dict(self.arguments)[name].text + self.times

    @property
    def times(self) -> str:
        """How often it was called, if not once."""
        return f" ({self.count:,} times)" if self.count > 1 else ""

    def others(self, name: str) -> tuple[str, ...]:
        """The arguments but one, as they are shown."""
        return tuple(each.text for other, each in self.arguments if other != name)

    def without(self, name: str) -> str:
        """The call without one of its arguments."""
        rest = [each for each in self.arguments if each[0] != name]
        return shown_call(self.tool, rest)


def _made(call: Call) -> _Made:
    return _Made(
        tool_name(call),
        written_arguments(call.arguments),
        _outcome(call),
        call.position,
        call.result_position,
        call.is_look_up,
    )


def digest(call: Call, outcome: str = "") -> bytes:
    """The same for equal calls, with the same outcome if one is given."""
    try:
        text = json.dumps([call.tool, call.arguments, outcome], sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # equal to no other call
        text = str(call.position)
    return blake2b(text.encode(), digest_size=16).digest()


def _outcome(call: Call) -> Written:
    """The result: how many records, or the first words."""
    if call.result_position is None:
        return Written("no result yet")
    value = call.value
    if call.has_failed:
        words = _words([value]) if isinstance(value, dict) else _ends(call.result)
        return words._replace(text=f"failed: {words.text}")
    is_named = namer(call)
    groups = siblings_in(value, is_named)
    told = [each for each in groups if is_told(each, is_named)]
    words = _words([each.objects[0] for each in told])
    count = sum(len(each.objects) for each in groups) - len(told)
    records = f"{count:,} record{'s' if count > 1 else ''}" if count else ""
    text = ", ".join(filter(None, (words.text, records)))
    return Written(text, words.leaves) if text else _ends(call.result)


def _words(nodes: Iterable[Node]) -> Written:
    """The first words of objects."""
    writer = ValueWriter(WORDS_LENGTH, 2 * WORDS_LENGTH)
    texts = [writer.text(node, "") for node in nodes]
    return Written(", ".join(texts), tuple(writer.leaves))


def is_told(siblings: Siblings, is_named: Callable[[Node], bool]) -> bool:
    """True if an object is short and has no id, so that its call's line says it."""
    node = siblings.objects[0]
    if siblings.is_list or is_named(node):
        return False
    text = _words([node]).text
    return len(text) <= WORDS_LENGTH and CUT not in text


def namer(call: Call) -> Callable[[Node], bool]:
    """Tells whether an object has a name: an id, or the only thing that was asked."""

    def is_named(node: Node) -> bool:
        has_id = any(is_id(name) and is_plain(node[name]) for name in node)
        return has_id or bool(echo_in(node, call))

    return is_named


def echo_in(node: Node, call: Call) -> str:
    """The field that repeats the only argument of a call; empty if none does.

    A number says little by itself, so its field has to have the argument's name.
    """
    if len(call.arguments) != 1:
        return ""
    ((argument, asked),) = call.arguments.items()
    is_text = isinstance(asked, str) and not isinstance(asked, Number)
    if isinstance(asked, bool) or not is_plain(asked):
        return ""
    plain = {name: plain_text(each) for name, each in node.items() if is_plain(each)}
    same = (name for name, text in plain.items() if text == plain_text(asked))
    return next((name for name in same if is_text or name == argument), "")


def is_plain(value: object) -> bool:
    """True if a JSON value is a text, a number or a truth value."""
    return value is not None and not isinstance(value, dict | list)


def _ends(text: str) -> Written:
    """The first and the last line of a text, in quotes."""
    text = text.strip()
    if not text:
        return Written("nothing")
    lines = [text.partition("\n")[0], text.rpartition("\n")[2]]
    found = [_quote(line) for line in lines[: 1 + ("\n" in text)]]
    leaves = tuple(leaf for each in found for leaf in each.leaves)
    return Written(f" {CUT} ".join(each.text for each in found), leaves)


def _quote(line: str) -> Written:
    """A line in quotes, or its first words."""
    line = line.strip()
    shown = cut(_BREAKS.sub(" ", line[: 2 * WORDS_LENGTH]), WORDS_LENGTH)
    text = in_quotes(shown) + (CUT if len(shown) < len(line) else "")
    value = verbatim(line, shown, text)
    return Written(text, (Leaf("returned", value),) if value else ())


def _lines(made: Sequence[_Made], group: str) -> list[Line]:
    """The lines of calls; those that differ in one argument only share a line."""
    alike: dict[tuple[object, ...], list[_Made]] = defaultdict(list)
    for each in made:
        names = tuple(name for name, _ in each.arguments)
        alike[each.tool, names, each.outcome.text].append(each)
    lines = [line for each in alike.values() for line in _shared(each, group)]
    return sorted(lines, key=lambda line: line.position or 0)


def _shared(made: Sequence[_Made], group: str) -> Iterator[Line]:
    """The lines of calls of one tool with the same outcome."""
    names = [name for name, _ in made[0].arguments] if len(made) > 1 else []
    groups: dict[tuple[str, ...], list[_Made]] = {}
    chosen = ""
    for name in names:
        found: dict[tuple[str, ...], list[_Made]] = defaultdict(list)
        for each in made:
            found[each.others(name)].append(each)
        if not groups or len(found) < len(groups):
            chosen, groups = name, found
    for alike in groups.values() or [list(made)]:
        if len(alike) > 1 and groups:
            yield from _lines_of_shared(chosen, alike, group)
        else:
            yield from (_line(each, group) for each in alike)


def _line(made: _Made, group: str) -> Line:
    def written() -> Line:
        call = shown_call(made.tool, made.arguments)
        text = f"{call}{made.times} → {made.outcome.text}"
        return _line_of([made], text, group)

    return made.once("own line", group, written)


def _lines_of_shared(name: str, made: Sequence[_Made], group: str) -> Iterator[Line]:
    """Calls that differ in one argument, as many on a line as it has room for."""
    taken: list[_Made] = []
    size = 0
    for each in made:
        length = len(each.argument(name)) + len(" | ")
        if taken and size + length > LINE_LENGTH:
            yield _shared_line(name, tuple(taken), group)
            taken, size = [], 0
        taken.append(each)
        size += length
    yield _shared_line(name, tuple(taken), group)


def _shared_line(name: str, made: tuple[_Made, ...], group: str) -> Line:
    first, *others = made

    def written() -> Line:
        values = " | ".join(each.argument(name) for each in made)
        start, outcome = first.without(name), first.outcome.text
        text = f"{start} {shown_name(name)}: {values} → {outcome}"
        return _line_of(made, text, group)

    return first.once("shared line", (name, others, group), written)


def _line_of(made: Sequence[_Made], text: str, group: str) -> Line:
    newest = max(made, key=lambda each: each.position)
    position = newest.result_position
    facts = [fact for each in made for fact in each.facts]
    names = dict.fromkeys(name for each in made for name in each.names)
    return Line(
        text,
        newest.position if position is None else position,
        tuple(facts),
        group,
        tuple(names),
    )


def tool_name(call: Call) -> str:
    """The name of a call's tool, on one line."""
    return _BREAKS.sub(" ", call.tool)[:ARGUMENT_LENGTH]


def shown_call(tool: str, arguments: Iterable[tuple[str, Written]]) -> str:
    """A call as it is shown, such as `get_weather(city: Paris)`."""
    shown = (f"{shown_name(name)}: {each.text}" for name, each in arguments)
    return f"{tool}({', '.join(shown)})"


def written_arguments(arguments: Mapping[str, Any]) -> Arguments:
    """The arguments of a call; of long ones the first words of the first line."""
    writer = ValueWriter(ARGUMENT_LENGTH, ARGUMENTS_LENGTH, first_line)
    found = []
    for name, value in islice(arguments.items(), MOST_ITEMS):
        writer.leaves = []
        found.append((name, Written(writer.text(value, name), tuple(writer.leaves))))
    return tuple(found)


def shown_name(name: str) -> str:
    """The name of a field on one line."""
    return quoted(cut(one_line(name[: 2 * ARGUMENT_LENGTH]), ARGUMENT_LENGTH))


class ValueWriter:
    """Writes JSON values on one line, and notes the plain values in them.

    Quotes stand only where a value could be misread: around texts with separators and
    around sentences.
    """

    def __init__(
        self,
        longest: int,
        room: int,
        as_line: Callable[[str], str] | None = None,
    ) -> None:
        """Characters of one plain value, and about how many are written of all."""
        self._longest, self._room = longest, room
        self._as_line = as_line or one_line
        self.leaves: list[Leaf] = []

    def text(self, value: Any, path: str, depth: int = 0) -> str:
        """A value on one line."""
        if self._room <= 0 or (depth > DEEPEST and not is_plain(value)):
            return CUT
        if isinstance(value, dict):
            pairs = islice(value.items(), MOST_ITEMS)
            parts = (
                f"{shown_name(name)}: {self.text(each, joined(path, name), depth + 1)}"
                for name, each in pairs
            )
            return f"{{{self._joined(parts, len(value))}}}"
        if isinstance(value, list):
            items = islice(value, MOST_ITEMS)
            parts = (self.text(each, path, depth + 1) for each in items)
            return f"[{self._joined(parts, len(value))}]"
        return self._plain(value, path)

    def _joined(self, parts: Iterator[str], count: int) -> str:
        """As many parts as there is room for."""
        found: list[str] = []
        while len(found) < min(count, MOST_ITEMS) and self._room > 0:
            found.append(next(parts))
        return ", ".join(found if len(found) == count else [*found, CUT])

    def _plain(self, value: Any, path: str) -> str:
        if value is None:
            return NOTHING
        source = plain_text(value)
        opening = source[: 10 * self._longest]
        shown = cut(self._as_line(opening), self._longest)
        is_cut = len(shown.strip()) < len(one_line(opening).strip())
        text = quoted(shown)
        if is_cut or len(opening) < len(source):
            text += CUT
        self._room -= len(text)
        found = verbatim(source, shown, text)
        if found:
            self.leaves.append(Leaf(path, found))
        return text


def joined(path: str, name: str) -> str:
    """The path of a field inside of another one."""
    return f"{path}.{name}" if path else name


def plain_text(value: Any) -> str:
    """A plain JSON value as it is written."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def one_line(text: str) -> str:
    """A text with spaces for its line breaks and other control characters."""
    return _BREAKS.sub(" ", text)


def first_line(text: str) -> str:
    """The first line of a text that has letters."""
    return one_line(text.strip().partition("\n")[0])


def cut(text: str, length: int) -> str:
    """The first words of a long text; a word, such as a path, stays whole."""
    if len(text) <= length:
        return text
    words = text[: length + 1].rsplit(None, 1)
    if len(words) > 1:
        return words[0]
    return next(iter(text[:NAME_LENGTH].split(None, 1)), "")


def quoted(text: str) -> str:
    """A text in quotes if it could be misread."""
    is_sentence = text.count(" ") > MOST_SPACES
    return in_quotes(text) if is_sentence or _NEEDS_QUOTES.search(text) else text


def in_quotes(text: str) -> str:
    """A text in quotes."""
    escaped = _ESCAPED.sub(r"\\\g<0>", text)
    return f'"{escaped}"'


def verbatim(source: str, line: str, text: str) -> str:
    """The beginning of a source that a written text has word for word.

    That is all of it, or what stands before a line break or a sign that is escaped.
    """
    for found in (source, line):
        if found in text and found in source:
            return found
    opening = _ESCAPED.split(_BREAKS.split(source.strip())[0])[0]
    return opening[: len(line)].rstrip()
