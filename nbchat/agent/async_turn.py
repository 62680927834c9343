"""Run a turn from an event loop, in a thread of its own.

Cancelling the task that waits for an event stops the turn, which ends its request.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from weakref import finalize

from nbchat.conversation.events import Event
from nbchat.conversation.tool_runs import CALLERS_LOOP

CANCEL_SECONDS = 2.0
"""How long a cancelled task waits for its turn to end: a request ends in 0.1 s, a plain
function that a tool runs when it returns."""

Work = Callable[[], object]


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
        self._inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        finalize(self, self._inbox.put, None)  # ends the thread
        _starter(os.getpid()).put(partial(_work_off, self._inbox))

    def __aiter__(self) -> "AsyncEvents":
        """The rest of the events."""
        return self

    async def __anext__(self) -> Event:
        """Run the turn up to its next event."""
        event = await self._awaited(partial(next, self._running, None))
        if event is None:
            raise StopAsyncIteration
        return event

    async def run_rest(self) -> None:
        """Run the turn to its end in one go: the loop is not woken for each event."""
        await self._awaited(self._run_rest)

    async def _awaited(self, work: Callable[[], Event | None]) -> Event | None:
        """The result of work on the turn's thread; a cancelled task stops the turn."""
        try:
            return await self._on_thread(work)
        except asyncio.CancelledError:
            self._cancel()
            with suppress(asyncio.CancelledError):
                rest = self._on_thread(self._run_rest)
                await asyncio.wait([rest], timeout=CANCEL_SECONDS)
            raise

    def _on_thread(
        self, work: Callable[[], Event | None]
    ) -> "asyncio.Future[Event | None]":
        future: asyncio.Future[Event | None] = self._loop.create_future()

        def run() -> None:
            result, error = None, None
            try:
                result = self._context.run(work)
            except BaseException as caught:  # noqa: BLE001  # raised by the awaiting task
                error = caught
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(_settle, future, result, error)

        self._inbox.put(run)
        return future

    def _run_rest(self) -> None:
        for _ in self._running:
            pass


def _settle(
    future: "asyncio.Future[Event | None]",
    result: Event | None,
    error: BaseException | None,
) -> None:
    if future.done():  # it was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _work_off(inbox: "queue.SimpleQueue[Work | None]") -> None:
    """Do the work of one turn as it comes, until there is no more."""
    while (work := inbox.get()) is not None:
        work()
        del work  # it holds the turn, whose end ends this thread


@cache
def _starter(_process: int) -> "queue.SimpleQueue[Work]":
    """Starts threads: that waits for each of them, so no event loop should do it."""
    wanted: queue.SimpleQueue[Work] = queue.SimpleQueue()

    def start_all() -> None:
        while True:
            work = wanted.get()
            threading.Thread(target=work, name="nbchat-turn", daemon=True).start()
            del work

    threading.Thread(target=start_all, name="nbchat-starter", daemon=True).start()
    return wanted
