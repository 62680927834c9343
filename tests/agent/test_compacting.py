"""What the keeping small of a session tells, commits and survives."""

import contextlib
import threading

import pytest

from nbchat.agent.compacting import Upkeep
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.summarizer.prompts import Assignment
from nbchat.conversation.events import (
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    Event,
    PinsChanged,
)
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, Stopped
from nbchat.providers.base import Request
from nbchat.testing import Line, ScriptedProvider, says

LONG = "The customer asks about order W100 and its parcel, which is late. " * 12


def session() -> Session:
    return Session([("user", "Where is W100?"), ("assistant", LONG)])


def summary(text: str) -> Line:
    return says(f"<summary>{text}</summary>")


def test_every_change_of_the_view_has_an_event_and_no_event_lies_about_one():
    kept, provider = session(), ScriptedProvider(summary("A"), says("no tags"))
    provider = ScriptedProvider(
        summary("A"), summary("B"), says("no"), says("no"), says("no"), says("no")
    )
    upkeep = Upkeep(CompactionEngine())
    steps = [
        (lambda: upkeep.undo(kept), CompactionSkipped, False),
        (lambda: upkeep.redo(kept), CompactionSkipped, False),
        (lambda: upkeep.edit(kept, "mine"), CompactionSkipped, False),
        (lambda: regenerate(upkeep, kept, provider), CompactionSkipped, False),
        (lambda: compact(upkeep, kept, provider), Compacted, True),
        (lambda: compact(upkeep, kept, provider), CompactionSkipped, False),
        (lambda: upkeep.edit(kept, "mine"), CompactionChanged, True),
        (lambda: regenerate(upkeep, kept, provider), CompactionChanged, True),
        (lambda: regenerate(upkeep, kept, provider), CompactionFailed, False),
        (lambda: upkeep.undo(kept), CompactionUndone, True),
        (lambda: compact(upkeep, kept, provider), CompactionFailed, False),
        (lambda: upkeep.redo(kept), CompactionChanged, True),
        (lambda: upkeep.pin(kept, "a rule"), PinsChanged, False),
    ]
    for step, kind, changes in steps:
        before = kept.history
        events: list[Event] = list(step())
        assert isinstance(events[-1], kind)
        assert (kept.history != before) == changes
        began = [e for e in events if isinstance(e, CompactionStarted)]
        assert all(isinstance(e, CompactionStarted) for e in events[:-1])
        if began:
            assert began[0].compaction is not None
            assert began[0].compaction.status == "running"
            assert began[0].compaction.id == kept.compactions[-1].id


def compact(upkeep: Upkeep, kept: Session, provider: ScriptedProvider):
    return upkeep.compact(kept, provider, "manual", stop=None)


def regenerate(upkeep: Upkeep, kept: Session, provider: ScriptedProvider):
    return upkeep.regenerate(kept, provider, focus="", stop=None)


def test_a_stop_ends_what_was_begun_with_a_reason_and_goes_on_up():
    kept, stop = session(), threading.Event()
    stop.set()
    upkeep = Upkeep(CompactionEngine())
    work = upkeep.compact(kept, ScriptedProvider(summary("A")), "manual", stop=stop)
    events = [next(work), next(work)]
    assert isinstance(events[1], CompactionFailed)
    assert (events[1].reason, events[1].compaction.code) == ("stopped", "Stopped")
    with pytest.raises(Stopped):
        next(work)
    assert kept.history == kept.transcript


@pytest.mark.parametrize("end", [Stopped, KeyboardInterrupt, ZeroDivisionError])
def test_what_was_broken_off_keeps_what_it_had_cost(end: type[BaseException]):
    def broken_off(_request: Request) -> Line:
        raise end

    answers = says("no tags", tokens=2_000), broken_off
    for began in (compact, regenerate):
        kept, first = session(), says("<summary>A</summary>", tokens=500)
        upkeep, provider = Upkeep(CompactionEngine()), ScriptedProvider(*answers)
        if began is regenerate:
            list(compact(upkeep, kept, ScriptedProvider(first)))
        with contextlib.suppress(Stopped, KeyboardInterrupt):
            list(began(upkeep, kept, provider))
        assert kept.compactions[-1].status == "failed"
        before = 500 if began is regenerate else 0
        assert kept.usage.input_tokens == 2_000 + before


def test_an_interrupt_is_told_to_who_saves_since_nobody_reads_events_then():
    told: list[Event] = []
    kept = session()
    upkeep = Upkeep(CompactionEngine(), told.append)
    work = compact(upkeep, kept, ScriptedProvider(summary("A")))
    next(work)
    work.close()
    assert [type(event) for event in told] == [CompactionFailed]
    assert kept.compactions[0].reason == "interrupted"
    assert kept.history == kept.transcript


def test_a_fault_of_ours_fails_the_compaction_and_not_the_chat():
    class Broken(CompactionEngine):
        def _assignment(self, *_rest: object) -> Assignment:
            raise ZeroDivisionError

    kept, engine = session(), Broken()
    events = list(compact(Upkeep(engine), kept, ScriptedProvider(summary("A"))))
    assert isinstance(events[-1], CompactionFailed)
    assert events[-1].reason == "ZeroDivisionError()"
    assert engine.tracker.failures == 1
    assert kept.history == kept.transcript


def test_a_failed_rewrite_does_not_make_the_meters_rest():
    kept, engine = session(), CompactionEngine(100)
    upkeep = Upkeep(engine)
    provider = ScriptedProvider(summary("A"), says("no"), says("no"))
    list(compact(upkeep, kept, provider))
    list(regenerate(upkeep, kept, provider))
    assert engine.tracker.failures == 0


def test_a_pin_is_counted_in_tokens_before_it_is_kept():
    kept, upkeep = session(), Upkeep(CompactionEngine())
    with pytest.raises(NbchatError, match="pin may have 2,000"):
        list(upkeep.pin(kept, "x " * 100_000))
    assert list(upkeep.pin(kept, "word " * 1_900)) == [PinsChanged(kept.pins)]
    assert list(upkeep.unpin(kept, 1)) == [PinsChanged(())]
