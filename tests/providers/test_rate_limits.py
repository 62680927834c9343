"""Many workers within one server's rate limits."""

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from fault_server import (
    FaultServer,
    OpenAIDialect,
    Recorded,
    Response,
    failure,
)

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Compacted, RetryScheduled, TurnFinished
from nbchat.errors import ContextOverflow, RateLimited, Stopped
from nbchat.providers.base import Request
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.providers.retries import (
    FIRST_INTERVAL_SECONDS,
    Limiter,
    Turn,
    limiter_of,
    reset_after,
    retry_after,
    stream_with_retries,
)

WIRE = OpenAIDialect()
HELLO = Request((Entry("user", "Hello"),))


class LimitedServer(FaultServer):
    """Answers some requests in each period, and refuses the others."""

    def __init__(self, allowed: int, period_seconds: float, *, tells: bool) -> None:
        super().__init__()
        self.refused = 0
        self._allowed, self._period, self._tells = allowed, period_seconds, tells
        self._lock = threading.Lock()
        self._answered: deque[float] = deque()

    def next_response(self, request: Recorded) -> Response:
        with self._lock:
            now = time.monotonic()
            while self._answered and self._answered[0] <= now - self._period:
                self._answered.popleft()
            if len(self._answered) < self._allowed:
                self._answered.append(now)
                return WIRE.text("Done.")
            self.refused += 1
            wait = {"Retry_After": f"{self._period}"} if self._tells else {}
            return failure(429, {"message": "slow down"}, **wait)


def ticket(server: FaultServer) -> str:
    """A ticket's own agent, and its answer."""
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1", window=100_000)
    return str(Agent(provider).ask("Triage this ticket."))


def answered(server: LimitedServer, tickets: int, workers: int) -> list[str]:
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda _: ticket(server), range(tickets)))


@pytest.mark.slow
@pytest.mark.parametrize("tells", [True, False])
def test_all_tickets_are_answered_where_a_server_allows_few_at_a_time(tells):
    """Ten times faster than a server of 4 requests a second; all else is the same."""
    server = LimitedServer(4, 0.1, tells=tells)
    assert answered(server, 12, 8) == ["Done."] * 12
    server.close()
    assert server.refused < 12


@pytest.mark.slow
def test_64_tickets_by_16_workers_at_4_requests_a_second():
    """Eight times faster than such a server; all else is the same."""
    server = LimitedServer(4, 0.125, tells=True)
    assert answered(server, 64, 16) == ["Done."] * 64
    server.close()
    assert server.refused < 64


def test_workers_that_were_refused_together_do_not_come_back_together():
    limiter = Limiter()
    turns = [limiter.next_turn() for _ in range(16)]
    for turn in turns:
        limiter.refused(turn, 1.0)
    waits = [limiter.next_turn().wait_seconds for _ in range(16)]
    gaps = [b - a for a, b in itertools.pairwise(waits)]
    assert waits[0] == pytest.approx(1.0, abs=0.05)
    assert gaps == pytest.approx([FIRST_INTERVAL_SECONDS] * 15, abs=0.02)


class LimitedDesk:
    """Sixteen workers and a server with a limit, in a time of their own.

    The server takes `limit` requests in any second.
    """

    def __init__(self, limit: int, retry_after: float | None) -> None:
        self.limit, self.retry_after = limit, retry_after
        self.now = 1_000.0
        self.limiter = Limiter(lambda: self.now)
        self.taken: deque[float] = deque()
        self.steps: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.answered = 0

    def later(self, at: float, step: Callable[[], None]) -> None:
        heapq.heappush(self.steps, (at, next(self.numbers), step))

    def want(self) -> None:
        turn = self.limiter.next_turn()
        self.later(turn.starts_at, lambda: self.start(turn))

    def start(self, turn: Turn) -> None:
        if not self.limiter.is_open():
            self.want()
            return
        while self.taken and self.now - self.taken[0] >= 1:
            self.taken.popleft()
        if len(self.taken) == self.limit:
            self.limiter.refused(turn, self.retry_after)
            self.later(self.now + (self.retry_after or 0.5), self.want)
            return
        self.taken.append(self.now)
        self.limiter.observe({})
        self.later(self.now + 0.05, self.end)

    def end(self) -> None:
        self.limiter.accepted()
        self.answered += 1
        self.want()

    def seconds_for(self, requests: int) -> float:
        for _ in range(16):
            self.want()
        while self.answered < requests:
            self.now, _, step = heapq.heappop(self.steps)
            step()
        return self.now - 1_000


@pytest.mark.parametrize("wait", [1.0, None])
@pytest.mark.parametrize("limit", [4, 20])
def test_many_workers_use_a_rate_limit_nearly_to_the_full(
    limit: int, wait: float | None
):
    assert LimitedDesk(limit, wait).seconds_for(50 * limit) < 1.3 * 50


def test_a_pace_that_was_learned_is_forgotten_with_answers():
    limiter = Limiter()
    limiter.refused(limiter.next_turn(), None)
    first, second = limiter.next_turn(), limiter.next_turn()
    interval = second.starts_at - first.starts_at
    assert interval == pytest.approx(FIRST_INTERVAL_SECONDS, abs=0.01)
    for _ in range(300):
        limiter.accepted()
    first, second = limiter.next_turn(), limiter.next_turn()
    assert second.starts_at - first.starts_at == pytest.approx(0, abs=0.01)


def test_a_wait_of_an_hour_is_an_error_and_holds_no_later_request_up(server):
    server.script(failure(429, Retry_After="3600"), WIRE.text("ok"))
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1")
    with pytest.raises(RateLimited, match="3600"):
        list(stream_with_retries(provider, HELLO))
    started = time.monotonic()
    list(stream_with_retries(provider, HELLO))
    assert time.monotonic() - started < 5


def test_all_agents_of_a_server_share_its_limiter(server):
    url = f"{server.url}/v1"
    one, two = OpenAIProvider("m", base_url=url), ResponsesProvider("n", base_url=url)
    assert one.limiter is two.limiter is limiter_of(url)
    assert one.limiter is not OpenAIProvider("m", base_url="http://127.0.0.1:1").limiter


def test_after_the_last_allowed_request_the_next_waits_for_the_reset(server):
    spent = {
        "Content-Type": "text/event-stream",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "200ms",
    }
    first = WIRE.text("One")
    server.script(Response(first.events, 200, spent), WIRE.text("Two"))
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1")
    list(stream_with_retries(provider, HELLO))
    started = time.monotonic()
    list(stream_with_retries(provider, HELLO))
    assert time.monotonic() - started > 0.1


def test_stop_ends_the_wait_for_a_turn(server):
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1")
    provider.limiter.refused(provider.limiter.next_turn(), 30.0)
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        list(stream_with_retries(provider, HELLO, stop=stop))
    assert time.monotonic() - started < 10
    assert server.requests == []


def test_a_retry_after_has_jitter_and_is_never_shortened(server):
    server.script(*[failure(529, Retry_After="0.02")] * 3, WIRE.text("ok"))
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1")
    shown = list(stream_with_retries(provider, HELLO))
    waits = [each.wait_seconds for each in shown if isinstance(each, RetryScheduled)]
    assert len({*waits}) == 3
    assert all(0.02 <= wait <= 0.04 for wait in waits)


TOO_LARGE = (
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit "
    "30000, Requested 41000. The input or output tokens must be reduced in order to run "
    "successfully."
)


def test_a_request_too_large_for_a_minute_is_compacted_and_not_repeated(server):
    error = {"message": TOO_LARGE, "type": "tokens", "code": "rate_limit_exceeded"}
    server.script(failure(429, error), WIRE.text("Done."))
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1", window=100_000)
    agent = Agent(provider, engine=CompactionEngine(policy="extractive"))
    for number in range(6):
        agent.session.append(Entry("user", f"Question {number} " + "of words " * 50))
        agent.session.append(Entry("assistant", f"Answer {number}"))
    events = list(agent.run("Go on."))
    assert any(isinstance(event, Compacted) for event in events)
    assert events[-1] == TurnFinished("end_turn", 1)
    assert len(server.requests) == 2


def test_a_request_that_fits_a_minute_is_only_limited(server):
    words = (
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used "
        "29000, Requested 8000. Please try again in 14s."
    )
    server.script(failure(429, {"message": words, "code": "rate_limit_exceeded"}))
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1")
    with pytest.raises(RateLimited):
        list(provider.stream(HELLO))
    server.script(failure(429, {"message": TOO_LARGE}))
    with pytest.raises(ContextOverflow):
        list(provider.stream(HELLO))


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "-7"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "soon"}, None),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1m2.5s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "20ms",
            },
            62.5,
        ),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "5s"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "?"}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": in_seconds(36_000),
            },
            36_000,
        ),
    ],
)
def test_a_wait_is_read_from_any_header(headers, expected):
    found = retry_after(headers)
    assert found == (None if expected is None else pytest.approx(expected, rel=0.1))
    is_reset = expected is not None and "retry-after" not in headers
    assert (reset_after(headers) is not None) == is_reset
