"""What a compaction would do: decided without a model, to be shown beforehand."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from nbchat.compaction.policies import Policy
from nbchat.compaction.units import open_calls, safe_cuts
from nbchat.history import Entry
from nbchat.session import Session
from nbchat.tokens import TokenCounter

LEAST_SHARE = 0.1
"""Part of the context an automatic compaction must be able to fold: less would break
the prompt cache and buy nothing."""

SHORTEST_SUMMARY, SUMMARY_SHARE = 200, 0.25
"""A summary may take a quarter of what it replaces, and never less than 200 tokens."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction would do, or in `skip` the reason not to."""

    trigger: str
    covered: tuple[Entry, ...] = ()
    """Entries that would be folded, an earlier summary included; outputs that were
    pruned are whole here."""
    start: int = 0
    stop: int = 0
    """The newly folded part of the transcript."""
    tokens_before: int = 0
    tokens_covered: int = 0
    summary_max_tokens: int = 0
    focus: str = ""
    skip: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12], compare=False)
    """The id of all records of this compaction, from its beginning to its undoing."""
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
    earlier = [entry for entry in history[:cut] if entry.role == "summary"]
    folded = cut - len(earlier)
    if not folded:
        return Plan(trigger, skip="there is nothing new to fold")
    size = counter.count_entries(history[:cut])
    new = size - counter.count_entries(earlier)
    if new < _least(trigger, policy, tokens_before):
        return Plan(
            trigger, skip=f"only {new:,} of {tokens_before:,} tokens could be folded"
        )
    start = session.compaction.stop if session.compaction else 0
    budget = max(SHORTEST_SUMMARY, int(size * SUMMARY_SHARE))
    return Plan(
        trigger,
        (*earlier, *session.transcript[start : start + folded]),
        start,
        start + folded,
        tokens_before,
        size,
        min(budget, policy.summary_max_tokens),
        focus,
        recent=tuple(history[cut:]),
    )


def _least(trigger: str, policy: Policy, context_tokens: int) -> float:
    """How many tokens must be new since the last summary for a compaction to pay."""
    if trigger == "manual":
        return 0
    if trigger == "overflow":  # what is freed may be what was missing
        return policy.least_tokens
    return max(policy.least_tokens, context_tokens * LEAST_SHARE)


def _answered(history: Sequence[Entry]) -> int:
    """How much of a history somebody has reacted to; the newest request never folds."""
    end = len(history)
    while end and history[end - 1].role == "user":
        end -= 1
    return end
