"""The store on a real PostgreSQL, which is started for these tests."""

import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from map_desk import assert_decided_once, make_effects
from postgres import frozen, new_database

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import map_agents
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.events import SavingFailed
from nbchat.conversation.session import Session
from nbchat.errors import SessionTaken, StoreError
from nbchat.providers.base import Request
from nbchat.storage.autosave import save_session
from nbchat.storage.database import ENGINES_KEPT, engine_for
from nbchat.storage.factory import autosave_of
from nbchat.storage.run_store import Store
from nbchat.storage.session_search import MOST_CANDIDATES
from nbchat.storage.store import Origin, SessionStore
from nbchat.testing import Line, ScriptedProvider, says

STORY = "The customer asks about order W100 and its parcel. " * 40


@pytest.fixture
def store(server: str) -> Iterator[SessionStore]:
    opened = SessionStore(server)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def each_event_is_saved_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is; else a late save goes on in the background."""
    monkeypatch.setattr("nbchat.storage.autosave.PATIENCE_SECONDS", 60.0)


def chat(store: SessionStore, *lines, session: Session | None = None) -> Agent:
    agent = Agent(
        ScriptedProvider(*lines),
        session=session,
        engine=CompactionEngine(policy="single-summary"),
    )
    agent.autosave = autosave_of(store, agent.session, agent)
    return agent


def test_a_session_comes_back_as_it_was(store):
    agent = chat(store, says(STORY), says("<summary>short</summary>"), says("two"))
    agent.ask("first \0 and \ud800")
    list(agent.compact())
    list(agent.pin("Never refund."))
    agent.ask("second")
    again = store.load(agent.session.session_id)
    assert again.transcript == agent.session.transcript
    assert again.history == agent.session.history
    assert again.compactions[-1] == agent.session.compaction
    assert (again.pins, again.usages) == (agent.session.pins, agent.session.usages)
    assert agent.session.session_id in [info.id for info in store.sessions()]


def test_two_kernels_never_interleave(store):
    agent = chat(store, says("one"), says("two"))
    agent.ask("first")
    other = chat(store, says("three"), session=store.load(agent.session.session_id))
    agent.ask("second")
    with pytest.raises(SessionTaken):
        store.add_entries(_longer(other.session), 2, 3, Origin())
    assert store.load(agent.session.session_id).transcript == agent.session.transcript


def test_of_two_kernels_that_pin_at_once_one_is_refused(store, server):
    others = SessionStore(server)
    for _ in range(20):
        first = chat(store, says("one"))
        first.ask("first")
        copy = others.load(first.session.session_id)
        second = chat(others, session=copy)
        with ThreadPoolExecutor(2) as pool:
            pinned = [
                pool.submit(lambda agent=agent, rule=rule: list(agent.pin(rule)))
                for agent, rule in ((first, "Never refund."), (second, "Be brief."))
            ]
        told = [
            any(isinstance(event, SavingFailed) for event in each.result())
            for each in pinned
        ]
        assert sorted(told) == [False, True]
        winner = second if told[0] else first
        assert store.load(copy.session_id).pins == winner.session.pins
    others.close()


def test_the_newest_value_of_a_setting_counts(store):
    store.set_setting("", "keep", 3)
    store.set_setting("openai", "keep", 4)
    store.set_setting("openai", "keep", 5)
    assert store.settings(("", "openai")) == {"keep": ("openai", 5)}
    store.set_setting("openai", "keep", None)
    assert store.settings(("", "openai")) == {"keep": ("", 3)}


def test_sessions_are_found_by_characters_that_databases_refuse(store):
    chat(store, says("ok")).ask("half a pair \ud800, a null \0 and \ufdd0")
    chat(store, says("ok")).ask("ud800 x00")
    (found,) = store.sessions(query="PAIRS")
    assert found.snippet.startswith("half a pair")
    for word in ("\ud800", "\0", "pair \ud800, a null \0", "\ufdd0"):
        (found,) = store.sessions(query=f"half a {word}")
        assert found.title.startswith("half a pair")
    assert store.sessions(query="\udfff") == []


def test_a_word_that_most_messages_have_finds_each_session(server):
    store = SessionStore(server, owner="searcher")
    save_session(store, Session([("user", "one wombat")], session_id="old"))
    many = [("user", "a wombat again")] * (MOST_CANDIDATES + 1)
    save_session(store, Session(many, session_id="long"))
    save_session(SessionStore(server, owner="other"), Session([("user", "wombat")]))
    assert [info.id for info in store.sessions(query="wombat")] == ["long", "old"]


def test_of_many_messages_with_a_word_the_newest_are_searched(store):
    for name, count in (("zebra one", 1), ("old ones", 600), ("zebra last", 1)):
        said = [("user", f"{name} giraffe {n}") for n in range(count)]
        save_session(store, Session(said, session_id=name))
    assert "zebra last" in store.sessions(query="giraffe")[0].snippet


@pytest.mark.parametrize(
    "refusal",
    [
        "53300 sorry, too many clients already",
        "53300 remaining connection slots are reserved for roles with the SUPERUSER",
        "57P03 the database system is starting up",
    ],
)
def test_the_first_use_waits_for_a_server_that_refuses_connections_for_now(
    server, refusal
):
    with refusing_at_first(server, refusal, connections=3) as (url, refused):
        store = SessionStore(url)
        assert isinstance(store.sessions(), list)
        store.close()
    assert refused == [refusal] * 3


def test_a_wrong_password_is_reported_at_once_in_one_line(server):
    refusal = '28P01 password authentication failed for user "ann"'
    with refusing_at_first(server, refusal, connections=9) as (url, refused):
        store = SessionStore(url.replace("postgres@", "ann:hunter2@"))
        with pytest.raises(StoreError, match="authentication failed") as told:
            store.sessions()
        store.close()
    assert len(refused) == 1
    assert "\n" not in str(told.value)
    assert "hunter2" not in str(told.value)


@contextmanager
def refusing_at_first(
    server: str, refusal: str, *, connections: int
) -> Iterator[tuple[str, list[str]]]:
    """A server that refuses its first connections as PostgreSQL does, then passes on."""
    code, _, text = refusal.partition(" ")
    fields = f"SFATAL\0VFATAL\0C{code}\0M{text}\0\0".encode()
    answer = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields
    refused: list[str] = []
    real = sa.make_url(server)

    class Refusing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if len(refused) < connections:
                refused.append(refusal)
                self.request.recv(1_000)
                self.request.sendall(answer)
                return
            with socket.create_connection((real.host, real.port)) as there:
                back = threading.Thread(target=passed_on, args=(there, self.request))
                back.start()
                passed_on(self.request, there)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as door:
        threading.Thread(target=door.serve_forever, daemon=True).start()
        port = door.server_address[1]
        plain = {"sslmode": "disable", "gssencmode": "disable"}
        url = real.set(port=port).update_query_dict(plain)
        yield url.render_as_string(hide_password=False), refused
        door.shutdown()


def passed_on(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes until the connection ends."""
    with suppress(OSError):
        while some := source.recv(65_536):
            target.sendall(some)
        target.shutdown(socket.SHUT_WR)


def test_names_of_any_length_fit(store):
    session = Session([("user", "hi")], session_id="s" * 300)
    save_session(store, session)
    assert store.load("s" * 300).transcript == session.transcript
    scope = f"local:/{'x' * 300}.gguf"
    store.set_setting(scope, "keep", 5)
    assert store.settings([scope]) == {"keep": (scope, 5)}


def run_sql(server: str, *statements: str) -> None:
    engine = sa.create_engine(server)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


def test_a_dropped_connection_is_replaced(store, server):
    agent = chat(store, says("one"), says("two"))
    agent.ask("first")
    drop_all(server)
    events = list(agent.run("second"))
    assert not any(isinstance(event, SavingFailed) for event in events)
    drop_all(server)
    assert agent.session.session_id in [info.id for info in store.sessions()]


def drop_all(server: str) -> None:
    """Close every connection but this one, as a restart of the server does."""
    run_sql(
        server,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE pid != pg_backend_pid() AND datname = current_database()",
    )


def test_a_closed_store_leaves_no_connection_not_even_one_in_use(server):
    named = f"{server}?application_name=left"
    store = Store(named)
    store.settings([""])
    with store.together():
        store.close()
        store.settings([""])
    for number in range(ENGINES_KEPT + 1):  # which is more than are kept
        engine_for(sa.make_url(f"{named}-{number}")).connect().close()
    counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'"
    with engine_for(sa.make_url(server)).connect() as connection:
        end = time.monotonic() + 30
        for name in ("left", "left-0"):
            while connection.scalar(sa.text(counted.format(name))):
                assert time.monotonic() < end
    for number in range(1, ENGINES_KEPT + 1):
        engine_for(sa.make_url(f"{named}-{number}")).dispose()


def test_a_connection_whose_network_is_gone_ends_unless_the_url_says_otherwise(server):
    engine = engine_for(sa.make_url(f"{server}?tcp_user_timeout=7000"))
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        waits = driver.info.get_parameters()
    engine.dispose()
    assert waits["tcp_user_timeout"] == "7000"
    assert waits["keepalives_idle"] == "30"


def test_a_stopped_server_is_reported_in_one_line():
    gone = SessionStore("postgresql+psycopg://nobody@127.0.0.1:1/none")
    with pytest.raises(StoreError, match="The database failed") as failed:
        gone.sessions()
    assert "\n" not in str(failed.value)


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is given up after a second; sessions wait about as they do for users."""
    monkeypatch.setattr("nbchat.storage.postgresql.SILENT_SECONDS", 1.0)
    monkeypatch.setattr("nbchat.storage.autosave.PATIENCE_SECONDS", 2.0)
    monkeypatch.setattr("nbchat.storage.autosave.FLUSH_SECONDS", 1.0)
    monkeypatch.setattr("nbchat.storage.run_store.FLUSH_SECONDS", 2.0)


@pytest.mark.slow
def test_a_server_that_hangs_is_given_up_and_used_again_afterwards(server, impatience):
    """Its connections stay open, so that no timeout of the network ends the wait."""
    hanging = SessionStore(f"{server}?connect_timeout=2")
    save_session(hanging, Session([("user", "hello")], session_id="before"))
    with frozen(server):
        with pytest.raises(StoreError, match=r"database (failed|doesn't answer)"):
            hanging.sessions()
        with pytest.raises(StoreError, match=r"database (failed|doesn't answer)"):
            hanging.load("before")
    assert hanging.load("before").transcript[0].content == "hello"
    hanging.close()


@pytest.mark.slow
def test_a_run_of_many_agents_ends_while_its_server_hangs(server, impatience):
    """Rows whose answers cannot be saved are named, and known to be new."""
    asked, hanging = list[str](), list[None]()
    store = Store(f"{server}?connect_timeout=2")
    with ExitStack() as hang:

        def answer(request: Request) -> Line:
            asked.append(request.history[-1].content)
            if asked[-1] == "row 2" and not hanging:
                hanging.append(hang.enter_context(frozen(server)))
            return says("Fine.")

        run = map_agents(
            lambda: Agent(ScriptedProvider(answer)),
            [{"id": str(n), "text": f"row {n}"} for n in range(5)],
            key="id",
            prompt="text",
            store=store,
            name="hang",
            workers=1,
        ).wait()
        assert "results are only in memory" in run.problem
        assert asked == [f"row {n}" for n in range(5)]
    rows = run.table()
    assert list(rows["error"]) == [""] * 5
    assert all(rows["note"][3:])
    store.close()


@pytest.mark.slow
def test_rows_of_a_run_do_not_wait_one_by_one_for_a_server_that_hangs():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = Store(f"postgresql+psycopg://u@127.0.0.1:{port}/db?connect_timeout=2")
        began = time.monotonic()
        for _ in range(5):
            with pytest.raises(StoreError, match=r"database (failed|doesn't answer)"):
                store.load("row")
        assert time.monotonic() - began < 7  # each connection takes two seconds


def _longer(session: Session) -> Session:
    session.append(session.transcript[0])
    return session


def test_after_kills_of_a_run_every_ticket_is_decided_once_and_closed_once(server):
    url, effects = new_database(server), new_database(server)
    make_effects(effects)
    script = Path(__file__).parents[1] / "support" / "map_desk.py"
    done = subprocess.run(
        [sys.executable, str(script), url, effects, "8", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("ended with 0\n"), done.stderr
    store = Store(url)
    assert_decided_once(store, effects, 8)
    store.close()
