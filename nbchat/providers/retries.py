"""Try failed requests again, within rate limits; read streams until Stop is pressed.

All requests of this process are kept within a server's rate limits: one `Limiter` for
each address is shared by all agents and threads. It learns from refusals how far apart
requests must start, and waits as long as the server asks.
"""

import queue
import random
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import count
from threading import Event as Flag
from typing import Generic, Protocol, TypeVar, runtime_checkable

from nbchat.conversation.events import (
    Delta,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
)
from nbchat.errors import ProviderError, RateLimited, Stopped
from nbchat.providers.base import Provider, Reply, ReplyStream, Request
from nbchat.providers.closable_http import Line, using
from nbchat.providers.request_options import RequestOptions

FIRST_INTERVAL_SECONDS = 0.1
"""Between two requests after the first refusal; doubled by each further one."""

LONGEST_INTERVAL_SECONDS = 30.0
SHORTEST_INTERVAL_SECONDS = 0.005
"""Below it requests are no longer held back."""

RECOVERY, DOUBT, CAUTION = 0.985, 0.998, 1.05
"""Factors of the interval after each request that was accepted, of the interval that
was refused, below which it does not fall, and of the interval after a refusal. Of 48
combinations these lost the least time on servers with 1, 4 and 20 requests a second,
with and without Retry-After: 1.01 to 1.19 times the ideal from 4 on."""

LEAST_SPAN_SECONDS = 1.0
"""Limits are for a second at least: a burst says nothing of a shorter time."""

FORGOTTEN_SECONDS = 120.0
"""Without a request for so long, what was learned is forgotten."""

DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:(\d+)ms)?")
"""A time until a limit is reset, as OpenAI writes it: 6m0s, 1.5s, 20ms."""

LONGEST_WAIT_SECONDS = 60.0
"""A longer wait is an error, for a person should know of it."""

LIMITED = ("requests", "tokens", "input-tokens", "output-tokens")
"""What is limited, in the names of headers."""

ATTEMPTS = 4
PATIENCE_SECONDS = 600.0
"""From the first request to the last attempt, with a busy server's waits."""

RATE_ATTEMPTS = 8
"""For rate limits, which many workers share: their server is well, only busy."""

FIRST_WAIT_SECONDS = 0.5

STEP_SECONDS = 0.05
"""How often `stop` is checked while the server is silent."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Turn:
    """When a request may start, and how long that is from now, in seconds."""

    starts_at: float
    wait_seconds: float


class Limiter:
    """Holds requests to one server back, so that it need not refuse them.

    Safe for several threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells the time in seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._interval = 0.0
        self._next_start = 0.0
        self._blocked_until = 0.0
        self._learned_at = 0.0
        self._refused_interval = 0.0
        """The interval that was too short, which slowly is tried again."""
        self._since = 0.0
        self._accepted = 0
        """Requests that were accepted since the last refusal, or the first of them."""

    def next_turn(self) -> Turn:
        """Take the next turn; wait for it, then ask `is_open`."""
        with self._lock:
            now = self._clock()
            if now - max(self._learned_at, self._next_start) > FORGOTTEN_SECONDS:
                self._interval = self._refused_interval = 0.0
                self._since, self._accepted = now, 0
            start = max(now, self._next_start, self._blocked_until)
            self._next_start = start + self._interval
            return Turn(start, start - now)

    def is_open(self) -> bool:
        """Whether the server has asked for no wait since the turn was taken."""
        with self._lock:
            return self._clock() >= self._blocked_until

    def refused(self, turn: Turn, wait_seconds: float | None) -> None:
        """Learn from a refusal for too many requests.

        Requests that had started before the last refusal teach nothing new. While
        others are accepted, only the refused one waits as long as the server asks.
        """
        with self._lock:
            now, wait = self._clock(), wait_seconds or 0.0
            is_new, is_working = turn.starts_at >= self._learned_at, self._accepted > 0
            if self._interval and is_working:
                wait = min(wait, 2 * self._interval) if is_new else 0.0
            if is_new:
                self._learn(now, wait)
            self._block(now, wait)
            self._next_start = max(self._next_start, self._blocked_until)

    def _learn(self, now: float, wait: float) -> None:
        """Set the interval to that at which requests were accepted in the end."""
        is_same = now - self._learned_at < LEAST_SPAN_SECONDS
        if self._accepted and self._interval:
            self._refused_interval = self._interval
            self._interval *= CAUTION
        elif self._accepted:
            span = max(now + wait - self._since, LEAST_SPAN_SECONDS)
            self._interval = span / self._accepted
        elif not is_same:
            self._refused_interval = self._interval
            doubled = max(self._interval * 2, FIRST_INTERVAL_SECONDS)
            self._interval = min(doubled, LONGEST_INTERVAL_SECONDS)
        else:
            return
        self._learned_at, self._since, self._accepted = now, now + wait, 0

    def accepted(self) -> None:
        """Let the next requests start a little earlier."""
        with self._lock:
            self._interval = max(self._interval * RECOVERY, self._refused_interval)
            self._refused_interval *= DOUBT
            if self._interval < SHORTEST_INTERVAL_SECONDS:
                self._interval = self._refused_interval = 0.0

    def observe(self, headers: Mapping[str, str]) -> None:
        """Read the headers of an answer: nothing is left, and until when."""
        wait = reset_after(headers)
        with self._lock:
            self._accepted += 1
            if wait is not None:
                self._block(self._clock(), wait)

    def _block(self, now: float, seconds: float) -> None:
        if seconds <= LONGEST_WAIT_SECONDS:
            self._blocked_until = max(self._blocked_until, now + seconds)


@cache
def limiter_of(address: str) -> Limiter:
    """The limiter of a server; the same for all agents of this process."""
    del address
    return Limiter()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by Retry-After, a number or a date, else until a reset."""
    with suppress(ValueError):
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1_000)
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError):
        return _seconds_until(parsedate_to_datetime(value))
    return reset_after(headers)


def reset_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until limits with nothing left are reset; None if some is left of all.

    Of `x-ratelimit-*` (OpenAI and others) and `anthropic-ratelimit-*`.
    """
    waits = []
    for name in LIMITED:
        for left, reset in (
            (f"x-ratelimit-remaining-{name}", f"x-ratelimit-reset-{name}"),
            (
                f"anthropic-ratelimit-{name}-remaining",
                f"anthropic-ratelimit-{name}-reset",
            ),
        ):
            if headers.get(left, "").strip() == "0":
                waits.append(_duration(headers.get(reset, "")))
    known = [wait for wait in waits if wait is not None]
    return max(known, default=None)


def with_jitter(seconds: float, spread: float) -> float:
    """A wait, and a random part of `spread` more, so that workers do not collide."""
    return seconds + random.uniform(0, spread)  # noqa: S311  # no secret


def _duration(text: str) -> float | None:
    """Seconds of `6m0s` or until a date in ISO 8601; None for anything else."""
    if (found := DURATION.fullmatch(text.strip())) and any(found.groups()):
        with suppress(ValueError):
            hours, minutes, seconds, thousandths = (
                float(n or 0) for n in found.groups()
            )
            return hours * 3_600 + minutes * 60 + seconds + thousandths / 1_000
    with suppress(ValueError):
        return _seconds_until(datetime.fromisoformat(text))
    return None


def _seconds_until(moment: datetime) -> float:
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())


@runtime_checkable
class SupportsLimiter(Protocol):
    """A provider whose server may limit the rate of requests."""

    @property
    def limiter(self) -> Limiter:
        """The limiter that all requests to the server share."""


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
        turn = _take_turn(limiter, stop)
        attempted = _Attempt(provider.stream(request, stop=stop), live=live)
        try:
            reply = yield from attempted.deltas()
        except ProviderError as error:
            if isinstance(error, RateLimited):
                limiter.refused(turn, error.retry_after)
            wait = _wait_seconds(error, attempt)
            is_late = time.monotonic() + wait - began > _patience(request.options)
            has_shown = attempted.has_shown and not request.answer_tag
            if has_shown or is_late or not _may_retry(error, attempt, request.options):
                yield from attempted.held
                raise
        else:
            limiter.accepted()
            return reply
        yield RetryScheduled(attempt, wait, attempted.fault)
        _pause(wait, stop)
    raise AssertionError("unreachable: the last attempt returns or raises")


class _Attempt:
    """One attempt to get a reply, with what has arrived of it."""

    def __init__(self, stream: ReplyStream, *, live: bool) -> None:
        self._stream, self._live = stream, live
        self.held: list[Delta] = []
        """What has arrived and was not yielded."""
        self.has_shown = False
        """Whether a person may have read a part of the answer."""
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
