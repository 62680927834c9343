"""A text is removed from a session for good, in both databases."""

import json
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from driving import replied

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import map_agents
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.config.settings import NbChat
from nbchat.conversation.cell_changes import CellChange, CellState
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, NotErased, SessionNotFound, StoreError
from nbchat.storage.autosave import save_session
from nbchat.storage.database import _tune_sqlite, engine_for
from nbchat.storage.export import MarkdownLog
from nbchat.storage.factory import autosave_of, expire_sessions
from nbchat.storage.redaction import Redacted
from nbchat.storage.run_store import Store
from nbchat.storage.schema import sessions
from nbchat.storage.serialization import session_scope
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, calls, says

SECRET = 'sk-live "4242"\n\\é-SECRET'
NEEDLES = (b"4242", b"-SECRET")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    url = f"sqlite:///{tmp_path}/sessions.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("server")
    opened = SessionStore(url)
    yield opened
    opened.close()


def login(key: str) -> str:
    """Log in."""
    return json.dumps({"key": key, "order": "W1"})


def told(store: SessionStore, folder: str = "") -> Agent:
    """A compacted session with the secret in every kind of place."""
    lines = (
        calls("login", key=SECRET),
        says(f"The key is {SECRET}. " * 5),
        says(f"<summary>They said {SECRET}.</summary>"),
        says("ok"),
    )
    agent = Agent(ScriptedProvider(*lines), tools=[login], engine=CompactionEngine())
    agent.autosave = autosave_of(store, agent.session, agent, log_folder=folder)
    agent.ask(f"Use {SECRET}")
    list(agent.compact())
    list(agent.pin(f"Never show {SECRET}"))
    agent.ask("Go on.")
    store.share(agent.session, json.dumps({"text": SECRET}))
    agent.autosave.save()
    return agent


@pytest.mark.slow
def test_redact_removes_a_text_everywhere_and_the_chat_continues(store, tmp_path):
    log = tmp_path / "logs"
    agent = told(store, str(log))
    commands = Commands(store, NbChat(log_folder=str(log)))
    summary = agent.session.compaction
    assert summary is not None
    said = replied(commands(agent, f"/redact {SECRET}"))
    assert "Exported files and cell outputs still contain it" in said
    assert agent.session.compaction is not None  # still in force
    assert "[redacted]" in agent.session.compaction.summary
    assert agent.session.pins == ("Never show [redacted]",)
    loaded = store.load(agent.session.session_id)
    for session in (agent.session, loaded):
        shown = repr([*session.transcript, *map(vars_of, session.compactions)])
        assert "4242" not in shown
    assert loaded.history == agent.session.history
    assert store.sessions(query="4242") == []
    assert [*log.iterdir()]
    for file in log.iterdir():
        assert "4242" not in file.read_text(), file.name
    if store.url.startswith("sqlite"):  # while it is open, so its log is not merged
        written = b"".join(each.read_bytes() for each in tmp_path.glob("sessions.db*"))
        assert not [each for each in NEEDLES if each in written]
    else:
        assert_no_table_has_it(store.url)
    agent.provider = ScriptedProvider(says("fine"))
    assert agent.ask("And now?") == "fine"


CUT = "zq77-" * 60
"""Longer than what stands of an answer before a short message, and of a result."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["single-summary", "tiered", "extractive"])
def test_redact_removes_copies_that_hold_only_a_part_of_the_text(store, policy):
    """An answer's end before a short message, a result's beginning, a cut document."""
    lines = (
        calls("login", key="K1"),
        says(f"Order W1 is open. It is {CUT}"),
        says("Fine. " * 300),
        says("Understood. " * 300),
        says("<summary>W1 is open.</summary>"),
    )

    def login(key: str) -> str:
        """Log in."""
        return f"{key}: {CUT}"

    engine = CompactionEngine(policy=policy)
    agent = Agent(ScriptedProvider(*lines), tools=[login], engine=engine)
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask("Log in.")
    agent.ask("Thanks!")
    agent.ask(f"{'Now a long one. ' * 120}{CUT}")
    list(agent.compact(keep=0))
    record = agent.session.compaction
    assert "zq77-" in f"{record.summary}{record.memory}"
    agent.autosave.save()
    replied(Commands(store)(agent, f"/redact {CUT}"))
    record = store.load(agent.session.session_id).compaction
    assert record is not None
    assert "zq77-" not in f"{record.summary}{record.memory}{record.facts}"
    assert "- [redacted]" in record.summary


@pytest.mark.slow
def test_a_rule_loses_the_text_that_is_removed_from_its_message(store):
    rule = "Always use the account Neptune-5 for refunds."
    told = says(f'<summary>Refunds.\n- "{rule}"\n</summary>')
    agent = Agent(ScriptedProvider(says("Understood. " * 200), told))
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask(rule)
    list(agent.compact(keep=0))
    assert [each.text for each in agent.session.compaction.rules] == [rule]
    agent.autosave.save()
    commands = Commands(store)
    replied(commands(agent, "/redact Neptune-5"))
    assert "Neptune-5" not in replied(commands(agent, "/rules"))
    record = store.load(agent.session.session_id).compaction
    assert "Neptune-5" not in f"{record.summary}{record.memory}{record.rules}"


@pytest.mark.slow
def test_redact_and_delete_reach_the_cells_that_are_kept_for_undo(store):
    before = CellState("code", f"name = {SECRET!r}", outputs=json.dumps([SECRET]))
    change = CellChange(0, "a", before, CellState("code", f"# {SECRET}"))
    session = Session([("user", "hi")], session_id="cells", cell_changes=[change])
    save_session(store, session)
    store.redact("cells", SECRET)
    (kept,) = store.load("cells").cell_changes
    assert "4242" not in kept.to_json()
    assert kept.before.source.startswith("name = ")
    store.delete("cells")
    save_session(store, Session([("user", "hi")], session_id="cells"))
    assert [*store.load("cells").cell_changes] == []
    store.delete("cells")


@pytest.mark.slow
def test_redact_reaches_an_answer_that_was_streaming_when_its_kernel_ended(store):
    save_session(store, Session([("user", "And the key?")], session_id="streaming"))
    store.save_draft("streaming", 1, f"It is {SECRET}, and")
    store.redact("streaming", SECRET)
    answer = store.load("streaming").transcript[-1]
    assert (answer.content, answer.is_incomplete) == ("It is [redacted], and", True)
    store.delete("streaming")


@pytest.mark.slow
def test_redact_leaves_nothing_in_the_tables_files_of_postgresql(server):
    """A changed row leaves its old form in the file until the space is used again."""
    store = SessionStore(server)
    save_session(store, Session([("user", "key HARBOUR-7731")], session_id="files"))
    assert b"HARBOUR-7731" in table_files(server)
    store.redact("files", "HARBOUR-7731")
    assert b"HARBOUR-7731" not in table_files(server)
    store.delete("files")
    store.close()


@pytest.fixture
def held(server) -> Iterator[SessionStore]:
    """A store on PostgreSQL whose files hold a session's words."""
    store = SessionStore(server)
    save_session(store, Session([("user", "key HARBOUR-7731")], session_id="held"))
    assert b"HARBOUR-7731" in table_files(server)
    yield store
    store.close()


@pytest.mark.slow
def test_a_deleted_session_leaves_nothing_in_the_table_files_of_postgresql(held):
    """Not even its words in the index, which a plain VACUUM keeps."""
    held.delete("held")
    assert b"harbour" not in table_files(held.url).lower()


@pytest.mark.slow
def test_sessions_deleted_by_age_leave_nothing_in_the_table_files(held):
    forget_use(held, "held", days=2)
    assert held.expire(1) == 1
    assert b"harbour" not in table_files(held.url).lower()


@pytest.mark.slow
def test_a_role_that_may_not_rewrite_the_tables_deletes_and_says_what_is_left(
    held, caplog
):
    """PostgreSQL itself only warns, and skips the table."""
    engine = sa.create_engine(held.url)
    with engine.begin() as connection:
        for statement in (
            "CREATE ROLE guest LOGIN",
            "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest",
            "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO guest",
        ):
            connection.exec_driver_sql(statement)
    engine.dispose()
    as_guest = sa.make_url(held.url).set(username="guest")
    guest = SessionStore(as_guest.render_as_string(hide_password=False))
    left = "still in free space of the database .only the database user who owns the tables"
    with pytest.raises(
        StoreError, match=f"The session is deleted, but a copy is {left}"
    ) as told:
        guest.delete("held")
    assert "\n" not in str(told.value)
    save_session(guest, Session([("user", "old")], session_id="old"))
    forget_use(guest, "old", days=2)
    expire_sessions(guest, NbChat(retention_days=1))
    assert [info.id for info in guest.sessions() if info.id in ("held", "old")] == []
    (line,) = caplog.messages
    assert line.startswith(
        "Old sessions are deleted, but a copy is still in free space"
    )
    guest.close()


@pytest.mark.slow
def test_deleting_waits_a_moment_for_others_who_read(held, monkeypatch):
    """Whoever comes after it waits behind it, so it does not wait for long."""
    monkeypatch.setattr("nbchat.storage.postgresql.LOCK_SECONDS", 0.1)
    engine = sa.create_engine(held.url)
    with engine.begin() as reader:
        reader.execute(sa.text("SELECT content FROM chat_messages")).all()
        with pytest.raises(StoreError, match=r"is deleted, but .* lock timeout"):
            held.delete("held")
    engine.dispose()
    assert "held" not in [info.id for info in held.sessions()]
    with engine_for(sa.make_url(held.url)).connect() as connection:
        assert connection.scalar(sa.text("SHOW lock_timeout")) == "0"


def table_files(url: str) -> bytes:
    """All that the files of a server's tables contain."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("CHECKPOINT")
        folder = Path(connection.exec_driver_sql("SHOW data_directory").scalar_one())
    engine.dispose()
    files = [each for each in (folder / "base").rglob("*") if each.is_file()]
    return b"".join(each.read_bytes() for each in files)


def vars_of(record: object) -> list[object]:
    return [getattr(record, name) for name in record.__slots__]  # type: ignore[attr-defined]


def assert_no_table_has_it(url: str) -> None:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        for table in sa.inspect(connection).get_table_names():
            rows = connection.execute(sa.text(f"SELECT * FROM {table}")).all()
            assert "4242" not in repr(rows), table
    engine.dispose()


def forget_use(store: SessionStore, session_id: str, *, days: int) -> None:
    """Make a session one that was used last so many days ago."""
    before = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    with engine_for(sa.make_url(store.url)).begin() as connection:
        its_own = sessions.c.id == session_id
        connection.execute(sa.update(sessions).where(its_own).values(used_at=before))


def test_each_shared_copy_of_a_session_is_redacted_by_itself(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/s.db")
    session = Session([("user", "my card is 4242-SECRET")], session_id="s")
    save_session(store, session)
    copies = [store.share(session, f"{n} holds 4242-SECRET") for n in ("one", "two")]
    store.redact("s", "4242-SECRET")
    said = [store.shared(each) for each in copies]
    assert said == ["one holds [redacted]", "two holds [redacted]"]
    store.close()


def ran(store: SessionStore, run: str) -> tuple[Store, list[str]]:
    """A run of two rows whose answers are the secret; and the sessions of the rows.

    On PostgreSQL all tests share a database, so each has a run of its own.
    """
    runs = Store(store.url)
    map_agents(
        lambda: Agent(ScriptedProvider(says(f"It is {SECRET}."))),
        [{"id": "a", "text": "What is it?"}, {"id": "b", "text": "And now?"}],
        key="id",
        prompt="text",
        store=runs,
        name=run,
    ).wait()
    return runs, [each.session_id for each in runs.results(run)]


@pytest.mark.slow
def test_redact_reaches_the_result_of_a_run(store):
    runs, (first, second) = ran(store, "redact-reaches")
    store.redact(first, SECRET)
    (redacted, other) = runs.results("redact-reaches")
    assert (redacted.value, redacted.key) == ("It is [redacted].", "a")
    assert SECRET in other.value
    store.delete(second)
    runs.close()


def test_a_deleted_session_leaves_its_row_decided_without_the_answer(store, tmp_path):
    runs, sessions = ran(store, "a-deleted")
    for each in sessions:
        store.delete(each)
    for result in runs.results("a-deleted"):
        assert (result.value, result.stop_reason) == (None, "end_turn")
        assert result.note == "its session was deleted"
    runs.close()
    store.close()
    if store.url.startswith("sqlite"):
        written = b"".join(each.read_bytes() for each in tmp_path.glob("sessions.db*"))
        assert not [each for each in NEEDLES if each in written]
    else:
        assert_no_table_has_it(store.url)


def test_old_sessions_leave_their_results_without_the_answers(store):
    runs, sessions = ran(store, "old-sessions")
    later = datetime.now(UTC) - timedelta(days=9)
    with engine_for(sa.make_url(store.url)).begin() as connection:
        used = sa.text("UPDATE sessions SET used_at = :at")
        connection.execute(used, {"at": later.isoformat()})
    assert store.expire(8) >= len(sessions)
    assert [each.value for each in runs.results("old-sessions")] == [None, None]
    runs.close()


def test_a_short_text_is_refused(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/s.db")
    with pytest.raises(NbchatError, match="4 characters or more"):
        store.redact("s", "abc")
    store.close()


KEPT = "HARBOUR-7731 key"

READING = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1])
other.execute("BEGIN")
cursor = other.execute("SELECT content FROM chat_messages")
print(cursor.fetchone() is not None, flush=True)
sys.stdin.readline()
other.close()
"""


@contextmanager
def reader_of(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another program in the middle of reading, such as a database browser."""
    command = [sys.executable, "-c", READING, str(file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as reading:  # type: ignore[call-overload]
        assert reading.stdout.readline() == "True\n"
        yield reading
        reading.stdin.close()
        assert reading.wait(60) == 0


def in_files(file: Path, needle: str = "HARBOUR") -> list[str]:
    """Read by another process: closing the file in this one would end SQLite's locks."""
    files = map(str, file.parent.glob(f"{file.name}*"))
    found = subprocess.run(["grep", "-al", needle, *files], capture_output=True, text=True, check=False)  # fmt: skip
    return found.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["redact", "delete"])
def test_what_another_reader_keeps_in_the_log_is_said_and_erased_at_the_next_start(
    how, tmp_path, monkeypatch
):
    monkeypatch.setattr("nbchat.storage.redaction.READERS_SECONDS", 0.2)
    file = tmp_path / "s.db"
    store = SessionStore(f"sqlite:///{file}")
    save_session(store, Session([("user", f"my {KEPT}")], session_id="s"))
    mark = tmp_path / "s.db.not-erased"
    with reader_of(file):
        with pytest.raises(NotErased) as left:
            store.redact("s", KEPT) if how == "redact" else store.delete("s")
        assert str(left.value) == (
            f"The {'text is removed' if how == 'redact' else 'session is deleted'}, "
            "but a copy is still in s.db-wal, because another program is reading the database. "
            "nbchat finishes when it starts again after you close that program."
        )
        assert in_files(file)
        assert mark.read_bytes() == b""
        assert stat.S_IMODE(mark.stat().st_mode) == 0o600
        again = SessionStore(f"sqlite:///{file}")  # the reader is there still
        again.sessions()
        assert mark.exists()
    assert in_files(file)
    later = SessionStore(f"sqlite:///{file}")
    later.sessions()
    assert in_files(file) == []
    assert not mark.exists()
    for each in (store, again, later):
        each.close()


@pytest.mark.slow
def test_a_reader_is_waited_for_some_seconds(tmp_path):
    file = tmp_path / "s.db"
    store = SessionStore(f"sqlite:///{file}")
    save_session(store, Session([("user", f"my {KEPT}")], session_id="s"))
    with reader_of(file) as reading:
        ending = threading.Timer(1.0, reading.stdin.close)
        ending.start()
        assert store.redact("s", KEPT).messages == 1
        ending.join()
    assert in_files(file) == []
    assert not (tmp_path / "s.db.not-erased").exists()
    store.close()


@pytest.mark.slow
def test_a_process_that_dies_while_erasing_leaves_a_mark_for_the_next(tmp_path):
    file = tmp_path / "s.db"
    script = (
        "import os, sys\n"
        "from nbchat.conversation.session import Session\n"
        "from nbchat.storage.autosave import save_session\n"
        "from nbchat.storage.store import SessionStore\n"
        "from nbchat.storage import redaction\n"
        "store = SessionStore(sys.argv[1])\n"
        "session = Session([('user', sys.argv[2])], session_id='s')\n"
        "save_session(store, session)\n"
        "redaction._left_in_log = lambda *_: os._exit(9)\n"
        "store.redact('s', sys.argv[2])\n"
    )
    command = [sys.executable, "-c", script, f"sqlite:///{file}", KEPT]
    assert subprocess.run(command, check=False).returncode == 9
    assert in_files(file)
    store = SessionStore(f"sqlite:///{file}")
    assert store.load("s").transcript[0].content == "[redacted]"
    assert in_files(file) == []
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["redact", "delete"])
def test_a_database_that_is_read_only_says_so_and_claims_nothing(how, tmp_path):
    file = tmp_path / "s.db"
    store = SessionStore(f"sqlite:///{file}")
    save_session(store, Session([("user", f"my {KEPT}")], session_id="s"))
    store.close()
    locked = SessionStore(f"sqlite:///file:{file}?mode=ro&uri=true")
    with pytest.raises(StoreError, match="readonly database") as refused:
        locked.redact("s", KEPT) if how == "redact" else locked.delete("s")
    assert "is removed" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert locked.load("s").transcript[0].content == f"my {KEPT}"
    locked.close()


def test_redact_reaches_settings_of_the_session(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/sessions.db")
    for name in ("s", "t"):
        save_session(store, Session([("user", "hi")], session_id=name))
        store.set_setting(session_scope(name), "summary_prompt", f"Use {KEPT}")
    assert store.redact("s", KEPT) == Redacted(0, 1)
    found = {
        name: store.settings((session_scope(name),))["summary_prompt"][1]
        for name in ("s", "t")
    }
    assert found == {"s": "Use [redacted]", "t": f"Use {KEPT}"}
    store.delete("t")
    assert in_files(tmp_path / "sessions.db") == []
    store.close()


@pytest.mark.slow
def test_redact_says_in_how_many_places(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/s.db")
    entries = [("user", f"{KEPT} and {KEPT.lower()}"), ("assistant", "ok")]
    session = Session([*entries, ("user", f"<b>{KEPT}</b>")], session_id="s")
    save_session(store, session)
    agent = Agent(ScriptedProvider(), session=store.load("s"))
    agent.autosave = autosave_of(store, agent.session, agent)
    said = replied(Commands(store, NbChat())(agent, f"/redact {KEPT}"))
    assert (
        "Removed it from 2 messages (5 places in all)" in said
    )  # two are in the title
    store.close()


def test_a_session_of_another_owner_is_not_said_to_be_redacted(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    save_session(SessionStore(url), Session([("user", KEPT)], session_id="s"))
    with pytest.raises(SessionNotFound):
        SessionStore(url, owner="bob").redact("s", KEPT)


@pytest.mark.slow
def test_a_deleted_session_leaves_nothing_in_the_file(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/sessions.db")
    agent = told(store)
    store.delete(agent.session.session_id)
    written = b"".join(each.read_bytes() for each in tmp_path.glob("sessions.db*"))
    assert not [each for each in (*NEEDLES, b"4242", b"order") if each in written]
    store.close()


def test_sqlite_overwrites_what_is_deleted_however_it_was_built(tmp_path):
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("PRAGMA secure_delete=OFF")  # as SQLite itself is built
        _tune_sqlite(connection, None)
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_sessions_that_were_not_used_for_long_are_deleted(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/s.db")
    for name in ("old", "new"):
        save_session(store, Session([("user", name)], session_id=name))
    forget_use(store, "old", days=31)
    expire_sessions(store, NbChat())
    assert len(store.sessions()) == 2
    log = MarkdownLog(str(tmp_path / "logs"))
    for info in store.sessions():
        log.write(store.load(info.id))
    expire_sessions(store, NbChat(retention_days=30, log_folder=log.folder))
    assert [each.name for each in (tmp_path / "logs").iterdir()] == ["new.md"]
    assert [info.id for info in store.sessions()] == ["new"]
    store.close()
