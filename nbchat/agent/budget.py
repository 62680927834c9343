"""Budgets: the most that an agent, a turn or a run of many agents may use.

    agent = Agent(budget=Budget(dollars=1))
    answer = agent.ask("...", budget=Budget(tokens=50_000))
    answer.stop_reason                  # "budget" where one was used up

A budget is checked before each request, so that the last one may pass it a little.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from nbchat.conversation.entries import Compaction, Usage
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    Event,
    UsageReported,
)
from nbchat.errors import ConfigError
from nbchat.providers.base import Provider
from nbchat.providers.model_info import Prices

LIMITS = ("dollars", "tokens", "seconds", "steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most dollars, tokens, seconds and model requests (steps); None: no limit."""

    dollars: float | None = None
    tokens: int | None = None
    """Input and output tokens, those of summaries included."""
    seconds: float | None = None
    """Time while a turn runs."""
    steps: int | None = None
    prices: Prices | None = None
    """Prices of models that nbchat doesn't know."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a negative limit."""
        for name, limit in self.limits.items():
            if not limit >= 0:
                raise ConfigError(f"A budget can't be negative: {name}={limit}.")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        limits = {name: getattr(self, name) for name in LIMITS}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def priced(self, usage: Usage) -> Usage:
        """The usage with its cost by `prices`, where it has none."""
        if self.prices is None or usage.priced_tokens:
            return usage
        dollars, tokens = self.prices.cost(usage), usage.total_tokens
        return replace(usage, dollars=dollars, priced_tokens=tokens)


class Meter:
    """Spending of a budget so far; safe for several threads.

    Pickled, it becomes the meter of what is left.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.used = Usage()
        self.steps = 0
        self.is_copy = False
        """True if it counts in another process than the first one."""
        self._seconds = 0.0
        self._running = 0
        self._began_at = 0.0
        self._summaries: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """The budget, and what is used."""
        return f"<Meter of {self.budget}: {self.used}, {self.steps} steps>"

    def __reduce__(self) -> Any:
        """Pickle as a meter of the rest."""
        return _copied, (self.left,)

    @property
    def left(self) -> Budget:
        """The rest of the budget."""
        with self._lock:
            used = {
                "dollars": self.used.dollars,
                "tokens": self.used.total_tokens,
                "seconds": self._elapsed(),
                "steps": self.steps,
            }
        left: dict[str, Any] = {
            name: max(limit - used[name], 0)
            for name, limit in self.budget.limits.items()
        }
        return replace(self.budget, **left)

    @property
    def is_used_up(self) -> bool:
        """True if one of the limits is used up."""
        return 0 in self.left.limits.values()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time, once for all turns that run at the same time."""
        with self._lock:
            if not self._running:
                self._began_at = time.monotonic()
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                if self._running == 1:
                    self._seconds = self._elapsed()
                self._running -= 1

    def observe(self, event: Event) -> None:
        """Count what a reply or a summary has used."""
        match event:
            case UsageReported(usage):
                self.add(usage, steps=1)
            case Compacted(record) | CompactionFailed(record):
                self._add_summary(record)

    def add(self, usage: Usage, *, steps: int = 0) -> None:
        """Count usage and requests."""
        with self._lock:
            self.used += self.budget.priced(usage)
            self.steps += steps

    def _add_summary(self, record: Compaction) -> None:
        """Count the cost of a record, which includes all requests for its id."""
        with self._lock:
            if self._summaries.get(record.id) != record.cost:
                self._summaries[record.id] = record.cost
                self.used += self.budget.priced(record.cost)

    def _elapsed(self) -> float:
        running = time.monotonic() - self._began_at if self._running else 0.0
        return self._seconds + running


def meter_of(budget: "Budget | Meter | None") -> Meter | None:
    """The meter of a budget; all that get the same meter share it."""
    if isinstance(budget, Budget):
        return Meter(budget)
    if budget is not None and not isinstance(budget, Meter):
        raise ConfigError(
            f"budget can't be {budget!r}. Use Budget(tokens=...) or dollars=..."
        )
    return budget


def check_price(meter: Meter, provider: Provider) -> None:
    """Raise ConfigError for a budget in dollars of a model without a known price."""
    if meter.budget.dollars is None or meter.budget.prices is not None:
        return
    is_free = provider.name.startswith("local:")
    if not is_free and provider.info().prices is None:
        raise ConfigError(
            f"The price of `{provider.name}` is unknown, so a budget in dollars can't "
            "be enforced. Use Budget(tokens=...) or pass prices=Prices(...)."
        )


def _copied(left: Budget) -> Meter:
    meter = Meter(left)
    meter.is_copy = True
    return meter
