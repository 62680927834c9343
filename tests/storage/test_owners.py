"""Each owner has sessions, settings and searches of their own, in one database."""

import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres import fill_server, new_database

from nbchat.agent.agent import Agent
from nbchat.cli.doctor import _store_rows
from nbchat.cli.main import main
from nbchat.config.layers import settings
from nbchat.conversation.entries import Compaction
from nbchat.conversation.session import Session
from nbchat.errors import SessionNotFound, StoreError
from nbchat.storage.autosave import save_session
from nbchat.storage.database import engine_for
from nbchat.storage.factory import autosave_of, newest_session, opened_store, origin
from nbchat.storage.schema import metadata, shares
from nbchat.storage.serialization import current_owner
from nbchat.storage.session_search import MOST_CANDIDATES, MOST_SESSIONS
from nbchat.storage.store import Origin, SessionStore
from nbchat.testing import ScriptedProvider, says

SECRET = "The secret of Ann is a printer."


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sessions.db"
    return request.getfixturevalue("server")


def saved(
    store: SessionStore, name: str, text: str, at: Origin | None = None
) -> Session:
    session = Session([("user", text), ("assistant", "ok")], session_id=name)
    save_session(store, session, at)
    return session


@pytest.mark.slow
def test_an_owner_reaches_no_session_and_no_setting_of_another(url):
    ann, bob = (SessionStore(url, owner=each) for each in ("ann", "bob"))
    session = saved(ann, "s", SECRET)
    session.newest_snapshot = ann.add_pins(session, ("Be brief.",), kind="pin")
    ann.add_compaction(session, Compaction("c", 0, 1, "S"))
    ann.save_draft("s", 2, "half")
    ann.set_setting("", "summary_prompt", "Praise Ann.")
    assert bob.sessions() == bob.sessions(query="printer") == []
    assert bob.sessions(query="rinte") == []  # inside a word
    assert bob.settings([""]) == {}
    for reach in (bob.load, bob.delete):
        with pytest.raises(SessionNotFound):
            reach("s")
    saved(bob, "s", "My own.")  # the same id, which says nothing of Ann's
    bob.save_draft("s", 2, "mine")
    bob.move("s", Origin("elsewhere.ipynb"))
    assert [info.title for info in bob.sessions(query="own")] == ["My own."]
    assert bob.sessions(query="rinte") == []
    bob.delete("s")
    again = ann.load("s")
    assert again.transcript[0].content == SECRET
    assert (again.pins, len(again.compactions)) == (("Be brief.",), 1)
    assert again.transcript[-1].content == "half"
    assert [info.title for info in ann.sessions(query="printers")] == [SECRET]
    ann.delete("s")
    ann.close()


@pytest.mark.slow
def test_many_messages_of_others_hide_none_of_ones_own(tmp_path):
    word, url = "turntable", f"sqlite:///{tmp_path}/sessions.db"
    ann, bob = (SessionStore(url, owner=each) for each in ("ann", "bob"))
    saved(bob, "mine", f"my {word}")
    for number in range(MOST_SESSIONS):
        saved(bob, f"later {number}", "of other things")
    many = [("user", f"{word} {number}") for number in range(MOST_CANDIDATES + 1)]
    save_session(ann, Session(many, session_id="hers"))
    (found,) = bob.sessions(query=word)
    assert (found.id, found.snippet) == ("mine", f"my {word}")
    ann.close()
    bob.close()


@pytest.mark.slow
def test_every_statement_of_a_store_names_the_owner(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/sessions.db", owner="ann")
    session = saved(store, "s", SECRET)
    seen: list[str] = []
    engine = engine_for(sa.make_url(store.url))
    sa.event.listen(
        engine, "before_cursor_execute", lambda *given: seen.append(given[2])
    )
    store.add_pins(session, ("Be brief.",), kind="pin")
    store.save_draft("s", 2, "half")
    store.load("s")
    session.append(session.transcript[0])
    store.add_entries(session, 2, 3, Origin())
    store.set_setting("", "keep", 1)
    store.settings([""])
    store.newest(Origin("a.ipynb"))
    store.move("s", Origin("a.ipynb"))
    for query in ("", "printer", "rinte"):
        store.sessions(query=query)
    store.delete("s")
    store.close()
    names = "|".join([*metadata.tables])
    about = [each for each in seen if re.search(rf"\b({names})\b", each)]
    assert len(about) > 20
    for each in about:
        is_owned = re.search(rf"\b({names})\.owner = \?|INSERT INTO .*\bowner\b", each)
        assert is_owned, each


@pytest.mark.slow
def test_row_level_security_holds_where_a_query_forgets_the_owner(cluster):
    url = new_database(cluster)
    admin = sa.create_engine(url)
    for name in ("ann", "bob"):
        with admin.begin() as connection:
            connection.exec_driver_sql(f"CREATE ROLE {name} LOGIN")
    SessionStore(url).initialize(rls="role")
    with admin.begin() as connection:
        connection.exec_driver_sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC")
        connection.exec_driver_sql(
            "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC"
        )
    as_ann, as_bob = (url.replace("postgres@", f"{each}@") for each in ("ann", "bob"))
    ann = SessionStore(as_ann, owner="ann")
    session = saved(ann, "s", SECRET)
    token = ann.share(session, "the copy")
    ann.set_setting("", "keep", 1)
    assert [info.title for info in ann.sessions(query="printer")] == [SECRET]
    assert SessionStore(as_bob, owner="bob").shared(token) == "the copy"
    bob = sa.create_engine(as_bob)
    for owner in ("bob", "ann"):  # a name that he only claims
        with bob.begin() as connection:
            claim = sa.func.set_config("nbchat.owner", owner, True)
            connection.execute(sa.select(claim))
            for table in (*metadata.tables, "message_words"):
                query = sa.text(f"SELECT count(*) FROM {table}")
                assert connection.scalar(query) == 0, table
            changed = connection.execute(sa.text("UPDATE sessions SET title = ''"))
            assert changed.rowcount == 0
    for each in (bob, admin, engine_for(sa.make_url(as_ann))):
        each.dispose()
    engine_for(sa.make_url(as_bob)).dispose()
    engine_for(sa.make_url(url)).dispose()


@pytest.mark.slow
def test_row_level_security_holds_for_the_role_that_made_the_tables(cluster):
    """All users of one role, as on a hub: PostgreSQL would exempt it by itself."""
    url = new_database(cluster)
    admin = fill_server(url, "0005")
    with admin.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE hub LOGIN")
        for table in sa.inspect(connection).get_table_names():
            connection.exec_driver_sql(f"ALTER TABLE {table} OWNER TO hub")
        connection.exec_driver_sql("GRANT ALL ON SCHEMA public TO hub")
    admin.dispose()
    store = SessionStore(url.replace("postgres@", "hub@"), owner="ann")
    store.initialize(rls="owner")
    saved(store, "s", SECRET)
    engine = engine_for(sa.make_url(store.url))
    for owner, are_there in (("ann", True), ("bob", False), ("", False)):
        with engine.begin() as connection:
            setting = sa.func.set_config("nbchat.owner", owner, True)
            connection.execute(sa.select(setting))
            for table in ("chat_messages", "message_words"):
                query = sa.text(f"SELECT count(*) FROM {table}")
                assert bool(connection.scalar(query)) is are_there, (owner, table)
    store.close()


def test_the_owner_is_given_or_of_the_hub_or_the_system(monkeypatch, tmp_path):
    monkeypatch.setenv("USER", "mallory")
    monkeypatch.setenv("LOGNAME", "mallory")
    assert current_owner() != "mallory"  # of the process, not of its environment
    monkeypatch.setenv("JUPYTERHUB_USER", "ann")
    assert current_owner() == "ann"
    monkeypatch.setenv("NBCHAT_OWNER", "team")
    monkeypatch.setenv("NBCHAT_STORE_URL", f"sqlite:///{tmp_path}/s.db")
    assert opened_store(settings()).owner == "team"


def test_doctor_names_the_user(tmp_path):
    store = SessionStore(f"sqlite:///{tmp_path}/s.db", owner="ann")
    assert any(re.search(r"owner +ann \(you\)", row) for row in _store_rows(store))
    store.close()


def test_the_statements_of_row_level_security_can_be_printed(capsys):
    assert main(["db", "init", "--rls", "role", "--print"]) == 0
    shown = capsys.readouterr().out
    assert "CREATE POLICY nbchat_owner ON chat_messages USING" in shown
    assert "owner = session_user" in shown


def test_a_restarted_kernel_continues_the_session_of_its_owner_server_and_notebook(
    tmp_path, monkeypatch
):
    url, path = f"sqlite:///{tmp_path}/s.db", str(tmp_path / "work.ipynb")
    monkeypatch.setenv("JPY_SESSION_NAME", path)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ann/")
    ann, bob = (SessionStore(url, owner=each) for each in ("ann", "bob"))
    assert newest_session(bob).session_id == ""
    saved(bob, "b", "My own.", origin())
    saved(ann, "s", SECRET, origin())
    assert newest_session(ann).session_id == "s"
    assert newest_session(bob).session_id == "b"  # though hers was used later
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ann/gpu/")
    assert newest_session(ann).session_id == ""
    ann.close()


def test_a_notebook_with_an_id_is_known_after_it_was_moved(tmp_path, monkeypatch):
    book = '{"metadata": {"nbchat": {"notebook_id": "n-1"}}, "cells": []}'
    store = SessionStore(f"sqlite:///{tmp_path}/s.db")
    for name, text in (("a.ipynb", book), ("c.ipynb", "[" * 9_000)):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a.ipynb"))
    saved(store, "s", SECRET, origin())
    (tmp_path / "a.ipynb").rename(tmp_path / "b.ipynb")
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "b.ipynb"))
    assert newest_session(store).session_id == "s"
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "c.ipynb"))
    assert newest_session(store).session_id == ""
    store.close()


def test_a_copy_of_a_notebook_has_chats_of_its_own(tmp_path, monkeypatch):
    book = '{"metadata": {"nbchat": {"notebook_id": "n-1"}}, "cells": []}'
    store = SessionStore(f"sqlite:///{tmp_path}/s.db")
    first, copy, moved = (tmp_path / f"{name}.ipynb" for name in "abc")
    for file in (first, copy):
        file.write_text(book)
    monkeypatch.setenv("JPY_SESSION_NAME", str(first))
    saved(store, "of-first", SECRET, origin())
    monkeypatch.setenv("JPY_SESSION_NAME", str(copy))
    assert newest_session(store).session_id == ""
    saved(store, "of-copy", SECRET, origin())
    assert newest_session(store).session_id == "of-copy"
    first.rename(moved)
    monkeypatch.setenv("JPY_SESSION_NAME", str(moved))
    assert newest_session(store).session_id == "of-first"
    store.close()


def test_an_id_that_the_page_reports_is_stored_before_the_notebook_is_saved(
    tmp_path, monkeypatch
):
    store = SessionStore(f"sqlite:///{tmp_path}/s.db")
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a.ipynb"))
    agent = Agent(ScriptedProvider(says("ok")))
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask("hello")
    agent.autosave.identify_notebook("n-1")
    agent.autosave.save()
    book = '{"metadata": {"nbchat": {"notebook_id": "n-1"}}, "cells": []}'
    (tmp_path / "b.ipynb").write_text(book)
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "b.ipynb"))
    assert newest_session(store).session_id == agent.session.session_id
    store.close()


def test_a_shared_copy_is_read_by_its_link_alone(url):
    ann, bob = (SessionStore(url, owner=each) for each in ("ann", "bob"))
    session = saved(ann, "s", SECRET)
    token = ann.share(session, "the copy")
    assert bob.shared(token) == "the copy"
    with engine_for(sa.make_url(url)).begin() as connection:
        stored = connection.scalars(sa.select(shares.c.token_hash)).all()
    assert stored
    assert token not in stored  # who reads the database cannot open the link
    with pytest.raises(SessionNotFound, match="No shared session"):
        bob.shared("guess")
    ann.delete("s")
    with pytest.raises(SessionNotFound):
        bob.shared(token)
    ann.close()


def test_row_level_security_needs_postgresql(tmp_path):
    with pytest.raises(StoreError, match="Row level security needs PostgreSQL"):
        SessionStore(f"sqlite:///{tmp_path}/s.db").initialize(rls="owner")
