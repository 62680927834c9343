"""What a compaction would do: decided without a model, to be shown beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass

from nbchat.compaction.policies import Policy
from nbchat.compaction.units import open_calls, safe_cuts
from nbchat.history import Entry, Session
from nbchat.tokens import TokenCounter

LEAST_TOKENS = 100
"""An automatic compaction of fewer tokens than this could not pay for its request."""

SHORTEST_SUMMARY, SUMMARY_SHARE = 200, 0.25
"""A summary may take a quarter of what it replaces, and never less than 200 tokens."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction would do, or in `skip` the reason not to."""

    trigger: str
    covered: tuple[Entry, ...] = ()
    """Entries of the history that would be folded, an earlier summary included."""
    start: int = 0
    stop: int = 0
    """The newly folded part of the transcript."""
    tokens_before: int = 0
    tokens_covered: int = 0
    summary_max_tokens: int = 0
    focus: str = ""
    skip: str = ""
    recent: tuple[Entry, ...] = ()
    """Entries of the history after the covered ones, which stay."""

    @property
    def tokens_after(self) -> int:
        """The estimate of the context after, with a summary of full length."""
        return self.tokens_before - self.tokens_covered + self.summary_max_tokens


def make_plan(
    session: Session,
    policy: Policy,
    *,
    trigger: str,
    focus: str,
    counter: TokenCounter,
    tokens_before: int,
) -> Plan:
    """The plan for a session under a policy; `tokens_before` is the context now."""
    history = session.history
    if open_calls(history):
        return Plan(trigger, skip="a tool call still waits for its result")
    newest = min(_answered(history), len(history) - policy.keep_entries)
    cut = max((place for place in safe_cuts(history) if place <= newest), default=0)
    covered = tuple(history[:cut])
    folded = sum(entry.role != "summary" for entry in covered)
    if not folded:
        return Plan(trigger, skip="there is nothing new to fold")
    size = counter.count_entries(covered)
    if trigger != "manual" and size < LEAST_TOKENS:
        return Plan(trigger, skip=f"only {size} tokens could be folded")
    start = session.compaction.stop if session.compaction else 0
    budget = max(SHORTEST_SUMMARY, int(size * SUMMARY_SHARE))
    return Plan(
        trigger,
        covered,
        start,
        start + folded,
        tokens_before,
        size,
        min(budget, policy.summary_max_tokens),
        focus,
        recent=tuple(history[cut:]),
    )


def _answered(history: Sequence[Entry]) -> int:
    """How much of a history somebody has reacted to; the newest request never folds."""
    end = len(history)
    while end and history[end - 1].role == "user":
        end -= 1
    return end
