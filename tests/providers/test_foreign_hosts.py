"""A conversation, its key and secret headers go to the chosen server alone."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import httpx2
import pytest
from fault_server import FaultServer, Response, page
from provider_kit import DIALECTS, HELLO, PATHS, drained, provider_at, reply_of
from tables import every

from nbchat.errors import ConfigError, ConnectionFailed, ProviderError
from nbchat.providers.closable_http import RedirectRefused, refuse_other_host
from nbchat.providers.connect import connect
from nbchat.providers.endpoint import is_loopback

TOKEN = "my-secret-token-0123456789"
CODES = (301, 302, 303, 307, 308)
VARIABLES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")

HERE = (
    *("127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.1", "0x7f.1"),
    *("2130706433", "x.localhost", "[::1]"),
)


@pytest.fixture
def other() -> Iterator[FaultServer]:
    """A server that must not get anything."""
    server = FaultServer()
    yield server
    server.close()


def failed(provider: Any) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        drained(provider.stream(HELLO))
    assert len(str(raised.value).splitlines()) <= 4
    return raised.value


def redirect(code: int, location: str) -> Response:
    return Response((b"",), code, {"Location": location, "Content-Length": "0"})


@pytest.mark.slow
@pytest.mark.parametrize("host", HERE)
@pytest.mark.parametrize("kind", DIALECTS)
def test_a_server_of_this_machine_is_asked_by_no_proxy_of_the_environment(
    kind, host, server, other, monkeypatch
):
    for name in VARIABLES:
        monkeypatch.setenv(name, other.url)
    server.script(DIALECTS[kind].text("Hello."))
    url = server.url.replace("127.0.0.1", host) + PATHS[kind]
    provider = provider_at(server, kind, base_url=url, headers={"X-My-Token": TOKEN})
    with suppress(ProviderError):  # not each system listens on each of them
        drained(provider.stream(HELLO))
    assert other.requests == []
    assert provider.endpoint.shown_proxy == ""


@pytest.mark.parametrize("model", ["ollama:m", "vllm:m", "lmstudio:m", "openai:m"])
def test_local_servers_ignore_a_proxy_for_others(model, other, monkeypatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, other.url)
    monkeypatch.setenv("VLLM_API_KEY", TOKEN)
    url = {"openai:m": "http://localhost:9/v1"}.get(model, "")
    provider: Any = connect(model, base_url=url, proxy="http://proxy.corp:3128")
    assert provider.endpoint.used_proxy == ""
    failed(provider)
    assert other.requests == []


def test_a_server_elsewhere_is_asked_by_the_proxy_of_the_environment(
    other, monkeypatch
):
    other.script(DIALECTS["openai"].text("By the proxy."))
    monkeypatch.setenv("HTTP_PROXY", other.url)
    host = {"base_url": "http://model.corp/v1", "api_key_hosts": ["http://model.corp"]}
    provider: Any = connect("openai:m", api_key=lambda: TOKEN, **host)  # type: ignore[arg-type]
    assert reply_of(provider).text == "By the proxy."


@pytest.mark.parametrize("host", ["127.0.0.2", "0.0.0.0", "::ffff:127.0.0.1", "::"])
def test_every_address_of_this_machine_is_known(host):
    assert is_loopback(host)


@every(
    "host",
    [
        "127.example.com",
        "localhost.example.com",
        "10.0.0.1",
        "notlocalhost",
        "",
        "1.127",
    ],
)
def test_other_names_are_not_of_this_machine(host):
    assert not is_loopback(host)


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kind", DIALECTS)
def test_a_redirect_to_another_server_is_not_followed(kind, code, server, other):
    server.script(redirect(code, f"{other.url}/v1/x?key=1"))
    error = failed(provider_at(server, kind, headers={"X-My-Token": TOKEN}))
    assert type(error) is ConnectionFailed
    assert str(error) == (
        f"127.0.0.1 redirects to {other.url}, which is another server, so nothing was "
        "sent there. If you trust that server, set base_url to it."
    )
    assert not error.is_retryable
    assert other.requests == []


PLACES = {
    "another host": ("//evil.example/x", "http://evil.example"),
    "another scheme": ("ftp://127.0.0.1/x", "ftp://127.0.0.1"),
    "a login": ("http://a:b@evil.example/", "http://evil.example"),
    "a long host": (f"http://{'a.' * 120}example/", "http://a.a.a"),
    "no URL": ("http://evil:port/", "an address that is no URL"),
    "a script": ("javascript:alert(1)", "javascript://"),
    "several lines": ("http://evil.example\t/x", ""),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", DIALECTS)
def test_every_form_of_another_server_is_named_in_one_line(kind, place, server):
    location, shown = PLACES[place]
    server.script(redirect(307, location))
    error = str(failed(provider_at(server, kind)))
    assert shown in error
    assert len(error) < 400
    assert "a:b@" not in error


@pytest.mark.slow
@pytest.mark.parametrize("kind", DIALECTS)
def test_a_redirect_to_the_same_server_is_followed(kind, server):
    server.script(redirect(307, "/elsewhere"), DIALECTS[kind].text("Moved."))
    assert reply_of(provider_at(server, kind)).text == "Moved."


@pytest.mark.slow
@pytest.mark.parametrize("kind", DIALECTS)
def test_a_redirect_loop_ends_in_one_line(kind, server):
    server.script(*[redirect(307, "/again")] * 60)
    error = failed(provider_at(server, kind))
    assert str(error) == "127.0.0.1 redirects in a loop. Check base_url."
    assert not error.is_retryable


def test_https_is_never_left_for_http():
    before = httpx2.Request("POST", "https://api.example/v1")
    for location, is_followed in {
        "http://api.example/v1": False,
        "https://api.example:8443/v1": True,
        "https://API.example/v2": True,
        "https://api.example.evil/v1": False,
        "https://api.example@evil.example/": False,
    }.items():
        answer = httpx2.Response(308, headers={"location": location}, request=before)
        if is_followed:
            refuse_other_host(answer)
        else:
            with pytest.raises(RedirectRefused):
                refuse_other_host(answer)


@pytest.mark.parametrize("status", [200, 407, 502])
def test_a_proxy_that_answers_html_is_one_line(status, other):
    other.script(*[Response(page("<html>Log in</html>").events, status, HTML)] * 9)
    host = {"base_url": "http://model.corp/v1", "api_key_hosts": ["http://model.corp"]}
    provider: Any = connect(
        "openai:m",
        api_key=lambda: TOKEN,
        proxy=other.url,
        **host,  # type: ignore[arg-type]
    )
    assert TOKEN not in str(failed(provider))


HTML = {"Content-Type": "text/html"}

NO_URLS = (
    *(
        "https://[evil",
        "http://",
        "http:///v1",
        "http://host:99999",
        "http://host:port",
    ),
    *("http://ho st/v1", "http://host\n/v1", "http://host\\@evil/v1", "http://[::1"),
    *("http://user:pa55word", "http://user:pa55word@[evil", "http://a\u2100b/v1"),
    *("http://host\0/v1", f"http://{'a.' * 200}example/v1"),
)


@every(
    ("model", "address"),
    product(["openai:m", "anthropic:m", "gemini:m", "ollama:m", "azure:m"], NO_URLS),
)
def test_a_base_url_that_is_no_url_is_one_clear_line(model, address):
    with pytest.raises(ConfigError, match="base_url") as raised:
        connect(model, base_url=address, api_key=lambda: "k")
    assert len(str(raised.value).splitlines()) <= 4
    assert "pa55word" not in str(raised.value)


def test_a_proxy_that_is_no_url_is_one_clear_line():
    with pytest.raises(ConfigError, match="proxy isn't a valid URL"):
        connect("ollama:m", proxy="http://[evil")
    with pytest.raises(ConfigError, match=r"proxy must start with .* not 'proxy:3128'"):
        connect("ollama:m", proxy="proxy:3128")


@pytest.mark.slow
def test_a_variable_that_is_no_url_is_one_clear_line(monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "http://[evil")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[evil")
    with pytest.raises(ConfigError, match="isn't a valid URL"):
        connect("openai:m")
