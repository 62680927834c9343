"""Drive a turn from an event loop: one thread for each turn, the same engine.

Cancelling the task that waits for an event stops the turn, which ends its request.
"""

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context

from nbchat.conversation.events import Event
from nbchat.conversation.tool_runs import CALLERS_LOOP

CANCEL_SECONDS = 2.0
"""How long a cancelled task waits for its turn to end: a request ends in 0.1 s, a plain
function that a tool runs when it returns."""


class AsyncEvents:
    """The events of a running turn, for `async for`; made on the event loop."""

    def __init__(
        self, running: Generator[Event, None, None], cancel: Callable[[], object]
    ) -> None:
        """`cancel` asks the turn to stop."""
        self._running = running
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._context.run(CALLERS_LOOP.set, self._loop)
        self._thread = ThreadPoolExecutor(1, "nbchat-turn")

    def __aiter__(self) -> "AsyncEvents":
        """The rest of the events."""
        return self

    async def __anext__(self) -> Event:
        """Run the turn up to its next event."""
        try:
            event = await self._on_thread(self._next)
        except asyncio.CancelledError:
            self._cancel()
            with suppress(asyncio.CancelledError):
                rest = self._on_thread(self._run_rest)
                await asyncio.wait([rest], timeout=CANCEL_SECONDS)
            self._thread.shutdown(wait=False)
            raise
        if event is None:
            self._thread.shutdown(wait=False)
            raise StopAsyncIteration
        return event

    def _on_thread(
        self, work: Callable[[], Event | None]
    ) -> "asyncio.Future[Event | None]":
        return self._loop.run_in_executor(self._thread, self._context.run, work)

    def _next(self) -> Event | None:
        return next(self._running, None)

    def _run_rest(self) -> None:
        for _ in self._running:
            pass
