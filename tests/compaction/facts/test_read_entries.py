"""What facts are made of is read once from each entry."""

import json
import pickle
import zlib
from itertools import islice

import pytest
from generated_records import transcripts
from measures import COUNTER

from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.facts.entities import MOST_CALLS
from nbchat.compaction.facts.facts import collect_facts
from nbchat.compaction.facts.read_entries import KEPT_NAMES, ReadEntries, Readings
from nbchat.compaction.facts.rules import rules_in_force
from nbchat.compaction.facts.summary_quotes import verified_quotes
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.testing import ScriptedProvider, says

SUMMARY = "<summary>\nIt went on.\n</summary>"
BUDGET = 600

ALL = {"budget_tokens": 10**9, "counter": COUNTER}


def orders(count: int, start: int = 0) -> list[Entry]:
    """Four entries about each of so many orders."""
    found = []
    for number in range(start, start + count):
        order, call = f"SO-{number}", f"c{number}"
        result = {"order_id": order, "status": "open", "total": f"{number}.50"}
        found += [
            Entry("user", f"What about {order} of Ann Lee? Never ship {order} late."),
            Entry("assistant", "", call, "get_order", json.dumps({"order_id": order})),
            Entry("tool", json.dumps(result), call, "get_order"),
            Entry("assistant", f"{order} is open."),
        ]
    return found


def facts(entries: list[Entry], read: ReadEntries | None = None):
    return collect_facts(
        entries, len(entries), budget_tokens=BUDGET, counter=COUNTER, read=read
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_facts_of_entries_read_in_pieces_are_those_of_entries_read_at_once(seed):
    (entries,) = islice(transcripts(iter([seed])), 1)
    entries += orders(12)
    readings = Readings()
    for stop in range(1, len(entries) + 1, 3):
        with readings.of(entries[:stop]) as read:
            assert facts(entries[:stop], read) == facts(entries[:stop])
            quotes = rules_in_force(entries[:stop], messages=read.messages)
        assert quotes == rules_in_force(entries[:stop])
    assert readings.entries_read == stop


def test_of_many_names_the_newest_are_remembered():
    read = ReadEntries()
    count = 2 * KEPT_NAMES + 1
    names = [f"SO-{number}x" for number in range(count)]
    lists = (names[start : start + 50] for start in range(0, count, 50))
    read.update([Entry("user", f"And {', '.join(each)}?") for each in lists])
    assert len(read.named) == KEPT_NAMES
    assert f"SO-{count - 1}x" in read.named
    assert "SO-0x" not in read.named


def test_a_call_that_was_open_counts_as_answered_once_its_result_is_there():
    entries, readings = orders(1), Readings()
    for stop in (2, 3, 4):
        with readings.of(entries[:stop]) as read:
            assert facts(entries[:stop], read) == facts(entries[:stop])


def test_changed_or_fewer_entries_are_read_again():
    readings, entries = Readings(), orders(3)
    changed = [*entries[:2], entries[2].with_content("{}"), *entries[3:]]
    for each in (entries, changed, changed[:4], entries):
        with readings.of(each) as read:
            assert facts(each, read) == facts(each)
    assert readings.entries_read == 12 + 12 + 4 + 12


def test_rows_are_made_once_however_often_a_compaction_asks_for_its_facts():
    readings, entries = Readings(), orders(3)
    with readings.of(entries) as read:
        assert facts(entries, read) == facts(entries)
        (rows,) = read.rows.values()
        assert facts(entries, read) == facts(entries)
        assert next(iter(read.rows.values())) is rows
    entries += orders(1, start=9)
    with readings.of(entries) as read:
        assert facts(entries, read) == facts(entries)


def test_two_compactions_at_once_do_not_share_a_reading():
    readings, entries = Readings(), orders(3)
    with readings.of(entries) as first, readings.of(entries[:4]) as second:
        assert facts(entries, first) == facts(entries)
        assert facts(entries[:4], second) == facts(entries[:4])


def test_a_pickled_engine_leaves_behind_what_was_read():
    readings = Readings()
    with readings.of(orders(3)):
        pass
    assert pickle.loads(pickle.dumps(readings)).entries_read == 0


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [20, 200])
def test_a_second_compaction_reads_only_the_entries_said_since_the_first(earlier):
    covered = Compaction("c", 0, earlier * 4, SUMMARY)
    session = Session(orders(earlier + 20))
    session.compactions.append(covered)
    engine, provider = CompactionEngine(None), ScriptedProvider(*[says(SUMMARY)] * 2)

    def compact() -> int:
        before = engine._readings.entries_read
        record = yield_from(engine.compact(session, provider, engine.plan(session)))
        assert record.status == "done"
        session.compactions.append(record)
        return engine._readings.entries_read - before

    assert compact() == len(session.transcript)
    for entry in orders(20, start=1_000):
        session.append(entry)
    assert compact() == 80


@pytest.mark.slow
def test_a_later_compaction_leaves_compressed_what_was_said_long_ago():
    session = Session()
    engine, provider = CompactionEngine(None), ScriptedProvider(*[says(SUMMARY)] * 9)

    def talk_and_compact(count: int) -> Compaction:
        for number in range(count):
            session.append(Entry("user", f"Where is order W{number:05d}?"))
            session.append(Entry("assistant", "It is on its way to Hamburg. " * 5))
        record = yield_from(engine.compact(session, provider, engine.plan(session)))
        session.compactions.append(record)
        return record

    for count in (2_000, 40, 40, 40, 40):
        assert talk_and_compact(count).status == "done"
    parts = session.transcript._parts
    for number, part in enumerate(parts[:8]):
        parts[number] = part._replace(data=b"")  # it can no longer be read
    with pytest.raises(zlib.error):
        list(session.transcript)
    assert talk_and_compact(40).status == "done"


def yield_from(run):
    """The result of a generator."""
    while True:
        try:
            next(run)
        except StopIteration as end:
            return end.value


@pytest.mark.slow
def test_rows_are_made_from_a_bounded_number_of_calls():
    """The chat may go on for years; what is older can be recalled."""
    first, other = orders(1), orders(1, start=700_001)[1:3]
    again = [
        each._replace(tool_id=f"a{n}") for n in range(MOST_CALLS) for each in other
    ]

    def entities(entries: list[Entry]) -> set[str]:
        found = collect_facts(entries, len(entries), **ALL).facts
        return {fact.entity for fact in found if fact.field == "status"}

    assert entities([*first, *again]) == {"SO-700001"}
    assert entities([*first, *again[2:]]) == {"SO-0", "SO-700001"}


def test_a_message_that_states_nothing_is_not_kept_and_loses_no_rule():
    quiet = [Entry("user", f"Where is order W{n}?") for n in range(50)]
    reading = ReadEntries([*quiet, Entry("user", "Never call a customer by phone.")])
    assert [message.index for message in reading.messages] == [50]
    entries = [*quiet, Entry("user", "Costs go to centre 4711, as we said.")]
    story = 'The user said: "Costs go to centre 4711, as we said."'
    quotes = verified_quotes(story, entries)
    messages = ReadEntries(entries).messages
    found = rules_in_force(entries, verified=quotes, messages=messages)
    assert found == rules_in_force(entries, verified=quotes) == quotes
