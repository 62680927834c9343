"""The parts of the memory: what they read and offer, and the choice of lines that fit.

Each part reads the transcript entry by entry and offers lines. A line copies what one
place of the transcript says; nothing in it is concluded.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from nbchat.compaction.results import (
    Node,
    ends_in_failure,
    read_result,
    reports_failure,
)
from nbchat.conversation.entries import Fact

NAME_LENGTH = 200
"""Characters of the longest name by which something is looked up."""

LEAST_LINE = 4
"""Tokens that no line is shorter than: with fewer left none is tried."""

Made = TypeVar("Made")

_WORD = re.compile(r"[^\s,;()\[\]{}\"'<>|=`*]{1,200}")
_EDGES = ".:!?#$@/-"


@dataclass(frozen=True)
class Call:
    """A tool call and its result."""

    tool: str
    arguments: Mapping[str, Any]
    """The JSON object of the arguments; empty where they are none."""
    position: int
    """Index of the call in the transcript."""
    result: str = ""
    result_position: int | None = None
    """Index of the result; None while there is none."""
    is_error: bool = False
    is_look_up: bool = False
    """True if the tool only reads: it says `read_only`, or else its name does."""

    @cached_property
    def value(self) -> Node | list[Any] | None:
        """The JSON of the result, or the rows of its table; None where it is words."""
        return read_result(self.result)

    @cached_property
    def has_failed(self) -> bool:
        """True if the tool raised an error or a process had an exit status."""
        if isinstance(self.value, dict):
            return self.is_error or reports_failure(self.value)
        return self.is_error or ends_in_failure(self.result)


@dataclass(frozen=True)
class Line:
    """A line that a part offers."""

    text: str
    position: int | None
    """Index in the transcript of what it copies; None for the kernel and for files."""
    facts: tuple[Fact, ...] = ()
    """The values in it; each value is a part of the text, word for word."""
    group: str = ""
    """The line that stands once above all lines of the group, such as column names."""
    names: tuple[str, ...] = ()
    """By what messages and calls refer to it: ids, variables, columns, paths."""
    weight: int = 0
    """Decides between lines that are equally new and equally used."""
    beside: tuple[str, ...] = ()
    """Texts of later lines that change what this one says: they come with it."""

    @cached_property
    def plain_names(self) -> tuple[tuple[str, ...], ...]:
        """The words of each name, as `Uses` knows them."""
        return tuple(tuple(_plain_words(name[:NAME_LENGTH])) for name in self.names)


class Source:
    """A value of which lines are written, and what was written of it."""

    def once(self, name: str, of: object, make: Callable[[], Made]) -> Made:
        """What was made of this value and of the same other things before.

        So a compaction writes only what is new or changed.
        """
        before = self._made.get(name)
        if before is None or before[0] != of:
            before = self._made[name] = of, make()
        made: Made = before[1]
        return made

    @cached_property
    def _made(self) -> dict[str, tuple[object, Any]]:
        return {}


class Uses:
    """Where people and calls named each word last."""

    def __init__(self) -> None:
        """Start without a word."""
        self._last: dict[str, int] = {}

    def add(self, text: str, position: int) -> None:
        """Read the words of a person's message or of a call's arguments."""
        self._last.update(dict.fromkeys(_plain_words(text), position))

    def last(self, line: Line) -> int:
        """Index at which all words of one of its names were named last; -1 if never."""
        last = self._last
        return max(
            (
                min((last.get(word, -1) for word in words), default=-1)
                for words in line.plain_names
            ),
            default=-1,
        )


def _plain_words(text: str) -> Iterator[str]:
    return map(plain_name, _WORD.findall(text))


def plain_name(word: str) -> str:
    """A word in small letters without the signs around it."""
    return word.strip(_EDGES).lower()


def fitting(
    lines: Sequence[Line],
    budget_tokens: int,
    count: Callable[[str], int],
    *,
    uses: Uses,
    summary: str = "",
) -> list[Line]:
    """The lines that fit a budget, in the order in which they are offered.

    Two orders take turns, of what was used last and of what is newest. A line of which
    the summary states all values comes last. A line comes with those that change it.
    """
    chosen: set[int] = set()
    groups: set[str] = {""}
    left = budget_tokens
    numbers = {line.text: index for index, line in enumerate(lines)}
    for index in _ranked(lines, uses, summary):
        beside = {numbers[text] for text in lines[index].beside if text in numbers}
        wanted = {index, *beside} - chosen
        added = {lines[each].group for each in wanted} - groups
        texts = [*added, *(lines[each].text for each in wanted)]
        size = sum(count(text) + 1 for text in texts)
        if index not in chosen and size <= left:
            left -= size
            groups |= added
            chosen |= wanted
        elif left < LEAST_LINE:
            break
    return [lines[index] for index in sorted(chosen)]


def _ranked(lines: Sequence[Line], uses: Uses, summary: str) -> list[int]:
    """The indices of lines, the most important ones first."""

    def age(index: int) -> tuple[int, int, int]:
        position = lines[index].position
        if position is None:  # the kernel's variables: those named last are first
            return -len(lines), -weight(index), index
        return -position, -weight(index), -index

    def weight(index: int) -> int:
        return lines[index].weight

    def last_use(index: int) -> tuple[int, int, tuple[int, int, int]]:
        last = uses.last(lines[index])
        is_used = last > (lines[index].position or 0)
        return -last if is_used else 1, -weight(index), age(index)

    every = range(len(lines))
    pairs = zip(sorted(every, key=last_use), sorted(every, key=age), strict=True)
    order = list(dict.fromkeys(index for pair in pairs for index in pair))
    return sorted(order, key=lambda index: is_said(lines[index], summary))


def is_said(line: Line, text: str) -> bool:
    """True if a text states all values of a line, as strings."""
    values = [fact.value for fact in line.facts]
    return bool(text) and bool(values) and all(value in text for value in values)


def shown(lines: Iterable[Line]) -> list[str]:
    """The texts of lines, each group below its heading."""
    texts: list[str] = []
    group = ""
    for line in lines:
        if line.group and line.group != group:
            texts.append(line.group)
        group = line.group
        texts.append(line.text)
    return texts
