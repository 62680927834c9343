"""The transcript as the panel shows it: messages, costs, and the streaming answer."""

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from nbchat.conversation.cell_undo import LeftCell
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import (
    Branched,
    ContentLeftOut,
    EntryAdded,
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
from nbchat.conversation.turn_costs import (
    TurnCost,
    last_turn_cost,
    turn_costs,
    usage_text,
)
from nbchat.conversation.turns import ends_with_answer, has_unfinished_turn
from nbchat.errors import AuthenticationFailed, KeyWithheld
from nbchat.jupyter.panel.view_model.transcript_items import (
    ApprovalCards,
    Banners,
    Items,
    Operation,
    RulesCard,
)
from nbchat.rendering.banners import cells_html, failure_html, notice_html
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import (
    MARKDOWN_START,
    TEXT_START,
    beginning_html,
    note_html,
    usage_html,
)
from nbchat.rendering.markdown import markdown_html
from nbchat.rendering.plain_text import displayable

STOP_NOTES: dict[StopReason, str] = {
    "max_tokens": "The answer was cut off at the model's output limit.",
    "max_steps": "Stopped at the limit of requests in one turn (max_steps).",
    "budget": "Stopped because the budget is used up.",
    "refusal": "The model refused to answer.",
}

SHORTEST_CALL_SECONDS = 0.1
"""A call that ran less long does not say how long."""

# A blank line ends a block, unless a list, quote or indented part continues after it.
_BLOCK_END = re.compile(r"(?<!\n)\n{2,}+(?=\S)(?![-*+>|]|\d+(?:[.)]|\Z))")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


class TranscriptView:
    """The items of one session, and the answer that streams in below them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._items = Items()
        self._live = LiveText()
        self.banners = Banners(self._items)
        self.approvals = ApprovalCards(self._items)
        self.rules = RulesCard(self._items)
        self._session: Session | None = None
        self._shown = 0
        """How many entries of the session are shown; the one index kept here."""
        self._has_cost = False
        """Whether the newest turn has its line of costs."""
        self._cells: dict[int, int] = {}
        """Items that say what a turn changed in the notebook, by where it begins."""
        self.turn_began: float | None = None
        """Time of the clock; None while no turn runs."""
        self._failures: list[int] = []
        """Items that say why the newest message has no answer."""

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
                ended = [*self.drop_failures(), *self._end_turn(session)]
                html = _failure(event, session)
                notice = self._items.show(html)
                self._failures = [operation["key"] for operation in notice]
                return [*ended, *notice]
            case Branched() | ContentLeftOut() | PinsChanged() | SavingFailed():
                return self._items.show(notice_html(event))
        return self.banners.fold(event)

    def drop_failures(self) -> list[Operation]:
        """Remove errors that no longer hold: a setting changed, or an answer came."""
        keys, self._failures = self._failures, []
        return [operation for key in keys for operation in self._items.drop(key)]

    def note(self, html: str) -> list[Operation]:
        """Show the answer of a command."""
        return self._items.show(html)

    def restore(self, session: Session) -> list[Operation]:
        """Show a session instead of the one before, or what is new in the same one.

        So a refresh does not scroll a reader away.
        """
        if session is self._session:
            return self._grow(session)
        self._session, self._shown, self._has_cost = session, 0, False
        self._failures = []
        self._cells.clear()
        for part in (self._items, self.banners, self.approvals, self.rules):
            part.clear()
        self._fill(session)
        shown = {"op": "restart", **self._items.page()}
        return [shown, *self.approvals.show(), *self.rules.show()]

    def add_entry(self, event: EntryAdded, session: Session | None) -> list[Operation]:
        """Replace what streamed of an entry by the finished entry."""
        position, entry = event.position, event.entry
        is_current = session is not None and session is self._session
        added, dropped = [], []
        if position >= self._shown or not is_current:
            self._has_cost = self._has_cost and entry.role != "user"
            if entry.is_of_user:
                self._failures = []  # they stay, above the next message
            dropped = self.drop_failures()
            added = self._show_entry(entry, position, _call_duration(event.seconds))
        self._shown = max(self._shown, position + 1) if is_current else 0
        return [*dropped, *self._live.finish(entry.role, added)]

    def show_cost(self, session: Session) -> list[Operation]:
        """Show the costs of the newest turn once its answer is complete."""
        return self._show_cost(session) if ends_with_answer(session.transcript) else []

    def show_cells(
        self,
        session: Session,
        turn: int,
        left: Sequence[LeftCell] = (),
        problem: str = "",
    ) -> list[Operation]:
        """Say what a turn changed in the notebook, so that it can be undone."""
        html = cells_html(turn, session.cell_changes.of_turn(turn), left, problem)
        shown = self._items.show(html, key=self._cells.get(turn))
        for item in shown:
            self._cells[turn] = item["key"]
        return shown

    def _fill(self, session: Session) -> None:
        """Add a whole session; its HTML is made when a view asks for it."""
        costs = self._ended_turns(session)
        for position, part in timeline(session):
            if isinstance(part, Compaction):
                self.banners.restore(part)
                continue
            key = self._items.add(part, position=_position_of(part, position))
            self.approvals.follow(key, part)
            if position in costs:
                self._items.add(usage_html(_cost_text(costs[position])))
                self.show_cells(session, costs[position].start)
        self._shown = len(session.transcript)

    def _grow(self, session: Session) -> list[Operation]:
        """Add what a session gained elsewhere: turns of cells, changed summaries."""
        costs = self._ended_turns(session)
        shown: list[Operation] = []
        for position, part in timeline(session):
            if isinstance(part, Compaction):
                shown += self.banners.update(part)
            elif position >= self._shown:
                shown += self._show_entry(part, position)
                if position in costs:
                    text = _cost_text(costs[position])
                    shown += self._items.show(usage_html(text))
                    shown += self.show_cells(session, costs[position].start)
        self._shown = len(session.transcript)
        return shown

    def _show_entry(
        self, entry: Entry, position: int, duration: str = ""
    ) -> list[Operation]:
        position_shown = _position_of(entry, position)
        html = beginning_html(entry, duration=duration)
        shown = self._items.show(html, position=position_shown)
        if entry.role in ("assistant", "tool"):
            for item in shown:
                self.approvals.follow(item["key"], entry)
        return shown

    def _ended_turns(self, session: Session) -> dict[int, TurnCost]:
        """Turns with new entries, by the index of each turn's last entry.

        A turn that still runs gets its line when it ends.
        """
        is_answered = ends_with_answer(session.transcript)
        is_running = self.turn_began is not None and self._shown > 0 and not is_answered
        end = len(session.transcript)
        lines, has_cost = dict[int, TurnCost](), False
        for turn in turn_costs(session):
            has_cost = turn.start < self._shown and self._has_cost
            is_new = turn.stop > self._shown and not has_cost
            if is_new and turn.requests and not (is_running and turn.stop == end):
                lines[turn.stop - 1] = turn
                has_cost = True
        self._has_cost = has_cost
        return lines

    def _show_cost(self, session: Session) -> list[Operation]:
        turn = None if self._has_cost else last_turn_cost(session)
        if turn is None or not turn.requests:
            return []
        self._has_cost = True
        seconds = None if self.turn_began is None else self._clock() - self.turn_began
        cost = self._items.show(usage_html(_cost_text(turn, seconds)))
        gone = self._cells.pop(turn.start, None)  # it was answered again
        dropped = [] if gone is None else self._items.drop(gone)
        return [*cost, *dropped, *self.show_cells(session, turn.start)]

    def _end_turn(self, session: Session | None) -> list[Operation]:
        """Drop what did not finish, and show the costs unless they are shown."""
        ended = self._live.stop()
        if self.banners.running is not None:
            ended += self.banners.drop_running()
        costs = self._show_cost(session) if session else []
        self.turn_began = None
        return [*ended, *costs]


class LiveText:
    """Answer and thinking that stream in: finished blocks as HTML, the rest as text.

    Nothing is sent twice: the item of the finished entry reuses what was streamed.
    """

    def __init__(self) -> None:
        self._streams: dict[str, dict[str, str]] = {}

    def snapshot(self) -> dict[str, dict[str, str]]:
        """All streams, for a view that opens later."""
        return {kind: dict(stream) for kind, stream in self._streams.items()}

    def write(self, text: str) -> list[Operation]:
        """Add to the answer; finished blocks become HTML while more arrives."""
        appended = self.append("assistant", text)
        live = self._streams["assistant"]
        cut = _block_end(live["text"]) if "\n" in live["text"][-len(text) - 3 :] else 0
        if not cut:
            return appended
        html, rest = markdown_html(live["text"][:cut]), live["text"][cut:]
        self._streams["assistant"] = {"html": live["html"] + html, "text": rest}
        return [{"op": "block", "kind": "assistant", "html": html, "text": rest}]

    def append(self, kind: str, text: str) -> list[Operation]:
        """Add text to a stream as it is."""
        shown = displayable(text)
        live = self._streams.setdefault(kind, {"html": "", "text": ""})
        live["text"] += shown
        return [{"op": "text", "kind": kind, "text": shown}]

    def finish(self, kind: str, added: list[Operation]) -> list[Operation]:
        """End a stream; the items of its entry omit what a view has already."""
        if kind not in self._streams:
            return added
        reused = [self._reusing(item, kind) for item in added]
        del self._streams[kind]
        return [*reused, {"op": "settle", "kind": kind}]

    def stop(self) -> list[Operation]:
        """End all streams."""
        return [op for kind in list(self._streams) for op in self.finish(kind, [])]

    def _reusing(self, item: Operation, kind: str) -> Operation:
        """The item without its streamed beginning, if it does begin with that.

        It may not: a block can refer to a link that is defined further down.
        """
        live = self._streams[kind]
        streamed, mark = live["html"], MARKDOWN_START
        if kind == "thinking":
            streamed, mark = escape(live["text"]), TEXT_START
        start, begins, rest = item["html"].partition(mark)
        if not (streamed and begins and rest.startswith(streamed)):
            return item
        html = f"{start}{begins}{rest[len(streamed) :]}"
        return {**item, "html": html, "streamed": kind}


def _position_of(entry: Entry, position: int) -> int | None:
    """The index of a message that can be edited or excluded; None for others."""
    return position if entry.can_be_excluded and not entry.is_by_nbchat else None


def _cost_text(turn: TurnCost, seconds: float | None = None) -> str:
    requests = f"{turn.requests:,} requests" if turn.requests > 1 else ""
    duration = "" if seconds is None else _duration(seconds)
    return usage_text(turn.usage, requests, duration, *turn.cache_losses)


def _call_duration(seconds: float | None) -> str:
    """How long a call ran; empty if that was short, or is not known."""
    is_long = seconds is not None and seconds >= SHORTEST_CALL_SECONDS
    return _duration(seconds) if is_long and seconds else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{max(seconds, 0.1):.1f} s"


def _block_end(text: str) -> int:
    """Index at which the last finished block of Markdown ends; 0 without one."""
    fences = [found.start() for found in _FENCE.finditer(text)]
    end = 0
    for found in _BLOCK_END.finditer(text):
        is_in_code = bisect_left(fences, found.end()) % 2 == 1
        end = end if is_in_code else found.end()
    return end


def _failure(event: TurnFailed, session: Session | None) -> str:
    """Why a turn failed; its text may be continued, if some had arrived."""
    refused = event.error if isinstance(event.error, AuthenticationFailed) else None
    can_retry = session is not None and has_unfinished_turn(session.transcript)
    can_continue = (
        session is not None and can_retry and session.transcript[-1].is_incomplete
    )
    return failure_html(
        event.message,
        can_retry=can_retry,
        can_continue=can_continue,
        key_of=refused.kind if refused else "",
        server=refused.server if isinstance(refused, KeyWithheld) else "",
    )
