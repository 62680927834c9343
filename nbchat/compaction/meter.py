"""When to compact: two meters, the first to fire wins.

*Cumulative* adds up the input tokens of every response since the last compaction: it
limits what is spent on re-reading. *Window* looks at what the context holds now: it
keeps the conversation from hitting the wall. The third cause, a request the server
refused as too long, needs no meter.
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
    """What the meters see; all figures in tokens."""

    input_tokens: int
    threshold: int | None
    context_tokens: int
    window_limit: int | None
    """The share of the window that may fill before the guard fires."""


def read_meters(reading: Reading) -> Decision:
    """The decision that follows from a reading."""
    if reading.threshold is not None and reading.input_tokens >= reading.threshold:
        return Decision(
            "cumulative",
            f"{reading.input_tokens:,} input tokens since the last compaction reached "
            f"the threshold of {reading.threshold:,}",
        )
    limit = reading.window_limit
    if limit is not None and reading.context_tokens >= limit:
        return Decision(
            "window",
            f"the context holds {reading.context_tokens:,} tokens, "
            f"the guard stands at {limit:,}",
        )
    return Decision("", f"{reading.input_tokens:,} input tokens so far")
