"""Many workers within one server's rate limits."""

import heapq
import itertools
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from at_best import assert_within
from fault_server import (
    EVENT_STREAM,
    AnthropicDialect,
    FaultServer,
    OpenAIDialect,
    Recorded,
    Response,
    failure,
)
from postgres import running_server
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Compacted, RetryScheduled, TurnFinished
from nbchat.errors import ContextOverflow, RateLimited, Stopped
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Request
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.providers.retries import (
    Limiter,
    Pace,
    limiter_of,
    reset_after,
    retry_after,
    stream_with_retries,
)
from nbchat.storage.run_store import Store

WIRE = OpenAIDialect()
SUPPORT = Path(__file__).parents[1] / "support"
HELLO = Request((Entry("user", "Hello"),))
TICKET_TOKENS, TICKETS_A_SECOND = 500, 10

Headers = Callable[[int, float], dict[str, str]]


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
def test_processes_share_a_rate_limit_through_their_store(tmp_path):
    """On both databases, one after the other: a process takes a second to begin."""
    servers = [LimitedServer(8, 0.3, tells=True) for _ in "12"]
    with ExitStack() as stack:
        urls = f"sqlite:///{tmp_path}/runs.db", stack.enter_context(running_server())
        places = [e for s, url in zip(servers, urls, strict=True) for e in (s.url, url)]
        command = [sys.executable, str(SUPPORT / "limited_rows.py")]
        runs = [
            stack.enter_context(
                Popen([*command, name, "20", *places], stdout=PIPE, text=True)
            )
            for name in ("cards", "transfers")
        ]
        told = [run.communicate()[0].split() for run in runs]
        for server, url in zip(servers, urls, strict=True):
            store = Store(url)
            pace = store.shared_pace(f"{server.url}/v1").change(lambda pace: pace)
            assert pace.is_limited
            store.close()
    assert told == [["20", "20"]] * 2
    for server in servers:
        server.close()
        assert server.refused < 2 * 8 + 40 / 4  # all but 8 of the first 16; some later


class KeptPace:
    """A store's pace, in memory."""

    def __init__(self) -> None:
        self.pace = Pace()

    def change(self, change: Callable[[Pace], Pace]) -> Pace:
        self.pace = change(self.pace)
        return self.pace


class LimitedDesk:
    """Sixteen workers of each limiter and a server with a limit, in a time of their own.

    The server takes `limit` requests a second, from a bucket of as many, and tells in
    headers what is left.
    """

    def __init__(
        self,
        limit: int,
        retry_after: float | None,
        headers: Headers,
        processes: int = 1,
    ) -> None:
        self.limit, self.retry_after, self.headers = limit, retry_after, headers
        self.estimated = TICKET_TOKENS
        self.now = 1_000.0
        self.left, self.filled_at = float(limit), self.now
        self.steps: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.answered = self.refused = 0
        self.limiters = [Limiter(clock=lambda: self.now) for _ in range(processes)]
        self.limiter, shared = self.limiters[0], KeptPace()
        for each in self.limiters[1:] and self.limiters:
            each.share(lambda _address: shared)

    def later(self, seconds: float, step: Callable[[], None]) -> None:
        heapq.heappush(self.steps, (self.now + seconds, next(self.numbers), step))

    def ask(self, limiter: Limiter) -> None:
        again = partial(self.ask, limiter)
        if (wait := limiter.start(tokens=self.estimated)) > 0:
            self.later(max(wait, 0.001), again)
            return
        started = self.now
        filled = self.left + (started - self.filled_at) * self.limit
        self.left, self.filled_at = min(self.limit, filled), started
        if self.left < 1:
            self.refused += 1
            self.later(0.02, lambda: limiter.refused(started, self.retry_after))
            self.later(0.02 + (self.retry_after or 0.5), again)
            return
        self.left -= 1
        told = partial(self.headers, self.limit, self.left)
        self.later(0.3, lambda: limiter.observe(told(), started))
        self.later(1.0, lambda: self.end(limiter))

    def end(self, limiter: Limiter) -> None:
        self.answered += 1
        self.ask(limiter)

    def seconds_for(self, requests: int) -> float:
        for number in range(3 * self.limit + 12):
            self.ask(self.limiters[number % len(self.limiters)])
        while self.answered < requests:
            self.now, _, step = heapq.heappop(self.steps)
            step()
        return self.now - 1_000


def nothing_told(_limit: int, _left: float) -> dict[str, str]:
    return {}


@every(("processes", "limit", "wait"), product([1, 3], [1, 4], [1.0, None]))
def test_many_workers_use_a_rate_limit_nearly_to_the_full(
    processes: int, limit: int, wait: float | None
):
    desk = LimitedDesk(limit, wait, nothing_told, processes)
    most = 1.2 if limit > 1 else 1.4  # so few that each refusal counts
    assert desk.seconds_for(50 * limit) < most * 50
    assert desk.refused < 2 * (12 + 3 * limit)  # all but `limit` of the first are


def openai_tells(limit: int, left: float) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": str(limit * TICKET_TOKENS),
        "x-ratelimit-remaining-tokens": str(int(left * TICKET_TOKENS)),
        "x-ratelimit-reset-tokens": f"{(limit - left) / limit * 1_000:.0f}ms",
    }


def anthropic_tells(limit: int, left: float) -> dict[str, str]:
    return {
        "anthropic-ratelimit-input-tokens-limit": str(limit * TICKET_TOKENS),
        "anthropic-ratelimit-input-tokens-remaining": str(int(left * TICKET_TOKENS)),
        "anthropic-ratelimit-input-tokens-reset": in_seconds((limit - left) / limit),
        "anthropic-ratelimit-output-tokens-limit": "16000",
        "anthropic-ratelimit-output-tokens-remaining": "16000",
        "anthropic-ratelimit-output-tokens-reset": in_seconds(0),
    }


@pytest.mark.slow
@pytest.mark.parametrize("tells", [openai_tells, anthropic_tells])
def test_requests_wait_for_the_tokens_that_headers_say_are_left(tells):
    """Where nothing is told, each third request of the first hundred is refused."""
    desk = LimitedDesk(10, 1.0, tells)
    desk.limiter.observe(tells(10, 9), desk.now)
    seconds = desk.seconds_for(300)
    assert desk.refused <= 2
    assert seconds < 1.2 * 30


@pytest.mark.parametrize("tells", [openai_tells, anthropic_tells])
def test_a_request_larger_than_estimated_holds_only_itself_up(tells):
    desk = LimitedDesk(10, 1.0, tells)
    desk.estimated = int(TICKET_TOKENS * 0.8)
    desk.limiter.observe(tells(10, 9), desk.now)
    assert desk.seconds_for(100) < 1.05 * 10
    assert desk.refused <= 10


def test_after_a_refusal_that_headers_explain_others_wait_for_the_told_limit_only():
    now = 1_000.0
    limiter = Limiter(clock=lambda: now)
    limiter.observe(openai_tells(10, 0.9), now)
    now += 0.05
    assert limiter.start(tokens=TICKET_TOKENS) == 0
    limiter.refused(now, 1.0)
    assert 0.05 < limiter.start(tokens=TICKET_TOKENS) < 0.2
    now += 0.2
    assert limiter.start(tokens=TICKET_TOKENS) == 0
    limiter.refused(now, 1.0)  # a limit that no header tells
    assert limiter.start(tokens=TICKET_TOKENS) == pytest.approx(1.0)


def test_a_limit_that_no_header_tells_is_measured_although_others_are_told():
    def others(_limit: int, _left: float) -> dict[str, str]:
        return openai_tells(500, 400)

    desk = LimitedDesk(4, 1.0, others)
    desk.limiter.observe(others(4, 3), desk.now)
    assert desk.seconds_for(200) < 1.2 * 50
    assert desk.refused < 2 * (12 + 3 * 4)


class TokenServer(FaultServer):
    """Has a bucket of tokens that fills steadily, and tells in headers what is left."""

    def __init__(self, dialect: OpenAIDialect | AnthropicDialect) -> None:
        super().__init__()
        self.refused, self.answered = 0, list[float]()
        self._dialect = dialect
        self._tells = openai_tells if dialect.kind == "openai" else anthropic_tells
        self._lock = threading.Lock()
        self._left, self._filled_at = float(TICKETS_A_SECOND), time.monotonic()

    def next_response(self, request: Recorded) -> Response:
        if not request.body:
            return failure(404)  # its list of models
        tickets = len(json.dumps(request.body)) / 4 / TICKET_TOKENS
        with self._lock:
            now = time.monotonic()
            filled = self._left + (now - self._filled_at) * TICKETS_A_SECOND
            self._left, self._filled_at = min(TICKETS_A_SECOND, filled), now
            is_refused = self._left < tickets
            if is_refused:
                self.refused += 1
            else:
                self._left -= tickets
                self.answered.append(now)
            told = self._tells(TICKETS_A_SECOND, self._left)
        if is_refused:
            return failure(429, {"message": "slow down"}, Retry_After="1")
        return replace(self._dialect.text("Done."), headers={**EVENT_STREAM, **told})


@pytest.mark.slow
@pytest.mark.parametrize(
    "dialect", [OpenAIDialect(), AnthropicDialect()], ids=lambda each: each.kind
)
def test_agents_use_a_budget_of_tokens_that_a_server_tells(dialect):
    """By the SDKs; 16 workers, and three times the tickets of a full bucket."""
    made = OpenAIProvider if dialect.kind == "openai" else AnthropicProvider
    text = "The parcel of order W100 is late. " * (TICKET_TOKENS * 4 // 34)

    def seconds() -> float:
        server = TokenServer(dialect)
        base = f"{server.url}/v1" if dialect.kind == "openai" else server.url
        provider = made("m", base_url=base, api_key=lambda: "k", window=100_000)

        def ask(_number: int) -> str:
            return str(Agent(provider).ask(text))

        ask(0)
        with ThreadPoolExecutor(16) as pool:
            assert [*pool.map(ask, range(3 * TICKETS_A_SECOND))] == ["Done."] * 30
        server.close()
        took = server.answered[-1] - server.answered[0]
        return took if server.refused < 30 / 5 else inf

    ideal = (1 + 3 * TICKETS_A_SECOND) / TICKETS_A_SECOND - 1
    assert_within(2 * ideal + 1, seconds)  # beside much other work


def test_a_budget_of_another_model_holds_no_request_up():
    limiter = Limiter(clock=lambda: 1_000.0)
    limiter.observe(openai_tells(4, 0), 1_000.0, "large")
    assert limiter.start("small", TICKET_TOKENS) == 0
    assert limiter.start("large", TICKET_TOKENS) == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("left", ["-1", "0", "many", ""])
def test_headers_without_a_meaning_hold_no_request_up(left):
    """As Azure sends for some models: -1 of -1 tokens, reset in 0."""
    limiter = Limiter()
    told = {"limit-tokens": "-1", "remaining-tokens": left, "reset-tokens": "0"}
    headers = {f"x-ratelimit-{name}": text for name, text in told.items()}
    limiter.observe(headers, limiter.now())
    assert limiter.start(tokens=TICKET_TOKENS) == 0


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


@pytest.mark.slow
def test_after_the_last_allowed_request_the_next_waits_for_the_reset(server):
    spent = {
        "Content-Type": "text/event-stream",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "200ms",
    }
    first = WIRE.text("One")
    server.script(Response(first.events, 200, spent), WIRE.text("Two"))
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1")
    started = time.monotonic()
    list(stream_with_retries(provider, HELLO))  # the reset is later than this
    list(stream_with_retries(provider, HELLO))
    assert time.monotonic() - started > 0.2


def test_stop_ends_the_wait_for_a_turn(server):
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1")
    provider.limiter.refused(provider.limiter.now(), 30.0)
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


@every(
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
