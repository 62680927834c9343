"""Layers override each other in their order; locks of a site hold against all."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError
from traitlets.config import Config

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.compaction.policies import PRESETS
from nbchat.config.layers import (
    CHATBOT_VARIABLES,
    is_locked,
    settings,
    unread_names,
)
from nbchat.config.settings import TABLE, NbChat
from nbchat.errors import ConfigError
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.storage.factory import build_agent
from nbchat.storage.saved_settings import settings_in_force, with_saved_settings
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a site file of the user or, in a folder Jupyter lists later, of the system."""
    folders = {name: tmp_path / name for name in ("of-user", "of-site")}
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", ":".join(map(str, folders.values())))

    def written(
        name: str, locked: object = (), *, whose: str, **values: object
    ) -> Path:
        file = folders[whose] / "nbchat_config.d" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        locks = list(locked) if isinstance(locked, tuple) else locked
        file.write_text(json.dumps({"NbChat": values, "locked": locks}))
        return file

    return written


@pytest.fixture
def lock(write: Write) -> Path:
    return write("50-hub.json", ("policy",), whose="of-site", policy="tiered")


def test_the_environment_has_no_effect_on_a_locked_setting(lock, monkeypatch, caplog):
    monkeypatch.setenv("NBCHAT_POLICY", "off")
    assert settings().policy == "tiered"
    assert f"policy is locked by {lock}, so another value has no effect" in caplog.text


def test_ipythons_configuration_has_no_effect_on_a_locked_setting(lock, caplog):
    found = settings(Config({"NbChat": {"policy": "off", "max_steps": 7}}))
    assert (found.policy, found.max_steps) == ("tiered", 7)
    assert str(lock) in caplog.text


def test_a_layer_that_agrees_with_a_lock_is_not_logged(lock, monkeypatch, caplog):
    monkeypatch.setenv("NBCHAT_POLICY", "tiered")
    assert settings(policy="tiered").policy == "tiered"
    assert caplog.text == ""


def test_code_that_changes_a_locked_setting_is_refused_with_the_file(lock):
    for refused in (
        lambda: settings(policy="off"),
        lambda: build_agent(NbChat(policy="off")),
        lambda: build_agent(NbChat()),  # the default, made without the site's files
    ):
        with pytest.raises(ConfigError, match="policy is locked to 'tiered'") as error:
            refused()
        assert str(lock) in str(error.value)
        assert "\n" not in str(error.value)
    assert build_agent(NbChat(policy="tiered")).engine.policy.name == "tiered"


def test_a_locked_system_prompt_cannot_be_given_to_an_agent_either(write):
    write("50-hub.json", ("system_prompt",), whose="of-site", system_prompt="Be fair.")
    with pytest.raises(ConfigError, match="system_prompt is locked"):
        build_agent(system="Be unfair.")
    assert build_agent().system == "Be fair."


def test_a_setting_can_be_locked_to_its_packaged_default(write, monkeypatch):
    write("50-hub.json", ("max_output_tokens",), whose="of-site")
    monkeypatch.setenv("NBCHAT_MAX_OUTPUT_TOKENS", "9")
    assert settings().max_output_tokens is None
    with pytest.raises(ConfigError, match="max_output_tokens is locked to None"):
        settings(max_output_tokens=9)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("store_url", "postgresql://nb:top@2@db/chats", "postgresql://db/chats"),
        ("base_url", "https://ann:top@llm.corp/v1?key=top", "https://llm.corp/v1"),
        ("store_url", "sqlite:////home/ann@top/chats", "sqlite:////home/ann@top/chats"),
        ("system_prompt", "a@b", "a@b"),
    ],
)
def test_the_line_about_a_lock_shows_no_password(write, name, value, shown):
    write("50-hub.json", (name,), whose="of-site", **{name: value})
    with pytest.raises(ConfigError, match=re.escape(f"is locked to {shown!r} by ")):
        settings(**{name: "other"})
    with pytest.raises(TraitError, match=re.escape(f"is locked to {shown!r} by ")):
        setattr(settings(), name, "other")


@pytest.mark.parametrize("name", ["00-first.json", "50-hub.json", "99-last.json"])
def test_a_file_of_the_user_cannot_change_a_locked_setting(lock, write, name):
    write(name, ("policy",), whose="of-user", policy="off", attempts=3)
    found = settings()
    assert (found.policy, found.attempts) == ("tiered", 3)
    assert found.locks["policy"] == lock


def test_a_later_file_of_the_system_can_change_a_locked_setting(lock, write):
    write("60-hub.json", whose="of-site", policy="early")
    assert settings().policy == "early"
    assert settings().locks["policy"] == lock
    assert settings().origins["policy"].endswith("of-site/nbchat_config.d/60-hub.json")


def test_a_preference_never_changes_a_locked_setting(lock, tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")
    store.set_setting("", "policy", "off")
    store.set_setting("", "attempts", 7)
    found = with_saved_settings(settings(), store)
    assert (found.policy, found.attempts) == ("tiered", 7)
    origins = {each.name: each.origin for each in settings_in_force(settings(), store)}
    assert origins["policy"] == f"locked by {lock}"
    assert origins["attempts"] == "set for all models"
    assert build_agent(settings(), store=store).engine.policy.name == "tiered"


def test_a_locked_setting_cannot_be_stored(lock, tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")
    agent = Agent(ScriptedProvider())
    for value in ("off", "default"):
        with pytest.raises(ConfigError, match=f"is locked to 'tiered' by {lock}"):
            Commands(store)(agent, f"/set policy {value}")
    assert store.settings([""]) == {}
    assert Commands(store)(agent, "/set policy tiered")


@pytest.mark.slow
def test_a_locked_base_url_is_used_for_every_model(write, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    url = "http://127.0.0.1:1/v1"
    write("50-hub.json", ("base_url",), whose="of-site", base_url=url)
    store = SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")
    config = settings(model="openai:corp-large")
    agent, obey = build_agent(config, store=store), Commands(store, config)
    for line in ("openai:corp-small", "anthropic:claude-haiku-4-5"):
        obey(agent, f"/set summary_model {line}")
        assert agent.engine.summary_model.endpoint.url == url
        obey(agent, f"/model {line}")
        assert (agent.provider.name, agent.provider.endpoint.url) == (line, url)
    stranger = Agent(OpenAIProvider("other", base_url="http://127.0.0.1:2/v1"))
    obey(stranger, "/model openai:corp-large")
    assert stranger.provider.endpoint.url == url


@pytest.mark.slow
def test_config_refuses_a_locked_setting_in_one_line_and_others_still_change(
    lock, caplog
):
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "nbchat")
    shell.run_line_magic("config", "NbChat.policy = 'off'")
    (refusal,) = caplog.messages
    assert refusal == (
        f"policy is locked to 'tiered' by {lock}, so it can't be changed here."
    )
    shell.run_line_magic("config", "NbChat.max_steps = 4")
    found = next(c for c in shell.configurables if isinstance(c, NbChat))
    assert (found.policy, found.max_steps) == ("tiered", 4)
    assert len(caplog.messages) == 1
    with pytest.raises(TraitError, match="policy is locked"):
        found.policy = "off"
    shell.run_line_magic("unload_ext", "nbchat")
    shell.history_manager.end_session()


def test_a_lock_on_an_unknown_setting_is_refused_with_its_file(write):
    file = write("50-hub.json", ("polcy",), whose="of-site")
    with pytest.raises(ConfigError, match="locks 'polcy': No setting named"):
        settings()
    with pytest.raises(ConfigError, match=str(file)):
        settings()


def test_locks_that_are_no_list_of_names_are_refused_with_their_file(write):
    for locked in ("policy", {"policy": True}, [1]):
        file = write("50-hub.json", locked, whose="of-site")
        with pytest.raises(ConfigError, match='"locked" must be a list') as error:
            settings()
        assert str(file) in str(error.value)


def test_every_setting_has_its_origin(lock, write, monkeypatch):
    file = write("60-hub.json", whose="of-site", attempts=2, window=9_000)
    monkeypatch.setenv("NBCHAT_WINDOW", "8000")
    monkeypatch.setenv("NBCHAT_POLICY", "off")
    found = settings(Config({"NbChat": {"top_p": 0.3}}), max_steps=4).origins
    assert found["attempts"] == f"site file {file}"
    assert found["window"] == "environment variable NBCHAT_WINDOW"
    assert found["top_p"] == "IPython's configuration"
    assert found["max_steps"] == "code"
    assert found["policy"] == f"site file {lock}"


def test_a_site_file_and_code_change_fields_of_a_policy(site):
    text = {"NbChat": {"policy": "tiered"}, "policies": {"tiered": {"keep": 5}}}
    (site / "50-hub.json").write_text(json.dumps(text))
    assert Agent("local:smollm2").engine.policy.keep == 5
    agent = build_agent(settings(policies={"tiered": {"bullets": 7}}))
    policy = agent.engine.policy
    assert (policy.name, policy.keep, policy.bullets) == ("tiered", 5, 7)
    with closing(SessionStore("sqlite://")) as store:
        Commands(store)(agent, "/policy early")
    assert agent.engine.policy == PRESETS["early"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kep": 5}, "The policy 'tiered' has no field 'kep'. Did you mean keep?"),
        ({"keep": "many"}, "Policy 'tiered': keep can't be 'many'. Use a number"),
        ({"target_share": 0.9}, "target_share 0.9 must be below window_share"),
    ],
)
def test_a_bad_field_of_a_policy_is_named_with_its_file(site, fields, message):
    file = site / "50-hub.json"
    file.write_text(json.dumps({"policies": {"tiered": fields}}))
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        settings()
    assert str(file) in str(refused.value)


def test_a_lock_of_the_policy_holds_for_its_fields(lock, write):
    file = write("99-mine.json", whose="of-user")
    file.write_text(json.dumps({"policies": {"tiered": {"keep": 1}}}))
    assert settings().policy_fields == {}
    with pytest.raises(ConfigError, match="locks the policy"):
        settings(policies={"tiered": {"keep": 1}})


def test_the_packaged_site_file_repeats_defaults_of_the_table():
    folder = Path(__file__).parents[2] / "jupyter-config" / "nbchat_config.d"
    values = json.loads((folder / "10-defaults.json").read_text())["NbChat"]
    assert values == {name: TABLE[name].default for name in values}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "jupyter-config" / "nbchat_config.d"
    folder.mkdir(parents=True)
    return folder


def write_values(folder: Path, name: str, **values: object) -> None:
    (folder / name).write_text(json.dumps({"NbChat": values}))


def test_each_layer_overrides_the_one_below(site, monkeypatch):
    assert settings().max_steps == 50
    write_values(site, "50-site.json", max_steps=10, policy="single-summary")
    assert settings().max_steps == 10
    monkeypatch.setenv("NBCHAT_MAX_STEPS", "20")
    assert settings().max_steps == 20
    ipython = Config({"NbChat": {"max_steps": 30}})
    assert settings(ipython).max_steps == 30
    assert settings(ipython, max_steps=40).max_steps == 40


def test_site_files_are_merged_by_name_across_folders(tmp_path, monkeypatch):
    system = tmp_path / "system"
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(system))
    user = tmp_path / "jupyter-config"
    for folder in (system, user):
        (folder / "nbchat_config.d").mkdir(parents=True)
    write_values(user / "nbchat_config.d", "90-last.json", max_steps=9)
    write_values(
        system / "nbchat_config.d", "50-site.json", max_steps=5
    )  # listed first
    assert settings().max_steps == 9


def test_later_site_files_win(site):
    write_values(site, "10-a.json", model="local:smollm2", max_steps=1)
    write_values(site, "20-b.json", max_steps=2)
    assert (settings().model, settings().max_steps) == ("local:smollm2", 2)


def test_a_bad_environment_variable_is_named_too(monkeypatch):
    monkeypatch.setenv("NBCHAT_MAX_STEPS", "a few")
    with pytest.raises(ConfigError, match="a few"):
        settings()


def test_a_site_file_that_is_not_json_is_named(site):
    (site / "10-broken.json").write_text("{")
    with pytest.raises(ConfigError, match=r"10-broken\.json isn't JSON"):
        settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "isn't of the form"),
        ('{"NbChat": "x"}', "isn't of the form"),
        ('{"policies": {"tiered": 5}}', "isn't of the form"),
        ('{"locked": "policy"}', '"locked" must be a list of names'),
    ],
)
def test_a_site_file_of_another_form_is_named(site, text: str, said: str):
    (site / "10-odd.json").write_text(text)
    with pytest.raises(ConfigError, match=r"10-odd\.json") as refused:
        settings()
    assert said in str(refused.value)


def test_a_site_file_that_cannot_be_read_is_named(site):
    (site / "10-gone.json").symlink_to(site / "nowhere")
    with pytest.raises(ConfigError, match=r"Can't read .*10-gone\.json: No such file"):
        settings()


def test_unknown_names_in_a_site_file_are_logged_with_the_nearest(site, caplog):
    file = site / "10-site.json"
    file.write_text('{"NbChat": {"modle": "m", "max_steps": 3}, "nbchat": {}}')
    assert settings().max_steps == 3
    assert caplog.messages == [
        f"{file}: No setting named modle. Did you mean model?",
        f"{file}: 'nbchat' isn't read. Use NbChat, locked or policies.",
    ]


def test_an_unknown_variable_is_logged_with_the_nearest_name(monkeypatch, caplog):
    monkeypatch.setenv("NBCHAT_EFORT", "5")
    settings()
    assert caplog.messages == [
        "No setting named NBCHAT_EFORT. Did you mean NBCHAT_EFFORT?"
    ]


def test_the_variables_of_the_plan_behind_tiered_are_explained(monkeypatch):
    for name in CHATBOT_VARIABLES:
        monkeypatch.setenv(name, "1")
    lines = unread_names()
    assert len(lines) == len(CHATBOT_VARIABLES) == 7
    named = {name for line in lines for name in re.findall(r"NBCHAT_\w+", line)}
    assert named < {row.variable for row in TABLE.values()}


def test_a_variable_of_jupyter_does_not_drop_the_locks_of_a_site(tmp_path, monkeypatch):
    folder = tmp_path / "system"
    (folder / "nbchat_config.d").mkdir(parents=True)
    text = '{"NbChat": {"policy": "tiered"}, "locked": ["policy"]}'
    (folder / "nbchat_config.d" / "site.json").write_text(text)
    monkeypatch.setattr("nbchat.config.layers.SYSTEM_CONFIG_PATH", [str(folder)])
    monkeypatch.setenv("JUPYTER_NO_CONFIG", "1")
    assert is_locked("policy")
    with pytest.raises(ConfigError, match="locked"):
        settings(policy="early")
