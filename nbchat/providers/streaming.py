"""Read a provider's stream so that Stop works at once, and retry failed requests."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from itertools import count
from threading import Event as Flag
from typing import Generic, Protocol, TypeVar, runtime_checkable

from nbchat.conversation.events import RetryScheduled
from nbchat.errors import ProviderError, RateLimited, Stopped
from nbchat.providers.base import Provider, Reply, ReplyStream, Request
from nbchat.providers.closable_http import Line, using
from nbchat.providers.rate_limits import (
    LONGEST_WAIT_SECONDS,
    Limiter,
    Turn,
    with_jitter,
)
from nbchat.providers.request_options import RequestOptions

ATTEMPTS = 4
PATIENCE_SECONDS = 600.0
"""From the first request to the last attempt, with a busy server's waits."""

RATE_ATTEMPTS = 8
"""For rate limits, which many workers share: their server is well, only busy."""

FIRST_WAIT_SECONDS = 0.5

STEP_SECONDS = 0.05
"""How often `stop` is checked while the server is silent."""

Item = TypeVar("Item")


@runtime_checkable
class SupportsLimiter(Protocol):
    """A provider whose server may limit the rate of requests."""

    @property
    def limiter(self) -> Limiter:
        """The limiter that all requests to the server share."""


def stream_with_retries(
    provider: Provider, request: Request, *, stop: Flag | None = None
) -> ReplyStream:
    """Stream a reply; retry passing failures after a visible wait.

    Only while no delta has arrived; a summary, which nothing shows as it arrives, also
    later. Full jitter (AWS Architecture Blog, "Exponential
    Backoff And Jitter"); a server's Retry-After of up to a minute is honoured, a longer
    one is an error at once.
    """
    limiter = provider.limiter if isinstance(provider, SupportsLimiter) else Limiter()
    began = time.monotonic()
    for attempt in count(1):
        turn = _take_turn(limiter, stop)
        has_shown = False
        stream = provider.stream(request, stop=stop)
        try:
            while True:
                try:
                    delta = next(stream)
                except StopIteration as finished:
                    limiter.accepted()
                    reply: Reply = finished.value
                    return reply
                has_shown = not request.answer_tag
                yield delta
        except ProviderError as error:
            if isinstance(error, RateLimited):
                limiter.refused(turn, error.retry_after)
            if has_shown or not _may_retry(error, attempt, request.options):
                raise
            wait = _wait_seconds(error, attempt)
            if time.monotonic() + wait - began > _patience(request.options):
                raise
            yield RetryScheduled(attempt, wait, str(error))
            _pause(wait, stop)
        finally:
            stream.close()
    raise AssertionError("unreachable: the last attempt returns or raises")


def _take_turn(limiter: Limiter, stop: Flag | None) -> Turn:
    """Wait until the server's limits allow a request."""
    while True:
        turn = limiter.next_turn()
        _pause(turn.wait_seconds, stop)
        if limiter.is_open():
            return turn


def read_stream(
    open_stream: Callable[[], AbstractContextManager[Iterable[Item]]],
    stop: Flag | None,
    first_byte_seconds: float | None = None,
) -> Generator[Item, None, None]:
    """The items of a blocking stream, read in a thread; raises its errors, or Stopped.

    `first_byte_seconds` is the longest silence before the first item, if that is not
    the connection's own timeout.

    The caller can leave at any moment, by `stop`, by KeyboardInterrupt or by closing
    the generator. The connection is then closed, which ends the request on the server.
    """
    arrived: queue.SimpleQueue[_Got[Item] | _End] = queue.SimpleQueue()
    line = Line(first_byte_seconds)
    threading.Thread(
        target=_read_all,
        args=(open_stream, line, arrived),
        name="nbchat-stream",
        daemon=True,
    ).start()
    message: _Got[Item] | _End | None = None
    try:
        while isinstance(message := _next(arrived, stop), _Got):
            yield message.item
        if message.error is not None:
            raise message.error
    finally:
        if not isinstance(message, _End):
            line.cut()


def until_stopped(call: Callable[[], Item], stop: Flag | None) -> Item:
    """The result of a request; raises its errors, or Stopped and closes it."""
    with closing(read_stream(lambda: nullcontext([call()]), stop)) as results:
        return next(results)


def _read_all(
    open_stream: Callable[[], AbstractContextManager[Iterable[Item]]],
    line: Line,
    arrived: "queue.SimpleQueue[_Got[Item] | _End]",
) -> None:
    """Put all items of a stream into the queue, and its end, until the line is cut."""
    try:
        with using(line), open_stream() as stream:
            for item in stream:
                line.first_byte_seconds, line.received = None, 0
                if line.is_cut:
                    return
                arrived.put(_Got(item))
    except BaseException as error:  # noqa: BLE001  # raised again by the caller
        arrived.put(_End(error))
    else:
        arrived.put(_End())


def _may_retry(error: ProviderError, attempt: int, options: RequestOptions) -> bool:
    is_too_long = (error.retry_after or 0) > LONGEST_WAIT_SECONDS
    usual = RATE_ATTEMPTS if isinstance(error, RateLimited) else ATTEMPTS
    most = options.get("attempts") or usual
    return error.is_retryable and attempt < most and not is_too_long


def _patience(options: RequestOptions) -> float:
    chosen = options.get("patience_seconds")
    return PATIENCE_SECONDS if chosen is None else chosen


def _wait_seconds(error: ProviderError, attempt: int) -> float:
    """Full jitter; after a Retry-After at most as much again."""
    spread = FIRST_WAIT_SECONDS * 2 ** min(attempt, ATTEMPTS)
    if error.retry_after is None:
        return with_jitter(0.0, spread)
    return with_jitter(error.retry_after, min(error.retry_after, spread))


def _pause(seconds: float, stop: Flag | None) -> None:
    if seconds <= 0:
        return
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Stopped("stopped while waiting to try again")


@dataclass(frozen=True, slots=True)
class _Got(Generic[Item]):
    item: Item


@dataclass(frozen=True, slots=True)
class _End:
    """The end of the stream, with the error that caused it if there is one."""

    error: BaseException | None = None


def _next(
    arrived: "queue.SimpleQueue[_Got[Item] | _End]", stop: Flag | None
) -> _Got[Item] | _End:
    while True:
        if stop is not None and stop.is_set():
            raise Stopped("stopped")
        try:
            return arrived.get(timeout=STEP_SECONDS)
        except queue.Empty:
            continue
