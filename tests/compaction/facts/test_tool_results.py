"""Answers of tools, taken apart into things, their values and their parts."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbchat.compaction.facts.facts import read_calls
from nbchat.compaction.facts.tool_results import NOTHING, Record
from nbchat.conversation.entries import FAILED, Entry

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=30,
)


def record(answer: object, tool: str = "get_order", **arguments: object) -> Record:
    content = answer if isinstance(answer, str) else json.dumps(answer)
    call = Entry("assistant", "", "1", tool, json.dumps(arguments))
    (found,) = read_calls([call, Entry("tool", content, "1", tool)])
    return found


def test_an_object_is_named_by_its_first_identity():
    found = record({"status": "pending", "order_id": "#W1", "user_id": "ann_1"})
    assert found.subject == "#W1"
    assert [value.text for value in found.own] == ["pending", "#W1", "ann_1"]


def test_without_one_it_is_named_by_what_the_call_was_made_with():
    assert record({"name": "Ann"}, user_id="ann_1").subject == "ann_1"


def test_objects_with_a_name_of_their_own_become_parts_and_an_address_does_not():
    found = record(
        {
            "order_id": "#W1",
            "address": {"street": "119 Elm Avenue", "city": "Oslo"},
            "items": [{"name": "Lamp", "item_id": "77", "options": {"color": "red"}}],
        }
    )
    assert [value.text for value in found.own] == ["#W1", "119 Elm Avenue", "Oslo"]
    assert {value.group for value in found.own} == {"", "address"}
    assert [[value.text for value in part] for part in found.parts] == [
        ["Lamp", "77", "red"]
    ]


def test_numbers_keep_the_digits_they_were_written_with():
    found = record('\n{"order_id": 10000000000000000001, "total": 54.50}')
    assert [value.text for value in found.own] == ["10000000000000000001", "54.50"]


def test_the_keys_of_a_dictionary_of_things_are_their_names():
    found = record({"variants": {"899": {"price": 5}, "221": {"price": 7}}})
    assert [part[0].text for part in found.parts] == ["899", "221"]


def test_plain_lists_keep_their_name_and_are_marked():
    found = record({"orders": ["#W1", "#W2"]})
    assert found.own == (("orders", "#W1", True, ""), ("orders", "#W2", True, ""))


@pytest.mark.parametrize("answer", ["[]", "{}"])
def test_an_empty_answer_is_an_outcome_too(answer: str):
    assert record(answer, "search_flights", day="2026-11-21").outcome == NOTHING


@pytest.mark.parametrize(
    ("answer", "subject"),
    [("lei_wilson_4541", "lei_wilson_4541"), ("T3: closed", "T3"), ("it is done", "")],
)
def test_an_answer_in_words_is_an_outcome_and_may_name_its_thing(
    answer: str, subject: str
):
    found = record(answer, "close_ticket")
    assert (found.outcome, found.subject) == (answer, subject)


@pytest.mark.parametrize(
    ("tool", "is_action"),
    [("get_order", False), ("searchFlights", False), ("cancel_order", True)],
)
def test_a_tools_name_says_whether_it_only_looks(tool: str, *, is_action: bool):
    assert record("ok", tool).is_action is is_action


def test_reused_ids_keep_their_order():
    first = Entry("assistant", "", "1", "cut", '{"n": 1}')
    second = first._replace(tool_args='{"n": 2}')
    done = Entry("tool", "one", "1", "cut")
    failed = Entry("tool", "error: two", "1", "cut", FAILED)
    found = read_calls([first, done, second, failed])
    assert [each.outcome for each in found] == ["one", "error: two"]
    assert [each.is_error for each in found] == [False, True]


def test_of_a_call_without_a_result_the_record_says_that_it_is_interrupted():
    dead = Entry("assistant", "", "1", "refund_order", '{"order_id": "W7"}')
    call = Entry("assistant", "", "2", "cut", "{}")
    found = read_calls([dead, Entry("user", "Well?"), call, Entry("tool", "ok", "2")])
    assert [(each.tool, each.subject, each.index) for each in found] == [
        ("refund_order", "W7", 0),
        ("cut", "", 3),
    ]
    assert [(each.is_interrupted, each.is_error) for each in found] == [
        (True, True),
        (False, False),
    ]


@given(JSON)
def test_any_json_is_taken_apart(value: object):
    found = record(json.dumps(value), "get", id="x1")
    assert all(part for part in found.parts)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        json.dumps([{"id": n, "text": "x" * 50} for n in range(20_000)]),
        json.dumps({"ids": list(range(50_000))}),
        "[1" + " " * 100_000,
    ],
    ids=["nested", "deep", "many objects", "a long list", "not json"],
)
def test_hostile_answers_take_little_time(content: str):
    began = time.process_time()
    record(content, "read")
    assert time.process_time() - began < 2
