"""Run a tool's function to its end: plain, async or a generator, with a timeout.

A coroutine runs on the event loop of the caller if the chat was begun there with
`await`, else on a loop of our own, so that async tools work in every chat.
"""

import asyncio
import inspect
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Event as Flag

from nbchat.errors import NbchatError, Stopped

MOST_ITEMS, MOST_CHARACTERS = 10_000, 200_000
"""What is taken from a generator, which may not end."""

STEP_SECONDS = 0.05
"""How often the stop and the timeout are checked."""

CALLERS_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "callers_loop", default=None
)
"""The event loop on which a chat was awaited."""


class ToolTimeout(NbchatError):
    """A tool took too long."""


def finished(
    call: Callable[[], object],
    timeout_seconds: float | None = None,
    stop: Flag | None = None,
) -> object:
    """What a call returns in the end: a coroutine's result, a generator's items.

    Raises what it raises, ToolTimeout, or Stopped where it can be left: coroutines are
    cancelled, a plain function with a timeout continues in its thread.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    if deadline is not None and not _is_async(call):
        return _in_thread(lambda: _collected(call()), deadline, timeout_seconds, stop)
    value = call()
    if inspect.isasyncgen(value):
        value = _all_of(value)
    if inspect.iscoroutine(value):
        future = asyncio.run_coroutine_threadsafe(value, _loop())
        try:
            return _result(future, deadline, timeout_seconds, stop)
        except BaseException:
            future.cancel()
            raise
    return _collected(value)


def _collected(value: object) -> object:
    return _all_items(value) if isinstance(value, Iterator) else value


def _all_items(items: Iterable[object]) -> object:
    """All items of a generator: one text if all are texts, else a list."""
    found: list[object] = []
    length = 0
    for item in items:
        found.append(item)
        length += len(item) if isinstance(item, str) else 1
        if len(found) >= MOST_ITEMS or length > MOST_CHARACTERS:
            break
    if found and all(isinstance(item, str) for item in found):
        return "".join(map(str, found))
    return found


def _is_async(call: Callable[[], object]) -> bool:
    function = getattr(call, "func", call)
    plain = getattr(function, "__call__", function)  # noqa: B004  # of an object
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for each in (function, plain)
    )


async def _all_of(items: AsyncIterator[object]) -> object:
    found: list[object] = []
    async for item in items:
        found.append(item)
        if len(found) >= MOST_ITEMS:
            break
    return _all_items(found)


def _in_thread(
    call: Callable[[], object],
    deadline: float,
    timeout_seconds: float | None,
    stop: Flag | None,
) -> object:
    """Call on a thread of its own, with the context variables of this one."""
    future: Future[object] = Future()
    context = copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001  # raised again by the caller
            future.set_exception(error)

    threading.Thread(target=work, name="nbchat-tool", daemon=True).start()
    return _result(future, deadline, timeout_seconds, stop)


def _result(
    future: "Future[object]",
    deadline: float | None,
    timeout_seconds: float | None,
    stop: Flag | None,
) -> object:
    arrived: queue.SimpleQueue[None] = queue.SimpleQueue()
    future.add_done_callback(lambda _future: arrived.put(None))
    while not future.done():
        if stop is not None and stop.is_set():
            raise Stopped("stopped")
        if deadline is not None and time.monotonic() >= deadline:
            raise ToolTimeout(
                f"no result within {timeout_seconds:g} s; whether it had an effect is "
                "unknown"
            )
        try:
            arrived.get(timeout=STEP_SECONDS)
        except queue.Empty:
            continue
    try:
        return future.result()
    except CancelledError:
        raise NbchatError("the tool was cancelled") from None


def _loop() -> asyncio.AbstractEventLoop:
    callers = CALLERS_LOOP.get()
    is_here = callers is not None and callers.is_running()
    if is_here and callers is not _running_loop():
        return callers  # type: ignore[return-value]  # checked above
    return _own_loop(os.getpid())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@cache
def _own_loop(_process: int) -> asyncio.AbstractEventLoop:
    """A loop on a thread of its own, one for each process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="nbchat-loop", daemon=True).start()
    return loop
