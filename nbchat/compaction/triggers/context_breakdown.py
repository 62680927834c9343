"""What the context holds, part by part, and how it got there."""

from collections.abc import Sequence
from dataclasses import dataclass

from nbchat.compaction.triggers.context_tracker import WINDOW_UNKNOWN, Gauge
from nbchat.compaction.triggers.triggers import read_meters
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import answered_length, count_messages
from nbchat.providers.wire import fixed_tokens


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """Tokens of the next request; the parts are counted here, the total is anchored.

    `total` is what the provider last reported and an estimate of what came since.
    """

    system: int
    tools: int
    pins: int
    summary: int
    history: int
    input: int
    """What somebody said and nobody has answered yet."""
    response: int
    """To expect of the answer."""
    total: int
    window: int | None
    limit: int | None
    """What may fill before the window's guard fires."""

    @property
    def share(self) -> float | None:
        """Of the window; None where that is not known."""
        return self.total / self.window if self.window else None

    @property
    def parts(self) -> dict[str, int]:
        """The parts by their names, in the order they are sent."""
        names = ("system", "tools", "pins", "summary", "history", "input")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class ContextState:
    """How a conversation stands (seed 002)."""

    total_tokens: int
    message_count: int
    summary_count: int
    last_summary_at: str
    """ISO 8601; empty when there was none."""


def context_usage(
    session: Session, gauge: Gauge, system: str, tools: Sequence[Tool]
) -> ContextUsage:
    """The parts of the next request."""
    count, entries = gauge.counter.count, gauge.counter.count_entries
    history = session.history
    head = 1 if session.compaction else 0
    answered = max(answered_length(history), head)
    asked = history[answered:]
    return ContextUsage(
        system=count(system),
        tools=fixed_tokens("", tools, gauge.counter),
        pins=gauge.floor_tokens - fixed_tokens(system, tools, gauge.counter),
        summary=entries(history[:head]),
        history=entries(history[head:answered]),
        input=entries(asked),
        response=sum(gauge.counter.estimate_response(e.content) for e in asked),
        total=gauge.context_tokens(session),
        window=gauge.info.window,
        limit=gauge.limits.guard,
    )


def outlook(session: Session, gauge: Gauge) -> str:
    """When it is compacted next, as the meters stand; looking changes nothing."""
    if gauge.policy.meter == "off":
        return gauge.objection("off")
    if gauge.policy.meter == "window" and gauge.limits.guard is None:
        return WINDOW_UNKNOWN
    reading = gauge.reading(gauge.context_tokens(session))
    return gauge.waiting or read_meters(reading).reason


def context_state(session: Session, gauge: Gauge) -> ContextState:
    """How a conversation stands now."""
    summaries = [each for each in session.active_compactions if each.kind == "summary"]
    return ContextState(
        total_tokens=gauge.context_tokens(session),
        message_count=count_messages(session.history),
        summary_count=len(summaries),
        last_summary_at=summaries[-1].created_at if summaries else "",
    )
