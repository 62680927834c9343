"""Ask an open page of the panel to do something in its notebook, and wait for it.

Only the page has JupyterLab's document: its cells as they are now, its undo, and the
edits of other users. All views hear a request, but one that acts is done by one view.
"""

import queue
import secrets
from collections.abc import Callable
from typing import Any

from nbchat.errors import NbchatError
from nbchat.jupyter.panel.protocol import NotebookAnswer, NotebookCell

FIND_SECONDS = 3.0
"""How long a page with the notebook may take to answer that it is there."""

NO_PAGE = (
    "no open page shows this notebook with the chat panel, or its notebook cannot be "
    "edited; open it in JupyterLab or Notebook and run %chat"
)

Answers = queue.SimpleQueue[NotebookAnswer]


class PageRequests:
    """Requests to the views of one panel."""

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        find_seconds: float = FIND_SECONDS,
    ) -> None:
        """`send` sends a message to all views."""
        self._send = send
        self._find_seconds = find_seconds
        self._waiting: dict[str, Answers] = {}

    def ask(
        self, action: str, *, timeout_seconds: float, **details: str | None
    ) -> tuple[NotebookCell, ...]:
        """Have one view act, and return the cells that it answers with.

        Raises NbchatError where no view has the notebook, where it refuses, and when
        the answer takes longer than the timeout.
        """
        return self._acted(action, timeout_seconds, details).cells

    def _acted(
        self, action: str, timeout_seconds: float, details: dict[str, str | None]
    ) -> NotebookAnswer:
        """What the view answers that has the notebook."""
        found = self._answer("find", "", self._find_seconds, {})
        if found is None:
            raise NbchatError(NO_PAGE)
        answer = self._answer(action, found.view, timeout_seconds, details)
        if answer is None:
            raise NbchatError(
                f"the notebook's page did not answer within {timeout_seconds:g} s; "
                "a running cell continues"
            )
        if answer.problem:
            raise NbchatError(answer.problem)
        return answer

    def identify(self, notebook_id: str) -> str:
        """Give the notebook an id if it has none; returns its id.

        Raises NbchatError where no view has the notebook.
        """
        details: dict[str, str | None] = {"notebook_id": notebook_id}
        return self._acted("identify", self._find_seconds, details).notebook_id

    def receive(self, answer: NotebookAnswer) -> None:
        """Take a view's answer, unless nothing waits for it any more."""
        if (waiting := self._waiting.get(answer.token)) is not None:
            waiting.put(answer)

    def _answer(
        self, action: str, view: str, seconds: float, details: dict[str, str | None]
    ) -> NotebookAnswer | None:
        token = secrets.token_hex(8)
        arrived = self._waiting[token] = queue.SimpleQueue()
        asked = {"action": action, "view": view, "token": token, **details}
        try:
            self._send({"type": "notebook", **asked})
            return arrived.get(timeout=seconds)
        except queue.Empty:
            return None
        finally:
            del self._waiting[token]
