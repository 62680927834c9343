"""One contract for all providers: real SDK clients against a scripted HTTP server."""

import json
import os
import random
import ssl
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import anthropic
import openai
import pytest
from anthropic.types import OutputConfigParam
from at_best import TRIES, assert_within
from fault_server import (
    FaultServer,
    OpenAIDialect,
    Response,
    ResponsesDialect,
    answer,
    failure,
    gemini_call,
    gemini_failure,
    page,
    responses_text,
    sse,
)
from faults import (
    FAULTS,
    MID_STREAM,
    NOT_TRIED_AGAIN,
    PERMANENT,
    begun,
    fault,
    overloaded,
    timeout_for,
)
from measures import Noting
from openai.types.responses import ResponseTextConfigParam
from openai.types.shared_params import ResponseFormatJSONSchema
from provider_kit import (
    DIALECTS,
    HELLO,
    KEY,
    PATHS,
    PROVIDERS,
    Dialect,
    at_home,
    drained,
    provider_at,
    reply_of,
    sent_body,
)
from pydantic import BaseModel, Field, TypeAdapter
from tables import every

import nbchat
from nbchat.conversation.entries import FAILED, Entry, Usage
from nbchat.conversation.events import RetryScheduled, TextDelta, ThinkingDelta
from nbchat.conversation.tools import tool
from nbchat.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    ContextOverflow,
    Overloaded,
    ProtocolFault,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
    Stopped,
    UnknownModel,
)
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import ReplyStream, Request
from nbchat.providers.closable_http import canned_client
from nbchat.providers.connect import connect
from nbchat.providers.error_mapping import refusal_in
from nbchat.providers.gemini import GeminiProvider
from nbchat.providers.model_info import model_info
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.retries import stream_with_retries
from nbchat.providers.sdk_provider import SdkProvider
from nbchat.providers.tokens import CHARACTERS, SPARE_SIZES
from nbchat.providers.wire_format import legal


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Each wire format in turn."""
    return DIALECTS[request.param]


@pytest.fixture
def provider(dialect: Dialect, server: FaultServer) -> SdkProvider:
    """The provider that speaks the dialect, connected to the server."""
    return provider_at(server, dialect.kind)


def shown_until_fault(stream: ReplyStream) -> tuple[str, ProviderError]:
    """The text shown before a stream fails, and the error."""
    shown = ""
    with pytest.raises(ProviderError) as raised:
        for delta in stream:
            assert isinstance(delta, TextDelta)
            shown += delta.text
    return shown, raised.value


def texts_of(error: BaseException) -> str:
    """Everything that any traceback would print, our frames' local variables too."""
    verbose = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [frame for frame in verbose.stack if frame.filename != __file__]
    verbose.stack = traceback.StackSummary.from_list(ours)
    plain = traceback.format_exception(error)
    return "".join([str(error), repr(error), *plain, *verbose.format()])


def messages_of(body: Any) -> Any:
    """The conversation in a request's body."""
    return body["messages"] if "messages" in body else body["input"]


@pytest.mark.slow
def test_certificates_are_read_once_for_all_models(
    server, dialect, monkeypatch, tmp_path
):
    first, *_ = ssl.create_default_context().get_ca_certs(binary_form=True)
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(ssl.DER_cert_to_PEM_cert(first))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    server.script(dialect.text("one"), dialect.text("two"))
    assert reply_of(provider_at(server, dialect.kind)).text == "one"
    trusted.unlink()
    assert reply_of(provider_at(server, dialect.kind)).text == "two"


def test_text_streams_in_pieces_and_becomes_one_entry(server, provider, dialect):
    server.script(dialect.text("Hel", "lo, ", "wörld 🌍"))
    deltas, reply = drained(provider.stream(HELLO))
    assert deltas == [TextDelta("Hel"), TextDelta("lo, "), TextDelta("wörld 🌍")]
    assert reply.entries == (Entry("assistant", "Hello, wörld 🌍"),)
    assert (reply.stop_reason, reply.model) == ("end_turn", provider.name)
    assert reply.usage == Usage(20, 5)


def test_parallel_calls_are_joined_from_their_pieces(server, provider, dialect):
    server.script(dialect.calls(("c1", "add", '{"a": 1}'), ("c2", "add", '{"b": 2}')))
    reply = reply_of(provider)
    assert reply.stop_reason == "tool_use"
    assert reply.entries == (
        Entry("assistant", "", "c1", "add", '{"a": 1}'),
        Entry("assistant", "", "c2", "add", '{"b": 2}'),
    )


def test_calls_without_an_id_get_one_each(server, provider, dialect):
    server.script(dialect.calls(("", "add", "{}"), ("", "add", "{}")))
    first, second = reply_of(provider).calls
    assert first.tool_id
    assert second.tool_id not in ("", first.tool_id)


def test_a_call_without_arguments_has_an_empty_object(server, provider, dialect):
    server.script(dialect.calls(("c1", "add", "")))
    assert reply_of(provider).calls == [Entry("assistant", "", "c1", "add", "{}")]


def test_a_call_without_a_name_is_no_answer(server, provider, dialect):
    server.script(dialect.calls(("c1", "", "{}")))
    with pytest.raises(ProtocolFault, match="empty answer"):
        reply_of(provider)


def call_piece(arguments: str, **more: Any) -> dict[str, Any]:
    function = {"name": "weather", "arguments": arguments}
    return {"tool_calls": [{"index": 0, "function": function, **more}]}


def test_a_name_that_each_piece_repeats_is_read_once(server):
    wire = DIALECTS["openai"]
    for options in ({"id": "a"}, {}):
        pieces = (call_piece('{"city"', **options), call_piece(': "Bonn"}', **options))
        server.script(wire.stream(*pieces, stop="tool_use"))
        (call,) = reply_of(provider_at(server, "openai")).calls
        assert (call.tool_name, call.arguments) == ("weather", {"city": "Bonn"})


def test_whole_calls_without_ids_stay_apart(server):
    pieces = [call_piece('{"city": "Bonn"}'), call_piece('{"city": "Lyon"}')]
    server.script(DIALECTS["openai"].stream(*pieces, stop="tool_use"))
    found = reply_of(provider_at(server, "openai")).calls
    assert [each.arguments for each in found] == [{"city": "Bonn"}, {"city": "Lyon"}]
    assert len({each.tool_id for each in found}) == 2


@pytest.mark.parametrize("kind", DIALECTS)
def test_arguments_that_are_encoded_twice_are_kept_as_one_object(server, kind):
    twice = json.dumps(json.dumps({"city": "Bonn"}))
    server.script(DIALECTS[kind].calls(("c1", "weather", twice)))
    (call,) = reply_of(provider_at(server, kind)).calls
    assert call.tool_args == '{"city": "Bonn"}'


def test_parallel_calls_that_share_an_index_stay_apart(server):
    """Gemini's compatible endpoint numbers every parallel call 0."""
    pieces = [
        {"index": 0, "id": name, "function": {"name": "add", "arguments": "{}"}}
        for name in ("c1", "c2")
    ]
    deltas = [{"tool_calls": [piece]} for piece in pieces]
    server.script(DIALECTS["openai"].stream(*deltas))
    reply = reply_of(provider_at(server, "openai"))
    assert [call.tool_id for call in reply.calls] == ["c1", "c2"]
    assert reply.stop_reason == "tool_use"


def test_input_tokens_include_the_cached_ones(server, provider, dialect):
    server.script(dialect.text("ok", usage=(1_000, 7, 900)))
    assert reply_of(provider).usage == Usage(1_000, 7, cache_read_tokens=900)


def test_anthropic_cache_writes_are_part_of_the_input(server):
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 40,
        "cache_read_input_tokens": 500,
        "output_tokens": 6,
    }
    script_anthropic_usage(server, {"input_tokens": 1, "output_tokens": 1}, usage)
    assert reply_of(provider_at(server, "anthropic")).usage == Usage(543, 6, 500, 40)


def test_iterations_of_server_side_compaction_are_summed(server):
    rounds = [{"input_tokens": 100, "output_tokens": 10}] * 2
    end = {"output_tokens": 10, "iterations": rounds}
    script_anthropic_usage(server, {"input_tokens": 100, "output_tokens": 1}, end)
    assert reply_of(provider_at(server, "anthropic")).usage == Usage(
        200, 20, dropped_tokens=110
    )


def test_a_later_usage_without_input_keeps_the_first(server):
    end = {"output_tokens": 9, "input_tokens": None}
    script_anthropic_usage(server, {"input_tokens": 30, "output_tokens": 1}, end)
    assert reply_of(provider_at(server, "anthropic")).usage == Usage(30, 9)


def script_anthropic_usage(server: FaultServer, start: Any, end: Any) -> None:
    whole = DIALECTS["anthropic"].text("ok", usage=(-1, -2, 0))
    wire = b"".join(whole.events).decode()
    first = json.dumps(
        {
            "input_tokens": -1,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
        }
    )
    last = json.dumps({"output_tokens": -2})
    assert first in wire
    assert last in wire
    wire = wire.replace(first, json.dumps(start)).replace(last, json.dumps(end))
    server.script(Response((wire.encode(),)))


def test_without_a_reported_usage_tokens_are_counted_here(server, provider, dialect):
    server.script(dialect.text("one two three", usage=None))
    usage = reply_of(provider).usage
    assert usage.is_estimated
    assert 1 <= usage.input_tokens < 20
    assert usage.output_tokens >= 3


def test_what_is_counted_for_a_server_that_reports_no_usage_is_forgotten(
    server, provider, dialect
):
    counter = vars(provider)["_counter"] = Noting(CHARACTERS)
    compacted = [Entry("tool", f"result {number}") for number in range(SPARE_SIZES + 9)]
    counter.count_entries(compacted)
    server.script(dialect.text("one two three", usage=None))
    reply_of(provider)
    counter.count_entry(compacted[0])
    assert counter.seen.count("result 0") == 2


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ({"openai": "stop", "anthropic": "end_turn"}, "end_turn"),
        ({"openai": "stop", "anthropic": "stop_sequence"}, "end_turn"),
        ({"openai": "length", "anthropic": "max_tokens"}, "max_tokens"),
        (
            {"openai": "length", "anthropic": "model_context_window_exceeded"},
            "max_tokens",
        ),
        ({"openai": "content_filter", "anthropic": "refusal"}, "refusal"),
        ({"openai": "brand_new", "anthropic": "brand_new"}, "end_turn"),
    ],
)
def test_stop_reasons_are_the_same_for_all_providers(
    server, provider, dialect, reasons, expected
):
    # The dialect of Responses has our words for its pairs of a status and a reason.
    server.script(dialect.text("hm", stop=reasons.get(dialect.wire, expected)))
    assert reply_of(provider).stop_reason == expected


@every(
    "body",
    [
        {
            "error": "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"
        },
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096)."
        },
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        },
        {
            "error": {
                "message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`"
            }
        },
        {
            "error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"
        },
    ],
)
def test_too_long_is_known_in_the_words_of_other_servers(body: dict[str, object]):
    assert refusal_in(400, body, {}).error_class is ContextOverflow


def test_a_refusal_in_openai_words_is_shown_and_named(server):
    server.script(DIALECTS["openai"].stream({"refusal": "I won't."}))
    reply = reply_of(provider_at(server, "openai"))
    assert (reply.text, reply.stop_reason) == ("I won't.", "refusal")


def test_a_call_cut_at_the_output_limit_is_omitted(server, provider, dialect):
    server.script(dialect.calls(("c1", "add", '{"a": 1, "b"'), stop="max_tokens"))
    reply = reply_of(provider)
    assert (reply.entries, reply.stop_reason) == ((), "max_tokens")


def test_thinking_of_compatible_servers_is_shown(server):
    deltas = ({"reasoning_content": "Hm"}, {"reasoning": "m."}, {"content": "Yes."})
    server.script(DIALECTS["openai"].stream(*deltas))
    shown, reply = drained(provider_at(server, "openai").stream(HELLO))
    assert shown == [ThinkingDelta("Hm"), ThinkingDelta("m."), TextDelta("Yes.")]
    assert [(entry.role, entry.content) for entry in reply.entries] == [
        ("thinking", "Hmm."),
        ("assistant", "Yes."),
    ]


def test_what_is_unknown_in_a_stream_is_passed_over(server, dialect, provider):
    if dialect.wire == "openai":
        nameless = {"tool_calls": [{"index": 0, "id": "c1", "function": {}}]}
        response = dialect.stream({"audio": {}}, nameless, {"content": "Hi"})
    elif dialect.wire == "responses":
        search: Any = ({"type": "web_search_call"}, [{"type": "response.brand_new"}])
        response = dialect.stream(search, responses_text("H", "i"))
    else:
        text: Any = ({"type": "text", "text": "H"}, [{"type": "citations_delta"}])
        text[1].append({"type": "text_delta", "text": "i"})
        response = dialect.stream(({"type": "brand_new"}, []), text)
    server.script(response)
    reply = reply_of(provider)
    assert (reply.entries, reply.stop_reason) == (
        (Entry("assistant", "Hi"),),
        "end_turn",
    )


def test_thinking_cut_before_its_signature_is_kept_for_reading_only(server):
    cut = ({"type": "thinking", "thinking": "Let me", "signature": ""}, [])
    server.script(DIALECTS["anthropic"].stream(cut, stop="max_tokens"))
    deltas, reply = drained(provider_at(server, "anthropic").stream(HELLO))
    assert deltas == [ThinkingDelta("Let me")]
    assert reply.entries == (Entry("thinking", "Let me", "", "anthropic", ""),)


def test_anthropic_thinking_goes_back_verbatim(server):
    thinking = (
        {"type": "thinking", "thinking": "", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": "Let me "},
            {"type": "thinking_delta", "thinking": "see 🌍"},
            {"type": "signature_delta", "signature": "c2lnbmF0dXJl=="},
        ],
    )
    hidden: Any = ({"type": "redacted_thinking", "data": "ZGF0YQ"}, [])
    call = ({"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}, [])
    server.script(DIALECTS["anthropic"].stream(thinking, hidden, call, stop="tool_use"))
    provider = provider_at(server, "anthropic")
    deltas, reply = drained(provider.stream(HELLO))
    assert deltas == [ThinkingDelta("Let me "), ThinkingDelta("see 🌍")]
    history = (*HELLO.history, *reply.entries, Entry("tool", "3", "c1", "add"))
    body = sent_body(server, provider, Request(history))
    sent = {"thinking": "Let me see 🌍", "signature": "c2lnbmF0dXJl=="}
    assert body["messages"][1]["content"] == [
        {"type": "thinking", **sent},
        {"type": "redacted_thinking", "data": "ZGF0YQ"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    ]


def test_thinking_is_sent_only_to_the_provider_that_wrote_it(server, provider, dialect):
    other = "openai" if dialect.wire == "anthropic" else "anthropic"
    block = json.dumps({"type": "thinking", "thinking": "secret", "signature": "x"})
    history = (
        *HELLO.history,
        Entry("thinking", "secret", "", other, block),
        Entry("thinking", "secret, cut off", "", dialect.kind, ""),
        Entry("thinking", "secret, broken off"),
        Entry("assistant", "Hi."),
        Entry("thinking", "secret at the end", "", other, block),
        Entry("user", "And?"),
    )
    body = sent_body(server, provider, Request(history))
    assert "secret" not in json.dumps(body)
    assert len(messages_of(body)) == 3


CONVERSATION = (
    Entry("summary", "<summary>\nAnn asked for sums.\n</summary>"),
    Entry("user", "Add 1 and 2,"),
    Entry("user", "and 3 and 4."),
    Entry("assistant", "I will."),
    Entry("assistant", "", "c1", "add", '{"a": 1, "b": 2}'),
    Entry("assistant", "", "c2", "add", "not JSON"),
    Entry("tool", "3", "c1", "add"),
    Entry("tool", "error: bad arguments", "c2", "add", FAILED),
    Entry("user", "Thanks."),
)
REQUEST = Request(CONVERSATION, "Be brief.", (add,), max_output_tokens=100)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def test_openai_wire_form(server):
    body = sent_body(server, provider_at(server, "openai"), REQUEST)
    system, user, assistant, *results, thanks = body.pop("messages")
    assert system == {"role": "system", "content": "Be brief."}
    assert user["role"] == "user"
    assert user["content"].startswith("<conversation_summary>\n")
    assert user["content"].endswith(
        "Ann asked for sums.\n</summary>\n</conversation_summary>\n\n"
        "Add 1 and 2,\n\nand 3 and 4."
    )
    assert assistant == {
        "role": "assistant",
        "content": "I will.",
        "tool_calls": [openai_call("c1", '{"a": 1, "b": 2}'), openai_call("c2", "{}")],
    }
    assert results == [
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "tool", "tool_call_id": "c2", "content": "error: bad arguments"},
    ]
    assert thanks == {"role": "user", "content": "Thanks."}
    function = {"name": "add", "description": "Add two numbers.", "parameters": SCHEMA}
    assert body == {
        "model": "model-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 100,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "auto",
    }


def openai_call(call_id: str, arguments: str) -> dict[str, Any]:
    function = {"name": "add", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def test_anthropic_wire_form(server):
    body = sent_body(server, provider_at(server, "anthropic"), REQUEST)
    user, assistant, results = body.pop("messages")
    summary, *questions = user["content"]
    assert summary["text"].startswith("<conversation_summary>\n")
    assert questions == [text_block("Add 1 and 2,"), text_block("and 3 and 4.")]
    assert assistant == {
        "role": "assistant",
        "content": [
            text_block("I will."),
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}},
            {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
        ],
    }
    assert results == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "3"},
            {
                "type": "tool_result",
                "tool_use_id": "c2",
                "content": "error: bad arguments",
                "is_error": True,
            },
            {**text_block("Thanks."), **CACHED},
        ],
    }
    schema = {"name": "add", "description": "Add two numbers.", "input_schema": SCHEMA}
    assert body == {
        "model": "model-x",
        "stream": True,
        "max_tokens": 100,
        "system": [{**text_block("Be brief."), **CACHED}],
        "tools": [{**schema, **CACHED}],
        "tool_choice": {"type": "auto"},
    }


CACHED = {"cache_control": {"type": "ephemeral"}}
"""On what Anthropic shall cache; see test_prompt_cache.py."""


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_the_body_is_what_the_openai_sdk_itself_would_send(server):
    ours = sent_body(server, provider_at(server, "openai"), REQUEST)
    server.script(DIALECTS["openai"].text("ok"))
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        list(client.chat.completions.create(**ours))
    assert server.requests[-1].body == ours


@pytest.mark.slow
def test_the_body_is_what_the_anthropic_sdk_itself_would_send(server):
    ours = sent_body(server, provider_at(server, "anthropic"), REQUEST)
    server.script(DIALECTS["anthropic"].text("ok"))
    with anthropic.Anthropic(api_key=KEY, base_url=server.url) as client:
        list(client.messages.create(**ours))
    assert server.requests[-1].body == ours


def test_a_schema_for_the_answer_reaches_each_api_as_its_sdk_writes_it(
    server, provider, dialect
):
    request = replace(HELLO, output_schema=SCHEMA)
    body = sent_body(server, provider, request)
    if isinstance(dialect, OpenAIDialect):
        form = body["response_format"]
        assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", SCHEMA)
        type_checked = TypeAdapter(ResponseFormatJSONSchema)
    elif isinstance(dialect, ResponsesDialect):
        form = body["text"]
        assert (form["format"]["name"], form["format"]["schema"]) == ("answer", SCHEMA)
        type_checked = TypeAdapter(ResponseTextConfigParam)
    else:
        form = body["output_config"]
        assert form == {"format": {"type": "json_schema", "schema": SCHEMA}}
        type_checked = TypeAdapter(OutputConfigParam)
    assert type_checked.validate_python(form) == form


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"anthropic": {"type": "auto"}}),
        ("none", {"anthropic": {"type": "none"}}),
        ("required", {"anthropic": {"type": "any"}}),
        (
            "add",
            {
                "openai": {"type": "function", "function": {"name": "add"}},
                "responses": {"type": "function", "name": "add"},
                "anthropic": {"type": "tool", "name": "add"},
            },
        ),
    ],
)
def test_tool_choice_in_each_api(server, provider, dialect, choice, expected):
    request = Request(HELLO.history, tools=(add,), tool_choice=choice)
    body = sent_body(server, provider, request)
    assert body["tool_choice"] == expected.get(dialect.wire, choice)


def test_without_tools_nothing_is_said_of_tools(server, provider):
    body = sent_body(server, provider, Request(HELLO.history, tool_choice="required"))
    assert not {"tools", "tool_choice"} & set(body)


DATA_URI = "data:image/png;base64,aGk="


def test_pictures_and_files_travel_with_their_captions(server, provider, dialect):
    image = json.dumps({"media_type": "image/png", "data": "aGk="})
    notes = json.dumps({"media_type": "text/csv", "data": "a,b\n1,2"})
    bare = json.dumps({"data": "aGk="})
    movie = json.dumps({"media_type": "video/mp4", "data": "AAAA"})
    history = (
        Entry("user", "What is this?", "", "image", image),
        Entry("user", "", "", "image", bare),
        Entry("user", "notes.csv", "", "file", notes),
        Entry("user", "", "", "file", movie),
    )
    content = messages_of(sent_body(server, provider, Request(history)))[0]["content"]
    uri = {"type": "image_url", "image_url": {"url": DATA_URI}}
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    files = [
        text_block("notes.csv\n\na,b\n1,2"),
        text_block("[a file of type video/mp4, which is not text]"),
    ]
    if dialect.wire == "openai":
        assert content == [text_block("What is this?"), uri, uri, *files]
    elif dialect.wire == "responses":
        picture = {"type": "input_image", "detail": "auto", "image_url": DATA_URI}
        texts = [{**each, "type": "input_text"} for each in files]
        asked = {"type": "input_text", "text": "What is this?"}
        assert content == [asked, picture, picture, *texts]
    else:
        picture = {"type": "image", "source": source}
        asked = text_block("What is this?")
        assert content == [picture, asked, picture, files[0], {**files[1], **CACHED}]


def test_blank_texts_make_no_illegal_blocks(server, provider, dialect):
    history = (
        Entry("user", "Hello"),
        Entry("user", ""),
        Entry("assistant", ""),
        Entry("assistant", "", "c1", "add", ""),
        Entry("tool", "", "c1", "add"),
    )
    body = sent_body(server, provider, Request(history))
    if dialect.wire == "openai":
        contents = [message["content"] for message in body["messages"]]
        assert contents == ["Hello", None, ""]
    elif dialect.wire == "responses":
        hello, call, result = body["input"]
        assert hello["content"] == [{"type": "input_text", "text": "Hello"}]
        assert [call["arguments"], result["output"]] == ["{}", ""]
    else:
        hello, call, result = [message["content"] for message in body["messages"]]
        assert hello == [text_block("Hello")]
        assert [block["type"] for block in call] == ["tool_use"]
        assert result == [{"type": "tool_result", "tool_use_id": "c1", **CACHED}]


def test_anthropic_roles_alternate_where_an_answer_was_only_thinking(server):
    history = (
        Entry("user", "One"),
        Entry("thinking", "", "", "anthropic", '{"type": "thinking", "thinking": ""}'),
        Entry("user", "Two"),
    )
    request = Request(tuple(legal(history)))
    body = sent_body(server, provider_at(server, "anthropic"), request)
    assert body["messages"] == [
        {
            "role": "user",
            "content": [text_block("One"), {**text_block("Two"), **CACHED}],
        }
    ]


def test_ids_of_other_servers_are_made_fit_for_anthropic(server):
    history = (
        *HELLO.history,
        Entry("assistant", "", "functions.add:0", "add", "{}"),
        Entry("tool", "3", "functions.add:0", "add"),
    )
    body = sent_body(server, provider_at(server, "anthropic"), Request(history))
    assert body["messages"][1]["content"][0]["id"] == "functions_add_0"
    assert body["messages"][2]["content"][0]["tool_use_id"] == "functions_add_0"


def test_a_request_may_name_another_model(server, provider, dialect):
    request = Request(HELLO.history, model=f"{provider.kind}:model-y")
    assert sent_body(server, provider, request)["model"] == "model-y"


def test_a_temperature_is_sent_only_when_set(server, dialect):
    warm = provider_at(server, dialect.kind, temperature=0.0)
    assert sent_body(server, warm, HELLO)["temperature"] == 0.0
    plain = provider_at(server, dialect.kind)
    assert "temperature" not in sent_body(server, plain, HELLO)


def test_anthropic_always_gets_an_output_limit(server):
    body = sent_body(server, provider_at(server, "anthropic"), HELLO)
    assert body["max_tokens"] == 4_096


@pytest.mark.parametrize(
    ("model", "effort", "fields"),
    [
        ("claude-haiku-5-5", "", {}),
        ("claude-haiku-5-5", "off", {"thinking": {"type": "disabled"}}),
        (
            "claude-sonnet-4-6",
            "high",
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "high"},
            },
        ),
        (
            "claude-haiku-4-5-20251001",
            "low",
            {"thinking": {"type": "enabled", "budget_tokens": 2_048}},
        ),
        (
            "claude-sonnet-4-20250514",
            "medium",
            {"thinking": {"type": "enabled", "budget_tokens": 5_000}},
        ),
    ],
)
def test_effort_in_the_words_of_anthropic(server, model, effort, fields):
    provider = AnthropicProvider(
        model, base_url=server.url, api_key=lambda: KEY, temperature=0.5
    )
    request = replace(HELLO, options={"effort": effort}, max_output_tokens=10_000)
    body = sent_body(server, provider, request)
    names = ("thinking", "output_config")
    assert {name: body[name] for name in names if name in body} == fields
    # With thinking the API takes no temperature but 1.
    assert ("temperature" in body) == (effort in ("", "off"))


def test_a_forced_call_of_anthropic_excludes_thinking(server):
    provider = provider_at(server, "anthropic")
    request = replace(
        HELLO, tools=(add,), tool_choice="add", options={"effort": "high"}
    )
    assert sent_body(server, provider, request)["thinking"] == {"type": "disabled"}


def test_effort_and_schema_share_a_field_of_anthropic(server):
    provider = AnthropicProvider(
        "claude-haiku-5-5", base_url=server.url, api_key=lambda: KEY
    )
    request = replace(
        HELLO, options={"effort": "low"}, output_schema={"type": "object"}
    )
    config = sent_body(server, provider, request)["output_config"]
    assert (config["effort"], config["format"]["type"]) == ("low", "json_schema")


def test_a_model_of_anthropic_that_takes_no_effort_is_asked_without(server):
    refusal = {"message": "adaptive thinking is not supported on this model"}
    effort = {"message": "This model does not support the effort parameter."}
    server.script(failure(400, refusal), failure(400, effort))
    provider = AnthropicProvider(
        "claude-future-9", base_url=server.url, api_key=lambda: KEY
    )
    body = sent_body(server, provider, replace(HELLO, options={"effort": "low"}))
    assert {"thinking", "output_config"} & set(body) == set()
    assert len(server.requests) == 3


@pytest.mark.parametrize("effort", ["off", "low", "medium", "high"])
def test_effort_in_the_words_of_chat_completions(server, effort):
    for kind in ("openai", "gemini"):
        provider = provider_at(server, kind)
        body = sent_body(server, provider, replace(HELLO, options={"effort": effort}))
        assert body["reasoning_effort"] == {"off": "none"}.get(effort, effort)


@pytest.mark.slow
def test_a_request_may_have_its_own_patience(server, dialect):
    """As slow servers need; the provider's default is five minutes."""
    server.script(Response(ending="silence"))
    provider = provider_at(server, dialect.kind)
    started = time.monotonic()
    with pytest.raises(ConnectionFailed, match="timeout_seconds"):
        reply_of(provider, replace(HELLO, options={"timeout_seconds": 0.2}))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        ("", "max_completion_tokens"),
        ("https://me.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://127.0.0.1:1/v1", "max_tokens"),
    ],
)
def test_the_limit_has_the_name_its_server_knows(base_url, field):
    provider = OpenAIProvider("model-x", base_url=base_url, api_key=lambda: KEY)
    request = Request(HELLO.history, max_output_tokens=7)
    assert provider._extra_body(request)[field] == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_becomes_one_clear_line_without_the_key(server, dialect, name):
    _, error_class, words = FAULTS[name]
    bad = fault(name, dialect)
    server.script(bad)
    provider = provider_at(server, dialect.kind, timeout_seconds=timeout_for(bad))
    with pytest.raises(ProviderError) as raised:
        drained(provider.stream(HELLO))
    assert type(raised.value) is error_class
    assert words in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 4
    assert KEY not in texts_of(raised.value)
    is_final = error_class in PERMANENT or name in NOT_TRIED_AGAIN
    assert raised.value.is_retryable != is_final
    assert len(server.requests) == 1


def test_a_kept_line_that_the_server_has_left_is_no_failed_attempt(server, dialect):
    first = replace(dialect.text("One"), ending="leave")
    server.script(first, dialect.text("Two"))
    provider = provider_at(server, dialect.kind)
    assert [reply_of(provider).text for _ in "12"] == ["One", "Two"]


def test_a_server_that_drops_line_after_line_is_not_asked_for_ever(server, dialect):
    first = replace(dialect.text("One"), ending="leave")
    server.script(first, *(Response(ending="drop") for _ in range(9)))
    provider = provider_at(server, dialect.kind)
    reply_of(provider)
    for _ in range(2):
        with pytest.raises(ConnectionFailed, match="Lost the connection"):
            reply_of(provider)
    assert len(server.requests) <= 4  # an answer, one with its repetition, one alone


@pytest.mark.slow
@pytest.mark.parametrize("name", MID_STREAM)
def test_after_the_first_delta_a_fault_is_raised_and_nothing_repeated(
    server, dialect, name
):
    break_off, error_class = MID_STREAM[name]
    bad = break_off(dialect, begun(dialect))
    server.script(bad, dialect.text("never asked for"))
    provider = provider_at(server, dialect.kind, timeout_seconds=timeout_for(bad))
    shown, error = shown_until_fault(stream_with_retries(provider, HELLO))
    assert shown == "Hello"
    assert type(error) is error_class
    assert KEY not in texts_of(error)
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_stream_cut_anywhere_is_never_taken_for_a_whole_one(
    server, provider, dialect
):
    whole = dialect.calls(("c1", "add", '{"a": 1, "b": 2}'))
    length = len(b"".join(whole.events))
    replies = 0
    for cut in range(0, length, 23):
        server.script(whole.cut(cut))
        try:
            reply = reply_of(provider)
        except ProtocolFault:
            continue
        replies += 1
        assert reply.calls == [Entry("assistant", "", "c1", "add", '{"a": 1, "b": 2}')]
    # OpenAI's finish reason comes before usage and [DONE]; what follows may be missing.
    assert replies <= (10 if dialect.wire == "openai" else 0)


def test_an_unreachable_address_is_named_in_the_error(server, dialect):
    provider = provider_at(server, dialect.kind)
    server.close()
    expected = f"Can't connect to {server.url[7:]}. Is the server running"
    for ask in (lambda: reply_of(provider), provider.catalog):
        with pytest.raises(ConnectionFailed, match=expected):
            ask()


def test_stop_ends_a_stalled_stream_at_once(server, provider, dialect):
    def seconds() -> float:
        server.script(replace(begun(dialect), ending="stall"))
        stop, stopped_at = threading.Event(), list[float]()
        stream = provider.stream(HELLO, stop=stop)
        assert next(stream) == TextDelta("Hello")
        click = lambda: (stopped_at.append(time.monotonic()), stop.set())  # noqa: E731
        threading.Timer(0.1, click).start()
        with pytest.raises(Stopped):
            next(stream)
        return time.monotonic() - stopped_at[0]

    assert_within(0.2, seconds)


def test_a_passing_fault_is_tried_again_and_said_so(server, provider, dialect):
    wait = {"Retry_After": "0.01"}
    server.script(failure(529, **wait), failure(429, **wait), dialect.text("Hello"))
    deltas, reply = drained(stream_with_retries(provider, HELLO))
    first, second, hello = deltas
    assert isinstance(first, RetryScheduled)
    assert first.attempt == 1
    assert 0.01 <= first.wait_seconds <= 0.02
    assert "overloaded" in first.reason
    assert isinstance(second, RetryScheduled)
    assert hello == TextDelta("Hello")
    assert reply.text == "Hello"


SHORT_WAIT_SEED = 1514
"""Of random waits, of which the first is short."""


@pytest.mark.slow
def test_an_error_event_before_any_delta_is_tried_again(server, provider, dialect):
    random.seed(SHORT_WAIT_SEED)
    server.script(Response((overloaded(dialect),)), dialect.text("Hello"))
    deltas, _ = drained(stream_with_retries(provider, HELLO))
    assert [type(delta) for delta in deltas] == [RetryScheduled, TextDelta]


def test_after_four_attempts_the_error_is_raised(server, provider):
    server.script(*[failure(529, Retry_After="0.01")] * 5)
    with pytest.raises(Overloaded):
        drained(stream_with_retries(provider, HELLO))
    assert len(server.requests) == 4


def test_stop_ends_the_wait_for_another_attempt(server, provider):
    server.script(failure(529, Retry_After="30"))
    stop = threading.Event()
    stream = stream_with_retries(provider, HELLO, stop=stop)
    assert isinstance(next(stream), RetryScheduled)
    threading.Timer(0.05, stop.set).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        next(stream)
    assert time.monotonic() - started < 5  # of 30


@pytest.mark.parametrize("name", ["401 quoting the key", "200 page", "429 with a wait"])
def test_what_waiting_does_not_help_is_raised_at_once(server, provider, dialect, name):
    server.script(fault(name, dialect), dialect.text("never asked for"))
    with pytest.raises(ProviderError):
        next(stream_with_retries(provider, HELLO))  # a wait would be said before it
    assert len(server.requests) == 1


def test_a_wait_may_be_given_as_a_date(server, provider):
    server.script(failure(429, Retry_After="Fri, 01 Jan 2100 00:00:00 GMT"))
    with pytest.raises(RateLimited) as raised:
        reply_of(provider)
    assert raised.value.retry_after is not None
    assert raised.value.retry_after > 1e9


@pytest.mark.parametrize("kind", ["openai", "gemini", "anthropic"])
def test_a_missing_key_says_what_to_set_and_what_works_without(kind):
    with pytest.raises(ConfigError, match=f"{kind.upper()}_API_KEY.*local:smollm2"):
        connect(f"{kind}:model-x")


@pytest.mark.parametrize("kind", PROVIDERS)
def test_the_key_comes_from_the_environment(server, monkeypatch, kind):
    monkeypatch.setenv(PROVIDERS[kind].usual_service.key_variables[0], f" {KEY}\n")
    options = {"api_key": None, "api_key_hosts": ["127.0.0.1"]}
    provider = provider_at(server, kind, **options)
    sent_body(server, provider, HELLO)
    assert KEY in " ".join(server.requests[0].headers.values()).split()


def test_a_compatible_server_needs_no_key(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    server.script(DIALECTS["openai"].text("ok"))
    assert reply_of(OpenAIProvider("model-x")).text == "ok"
    assert server.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(
    "key", ["", "sk-canary\n5up3r", "sk-cänary"], ids=["empty", "line end", "umlaut"]
)
def test_an_unusable_key_is_named_but_not_shown(server, dialect, key):
    provider = provider_at(server, dialect.kind, api_key=lambda: key)
    if not key:  # a compatible server needs none
        assert sent_body(server, provider, HELLO)
        return
    with pytest.raises(ConfigError) as raised:
        reply_of(provider)
    assert not key or repr(key) not in texts_of(raised.value)
    assert server.requests == []


def test_a_key_function_that_fails_is_named(server, provider, dialect):
    broken = provider_at(server, dialect.kind, api_key=lambda: str(int(KEY)))
    with pytest.raises(ConfigError, match=r"api_key function .* failed: ValueError"):
        reply_of(broken)
    assert broken.info().window is None


def test_a_password_in_the_address_is_not_shown(dialect):
    url = "http://ann:s3cret@127.0.0.1:1/v1"
    provider = PROVIDERS[dialect.kind]("m", base_url=url, api_key=lambda: KEY)
    with pytest.raises(ConnectionFailed, match=r"http://127\.0\.0\.1:1/v1") as raised:
        reply_of(provider)
    assert "s3cret" not in texts_of(raised.value) + repr(provider) + str(vars(provider))


def test_an_address_without_a_scheme_is_refused_at_once(dialect):
    with pytest.raises(ConfigError, match="http://"):
        PROVIDERS[dialect.kind]("m", base_url="localhost:1", api_key=lambda: KEY)


@pytest.mark.parametrize(
    "model",
    [
        {"id": "model-x", "meta": {"n_ctx": 4_096, "n_ctx_train": 8_192}},
        {"id": "model-x", "max_model_len": 4_096},
        {"id": "model-x", "context_length": 4_096, "meta": None},
        {"id": "/a/path/to/model.gguf", "meta": {"n_ctx": 4_096}},
    ],
)
def test_a_compatible_server_tells_its_window_once(server, provider, model):
    server.script(answer({"object": "list", "data": [model]}))
    assert provider.info().window == 4_096
    assert provider.info().window == 4_096
    assert len(server.requests) == 1


def test_what_a_server_tells_holds_for_providers_that_are_made_next(server, dialect):
    server.script(answer({"data": [{"id": "model-x", "max_model_len": 4_096}]}))
    made = [provider_at(server, dialect.kind) for _ in range(3)]
    windows = [each.info().window for each in made]
    assert windows == [4_096] * 3
    assert len(server.requests) == 1


def test_among_several_unknown_models_no_window_is_guessed(server, provider):
    models = [{"id": name, "max_model_len": 512} for name in ("a", "b")]
    server.script(answer({"data": models}))
    assert provider.info().window is None


def test_anthropic_itself_is_asked_for_the_window_of_a_new_model(server):
    home = at_home(AnthropicProvider, server.url)

    server.script(answer({"id": "model-x", "max_input_tokens": 300_000}))
    assert home("model-x", api_key=lambda: KEY).info().window == 300_000
    assert server.requests[0].path == "/v1/models/model-x"


def test_openai_itself_does_not_tell_and_is_not_asked(server):
    home = at_home(OpenAIProvider, server.url)

    assert home("model-x", api_key=lambda: KEY).info().window is None
    assert server.requests == []


def test_a_server_that_does_not_tell_its_window_is_asked_once(server, provider):
    server.script(failure(404))
    assert provider.info().window is None
    assert provider.info().window is None
    assert len(server.requests) == 1


def test_a_server_that_is_down_is_asked_again(server, provider):
    server.script(Response(ending="drop"), answer({"data": [{"max_model_len": 512}]}))
    assert provider.info().window is None
    assert provider.info().window == 512


def test_a_window_that_is_set_wins(server, dialect):
    provider = provider_at(server, dialect.kind, window=1_000)
    assert provider.info().window == 1_000
    assert server.requests == []


def test_the_server_tells_its_models(server, provider):
    server.script(answer({"data": [{"id": "a"}, {"id": "b"}], "has_more": False}))
    assert [each.name for each in provider.catalog()] == ["a", "b"]


def test_anthropic_counts_on_its_server(server):
    server.script(answer({"input_tokens": 42}))
    assert provider_at(server, "anthropic").count_tokens(REQUEST) == 42
    assert server.requests[0].path == "/v1/messages/count_tokens"
    assert set(server.requests[0].body) == {
        *("model", "messages", "system", "tools", "tool_choice")
    }


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
def test_a_line_the_server_has_just_left_is_asked_on_once_more(server, kind):
    provider = provider_at(server, kind)
    left, counts = Response(ending="drop"), {"input_tokens": 42, "totalTokens": 42}
    server.script(left, answer(counts), left, answer({"data": [{"id": "a"}]}))
    assert provider.count_tokens(REQUEST) == 42
    assert [each.name.removeprefix("models/") for each in provider.catalog()] == ["a"]


def test_a_count_that_fails_is_a_provider_error(server):
    server.script(failure(529))
    with pytest.raises(Overloaded):
        provider_at(server, "anthropic").count_tokens(REQUEST)


def test_openai_counts_here_and_takes_pictures_for_what_they_cost(server):
    image = json.dumps({"media_type": "image/png", "data": "aGk=" * 10_000})
    provider = provider_at(server, "openai")
    bare = provider.count_tokens(REQUEST)
    thought = Entry("thinking", "Hmm. " * 1_000, "", "anthropic", "{}")
    seen = (*CONVERSATION, thought, Entry("user", "", "", "image", image))
    assert 100 < bare < 400
    assert provider.count_tokens(Request(seen)) < bare + 1_100
    assert server.requests == []


NATIVE = "/v1beta/models/model-x"
SIGNATURE = "EjQKMgEMOdbHJChLX75QUCJjyYlm+/8="
SIGNED = {"google": {"thought_signature": SIGNATURE}}
MARK = json.dumps({"extra_content": SIGNED})


def test_a_thought_signature_goes_back_verbatim_with_its_call(server):
    first = gemini_call("c1", "add", '{"a": 1}', SIGNATURE)
    second = gemini_call("c2", "add", '{"a": 2}')
    deltas = ({"content": "I add."}, {"tool_calls": [first]}, {"tool_calls": [second]})
    server.script(DIALECTS["gemini"].stream(*deltas))
    provider = provider_at(server, "gemini")
    reply = reply_of(provider)
    assert reply.entries == (
        Entry("assistant", "I add."),
        Entry("thinking", "", "", "gemini", MARK),
        Entry("assistant", "", "c1", "add", '{"a": 1}'),
        Entry("assistant", "", "c2", "add", '{"a": 2}'),
    )
    results = [Entry("tool", "3", each, "add") for each in ("c1", "c2")]
    history = legal([*HELLO.history, *reply.entries, *results])
    body = sent_body(server, provider, Request(tuple(history)))
    _, assistant, *answers = body["messages"]
    assert assistant["content"] == "I add."
    assert assistant["tool_calls"] == [first, second]
    assert answers == [
        {"role": "tool", "tool_call_id": each, "content": "3", "name": "add"}
        for each in ("c1", "c2")
    ]


def test_a_signature_stays_with_its_call_when_the_call_gets_another_id(server):
    long = [
        Entry("thinking", "", "", "gemini", MARK),
        Entry("assistant", "", "c" * 99, "add", "{}"),
        Entry("tool", "3", "c" * 99, "add"),
    ]
    history = legal([*HELLO.history, *long])
    body = sent_body(server, provider_at(server, "gemini"), Request(tuple(history)))
    [call] = body["messages"][1]["tool_calls"]
    assert (call["id"], call["extra_content"]) == ("c" * 40, SIGNED)


@pytest.mark.parametrize(
    ("thinker", "block"),
    [
        ("gemini", ""),
        ("gemini", "{}"),
        ("gemini", "not JSON"),
        ("gemini", '{"id": "c9"}'),
        ("gemini", '{"extra_content": "\\ud800"}'),
        ("openai", MARK),
    ],
)
def test_what_is_no_signature_of_gemini_is_not_sent_with_a_call(server, thinker, block):
    thought = Entry("thinking", "", "", thinker, block)
    call = Entry("assistant", "", "c1", "add", "{}")
    history = (*HELLO.history, thought, call, Entry("tool", "3", "c1", "add"))
    body = sent_body(server, provider_at(server, "gemini"), Request(history))
    assert body["messages"][1]["tool_calls"] == [openai_call("c1", "{}")]


def test_only_gemini_gets_its_signatures_back(server):
    call = Entry("assistant", "", "c1", "add", "{}")
    thought = Entry("thinking", "", "", "gemini", MARK)
    history = (*HELLO.history, thought, call, Entry("tool", "3", "c1", "add"))
    for kind in ("openai", "anthropic"):
        body = sent_body(server, provider_at(server, kind), Request(history))
        assert SIGNATURE not in json.dumps(body)


@pytest.mark.parametrize(("total", "output_tokens"), [(2_496, 1_027), (None, 744)])
def test_gemini_thinking_counts_as_output(server, total, output_tokens):
    """As gemini-2.5-flash reports it: the total is more than its two parts."""
    usage = {"prompt_tokens": 1_469, "completion_tokens": 744, "total_tokens": total}
    details = {"prompt_tokens_details": {"cached_tokens": 1_024}}
    whole = DIALECTS["gemini"].text("ok", usage=(-1, -2, 0))
    said, finish, _, done = whole.events
    reported = sse({"choices": [], "usage": {**usage, **details}})
    server.script(replace(whole, events=(said, finish, reported, done)))
    assert reply_of(provider_at(server, "gemini")).usage == Usage(
        1_469, output_tokens, 1_024
    )


class Side(Enum):
    LEFT = "left"


class Node(BaseModel):
    side: Side
    size: int = Field(gt=0, le=9)
    children: list["Node"] = []


@tool
def place(node: Node, kind: Literal["leaf"], note: str | None = None) -> str:
    """Place a node."""
    return f"{node}{kind}{note}"


@tool
def now() -> str:
    """The time."""
    return "noon"


def test_gemini_gets_schemas_in_the_words_it_knows(server):
    provider = provider_at(server, "gemini")
    body = sent_body(server, provider, Request(HELLO.history, tools=(place, now)))
    functions = [each["function"] for each in body["tools"]]
    side = {"type": "string", "enum": ["left"]}
    children = {"type": "array", "items": {"type": "object"}}
    size = {"type": "integer", "maximum": 9}
    node = {
        "type": "object",
        "properties": {"side": side, "size": size, "children": children},
        "required": ["side", "size"],
    }
    properties = {
        "node": node,
        "kind": {"type": "string", "enum": ["leaf"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    assert functions == [
        {
            "name": "place",
            "description": "Place a node.",
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": ["node", "kind"],
            },
        },
        {"name": "now", "description": "The time."},
    ]
    assert body["tool_choice"] == "auto"


BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
GEMINI_FAULTS: dict[str, tuple[Response, type[ProviderError], str]] = {
    "bad key": (
        gemini_failure(
            400, "Please renew it.", {**BAD_KEY, "reason": "API_KEY_INVALID"}
        ),
        AuthenticationFailed,
        "GEMINI_API_KEY",
    ),
    "bad key without a reason": (
        gemini_failure(400, "API key not valid. Please pass a valid API key."),
        AuthenticationFailed,
        "GEMINI_API_KEY",
    ),
    "too long": (
        gemini_failure(
            400,
            "The input token count (1200293) exceeds the maximum number of tokens "
            "allowed (1048576).",
        ),
        ContextOverflow,
        "Compact it",
    ),
    "no signature": (
        gemini_failure(400, "Function call is missing a thought_signature"),
        RequestRefused,
        "missing a thought_signature",
    ),
    "unknown model": (
        gemini_failure(404, "models/model-x is not found for API version v1main"),
        UnknownModel,
        "has no model named model-x",
    ),
    "too many": (
        gemini_failure(429, "You exceeded your current quota, check billing", RETRY),
        RateLimited,
        "wait 34.5 s",
    ),
    "no credit": (
        gemini_failure(429, "Your prepayment credits are depleted."),
        QuotaExhausted,
        "credit",
    ),
    "overloaded": (
        gemini_failure(503, "The model is overloaded."),
        Overloaded,
        "503: The model is overloaded.",
    ),
    "an error as a 200": (
        answer([{"error": {"code": 503, "message": "busy"}}]),
        Overloaded,
        "503",
    ),
    "an empty list": (answer([], 400), RequestRefused, "no reason"),
}


@pytest.mark.parametrize("name", GEMINI_FAULTS)
def test_an_error_in_a_list_becomes_one_clear_line(server, name):
    response, error_class, words = GEMINI_FAULTS[name]
    server.script(response)
    with pytest.raises(ProviderError) as raised:
        reply_of(provider_at(server, "gemini"))
    assert type(raised.value) is error_class
    assert words in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 4


def test_gemini_counts_on_its_own_api(server):
    image = Entry("user", "Look", "", "image", json.dumps({"data": "aGk="}))
    thought = Entry("thinking", "", "", "gemini", MARK)
    history = (*CONVERSATION[:4], thought, *CONVERSATION[4:], image)
    server.script(answer({"totalTokens": 42, "promptTokensDetails": []}))
    provider = provider_at(server, "gemini")
    assert provider.count_tokens(replace(REQUEST, history=history)) == 42
    [request] = server.requests
    assert request.path == f"{NATIVE}:countTokens"
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-goog-api-key"] == KEY
    assert "authorization" not in headers  # Gemini refuses two
    asked = request.body["generateContentRequest"]
    summary, *questions = asked["contents"][0]["parts"]
    assert summary["text"].startswith("<conversation_summary>\n")
    assert questions == [{"text": "Add 1 and 2,"}, {"text": "and 3 and 4."}]
    first = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}
    assert asked["contents"][1] == {
        "role": "model",
        "parts": [
            {"text": "I will."},
            {**first, "thoughtSignature": SIGNATURE},
            {"functionCall": {"name": "add", "args": {}}},
        ],
    }
    failed = {"error": "error: bad arguments"}
    assert asked["contents"][2] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "add", "response": {"output": "3"}}},
            {"functionResponse": {"name": "add", "response": failed}},
            {"text": "Thanks."},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            {"text": "Look"},
        ],
    }
    parameters = {
        word: each for word, each in SCHEMA.items() if word != "additionalProperties"
    }
    function = {"name": "add", "description": "Add two numbers."}
    assert asked["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert asked["tools"] == [
        {"functionDeclarations": [{**function, "parameters": parameters}]}
    ]
    assert asked["model"] == "models/model-x"
    assert len(asked["contents"]) == 3
    assert set(request.body) == {"generateContentRequest"}


def test_gemini_counts_for_the_model_a_request_names(server):
    blank = (Entry("user", " "), Entry("assistant", "b"), Entry("user", "a\ud800"))
    server.script(answer({"totalTokens": 7}))
    request = Request(blank, model="gemini:models/model-y")
    assert provider_at(server, "gemini").count_tokens(request) == 7
    assert server.requests[0].path == "/v1beta/models/model-y:countTokens"
    asked = server.requests[0].body["generateContentRequest"]
    said = [turn["parts"] for turn in asked["contents"]]
    texts = ["(nothing was written)", "b", "a\ufffd"]
    assert said == [[{"text": text}] for text in texts]
    assert set(asked) == {"model", "contents"}


COUNT_FAULTS: dict[str, tuple[Response, type[ProviderError], str]] = {
    "bad key": (
        failure(400, {"message": f"API key not valid: {KEY}", "code": 400}),
        AuthenticationFailed,
        "GEMINI_API_KEY",
    ),
    "overloaded": (failure(503), Overloaded, "503"),
    "a page": (
        Response((b"<html>Bad Gateway</html>",), 502),
        Overloaded,
        "Bad Gateway",
    ),
    "another JSON": (answer({"total": 1}), ProtocolFault, "can't be read"),
    "no JSON": (page(f"login {KEY}"), ProtocolFault, "can't be read"),
    "the line breaks": (
        Response(ending="drop"),
        ConnectionFailed,
        "Lost the connection",
    ),
    "silence": (Response(ending="silence"), ConnectionFailed, "didn't answer in time"),
}


@pytest.mark.parametrize("name", COUNT_FAULTS)
def test_a_count_of_gemini_that_fails_is_one_clear_line_without_the_key(server, name):
    response, error_class, words = COUNT_FAULTS[name]
    server.script(response, response)  # a line that breaks is tried once more
    provider = provider_at(server, "gemini", timeout_seconds=timeout_for(response))
    with pytest.raises(ProviderError) as raised:
        provider.count_tokens(HELLO)
    assert type(raised.value) is error_class
    assert words in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 4
    assert KEY not in texts_of(raised.value)


def test_a_server_that_only_speaks_openais_api_is_not_asked_for_geminis_count(server):
    provider = provider_at(server, "gemini", base_url=f"{server.url}/v1")
    assert 100 < provider.count_tokens(REQUEST) < 400
    assert server.requests == []


def test_the_first_key_that_is_set_is_geminis(server, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    for first, used in (("", KEY), ("sk-first", "sk-first")):
        monkeypatch.setenv("GEMINI_API_KEY", first)
        options = {"api_key": None, "api_key_hosts": ["127.0.0.1"]}
        sent_body(server, provider_at(server, "gemini", **options), HELLO)
        assert f"Bearer {used}" in server.requests[-1].headers.values()


def test_an_error_names_the_variable_the_key_came_from(server, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    server.script(gemini_failure(400, "API key not valid"))
    options = {"api_key": None, "api_key_hosts": ["127.0.0.1"]}
    with pytest.raises(AuthenticationFailed, match="Check GOOGLE_API_KEY"):
        reply_of(provider_at(server, "gemini", **options))


def test_geminis_address_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("GEMINI_BASE_URL", f"{server.url}/v1beta/openai/")
    provider = GeminiProvider("model-x", api_key=lambda: KEY)
    sent_body(server, provider, HELLO)
    assert server.requests[0].path == "/v1beta/openai/chat/completions"
    server.script(answer({"totalTokens": 1}))
    assert provider.count_tokens(HELLO) == 1
    assert server.requests[1].path == f"{NATIVE}:countTokens"


def test_gemini_itself_tells_the_window_of_a_model_that_is_not_listed(server):
    home = at_home(GeminiProvider, f"{server.url}/v1beta/openai")

    server.script(answer({"name": "models/model-x", "inputTokenLimit": 1_048_576}))
    assert home("model-x", api_key=lambda: KEY).info().window == 1_048_576
    assert server.requests[0].path == NATIVE
    listed = home("gemini-2.5-flash", api_key=lambda: KEY).info()
    assert (listed.window, listed.prices is None) == (1_048_576, False)
    assert len(server.requests) == 1


def test_gemini_tells_its_models_by_the_names_they_have_here(server):
    server.script(answer({"data": [{"id": "models/gemini-2.5-flash"}]}))
    (listed,) = provider_at(server, "gemini").catalog()
    assert listed.name == "gemini-2.5-flash"


def test_a_provider_that_warmed_up_has_sent_nothing_and_works(
    server, provider, dialect
):
    provider.warm_up()
    assert server.requests == []
    server.script(dialect.text("Hello."))
    assert reply_of(provider).text == "Hello."
    assert len(messages_of(server.requests[0].body)) == 1


LOADED_LATE = """
import gc, sys
from fault_server import {dialect}, FaultServer
from nbchat.conversation.entries import Entry
from nbchat.providers.base import Request
from nbchat.providers.connect import connect
server = FaultServer()
server.script({dialect}().text("Hello."))
collections = []
gc.callbacks.append(lambda phase, about: collections.append(about["generation"]))
provider = connect("{kind}:m", base_url=server.url + "{path}", api_key=lambda: "k")
print("{kind}" in sys.modules)
provider.warm_up()
print(gc.isenabled(), collections.count(2))
known = set(sys.modules)
list(provider.stream(Request((Entry("user", "Hello"),))))
print(sorted(set(sys.modules) - known))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_after_the_warm_up_the_first_request_loads_nothing_more(kind: str):
    """And the SDK is imported without full collections of garbage."""
    dialect = type(DIALECTS[kind]).__name__
    script = LOADED_LATE.format(dialect=dialect, kind=kind, path=PATHS[kind])
    folders = [
        str(Path(nbchat.__file__).parents[1]),
        str(Path(__file__).parents[1] / "support"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["False", "True 0", "[]"]


@pytest.mark.parametrize(
    ("kind", "own", "other"),
    [
        ("openai", "gpt-5-mini", "gpt-5"),
        ("anthropic", "claude-haiku-4-5", "claude-sonnet-4-6"),
    ],
)
def test_a_reply_is_priced_as_the_model_that_gave_it(kind: str, own: str, other: str):
    provider = PROVIDERS[kind](own, api_key=lambda: KEY)
    with canned_client(provider.warm_up_events) as staged:
        client = provider._client.with_options(http_client=staged)
        vars(provider)["_client"] = client
        for request, name in (
            (HELLO, own),
            (replace(HELLO, model=other), other),
            (replace(HELLO, model=f"{kind}:{other}"), other),
        ):
            usage = reply_of(provider, request).usage
            prices = model_info(name, provider=kind)
            assert usage.is_priced
            assert usage.dollars == prices.cost(Usage(1, 1)) > 0
        unknown = reply_of(provider, replace(HELLO, model="nobody-knows-it")).usage
        assert (unknown.dollars, unknown.is_priced) == (0.0, False)


def test_a_server_of_ones_own_has_no_prices_whatever_its_model_is_called(server):
    options = {"base_url": f"{server.url}/v1", "api_key": lambda: KEY}
    provider = OpenAIProvider("gpt-5-mini", **options)
    server.script(OpenAIDialect().text("Hello."))
    assert reply_of(provider).usage == Usage(20, 5)


def broken(dialect: Dialect) -> Response:
    """A reply that breaks after its thinking and its first words."""
    return replace(begun(dialect), ending="cut")


@pytest.mark.slow
def test_a_stream_that_nobody_reads_is_asked_for_again(server, provider, dialect):
    random.seed(SHORT_WAIT_SEED)
    server.script(broken(dialect), dialect.text("Hello", " there"))
    stream = stream_with_retries(provider, HELLO, live=False)
    deltas, reply = drained(stream)
    assert reply.text == "Hello there"
    shown = [each.text for each in deltas if isinstance(each, TextDelta)]
    assert shown == ["Hello", " there"]
    assert len(server.requests) == 2


@pytest.mark.slow
def test_what_had_arrived_in_the_last_attempt_is_kept(server, provider, dialect):
    server.script(*[broken(dialect)] * 2)
    request = replace(HELLO, options={"attempts": 2})
    stream = stream_with_retries(provider, request, live=False)
    assert isinstance(next(stream), RetryScheduled)
    shown, error = shown_until_fault(stream)
    assert shown == "Hello"
    assert isinstance(error, ProviderError)


@pytest.mark.slow
def test_stop_keeps_what_had_arrived_for_nobody(server, provider, dialect):
    stalls, stall = threading.Event(), server.stall
    server.stall = lambda: (stalls.set(), stall())

    def click(stop: threading.Event) -> None:
        stalls.wait(60)  # all was sent; it has a moment to arrive
        threading.Timer(0.3, stop.set).start()

    def is_kept() -> bool:
        server.script(replace(begun(dialect), ending="stall"))
        stalls.clear()
        stop = threading.Event()
        threading.Thread(target=click, args=(stop,)).start()
        stream = stream_with_retries(provider, HELLO, stop=stop, live=False)
        try:
            kept = next(stream)
        except Stopped:  # before the machine had time to read what was sent
            return False
        assert kept == TextDelta("Hello")
        with pytest.raises(Stopped):
            next(stream)
        return True

    assert any(is_kept() for _ in range(TRIES))
