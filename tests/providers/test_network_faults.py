"""TLS, DNS, proxies, pages and other APIs: each fault says what it is, in one line."""

import socket
from typing import Any

import httpx2
import pytest
from fault_server import FaultServer, Response, answer, failure, page
from provider_kit import DIALECTS, HELLO, PATHS, drained, provider_at
from tls_server import tls_server

from nbchat.agent.agent import Agent
from nbchat.conversation.events import TurnFailed
from nbchat.errors import ConnectionFailed, ProtocolFault, ProviderError, RequestRefused
from nbchat.providers.connect import connect
from nbchat.providers.error_mapping import provider_error


def failed(provider: Any) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        drained(provider.stream(HELLO))
    assert len(str(raised.value).splitlines()) <= 4
    return raised.value


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_self_signed_certificate_is_named_and_not_retried(kind):
    with tls_server() as url:
        made = type(provider_at(FaultServer(), kind))
        provider = made("m", base_url=url + PATHS[kind], api_key=lambda: "k")
        error = failed(provider)
    assert str(error).startswith("Can't verify the certificate of 127.0.0.1. If")
    assert str(error).endswith("\nself-signed certificate")
    assert not error.is_retryable


@pytest.mark.parametrize("kind", DIALECTS)
def test_https_to_a_server_without_tls_says_to_use_http(server, kind):
    url = server.url.replace("http://", "https://") + PATHS[kind]
    made = type(provider_at(server, kind))
    error = failed(made("m", base_url=url, api_key=lambda: "k"))
    address = url.partition("//")[2].partition("/")[0]
    assert str(error) == f"{address} doesn't use HTTPS. Use http:// in base_url."


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_missing_host_name_is_distinguished_from_a_server_that_is_down(server, kind):
    unknown = httpx2.ConnectError("[Errno -2] Name or service not known")
    unknown.__cause__ = socket.gaierror(-2, "Name or service not known")
    provider = provider_at(server, kind)
    error = provider_error(unknown, provider.endpoint, "m")
    assert type(error) is ConnectionFailed
    assert str(error) == (
        "Can't find the server 127.0.0.1. Check base_url and your network."
    )


def test_a_proxy_that_wants_a_login_or_is_down_is_named_without_its_password(server):
    server.script(failure(407))
    https = {"base_url": "https://api.example/v1", "api_key": lambda: "k"}
    proxy = server.url.replace("://", "://ann:pr0xy-w0rd@")
    refused = failed(connect("openai:m", proxy=proxy, **https))  # type: ignore[arg-type]
    assert str(refused).startswith("The proxy refused the connection. ")
    assert "\n407" in str(refused)
    assert "Check the setting proxy, or HTTPS_PROXY" in str(refused)
    down = "http://ann:pr0xy-w0rd@127.0.0.1:9"
    gone = failed(connect("openai:m", proxy=down, **https))  # type: ignore[arg-type]
    assert "through the proxy http://127.0.0.1:9. Is the proxy running?" in str(gone)
    assert "pr0xy" not in str(refused) + str(gone)


def test_a_proxy_of_the_environment_is_named_too(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    provider = connect(
        "openai:m", base_url="https://api.example/v1", api_key=lambda: "k"
    )
    assert "through the proxy http://127.0.0.1:9" in str(failed(provider))


OPENAI_404 = answer(
    {"error": {"message": "Invalid URL (POST /v1/messages)", "type": "x", "param": None, "code": None}}, 404
)  # fmt: skip
ANTHROPIC_404 = answer(
    {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}, 404
)


def test_a_server_that_speaks_the_other_api_is_named_with_the_right_one(server):
    server.script(OPENAI_404, ANTHROPIC_404, DIALECTS["anthropic"].text("Hi."))
    error = failed(provider_at(server, "anthropic"))
    assert type(error) is RequestRefused
    assert "speaks OpenAI's API. Use openai:MODEL with an address" in str(error)
    for _ in range(2):  # refused in its words, then answered in its events
        error = failed(provider_at(server, "openai"))
        assert "speaks Anthropic's API. Use anthropic:MODEL" in str(error)


def test_events_of_another_api_are_no_answer(server):
    server.script(DIALECTS["openai"].text("Hi."))
    error = failed(provider_at(server, "anthropic"))
    assert type(error) is ProtocolFault
    assert str(error) == "The answer was cut off.\nModel: anthropic:model-x"


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_server_that_is_too_old_is_named(server, kind):
    server.script(Response((b"404 page not found",), 404))
    words = "Check base_url, or update the server.\n404: 404 page not found"
    assert words in str(failed(provider_at(server, kind)))


@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.parametrize("status", [200, 404, 503])
def test_a_page_instead_of_an_answer_is_one_line(server, kind, status):
    whole = page("<html>\n<title>Sign in</title>\n</html>")
    server.script(Response(whole.events, status, whole.headers))
    assert "<html> <title>Sign in" in str(failed(provider_at(server, kind)))


def long_event(kind: str, length: int) -> Response:
    """An answer in one event."""
    return DIALECTS[kind].text("x" * length)


def assert_stopped(server: FaultServer, kind: str, response: Response) -> None:
    server.script(response)
    events = list(Agent(provider_at(server, kind, window=9_000)).run("Hello"))
    assert isinstance(events[-1], TurnFailed)
    assert "longer than" in str(events[-1].error)
    assert str(events[-1].error).startswith("Stopped the answer: ")
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.parametrize("status", [200, 500])
def test_an_event_or_page_that_does_not_end_is_stopped(
    server, monkeypatch, kind, status
):
    monkeypatch.setattr("nbchat.providers.closable_http.MOST_BYTES", 300_000)
    endless = Response((b"data: " + b"x" * 600_000,), status)
    assert_stopped(server, kind, endless)


@pytest.mark.slow
def test_an_answer_of_64_mb_is_stopped(server):
    assert_stopped(server, "openai", long_event("openai", 64_000_000))


@pytest.mark.slow
def test_many_events_of_usual_size_are_no_endless_event(server, monkeypatch):
    monkeypatch.setattr("nbchat.providers.closable_http.MOST_BYTES", 300_000)
    server.script(DIALECTS["openai"].text(*["x" * 1_000] * 600))
    _, reply = drained(provider_at(server, "openai").stream(HELLO))
    assert len(reply.text) == 600_000
