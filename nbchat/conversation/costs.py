"""What turns and sessions have cost, in tokens and dollars, as values and as words.

A price nobody knows is no price of zero: then only tokens are told, and of a sum that
is known in part that it is at least so much.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from nbchat.conversation.entries import Usage
from nbchat.conversation.session import Session
from nbchat.conversation.turns import last_turn, turns


@dataclass(frozen=True, slots=True)
class TurnCost:
    """A person's words and all that followed, by places in the transcript."""

    start: int
    stop: int
    requests: int
    """How many responses there were."""
    usage: Usage


@dataclass(frozen=True, slots=True)
class CostRow:
    """What some requests of a session came to."""

    label: str
    requests: int | None
    """None where only the sum was kept."""
    usage: Usage


def turn_costs(session: Session) -> list[TurnCost]:
    """The cost of every turn, oldest first."""
    return [_turn_cost(session, turn) for turn in turns(session.transcript)]


def last_turn_cost(session: Session) -> TurnCost | None:
    """The cost of the last turn; None before the first one."""
    turn = last_turn(session.transcript)
    return None if turn is None else _turn_cost(session, turn)


def cost_rows(session: Session) -> list[CostRow]:
    """What each model's answers cost, and then all compactions apart."""
    answered: dict[str, list[Usage]] = {}
    for _, usage in session.usages:
        answered.setdefault(usage.model, []).append(usage)
    found = [
        CostRow(model, len(usages), _sum(usages)) for model, usages in answered.items()
    ]
    paid = compactions_usage(session)
    return [*found, CostRow("Compactions", None, paid)] if paid.total_tokens else found


def compactions_usage(session: Session) -> Usage:
    """All requests for summaries, those that were refused included."""
    return _sum({each.id: each.cost for each in session.compactions}.values())


def usage_text(usage: Usage, *details: str) -> str:
    """Tokens, dollars where they are known, and more details, on one line."""
    about = "about " if usage.is_estimated else ""
    read = usage.cache_read_tokens
    cached = f" ({read:,} cached)" if read else ""
    tokens = f"{about}{usage.input_tokens:,} in{cached}"
    answered = f"{usage.output_tokens:,} out"
    return " · ".join(filter(None, (tokens, answered, usage.dollars_text, *details)))


def _turn_cost(session: Session, turn: range) -> TurnCost:
    first, end = (
        bisect_right(session.usages, index, key=lambda pair: pair[0])
        for index in (turn.start, turn.stop)
    )
    usages = [usage for _, usage in session.usages[first:end]]
    return TurnCost(turn.start, turn.stop, len(usages), _sum(usages))


def _sum(usages: Iterable[Usage]) -> Usage:
    return sum(usages, Usage())
