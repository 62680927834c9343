"""What can be said to the chat itself."""

from pathlib import Path

import pytest

from nbchat.agent import Agent
from nbchat.build import recorder
from nbchat.commands import Commands
from nbchat.errors import ConfigError, NbchatError
from nbchat.events import Compacted, CompactionUndone
from nbchat.store import SessionStore
from nbchat.testing import ScriptedProvider, says

STORY = "The customer asks about order W100 and its parcel. " * 20


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}"))


def agent_for(commands: Commands, *lines) -> Agent:
    agent = Agent(ScriptedProvider(*lines), system="Be kind.")
    agent.listener = recorder(commands._store, agent.session, agent)
    return agent


def test_help_lists_every_command(commands):
    text = commands(agent_for(commands), "/help").text
    assert all(f"/{name} " in text for name in commands.table)


def test_an_unknown_command_says_which_there_are(commands):
    with pytest.raises(ConfigError, match="no command /compackt; there are /help"):
        commands(agent_for(commands), "/compackt")


def test_compact_and_undo_happen_as_their_events_are_read(commands):
    agent = agent_for(commands, says(STORY), says("<summary>short</summary>"))
    agent.ask("first")
    assert isinstance(list(commands(agent, "compact the order").events)[-1], Compacted)
    assert len(agent.session.history) == 1
    assert isinstance(list(commands(agent, "/undo").events)[-1], CompactionUndone)


def test_context_says_what_is_held_and_when_it_is_compacted(commands):
    agent = agent_for(commands, says(STORY, tokens=500))
    agent.ask("first")
    text = commands(agent, "/context").text
    assert "500 input tokens of 75,000" in text
    assert "2 entries of 2 ever said" in text
    assert "would leave about" in text


def test_the_threshold_is_shown_set_and_refused(commands):
    agent = agent_for(commands)
    assert "75,000" in commands(agent, "/threshold").text
    assert "2,000" in commands(agent, "/threshold 2_000").text
    with pytest.raises(ConfigError, match="alone"):
        commands(agent, "/threshold 1")
    with pytest.raises(NbchatError, match="not 'lots'"):
        commands(agent, "/threshold lots")
    assert agent.engine.context_token_threshold == 2_000


def test_a_new_session_leaves_the_old_one_to_go_back_to(commands):
    agent = agent_for(commands, says("one"), says("two"), says("three"))
    agent.ask("first")
    old = agent.session.session_id
    commands(agent, "/new")
    agent.ask("second")
    assert [e.content for e in agent.session.transcript] == ["second", "two"]
    assert old in commands(agent, "/sessions").text
    commands(agent, f"/resume {old}")
    agent.ask("third")
    again = [e.content for e in commands._store.load(old).transcript]
    assert again == ["first", "one", "third", "three"]


def test_the_model_can_be_changed_in_mid_conversation(commands):
    agent = agent_for(commands, says("one"))
    agent.ask("first")
    assert commands(agent, "/model").text == "scripted:model"
    assert commands(agent, "/model local:smollm2").text == "local:smollm2"
    assert agent.engine.info.window == 8_192
    with pytest.raises(ConfigError, match="names no known provider"):
        commands(agent, "/model gpt")
    assert agent.provider.name == "local:smollm2"
