"""Try failed requests again, within a server's rate limits, used to the full.

One `Limiter` for each address is shared by all agents and threads of a process, and
through a store by all processes. It lets requests start some time apart: measured where
the server refused, and then shortened until it refuses again. Where answers tell how
many requests and tokens are left, requests wait before they would be refused.
"""

import logging
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import count
from threading import Event as Flag
from typing import Protocol

from nbchat.conversation.events import (
    Delta,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
)
from nbchat.errors import ProviderError, RateLimited, Stopped, StoreError
from nbchat.providers.base import (
    Provider,
    Reply,
    ReplyStream,
    Request,
    RequestOptions,
    ServedProvider,
    most_bytes,
)
from nbchat.providers.tokens import TOKEN_BYTES

logger = logging.getLogger(__name__)

ATTEMPTS = 4
PATIENCE_SECONDS = 600.0
"""From the first request to the last attempt, with a busy server's waits."""

RATE_ATTEMPTS = 8
"""For rate limits, which many workers share: their server is well, only busy."""

FIRST_WAIT_SECONDS = 0.5

FIRST_INTERVAL_SECONDS = 0.1
"""Between requests after the first refusal, until one is measured."""

SHORTEST_INTERVAL_SECONDS = 0.005
"""Below it requests are no longer held back."""

CAUTION = 1.05
"""How much longer than an interval that was refused the next one is, at least."""

MORE_TOKENS, MOST_MORE = 1.1, 2.0
"""Times the tokens estimated by length that are expected after each refusal which the
headers explain, and the most: a reserve, which costs little."""

NEARER = 0.9
"""Share that each accepted request leaves of the distance to the refused interval:
the pace is tested again after some 20 requests, which costs one of them."""

DOUBT = 0.999
"""Share that it leaves of the refused interval itself, for limits that are raised."""

LONGEST_PAUSE_SECONDS = 30.0
"""Without a request, where the server does not say how long it refuses all."""

FORGOTTEN_SECONDS = 120.0
"""Without a request for so long, what was learned is forgotten."""

LONGEST_WAIT_SECONDS = 60.0
"""A longer wait is an error, for a person should know of it."""

UNSHARED_SECONDS = 60.0
"""For how long a process keeps its own pace after the store has failed."""

MOST_STARTS = 1_000
"""Requests whose tokens are remembered until an answer counts them."""

LIMITED = ("requests", "tokens", "input-tokens", "output-tokens")
"""The limits in the names of headers."""

LIMIT_HEADERS = ("limit", "remaining")

DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:(\d+)ms)?")
"""A time until a limit is reset, as OpenAI writes it: 6m0s, 1.5s, 20ms."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How far apart requests start, and what that was learned from; in seconds.

    A limit is measured from the first request that was accepted after a refusal to the
    first one after the next refusal: that time, divided by the requests accepted in it.
    Whatever the server asks a refused request to wait, and whether it counts in a
    second or a minute, this is what it lets through.
    """

    interval: float = 0.0
    refused_interval: float = 0.0
    """The interval at which the server refused last."""
    last_start: float = 0.0
    blocked_until: float = 0.0
    learned_at: float = 0.0
    """Requests that started before teach nothing new."""
    refused_at: float = 0.0
    """When the last series of accepted requests ended."""
    refusals: int = 0
    """In a row, since a request was accepted."""
    since: float = 0.0
    accepted: int = 0
    """The series of accepted requests that began at `since`. While the server refuses,
    it is the series before, which is not measured yet."""

    @property
    def is_limited(self) -> bool:
        """True if requests are held back."""
        return bool(self.interval or self.refusals)

    @property
    def next_start(self) -> float:
        """When the next request may start."""
        return max(self.last_start + self.interval, self.blocked_until)

    def is_forgotten(self, now: float) -> bool:
        """True if it is too old; or of another clock, where it is of the future."""
        newest = max(self.last_start, self.learned_at)
        return not -FORGOTTEN_SECONDS < now - newest < FORGOTTEN_SECONDS

    def after_refusal(self, now: float, started: float, wait: float | None) -> "Pace":
        """The pace after a request was refused, which may have to wait so long.

        A server's wait is often a whole second, or that of a long window. So while
        others are accepted only the refused request waits as long as it says.
        """
        if started < self.learned_at:
            return self
        pace, is_first = replace(self, learned_at=now), not self.refusals
        if is_first:
            pace = replace(
                pace,
                interval=self.interval * CAUTION or FIRST_INTERVAL_SECONDS,
                refused_interval=self.interval,
                refused_at=now,
            )
        if is_first and self.interval:
            wait = self.interval
        elif wait is None:
            longer = max(pace.interval, FIRST_INTERVAL_SECONDS) * 2**self.refusals
            wait = min(longer, LONGEST_PAUSE_SECONDS)
        pace = replace(pace, refusals=self.refusals + 1)
        return pace.blocked(now + wait) if wait <= LONGEST_WAIT_SECONDS else pace

    def blocked(self, until: float) -> "Pace":
        """The pace with no request before `until`."""
        return replace(self, blocked_until=max(self.blocked_until, until))

    def after_answer(self, now: float, started: float) -> "Pace":
        """The pace after a request was accepted."""
        if not self.refusals or started < self.refused_at:
            pace = self if self.refusals else self._shortened()
            since = min(self.since or started, started)
            return replace(pace, since=since, accepted=self.accepted + 1)
        interval = self.interval
        if self.accepted:
            measured = (started - self.since) / self.accepted
            interval = max(measured, self.refused_interval * CAUTION)
        learned = replace(self, refusals=0, interval=interval, learned_at=now)
        return replace(learned, since=started, accepted=1)

    def _shortened(self) -> "Pace":
        """With the next requests a little earlier.

        Half as far apart after a second, as long as no interval was too short.
        """
        if refused := self.refused_interval:
            interval = refused + (self.interval - refused) * NEARER
        else:
            interval = self.interval * 0.5 ** min(self.interval, 1.0)
        if interval < SHORTEST_INTERVAL_SECONDS:
            interval = refused = 0.0
        return replace(self, interval=interval, refused_interval=refused * DOUBT)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The rest of a limit by a server's headers, and how much is added in a second.

    As a bucket that fills steadily, which is how OpenAI and Anthropic count.
    """

    limit: float
    left: float
    """Below 0 is what is owed."""
    seen_at: float
    added: float
    full_in: float
    """Seconds until it is full, from which `added` was found: more are more exact."""
    told_at: float
    """When the request started whose answer told it."""

    def left_at(self, now: float) -> float:
        """How much is left at a time."""
        return min(self.limit, self.left + (now - self.seen_at) * self.added)

    def wait_for(self, needed: float, now: float) -> float:
        """Seconds until so much is left, or all that ever is; 0 for over a minute."""
        missing = min(needed, self.limit) - self.left_at(now)
        wait = CAUTION * missing / self.added  # clocks differ a little
        return wait if 0 < wait <= LONGEST_WAIT_SECONDS else 0.0

    def with_rate_of(self, known: "Allowance | None") -> "Allowance":
        """The allowance with the rate that was known, where that is more exact."""
        if not known or known.limit != self.limit or known.full_in < self.full_in:
            return self
        return replace(self, added=known.added, full_in=known.full_in)

    def without(self, used: float, now: float) -> "Allowance":
        """The rest after a request."""
        return replace(self, left=self.left_at(now) - used, seen_at=now)


class SharedPace(Protocol):
    """A pace that processes share, kept in a store."""

    def change(self, change: Callable[[Pace], Pace]) -> Pace:
        """Replace the pace in one transaction; raises StoreError."""


@dataclass(frozen=True, slots=True)
class _Start:
    at: float
    model: str
    tokens: int


class Limiter:
    """Holds requests to one server back, so that it need not refuse them.

    Safe for several threads.
    """

    def __init__(
        self, address: str = "", clock: Callable[[], float] | None = None
    ) -> None:
        """`clock` tells the time in seconds, in all processes alike."""
        self.now = clock or _steady_clock()
        self._address = address
        self._lock = threading.Lock()
        self._pace = Pace()
        self._shared: SharedPace | None = None
        self._shared_again_at = 0.0
        self._unshared: list[float] = []
        """When requests started whose answers the shared pace does not know yet."""
        self._allowances: dict[tuple[str, str], Allowance] = {}
        self._starts: deque[_Start] = deque(maxlen=MOST_STARTS)
        self._spent_at = 0.0
        """When a refusal showed that less was left; 0 after a later answer."""
        self._more = 1.0
        """Times the estimated tokens that are expected."""

    def share(self, pace_of: Callable[[str], SharedPace]) -> None:
        """Keep the pace that processes share for an address, from now on."""
        with self._lock:
            if self._shared is None:
                self._shared = pace_of(self._address)
                self._change(lambda known: known)

    @property
    def counts_tokens(self) -> bool:
        """True if the server tells how many tokens are left."""
        return any(name != "requests" for _, name in self._allowances)

    def start(self, model: str = "", tokens: int = 0) -> float:
        """Start a request now, or return the seconds to wait before asking again."""
        with self._lock:
            now, tokens = self.now(), int(tokens * self._more)
            if self._pace.is_forgotten(now):
                self._pace = Pace()
            wait = max(self._pace.next_start - now, self._wait_for(model, tokens, now))
            if wait > 0:
                return wait
            if self._pace.is_limited and self._shared is not None:
                wait = self._started_with_others(now)
            else:
                self._pace = replace(self._pace, last_start=now)
            if wait <= 0:
                self._use(model, tokens, now)
            return wait

    def refused(
        self, started: float, wait_seconds: float | None, model: str = ""
    ) -> None:
        """Learn from a refusal of a request for too many requests."""
        with self._lock:
            now, was_limited = self.now(), self._pace.is_limited
            if self._is_explained(started, model, now):
                return

            def learned(pace: Pace) -> Pace:
                if pace.is_limited and not was_limited:
                    return pace  # other processes know more
                return pace.after_refusal(now, started, wait_seconds)

            self._change(learned)

    def observe(
        self, headers: Mapping[str, str], started: float, model: str = ""
    ) -> None:
        """Learn from an answer and its headers: how much is left, and until when."""
        with self._lock:
            now = self.now()
            if self._shared is not None and self._pace.is_limited:
                self._unshared.append(started)  # else it would undo what others changed
            else:
                self._pace = self._pace.after_answer(now, started)
            if started >= self._spent_at:
                self._spent_at = 0.0
            found = allowances(headers, started)
            for name, each in found.items():
                allowance = each.with_rate_of(self._allowances.get((model, name)))
                used = self._used_since(started, model, name)
                self._allowances[model, name] = allowance.without(used, now)
            wait = None if found else reset_after(headers)
            if wait is not None and wait <= LONGEST_WAIT_SECONDS:
                self._pace = self._pace.blocked(now + wait)

    def _is_explained(self, started: float, model: str, now: float) -> bool:
        """True if a limit that headers tell explains a refusal: then it is spent.

        For what was started since it was told is only estimated. So others wait for
        that limit, and not as long as the refused request has to. A request that is
        refused even then has met a limit that no header tells.
        """
        if self._spent_at:
            return started < self._spent_at
        for (of, name), allowance in self._allowances.items():
            left = allowance.left_at(now)
            if of == model and left < self._used_since(allowance.told_at, of, name):
                spent = replace(allowance, left=min(left, 0), seen_at=now)
                self._allowances[of, name] = spent
                self._spent_at = now
        if not self._spent_at:
            return False
        self._more = min(self._more * MORE_TOKENS, MOST_MORE)
        return True

    def _used_since(self, told_at: float, model: str, name: str) -> float:
        """The part of a limit for what started since it was told, as estimated."""
        later = (e for e in self._starts if e.at > told_at and e.model == model)
        return sum(_needed(name, each.tokens) for each in later)

    def _wait_for(self, model: str, tokens: int, now: float) -> float:
        waits = (
            allowance.wait_for(_needed(name, tokens), now)
            for (of, name), allowance in self._allowances.items()
            if of == model
        )
        return max(waits, default=0.0)

    def _use(self, model: str, tokens: int, now: float) -> None:
        if not self._allowances:
            return
        self._starts.append(_Start(now, model, tokens))
        for (of, name), allowance in self._allowances.items():
            if of == model:
                used = _needed(name, tokens)
                self._allowances[of, name] = allowance.without(used, now)

    def _started_with_others(self, now: float) -> float:
        """Start a request unless another process has; returns the seconds to wait."""
        waits: list[float] = []

        def started(pace: Pace) -> Pace:
            waits.append(pace.next_start - now)
            return pace if waits[-1] > 0 else replace(pace, last_start=now)

        self._change(started)
        return waits[-1]

    def _change(self, change: Callable[[Pace], Pace]) -> None:
        """Change the shared pace, with what was answered since; or else one's own."""
        now, own, answered = self.now(), self._pace, self._unshared

        def changed(shared: Pace) -> Pace:
            is_known = shared.learned_at and not shared.is_forgotten(now)
            is_old = not is_known or shared.learned_at < own.learned_at
            pace = own if is_old else shared
            for started in answered:
                pace = pace.after_answer(now, started)
            return change(pace)

        if self._shared is not None and now >= self._shared_again_at:
            try:
                self._pace = self._shared.change(changed)
            except StoreError as error:
                logger.debug("the pace of requests isn't shared: %s", error)
                self._shared_again_at = now + UNSHARED_SECONDS
            else:
                self._unshared = []
                return
        self._pace, self._unshared = changed(own), []


def _steady_clock() -> Callable[[], float]:
    """The time of day as it is now, which never jumps later."""
    origin = time.time() - time.monotonic()
    return lambda: origin + time.monotonic()


def _needed(name: str, tokens: int) -> float:
    """A request's part of an allowance; the length of its answer is not known."""
    return tokens if name in ("tokens", "input-tokens") else 1


@cache
def limiter_of(address: str) -> Limiter:
    """The limiter of a server; the same for all agents of this process."""
    return Limiter(address)


def allowances(headers: Mapping[str, str], at: float) -> dict[str, Allowance]:
    """The rest by name, where the headers also tell how fast it fills again."""
    found = {}
    for name in LIMITED:
        limit, left, reset = _limit_of(headers, name)
        if limit > left >= 0 and reset > 0:
            found[name] = Allowance(limit, left, at, (limit - left) / reset, reset, at)
    return found


def reset_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until limits with nothing left are reset; None if some is left of all."""
    resets = [
        reset
        for _, left, reset in (_limit_of(headers, name) for name in LIMITED)
        if left == 0 and reset >= 0
    ]
    return max(resets, default=None)


def _limit_of(headers: Mapping[str, str], name: str) -> tuple[float, float, float]:
    """A limit, what is left of it, and seconds until it is full; -1 where unknown.

    Of `x-ratelimit-*` (OpenAI and others) or `anthropic-ratelimit-*`.
    """
    others, anthropic = "x-ratelimit-{}-" + name, f"anthropic-ratelimit-{name}-{{}}"
    form = anthropic if anthropic.format("remaining") in headers else others
    limit, left = (_number(headers.get(form.format(e), "")) for e in LIMIT_HEADERS)
    return limit, left, _duration(headers.get(form.format("reset"), ""))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


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


def _duration(text: str) -> float:
    """Seconds of `6m0s` or `5`, or until a date in ISO 8601; -1 for anything else."""
    if (found := DURATION.fullmatch(text.strip())) and any(found.groups()):
        with suppress(ValueError):
            hours, minutes, seconds, thousandths = (
                float(n or 0) for n in found.groups()
            )
            return hours * 3_600 + minutes * 60 + seconds + thousandths / 1_000
    with suppress(ValueError):
        return _seconds_until(datetime.fromisoformat(text))
    return _number(text)


def _seconds_until(moment: datetime) -> float:
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())


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

    Where the reply is `live`, only while no text of it has arrived. A reply that isn't,
    such as a summary, is read only once it's whole: its deltas are held back, and a
    broken stream is asked for again. Full jitter (AWS Architecture Blog, "Exponential
    Backoff And Jitter"); a server's Retry-After of up to a minute is honoured, a longer
    one is an error at once.
    """
    limiter = provider.limiter if isinstance(provider, ServedProvider) else Limiter()
    began = time.monotonic()
    for attempt in count(1):
        started = _started(limiter, provider, request, stop)
        attempted = _Attempt(provider.stream(request, stop=stop), live=live)
        try:
            reply = yield from attempted.deltas()
        except ProviderError as error:
            if isinstance(error, RateLimited):
                model = request.model or provider.name
                limiter.refused(started, error.retry_after, model)
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
