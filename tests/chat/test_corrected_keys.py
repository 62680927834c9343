"""A key or an address that was corrected is used by the next request."""

import json
from pathlib import Path

import pytest
from own_server import OwnServer

from nbchat import Agent
from nbchat.chat.live_changes import LiveSettings
from nbchat.config.layers import choose_model, settings
from nbchat.errors import AuthenticationFailed, ConfigError, KeyWithheld
from nbchat.storage.factory import build_agent
from nbchat.storage.store import SessionStore

KEY = "sk-right-0123456789"


@pytest.fixture
def server():
    served = OwnServer("my-model", key=KEY)
    yield served
    served.close()


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'kept.db'}")


def use_server(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCHAT_MODEL", "openai:my-model")
    monkeypatch.setenv("NBCHAT_BASE_URL", server.address)


def live(store: SessionStore) -> tuple[Agent, LiveSettings]:
    config = settings()
    agent = build_agent(config, store=store, connects_later=True)
    changes = LiveSettings(store, config)
    config.observe(lambda change: changes.follow(agent, change))
    return agent, changes


def test_a_key_that_was_corrected_in_a_cell_is_used_by_the_same_agent(
    server, monkeypatch
):
    use_server(server, monkeypatch)
    monkeypatch.setenv("NBCHAT_API_KEY_HOSTS", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789")
    agent = Agent()
    with pytest.raises(AuthenticationFailed) as refused:
        agent.ask("Hello")
    assert refused.value.kind == "openai"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert str(list(agent.retry())[-1]) != ""
    assert agent.session.last_answer == "From my server."


def test_keys_that_were_used_before_stay_hidden_in_what_a_server_says(
    server, monkeypatch
):
    use_server(server, monkeypatch)
    monkeypatch.setenv("NBCHAT_API_KEY_HOSTS", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first-0123456789")
    agent = Agent()
    with pytest.raises(AuthenticationFailed):
        agent.ask("Hello")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    shown = agent.provider.endpoint.shown(f"sk-first-0123456789 and {KEY}")
    assert shown == "*** and ***"


def test_a_function_is_asked_for_another_key_after_a_refusal(server):
    keys = iter(["sk-expired-0123456789", KEY])
    asked = Agent("openai:my-model", base_url=server.address, api_key=keys.__next__)
    # The list of models was refused before the first message.
    assert asked.ask("Hello") == "From my server."


@pytest.mark.slow
def test_an_address_that_was_corrected_is_used_by_the_open_chat(
    server, store, monkeypatch
):
    server.key = ""
    use_server(server, monkeypatch)
    monkeypatch.setenv("NBCHAT_BASE_URL", "http://127.0.0.1:9/v1")
    agent, changes = live(store)
    monkeypatch.setenv("NBCHAT_BASE_URL", server.address)
    changes.reread(agent)
    assert agent.ask("Hello") == "From my server."
    changes.config.base_url = "http://127.0.0.1:9/v1"  # as %config does
    monkeypatch.setenv("NBCHAT_BASE_URL", "http://127.0.0.1:8/v1")
    changes.reread(agent)
    assert agent.provider.own_address == "http://127.0.0.1:9/v1"


def test_the_model_chosen_for_a_chat_stays_while_the_environment_does(
    store, monkeypatch
):
    monkeypatch.setenv("NBCHAT_MODEL", "openai:gpt-6-luna")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent, changes = live(store)
    changes.use_model(agent, "openai:gpt-5-mini")
    changes.reread(agent)
    assert agent.provider.name == "openai:gpt-5-mini"


def test_a_key_that_comes_later_replaces_the_model_that_needs_none(store, monkeypatch):
    agent, changes = live(store)
    changes.reread(agent)
    assert agent.provider.name == "local:smollm2"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    changes.reread(agent)
    assert agent.provider.name == "openai:gpt-6-luna"
    agent, changes = live(store)
    changes.use_model(agent, "local:smollm2")  # chosen for this chat
    changes.reread(agent)
    assert agent.provider.name == "local:smollm2"


@pytest.mark.slow
def test_the_providers_key_is_sent_to_a_server_only_after_a_yes(
    server, store, monkeypatch
):
    use_server(server, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent, changes = live(store)
    with pytest.raises(KeyWithheld) as withheld:
        agent.ask("Hello")
    assert withheld.value.server == server.address.split("/")[2]
    assert not any(KEY in str(each.headers) for each in server.requests)
    changes.send_key(agent)
    list(agent.retry())
    assert agent.session.last_answer == "From my server."
    other = OwnServer("my-model")
    changes.config.base_url = other.address  # the same host, another port
    agent.ask("And here?")
    assert not any(KEY in str(each.headers) for each in other.requests)
    other.close()


def test_the_providers_key_is_not_sent_where_code_or_plain_http_would_take_it(
    server, store, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NBCHAT_MODEL", "openai:my-model")
    agent, changes = live(store)
    changes.config.base_url = server.address  # by %config in a notebook
    with pytest.raises(ConfigError, match="set by code in this notebook"):
        changes.send_key(agent)
    monkeypatch.setenv("NBCHAT_BASE_URL", "http://models.example/v1")
    agent, changes = live(store)
    with pytest.raises(ConfigError, match="plain HTTP"):
        changes.send_key(agent)
    assert changes.config.keys.servers == ()


def test_a_site_can_forbid_sending_a_key_elsewhere(
    server, store, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    file = tmp_path / "nbchat_config.d" / "site.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"locked": ["api_key_hosts"]}))
    use_server(server, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent, changes = live(store)
    with pytest.raises(ConfigError, match="doesn't allow sending a key") as refused:
        changes.send_key(agent)
    assert str(file) in str(refused.value)


def test_a_choice_for_new_chats_may_get_the_key(server, store, monkeypatch):
    choose_model("openai:my-model", server.address)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent, changes = live(store)
    changes.send_key(agent)
    assert agent.ask("Hello") == "From my server."


def test_a_key_typed_for_ones_own_server_is_used_there_alone(
    server, store, monkeypatch
):
    use_server(server, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-0123")
    agent, changes = live(store)
    assert changes.use_key(agent, "openai", KEY) == "kernel"
    assert agent.ask("Hello") == "From my server."
    assert changes.config.keys.reader("openai") is None
