"""Agents built from the settings, and settings that no agent can work with."""

import threading

import pytest
from cpu_time import CpuTime

from nbchat.agent.agent import Agent
from nbchat.config.layers import settings
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError
from nbchat.storage.factory import PREPARING, autosave_of, build_agent
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider


def test_an_agent_is_built_from_the_settings():
    config = settings(
        model="local:smollm2",
        context_token_threshold=2_000,
        system_prompt="Be brief.",
        window=4_096,
        summary_prompt="List the refunds.",
    )
    agent = build_agent(config)
    assert agent.provider.name == "local:smollm2"
    assert agent.engine.tracker.info.window == 4_096
    assert agent.engine.context_token_threshold == 2_000
    assert agent.engine.summary_prompt == "List the refunds."
    assert agent.system == "Be brief."
    assert agent.session.session_id


def test_without_a_key_the_embedded_model_is_chosen_and_with_one_its_provider(
    monkeypatch,
):
    assert build_agent().provider.name == "local:smollm2"
    monkeypatch.setenv("GEMINI_API_KEY", "test")
    assert build_agent().provider.name.startswith("gemini:")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert build_agent().provider.name.startswith("openai:")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    assert build_agent().provider.name.startswith("anthropic:")


def test_a_fallback_model_is_a_setting(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    config = settings(model="openai:gpt-5", fallback_model="gpt-5-mini")
    engine = build_agent(config).engine
    assert engine.fallback_model == "gpt-5-mini"


def test_a_summary_model_may_be_of_another_provider_or_just_a_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    other = build_agent(
        settings(model="local:smollm2", summary_model="openai:gpt-5-nano")
    )
    assert other.engine.summary_model.name == "openai:gpt-5-nano"
    named = build_agent(settings(model="openai:gpt-5", summary_model="gpt-5-nano"))
    assert named.engine.summary_model == "gpt-5-nano"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"model": "gpt-5"},
            "'gpt-5' has no provider. Did you mean openai:gpt-5",
        ),
        ({"model": "azur:gpt-5"}, "No provider named azur. Did you mean azure:gpt-5?"),
        (
            {"model": "openai:"},
            "'openai:' names no model. Write one, as in openai:NAME.",
        ),
        ({"model": "local:llama-900b"}, "embedded model named 'llama-900b'"),
        ({"model": "local:/no/such/file.gguf"}, "No model file"),
        ({"model": "openai:gpt-5"}, "OPENAI_API_KEY"),
        ({"model": "anthropic:claude-haiku-4-5"}, "ANTHROPIC_API_KEY"),
        ({"model": "gemini:gemini-2.5-flash"}, "GEMINI_API_KEY"),
        ({"context_token_threshold": 5}, "system prompt and tools alone"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_the_agent_is_built(values, message):
    with pytest.raises(ConfigError, match=message) as refused:
        build_agent(settings(**values))
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_large_session_is_indexed_and_counted_before_its_first_search():
    said = [("user", f"order SO-{n} of a printer with toner") for n in range(6_000)]
    fresh, loaded = (Session(said, session_id="s") for _ in "12")
    agent = Agent(ScriptedProvider(), session=loaded)
    autosave_of(SessionStore("sqlite://"), loaded, agent)
    for thread in threading.enumerate():
        if thread.name == PREPARING:
            thread.join()
    assert seconds_of_first_search(loaded) * 5 < seconds_of_first_search(fresh)
    other = Agent(ScriptedProvider(), session=fresh)
    assert seconds_of_first_count(agent) * 3 < seconds_of_first_count(other)


def seconds_of_first_search(session: Session) -> float:
    spent = CpuTime()
    (result, *_) = session.recall("SO-4000").results
    assert result.position == 4_000
    return spent.spent()


def seconds_of_first_count(agent: Agent) -> float:
    spent = CpuTime()
    assert agent.engine.tracker.history_tokens(agent.session) > 6_000
    return spent.spent()
