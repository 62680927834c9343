"""How long a chat waits for a store that hangs."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from at_best import TRIES, assert_within, seconds_of
from driving import save_when_repaired

from nbchat.agent.agent import Agent
from nbchat.conversation.session import Session
from nbchat.errors import StoreError
from nbchat.storage.autosave import PATIENCE_SECONDS, Autosave
from nbchat.storage.database import Response
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, says


class Hanging(SessionStore):
    """Saves nothing while it hangs, and says nothing either."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.goes_on = threading.Event()
        self.goes_on.set()

    def add_entries(self, *given: Any) -> None:
        assert self.goes_on.wait(60)
        super().add_entries(*given)


class Hopeful(Response):
    """Forgets that saves were not answered."""

    is_expected = True


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Hanging]:
    hanging = Hanging(f"sqlite:///{tmp_path / 'sessions.db'}")
    yield hanging
    hanging.goes_on.set()
    hanging.close()


def chat_in(store: Hanging) -> Agent:
    agent = Agent(ScriptedProvider(*[says("Yes.")] * 3 * TRIES))
    agent.autosave = autosave_of(store, agent.session, agent)
    return agent


def test_a_chat_waits_once_for_a_store_that_hangs_and_later_all_is_saved(store):
    store.response = Hopeful()  # else no save would wait now, late or not
    agent = chat_in(store)
    agent.ask("first")

    def first_wait() -> float:
        store.goes_on.set()
        save_when_repaired(agent.autosave)
        store.goes_on.clear()
        return seconds_of(lambda: agent.ask("second"))

    assert_within(1.9 * PATIENCE_SECONDS, first_wait)
    assert_within(
        0.9 * PATIENCE_SECONDS, lambda: seconds_of(lambda: agent.ask("third"))
    )
    store.goes_on.set()
    save_when_repaired(agent.autosave)
    assert store.load(agent.session.session_id).transcript == agent.session.transcript


def test_chats_in_one_store_that_hangs_wait_for_it_once_in_all(store):
    first, second = chat_in(store), chat_in(store)
    third = Session([("user", "hello")], session_id="third")
    store.goes_on.clear()
    first.ask("hello")
    assert_within(
        0.9 * PATIENCE_SECONDS, lambda: seconds_of(lambda: second.ask("hello"))
    )
    saving = Autosave(store, third, is_saved=False)

    def save() -> None:
        with pytest.raises(StoreError, match="doesn't answer"):
            saving.save()

    assert_within(0.9 * PATIENCE_SECONDS, lambda: seconds_of(save))
    store.goes_on.set()
    for each in (first.autosave, second.autosave, saving):
        save_when_repaired(each)
    assert len(store.sessions()) == 3
