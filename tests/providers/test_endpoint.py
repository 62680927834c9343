"""Where a key is sent, and where it is never seen."""

import base64
import contextlib
from collections.abc import Iterator
from typing import Any

import keyring
import keyring.backend
import keyring.errors
import pytest
from fault_server import (
    AnthropicDialect,
    FaultServer,
    GeminiDialect,
    OpenAIDialect,
    failure,
)
from tables import every

from nbchat.config.layers import settings
from nbchat.config.policy_and_models import connected
from nbchat.conversation.entries import Entry
from nbchat.errors import AuthenticationFailed, ConfigError, ConnectionFailed
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Request
from nbchat.providers.connect import connect
from nbchat.providers.endpoint import keyring_key, redact
from nbchat.providers.gemini import GeminiProvider
from nbchat.providers.openai_chat import OpenAIProvider

KEY = "sk-canary-5up3rs3cr3t-0123456789"
HELLO = Request((Entry("user", "Hello"),))
KINDS: dict[str, tuple[Any, str, Any]] = {
    "openai": (OpenAIProvider, "/v1", OpenAIDialect()),
    "gemini": (GeminiProvider, "/v1beta/openai", GeminiDialect()),
    "anthropic": (AnthropicProvider, "", AnthropicDialect()),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each provider in turn, with its key in the environment."""
    monkeypatch.setenv(f"{request.param.upper()}_API_KEY", KEY)
    return str(request.param)


def sent_headers(server: FaultServer, kind: str, **options: Any) -> str:
    """The headers of a request to a server of this machine."""
    made, path, dialect = KINDS[kind]
    server.script(dialect.text("ok"))
    list(made("m", base_url=server.url + path, **options).stream(HELLO))
    return str(server.requests[-1].headers)


@pytest.mark.slow
def test_a_local_server_gets_no_key_of_the_environment(server, kind):
    assert KEY not in sent_headers(server, kind)


@pytest.mark.parametrize("host", ["127.0.0.1", "http://127.0.0.1"])
def test_a_host_that_is_named_gets_it(server, kind, host):
    assert KEY in sent_headers(server, kind, api_key_hosts=["other.example", host])


def test_a_key_that_is_given_in_code_is_sent_where_the_code_says(server, kind):
    assert KEY in sent_headers(server, kind, api_key=lambda: KEY)


@pytest.mark.parametrize(
    ("address", "hosts", "is_sent"),
    [
        ("https://gateway.example/v1", (), False),
        ("https://gateway.example/v1", ("gateway.example",), True),
        ("https://evil-gateway.example/v1", ("gateway.example",), False),
        ("http://gateway.example/v1", ("gateway.example",), False),
        ("http://gateway.example/v1", ("http://gateway.example",), True),
        ("http://localhost:11434/v1", ("localhost",), True),
    ],
)
def test_the_key_goes_to_named_hosts_by_https_only(kind, address, hosts, is_sent):
    provider = KINDS[kind][0]("m", base_url=address, api_key_hosts=hosts)
    assert provider.endpoint.key() == KEY * is_sent
    assert provider.endpoint.is_withheld != is_sent


@pytest.mark.parametrize(
    "address",
    [
        "https://eu.api.openai.com/v1",
        "https://me.openai.azure.com/openai/v1",
        "https://api.openai.com/v1",
    ],
)
def test_the_key_goes_to_the_servers_of_its_own_provider(monkeypatch, address):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert connect("openai:m", base_url=address).endpoint.key() == KEY


@pytest.mark.parametrize(
    "address", ["http://api.openai.com/v1", "http://gw.example/v1"]
)
def test_no_key_is_ever_sent_by_plain_http_beyond_this_machine(monkeypatch, address):
    with pytest.raises(
        ConfigError, match=r"without encryption. Use https://, or add http://"
    ):
        connect("openai:m", base_url=address, api_key=lambda: KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert connect("openai:m", base_url=address).endpoint.key() == ""


def test_a_server_that_wants_a_key_which_was_not_sent_says_how_to_send_it(server, kind):
    made, path, _ = KINDS[kind]
    server.script(failure(401, {"message": "no key"}))
    variable = f"{kind.upper()}_API_KEY"
    with pytest.raises(
        AuthenticationFailed,
        match=f"(?s)your .* key wasn't sent.*send {variable} .*_hosts",
    ):
        list(made("m", base_url=server.url + path).stream(HELLO))


def test_hosts_come_from_the_setting(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for hosts, is_sent in (("", False), ("openrouter.ai, 127.0.0.1", True)):
        config = settings(api_key_hosts=hosts)
        found = connected(config, "openai:m", base_url=f"{server.url}/v1")
        assert (found.endpoint.key() == KEY) == is_sent


def test_a_login_in_the_address_is_sent_but_in_no_log(server, caplog):
    caplog.set_level("DEBUG")
    address = server.url.replace("://", "://ann:s%C3%A9cret-word@")
    for kind, (made, path, dialect) in KINDS.items():
        server.script(dialect.text("ok"))
        provider = made("m", base_url=address + path, window=9)
        list(provider.stream(HELLO))
        login = base64.b64encode("ann:sécret-word".encode()).decode()
        assert f"Basic {login}" in server.requests[-1].headers.values(), kind
    assert "cret-word" not in caplog.text
    assert login not in caplog.text


@every(
    ("text", "expected"),
    [
        (f"Incorrect key {KEY}.", "Incorrect key ***."),
        ("Incorrect key sk-canary...", "Incorrect key ***..."),
        ("ends with t-0123456789", "ends with ***"),
        (f"reversed {KEY[::-1]}", "reversed ***"),
        (f"a part reversed {KEY[::-1][3:15]}!", "a part reversed ***!"),
        ("Incorrect key sk-can*********6789.", "Incorrect key *********6789."),
        ("Incorrect key sk-c…56789", "Incorrect key …6789"),
        ("sk-cana is too short", "sk-cana is too short"),
        ("", ""),
    ],
)
def test_a_key_is_hidden_in_whole_in_parts_and_reversed(text, expected):
    assert redact(text, KEY) == expected


def test_a_key_is_hidden_in_the_form_of_a_url():
    key = "ab+/cd=ef gh&ijkl"
    assert redact("?key=ab%2B%2Fcd%3Def%20gh%26ijkl", key) == "?key=***"
    assert redact("nothing", "") == "nothing"


def test_an_sdk_that_logs_headers_logs_no_key(server, caplog, monkeypatch):
    """AnthropicFoundry's debug log has the key in a header that it does not hide."""
    caplog.set_level("DEBUG")
    server.script(AnthropicDialect().text("ok"))
    headers = {"X-Gateway-Token": "t0ken-of-the-gateway"}
    url = f"{server.url}/anthropic?sig=qu3ry-s3cret&x=1"
    azure: Any = connect(
        "azure:claude-x", base_url=url, api_key=lambda: KEY, headers=headers
    )
    with contextlib.suppress(Exception):
        list(azure.stream(HELLO))
    assert "api-key" in caplog.text
    shown = caplog.text + repr(azure)
    assert not [each for each in (KEY, "t0ken-of", "qu3ry-s3") if each in shown]
    sent = str(server.requests[0].headers) + server.requests[0].path
    assert "t0ken-of-the-gateway" in sent


def test_a_proxys_password_is_in_no_error_and_no_log(caplog):
    caplog.set_level("DEBUG")
    provider: Any = connect(
        "openai:m",
        base_url="http://127.0.0.1:9/v1",
        proxy="http://ann:pr0xy-w0rd@127.0.0.1:9",
    )
    with pytest.raises(ConnectionFailed) as failed:
        list(provider.stream(HELLO))
    assert "pr0xy-w0rd" not in caplog.text + str(failed.value) + repr(provider)


def test_headers_with_a_secret_are_not_sent_by_plain_http():
    headers = {"X-Api-Key": "s3cret-s3cret"}
    with pytest.raises(ConfigError, match=r"without encryption. Use https://"):
        connect("openai:m", base_url="http://gw.example/v1", headers=headers)
    allowed = ("http://gw.example",)
    connect(
        "openai:m",
        base_url="http://gw.example/v1",
        headers=headers,
        api_key_hosts=allowed,
    )
    connect("openai:m", base_url="http://gw.example/v1", headers={"X-Team": "data"})


@pytest.fixture
def system_keyring(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[dict[tuple[str, str], str]]:
    """A keyring in memory, in the place of the system's."""
    kept: dict[tuple[str, str], str] = {}

    class InMemory(keyring.backend.KeyringBackend):
        priority = 1  # type: ignore[assignment]

        def get_password(self, service: str, username: str) -> str | None:
            if username == "BROKEN_API_KEY":
                raise keyring.errors.KeyringLocked
            return kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            kept[service, username] = password

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    yield kept
    keyring.set_keyring(before)


def test_a_key_in_the_system_keyring_is_used_where_the_environment_has_none(
    system_keyring, monkeypatch
):
    keyring.set_password("nbchat", "OPENAI_API_KEY", KEY)
    assert connect("openai:m").endpoint.key() == KEY  # type: ignore[attr-defined]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    assert connect("openai:m").endpoint.key() == "sk-of-the-environment"  # type: ignore[attr-defined]


def test_a_keyring_that_is_locked_is_as_none(system_keyring):
    assert keyring_key("BROKEN_API_KEY") == ""
    with pytest.raises(
        ConfigError, match=r"OpenAI needs an API key. Set OPENAI_API_KEY"
    ):
        connect("openai:m")


def test_a_keyrings_key_goes_to_no_other_host(system_keyring, server):
    system_keyring["nbchat", "OPENAI_API_KEY"] = KEY
    assert KEY not in sent_headers(server, "openai")
