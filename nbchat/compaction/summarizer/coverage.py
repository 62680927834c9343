"""Measure how many of the values that were talked about a summary contains.

Of a good summary code has little to add. It is judged by the values that are new since
the summary before, and by that one where few are new.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from nbchat.compaction.summarizer.carry_over import Keys, in_force
from nbchat.conversation.entries import Entry
from nbchat.conversation.values import Value, values

GOOD_SHARE, DENSE_SHARE, DENSE = 0.5, 0.33, 1.25
"""Shares of the new values that were talked about from which a summary is good, and a
dense one is, which says so many times their number."""

NEWEST, TOGETHER_SHARE = 4, 0.35
"""Summaries of one model that are judged together, and the share from which they are
good: single ones by a strong writer say 0.22 to 0.68 of the values, single ones that
copy or forget 0 to 0.5, and only together do they differ (`tests/benchmarks/reader.py`,
and `tests/benchmarks/longrun.py` with `--story copy` and `--story forgetful`)."""

LEAST_VALUES = 15
"""Values by which a summary is judged, at least: of fewer chance decides."""

MOST_STEPS = 50
"""Summaries by which one is judged; a long chat with little news has thousands."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a summary says of the new values that were talked about."""

    share: float
    is_dense: bool = False
    """Whether it says more values than these are, of its own choice: it knows better
    than code which of them are needed."""
    together: float = 0.0
    """The share of the newest summaries together; 0 where there is one alone."""

    @property
    def is_good(self) -> bool:
        """Whether little is to be added.

        One that says less than its writer's others is good, too, but not one that says
        less than half of what those must.
        """
        least = DENSE_SHARE if self.is_dense else GOOD_SHARE
        is_like_others = self.share >= TOGETHER_SHARE / 2
        return self.share >= least or (
            is_like_others and self.together >= TOGETHER_SHARE
        )


def coverage(
    summaries: Iterable[tuple[int, str]], transcript: Sequence[Entry], known: str
) -> Coverage:
    """Judge a summary of a whole transcript.

    `summaries` are it and those before it, newest first, each with the index at which
    its part begins; `known` is a text with the values that code knows. Where few are
    new, older ones count, too: a summary says them, or is as good as the one before by
    as much as it says of that one.
    """
    newest_steps = _steps(summaries, transcript, known)
    steps = _enough(newest_steps)
    others = newest_steps[len(steps) :]
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
    together = _together(others[: NEWEST - 1], share, count)
    return Coverage(share, is_dense, together)


def _together(
    others: Sequence[tuple[str, set[Keys]]], share: float, count: float
) -> float:
    """The share of `count` values and of those of other summaries."""
    others = [(text, needed) for text, needed in others if needed]
    if not others:
        return 0.0
    held = share * count + sum(share_said(text, n) * len(n) for text, n in others)
    return held / (count + sum(len(needed) for _, needed in others))


def _steps(
    summaries: Iterable[tuple[int, str]], transcript: Sequence[Entry], known: str
) -> list[tuple[str, set[Keys]]]:
    """The newest summaries, or more of them, with the values that were new to each."""
    steps: list[tuple[str, set[Keys]]] = []
    stop, read, is_enough = len(transcript), list(values(known)), False
    for start, text in islice(summaries, MOST_STEPS):
        new = _important(read, _talk(transcript[start:stop]))
        steps.append((text, new))
        stop = start
        is_enough = is_enough or len(new) >= LEAST_VALUES
        if is_enough and len(steps) >= NEWEST:
            break
    return steps


def _enough(steps: Sequence[tuple[str, set[Keys]]]) -> list[tuple[str, set[Keys]]]:
    """The steps up to one with enough new values."""
    counts = (len(new) for _, new in steps)
    at = next((n for n, count in enumerate(counts, 1) if count >= LEAST_VALUES), None)
    return list(steps[:at])


def important(known: str, said: Container[str]) -> set[Keys]:
    """The values that code knows and that were `said`, by people or in calls.

    What only results have is no fault of a summary that leaves it out.
    """
    return _important(values(known), said)


def _important(known: Iterable[Value], said: Container[str]) -> set[Keys]:
    return {each.keys for each in known if not each.is_count and each.text in said}


def share_said(story: str, needed: set[Keys]) -> float:
    """The share of some values that a summary says itself; 0 of none."""
    said = _keys_in(story)
    held = sum(not said.isdisjoint(keys) for keys in needed)
    return held / len(needed) if needed else 0.0


@lru_cache(2 * MOST_STEPS)
def _keys_in(story: str) -> frozenset[str]:
    """What a summary says; kept for the next compactions, which judge by it again."""
    return frozenset(k for each in values(story) for k in each.keys | each.parts)


def _talk(entries: Sequence[Entry]) -> str:
    """The text of messages and the arguments of calls."""
    spoken = (entry for entry in entries if entry.role != "tool")
    return "\n".join(e.tool_args if e.is_call else e.content for e in spoken)
