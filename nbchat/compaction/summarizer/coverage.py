"""Judge how much of what was talked about a summary says.

Of a good summary code has little to add. It is judged by the values that are new since
the summary before, and by that one where few are new.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from nbchat.compaction.summarizer.carry_over import Keys, in_force
from nbchat.compaction.summarizer.value_extraction import Value, values
from nbchat.conversation.entries import Entry

GOOD_SHARE, DENSE_SHARE, DENSE = 0.5, 0.33, 1.25
"""Shares of the new values that were talked about from which a summary is good, and a
dense one is, which says so many times their number. At 0.55 some honest ones by a
strong writer were below it; at 0.5 summaries that begin all prompts or forget a fifth
keep as many values as at 0.55 (`tests/benchmarks/reader.py`, and
`tests/benchmarks/longrun.py` with `--story copy` and `--story forgetful`)."""

LEAST_VALUES = 15
"""Values by which a summary is judged, at least: of fewer chance decides."""

MOST_STEPS = 50
"""Summaries by which one is judged; a long chat with little news has thousands."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a summary says of the new values that were talked about."""

    share: float
    is_dense: bool
    """Whether it says more values than these are, of its own choice: it knows better
    than code which of them are needed."""

    @property
    def is_good(self) -> bool:
        """Whether little is to be added."""
        return self.share >= (DENSE_SHARE if self.is_dense else GOOD_SHARE)


def coverage(
    summaries: Iterable[tuple[int, str]], transcript: Sequence[Entry], known: str
) -> Coverage:
    """Judge a summary of a whole transcript.

    `summaries` are it and those before it, newest first, each with the index at which
    its part begins; `known` is a text with the values that code knows. Where few are
    new, older ones count, too: a summary says them, or is as good as the one before by
    as much as it says of that one.
    """
    steps = _steps(summaries, transcript, known)
    newest, new = steps[0]
    said = {each.keys for each in values(newest) if not each.is_count}
    is_dense = len(said) >= DENSE * max(LEAST_VALUES, len(new))
    text, before = steps.pop()
    share, count = share_said(text, before), len(before)
    for newer, needed in reversed(steps):
        as_before = share * share_said(newer, in_force(text))
        older = max(as_before, share_said(newer, before))
        weight = min(LEAST_VALUES - len(needed), count)
        own = share_said(newer, needed)
        text, before, count = newer, needed, len(needed) + weight
        share = (own * len(needed) + older * weight) / count if count else 0.0
    return Coverage(share, is_dense)


def _steps(
    summaries: Iterable[tuple[int, str]], transcript: Sequence[Entry], known: str
) -> list[tuple[str, set[Keys]]]:
    """Summaries with the values that were new to each, until these are enough."""
    steps: list[tuple[str, set[Keys]]] = []
    stop, read = len(transcript), values(known)
    for start, text in islice(summaries, MOST_STEPS):
        new = _important(read, _talk(transcript[start:stop]))
        steps.append((text, new))
        stop = start
        if len(new) >= LEAST_VALUES:
            break
    return steps


def important(known: str, said: Container[str]) -> set[Keys]:
    """The values that code knows and that were `said`, by people or in calls.

    What only results have is no fault of a summary that leaves it out.
    """
    return _important(values(known), said)


def _important(known: Iterable[Value], said: Container[str]) -> set[Keys]:
    return {each.keys for each in known if not each.is_count and each.text in said}


def share_said(story: str, needed: set[Keys]) -> float:
    """The share of some values that a summary says itself; 0 of none."""
    said = {key for each in values(story) for key in each.known | each.related}
    held = sum(not said.isdisjoint(keys) for keys in needed)
    return held / len(needed) if needed else 0.0


def _talk(entries: Sequence[Entry]) -> str:
    """The text of messages and the arguments of calls."""
    spoken = (entry for entry in entries if entry.role != "tool")
    return "\n".join(e.tool_args if e.is_call else e.content for e in spoken)
