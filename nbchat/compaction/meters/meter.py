"""When to compact: the first meter to fire wins.

*Cumulative* adds up the input tokens of every response since the last compaction: it
limits what is spent on re-reading. *Auto* weighs what re-reading has cost against what
a compaction would. *Window* looks at what the context holds now: it keeps the
conversation from hitting the wall. The last cause, a request the server refused as too
long, needs no meter.
"""

from dataclasses import dataclass


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
