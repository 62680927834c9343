"""Break the context down into parts: system prompt, tools, summary, history, input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import answered_length, count_messages
from nbchat.providers.base import fixed_tokens

PartName = Literal["system", "tools", "pins", "summary", "history", "input"]
"""A part of the next request, in the order they are sent."""

LABELS: Mapping[PartName, str] = {
    "system": "system prompt",
    "tools": "tools",
    "pins": "pinned rules",
    "summary": "summary",
    "history": "messages",
    "input": "current message",
}
"""The names of the parts, as people and models read them."""


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """Tokens of the next request, part by part.

    The parts are local counts; `total` is the provider's last report plus an estimate
    of what was added since.
    """

    system: int
    tools: int
    pins: int
    summary: int
    history: int
    input: int
    """The user's newest messages, not answered yet."""
    response: int
    """Expected of the answer."""
    total: int
    window: int | None
    limit: int | None
    """Tokens at which the window guard fires."""

    @property
    def share(self) -> float | None:
        """Share of the window in use; None where the window is unknown."""
        return self.total / self.window if self.window else None

    @property
    def parts(self) -> dict[PartName, int]:
        """Tokens by the names of the parts, in the order they are sent."""
        return {name: getattr(self, name) for name in get_args(PartName)}

    @property
    def parts_of_total(self) -> dict[PartName, int]:
        """The parts in proportion, to the token: they add up to `total`."""
        counted, given = 0, 0
        shown: dict[PartName, int] = {}
        whole = max(sum(self.parts.values()), 1)
        for name, tokens in self.parts.items():
            counted += tokens
            stop = round(self.total * counted / whole)
            shown[name], given = stop - given, stop
        return shown


@dataclass(frozen=True, slots=True)
class ContextState:
    """Key figures of a conversation (seed 002)."""

    total_tokens: int
    message_count: int
    summary_count: int
    last_summary_at: str
    """ISO 8601; empty when there was none."""


def context_usage(
    session: Session, tracker: ContextTracker, system: str, tools: Sequence[Tool]
) -> ContextUsage:
    """Count the parts of the next request; the cost grows with what is new."""
    count, entries = tracker.counter.count, tracker.counter.count_entries
    history = session.history
    head = 1 if session.compaction else 0
    asked = history[max(answered_length(history), head) :]
    summary_tokens, input_tokens = entries(history[:head]), entries(asked)
    older_tokens = tracker.history_tokens(session) - summary_tokens - input_tokens
    return ContextUsage(
        system=count(system),
        tools=fixed_tokens("", tools, tracker.counter),
        pins=tracker.fixed_tokens - fixed_tokens(system, tools, tracker.counter),
        summary=summary_tokens,
        history=max(older_tokens, 0),
        input=input_tokens,
        response=sum(tracker.counter.estimate_response(e.content) for e in asked),
        total=tracker.context_tokens(session),
        window=tracker.info.window,
        limit=tracker.limits.guard,
    )


def context_state(session: Session, tracker: ContextTracker) -> ContextState:
    """The key figures now."""
    summaries = [each for each in session.active_compactions if each.kind == "summary"]
    return ContextState(
        total_tokens=tracker.context_tokens(session),
        message_count=count_messages(session.history),
        summary_count=len(summaries),
        last_summary_at=summaries[-1].created_at if summaries else "",
    )
