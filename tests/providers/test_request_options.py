"""Options of requests: what each API is sent, and what it is not asked."""

import threading
import time
from typing import Any

import pytest
from at_best import TRIES, assert_within
from fault_server import FaultServer, Response, failure
from provider_kit import (
    DIALECTS,
    HELLO,
    drained,
    provider_at,
    reply_of,
    sent_body,
)
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.events import RetryScheduled
from nbchat.errors import ConfigError, ConnectionFailed, Overloaded, RateLimited
from nbchat.providers.base import Request, RequestOptions, checked
from nbchat.providers.connect import connect
from nbchat.providers.retries import stream_with_retries

SAMPLING = {"temperature": 0.2, "top_p": 0.9, "seed": 7, "stop": "END, \\n\\n"}
SENT = {
    "openai": {**SAMPLING, "stop": ["END", "\n\n"]},
    "gemini": {**SAMPLING, "stop": ["END", "\n\n"]},
    "responses": {"temperature": 0.2, "top_p": 0.9},
    "anthropic": {"temperature": 0.2, "top_p": 0.9, "stop_sequences": ["END", "\n\n"]},
}


@pytest.mark.parametrize("kind", SENT)
def test_each_api_gets_the_options_that_it_has_in_its_own_words(server, kind):
    request = Request(HELLO.history, options=SAMPLING)  # type: ignore[arg-type]
    body = sent_body(server, provider_at(server, kind), request)
    names = {*SAMPLING, "stop_sequences"}
    assert {name: body[name] for name in names if name in body} == SENT[kind]


@pytest.mark.parametrize("kind", SENT)
def test_options_of_a_connection_hold_for_requests_without_their_own(server, kind):
    provider = provider_at(server, kind, temperature=0.2, top_p=0.5)
    body = sent_body(server, provider, Request(HELLO.history, options={"top_p": 0.9}))
    assert (body["temperature"], body["top_p"]) == (0.2, 0.9)


@pytest.mark.parametrize(
    ("kind", "option"),
    [("anthropic", "seed"), ("responses", "seed"), ("responses", "stop")],
)
def test_an_option_that_an_api_lacks_is_named_when_it_is_asked_for(
    server, kind, option
):
    value: Any = {option: SAMPLING[option]}
    with pytest.raises(
        ConfigError, match=f"doesn't accept {option}. Unset it, or choose"
    ):
        Agent(provider_at(server, kind), **value)
    with pytest.raises(ConfigError, match=f"doesn't accept {option}"):
        provider_at(server, kind, **value)


@every(
    ("options", "line"),
    [
        (
            {"temprature": 1},
            "No option named 'temprature'. Choose one of temperature, top_p",
        ),
        ({"temperature": 3}, "temperature can't be 3. Use a number from 0 to 2."),
        ({"top_p": "x"}, "top_p can't be 'x'. Use a number from 0 to 1."),
        ({"seed": 1.5}, "seed can't be 1.5. Use a whole number."),
        ({"stop": "a,b,c,d,e"}, "stop can't be 'a,b,c,d,e'. Use at most 4 texts."),
        (
            {"effort": "max"},
            "effort can't be 'max'. Choose one of off, low, medium, high",
        ),
        ({"attempts": 0}, "attempts can't be 0. Use a whole number from 1 to 100."),
        (
            {"timeout_seconds": 0},
            "timeout_seconds can't be 0. Use 0.1 seconds or more.",
        ),
        (
            {"cache_lifetime": "2h"},
            "cache_lifetime can't be '2h'. Choose one of 5m, 1h.",
        ),
    ],
)
def test_an_unknown_or_invalid_option_is_one_line(options, line):
    with pytest.raises(ConfigError) as refused:
        Agent(connect("openai:m", base_url="http://127.0.0.1:9/v1"), **options)
    assert str(refused.value).startswith(line)


def test_every_option_can_be_checked_and_unset():
    names = RequestOptions.__annotations__
    assert checked(dict.fromkeys(names)) == {}


def test_a_parameter_that_a_model_refuses_is_omitted_with_one_warning(server, caplog):
    words = "Unsupported parameter: 'temperature' is not supported with this model."
    refusal = failure(400, {"message": words, "param": "temperature"})
    server.script(refusal, *[DIALECTS["responses"].text("Hi.")] * 2)
    provider = provider_at(server, "responses", temperature=0.2)
    assert [reply_of(provider).text for _ in range(2)] == ["Hi.", "Hi."]
    assert caplog.messages == [
        "model-x doesn't accept temperature, so requests are sent without it."
    ]
    assert "temperature" not in server.requests[-1].body


def test_a_summary_is_asked_with_the_chats_patience_but_no_text_ends_it(server):
    wire = DIALECTS["openai"]
    words = "Many words of a long conversation about one thing. "
    server.script(*[wire.text(words * 20)] * 3, *[failure(503)] * 3)
    agent = Agent(
        provider_at(server, "openai", window=100_000),
        engine=CompactionEngine(context_token_threshold=None),
        **{**SAMPLING, "attempts": 1},  # type: ignore[arg-type]
    )
    for question in ("One?", "Two?", "Three?"):
        agent.ask(words * 20 + question)
    list(agent.compact())
    chat, summary = server.requests[0].body, server.requests[3].body
    assert chat["stop"] == ["END", "\n\n"]
    assert "stop" not in summary
    assert len(server.requests) <= 3 + 2  # a request in each shape, tried once


class SlowServer(FaultServer):
    """Answers after a while, or when it is closed."""

    silence_seconds = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Event()

    def next_response(self, request: Any) -> Response:
        self.began.set()
        self._is_closing.wait(self.silence_seconds)
        return super().next_response(request)


@pytest.mark.slow
def test_a_server_that_is_slow_to_begin_may_have_longer_than_its_pauses():
    server = SlowServer()
    server.silence_seconds = 0.5
    server.script(*[DIALECTS["openai"].text("Hi.")] * 2 * TRIES)
    patient = provider_at(server, "openai", timeout_seconds=0.2, first_byte_seconds=60)

    def is_answered() -> bool:
        try:
            return reply_of(patient).text == "Hi."
        except ConnectionFailed:  # a busy machine may pause within an answer, too
            return False

    assert any(is_answered() for _ in range(TRIES))
    with pytest.raises(ConnectionFailed, match="didn't answer in time"):
        reply_of(provider_at(server, "openai", timeout_seconds=0.2))
    server.close()


@pytest.mark.slow
def test_a_pause_within_an_answer_is_measured_by_the_shorter_timeout(server):
    begun = DIALECTS["openai"].text("Hi.", " All.").after(1)
    server.script(Response(begun.events, ending="stall"))
    provider = provider_at(server, "openai", timeout_seconds=0.2, first_byte_seconds=30)
    began = time.monotonic()
    with pytest.raises(ConnectionFailed, match="didn't answer in time"):
        drained(provider.stream(HELLO))
    assert time.monotonic() - began < 5


def test_an_open_line_with_comments_is_no_fault(server):
    comments = [b": waiting\n\n"] * 3
    events = DIALECTS["openai"].text("Hi.").events
    server.script(Response((*comments, *events)))
    assert reply_of(provider_at(server, "openai")).text == "Hi."


def test_connecting_has_a_time_limit_of_its_own(server):
    provider = provider_at(server, "openai", connect_seconds=0.7)
    timeout = provider._timeout_of(HELLO)
    assert (timeout.connect, timeout.read) == (0.7, 300.0)


@pytest.mark.parametrize("attempts", [1, 2, 6])
def test_the_number_of_attempts_can_be_set(server, monkeypatch, attempts):
    monkeypatch.setattr("nbchat.providers.retries.FIRST_WAIT_SECONDS", 0.0)
    server.script(*[failure(503)] * 10)
    request = Request(HELLO.history, options={"attempts": attempts})
    with pytest.raises(Overloaded):
        drained(stream_with_retries(provider_at(server, "openai"), request))
    assert len(server.requests) == attempts


def test_patience_ends_the_attempts(server):
    server.script(*[failure(429, retry_after="1")] * 10)
    request = Request(HELLO.history, options={"patience_seconds": 0.5})
    with pytest.raises(RateLimited):
        drained(stream_with_retries(provider_at(server, "openai"), request))
    assert len(server.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", SENT)
def test_a_stream_that_breaks_before_anything_was_shown_is_tried_again(
    server, monkeypatch, kind
):
    monkeypatch.setattr("nbchat.providers.retries.FIRST_WAIT_SECONDS", 0.0)
    wire = DIALECTS[kind]
    whole = wire.text("Hi.")
    broken = [Response(), Response(ending="cut")]
    calls = wire.calls(("c1", "add", '{"a": 1}'))
    half_a_call = calls.after(len(calls.events) - 3)
    server.script(*broken, half_a_call, whole)
    deltas, reply = drained(stream_with_retries(provider_at(server, kind), HELLO))
    assert [type(each) for each in deltas[:3]] == [RetryScheduled] * 3
    assert (reply.text, reply.calls) == ("Hi.", [])


def test_headers_and_proxy_of_connect_are_used(server):
    proxy = FaultServer()
    proxy.script(DIALECTS["openai"].text("By the proxy."))
    provider = connect(
        "openai:m",
        base_url="http://127.0.0.1:9/v1",
        headers={"X-Team": "data"},
        proxy=proxy.url,
    )
    assert reply_of(provider).text == "By the proxy."  # type: ignore[arg-type]
    [seen] = proxy.requests
    assert seen.headers["X-Team"] == "data"
    assert seen.path == "http://127.0.0.1:9/v1/chat/completions"
    proxy.close()


def test_stop_works_while_a_slow_server_has_not_begun():
    server = SlowServer()
    server.silence_seconds = 60.0
    provider = provider_at(server, "openai", first_byte_seconds=600)

    def seconds() -> float:
        stop, stopped_at = threading.Event(), list[float]()

        def click() -> None:
            server.began.wait()
            stopped_at.append(time.monotonic())
            stop.set()

        server.began.clear()
        threading.Thread(target=click).start()
        with pytest.raises(Exception, match="stopped"):
            list(provider.stream(HELLO, stop=stop))
        return time.monotonic() - stopped_at[0]

    assert_within(0.8, seconds)
    server.close()
