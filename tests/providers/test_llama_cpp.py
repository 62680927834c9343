"""Both SDK providers against a real model: llama.cpp, which speaks both APIs."""

import threading
import time
from typing import Any

import pytest
from provider_kit import drained

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TextDelta
from nbchat.conversation.tools import tool
from nbchat.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    Stopped,
)
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Request
from nbchat.providers.local import LocalServer
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.sdk_provider import SdkProvider

PROVIDERS = [OpenAIProvider, AnthropicProvider]
WINDOW = 4_096


@tool
def set_category(category: str) -> str:
    """Set the category of the ticket."""
    return category


@pytest.fixture(params=PROVIDERS, ids=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest, llama_server: LocalServer) -> SdkProvider:
    """Each provider in turn, connected to the one server."""
    return connected(request.param, llama_server)


def connected(provider_class: Any, server: LocalServer, **options: Any) -> SdkProvider:
    path = "/v1" if provider_class is OpenAIProvider else ""
    given = {"base_url": server.base_url + path, "api_key": lambda: server.api_key}
    return provider_class("smollm2", temperature=0.0, **{**given, **options})


def test_text_streams_and_a_repeated_request_is_read_from_the_cache(provider):
    question = Entry("user", f"Say hello to Ann, {provider.kind} user.")
    request = Request((question,), "You are kind.", max_output_tokens=12)
    (deltas, first), (_, second) = [drained(provider.stream(request)) for _ in "12"]
    shown = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    assert len(shown) > 3
    assert "".join(shown) == first.text == second.text
    assert first.stop_reason == "max_tokens"
    assert first.usage.output_tokens == 12
    assert second.usage.input_tokens == first.usage.input_tokens > 20
    assert 0 < second.usage.cache_read_tokens < second.usage.input_tokens


@pytest.mark.slow
def test_with_an_example_in_its_history_the_model_calls_the_tool(provider):
    history = (
        Entry("user", "Ticket: my card was lost in a shop."),
        Entry("assistant", "", "c1", "set_category", '{"category": "card_lost"}'),
        Entry("tool", "ok", "c1", "set_category"),
        Entry("assistant", "Done: the category is card_lost."),
        Entry("user", "Ticket: I was charged a fee for a transfer."),
    )
    system = "You triage support tickets. Call set_category once for each ticket."
    request = Request(history, system, (set_category,), max_output_tokens=60)
    _, reply = drained(provider.stream(request))
    (call,) = reply.calls
    assert reply.stop_reason == "tool_use"
    assert call.tool_name == "set_category"
    assert call.tool_id not in ("", "c1")
    assert "fee" in call.arguments["category"]


def test_a_request_over_the_window_is_a_context_overflow(provider):
    request = Request((Entry("user", "word " * 6_000),), max_output_tokens=5)
    with pytest.raises(ContextOverflow, match="4096"):
        drained(provider.stream(request))


@pytest.mark.parametrize("provider_class", PROVIDERS)
def test_a_wrong_key_is_refused(llama_server, provider_class):
    provider = connected(provider_class, llama_server, api_key=lambda: "wrong-key")
    with pytest.raises(AuthenticationFailed) as raised:
        drained(provider.stream(Request((Entry("user", "Hi"),))))
    assert "wrong-key" not in str(raised.value)


@pytest.mark.parametrize("provider_class", PROVIDERS)
def test_a_closed_port_is_a_failed_connection(llama_server, provider_class):
    provider = connected(provider_class, llama_server, base_url="http://127.0.0.1:9")
    with pytest.raises(ConnectionFailed, match="Is the server running"):
        drained(provider.stream(Request((Entry("user", "Hi"),))))


def test_the_server_tells_its_window_and_its_model(provider):
    assert provider.info().window == WINDOW
    assert len(provider.catalog()) == 1


def test_counted_tokens_are_near_the_reported_ones(provider):
    words = "The quick brown fox jumps over the lazy dog. " * 20
    request = Request((Entry("user", words),), max_output_tokens=1)
    _, reply = drained(provider.stream(request))
    counted = provider.count_tokens(request)
    assert counted == pytest.approx(reply.usage.input_tokens, rel=0.15)


def test_stop_ends_a_running_answer_and_frees_the_model(provider):
    stop = threading.Event()
    story = Request((Entry("user", "Tell a long story."),), max_output_tokens=2_000)
    stream = provider.stream(story, stop=stop)
    assert isinstance(next(stream), TextDelta)
    stop.set()
    with pytest.raises(Stopped):
        list(stream)
    started = time.monotonic()
    drained(provider.stream(Request((Entry("user", "Hi"),), max_output_tokens=1)))
    assert time.monotonic() - started < 15  # the whole story would take 30 s and more


@pytest.mark.slow
def test_the_meter_adds_up_whole_requests_cached_tokens_included(provider):
    """Ours is a sum of whole requests, however much of them the server had cached."""
    agent = Agent(provider, engine=CompactionEngine(None), max_output_tokens=8)
    for number in range(3):
        agent.ask(f"Say the number {number}. " + "It is one of many numbers. " * 8)
    sizes = [usage.input_tokens for _, usage in agent.session.usages]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 180
    assert agent.engine.input_tokens == sum(sizes)
    assert agent.session.usage.cache_read_tokens > sizes[0]
