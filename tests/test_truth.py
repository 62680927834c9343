"""Every line of every memory says what one place in the transcript says.

`support/truth.py` reads the lines of a record and judges them by the transcript alone.
`benchmarks/truth.py` prints the same for more conversations.
"""

from dataclasses import replace
from random import Random

import pytest
from generated_records import Transcripts, own_id
from generated_shapes import ShapedTranscripts, own_id_in_shapes
from hypothesis import given, settings
from hypothesis import strategies as st
from measures import compacted, desks, singles
from memory_cases import cases_of
from tables import every
from trajectories import read_trajectories
from truth import Judge

from nbchat.conversation.entries import Entry, Fact, MemoryLine
from nbchat.conversation.session import Session

RUNS = read_trajectories()


def judged(session: Session, **known) -> tuple[int, list[str]]:
    """The number of lines and values in its memory, and what is false of them."""
    if session.compaction is None:
        return 0, []
    judge = Judge(session.transcript[: session.compaction.stop], **known)
    false = judge.false(session.compaction)
    return judge.checked, false


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cases", "least"),
    [
        (lambda: singles(RUNS), 2_000),
        (lambda: desks(RUNS, count=6, shares=(0.5, 0.75), seed=21), 1_000),
        (lambda: cases_of("insight")[::4], 1_000),
        (lambda: cases_of("dseval")[::4], 1_000),
        (lambda: cases_of("sql")[::4], 1_000),
        (lambda: cases_of("assistant")[::6], 1_000),
        (lambda: cases_of("coding")[::3], 500),
    ],
    ids=["runs", "desks", "insight", "dseval", "sql", "assistant", "coding"],
)
def test_no_line_about_a_recorded_conversation_is_false(cases, least):
    checked = 0
    for case in cases():
        count, false = judged(compacted(case.covered))
        checked += count
        assert false == []
    assert checked > least


@pytest.mark.slow
def test_no_line_of_the_bullets_and_rules_of_a_policy_is_false():
    for case in cases_of("dseval")[::6]:
        assert judged(compacted(case.covered, policy="tiered"))[1] == []


@pytest.mark.slow
@settings(max_examples=50, derandomize=True)  # `truth.py --generated N` has new ones
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 25))
def test_no_line_about_generated_records_is_false(seed: int, steps: int):
    entries = Transcripts(Random(seed)).build(steps)
    assert judged(compacted(entries), own_id=own_id)[1] == []


@pytest.mark.slow
@settings(max_examples=40, derandomize=True)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 25))
def test_no_line_about_results_in_the_forms_of_apis_is_false(seed: int, steps: int):
    entries = ShapedTranscripts(Random(seed)).build(steps)
    assert judged(compacted(entries), own_id=own_id_in_shapes)[1] == []


# What the judge finds, so that finding nothing means something.

ENTRIES = [
    Entry("user", "Which flights are there? Never book before noon."),
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
    Entry("assistant", "Shall I cancel order W1?\nIt costs $10."),
    Entry("user", "Yes, and\n> he said: always pay cash.\ntell me when it is done."),
    Entry("assistant", "", "e", "cancel_order", '{"order_id": "W1"}'),
    Entry("tool", '{"exit_code": 3, "log": "denied"}', "e", "cancel_order"),
    Entry("assistant", "", "f", "run", '{"code": "total = 40\\nprint(df.head())"}'),
    Entry("tool", "   region  size\n0  north     3\n1  south    14", "f", "run"),
    Entry("assistant", "", "g", "run", '{"code": "total = 41\\nrate = 0.5\\ntotal"}'),
    Entry("tool", "41", "g", "run"),
    Entry("assistant", "", "h", "run", '{"code": "gone = 1 / 0"}'),
    Entry(
        "tool",
        "Traceback (most recent call last):\nZeroDivisionError: division by zero",
        "h",
        "run",
        '{"is_error": true}',
    ),
    Entry("assistant", "The order is not cancelled: denied."),
]
"""Two flights, an order that changes, an action that fails, and three cells."""

ORDER = "[order_id | status | items (id, color)]"
ITEMS = "i1, red; i2, blue"
FLIGHT = "search(origin: MSP, destination: EWR)"
ASKED = "(assistant: It costs $10.) "
SAID = "Yes, and\n  > he said: always pay cash.\n  tell me when it is done."
FAILED = "cancel_order(order_id: W1) → failed: {exit_code: 3, log: denied}"
DEFINED = "Defined by cells and queries:"
COLUMNS = "Columns and values that outputs show:"
DIVISION = "ZeroDivisionError: division by zero"
LAST = f"{DIVISION} (running: gone = 1 / 0)"


def false_of(part: str, heading: str, text: str, position: int) -> list[str]:
    """What is wrong with one line below a heading."""
    lines = [MemoryLine(part, heading, None), MemoryLine(part, text, position)]
    return Judge(ENTRIES, own_id=own_id).false_lines(lines)


@every(
    ("part", "heading", "text", "position"),
    [
        ("rules", "Rules:", '- "Never book before noon."', 0),
        ("words", "Words:", f"- {ASKED}{SAID}", 10),
        ("words", "Words:", f"- {SAID}", 10),
        ("words", "Words:", "- Yes, and [... 14 words; 10] it is done.", 10),
        (
            "words",
            "Words:",
            "- Yes, and… [cancel_order, run] → is not cancelled: …",
            10,
        ),
        ("work", DEFINED, "total = 41", 15),
        ("work", DEFINED, "total = 41  # then rate = 0.5", 15),
        ("work", "Written in calls that failed:", "gone = 1 / 0", 17),
        ("work", COLUMNS, "df.head(): region | size", 14),
        ("work", "Values named in calls:", "0.5 | 41", 15),
        ("work", "Last error:", LAST, 18),
        ("calls", "Look-ups:", f"{FLIGHT} → 1 record", 2),
        ("calls", "Look-ups:", "get_order(order_id: W1) (2 times) → 1 record", 8),
        ("calls", "Actions:", FAILED, 12),
        ("calls", "Actions:", 'run() code: "total = 41"… → "41"', 16),
        ("records", f"{FLIGHT}: [flight | price]", "HAT1 | 90", 2),
        ("records", ORDER, f"W1 | closed | {ITEMS}", 8),
        ("records", ORDER, "W1 | closed | i2, blue", 8),
        ("records", ORDER, f"W1 | closed | {ITEMS} | (before cancel_order)", 8),
        ("newest", "Newest:", "result: 41", 16),
        (
            "newest",
            "Newest:",
            "failed result: T\n  [62 characters omitted]\n  by zero",
            18,
        ),
        ("newest", "Newest:", "assistant: The order is ...", 19),
    ],
)
def test_what_is_true_is_found(part, heading, text, position):
    assert false_of(part, heading, text, position) == []


@every(
    ("part", "heading", "text", "position"),
    [
        ("rules", "Rules:", '- "book before noon."', 0),
        ("rules", "Rules:", '- "Never book after noon."', 0),
        ("rules", "Rules:", '- "he said: always pay cash."', 10),
        ("rules", "Rules:", '- "Shall I cancel order W1?"', 9),
        ("words", "Words:", "- Yes, and tell me when it is done.", 10),
        ("words", "Words:", f"- (assistant: It costs $9.) {SAID}", 10),
        ("words", "Words:", f"- {SAID}", 0),
        ("words", "Words:", "- Yes, and [... 15 words; 10]", 10),
        ("words", "Words:", "- Yes, and… [search] → is not cancelled: …", 10),
        ("words", "Words:", "- Yes, and… [cancel_order, run] → is cancelled: …", 10),
        ("words", "Words:", "- It costs $10.", 9),
        ("work", DEFINED, "total = 40", 13),
        ("work", DEFINED, "rate = 0.6", 15),
        ("work", DEFINED, "total = 41  # then, last of several: total.sort()", 15),
        ("work", DEFINED, "gone = 1 / 0", 17),
        ("work", "Written in calls that failed:", "rate = 0.5", 15),
        ("work", COLUMNS, "df.head(): region | weight", 14),
        ("work", COLUMNS, "df.tail(): region | size", 14),
        ("work", "Values named in calls:", "0.5 | 42", 15),
        ("work", "Last error:", f"{DIVISION} (running: total = 41)", 18),
        ("calls", "Look-ups:", "search(origin: MSP, destination: MSP) → 1 record", 2),
        ("calls", "Look-ups:", "search(origin: MSP) → 1 record", 2),
        ("calls", "Look-ups:", f"{FLIGHT} → 2 records", 2),
        ("calls", "Look-ups:", f"{FLIGHT} → 1 record", 4),
        ("calls", "Look-ups:", "get_order(order_id: W1) (3 times) → 1 record", 8),
        (
            "calls",
            "Actions:",
            "cancel_order(order_id: W1) → {exit_code: 3, log: denied}",
            12,
        ),
        ("calls", "Actions:", "cancel_order(order_id: W1) → failed: {log: denied}", 12),
        ("calls", "Actions:", 'run() code: "total = 41"… → failed: "41"', 16),
        ("calls", "Actions:", 'run() code: "total = 41"… → "42"', 16),
        ("records", f"{FLIGHT}: [flight | price]", "HAT2 | 80", 2),
        ("records", f"{FLIGHT}: [flight | price]", "HAT1 | 80", 2),
        ("records", ORDER, f"W1 | open | {ITEMS}", 6),
        ("records", ORDER, f"W2 | closed | {ITEMS}", 8),
        ("records", ORDER, "W1 | closed | i1, blue", 8),
        ("records", ORDER, "W1 | - | i1, red", 8),
        ("records", ORDER, "W1 | closed", 8),
        ("records", ORDER, f"W1 | closed | {ITEMS} | (before search)", 8),
        ("newest", "Newest:", "result: 42", 16),
        ("newest", "Newest:", f"result: {DIVISION}", 18),
        (
            "newest",
            "Newest:",
            "failed result: T\n  [50 characters omitted]\n  by zero",
            18,
        ),
        ("newest", "Newest:", "assistant: The order is cancelled ...", 19),
        ("done", "Done:", "cancel_order(order_id: W1)", 12),
    ],
)
def test_what_is_false_is_noticed(part, heading, text, position):
    assert false_of(part, heading, text, position) != []


def test_lines_that_are_not_shown_are_counted():
    title = MemoryLine("words", "Words:", None)
    note = "(1 message ({}): not shown here, recall finds them.)"
    said = MemoryLine("words", f"- {SAID}", 10)
    for first, is_true in ((0, True), (10, False)):
        lines = [title, said, MemoryLine("newest", note.format(first), None)]
        assert (Judge(ENTRIES).false_lines(lines) == []) is is_true


def test_messages_out_of_order_are_noticed():
    lines = [
        MemoryLine("words", f"- {SAID}", 10),
        MemoryLine("words", f"- {ENTRIES[0].content}", 0),
    ]
    assert Judge(ENTRIES).false_lines(lines[::-1]) == []
    assert Judge(ENTRIES).false_lines(lines) != []


@every(
    ("fact", "is_true"),
    [
        (Fact("W1", "status", "closed", 8), True),
        (Fact("W1", "items.color", "blue", 8), True),
        (Fact("total", "defined", "total = 41", 15), True),
        (Fact("W1", "status", "closed", 6), False),
        (Fact("W1", "items.id", "blue", 8), False),
        (Fact("W1", "status", "open", 8), False),
        (Fact("W1", "customer_id", "C7", 8), False),  # no line shows it
    ],
)
def test_a_value_is_in_its_entry_in_its_field_and_in_a_line(fact, is_true):
    session = compacted(ENTRIES)
    record = session.compaction
    lines = [
        MemoryLine("records", ORDER, None),
        MemoryLine("records", f"W1 | closed | {ITEMS}", 8),
        MemoryLine("work", DEFINED, None),
        MemoryLine("work", "total = 41", 15),
    ]
    assert record is not None
    given = replace(record, memory=tuple(lines), facts=(fact,), rules=())
    assert (Judge(session.transcript).false(given) == []) is is_true
