"""The Markdown file that `log_folder` keeps of each session."""

from pathlib import Path
from queue import Queue

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.config.layers import settings
from nbchat.conversation.events import Event, SavingFailed
from nbchat.conversation.session import Session
from nbchat.errors import RequestRefused
from nbchat.rendering.banners import notice_text
from nbchat.storage.export import exported
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, fails, says

STORY = says("<summary>They greeted each other.</summary>")


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


def logging_agent(store: SessionStore, folder: object, *lines: Line) -> Agent:
    agent = Agent(ScriptedProvider(*lines))
    agent.autosave = autosave_of(store, agent.session, agent, log_folder=str(folder))
    return agent


def notices(events: list[Event]) -> list[str]:
    return [notice_text(each) for each in events if isinstance(each, SavingFailed)]


def test_after_each_turn_the_file_is_the_session_as_it_is_exported(store, tmp_path):
    folder = tmp_path / "deep" / "logs"
    agent = logging_agent(store, folder, says("Hello."), fails(RequestRefused("no")))
    for text in ("Good day.", "And now?"):
        list(agent.run(text))
        [file] = folder.iterdir()
        assert file.name == f"{agent.session.session_id}.md"
        assert file.read_text(encoding="utf-8") == exported(agent.session, "md")
        assert text in file.read_text(encoding="utf-8")


def test_only_its_user_can_read_the_file(store, tmp_path):
    agent = logging_agent(store, tmp_path / "logs", says("Hello."))
    agent.ask("Good day.")
    [file] = (tmp_path / "logs").iterdir()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_the_file_shows_compactions_and_their_undo(store, tmp_path):
    agent = logging_agent(store, tmp_path / "logs", says("word " * 300), STORY)
    agent.ask("Good day.")
    list(agent.compact())
    file = tmp_path / "logs" / f"{agent.session.session_id}.md"
    assert "They greeted each other." in file.read_text(encoding="utf-8")
    list(agent.undo_compaction())
    assert file.read_text(encoding="utf-8") == exported(agent.session, "md")


def test_without_a_folder_there_is_no_file(store, tmp_path):
    agent = logging_agent(store, "", says("Hello."))
    agent.ask("Good day.")
    assert list(tmp_path.glob("**/*.md")) == []
    assert not Path(f"{agent.session.session_id}.md").exists()


def test_an_unusable_folder_is_reported_once_and_the_session_is_saved(store, tmp_path):
    folder = tmp_path / "logs"
    folder.write_text("a file")
    agent = logging_agent(store, folder, *[says("Hello.")] * 3)
    said = notices([*agent.run("One."), *agent.run("Two.")])
    assert len(said) == 1
    assert said[0].startswith("Can't write to log_folder")
    assert str(folder) in said[0]
    kept = store.load(agent.session.session_id)
    assert kept.transcript == agent.session.transcript
    folder.unlink()
    assert notices(list(agent.run("Three."))) == []
    agent.autosave.save()
    [file] = folder.iterdir()
    assert file.read_text(encoding="utf-8") == exported(agent.session, "md")


@pytest.mark.parametrize("folder", ["~nobody-of-that-name/logs", "a\0b"])
def test_a_folder_that_is_not_a_path_is_reported_in_one_line(store, folder):
    agent = logging_agent(store, folder, says("Hello."))
    assert len(notices(list(agent.run("Good day.")))) == 1
    assert agent.session.last_answer == "Hello."


def test_a_session_id_cannot_escape_the_folder(store, tmp_path):
    folder = tmp_path / "logs"
    agent = Agent(ScriptedProvider(says("Hello.")), session=Session(session_id="../x"))
    agent.autosave = autosave_of(store, agent.session, agent, log_folder=str(folder))
    agent.ask("Good day.")
    assert [file.parent.name for file in tmp_path.glob("**/*.md")] == ["logs"]


def test_the_file_is_written_when_the_store_fails(tmp_path):
    broken = SessionStore("sqlite:////dev/null/sessions.db")
    agent = logging_agent(broken, tmp_path / "logs", says("Hello."))
    assert len(notices(list(agent.run("Good day.")))) == 1
    [file] = (tmp_path / "logs").iterdir()
    assert "Hello." in file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_each_session_of_a_chat_has_its_own_file(store, tmp_path):
    folder = tmp_path / "logs"
    config = settings(log_folder=str(folder))
    agent = logging_agent(store, folder, says("One."), says("Two."), says("Three."))
    commands = Commands(store, config)
    agent.ask("Good day.")
    first = agent.session.session_id
    commands(agent, "/new")
    agent.ask("Another day.")
    commands(agent, f"/resume {first}")
    agent.ask("Back again.")
    files = {file.stem: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert len(files) == 2
    assert files.pop(first) == exported(agent.session, "md")
    assert "Another day." in "".join(files.values())


@pytest.mark.slow
def test_the_log_of_a_deleted_session_is_deleted_and_nothing_else(store, tmp_path):
    folder = tmp_path / "logs"
    agent = logging_agent(store, folder, says("One."), says("Two."))
    commands = Commands(store, settings(log_folder=str(folder)))
    agent.ask("Good day.")
    first = agent.session.session_id
    commands(agent, "/new")
    agent.ask("Another day.")
    planted = folder / f"{first}.SESSION_LOG.md"
    planted.symlink_to(tmp_path / "of somebody else.md")
    (reply,) = commands(agent, f"/delete {first}")
    assert reply.text == f"Deleted session {first} and its log."
    left = {file.name for file in folder.iterdir()}
    assert left == {f"{agent.session.session_id}.md", planted.name}


def test_a_log_that_is_written_again_does_not_report_the_store(tmp_path, monkeypatch):
    monkeypatch.setattr("nbchat.storage.autosave.RETRY_SECONDS", 0.1)
    broken = SessionStore("sqlite:////dev/null/sessions.db")
    folder = tmp_path / "logs"
    folder.write_text("not a folder")
    agent = logging_agent(broken, folder, says("One."), says("Two."))
    heard: Queue[SavingFailed] = Queue()
    agent.ask("Good day.")
    agent.autosave.listen(heard.put)
    folder.unlink()
    agent.ask("Another day.")
    news = heard.get(timeout=20)
    assert news.reason == "The log of this chat is up to date again."
    assert news.is_log
    assert heard.empty()  # the store is not reached yet
