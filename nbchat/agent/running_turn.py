"""A turn as `Agent.run` returns it, and its answer as `ask` and `chat` return it.

    turn = agent.run("Work through all tickets.")
    for event in turn: ...          # iterating runs the turn; each event comes once
    turn.result().stop_reason       # runs the rest; raises the error that ended it

    async for event in agent.run("..."): ...      # the same on an event loop

Nothing runs before the first iteration. On an event loop the turn runs in a thread of
its own; cancelling the task that waits for an event stops it.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from inspect import GEN_CLOSED, GEN_CREATED, getgeneratorstate
from threading import Condition
from threading import Event as Flag
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast
from weakref import finalize

from nbchat.agent.budget import Meter
from nbchat.agent.structured_output import InvalidValue, OutputType
from nbchat.conversation.entries import Usage, html_table
from nbchat.conversation.events import (
    Compacted,
    EntryAdded,
    Event,
    SavingFailed,
    StopReason,
    ToolRequested,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session
from nbchat.conversation.tools import CALLERS_LOOP
from nbchat.errors import NbchatError
from nbchat.rendering.markdown import markdown_html

if TYPE_CHECKING:
    from nbchat.agent.agent import Agent

STOP_NOTES: dict[StopReason, str] = {
    "max_tokens": "The answer was cut off at the output limit.",
    "refusal": "The model refused to answer.",
    "max_steps": "Stopped at the limit of requests in one turn (max_steps).",
    "stopped": "Stopped before the end.",
    "budget": "Stopped because the budget is used up.",
}
"""Notes for a person after an answer that isn't finished."""

NOT_STARTED = "not started: iterate it, or use agent.chat(...) or agent.ask(...)"

PREVIEW_LENGTH = 60
"""Characters of a prompt or an answer in a repr."""

STEP_SECONDS = 0.05
"""Interval at which a flag of the caller is checked."""

CANCEL_SECONDS = 2.0
"""How long a cancelled task waits for its turn to end: a request ends in 0.1 s, a plain
function that a tool runs when it returns."""

Work = Callable[[], object]

Result = TypeVar("Result")

Given = ParamSpec("Given")

Owner = TypeVar("Owner", bound="Agent")


class Answer(str):
    """The text of an answer, with what it took and why it ended."""

    __slots__ = ("events", "stop_reason", "usage", "value")

    usage: Usage
    """Usage of all requests of the turn; summaries count in `Session.usage` only."""
    stop_reason: StopReason
    """`end_turn` for a finished answer; everything else is an early end."""
    events: tuple[Event, ...]
    """All events of the turn."""
    value: Any
    """The answer as the type given as `output`; None after an early end."""

    def __new__(
        cls,
        text: str = "",
        *,
        usage: Usage | None = None,
        stop_reason: StopReason = "end_turn",
        events: Iterable[Event] = (),
        value: Any = None,
    ) -> "Answer":
        """Make an answer from its text."""
        answer = super().__new__(cls, text)
        answer.usage = usage or Usage()
        answer.stop_reason = stop_reason
        answer.events = tuple(events)
        answer.value = value
        return answer

    def __reduce__(self) -> Any:
        """Pickled without its events, which hold the whole turn."""
        return _answer, (str(self), self.usage, self.stop_reason, self.value)

    def __repr__(self) -> str:
        """The text as a literal; the stop reason too, when the answer ended early."""
        text = super().__repr__()
        if self.stop_reason == "end_turn":
            return text
        return f"Answer({text}, stop_reason={self.stop_reason!r})"

    @property
    def note(self) -> str:
        """Why the answer ended early, in words; empty for a finished one."""
        return STOP_NOTES.get(self.stop_reason, "")

    def _repr_markdown_(self) -> str:
        return f"{self}\n\n*({self.note})*" if self.note else str(self)

    def _repr_html_(self) -> str:
        """The Markdown as safe HTML, which notebooks prefer: images are links."""
        return markdown_html(self._repr_markdown_())


class Turn(Iterator[Event]):
    """One turn, which runs while it is iterated; each event comes once."""

    def __init__(
        self,
        text: str,
        running: Generator[Event, None, None],
        events: list[Event],
        *,
        output: OutputType | None = None,
        cancel: Callable[[], object] = lambda: None,
    ) -> None:
        """Run nothing yet; `running` runs the turn and appends to `events`.

        `cancel` asks it to stop; `output` reads the value of the answer.
        """
        self.text = text
        self.events = events
        """The events so far."""
        self._running = running
        self._output = output
        self._cancel = cancel
        self._async: AsyncEvents | None = None
        self.unread: Flag | None = None
        """Set by `hold_back`; None where a listener may show the answer."""

    def __repr__(self) -> str:
        """The state, and the beginning of the answer."""
        answer = _preview(self._answer_text)
        return f"<Turn {self.state}{f': {answer!r}' if answer else ''}>"

    def _repr_html_(self) -> str:
        usage = self.usage
        rows = {
            "Prompt": _preview(self.text),
            "State": self.state,
            "Answer": self._answer_text,
            "Tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out",
            "Model requests": self._count(UsageReported),
            "Tool calls": self._count(ToolRequested),
            "Compactions": self._count(Compacted),
        }
        is_begun = bool(self.events)
        return html_table("Turn", rows if is_begun else dict(list(rows.items())[:2]))

    def __iter__(self) -> Iterator[Event]:
        """The rest of the events: a second loop continues where the first one ended."""
        return self._running

    def __next__(self) -> Event:
        """Run the turn up to its next event."""
        return next(self._running)

    def __aiter__(self) -> "AsyncEvents":
        """The rest of the events, produced on another thread."""
        self._async = self._async or AsyncEvents(self._running, self._cancel)
        return self._async

    def hold_back(self) -> "Turn":
        """Hold the answer back until it is whole; call it before the turn runs.

        The events of a reply then come when it is whole, and a stream that breaks is
        asked for again.
        """
        if self.unread is not None:
            self.unread.set()
        return self

    def close(self) -> None:
        """End the turn here and keep what has arrived; nothing if it is over."""
        self._running.close()

    def result(self) -> Answer:
        """Run the rest of the turn and return its answer.

        Raises the error that ended the turn (see `nbchat.errors`), or NbchatError when
        it was interrupted. A turn that was stopped, cut or refused has an
        answer whose `stop_reason` says so.
        """
        if getgeneratorstate(self._running) == GEN_CREATED:
            self.hold_back()
        for _ in self:
            pass
        if self.error is not None:
            raise self.error
        if self.stop_reason is None:
            raise NbchatError(
                "This turn was interrupted. Start another with agent.run(...)."
            )
        text, is_whole = self._answer_text, self.stop_reason == "end_turn"
        return Answer(
            text,
            usage=self.usage,
            stop_reason=self.stop_reason,
            events=self.events,
            value=self._output.value(text) if self._output and is_whole else None,
        )

    @property
    def state(self) -> str:
        """Not started, running, finished (stop reason), failed or interrupted."""
        if self.stop_reason is not None:
            return f"finished ({self.stop_reason})"
        if self.error is not None:
            return f"failed ({type(self.error).__name__}: {self.error})"
        if getgeneratorstate(self._running) == GEN_CREATED:
            return NOT_STARTED
        is_over = getgeneratorstate(self._running) == GEN_CLOSED
        return "interrupted" if is_over else "running"

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the turn ended; None while it runs, and when it failed."""
        ends = (e for e in reversed(self.events) if isinstance(e, TurnFinished))
        return next((end.stop_reason for end in ends), None)

    @property
    def error(self) -> Exception | None:
        """The error that ended the turn, if one did."""
        ends = (e for e in reversed(self.events) if isinstance(e, TurnFailed))
        return next((end.error or NbchatError(end.message) for end in ends), None)

    @property
    def usage(self) -> Usage:
        """Usage of all model requests so far; summaries are counted elsewhere."""
        reports = (e.usage for e in self.events if isinstance(e, UsageReported))
        return sum(reports, Usage())

    @property
    def _answer_text(self) -> str:
        added = (e.entry for e in self.events if isinstance(e, EntryAdded))
        texts = [e.content for e in added if e.is_answer and e.content]
        return "\n".join(texts[-1:] if self._output else texts)

    def _count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


class SessionAutosave(Protocol):
    """Saves the session of an agent, event by event."""

    def __call__(self, event: Event) -> SavingFailed | None:
        """Save what an event has added; raises StoreError, or says that it is over."""

    def save(self) -> None:
        """Save everything that is not saved yet; raises StoreError."""

    def listen(self, listener: Callable[[SavingFailed], object] | None) -> None:
        """Tell a listener that everything is saved again, as soon as it is."""

    def identify_notebook(self, notebook_id: str) -> None:
        """Save the session with the id of its notebook, once the page has said it."""

    def write_log_to(self, folder: str) -> None:
        """Keep a Markdown log in this folder from now on; empty for none."""

    def of_branch(self, branch: Session) -> "SessionAutosave":
        """An autosave of a branch to the same store; the branch gets an id."""


class StopFlag(Flag):
    """A turn's own stop, which is also set when the caller's flag is."""

    def __init__(self, callers: Flag | None) -> None:
        super().__init__()
        self._callers = callers

    def is_set(self) -> bool:
        """True if one of the two is set."""
        return super().is_set() or (
            self._callers is not None and self._callers.is_set()
        )

    def wait(self, timeout: float | None = None) -> bool:
        """Block until one of them is set; False after the timeout, in seconds."""
        if self._callers is None:
            return super().wait(timeout)
        end = None if timeout is None else monotonic() + timeout
        while not self.is_set():
            left = STEP_SECONDS if end is None else min(end - monotonic(), STEP_SECONDS)
            if left <= 0:
                return False
            super().wait(left)
        return True


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """Options of one turn."""

    stop: StopFlag
    output: OutputType | None = None
    meters: tuple[Meter, ...] = ()
    unread: Flag = field(default_factory=Flag)
    """Set if no one reads the answer as it arrives."""

    @property
    def is_used_up(self) -> bool:
        """True if a budget is used up."""
        return any(meter.is_used_up for meter in self.meters)

    def problem(self, text: str) -> str:
        """The fault of an answer; empty if it is valid."""
        if self.output is None:
            return ""
        try:
            self.output.value(text)
        except InvalidValue as error:
            return str(error)
        return ""


class TurnLock:
    """Lets one turn run at a time."""

    def __init__(self) -> None:
        self.is_held = False
        self._changed = Condition()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other turns out; raises NbchatError while one runs."""
        with self._changed:
            if self.is_held:
                raise NbchatError(
                    "This chat is already answering. Wait for the answer, or stop it."
                )
            self.is_held = True
        try:
            yield
        finally:
            with self._changed:
                self.is_held = False
                self._changed.notify_all()

    def wait(self, is_cancelled: Callable[[], bool]) -> None:
        """Block until no turn runs; `wake` has `is_cancelled` checked again."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_held or is_cancelled())

    def wake(self) -> None:
        """Have waiting threads check again whether they are cancelled."""
        with self._changed:
            self._changed.notify_all()


def _preview(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_LENGTH else f"{line[:PREVIEW_LENGTH]}…"


def _answer(text: str, usage: Usage, stop_reason: StopReason, value: Any) -> Answer:
    return Answer(text, usage=usage, stop_reason=stop_reason, value=value)


class AsyncEvents:
    """The events of a running turn, for `async for`; made on the event loop."""

    def __init__(
        self, running: Generator[Event, None, None], cancel: Callable[[], object]
    ) -> None:
        """`cancel` asks the turn to stop."""
        self._running = running
        self._thread = LoopThread(cancel, self._run_rest)

    def __aiter__(self) -> "AsyncEvents":
        """The rest of the events."""
        return self

    async def __anext__(self) -> Event:
        """Run the turn up to its next event."""
        work: Callable[[], Event | None] = partial(next, self._running, None)
        event = await self._thread.run(work)
        if event is None:
            raise StopAsyncIteration
        return event

    def _run_rest(self) -> None:
        for _ in self._running:
            pass


class LoopThread:
    """Runs a turn on a thread of its own for an event loop, which stays free."""

    def __init__(
        self,
        cancel: Callable[[], object],
        rest: Callable[[], object] = lambda: None,
    ) -> None:
        """Make it on the loop. `cancel` asks the turn to stop, and `rest` ends it."""
        self._cancel = cancel
        self._rest = rest
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._context.run(CALLERS_LOOP.set, self._loop)
        self._inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        finalize(self, self._inbox.put, None)  # ends the thread
        _starter(os.getpid()).put(partial(_work_off, self._inbox))

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of work on the thread; a cancelled task stops the turn."""
        try:
            return await self._on_thread(work)
        except asyncio.CancelledError:
            self._cancel()
            with suppress(asyncio.CancelledError):
                rest = self._on_thread(self._rest)
                await asyncio.wait([rest], timeout=CANCEL_SECONDS)
            raise

    def _on_thread(self, work: Callable[[], Result]) -> "asyncio.Future[Result]":
        future: asyncio.Future[Result] = self._loop.create_future()

        def run() -> None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = self._context.run(work)
            except BaseException as caught:  # noqa: BLE001  # raised by the awaiting task
                error = caught
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(_settle, future, result, error)

        self._inbox.put(run)
        return future


def async_twin(
    method: Callable[Concatenate[Owner, Given], Result],
) -> Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Result]]:
    """The method for event loops: it runs on a thread, where cancelling stops it."""

    @wraps(method)
    async def twin(agent: Owner, /, *args: Given.args, **given: Given.kwargs) -> Result:
        stop = StopFlag(cast("Flag | None", given.pop("stop", None)))

        def cancel() -> None:
            stop.set()
            agent.wake()

        runs = cast("Callable[..., Result]", method)
        run = partial(runs, agent, *args, stop=stop, **given)
        return await LoopThread(cancel).run(run)

    name = method.__name__
    twin.__name__, twin.__qualname__ = f"a{name}", f"Agent.a{name}"
    twin.__doc__ = (
        f"`{name}` on an event loop, which stays free; a cancelled task ends the turn."
    )
    return twin


def _settle(
    future: "asyncio.Future[Any]", result: object, error: BaseException | None
) -> None:
    if future.done():  # it was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _work_off(inbox: "queue.SimpleQueue[Work | None]") -> None:
    """Do the work of one turn as it comes, until there is no more."""
    while (work := inbox.get()) is not None:
        work()
        del work  # it holds the turn, whose end ends this thread


@cache
def _starter(_process: int) -> "queue.SimpleQueue[Work]":
    """Starts threads off the event loop, because a start waits for its thread."""
    wanted: queue.SimpleQueue[Work] = queue.SimpleQueue()

    def start_all() -> None:
        while True:
            work = wanted.get()
            threading.Thread(target=work, name="nbchat-turn", daemon=True).start()
            del work

    threading.Thread(target=start_all, name="nbchat-starter", daemon=True).start()
    return wanted
