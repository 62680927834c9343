"""What a compaction would do: decided without a model, to be shown beforehand."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from nbchat.compaction.policies import LEAST_TOKENS, LENGTHS, KeepUnit, Policy
from nbchat.conversation.entries import Entry, html_table
from nbchat.conversation.session import Session
from nbchat.conversation.turns import (
    answered_length,
    count_messages,
    message_starts,
    open_calls,
    safe_cuts,
    turns,
)
from nbchat.providers.tokens import TokenCounter


def kept_start(
    history: Sequence[Entry],
    cuts: Sequence[int],
    keep: int,
    unit: KeepUnit,
    sizes: Sequence[int],
) -> int:
    """Where the newest begins that stays: one of the `cuts` between whole units.

    Of tokens as many whole units stay as fit `keep`, and what nobody has answered yet
    is not counted; messages and exchanges are rounded up to whole units. `sizes` are
    the tokens of all entries before each place.
    """
    answered = answered_length(history)
    if unit == "tokens":
        most = sizes[answered] - keep
        return next((c for c in cuts if c <= answered and sizes[c] >= most), answered)
    exchanges = (turn.start for turn in turns(history[:answered]))
    starts = message_starts(history) if unit == "messages" else exchanges
    wanted = len(history) if not keep else [0, *starts][-keep:][0]
    return max((cut for cut in cuts if cut <= wanted), default=0)


LEAST_SHARE = 0.1
"""Part of the context an automatic compaction must be able to fold: less would break
the prompt cache and buy nothing."""

SHORTEST_SUMMARY = 200
"""Tokens that a summary may always take, however little it replaces."""

FACTS_TOKENS, MOST_FACTS = 500, 4 / 9
"""Tokens that facts may take where their share is less, but never over this part of
what summary and facts may take together."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that what stands in for folded entries may take."""

    summary: int
    facts: int
    room: int | None = None
    """Of summary and facts together, so that the context gets small enough; None is no
    limit beside the share of what they replace."""

    @property
    def entry(self) -> int:
        """The size to expect of a summary entry."""
        return self.summary + self.facts


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """What a compaction would do, or in `skip` the reason not to."""

    trigger: str
    covered: tuple[Entry, ...] = ()
    """Entries that would be folded, an earlier summary included; outputs that were
    pruned are whole here, those that came shortened are not."""
    start: int = 0
    stop: int = 0
    """The newly folded part of the transcript."""
    tokens_before: int = 0
    tokens_covered: int = 0
    budget: Budget = Budget(0, 0)
    focus: str = ""
    skip: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12], compare=False)
    """The id of all records of this compaction, from its beginning to its undoing."""
    recent: tuple[Entry, ...] = ()
    """Entries of the history after the covered ones, which stay."""
    note: str = ""
    """What a person should know: little is folded, or less kept than wanted."""

    def __repr__(self) -> str:
        """What it would do to the context, or why it would be skipped."""
        return f"<Plan {self.trigger}: {self.skip or self._sizes}>"

    def _repr_html_(self) -> str:
        done = {
            "Context": self._sizes,
            "Messages to compact": count_messages(self.covered),
            "Messages that stay": count_messages(self.recent),
            "Focus": self.focus,
            "Note": self.note,
        }
        rows = {"Skipped": self.skip} if self.skip else done
        shown = {name: value for name, value in rows.items() if value != ""}
        return html_table("Compaction plan", {"Trigger": self.trigger, **shown})

    @property
    def _sizes(self) -> str:
        return f"{self.tokens_before:,} → about {self.tokens_after:,} tokens"

    @property
    def tokens_after(self) -> int:
        """The estimate of the context after, with a summary of full length."""
        return self.tokens_before - self.tokens_covered + self.budget.summary


def make_plan(
    session: Session,
    policy: Policy,
    *,
    trigger: str,
    focus: str,
    counter: TokenCounter,
    tokens_before: int,
    keep_tokens: int | None = None,
    goal_tokens: int | None = None,
    fit_tokens: int | None = None,
) -> Plan:
    """The plan for a session under a policy; `tokens_before` is the context now.

    `keep_tokens` is what a person wants kept instead of what the policy says.
    `goal_tokens` is what the context should come down to, by a shorter summary, and
    `fit_tokens` what it must fit into: if need be less is kept.
    """
    history = session.history
    if open_calls(history):
        return Plan(trigger, skip="a tool call still waits for its result")
    sizes = [0, *accumulate(map(counter.count_entry, history))]
    frame = _Frame(
        history,
        safe_cuts(history),
        sizes,
        policy,
        tokens_before,
        goal_tokens,
        fit_tokens,
    )
    wanted = frame.cut(trigger, keep_tokens)
    cut = frame.shrunk(wanted)
    earlier = history[:1] if session.compaction and cut else []
    folded = cut - len(earlier)
    if not folded:
        is_kept = answered_length(history) > bool(session.compaction)
        hint = _hint(policy, trigger) if is_kept and keep_tokens is None else ""
        return Plan(trigger, skip=f"there is nothing new to fold{hint}")
    size = sizes[cut]
    new = size - sizes[len(earlier)]
    if new < _least(trigger, policy, tokens_before):
        return Plan(
            trigger, skip=f"only {new:,} of {tokens_before:,} tokens could be folded"
        )
    start = session.compaction.stop if session.compaction else 0
    return Plan(
        trigger,
        (*earlier, *session.unpruned(start, start + folded)),
        start,
        start + folded,
        tokens_before,
        size,
        frame.budget(cut),
        focus,
        recent=tuple(history[cut:]),
        note="; ".join(frame.notes(trigger, wanted, cut, new)),
    )


def budget_for(policy: Policy, tokens_covered: int) -> Budget:
    """What a policy allows to stand in for so many tokens."""
    wanted = min(int(tokens_covered * policy.summary_share), policy.summary_max_tokens)
    summary = max(SHORTEST_SUMMARY, int(wanted * LENGTHS[policy.detail]))
    most = int(tokens_covered * policy.largest_share * MOST_FACTS)
    facts = max(int(tokens_covered * policy.facts_share), min(FACTS_TOKENS, most))
    return Budget(summary, facts)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a history can be cut, and what would be left."""

    history: Sequence[Entry]
    cuts: Sequence[int]
    """Indices where it can be cut."""
    sizes: Sequence[int]
    """Tokens of all entries before each place."""
    policy: Policy
    tokens_before: int
    goal_tokens: int | None
    fit_tokens: int | None

    def cut(self, trigger: str, keep_tokens: int | None) -> int:
        """Where the policy, or the person, wants the newest to begin."""
        by_tokens = keep_tokens is not None
        start = kept_start(
            self.history,
            self.cuts,
            self.policy.kept(trigger) if keep_tokens is None else keep_tokens,
            "tokens" if by_tokens else self.policy.keep_unit,
            self.sizes,
        )
        newest = min(start, answered_length(self.history))
        return max((place for place in self.cuts if place <= newest), default=0)

    def shrunk(self, cut: int) -> int:
        """The same cut, or the first later one that frees enough."""
        if self.fit_tokens is None:
            return cut
        newest = answered_length(self.history)
        later = [place for place in self.cuts if cut <= place <= newest] or [cut]
        freeing = (place for place in later if self._left(place) <= self.fit_tokens)
        return next(freeing, later[-1])

    def budget(self, cut: int) -> Budget:
        """What may stand in for all before a cut; tighter where there is less room."""
        covered = self.sizes[cut]
        budget = budget_for(self.policy, covered)
        if self.goal_tokens is None or self.fit_tokens is None:
            return budget
        kept = self.tokens_before - covered
        room = self.goal_tokens - kept
        if room < SHORTEST_SUMMARY:
            room = self.fit_tokens - kept
        if room < SHORTEST_SUMMARY:  # it cannot get small enough, whatever is written
            return Budget(SHORTEST_SUMMARY, min(budget.facts, SHORTEST_SUMMARY))
        facts = min(budget.facts, room // 3)
        return Budget(min(budget.summary, room - facts), facts, room)

    def notes(self, trigger: str, wanted: int, cut: int, new: int) -> Iterator[str]:
        """Warnings: little is folded, less is kept than wanted, it does not suffice."""
        if trigger == "manual" and new < self.policy.least_tokens:
            yield f"only {new:,} tokens to fold, which saves little"
        if cut != wanted:
            kept, asked = map(
                count_messages, (self.history[cut:], self.history[wanted:])
            )
            yield (
                f"only {kept} of {asked} newest messages kept: "
                "with more it would not fit"
            )
        stays = self.tokens_before - self.sizes[cut]
        if self.goal_tokens is not None and stays + SHORTEST_SUMMARY > self.goal_tokens:
            yield (
                f"the context is nearly full: what cannot be folded takes {stays:,} "
                f"of {self.goal_tokens:,} tokens"
            )

    def _left(self, cut: int) -> int:
        covered = self.sizes[cut]
        budget = budget_for(self.policy, covered)
        return self.tokens_before - covered + min(budget.entry, covered)


def _hint(policy: Policy, trigger: str) -> str:
    """Why what could be folded is not, and how it can be; empty where none is kept."""
    kept = policy.kept(trigger)
    if not kept:
        return ""
    return (
        f": {policy.name!r} keeps the newest {kept:,} {policy.keep_unit} "
        "(/compact keep=0 folds them, too)"
    )


def _least(trigger: str, policy: Policy, context_tokens: int) -> float:
    """How many tokens must be new since the last summary for a compaction to pay."""
    if trigger == "manual":
        return 0
    if trigger == "overflow":  # what is freed may be what was missing
        return min(policy.least_tokens, LEAST_TOKENS)
    return max(policy.least_tokens, context_tokens * LEAST_SHARE)
