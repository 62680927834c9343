"""Requests to the page that shows the panel in its notebook.

All views of a panel hear a request, and one acts: that where the person typed or
approved last, so that a turn stays with one page. Another page may show the notebook
too, without what was done here; that is said in a line.
"""

import queue
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from nbchat.conversation.tools import is_stopped
from nbchat.errors import NbchatError, Stopped
from nbchat.jupyter.panel.protocol import NotebookAnswer

FIND_SECONDS = 3.0
"""How long a page with the notebook may take to answer that it is there."""

ANSWER_SECONDS = 10.0

BEGIN_SHARE = 0.8
"""Of the time for an answer, after which a page no longer begins to act.

It reads its own clock when it is found, and again before it acts: a page that was
frozen in between does nothing after its answer is given up.
"""

STEP_SECONDS = 0.1
"""Interval at which a stop is noticed."""

FINDS_KEPT = 8

NO_PAGE = (
    "No open page shows this notebook with the chat panel. Open it in JupyterLab or "
    "Notebook and run %chat."
)

OTHER_TAB = "Another tab shows a different version of this notebook."

Details = Mapping[str, str | int | bool | None]
"""Fields of a request."""

NOTHING: Details = MappingProxyType({})


class Reply:
    """Answer of a view to one request."""

    def __init__(
        self, token: str, view: str, arrived: "queue.SimpleQueue[NotebookAnswer]"
    ) -> None:
        self.token = token
        self.view = view
        self._arrived = arrived

    def wait(self, seconds: float) -> NotebookAnswer | None:
        """The next answer; None if none comes. Raises Stopped when the turn stops."""
        until = time.monotonic() + seconds
        while not is_stopped():
            left = until - time.monotonic()
            try:
                return self._arrived.get(timeout=max(0.0, min(STEP_SECONDS, left)))
            except queue.Empty:
                if left <= 0:
                    return None
        raise Stopped("stopped")


class PageRequests:
    """Requests to the views of one panel, to act in the notebook of one of them."""

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        find_seconds: float = FIND_SECONDS,
    ) -> None:
        """`send` sends a message to all views."""
        self.answer_seconds = ANSWER_SECONDS
        self._send = send
        self._find_seconds = find_seconds
        self._waiting: dict[str, queue.SimpleQueue[NotebookAnswer]] = {}
        self._view = ""
        """Where the person typed or approved last."""
        self._is_told = False
        """True once the model was told that another page shows other sources."""
        self._finds: dict[str, dict[str, NotebookAnswer]] = {}
        """Answers of views to the last search for one, including late ones."""

    def stay_with(self, view: str) -> None:
        """Act from now on in the view where the person has typed or approved."""
        if view:
            self._view, self._is_told = view, False

    def begin_with(self, view: str) -> None:
        """Act in this view until the person types in one."""
        self._view = self._view or view

    def ask_soon(
        self, action: str, details: Details = NOTHING, *, seconds: float
    ) -> NotebookAnswer | None:
        """The answer of the known view; None if it doesn't come in time."""
        if not self._view:
            return None
        with self._sent(action, self._view, details) as reply:
            answer = reply.wait(seconds)
        return None if answer is None or answer.problem else answer

    def ask(
        self,
        action: str,
        details: Details = NOTHING,
        *,
        view: str = "",
    ) -> NotebookAnswer:
        """Have the view act, and return its answer, which may be a problem.

        Raises NbchatError where no view has the notebook and when the answer takes
        longer than `answer_seconds`, and Stopped.
        """
        with self.asking(action, details, view=view) as reply:
            answer = reply.wait(self.answer_seconds)
        if answer is None:
            raise NbchatError(
                f"The notebook's page didn't answer within {self.answer_seconds:g} s."
            )
        return answer

    @contextmanager
    def asking(
        self, action: str, details: Details = NOTHING, *, view: str = ""
    ) -> Iterator[Reply]:
        """Have the view act, or another `view`; its answer may be awaited in steps."""
        found = self._found(view)
        until = found.clock + int(BEGIN_SHARE * 1000 * self.answer_seconds)
        with self._sent(action, found.view, {**details, "until": until}) as reply:
            yield reply

    def find(self) -> str:
        """The view to ask; raises NbchatError where none has the notebook."""
        return self._found("").view

    def _found(self, view: str) -> NotebookAnswer:
        """The answer of this view, or of the one to ask, that it is there."""
        wanted = view or self._view
        until = time.monotonic() + self._find_seconds
        with self._sent("find", "", {}) as reply:
            found = self._finds[reply.token]
            while not found or (wanted and wanted not in found):
                if reply.wait(until - time.monotonic()) is None:
                    break
        if not found or (view and view not in found):
            raise NbchatError(NO_PAGE)
        if not view and self._view not in found:
            self._view = next(iter(found))
        return found[view or self._view]

    def is_there(self, view: str) -> bool:
        """True if a view still answers."""
        until = time.monotonic() + self._find_seconds
        with self._sent("find", "", {}) as reply:
            while (answer := reply.wait(until - time.monotonic())) is not None:
                if answer.view == view:
                    return True
        return False

    def tell(self, action: str, view: str) -> None:
        """Have a view act, without waiting for its answer."""
        with self._sent(action, view, {}):
            pass

    def other_tab(self) -> str:
        """One line, once, if another page shows other sources of this notebook.

        A page in the background answers late, perhaps to an earlier request.
        """
        answered = [each for each in self._finds.values() if self._view in each]
        found = next((each for each in reversed(answered) if len(each) > 1), {})
        ours = found.get(self._view)
        is_behind = ours is not None and any(
            each.path == ours.path and each.digest != ours.digest
            for each in found.values()
        )
        if not is_behind or self._is_told:
            return ""
        self._is_told = True
        return OTHER_TAB

    def identify(self, notebook_id: str) -> str:
        """Give the notebook an id if it has none; returns its id.

        Raises NbchatError where no view has the notebook.
        """
        return self.ask("identify", {"notebook_id": notebook_id}).notebook_id

    @contextmanager
    def notice(self, text: str) -> Iterator[Reply]:
        """Show a line in all views while it waits; answered when a person withdraws."""
        with self._sent("notice", "", {"source": text}) as reply:
            try:
                yield reply
            finally:
                clear = {"action": "notice", "view": "", "token": reply.token}
                self._send({"type": "notebook", **clear, "source": ""})

    def receive(self, answer: NotebookAnswer) -> None:
        """Take a view's answer, unless nothing waits for it any more."""
        if (found := self._finds.get(answer.token)) is not None:
            found[answer.view] = answer
        if (waiting := self._waiting.get(answer.token)) is not None:
            waiting.put(answer)

    @contextmanager
    def _sent(self, action: str, view: str, details: Details) -> Iterator[Reply]:
        token = secrets.token_hex(8)
        arrived = self._waiting[token] = queue.SimpleQueue()
        if action == "find":
            self._finds = {
                **dict(list(self._finds.items())[1 - FINDS_KEPT :]),
                token: {},
            }
        asked = {"action": action, "view": view, "token": token, **details}
        try:
            self._send({"type": "notebook", **asked})
            yield Reply(token, view, arrived)
        finally:
            del self._waiting[token]
