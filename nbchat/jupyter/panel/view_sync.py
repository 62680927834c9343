"""From the screen to the views: numbered batches, at most 30 a second.

A message per token would be dropped by the Jupyter server above 1,000 a second, and a
view that lost one shows half an answer for ever. So operations are batched and
numbered; a view that misses one asks for all. The first goes at once; while there is
always more they go less often, for Jupyter wraps each in 600 bytes of its own.
"""

import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from nbchat.chat.runner import RunnerEvent
from nbchat.conversation.events import Event
from nbchat.jupyter.panel.view_model.screen import Screen
from nbchat.jupyter.panel.view_model.transcript import Operation

logger = logging.getLogger(__name__)

SHORTEST_SECONDS = 0.034
LONGEST_SECONDS = 0.1
GROWTH = 1.2
"""Of the pause between batches, which half a second of text takes to its longest."""

Send = Callable[[dict[str, Any]], None]


class Feed:
    """Keeps the views up to date from a thread of its own."""

    def __init__(self, screen: Screen, send: Send) -> None:
        """Send nothing before the first event."""
        self._screen = screen
        self._send = send
        self._changed = threading.Condition()
        self._pending: list[Operation] = []
        self._asked: list[tuple[str, int]] = []
        self._sequence = 0
        self._context = copy_context()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def put(self, event: Event | RunnerEvent) -> None:
        """Show an event in every view, soon."""
        self.change(lambda screen: screen.fold(event))

    def change(self, step: Callable[[Screen], list[Operation]]) -> None:
        """Change the screen, and every view soon after."""
        with self._changed:
            for operation in step(self._screen):
                self._append(operation)
            self._wake()

    def show_earlier(self, token: str, before: int) -> None:
        """Answer, soon, a view that asks for the items before its oldest one."""
        with self._changed:
            self._asked.append((token, before))
            self._wake()

    def answer_here(self) -> None:
        """From now on batches answer to the message that is being handled.

        Where ipykernel chooses the next click's subshell (see `_hear_where_sent`) it
        takes the one answered last; without this that could be a cell's.
        """
        with self._changed:
            self._context = copy_context()

    def show(self, *, known: int | None = None) -> None:
        """Send everything, unless the view that asks knows the newest batch already."""
        with self._changed:
            self._flush()
            if known != self._sequence:
                snapshot = self._screen.snapshot()
                self._send({"type": "snapshot", "seq": self._sequence, **snapshot})

    def close(self) -> None:
        """Send what is left and end the thread."""
        with self._changed:
            self._closed.set()
            self._flush()
            self._changed.notify()

    def _wake(self) -> None:
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._loop, name="nbchat-feed", daemon=True
            )
            self._thread.start()
        self._changed.notify()

    def _append(self, operation: Operation) -> None:
        """Neighbouring pieces of one text travel as one."""
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
                self._survive_flush()
            self._closed.wait(pause)

    def _survive_flush(self) -> None:
        """Go on after a batch that could not be sent: views notice the gap."""
        try:
            self._flush()
        except Exception:
            logger.exception("a batch for the panel could not be sent")

    def _is_due(self) -> bool:
        return bool(self._pending or self._asked or self._closed.is_set())

    def _flush(self) -> None:
        if self._pending:
            self._sequence += 1
            events, self._pending = self._pending, []
            batch = {"type": "events", "seq": self._sequence, "events": events}
            self._context.run(self._send, batch)
        while self._asked:  # here, so that no batch overtakes what it changes
            token, before = self._asked.pop(0)
            page = {"type": "earlier_page", **self._screen.page(before), "token": token}
            self._context.run(self._send, page)
