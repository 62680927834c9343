"""What the meters read: how much was spent, how full the context is, how long to rest.

Counts grow with what is new: the provider's last report is exact, and only what was
said after it is estimated. One number says how full the context is: the guard, the
banner, `/context` and the panel all ask `context_tokens`.
"""

from dataclasses import replace
from math import ceil

from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.triggers.circuit_breaker import Breaker, Pause
from nbchat.compaction.triggers.triggers import (
    EXPECTED_SUMMARY_TOKENS,
    RATIOS,
    Decision,
    Limits,
    Reading,
    Spending,
    read_meters,
)
from nbchat.conversation.entries import Compaction, Usage
from nbchat.conversation.session import CHANGED, Session
from nbchat.providers.model_info import ModelInfo, Prices
from nbchat.providers.tokens import TokenCounter


class HistorySize:
    """The tokens of one session's history; another session is counted from nothing."""

    def __init__(self, counter: TokenCounter) -> None:
        """Nothing is counted yet."""
        self._counter = counter
        self._known: tuple[Session, int, int, int] | None = None

    def of(self, session: Session) -> int:
        """Tokens of all that the model sees; only what is new is looked at."""
        records, said = len(session.compactions), len(session.transcript)
        known, count = self._known, self._counter.count_entries
        if known is not None and known[0] is session and known[1] == records:
            tokens = known[3] + count(session.history_since(known[2]))
        else:
            tokens = count(session.history)
        if (records, said) == (len(session.compactions), len(session.transcript)):
            self._known = (session, records, said, tokens)
        return tokens


def newest_change(session: Session) -> Compaction | None:
    """The record from which the meters count anew; None where nothing has changed."""
    changes = (
        record
        for record in reversed(session.compactions)
        if not (record.is_attempt or record.is_immediate or record.is_exclusion)
    )
    return max(changes, key=lambda record: record.committed_at, default=None)


def as_committed(session: Session, record: Compaction) -> Compaction:
    """The same record, at the place where its compaction was committed first.

    What a compaction has left it left there, however late it was redone, edited or
    written anew.
    """
    first = session.compactions[_first_place(session, record)]
    return replace(record, committed_at=first.committed_at)


def was_taken_back(record: Compaction) -> bool:
    """Whether a person has undone it, other than a change of what it covers."""
    return record.status == "undone" and record.reason != CHANGED


def exclusions_since(session: Session, record: Compaction | None) -> list[Compaction]:
    """What a person left out or took in again after a compaction, in order."""
    first = 0 if record is None else _first_place(session, record)
    return [each for each in session.compactions[first:] if each.is_exclusion]


def _first_place(session: Session, record: Compaction) -> int:
    versions = (
        place
        for place, each in enumerate(session.compactions)
        if each.id == record.id and not each.is_attempt
    )
    return next(versions)


PATIENCE = 8
"""How much longer to wait after a failed compaction, as a factor."""

SHRUNK_SHARE = 0.9
"""A compaction by price, or one that must keep more than the limit, has helped when it
left less than this share."""

ANSWERS = 2
"""Answers a summariser may give to one compaction; fewer after failures in a row."""

NEAR = 0.7
"""Share of the guard's limit from which an exact count is worth its request: local
counts are up to 28 % short of a provider's own."""

WINDOW_UNKNOWN = (
    "the model's window is not known, so only a request refused as too long is "
    "compacted; set the window (/set window 128000)"
)

CAUTION = 1.3
"""By what new text counts more where the provider was asked and could not count it."""

AUTOMATIC = ("cumulative", "auto", "window")
"""The triggers that have a meter."""

Report = tuple[int, int]
"""A place in the transcript, and what the context held there."""


class Gauge:
    """Counts what a conversation costs and says when it is time to compact."""

    shares_prefix = False
    """Whether summary requests begin like the last request, so that its cache is read;
    the meter *auto* needs to know."""

    def __init__(
        self,
        threshold: int | None,
        policy: Policy,
        info: ModelInfo | None,
        encoding: str = "",
    ) -> None:
        """A threshold of None is 75 % of the model's window, or off if unknown."""
        self.policy = policy
        self.base_policy = policy
        """The policy without the fields that settings change while they hold."""
        self.encoding = encoding
        self.floor_tokens = 0
        """Tokens of the system prompt, the pins and the tools: none can be removed."""
        self._threshold = threshold
        self._breaker = Breaker()
        self._anchor: Report | None = None
        self._first_report: Report | None = None
        self._kept_tokens = 0
        self.info = info or ModelInfo("unknown")
        self.reset()
        self.fit(self.info)

    @property
    def context_token_threshold(self) -> int | None:
        """Input tokens after which to compact; None when that meter is off."""
        return self.limits.threshold

    @property
    def limits(self) -> Limits:
        """What the policy allows for this model."""
        return Limits(self.policy, self.info, self._threshold)

    @property
    def failures(self) -> int:
        """Compactions in a row for which no summary could be had."""
        return self._breaker.failures

    @property
    def waiting(self) -> str:
        """Why no meter is asked now, whatever it shows; empty when they are."""
        return self._breaker.waiting if self._breaker.waits_for else ""

    def set_threshold(self, tokens: int | None) -> None:
        """Compact at another sum; refused when the floor alone would exceed it."""
        Limits(self.policy, self.info, tokens).check(self.floor_tokens)
        self._threshold = tokens

    def use_policy(self, policy: str | Policy, *, base: Policy | None = None) -> None:
        """Go on under another policy; raises ConfigError for one that cannot work.

        `base` is what it was before single fields of it were set.
        """
        policy = policy_named(policy)
        limits = Limits(policy, self.info, self._threshold)
        limits.check(self.floor_tokens)
        limits.check_guard(self.floor_tokens)
        self.policy, self.base_policy = policy, base or policy

    def fit(self, info: ModelInfo, *, floor_tokens: int = 0) -> None:
        """Learn the model's window and what a request costs at the least."""
        limits = Limits(self.policy, info, self._threshold)
        limits.check(floor_tokens)
        if self.policy.meter == "window":
            limits.check_guard(floor_tokens)
        self.info = info
        self.counter = TokenCounter(self.encoding or info.encoding)
        self._size = HistorySize(self.counter)
        self.set_floor(floor_tokens)

    def set_floor(self, tokens: int) -> None:
        """Learn what the system prompt, the tools and the pins take now."""
        if self._anchor is not None:
            position, known = self._anchor
            self._anchor = (position, known + tokens - self.floor_tokens)
        self.floor_tokens = tokens

    def resume(self, session: Session) -> None:
        """Count a loaded session as if it had never been away."""
        change = newest_change(session)
        self._begin(session, change)
        self._breaker.clear()
        since = 0 if change is None else change.committed_at
        if change is not None and was_taken_back(change):
            new = self.counter.count_entries(session.history_since(since))
            self._pause = Pause.at(self.context_tokens(session) - new)
        for position, usage in session.usages:
            if position > since:
                self.update_token_count(usage, position=position)
        for each in exclusions_since(session, change):
            self.shift(each)

    def follow(self, session: Session) -> None:
        """Count anew: the newest record has changed what the model sees."""
        change = newest_change(session)
        self._begin(session, change)
        for each in exclusions_since(session, change):
            self.shift(each)

    def _begin(self, session: Session, change: Compaction | None) -> None:
        """Count from a change on; of a compaction, with what it left at its commit."""
        is_in_force = change is not None and change.is_in_force
        self.reset(as_committed(session, change) if change and is_in_force else None)

    def update_token_count(self, usage: Usage, *, position: int | None = None) -> None:
        """Add a response's input tokens, and what was paid for reading old ones again.

        `position` is the length of the transcript when the response had joined it;
        with it the size of the context is known exactly up to there.
        """
        self.input_tokens += usage.input_tokens
        self._breaker.count_request()
        kept_tokens = self._kept_tokens or self.floor_tokens + self._summary_tokens
        self._spending.add(usage, self._prices, kept_tokens=kept_tokens)
        if position is not None:
            self._anchor = (position, usage.context_tokens)
            self._first_report = self._first_report or self._anchor

    def reset(self, record: Compaction | None = None) -> None:
        """Begin to count anew: after `record` was committed, or was taken back."""
        self.input_tokens = 0
        self._spending = Spending()
        self._pause = Pause()
        self._anchor = self._first_report = None
        self._unjudged = record if record and record.kind == "summary" else None
        self._kept_tokens = 0
        self._note_outcome(record)
        if record is not None and record.tokens_after:
            self._anchor = (record.committed_at, record.tokens_after)
            self._keep(record.tokens_after)

    def shift(self, change: Compaction) -> None:
        """Learn what a person left out or took in again since the last report.

        Other than a compaction it makes no beginning: all else that is counted stays.
        """
        if self._anchor is None or change.committed_at < self._anchor[0]:
            return
        position, tokens = self._anchor
        if change.start < position:
            grown = change.tokens_after - change.tokens_before
            moved = grown if change.is_in_force else -grown
            self._anchor = (position, max(tokens + moved, self.floor_tokens))

    def context_tokens(self, session: Session) -> int:
        """What the next request holds: the last report plus an estimate of the rest.

        Right after a compaction the last report is what its record says it left.
        """
        if self._anchor is not None:
            position, tokens = self._anchor
            return tokens + self.counter.count_entries(session.history_since(position))
        return self.floor_tokens + self.history_tokens(session)

    def history_tokens(self, session: Session) -> int:
        """Tokens of all that the model sees; only what is new is looked at."""
        return self._size.of(session)

    def wants_exact_count(self, session: Session) -> bool:
        """Whether the provider should count what is about to be sent."""
        if not self.policy.counts_exactly or self.limits.guard is None:
            return False
        is_known = self._anchor is not None and self._anchor[0] == len(
            session.transcript
        )
        near = self.context_tokens(session) >= self.limits.guard * NEAR
        return near and not is_known

    def set_context(self, session: Session, tokens: int) -> None:
        """Learn what the next request holds, as the provider counts it."""
        self._anchor = (len(session.transcript), tokens)
        self._first_report = self._first_report or self._anchor

    def set_context_cautiously(self, session: Session) -> None:
        """Take what came since the last report for as large as it might be."""
        known = 0 if self._anchor is None else self._anchor[1]
        new = self.context_tokens(session) - known
        self._anchor = (len(session.transcript), known + ceil(new * CAUTION))

    def should_compact(self, session: Session) -> Decision:
        """Whether it is time, which meter says so, and why."""
        if self.policy.meter == "off":
            return Decision("", self.objection("off"))
        if self.policy.meter == "window" and self.limits.guard is None:
            return Decision("", WINDOW_UNKNOWN)
        settings = (self.policy, self._threshold, self.info, self.floor_tokens)
        if self._breaker.is_new(settings):
            self._pause = Pause()
        if self.waiting:
            return Decision("", self.waiting)
        self._judge(session)
        return read_meters(self.reading(self.context_tokens(session)))

    def objection(self, trigger: str) -> str:
        """Why no automatic compaction could help here; empty when one could."""
        if trigger == "manual":
            return ""
        if self.policy.meter == "off":
            return f"the policy {self.policy.name!r} compacts only by hand"
        if trigger == "overflow":
            return ""
        return self._breaker.objection(
            trigger,
            floor_tokens=self.floor_tokens,
            kept_tokens=self._kept_tokens,
            limit=self._limit(trigger),
        )

    def answers(self, trigger: str) -> int:
        """How many answers a summariser may give; none where it has kept failing."""
        is_patient = trigger == "manual" or self.policy.on_failure == "wait"
        return ANSWERS if is_patient else max(ANSWERS - self.failures, 0)

    def cool_down(
        self, session: Session, *, thresholds: int = 1, trigger: str = ""
    ) -> None:
        """Let the meters rest: the next try comes some thresholds' worth later.

        `trigger` names the meter for which there was too little to fold: first there
        must be more. Where it can never help, each meter of which that is true rests
        until something changes.
        """
        if trigger and self.objection(trigger):
            self._breaker.rest(filter(self.objection, AUTOMATIC))
            return
        context = self.context_tokens(session)
        waits = thresholds - 1
        self._pause = Pause.at(
            context,
            input_tokens=self.input_tokens + (self._limit("cumulative") or 0) * waits,
            reread_cost=self._spending.reread_cost
            + self._compaction_cost(context) * waits,
            needs_growth=bool(trigger),
        )

    def record_failure(self, session: Session) -> None:
        """After a failed compaction: rest for eight thresholds' worth.

        After the second in a row the next is refused, so a summariser that never
        succeeds costs three requests. A policy that waits tries again after one more
        request, then two, then four.
        """
        self._breaker.failures += 1
        if self.policy.on_failure == "wait":
            self._breaker.back_off()
            return
        self.cool_down(session, thresholds=PATIENCE)

    def _note_outcome(self, record: Compaction | None) -> None:
        if record is None or record.trigger == "manual":
            self._breaker.clear()
        elif record.status == "degraded":
            self._breaker.failures += 1
        elif record.kind == "summary":
            self._breaker.failures = 0

    def _keep(self, tokens: int) -> None:
        """Know what the last compaction has left in the context."""
        self._kept_tokens = max(tokens, self.floor_tokens)
        self._pause = Pause.after(self._kept_tokens, self.limits.usable_window)

    def _judge(self, session: Session) -> None:
        """Tell from the first report after a compaction what it has really left."""
        record, report = self._unjudged, self._first_report
        if record is None or report is None:
            return
        self._unjudged = None
        position, tokens = report
        new = session.transcript[record.committed_at : position]
        self._keep(tokens - self.counter.count_entries(new))
        shrunk = record.tokens_before * SHRUNK_SHARE
        limit = self._limit(record.trigger) or shrunk
        if self.policy.keeps_always:  # what is kept may be more than the limit
            limit = max(limit, shrunk)
        self._breaker.judge(record.trigger, has_helped=self._kept_tokens < limit)

    def reading(self, context: int) -> Reading:
        """What the meters see of a context of so many tokens."""
        threshold, guard = self._limit("cumulative"), self._limit("window")
        pause, is_auto = self._pause, self.policy.meter == "auto"
        return Reading(
            input_tokens=self.input_tokens,
            threshold=None if threshold is None else threshold + pause.input_tokens,
            context_tokens=context,
            window_limit=None if guard is None else max(guard, pause.window_limit),
            least_context=pause.least_context,
            reread_cost=self._spending.reread_cost - pause.reread_cost,
            compaction_cost=self._compaction_cost(context) if is_auto else None,
            is_priced=self.info.prices is not None,
            resting=self._breaker.resting,
        )

    def _limit(self, trigger: str) -> int | None:
        return self.limits.of(trigger)

    @property
    def _prices(self) -> Prices:
        return self.info.prices or RATIOS

    def _compaction_cost(self, context: int) -> float:
        return self._spending.compaction_cost(
            self._prices,
            context_tokens=context,
            floor_tokens=self.floor_tokens,
            summary_tokens=self._summary_tokens,
            shares_prefix=self.shares_prefix,
        )

    @property
    def _summary_tokens(self) -> int:
        return min(EXPECTED_SUMMARY_TOKENS, self.policy.summary_max_tokens)
