"""Tool calls that wait for a person's word: where they wait, and how they are answered.

    approvals = Approvals()
    agent = Agent(tools=[refund], approve=approvals)      # its turn waits in here
    approvals.approve(call.tool_id)                       # from any other thread

One room serves one chat; the panel, a cell and Jupyter Server all answer here.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from nbchat.errors import NbchatError, Stopped
from nbchat.history import Entry
from nbchat.recall import TOOL_NAME
from nbchat.session import Session


@dataclass(eq=False, slots=True)
class _Wait:
    """A call that waits, and its answer as soon as there is one."""

    call: Entry
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
        self._waits: list[_Wait] = []
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
        wait = _Wait(call)
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
    def waiting(self) -> tuple[Entry, ...]:
        """The calls that wait, the oldest first."""
        with self._changed:
            return tuple(w.call for w in self._waits if w.is_approved is None)

    def approve(self, call_id: str, *, always: bool = False) -> None:
        """Let a call run, with `always` this tool's later ones in this session, too.

        Raises NbchatError when no call of that id waits.
        """
        call = self._decide(call_id, is_approved=True)
        if always:
            self._always.add(call.tool_name)

    def deny(self, call_id: str) -> None:
        """Let a call not run; raises NbchatError when no call of that id waits."""
        self._decide(call_id, is_approved=False)

    def begin(self, session: Session, stop: threading.Event) -> None:
        """A turn begins, which `stop` ends; another session forgets every "always"."""
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

    def _decide(self, call_id: str, *, is_approved: bool) -> Entry:
        with self._changed:
            for wait in self._waits:
                if wait.call.tool_id == call_id and wait.is_approved is None:
                    wait.is_approved = is_approved
                    self._changed.notify_all()
                    return wait.call
        raise NbchatError(f"no tool call {call_id!r} waits for an answer")

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener(self.waiting)


def room_of(approve: object) -> Approvals | None:
    """Where calls wait that `approve` is asked for; None if it is another function."""
    return approve if isinstance(approve, Approvals) else None
