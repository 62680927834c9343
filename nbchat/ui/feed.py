"""From the screen to the views: numbered batches, at most 25 a second.

A message per token would be dropped by the Jupyter server above 1,000 a second, and a
view that lost one shows half an answer for ever. So operations are batched (the first
at once, the rest every 40 ms) and numbered; a view that misses one asks for all.
"""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from nbchat.events import Event
from nbchat.ui.screen import Operation, Screen
from nbchat.worker import WorkerEvent

INTERVAL_SECONDS = 0.04

Send = Callable[[dict[str, Any]], None]


class Feed:
    """Keeps the views up to date from a thread of its own."""

    def __init__(self, screen: Screen, send: Send) -> None:
        """Send nothing before the first event."""
        self._screen = screen
        self._send = send
        self._changed = threading.Condition()
        self._pending: list[Operation] = []
        self._sequence = 0
        self._context = copy_context()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def put(self, event: Event | WorkerEvent) -> None:
        """Show an event in every view, soon."""
        self.change(lambda screen: screen.fold(event))

    def change(self, step: Callable[[Screen], list[Operation]]) -> None:
        """Change the screen, and every view soon after."""
        with self._changed:
            for operation in step(self._screen):
                self._append(operation)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._loop, name="nbchat-feed", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def answer_here(self) -> None:
        """From now on batches answer to the message that is being handled.

        ipykernel 7.4 delivers the next click to the subshell that the last message
        answered to; without this it would wait for the cell that is running.
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

    def _append(self, operation: Operation) -> None:
        """Neighbouring pieces of one text travel as one."""
        last = self._pending[-1] if self._pending else {}
        if operation["op"] == "text" == last.get("op") and (
            operation["kind"] == last["kind"]
        ):
            joined = last["text"] + operation["text"]
            self._pending[-1] = {**operation, "text": joined}
        else:
            self._pending.append(operation)

    def _loop(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closed.is_set())
                self._flush()
            self._closed.wait(INTERVAL_SECONDS)

    def _flush(self) -> None:
        if self._pending:
            self._sequence += 1
            events, self._pending = self._pending, []
            batch = {"type": "events", "seq": self._sequence, "events": events}
            self._context.run(self._send, batch)
