"""How the parts share one allowance, and what stands in an entry at last."""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.memory.lines import Line, Uses, fitting
from nbchat.compaction.memory.memory import (
    SHARES,
    TITLES,
    Material,
    Memory,
    Reading,
    Readings,
    memory_of,
    shared_out,
)
from nbchat.conversation.entries import Entry, Fact, Rule
from nbchat.conversation.session import Session
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import ScriptedProvider, says

COUNT = TokenCounter().count


def look_up(number: int) -> list[Entry]:
    order = f"W{number:07d}"
    found = {"order_id": order, "status": "sent", "street": f"{number} Oak Street"}
    asked = json.dumps({"order_id": order})
    return [
        Entry("user", f"Where is {order}? My neighbour asks for it, too."),
        Entry("assistant", "", f"c{number}", "get_order", asked),
        Entry("tool", json.dumps(found), f"c{number}", "get_order"),
        Entry("assistant", f"{order} was sent to {number} Oak Street."),
    ]


def desk(count: int) -> list[Entry]:
    return [entry for number in range(count) for entry in look_up(number)]


def talk(count: int) -> list[Entry]:
    return [
        entry
        for number in range(count)
        for entry in (
            Entry("user", f"I think that plan {number} is better. " * 3),
            Entry("assistant", f"It is, for plan {number} costs less. " * 3),
        )
    ]


def reading_of(entries: Sequence[Entry]) -> Reading:
    reading = Reading()
    reading.update(entries, {})
    return reading


def memory(entries: Sequence[Entry], budget: int, **material: object) -> Memory:
    return memory_of(reading_of(entries), Material(**material), budget, COUNT)


def tokens(memory: Memory, *parts: str) -> int:
    chosen = [line for line in memory.lines if not parts or line.part in parts]
    return sum(COUNT(line.text) + 1 for line in chosen)


def text(memory: Memory, *parts: str) -> str:
    return "\n".join(e.text for e in memory.lines if not parts or e.part in parts)


# The allowance


def test_what_one_part_leaves_the_others_take_by_their_shares():
    needed = {"variables": 0, "work": 5_000, "calls": 10, "records": 5_000}
    given = shared_out(1_010, needed)
    assert given["variables"] == 0
    assert given["calls"] == 10
    total = SHARES["work"] + SHARES["records"]
    assert given["work"] == int(1_000 * SHARES["work"] / total)
    assert given["records"] == int(1_000 * SHARES["records"] / total)


@pytest.mark.slow
@given(
    st.integers(-50, 5_000),
    st.dictionaries(st.sampled_from([*SHARES]), st.integers(0, 9_000)),
)
def test_no_part_gets_more_than_it_needs_and_all_no_more_than_there_is(room, needed):
    given = shared_out(room, needed)
    assert given.keys() == needed.keys()
    assert all(0 <= given[name] <= needed[name] for name in needed)
    assert sum(given.values()) <= max(room, 0)
    if sum(needed.values()) <= room:
        assert given == needed


@pytest.mark.slow
def test_words_leave_room_for_the_rest_where_tools_were_used_and_take_all_else():
    with_tools = memory(desk(200), 2_000)
    assert 0.4 * 2_000 < tokens(with_tools, "words") <= 0.75 * 2_000
    assert tokens(with_tools) > 0.9 * 2_000
    without = memory(talk(200), 2_000)
    assert tokens(without, "words") > 0.95 * 2_000


def test_what_words_leave_is_for_the_answers_and_the_calls():
    entries = [Entry("user", "Go on."), *desk(60)[1:4], *(desk(60)[4:])]
    few = [each for each in entries if not each.is_of_user or each is entries[0]]
    found = memory(few, 2_000)
    assert tokens(found, "words") < 100
    assert tokens(found) > 0.8 * 2_000


@pytest.mark.slow
@pytest.mark.parametrize("budget", [-5, 0, 10, 40, 80, 200, 900, 3_000])
@pytest.mark.parametrize("said", [desk(3), desk(90), talk(3), talk(90)])
def test_a_memory_is_never_larger_than_its_allowance(budget: int, said: list[Entry]):
    rules = tuple(
        Rule(f"Rule {n}: always write the date of order W{n}.", n) for n in range(9)
    )
    variables = tuple(f"- frame_{n}: DataFrame of {n} rows" for n in range(40))
    found = memory(said, budget, rules=rules, variables=variables)
    assert tokens(found) <= max(budget, 0)


@pytest.mark.slow
def test_a_memory_does_not_end_with_a_title_that_nothing_follows():
    for budget in range(0, 1_500, 50):
        lines = [line.text for line in memory(desk(40), budget).lines]
        for line, after in pairwise([*lines, ""]):
            if line in TITLES.values():
                assert after not in ("", *TITLES.values())


def test_rules_take_at_most_a_quarter_and_the_newest_stay():
    rules = tuple(
        Rule(f"Rule {n}: always write the date of order W{n}.", n) for n in range(90)
    )
    found = memory(desk(90), 1_000, rules=rules)
    assert 150 < tokens(found, "rules") <= 250 + COUNT(TITLES["rules"]) + 1
    assert "Rule 89:" in text(found, "rules")
    assert "Rule 0:" not in text(found, "rules")
    assert "rules (0 to " in text(found, "newest")


# What stands there


def test_the_parts_stand_in_their_order_each_once_below_its_title():
    rule = Rule("Where is W0000001?", 4)
    variables = ("- orders: list of 3 items",)
    found = memory(desk(3), 3_000, rules=(rule,), variables=variables)
    parts = list(dict.fromkeys(line.part for line in found.lines))
    order = ["rules", "words", "work", "calls", "records", "newest"]
    assert parts == [part for part in order if part in parts]
    assert {"rules", "words", "work", "records"} <= {*parts}
    lines = [line.text for line in found.lines]
    assert all(lines.count(title) <= 1 for title in TITLES.values())


def test_every_line_tells_where_it_is_from():
    said = desk(5)
    for line in memory(said, 3_000).lines:
        if line.position is not None and line.part == "words":
            assert said[line.position].content in line.text


@pytest.mark.slow
def test_what_found_no_room_is_counted_with_its_positions():
    found = memory(desk(200), 600)
    shown = {line.position for line in found.lines if line.part == "words"}
    missing = [n for n in range(0, 800, 4) if n not in shown]
    note = f"{len(missing):,} messages ({missing[0]} to {missing[-1]})"
    assert note in found.lines[-1].text
    assert "not shown here; recall finds it)" in found.lines[-1].text
    assert "not shown" not in text(memory(desk(3), 3_000))


def test_lines_whose_values_the_summary_states_come_last():
    lines = [
        Line(f"row {n}", n, (Fact("", "id", f"W{n}", n), Fact("", "to", f"P{n}", n)))
        for n in range(10)
    ]
    told = "W9 goes to P9, W8 to P8 and W7 elsewhere."
    room = 3 * (COUNT("row 1") + 1)
    kept = fitting(lines, room, COUNT, uses=Uses(), summary=told)
    assert [line.text for line in kept] == ["row 5", "row 6", "row 7"]
    newest = fitting(lines, room, COUNT, uses=Uses())
    assert [line.text for line in newest] == ["row 7", "row 8", "row 9"]


def test_of_variables_that_do_not_all_fit_those_named_last_stand():
    variables = [Line(f"- frame_{n}: int {n}", None) for n in range(40)]
    room = 3 * (COUNT(variables[0].text) + 1)
    assert fitting(variables, room, COUNT, uses=Uses()) == variables[:3]


def test_the_calls_of_recall_are_no_work_and_no_use():
    said = [
        Entry("user", "Look it up."),
        Entry("assistant", "", "1", "recall", '{"query": "W0000077"}'),
        Entry("tool", '{"id": "W0000077", "status": "gone"}', "1", "recall"),
        Entry("assistant", "It is gone."),
    ]
    reading = reading_of(said)
    assert not reading.has_calls
    assert reading.uses.last(Line("", 0, names=("W0000077",))) == -1
    assert reading.records.rows() == []


# Reading


@pytest.mark.slow
def test_reading_what_is_new_gives_the_same_memory_as_reading_all_at_once():
    said = [*desk(12), *talk(6), *desk(20)]
    for step in (1, 3, 7, 50):
        readings = Readings()
        for stop in [*range(step, len(said), step), len(said)]:
            with readings.of(said[:stop]) as reading:
                pass
        grown = memory_of(reading, Material(), 2_000, COUNT)
        assert grown == memory(said, 2_000)


def test_a_reading_goes_on_where_it_ended_and_begins_again_where_a_message_changed():
    said, readings = desk(8), Readings()
    with readings.of(said[:16]) as first:
        pass
    with readings.of(said) as second:
        pass
    assert second is first
    changed = [Entry("user", "(excluded)"), *said[1:]]
    with readings.of(changed) as third:
        pass
    assert third is not first
    assert "W0000000? My" not in text(memory_of(third, Material(), 3_000, COUNT))


def test_two_compactions_at_once_do_not_share_a_reading():
    readings = Readings()
    with readings.of(desk(2)) as one, readings.of(desk(2)) as other:
        assert one is not other


def compacted(session: Session, *summaries: str, policy: str = "single-summary"):
    told = [says(f"<summary>{summary}</summary>") for summary in summaries]
    agent = Agent(
        ScriptedProvider(*told),
        engine=CompactionEngine(policy=policy),
        session=session,
    )
    list(agent.compact(keep=0))
    return agent


def test_an_excluded_message_is_in_no_part_of_the_next_memory():
    session = Session(desk(20))
    agent = compacted(session, "About W0000003.", "About W0000003.")
    assert "17 Oak Street" in session.compaction.summary
    list(agent.undo_compaction())
    for position in (68, 70, 71):
        list(agent.exclude(position))
    list(agent.compact(keep=0))
    record = session.compactions[-1]
    kept = f"{record.summary}{record.memory}{record.facts}"
    assert record.status == "done"
    assert "W0000016" in kept
    assert "Where is W0000017?" not in kept
    assert "17 Oak Street" not in kept
