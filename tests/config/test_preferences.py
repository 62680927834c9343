"""What is set for good: for whom, above which layers, and never what cannot work."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS, Detail, KeepUnit, Style, Summarizer
from nbchat.config.factory import build_agent
from nbchat.config.preferences import listed, with_preferences
from nbchat.config.settings import NbChat, settings
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.openai import OpenAIProvider
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider

KEY = {"OPENAI_API_KEY": "sk-none"}
MODEL = "openai:gpt-5-mini"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'kept.db'}")


@pytest.fixture
def chat(store, monkeypatch):
    """A running chat and its commands."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    config = settings(model=MODEL)
    return build_agent(config, store=store), Commands(store, config)


def again(store: SessionStore, model: str = MODEL):
    """An agent built anew, as after a restart."""
    return build_agent(settings(model=model), store=store)


def test_a_setting_holds_now_and_after_a_restart(chat, store):
    agent, obey = chat
    assert obey(agent, "/set policy tiered").text == "policy is tiered for all models"
    assert agent.engine.policy.name == "tiered"
    assert again(store).engine.policy.name == "tiered"


def test_what_is_set_for_a_model_counts_more_than_for_its_provider(chat, store):
    agent, obey = chat
    obey(agent, "/set keep 3")
    obey(agent, "/set keep 4 for openai")
    obey(agent, f"/set keep 5 for {MODEL}")
    obey(agent, "/set keep 6 for anthropic")
    assert agent.engine.policy.keep == 5
    assert again(store).engine.policy.keep == 5
    assert again(store, "openai:gpt-4o").engine.policy.keep == 4
    assert again(store, "local:smollm2").engine.policy.keep == 3


def test_default_takes_a_setting_back(chat, store):
    agent, obey = chat
    obey(agent, "/set keep 3")
    assert obey(agent, "/set keep default").text.startswith("keep is taken back")
    assert agent.engine.policy.keep == 0
    assert again(store).engine.policy.keep == 0


def test_a_text_may_be_set_empty_above_what_a_site_says(store, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    config = settings(model=MODEL)
    config.summary_prompt = "Sum up."  # as a site's file would
    agent, obey = build_agent(config, store=store), Commands(store, config)
    assert agent.engine.summary_prompt == "Sum up."
    told = obey(agent, '/set summary_prompt ""').text
    assert told == 'summary_prompt is "" for all models'
    assert agent.engine.summary_prompt is None
    assert build_agent(config, store=store).engine.summary_prompt is None
    obey(agent, "/set summary_prompt default")
    assert build_agent(config, store=store).engine.summary_prompt == "Sum up."
    with pytest.raises(ConfigError):
        obey(agent, '/set keep ""')
    with pytest.raises(ConfigError):
        obey(agent, '/set policy ""')


def test_a_setting_tells_for_whom_it_can_be_taken_back(chat, store):
    agent, obey = chat

    def scope() -> str | None:
        found = {each.name: each for each in listed(settings(), store, MODEL)}
        return found["keep"].scope

    assert scope() is None
    obey(agent, "/set keep 3")
    assert scope() == ""
    obey(agent, f"/set keep 5 for {MODEL}")
    assert scope() == MODEL
    obey(agent, f"/set keep default for {scope()}")
    assert scope() == ""
    obey(agent, "/set keep default")
    assert scope() is None


def test_the_environment_counts_more_and_the_answer_says_so(chat, store, monkeypatch):
    monkeypatch.setenv("NBCHAT_POLICY", "early")
    config = settings(model=MODEL)
    agent = build_agent(config, store=store)
    said = Commands(store, config)(agent, "/set policy tiered").text
    assert said.endswith("the environment, configuration or code counts more now")
    assert agent.engine.policy.name == "early"


def test_changing_the_model_brings_its_settings(chat, store):
    agent, obey = chat
    obey(agent, "/set policy early for openai:gpt-4o")
    assert agent.engine.policy.name == "single-summary"
    obey(agent, "/model openai:gpt-4o")
    assert agent.engine.policy.name == "early"


def test_another_model_of_the_provider_is_asked_where_the_first_one_is(store):
    url = "http://127.0.0.1:1/v1"
    config = settings(model="openai:llama3", base_url=url, window=8_000)
    agent, obey = build_agent(config, store=store), Commands(store, config)
    obey(agent, "/model openai:mistral")
    assert (agent.provider.name, agent.provider.endpoint.url) == (
        "openai:mistral",
        url,
    )
    assert agent.engine.tracker.info.window == 8_000
    obey(agent, "/set summary_model openai:small")
    assert agent.engine.summary_model.endpoint.url == url
    obey(agent, "/model local:smollm2")
    obey(agent, "/model openai:mistral")
    assert agent.provider.endpoint.url == url


def test_a_model_made_in_code_keeps_its_server_and_key_for_others_of_it(store):
    url = "http://127.0.0.1:1/v1"
    provider = OpenAIProvider("llama3", base_url=url, api_key=lambda: "mine")
    agent = Agent(provider)
    Commands(store)(agent, "/model openai:mistral")
    endpoint = agent.provider.endpoint
    assert (agent.provider.name, endpoint.url) == ("openai:mistral", url)
    assert endpoint.key() == "mine"


def test_a_model_of_another_provider_is_asked_at_its_own_server(store, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    config = settings(model="openai:llama3", base_url="http://127.0.0.1:1/v1")
    agent, obey = build_agent(config, store=store), Commands(store, config)
    obey(agent, "/model anthropic:claude-haiku-4-5")
    assert agent.provider.endpoint.host == "api.anthropic.com"


def test_a_window_that_is_taken_back_is_the_models_own_again(store, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    store.set_setting("", "window", 8_000)
    config = settings(model=MODEL)
    agent = build_agent(config, store=store)
    assert agent.engine.tracker.info.window == 8_000
    Commands(store, config)(agent, "/set window default")
    assert agent.engine.tracker.info.window == agent.provider.info().window == 400_000


@pytest.mark.parametrize("name", ["summary_model", "fallback_model"])
def test_a_writer_named_alone_stays_with_the_provider_it_was_named_for(
    chat, store, name, monkeypatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    agent, obey = chat
    told = obey(agent, f"/set {name} gpt-5-nano").text
    assert told == f"{name} is openai:gpt-5-nano for all models"
    for line in ("/model anthropic:claude-haiku-4-5", f"/model {MODEL}"):
        obey(agent, line)
        assert getattr(agent.engine, name).name == "openai:gpt-5-nano"
    obey(agent, f"/set {name} default")
    assert getattr(agent.engine, name) is None


def test_a_writer_named_alone_in_code_stays_with_its_provider(store, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    url = "http://127.0.0.1:1/v1"
    engine = CompactionEngine(summary_model="small", fallback_model="other")
    agent = Agent(OpenAIProvider("llama3", base_url=url), engine=engine)
    obey = Commands(store)
    obey(agent, "/model openai:mistral")
    assert (engine.summary_model, engine.fallback_model) == ("small", "other")
    obey(agent, "/model anthropic:claude-haiku-4-5")
    writers = engine.summary_model, engine.fallback_model
    assert [each.name for each in writers] == ["openai:small", "openai:other"]
    assert {each.endpoint.url for each in writers} == {url}


def test_a_writer_set_for_one_provider_is_not_asked_of_another(chat, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    agent, obey = chat
    obey(agent, "/set summary_model gpt-5-nano for openai")
    assert agent.engine.summary_model == "gpt-5-nano"
    obey(agent, "/model anthropic:claude-haiku-4-5")
    assert agent.engine.summary_model is None
    obey(agent, f"/model {MODEL}")
    assert agent.engine.summary_model == "gpt-5-nano"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/set keep", "/set takes a name, a value"),
        ("/set colour red", "no setting 'colour'; there are policy, "),
        ("/set keep many", "keep cannot be 'many'"),
        ("/set keep -1", "keep cannot be '-1'"),
        ("/set policy teired", "no policy 'teired'; choose one of single-summary, ti"),
        ("/set target_share 0.95", "target_share 0.95 is not below the trigger"),
        ("/set policy teired for anthropic", "no policy 'teired'"),
        ("/set target_share 0.95 for anthropic", "not below the trigger"),
        ("/set summarizer poet", "summarizer cannot be 'poet'"),
    ],
)
def test_what_cannot_be_is_refused_and_not_kept(chat, store, line, said):
    agent, obey = chat
    before = agent.engine.policy
    with pytest.raises(NbchatError, match=said) as refused:
        obey(agent, line)
    assert "\n" not in str(refused.value)
    assert agent.engine.policy == before
    assert again(store).engine.policy == before


def test_settings_are_listed_with_where_they_come_from(chat, store, monkeypatch):
    agent, obey = chat
    obey(agent, "/set keep 3 for openai")
    monkeypatch.setenv("NBCHAT_BULLETS", "7")
    found = {each.name: each for each in listed(settings(), store, MODEL)}
    assert (found["keep"].value, found["keep"].origin) == ("3", "set for openai")
    assert found["bullets"].origin == "environment variable NBCHAT_BULLETS"
    assert found["window_share"].origin == "default"
    assert "tiered" in found["policy"].choices
    assert (found["automatic"].kind, found["window_share"].kind) == ("bool", "float")
    assert found["prunes"].choices == ("true", "false", "default")
    assert (found["prunes"].value, found["automatic"].value) == ("default", "true")
    assert all(each.help for each in found.values())
    assert "set for openai" in obey(agent, "/settings").text


def test_a_store_that_cannot_be_read_changes_nothing(tmp_path):
    (tmp_path / "folder.db").mkdir()
    broken = SessionStore(f"sqlite:///{tmp_path / 'folder.db'}")
    config = settings(policy="early")
    assert with_preferences(config, broken).policy == "early"


def test_a_value_of_another_version_is_left_out(store):
    store.set_setting("", "verbosity", "chatty")
    store.set_setting("", "forgotten", 1)
    assert with_preferences(settings(), store).verbosity is None


def test_a_value_may_have_a_for_of_its_own(chat, store):
    agent, obey = chat
    obey(agent, "/set summary_prompt Write notes for engineers")
    assert agent.engine.summary_prompt == "Write notes for engineers"
    obey(agent, "/set summary_prompt Sum up for me for openai")
    assert agent.engine.summary_prompt == "Sum up for me"
    assert store.settings(("openai",))["summary_prompt"][0] == "openai"


def test_the_longest_answer_and_the_window_count_at_once(chat):
    agent, obey = chat
    obey(agent, "/set window 50000")
    assert agent.engine.tracker.info.window == 50_000
    obey(agent, "/set max_output_tokens 9000")
    assert agent.engine.tracker.info.window == 50_000
    assert agent.engine.tracker.limits.usable_window == 41_000


def test_every_choice_of_a_policy_can_be_set():
    fields = {"summarizer": Summarizer, "keep_unit": KeepUnit}
    fields |= {"summary_style": Style, "summary_detail": Detail}
    traits = NbChat.class_traits()
    assert {n: tuple(traits[n].values) for n in fields} == {
        name: get_args(kind) for name, kind in fields.items()
    }


def test_a_setting_goes_together_with_the_policy_chosen_for_this_chat(chat):
    agent, obey = chat
    obey(agent, "/policy tiered")
    obey(agent, "/set keep 5")
    assert (agent.engine.policy.name, agent.engine.policy.keep) == ("tiered", 5)
    obey(agent, "/set automatic false")
    assert (agent.engine.policy.name, agent.engine.policy.meter) == ("tiered", "off")


@pytest.mark.parametrize("name", ["mine", "tiered"])
def test_a_policy_of_ones_own_is_what_it_was_when_a_setting_is_taken_back(store, name):
    mine = replace(PRESETS["tiered"], name=name, keep=5)
    agent = Agent(ScriptedProvider(), engine=CompactionEngine(policy=mine))
    obey = Commands(store)
    for line in ("automatic false", "keep 3", "bullets 7", "notifications false"):
        obey(agent, f"/set {line}")
    assert agent.engine.policy == replace(mine, meter="off", keep=3, bullets=7)
    for line in ("automatic true", "keep default", "bullets default"):
        obey(agent, f"/set {line}")
    assert agent.engine.policy == mine


def test_choosing_a_policy_leaves_the_rest_of_an_engine_alone(store):
    engine = CompactionEngine(300, summary_prompt="Be brief.")
    agent = Agent(ScriptedProvider(), engine=engine)
    Commands(store)(agent, "/policy extractive")
    assert engine.policy.name == "extractive"
    assert (engine.context_token_threshold, engine.summary_prompt) == (300, "Be brief.")


def test_a_policy_chosen_for_this_chat_alone_is_not_kept(chat, store):
    agent, obey = chat
    assert obey(agent, "policy tiered").text.startswith("tiered: ")
    assert agent.engine.policy.name == "tiered"
    assert again(store).engine.policy.name == "single-summary"
    with pytest.raises(ConfigError, match="no policy 'x'"):
        obey(agent, "policy x")
