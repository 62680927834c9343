"""State of the panel, kept in the kernel as JSON values and sent to its views.

A view that opens later, or lost a message, gets all of it at once. `fold` returns the
operations that bring an open view up to date; the module `protocol` describes them.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, assert_never

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import (
    AgentReady,
    ApprovalsPending,
    CellsUndone,
    CommandReplied,
    Idle,
    MessagesReturned,
    QueueChanged,
    Refused,
    RulesOffered,
    RunnerEvent,
    SessionLoaded,
    Stopping,
    TurnStarted,
    Working,
)
from nbchat.compaction.policies import ABOUT, PRESETS
from nbchat.conversation.entries import Compaction
from nbchat.conversation.events import (
    Branched,
    CompactionProgress,
    CompactionProposed,
    CompactionStarted,
    ContentLeftOut,
    EntryAdded,
    Event,
    PinsChanged,
    RequestQueued,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    ThinkingDelta,
    ToolRequested,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session, compactions_usage, usage_text
from nbchat.conversation.turns import count_messages
from nbchat.jupyter.panel.transcript import Operation, TranscriptView
from nbchat.providers.connect import EMBEDDED_MODEL, problem_of
from nbchat.rendering.banners import progress_text
from nbchat.rendering.entries import listing_html, note_html, summary_html
from nbchat.rendering.plain_text import displayable

logger = logging.getLogger(__name__)

SHORTEST_SECONDS = 0.034
LONGEST_SECONDS = 0.1
GROWTH = 1.2
"""Factor by which the pause between batches grows: half a second to the longest."""

Send = Callable[[dict[str, Any]], None]

NOTHING_MEASURED = {
    "tokens": 0,
    "threshold": None,
    "context": 0,
    "window": None,
    "guard": None,
}

NO_BANNERS = dict.fromkeys(("undo", "edit", "redo"))


class PanelState:
    """The transcript, the header, the status line and what can be changed now."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, **lasting: Any
    ) -> None:
        """Start empty; the agent comes with `AgentReady`.

        `lasting` are parts of the state that don't change, such as `chat_id`.
        """
        self._clock = clock
        self._retry_at = 0.0
        self._transcript = TranscriptView(clock)
        self._agent: Agent | None = None
        self._measured: tuple[object, ...] = ()
        """Inputs of the last header, which is made again only if they change."""
        self._summarized: tuple[Compaction | None, dict[str, Any] | None] = (None, None)
        """The newest compaction, and its summary as views show it."""
        self._state: dict[str, Any] = {**_starting_state(), **lasting}

    def snapshot(self) -> dict[str, Any]:
        """Everything a new view needs."""
        retry: dict[str, Any] | None = self._state["retry"]
        left = max(0.0, self._retry_at - self._clock())
        state = {**self._state, "retry": retry and {**retry, "seconds": left}}
        return {**self._transcript.snapshot(), "state": state}

    def page(self, before: int) -> dict[str, Any]:
        """Earlier items, before the key of a view's oldest one."""
        return self._transcript.page(before)

    def set_notifies(self, *, notifies: bool) -> list[Operation]:
        """Show or hide the banners of automatic compactions from now on."""
        self._transcript.banners.notifies = notifies
        return []

    def fold(self, event: Event | RunnerEvent) -> list[Operation]:
        """Apply an event; the operations that show it."""
        match event:
            case TextDelta() | ThinkingDelta():
                operations = self._fold_delta(event)
            case EntryAdded():
                operations = self._fold_entry(event)
            case UsageReported():
                operations = self._fold_usage(event)
            case ToolRequested() | RetryScheduled() | CompactionProgress():
                operations = self._fold_progress(event)
            case TurnFinished() | TurnFailed():
                operations = self._fold_end(event)
            case RequestQueued():  # only in runs of many agents
                operations = []
            case _ if isinstance(event, Event):
                operations = self._fold_context_change(event)
            case _:
                operations = self._fold_runner_event(event)
        return operations

    @property
    def _session(self) -> Session | None:
        return self._agent.session if self._agent else None

    def _fold_delta(self, event: TextDelta | ThinkingDelta) -> list[Operation]:
        shown = self._transcript.fold(event, None)
        activity = "Writing" if isinstance(event, TextDelta) else "Thinking"
        return [*shown, *self.set(activity=activity, retry=None)]

    def _fold_entry(self, event: EntryAdded) -> list[Operation]:
        shown = self._transcript.add_entry(event, self._session)
        is_model_next = event.entry.role in ("user", "tool")
        activity = "Waiting for the model" if is_model_next else ""
        return [*shown, *self.set(activity=activity, retry=None)]

    def _fold_end(self, event: TurnFinished | TurnFailed) -> list[Operation]:
        shown = self._transcript.fold(event, self._session)
        has_no_agent = isinstance(event, TurnFailed) and self._agent is None
        phase = {"phase": "failed"} if has_no_agent else {}
        return [*shown, *self.set(retry=None, **phase)]

    def _fold_usage(self, event: UsageReported) -> list[Operation]:
        """Update the header, and show the costs of a turn that is answered."""
        if session := self._session:
            return [*self._transcript.show_cost(session), *self._measure()]
        meter = {
            **NOTHING_MEASURED,
            "tokens": event.input_tokens,
            "threshold": event.threshold,
            "context": event.context_tokens,
            "window": event.window,
        }
        return self.set(meter=meter)

    def _fold_progress(
        self, event: ToolRequested | RetryScheduled | CompactionProgress
    ) -> list[Operation]:
        match event:
            case ToolRequested(call):
                return self.set(activity=f"Running {displayable(call.tool_name)}")
            case CompactionProgress():
                activity = f"Compacting, {progress_text(event)}"
                return self.set(activity=activity, retry=None)
            case RetryScheduled(attempt, wait_seconds, reason):
                self._retry_at = self._clock() + wait_seconds
                retry = {
                    "attempt": attempt,
                    "seconds": wait_seconds,
                    "reason": displayable(reason),
                }
                return self.set(activity="Waiting", retry=retry)

    def _fold_context_change(self, event: Event) -> list[Operation]:
        """Show a change of the context; what it leads to is measured again."""
        shown = self._transcript.fold(event, None)
        match event:
            case CompactionStarted():
                return [*shown, *self.set(activity="Compacting", retry=None)]
            case (
                CompactionProposed()
                | Branched()
                | ContentLeftOut()
                | PinsChanged()
                | SavingFailed()
            ):
                return [*shown, *self._measure()]
        return [*shown, *self._measure(activity="", retry=None)]

    def _fold_runner_event(self, event: RunnerEvent) -> list[Operation]:
        match event:
            case AgentReady(agent):
                self._agent = agent
                shown = self._transcript.restore(agent.session)
                operations = [*shown, *self._set_waiting()]
                operations += self._measure(phase="ready")
            case SessionLoaded(session):
                operations = self._transcript.restore(session)
            case CommandReplied() | Refused():
                operations = self._fold_reply(event)
            case MessagesReturned(texts, position):
                text = displayable("\n\n".join(texts))
                at = {} if position is None else {"position": position}
                operations = [{"op": "draft", "text": text, **at}]
            case ApprovalsPending(pending):
                cards = self._transcript.approvals.wait_for(pending)
                operations = [*cards, *self._set_waiting()]
            case RulesOffered() | CellsUndone():
                operations = self._fold_card(event)
            case QueueChanged() | TurnStarted() | Stopping() | Working() | Idle():
                operations = self._fold_activity(event)
            case _:
                assert_never(event)
        return operations

    def _fold_reply(self, event: CommandReplied | Refused) -> list[Operation]:
        if isinstance(event, Refused):
            return self._transcript.refuse(event.error, self._session)
        table = event.columns and listing_html(event.columns, event.rows)
        return self._transcript.note(table or note_html(event.text))

    def _fold_card(self, event: RulesOffered | CellsUndone) -> list[Operation]:
        if isinstance(event, RulesOffered):
            return self._transcript.rules.offer(event)
        if (session := self._session) is None:
            return []
        found = (session, event.turn, event.left, event.problem)
        return self._transcript.show_cells(*found)

    def _fold_activity(
        self, event: QueueChanged | TurnStarted | Stopping | Working | Idle
    ) -> list[Operation]:
        match event:
            case QueueChanged(waiting):
                queue = list(map(displayable, waiting))
                return self.set(queue=queue, **({"is_busy": True} if queue else {}))
            case TurnStarted():
                self._transcript.turn_began = self._clock()
                begun = self.set(is_busy=True, activity="Waiting for the model")
                return [*self._transcript.drop_refusal(), *begun]
            case Stopping():
                return self.set(activity="Stopping")
            case Working(activity):
                return self.set(activity=displayable(activity))
            case Idle():
                self._transcript.turn_began = None
                return self._measure(is_busy=False, activity="", retry=None)

    def _set_waiting(self) -> list[Operation]:
        return self.set(waiting=self._transcript.approvals.state())

    def _measure(self, **changes: Any) -> list[Operation]:
        """Read what turns, commands and compactions change: the header and buttons."""
        if self._agent is None:
            return self.set(**changes)
        provider, session = self._agent.provider, self._agent.session
        tracker = self._agent.engine.tracker
        sizes = (len(session.transcript), len(session.usages), len(session.compactions))
        problem = problem_of(provider)
        names = (session, provider, problem, session.pins)
        measured = (*names, tracker.limits, tracker.fixed_tokens, *sizes)
        if measured == self._measured:
            return self.set(**changes)
        is_new = self._measured[1:3] != measured[1:3]
        dropped = self._transcript.drop_failures() if is_new else []
        self._measured = measured
        meter = {
            "tokens": tracker.input_tokens,
            "threshold": tracker.due_at(session),
            "context": tracker.context_tokens(session),
            "window": tracker.info.window,
            "guard": tracker.limits.guard if tracker.policy.meter != "off" else None,
        }
        state = self.set(
            **changes,
            model=displayable(provider.name),
            problem=displayable(problem),
            is_trial=provider.name == EMBEDDED_MODEL,
            policy=displayable(tracker.policy.name),
            meter=meter,
            spent=_spent(session),
            pins=list(map(displayable, session.pins)),
            **self._measure_compactions(self._agent),
        )
        return [*dropped, *state]

    def _measure_compactions(self, agent: Agent) -> dict[str, Any]:
        """The summary, what is excluded, and the banners that have buttons."""
        session = agent.session
        if not session.compactions:
            return {"summary": None, "excluded": [], "changes": NO_BANNERS}
        current, keys = session.compaction, self._transcript.banners.keys
        records = {
            "undo": agent.engine.undo(session),
            "edit": current,
            "redo": agent.engine.redo(session),
        }
        changes = {name: r and keys.get(r.id) for name, r in records.items()}
        excluded = sorted(session.excluded)
        if current is not self._summarized[0]:
            self._summarized = current, _summary(session, current)
        summary = self._summarized[1]
        return {"summary": summary, "excluded": excluded, "changes": changes}

    def set(self, **changes: Any) -> list[Operation]:
        """Change parts of the state."""
        news = {
            name: value for name, value in changes.items() if self._state[name] != value
        }
        self._state.update(news)
        return [{"op": "state", "state": news}] if news else []


def _starting_state() -> dict[str, Any]:
    """State of the panel before there is an agent."""
    return {
        "phase": "starting",
        "model": "",
        "is_busy": False,
        "activity": "",
        "queue": [],
        "retry": None,
        "meter": NOTHING_MEASURED,
        "policy": "",
        "spent": "",
        "summary": None,
        "pins": [],
        "excluded": [],
        "changes": NO_BANNERS,
        "waiting": [],
        "problem": "",
        "is_trial": False,
        "offers_cells": None,
        "allowed": "ask",
        "policies": [{"name": n, "about": ABOUT[n]} for n in PRESETS],
        "chat_id": "",
    }


def _summary(session: Session, record: Compaction | None) -> dict[str, Any] | None:
    """The summary that the model sees, and how many messages it replaces."""
    if record is None:
        return None
    messages = count_messages(session.transcript[: record.stop])
    return {"messages": messages, "html": summary_html(record.summary)}


def _spent(session: Session) -> str:
    """Usage, and the part for compactions; empty before the first answer."""
    usage = session.usage
    text = usage_text(usage) if usage.total_tokens else ""
    if not (text and session.compactions):
        return text
    paid = compactions_usage(session)
    cost = paid.dollars_text or f"{paid.total_tokens:,} tokens"
    return f"{text}, including {cost} for compactions" if paid.total_tokens else text


class ViewSync:
    """Sends operations to all views from its own thread: at most 30 batches a second.

    The Jupyter server drops messages above 1,000 a second, and a view that lost one
    would show half an answer. So operations are batched and numbered, and a view that
    misses a batch asks for a snapshot. The first batch is sent at once; a long stream
    goes in fewer batches, for Jupyter adds 600 bytes to each.
    """

    def __init__(self, state: PanelState, send: Send) -> None:
        """Read `state` under the same lock as every change."""
        self._state = state
        self._send = send
        self._changed = threading.Condition()
        self._pending: list[Operation] = []
        self._pages_asked: list[tuple[str, int]] = []
        self._sequence = 0
        self._context = copy_context()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def change(
        self, step: Callable[..., list[Operation]], *arguments: Any, **options: Any
    ) -> None:
        """Change the state, and every view soon after."""
        with self._changed:
            for operation in step(*arguments, **options):
                self._append(operation)
            self._wake()

    def show_earlier(self, token: str, before: int) -> None:
        """Send a view, soon, the items before its oldest one."""
        with self._changed:
            self._pages_asked.append((token, before))
            self._wake()

    def reply_here(self) -> None:
        """From now on batches reply to the message that is being received.

        Where ipykernel chooses the next click's subshell (see `_route_to_sender`) it
        takes the one that was replied to last; without this that could be a cell's.
        """
        with self._changed:
            self._context = copy_context()

    def show(self, *, is_new: bool = False) -> None:
        """Send a snapshot: the view that asks draws nothing until one has come.

        `is_new` for the first view after a cell has shown the panel.
        """
        with self._changed:
            self._flush()
            snapshot = self._state.snapshot()
            head = {"type": "snapshot", "seq": self._sequence, "is_new": is_new}
            self._send({**head, **snapshot})

    def close(self) -> None:
        """Send what is left and end the thread."""
        with self._changed:
            self._closed.set()
            self._flush()
            self._changed.notify()

    @property
    def is_flushed(self) -> bool:
        """True when all operations were sent."""
        return not self._pending

    def _wake(self) -> None:
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._loop, name="nbchat-view-sync", daemon=True
            )
            self._thread.start()
        self._changed.notify()

    def _append(self, operation: Operation) -> None:
        """Join neighbouring pieces of one text."""
        last = self._pending[-1] if self._pending else {}
        match last.get("kind") == operation.get("kind") and operation["op"]:
            case "text" if last["op"] in ("text", "block"):
                joined = last["text"] + operation["text"]
                self._pending[-1] = {**last, "text": joined}
            case "block" if last["op"] in ("text", "block"):
                joined = last.get("html", "") + operation["html"]
                self._pending[-1] = {**operation, "html": joined}
            case _:
                self._pending.append(operation)

    def _loop(self) -> None:
        pause = SHORTEST_SECONDS
        while not self._closed.is_set():
            with self._changed:
                longer = min(pause * GROWTH, LONGEST_SECONDS)
                pause = longer if self._pending else SHORTEST_SECONDS
                self._changed.wait_for(self._is_due)
                self._try_flush()
            self._closed.wait(pause)

    def _try_flush(self) -> None:
        """Continue after a batch that could not be sent: views notice the gap."""
        try:
            self._flush()
        except Exception:
            logger.exception("a batch for the panel could not be sent")

    def _is_due(self) -> bool:
        return bool(self._pending or self._pages_asked or self._closed.is_set())

    def _flush(self) -> None:
        if self._pending:
            self._sequence += 1
            events, self._pending = self._pending, []
            batch = {"type": "events", "seq": self._sequence, "events": events}
            self._context.run(self._send, batch)
        while self._pages_asked:  # here, so that no batch overtakes what it changes
            token, before = self._pages_asked.pop(0)
            page = {"type": "earlier_page", **self._state.page(before), "token": token}
            self._context.run(self._send, page)
