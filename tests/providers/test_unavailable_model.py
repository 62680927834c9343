"""A model that cannot be connected yet, and the real one that takes over."""

import pytest

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TurnFailed
from nbchat.errors import ConfigError
from nbchat.providers.base import Provider, Request
from nbchat.providers.connect import list_models
from nbchat.providers.unavailable_model import connected_or_not, problem_of
from nbchat.testing import ScriptedProvider, says


def no_key() -> Provider:
    raise ConfigError("no key for openai: set OPENAI_API_KEY")


def test_a_missing_key_fails_the_turn_with_the_reason_and_keeps_the_message():
    agent = Agent(connected_or_not("openai:gpt-5", no_key))
    *_, failed = agent.run("hello")
    assert isinstance(failed, TurnFailed)
    assert failed.message == "no key for openai: set OPENAI_API_KEY"
    assert [entry.content for entry in agent.session.transcript] == ["hello"]
    assert list_models(agent.provider).problem == problem_of(agent.provider)


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
