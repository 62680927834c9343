"""Plan a compaction without a model: what to cover, what to keep, how long to be."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from nbchat.compaction.policies import LEAST_TOKENS, LENGTHS, KeepUnit, Policy
from nbchat.conversation.entries import Entry, SummaryFields, html_table
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

FIT_SHARE = 0.75
"""Share of the limit that is used where all that is wanted does not fit: filled to the
brim, the context would be compacted again after every turn."""

SHORTEST_SUMMARY = 200
"""Tokens that every summary may take, about 100 words; a quarter of what it replaces
where that is less."""

SUMMARY_PART, SUMMARY_WINDOW_PART = 4, 32
"""A summary is at most one part in so many of what it replaces, and of the window: it
is read again with every request. What code copies has at least half of the entry."""

SHORT_ENTRY, LARGEST_SHARE = 300, 0.6
"""Tokens that an entry may take where its policy's share is less, unless that is more
than this share of what it replaces: the words of a short conversation fit in them."""

LEAST_MEMORY = 1_500
"""Tokens that what code copies may always take: the words, the variables and the last
output of an hour of work."""

LARGE_WINDOW, LARGE_WINDOW_PART = 64_000, 16
"""In windows of more tokens the memory may take one part in so many."""

MEMORY_WINDOW_PART = 8
"""The memory takes at most one part in so many of a window: it is in every request."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that a summary and the memory beside it may take."""

    summary: int
    facts: int
    limit: int | None = None
    """Most tokens of both together, so that the context gets small enough; None: only
    the share of what they replace is a limit."""

    @property
    def entry(self) -> int:
        """The expected size of the summary entry."""
        return self.summary + self.facts


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The plan of a compaction, or in `skip` why there would be none."""

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
    earlier: SummaryFields = field(default_factory=SummaryFields)
    """The fields of the summary before, where that was structured."""

    @property
    def is_resize(self) -> bool:
        """True if only the current summary is made smaller; no model is needed."""
        return bool(self.covered) and self.start == self.stop

    def __repr__(self) -> str:
        """Its effect on the context, or why it would be skipped."""
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
        """Estimated context after, with a summary and a memory of full length."""
        rest = max(0, self.tokens_before - self.tokens_covered)  # both are estimates
        return rest + self.budget.entry


@dataclass(frozen=True, slots=True)
class Headroom:
    """Tokens of everything so far, and the limits that a summary must keep."""

    tokens_before: int
    """The context now."""
    ever: Sequence[int]
    """Tokens of all entries before each index of the transcript."""
    window: int | None = None
    goal: int | None = None
    """The size the context should come down to by a shorter summary."""
    fit: int | None = None
    """The size it must fit into, if need be by keeping less."""

    def budget(self, policy: Policy, *, covered: int, stop: int) -> Budget:
        """The budget of a summary that covers so many tokens, before a `stop`."""
        budget = budget_for(
            policy,
            covered,
            tokens_ever=self.ever[stop],
            window=self.window,
        )
        if self.goal is None or self.fit is None:
            return budget
        kept = self.tokens_before - covered
        limit = self.goal - kept
        if limit < SHORTEST_SUMMARY:
            limit = self.fit - kept
        if limit < SHORTEST_SUMMARY:  # no summary could be short enough
            return Budget(SHORTEST_SUMMARY, min(budget.facts, SHORTEST_SUMMARY))
        facts = min(budget.facts, limit // 3)
        summary = min(budget.summary, limit - facts)
        return Budget(summary, facts, limit)


def make_plan(
    session: Session,
    policy: Policy,
    *,
    trigger: str,
    focus: str,
    counter: TokenCounter,
    headroom: Headroom,
    keep_tokens: int | None = None,
    upto: int | None = None,
) -> Plan:
    """The plan for a session under a policy.

    `keep_tokens` is what a person wants to keep instead of what the policy says, and
    `upto` the index in the transcript of the last message to compact.
    """
    history = session.history
    cuts = safe_cuts(history)
    if cuts[-1] < len(history):
        return Plan(trigger, skip="A tool call is still waiting for its result.")
    sizes = [0, *accumulate(map(counter.count_entry, history))]
    summary = session.compaction
    start = summary.stop if summary else 0
    earlier = int(summary is not None)
    frame = _Frame(
        session, history, cuts, sizes, policy, headroom, upto, earlier, start
    )
    if upto is not None and not start <= upto < len(session.transcript):
        return Plan(trigger, skip=frame.no_message(upto))
    return frame.plan(trigger=trigger, focus=focus, keep_tokens=keep_tokens)


def budget_for(
    policy: Policy, tokens_covered: int, *, tokens_ever: int, window: int | None
) -> Budget:
    """The tokens that a policy allows for the summary of so many tokens.

    The memory's follow `tokens_ever`, all that was ever compacted, so that what is
    known does not shrink while the conversation grows.
    """
    wanted = int(tokens_covered * policy.summary_share)
    wanted = min(max(wanted, SHORTEST_SUMMARY), policy.summary_max_tokens)
    wanted = int(wanted * LENGTHS[policy.detail])
    grown = max(int(tokens_ever * policy.facts_share), LEAST_MEMORY)
    most = policy.facts_max_tokens
    if window is not None:
        wanted = min(wanted, max(window // SUMMARY_WINDOW_PART, SHORTEST_SUMMARY))
        if window > LARGE_WINDOW:
            most = max(most, window // LARGE_WINDOW_PART)
        grown = min(grown, window // MEMORY_WINDOW_PART)
    both = largest_entry(policy, tokens_covered)
    summary = min(wanted, tokens_covered // SUMMARY_PART, both // 2)
    return Budget(summary, min(grown, most, both - summary))


def largest_entry(policy: Policy, tokens_covered: int) -> int:
    """The most tokens that the entry of so many may take under a policy."""
    short = min(SHORT_ENTRY, int(tokens_covered * LARGEST_SHARE))
    return max(short, int(tokens_covered * policy.largest_share))


def fields_before(session: Session, start: int) -> SummaryFields:
    """The fields of the newest summary before an index; empty where it has none."""
    records = (each for each in session.active_compactions if each.kind == "summary")
    before = (each for each in records if each.stop <= start)
    newest = max(before, key=lambda each: each.stop, default=None)
    return (newest.fields if newest else None) or SummaryFields()


def latest_cut(history: Sequence[Entry], cuts: Sequence[int]) -> int:
    """The last of the cuts that a compaction may make.

    After it comes what the model must still read: the newest message that it has not
    answered, or the results of the calls that it made last.
    """
    is_read = not history or history[-1].role not in ("user", "tool")
    return cuts[-1] if is_read else cuts[-2]


def unread_cut(history: Sequence[Entry], cuts: Sequence[int]) -> int:
    """The cut before everything that the model must still read.

    Before `latest_cut` where a message was sent before the model had read the results
    of its calls, as after Stop.
    """
    latest = latest_cut(history, cuts)
    is_asked = latest and not history[-1].is_returned and history[-1].role == "user"
    return cuts[-3] if is_asked and history[latest - 1].is_returned else latest


def kept_start(
    history: Sequence[Entry],
    cuts: Sequence[int],
    keep: int,
    unit: KeepUnit,
    sizes: Sequence[int],
) -> int:
    """The index from which the history is kept: one of the `cuts` between units.

    Of tokens, as many units are kept as fit `keep`, beside what the model must still
    read; messages and exchanges are rounded up to whole units. `sizes` are the tokens
    before each index.
    """
    newest = unread_cut(history, cuts)
    if unit == "tokens":
        most = sizes[newest] - keep
        return next((c for c in cuts if c <= newest and sizes[c] >= most), newest)
    if unit == "messages":
        starts = message_starts(history)
    else:
        answered = answered_length(history)
        starts = [turn.start for turn in turns(history[:answered])]
    wanted = len(history) if not keep else [0, *starts][-keep:][0]
    return max((cut for cut in cuts if cut <= min(wanted, newest)), default=0)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The cuts of a history, and the sizes before and after them."""

    session: Session
    history: Sequence[Entry]
    cuts: Sequence[int]
    """Indices where it can be cut."""
    sizes: Sequence[int]
    """Tokens of all entries before each index."""
    policy: Policy
    headroom: Headroom
    upto: int | None
    earlier: int
    """1 where the history begins with a summary, else 0."""
    start: int
    """The index in the transcript from which entries are not yet compacted."""

    def plan(self, *, trigger: str, focus: str, keep_tokens: int | None) -> Plan:
        """The plan that follows from the cuts and sizes."""
        wanted = self.cut(trigger, keep_tokens)
        cut = self.later_cut(wanted)
        if self.must_shrink:
            cut = max(cut, self.earlier)
        elif skip := self.reason_to_skip(trigger, keep_tokens, cut):
            return Plan(trigger, skip=skip)
        start, stop = self.start, self.stop(cut)
        return Plan(
            trigger,
            (*self.history[: self.earlier], *self.session.unpruned(start, stop)),
            start,
            stop,
            self.headroom.tokens_before,
            self.sizes[cut],
            self.budget(cut),
            focus,
            recent=tuple(self.history[cut:]),
            note=" ".join(self.notes(trigger, wanted, cut)),
            earlier=fields_before(self.session, start),
        )

    def stop(self, cut: int) -> int:
        """The index in the transcript of a cut."""
        return self.start + max(cut - self.earlier, 0)

    @property
    def must_shrink(self) -> bool:
        """True if the context is too large for the window, and its summary a reason."""
        headroom, entry_tokens = self.headroom, self.sizes[self.earlier]
        if (
            not self.earlier
            or headroom.goal is None
            or headroom.tokens_before < headroom.goal
        ):
            return False
        return entry_tokens > self.budget(self.earlier).entry

    def cut(self, trigger: str, keep_tokens: int | None) -> int:
        """The cut that the policy, or a person, wants."""
        if self.upto is not None:
            latest = latest_cut(self.history, self.cuts)
            later = (cut for cut in self.cuts if self.stop(cut) > self.upto)
            return min(next(later, latest), latest)
        keep, unit = self.policy.kept(trigger), self.policy.keep_unit
        if keep_tokens is not None:
            keep, unit = keep_tokens, "tokens"
        return kept_start(self.history, self.cuts, keep, unit, self.sizes)

    def no_message(self, index: int) -> str:
        """Why nothing can be compacted up to an index."""
        if 0 <= index < self.start:
            return f"Message {index} is already compacted."
        return f"There's no message {index}. /recall shows the numbers."

    def later_cut(self, wanted: int) -> int:
        """The wanted cut, or a later one after which some more turns fit."""
        if self.headroom.fit is None:
            return wanted
        latest = latest_cut(self.history, self.cuts)
        later = [cut for cut in self.cuts if wanted <= cut <= latest] or [wanted]
        if self._left(later[0]) <= self.headroom.fit:
            return later[0]
        most = self.headroom.fit * FIT_SHARE
        return next((cut for cut in later if self._left(cut) <= most), later[-1])

    def reason_to_skip(self, trigger: str, keep_tokens: int | None, cut: int) -> str:
        """Why a cut would not be worth a compaction; empty when it would."""
        if cut <= self.earlier:
            newest = unread_cut(self.history, self.cuts)
            is_asked = keep_tokens is not None or self.upto is not None
            is_kept = newest > self.earlier and not is_asked
            hint = _hint(self.policy, trigger) * is_kept
            return f"There's nothing new to compact.{hint}"
        before = self.headroom.tokens_before
        new = self.sizes[cut] - self.sizes[self.earlier]
        if new < _least(trigger, self.policy, before):
            return f"Only {new:,} of {before:,} tokens could be compacted."
        return ""

    def budget(self, cut: int) -> Budget:
        """The budget of a summary; smaller where the context would not fit."""
        stop = self.stop(cut)
        return self.headroom.budget(self.policy, covered=self.sizes[cut], stop=stop)

    def notes(self, trigger: str, wanted: int, cut: int) -> Iterator[str]:
        """Warnings: it saves little, keeps less than wanted, or does not suffice."""
        new = self.sizes[cut] - self.sizes[self.earlier]
        if self.must_shrink and cut == self.earlier:
            yield "The earlier summary was too large for the window."
        elif trigger == "manual" and new < self.policy.least_tokens:
            yield f"There are only {new:,} tokens to compact, which saves little."
        if cut != wanted:
            kept, asked = map(
                count_messages, (self.history[cut:], self.history[wanted:])
            )
            yield (
                f"Only {kept} of the {asked} newest messages are kept, because more "
                "don't fit."
            )
        stays, goal = self.headroom.tokens_before - self.sizes[cut], self.headroom.goal
        if goal is not None and stays + SHORTEST_SUMMARY > goal:
            yield (
                f"What can't be compacted takes {stays:,} of {goal:,} tokens, so the "
                "context stays nearly full."
            )

    def _left(self, cut: int) -> int:
        covered, stop = self.sizes[cut], self.stop(cut)
        budget = budget_for(
            self.policy,
            covered,
            tokens_ever=self.headroom.ever[stop],
            window=self.headroom.window,
        )
        return self.headroom.tokens_before - covered + min(budget.entry, covered)


def _hint(policy: Policy, trigger: str) -> str:
    """A hint at what the policy keeps and how to compact it; empty if it keeps none."""
    kept = policy.kept(trigger)
    if not kept:
        return ""
    return (
        f" The policy {policy.name} keeps the newest {kept:,} {policy.keep_unit}. "
        "/compact keep=0 compacts them too."
    )


def _least(trigger: str, policy: Policy, context_tokens: int) -> float:
    """Tokens that must be new since the last summary for a compaction to pay."""
    if trigger == "manual":
        return 0
    if trigger == "overflow":  # every token may count
        return min(policy.least_tokens, LEAST_TOKENS)
    return max(policy.least_tokens, context_tokens * LEAST_SHARE)
