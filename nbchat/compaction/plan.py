"""Plan a compaction without a model: what to cover, what to keep, how long to be."""

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
    safe_cuts,
    turns,
)
from nbchat.providers.tokens import TokenCounter

LEAST_SHARE = 0.1
"""Share of the context that an automatic compaction must cover: less would break the
prompt cache for nothing."""

SHORTEST_SUMMARY = 200
"""Tokens that every summary may take."""

FACTS_TOKENS, MOST_FACTS = 500, 4 / 9
"""Tokens that facts may take where their share is less, and the largest part they may
take of what summary and facts may take together."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that a summary and its facts may take."""

    summary: int
    facts: int
    limit: int | None = None
    """Of both together, so that the context gets small enough; None is no limit beside
    the share of what they replace."""

    @property
    def entry(self) -> int:
        """The expected size of the summary entry."""
        return self.summary + self.facts


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """What a compaction would do, or in `skip` why there would be none."""

    trigger: str
    covered: tuple[Entry, ...] = ()
    """Entries to compact, an earlier summary included; pruned outputs are whole, those
    that were shortened at once are not."""
    start: int = 0
    stop: int = 0
    """The end of the newly covered part of the transcript, which begins at `start`."""
    tokens_before: int = 0
    tokens_covered: int = 0
    budget: Budget = Budget(0, 0)
    focus: str = ""
    skip: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12], compare=False)
    """The id of all records of this compaction."""
    recent: tuple[Entry, ...] = ()
    """Entries of the history after the covered ones, which stay."""
    note: str = ""
    """A warning: little is saved, or less kept than wanted."""

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
        """Estimated context after, with a summary of full length."""
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

    `keep_tokens` is what a person wants to keep instead of what the policy says.
    `goal_tokens` is the size the context should come down to by a shorter summary, and
    `fit_tokens` the size it must fit into, if need be by keeping less.
    """
    history = session.history
    cuts = safe_cuts(history)
    if cuts[-1] < len(history):
        return Plan(trigger, skip="a tool call is still waiting for its result")
    sizes = [0, *accumulate(map(counter.count_entry, history))]
    frame = _Frame(
        history,
        cuts,
        sizes,
        answered_length(history),
        policy,
        tokens_before,
        goal_tokens,
        fit_tokens,
    )
    return frame.plan(session, trigger=trigger, focus=focus, keep_tokens=keep_tokens)


def budget_for(policy: Policy, tokens_covered: int) -> Budget:
    """The tokens that a policy allows for the summary of so many tokens."""
    wanted = min(int(tokens_covered * policy.summary_share), policy.summary_max_tokens)
    summary = max(SHORTEST_SUMMARY, int(wanted * LENGTHS[policy.detail]))
    most = int(tokens_covered * policy.largest_share * MOST_FACTS)
    facts = max(int(tokens_covered * policy.facts_share), min(FACTS_TOKENS, most))
    return Budget(summary, facts)


def kept_start(
    history: Sequence[Entry],
    cuts: Sequence[int],
    keep: int,
    unit: KeepUnit,
    sizes: Sequence[int],
) -> int:
    """The index from which the history is kept: one of the `cuts` between units.

    Of tokens, as many units are kept as fit `keep`, without user entries at the end
    that are not answered yet; messages and exchanges are rounded up to whole units.
    `sizes` are the tokens before each index.
    """
    answered = answered_length(history)
    if unit == "tokens":
        most = sizes[answered] - keep
        return next((c for c in cuts if c <= answered and sizes[c] >= most), answered)
    if unit == "messages":
        starts = message_starts(history)
    else:
        starts = [turn.start for turn in turns(history[:answered])]
    wanted = len(history) if not keep else [0, *starts][-keep:][0]
    return max((cut for cut in cuts if cut <= wanted), default=0)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The cuts of a history, and the sizes before and after them."""

    history: Sequence[Entry]
    cuts: Sequence[int]
    """Indices where it can be cut."""
    sizes: Sequence[int]
    """Tokens of all entries before each index."""
    answered: int
    """Entries before the user entries at the end, which are always kept."""
    policy: Policy
    tokens_before: int
    goal_tokens: int | None
    fit_tokens: int | None

    def plan(
        self, session: Session, *, trigger: str, focus: str, keep_tokens: int | None
    ) -> Plan:
        """The plan that follows from the cuts and sizes."""
        history, compaction = self.history, session.compaction
        wanted = self.cut(trigger, keep_tokens)
        cut = self.later_cut(wanted)
        earlier = history[:1] if compaction and cut else []
        summaries = int(compaction is not None)
        if skip := self.reason_to_skip(trigger, keep_tokens, cut, summaries):
            return Plan(trigger, skip=skip)
        start = compaction.stop if compaction else 0
        stop = start + cut - len(earlier)
        return Plan(
            trigger,
            (*earlier, *session.unpruned(start, stop)),
            start,
            stop,
            self.tokens_before,
            self.sizes[cut],
            self.budget(cut),
            focus,
            recent=tuple(history[cut:]),
            note="; ".join(self.notes(trigger, wanted, cut, self.sizes[len(earlier)])),
        )

    def cut(self, trigger: str, keep_tokens: int | None) -> int:
        """The cut that the policy, or a person, wants."""
        keep, unit = self.policy.kept(trigger), self.policy.keep_unit
        if keep_tokens is not None:
            keep, unit = keep_tokens, "tokens"
        start = kept_start(self.history, self.cuts, keep, unit, self.sizes)
        newest = min(start, self.answered)
        return max((cut for cut in self.cuts if cut <= newest), default=0)

    def later_cut(self, wanted: int) -> int:
        """The wanted cut, or the first later one after which the context fits."""
        if self.fit_tokens is None:
            return wanted
        later = [cut for cut in self.cuts if wanted <= cut <= self.answered] or [wanted]
        fitting = (cut for cut in later if self._left(cut) <= self.fit_tokens)
        return next(fitting, later[-1])

    def reason_to_skip(
        self, trigger: str, keep_tokens: int | None, cut: int, earlier: int
    ) -> str:
        """Why a cut would not be worth a compaction; empty when it would.

        `earlier` is 1 where the history begins with a summary, else 0.
        """
        if cut <= earlier:
            is_kept = self.answered > earlier and keep_tokens is None
            return f"nothing new to compact{_hint(self.policy, trigger) * is_kept}"
        new = self.sizes[cut] - self.sizes[earlier]
        if new < _least(trigger, self.policy, self.tokens_before):
            return f"only {new:,} of {self.tokens_before:,} tokens could be compacted"
        return ""

    def budget(self, cut: int) -> Budget:
        """The budget of a summary; smaller where the context would not fit."""
        covered = self.sizes[cut]
        budget = budget_for(self.policy, covered)
        if self.goal_tokens is None or self.fit_tokens is None:
            return budget
        kept = self.tokens_before - covered
        limit = self.goal_tokens - kept
        if limit < SHORTEST_SUMMARY:
            limit = self.fit_tokens - kept
        if limit < SHORTEST_SUMMARY:  # no summary could be short enough
            return Budget(SHORTEST_SUMMARY, min(budget.facts, SHORTEST_SUMMARY))
        facts = min(budget.facts, limit // 3)
        return Budget(min(budget.summary, limit - facts), facts, limit)

    def notes(
        self, trigger: str, wanted: int, cut: int, earlier_tokens: int
    ) -> Iterator[str]:
        """Warnings: it saves little, keeps less than wanted, or does not suffice."""
        new = self.sizes[cut] - earlier_tokens
        if trigger == "manual" and new < self.policy.least_tokens:
            yield f"only {new:,} tokens to compact, which saves little"
        if cut != wanted:
            kept, asked = map(
                count_messages, (self.history[cut:], self.history[wanted:])
            )
            yield (
                f"only {kept} of the {asked} newest messages are kept; more do not fit"
            )
        stays = self.tokens_before - self.sizes[cut]
        if self.goal_tokens is not None and stays + SHORTEST_SUMMARY > self.goal_tokens:
            yield (
                "the context is nearly full: what cannot be compacted takes "
                f"{stays:,} of {self.goal_tokens:,} tokens"
            )

    def _left(self, cut: int) -> int:
        covered = self.sizes[cut]
        budget = budget_for(self.policy, covered)
        return self.tokens_before - covered + min(budget.entry, covered)


def _hint(policy: Policy, trigger: str) -> str:
    """What the policy keeps, and how to compact that, too; empty if it keeps none."""
    kept = policy.kept(trigger)
    if not kept:
        return ""
    return (
        f": policy {policy.name!r} keeps the newest {kept:,} {policy.keep_unit} "
        "(/compact keep=0 compacts them too)"
    )


def _least(trigger: str, policy: Policy, context_tokens: int) -> float:
    """Tokens that must be new since the last summary for a compaction to pay."""
    if trigger == "manual":
        return 0
    if trigger == "overflow":  # every token may count
        return min(policy.least_tokens, LEAST_TOKENS)
    return max(policy.least_tokens, context_tokens * LEAST_SHARE)
