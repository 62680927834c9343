"""/set, /policy and /model on a running chat: checked, stored, applied."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from driving import replied

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.chat.live_changes import LiveSettings
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.config.layers import settings
from nbchat.config.settings import MODEL_SETTINGS, TABLE
from nbchat.conversation.entries import Entry
from nbchat.errors import ConfigError, NbchatError, StoreError
from nbchat.providers.connect import connect
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.storage.factory import build_agent
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
    """A new agent, as after a restart."""
    return build_agent(settings(model=model), store=store)


def test_a_stored_setting_applies_now_and_after_a_restart(chat, store):
    agent, run_command = chat
    assert (
        replied(run_command(agent, "/set policy tiered"))
        == "Set policy to tiered for all models."
    )
    assert agent.engine.policy.name == "tiered"
    assert again(store).engine.policy.name == "tiered"


def test_a_setting_for_a_model_overrides_that_for_its_provider(chat, store):
    agent, run_command = chat
    run_command(agent, "/set attempts 3")
    run_command(agent, "/set attempts 4 for openai")
    run_command(agent, f"/set attempts 5 for {MODEL}")
    run_command(agent, "/set attempts 6 for anthropic")
    assert agent.options.get("attempts") == 5
    assert again(store).options.get("attempts") == 5
    assert again(store, "openai:gpt-4o").options.get("attempts") == 4
    assert again(store, "local:smollm2").options.get("attempts") == 3


def test_default_removes_a_stored_setting(chat, store):
    agent, run_command = chat
    run_command(agent, "/set attempts 3")
    answer = replied(run_command(agent, "/set attempts default"))
    assert answer == "Reset attempts for all models."
    assert agent.options.get("attempts") is None
    assert again(store).options.get("attempts") is None


def test_an_empty_text_overrides_the_value_of_a_site(store, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    config = settings(model=MODEL)
    config.summary_prompt = "Sum up."  # as a site's file would
    agent, run_command = build_agent(config, store=store), Commands(store, config)
    assert agent.engine.summary_prompt == "Sum up."
    answer = replied(run_command(agent, '/set summary_prompt ""'))
    assert answer == 'Set summary_prompt to "" for all models.'
    assert agent.engine.summary_prompt is None
    assert build_agent(config, store=store).engine.summary_prompt is None
    run_command(agent, "/set summary_prompt default")
    assert build_agent(config, store=store).engine.summary_prompt == "Sum up."
    with pytest.raises(ConfigError):
        run_command(agent, '/set attempts ""')
    with pytest.raises(ConfigError):
        run_command(agent, '/set policy ""')


def test_the_environment_overrides_a_stored_setting_and_the_answer_says_so(
    chat, store, monkeypatch
):
    monkeypatch.setenv("NBCHAT_POLICY", "early")
    config = settings(model=MODEL)
    agent = build_agent(config, store=store)
    answer = replied(Commands(store, config)(agent, "/set policy tiered"))
    assert answer.endswith(
        " The environment, configuration or code overrides it for now."
    )
    assert agent.engine.policy.name == "early"


def test_another_model_comes_with_its_settings(chat, store):
    agent, run_command = chat
    run_command(agent, "/set policy early for openai:gpt-4o")
    assert agent.engine.policy.name == "single-summary"
    run_command(agent, "/model openai:gpt-4o")
    assert agent.engine.policy.name == "early"


def test_another_model_of_the_provider_is_reached_at_the_same_server(store):
    url = "http://127.0.0.1:1/v1"
    config = settings(model="openai:llama3", base_url=url, window=8_000)
    agent, run_command = build_agent(config, store=store), Commands(store, config)
    run_command(agent, "/model openai:mistral")
    assert (agent.provider.name, agent.provider.endpoint.url) == (
        "openai:mistral",
        url,
    )
    assert agent.engine.tracker.info.window == 8_000
    run_command(agent, "/set summary_model openai:small")
    assert agent.engine.summary_model.endpoint.url == url
    run_command(agent, "/model local:smollm2")
    run_command(agent, "/model openai:mistral")
    assert agent.provider.endpoint.url == url


def test_a_provider_made_in_code_passes_its_server_and_key_to_other_models(store):
    url = "http://127.0.0.1:1/v1"
    provider = OpenAIProvider("llama3", base_url=url, api_key=lambda: "mine")
    agent = Agent(provider)
    Commands(store)(agent, "/model openai:mistral")
    endpoint = agent.provider.endpoint
    assert (agent.provider.name, endpoint.url) == ("openai:mistral", url)
    assert endpoint.key() == "mine"


def test_a_model_of_another_provider_is_reached_at_its_own_server(store, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    config = settings(model="openai:llama3", base_url="http://127.0.0.1:1/v1")
    agent, run_command = build_agent(config, store=store), Commands(store, config)
    run_command(agent, "/model anthropic:claude-haiku-4-5")
    assert agent.provider.endpoint.host == "api.anthropic.com"


def test_removing_a_window_restores_that_of_the_model(store, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    store.set_setting("", "window", 8_000)
    config = settings(model=MODEL)
    agent = build_agent(config, store=store)
    assert agent.engine.tracker.info.window == 8_000
    Commands(store, config)(agent, "/set window default")
    assert agent.engine.tracker.info.window == agent.provider.info().window == 400_000


@pytest.mark.parametrize("name", ["summary_model", "fallback_model"])
def test_a_summary_model_without_provider_stays_with_the_chats_provider(
    chat, store, name, monkeypatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    agent, run_command = chat
    answer = replied(run_command(agent, f"/set {name} gpt-5-nano"))
    assert answer == f"Set {name} to openai:gpt-5-nano for all models."
    for line in ("/model anthropic:claude-haiku-4-5", f"/model {MODEL}"):
        run_command(agent, line)
        assert getattr(agent.engine, name).name == "openai:gpt-5-nano"
    run_command(agent, f"/set {name} default")
    assert getattr(agent.engine, name) is None


def test_a_summary_model_named_in_code_stays_with_its_provider(store, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    url = "http://127.0.0.1:1/v1"
    engine = CompactionEngine(summary_model="small", fallback_model="other")
    agent = Agent(OpenAIProvider("llama3", base_url=url), engine=engine)
    run_command = Commands(store)
    run_command(agent, "/model openai:mistral")
    assert (engine.summary_model, engine.fallback_model) == ("small", "other")
    run_command(agent, "/model anthropic:claude-haiku-4-5")
    writers = engine.summary_model, engine.fallback_model
    assert [each.name for each in writers] == ["openai:small", "openai:other"]
    assert {each.endpoint.url for each in writers} == {url}


def test_a_summary_model_for_one_provider_is_not_used_with_another(chat, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    agent, run_command = chat
    run_command(agent, "/set summary_model gpt-5-nano for openai")
    assert agent.engine.summary_model == "gpt-5-nano"
    run_command(agent, "/model anthropic:claude-haiku-4-5")
    assert agent.engine.summary_model is None
    run_command(agent, f"/model {MODEL}")
    assert agent.engine.summary_model == "gpt-5-nano"


POLICIES = "policy can't be 'teired'. Choose one of single-summary, tiered, "

REFUSED = {
    "/set attempts": "/set needs a name and a value",
    "/set colour red": "No setting named colour. /settings lists them all.",
    "/set efort low": "No setting named efort. Did you mean effort?",
    "/set base_url http://x": "/set can't store base_url. Use %config NbChat.base_url",
    "/set attempts many": "attempts can't be 'many'. Use a whole number from 1 to 100",
    "/set window -1": "window can't be '-1'. Use a whole number of at least 1",
    "/set automatic maybe": "automatic can't be 'maybe'. Choose one of true, ask, false",
    "/set top_p 2": "top_p can't be '2'. Use a number from 0 to 1",
    "/set keep 5": "No setting named keep. /settings lists them all.",
    "/set policy teired": POLICIES,
    "/set policy teired for anthropic": POLICIES,
    "/set context_token_threshold 5": "system prompt and tools alone",
    "/set fallback_model nowhere:model": "No provider named nowhere",
}


def test_a_refused_setting_leaves_the_chat_and_the_store_unchanged(chat, store):
    agent, run_command = chat
    for line in ("context_token_threshold 90000", "attempts 4", "fallback_model gpt-5"):
        run_command(agent, f"/set {line}")

    def state() -> tuple[object, ...]:
        engine = agent.engine
        stored = store.settings(("", "openai", "anthropic"))
        return (
            engine.policy,
            engine.context_token_threshold,
            engine.fallback_model,
            stored,
        )

    before = state()
    for line, message in REFUSED.items():
        with pytest.raises(NbchatError, match=re.escape(message)) as refused:
            run_command(agent, line)
        assert "\n" not in str(refused.value)
        assert state() == before


def test_a_value_may_contain_the_word_for(chat, store):
    agent, run_command = chat
    run_command(agent, "/set summary_prompt Write notes for engineers")
    assert agent.engine.summary_prompt == "Write notes for engineers"
    run_command(agent, "/set summary_prompt Sum up for me for openai")
    assert agent.engine.summary_prompt == "Sum up for me"
    assert store.settings(("openai",))["summary_prompt"][0] == "openai"


def test_the_longest_answer_and_the_window_apply_at_once(chat):
    agent, run_command = chat
    run_command(agent, "/set window 50000")
    assert agent.engine.tracker.info.window == 50_000
    run_command(agent, "/set max_output_tokens 9000")
    assert agent.engine.tracker.info.window == 50_000
    assert agent.engine.tracker.limits.usable_window == 41_000


def test_a_setting_is_combined_with_the_policy_chosen_for_this_chat(chat):
    agent, run_command = chat
    run_command(agent, "/policy tiered")
    run_command(agent, "/set automatic false")
    assert (agent.engine.policy.name, agent.engine.policy.meter) == ("tiered", "off")


@pytest.mark.parametrize("name", ["mine", "tiered"])
def test_a_custom_policy_is_restored_when_settings_are_removed(store, name):
    mine = replace(PRESETS["tiered"], name=name, keep=5)
    agent = Agent(ScriptedProvider(), engine=CompactionEngine(policy=mine))
    run_command = Commands(store)
    for line in ("automatic false", "notifications false"):
        run_command(agent, f"/set {line}")
    assert agent.engine.policy == replace(mine, meter="off")
    run_command(agent, "/set automatic true")
    assert agent.engine.policy == mine


def test_choosing_a_policy_changes_nothing_else_in_the_engine(store):
    engine = CompactionEngine(300, summary_prompt="Be brief.")
    agent = Agent(ScriptedProvider(), engine=engine)
    Commands(store)(agent, "/policy extractive")
    assert engine.policy.name == "extractive"
    assert (engine.context_token_threshold, engine.summary_prompt) == (300, "Be brief.")


def say_hello(agent: Agent) -> None:
    """Save the session with a first message: empty ones are not kept."""
    if not agent.session.transcript:
        agent.session.append(Entry("user", "hello"))
    agent.autosave.save()


def reopened(agent: Agent, store: SessionStore, **values: object) -> Agent:
    """The agent of the same session, as after a restart of the kernel."""
    say_hello(agent)
    session = store.load(agent.session.session_id)
    return build_agent(settings(model=MODEL, **values), store=store, session=session)


@pytest.mark.slow
def test_a_policy_chosen_for_this_session_survives_a_restart_and_no_other_has_it(
    chat, store
):
    agent, run_command = chat
    assert replied(run_command(agent, "policy tiered")).startswith("tiered: ")
    assert agent.engine.policy.name == "tiered"
    assert again(store).engine.policy.name == "single-summary"
    assert reopened(agent, store).engine.policy.name == "tiered"
    assert reopened(agent, store, policy="early").engine.policy.name == "tiered"
    with pytest.raises(ConfigError, match="No policy named 'x'"):
        run_command(agent, "policy x")


@pytest.mark.slow
def test_a_model_chosen_for_a_session_survives_a_restart_until_another_is_configured(
    chat, store
):
    agent, run_command = chat
    run_command(agent, "/set window 90000 for openai:gpt-5-mini")
    run_command(agent, "/model openai:gpt-5-mini")
    assert again(store).provider.name == MODEL
    found = reopened(agent, store)
    assert found.provider.name == "openai:gpt-5-mini"
    assert found.engine.tracker.info.window == 90_000
    session = store.load(agent.session.session_id)
    other = settings(model="openai:gpt-5-nano")
    found = build_agent(other, store=store, session=session)
    assert found.provider.name == "openai:gpt-5-nano"
    run_command(agent, "/new")
    assert reopened(agent, store).provider.name == "openai:gpt-5-mini"


def test_a_model_of_another_provider_is_not_asked_for_at_the_configured_address(
    chat, store, monkeypatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    agent, run_command = chat
    run_command(agent, "/model anthropic:claude-haiku-4-5")
    found = reopened(agent, store, base_url="http://127.0.0.1:9/v1")
    assert found.provider.name == "anthropic:claude-haiku-4-5"
    assert "127.0.0.1" not in found.provider.endpoint.shown_url


EXAMPLES = {"choice": "default", "bool": "true", "int": "3", "float": "0.5"}
"""A value of each kind."""


@pytest.mark.slow
def test_every_setting_of_the_models_scope_can_be_stored_and_removed(chat, store):
    agent, run_command = chat
    agent.use(connect("openai:gpt-5-mini", base_url="http://127.0.0.1:9/v1"))
    run_command(agent, "/set window 400000")
    for name in MODEL_SETTINGS:
        row = TABLE[name]
        value = {"window": "90000", "context_token_threshold": "9000"}.get(
            name, row.choices[0] if row.choices else EXAMPLES.get(row.kind, "gpt-5")
        )
        run_command(agent, f"/set {name} {value}")
        assert name in store.settings([""])
        run_command(agent, f"/set {name} default")
        assert name not in store.settings([""])


def test_effort_and_patience_are_in_the_next_request(chat):
    agent, run_command = chat
    run_command(agent, "/set effort high")
    run_command(agent, "/set timeout_seconds 20")
    request = agent.next_request()
    assert request.options == {"effort": "high", "timeout_seconds": 20}
    run_command(agent, "/set effort default")
    assert "effort" not in agent.next_request().options


def test_an_option_that_the_model_lacks_is_refused_by_name_and_not_stored(chat, store):
    agent, run_command = chat
    line = "openai:gpt-5-mini doesn't accept seed. Unset it, or choose another"
    with pytest.raises(ConfigError, match=line):
        run_command(agent, "/set seed 7")
    assert "seed" not in store.settings([""])


def test_a_setting_for_all_models_is_omitted_with_a_warning_where_one_lacks_it(
    chat, store, caplog
):
    store.set_setting("", "seed", 7)
    agent = again(store)
    assert (
        "openai:gpt-5-mini doesn't accept seed, so requests are sent without it."
        in caplog.messages
    )
    assert agent.options == {"seed": 7}


def test_headers_and_proxy_are_those_of_the_connection_and_never_shown(store):
    config = settings(
        model="openai:m",
        base_url="http://127.0.0.1:9/v1",
        headers="X-Team: data; X-Token: s3cr3t-s3cr3t",
        proxy="http://ann:s3cr3t@127.0.0.1:8",
    )
    client = build_agent(config, store=store).provider._client
    assert client._client.headers["x-token"] == "s3cr3t-s3cr3t"
    shown = [TABLE[name].text(getattr(config, name)) for name in ("headers", "proxy")]
    assert shown == ["X-Team: ***; X-Token: ***", "http://127.0.0.1:8"]
    with pytest.raises(ConfigError, match=r"headers can't be 'X Team'. Write Name"):
        build_agent(settings(model="openai:m", headers="X Team: data"), store=store)


def test_settings_lists_what_can_be_stored_in_the_order_of_the_table(chat):
    agent, run_command = chat
    lines = replied(run_command(agent, "/settings")).splitlines()
    assert [line.split()[0] for line in lines] == list(MODEL_SETTINGS)


def test_a_change_that_a_running_chat_cannot_follow_is_reverted(chat, store):
    agent, _ = chat
    config = settings(model=MODEL)
    live = LiveSettings(store, config)
    config.observe(lambda change: live.follow(agent, change), names=["store_url"])
    with pytest.raises(ConfigError, match="store_url can't change while a chat is"):
        config.store_url = "sqlite://"
    assert config.store_url == ""
    assert "store_url" not in config.explicit


def test_a_setting_of_the_configuration_is_followed_and_outranks_stored_ones(
    chat, store
):
    agent, run_command = chat
    shown = []
    config = settings(model=MODEL)
    live = LiveSettings(store, config, changed=lambda now: shown.append(now.attempts))
    config.observe(lambda change: live.follow(agent, change), names=["attempts"])
    run_command(agent, "/set attempts 3")
    config.attempts = 7
    assert agent.options.get("attempts") == shown[-1] == 7


def test_a_setting_that_cannot_be_stored_is_not_applied(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    file = tmp_path / "sessions.db"
    SessionStore(f"sqlite:///{file}").sessions()
    readonly = SessionStore(f"sqlite:///file:{file}?mode=ro&uri=true")
    config = settings(model=MODEL)
    agent = build_agent(config, store=readonly)
    with pytest.raises(StoreError, match="readonly"):
        Commands(readonly, config)(agent, "/set attempts 5")
    assert agent.options.get("attempts") is None


def test_the_most_specific_scope_stays_in_force_when_another_is_set_or_removed(chat):
    agent, run_command = chat
    for line, keep in {
        f"/set attempts 5 for {MODEL}": 5,
        "/set attempts 3": 5,
        "/set attempts 4 for openai": 5,
        f"/set attempts default for {MODEL}": 4,
        "/set attempts default for openai": 3,
        "/set attempts default": None,
    }.items():
        run_command(agent, line)
        assert agent.options.get("attempts") == keep


def test_a_model_whose_stored_settings_cannot_work_is_refused_whole(chat, store):
    agent, obey = chat
    other = "openai:gpt-4o"
    store.set_setting(other, "attempts", 9)
    store.set_setting(other, "context_token_threshold", 5)
    obey(agent, "/set attempts 3")
    with pytest.raises(ConfigError, match="system prompt and tools alone"):
        obey(agent, f"/model {other}")
    engine = agent.engine
    assert (agent.provider.name, agent.options["attempts"]) == (MODEL, 3)
    assert engine.context_token_threshold > 5


def test_automatic_can_be_off_for_one_session_and_nothing_else_changes(chat, store):
    agent, run_command = chat
    run_command(agent, "/policy token-window")
    before = agent.engine.policy
    answer = replied(run_command(agent, "/set automatic false for session"))
    assert answer == "Set automatic to false for this session."
    assert agent.engine.policy == replace(before, meter="off")
    assert reopened(agent, store).engine.policy == replace(before, meter="off")
    assert again(store).engine.policy == PRESETS["single-summary"]


def test_each_session_has_its_own_settings_and_a_branch_those_of_its_original(
    chat, store
):
    agent, run_command = chat
    say_hello(agent)
    run_command(agent, "/policy tiered")
    run_command(agent, "/set attempts 4 for session")
    first = agent.session.session_id
    list(run_command(agent, "/new"))
    assert agent.engine.policy == PRESETS["single-summary"]
    list(run_command(agent, f"/resume {first}"))
    assert (agent.engine.policy.name, agent.options["attempts"]) == ("tiered", 4)
    run_command.branch(agent, 0, "good day")
    assert agent.session.session_id != first
    assert (agent.engine.policy.name, agent.options["attempts"]) == ("tiered", 4)


def test_the_settings_of_a_deleted_session_are_deleted(chat, store):
    agent, run_command = chat
    say_hello(agent)
    run_command(agent, "/policy tiered")
    first = agent.session.session_id
    list(run_command(agent, "/new"))
    run_command(agent, f"/delete {first}")
    assert store.settings([f"session:{first}"]) == {}


def test_the_models_own_tools_can_be_switched_on_and_off_in_a_running_chat(store, chat):
    agent, commands = chat
    assert "compact" not in [tool.name for tool in agent.tools]
    before = agent.engine.tracker.fixed_tokens
    replied(commands(agent, "/set context_tools true"))
    assert [tool.name for tool in agent.tools][:2] == ["compact", "context"]
    assert agent.engine.tracker.fixed_tokens > before
    again = build_agent(settings(model=MODEL), store=store)
    assert [tool.name for tool in again.tools][:2] == ["compact", "context"]
    replied(commands(agent, "/set context_tools false"))
    assert "compact" not in [tool.name for tool in agent.tools]
