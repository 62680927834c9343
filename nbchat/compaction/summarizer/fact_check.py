"""Check the values of a summary against what it covers, and mark what it made up.

Every value of a summary must occur in what it covers. Small whole numbers are omitted,
because they count things. A number that can be computed is no invention: the total or
the length of a list that a call returned, and the sum or difference of numbers of the
same paragraph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

from nbchat.compaction.summarizer.source_index import Sources
from nbchat.compaction.summarizer.unsupported_marks import is_marked, with_marks
from nbchat.conversation.values import COUNTS, Value, values

MOST_NAMED = 12
"""Values that a retry names."""

STORY_CHARACTERS = 200_000
"""Characters of a summary that are checked."""

MOST_ADDED = 12
"""Numbers, those nearest to one, of which sums and differences are computed; among
more, some would meet any number by chance."""

NUMBERS = ("number", "amount")
"""Kinds of values that may be computed."""

USUAL = {"n:24", "n:100"}
"""The hours of a day, as in "24/7", and all of something."""

Place = tuple[int, float]
"""The index of a number, and what it is."""


@dataclass(frozen=True, slots=True)
class FactCheck:
    """A checked summary, and its values that the sources do not contain."""

    text: str
    findings: tuple[Value, ...]

    @property
    def names(self) -> list[str]:
        """The values, each once."""
        return list(dict.fromkeys(each.text for each in self.findings))

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
        """The record's note on a summary with marks."""
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
        return with_marks(self.text, {each.stop for each in self.findings})


def check_facts(story: str, sources: Sources) -> FactCheck:
    """Find the values of a summary that its sources do not hold."""
    read = story[:STORY_CHARACTERS]
    found = [each for each in values(read) if not is_marked(story, each.stop)]
    known = {each for each in found if _is_known(each, sources)}
    said = [(v.start, min(_numbers(v))) for v in found if v in known and _numbers(v)]
    return FactCheck(
        story,
        tuple(
            value
            for value in found
            if value not in known
            and sources.totals.isdisjoint(_numbers(value))
            and _numbers(value).isdisjoint(_computed(value, said, read))
        ),
    )


def _is_known(value: Value, sources: Sources) -> bool:
    if not value.keys.isdisjoint(USUAL) or value.is_count or sources.knows(value):
        return True
    listed = {part for part in value.parts if part.startswith("n:")}
    return (
        value.kind in NUMBERS
        and bool(listed)
        and all(part in COUNTS | USUAL or sources.states(part) for part in listed)
    )


def _computed(value: Value, said: Sequence[Place], story: str) -> set[float]:
    """The differences of the known numbers near a value, and sums of neighbours."""
    start = story.rfind("\n\n", 0, value.start) + 1
    stop = story.find("\n\n", value.stop)
    stop = stop if stop >= 0 else len(story)
    paragraph = [place for place in said if start <= place[0] < stop]
    near = sorted(paragraph, key=lambda place: abs(place[0] - value.start))[:MOST_ADDED]
    amounts = [amount for _, amount in sorted(near)]
    differences = {round(abs(a - b), 2) for a, b in combinations(amounts, 2)}
    sums = (
        total
        for first in range(len(amounts))
        for total in list(accumulate(amounts[first:]))[1:]
    )
    return differences | {round(total, 2) for total in sums}


def _numbers(value: Value) -> set[float]:
    """A number in each way in which it can be read, in cents at the finest."""
    if value.kind not in NUMBERS:
        return set()
    return {round(abs(float(k[2:])), 2) for k in value.keys if "/" not in k}
