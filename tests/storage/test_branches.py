"""Families of sessions: where they differ, and what is done to all of them."""

import random
from pathlib import Path

import pytest
from sqlite_files import sqlite_file
from tables import every

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.config.settings import NbChat
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.storage.autosave import Autosave, save_session
from nbchat.storage.branches import Branch, Switch, one_per_family, switches
from nbchat.storage.export import MarkdownLog
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, says


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


def agent_of(store: SessionStore) -> Agent:
    agent = Agent(ScriptedProvider(*(says(f"answer {n}") for n in range(20))))
    agent.autosave = Autosave(store, agent.session, is_saved=False)
    agent.session.session_id = "first"
    return agent


def _first_difference(one: list[str], other: list[str]) -> int | None:
    pairs = enumerate(zip(one, other, strict=True))
    return next((at for at, (left, right) in pairs if left != right), None)


def branch(name: str, made: int, *ancestors: tuple[str, int], used: int = 0) -> Branch:
    return Branch(name, f"{made:03}", f"{used or made:03}", ancestors)


def test_versions_of_a_message_are_counted_from_the_oldest():
    grandchild = branch("c", 3, ("a", 4), ("b", 4))
    family = [branch("a", 1), branch("b", 2, ("a", 4)), grandchild]
    for number, name in enumerate("abc", 1):
        assert switches(family, name) == (Switch(4, number, ("a", "b", "c")),)


def test_a_version_leads_to_the_session_with_it_that_was_used_last():
    family = [
        branch("a", 1),
        branch("b", 2, ("a", 4)),
        branch("c", 3, ("a", 4), ("b", 8), used=9),
    ]
    assert switches(family, "a") == (Switch(4, 1, ("a", "c")),)
    assert switches(family, "b") == (
        Switch(4, 2, ("a", "b")),
        Switch(8, 1, ("b", "c")),
    )


def test_the_switches_hold_though_a_session_between_was_deleted():
    family = [branch("a", 1), branch("c", 3, ("a", 4), ("gone", 8))]
    assert switches(family, "c") == (Switch(4, 2, ("a", "c")),)
    assert switches(family[1:], "c") == ()
    assert switches(family, "unknown") == ()


@every("seed", range(30))
def test_each_version_is_another_text_at_its_position(seed):
    chance = random.Random(seed)
    texts = {"s0": [f"s0.{n}" for n in range(10)]}
    family = [branch("s0", 0)]
    for number in range(1, 12):
        parent = chance.choice(family)
        at = chance.randrange(10)
        name = f"s{number}"
        kept = texts[parent.id][:at]
        texts[name] = [*kept, *(f"{name}.{n}" for n in range(at, 10))]
        ancestors = (*parent.ancestors, (parent.id, at))
        family.append(branch(name, number, *ancestors, used=chance.randrange(99)))
    for own in family:
        found = switches(family, own.id)
        for each in found:
            assert each.sessions[each.number - 1] == own.id
            shown = [texts[name][each.position] for name in each.sessions]
            assert len(set(shown)) == len(shown)
            start = texts[own.id][: each.position]
            alike = [text for text in texts.values() if text[: len(start)] == start]
            assert {text[each.position] for text in alike} == set(shown)
        differing = {_first_difference(text, texts[own.id]) for text in texts.values()}
        assert differing - {None} == {each.position for each in found}


@pytest.mark.slow
def test_an_edited_message_is_a_branch_after_a_restart_too(store):
    agent, commands = agent_of(store), Commands(store)
    for text in ("one", "two", "three"):
        agent.ask(text)
    list(commands(agent, "/branch 2 another two"))
    branched = agent.session.session_id
    list(commands(agent, "/branch 2 a third two"))
    newest = agent.session.session_id
    store.close()
    found = switches(store.family(branched), branched)
    assert found == (Switch(2, 2, ("first", branched, newest)),)
    assert store.load(newest).ancestors == (("first", 2), (branched, 2))


def test_a_conversation_is_listed_once_under_the_title_of_its_family(store):
    agent, commands = agent_of(store), Commands(store)
    agent.ask("one")
    agent.ask("two")
    store.rename("first", "Orders")
    list(commands(agent, "/branch 0 something else"))
    save_session(store, Session([("user", "apart")], session_id="apart"))
    infos = store.sessions()
    assert {info.title for info in infos} == {"Orders", "apart"}
    assert [(each.title, each.branches) for each in one_per_family(infos)] == [
        ("apart", 1),
        ("Orders", 2),
    ]
    listed = one_per_family(infos, current="first")
    assert {each.id for each in listed} == {"first", "apart"}
    store.rename(agent.session.session_id, "Returns")
    assert {info.title for info in store.sessions()} == {"Returns", "apart"}


@pytest.mark.slow
def test_branches_are_deleted_together_when_asked_for(store):
    agent, commands = agent_of(store), Commands(store)
    agent.ask("one")
    list(commands(agent, "/branch 0 other"))
    list(commands(agent, "/new"))
    [reply] = commands(agent, "/delete first with branches")
    assert reply.text == "Deleted 2 sessions."
    assert store.sessions() == []


def test_the_current_session_is_not_deleted_as_a_branch(store):
    agent, commands = agent_of(store), Commands(store)
    agent.ask("one")
    list(commands(agent, "/branch 0 other"))
    with pytest.raises(NbchatError, match="can't delete the session you're in"):
        list(commands(agent, "/delete first with branches"))
    assert len(store.sessions()) == 2
    [reply] = commands(agent, "/delete first")
    assert reply.text == "Deleted session first."


@pytest.mark.slow
def test_redact_removes_a_text_from_the_branches_too(store):
    agent, commands = agent_of(store), Commands(store)
    agent.ask("the code is 4242-9999")
    agent.ask("two")
    list(commands(agent, "/branch 2 other"))
    list(commands(agent, "/redact 4242-9999"))
    for name in ("first", agent.session.session_id):
        assert "4242" not in repr(list(store.load(name).transcript))


@pytest.mark.slow
def test_redact_removes_a_text_from_the_logs_of_all_branches(store, tmp_path):
    settings = NbChat(log_folder=str(tmp_path / "logs"))
    agent, commands = agent_of(store), Commands(store, settings)
    agent.ask("the code is 4242-9999")
    agent.ask("two")
    list(commands(agent, "/branch 2 other"))
    for branch in store.family("first"):
        MarkdownLog(settings.log_folder).write(store.load(branch.id))
    logs = list((tmp_path / "logs").glob("*.md"))
    assert [("4242-9999" in log.read_text()) for log in logs] == [True, True]
    list(commands(agent, "/redact 4242-9999"))
    assert not any("4242" in log.read_text() for log in logs)


@pytest.mark.slow
def test_damaged_ancestors_make_a_session_of_its_own(store, tmp_path):
    agent, commands = agent_of(store), Commands(store)
    agent.ask("one")
    list(commands(agent, "/branch 0 other"))
    name = agent.session.session_id
    store.close()
    with sqlite_file(tmp_path / "sessions.db") as database:
        database.execute("UPDATE sessions SET ancestors_json = '[1, {'")
    assert store.load(name).ancestors == ()
    assert switches(store.family(name), name) == ()
