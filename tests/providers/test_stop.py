"""Stop closes the connection at once, seen by a server that watches its socket."""

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
from at_best import assert_within
from fault_server import (
    AnthropicDialect,
    FaultServer,
    GeminiDialect,
    OpenAIDialect,
    ResponsesDialect,
)
from provider_kit import at_home
from tables import every
from watching_server import Manner, WatchingServer, watching

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import policy_named
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TurnFinished
from nbchat.errors import Stopped
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Request
from nbchat.providers.closable_http import Line, until_stopped, using
from nbchat.providers.gemini import GeminiProvider
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.openai_responses import ResponsesProvider

WITHIN_SECONDS = 0.3
HELLO = Request((Entry("user", "Hello"),))
KINDS: dict[str, tuple[Any, str, Any]] = {
    "chat completions": (OpenAIProvider, "/v1", OpenAIDialect()),
    "responses": (ResponsesProvider, "/v1", ResponsesDialect()),
    "gemini": (GeminiProvider, "/v1beta/openai", GeminiDialect()),
    "anthropic": (AnthropicProvider, "", AnthropicDialect()),
}


def provider_at(kind: str, url: str, **options: Any) -> Any:
    made, path, _ = KINDS[kind]
    options = {"window": 100_000, **options}
    return made("gpt-6-luna", base_url=url + path, api_key=lambda: "k", **options)


def first_text(kind: str) -> bytes:
    """A stream up to its first text."""
    events = KINDS[kind][2].text("Hello").events
    return b"".join(
        events[: next(n for n, e in enumerate(events) if b"Hello" in e) + 1]
    )


def seconds_until_left(server: WatchingServer, stop: Callable[[], object]) -> float:
    """How long the server keeps its client after `stop`."""
    assert server.began.wait(20)
    stopped_at = time.monotonic()
    stop()
    assert server.left.wait(20)
    return server.left_at - stopped_at


def in_thread(call: Callable[[], object]) -> Callable[[], list[BaseException]]:
    """Run a call in a thread; the result waits for it and lists what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> list[BaseException]:
        thread.join(20)
        return raised

    return join


@every(("kind", "manner"), product(KINDS, ["silent", "comments", "stream", "stalls"]))
def test_stop_closes_the_connection(kind: str, manner: Manner):
    def seconds() -> float:
        with watching(manner, first_text(kind)) as server:
            stop = threading.Event()
            provider = provider_at(kind, server.url)
            join = in_thread(lambda: list(provider.stream(HELLO, stop=stop)))
            taken = seconds_until_left(server, stop.set)
            assert [type(each) for each in join()] == [Stopped]
            return taken

    assert_within(WITHIN_SECONDS, seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_closing_the_turn_closes_the_connection(kind: str):
    """As a KeyboardInterrupt does."""

    def seconds() -> float:
        with watching("stalls", first_text(kind)) as server:
            stream = provider_at(kind, server.url).stream(HELLO)
            next(stream)
            return seconds_until_left(server, stream.close)

    assert_within(WITHIN_SECONDS, seconds)


@pytest.mark.parametrize("kind", ["responses", "gemini", "anthropic"])
def test_stop_ends_a_count_of_tokens(kind: str):
    home = at_home(KINDS[kind][0], "http://127.0.0.1/v1beta/openai")

    def seconds() -> float:
        with watching("silent") as server:
            stop = threading.Event()
            url = server.url + KINDS[kind][1]
            provider = home("m", base_url=url, api_key=lambda: "k", window=9)
            count = partial(provider.count_tokens, HELLO)
            join = in_thread(lambda: until_stopped(count, stop))
            taken = seconds_until_left(server, stop.set)
            assert [type(each) for each in join()] == [Stopped]
            return taken

    assert_within(WITHIN_SECONDS, seconds)


def test_stop_ends_a_turn_that_is_counting():
    policy = policy_named("token-window")

    def seconds() -> float:
        with watching("silent") as server:
            stop = threading.Event()
            provider = provider_at("anthropic", server.url, window=4_000)
            agent = Agent(provider, engine=CompactionEngine(policy=policy))
            events: list[Any] = []
            question = "One of many words. " * 800
            join = in_thread(lambda: events.extend(agent.run(question, stop=stop)))
            taken = seconds_until_left(server, stop.set)
            join()
            assert events[-1] == TurnFinished("stopped", 0)
            return taken

    assert_within(WITHIN_SECONDS, seconds)


def test_a_stop_that_comes_late_leaves_the_connection_to_its_next_user():
    server = FaultServer()
    dialect = AnthropicDialect()
    server.script(dialect.text("One"), dialect.text("Two"))
    provider = provider_at("anthropic", server.url)
    line = Line()
    with using(line):
        list(provider._open_checked(HELLO))
    stream = provider.stream(HELLO)
    next(stream)
    line.cut()
    list(stream)
    server.close()
    assert len(server.requests) == 2


def test_a_request_that_is_stopped_while_it_connects_is_closed_when_connected():
    with watching("silent") as server:
        line = Line()
        line.cut()
        with using(line), pytest.raises(Exception, match="onnection"):
            provider_at("anthropic", server.url)._open_checked(HELLO)
        assert not server.began.is_set()
