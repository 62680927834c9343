"""Read tool results as records of values, and weigh the values.

A JSON result is split into objects: plain values stay with their object, objects inside
it become its parts, and numbers keep the digits they were written with. Only the form
counts, never the meaning.

The weights are judgement, not theory: they were set so that what later calls of real
conversations need comes first (`tests/benchmarks/retention.py`). Only their order
matters.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nbchat.compaction.truncation import parsed
from nbchat.conversation.entries import Entry

MOST_PARTS = 2_000
"""Objects read from one result."""

LONGEST_JSON = 2_000_000
"""Characters of a result that is still read as JSON."""

LONGEST_OUTCOME = 400
"""Characters kept of a result in words."""

LONGEST_NAME = 60
"""Characters of a result that is a single name."""

NOTHING = "nothing found"
"""The outcome of an empty result."""

_IDENTITY = re.compile(
    r"(?:^|_)(?:id|ids|number|no|code|key|uuid|sku|ref)$", re.IGNORECASE
)
_LOOKUP = re.compile(
    r"^(?:get|find|search|list|look|lookup|check|view|read|fetch|show|describe|query|"
    r"calculate|compute|think|count|is|has|can)(?:_|$|[A-Z])"
)


class Value(NamedTuple):
    """A plain value with the name of its field."""

    key: str
    text: str
    is_listed: bool = False
    """Whether it was in a list of plain values: most likely a reference."""
    group: str = ""
    """The describing object, such as an address, that it was in."""

    @property
    def is_identity(self) -> bool:
        """Whether its field names an entity."""
        return bool(_IDENTITY.search(self.key))


Part = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """The result of one call: the entity it is about, and the entity's parts."""

    subject: str
    tool: str
    index: int
    """Index in the transcript of the result, or of a call without one."""
    asked: Part
    """The arguments of the call."""
    own: Part
    """The plain values of the entity itself."""
    parts: tuple[Part, ...] = ()
    outcome: str = ""
    """A result that is not JSON."""
    is_error: bool = False
    is_interrupted: bool = False
    """Whether the call may have done its work or not."""

    @property
    def is_action(self) -> bool:
        """Whether the tool's name says that it does more than look something up."""
        return not _LOOKUP.search(self.tool)


def plain_values(value: Any, key: str = "") -> Iterator[Value]:
    """Every plain value inside a JSON value, in order, with its nearest name."""
    waiting: list[tuple[str, Any]] = [(key, value)]
    while waiting:
        name, current = waiting.pop()
        if isinstance(current, dict):
            waiting += reversed(list(current.items()))
        elif isinstance(current, list):
            waiting += [(name, inner) for inner in reversed(current)]
        elif isinstance(current, str) and current.strip():
            yield Value(name, " ".join(current.split()))


def read_call(
    call: Entry, result: Entry, index: int, *, is_interrupted: bool = False
) -> Record:
    """The record of a call and its result, which is at `index` of the transcript."""
    asked = tuple(plain_values(parsed(call.tool_args)))
    is_short = len(result.content) <= LONGEST_JSON
    answer = parsed(result.content) if is_short else None
    own: Part = ()
    parts: tuple[Part, ...] = ()
    outcome = ""
    if answer:
        own, parts = _objects(answer)
        subject = _first_identity(own) or _first_identity(asked)
        subject = subject if isinstance(answer, dict) else ""
    else:
        text = " ".join(result.content[:LONGEST_OUTCOME].split())
        outcome = text if answer is None else NOTHING
        subject = _subject_of(outcome, asked)
    return Record(
        subject,
        call.tool_name,
        index,
        asked,
        own,
        parts,
        outcome,
        result.is_error,
        is_interrupted,
    )


def _subject_of(outcome: str, asked: Part) -> str:
    if _is_one_name(outcome):
        return outcome
    return _first_identity(asked) or _named_in(outcome)


def _objects(root: dict[str, Any] | list[Any]) -> tuple[Part, tuple[Part, ...]]:
    """The plain values at the root, and those of each object inside it."""
    own: list[Value] = []
    parts: list[list[Value]] = []
    waiting: deque[tuple[str, Any, list[Value]]] = deque([("", root, own)])
    while waiting and len(parts) < MOST_PARTS:
        name, node, values = waiting.popleft()
        is_keyed = _is_keyed_by_identity(node)
        for key, child in _open(name, node, values):
            if isinstance(child, dict) and (is_keyed or not _is_attribute(child)):
                parts.append([Value("id", key)] if is_keyed else [])
                waiting.append((key, child, parts[-1]))
            else:
                waiting.append((key, child, values))
    return tuple(own), tuple(tuple(part) for part in parts if part)


def _open(name: str, node: Any, values: list[Value]) -> Iterator[tuple[str, Any]]:
    """Collect a node's plain values; yield the values to open next."""
    pairs: Iterable[tuple[str, Any]] = ()
    if isinstance(node, dict):
        pairs = node.items()
    elif isinstance(node, list):
        pairs = ((name, inner) for inner in node)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield key, value
        elif isinstance(value, str) and value.strip():
            text = " ".join(value.split())
            group = name if isinstance(node, dict) and _is_attribute(node) else ""
            values.append(Value(key, text, isinstance(node, list), group))


def _is_attribute(node: dict[str, Any]) -> bool:
    """Whether an object only describes the one it is in, such as an address."""
    return not any(
        _IDENTITY.search(key) or isinstance(value, dict | list)
        for key, value in node.items()
    )


def _is_keyed_by_identity(node: Any) -> bool:
    """Whether a dictionary's keys are names of entities, not of fields."""
    return isinstance(node, dict) and all(
        isinstance(value, dict) and any(sign.isdigit() for sign in key)
        for key, value in node.items()
    )


def _first_identity(values: Iterable[Value]) -> str:
    named = [value for value in values if value.is_identity]
    return named[0].text if named else ""


def _named_in(outcome: str) -> str:
    """The entity that a result begins with, as in `T3: closed`; empty without one."""
    first = outcome.split(" ", 1)[0].strip(".:,")
    has_both = any(map(str.isdigit, first)) and any(map(str.isalpha, first))
    return first if has_both and len(first) <= LONGEST_NAME else ""


def _is_one_name(text: str) -> bool:
    """Whether a result is a single name, such as an id."""
    return (
        0 < len(text) <= LONGEST_NAME
        and " " not in text
        and any(map(str.isdigit, text))
    )


NAME = 1.0
"""A value that names one thing: an id, a number of seven digits, an address."""

CODE, DATE, PHRASE, ADDRESS, WORD, NUMBER, PROSE = 0.8, 1.2, 1.2, 0.6, 0.3, 0.12, 0.05
"""Codes in capitals; dates; phrases with a number in them, as a street; plain words;
amounts and counts; and whatever is too long for a value."""

ASKED, IDENTITY, LISTED, SPOKEN = 1.5, 1.3, 1.5, 1.4
"""How much more a value counts that is called as an argument of some tool is, whose
name says that it names a thing, or that people or calls have used."""

LONGEST_VALUE = 60
"""Characters of a value; longer ones are prose."""

SPOKEN_CHARACTERS = 20_000
"""Characters of a message that are read."""

_WORDS = re.compile(r"[^\s,;()\[\]{}\"'<>|=`*]{1,80}")
_TIME = re.compile(r".*\d\d:\d\d")
_MEASURE = re.compile(r"\d+([.-]\d+)?[- ]?[A-Za-z]{1,10}( [A-Z]{2,4})?$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d$|\d{1,2}/\d{1,4}(/\d{2,4})?$")
_NUMBER = re.compile(r"[-+$€£]?(\d{1,4}|\d{1,6}([.,]\d+)+)%?$")
_FORMS = ((_DATE, DATE), (_TIME, NUMBER), (_NUMBER, NUMBER), (_MEASURE, WORD))
_CODE = re.compile(r"[A-Z]{2,8}$")
_AFFIXES = re.compile(r"^new_|(?:_id|_number|_code|_no)?s?$")


def words(text: str) -> set[str]:
    """The words of a text in small letters, without the signs around them."""
    found = _WORDS.findall(text[:SPOKEN_CHARACTERS])
    return {word.strip(".:!?#").lower() for word in found}


class Scale:
    """Weighs values by their form and their use in a conversation."""

    def __init__(self, entries: Sequence[Entry], records: Iterable[Record]) -> None:
        """Read all entries and arguments once."""
        self._arguments: set[str] = set()
        self.used: set[str] = set()
        """Values of arguments."""
        for record in records:
            for value in record.asked:
                self._arguments.add(_stem(value.key))
                self.used.add(value.text)
        self._spoken = set[str]().union(*map(words, _said(entries)))

    def weight(self, value: Value) -> float:
        """The weight of a value; more important values have more."""
        weight = form_weight(value.text)
        is_argument = _stem(value.key) in self._arguments
        if is_argument and weight > NUMBER:
            weight *= ASKED
        elif value.is_identity:
            weight *= IDENTITY
        if value.is_listed and weight >= CODE:
            weight *= LISTED
        return weight * (SPOKEN if self.is_spoken(value.text) else 1)

    def is_spoken(self, text: str) -> bool:
        """Whether a user, the model or a call has used a value."""
        return text in self.used or text.strip("#").lower() in self._spoken


def form_weight(text: str) -> float:
    """The weight of a text by its form: names weigh most."""
    if len(text) > LONGEST_VALUE:
        return PROSE
    has_digit = any(map(str.isdigit, text))
    if has_digit:
        for form, weight in _FORMS:
            if form.match(text):
                return weight
    if " " in text:
        return PHRASE if has_digit else WORD
    if "@" in text:
        return ADDRESS
    if has_digit or "/" in text:
        return NAME
    return CODE if _CODE.match(text) else WORD


def _said(entries: Sequence[Entry]) -> Iterable[str]:
    return (
        entry.content for entry in entries if entry.role == "user" or entry.is_answer
    )


def _stem(key: str) -> str:
    """A field's name without what changes from tool to tool: `new_item_ids`, `item`."""
    return _AFFIXES.sub("", _AFFIXES.sub("", key.lower(), count=1), count=1)
