"""Ask a person before a tool call runs, and wait for the answer.

    approvals = Approvals()
    agent = Agent(tools=[refund], approve=approvals)      # its turn waits in here
    for waiting in approvals.waiting:                     # from any other thread
        print(waiting.call.tool_name, waiting.call.arguments)
        waiting.approve()                                 # or waiting.deny()

Each waiting call has a ticket. Only the ticket decides: a call's id is the model's
choice, and two calls may have the same one.

Tools with `read_only=True` run without asking.

One object serves one chat; the panel, a cell and Jupyter Server all answer here.
Instead of it `approve` may be a function, also an async one: only True approves.
"""

import logging
import secrets
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple, NoReturn

from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Preview, Tool, answer_of, effect_of, preview_of
from nbchat.errors import ConfigError, NbchatError, Stopped

logger = logging.getLogger(__name__)

DECISIONS_KEPT = 100
"""Answers kept, so that the same answer may arrive twice."""

Approve = Callable[[Entry], bool | Awaitable[bool]] | bool | None
"""Asked before calls; True and False answer for all, None allows what declares no
effects."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that waits for an answer, with a unique ticket.

    The call's own id is the model's choice: it may be empty, or used twice.
    """

    call: Entry
    preview: Preview | None = None
    ticket: str = field(default_factory=lambda: secrets.token_hex(8))
    approvals: "Approvals | None" = field(default=None, repr=False, compare=False)

    def approve(self, *, always: bool = False, turn: bool = False) -> None:
        """Let this call run; with `always` or in this `turn` its like too."""
        self._asked.approve(self.ticket, always=always, turn=turn)

    def deny(self, reason: str = "") -> None:
        """Refuse this call; the model reads the reason."""
        self._asked.deny(self.ticket, reason)

    @property
    def _asked(self) -> "Approvals":
        if self.approvals is None:
            raise NbchatError(_refusal(self.ticket, is_call_id=False))
        return self.approvals


Subscriber = Callable[[tuple[PendingCall, ...]], object]


@dataclass(eq=False, slots=True)
class _Wait:
    """A pending call, and the answer once there is one."""

    pending: PendingCall
    scopes: "_Scopes"
    is_approved: bool | None = None


class _Scopes(NamedTuple):
    """Later calls to which an answer may apply."""

    always: tuple[object, ...]
    turn: tuple[object, ...]


def _scopes(call: Entry, tool: Tool | None, agent: object) -> _Scopes:
    """An agent's calls of one function and effect; in a turn those of its group."""
    if tool is None:
        by_name = (agent, call.tool_name)
        return _Scopes(by_name, by_name)
    always = (agent, tool.function, effect_of(tool, call))
    return _Scopes(always, (agent, tool.group or tool.function))


class Approvals:
    """Asks a person before each tool call; pass it to an agent as `approve`."""

    def __init__(
        self,
        *,
        free: Collection[str | Callable[..., object]] = (),
        listener: Callable[[tuple[PendingCall, ...]], object] | None = None,
    ) -> None:
        """Tools in `free`, functions or names, run without asking.

        `listener` gets the waiting calls whenever they change.
        """
        self._free = tuple(free)
        self._listener = listener
        self._changed = threading.Condition()
        self._subscribers: list[Subscriber] = []
        self._waits: list[_Wait] = []
        self._decisions: dict[str, bool] = {}
        self._always: list[tuple[object, ...]] = []
        self._in_turn: list[tuple[object, ...]] = []
        self._reasons: dict[str, str] = {}
        self.permits: Callable[[Entry, Tool | None], bool] | None = None
        """Decides which calls need no approval; only True permits."""
        self._session: Session | None = None
        self._stop = threading.Event()

    def __repr__(self) -> str:
        """The number of waiting calls."""
        return f"<Approvals: {len(self.waiting)} waiting>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled for another process, where no person answers."""
        raise TypeError(
            "An agent with Approvals can't run in another process, because a person "
            "approves in this one. Pass approve=True or a function."
        )

    def __call__(
        self, call: Entry, *, tool: Tool | None = None, agent: object = None
    ) -> bool:
        """Return whether a call may run; blocks until the answer.

        Raises Stopped on a stop, and PreviewFailed where a person could not see what
        the call would do.
        "Always" holds for the function of `tool`, for what the call does with it, and
        for `agent`, not for a name.
        """
        scopes = _scopes(call, tool, agent)
        if self._runs_unasked(call, tool, scopes):
            return True
        preview = None if tool is None else preview_of(tool, call)
        wait = _Wait(PendingCall(call, preview, approvals=self), scopes)
        with self._changed:
            self._waits.append(wait)
        try:
            self._notify()
            return self._await_answer(wait)
        finally:
            with self._changed:
                self._waits.remove(wait)
            self._notify()

    def _runs_unasked(self, call: Entry, tool: Tool | None, scopes: _Scopes) -> bool:
        function = call.tool_name if tool is None else tool.function
        if any(each in (call.tool_name, tool, function) for each in self._free):
            return True
        if self.permits is not None and self.permits(call, tool) is True:
            return True
        return scopes.always in self._always or scopes.turn in self._in_turn

    def reason(self, call: Entry) -> str:
        """The person's reason for denying this call; empty without one."""
        return self._reasons.pop(_key(call), "")

    @property
    def waiting(self) -> tuple[PendingCall, ...]:
        """The calls that wait, the oldest first; each has `approve()` and `deny()`."""
        with self._changed:
            return tuple(w.pending for w in self._waits if w.is_approved is None)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Send the waiting calls now and on each change; returns how to unsubscribe."""
        self._subscribers.append(subscriber)
        subscriber(self.waiting)
        return lambda: self._subscribers.remove(subscriber)

    def approve(
        self,
        ticket: str,
        *,
        always: bool = False,
        turn: bool = False,
        draft: str | None = None,
    ) -> None:
        """Let the waiting call with this ticket run.

        With `always` later calls of this tool in this session run too, with `turn`
        those of its group until the answer is complete. A `draft` is what the person
        has made of the preview's. Raises NbchatError when no such call waits, unless it
        was approved before.
        """
        self._decide(ticket, is_approved=True, always=always, turn=turn, draft=draft)

    def deny(self, ticket: str, reason: str = "") -> None:
        """Refuse the waiting call with this ticket; raises as `approve` does."""
        self._decide(ticket, is_approved=False, reason=reason)

    def begin(self, session: Session, stop: threading.Event) -> None:
        """Start a turn that `stop` ends; another session forgets every "always".

        Call it only while no other turn runs: that turn's stop would be lost.
        """
        with self._changed:
            self._in_turn.clear()
            self._reasons.clear()
            if session is not self._session:
                self._always.clear()
            self._session, self._stop = session, stop

    def wake(self) -> None:
        """Check the turn's `stop` again; call it after setting it."""
        with self._changed:
            self._changed.notify_all()

    def _await_answer(self, wait: _Wait) -> bool:
        with self._changed:
            stop = self._stop
            self._changed.wait_for(
                lambda: wait.is_approved is not None or stop.is_set()
            )
            if wait.is_approved is None:
                raise Stopped("stopped")
            return wait.is_approved

    def _decide(
        self,
        ticket: str,
        *,
        is_approved: bool,
        always: bool = False,
        turn: bool = False,
        draft: str | None = None,
        reason: str = "",
    ) -> None:
        with self._changed:
            waits = {w.pending.ticket: w for w in self._waits if w.is_approved is None}
            if (wait := waits.get(ticket)) is not None:
                if draft is not None:
                    _take(wait.pending, draft)
                if reason.strip():
                    self._reasons[_key(wait.pending.call)] = reason.strip()
                if always:
                    self._always.append(wait.scopes.always)
                if turn:
                    self._in_turn.append(wait.scopes.turn)
                self._settle(wait, is_approved=is_approved)
            elif self._decisions.get(ticket) is not is_approved:
                ids = {wait.pending.call.tool_id for wait in waits.values()}
                raise NbchatError(_refusal(ticket, is_call_id=ticket in ids))

    def _settle(self, wait: _Wait, *, is_approved: bool) -> None:
        wait.is_approved = is_approved
        self._decisions[wait.pending.ticket] = is_approved
        if len(self._decisions) > DECISIONS_KEPT:
            del self._decisions[next(iter(self._decisions))]
        self._changed.notify_all()

    def _notify(self) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(self.waiting)
        if self._listener is not None:
            self._listener(self.waiting)


def _key(call: Entry) -> str:
    """Key of a call within its turn; equal calls have equal keys."""
    return f"{call.tool_id} {call.tool_name} {call.tool_args}"


def _take(pending: PendingCall, draft: str) -> None:
    """Apply a person's edit of a call."""
    preview = pending.preview
    if preview is None or preview.take is None:
        raise NbchatError("This call can't be edited. Deny it with a reason.")
    if draft != preview.draft:
        preview.take(draft)


def _refusal(ticket: str, *, is_call_id: bool) -> str:
    if is_call_id:
        return (
            f"{ticket!r} is the id of a call, not its ticket. Use the ticket, or "
            "approve() or deny() of an item of Approvals.waiting."
        )
    return f"No tool call with the ticket {ticket!r} is waiting for approval."


class CurrentApprovals:
    """Follows the approvals of a chat whose agent, or its `approve`, may change."""

    def __init__(self, approve: Callable[[], object], subscriber: Subscriber) -> None:
        """`approve` returns what the agent asks now."""
        self._approve = approve
        self._subscriber = subscriber
        self._followed: Approvals | None = None
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def current(self) -> Approvals | None:
        """The approvals that the agent asks now; None if it asks no person."""
        return approvals_of(self._approve())

    def refresh(self) -> None:
        """Follow the approvals that the agent asks now."""
        current = self.current
        if current is self._followed:
            return
        self.close()
        self._followed = current
        if current is None:
            self._subscriber(())
        else:
            self._unsubscribe = current.subscribe(self._subscriber)

    def close(self) -> None:
        """Send nothing more to the subscriber."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._followed = self._unsubscribe = None

    def decide(self, decision: Callable[[Approvals], object]) -> None:
        """Approve or deny a call; does nothing if it no longer waits."""
        with suppress(NbchatError):
            if (current := self.current) is not None:
                decision(current)


def approvals_of(approve: object) -> Approvals | None:
    """An agent's `approve` if it is an Approvals; None for any other function."""
    return approve if isinstance(approve, Approvals) else None


def checked_approve(approve: Approve) -> Approve:
    """Return an agent's `approve` argument; raises ConfigError if it's invalid."""
    is_function = callable(approve) and not isinstance(approve, type)
    if approve is None or isinstance(approve, bool) or is_function:
        return approve
    is_class = isinstance(approve, type)
    shown = f"the class {approve.__name__}" if is_class else type(approve).__name__
    raise ConfigError(
        f"approve= got {shown}. Pass Approvals(), a function that returns True or "
        "False, or True or False itself."
    )


def is_approved(
    call: Entry,
    *,
    approve: Callable[..., object] | bool,
    tool: Tool,
    agent: object,
    stop: threading.Event | None,
) -> bool:
    """Return whether a call may run; awaits async functions, and only True approves."""
    if isinstance(approve, bool):
        return approve
    ask: Callable[[], object] = partial(approve, call)
    if isinstance(approve, Approvals):
        ask = partial(approve, call, tool=tool, agent=agent)
    answer = answer_of(ask, stop)
    if not isinstance(answer, bool):
        name = getattr(approve, "__qualname__", type(approve).__name__)
        _warn_of_answer(name, type(answer).__name__)
    return answer is True


@lru_cache(100)
def _warn_of_answer(function: str, kind: str) -> None:
    """Warn once that a function returns neither True nor False."""
    logger.warning(
        "approve=%s returned a value of type %s, so the call was denied. Return True "
        "to approve and False to deny.",
        function,
        kind,
    )
