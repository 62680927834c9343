"""Models that can be chosen: what servers say, a test request, and the choice."""

import json
import time
from pathlib import Path

import pytest
from fault_server import FaultServer, Response, answer, failure, page
from own_server import MessagesServer, OwnServer
from tables import every

from nbchat import Agent
from nbchat.chat.commands import Commands
from nbchat.chat.live_changes import LiveSettings
from nbchat.chat.models import Models, whole_address
from nbchat.config.layers import settings
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.connect import LIST_SECONDS
from nbchat.storage.factory import build_agent
from nbchat.storage.store import SessionStore

KEY = "sk-right-0123456789"


@pytest.fixture
def server():
    served = OwnServer("qwen3:8b", "gpt-oss:20b")
    served.details = {"owned_by": "vllm", "max_model_len": 16_384}
    yield served
    served.close()


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'kept.db'}")


def chat(store: SessionStore) -> tuple[Agent, Models]:
    config = settings()
    agent = build_agent(config, store=store, connects_later=True)
    return agent, Models(LiveSettings(store, config))


@every(
    ("typed", "address"),
    [
        (" localhost:8000 ", "http://localhost:8000/v1"),
        ("127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("models.example", "https://models.example/v1"),
        ("https://models.example/api/v3", "https://models.example/api/v3"),
        ("", ""),
    ],
)
def test_an_address_is_completed_as_servers_have_it(typed, address):
    assert whole_address(typed) == address


def test_a_server_is_described_by_what_it_says(server, store):
    _, models = chat(store)
    found = models.served("openai", server.address.removeprefix("http://"))
    assert (found.server, found.problem, found.wants_key) == ("vLLM", "", False)
    assert [(each.name, each.window, each.input_dollars) for each in found.models] == [
        ("openai:gpt-oss:20b", 16_384, None),
        ("openai:qwen3:8b", 16_384, None),
    ]


def test_a_server_that_wants_a_key_says_so_and_gets_the_one_typed_for_it(
    store, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = OwnServer("my-model", key=KEY)
    _, models = chat(store)
    found = models.served("openai", server.address)
    assert (found.wants_key, found.variable) == (True, "OPENAI_API_KEY")
    assert not any(KEY in str(each.headers) for each in server.requests)
    with pytest.raises(ConfigError, match="isn't a key"):
        models.served("openai", server.address, "two words")
    wrong = models.served("openai", server.address, "sk-wrong-0123456789")
    assert (wrong.wants_key, wrong.variable, wrong.models) == (True, "", ())
    assert models.served("openai", server.address, KEY).models
    _, others = chat(store)
    assert others.served("openai", server.address, sends_key=True).models
    server.close()


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (page("<h1>Welcome</h1>"), "doesn't answer as a model server"),
        (answer({"data": []}), "lists no models. Enter the name of one."),
        (failure(500), "internal error"),
        (answer({"detail": "no"}, 404), "There's no API at"),
    ],
)
def test_a_server_that_lists_no_models_costs_one_line(store, response, problem):
    server = FaultServer()
    server.script(*3 * [response])
    _, models = chat(store)
    found = models.served("openai", server.url)
    assert problem in found.problem
    assert "\n" not in found.problem
    server.close()


@pytest.mark.slow
def test_a_silent_server_is_waited_for_a_few_seconds_only(store):
    server = FaultServer()
    server.script(*3 * [Response(ending="silence")])
    _, models = chat(store)
    began = time.monotonic()
    found = models.served("openai", server.url)
    assert time.monotonic() - began < 2 * LIST_SECONDS
    assert found.problem
    assert "\n" not in found.problem
    server.close()


@pytest.mark.slow  # loads another SDK
def test_a_server_that_speaks_anthropics_api_is_asked_in_it(store):
    server = MessagesServer()
    agent, models = chat(store)
    found = models.served("openai", server.url)
    assert [each.name for each in found.models] == ["anthropic:claude-x"]
    models.choose(
        agent, "anthropic:claude-x", found.address, always=False, unlisted=False
    )
    assert agent.ask("Hello") == "From Anthropic's API."
    server.close()


def test_a_test_measures_one_short_request(server, store):
    _, models = chat(store)
    found = models.test("openai:qwen3:8b", server.address)
    assert found.seconds >= 0
    assert (found.model, found.calls_tools) == ("openai:qwen3:8b", False)
    assert len(server.chats) == 1
    with pytest.raises(NbchatError):
        models.test("openai:no-model", server.address)


@pytest.mark.slow
def test_a_model_that_the_server_lacks_is_refused_with_the_nearest_names(
    server, store, monkeypatch
):
    monkeypatch.setenv("NBCHAT_MODEL", "openai:qwen3:8b")
    monkeypatch.setenv("NBCHAT_BASE_URL", server.address)
    agent, models = chat(store)
    message = "has no model 'qwen3:9b'. It has openai:qwen3:8b"
    with pytest.raises(ConfigError, match=message):
        models.choose(
            agent, "openai:qwen3:9b", server.address, always=False, unlisted=False
        )
    with pytest.raises(ConfigError, match=message):
        Commands(store, models._live)(agent, "/model openai:qwen3:9b")
    assert agent.provider.name == "openai:qwen3:8b"
    models.choose(agent, "openai:qwen3:9b", server.address, always=False, unlisted=True)
    assert agent.provider.name == "openai:qwen3:9b"


@pytest.mark.slow
def test_the_model_of_one_chat_is_kept_with_its_address_for_this_chat_alone(
    server, store
):
    agent, models = chat(store)
    said = models.choose(
        agent, "openai:qwen3:8b", server.address, always=False, unlisted=False
    )
    assert said == "This chat now uses openai:qwen3:8b."
    assert models.origin(agent).startswith("chosen for this chat")
    assert agent.ask("Hello") == "From my server."
    session = store.load(agent.session.session_id)
    again = build_agent(settings(), store=store, session=session)
    assert again.ask("Again") == "From my server."
    assert build_agent(settings(), store=store).provider.name == "local:smollm2"
    assert Agent().provider.name == "local:smollm2"


@pytest.mark.slow
def test_the_model_for_all_new_chats_is_a_file_of_the_person(
    server, store, monkeypatch
):
    agent, models = chat(store)
    models.choose(agent, "openai:qwen3:8b", server.address, always=True, unlisted=False)
    assert Agent().ask("Hello") == "From my server."
    live = LiveSettings(store, settings())
    live.set(agent, "window", "64_000", "openai:qwen3:8b")
    assert Agent().context_usage().window == 64_000
    assert Models(live).for_new_chats == "openai:qwen3:8b"
    said = Models(live).forget()
    assert said == "New chats no longer start with openai:qwen3:8b."
    live.reread(agent)
    assert agent.provider.name == "openai:qwen3:8b"  # this chat goes on
    assert Agent().provider.name == "local:smollm2"
    monkeypatch.setenv("NBCHAT_MODEL", "local:smollm2")
    agent, models = chat(store)
    said = models.choose(
        agent, "openai:gpt-oss:20b", server.address, always=True, unlisted=False
    )
    assert said == (
        "Saved, but new chats still use the model of the environment variable "
        "NBCHAT_MODEL."
    )
    assert Agent().provider.name == "local:smollm2"


def test_a_site_that_locks_the_address_refuses_another_server(
    server, store, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    file = tmp_path / "nbchat_config.d" / "site.json"
    file.parent.mkdir()
    values = {"model": "openai:qwen3:8b", "base_url": server.address}
    file.write_text(json.dumps({"NbChat": values, "locked": ["base_url"]}))
    _, models = chat(store)
    assert models.is_locked
    with pytest.raises(ConfigError, match="base_url is locked"):
        models.served("openai", "http://127.0.0.1:9/v1")
    found = models.served("anthropic", "")
    assert found.address == server.address  # every model is reached there


def test_providers_are_listed_with_the_place_of_their_key_and_prices(
    store, monkeypatch
):
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    _, models = chat(store)
    first, *others = models.providers()
    assert (first.kind, first.place) == ("gemini", "environment")
    assert {each.kind for each in others} >= {"anthropic", "openai", "ollama", "vllm"}
    priced = {each.name: each for each in first.models}["gemini:gemini-2.5-flash"]
    assert priced.window
    assert priced.input_dollars
