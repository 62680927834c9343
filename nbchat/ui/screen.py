"""What the panel shows, as JSON values: a fold over everything that happens.

The screen is kept in the kernel, so that a view which comes later, or lost a message,
gets all of it at once. `fold` answers with the operations that bring a view up to date;
`protocol.json` describes them.
"""

from typing import Any, assert_never

from nbchat.agent import Agent
from nbchat.approvals import Question
from nbchat.compaction.policies import PRESETS
from nbchat.events import (
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
from nbchat.history import Compaction, Entry
from nbchat.rendering.banners import (
    compaction_html,
    notice_html,
    progress_text,
)
from nbchat.rendering.entries import (
    entry_html,
    note_html,
    summary_html,
)
from nbchat.rendering.markdown import displayable, markdown_html
from nbchat.session import Session
from nbchat.ui.asking import WaitingCards
from nbchat.ui.blocks import block_end, without_blocks
from nbchat.ui.history import parts
from nbchat.ui.transcript import Transcript
from nbchat.worker import (
    AgentReady,
    CallsWaiting,
    Idle,
    Noted,
    QueueChanged,
    Returned,
    Stopping,
    TurnStarted,
    WorkerEvent,
)

Operation = dict[str, Any]

STOP_NOTES: dict[StopReason, str] = {
    "max_tokens": "The answer was cut at the model's output limit.",
    "max_steps": "Stopped here: the turn took as many steps as it may.",
    "refusal": "The model declined to answer.",
}


class Screen:
    """The items of the transcript, the answer being written, and the panel's state."""

    def __init__(self, *, has_settings: bool = False, chat_id: str = "") -> None:
        """An empty panel whose agent is still to come."""
        self._items = Transcript()
        self._cards = WaitingCards(self._items)
        self._questions: tuple[Question, ...] = ()
        self._live: dict[str, dict[str, str]] = {}
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
            "summary": None,
            "notifies": True,
            "has_settings": has_settings,
            "waiting": [],
            "chat_id": chat_id,
        }
        self._agent: Agent | None = None
        self._banners: dict[str, int] = {}
        self._running_banner: int | None = None

    def snapshot(self) -> dict[str, Any]:
        """Everything a view needs to begin."""
        return {
            **self._items.page(),
            "live": {kind: dict(parts) for kind, parts in self._live.items()},
            "state": dict(self._state),
        }

    def fold(self, event: Event | WorkerEvent) -> list[Operation]:
        """Take an event in; the operations that show it."""
        match event:
            case TextDelta() | ThinkingDelta() | RetryScheduled():
                shown = self._fold_delta(event)
            case EntryAdded(_, entry):
                shown = self._add_entry(entry)
            case ToolRequested(call):
                shown = self._set(activity=f"Running {displayable(call.tool_name)}")
            case UsageReported(_, tokens, threshold, context, window):
                shown = self._measure(tokens, threshold, context=context, window=window)
            case TurnFinished() | TurnFailed():
                shown = self._fold_end(event)
            case PinsChanged() | SavingFailed():
                shown = self._add(notice_html(event))
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
                shown = self._fold_worker(event)
        return shown

    def page(self, before: int) -> dict[str, Any]:
        """Items that are older than a view's, and the key to go on before."""
        return self._items.page(before)

    def set_notifies(self, *, notifies: bool) -> list[Operation]:
        """From now on automatic compactions have a banner, or have none."""
        return self._set(notifies=notifies)

    def _fold_delta(self, event: Delta) -> list[Operation]:
        match event:
            case TextDelta(text):
                shown = self._stream_answer(text)
                return [*self._set(activity="Writing", retry=None), *shown]
            case ThinkingDelta(text):
                shown = self._stream("thinking", displayable(text))
                return [*self._set(activity="Thinking", retry=None), *shown]
            case RetryScheduled(attempt, wait_seconds, reason):
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
                noted = self._add(note_html(note)) if note else []
            case TurnFailed():
                phase = "ready" if self._agent else "failed"
                noted = [*self._add(notice_html(event)), *self._set(phase=phase)]
            case _:
                assert_never(event)
        return [*self._settle_all(), *noted, *self._set(retry=None)]

    def _fold_worker(self, event: WorkerEvent) -> list[Operation]:
        match event:
            case AgentReady(agent):
                shown = self._restore(agent)
            case QueueChanged(waiting):
                queue = [displayable(text) for text in waiting]
                shown = self._set(queue=queue, **({"is_busy": True} if queue else {}))
            case Noted(text):
                shown = self._add(note_html(text))
            case Returned(texts):
                shown = [{"op": "draft", "text": displayable("\n\n".join(texts))}]
            case CallsWaiting(questions):
                self._questions = questions
                shown = self._ask()
            case TurnStarted() | Stopping() | Idle():
                shown = self._fold_course(event)
            case _:
                assert_never(event)
        return shown

    def _fold_course(self, event: TurnStarted | Stopping | Idle) -> list[Operation]:
        match event:
            case TurnStarted():
                return self._set(is_busy=True, activity="Waiting for the model")
            case Stopping():
                return self._set(activity="Stopping")
            case Idle():
                idle = self._set(is_busy=False, activity="", retry=None)
                return [*self._measure_agent(), *idle]
            case _:
                assert_never(event)

    def _restore(self, agent: Agent) -> list[Operation]:
        """Show the agent's session instead of whatever was shown before."""
        self._agent = agent
        self._items.clear()
        self._cards.clear()
        self._banners.clear()
        self._running_banner = None
        for _, part in parts(agent.session):
            self._restore_part(part)
        shown = {"op": "restart", **self._items.page()}
        asked = self._ask()
        return [shown, *asked, *self._set(phase="ready"), *self._measure_agent()]

    def _ask(self) -> list[Operation]:
        """Show which calls wait for a person's word now."""
        cards = self._cards.show(self._questions)
        return [*cards, *self._set(waiting=self._cards.state())]

    def _restore_part(self, part: Entry | Compaction) -> None:
        """An item whose HTML is made when a view comes to it."""
        if not isinstance(part, Compaction):
            self._cards.see(self._items.add(part), part)
        elif not self._is_silent(part):
            self._banners[part.id] = self._items.add(part)

    def _stream_answer(self, text: str) -> list[Operation]:
        """More of an answer; its finished blocks become HTML while it goes on."""
        appended = self._stream("assistant", displayable(text))
        live = self._live["assistant"]
        cut = block_end(live["text"]) if "\n" in live["text"][-len(text) - 3 :] else 0
        if not cut:
            return appended
        html, rest = markdown_html(live["text"][:cut]), live["text"][cut:]
        self._live["assistant"] = {"html": live["html"] + html, "text": rest}
        return [{"op": "block", "kind": "assistant", "html": html, "text": rest}]

    def _stream(self, kind: str, text: str) -> list[Operation]:
        live = self._live.setdefault(kind, {"html": "", "text": ""})
        live["text"] += text
        return [{"op": "text", "kind": kind, "text": text}]

    def _add_entry(self, entry: Entry) -> list[Operation]:
        """A finished entry takes the place of what was streamed of it."""
        streamed = self._live.get(entry.role, {"html": ""})["html"]
        added = self._add(entry_html(entry))
        for each in added:
            self._cards.see(each["key"], entry)
        shown = [without_blocks(streamed, each, entry.role) for each in added]
        settled = self._settle(entry.role)
        activity = "Waiting for the model" if entry.role in ("user", "tool") else ""
        return [*shown, *settled, *self._set(retry=None, activity=activity)]

    def _settle(self, kind: str) -> list[Operation]:
        """The stream of a kind is over; its element goes, the entry has come."""
        if self._live.pop(kind, None) is None:
            return []
        return [{"op": "settle", "kind": kind}]

    def _settle_all(self) -> list[Operation]:
        """End what never came to its end; interrupted thoughts stay readable."""
        thought = self._live.get("thinking", {"text": ""})["text"]
        kept = self._add(entry_html(Entry("thinking", thought))) if thought else []
        settled = [op for kind in list(self._live) for op in self._settle(kind)]
        return [*settled, *kept, *self._drop_running_banner()]

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
            case CompactionStarted(trigger):
                shown = [] if self._is_quiet(trigger) else self._begin_banner(event)
                return [*shown, *self._set(activity="Compacting")]
            case CompactionProgress():
                return self._set(activity=f"Compacting, {progress_text(event)}")
            case Compacted(compaction):
                shown = self._add_banner(compaction)
            case CompactionUndone(compaction) | CompactionChanged(compaction):
                redrawn = self._redraw_banner(compaction)
                notice = notice_html(event)
                shown = [*redrawn, *self._add(notice, key=self._take_running_banner())]
            case CompactionSkipped() | CompactionFailed():
                shown = self._add(notice_html(event), key=self._take_running_banner())
            case _:
                assert_never(event)
        return [*shown, *self._measure_agent(), *self._set(activity="")]

    def _is_quiet(self, trigger: str) -> bool:
        """Whether a compaction with this trigger is none of the person's business."""
        return trigger != "manual" and not self._state["notifies"]

    def _begin_banner(self, event: CompactionStarted) -> list[Operation]:
        shown = self._add(notice_html(event))
        self._running_banner = shown[0]["key"]
        return shown

    def _add_banner(self, compaction: Compaction) -> list[Operation]:
        """The banner takes the place of the one that said it was under way."""
        if self._is_silent(compaction):
            return self._drop_running_banner()
        shown = self._add(compaction_html(compaction), key=self._take_running_banner())
        self._banners[compaction.id] = shown[0]["key"]
        return shown

    def _is_silent(self, compaction: Compaction) -> bool:
        """Where no model could be had somebody should know, so that is never quiet."""
        return self._is_quiet(compaction.trigger) and compaction.status != "degraded"

    def _redraw_banner(self, compaction: Compaction) -> list[Operation]:
        """The banner as the compaction is now, unless it has had none on purpose."""
        key = self._banners.get(compaction.id)
        if key is None and self._is_quiet(compaction.trigger):
            return []
        return self._add(compaction_html(compaction), key=key)

    def _drop_running_banner(self) -> list[Operation]:
        key = self._take_running_banner()
        if key is None:
            return []
        self._items.drop(key)
        return [{"op": "drop", "key": key}]

    def _take_running_banner(self) -> int | None:
        key, self._running_banner = self._running_banner, None
        return key

    def _add(self, html: str, *, key: int | None = None) -> list[Operation]:
        """A new item, or a new face of an old one; nothing for empty HTML."""
        if not html:
            return []
        return [{"op": "item", "key": self._items.add(html, key=key), "html": html}]

    def _measure_agent(self) -> list[Operation]:
        """Model, policy, summary and meter as they are now; commands change them."""
        if self._agent is None:
            return []
        engine = self._agent.engine
        named = self._set(
            model=displayable(self._agent.provider.name),
            policy=displayable(engine.policy.name),
            summary=_summary(self._agent.session),
        )
        measured = self._measure(
            engine.input_tokens,
            engine.context_token_threshold,
            context=engine.context_tokens(self._agent.session),
            window=engine.info.window,
        )
        return [*named, *measured]

    def _measure(
        self, tokens: int, threshold: int | None, *, context: int, window: int | None
    ) -> list[Operation]:
        meter = {
            "tokens": tokens,
            "threshold": threshold,
            "context": context,
            "window": window,
        }
        return self._set(meter=meter)

    def _set(self, **changes: Any) -> list[Operation]:
        news = {
            name: value for name, value in changes.items() if self._state[name] != value
        }
        self._state.update(news)
        return [{"op": "state", "state": news}] if news else []


def _summary(session: Session) -> dict[str, Any] | None:
    """What stands in for the beginning of a session, and for how much of it."""
    record = session.compaction
    if record is None:
        return None
    return {"messages": record.stop, "html": summary_html(record.summary)}
