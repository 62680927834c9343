"""Agents made in code follow the environment, site files and the choice for always."""

import json
import os
from pathlib import Path

import pytest
from own_server import OwnServer

from nbchat import Agent, settings
from nbchat.config.layers import choose_model, choose_window
from nbchat.errors import ConfigError
from nbchat.storage.factory import build_agent
from nbchat.testing import ScriptedProvider, says


@pytest.fixture
def server():
    served = OwnServer("qwen3:8b", key="sk-mine")
    yield served
    served.close()


def write_site_file(tmp_path: Path, monkeypatch, **content: object) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    file = tmp_path / "nbchat_config.d" / "site.json"
    file.parent.mkdir()
    file.write_text(json.dumps(content))


def test_an_agent_made_in_code_asks_the_server_that_the_environment_names(
    server, monkeypatch
):
    monkeypatch.setenv("NBCHAT_MODEL", "openai:qwen3:8b")
    monkeypatch.setenv("NBCHAT_BASE_URL", server.address)
    server.key = ""
    monkeypatch.setenv("NBCHAT_WINDOW", "20000")
    monkeypatch.setenv("NBCHAT_POLICY", "tiered")
    monkeypatch.setenv("NBCHAT_TEMPERATURE", "0.5")
    agent = Agent()
    assert agent.ask("Hello") == "From my server."
    assert server.chats[-1].body["temperature"] == 0.5
    assert agent.engine.policy.name == "tiered"
    assert agent.context_usage().window == 20_000
    said = "<Agent openai:qwen3:8b (environment variable NBCHAT_MODEL): "
    assert repr(agent).startswith(said)
    assert "environment variable NBCHAT_MODEL" in agent._repr_html_()
    assert not Path(os.environ["JUPYTER_DATA_DIR"]).exists()  # no database


def test_a_server_of_ones_own_needs_its_address_and_a_key_only_if_it_wants_one(server):
    agent = Agent("openai:qwen3:8b", base_url=server.address, api_key="sk-mine")
    assert agent.ask("Hello") == "From my server."
    assert "sk-mine" not in repr(agent) + repr(agent.provider) + agent._repr_html_()
    assert repr(agent).startswith("<Agent openai:qwen3:8b: ")


def test_arguments_win_over_the_environment(monkeypatch):
    monkeypatch.setenv("NBCHAT_MODEL", "openai:gpt-6-luna")
    monkeypatch.setenv("NBCHAT_SYSTEM_PROMPT", "From the environment.")
    monkeypatch.setenv("NBCHAT_MAX_STEPS", "7")
    agent = Agent("local:smollm2", system="Mine.", max_steps=9)
    assert (agent.provider.name, agent.system, agent.max_steps) == (
        "local:smollm2",
        "Mine.",
        9,
    )
    usual = Agent("local:smollm2")
    assert (usual.system, usual.max_steps) == ("From the environment.", 7)


def test_an_agent_takes_the_window_of_a_model_that_nobody_knows():
    url = "http://127.0.0.1:9/v1"
    agent = Agent("openai:my-model", base_url=url, window=8_000)
    assert agent.context_usage().window == 8_000
    with pytest.raises(ConfigError, match="window need a model's name"):
        Agent(agent.provider, window=9_000)


def test_a_provider_is_used_as_it_is(monkeypatch):
    monkeypatch.setenv("NBCHAT_POLICY", "tiered")
    agent = Agent(ScriptedProvider(says("Hi.")))
    assert agent.engine.policy.name == "single-summary"
    with pytest.raises(ConfigError, match="is already connected"):
        Agent(ScriptedProvider(), base_url="http://localhost:1")


def test_the_model_chosen_for_always_is_that_of_new_agents_and_chats(tmp_path):
    file = choose_model("openai:qwen3:8b", "http://localhost:9/v1", 16_000)
    assert file.stat().st_mode & 0o777 == 0o600
    agent = Agent()
    assert repr(agent).startswith(
        "<Agent openai:qwen3:8b (your choice for new chats): "
    )
    assert agent.provider.endpoint.address == "http://localhost:9/v1"
    assert agent.context_usage().window == 16_000
    assert build_agent().provider.name == "openai:qwen3:8b"
    assert Agent("local:smollm2").context_usage().window != 16_000
    choose_model("")
    assert Agent().provider.name == "local:smollm2"


def test_a_window_set_for_the_model_of_always_is_that_of_new_agents():
    choose_model("openai:qwen3:8b", "http://localhost:9/v1", 16_000)
    choose_window("openai:other", 64_000)
    assert Agent().context_usage().window == 16_000
    choose_window("openai:qwen3:8b", 64_000)
    assert Agent().context_usage().window == 64_000
    assert Agent().provider.endpoint.address == "http://localhost:9/v1"


def test_the_environment_overrides_the_choice_for_always_with_its_address(monkeypatch):
    choose_model("openai:qwen3:8b", "http://localhost:9/v1", 16_000)
    monkeypatch.setenv("NBCHAT_MODEL", "openai:gpt-6-luna")
    found = settings()
    assert (found.model, found.base_url, found.window) == (
        "openai:gpt-6-luna",
        "",
        None,
    )


def test_a_site_that_locks_the_model_holds_against_code_and_choice(
    tmp_path, monkeypatch
):
    choose_model("openai:qwen3:8b", "http://localhost:9/v1")
    write_site_file(
        tmp_path, monkeypatch, NbChat={"model": "local:smollm2"}, locked=["model"]
    )
    assert Agent().provider.name == "local:smollm2"
    with pytest.raises(ConfigError, match="locked to 'local:smollm2'"):
        Agent("openai:gpt-6-luna")
    with pytest.raises(ConfigError, match="has no provider"):
        monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
        Agent("qwen3")
