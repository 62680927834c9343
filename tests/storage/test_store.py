"""Sessions in a database: saved event by event, loaded unchanged."""

import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from at_best import TRIES, assert_within, seconds_of
from driving import save_when_repaired
from sqlite_files import sqlite_file
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.cell_changes import CellChange, CellState
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import EntryAdded, Event, SavingFailed
from nbchat.conversation.session import Session, turn_costs
from nbchat.conversation.turns import count_messages
from nbchat.errors import SessionNotFound, SessionTaken, StoreError
from nbchat.storage.autosave import RETRY_SECONDS, save_session
from nbchat.storage.database import BUSY_TIMES, busy_seconds, default_file
from nbchat.storage.factory import autosave_of, newest_session
from nbchat.storage.serialization import session_scope
from nbchat.storage.session_search import MOST_CANDIDATES, MOST_SCANNED
from nbchat.storage.store import Origin, PinKind, SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, says

STORY = "The customer asks about order W100 and its parcel. " * 20


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


def lookup(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def agent_in(
    store: SessionStore, *lines: Line, session: Session | None = None
) -> Agent:
    agent = Agent(
        ScriptedProvider(*lines),
        tools=[lookup],
        engine=CompactionEngine(100),
        session=session,
    )
    agent.engine.tracker.set_threshold(None if session else 1_000)
    agent.autosave = autosave_of(store, agent.session, agent)
    return agent


def test_what_a_turn_changed_in_the_notebook_can_be_undone_after_a_restart(store):
    def edit(source: str) -> str:
        before, after = CellState("code", "x = 1"), CellState("code", source)
        session = agent.session
        session.cell_changes.append(CellChange(0, "a", before, after))
        return "changed"

    agent = agent_in(store, calls("edit", source="x = 2"), says("done"), says("more"))
    agent.tools = [edit]
    agent.ask("change it")
    agent.ask("and now?")
    loaded = store.load(agent.session.session_id)
    assert [*loaded.cell_changes] == [*agent.session.cell_changes]
    assert [each.turn for each in loaded.branch(4).cell_changes] == [0]
    assert [*loaded.branch(0).cell_changes] == []
    loaded.cell_changes.append(CellChange(100, "b", None, CellState("code", "y")))
    new = loaded.cell_changes.since(1)
    store.add_cell_changes(loaded.session_id, new, first_turn=100)
    assert [each.cell for each in store.load(loaded.session_id).cell_changes] == ["b"]


@pytest.mark.slow
def test_deleting_a_session_removes_its_rows_only(store, tmp_path):
    kept, gone = (agent_in(store, says(STORY), says("x")) for _ in "12")
    for agent in (kept, gone):
        agent.ask("Where is W1?")
        list(agent.pin("Be brief."))
    name = gone.session.session_id
    store.set_setting(session_scope(name), "keep", 2)
    store.delete(name)
    assert store.settings([session_scope(name)]) == {}
    with pytest.raises(SessionNotFound, match=name):
        store.load(name)
    with pytest.raises(SessionNotFound, match="/sessions lists yours"):
        store.delete(name)
    assert [each.id for each in store.sessions()] == [kept.session.session_id]
    with sqlite_file(tmp_path / "sessions.db") as database:
        for table in ("chat_messages", "session_snapshots"):
            ids = database.execute(
                f"SELECT DISTINCT session_id FROM {table}"
            ).fetchall()
            assert ids == [(kept.session.session_id,)]
    database.close()


@pytest.mark.slow
def test_sessions_are_found_by_words_in_any_message(store):
    first, second = (
        agent_in(store, says("Toner is 100% low.")),
        agent_in(store, says("Two.")),
    )
    first.ask("What about the printer?")
    second.ask("What about the roof?")
    printer, roof = "What about the printer?", "What about the roof?"
    for query, titles in (
        ("toner PRINTER", [printer]),
        ("about two", [roof, printer]),
        ("the printers", [printer, roof]),
        ("toner roof", [printer, roof]),
        ("100%", [printer]),
        ("inter", [printer]),
        ("1_0", []),
        ("nothing", []),
    ):
        found = [session.title for session in store.sessions(query=query)]
        assert sorted(found) == sorted(titles), query
        assert found[:1] == titles[:1] or query == "toner roof"


def test_a_found_session_shows_the_part_that_matches_best(store):
    agent_in(store, says(f"{STORY} The toner of the printer is low. {STORY}")).ask(
        "Well?"
    )
    (found,) = store.sessions(query="toner low")
    assert "The toner of the printer is low." in found.snippet
    assert len(found.snippet) < 200
    assert store.sessions()[0].snippet == ""


@pytest.mark.slow
def test_a_word_that_most_messages_have_finds_each_session(store):
    """Also where the newest session alone has more messages with it than are ranked."""
    for number in range(3):
        save_session(
            store, Session([("user", f"toner {number}")], session_id=f"s{number}")
        )
    long = [("user", "toner of the printer")] * (MOST_CANDIDATES + 1)
    save_session(store, Session(long, session_id="long"))
    save_session(store, Session([("user", "paper")], session_id="other"))
    found = [info.id for info in store.sessions(query="toner printer")]
    assert found[0] == "long"
    assert sorted(found) == ["long", "s0", "s1", "s2"]
    assert all("toner" in info.snippet for info in store.sessions(query="toner"))


@pytest.mark.slow
def test_new_sessions_and_messages_are_found_and_deleted_ones_are_not(store):
    first, second = (agent_in(store, *[says("ok")] * 3) for _ in range(2))
    first.ask("the printer")
    assert store.sessions(query="toner") == []
    first.ask("the toner")
    second.ask("more toner")
    third = agent_in(store, says("ok"))
    third.ask("a supertoner")
    other = SessionStore(store.url)  # of another kernel
    ids = {agent.session.session_id for agent in (first, second)}
    for each in (store, other):
        assert {found.id for found in each.sessions(query="toner")} == ids
    other.delete(first.session.session_id)
    for each in (store, other):
        (found,) = each.sessions(query="toner")
        assert found.id == second.session.session_id
    other.delete(second.session.session_id)
    for each in (store, other):
        (found,) = each.sessions(query="toner")
        assert found.id == third.session.session_id
    with sqlite_file(store.url.removeprefix("sqlite:///")) as database:
        indexed = database.execute("SELECT count(*) FROM message_words_docsize")
        assert indexed.fetchone() == (2,)  # none twice, and none of those deleted
    database.close()
    other.close()


@pytest.mark.parametrize("word", ["österreich", "Österreich", "žIžKOV", "fahrt"])
def test_sessions_are_found_in_any_case_of_any_alphabet(store, word):
    agent_in(store, says("ja")).ask("Fahrt nach ÖSTERREICH und Žižkov")
    assert len(store.sessions(query=word)) == 1


@pytest.mark.slow
def test_sessions_are_found_by_characters_that_databases_refuse(store):
    agent_in(store, says("ok")).ask("half a pair \ud800, a null \0 and \ufdd0")
    agent_in(store, says("ok")).ask("ud800 x00")
    for word in ("\ud800", "\0", "pair \ud800, a null \0", "\ufdd0"):
        (found,) = store.sessions(query=word)
        assert found.title.startswith("half a pair")
    assert store.sessions(query="\udfff") == []


def test_after_a_compaction_the_view_and_the_full_transcript_both_survive(store):
    agent = agent_in(store, says(STORY), says("<summary>short</summary>"), says("two"))
    agent.ask("first")
    list(agent.compact())
    agent.ask("second")
    again = store.load(agent.session.session_id)
    assert again.history == agent.session.history
    assert [entry.role for entry in again.history] == ["summary", "user", "assistant"]
    assert [e.content for e in again.transcript] == ["first", STORY, "second", "two"]
    assert again.compaction == agent.session.compaction


def test_the_trigger_continues_where_it_was_after_loading(store):
    agent = agent_in(store, says("one", tokens=60), says("two", tokens=70))
    agent.ask("first")
    agent.ask("second")
    again = agent_in(store, session=store.load(agent.session.session_id))
    assert again.engine.input_tokens == 130


def test_hidden_reasoning_is_no_part_of_the_context_after_loading(store):
    agent = agent_in(
        store, Line("yes", usage=Usage(500, 60_000, dropped_tokens=59_990))
    )
    agent.ask("think hard")
    again = agent_in(store, session=store.load(agent.session.session_id))
    assert again.session.usages == agent.session.usages
    assert again.engine.tracker.context_tokens(again.session) == 510


@pytest.mark.slow
def test_compactions_are_inactive_from_the_changed_entry_on_and_say_why(
    store, tmp_path
):
    lines = (says(STORY), says("<summary>A</summary>")) * 3
    agent = agent_in(store, *lines)
    for question in ("first", "second", "third"):
        agent.ask(question)
        list(agent.compact())
    with sqlite_file(tmp_path / "sessions.db") as database:
        database.execute("UPDATE chat_messages SET content = 'x' WHERE position = 3")
    database.close()
    again = store.load(agent.session.session_id)
    assert again.compaction is not None
    assert again.compaction.stop == 2
    assert [e.content for e in again.history[1:4]] == ["second", "x", "third"]
    reasons = [each.reason for each in again.finished_compactions]
    assert reasons == ["", *["The messages it covers were changed."] * 2]
    with sqlite_file(tmp_path / "sessions.db") as database:
        database.execute("DELETE FROM chat_messages WHERE position = 0")
    database.close()
    again = store.load(agent.session.session_id)
    assert again.history == again.transcript


def test_pins_are_loaded_in_order_and_every_change_is_stored(store, tmp_path):
    agent = agent_in(store, says("hi"), says("ho"))
    list(agent.pin("Never refund over $50.\n  \ud800"))
    agent.ask("hello")
    list(agent.pin("Close only what is solved."))
    list(agent.pin("Answer in French."))
    list(agent.unpin(2))
    assert store.load(agent.session.session_id).pins == agent.session.pins
    assert agent.session.pins == (
        "Never refund over $50.\n  \ud800",
        "Answer in French.",
    )
    with sqlite_file(tmp_path / "sessions.db") as database:
        rows = database.execute("SELECT kind FROM session_snapshots ORDER BY number")
        assert [kind for (kind,) in rows] == ["pin", "pin", "pin", "unpin"]
    database.close()
    again = agent_in(store, session=store.load(agent.session.session_id))
    list(again.unpin(1))
    assert store.load(again.session.session_id).pins == ("Answer in French.",)


def test_a_pin_set_without_an_event_is_saved_with_the_next_one(store):
    agent = agent_in(store, says("hi"))
    agent.session.pin("Answer in French.")
    agent.ask("hello")
    assert store.load(agent.session.session_id).pins == ("Answer in French.",)


def test_saving_an_entry_again_changes_nothing(store):
    agent = agent_in(store, says("hi"))
    agent.ask("hello")
    for position in (0, 1):
        store.add_entries(agent.session, position, position + 1, Origin())
    assert store.load(agent.session.session_id).transcript == agent.session.transcript
    other = Session([("user", "other")], session_id=agent.session.session_id)
    with pytest.raises(SessionTaken, match="Another kernel"):
        store.add_entries(other, 0, 1, Origin())


def test_entries_whose_commit_was_not_confirmed_do_not_stop_later_ones(store):
    class Unconfirmed(SessionStore):
        """Loses its connection after the first commit, before the news of it."""

        is_lost = False

        def add_entries(self, *given: Any) -> None:
            super().add_entries(*given)
            if not self.is_lost:
                self.is_lost = True
                raise StoreError("the connection was lost")

    agent = agent_in(Unconfirmed(store.url), says("one"), says("two"))
    assert len(faults(agent.run("first"))) >= 1
    agent.ask("second")
    save_when_repaired(agent.autosave)
    again = store.load(agent.session.session_id)
    assert again.transcript == agent.session.transcript
    assert again.usages == agent.session.usages
    assert store.sessions()[0].messages == 4


def test_sessions_are_listed_with_their_first_words(store):
    agent_in(store, says("a")).ask("What is   the weather?")
    listed = store.sessions()
    assert [(info.title, info.messages) for info in listed] == [
        ("What is the weather?", 2)
    ]
    assert listed[0].model == "scripted:model"


def test_a_listed_session_counts_messages_as_the_conversation_does(store):
    found = calls("lookup", order="W1")
    agent = agent_in(store, found, says("Found."), says("Bye."))
    agent.ask("Where is it?")
    agent.ask("Thanks.")
    [info] = store.sessions()
    assert info.messages == count_messages(agent.session.transcript) == 6
    assert repr(agent.session).startswith("<Session of 6 messages, ")
    session = Session(
        [
            ("user", "hi"),
            ("thinking", "hm"),
            ("assistant", "a"),
            ("assistant", "b"),
            ("user", "bye"),
        ],
        session_id="s",
    )
    save_session(store, session)
    assert {info.messages for info in store.sessions()} == {6, 3}


def test_a_session_that_begins_with_attachments_is_listed_by_its_prompt(store):
    agent = agent_in(store, says("A list."))
    brought = [Entry("user", f"The variable {n}", "", "file", "{}") for n in "ab"]
    list(agent.run("What is @a?", attached=brought))
    other = agent_in(store)
    other.session.append(brought[0])
    other.autosave(EntryAdded(0, brought[0]))
    titles = {info.title: info.messages for info in store.sessions()}
    assert titles == {"What is @a?": 4, "The variable a": 1}


def test_the_session_used_last_comes_first(store):
    old, new = agent_in(store, says("a"), says("b")), agent_in(store, says("c"))
    old.ask("old")
    time.sleep(0.002)
    new.ask("new")
    assert [info.title for info in store.sessions()] == ["new", "old"]
    time.sleep(0.002)
    old.ask("old again")
    assert [info.title for info in store.sessions()] == ["old", "new"]


def test_a_clock_that_jumps_back_moves_no_session_down_the_list(store, tmp_path):
    old, new = agent_in(store, says("a")), agent_in(store, says("b"), says("c"))
    old.ask("old")
    new.ask("new")
    with sqlite_file(tmp_path / "sessions.db") as database:
        database.execute(  # as if the clock had been years ahead
            "UPDATE sessions SET used_at = '2099' WHERE id = ?",
            [new.session.session_id],
        )
    database.close()
    new.ask("new again")
    assert [info.title for info in store.sessions()] == ["new", "old"]
    assert store.sessions()[0].used_at.startswith("2099")


def test_a_home_that_cannot_be_written_does_not_end_the_chat(monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", "/proc/nbchat")
    agent = agent_in(SessionStore(), says("hi"))
    (reason,) = faults(agent.run("hello"))
    assert re.match(r"The database failed \(.*\n.*since .* keeps trying", reason)
    assert agent.session.last_answer == "hi"


def test_an_unknown_session_is_reported_in_one_line(store):
    with pytest.raises(StoreError, match=r"no session 'nope'. /sessions lists yours"):
        store.load("nope")


@pytest.mark.slow
def test_two_kernels_on_one_session_never_interleave(store):
    agent = agent_in(store, says("one"), says("two"))
    agent.ask("first")
    other = agent_in(store, says("three"), session=store.load(agent.session.session_id))
    agent.ask("second")
    events = list(other.run("at the same time"))
    failures = [event for event in events if isinstance(event, SavingFailed)]
    assert "Another kernel" in failures[0].reason
    assert other.session.last_answer == "three"
    saved = [entry.content for entry in store.load(agent.session.session_id).transcript]
    assert saved == ["first", "one", "second", "two"]


def faults(events: Iterable[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, SavingFailed)]


@pytest.mark.slow
def test_a_pin_of_another_kernel_is_not_overwritten(store):
    agent = agent_in(store, says("one"))
    agent.ask("first")
    other = agent_in(store, session=store.load(agent.session.session_id))
    assert faults(agent.pin("Never refund more than $50.")) == []
    (reason,) = faults(other.pin("Answer in French."))
    assert "Another kernel" in reason
    assert faults(agent.pin("Be brief.")) == []
    assert store.load(agent.session.session_id).pins == agent.session.pins


@pytest.mark.slow
def test_a_kernel_left_behind_cannot_undo_the_summary_of_another(store):
    lines = (says(STORY), says("<summary>short</summary>"), says("two"))
    agent = agent_in(store, *lines)
    agent.ask("first")
    list(agent.compact())
    other = agent_in(store, session=store.load(agent.session.session_id))
    agent.ask("second")
    (reason,) = faults(other.undo_compaction())
    assert "Another kernel" in reason
    assert store.load(agent.session.session_id).history == agent.session.history


def test_a_kernel_that_was_interrupted_while_saving_continues(store):
    class Interrupted(SessionStore):
        """Is interrupted between the commit and the news of it."""

        is_quick = False

        def add_pins(self, *pins: Any, kind: PinKind) -> int:
            number = super().add_pins(*pins, kind=kind)
            if self.is_quick:
                return number
            raise KeyboardInterrupt

    interrupted = Interrupted(store.url)
    agent = agent_in(interrupted, says("one"))
    agent.ask("first")
    with pytest.raises(KeyboardInterrupt):
        list(agent.pin("Be brief."))
    interrupted.is_quick = True
    assert faults(agent.pin("Answer in French.")) == []
    assert store.load(agent.session.session_id).pins == agent.session.pins
    assert len(agent.session.pins) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("\ud800 \x00 \U0001f600", "'; DROP TABLE sessions; --", "\\x00 \\ud800 \\"),
        *("\ud83d\ude00", "\ufdd0", "\ufdd0\\x00", "é\x00\\", "\x00" * 100_000),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_any_text_comes_back_from_the_store_as_it_was(store, text):
    agent = agent_in(store, says("ok"))
    agent.ask(text)
    loaded = store.load(agent.session.session_id)
    assert loaded.transcript == agent.session.transcript
    assert loaded.transcript[0].content == text


@pytest.mark.parametrize("text", ["null \x00", "half a pair \ud83d"], ids=ascii)
def test_no_row_contains_characters_that_databases_refuse(store, tmp_path, text):
    agent_in(store, says("ok")).ask(text)
    with sqlite_file(tmp_path / "sessions.db") as connection:
        rows = connection.execute("SELECT content FROM chat_messages").fetchall()
    assert "\0" not in rows[0][0]
    assert store.sessions()[0].title == text


def test_a_message_of_a_later_version_is_shown_as_damaged_and_hides_no_other(
    store, tmp_path
):
    agent = agent_in(store, says("ok"))
    agent.ask("hello")
    with sqlite_file(tmp_path / "sessions.db") as connection:
        connection.execute(
            "UPDATE chat_messages SET role = 'oracle' WHERE position = 0"
        )
    damaged, answer = store.load(agent.session.session_id).transcript
    assert "is damaged in the session store: its role 'oracle'" in damaged.content
    assert answer.content == "ok"


def test_the_default_file_is_in_the_jupyter_data_folder_and_private():
    store = SessionStore()
    agent_in(store, says("hi")).ask("hello")
    assert default_file().parent.parent == Path(os.environ["JUPYTER_DATA_DIR"])
    assert stat.S_IMODE(default_file().stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_reported_and_unchanged(tmp_path):
    file = tmp_path / "sessions.db"
    file.write_text("this is not a database, it is a diary" * 50)
    with pytest.raises(
        StoreError, match=r"sessions.db isn't a database. Set store_url"
    ):
        SessionStore(f"sqlite:///{file}").sessions()
    assert file.read_text().startswith("this is not a database")


def test_a_store_that_cannot_be_written_does_not_end_the_chat(tmp_path):
    agent = agent_in(
        SessionStore(f"sqlite:///{tmp_path}/no/such/folder.db"), says("hi")
    )
    events = list(agent.run("hello"))
    assert any(isinstance(event, SavingFailed) for event in events)
    assert agent.session.last_answer == "hi"


def test_a_temporary_fault_is_reported_once_and_leaves_no_gap(tmp_path):
    folder = tmp_path / "not-there-yet"
    store = SessionStore(f"sqlite:///{folder / 'sessions.db'}")
    agent = agent_in(store, says("one"), says("two"))
    events = list(agent.run("first"))
    assert len([event for event in events if isinstance(event, SavingFailed)]) == 1
    folder.mkdir()
    agent.ask("second")
    save_when_repaired(agent.autosave)
    saved = store.load(agent.session.session_id)
    assert saved.transcript == agent.session.transcript
    assert saved.usages == agent.session.usages


@pytest.mark.slow
def other_connection(store: SessionStore) -> sqlite3.Connection:
    file = store.url.removeprefix("sqlite:///")
    return sqlite3.connect(file, isolation_level=None, check_same_thread=False)


@pytest.mark.slow
def test_a_save_waits_while_other_processes_commit(store):
    """The lock of SQLite has no queue: this save never finds it free."""
    save_session(store, Session([("user", "hello")], session_id="s"))
    end = time.monotonic() + 2
    others = other_connection(store)

    def commit_again_and_again() -> None:
        while time.monotonic() < end:
            others.execute("BEGIN IMMEDIATE")
            others.execute("INSERT INTO settings VALUES (NULL, '', '', 'a', '1', '')")
            time.sleep(0.1)
            others.execute("COMMIT")

    known = busy_seconds.set(1)
    with ThreadPoolExecutor(1) as pool, closing(others):
        done = pool.submit(commit_again_and_again)
        time.sleep(0.05)
        store.rename("s", "later")
        done.result()
    busy_seconds.reset(known)
    assert [each.title for each in store.sessions()] == ["later"]


@pytest.mark.slow
def test_a_save_gives_up_when_another_process_keeps_the_lock(store):
    save_session(store, Session([("user", "hello")], session_id="s"))
    known = busy_seconds.set(0.5)
    with closing(other_connection(store)) as other:
        other.execute("BEGIN IMMEDIATE")

        def rename() -> None:
            with pytest.raises(StoreError, match="locked"):
                store.rename("s", "later")

        assert_within(BUSY_TIMES * 0.5, lambda: seconds_of(rename))
    busy_seconds.reset(known)


@pytest.mark.slow
def test_a_locked_database_is_tried_once_a_second_and_slows_no_turn(store):
    tries: list[float] = []

    class Timed(SessionStore):
        def add_entries(self, *given: Any) -> None:
            tries.append(time.monotonic())
            super().add_entries(*given)

    agent = agent_in(Timed(store.url), *[says("ok")] * 2 * TRIES)
    agent.ask("first")
    tries.clear()
    with sqlite_file(store.url.removeprefix("sqlite:///")) as other:
        other.execute("BEGIN IMMEDIATE")
        (reason,) = faults(agent.run("second"))
        assert re.search(r"is locked(?s:.*)Not saved since \d\d:\d\d", reason)

        def two_turns() -> None:
            assert faults(agent.run("third")) == faults(agent.run("fourth")) == []

        assert_within(RETRY_SECONDS, lambda: seconds_of(two_turns))
        await_try(tries, 3)
        other.rollback()
    other.close()
    save_when_repaired(agent.autosave)
    pauses = [after - before for before, after in pairwise(tries[:3])]
    assert all(0.9 * RETRY_SECONDS < each < 4 * RETRY_SECONDS for each in pauses)
    assert store.load(agent.session.session_id).transcript == agent.session.transcript


@pytest.mark.slow
def test_a_store_that_refuses_at_once_is_tried_once_a_second_too(store):
    tries: list[float] = []

    class Refusing(SessionStore):
        def add_entries(self, *given: Any) -> None:
            tries.append(time.monotonic())
            if len(tries) < 3:
                raise StoreError("the server is stopped")
            super().add_entries(*given)

    agent = agent_in(Refusing(store.url), says("ok"))
    list(agent.run("first"))
    await_try(tries, 3)
    agent.autosave.save()
    pauses = [after - before for before, after in pairwise(tries[1:3])]
    assert all(each > 0.9 * RETRY_SECONDS for each in pauses)
    assert len(store.load(agent.session.session_id).transcript) == 2


def await_try(tries: list[float], number: int) -> None:
    end = time.monotonic() + 60
    while len(tries) < number:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_database_in_memory_is_shared_by_all_threads():
    store = SessionStore("sqlite://")
    agent = agent_in(store, says("one"), says("two"))
    agent.ask("first")
    with ThreadPoolExecutor(2) as pool:
        told = pool.submit(lambda: faults(agent.run("second"))).result()
        listed = list(pool.map(lambda _: len(store.sessions()), range(20)))
    assert (told, listed) == ([], [1] * 20)
    assert store.load(agent.session.session_id).transcript == agent.session.transcript
    store.close()


def test_repr_hides_the_password_of_a_database():
    assert "secret" not in repr(SessionStore("postgresql://ada:secret@localhost/chats"))


@every(
    "url",
    [
        "postgresql+psycopg://ann:pa@ss:tiger@127.0.0.1:1/chats",
        "postgresql+psycopg://ann:pass@tiger@127.0.0.1:1/chats",
        "postgresql+psycopg://ann:pass@tiger/x@127.0.0.1:1/chats",
        "postgresql+psycopg://ann:tiger@127.0.0.1:54x/chats",
        "tiger",
    ],
)
def test_an_invalid_url_is_reported_without_any_part_of_it(url):
    store = SessionStore(url)
    agent = agent_in(store, says("hi"))
    (reason,) = faults(agent.run("hello"))
    assert "Use one such as sqlite:///chats.db or" in reason
    assert "In a password, write @ as %40" in reason
    assert agent.session.last_answer == "hi"
    with pytest.raises(StoreError, match="isn't a valid database URL") as refused:
        _ = store.location
    for shown in (reason, repr(store), str(refused.value)):
        assert "tiger" not in shown
        assert "54x" not in shown


def test_a_password_with_an_escaped_at_works_and_is_hidden():
    store = SessionStore("postgresql://a@corp:p%40ss@host/chats?password=secret")
    assert repr(store) == "<SessionStore postgresql://a%40corp:***@host/chats>"


def test_an_invalid_option_of_the_url_is_reported_in_one_line(tmp_path):
    with pytest.raises(StoreError, match=r"Check store_url.(?s:.*)'soon'$"):
        SessionStore(f"sqlite:///{tmp_path}/x.db?timeout=soon").sessions()


ODD = "a\ud800 \0 \ufdd0 \u202e\U0001f600"


def test_any_text_is_stored_in_every_column_and_loaded(store):
    agent = agent_in(store, says(ODD))
    session = agent.session
    session.session_id = ODD
    session.append(Entry("user", ODD, ODD, ODD, ODD))
    store.add_entries(session, 0, 1, Origin(notebook=ODD, model=ODD))
    record = Compaction(ODD, 0, 1, ODD, model=ODD, reason=ODD)
    session.newest_snapshot = store.add_compaction(session, record)
    store.add_pins(session, (ODD,), kind="pin")
    store.set_setting(ODD, ODD, ODD)
    (info,) = store.sessions()
    assert (info.id, info.notebook, info.model) == (ODD, ODD, ODD)
    loaded = store.load(ODD)
    assert loaded.transcript == session.transcript
    assert (loaded.pins, loaded.compactions[0].summary) == ((ODD,), ODD)
    assert store.settings([ODD]) == {ODD: (ODD, ODD)}


def test_a_part_of_a_word_is_looked_for_in_the_newest_messages_only(store):
    for name in ("old", "new"):
        save_session(store, Session([("user", "A kingfisher.")], session_id=name))
    for query in ("ingfish", "INGfish"):
        assert {each.id for each in store.sessions(query=query)} == {"old", "new"}
    with sqlite_file(store.url.removeprefix("sqlite:///")) as other:
        other.execute(
            "UPDATE chat_messages SET number = number + ? WHERE session_id = 'new'",
            [MOST_SCANNED],
        )
    other.close()
    assert [each.id for each in store.sessions(query="ingfish")] == ["new"]


def test_a_session_id_with_odd_characters_is_not_found(store):
    with pytest.raises(SessionNotFound):
        store.load("\udcff")
    assert store.newest(Origin("\udcff")) is None


def test_odd_names_of_notebook_and_model_lose_no_message(store, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "caf\udce9.ipynb")
    agent = agent_in(store, says("Shipped."))
    agent.autosave = autosave_of(store, agent.session, agent)
    assert not any(isinstance(e, SavingFailed) for e in agent.run("Where is it?"))
    assert newest_session(store).transcript == agent.session.transcript


def test_why_a_response_lost_the_prompt_cache_is_there_after_a_restart(tmp_path):
    lost = Usage(50_000, 20, cache_loss="cache lost: 41,000 tokens, 7 min pause")
    entries = [("user", "hello"), ("assistant", "Hi.")]
    session = Session(entries, session_id="s", usages=[(2, lost)])
    save_session(SessionStore(f"sqlite:///{tmp_path}/sessions.db"), session)
    restarted = SessionStore(f"sqlite:///{tmp_path}/sessions.db").load("s")
    (turn,) = turn_costs(restarted)
    assert turn.cache_losses == (lost.cache_loss,)


def test_sessions_are_listed_in_pages(store):
    for number in range(7):
        save_session(
            store, Session([("user", f"hello {number}")], session_id=f"s{number}")
        )
    every = [each.id for each in store.sessions()]
    assert store.count_sessions() == len(every) == 7
    pages, before = [], ""
    while page := store.sessions(limit=3, before=before):
        pages.append([each.id for each in page])
        before = page[-1].id
    assert pages == [every[:3], every[3:6], every[6:]]
    assert store.sessions(before="unknown") == []
