"""Turns, messages and call pairs are found, and histories cut between them."""

import pytest
from tables import every

from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import (
    INTERRUPTED,
    answered_length,
    attachments_start,
    call_pairs,
    calls_by_result,
    count_messages,
    ends_with_answer,
    last_prompt,
    last_turn,
    message_at,
    message_starts,
    open_calls,
    safe_cuts,
    turns,
    with_interrupted_results,
)

USER, TEXT = Entry("user", "question"), Entry("assistant", "answer")
THOUGHT = Entry("thinking", "hm", "", "anthropic", "{}")
IMAGE = Entry("user", "", "", "image", '{"data": "aGk="}')
SUMMARY = Entry("summary", "<summary>x</summary>")


def call(tool_id: str) -> Entry:
    return Entry("assistant", "", tool_id, "look", "{}")


def result(tool_id: str) -> Entry:
    return Entry("tool", "found", tool_id, "look")


CHAT = [
    *(TEXT, IMAGE, USER),
    *(THOUGHT, TEXT, call("a"), result("a"), TEXT),
    *(USER, USER, THOUGHT, TEXT),
]


def test_a_turn_is_a_prompt_and_all_that_follows():
    assert turns(CHAT) == [range(1, 8), range(8, 12)]
    assert last_turn(CHAT) == range(8, 12)
    assert turns([TEXT]) == turns([]) == []
    assert last_turn([TEXT]) is None


def test_a_picture_of_a_tool_stays_in_the_turn_and_the_unit_of_its_call():
    picture = Entry("user", "The picture", "a", "image", '{"data": "aGk="}')
    entries = [USER, call("a"), result("a"), picture, picture, TEXT]
    assert turns(entries) == [range(6)]
    assert turns([*entries[:5], IMAGE, USER]) == [range(5), range(5, 7)]
    assert safe_cuts(entries) == [0, 1, 5, 6]
    assert safe_cuts([*entries[:5], USER]) == [0, 1, 5, 6]
    assert attachments_start([*entries[:5], IMAGE, USER], 6) == 5
    assert answered_length(entries[:5]) == 5
    assert not picture.is_of_user
    assert picture.with_content("[gone]").is_tool_picture


def test_what_a_model_says_in_a_row_is_one_message():
    assert message_starts(CHAT) == [0, 1, 2, 3, 6, 7, 8, 9, 10]
    assert count_messages(CHAT) == 9
    assert message_at(CHAT, 4) == range(3, 6)
    assert message_at(CHAT, 11) == range(10, 12)
    assert message_at(CHAT, 6) == range(6, 7)


def test_a_prompt_is_found_with_its_attachments():
    assert last_prompt(CHAT) == 9
    assert last_prompt([*CHAT[:3], IMAGE]) == 2
    assert last_prompt([IMAGE, TEXT]) is None
    assert attachments_start(CHAT, 2) == 1
    assert attachments_start(CHAT, 8) == 8


@every(
    ("entries", "is_answered", "length"),
    [
        ([], False, 0),
        ([USER], False, 0),
        ([USER, THOUGHT, TEXT], True, 3),
        ([USER, TEXT, IMAGE, USER], False, 2),
        ([USER, TEXT, call("a")], False, 3),
        ([USER, call("a"), result("a")], False, 3),
        ([SUMMARY], False, 1),
    ],
)
def test_answered_proposals_are_distinguished_from_open_ones(
    entries, is_answered, length
):
    assert ends_with_answer(entries) == is_answered
    assert answered_length(entries) == length


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([call("a"), call("a"), *[result("a")] * 3], {2: 0, 3: 1}),
        ([call("a"), USER, call("a"), result("a")], {3: 2}),
        ([call("a"), USER, result("a")], {2: 0}),
        ([result("a"), call("b"), result("a")], {}),
    ],
    ids=["same id", "open before abandoned", "late", "unknown"],
)
def test_a_result_is_paired_with_its_call(entries, expected):
    assert calls_by_result(entries) == expected
    assert call_pairs(entries) == expected | {c: r for r, c in expected.items()}


def test_a_call_without_a_result_gets_one_that_says_so():
    entries = with_interrupted_results([USER, call("a"), call("b"), result("b")])
    assert [entry.role for entry in entries] == [
        *("user", "assistant", "tool", "assistant", "tool")
    ]
    assert entries[2].content == f"error: {INTERRUPTED}"


def test_cuts_fall_between_units_and_never_between_a_call_and_its_result():
    history = [USER, TEXT, call("a"), call("b"), result("b"), result("a"), TEXT, USER]
    assert safe_cuts(history) == [0, 1, 6, 7, 8]


def test_a_call_without_a_result_leaves_no_cut_after_it():
    assert safe_cuts([USER, call("a")]) == [0, 1]


def test_open_calls_are_those_still_waiting():
    history = [call("a"), call("a"), call("b"), result("a")]
    assert [entry.tool_id for entry in open_calls(history)] == ["a", "b"]


@pytest.mark.parametrize("later", [USER, TEXT], ids=["user", "assistant"])
def test_a_call_before_a_later_message_is_abandoned_and_blocks_nothing(later):
    history = [USER, call("a"), call("b"), result("b"), later]
    assert open_calls(history) == []
    assert safe_cuts(history) == [0, 1, 4, 5]


def test_no_cut_separates_a_late_result_from_its_call():
    history = [USER, call("a"), USER, TEXT, result("a"), USER]
    assert safe_cuts(history) == [0, 1, 5, 6]


def test_an_image_is_not_cut_off_from_its_prompt():
    assert safe_cuts([USER, IMAGE, USER, TEXT]) == [0, 1, 3, 4]
