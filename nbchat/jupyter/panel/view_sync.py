"""Keeps views in sync with the panel's state: numbered batches, at most 30 a second.

The Jupyter server drops messages above 1,000 a second, and a view that lost one would
show half an answer. So operations are batched and numbered, and a view that misses a
batch asks for a snapshot. The first batch is sent at once; a long stream goes in fewer
batches, for Jupyter adds 600 bytes to each.
"""

import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from nbchat.jupyter.panel.transcript import Operation

logger = logging.getLogger(__name__)

SHORTEST_SECONDS = 0.034
LONGEST_SECONDS = 0.1
GROWTH = 1.2
"""Factor by which the pause between batches grows: half a second to the longest."""

Send = Callable[[dict[str, Any]], None]


class ViewSync:
    """Sends operations to all views from its own thread."""

    def __init__(
        self,
        snapshot: Callable[[], dict[str, Any]],
        page: Callable[[int], dict[str, Any]],
        send: Send,
    ) -> None:
        """Read `snapshot` and `page` under the same lock as every change."""
        self._snapshot = snapshot
        self._page = page
        self._send = send
        self._changed = threading.Condition()
        self._pending: list[Operation] = []
        self._pages_asked: list[tuple[str, int]] = []
        self._sequence = 0
        self._context = copy_context()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def change(
        self, step: Callable[..., list[Operation]], *arguments: Any, **options: Any
    ) -> None:
        """Change the state, and every view soon after."""
        with self._changed:
            for operation in step(*arguments, **options):
                self._append(operation)
            self._wake()

    def show_earlier(self, token: str, before: int) -> None:
        """Send a view, soon, the items before its oldest one."""
        with self._changed:
            self._pages_asked.append((token, before))
            self._wake()

    def reply_here(self) -> None:
        """From now on batches reply to the message that is being received.

        Where ipykernel chooses the next click's subshell (see `_route_to_sender`) it
        takes the one that was replied to last; without this that could be a cell's.
        """
        with self._changed:
            self._context = copy_context()

    def show(self, *, is_new: bool = False) -> None:
        """Send a snapshot: the view that asks draws nothing until one has come.

        `is_new` for the first view after a cell has shown the panel.
        """
        with self._changed:
            self._flush()
            snapshot = self._snapshot()
            head = {"type": "snapshot", "seq": self._sequence, "is_new": is_new}
            self._send({**head, **snapshot})

    def close(self) -> None:
        """Send what is left and end the thread."""
        with self._changed:
            self._closed.set()
            self._flush()
            self._changed.notify()

    @property
    def is_flushed(self) -> bool:
        """True when all operations were sent."""
        return not self._pending

    def _wake(self) -> None:
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._loop, name="nbchat-view-sync", daemon=True
            )
            self._thread.start()
        self._changed.notify()

    def _append(self, operation: Operation) -> None:
        """Join neighbouring pieces of one text."""
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
                self._try_flush()
            self._closed.wait(pause)

    def _try_flush(self) -> None:
        """Continue after a batch that could not be sent: views notice the gap."""
        try:
            self._flush()
        except Exception:
            logger.exception("a batch for the panel could not be sent")

    def _is_due(self) -> bool:
        return bool(self._pending or self._pages_asked or self._closed.is_set())

    def _flush(self) -> None:
        if self._pending:
            self._sequence += 1
            events, self._pending = self._pending, []
            batch = {"type": "events", "seq": self._sequence, "events": events}
            self._context.run(self._send, batch)
        while self._pages_asked:  # here, so that no batch overtakes what it changes
            token, before = self._pages_asked.pop(0)
            page = {"type": "earlier_page", **self._page(before), "token": token}
            self._context.run(self._send, page)
