"""Run the turns of a chat one by one, for the panel and for notebook cells.

    submit, submit_action ──> queue ──> runner thread ──┐
    run_message, run_command ──> the cell's thread ─────┴──> events ──> listener
    stop ──> ends what runs, returns the queued messages

A queued job runs in a copy of the context that it was submitted in: ipykernel 7.0 sends
nothing that does not belong to the context of a cell or a click.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals, CurrentApprovals
from nbchat.chat.chat_events import (
    AgentReady,
    ApprovalsPending,
    ChatEvent,
    CommandReplied,
    Idle,
    MessagesReturned,
    QueueChanged,
    Refused,
    RulesOffered,
    SessionLoaded,
    Stopping,
    TurnStarted,
)
from nbchat.chat.control_socket import Action as ControlAction
from nbchat.chat.control_socket import ControlSocket, new_chat_id
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Event, TurnFailed, TurnFinished
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, Stopped

logger = logging.getLogger(__name__)

WAIT_SECONDS = 0.25
"""Time after which `wait` checks whether the kernel was interrupted."""

STOP_IDS_KEPT = 100
"""Number of clicks on Stop that are remembered, as each may arrive twice."""

COMMAND = re.compile(r"/[^\s/*]*(\s|$)")
"""Start of a command; a path or a comment in code is an ordinary message."""


Listener = Callable[[ChatEvent], None]

Action = Callable[[Agent, threading.Event], Iterable[ChatEvent]]
"""Work on the agent, as events; setting the `stop` event ends it."""

RunCommand = Callable[[Agent, str, threading.Event], Iterable[ChatEvent]]
"""Runs a command line; raises NbchatError for one that cannot be run."""

LoadAttachments = Callable[[], Iterable[Entry]]
"""Loads what a message attaches, when the message is sent."""


@dataclass(eq=False, slots=True)
class Job:
    """A message, a command or other work, with the context it was submitted in."""

    label: str
    """The text of the message; empty for work that is not shown in the queue."""
    action: Action
    position: int | None = None
    """Position of the earlier message that this one replaces."""
    context: Context = field(default_factory=copy_context)
    stop: threading.Event = field(default_factory=threading.Event)
    agent: Agent | None = None
    """The agent it runs on, as soon as it runs."""


class ChatRunner:
    """Runs the turns of one chat: queued ones on a thread, those of cells at once.

    The listener is called on the thread that runs the turn, and for the queue also on
    the threads that submit and stop. It must be quick; its errors are logged.
    """

    def __init__(
        self,
        build: Callable[[], Agent],
        listener: Listener | None = None,
        *,
        commands: RunCommand | None = None,
        prepare: Callable[[Agent], None] | None = None,
    ) -> None:
        """Start nothing yet: agent and thread are made on first use.

        `prepare` is called before each message and command.
        """
        self.chat_id = new_chat_id()
        """The id by which Jupyter Server reaches this chat."""
        self.opening: Callable[[Agent], str] = lambda _agent: ""
        """Notices after the agent was built, such as a changed model."""
        self.on_turn_end: Callable[[Agent], object] | None = None
        """Called when a message, a command or an action is done, on its thread."""
        self._build = build
        self._listener = listener
        self._commands = commands
        self._prepare = prepare
        self._agent: Agent | None = None
        self._building = threading.Lock()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._queue: deque[Job] = deque()
        self._running: list[Job] = []
        self._stop_ids: deque[str] = deque(maxlen=STOP_IDS_KEPT)
        self._is_closed = False
        self.approvals = CurrentApprovals(
            lambda: (agent := self._current_agent) and agent.approve,
            lambda pending: self._send(ApprovalsPending(pending)),
        )
        self._actions: dict[str, ControlAction] = {
            "stop": self._stop_remotely,
            "approve": self._approve_remotely,
            "deny": self._deny_remotely,
        }
        self._control_socket = ControlSocket(self._actions, self.chat_id)

    @property
    def agent(self) -> Agent:
        """The agent; the first use builds it."""
        with self._building:
            if self._agent is None:
                self._agent = self._build()
                self._send_agent(self._agent)
                if line := self.opening(self._agent):
                    self._send(CommandReplied(line))
            return self._agent

    @property
    def built_agent(self) -> Agent | None:
        """The agent if it was built; waits for one that is being built."""
        with self._building:
            return self._agent

    @property
    def is_busy(self) -> bool:
        """True while something runs or is queued."""
        with self._changed:
            return bool(self._running or self._queue)

    @property
    def is_warming_up(self) -> bool:
        """True while nothing runs but the preparation of the first request."""
        with self._changed:
            jobs = [*self._running, *self._queue]
            return bool(jobs) and all(job.action == self._warm_up for job in jobs)

    def listen(self, listener: Listener | None) -> None:
        """Send all events to this listener from now on, the current agent first."""
        self._listener = listener
        self.refresh()

    def submit(
        self,
        text: str,
        load_attachments: LoadAttachments = tuple,
        *,
        pasted: Sequence[str] = (),
    ) -> None:
        """Queue a message, or a command; `pasted` are texts in it that were pasted.

        If it cannot be sent, as when an attachment is missing, the text is returned.
        """
        if self._commands is not None and COMMAND.match(text):
            self.submit_action(text, self._command(text))
        else:
            self.submit_action(text, _message(text, load_attachments, pasted))

    def submit_action(
        self, label: str, action: Action, *, position: int | None = None
    ) -> None:
        """Queue an action; if it raises NbchatError, its label is returned."""
        self._control_socket.open()  # before the agent is built: that may take seconds
        with self._changed:
            self._refuse_closed()
            self._queue.append(Job(label, action, position))
            self._send_queue()
            self._wake_thread()

    def run_message(
        self,
        text: str,
        load_attachments: LoadAttachments = tuple,
        *,
        live: bool = True,
        from_cell: bool = False,
    ) -> Generator[ChatEvent, None, None]:
        """Answer a message on the calling thread; raises NbchatError while one runs.

        Closing the generator, or an interrupt, ends the turn and keeps its partial
        answer.
        """
        action = _message(text, load_attachments, live=live, from_cell=from_cell)
        return self._run_here(Job(text, action))

    def run_action(
        self, label: str, action: Action
    ) -> Generator[ChatEvent, None, None]:
        """Run an action on the calling thread; raises NbchatError while one runs."""
        return self._run_here(Job(label, action))

    def run_command(self, line: str) -> Generator[ChatEvent, None, None]:
        """Run a command on the calling thread; raises NbchatError if it fails."""
        return self._run_here(Job(line, self._command(line)))

    def serve(self, name: str, action: ControlAction) -> None:
        """Answer requests of other processes by this name, too."""
        self._actions[name] = action

    def warm_up(self) -> None:
        """Build the agent in the background and let its provider load what it needs.

        An error is shown with the first message. Other processes reach the chat now.
        """
        if not self._is_closed:
            self._control_socket.open()
        with self._changed:
            if self._agent is None and not self._is_closed and not self.is_busy:
                self._queue.append(Job("", self._warm_up))
                self._wake_thread()

    def show(self, session: Session) -> None:
        """Send a stored session to the listener while its agent is being built."""
        self._send(SessionLoaded(session))

    def offer(self, offered: RulesOffered) -> None:
        """Show rules that wait for the person's decision."""
        self._send(offered)

    def refresh(self, agent: Agent | None = None) -> None:
        """Send the agent to the listener again, or another one that takes over."""
        with self._building:
            self._agent = agent or self._agent
            if self._agent is not None:
                self._send_agent(self._agent)

    def stop(self, stop_id: str = "") -> None:
        """End what runs and return the queued messages.

        A `stop_id` counts once: a click arrives by two routes, and the slower one must
        not end the next turn.
        """
        with self._changed:
            if stop_id and stop_id in self._stop_ids:
                return
            self._stop_ids.append(stop_id)
            if self._running:
                self._send(Stopping())
            self._end_running()
            self._return_queue()
        self._wake_agent()
        self._cancel_background()

    def withdraw(self, index: int, text: str, *, is_returned: bool) -> None:
        """Remove the message at an index from the queue, if it is still this one.

        `is_returned` sends its text back to the input box.
        """
        with self._changed:
            queued = [job for job in self._queue if job.label][index : index + 1]
            for job in queued:
                if job.label == text:
                    self._queue.remove(job)
                    if is_returned:
                        self._send(MessagesReturned((text,), job.position))
                    self._send_queue()
                    self._send_if_idle()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block until nothing runs or is queued; False after the timeout.

        In steps: the signal of an interrupt may reach another thread, which does not
        end a longer wait.
        """
        left = float("inf") if timeout_seconds is None else timeout_seconds
        end = time.monotonic() + left
        while self.is_busy and time.monotonic() < end:
            step = max(0.0, min(WAIT_SECONDS, end - time.monotonic()))
            with self._changed:
                self._changed.wait_for(lambda: not self.is_busy, step)
        return not self.is_busy

    def close(self, timeout_seconds: float = 2.0) -> None:
        """End the turn and the thread; queued messages are dropped."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            self._end_running()
            self._changed.notify_all()
        self._wake_agent()
        self._cancel_background()
        self.approvals.close()
        self._control_socket.close()
        if self._thread not in (None, threading.current_thread()):
            self._thread.join(timeout_seconds)

    @property
    def _current_agent(self) -> Agent | None:
        """The agent of the turn that runs, even if the chat has another one by now."""
        agents = (job.agent for job in reversed(self._running) if job.agent)
        return next(agents, self._agent)

    @property
    def _queued_texts(self) -> tuple[str, ...]:
        return tuple(job.label for job in self._queue if job.label)

    def _end_running(self) -> None:
        for job in self._running:
            job.stop.set()

    def _wake_agent(self) -> None:
        if (agent := self._current_agent) is not None:
            agent.wake()

    def _cancel_background(self) -> None:
        if (agent := self._current_agent) is not None:
            agent.cancel_background()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise NbchatError("This chat is closed. Open a new one to continue.")

    def _wake_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=copy_context().run,
                args=(self._loop,),
                name="nbchat-runner",
                daemon=True,
            )
            self._thread.start()
        self._changed.notify_all()

    def _loop(self) -> None:
        while (job := self._next_job()) is not None:
            error = self._error_of(partial(job.context.run, self._run_queued, job))
            if error:
                self._send(TurnFailed(error))
            self._finish(job)

    def _queue_commit(self, context: Context) -> None:
        """Commit a summary as soon as no turn runs; a turn commits it itself."""
        with self._changed:
            if not self._is_closed:
                self._queue.append(Job("", _commit_background, context=context))
                self._wake_thread()

    def _next_job(self) -> Job | None:
        """Take the next job from the queue; None when the runner is closed.

        A job stays in the queue, from which Stop returns it, while the agent answers a
        cell.
        """
        while self._wait_for_queue():
            if error := self._error_of(lambda: self.agent):
                self._send(TurnFailed(error))
                with self._changed:
                    self._return_queue()
                continue
            self.agent.wait_until_idle(lambda: not self._queue)
            with self._changed:
                if self._queue:
                    job = self._queue.popleft()
                    self._send_queue()
                    self._start(job)
                    return job
        return None

    def _wait_for_queue(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed)
            return not self._is_closed

    def _run_queued(self, job: Job) -> None:
        self.agent.compacts_later = True
        ready = partial(self._queue_commit, job.context.copy())
        self.agent.on_summary_ready = ready
        try:
            for event in self._events(job):
                self._send(event)
                if self._is_closed:
                    break
        except NbchatError as error:  # an attachment is missing, or a cell was quicker
            self._send(Refused(error))
            self._send(MessagesReturned((job.label,), job.position))

    def _run_here(self, job: Job) -> Generator[ChatEvent, None, None]:
        self._refuse_closed()
        self._control_socket.open()
        self.refresh(self.agent)  # code may have changed the session, or `approve`
        self.agent.compacts_later = False  # the cell shows its compaction
        with self._changed:
            self._start(job)
        try:
            with closing(self._events(job)) as events:
                for event in events:
                    if not isinstance(event, CommandReplied):  # for the cell alone
                        self._send(event)
                    yield event
        except NbchatError:
            raise
        except BaseException:  # an interrupt, or the caller closed the generator
            self.refresh()  # shows what was kept of the answer
            self._send(TurnFinished("stopped", 0))
            raise
        finally:
            self._finish(job)

    def _events(self, job: Job) -> Generator[ChatEvent, None, None]:
        """The events of a job; AgentReady comes first when it changes the session."""
        agent = job.agent = self.agent
        session = agent.session
        self.approvals.refresh()
        if self._prepare is not None and job.label and not agent.is_answering:
            self._prepare(agent)
        try:
            with closing(_generator(job.action(agent, job.stop))) as events:
                for event in events:
                    if agent.session is not session:
                        session = agent.session
                        self._hear_of_saving(agent)
                        yield AgentReady(agent)
                    yield event
        except Stopped:  # a compaction by hand has no turn to end
            yield TurnFinished("stopped", 0)
        finally:
            if agent.session is not session:  # an error came before the first event
                self.refresh()
            if not self._is_closed:
                self.approvals.refresh()

    def _start(self, job: Job) -> None:
        """Note that a job runs; silent for a command that a cell runs during a turn."""
        is_alone = not self._running
        self._running.append(job)
        if job.label and is_alone:
            self._send(TurnStarted(job.label))

    def _finish(self, job: Job) -> None:
        if job.label and self.on_turn_end is not None and not self._is_closed:
            end = partial(job.context.run, self.on_turn_end, self.agent)
            self._error_of(end)
        with self._changed:
            self._running.remove(job)
            self._send_if_idle()
            self._changed.notify_all()

    def _command(self, line: str) -> Action:
        commands = self._commands
        if commands is None:
            raise NbchatError("This chat takes no commands.")
        return lambda agent, stop: commands(agent, line, stop)

    def _warm_up(self, agent: Agent, _stop: threading.Event) -> Iterable[Event]:
        self._error_of(agent.warm_up)
        return ()

    def _return_queue(self) -> None:
        if self._queue:
            texts = self._queued_texts
            self._queue.clear()
            if texts:
                self._send(MessagesReturned(texts))
                self._send_queue()
            self._send_if_idle()

    def _stop_remotely(self, request: Mapping[str, Any]) -> None:
        """Stop by the server's route, which can overtake a message behind a cell.

        When nothing runs it does not count: the click itself follows the message.
        """
        if self.is_busy:
            self.stop(str(request.get("token") or ""))

    def _approve_remotely(self, request: Mapping[str, Any]) -> None:
        draft = request.get("draft")
        self._approvals_in_use().approve(
            str(request.get("ticket")),
            always=request.get("always") is True,
            turn=request.get("turn") is True,
            draft=draft if isinstance(draft, str) else None,
        )

    def _deny_remotely(self, request: Mapping[str, Any]) -> None:
        reason = str(request.get("reason") or "")
        self._approvals_in_use().deny(str(request.get("ticket")), reason)

    def _approvals_in_use(self) -> Approvals:
        if (found := self.approvals.current) is None:
            raise NbchatError("This chat runs its tools without asking for approval.")
        return found

    def _send_agent(self, agent: Agent) -> None:
        self._hear_of_saving(agent)
        self._send(AgentReady(agent))
        self.approvals.refresh()

    def _hear_of_saving(self, agent: Agent) -> None:
        if agent.autosave is not None:
            agent.autosave.listen(self._send)

    def _send_queue(self) -> None:
        self._send(QueueChanged(self._queued_texts))

    def _send_if_idle(self) -> None:
        if not self._running and not self._queue:
            self._send(Idle())

    def _send(self, event: ChatEvent) -> None:
        if (listener := self._listener) is not None:
            self._error_of(partial(listener, event))

    def _error_of(self, step: Callable[[], object]) -> str:
        """The error of a step in one line; empty if there is none.

        The thread survives every error, a tool's `sys.exit()` included.
        """
        try:
            step()
        except NbchatError as error:
            return str(error)
        except (Exception, SystemExit) as error:
            logger.exception("A step of the chat failed")
            return f"{type(error).__name__}: {error}"
        return ""


def _message(
    text: str,
    load_attachments: LoadAttachments,
    pasted: Sequence[str] = (),
    *,
    live: bool = True,
    from_cell: bool = False,
) -> Action:
    """An action that answers a message."""

    def answer(agent: Agent, stop: threading.Event) -> Iterable[Event]:
        attached = tuple(load_attachments())
        turn = agent.run(
            text, stop=stop, attached=attached, pasted=pasted, from_cell=from_cell
        )
        return turn if live else turn.hold_back()

    return answer


def _commit_background(agent: Agent, _stop: threading.Event) -> Iterable[Event]:
    """Commit what was written in the background; a cell's turn may be quicker."""
    with suppress(NbchatError):
        yield from agent.commit_background()


def _generator(events: Iterable[ChatEvent]) -> Generator[ChatEvent, None, None]:
    """The same events; closing this also closes the turn they come from."""
    yield from events
