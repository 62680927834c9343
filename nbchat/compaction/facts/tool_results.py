"""What tools answered, as records: a subject, what belongs to it, and where it stood.

A JSON answer is taken apart into objects: plain values stay with the object they stand
in, objects inside it become its parts, numbers keep the digits they were written with.
Nothing is understood: only the form counts.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nbchat.compaction.truncation import parsed
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import INTERRUPTED, calls_by_result, interrupted_results

MOST_PARTS = 2_000
"""Objects looked at in one answer; what comes after them is only in the transcript."""

LONGEST_JSON = 2_000_000
"""Characters of an answer that is still read as JSON."""

LONGEST_OUTCOME = 400
"""Characters kept of an answer in words."""

LONGEST_NAME = 60
"""Characters of an answer that is nothing but a name."""

NOTHING = "nothing found"
"""What an empty answer says."""

_IDENTITY = re.compile(
    r"(?:^|_)(?:id|ids|number|no|code|key|uuid|sku|ref)$", re.IGNORECASE
)
_LOOKUP = re.compile(
    r"^(?:get|find|search|list|look|lookup|check|view|read|fetch|show|describe|query|"
    r"calculate|compute|think|count|is|has|can)(?:_|$|[A-Z])"
)


class Value(NamedTuple):
    """One plain value and what it is called where it stands."""

    key: str
    text: str
    is_listed: bool = False
    """Whether it stood in a list of plain values: most likely a reference."""
    group: str = ""
    """The object that only describes another, as an address does, it stood in."""

    @property
    def is_identity(self) -> bool:
        """Whether its name says that it names a thing."""
        return bool(_IDENTITY.search(self.key))


Part = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What one call brought: the thing it is about, and the thing's parts."""

    subject: str
    tool: str
    place: int
    """Of the result in the transcript, or of a call without one."""
    asked: Part
    """What the call was made with."""
    own: Part
    """The plain values of the thing itself."""
    parts: tuple[Part, ...] = ()
    outcome: str = ""
    """An answer that is no JSON, in its own words."""
    is_error: bool = False

    @property
    def is_action(self) -> bool:
        """Whether the tool's name says that it does more than look."""
        return not _LOOKUP.search(self.tool)

    @property
    def is_unknown(self) -> bool:
        """Whether the call was interrupted, and may have done its work or not."""
        return self.is_error and self.outcome.endswith(INTERRUPTED)


def records(entries: Sequence[Entry]) -> list[Record]:
    """A record for every call, oldest first; of one without a result none is known."""
    answers = {
        place: (entries[call], entries[place])
        for place, call in calls_by_result(entries).items()
    }
    for place, stated in interrupted_results(entries).items():
        answers[place] = (entries[place], stated)
    return [_record(*answers[place], place) for place in sorted(answers)]


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


def _record(call: Entry, result: Entry, place: int) -> Record:
    asked = tuple(plain_values(parsed(call.tool_args)))
    is_short = len(result.content) <= LONGEST_JSON
    answer = parsed(result.content) if is_short else None
    if not answer:
        outcome = " ".join(result.content[:LONGEST_OUTCOME].split())
        outcome = outcome if answer is None else NOTHING
        is_name = _is_one_name(outcome)
        subject = outcome if is_name else _first_identity(asked) or _named_in(outcome)
        return Record(
            subject, call.tool_name, place, asked, (), (), outcome, result.is_error
        )
    own, parts = _objects(answer)
    subject = _first_identity(own) if isinstance(answer, dict) else ""
    if isinstance(answer, dict) and not subject:
        subject = _first_identity(asked)
    return Record(
        subject, call.tool_name, place, asked, own, parts, "", result.is_error
    )


def _objects(root: dict[str, Any] | list[Any]) -> tuple[Part, tuple[Part, ...]]:
    """The plain values at the root, and those of every object inside it."""
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
    """Take a node's plain values; give out what has to be opened in turn."""
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
    """Whether an object only describes the one it stands in, as an address does."""
    return not any(
        _IDENTITY.search(key) or isinstance(value, dict | list)
        for key, value in node.items()
    )


def _is_keyed_by_identity(node: Any) -> bool:
    """Whether a dictionary's keys are names of things and not of fields."""
    return isinstance(node, dict) and all(
        isinstance(value, dict) and any(sign.isdigit() for sign in key)
        for key, value in node.items()
    )


def _first_identity(values: Iterable[Value]) -> str:
    named = [value for value in values if value.is_identity]
    return named[0].text if named else ""


def _named_in(outcome: str) -> str:
    """The thing an answer begins with, as in `T3: closed`; empty when there is none."""
    first = outcome.split(" ", 1)[0].strip(".:,")
    has_both = any(map(str.isdigit, first)) and any(map(str.isalpha, first))
    return first if has_both and len(first) <= LONGEST_NAME else ""


def _is_one_name(text: str) -> bool:
    """Whether an answer is a single name, as a search for an id gives."""
    return (
        0 < len(text) <= LONGEST_NAME
        and " " not in text
        and any(map(str.isdigit, text))
    )
