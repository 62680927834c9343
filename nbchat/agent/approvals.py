"""Tool calls that wait for a person's word: where they wait, and how they are answered.

    approvals = Approvals()
    agent = Agent(tools=[refund], approve=approvals)      # its turn waits in here
    approvals.approve(call.tool_id)                       # from any other thread

One room serves one chat; the panel, a cell and Jupyter Server all answer here.
"""

import secrets
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field

from nbchat.conversation.entries import Entry
from nbchat.conversation.search import TOOL_NAME
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, Stopped

DECISIONS_KEPT = 100
"""How many answers are remembered, so that the same one may come twice."""


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits, under a name that nothing else has.

    Its id is the model's choice: two calls may have the same one, or none at all.
    """

    call: Entry
    ticket: str = field(default_factory=lambda: secrets.token_hex(8))

    def is_named(self, name: str) -> bool:
        """Whether a name is the ticket, or else the id of the call."""
        return name in (self.ticket, self.call.tool_id)


Subscriber = Callable[[tuple[Question, ...]], object]


@dataclass(eq=False, slots=True)
class _Wait:
    """A question, and its answer as soon as there is one."""

    question: Question
    is_approved: bool | None = None


class Approvals:
    """Asks a person before each tool call; what an agent takes as `approve`."""

    def __init__(
        self,
        *,
        free: Collection[str] = (TOOL_NAME,),
        listener: Callable[[tuple[Entry, ...]], None] | None = None,
    ) -> None:
        """`free` tools run unasked; `listener` is told what waits when that changes."""
        self._free = frozenset(free)
        self._listener = listener
        self._changed = threading.Condition()
        self._subscribers: list[Subscriber] = []
        self._waits: list[_Wait] = []
        self._decisions: dict[str, bool] = {}
        self._always: set[str] = set()
        self._session: Session | None = None
        self._stop = threading.Event()

    def __repr__(self) -> str:
        """How many calls wait, not which."""
        return f"<Approvals: {len(self.waiting)} waiting>"

    def __call__(self, call: Entry) -> bool:
        """Whether a call may run; waits for the answer, raises Stopped on a stop."""
        if call.tool_name in self._free | self._always:
            return True
        wait = _Wait(Question(call))
        with self._changed:
            self._waits.append(wait)
        try:
            self._tell()
            return self._answer(wait)
        finally:
            with self._changed:
                self._waits.remove(wait)
            self._tell()

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait, each under its ticket, the oldest first."""
        with self._changed:
            return tuple(w.question for w in self._waits if w.is_approved is None)

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """The calls that wait, the oldest first."""
        return tuple(question.call for question in self.questions)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell of the questions now and whenever they change; the answer ends that."""
        self._subscribers.append(subscriber)
        subscriber(self.questions)
        return lambda: self._subscribers.remove(subscriber)

    def approve(self, name: str, *, always: bool = False) -> None:
        """Let the call with this ticket or id run.

        With `always` this tool's later calls in this session run, too. Raises
        NbchatError when no such call waits, unless its ticket was approved before.
        """
        self._decide(name, is_approved=True, always=always)

    def deny(self, name: str) -> None:
        """Let the call with this ticket or id not run; raises as `approve` does."""
        self._decide(name, is_approved=False)

    def begin(self, session: Session, stop: threading.Event) -> None:
        """A turn begins, which `stop` ends; another session forgets every "always".

        To be called when no other turn can run any more: its stop would end nothing.
        """
        with self._changed:
            if session is not self._session:
                self._always.clear()
            self._session, self._stop = session, stop

    def wake(self) -> None:
        """Look at the turn's `stop` again; to be called after it was set."""
        with self._changed:
            self._changed.notify_all()

    def _answer(self, wait: _Wait) -> bool:
        with self._changed:
            stop = self._stop
            self._changed.wait_for(
                lambda: wait.is_approved is not None or stop.is_set()
            )
            if wait.is_approved is None:
                raise Stopped("stopped")
            return wait.is_approved

    def _decide(self, name: str, *, is_approved: bool, always: bool = False) -> None:
        with self._changed:
            open_waits = (wait for wait in self._waits if wait.is_approved is None)
            wait = next((w for w in open_waits if w.question.is_named(name)), None)
            if wait is not None:
                self._settle(wait, is_approved=is_approved)
                if always:
                    self._always.add(wait.question.call.tool_name)
            elif self._decisions.get(name) is not is_approved:
                raise NbchatError(f"no tool call {name!r} waits for an answer")

    def _settle(self, wait: _Wait, *, is_approved: bool) -> None:
        wait.is_approved = is_approved
        self._decisions[wait.question.ticket] = is_approved
        if len(self._decisions) > DECISIONS_KEPT:
            del self._decisions[next(iter(self._decisions))]
        self._changed.notify_all()

    def _tell(self) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(self.questions)
        if self._listener is not None:
            self._listener(self.waiting)


class Watch:
    """The calls that wait where an agent asks, though its `approve` may change."""

    def __init__(self, approve: Callable[[], object], subscriber: Subscriber) -> None:
        """`approve` gives what the agent asks now; `subscriber` is told what waits."""
        self._approve = approve
        self._subscriber = subscriber
        self._watched: Approvals | None = None
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def room(self) -> Approvals | None:
        """Where calls wait now, if the agent asks a person at all."""
        return room_of(self._approve())

    def look(self) -> None:
        """Tell from now on of what waits in the room that there is now."""
        room = self.room
        if room is self._watched:
            return
        self.close()
        self._watched = room
        if room is None:
            self._subscriber(())
        else:
            self._unsubscribe = room.subscribe(self._subscriber)

    def close(self) -> None:
        """Tell of nothing any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._watched = self._unsubscribe = None

    def approve(self, ticket: str, *, always: bool = False) -> None:
        """Let a call run; nothing happens if it does not wait any more."""
        with suppress(NbchatError):
            if (room := self.room) is not None:
                room.approve(ticket, always=always)

    def deny(self, ticket: str) -> None:
        """Let a call not run; nothing happens if it does not wait any more."""
        with suppress(NbchatError):
            if (room := self.room) is not None:
                room.deny(ticket)

    def wake(self) -> None:
        """Look at the turn's `stop` again; to be called after it was set."""
        if (room := self.room) is not None:
            room.wake()


def room_of(approve: object) -> Approvals | None:
    """Where calls wait that `approve` is asked for; None if it is another function."""
    return approve if isinstance(approve, Approvals) else None
