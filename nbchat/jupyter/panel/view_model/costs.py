"""The quiet line below each answer: its tokens, what it cost, how long it took."""

import time
from collections.abc import Callable

from nbchat.conversation.costs import (
    TurnCost,
    compactions_usage,
    last_turn_cost,
    turn_costs,
    usage_text,
)
from nbchat.conversation.session import Session
from nbchat.conversation.turns import ends_with_answer
from nbchat.jupyter.panel.view_model.transcript import Operation, Transcript
from nbchat.rendering.entries import usage_html


class Costs:
    """Lines on turns in one transcript, each drawn once, when the answer is there."""

    def __init__(
        self, items: Transcript, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """No turn was seen yet."""
        self._items = items
        self._clock = clock
        self._began: float | None = None
        self._told = -1

    def begin(self) -> None:
        """A turn begins now."""
        self._began = self._clock()

    def end(self) -> None:
        """The turn is over."""
        self._began = None

    def lines(self, session: Session, *, shown: int = 0) -> dict[int, str]:
        """Those not drawn yet, by the place of the entry below which each stands.

        So many entries are `shown` already: a turn that ends with these, or that still
        runs, has its line told.
        """
        new = (turn for turn in turn_costs(session) if turn.start > self._told)
        ended = [turn for turn in new if turn.requests and turn.stop > shown]
        if (
            shown
            and self._began is not None
            and not ends_with_answer(session.transcript)
        ):
            ended = [turn for turn in ended if turn.stop < len(session.transcript)]
        self._told = max((turn.start for turn in ended), default=self._told)
        return {turn.stop - 1: usage_html(_text(turn)) for turn in ended}

    def restart(self) -> None:
        """Another session is shown; a turn that began goes on in it."""
        self._told = -1

    def tell(self, session: Session) -> list[Operation]:
        """The line on the turn that is ending, unless there is one."""
        turn = last_turn_cost(session)
        if turn is None or not turn.requests or turn.start <= self._told:
            return []
        self._told = turn.start
        seconds = None if self._began is None else self._clock() - self._began
        return self._items.show(usage_html(_text(turn, seconds)))


def session_text(session: Session) -> str:
    """What a whole session took, compactions apart; empty before the first answer."""
    usage, paid = session.usage, compactions_usage(session)
    if not usage.total_tokens:
        return ""
    text = usage_text(usage)
    if not paid.total_tokens:
        return text
    cost = paid.dollars_text or f"{paid.total_tokens:,} tokens"
    return f"{text}; compactions took {cost} of that"


def _text(turn: TurnCost, seconds: float | None = None) -> str:
    asked = f"{turn.requests:,} requests" if turn.requests > 1 else ""
    took = "" if seconds is None else _duration(seconds)
    return usage_text(turn.usage, asked, took)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{max(seconds, 0.1):.1f} s"
