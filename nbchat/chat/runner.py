"""One thread per session: messages wait in line, turns run one by one, events come out.

    submit, compact, warm_up ──> waiting ──> agent.run / compact / commands ──> listener
    stop ──> ends the turn and hands the waiting messages back

A turn runs in a copy of the context its message was submitted in. In a kernel that ties
what it sends to the click or cell it belongs to, without which ipykernel 7.0 sends
nothing at all.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import CurrentApprovals, PendingCall
from nbchat.chat.control_socket import ControlSocket
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Event, TurnFailed, TurnFinished
from nbchat.errors import NbchatError, Stopped


@dataclass(frozen=True, slots=True)
class AgentReady:
    """An agent answers from now on; its session may hold a transcript already."""

    agent: Agent


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """These messages wait for their turn."""

    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message left the queue and is being answered."""

    text: str


@dataclass(frozen=True, slots=True)
class CommandReplied:
    """A command answered in plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """Stop was asked for; the turn ends as soon as its request is closed."""


@dataclass(frozen=True, slots=True)
class MessagesReturned:
    """These messages were not answered and go back to the input box.

    `position` is that of the earlier message which the text was to replace.
    """

    texts: tuple[str, ...]
    position: int | None = None


@dataclass(frozen=True, slots=True)
class ApprovalsPending:
    """These tool calls wait for a person's word, whoever's turn they belong to."""

    pending: tuple[PendingCall, ...]


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing runs and nothing waits."""


RunnerEvent = (
    AgentReady
    | QueueChanged
    | TurnStarted
    | CommandReplied
    | Stopping
    | MessagesReturned
    | ApprovalsPending
    | Idle
)


logger = logging.getLogger(__name__)

WAIT_SECONDS = 0.25
"""After which somebody who waits looks whether the kernel was interrupted."""


Listener = Callable[[Event | RunnerEvent], None]

Action = Callable[[Agent, threading.Event], Iterator[Event | RunnerEvent]]
"""What is done with the agent; setting the flag ends it."""

LoadAttachments = Callable[[], Iterable[Entry]]
"""What a message brings along, looked up when its turn has come."""


COMMAND = re.compile(r"/[^\s/*]*(\s|$)")
"""How a command begins; a path and a comment in code are messages like any other."""

STOPS_KEPT = 100
"""How many stops are remembered, so that the same one may come on two ways."""


class CommandOutcome(Protocol):
    """What a command answers: text at once, then whatever happens."""

    @property
    def text(self) -> str:
        """One or more lines for the person; may be empty."""

    @property
    def events(self) -> Iterator[Event]:
        """The events of what the command does."""


class Commands(Protocol):
    """What answers a message that begins with a slash."""

    def __call__(
        self, agent: Agent, line: str, /, *, stop: threading.Event | None
    ) -> CommandOutcome:
        """The outcome of a command; setting `stop` ends what it does."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do with the agent, and the context it was asked for in."""

    label: str
    play: Action
    context: Context = field(default_factory=copy_context)


class ChatRunner:
    """Drives an agent from a thread of its own.

    The listener is called on that thread, and for the queue also on the threads that
    submit and stop; it must be quick, and a fault in it is logged and forgotten.
    """

    def __init__(
        self,
        build: Callable[[], Agent],
        listener: Listener,
        *,
        commands: Commands | None = None,
        chat_id: str = "",
    ) -> None:
        """Start nothing yet: the thread and the agent come with the first need.

        `chat_id` is the name by which a stop on the server's way finds this chat.
        """
        self._build = build
        self._listener = listener
        self._commands = commands
        self._agent: Agent | None = None
        self._playing: Agent | None = None
        self._building = threading.Lock()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: deque[Job] = deque()
        self._stop = threading.Event()
        self._stops: deque[str] = deque(maxlen=STOPS_KEPT)
        self._is_working = False
        self._is_warm_up_due = False
        self._is_closed = False
        self.approvals = CurrentApprovals(
            lambda: (agent := self._playing or self._agent) and agent.approve,
            lambda pending: self._tell(ApprovalsPending(pending)),
        )
        self._control_socket = ControlSocket(
            self._stop_early, lambda: self.approvals.current, chat_id
        )

    @property
    def agent(self) -> Agent:
        """The agent; built here and now when nobody needed it before."""
        with self._building:
            if self._agent is None:
                self._agent = self._build()
                self._tell(AgentReady(self._agent))
                self.approvals.refresh()
            return self._agent

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs or waits."""
        with self._changed:
            return self._is_working or bool(self._waiting)

    def submit(self, text: str, attach: LoadAttachments = tuple) -> None:
        """Answer a message, or obey a command, after those that wait already.

        When `attach` raises NbchatError the author has the message back.
        """
        self._enqueue(Job(text, partial(self._answer, text, attach)))

    def do(self, label: str, play: Action) -> None:
        """Run something after the messages that wait already; `label` names it."""
        self._enqueue(Job(label, play))

    def compact(self, focus: str = "", keep: int | None = None) -> None:
        """Compact the conversation after the messages that wait already.

        `keep` is how many tokens of the newest messages stay word for word.
        """
        label = f"/compact {focus}".strip()
        self._enqueue(
            Job(
                label,
                lambda agent, stop: agent.compact(focus=focus, keep=keep, stop=stop),
            )
        )

    def warm_up(self) -> None:
        """Build the agent in the background, so that the first answer comes sooner.

        It and its provider make ready; a fault in that shows with the first message.
        """
        with self._changed:
            if self._agent is None and not self._is_closed:
                self._is_warm_up_due = True
                self._wake()

    def refresh(self, agent: Agent | None = None) -> None:
        """Tell of the session as it is now, or of another agent that takes over."""
        with self._building:
            self._agent = agent or self._agent
            if self._agent is not None:
                self._tell(AgentReady(self._agent))
                self.approvals.refresh()

    def stop(self, token: str = "") -> None:
        """End the turn that runs and hand back the messages that wait.

        A `token` counts once: a click goes on two ways, and the slower one must not end
        the next turn.
        """
        with self._changed:
            if token and token in self._stops:
                return
            self._stops.append(token)
            if self._is_working:
                self._stop.set()
                self._tell(Stopping())
            self._return_waiting()
        self.approvals.wake()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block until nothing runs or waits; False when the time was up before.

        In steps: a signal that another thread was given wakes nobody who sleeps here.
        """
        left = float("inf") if timeout_seconds is None else timeout_seconds
        end = time.monotonic() + left
        while self.is_busy and time.monotonic() < end:
            step = max(0.0, min(WAIT_SECONDS, end - time.monotonic()))
            with self._changed:
                self._changed.wait_for(lambda: not self.is_busy, step)
        return not self.is_busy

    def close(self, timeout_seconds: float = 2.0) -> None:
        """End the turn and the thread; waiting messages are dropped."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._stop.set()
            self._changed.notify_all()
        self.approvals.wake()
        self.approvals.close()
        self._control_socket.close()
        if self._thread not in (None, threading.current_thread()):
            self._thread.join(timeout_seconds)

    def _stop_early(self, token: str) -> None:
        """Stop on the server's way, which a message behind a cell does not take.

        With nothing to end it does not count: the click follows the message.
        """
        if self.is_busy:
            self.stop(token)

    def _enqueue(self, job: Job) -> None:
        self._control_socket.open()  # before the agent is built: that may take seconds
        with self._changed:
            if self._is_closed:
                raise NbchatError("this chat was closed; make a new one to go on")
            self._waiting.append(job)
            self._tell_queue()
            self._wake()

    def _wake(self) -> None:
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
        while self._sleep():
            if fault := self._survive(lambda: self.agent):
                self._tell(TurnFailed(fault))
                self._return_all()
            elif job := self._next():
                self._tell(TurnStarted(job.label))
                if fault := self._survive(partial(job.context.run, self._play, job)):
                    self._tell(TurnFailed(fault))
            else:
                self._survive(self.agent.warm_up)

    def _sleep(self) -> bool:
        """Wait for something to do; False when the chat is closed."""
        with self._changed:
            if not self._waiting:
                self._is_working = False
                self._tell(Idle())
                self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._waiting or self._is_warm_up_due or self._is_closed
            )
            self._is_warm_up_due = False
            self._is_working = not self._is_closed
            self._stop = threading.Event()  # a new one: old requests keep theirs
            return self._is_working

    def _next(self) -> Job | None:
        """The message whose turn it is; None when all were handed back meanwhile.

        It waits for a cell that talks to the same agent.
        """
        with self._changed:
            while self._waiting and not self._stop.is_set() and self._is_taken:
                self._changed.wait(WAIT_SECONDS)
            if not self._waiting or self._stop.is_set():
                return None
            job = self._waiting.popleft()
            self._tell_queue()
            return job

    @property
    def _is_taken(self) -> bool:
        return self._agent is not None and self._agent.is_answering

    def _play(self, job: Job) -> None:
        self.approvals.refresh()
        try:
            self._playing = self.agent  # until its end, whoever takes over meanwhile
            for event in job.play(self._playing, self._stop):
                self._tell(event)
                if self._is_closed:
                    break
        except Stopped:  # a compaction that was asked for has no turn to end
            self._tell(TurnFinished("stopped", 0))
        finally:
            self._playing = None
            if not self._is_closed:
                self.approvals.refresh()

    def _answer(
        self, text: str, attach: LoadAttachments, agent: Agent, stop: threading.Event
    ) -> Iterator[Event | RunnerEvent]:
        if self._commands is not None and COMMAND.match(text):
            yield from _obey(self._commands, text, agent, stop)
            return
        try:
            attached = tuple(attach())
            yield from agent.run(text, stop=stop, attached=attached)
        except NbchatError as error:  # something is missing, or a cell was quicker
            yield TurnFailed(str(error))
            yield MessagesReturned((text,))

    def _return_all(self) -> None:
        with self._changed:
            self._return_waiting()

    def _return_waiting(self) -> None:
        if self._waiting:
            texts = tuple(job.label for job in self._waiting)
            self._waiting.clear()
            self._tell(MessagesReturned(texts))
            self._tell_queue()
            if not self._is_working:  # the thread sleeps on: it had not woken yet
                self._tell(Idle())

    def _tell_queue(self) -> None:
        self._tell(QueueChanged(tuple(job.label for job in self._waiting)))

    def _tell(self, event: Event | RunnerEvent) -> None:
        self._survive(partial(self._listener, event))

    def _survive(self, step: Callable[[], object]) -> str:
        """What went wrong in a step, in a line; empty when nothing did.

        The thread outlives every fault, a tool's `sys.exit()` included.
        """
        try:
            step()
        except NbchatError as error:
            return str(error)
        except (Exception, SystemExit) as error:
            logger.exception("a step of the chat failed")
            return f"{type(error).__name__}: {error}"
        return ""


def _obey(
    commands: Commands, text: str, agent: Agent, stop: threading.Event
) -> Iterator[Event | RunnerEvent]:
    before = agent.session
    try:
        outcome = commands(agent, text, stop=stop)
    except NbchatError as error:
        yield TurnFailed(str(error))
        yield MessagesReturned((text,))
        return
    if agent.session is not before:
        yield AgentReady(agent)
    if outcome.text:
        yield CommandReplied(outcome.text)
    yield from outcome.events
