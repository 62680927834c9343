"""What the context holds, part by part, and what the session has cost, in figures.

The parts are counted here and what the server counts may be more: they are shown in
proportion, so that they add up to the one size that all meters go by.
"""

from typing import Any

from nbchat.agent.agent import Agent
from nbchat.compaction.triggers.context_breakdown import context_usage
from nbchat.conversation.costs import cost_rows
from nbchat.conversation.entries import Usage
from nbchat.conversation.session import Session
from nbchat.providers.model_info import ModelInfo
from nbchat.rendering.markdown import displayable


def context_parts(agent: Agent) -> dict[str, Any]:
    """Each part's tokens, what is free and why it is not more, and all costs."""
    session, engine = agent.session, agent.engine
    held = context_usage(session, engine.tracker, agent.system, agent.tools)
    return {
        "type": "context_parts",
        "parts": _scaled(held.parts, held.total),
        "total": held.total,
        **_room(engine.tracker.info, held.total),
        "limit": None if engine.policy.meter == "off" else held.limit,
        "policy": displayable(engine.policy.name),
        "outlook": displayable(engine.tracker.outlook(session)),
        "costs": _costs(session),
    }


def _scaled(parts: dict[str, int], total: int) -> list[dict[str, Any]]:
    """The parts in proportion; they add up to `total`, to the token."""
    counted, given = 0, 0
    whole = max(sum(parts.values()), 1)
    rows = []
    for name, tokens in parts.items():
        counted += tokens
        stop = round(total * counted / whole)
        rows.append({"name": name, "tokens": stop - given})
        given = stop
    return rows


def _room(info: ModelInfo, held: int) -> dict[str, int | None]:
    """What the window has left for an answer, and beyond; None where it is unknown."""
    if info.window is None:
        return {"window": None, "reserve": None, "free": None}
    left = max(info.window - held, 0)
    reserve = min(info.output_reserve, left)
    return {"window": info.window, "reserve": reserve, "free": left - reserve}


def _costs(session: Session) -> list[dict[str, Any]]:
    """A row for each model's answers, for all compactions, and for the sum."""
    rows = [
        _cost(each.label or "answers", each.usage, each.requests)
        for each in cost_rows(session)
    ]
    return [*rows, _cost("In all", session.usage)] if len(rows) > 1 else rows


def _cost(label: str, usage: Usage, requests: int | None = None) -> dict[str, Any]:
    return {
        "label": displayable(label),
        "requests": requests,
        "input": usage.input_tokens,
        "cached": usage.cache_read_tokens,
        "output": usage.output_tokens,
        "is_estimated": usage.is_estimated,
        "dollars": usage.dollars_text,
    }
