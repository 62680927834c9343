"""Track the size and cost of a conversation's context, and decide when to compact it.

The provider's last report is exact; only entries added after it are estimated. There is
one figure for the size of the context, `ContextTracker.context_tokens`, which the
window guard, the banners, `/context` and the panel all use.
"""

import logging
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil
from time import monotonic

from nbchat.compaction.plan import SHORTEST_SUMMARY, SUMMARY_WINDOW_PART
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.triggers.triggers import (
    EXPECTED_SUMMARY_TOKENS,
    RATIOS,
    CircuitBreaker,
    Cooldown,
    Decision,
    Limits,
    MeterReadings,
    Spending,
    decide,
    due_at,
    in_thousands,
)
from nbchat.conversation.entries import BY_MODEL, Compaction, Entry, Usage
from nbchat.conversation.session import CHANGED, Session
from nbchat.errors import NbchatError, Stopped
from nbchat.providers.base import RequestOptions
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter, Uncounted, most_tokens_of

logger = logging.getLogger(__name__)

SHRUNK_SHARE = 0.9
"""A compaction without a limit to get below has helped when it left less than this
share."""

NEAR = 0.7
"""Share of the guard's limit from which an exact count is worth its request: local
counts are up to 28 % short of a provider's own."""

CAUTION = 1.3
"""Factor for new text that the provider was asked to count and could not."""

WINDOW_UNKNOWN = (
    "The model's context window is unknown, so the conversation is compacted only when "
    "a request is too long. To set it, use /set window 128000."
)

SOON = 0.85
"""Share of a limit from which the summary is written in the background: a message and
its answer must still fit below the limit while it is written."""

OVERDUE = 1.5
"""Times the threshold that the sum of input tokens may reach while a summary is being
written in the background: then the next message waits for it."""

RETRY = "retry"
"""The trigger of a summary that replaces one written without a model."""

AUTOMATIC = ("cumulative", "auto", "window")
"""The triggers that have a meter."""

Report = tuple[int, int]
"""A length of the transcript, and the tokens of the context at that length."""


class ContextTracker:
    """Counts the tokens of a conversation and decides when to compact."""

    def __init__(
        self,
        threshold: int | None,
        policy: str | Policy,
        info: ModelInfo | None = None,
        encoding: str = "",
        *,
        shares_prefix: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """A threshold of None is 75 % of the window, or more until a compaction pays.

        `encoding` replaces the model's own vocabulary. `shares_prefix` returns whether
        summary requests begin like the chat's last request and so read its cache, which
        the meter *auto* needs for its price; `clock` tells it when a cache is gone.
        """
        self.policy = self.base_policy = policy_named(policy)
        """`base_policy` is the policy without the fields that settings override."""
        self.encoding = encoding
        self._threshold = threshold
        self._shares_prefix = shares_prefix
        self._clock = clock
        self._answered_at: float | None = None
        self.request_options = RequestOptions()
        """Options of the chat; those about patience hold for summaries, too."""
        self._breaker = CircuitBreaker()
        self._anchor: Report | None = None
        self._first_report: Report | None = None
        self._kept_tokens = 0
        self._fixed = Uncounted((), TokenCounter())
        self.use_model(info or ModelInfo("unknown"))
        self.reset()

    @property
    def failures(self) -> int:
        """Compactions in a row that got no summary."""
        return self._breaker.failures

    @property
    def next_wait(self) -> str:
        """When a model is asked again after a failure now, as words."""
        return self._breaker.next_wait

    @property
    def wait_reason(self) -> str:
        """Why no meter is read now; empty when they are."""
        return self._breaker.wait_reason if self._breaker.requests_to_wait else ""

    def set_threshold(self, tokens: int | None) -> None:
        """Change the cumulative threshold; raises ConfigError when it cannot work."""
        limits = Limits.of(self.policy, self.info, tokens)
        limits.check(self.fixed_tokens)
        self._threshold, self.limits = tokens, limits

    def use_policy(self, policy: str | Policy, *, base: Policy | None = None) -> None:
        """Change the policy; raises ConfigError for one that cannot work.

        `base` is the policy without the fields that settings override.
        """
        policy = policy_named(policy)
        limits = Limits.of(policy, self.info, self._threshold)
        limits.check(self.fixed_tokens)
        limits.check_guard(self.fixed_tokens)
        self.policy, self.base_policy, self.limits = policy, base or policy, limits

    def use_model(self, info: ModelInfo, *, fixed_texts: tuple[str, ...] = ()) -> None:
        """Change the model, with the texts that every request to it begins with."""
        info = info.or_assumed()
        limits = Limits.of(self.policy, info, self._threshold)
        counter = TokenCounter(self.encoding or info.encoding)
        fixed = Uncounted(fixed_texts, counter)
        near = fixed.near(limits.set_threshold, limits.guard)
        limits.check(near)
        if self.policy.meter == "window":
            limits.check_guard(near)
        self.info, self.limits = info, limits
        self._cooldown = Cooldown()  # it was for the old window
        self.counter = counter
        self._transcript = RunningSums(self.counter)
        self.set_fixed_texts(fixed_texts)

    @property
    def fixed_tokens(self) -> int:
        """Tokens of the system prompt, pins and tools, which no compaction removes."""
        return self._fixed.tokens

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """The texts of `fixed_tokens`."""
        return self._fixed.texts

    def set_fixed_texts(self, texts: tuple[str, ...]) -> None:
        """Set the system prompt, tools and pins, which are counted when it matters."""
        fixed = Uncounted(texts, self.counter)
        if self._anchor is not None and fixed != self._fixed:
            position, known = self._anchor
            moved = fixed.tokens - self._fixed.tokens
            self._anchor = (position, known + moved)
        self._fixed = fixed

    def resume(self, session: Session) -> None:
        """Restore the counts of a loaded session."""
        change = newest_change(session)
        self._reset_to(session, change)
        self._breaker.clear()
        since = 0 if change is None else change.committed_at
        if change is not None and is_undone_by_user(change):
            new = self.counter.count_entries(session.history_since(since))
            self._cooldown = Cooldown.at(self.context_tokens(session) - new)
        for position, usage in session.usages:
            if position > since:
                self.update_token_count(usage, position=position)
        for each in exclusions_since(session, change):
            self.adjust(each)
        self._answered_at = None  # some time before

    def committed(self, session: Session, record: Compaction) -> None:
        """Update the counts after `record` was appended to the session."""
        self._note_settings()  # `recall` may have been added to the tools
        if record.is_exclusion:
            self.adjust(record)
        elif not (record.is_attempt or record.is_immediate):
            self.recount(session)
            if record.status == "undone":  # else a full window compacts at once
                self.cool_down(session)
        if record.is_active and record.kind == "summary":
            self.transcript_tokens(session)  # sums, for which no size is needed again
            self.counter.keep(session.history)

    def recount(self, session: Session) -> None:
        """Count again from the newest change of what the model sees."""
        change = newest_change(session)
        self._reset_to(session, change)
        for each in exclusions_since(session, change):
            self.adjust(each)

    def _reset_to(self, session: Session, change: Compaction | None) -> None:
        is_active = change is not None and change.is_active
        self.reset(first_committed(session, change) if change and is_active else None)

    def update_token_count(self, usage: Usage, *, position: int | None = None) -> None:
        """Add a response's input tokens, and the price of reading old ones again.

        `position` is the length of the transcript including the response; with it the
        size of the context is known exactly up to there.
        """
        self.input_tokens += usage.input_tokens
        self._answered_at = self._clock()
        self._breaker.count_request()
        prices = self.info.prices or RATIOS
        self._spending.add(usage, prices, kept_tokens=self._kept_tokens)
        if position is not None:
            self._anchor = (position, usage.context_tokens)
            self._first_report = self._first_report or self._anchor

    def reset(self, record: Compaction | None = None) -> None:
        """Start all counts again, from a record that was committed or from nothing."""
        self.input_tokens = 0
        self._spending = Spending()
        self._cooldown = Cooldown()
        self._anchor = self._first_report = None
        self._unjudged = record if record and record.kind == "summary" else None
        self._kept_tokens = 0
        self._note_outcome(record)
        if record is not None and record.tokens_after:
            self._anchor = (record.committed_at, record.tokens_after)
            self._set_kept_tokens(record.tokens_after)

    def adjust(self, change: Compaction) -> None:
        """Add the tokens of a message that was excluded or included.

        Unlike a compaction this resets nothing.
        """
        if self._anchor is None or change.committed_at < self._anchor[0]:
            return
        position, tokens = self._anchor
        if change.start < position:
            grown = change.tokens_after - change.tokens_before
            moved = grown if change.is_active else -grown
            self._anchor = (position, max(tokens + moved, self.fixed_tokens))

    def context_tokens(self, session: Session) -> int:
        """Tokens of the next request: the last report plus an estimate of the rest.

        Right after a compaction the last report is its record's `tokens_after`.
        """
        if self._anchor is not None:
            position, tokens = self._anchor
            return tokens + self.counter.count_entries(session.history_since(position))
        return self.fixed_tokens + self.history_tokens(session)

    def history_tokens(self, session: Session) -> int:
        """Tokens of the history, as counted here; the cost grows with what is new."""
        sums, count = self.transcript_tokens(session), self.counter.count_entry
        tokens = sums[-1] + sum(
            count(new) - count(old) for old, new in session.replaced
        )
        if (summary := session.compaction) is not None:
            covered = min(summary.stop, len(sums) - 1)
            tokens += count(summary.entry) - sums[covered]
        return tokens

    def transcript_tokens(self, session: Session) -> Sequence[int]:
        """Tokens of all entries before each index of the transcript."""
        return self._transcript.of(session.transcript)

    def scaled(self, session: Session, tokens_before: int, saved: int) -> int:
        """The context after so many tokens, as counted here, are saved.

        The local counts before and after are set in proportion to `tokens_before`, the
        provider's count, so that both figures are comparable.
        """
        before = self.fixed_tokens + self.history_tokens(session)
        return round(tokens_before * (before - saved) / max(before, 1))

    def count_exactly(self, session: Session, count: Callable[[], int]) -> None:
        """Set the next request's size to what the provider counts, near the limit.

        When its `count` fails, what was added since the last report counts for more.
        """
        guard, length = self.limits.guard, len(session.transcript)
        if not self.policy.counts_exactly or guard is None:
            return
        known = self.context_tokens(session)
        is_counted = self._anchor is not None and self._anchor[0] == length
        if is_counted or known < guard * NEAR:
            return
        try:
            self.set_context_tokens(session, count())
        except Stopped:
            raise
        except NbchatError as error:
            logger.warning(
                "%s can't count tokens, so they're estimated: %s",
                self.info.name,
                error.line,
            )
            reported = 0 if self._anchor is None else self._anchor[1]
            larger = reported + ceil((known - reported) * CAUTION)
            self._anchor = (length, larger)

    def set_context_tokens(self, session: Session, tokens: int) -> None:
        """Set the size of the next request as the provider has counted it."""
        self._anchor = (len(session.transcript), tokens)
        self._first_report = self._first_report or self._anchor

    def is_far_from_due(self, session: Session) -> bool:
        """True if no meter can fire, whatever the exact size is; counts no tokens."""
        guard, threshold = self.limits.guard, self.limits.threshold
        is_first = not session.compactions and self.policy.meter != "auto"
        if not is_first or guard is None:
            return False
        is_below = threshold is None or self.input_tokens < threshold
        return is_below and self._most_tokens(session) < guard * NEAR

    def _most_tokens(self, session: Session) -> int:
        """An upper bound of the next request's size."""
        position, tokens = self._anchor or (0, self._fixed.most)
        return tokens + sum(map(most_tokens_of, session.history_since(position)))

    def should_compact(self, session: Session) -> Decision:
        """Decide whether to compact now; the answer names the meter and the reason."""
        if impossible := self._impossible:
            return Decision("", impossible)
        self._note_settings()
        self._judge(session)
        return self._decision(session)

    def _note_settings(self) -> None:
        """Drop what was put off under other settings."""
        settings = (self.policy, self._threshold, self.info, self._fixed)
        if self._breaker.has_new_settings(settings):
            self._cooldown = Cooldown()

    def outlook(self, session: Session) -> str:
        """When the next compaction is due, as a text; changes nothing."""
        reason = self._impossible or self._decision(session).reason
        notices = [self.assumption] if self.info.is_assumed else []
        return " ".join([*notices, reason, *self._shorter_answer()])

    def _shorter_answer(self) -> list[str]:
        """The notice that a model's longest answer takes too much of its window."""
        info = self.info
        longest, kept = info.output_limit, info.output_reserve
        if kept == longest or "output_limit" not in info.sources:
            return []
        text = f"Keeps {in_thousands(kept)} tokens for an answer, a quarter of the "
        return [f"{text}window. The model could write {in_thousands(longest)}."]

    @property
    def assumption(self) -> str:
        """The notice about an assumed window, and how to change it."""
        return (
            f"Assuming a {in_thousands(self.info.window or 0)} context window for "
            f"{self.info.name}. /set window changes it."
        )

    def is_nearly_due(self, session: Session) -> bool:
        """True if the next request would make a compaction due, or nearly so.

        The sum of input tokens grows by the whole context with each request.
        """
        context = self.context_tokens(session)
        readings = self._readings(context)
        if self._impossible or self.wait_reason or context < readings.least_context:
            return False
        soon = replace(
            readings,
            input_tokens=readings.input_tokens + context,
            context_tokens=int(context / SOON),
            reread_cost=readings.reread_cost / SOON,
        )
        return bool(decide(soon))

    def is_overdue(self, session: Session) -> bool:
        """True if the next request brings the sum past the threshold by half.

        Until then a chat goes on while its summary is being written.
        """
        threshold = self._readings(self.context_tokens(session)).threshold
        if threshold is None:
            return False
        coming = self.input_tokens + self.context_tokens(session)
        return coming > threshold * OVERDUE

    def _decision(self, session: Session) -> Decision:
        """The decision of the meters; after a failure only code may act, if need be."""
        readings = self._readings(self.context_tokens(session))
        if not self.wait_reason:
            decision = decide(readings)
            return decision or self._retry(session) or decision
        if self.policy.on_failure == "wait":
            return Decision("", self.wait_reason)
        guard = decide(replace(readings, threshold=None, compaction_cost=None))
        return guard or Decision("", self.wait_reason)

    def _retry(self, session: Session) -> Decision:
        """True if a model should write the summary that code has written."""
        record = session.compaction
        is_by_code = record is not None and record.status == "degraded"
        if not is_by_code or self.policy.summarizer == "extractive":
            return Decision("", "")
        return Decision(RETRY, "The summary was written without a model.")

    @property
    def _impossible(self) -> str:
        if self.policy.meter == "off":
            return self.reason_to_skip("off")
        if self.policy.meter == "window" and self.limits.guard is None:
            return WINDOW_UNKNOWN
        return ""

    def reason_to_skip(self, trigger: str) -> str:
        """Why no automatic compaction could help; empty when one could."""
        if trigger in ("manual", BY_MODEL):
            return ""
        if self.policy.meter == "off":
            return f"The policy {self.policy.name} compacts only on request."
        if trigger == "overflow":
            return ""
        return self._breaker.reason_to_stop(
            trigger,
            fixed_tokens=self.fixed_tokens,
            kept_tokens=self._kept_tokens,
            limit=self.limits.at(trigger),
        )

    def may_ask(self, trigger: str) -> bool:
        """True if a model may be asked for a summary, so soon after a failure."""
        is_patient = trigger == "manual" or self.policy.on_failure == "wait"
        return is_patient or not self.wait_reason

    def cool_down(self, session: Session, *, trigger: str = "") -> None:
        """Put off the next attempt by a threshold's worth of tokens.

        `trigger` names the meter that fired although there was too little to compact:
        then the context must grow first. A meter that can never help is paused until
        the settings change.
        """
        if trigger and self.reason_to_skip(trigger):
            self._breaker.pause(filter(self.reason_to_skip, AUTOMATIC))
            return
        self._cooldown = Cooldown.at(
            self.context_tokens(session),
            input_tokens=self.input_tokens,
            reread_cost=self._spent if self._weighs_costs else 0.0,
            needs_growth=bool(trigger),
        )

    def record_failure(self, session: Session) -> None:
        """Ask a model again only after one more request, then two, then four.

        Meanwhile the window guard, where code may write the summary, waits until the
        context has grown.
        """
        self._breaker.add_failure()
        if self.policy.on_failure != "wait":
            self._cooldown = Cooldown.at(self.context_tokens(session))

    def _note_outcome(self, record: Compaction | None) -> None:
        if record is None or record.trigger == "manual":
            self._breaker.clear()
        elif record.status == "degraded":
            if not self._breaker.requests_to_wait:  # else no model was asked
                self._breaker.add_failure()
        elif record.kind == "summary":
            self._breaker.end_failures()

    def _set_kept_tokens(self, tokens: int) -> None:
        """Remember the size of the context that the last compaction left."""
        self._kept_tokens = max(tokens, self.fixed_tokens)
        usable = self.limits.usable_window
        self._cooldown = Cooldown.after_success(self._kept_tokens, usable)

    def _judge(self, session: Session) -> None:
        """Compare the first report after a compaction with the limit it was for."""
        record, report = self._unjudged, self._first_report
        if record is None or report is None:
            return
        self._unjudged = None
        position, tokens = report
        new = session.transcript[record.committed_at : position]
        self._set_kept_tokens(tokens - self.counter.count_entries(new))
        shrunk = record.tokens_before * SHRUNK_SHARE
        limit = self.limits.at(record.trigger) or shrunk
        if self.policy.keeps_always:  # what is kept may be more than the limit
            limit = max(limit, shrunk)
        self._breaker.record(record.trigger, has_helped=self._kept_tokens < limit)

    def _readings(self, context: int) -> MeterReadings:
        """The values of all meters for a context of so many tokens."""
        guard = self.limits.guard
        cooldown, is_auto = self._cooldown, self.policy.meter == "auto"
        return MeterReadings(
            input_tokens=self.input_tokens,
            threshold=self._due_at(context),
            context_tokens=context,
            window_limit=None if guard is None else max(guard, cooldown.window_limit),
            least_context=cooldown.least_context,
            reread_cost=self._reread_cost(context) if is_auto else 0.0,
            compaction_cost=self._compaction_cost(context) if is_auto else None,
            is_priced=self.info.prices is not None,
            paused=self._breaker.paused,
        )

    def due_at(self, session: Session) -> int | None:
        """Input tokens at which the sum of them is due; None when that meter is off."""
        return self._due_at(self.context_tokens(session))

    def _due_at(self, context: int) -> int | None:
        threshold, put_off = self.limits.threshold, self._cooldown.input_tokens
        if threshold is None or not self._weighs_costs:
            return None if threshold is None else threshold + put_off
        return due_at(
            self.input_tokens,
            threshold + put_off,
            reread_cost=self._reread_cost(context),
            compaction_cost=self._compaction_cost(context),
        )

    @property
    def _weighs_costs(self) -> bool:
        """True if a compaction must pay: where a person has set no threshold."""
        limits, meter = self.limits, self.policy.meter
        return meter == "auto" or (
            meter == "cumulative" and limits.set_threshold is None
        )

    def _compaction_cost(self, context: int) -> float:
        return self._spending.compaction_cost(
            self.info.prices or RATIOS,
            context_tokens=context,
            fixed_tokens=self.fixed_tokens,
            summary_tokens=self._summary_tokens,
            shares_prefix=self._shares_prefix(),
            is_cold=self._is_cold,
            is_by_code=self.policy.summarizer == "extractive",
        )

    def _reread_cost(self, context: int) -> float:
        """Cost of re-reading since the last attempt to compact.

        With that of the next request if the cache is gone.
        """
        spent = self._spent - self._cooldown.reread_cost
        if not self._is_cold:
            return spent
        prices, kept = self.info.prices or RATIOS, self._least_kept
        return spent + self._spending.cold_cost(
            prices, context_tokens=context, kept_tokens=kept
        )

    @property
    def _spent(self) -> float:
        return self._spending.reread_cost(self._least_kept)

    @property
    def _is_cold(self) -> bool:
        """True if the prompt cache of the last response is gone."""
        if not self._spending.is_cached:
            return False
        at = self._answered_at
        return at is None or self._clock() - at > self.info.cache_seconds

    def cache_loss(self, usage: Usage) -> str:
        """One line if a response lost much of the last one's cache; else empty.

        Ask before it is counted. After a compaction nothing is expected to be read.
        """
        lost = self._spending.lost_tokens(usage)
        if not lost:
            return ""
        reasons = [usage.cache_loss]
        if self._is_cold and self._answered_at is not None:
            minutes = round((self._clock() - self._answered_at) / 60)
            reasons = [f"{minutes} min pause"]
        return ", ".join(filter(None, [f"cache lost: {lost:,} tokens", *reasons]))

    @property
    def _least_kept(self) -> int:
        """Tokens of the context that no compaction saves."""
        return self._kept_tokens or self.fixed_tokens + self._summary_tokens

    @property
    def _summary_tokens(self) -> int:
        """Tokens of the summary to come; of a small window it takes a small part."""
        most = self.policy.summary_max_tokens
        if (window := self.info.window) is not None:
            most = min(most, max(window // SUMMARY_WINDOW_PART, SHORTEST_SUMMARY))
        return min(EXPECTED_SUMMARY_TOKENS, most)


def newest_change(session: Session) -> Compaction | None:
    """The record from which to count; None when nothing was ever compacted."""
    changes = (
        record
        for record in reversed(session.compactions)
        if not (record.is_attempt or record.is_immediate or record.is_exclusion)
    )
    return max(changes, key=lambda record: record.committed_at, default=None)


def first_committed(session: Session, record: Compaction) -> Compaction:
    """The record with the position at which its compaction was first committed.

    Its `tokens_after` belongs to that position, even after a redo, an edit or a new
    summary.
    """
    first = session.compactions[_first_index(session, record)]
    return replace(record, committed_at=first.committed_at)


def is_undone_by_user(record: Compaction) -> bool:
    """True if a person has undone it, and not a change of the covered entries."""
    return record.status == "undone" and record.reason != CHANGED


def exclusions_since(session: Session, record: Compaction | None) -> list[Compaction]:
    """The exclusions and inclusions after a compaction, in order."""
    first = 0 if record is None else _first_index(session, record)
    return [each for each in session.compactions[first:] if each.is_exclusion]


def _first_index(session: Session, record: Compaction) -> int:
    return next(
        index
        for index, each in enumerate(session.compactions)
        if each.id == record.id and not each.is_attempt
    )


class RunningSums:
    """Tokens before each index of a growing sequence; only new entries are counted.

    Another sequence is counted from its start. Safe for threads that read at once: an
    update is one slice assignment, and all threads assign the same sums.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counted: tuple[Sequence[Entry], array[int]] = ((), array("q", [0]))

    def __reduce__(self) -> tuple[type["RunningSums"], tuple[TokenCounter]]:
        """Copied and pickled without the entries that were counted."""
        return RunningSums, (self._counter,)

    def of(self, entries: Sequence[Entry]) -> Sequence[int]:
        """The sums of a sequence, known by its identity; the last one is of all."""
        counted, sums = self._counted
        if counted is not entries:
            sums = array("q", [0])
            self._counted = (entries, sums)
        known = len(sums)
        new = map(self._counter.count_entry, entries[known - 1 :])
        longer = [*accumulate(new, initial=sums[known - 1])]
        sums[known : known + len(longer) - 1] = array("q", longer[1:])
        return sums
