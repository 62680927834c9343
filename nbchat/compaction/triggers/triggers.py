"""When to compact: the first meter to fire wins.

*Cumulative* adds up the input tokens of every response since the last compaction: it
limits what is spent on re-reading. *Auto* weighs what re-reading has cost against what
a compaction would. *Window* looks at what the context holds now: it keeps the
conversation from hitting the wall. The last cause, a request the server refused as too
long, needs no meter.
"""

from dataclasses import dataclass

from nbchat.compaction.policies import Policy
from nbchat.conversation.entries import Usage
from nbchat.errors import ConfigError
from nbchat.providers.model_info import MILLION, ModelInfo, Prices

WINDOW_SHARE_OF_THRESHOLD = 0.75
"""The threshold as a share of the window when none is set."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the meters of a policy fire at, for one model; None where nothing does."""

    policy: Policy
    info: ModelInfo
    set_threshold: int | None
    """The cumulative threshold somebody set."""

    @property
    def threshold(self) -> int | None:
        """Input tokens after which to compact; None when that meter is off."""
        if self.policy.meter != "cumulative":
            return None
        if self.set_threshold is None and self.info.window is not None:
            return int(self.info.window * WINDOW_SHARE_OF_THRESHOLD)
        return self.set_threshold

    @property
    def usable_window(self) -> int | None:
        """The window less what an answer needs."""
        if self.info.window is None:
            return None
        return self.info.window - self.info.output_reserve

    @property
    def guard(self) -> int | None:
        """What the context may hold before the window's guard fires."""
        window, usable, policy = self.info.window, self.usable_window, self.policy
        if window is None or usable is None:
            return None
        whole = window if policy.share_of == "window" else usable
        share = min(int(whole * policy.window_share), usable)
        return share - int(window * policy.margin_share)

    @property
    def goal(self) -> int | None:
        """What a compaction must bring the context down to; None: no such size."""
        policy, window = self.policy, self.info.window
        if policy.target_share is not None and window is not None:
            return min(int(window * policy.target_share), self.guard or window)
        if not policy.keep:
            return None
        return self.usable_window if policy.keeps_always else self.guard

    def fit(self, trigger: str) -> int | None:
        """What the kept part must fit into, or less is kept; None: it always stays.

        A target is no reason to keep less, a request that was refused is one.
        """
        goal, guard = self.goal, self.guard
        if goal is None or guard is None:
            return goal
        return min(goal, guard) if trigger == "overflow" else max(goal, guard)

    def of(self, trigger: str) -> int | None:
        """What a trigger fires at and a compaction must get below."""
        if trigger == "cumulative":
            return self.threshold
        return self.guard if trigger == "window" else None

    def check(self, floor_tokens: int) -> None:
        """Raise ConfigError where the policy cannot work with this model."""
        tokens = self.set_threshold
        if tokens is not None and tokens <= 0:
            raise ConfigError(
                f"context_token_threshold {tokens} is no token count; set one above 0"
            )
        if self.policy.meter == "cumulative" and tokens is not None:
            self._check_floor("context_token_threshold", tokens, floor_tokens)
        self._check_keep()

    def check_guard(self, floor_tokens: int) -> None:
        """Raise ConfigError where the guard's limit is below the floor."""
        if self.policy.meter != "off" and self.guard is not None:
            name = f"the limit of policy {self.policy.name!r}"
            self._check_floor(name, self.guard, floor_tokens)

    def _check_floor(self, name: str, tokens: int, floor_tokens: int) -> None:
        if tokens <= floor_tokens:
            raise ConfigError(
                f"{name} {tokens:,} is not above the {floor_tokens:,} tokens of the "
                "system prompt and tools alone, which no compaction removes; "
                f"set at least {4 * floor_tokens:,}"
            )

    def _check_keep(self) -> None:
        policy, guard = self.policy, self.guard
        if policy.keep_unit != "tokens" or guard is None:
            return
        if policy.keep >= guard:
            raise ConfigError(
                f"policy {policy.name!r} keeps {policy.keep:,} tokens word for word, "
                f"but compacts {self.info.name} at {guard:,}; keep fewer"
            )


RATIOS = Prices(input=1.0, cache_read=0.1, cache_write=1.25, output=5.0)
"""Prices when nobody knows a model's: Anthropic's ratios, in input tokens."""

EXPECTED_SUMMARY_TOKENS = 800
"""Tokens of a summary nobody has written yet: what they took in published runs."""

INSTRUCTION_TOKENS = 400
"""Tokens that ask for a summary, beside the conversation itself."""


class Spending:
    """What was paid for re-reading since the last compaction; one sum, kept running."""

    def __init__(self) -> None:
        """Begin with nothing paid."""
        self.reread_cost = 0.0
        self._last = Usage()

    def add(self, usage: Usage, prices: Prices, *, kept_tokens: int) -> None:
        """Add what a response paid beyond `kept_tokens`, which no compaction saves.

        What is new in it would have been paid for in any case.
        """
        self.reread_cost += reread_cost(
            usage, prices, start=kept_tokens, stop=self._last.context_tokens
        )
        self._last = usage

    def compaction_cost(
        self,
        prices: Prices,
        *,
        context_tokens: int,
        floor_tokens: int,
        summary_tokens: int,
        shares_prefix: bool,
    ) -> float:
        """The price of a compaction: its request, its answer, and the cache made anew.

        A request that `shares_prefix` with the last one reads the cache. Where there is
        a cache, the next request must write its shorter beginning to it, which would
        have been read; the last response shows whether there is one.
        """
        prices = prices.at(context_tokens)
        is_cached = self._last.cache_read_tokens or self._last.cache_write_tokens
        fresh = prices.cache_write if self._last.cache_write_tokens else prices.input
        asked = (context_tokens - floor_tokens) * fresh
        if shares_prefix and is_cached:
            asked = context_tokens * prices.cache_read
        answered = summary_tokens * prices.output
        prefix = floor_tokens + summary_tokens
        rewritten = prefix * (fresh - prices.cache_read) if is_cached else 0.0
        instruction = INSTRUCTION_TOKENS * fresh
        return (asked + instruction + answered + rewritten) / MILLION


def reread_cost(usage: Usage, prices: Prices, *, start: int, stop: int) -> float:
    """What a response paid for reading the tokens from `start` to `stop` again.

    What the cache held comes first in a request, then what was written to it, then the
    rest; each has its price.
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
    """Whether to compact, by which meter, and why; true when it is time."""

    trigger: str
    reason: str

    def __bool__(self) -> bool:
        """Whether a meter fired."""
        return bool(self.trigger)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the meters see: tokens, and what they cost; a limit of None is no meter."""

    input_tokens: int
    threshold: int | None
    context_tokens: int
    window_limit: int | None
    """The share of the window that may fill before the guard fires."""
    least_context: int = 0
    """No meter fires before the context has grown to this since the last attempt."""
    reread_cost: float = 0.0
    compaction_cost: float | None = None
    is_priced: bool = False
    """Whether costs are dollars; else they are millions of input tokens' worth."""
    resting: frozenset[str] = frozenset()
    """Meters that do not fire, whatever they show."""


def read_meters(reading: Reading) -> Decision:
    """The decision that follows from a reading; its reason says how far each is."""
    if reading.context_tokens < reading.least_context:
        return Decision(
            "",
            f"the context holds {reading.context_tokens:,} tokens; it must reach "
            f"{reading.least_context:,} before another compaction",
        )
    meters = (_cumulative(reading), _auto(reading), _window(reading))
    on = [each for each in meters if each is not None]
    due = [each for each in on if each and each.trigger not in reading.resting]
    standing = "; ".join(each.reason for each in on) or "no meter is on"
    return due[0] if due else Decision("", standing)


def _cumulative(reading: Reading) -> Decision | None:
    if reading.threshold is None:
        return None
    return Decision(
        "cumulative" if reading.input_tokens >= reading.threshold else "",
        f"{reading.input_tokens:,} input tokens since the last compaction, "
        f"the threshold is {reading.threshold:,}",
    )


def _auto(reading: Reading) -> Decision | None:
    if reading.compaction_cost is None:
        return None
    spent, price = reading.reread_cost, reading.compaction_cost
    return Decision(
        "auto" if spent >= price else "",
        f"re-reading has cost {_worth(spent, reading)} since the last compaction, "
        f"compacting costs {_worth(price, reading)}",
    )


def _window(reading: Reading) -> Decision | None:
    limit = reading.window_limit
    if limit is None:
        return None
    return Decision(
        "window" if reading.context_tokens >= limit else "",
        f"the context holds {reading.context_tokens:,} tokens, "
        f"the guard stands at {limit:,}",
    )


def _worth(cost: float, reading: Reading) -> str:
    """A cost as people read it; without prices in input tokens."""
    return f"${cost:.4f}" if reading.is_priced else f"{cost * 1e6:,.0f} tokens"
