"""Decide when to compact: meters read token counts and costs; the first to fire wins.

*Cumulative* adds up the input tokens of every response since the last compaction, which
limits what is spent on re-readings; where no threshold is set, it also waits until a
compaction pays. *Auto* weighs the price of re-readings against the
price of a compaction. *Window* reads the size of the context, so that the conversation
never reaches the model's limit. A request that the server refused as too long
(*overflow*) needs no meter. `CircuitBreaker` stops automatic compaction after attempts
that did not help.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Self

from nbchat.compaction.policies import Policy
from nbchat.conversation.entries import Usage
from nbchat.errors import ConfigError
from nbchat.providers.model_info import MILLION, ModelInfo, Prices

WINDOW_SHARE_OF_THRESHOLD = 0.75
"""The threshold as a share of the window when none is set."""

GROWTH_AFTER_SUCCESS, GROWTH_AFTER_REFUSAL = 1.25, 1.10
"""How far the context must grow before it is compacted again, or tried again."""

MAX_FAILURES = 2
"""Compactions in a row that did not help, after which there is no third (opencode's
users report 35 in a row)."""

MAX_DOUBLINGS = 6
"""The wait stays at 64 requests between two attempts."""

UNTIL = (
    "Automatic compaction is paused until you change the threshold, the policy or the "
    "model, or compact or undo yourself."
)

LIMIT_NAMES = {"cumulative": "threshold", "window": "limit"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Token counts at which a policy compacts with one model; None is no limit."""

    policy: Policy
    info: ModelInfo
    set_threshold: int | None
    """The cumulative threshold that a person set."""
    threshold: int | None
    """Input tokens after which to compact; None when that meter is off."""
    usable_window: int | None
    """The window less the reserve for an answer."""
    guard: int | None
    """Tokens of the context at which the window guard fires."""
    goal: int | None
    """Tokens that a compaction must bring the context down to; None: no such limit."""

    @classmethod
    def of(cls, policy: Policy, info: ModelInfo, set_threshold: int | None) -> Self:
        """Compute the limits of a policy for a model."""
        window, threshold = info.window, None
        usable = info.usable_window
        if policy.meter == "cumulative":
            threshold = set_threshold
            if set_threshold is None and window is not None:
                threshold = int(window * WINDOW_SHARE_OF_THRESHOLD)
        guard = _guard(policy, window, usable)
        goal = _goal(policy, window, usable, guard)
        return cls(policy, info, set_threshold, threshold, usable, guard, goal)

    def fit(self, trigger: str) -> int | None:
        """Tokens that the kept part must fit into; None: all of it is kept.

        A target is no reason to keep less; a refused request is one.
        """
        goal, guard = self.goal, self.guard
        if goal is None or guard is None:
            return goal
        return min(goal, guard) if trigger == "overflow" else max(goal, guard)

    def at(self, trigger: str) -> int | None:
        """The limit at which a trigger fires, and which a compaction must get below."""
        if trigger == "cumulative":
            return self.threshold
        return self.guard if trigger == "window" else None

    def check(self, fixed_tokens: int) -> None:
        """Raise ConfigError where the policy cannot work with this model."""
        tokens = self.set_threshold
        if tokens is not None and tokens <= 0:
            raise ConfigError(f"context_token_threshold must be above 0, not {tokens}.")
        if self.policy.meter == "cumulative" and tokens is not None:
            self._check_fixed("context_token_threshold", tokens, fixed_tokens)
        self._check_keep()

    def check_guard(self, fixed_tokens: int) -> None:
        """Raise ConfigError where the guard's limit is below the fixed tokens."""
        if self.policy.meter != "off" and self.guard is not None:
            name = f"The limit of the policy {self.policy.name}"
            self._check_fixed(name, self.guard, fixed_tokens)

    def _check_fixed(self, name: str, tokens: int, fixed_tokens: int) -> None:
        if tokens <= fixed_tokens:
            raise ConfigError(
                f"{name} is {tokens:,} tokens, but the system prompt and tools alone "
                f"take {fixed_tokens:,}. Set it to {4 * fixed_tokens:,} or more."
            )

    def _check_keep(self) -> None:
        policy, guard = self.policy, self.guard
        if policy.keep is None or policy.keep_unit != "tokens" or guard is None:
            return
        if policy.keep >= guard:
            raise ConfigError(
                f"The policy {policy.name} keeps {policy.keep:,} tokens word for word, "
                f"but compacts at {guard:,} tokens with {self.info.name}. Set keep "
                f"below {guard:,}."
            )


def _guard(policy: Policy, window: int | None, usable: int | None) -> int | None:
    if window is None or usable is None:
        return None
    whole = window if policy.share_of == "window" else usable
    share = min(int(whole * policy.window_share), usable)
    return share - int(window * policy.margin_share)


def _goal(
    policy: Policy, window: int | None, usable: int | None, guard: int | None
) -> int | None:
    if policy.target_share is not None and window is not None:
        return min(int(window * policy.target_share), guard or window)
    return usable if policy.keeps_always else guard


RATIOS = Prices(input=1.0, cache_read=0.1, cache_write=1.25, output=5.0)
"""Used where a model's prices are unknown: Anthropic's ratios, in input tokens."""

EXPECTED_SUMMARY_TOKENS = 800
"""Tokens of a summary to come, as measured in published runs."""

INSTRUCTION_TOKENS = 400
"""Tokens of the instruction in a summary request."""


LEAST_LOST_SHARE, LEAST_LOST_TOKENS = 0.05, 2_000
"""Less is no lost cache: the ends of requests differ (as in pydantic-ai)."""


class Spending:
    """Running sum of what re-readings has cost since the last compaction."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._read: list[tuple[Usage, Prices, int, int]] = []
        """Readings whose price was not asked for yet."""
        self._last = Usage()

    def add(self, usage: Usage, prices: Prices, *, kept_tokens: int = 0) -> None:
        """Add the price of the tokens that a response read again.

        The first `kept_tokens` do not count, because no compaction saves them; nor do
        new tokens, which are paid for in any case. 0: `reread_cost` gets the number.
        """
        if stop := self._last.context_tokens:
            self._read.append((usage, prices, kept_tokens, stop))
        self._last = usage

    def reread_cost(self, least_kept: int) -> float:
        """The cost of re-reading so far, with tokens that no compaction saves."""
        for usage, prices, kept, stop in self._read:
            self._spent += reread_cost(
                usage, prices, start=kept or least_kept, stop=stop
            )
        self._read.clear()
        return self._spent

    @property
    def is_cached(self) -> bool:
        """True if the last response read or wrote a cache."""
        return bool(self._last.cache_read_tokens or self._last.cache_write_tokens)

    def lost_tokens(self, usage: Usage) -> int:
        """Tokens that the last response had in the cache and this one has not read."""
        last = self._last
        kept = last.cache_read_tokens + last.cache_write_tokens
        lost = kept - usage.cache_read_tokens
        is_much = lost >= max(LEAST_LOST_TOKENS, kept * LEAST_LOST_SHARE)
        return lost if is_much and usage.model == last.model else 0

    def cold_cost(
        self, prices: Prices, *, context_tokens: int, kept_tokens: int
    ) -> float:
        """The price of the next reading when the cache is gone.

        The first `kept_tokens` do not count, because no compaction saves them.
        """
        written = context_tokens if self._last.cache_write_tokens else 0
        usage = Usage(context_tokens, cache_write_tokens=written)
        return reread_cost(usage, prices, start=kept_tokens, stop=context_tokens)

    def compaction_cost(
        self,
        prices: Prices,
        *,
        context_tokens: int,
        fixed_tokens: int,
        summary_tokens: int,
        shares_prefix: bool,
        is_cold: bool = False,
        is_by_code: bool = False,
    ) -> float:
        """The price of a compaction: its request, its answer, and rebuilding the cache.

        A request that `shares_prefix` with the last one reads the cache; a summary by
        code needs no request. Where there is a cache (the last response shows it), the
        next request must write its shorter prefix to it, which would otherwise have
        been read. A cold cache is none.
        """
        prices = prices.at(context_tokens)
        is_cached = self.is_cached and not is_cold
        fresh = prices.cache_write if self._last.cache_write_tokens else prices.input
        asked = (context_tokens - fixed_tokens) * fresh
        if shares_prefix and is_cached:
            asked = context_tokens * prices.cache_read
        answered = summary_tokens * prices.output
        prefix = fixed_tokens + summary_tokens
        rewritten = prefix * (fresh - prices.cache_read) if is_cached else 0.0
        instruction = INSTRUCTION_TOKENS * fresh
        requested = 0.0 if is_by_code else asked + instruction + answered
        return (requested + rewritten) / MILLION


def due_at(
    input_tokens: int, threshold: int, *, reread_cost: float, compaction_cost: float
) -> int:
    """The sum of input tokens at which a compaction pays: the threshold or later.

    It pays when what it would remove has cost as much to read again as it costs itself:
    in a context that grows steadily neither more nor fewer are cheaper. Until then the
    sum is an estimate, for which the cost grows with the square of the requests.
    """
    if compaction_cost <= 0:
        return threshold
    if reread_cost <= 0:  # nothing was read again yet
        return max(threshold, input_tokens + 1)
    grown = input_tokens * sqrt(compaction_cost / reread_cost)
    return max(threshold, ceil(grown))


def reread_cost(usage: Usage, prices: Prices, *, start: int, stop: int) -> float:
    """The price of readings the tokens from `start` to `stop` of a request again.

    A request begins with the tokens read from the cache, followed by those written to
    it and the rest; each has its own price.
    """
    prices = prices.at(usage.input_tokens)
    stop = min(stop, usage.input_tokens)
    read = usage.cache_read_tokens
    written = read + usage.cache_write_tokens
    spans = (
        (start, min(read, stop), prices.cache_read),
        (max(start, read), min(written, stop), prices.cache_write),
        (max(start, written), stop, prices.input),
    )
    return sum(max(end - begin, 0) * price for begin, end, price in spans) / MILLION


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about compacting, its meter and reason; true when a meter fired."""

    trigger: str
    reason: str

    def __bool__(self) -> bool:
        """True if a meter fired."""
        return bool(self.trigger)


@dataclass(frozen=True, slots=True)
class MeterReadings:
    """Tokens and costs as the meters read them; a limit of None is no meter."""

    input_tokens: int
    threshold: int | None
    context_tokens: int
    window_limit: int | None
    """Tokens of the context at which the window guard fires."""
    least_context: int = 0
    """Tokens of the context below which no meter fires after the last attempt."""
    reread_cost: float = 0.0
    compaction_cost: float | None = None
    is_priced: bool = False
    """True if costs are dollars; else they are in millions of input tokens."""
    paused: frozenset[str] = frozenset()
    """Triggers that do not fire, whatever their meters read."""


def decide(readings: MeterReadings) -> Decision:
    """The decision that follows from the readings; the reason states each of them."""
    meters = (_cumulative(readings), _auto(readings), _window(readings))
    on = [each for each in meters if each is not None]
    due = [each for each in on if each and each.trigger not in readings.paused]
    state = " ".join(each.reason for each in on) or "Compacts only on request."
    if due and readings.context_tokens < readings.least_context:
        least = in_thousands(readings.least_context)
        state = f"Compacts again when the context reaches about {least} tokens."
        return Decision("", state)
    return due[0] if due else Decision("", state)


def _cumulative(readings: MeterReadings) -> Decision | None:
    if readings.threshold is None:
        return None
    return Decision(
        "cumulative" if readings.input_tokens >= readings.threshold else "",
        f"Compacts after {in_thousands(readings.threshold)} input tokens. So far: "
        f"{in_thousands(readings.input_tokens)}.",
    )


def _auto(readings: MeterReadings) -> Decision | None:
    if readings.compaction_cost is None:
        return None
    spent, price = readings.reread_cost, readings.compaction_cost
    return Decision(
        "auto" if spent >= price else "",
        f"Compacts when sending everything again has cost as much as a compaction: "
        f"{_cost_text(spent, readings)} of {_cost_text(price, readings)}.",
    )


def _window(readings: MeterReadings) -> Decision | None:
    limit = readings.window_limit
    if limit is None:
        return None
    return Decision(
        "window" if readings.context_tokens >= limit else "",
        f"Compacts at about {in_thousands(limit)} tokens.",
    )


def in_thousands(tokens: int) -> str:
    """A number of tokens as people read it: 850, 6.3k, 64k."""
    thousands = tokens / 1_000
    if thousands < 1:
        return f"{tokens}"
    shown = f"{thousands:.0f}" if thousands > 9.95 else f"{thousands:.1f}"  # noqa: PLR2004  # two digits
    return f"{shown.removesuffix('.0')}k"


def _cost_text(cost: float, readings: MeterReadings) -> str:
    """A cost in dollars; without prices in input tokens."""
    return f"${cost:.4f}" if readings.is_priced else f"{cost * 1e6:,.0f} tokens"


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Readings that the meters must exceed before the next attempt."""

    input_tokens: int = 0
    reread_cost: float = 0.0
    """Subtracted from what the cumulative meter and the price meter read."""
    least_context: int = 0
    """Tokens of the context below which no meter fires."""
    window_limit: int = 0
    """Tokens of the context below which the window guard does not fire."""

    @classmethod
    def after_success(cls, kept_tokens: int, usable_window: int | None) -> Self:
        """Wait until the context has grown, but never beyond the usable window."""
        least = int(kept_tokens * GROWTH_AFTER_SUCCESS)
        limit = least if usable_window is None else min(least, usable_window)
        return cls(least_context=limit)

    @classmethod
    def at(
        cls,
        context_tokens: int,
        *,
        input_tokens: int = 0,
        reread_cost: float = 0.0,
        needs_growth: bool = False,
    ) -> Self:
        """Wait in a context that stays large; `needs_growth` holds back all meters."""
        grown = int(context_tokens * GROWTH_AFTER_REFUSAL)
        least = grown if needs_growth else 0
        return cls(input_tokens, reread_cost, least, grown)


class CircuitBreaker:
    """Pauses automatic compaction after two attempts in a row that did not help.

    It stays paused, with one notice, until the settings change, a person compacts, or a
    compaction is undone: a context that cannot shrink costs only a few requests. A
    model that wrote no summary is asked again after one, two, four ... more requests.
    """

    def __init__(self) -> None:
        self.failures = 0
        """Compactions in a row that got no summary."""
        self._unhelpful: Counter[str] = Counter()
        self.paused: frozenset[str] = frozenset()
        """Triggers that stay silent until something changes; a notice was shown."""
        self._settings: Hashable = None
        self.requests_to_wait = 0
        """Requests to let pass before the next attempt."""

    def clear(self) -> None:
        """Allow all triggers again."""
        self.failures = 0
        self._unhelpful.clear()
        self.paused = frozenset()
        self.requests_to_wait = 0

    @property
    def wait_reason(self) -> str:
        """Why nothing is tried now."""
        return (
            f"The summary failed {_times(self.failures)}. nbchat tries again in "
            f"{_requests(self.requests_to_wait)}."
        )

    @property
    def next_wait(self) -> str:
        """How many requests pass after a failure now, or still, as words."""
        wait = self.requests_to_wait or 2 ** min(self.failures, MAX_DOUBLINGS)
        return f"nbchat tries again after {_requests(wait)}."

    def add_failure(self) -> None:
        """Wait twice as many requests as after the last failure, one at first."""
        self.requests_to_wait = 2 ** min(self.failures, MAX_DOUBLINGS)
        self.failures += 1

    def end_failures(self) -> None:
        """Wait for nothing, because a model wrote a summary."""
        self.failures = self.requests_to_wait = 0

    def count_request(self) -> None:
        """Count one more answered request."""
        self.requests_to_wait = max(0, self.requests_to_wait - 1)

    def has_new_settings(self, settings: Hashable) -> bool:
        """True if the settings have changed since the last call; clears if so."""
        is_new = self._settings not in (None, settings)
        self._settings = settings
        if is_new:
            self.clear()
        return is_new

    def record(self, trigger: str, *, has_helped: bool) -> None:
        """Count a compaction by whether it got below the limit of its trigger."""
        self._unhelpful[trigger] = 0 if has_helped else self._unhelpful[trigger] + 1

    def reason_to_stop(
        self, trigger: str, *, fixed_tokens: int, kept_tokens: int, limit: int | None
    ) -> str:
        """Why another compaction would not help; empty when it may be tried."""
        fixed = f"The system prompt and tools alone take {fixed_tokens:,} tokens"
        goal = "hardly fewer than before"
        if limit is not None:
            goal = f"above the {LIMIT_NAMES[trigger]} of {limit:,}"
            if fixed_tokens >= limit:
                return f"{fixed}, {goal}. {UNTIL}"
        if self._unhelpful[trigger] >= MAX_FAILURES:
            left = f"Two compactions in a row left {kept_tokens:,} tokens, {goal}"
            return f"{left}. {fixed}. {UNTIL}"
        return ""

    def pause(self, triggers: Iterable[str]) -> None:
        """Keep triggers from firing until something changes."""
        self.paused |= set(triggers)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
