"""Which models are offered, whatever becomes of the server that is asked."""

from typing import Any

import pytest
from fault_server import Response, answer, failure, page

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TurnFailed
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Provider, Request
from nbchat.providers.connect import connected_or_not, problem_of
from nbchat.providers.gemini import GeminiProvider
from nbchat.providers.local import LocalServer
from nbchat.providers.model_info import chat_models
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.testing import ScriptedProvider, says

PROVIDERS: dict[str, tuple[Any, str]] = {
    "openai": (OpenAIProvider, "/v1"),
    "gemini": (GeminiProvider, "/v1beta/openai"),
    "anthropic": (AnthropicProvider, ""),
}


def provider_at(url: str, kind: str = "openai", key: str = "sk-test") -> Any:
    made, path = PROVIDERS[kind]
    return made("model-x", base_url=url + path, api_key=lambda: key)


def listed(*names: str) -> Response:
    models = [{"id": name, "type": "model", "display_name": name} for name in names]
    return answer({"object": "list", "data": models, "has_more": False})


class Listing:
    """What a server lists, or in one line why it does not."""

    def __init__(self, provider: Provider) -> None:
        kind = provider.name.partition(":")[0]
        self.models: tuple[str, ...] = ()
        self.problem = ""
        try:
            self.models = tuple(f"{kind}:{each.name}" for each in provider.catalog())
        except NbchatError as error:
            self.problem = error.line


@pytest.mark.parametrize("kind", PROVIDERS)
def test_the_servers_own_list_comes_first_under_the_names_that_model_takes(
    server, kind
):
    server.script(listed("beta", "alpha"))
    found = Listing(provider_at(server.url, kind))
    assert found.models[:2] == (f"{kind}:alpha", f"{kind}:beta")
    assert found.problem == ""


@pytest.mark.parametrize(
    ("kind", "field", "old", "new"),
    [
        ("openai", "created", 1_700_000_000, 1_780_000_000),
        ("anthropic", "created_at", "2025-02-19T00:00:00Z", "2026-09-01T00:00:00Z"),
        ("openai", "created", "yesterday", 1_780_000_000),
    ],
)
def test_the_newest_models_come_first(server, kind, field, old, new):
    models = [
        {"id": name, "type": "model", "display_name": name, field: when}
        for name, when in (("alpha", old), ("beta", new), ("gamma", old))
    ]
    server.script(answer({"object": "list", "data": models, "has_more": False}))
    found = Listing(provider_at(server.url, kind))
    assert found.models[:3] == (f"{kind}:beta", f"{kind}:alpha", f"{kind}:gamma")


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_real_llama_server_lists_its_model(
    llama_server: LocalServer, kind: str
) -> None:
    found = Listing(provider_at(llama_server.base_url, kind, llama_server.api_key))
    assert found.problem == ""
    assert found.models[0].startswith(f"{kind}:")
    assert "SmolLM2" in found.models[0]


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize(
    "response",
    [
        failure(401, {"message": "invalid key"}),
        failure(404, {"message": "not found"}),
        failure(500),
        page("<html>Please log in</html>"),
        answer({"data": None}),
        answer([]),
        Response(ending="drop"),
    ],
)
def test_a_list_that_cannot_be_had_is_one_line_without_the_key(server, kind, response):
    server.script(*[response] * 3)
    found = Listing(provider_at(server.url, kind))
    assert found.problem or not found.models
    assert "\n" not in found.problem
    assert "sk-test" not in found.problem
    assert f"{kind}:model-x" not in found.models


def test_a_wrong_address_is_named_in_the_error():
    problem = Listing(provider_at("http://127.0.0.1:9")).problem
    assert "127.0.0.1:9" in problem


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini"])
def test_of_the_price_list_only_chat_models_are_offered(kind):
    names = chat_models(kind)
    assert len(names) >= 5
    assert not [n for n in names if "image" in n or "embedding" in n or "tts" in n]


def no_key() -> Provider:
    raise ConfigError("no key for openai: set OPENAI_API_KEY")


def test_a_missing_key_fails_the_turn_with_the_reason_and_keeps_the_message():
    agent = Agent(connected_or_not("openai:gpt-5", no_key))
    *_, failed = agent.run("hello")
    assert isinstance(failed, TurnFailed)
    assert failed.message == "no key for openai: set OPENAI_API_KEY"
    assert [entry.content for entry in agent.session.transcript] == ["hello"]
    assert problem_of(agent.provider) == failed.message


def test_the_limits_of_the_model_are_known_before_it_is_connected():
    provider = connected_or_not("openai:gpt-5", no_key)
    assert provider.info().window
    assert provider.count_tokens(Request((Entry("user", "hello"),))) > 0


def test_a_key_that_is_set_later_is_used_by_the_next_request():
    found: list[Provider] = []

    def connect() -> Provider:
        return found[0] if found else no_key()

    agent = Agent(connected_or_not("openai:gpt-5", connect))
    list(agent.run("hello"))
    found.append(ScriptedProvider(says("Hello."), name="openai:gpt-5"))
    assert agent.retry().result() == "Hello."
    assert problem_of(agent.provider) == ""


def test_other_errors_are_not_hidden():
    def broken() -> Provider:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        connected_or_not("openai:gpt-5", broken)
