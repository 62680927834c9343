"""Decisions about many entities, as one table."""

import json
from itertools import count
from random import Random

import pytest
from truth import Judge

from nbchat.compaction.facts.facts import collect_facts
from nbchat.conversation.entries import Entry
from nbchat.providers.tokens import TokenCounter

NUMBERS = count()


def did(tool: str, answer: str, **arguments: object):
    """A call and its result."""
    number = str(next(NUMBERS))
    return [
        Entry("assistant", "", number, tool, json.dumps(arguments)),
        Entry("tool", answer, number, tool),
    ]


def lines_of(*said: Entry, budget: int = 500) -> list[str]:
    counter = TokenCounter()
    found = collect_facts(said, len(said), budget_tokens=budget, counter=counter)
    return list(found.lines)


def row_with(lines: list[str], *values: str) -> str:
    return next(line for line in lines if all(value in line for value in values))


def decided(count: int) -> list:
    chance, said = Random(1), []
    for number in range(1, count + 1):
        category = f"category_{chance.randint(1, 9)}"
        for tool, name, value in (
            ("set_category", "category", category),
            ("set_priority", "priority", chance.choice(["low", "high"])),
        ):
            said += did(tool, f"T{number:03}: {name} {value}", **{name: value})
        said += did("reply", f"T{number:03}: saved", text="We are looking into it.")
    return said


def test_each_entity_is_a_row_with_its_decisions():
    said = decided(40)
    lines = lines_of(*said, budget=600)
    assert "[for | set_category(category) | set_priority(priority)]" in lines
    for call in said:
        if call.is_call and call.tool_name == "set_category":
            result = said[said.index(call) + 1].content
            assert row_with(lines, result[:4], call.arguments["category"])


def test_an_action_with_the_same_words_names_its_entities_as_a_range():
    assert "reply(text: We are looking into it.) for: T001 to T040" in lines_of(
        *decided(40), budget=600
    )


def test_with_little_space_the_most_important_decision_takes_all():
    lines = lines_of(*decided(40), budget=400)
    assert "[for | set_category(category)]" in lines


def test_a_later_decision_replaces_the_earlier_one():
    said = [*decided(5), *did("set_category", "T002: category new", category="new")]
    rows = [line for line in lines_of(*said) if line.startswith("T002 | ")]
    assert len(rows) == 1
    assert rows[0].startswith("T002 | new | ")


def test_ids_with_a_gap_are_not_one_range():
    said = []
    for number in (1, 2, 3, 5, 6, 9, 10, 11):
        said += did("close_ticket", f"T{number}: closed")
    assert "close_ticket() for: T1 to T3, T5, T6, T9 to T11" in lines_of(*said)


@pytest.mark.parametrize(
    "lines",
    [
        ["[for | set_category(category)]", "T001 | category_0"],
        ["[for | set_category(category) | reply(text)]", "T001 | … | -"],
        [
            "Done, not to be done again:",
            "reply(text: We are looking into it.) for: T001 to T041",
        ],
    ],
    ids=lambda lines: lines[-1],
)
def test_the_judge_notices_a_false_decision(lines):
    assert Judge(decided(40)).false(lines) != []


def test_every_decision_is_true():
    said = decided(40)
    assert Judge(said).false(lines_of(*said, budget=600)) == []
