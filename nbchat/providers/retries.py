"""Try failed requests again, within rate limits; read streams until Stop is pressed."""

import queue
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from itertools import count
from threading import Event as Flag
from typing import Generic, TypeVar

from nbchat.conversation.events import (
    Delta,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
)
from nbchat.errors import ProviderError, RateLimited, Stopped
from nbchat.providers.base import (
    Provider,
    Reply,
    ReplyStream,
    Request,
    RequestOptions,
    most_bytes,
)
from nbchat.providers.closable_http import Line, using
from nbchat.providers.rate_limits import (
    LONGEST_WAIT_SECONDS,
    Limiter,
    SupportsLimiter,
)
from nbchat.providers.tokens import TOKEN_BYTES

ATTEMPTS = 4
PATIENCE_SECONDS = 600.0
"""From the first request to the last attempt, with a busy server's waits."""

RATE_ATTEMPTS = 8
"""For rate limits, which many workers share: their server is well, only busy."""

FIRST_WAIT_SECONDS = 0.5

STEP_SECONDS = 0.05
"""How often `stop` is checked while the server is silent."""

Item = TypeVar("Item")


def with_jitter(seconds: float, spread: float) -> float:
    """A wait, and a random part of `spread` more, so that workers do not collide."""
    return seconds + random.uniform(0, spread)  # noqa: S311  # no secret


def stream_with_retries(
    provider: Provider,
    request: Request,
    *,
    stop: Flag | None = None,
    live: bool = True,
) -> ReplyStream:
    """Stream a reply; retry passing failures after a visible wait.

    Where the reply is `live`, only while no text of it has arrived. Else nobody reads
    it as it arrives, as a summary: its deltas are held back until it is whole, and a
    broken stream is asked for again. Full jitter (AWS Architecture Blog, "Exponential
    Backoff And Jitter"); a server's Retry-After of up to a minute is honoured, a longer
    one is an error at once.
    """
    limiter = provider.limiter if isinstance(provider, SupportsLimiter) else Limiter()
    began = time.monotonic()
    for attempt in count(1):
        started = _started(limiter, provider, request, stop)
        attempted = _Attempt(provider.stream(request, stop=stop), live=live)
        try:
            reply = yield from attempted.deltas()
        except ProviderError as error:
            if isinstance(error, RateLimited):
                limiter.refused(started, error.retry_after)
            wait = _wait_seconds(error, attempt)
            is_late = time.monotonic() + wait - began > _patience(request.options)
            has_shown = attempted.has_shown and not request.answer_tag
            if has_shown or is_late or not _may_retry(error, attempt, request.options):
                yield from attempted.held
                raise
        else:
            return reply
        yield RetryScheduled(attempt, wait, attempted.fault)
        _pause(wait, stop)
    raise AssertionError("unreachable: the last attempt returns or raises")


class _Attempt:
    """One attempt to get a reply, with what has arrived of it."""

    def __init__(self, stream: ReplyStream, *, live: bool) -> None:
        self._stream, self._live = stream, live
        self.held: list[Delta] = []
        """Data that has arrived and was not yielded."""
        self.has_shown = False
        """True if a person may have read a part of the answer."""
        self.fault = ""

    def deltas(self) -> ReplyStream:
        """Yield the deltas and return the reply; a partial one stays in `held`."""
        try:
            while True:
                try:
                    delta = next(self._stream)
                except StopIteration as finished:
                    reply: Reply = finished.value
                    yield from self.held
                    return reply
                if not self._live and isinstance(delta, TextDelta | ThinkingDelta):
                    self.held.append(delta)
                    continue
                self.has_shown = self.has_shown or isinstance(delta, TextDelta)
                yield delta
        except (Stopped, KeyboardInterrupt):
            yield from self.held
            raise
        except ProviderError as error:
            self.fault = error.line
            raise
        finally:
            self._stream.close()


def _started(
    limiter: Limiter, provider: Provider, request: Request, stop: Flag | None
) -> float:
    """When the request started, as soon as the server's limits allowed it."""
    model = request.model or provider.name
    tokens = most_bytes(request) // TOKEN_BYTES if limiter.counts_tokens else 0
    while (wait := limiter.start(model, tokens)) > 0:
        _pause(wait, stop)
    return limiter.now()


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
    """Full jitter; after a Retry-After at most as much again.

    None after a rate limit's, as the limiter then lets one request after another start.
    """
    spread = FIRST_WAIT_SECONDS * 2 ** min(attempt, ATTEMPTS)
    if error.retry_after is None:
        return with_jitter(0.0, spread)
    if isinstance(error, RateLimited):
        return error.retry_after
    return with_jitter(error.retry_after, min(error.retry_after, spread))


def _pause(seconds: float, stop: Flag | None) -> None:
    if seconds <= 0:
        return
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Stopped("Stopped while waiting to try again.")


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
