"""OpenAI's Responses API: a real SDK client, and a server with OpenAI's own rules."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import openai
import pytest
from fault_server import (
    OpenAIDialect,
    Response,
    ResponsesDialect,
    answer,
    responses_call,
    responses_reasoning,
    responses_text,
    sse,
)
from openai_rules import OpenAIServer
from provider_kit import HELLO, KEY, at_home, drained, reply_of

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import FAILED, Entry, Usage
from nbchat.conversation.events import TextDelta, ThinkingDelta
from nbchat.conversation.session import Session
from nbchat.conversation.tools import tool
from nbchat.errors import (
    ContextOverflow,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRefused,
)
from nbchat.providers.base import Request
from nbchat.providers.connect import connect
from nbchat.providers.local import LocalServer
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.openai_responses import ResponsesProvider, cache_key

WIRE = ResponsesDialect()
MODEL = "gpt-6-luna"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


def provider_at(
    server: OpenAIServer, model: str = MODEL, **options: Any
) -> ResponsesProvider:
    options = {"base_url": f"{server.url}/v1", "api_key": lambda: KEY, **options}
    return ResponsesProvider(model, **options)


def block(item_id: str, *summary: str, encrypted: str = "gAAAA==") -> str:
    return json.dumps(
        {
            "summary": [{"type": "summary_text", "text": text} for text in summary],
            "type": "reasoning",
            "id": item_id,
            "encrypted_content": encrypted,
        }
    )


THOUGHT = Entry("thinking", "Add.", "", "openai", block("rs_1", "Add."))
CALL = Entry("assistant", "", "c1", "add", '{"a": 1, "b": 2}')
RESULT = Entry("tool", "3", "c1", "add")


def test_a_request_stores_nothing_and_asks_for_encrypted_reasoning(server):
    server.script(WIRE.text("Hello."))
    request = replace(HELLO, system="Be brief.", tools=(add,), max_output_tokens=7)
    reply_of(provider_at(server), request)
    [sent] = server.requests
    assert sent.path == "/v1/responses"
    function = sent.body.pop("tools")[0]
    assert sent.body == {
        "model": MODEL,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "instructions": "Be brief.",
        "tool_choice": "auto",
        "max_output_tokens": 16,
        "prompt_cache_key": cache_key(request),
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
        ],
    }
    assert (function["name"], function["strict"]) == ("add", False)


@pytest.mark.slow
def test_the_body_is_what_the_sdk_itself_would_send(server):
    server.script(WIRE.text("ok"), WIRE.text("ok"))
    history = (*HELLO.history, THOUGHT, CALL, RESULT, Entry("user", "And?"))
    reply_of(provider_at(server), Request(history, "Be brief.", (add,)))
    ours = server.requests[0].body
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        list(client.responses.create(**ours))
    assert server.requests[1].body == ours


def test_reasoning_text_and_calls_stream_and_keep_their_order(server):
    server.script(
        WIRE.stream(
            responses_reasoning("rs_1", "First.", "Then."),
            responses_text("I ", "add.", phase="commentary"),
            responses_call("c1", "add", '{"a": 1, "b": 2}'),
            usage=(1_000, 50, 900),
            reasoning=(30, "all_turns"),
        )
    )
    deltas, reply = drained(provider_at(server).stream(HELLO))
    assert deltas == [
        *map(ThinkingDelta, ("First.", "\n\n", "Then.")),
        *map(TextDelta, ("I ", "add.")),
    ]
    thought, phase, text, call = reply.entries
    assert (thought.role, thought.content) == ("thinking", "First.\n\nThen.")
    assert phase.arguments == {"type": "message", "phase": "commentary"}
    assert text == Entry("assistant", "I add.")
    assert call == CALL
    assert reply.stop_reason == "tool_use"
    assert reply.usage == Usage(1_000, 50, 900)


def test_a_tool_loop_sends_reasoning_back_at_its_place(server):
    server.script(
        WIRE.stream(
            responses_reasoning("rs_1", "Add.", encrypted="first=="),
            responses_call("c1", "add", '{"a": 1, "b": 2}'),
            responses_call("c2", "add", '{"a": 3, "b": 4}'),
        ),
        WIRE.stream(
            responses_reasoning("rs_2", encrypted="second=="),
            responses_text("3 and 7.", phase="final_answer"),
        ),
        WIRE.text("Bye."),
    )
    agent = Agent(provider_at(server, window=100_000), tools=[add])
    assert agent.ask("Add.") == "3 and 7."
    assert agent.ask("Thanks.") == "Bye."
    kinds = [
        item.get("role") or item["type"] for item in server.requests[2].body["input"]
    ]
    assert kinds == [
        *("user", "reasoning", "function_call", "function_call"),
        *("function_call_output", "function_call_output"),
        *("reasoning", "assistant", "user"),
    ]
    first = server.requests[1].body["input"][1]
    assert first == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Add."}],
        "encrypted_content": "first==",
    }
    assert server.requests[2].body["input"][7]["phase"] == "final_answer"
    assert server.refused == []


@pytest.mark.slow
def test_a_long_chat_with_tools_and_compactions_is_never_refused(server):
    """Whatever is compacted, a call keeps its output and reasoning its item."""
    agent = Agent(
        provider_at(server, window=100_000),
        tools=[add],
        engine=CompactionEngine(3_000, policy="extractive"),
    )
    for turn in range(12):
        numbers = json.dumps({"a": turn, "b": turn})
        server.script(
            WIRE.stream(
                responses_reasoning(f"rs_{turn}", "Hm."),
                responses_call(f"c{turn}", "add", numbers),
                usage=(900, 20, 0),
            ),
            WIRE.stream(
                responses_reasoning(f"rs_{turn}_b"),
                responses_text(f"Turn {turn} is done. " * 20),
                usage=(900, 20, 0),
            ),
        )
        agent.ask(f"Question {turn}: " + "please add these numbers. " * 20)
    assert len(agent.session.compactions) >= 2
    assert server.refused == []


def test_without_encrypted_content_reasoning_is_shown_but_not_sent_back(server):
    server.script(
        WIRE.stream(
            responses_reasoning("rs_1", "Hm.", encrypted=""),
            responses_text("Yes."),
            reasoning=(4, "all_turns"),
        ),
        WIRE.text("ok"),
    )
    provider = provider_at(server)
    reply = reply_of(provider)
    assert reply.entries[0] == Entry("thinking", "Hm.", "", "openai", "")
    assert reply.usage.dropped_tokens == 4
    reply_of(provider, Request((*HELLO.history, *reply.entries, *HELLO.history)))
    assert len(server.requests[1].body["input"]) == 3


@pytest.mark.parametrize(
    ("mode", "has_call", "dropped"),
    [
        ("all_turns", False, 0),
        ("current_turn", False, 30),
        ("current_turn", True, 0),
    ],
)
def test_reasoning_is_context_only_where_it_is_read_again(
    server, mode, has_call, dropped
):
    last = responses_call("c1", "add", "{}") if has_call else responses_text("Yes.")
    items = (responses_reasoning("rs_1"), last)
    server.script(WIRE.stream(*items, usage=(20, 50, 0), reasoning=(30, mode)))
    assert reply_of(provider_at(server)).usage.dropped_tokens == dropped


def test_only_reasoning_of_openai_that_is_followed_by_something_is_sent(server):
    server.script(WIRE.text("ok"))
    foreign = Entry("thinking", "x", "", "anthropic", '{"type": "thinking"}')
    chat = Entry("thinking", "x", "", "openai", '{"reasoning_content": "x"}')
    history = (
        *HELLO.history,
        foreign,
        chat,
        Entry("assistant", "Hi."),
        THOUGHT,
        Entry("user", "And?"),
    )
    reply_of(provider_at(server), Request(history))
    assert [item.get("role") for item in server.requests[0].body["input"]] == [
        *("user", "assistant", "user")
    ]


def test_reasoning_of_another_account_is_omitted_and_the_request_sent_again(server):
    server.unreadable = {"rs_1"}
    server.script(WIRE.text("Three."), WIRE.text("Still."))
    provider = provider_at(server)
    history = (*HELLO.history, THOUGHT, CALL, RESULT)
    assert reply_of(provider, Request(history)).text == "Three."
    assert reply_of(provider, Request(history)).text == "Still."
    assert len(server.refused) == 1
    kinds = [item.get("type") for item in server.requests[1].body["input"]]
    assert "reasoning" not in kinds


def test_pictures_files_and_results_travel(server):
    server.script(WIRE.text("ok"))
    image = json.dumps({"media_type": "image/png", "data": "aGk="})
    notes = json.dumps({"media_type": "text/csv", "data": "a,b\n1,2"})
    failed = Entry("tool", "", "c1", "add", FAILED)
    history = (
        Entry("summary", "<summary>\nAnn asked.\n</summary>"),
        Entry("user", "What is this?", "", "image", image),
        Entry("user", "notes.csv", "", "file", notes),
        Entry("assistant", "", "c1", "add", "not JSON"),
        failed,
        Entry("user", " "),
    )
    reply_of(provider_at(server), Request(history, tools=(add,), tool_choice="add"))
    user, call, result, blank = server.requests[0].body["input"]
    summary, *rest = user["content"]
    assert summary["text"].startswith("<conversation_summary>\n")
    uri = "data:image/png;base64,aGk="
    assert rest == [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": uri, "detail": "auto"},
        {"type": "input_text", "text": "notes.csv\n\na,b\n1,2"},
    ]
    assert (call["arguments"], result["output"]) == ("{}", "")
    assert blank["content"][0]["text"] == "(nothing was written)"
    choice = {"type": "function", "name": "add"}
    assert server.requests[0].body["tool_choice"] == choice


def test_an_incomplete_answer_says_why_and_runs_no_call(server):
    text, call = responses_text("It is"), responses_call("c1", "add", '{"a": 1')
    server.script(
        WIRE.stream(text, call, stop="max_tokens"), WIRE.text("", stop="refusal")
    )
    provider = provider_at(server)
    cut = reply_of(provider)
    assert (cut.text, cut.calls, cut.stop_reason) == ("It is", [], "max_tokens")
    assert reply_of(provider).stop_reason == "refusal"


def test_a_refusal_is_shown_and_named(server):
    item = {"type": "message", "role": "assistant", "content": []}
    deltas = [{"type": "response.refusal.delta", "delta": "I won't."}]
    server.script(WIRE.stream((item, deltas)))
    reply = reply_of(provider_at(server))
    assert (reply.text, reply.stop_reason) == ("I won't.", "refusal")


def test_an_answer_whose_items_came_only_at_the_end_is_whole(server):
    """Some gateways send no deltas and no items, only the whole response."""
    whole = WIRE.stream(responses_text("Hello."), responses_call("c1", "add", "{}"))
    server.script(Response((whole.events[-1],)))
    reply = reply_of(provider_at(server))
    assert [reply.text, len(reply.calls)] == ["Hello.", 1]


FAILURES: dict[str, tuple[dict[str, str], type[ProviderError]]] = {
    "server": ({"code": "server_error", "message": "sorry"}, Overloaded),
    "rate": ({"code": "rate_limit_exceeded", "message": "slow down"}, RateLimited),
    "prompt": ({"code": "invalid_prompt", "message": "no"}, RequestRefused),
    "too long": (
        {
            "code": "context_length_exceeded",
            "message": "Your input exceeds the context",
        },
        ContextOverflow,
    ),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("is_event", [True, False])
def test_a_failure_after_the_stream_began_has_its_own_error(server, name, is_event):
    error, error_class = FAILURES[name]
    failed = {"type": "response.failed", "response": {"error": error}}
    event = {"type": "error", **error} if is_event else failed
    server.script(Response((sse(event, event["type"]),)))
    with pytest.raises(ProviderError) as raised:
        reply_of(provider_at(server))
    assert type(raised.value) is error_class
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "chatgpt-4o-latest"])
def test_a_model_that_does_not_reason_is_asked_for_no_reasoning(server, model):
    server.script(WIRE.text("ok"))
    request = replace(HELLO, options={"effort": "high"})
    reply_of(provider_at(server, model, temperature=0.5), request)
    assert server.refused == []
    assert server.requests[0].body["temperature"] == 0.5


def test_a_deployment_of_any_name_that_does_not_reason_works_too(server):
    """At Azure a model is called as its deployment is, and the error tells."""

    class Azure(OpenAIServer):
        def next_response(self, request: Any) -> Response:
            request.body["model"] = "gpt-4o"
            return super().next_response(request)

    azure = Azure()
    azure.script(WIRE.text("ok"), WIRE.text("ok"))
    provider = provider_at(azure, "our-deployment")
    for _ in "12":
        reply_of(provider, replace(HELLO, options={"effort": "low"}))
    azure.close()
    assert len(azure.refused) == 3
    assert len(azure.requests) == 3 + 2
    assert {"include", "reasoning"} & set(azure.requests[-1].body) == set()


def test_a_schema_is_sent_as_the_format_of_the_text(server):
    server.script(WIRE.text("{}"))
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    reply_of(provider_at(server), replace(HELLO, output_schema=schema))
    assert server.requests[0].body["text"] == {
        "format": {
            "type": "json_schema",
            "name": "answer",
            "strict": True,
            "schema": schema,
        }
    }


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("gpt-6-luna", "off", ["none"]),
        ("gpt-6-luna", "high", ["high"]),
        ("gpt-6-astra", "off", ["none", "low"]),
    ],
)
def test_effort_is_sent_in_the_words_of_the_api(server, model, effort, sent):
    server.script(WIRE.text("ok"))
    reply_of(provider_at(server, model), replace(HELLO, options={"effort": effort}))
    efforts = [request.body["reasoning"]["effort"] for request in server.requests]
    assert efforts == sent


def test_a_temperature_that_a_model_refuses_is_omitted_from_then_on(server):
    server.script(WIRE.text("ok"), WIRE.text("ok"))
    provider = provider_at(server, temperature=0.3)
    reply_of(provider)
    reply_of(provider)
    assert len(server.refused) == 1
    has_it = ["temperature" in request.body for request in server.requests]
    assert has_it == [True, False, False]


def test_a_conversation_keeps_its_cache_key_until_it_is_compacted():
    longer = replace(HELLO, history=(*HELLO.history, Entry("assistant", "Hi.")))
    other = replace(HELLO, history=(Entry("summary", "It went on."),))
    assert cache_key(HELLO) == cache_key(longer)
    assert len({cache_key(HELLO), cache_key(other), cache_key(Request(()))}) == 3
    assert len(cache_key(Request((Entry("user", "\ud800"),)))) == 32


def test_openai_counts_tokens_on_its_server(server):
    home = at_home(ResponsesProvider, f"{server.url}/v1")

    server.script(answer({"object": "response.input_tokens", "input_tokens": 42}))
    provider = home(MODEL, api_key=lambda: KEY)
    assert provider.count_tokens(replace(HELLO, tools=(add,))) == 42
    assert server.requests[0].path == "/v1/responses/input_tokens"
    assert set(server.requests[0].body) == {"model", "input", "tools", "tool_choice"}


@pytest.mark.parametrize(
    ("base_url", "kind"),
    [
        ("", ResponsesProvider),
        ("https://eu.api.openai.com/v1", ResponsesProvider),
        ("https://me.openai.azure.com/openai/v1", ResponsesProvider),
        ("http://127.0.0.1:1/v1", OpenAIProvider),
        ("https://openrouter.ai/api/v1", OpenAIProvider),
    ],
)
def test_openai_itself_is_asked_by_responses_and_others_by_chat_completions(
    monkeypatch, base_url, kind
):
    named = connect("openai:gpt-6-luna", base_url=base_url, api_key=lambda: KEY)
    assert type(named) is kind
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    assert type(connect("openai:gpt-6-luna", api_key=lambda: KEY)) is kind


def test_a_real_llama_server_answers_calls_and_counts(llama_server: LocalServer):
    """Its own /v1/responses; it reasons not and encrypts nothing."""
    provider = ResponsesProvider(
        "smollm2",
        base_url=f"{llama_server.base_url}/v1",
        api_key=lambda: llama_server.api_key,
        temperature=0.0,
    )
    request = Request((Entry("user", "Say hello."),), "Be kind.", max_output_tokens=16)
    deltas, reply = drained(provider.stream(request))
    assert len(deltas) > 3
    assert "".join(delta.text for delta in deltas) == reply.text
    assert 10 < reply.usage.input_tokens < 60
    asked = Request((*request.history, *reply.entries, Entry("user", "Again.")))
    assert reply_of(provider, replace(asked, max_output_tokens=16)).text


def test_chat_completions_of_openai_take_tools_on_the_second_try(server):
    """For an address that only speaks chat completions; remembered for the model."""
    server.script(OpenAIDialect().text("ok"), OpenAIDialect().text("ok"))
    options = {"base_url": f"{server.url}/v1", "api_key": lambda: KEY}
    provider = OpenAIProvider("gpt-5.6-luna", **options)
    request = replace(HELLO, tools=(add,))
    reply_of(provider, request)
    reply_of(provider, request)
    efforts = [each.body.get("reasoning_effort") for each in server.requests]
    assert efforts == [None, "none", "none"]


def test_where_no_effort_helps_the_servers_own_words_are_shown(server):
    provider = OpenAIProvider(
        "gpt-6-astra", base_url=f"{server.url}/v1", api_key=lambda: KEY
    )
    with pytest.raises(RequestRefused, match="/v1/responses"):
        reply_of(provider, replace(HELLO, tools=(add,)))
    assert len(server.requests) <= 3


def test_a_session_of_another_provider_continues_at_openai(server):
    server.script(WIRE.text("ok"))
    thought = Entry("thinking", "hm", "", "anthropic", '{"type": "thinking"}')
    history = [*HELLO.history, thought, replace_id(CALL), replace_id(RESULT)]
    provider = provider_at(server, window=100_000)
    agent = Agent(provider, session=Session(history), tools=[add])
    assert agent.ask("Go on.") == "ok"
    assert server.refused == []


def replace_id(entry: Entry) -> Entry:
    return entry._replace(tool_id="functions.add:0")
