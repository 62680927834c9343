"""Check the facts of a summary against what it covers, and mark what it made up.

Every id, number, amount, date and time of a summary must occur in what it covers; a
value beside an id must have occurred with that id, where it occurred with ids of that
kind at all. Small whole numbers are omitted, because they count things. A number that
can be computed is no invention: the total or the length of a list that a call returned,
and the sum or difference of amounts that the same line says.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, compress

from nbchat.compaction.summarizer.source_index import Sources, groups, shape
from nbchat.compaction.summarizer.unsupported_marks import (
    INVENTED,
    MISPLACED,
    is_marked,
    with_marks,
)
from nbchat.compaction.summarizer.value_extraction import Value, values

MOST_NAMED = 12
"""Values that a retry names."""

MOST_IDS = 20
"""Ids of a sentence that its values may belong to."""

STORY_CHARACTERS = 200_000
"""Characters of a summary that are checked."""

MOST_ADDED = 12
"""Amounts of a line, those nearest to a number, of which sums and differences are
computed; among more, some would meet any number by chance."""

LINES_BEFORE = 2
"""Lines before a number with cents from whose amounts it may be computed."""

_OF = re.compile(
    r"[\s(,]*\b(?:of|from|in|on|for|under|von|aus|für|de|du|del|da|do|из|для)"
    r"(?:\s+[^\W\d]+){0,3}\s*[#(\"'`]*"
)
"""Between a value and the id that it belongs to, as in "item 7 of order W1"."""

_ARROW = re.compile(r"[→➔➜⇒]|[-=]+>")
"""What is before an arrow belongs to nothing after it: "May 3 → HAT550"."""

IDIOMS = ("24/7", "100", "50/50", "360")
"""Numbers that are words."""

_ROUGH = re.compile(
    r"(?:\b(?:about|around|approx(?:imately)?|roughly|nearly|almost|over|under|some"
    r"|circa|ca|etwa|rund|ungefähr|fast|knapp|environ|presque|près de|unos|unas"
    r"|casi|cerca de|aproximadamente|quase|около|примерно)\.?|[~≈≤≥<>]|约|約|大约|大約)"
    r"[ ]?[$€£¥]?\Z",
    re.IGNORECASE,
)


Keys = frozenset[str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A value in a summary that its sources do not support here."""

    value: Value
    beside: str = ""
    """The id with which it never occurred; empty where it never occurred at all."""

    def __str__(self) -> str:
        """As a retry names it."""
        return (
            f"{self.value.text} for {self.beside}" if self.beside else self.value.text
        )

    @property
    def mark(self) -> str:
        """The mark that follows the value."""
        return MISPLACED.format(id=self.beside) if self.beside else INVENTED


@dataclass(frozen=True, slots=True)
class FactCheck:
    """A checked summary, and its values that the sources do not contain."""

    text: str
    findings: tuple[Finding, ...]

    @property
    def names(self) -> list[str]:
        """The values, each once."""
        return list(dict.fromkeys(map(str, self.findings)))

    @property
    def refusal(self) -> str:
        """Why the summary should be written again; empty when it is true."""
        if not self.findings:
            return ""
        more = len(self.names) - MOST_NAMED
        listed = ", ".join(self.names[:MOST_NAMED]) + (f" and {more} more" * (more > 0))
        return f"the conversation does not say: {listed}"

    @property
    def note(self) -> str:
        """What the record says about a summary with marks."""
        count = len(self.names)
        if not count:
            return ""
        listed = ", ".join(self.names[:MOST_NAMED])
        return (
            f"{count} value{'s' * (count > 1)} not found in the conversation: {listed}"
        )

    @property
    def marked(self) -> str:
        """The summary with a mark after each value that it made up."""
        return with_marks(
            self.text, {each.value.stop: each.mark for each in self.findings}
        )


def check_facts(story: str, sources: Sources) -> FactCheck:
    """Find the values of a summary that its sources do not hold."""
    return FactCheck(story, tuple(_findings(story[:STORY_CHARACTERS], sources)))


def _findings(story: str, sources: Sources) -> Iterator[Finding]:
    line = _Line(story, sources)
    for group in groups(story):
        checked = [each for each in group if not is_marked(story, each.stop)]
        known = [_is_known(each, story, sources) or line.says(each) for each in checked]
        ids = [each for each in compress(checked, known) if each.is_id]
        for value, is_known in zip(checked, known, strict=True):
            if not is_known:
                yield Finding(value)
            elif line.is_total(value):
                continue
            elif foreign := _foreign(value, ids[:MOST_IDS], sources, story):
                yield Finding(value, foreign.text)


def _is_known(value: Value, story: str, sources: Sources) -> bool:
    before = story[max(0, value.start - 20) : value.start]
    is_rough = _ROUGH.search(before) is not None
    if value.is_count or value.text in IDIOMS:
        return True
    return sources.knows(value, is_rough=is_rough)


class _Line:
    """What can be computed from the amounts that a line of a summary says.

    A number with cents meets few others by chance: it may be computed from the amounts
    of the `LINES_BEFORE`, too, and from those that occur with an id of its line.
    """

    def __init__(self, story: str, sources: Sources) -> None:
        self._story, self._sources = story, sources
        self._stop = -1
        self._amounts: list[Value] = []
        self._near: list[Value] = []
        self._ids: list[Value] = []

    def is_total(self, value: Value) -> bool:
        """Whether a number is the length of a list of a result, or a sum over it."""
        return not self._sources.totals.isdisjoint(_numbers(value))

    def says(self, value: Value) -> bool:
        """Whether a number is a total of a result, or of other amounts of its line."""
        numbers = _numbers(value)
        if value.kind not in ("number", "amount") or not numbers:
            return False
        if self.is_total(value):
            return True
        if value.start >= self._stop:
            self._read(value.start)
        has_cents = not any(number.is_integer() for number in numbers)
        amounts = self._near if has_cents else self._amounts
        others = (each for each in amounts if each.start != value.start)
        nearest = sorted(others, key=lambda each: abs(each.start - value.start))
        nearest = sorted(nearest[:MOST_ADDED], key=lambda each: each.start)
        said = [min(_numbers(each)) for each in nearest]
        if not numbers.isdisjoint(_computed(said)):
            return True
        return has_cents and any(
            not numbers.isdisjoint(
                _computed([*said, *self._sources.numbers_with(each)])
            )
            for each in self._ids
        )

    def _read(self, at: int) -> None:
        """Read the known amounts of the line; values are asked for in order."""
        start = self._story.rfind("\n", 0, at) + 1
        stop = self._story.find("\n", at)
        self._stop = stop if stop >= 0 else len(self._story)
        self._amounts = [*self._known(start, self._stop)]
        written = values(self._story[start : self._stop])
        self._ids = [each for each in written if each.is_id][:MOST_IDS]
        first = start
        for _ in range(LINES_BEFORE):
            first = self._story.rfind("\n", 0, max(first - 1, 0)) + 1
        self._near = [*self._known(first, start), *self._amounts]

    def _known(self, start: int, stop: int) -> Iterator[Value]:
        """The amounts of a part of the summary that its sources hold, totals too."""
        for each in values(self._story[start:stop]):
            is_amount = each.kind in ("number", "amount") and _numbers(each)
            if is_amount and (self._sources.knows(each) or self.is_total(each)):
                yield replace(each, start=each.start + start)


def _computed(amounts: Sequence[float]) -> set[float]:
    """The differences of amounts, and the sums of neighbours."""
    differences = {round(abs(a - b), 2) for a, b in combinations(amounts, 2)}
    sums = (
        total
        for first in range(len(amounts))
        for total in list(accumulate(amounts[first:]))[1:]
    )
    return differences | {round(total, 2) for total in sums}


def _numbers(value: Value) -> set[float]:
    """The number in each way in which it can be read, in cents at the finest."""
    return {round(float(key[2:]), 2) for key in value.keys if key.startswith("n:")}


def _foreign(
    value: Value, ids: Sequence[Value], sources: Sources, story: str
) -> Value | None:
    """The id beside a value that occurs with other ids of that kind only.

    Of two ids the later one is the value, but in "item 7 of order W1".
    """
    after = next((each for each in ids if each.start > value.start), None)
    if after is not None and _OF.fullmatch(story, value.stop, after.start):
        ids = [after]
    elif after is not None and (arrow := _ARROW.search(story, value.stop)):
        ids = [each for each in ids if each.start < arrow.start()]
    elif value.is_id:
        ids = [each for each in ids if each.start < value.start]
    others = [each for each in ids if _shape(each) != _shape(value)]
    if not others or value.is_count:
        return None
    records = sources.records_of(value)
    fitting = (each for each in others if _fits(each, records))
    return None if not records or next(fitting, None) else others[0]


def _fits(entity: Value, records: set[frozenset[str]]) -> bool:
    """Whether an entity, or none of its kind, occurs in one of the records."""
    own = _shape(entity)
    return any(
        not entity.keys.isdisjoint(record) or own not in map(shape, record)
        for record in records
    )


def _shape(value: Value) -> str:
    key = next((key for key in value.keys if key.startswith("i:")), "")
    return shape(key) if value.is_id else ""
