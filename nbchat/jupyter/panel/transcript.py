"""The transcript as the panel shows it: items, banners, cards, the streaming answer.

A conversation of a thousand messages takes seconds to render. So earlier messages stay
entries until a view asks for their page.
"""

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from nbchat.agent.approvals import PendingCall
from nbchat.agent.running_turn import STOP_NOTES
from nbchat.chat.chat_events import RulesOffered
from nbchat.conversation.cell_changes import LeftCell
from nbchat.conversation.entries import EXCLUDED, Compaction, Entry
from nbchat.conversation.events import (
    EDIT,
    Branched,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProposed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
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
from nbchat.conversation.session import (
    Session,
    TurnCost,
    last_turn_cost,
    turn_costs,
    usage_text,
)
from nbchat.conversation.turns import ends_with_answer, has_unfinished_turn
from nbchat.errors import AuthenticationFailed, KeyWithheld, NbchatError
from nbchat.rendering.arguments import with_invisibles_escaped
from nbchat.rendering.banners import (
    cells_html,
    divider_html,
    failure_html,
    notice_html,
    proposal_html,
    stopped_html,
)
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import (
    MARKDOWN_START,
    TEXT_START,
    beginning_html,
    entry_html,
    note_html,
    notice_line_html,
    rules_html,
    usage_html,
    waiting_html,
)
from nbchat.rendering.markdown import markdown_html
from nbchat.rendering.plain_text import displayable

Operation = dict[str, Any]
"""Updates that bring a view up to date; described in the module `protocol`."""

PAGE_ITEMS = 20

PAGE_CHARACTERS = 100_000
"""Characters of HTML after which a page ends early: a browser takes 50 ms for them."""


class Items:
    """Items by key; keys only grow, so an older item has a smaller one."""

    def __init__(self) -> None:
        self._items: dict[int, str | Entry | Compaction] = {}
        self._positions: dict[int, int] = {}
        self._next_key = 0

    def add(
        self,
        item: str | Entry | Compaction,
        *,
        key: int | None = None,
        position: int | None = None,
    ) -> int:
        """Add an item, or replace the one with this key; return its key.

        `position` is the transcript index of a message that can be edited or excluded.
        """
        if key is None:
            key, self._next_key = self._next_key, self._next_key + 1
        self._items[key] = item
        if position is not None:
            self._positions[key] = position
        return key

    def show(
        self, html: str, *, key: int | None = None, position: int | None = None
    ) -> list[Operation]:
        """Add or replace an item of HTML; nothing when that is empty."""
        if not html:
            return []
        key = self.add(html, key=key, position=position)
        return [{"op": "item", **self._identity(key), "html": html}]

    def drop(self, key: int) -> list[Operation]:
        """Remove an item."""
        del self._items[key]
        return [{"op": "drop", "key": key}]

    def clear(self) -> None:
        """Remove all items; their keys are not used again."""
        self._items.clear()
        self._positions.clear()

    def page(self, before: int | None = None) -> dict[str, Any]:
        """The newest items before a key, oldest first, and the next page's `before`."""
        page: list[dict[str, Any]] = []
        size = 0
        for key in [key for key in self._items if before is None or key < before][::-1]:
            if len(page) == PAGE_ITEMS or size > PAGE_CHARACTERS:
                return {"items": page[::-1], "before": page[-1]["key"]}
            if html := self._html(key):
                page.append({**self._identity(key), "html": html})
                size += len(html)
        return {"items": page[::-1], "before": None}

    def _identity(self, key: int) -> dict[str, int]:
        position = self._positions.get(key)
        return {"key": key} if position is None else {"key": key, "position": position}

    def _html(self, key: int) -> str:
        item = self._items[key]
        if isinstance(item, Entry):
            item = self._items[key] = beginning_html(item)
        elif isinstance(item, Compaction):
            item = self._items[key] = divider_html(item)
        return item


class Banners:
    """Banners of compactions: a running one is replaced by its outcome.

    Without `notifies` automatic compactions have none, unless the summary is degraded.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self.keys: dict[str, int] = {}
        """The items that are banners, by the ids of their compactions."""
        self._records: dict[str, Compaction] = {}
        self.running: int | None = None
        """The item that says that a compaction runs, if one does."""
        self._proposed: int | None = None
        """The item that asks whether to compact, if one does."""
        self.notifies = True
        """True if automatic compactions have a banner."""

    def clear(self) -> None:
        """Forget everything."""
        self.keys.clear()
        self._records.clear()
        self.running = self._proposed = None

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
        if isinstance(event, CompactionProposed):
            return self._propose(event)
        dropped = self.drop_proposed() if isinstance(event, CompactionStarted) else []
        return [*dropped, *self._fold(event)]

    def _propose(self, event: CompactionProposed) -> list[Operation]:
        """Ask in a line whether to compact now."""
        shown = self._items.show(proposal_html(event))
        self._proposed = shown[0]["key"]
        return shown

    def _fold(self, event: Event) -> list[Operation]:
        match event:
            case CompactionStarted(trigger) if not self._is_quiet(trigger):
                shown = self._items.show(notice_html(event))
                self.running = shown[0]["key"]
                return shown
            case Compacted(compaction):
                return [*self.drop_proposed(), *self._add(compaction)]
            case CompactionUndone(compaction) | CompactionChanged(compaction):
                return self._change(compaction, notice_html(event))
            case CompactionSkipped(_, trigger) if self._is_quiet(trigger):
                return self.drop_running()
            case CompactionSkipped() | CompactionFailed():
                return self._end(notice_html(event))
        return []

    def _change(self, compaction: Compaction, notice: str) -> list[Operation]:
        """Show a change once: on the compaction's line, or below without one."""
        shown = self._redraw(compaction)
        has_line = compaction.id in self.keys
        return [*shown, *(self.drop_running() if has_line else self._end(notice))]

    def drop_proposed(self) -> list[Operation]:
        """Remove the line that asks whether to compact."""
        key, self._proposed = self._proposed, None
        return [] if key is None else self._items.drop(key)

    def drop_running(self) -> list[Operation]:
        """Remove the banner of a compaction that runs."""
        key, self.running = self.running, None
        return [] if key is None else self._items.drop(key)

    def _add(self, compaction: Compaction) -> list[Operation]:
        self._records[compaction.id] = compaction
        if self._is_hidden(compaction):
            return self.drop_running()
        key = self.keys.get(compaction.id, self.running)
        shown = self._items.show(divider_html(compaction), key=key)
        self.keys[compaction.id] = shown[0]["key"]
        self.running = None
        return shown

    def _redraw(self, compaction: Compaction) -> list[Operation]:
        """Show the compaction as it is now, unless its banner is hidden."""
        self._records[compaction.id] = compaction
        key = self.keys.get(compaction.id)
        if key is None and self._is_quiet(compaction.trigger):
            return []
        shown = self._items.show(divider_html(compaction), key=key)
        self.keys[compaction.id] = shown[0]["key"]
        return shown

    def _end(self, html: str) -> list[Operation]:
        key, self.running = self.running, None
        return self._items.show(html, key=key)

    def _is_quiet(self, trigger: str) -> bool:
        """True for triggers the user did not start and need not see."""
        return trigger not in ("manual", EXCLUDED, EDIT) and not self.notifies

    def _is_hidden(self, compaction: Compaction) -> bool:
        """Degraded compactions are shown: the summary was made without a model."""
        return self._is_quiet(compaction.trigger) and compaction.status != "degraded"


class RulesCard:
    """The card of rules from a file that wait for a yes, or why a file is not used."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._html = ""
        self._key: int | None = None

    def clear(self) -> None:
        """Forget the item; the same rules still wait."""
        self._key = None

    def offer(self, offered: RulesOffered) -> list[Operation]:
        """Show the rules that wait now in place of earlier ones."""
        gone = [] if self._key is None else self._items.drop(self._key)
        notice = notice_line_html(offered.problem) if offered.problem else ""
        self._html = rules_html(offered.rules) if offered.rules else notice
        self._key = None
        return [*gone, *self.show()]

    def show(self) -> list[Operation]:
        """Operations after which the card is shown below what was said."""
        shown = self._items.show(self._html) if self._key is None else []
        self._key = shown[0]["key"] if shown else self._key
        return shown


class ApprovalCards:
    """Cards of tool calls without a result, and the buttons on those that wait."""

    def __init__(self, items: Items) -> None:
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
        """Mark exactly these calls as waiting for a decision."""
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
        html = waiting_html(question.call, question.ticket, question.preview)
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


SHORTEST_CALL_SECONDS = 0.1
"""Shortest duration of a call that is shown."""

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
        """Number of entries of the session that are shown; the only index kept here."""
        self._has_cost = False
        """True if the newest turn has its line of costs."""
        self._cells: dict[int, int] = {}
        """Items that say what a turn changed in the notebook, by where it begins."""
        self.turn_began: float | None = None
        """Time of the clock; None while no turn runs."""
        self._failures: list[int] = []
        """Items that say why the newest message has no answer."""
        self._refusal: int | None = None
        """The item that says why the newest command was refused."""

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
                return self._finish(reason, session)
            case TurnFailed():
                return self._end_without_answer(_failure(event, session), session)
            case Branched() | ContentLeftOut() | PinsChanged() | SavingFailed():
                return self._items.show(notice_html(event))
        return self.banners.fold(event)

    def _finish(self, reason: StopReason, session: Session | None) -> list[Operation]:
        if reason == "stopped" and session is not None and _has_no_answer(session):
            return self._end_without_answer(stopped_html(), session)
        note = "" if reason == "stopped" else STOP_NOTES.get(reason)
        noted = self._items.show(note_html(note)) if note else []
        return [*self._end_turn(session), *noted]

    def _end_without_answer(
        self, html: str, session: Session | None
    ) -> list[Operation]:
        """Say why there is no answer, until there is one."""
        ended = [*self.drop_failures(), *self._end_turn(session)]
        notice = self._items.show(html)
        self._failures = [operation["key"] for operation in notice]
        return [*ended, *notice]

    def drop_failures(self) -> list[Operation]:
        """Remove outdated errors: a setting changed, or an answer came."""
        keys, self._failures = self._failures, []
        return [operation for key in keys for operation in self._items.drop(key)]

    def refuse(self, error: NbchatError, session: Session | None) -> list[Operation]:
        """Say in a line why a command or a message was refused.

        A turn that failed before keeps its buttons. A key that is missing or wrong can
        be replaced, as in a turn that failed.
        """
        if isinstance(error, AuthenticationFailed):
            return self.fold(TurnFailed(str(error), error), session)
        ended = [*self.drop_refusal(), *self._end_turn(session)]
        line = self._items.show(failure_html(str(error), is_refusal=True))
        self._refusal = line[0]["key"]
        return [*ended, *line]

    def drop_refusal(self) -> list[Operation]:
        """Remove the line about a refused command: another one runs."""
        key, self._refusal = self._refusal, None
        return [] if key is None else self._items.drop(key)

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
        self._failures, self._refusal = [], None
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


def _has_no_answer(session: Session) -> bool:
    """True if nothing was said after the newest message, not even a partial answer."""
    entries = session.transcript
    return has_unfinished_turn(entries) and not entries[-1].is_incomplete


def _failure(event: TurnFailed, session: Session | None) -> str:
    """Notice of a failed turn; text that had arrived may be continued."""
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
