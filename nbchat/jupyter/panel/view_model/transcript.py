"""The transcript as the panel shows it: messages, costs, banners and approval cards."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from nbchat.agent.approvals import PendingCall
from nbchat.conversation.costs import TurnCost, last_turn_cost, turn_costs, usage_text
from nbchat.conversation.entries import EXCLUDED, Compaction, Entry
from nbchat.conversation.events import (
    Branched,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    Event,
    PinsChanged,
    SavingFailed,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TurnFailed,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.conversation.turns import ends_with_answer
from nbchat.jupyter.panel.view_model.items import Items, LiveText, Operation
from nbchat.rendering.banners import compaction_html, notice_html
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import (
    entry_html,
    note_html,
    usage_html,
    waiting_html,
    with_invisibles_escaped,
)

STOP_NOTES: dict[StopReason, str] = {
    "max_tokens": "The answer was cut at the model's output limit.",
    "max_steps": "Stopped: the turn reached its limit of steps.",
    "refusal": "The model declined to answer.",
}


class TranscriptView:
    """The items of one session, and the answer that streams in below them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Show nothing yet."""
        self._clock = clock
        self._items = Items()
        self._live = LiveText()
        self.banners = Banners(self._items)
        self.approvals = ApprovalCards(self._items)
        self._session: Session | None = None
        self._shown = 0
        """How many entries of the session are shown; the one index kept here."""
        self._has_cost = False
        """Whether the newest turn has its line of costs."""
        self._began: float | None = None

    def snapshot(self) -> dict[str, Any]:
        """The newest page of items, and what streams."""
        return {**self._items.page(), "live": self._live.snapshot()}

    def page(self, before: int) -> dict[str, Any]:
        """The page of items before a key."""
        return self._items.page(before)

    def fold(self, event: Event, session: Session | None) -> list[Operation]:
        """Operations that show an event of a turn in the agent's session."""
        match event:
            case TextDelta(text):
                return self._live.write(text)
            case ThinkingDelta(text):
                return self._live.append("thinking", text)
            case TurnFinished(reason):
                note = STOP_NOTES.get(reason)
                noted = self._items.show(note_html(note)) if note else []
                return [*self._end_turn(session), *noted]
            case TurnFailed():
                notice = self._items.show(notice_html(event))
                return [*self._end_turn(session), *notice]
            case Branched() | PinsChanged() | SavingFailed():
                return self._items.show(notice_html(event))
        return self.banners.fold(event)

    def start_turn(self) -> None:
        """Measure the time of the turn from now on."""
        self._began = self._clock()

    def stop_clock(self) -> None:
        """Forget when the turn began."""
        self._began = None

    def note(self, text: str) -> list[Operation]:
        """Show the answer of a command."""
        return self._items.show(note_html(text))

    def restore(self, session: Session) -> list[Operation]:
        """Show a session instead of the one before, or what is new in the same one.

        So a refresh does not scroll a reader away.
        """
        if session is self._session:
            return self._grow(session)
        self._session, self._shown, self._has_cost = session, 0, False
        for part in (self._items, self.banners, self.approvals):
            part.clear()
        self._fill(session)
        return [{"op": "restart", **self._items.page()}, *self.approvals.show()]

    def add_entry(
        self, entry: Entry, position: int, session: Session | None
    ) -> list[Operation]:
        """Show a finished entry in place of what streamed of it."""
        is_current = session is not None and session is self._session
        added = []
        if position >= self._shown or not is_current:
            self._has_cost = self._has_cost and entry.role != "user"
            added = self._show_entry(entry, position)
        self._shown = max(self._shown, position + 1) if is_current else 0
        return self._live.finish(entry.role, added)

    def show_cost(self, session: Session) -> list[Operation]:
        """Show the costs of the newest turn once its answer is complete."""
        return self._show_cost(session) if ends_with_answer(session.transcript) else []

    def _fill(self, session: Session) -> None:
        """Add a whole session; its HTML is made when a view asks for it."""
        costs = self._cost_lines(session)
        for position, part in timeline(session):
            if isinstance(part, Compaction):
                self.banners.restore(part)
                continue
            key = self._items.add(part, position=_position_of(part, position))
            self.approvals.follow(key, part)
            if position in costs:
                self._items.add(costs[position])
        self._shown = len(session.transcript)

    def _grow(self, session: Session) -> list[Operation]:
        """Add what a session gained elsewhere: turns of cells, changed summaries."""
        costs = self._cost_lines(session)
        shown: list[Operation] = []
        for position, part in timeline(session):
            if isinstance(part, Compaction):
                shown += self.banners.update(part)
            elif position >= self._shown:
                shown += self._show_entry(part, position)
                shown += self._items.show(costs.get(position, ""))
        self._shown = len(session.transcript)
        return shown

    def _show_entry(self, entry: Entry, position: int) -> list[Operation]:
        position_shown = _position_of(entry, position)
        shown = self._items.show(entry_html(entry), position=position_shown)
        if entry.role in ("assistant", "tool"):
            for item in shown:
                self.approvals.follow(item["key"], entry)
        return shown

    def _cost_lines(self, session: Session) -> dict[int, str]:
        """Costs of turns with new entries, by the index of each turn's last entry.

        A turn that still runs gets its line when it ends.
        """
        is_answered = ends_with_answer(session.transcript)
        is_running = self._began is not None and self._shown > 0 and not is_answered
        end = len(session.transcript)
        lines, has_cost = {}, False
        for turn in turn_costs(session):
            has_cost = turn.start < self._shown and self._has_cost
            is_new = turn.stop > self._shown and not has_cost
            if is_new and turn.requests and not (is_running and turn.stop == end):
                lines[turn.stop - 1] = usage_html(_cost_text(turn))
                has_cost = True
        self._has_cost = has_cost
        return lines

    def _show_cost(self, session: Session) -> list[Operation]:
        turn = None if self._has_cost else last_turn_cost(session)
        if turn is None or not turn.requests:
            return []
        self._has_cost = True
        seconds = None if self._began is None else self._clock() - self._began
        return self._items.show(usage_html(_cost_text(turn, seconds)))

    def _end_turn(self, session: Session | None) -> list[Operation]:
        """Drop what did not finish, and show the costs unless they are shown."""
        ended = [*self._live.stop(), *self.banners.drop_running()]
        costs = self._show_cost(session) if session else []
        self.stop_clock()
        return [*ended, *costs]


class Banners:
    """Banners of compactions: a running one is replaced by its outcome.

    Without `notifies` automatic compactions have none, unless the summary is degraded.
    """

    def __init__(self, items: Items) -> None:
        """Show none yet."""
        self._items = items
        self.keys: dict[str, int] = {}
        """The items that are banners, by the ids of their compactions."""
        self._records: dict[str, Compaction] = {}
        self._running: int | None = None
        self.notifies = True
        """Whether automatic compactions have a banner."""

    def clear(self) -> None:
        """Forget all."""
        self.keys.clear()
        self._records.clear()
        self._running = None

    def restore(self, compaction: Compaction) -> None:
        """Add a banner that is rendered when a view asks for it."""
        self._records[compaction.id] = compaction
        if not self._is_hidden(compaction):
            self.keys[compaction.id] = self._items.add(compaction)

    def update(self, compaction: Compaction) -> list[Operation]:
        """Show a compaction unless its banner shows it already."""
        is_known = self._records.get(compaction.id) == compaction
        return [] if is_known else self._add(compaction)

    def fold(self, event: Event) -> list[Operation]:
        """Operations that show an event of a compaction; none for other events."""
        match event:
            case CompactionStarted(trigger) if not self._is_quiet(trigger):
                shown = self._items.show(notice_html(event))
                self._running = shown[0]["key"]
                return shown
            case Compacted(compaction):
                return self._add(compaction)
            case CompactionUndone(compaction) | CompactionChanged(compaction):
                return [*self._redraw(compaction), *self._end(notice_html(event))]
            case CompactionSkipped(_, trigger) if self._is_quiet(trigger):
                return self.drop_running()
            case CompactionSkipped() | CompactionFailed():
                return self._end(notice_html(event))
        return []

    def drop_running(self) -> list[Operation]:
        """Remove the banner of a compaction that runs."""
        key, self._running = self._running, None
        return [] if key is None else self._items.drop(key)

    def _add(self, compaction: Compaction) -> list[Operation]:
        self._records[compaction.id] = compaction
        if self._is_hidden(compaction):
            return self.drop_running()
        key = self.keys.get(compaction.id, self._running)
        shown = self._items.show(compaction_html(compaction), key=key)
        self.keys[compaction.id] = shown[0]["key"]
        self._running = None
        return shown

    def _redraw(self, compaction: Compaction) -> list[Operation]:
        """Show the compaction as it is now, unless its banner is hidden."""
        self._records[compaction.id] = compaction
        key = self.keys.get(compaction.id)
        if key is None and self._is_quiet(compaction.trigger):
            return []
        return self._items.show(compaction_html(compaction), key=key)

    def _end(self, html: str) -> list[Operation]:
        key, self._running = self._running, None
        return self._items.show(html, key=key)

    def _is_quiet(self, trigger: str) -> bool:
        """True for triggers the user did not start and need not see."""
        return trigger not in ("manual", EXCLUDED) and not self.notifies

    def _is_hidden(self, compaction: Compaction) -> bool:
        """Degraded compactions are shown: the summary was made without a model."""
        return self._is_quiet(compaction.trigger) and compaction.status != "degraded"


class ApprovalCards:
    """Cards of tool calls without a result, and the buttons on those that wait."""

    def __init__(self, items: Items) -> None:
        """Know no calls yet."""
        self._items = items
        self._waiting: Sequence[PendingCall] = ()
        self._open: dict[int, Entry] = {}
        self._questions: dict[int, PendingCall] = {}
        self._extra: set[int] = set()
        """Cards of calls that have no item of their own: a cell's."""

    def clear(self) -> None:
        """Forget the cards; the same calls still wait."""
        self._open.clear()
        self._questions.clear()
        self._extra.clear()

    def follow(self, key: int, entry: Entry) -> None:
        """Note a call that has an item, or the result that ends one."""
        if entry.is_call:
            self._open[key] = entry
        elif entry.role == "tool":
            named = [k for k, c in self._open.items() if c.tool_id == entry.tool_id]
            for answered in named[:1]:
                del self._open[answered]

    def wait_for(self, questions: Sequence[PendingCall]) -> list[Operation]:
        """Let these calls wait for a decision, and no other ones."""
        self._waiting = questions
        return self.show()

    def show(self) -> list[Operation]:
        """Operations after which the cards show what waits."""
        known = {question.ticket for question in self._questions.values()}
        tickets = {question.ticket for question in self._waiting}
        gone = [k for k, q in self._questions.items() if q.ticket not in tickets]
        new = [question for question in self._waiting if question.ticket not in known]
        closed = [operation for key in gone for operation in self._close(key)]
        return [*closed, *map(self._ask, new)]

    def state(self) -> list[dict[str, Any]]:
        """The calls that wait, with the keys of their cards."""
        return [
            {
                "ticket": question.ticket,
                "key": key,
                "tool": with_invisibles_escaped(question.call.tool_name),
            }
            for key, question in self._questions.items()
        ]

    def _ask(self, question: PendingCall) -> Operation:
        """Put the buttons on the call's card, or add one for a cell's call."""
        key = self._key_of(question.call)
        html = waiting_html(question.call, question.ticket)
        shown = self._items.add(html, key=key)
        if key is None:
            self._extra.add(shown)
        self._questions[shown] = question
        return {"op": "item", "key": shown, "html": html}

    def _key_of(self, call: Entry) -> int | None:
        """The card of this very call, or the oldest one of an equal call."""
        free = {k: c for k, c in self._open.items() if k not in self._questions}
        same = [key for key, other in free.items() if other is call]
        equal = [key for key, other in free.items() if other == call]
        return next(iter(same or equal), None)

    def _close(self, key: int) -> list[Operation]:
        question = self._questions.pop(key)
        if key in self._extra:
            self._extra.remove(key)
            return self._items.drop(key)
        return self._items.show(entry_html(question.call), key=key)


def _position_of(entry: Entry, position: int) -> int | None:
    """The index of a message that can be edited or excluded; None for others."""
    return position if entry.can_be_excluded else None


def _cost_text(turn: TurnCost, seconds: float | None = None) -> str:
    requests = f"{turn.requests:,} requests" if turn.requests > 1 else ""
    duration = "" if seconds is None else _duration(seconds)
    return usage_text(turn.usage, requests, duration)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{max(seconds, 0.1):.1f} s"
