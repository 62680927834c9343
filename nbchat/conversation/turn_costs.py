"""Costs of turns and sessions, in tokens and dollars.

An unknown price is not zero: only tokens are shown then, and "at least" before a sum of
which a part is unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nbchat.conversation.entries import Usage
from nbchat.conversation.session import Session
from nbchat.conversation.turns import last_turn, turns


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The usage of one turn, from index `start` to `stop` of the transcript."""

    start: int
    stop: int
    requests: int
    """Number of replies."""
    usage: Usage
    cache_losses: tuple[str, ...] = ()
    """Losses of the prompt cache, one line each."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """The usage of one model in a session, or of all compactions."""

    label: str
    requests: int | None
    """Number of replies; None for compactions."""
    usage: Usage


def turn_costs(session: Session) -> list[TurnCost]:
    """The cost of every turn, oldest first."""
    return [_turn_cost(session, turn) for turn in turns(session.transcript)]


def last_turn_cost(session: Session) -> TurnCost | None:
    """The cost of the last turn; None before the first one."""
    turn = last_turn(session.transcript)
    return None if turn is None else _turn_cost(session, turn)


def cost_rows(session: Session) -> list[CostRow]:
    """The usage of each model, then that of all compactions."""
    by_model: dict[str, list[Usage]] = {}
    for _, usage in session.usages:
        by_model.setdefault(usage.model, []).append(usage)
    found = [
        CostRow(model, len(usages), _sum(usages)) for model, usages in by_model.items()
    ]
    paid = compactions_usage(session)
    return [*found, CostRow("Compactions", None, paid)] if paid.total_tokens else found


def compactions_usage(session: Session) -> Usage:
    """The usage of all requests for summaries, including rejected ones."""
    return _sum({each.id: each.cost for each in session.compactions}.values())


def usage_text(usage: Usage, *details: str) -> str:
    """Tokens, dollars if known, and `details`, on one line."""
    about = "about " if usage.is_estimated else ""
    read = usage.cache_read_tokens
    cached = f" ({read:,} cached)" if read else ""
    tokens = f"{about}{usage.input_tokens:,} in{cached}"
    output = f"{usage.output_tokens:,} out"
    return " · ".join(filter(None, (tokens, output, usage.dollars_text, *details)))


def _turn_cost(session: Session, turn: range) -> TurnCost:
    usages = session.usages.between(turn.start, turn.stop)
    losses = tuple(filter(None, (usage.cache_loss for usage in usages)))
    return TurnCost(turn.start, turn.stop, len(usages), _sum(usages), losses)


def _sum(usages: Iterable[Usage]) -> Usage:
    return sum(usages, Usage())
