"""What is sent after a model has refused a parameter of a request."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fault_server import FaultServer, OpenAIDialect, Recorded, Response, answer, failure
from tables import every

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import tool
from nbchat.errors import ProviderError, RequestRefused
from nbchat.providers.base import Request
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.refused_content import Adaptations
from nbchat.providers.tokens import TokenCounter

WIRE = OpenAIDialect()
HELLO = Request((Entry("user", "Hello"),))

SENT = {
    "messages": [],
    "temperature": 0.5,
    "max_tokens": 100,
    "reasoning_effort": "none",
    "reasoning": {"effort": "none", "summary": "auto"},
    "stream_options": {"include_usage": True},
}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def provider_at(server: FaultServer, **options: Any) -> OpenAIProvider:
    options = {"window": 100_000, **options}
    return OpenAIProvider("m", base_url=f"{server.url}/v1", **options)


def changed(message: str, parameter: str | None = None, **more: str) -> dict[str, Any]:
    """What is sent after an error; empty if it teaches nothing."""
    adaptations = Adaptations()
    error = {"message": message, "param": parameter, **more}
    is_learned = adaptations.learn("m", SENT, error)
    return adaptations.applied("m", SENT) if is_learned else {}


def without(*names: str) -> dict[str, Any]:
    return {name: each for name, each in SENT.items() if name not in names}


REFUSALS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "OpenAI": (
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "temperature",
        without("temperature"),
    ),
    "another name": (
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        "max_tokens",
        {**without("max_tokens"), "max_completion_tokens": 100},
    ),
    "vLLM, Mistral": (
        (
            "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': "
            "'Extra inputs are not permitted'}]"
        ),
        None,
        without("stream_options"),
    ),
    "a list of values": (
        (
            "'reasoning_effort' does not support 'none' with this model. Supported values "
            "are: 'minimal', 'low', 'medium'."
        ),
        "reasoning_effort",
        {**SENT, "reasoning_effort": "minimal"},
    ),
    "an organization that is not verified": (
        "Your organization must be verified to generate reasoning summaries.",
        "reasoning.summary",
        {**SENT, "reasoning": {"effort": "none"}},
    ),
}


@every("name", REFUSALS)
def test_a_refused_parameter_is_omitted_renamed_or_replaced(name):
    message, parameter, expected = REFUSALS[name]
    assert changed(message, parameter) == expected


@every(
    ("message", "parameter"),
    [
        ("Invalid value for 'temperature': must be at most 2.", "temperature"),
        ("Unsupported parameter: 'messages'", "messages"),
        ("Unsupported parameter: 'top_p'", "top_p"),
        ("The model is not supported", None),
        ("", None),
    ],
)
def test_required_unsent_or_invalid_parameters_are_not_omitted(message, parameter):
    assert changed(message, parameter) == {}


def test_no_change_is_tried_twice():
    adaptations = Adaptations()
    error = {"message": "unsupported parameter", "param": "temperature"}
    assert adaptations.learn("m", SENT, error)
    assert not adaptations.learn("m", SENT, error)
    assert adaptations.learn("another", SENT, error)
    assert adaptations.applied("m", SENT) == without("temperature")
    assert adaptations.applied("unknown", SENT) == SENT


@pytest.mark.parametrize("status", [400, 422])
def test_any_server_may_refuse_a_parameter_once(server, status):
    detail = {"message": "Unknown parameter: temperature", "param": None}
    server.script(failure(status, detail), WIRE.text("ok"), WIRE.text("ok"))
    provider = provider_at(server, temperature=0.1)
    for _ in "12":
        list(provider.stream(HELLO))
    has_it = ["temperature" in request.body for request in server.requests]
    assert has_it == [True, False, False]


@pytest.mark.parametrize("body", [[], ["x"], {"error": "no"}, {"error": []}, "text"])
def test_an_error_of_any_shape_is_one_line(server, body):
    server.script(answer(body, 400))
    with pytest.raises(ProviderError):
        list(provider_at(server, temperature=0.1).stream(HELLO))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma:2b does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser',
    ],
)
def test_a_model_without_tools_is_named_once_and_works_without(server, caplog, message):
    server.script(
        failure(400, {"message": message}), WIRE.text("Hi."), WIRE.text("Hi.")
    )
    agent = Agent(provider_at(server), tools=[add])
    assert [str(agent.ask(text)) for text in ("Hello", "Again")] == ["Hi.", "Hi."]
    assert caplog.messages == [
        "m doesn't accept tools, so requests are sent without them."
    ]
    has_tools = [
        bool({"tools", "tool_choice"} & set(each.body)) for each in server.requests
    ]
    assert has_tools == [True, False, False]


def test_a_call_that_is_demanded_is_not_given_up(server):
    server.script(failure(400, {"message": "m does not support tools"}))
    request = replace(HELLO, tools=(add,), tool_choice="required")
    with pytest.raises(RequestRefused, match="does not support tools"):
        list(provider_at(server).stream(request))


class DeepSeek(FaultServer):
    """Demands the reasoning of every reply, once there was a call."""

    def next_response(self, request: Recorded) -> Response:
        replies = [
            each
            for each in request.body.get("messages", [])
            if each["role"] == "assistant"
        ]
        if all("reasoning_content" in each for each in replies):
            return super().next_response(request)
        self.requests.append(request)
        words = "The `reasoning_content` in the thinking mode must be passed back."
        return failure(400, {"message": words, "type": "invalid_request_error"})


def test_deepseek_gets_the_reasoning_of_every_reply_back():
    server = DeepSeek()
    call = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    server.script(
        WIRE.stream(
            {"reasoning_content": "I must "},
            {"reasoning_content": "add."},
            {"tool_calls": [{"index": 0, "id": "c1", "function": call}]},
            stop="tool_use",
        ),
        WIRE.stream({"reasoning_content": "Done."}, {"content": "Three."}),
        WIRE.text("Bye."),
    )
    agent = Agent(provider_at(server), tools=[add])
    assert agent.ask("Add.") == "Three."
    assert agent.ask("Thanks.") == "Bye."
    server.close()
    assert len(server.requests) == 4  # one is refused, and only one
    said = [
        each["reasoning_content"]
        for each in server.requests[-1].body["messages"]
        if each["role"] == "assistant"
    ]
    assert said == ["I must add.", "Done."]


def test_other_servers_get_no_reasoning_back(server):
    server.script(WIRE.stream({"reasoning_content": "Hm."}, {"content": "Yes."}))
    server.script(WIRE.text("ok"))
    agent = Agent(provider_at(server))
    agent.ask("Is it?")
    agent.ask("Sure?")
    assert "Hm." not in json.dumps(server.requests[1].body)


def test_effort_is_sent_and_omitted_where_it_is_unknown(server):
    server.script(
        failure(400, {"message": "Unrecognized request argument: reasoning_effort"}),
        WIRE.text("ok"),
    )
    list(provider_at(server).stream(replace(HELLO, options={"effort": "off"})))
    efforts = [request.body.get("reasoning_effort") for request in server.requests]
    assert efforts == ["none", None]


def test_a_refusal_that_is_about_something_else_is_raised_at_once(server):
    server.script(failure(400, {"message": "bad picture"}), WIRE.text("never asked"))
    with pytest.raises(RequestRefused, match="bad picture"):
        request = replace(HELLO, options={"effort": "low"})
        list(provider_at(server, temperature=0.1).stream(request))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("args", "is_counted"),
    [
        ('{"reasoning_content": "a long thought of many words"}', False),
        ("", False),
        ('{"type": "thinking", "thinking": "a long thought", "signature": "x"}', True),
    ],
)
def test_reasoning_counts_as_context_only_where_it_is_sent_back(args, is_counted):
    counter, text = TokenCounter(), "a long thought of many words " * 40
    provider = "anthropic" if "signature" in args else "openai"
    size = counter.count_entry(Entry("thinking", text, "", provider, args))
    once = counter.count(text)
    assert once <= size < once + 20 if is_counted else size == 0
