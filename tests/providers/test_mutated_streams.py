"""Streams with any mistake: each ends in a whole answer or in a named error."""

import random
from typing import Any

import pytest
from fault_server import (
    AnthropicDialect,
    FaultServer,
    OpenAIDialect,
    Response,
    ResponsesDialect,
)
from mutated_streams import HELLO, STREAMS, events_of, faults, mutated, provider_of

from nbchat.agent.agent import Agent
from nbchat.conversation.events import TextDelta, ThinkingDelta, TurnFailed
from nbchat.errors import ProtocolFault
from nbchat.providers.openai_chat import OpenAIProvider


def assert_robust(name: str, count: int, seed: int) -> None:
    kind, response = STREAMS[name]
    events, chance = events_of(response), random.Random(seed)
    for number in range(count):
        body = mutated(events, chance)
        assert faults(provider_of(kind, body)) == [], (number, body)


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_the_streams_are_whole_before_they_are_mutated(name):
    kind, response = STREAMS[name]
    body = b"".join(response.events)
    stream = provider_of(kind, body).stream(HELLO)
    assert "".join(each.text for each in stream).endswith("I add.")
    assert faults(provider_of(kind, body)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_mutated_streams_end_in_an_answer_or_a_named_error(name):
    """The fuzzer tries more of them, with another seed each time."""
    assert_robust(name, 100, seed=2)


def test_content_in_parts_is_read_as_mistral_sends_it():
    parts = [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}],
        [{"type": "text", "text": "Yes"}],
        ".",
    ]
    response = OpenAIDialect().stream(*({"content": part} for part in parts))
    provider = provider_of(OpenAIProvider, b"".join(response.events))
    assert list(provider.stream(HELLO)) == [
        *(ThinkingDelta("Hm."), TextDelta("Yes"), TextDelta(".")),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chat completions", "responses", "anthropic"])
def test_an_answer_that_does_not_end_is_stopped(name):
    long = "word " * 200_000
    dialects: dict[str, Any] = {
        "chat completions": OpenAIDialect(),
        "responses": ResponsesDialect(),
        "anthropic": AnthropicDialect(),
    }
    answer: Response = dialects[name].text(*[long] * 20)
    body = b"".join(answer.events)
    with pytest.raises(ProtocolFault, match="longer than 16,000,000 characters"):
        list(provider_of(STREAMS[name][0], body).stream(HELLO))


@pytest.mark.slow
def test_arguments_that_do_not_end_are_stopped():
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "x" * 10**6}}
    response = OpenAIDialect().stream(*[{"tool_calls": [call]}] * 20)
    with pytest.raises(ProtocolFault, match="longer than"):
        list(provider_of(OpenAIProvider, b"".join(response.events)).stream(HELLO))


def test_an_agent_says_in_one_line_that_a_stream_cannot_be_read():
    server = FaultServer()
    server.script(*[OpenAIDialect().stream({"content": "Hi", "tool_calls": 5})] * 9)
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1", window=9_000)
    *_, last = Agent(provider, attempts=1).run("Hello")
    server.close()
    assert isinstance(last, TurnFailed)
    assert "can't be read" in last.message
