"""Compactions and their changes: what is committed, reported and survived."""

import contextlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.events import (
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProposed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    Event,
    PinsChanged,
)
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, Stopped
from nbchat.providers.base import Request
from nbchat.testing import Line, ScriptedProvider, ScriptedReply, says

LONG = "The customer asks about order W100 and its parcel, which is late. " * 12

LATE = (("user", "Where is W100?"), ("assistant", LONG))


def agent_with(
    *lines: ScriptedReply, engine: CompactionEngine | None = None, **options: object
) -> Agent:
    session = Session(LATE)
    engine = engine or CompactionEngine()
    return Agent(ScriptedProvider(*lines), engine=engine, session=session, **options)  # type: ignore[arg-type]


def summary(text: str) -> Line:
    return says(f"<summary>{text}</summary>")


def test_every_change_of_the_history_has_an_event_and_no_event_claims_one_falsely():
    agent = agent_with(summary("A"), summary("B"), *[says("no")] * 4)
    steps = [
        (agent.undo_compaction, CompactionSkipped, False),
        (agent.redo_compaction, CompactionSkipped, False),
        (lambda: agent.edit_compaction("mine"), CompactionSkipped, False),
        (agent.regenerate_compaction, CompactionSkipped, False),
        (agent.compact, Compacted, True),
        (agent.compact, CompactionSkipped, False),
        (lambda: agent.edit_compaction("mine"), CompactionChanged, True),
        (agent.regenerate_compaction, CompactionChanged, True),
        (agent.regenerate_compaction, CompactionFailed, False),
        (agent.undo_compaction, CompactionUndone, True),
        (agent.compact, CompactionFailed, False),
        (agent.redo_compaction, CompactionChanged, True),
        (lambda: agent.exclude(1), NbchatError, False),
        (agent.undo_compaction, CompactionUndone, True),
        (lambda: agent.exclude(1), Compacted, True),
        (lambda: agent.include(1), CompactionUndone, True),
        (lambda: agent.pin("a rule"), PinsChanged, False),
    ]
    for step, kind, changes in steps:
        before, session = agent.session.history, agent.session
        if kind is NbchatError:
            with pytest.raises(NbchatError):
                list(step())
            continue
        events: list[Event] = list(step())
        assert isinstance(events[-1], kind)
        assert (session.history != before) == changes
        started = [e for e in events if isinstance(e, CompactionStarted)]
        assert all(isinstance(e, CompactionStarted) for e in events[:-1])
        if started:
            assert started[0].compaction is not None
            assert started[0].compaction.status == "running"
            assert started[0].compaction.id == session.compactions[-1].id


def test_the_kinds_of_a_change_are_reported():
    agent = agent_with(summary("A"), summary("B"))
    list(agent.compact())
    changes = (
        lambda: agent.edit_compaction("mine"),
        agent.regenerate_compaction,
        agent.undo_compaction,
        agent.redo_compaction,
    )
    events = [list(change())[-1] for change in changes]
    found = [e.change for e in events if isinstance(e, CompactionChanged)]
    assert found == ["edited", "regenerated", "redone"]


def test_a_stop_ends_a_started_compaction_with_a_reason_and_passes_through():
    stop = threading.Event()
    stop.set()
    agent = agent_with(summary("A"))
    work = agent.compact(stop=stop)
    events = [next(work), next(work)]
    assert isinstance(events[1], CompactionFailed)
    assert (events[1].reason, events[1].compaction.code) == ("Stopped.", "Stopped")
    with pytest.raises(Stopped):
        next(work)
    assert agent.session.history == agent.session.transcript
    assert agent.engine.tracker.failures == 0


@every(
    ("end", "is_regenerated"),
    product([Stopped, KeyboardInterrupt, ZeroDivisionError], [False, True]),
)
def test_a_compaction_that_was_cut_off_keeps_its_cost(end, is_regenerated):
    def cut_off(_request: Request) -> Line:
        raise end

    first = [says("<summary>A</summary>", tokens=500)] * is_regenerated
    agent = agent_with(*first, says("no tags", tokens=2_000), cut_off)
    if is_regenerated:
        list(agent.compact())
    with contextlib.suppress(Stopped, KeyboardInterrupt):
        list(agent.regenerate_compaction() if is_regenerated else agent.compact())
    assert agent.session.compactions[-1].status == "failed"
    before = 500 if is_regenerated else 0
    assert agent.session.usage.input_tokens == 2_000 + before


def test_the_listener_gets_the_end_of_a_compaction_that_its_reader_closed():
    heard: list[Event] = []
    agent = agent_with(summary("A"), listener=heard.append)
    work = agent.compact()
    next(work)
    work.close()  # type: ignore[attr-defined]
    assert [type(event) for event in heard] == [CompactionStarted, CompactionFailed]
    assert agent.session.compactions[0].reason == "interrupted"
    assert agent.session.history == agent.session.transcript
    assert not agent.is_answering


def test_a_fault_of_ours_fails_the_compaction_and_not_the_chat():
    class Broken(CompactionEngine):
        def create_summary_request(self, *_rest: object, **_options: object) -> Any:
            raise ZeroDivisionError

    agent = agent_with(summary("A"), says("fine"), engine=Broken())
    events = list(agent.compact())
    assert isinstance(events[-1], CompactionFailed)
    assert events[-1].reason == "ZeroDivisionError()"
    assert agent.engine.tracker.failures == 1
    assert agent.session.history == agent.session.transcript
    assert agent.ask("go on")


def test_a_failed_regeneration_does_not_pause_the_meters():
    agent = agent_with(summary("A"), says("no"), says("no"))
    list(agent.compact())
    list(agent.regenerate_compaction())
    assert agent.engine.tracker.failures == 0


def test_a_pin_is_counted_in_tokens_before_it_is_kept():
    agent = agent_with()
    before = agent.engine.tracker.fixed_tokens
    for keep in (agent.pin, agent.checkpoint):
        with pytest.raises(NbchatError, match="pin can have 2,000"):
            list(keep("x " * 100_000))
    assert list(agent.pin("word " * 1_900)) == [PinsChanged(agent.session.pins)]
    assert agent.engine.tracker.fixed_tokens > before + 1_900
    assert list(agent.unpin(1)) == [PinsChanged(())]
    assert agent.engine.tracker.fixed_tokens == before


def test_a_session_without_a_summary_cannot_be_imported():
    with pytest.raises(NbchatError, match="no summary to import"):
        agent_with().import_summary(Session())


def asking_agent(
    *lines: ScriptedReply,
    window: int = 100_000,
    history: Sequence[tuple[str, str]] = LATE,
) -> Agent:
    policy = replace(PRESETS["single-summary"], asks_first=True)
    session = Session(history)
    return Agent(
        ScriptedProvider(*lines, window=window),
        engine=CompactionEngine(100, policy=policy),
        session=session,
    )


def kinds_of(events: Iterable[Event]) -> list[type]:
    """What is proposed and what is compacted."""
    wanted = (CompactionProposed, Compacted)
    return [type(each) for each in events if isinstance(each, wanted)]


def test_with_ask_a_compaction_is_proposed_once_and_waits_for_the_person():
    agent = asking_agent(
        says("One.", tokens=200), says("Two.", tokens=200), summary("W100 is late.")
    )
    assert kinds_of(agent.run("first")) == [CompactionProposed]
    assert kinds_of(agent.run("second")) == []
    assert agent.session.compaction is None
    assert kinds_of(agent.compact()) == [Compacted]


def test_with_ask_no_compaction_is_proposed_that_would_save_nothing():
    agent = asking_agent(says("One.", tokens=200), history=[*LATE, *LATE, *LATE])
    assert kinds_of(agent.run("first")) == []


def test_with_ask_the_window_guard_compacts_without_asking():
    agent = asking_agent(
        says("One.", tokens=3_500), summary("W100 is late."), window=4_000
    )
    assert CompactionProposed not in kinds_of(agent.run("first " * 2_500))
    assert agent.session.compaction is not None
