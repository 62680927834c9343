"""What the panel shows, as JSON values: a fold over everything that happens.

The screen is kept in the kernel, so that a view which comes later, or lost a message,
gets all of it at once. `fold` answers with the operations that bring a view up to date;
`protocol.json` describes them.
"""

import time
from collections.abc import Callable
from typing import Any, assert_never

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import PendingCall
from nbchat.chat.runner import (
    AgentReady,
    ApprovalsPending,
    CommandReplied,
    Idle,
    MessagesReturned,
    QueueChanged,
    RunnerEvent,
    Stopping,
    TurnStarted,
)
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import (
    Branched,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    Delta,
    EntryAdded,
    Event,
    PinsChanged,
    RetryScheduled,
    SavingFailed,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolRequested,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session
from nbchat.conversation.turns import ends_with_answer
from nbchat.jupyter.panel.view_model.asking import WaitingCards
from nbchat.jupyter.panel.view_model.banners import Banners
from nbchat.jupyter.panel.view_model.costs import Costs, session_text
from nbchat.jupyter.panel.view_model.figures import figures, meter
from nbchat.jupyter.panel.view_model.live import Live
from nbchat.jupyter.panel.view_model.marks import marks
from nbchat.jupyter.panel.view_model.transcript import Operation, Transcript
from nbchat.rendering.banners import notice_html, progress_text
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import entry_html, note_html
from nbchat.rendering.markdown import displayable

STOP_NOTES: dict[StopReason, str] = {
    "max_tokens": "The answer was cut at the model's output limit.",
    "max_steps": "Stopped here: the turn took as many steps as it may.",
    "refusal": "The model declined to answer.",
}


OFFERS = ("settings", "sessions", "branches")
"""What a panel may have or lack, as whoever made it wants."""


class Screen:
    """The items of the transcript, the answer being written, and the panel's state."""

    def __init__(
        self,
        *,
        chat_id: str = "",
        clock: Callable[[], float] = time.monotonic,
        **offers: bool,
    ) -> None:
        """An empty panel whose agent is still to come; `offers` are of `OFFERS`."""
        self._clock = clock
        self._retry_at = 0.0
        self._items = Transcript()
        self._cards = WaitingCards(self._items)
        self._pending: tuple[PendingCall, ...] = ()
        self._live = Live()
        self._banners = Banners(self._items)
        self._costs = Costs(self._items)
        self._state: dict[str, Any] = {
            "phase": "starting",
            "model": "",
            "is_busy": False,
            "activity": "",
            "queue": [],
            "retry": None,
            "meter": {"tokens": 0, "threshold": None, "context": 0, "window": None},
            "policy": "",
            "policies": list(PRESETS),
            "spent": "",
            "summary": None,
            "notifies": True,
            "pins": [],
            "left_out": [],
            "changes": dict.fromkeys(("undo", "rewrite", "redo")),
            "waiting": [],
            "chat_id": chat_id,
            **{f"has_{name}": offers.get(name, False) for name in OFFERS},
        }
        self._agent: Agent | None = None
        self._session: Session | None = None
        self._said = self._records = 0

    def snapshot(self) -> dict[str, Any]:
        """Everything a view needs to begin."""
        return {
            **self._items.page(),
            "live": self._live.snapshot(),
            "state": {**self._state, "retry": self._retry_left()},
        }

    def fold(self, event: Event | RunnerEvent) -> list[Operation]:
        """Take an event in; the operations that show it."""
        match event:
            case TextDelta() | ThinkingDelta() | RetryScheduled():
                shown = self._fold_delta(event)
            case EntryAdded(position, entry):
                shown = self._add_entry(entry, position)
            case ToolRequested(call):
                shown = self._set(activity=f"Running {displayable(call.tool_name)}")
            case UsageReported():
                shown = self._fold_usage(event)
            case TurnFinished() | TurnFailed():
                shown = self._fold_end(event)
            case Branched() | PinsChanged() | SavingFailed():
                told = self._items.show(notice_html(event))
                shown = [*told, *self._measure_agent()]
            case (
                CompactionStarted()
                | CompactionProgress()
                | Compacted()
                | CompactionUndone()
                | CompactionChanged()
                | CompactionSkipped()
                | CompactionFailed()
            ):
                shown = self._fold_compaction(event)
            case _:
                shown = self._fold_runner_event(event)
        return shown

    def _retry_left(self) -> dict[str, Any] | None:
        """The retry that is waited for, with the seconds that are left."""
        retry: dict[str, Any] | None = self._state["retry"]
        left = max(0.0, self._retry_at - self._clock())
        return retry and {**retry, "seconds": left}

    def page(self, before: int) -> dict[str, Any]:
        """Items that are older than a view's, and the key to go on before."""
        return self._items.page(before)

    def set_notifies(self, *, notifies: bool) -> list[Operation]:
        """From now on automatic compactions have a banner, or have none."""
        self._banners.notifies = notifies
        return self._set(notifies=notifies)

    def _fold_delta(self, event: Delta) -> list[Operation]:
        match event:
            case TextDelta(text):
                shown = self._live.write(text)
                return [*self._set(activity="Writing", retry=None), *shown]
            case ThinkingDelta(text):
                shown = self._live.think(text)
                return [*self._set(activity="Thinking", retry=None), *shown]
            case RetryScheduled(attempt, wait_seconds, reason):
                self._retry_at = self._clock() + wait_seconds
                retry = {
                    "attempt": attempt,
                    "seconds": wait_seconds,
                    "reason": displayable(reason),
                }
                return self._set(activity="Waiting", retry=retry)
            case _:
                assert_never(event)

    def _fold_end(self, event: TurnFinished | TurnFailed) -> list[Operation]:
        match event:
            case TurnFinished(reason):
                note = STOP_NOTES.get(reason)
                noted = self._items.show(note_html(note)) if note else []
            case TurnFailed():
                phase = "ready" if self._agent else "failed"
                told = self._items.show(notice_html(event))
                noted = [*told, *self._set(phase=phase)]
            case _:
                assert_never(event)
        settled = [*self._settle_all(), *self._tell_cost()]
        self._costs.end()
        return [*settled, *noted, *self._set(retry=None)]

    def _fold_runner_event(self, event: RunnerEvent) -> list[Operation]:
        match event:
            case AgentReady(agent):
                shown = self._restore(agent)
            case QueueChanged(waiting):
                queue = [displayable(text) for text in waiting]
                shown = self._set(queue=queue, **({"is_busy": True} if queue else {}))
            case CommandReplied(text):
                shown = self._items.show(note_html(text))
            case MessagesReturned(texts, position):
                draft = {"op": "draft", "text": displayable("\n\n".join(texts))}
                shown = [draft if position is None else {**draft, "place": position}]
            case ApprovalsPending(pending):
                self._pending = pending
                shown = self._ask()
            case TurnStarted() | Stopping() | Idle():
                shown = self._fold_course(event)
            case _:
                assert_never(event)
        return shown

    def _fold_course(self, event: TurnStarted | Stopping | Idle) -> list[Operation]:
        match event:
            case TurnStarted():
                self._costs.begin()
                return self._set(is_busy=True, activity="Waiting for the model")
            case Stopping():
                return self._set(activity="Stopping")
            case Idle():
                self._costs.end()
                idle = self._set(is_busy=False, activity="", retry=None)
                return [*self._measure_agent(), *idle]
            case _:
                assert_never(event)

    def _restore(self, agent: Agent) -> list[Operation]:
        """Show the agent's session instead of whatever was shown before.

        Of one that only grew elsewhere what is new is added, so that nobody who reads
        loses the place.
        """
        self._agent = agent
        is_shown = agent.session is self._session
        shown = self._grow(agent.session) if is_shown else self._restart(agent.session)
        return [*shown, *self._set(phase="ready"), *self._measure_agent()]

    def _restart(self, session: Session) -> list[Operation]:
        """Items whose HTML is made when a view comes to them."""
        self._items.clear()
        self._cards.clear()
        self._banners.clear()
        self._costs.restart()
        lines = self._costs.lines(session)
        for place, part in timeline(session):
            if isinstance(part, Compaction):
                self._banners.restore(part)
                continue
            key = self._items.add(part, place=_named_place(part, place))
            self._cards.see(key, part)
            if place in lines:
                self._items.add(lines[place])
        self._know(session)
        return [{"op": "restart", **self._items.page()}, *self._ask()]

    def _grow(self, session: Session) -> list[Operation]:
        """What a session has that was not shown: turns of cells, changed summaries."""
        lines = self._costs.lines(session, shown=self._said)
        changed = {record.id for record in session.compactions[self._records :]}
        shown: list[Operation] = []
        for place, part in timeline(session):
            if isinstance(part, Compaction):
                shown += self._banners.add(part) if part.id in changed else []
            elif place >= self._said:
                shown += self._show_entry(part, place)
                shown += self._items.show(lines.get(place, ""))
        self._know(session)
        return shown

    def _show_entry(self, entry: Entry, place: int) -> list[Operation]:
        shown = self._items.show(entry_html(entry), place=_named_place(entry, place))
        for each in shown:
            self._cards.see(each["key"], entry)
        return shown

    def _know(self, session: Session) -> None:
        """All of a session is shown."""
        self._session = session
        self._said, self._records = len(session.transcript), len(session.compactions)

    def _ask(self) -> list[Operation]:
        """Show which calls wait for a person's word now."""
        cards = self._cards.show(self._pending)
        return [*cards, *self._set(waiting=self._cards.state())]

    def _add_entry(self, entry: Entry, position: int) -> list[Operation]:
        """A finished entry takes the place of what was streamed of it."""
        is_shown = position < self._said and self._is_current
        added = [] if is_shown else self._show_entry(entry, position)
        self._said = max(self._said, position + 1) if self._is_current else 0
        shown = [self._live.taken_over(each, entry.role) for each in added]
        settled = self._live.settle(entry.role)
        activity = "Waiting for the model" if entry.role in ("user", "tool") else ""
        return [*shown, *settled, *self._set(retry=None, activity=activity)]

    @property
    def _is_current(self) -> bool:
        """Whether the session shown is the one the agent is in."""
        return self._agent is not None and self._agent.session is self._session

    def _fold_usage(self, event: UsageReported) -> list[Operation]:
        """What a response took; when nothing is called any more the answer is there."""
        measured = self._set(meter=meter(event))
        if self._agent is None:
            return measured
        session = self._agent.session
        told = self._tell_cost() if ends_with_answer(session.transcript) else []
        return [*told, *measured, *self._set(spent=session_text(session))]

    def _tell_cost(self) -> list[Operation]:
        return self._costs.tell(self._agent.session) if self._agent else []

    def _settle_all(self) -> list[Operation]:
        """End what never came to its end."""
        return [*self._live.settle_all(), *self._banners.drop_running()]

    def _fold_compaction(
        self,
        event: CompactionStarted
        | CompactionProgress
        | Compacted
        | CompactionUndone
        | CompactionChanged
        | CompactionSkipped
        | CompactionFailed,
    ) -> list[Operation]:
        match event:
            case CompactionStarted():
                begun = self._set(activity="Compacting", retry=None)
                return [*self._banners.begin(event), *begun]
            case CompactionProgress():
                activity = f"Compacting, {progress_text(event)}"
                return self._set(activity=activity, retry=None)
            case Compacted(compaction):
                shown = self._banners.add(compaction)
            case CompactionUndone() | CompactionChanged():
                shown = self._banners.change(event)
            case CompactionSkipped() | CompactionFailed():
                shown = self._banners.end(event)
            case _:
                assert_never(event)
        if self._agent is not None and self._is_current:
            self._records = len(self._agent.session.compactions)
        return [*shown, *self._measure_agent(), *self._set(activity="", retry=None)]

    def _measure_agent(self) -> list[Operation]:
        """Model, policy, summary and meter as they are now; commands change them."""
        if self._agent is None:
            return []
        known = {**figures(self._agent), **marks(self._agent, self._banners.keys)}
        return self._set(**known)

    def _set(self, **changes: Any) -> list[Operation]:
        news = {
            name: value for name, value in changes.items() if self._state[name] != value
        }
        self._state.update(news)
        return [{"op": "state", "state": news}] if news else []


def _named_place(entry: Entry, place: int) -> int | None:
    """The place of what can be gone back to, or be left out; of all else none."""
    return place if entry.can_be_excluded else None
