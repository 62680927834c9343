"""Databases of earlier schemas get what they lack; newer ones are read-only."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from forked import clean_context, use_first
from postgres import fill_server
from sqlite_files import sqlite_file

from nbchat.conversation.session import Session
from nbchat.errors import StoreError
from nbchat.storage.autosave import save_session
from nbchat.storage.database import engine_for, schema_version
from nbchat.storage.schema import VERSIONS, metadata
from nbchat.storage.store import Origin, SessionStore

SCHEMAS = Path(__file__).parents[1] / "data" / "schemas"


OLDER = VERSIONS[:-1]


def older_schema(tmp_path: Path, version: str) -> SessionStore:
    """A SQLite file that an earlier version has written."""
    file = tmp_path / "sessions.db"
    with sqlite_file(file) as database:
        database.executescript((SCHEMAS / f"{version}-sqlite.sql").read_text())
    database.close()
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


def test_there_is_a_dump_of_each_earlier_schema():
    found = {file.name.partition("-")[0] for file in SCHEMAS.iterdir()}
    assert found == {*OLDER}


def columns(store: SessionStore) -> dict[str, list[str]]:
    inspected = sa.inspect(engine_for(sa.make_url(store.url)))
    return {
        name: [each["name"] for each in inspected.get_columns(name)]
        for name in metadata.tables
    }


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDER)
def test_a_file_of_an_earlier_version_gets_what_it_lacks(version, tmp_path):
    store = older_schema(tmp_path, version)
    check_contents(store)
    new = SessionStore(f"sqlite:///{tmp_path}/new.db")
    new.initialize()
    assert columns(store) == columns(new)
    assert schema_version(engine_for(sa.make_url(store.url))) == VERSIONS[-1]
    assert SessionStore(store.url, owner="bob").sessions() == []
    new.close()
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDER)
def test_a_server_of_an_earlier_version_gets_what_it_lacks(version, server):
    engine = fill_server(server, version)
    store = SessionStore(server, owner="ann")
    check_contents(store)
    with engine.begin() as connection:
        assert schema_version(connection) == VERSIONS[-1]
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "crowd"), [("sqlite", 4), ("postgresql", 8)])
def test_many_processes_at_once_use_an_empty_database_without_an_error(
    kind, crowd, request, tmp_path
):
    url = f"sqlite:///{tmp_path}/new.db"
    if kind == "postgresql":
        url = request.getfixturevalue("server")
    forking = clean_context()
    start, told = forking.Event(), forking.SimpleQueue()
    children = [
        forking.Process(target=use_first, args=(url, number, start, told))
        for number in range(crowd)
    ]
    for child in children:
        child.start()
    start.set()
    errors = [told.get() for _ in children]
    for child in children:
        child.join()
    assert errors == [""] * crowd
    store = SessionStore(url)
    assert len(store.sessions()) == 2 * crowd
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


@pytest.mark.parametrize("made_by", ["another program", "a version before 0.1.0"])
def test_a_database_of_others_is_refused_and_not_changed(made_by, tmp_path):
    file = tmp_path / "other.db"
    with sqlite_file(file) as database:
        database.execute("CREATE TABLE sessions (token TEXT)")
        if "version" in made_by:
            database.execute("CREATE TABLE alembic_version (version_num TEXT)")
            database.execute("INSERT INTO alembic_version VALUES ('0003')")
        before = list(database.iterdump())
    database.close()
    with pytest.raises(StoreError, match="isn't nbchat's, or it's from before") as no:
        SessionStore(f"sqlite:///{file}").sessions()
    assert len(str(no.value).splitlines()) == 2
    with sqlite_file(file) as database:
        assert list(database.iterdump()) == before
    database.close()
