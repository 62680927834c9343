"""Every statement of every facts block is found in its source; none is false.

`support/truth.py` reads the text of a block as a model does, and judges it by the
transcript alone. `benchmarks/truth.py` prints the same for more conversations.
"""

import json
from random import Random

import pytest
from generated_records import Transcripts, acted, own_id
from generated_shapes import ShapedTranscripts, own_id_in_shapes
from hypothesis import given, settings
from hypothesis import strategies as st
from measures import compacted, desks, singles
from trajectories import read_trajectories
from truth import Judge

from nbchat.compaction.summary_format import summary_facts
from nbchat.conversation.entries import Entry, Fact
from nbchat.conversation.session import Session

RUNS = read_trajectories()


def judged(session: Session, **known) -> tuple[int, list[str]]:
    """The number of statements in its summary, and what is false of them."""
    if session.compaction is None:
        return 0, []
    judge = Judge(session.transcript[: session.compaction.stop], **known)
    false = judge.false(summary_facts(session.compaction.summary))
    return judge.checked, false


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cases", "least"),
    [
        (lambda: singles(RUNS), 1_000),
        (lambda: desks(RUNS, count=6, shares=(0.5, 0.75), seed=21), 500),
    ],
    ids=["recorded conversations", "desks of conversations"],
)
def test_no_statement_is_false_and_each_fact_is_in_what_it_names(cases, least):
    checked = 0
    for case in cases():
        session = compacted(case.covered)
        count, false = judged(session)
        checked += count
        assert false == []
        for fact in session.compaction.facts if session.compaction else ():
            assert_is_in_its_source(fact, session)
    assert checked > least


@pytest.mark.slow
@settings(max_examples=50, derandomize=True)  # `truth.py --generated N` has new ones
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 25))
def test_no_statement_about_generated_records_is_false(seed: int, steps: int):
    entries = Transcripts(Random(seed)).build(steps)
    _, false = judged(compacted(entries), own_id=own_id, acts=acted)
    assert false == []


def assert_is_in_its_source(fact: Fact, session: Session) -> None:
    """A fact as data is in the result or call it names."""
    said = session.transcript[fact.position]
    texts = [said.content]
    if said.role == "tool":
        made = [e for e in session.transcript if e.tool_id == said.tool_id]
        texts += [entry.tool_args for entry in made]
    plain = [" ".join(_unescaped(text).split()) for text in texts]
    value = fact.value.removesuffix("…").strip()
    assert any(value in text for text in plain), fact


def _unescaped(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text


# What the judge finds, so that finding nothing means something.

FLIGHTS = [
    Entry("user", "Which flights are there?"),
    Entry("assistant", "", "a", "search", '{"origin": "MSP", "destination": "EWR"}'),
    Entry("tool", '[{"flight": "HAT1", "price": 90}]', "a", "search"),
    Entry("assistant", "", "b", "search", '{"origin": "EWR", "destination": "MSP"}'),
    Entry("tool", '[{"flight": "HAT2", "price": 80}]', "b", "search"),
    Entry("assistant", "", "c", "get_order", '{"order_id": "W1"}'),
    Entry(
        "tool",
        '{"customer_id": "C7", "order_id": "W1", "status": "open",'
        ' "items": [{"id": "i1", "color": "red"}, {"id": "i2", "color": "blue"}]}',
        "c",
        "get_order",
    ),
    Entry("assistant", "", "d", "get_order", '{"order_id": "W1"}'),
    Entry(
        "tool",
        '{"customer_id": "C7", "order_id": "W1", "status": "closed",'
        ' "items": [{"id": "i1", "color": "red"}, {"id": "i2", "color": "blue"}]}',
        "d",
        "get_order",
    ),
    Entry("assistant", "", "e", "cancel_order", '{"order_id": "W1"}'),
    Entry("tool", '{"success": false}', "e", "cancel_order"),
]


def acts(source) -> bool:
    return "false" not in source.content and source.tool == "cancel_order"


@pytest.mark.parametrize(
    "lines",
    [
        ["search(origin: MSP, destination: EWR):", "flight: HAT1 | price: 90"],
        ["order_id: W1 | status: closed"],
        ["order_id: W1 | items (id, color): i1, red; i2, blue"],
        ["[order_id | status | items (id)]", "W1 | … | i1 +1 more"],
        ["Tried, and failed:", "cancel_order(order_id: W1)"],
        ["Calls made: 5 in all"],
        ["Last request:", '- "Which flights are there?"'],
        ["May wait:", '- "Which flights are there?" (customer_id: C7)'],
    ],
    ids=lambda lines: lines[-1],
)
def test_what_is_true_is_found(lines):
    assert Judge(FLIGHTS, own_id=own_id, acts=acts).false(lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["search(origin: MSP, destination: EWR):", "flight: HAT2 | price: 80"],
        ["search(origin: EWR, destination: MSP):", "flight: HAT1 | price: 90"],
        ["search(origin: EWR, destination: MSP):", "flight: HAT2 | price: 90"],
        ["order_id: W1 | status: open"],
        ["order_id: W2 | status: closed"],
        ["customer_id: C7 | status: closed"],
        ["order_id: W1 | items (id, color): i1, blue"],
        ["[order_id | status | items (id)]", "W1 | - | i1 +1 more"],
        ["Done, not to be done again:", "cancel_order(order_id: W1)"],
        ["Tried, and failed:", "cancel_order(order_id: W3)"],
        ["Calls made: 6 in all"],
        ["Last request:", '- "Cancel everything."'],
        ["May wait:", '- "Which flights are there?" (customer_id: C8)'],
        ["W1 closed"],
    ],
    ids=lambda lines: lines[-1],
)
def test_what_is_false_is_noticed(lines):
    assert Judge(FLIGHTS, own_id=own_id, acts=acts).false(lines) != []


@pytest.mark.slow
@settings(max_examples=40, derandomize=True)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 25))
def test_no_statement_about_results_in_the_forms_of_apis_is_false(
    seed: int, steps: int
):
    entries = ShapedTranscripts(Random(seed)).build(steps)
    _, false = judged(compacted(entries), own_id=own_id_in_shapes, acts=acted)
    assert false == []
