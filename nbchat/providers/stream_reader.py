"""How a blocking stream is read so that Stop works while the server says nothing.

A thread reads the stream; the reader waits in short steps and can leave at any moment,
by the stop flag, by KeyboardInterrupt or by closing the generator. The thread then
closes the stream with its next item, which ends the request on the server.
"""

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from nbchat.errors import Stopped

STEP_SECONDS = 0.05

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _End:
    """The stream is over, by this fault if there is one."""

    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Got(Generic[Item]):
    item: Item


def read_stream(
    open_stream: Callable[[], AbstractContextManager[Iterable[Item]]],
    stop: threading.Event | None,
) -> Generator[Item, None, None]:
    """The items of a stream read in a thread; raises as reading did, or Stopped."""
    arrived: queue.SimpleQueue[_Got[Item] | _End] = queue.SimpleQueue()
    abandoned = threading.Event()

    def read() -> None:
        try:
            with open_stream() as stream:
                for item in stream:
                    if abandoned.is_set():
                        return
                    arrived.put(_Got(item))
        except BaseException as error:  # noqa: BLE001  # raised again by the reader
            arrived.put(_End(error))
        else:
            arrived.put(_End())

    threading.Thread(target=read, name="nbchat-stream", daemon=True).start()
    try:
        while isinstance(message := _next(arrived, stop), _Got):
            yield message.item
        if message.error is not None:
            raise message.error
    finally:
        abandoned.set()


def _next(
    arrived: "queue.SimpleQueue[_Got[Item] | _End]", stop: threading.Event | None
) -> _Got[Item] | _End:
    while True:
        if stop is not None and stop.is_set():
            raise Stopped("stopped")
        try:
            return arrived.get(timeout=STEP_SECONDS)
        except queue.Empty:
            continue
