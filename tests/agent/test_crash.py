"""Wherever a compaction is interrupted, the history is the old or the new one, whole."""

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path
from types import FrameType

import pytest
from driving import save_when_repaired

import nbchat
from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.summary_format import summary_text
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionStarted,
    Event,
    RetryScheduled,
    SavingFailed,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.errors import Overloaded, ProtocolFault
from nbchat.providers.base import ReplyStream, Request
from nbchat.providers.retries import ATTEMPTS
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, ScriptedReply, fails, says

KILLS = 40

LONG = "The customer asks about order W100 and its parcel, which is late. " * 12

SUMMARY = "<summary>It is a long story about a parcel</summary>"

PIECES = len(SUMMARY.split())
PLACES = (0, 1, PIECES // 2, PIECES)
"""Pieces of a summary before which it breaks: none came, the first, half, all."""

HERE = Path(__file__).parents[1] / "support"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


@pytest.fixture(autouse=True)
def each_event_is_saved_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is; else a late save goes on in the background."""
    monkeypatch.setattr("nbchat.storage.autosave.PATIENCE_SECONDS", 60.0)


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again at once."""
    monkeypatch.setattr("nbchat.providers.retries.FIRST_WAIT_SECONDS", 0.0)


def agent_in(
    store: SessionStore,
    provider: ScriptedProvider,
    *,
    session: Session | None = None,
    threshold: int | None = None,
) -> Agent:
    agent = Agent(provider, session=session, engine=CompactionEngine(threshold))
    agent.autosave = autosave_of(store, agent.session, agent)
    return agent


def reloaded(store: SessionStore, agent: Agent) -> Session:
    """The session as a restart finds it, when autosave has ended its work."""
    save_when_repaired(agent.autosave)
    return store.load(agent.session.session_id)


class Breaking(ScriptedProvider):
    """Breaks the stream of a summary before one of its pieces; chats undisturbed."""

    def __init__(
        self, *lines: ScriptedReply, piece: int, fault: Callable[[], None]
    ) -> None:
        super().__init__(*lines)
        self._piece = piece
        self._fault = fault
        self.asked = 0

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        stream = super().stream(request, stop=stop)
        if not request.answer_tag:
            return (yield from stream)
        self.asked += 1
        for _ in range(self._piece):
            yield next(stream)
        self._fault()
        return (yield from stream)


def raises(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


FAULTS = [
    (ProtocolFault("half an answer"), ATTEMPTS),
    (RuntimeError("a fault of the provider's own"), 1),
]
"""Faults, and how often a summary is asked for that each of them breaks."""


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("piece", PLACES)
@pytest.mark.parametrize(
    ("error", "asked"), FAULTS, ids=[type(error).__name__ for error, _ in FAULTS]
)
def test_a_turn_continues_with_the_old_history_wherever_its_compaction_fails(
    store, error: Exception, asked: int, piece: int
):
    lines = (says(LONG, tokens=150), *[says(SUMMARY)] * asked, says("two"))
    provider = Breaking(*lines, piece=piece, fault=raises(error))
    agent = agent_in(store, provider, threshold=100)
    events = list(agent.run("one"))
    assert provider.asked == asked
    assert retries(events) == list(range(1, asked))
    failed = [event for event in events if isinstance(event, CompactionFailed)]
    assert len(failed) == 1
    assert str(error).casefold() in failed[0].reason.casefold()
    assert events[-1] == TurnFinished("end_turn", 1)
    assert agent.session.history == agent.session.transcript
    assert statuses(store, agent) == ["running", "failed"]
    agent.provider = ScriptedProvider(says("two"))
    assert agent.ask("and now?") == "two"
    assert agent.provider.requests[0].history == tuple(agent.session.transcript[:3])
    assert reloaded(store, agent).history == agent.session.transcript


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("piece", PLACES)
def test_a_summary_that_broke_anywhere_is_asked_for_again_and_holds_no_half(
    store, piece: int
):
    def break_once() -> None:
        if provider.asked == 1:
            raise ProtocolFault("half an answer")

    lines = (says(LONG, tokens=150), says(SUMMARY), says(SUMMARY))
    provider = Breaking(*lines, piece=piece, fault=break_once)
    agent = agent_in(store, provider, threshold=100)
    events = list(agent.run("one"))
    assert (provider.asked, retries(events)) == (2, [1])
    assert not any(isinstance(event, CompactionFailed) for event in events)
    assert roles(agent) == ["summary"]
    text = summary_text(agent.session.history[0].content)
    assert text.count("It is a long story about a parcel") == 1
    assert statuses(store, agent) == ["running", "done"]
    assert reloaded(store, agent).history == agent.session.history


def retries(events: list[Event]) -> list[int]:
    return [event.attempt for event in events if isinstance(event, RetryScheduled)]


@pytest.mark.parametrize("piece", PLACES)
@pytest.mark.parametrize("how", ["stop", "interrupt", "exit"])
def test_the_next_turn_continues_with_the_old_history_wherever_one_is_stopped(
    store, how: str, piece: int
):
    flag = threading.Event()
    faults = {
        "stop": flag.set,
        "interrupt": raises(KeyboardInterrupt()),
        "exit": raises(SystemExit()),
    }
    lines = (says(LONG, tokens=150), says(SUMMARY))
    agent = agent_in(
        store, Breaking(*lines, piece=piece, fault=faults[how]), threshold=100
    )
    if how == "stop":
        events = list(agent.run("one", stop=flag))
        is_late = piece == PIECES  # the whole answer had come before the stop
        assert events[-1] == TurnFinished("end_turn" if is_late else "stopped", 1)
        assert isinstance(events[-2], Compacted if is_late else CompactionFailed)
        if is_late:
            return
    else:
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            list(agent.run("one"))
    assert agent.session.history == agent.session.transcript
    assert reloaded(store, agent).history == agent.session.transcript
    assert statuses(store, agent) == ["running", "failed"]
    agent.provider = ScriptedProvider(says("<summary>later</summary>"), says("two"))
    assert agent.ask("and now?") == "two"


@pytest.mark.parametrize(
    ("place", "error"),
    [*product(range(5), [KeyboardInterrupt]), (1, GeneratorExit), (4, RuntimeError)],
)
def test_a_caller_may_close_a_compaction_at_any_event(
    store, place: int, error: type[BaseException]
):
    busy = fails(Overloaded("busy", retry_after=0.0))
    agent = agent_in(
        store, ScriptedProvider(says(LONG), busy, busy, busy, says(SUMMARY), says("2"))
    )
    agent.ask("one")
    events = agent.compact()
    seen = [next(events) for _ in range(place + 1)]
    with pytest.raises(error):
        events.throw(error())  # type: ignore[attr-defined]
    is_new = isinstance(seen[-1], Compacted)
    assert is_new == (place == 4)
    assert [entry.role for entry in agent.session.history] == (
        ["summary"] if is_new else ["user", "assistant"]
    )
    assert reloaded(store, agent).history == agent.session.history
    assert statuses(store, agent) == ["running", "done" if is_new else "failed"]
    agent.ask("and now?")
    assert reloaded(store, agent).history == agent.session.history


def test_an_interrupt_at_any_line_of_a_turn_leaves_a_whole_saved_history(tmp_path):
    """Interrupts come between two lines, in the middle of a commit, too."""
    lines = lines_of_a_turn(SessionStore(f"sqlite:///{tmp_path / 'whole.db'}"))
    assert lines > 1_000
    for number in range(24):
        store = SessionStore(f"sqlite:///{tmp_path / f'{number}.db'}")
        agent = turning(store)
        with interrupt_at(number * lines // 24):
            list(agent.run("two"))
        whole = ["user", "assistant", "user", "assistant"]
        assert roles(agent) in (["summary"], whole[:2], whole[:3], whole)
        agent.provider = ScriptedProvider(says("<summary>later</summary>"), says("3"))
        agent.engine.tracker.set_threshold(100_000)
        list(agent.run("three"))
        loaded = reloaded(store, agent)
        store.close()
        assert loaded.history == agent.session.history
        assert loaded.transcript == agent.session.transcript
        assert agent.session.last_answer


def test_an_interrupt_while_autosave_notes_what_is_new_blocks_no_later_save(store):
    agent = turning(store)
    for line in range(1, 11):
        with interrupt_at(line, function="note_all"):
            list(agent.run("two"))
    list(agent.run("three"))
    assert reloaded(store, agent).transcript == agent.session.transcript


def turning(store: SessionStore) -> Agent:
    lines = (says(LONG), says(LONG, tokens=500), says(SUMMARY))
    agent = agent_in(store, ScriptedProvider(*lines), threshold=400)
    agent.ask("one")
    return agent


def roles(agent: Agent) -> list[str]:
    return [entry.role for entry in agent.session.history]


def lines_of_a_turn(store: SessionStore) -> int:
    agent = turning(store)
    tracer = Tracer(None)
    with tracer:
        list(agent.run("two"))
    assert roles(agent) == ["summary"]
    return tracer.passed


def interrupt_at(line: int, function: str = "") -> "Tracer":
    return Tracer(line, function)


class Tracer:
    """Raises KeyboardInterrupt at a line of nbchat's or the database's code.

    With a `function` only lines of functions of that name count.
    """

    def __init__(self, last: int | None, function: str = "") -> None:
        import sqlalchemy

        self.passed = 0
        self._last = last
        self._function = function
        modules = (nbchat, sqlalchemy)
        self._folders = tuple(str(Path(m.__file__ or "").parent) for m in modules)
        self._before = sys.gettrace()

    def __enter__(self) -> None:
        sys.settrace(self._call)

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> bool:
        sys.settrace(self._before)
        return kind is KeyboardInterrupt

    def _call(self, frame: FrameType, _event: str, _argument: object):
        code, name = frame.f_code, self._function
        is_ours = code.co_filename.startswith(self._folders)
        return self._line if is_ours and name in ("", code.co_name) else None

    def _line(self, _frame: FrameType, event: str, _argument: object):
        if event == "line":
            self.passed += 1
            if self.passed - 1 == self._last:
                raise KeyboardInterrupt
        return self._line


def statuses(store: SessionStore, agent: Agent) -> list[str]:
    """Of every record in the database, in the order in which they were saved."""
    query = "SELECT content_json FROM session_snapshots ORDER BY number"
    rows = in_database(store, query)
    return [json.loads(content)["record"]["status"] for (content,) in rows]


def in_database(store: SessionStore, statement: str) -> list[tuple[str, ...]]:
    """What a statement answers in the store's file, behind the store's back."""
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as database:
        rows = database.execute(statement).fetchall()
        database.commit()
    return rows


@pytest.mark.slow
def test_killed_at_40_points_the_history_is_the_old_or_the_new_one(tmp_path):
    script = [
        sys.executable,
        str(HERE / "crash_children.py"),
        str(tmp_path),
        str(KILLS),
    ]
    done = subprocess.run(script, check=True, capture_output=True, text=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == KILLS
    assert all(each["was_killed"] for each in told)
    assert sum("saved" not in each["told"] for each in told) > KILLS / 3
    before = view_in(tmp_path / "template.db")
    after = view_in(tmp_path / "survivor.db")
    assert before[0] == ("old", "two", LONG)
    assert after[0] == ("new",)
    outcomes = set()
    for each in told:
        found = view_in(tmp_path / f"{each['number']}.db")
        assert found in (before, after), each
        assert found == after or "saved" not in each["told"], each
        outcomes.add(found[0])
    assert len(outcomes) == 2  # some were killed before the commit, some after


def view_in(file: Path) -> tuple[tuple[str, ...], tuple[object, ...]]:
    """View and transcript as they are loaded from a sound file in which nothing runs."""
    store = SessionStore(f"sqlite:///{file}")
    assert in_database(store, "PRAGMA integrity_check") == [("ok",)]
    session = store.load("s")
    store.close()
    assert all(record.status != "running" for record in session.compactions)
    view = (
        summary_text(entry.content).split()[0]
        if entry.role == "summary"
        else entry.content
        for entry in session.history
    )
    return tuple(view), tuple(session.transcript)


def test_a_compaction_without_an_end_is_loaded_as_failed(store):
    agent = agent_in(store, ScriptedProvider(says(LONG), says(SUMMARY)))
    agent.ask("one")
    events = agent.compact()
    assert isinstance(next(events), CompactionStarted)
    loaded = reloaded(store, agent)
    assert [record.status for record in loaded.compactions] == ["failed"]
    assert loaded.compactions[0].reason == "The kernel stopped while it ran."
    assert loaded.history == loaded.transcript
    assert isinstance(list(events)[-1], Compacted)
    assert [c.status for c in reloaded(store, agent).compactions] == ["done"]


def test_a_regeneration_without_an_end_leaves_the_summary_in_force(store):
    lines = (says(LONG), says(SUMMARY), says(SUMMARY))
    agent = agent_in(store, ScriptedProvider(*lines))
    agent.ask("one")
    list(agent.compact())
    view, cost = agent.session.history, agent.session.usage
    events = agent.regenerate_compaction()
    next(events)
    loaded = reloaded(store, agent)
    assert [record.status for record in loaded.compactions] == ["done", "failed"]
    assert loaded.history == view
    assert loaded.usage == cost
    events.close()  # type: ignore[attr-defined]
    assert agent.session.history == view
    assert reloaded(store, agent).history == view
    list(agent.undo_compaction())
    assert agent.session.history == agent.session.transcript


def saving(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, SavingFailed)]


def test_a_compaction_that_cannot_be_saved_says_so_and_is_saved_when_it_can(store):
    agent = agent_in(store, ScriptedProvider(says(LONG), says(SUMMARY), says("two")))
    agent.ask("one")
    in_database(store, "ALTER TABLE session_snapshots RENAME TO elsewhere")
    reasons = saving(list(agent.compact()))
    (reason,) = reasons
    assert "Not saved since " in reason
    assert "no such table: session_snapshots" in reason
    assert roles(agent) == ["summary"]
    in_database(store, "ALTER TABLE elsewhere RENAME TO session_snapshots")
    list(agent.run("two"))
    assert reloaded(store, agent).history == agent.session.history
    assert roles(agent) == ["summary", "user", "assistant"]
