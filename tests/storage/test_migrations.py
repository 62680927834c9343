"""Databases of every released schema: migrated with a backup, or read-only if newer."""

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from forked import clean_context, use_first
from postgres import fill_server, running_server
from sqlite_files import sqlite_file

from nbchat.conversation.session import Session
from nbchat.errors import StoreError
from nbchat.storage.autosave import save_session
from nbchat.storage.database import backups_of, schema_version
from nbchat.storage.migrations.run import newest
from nbchat.storage.schema import VERSIONS
from nbchat.storage.store import Origin, SessionStore

SCHEMAS = Path(__file__).parents[1] / "data" / "schemas"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server("max_connections=60") as url:
        yield url


OLDER = VERSIONS[:-1]


def older_schema(
    tmp_path: Path, version: str = "0001", *, without: tuple[str, ...] = ()
) -> SessionStore:
    """A SQLite file that an earlier version has written."""
    file = tmp_path / "sessions.db"
    with sqlite_file(file) as database:
        database.executescript((SCHEMAS / f"{version}-sqlite.sql").read_text())
        for name in without:
            database.execute(f"ALTER TABLE chat_messages DROP COLUMN {name}")
    database.close()
    file.chmod(0o644)
    return SessionStore(f"sqlite:///{file}", owner="ann")


def check_contents(store: SessionStore) -> None:
    """Check that all which an earlier version saved is there, and that it goes on."""
    printer, order = sorted(store.sessions(), key=lambda each: each.messages)
    assert [order.title, printer.title] == ["Where is W1?", "What about the printer?"]
    assert (order.messages, printer.messages) == (6, 3)
    session = store.load(order.id)
    assert [entry.role for entry in session.history][:1] == ["summary"]
    assert session.pins == ("Never refund over $50.",)
    assert session.transcript[-1].content == "two \ud800"
    assert session.usages
    assert store.load(printer.id).transcript[-1].is_incomplete  # the draft
    assert store.settings(("", "openai")) == {"keep": ("openai", 4)}
    (found,) = store.sessions(query="toners")
    assert (found.id, found.snippet) == (printer.id, "The toner is low.")
    session.append(session.transcript[0])
    length = len(session.transcript)
    store.add_entries(session, length - 1, length, Origin())
    assert store.load(order.id).transcript == session.transcript
    (restarted,) = [store.newest(Origin("/home/ann/triage.ipynb", server="here"))]
    assert restarted == order.id


def test_the_newest_version_is_that_of_the_newest_migration():
    assert newest() == VERSIONS[-1]
    fixtures = {file.name.partition("-")[0] for file in SCHEMAS.iterdir()}
    assert fixtures == {*OLDER}, "keep a dump of each released schema"


@pytest.mark.parametrize("version", OLDER)
def test_a_file_of_an_earlier_version_is_migrated_with_a_backup_beside_it(
    version, tmp_path
):
    store = older_schema(tmp_path, version)
    check_contents(store)
    (backup,) = backups_of(tmp_path / "sessions.db")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "sessions.db").stat().st_mode) == 0o600
    with sqlite_file(backup) as database:
        found = database.execute("SELECT count(*) FROM chat_messages").fetchone()
    database.close()
    assert found == (9,)
    assert SessionStore(store.url, owner="bob").sessions() == []
    store.close()


def test_a_file_without_the_columns_of_costs_is_migrated_too(tmp_path):
    names = ("model", "cost", "is_estimated", "dropped_tokens")
    store = older_schema(tmp_path, without=names)
    check_contents(store)
    store.close()


def test_a_migration_that_fails_or_is_killed_changes_nothing(tmp_path):
    store = older_schema(tmp_path)
    with sqlite_file(tmp_path / "sessions.db") as database:
        database.execute("CREATE TABLE settings_0001 (mine TEXT)")  # in the way
        before = list(database.iterdump())
    database.close()
    with pytest.raises(
        StoreError, match=r"Can't update the database .* It's unchanged"
    ) as no:
        store.sessions()
    assert len(str(no.value).splitlines()) == 2
    with sqlite_file(tmp_path / "sessions.db") as database:
        assert [*database.iterdump()] == before
        database.execute("DROP TABLE settings_0001")
    database.close()
    check_contents(store)
    store.close()


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_migration_leaves_the_old_tables(tmp_path):
    store = older_schema(tmp_path)
    code = (
        "import os, signal, sys\n"
        "from nbchat.storage.migrations import run\n"
        "inner = run.upgrade\n"
        "def upgrade(connection, owner):\n"
        "    inner(connection, owner)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "run.upgrade = upgrade\n"
        "from nbchat.storage.store import SessionStore\n"
        "SessionStore(sys.argv[1], owner='ann').sessions()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, store.url], check=False)
    assert done.returncode == -signal.SIGKILL
    check_contents(store)
    store.close()


@pytest.mark.slow
def test_a_server_with_owners_is_migrated(server):
    engine = fill_server(server, "0002")
    store = SessionStore(server, owner="ann")
    check_contents(store)
    with engine.begin() as connection:
        assert schema_version(connection) == VERSIONS[-1]
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()
    store.close()


@pytest.mark.slow
def test_a_server_of_the_first_version_is_migrated_and_keeps_its_old_tables(server):
    engine = fill_server(server, "0001")
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE settings ALTER scope TYPE VARCHAR(64)")
    store = SessionStore(server, owner="ann")
    assert store.sessions() == []  # whose they are is not known
    store.adopt()
    check_contents(store)
    assert SessionStore(server, owner="bob").sessions() == []
    with engine.begin() as connection:
        assert schema_version(connection) == VERSIONS[-1]
        old = connection.scalar(sa.text("SELECT count(*) FROM chat_messages_0001"))
        assert old == 9
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_24_processes_at_once_use_an_empty_database_without_an_error(
    kind, request, tmp_path
):
    url = f"sqlite:///{tmp_path}/new.db"
    if kind == "postgresql":
        url = request.getfixturevalue("server")
    forking = clean_context()
    start, told = forking.Event(), forking.SimpleQueue()
    children = [
        forking.Process(target=use_first, args=(url, number, start, told))
        for number in range(24)
    ]
    for child in children:
        child.start()
    start.set()
    errors = [told.get() for _ in children]
    for child in children:
        child.join()
    assert errors == [""] * 24
    store = SessionStore(url)
    assert len(store.sessions()) == 48
    store.close()


def test_a_database_of_a_newer_nbchat_can_be_read_but_not_changed(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/sessions.db")
    save_session(store, Session([("user", "hello")], session_id="s"))
    with sqlite_file(tmp_path / "sessions.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '0999'")
        database.execute("ALTER TABLE chat_messages ADD COLUMN mood TEXT")
    database.close()
    newer = SessionStore(store.url)
    assert [info.id for info in newer.sessions()] == ["s"]
    assert newer.load("s").transcript[0].content == "hello"
    for change in (
        lambda: newer.set_setting("", "keep", 1),
        lambda: newer.delete("s"),
        lambda: save_session(newer, Session([("user", "x")], session_id="t")),
    ):
        with pytest.raises(
            StoreError, match=r"newer nbchat wrote this(?s:.*)schema is 0999"
        ) as refused:
            change()
        assert len(str(refused.value).splitlines()) == 2
    newer.close()
    store.close()


def test_a_damaged_row_is_shown_and_hides_no_other(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/sessions.db")
    entries = [("user", f"message {number}") for number in range(6)]
    for name in ("s", "t"):
        save_session(store, Session(entries, session_id=name, pins=["Be brief."]))
    with sqlite_file(tmp_path / "sessions.db") as database:
        for change in (
            "UPDATE chat_messages SET content = '\ufdd0\\x' WHERE number = 2",
            "DELETE FROM chat_messages WHERE number = 4",
            "UPDATE sessions SET title = '\ufdd0\\x' WHERE id = 's'",
            """INSERT INTO session_snapshots SELECT 90, owner, session_id, 'pin', '{', 0,
            0, '' FROM session_snapshots WHERE session_id = 's'""",
            """INSERT INTO session_snapshots SELECT 91, owner, session_id, 'summary',
            '{"record": {"id": 5, "mood": 1}}', 0, 0, ''
            FROM session_snapshots WHERE number = 90""",
            """INSERT INTO settings SELECT 9, owner, '', 'keep', '{', ''
            FROM sessions WHERE id = 's'""",
        ):
            database.execute(change)
    database.close()
    assert {info.title for info in store.sessions()} == {"[damaged]", "message 0"}
    session = store.load("s")
    texts = [entry.content for entry in session.transcript]
    assert [texts[0], *texts[4:]] == ["message 0", "message 4", "message 5"]
    assert "message 1 is damaged" in texts[1]
    assert "message 3 is damaged in the session store: it is missing" in texts[3]
    assert session.pins == ("Be brief.",)
    assert [each.code for each in session.compactions] == ["damaged"]
    assert store.settings([""]) == {}
    session.append(session.transcript[0])
    store.add_entries(session, 6, 7, Origin())  # and the chat goes on
    store.close()


def test_a_store_of_another_program_is_refused_in_one_line(tmp_path):
    file = tmp_path / "other.db"
    with sqlite_file(file) as database:
        database.execute("CREATE TABLE sessions (token TEXT)")
    database.close()
    with pytest.raises(StoreError) as refused:
        SessionStore(f"sqlite:///{file}").sessions()
    assert len(str(refused.value).splitlines()) == 2
    with sqlite_file(file) as database:
        tables = database.execute("SELECT name FROM sqlite_master").fetchall()
    database.close()
    assert tables == [("sessions",)]
