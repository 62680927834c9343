"""Where a history may be cut, and that whatever is sent is legal."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import INTERRUPTED, open_calls, safe_cuts
from nbchat.providers.legal_history import legal, wire_name


def call(tool_id: str) -> Entry:
    return Entry("assistant", "", tool_id, "look", "{}")


def result(tool_id: str, text: str = "found") -> Entry:
    return Entry("tool", text, tool_id, "look")


USER, TEXT = Entry("user", "question"), Entry("assistant", "answer")

entries = st.one_of(
    st.sampled_from([USER, TEXT, Entry("thinking", "hm", "", "anthropic", "{}")]),
    st.builds(call, st.sampled_from("abc")),
    st.builds(result, st.sampled_from("abcd")),
)
histories = st.lists(entries, max_size=25)


def test_cuts_fall_between_units_and_never_between_a_call_and_its_result():
    history = [USER, TEXT, call("a"), call("b"), result("b"), result("a"), TEXT, USER]
    assert safe_cuts(history) == [0, 1, 6, 7, 8]


def test_a_call_without_a_result_leaves_no_cut_after_it():
    assert safe_cuts([USER, call("a")]) == [0, 1]


def test_open_calls_are_those_still_waiting():
    history = [call("a"), call("a"), call("b"), result("a")]
    assert [entry.tool_id for entry in open_calls(history)] == ["a", "b"]


@pytest.mark.parametrize("later", [USER, TEXT], ids=["user", "assistant"])
def test_a_call_that_others_spoke_after_is_dead_and_blocks_nothing(later):
    history = [USER, call("a"), call("b"), result("b"), later]
    assert open_calls(history) == []
    assert safe_cuts(history) == [0, 1, 4, 5]


def test_a_late_result_brings_its_dead_call_back_and_no_cut_parts_them():
    history = [USER, call("a"), USER, TEXT, result("a"), USER]
    assert safe_cuts(history) == [0, 1, 5, 6]


def test_a_result_goes_to_the_open_call_before_a_dead_one_of_the_same_id():
    history = [call("a"), USER, call("a"), result("a", "new"), USER]
    sent = legal(history)
    assert [entry.role for entry in sent] == [
        *("assistant", "tool", "user", "assistant", "tool", "user")
    ]
    assert (sent[1].content, sent[4].content) == (f"error: {INTERRUPTED}", "new")


def test_a_picture_is_not_cut_off_from_the_words_about_it():
    picture = Entry("user", "", "", "image", '{"data": "aGk="}')
    assert safe_cuts([USER, picture, USER, TEXT]) == [0, 1, 3, 4]


def test_an_answer_that_says_nothing_is_not_sent():
    thought = Entry("thinking", "hm", "", "anthropic", "{}")
    assert legal([USER, thought, Entry("assistant", " "), USER]) == [USER, USER]


def test_a_sound_history_is_sent_as_it_is():
    history = [USER, TEXT, call("a"), call("b"), result("a"), result("b"), TEXT, USER]
    assert legal(history) == history


def test_a_call_that_never_got_a_result_is_answered_as_interrupted():
    sent = legal([USER, call("a"), USER])
    assert [entry.role for entry in sent] == ["user", "assistant", "tool", "user"]
    assert INTERRUPTED in sent[2].content


def test_a_result_without_a_call_is_not_sent():
    assert legal([USER, result("x"), TEXT]) == [USER, TEXT]


def test_a_late_result_moves_up_to_its_call():
    assert legal([call("a"), USER, result("a")]) == [call("a"), result("a"), USER]


def test_ids_used_again_tie_the_nth_call_to_the_nth_result():
    history = [call("a"), call("a"), result("a", "1"), result("a", "2")]
    sent = legal([*history, *history])
    assert [entry.content for entry in sent] == ["", "", "1", "2"] * 2


def test_every_call_is_sent_with_an_id_of_its_own():
    ids = ["a", "a", "a_2", "a:b", "a_b", "", "", "x" * 99, "x" * 99]
    sent = legal([call(each) for each in ids])
    names = [entry.tool_id for entry in sent[: len(ids)]]
    assert names[:3] == ["a", "a_2", "a_2_2"]
    assert len({wire_name(name) for name in names}) == len(ids)
    assert all(0 < len(name) <= 40 for name in names)
    assert [entry.tool_id for entry in sent[len(ids) :]] == names


def test_ten_thousand_calls_of_almost_one_id_are_named_in_no_time():
    ids = [chr(0x4E00 + number % 5_000) for number in range(10_000)]
    started = time.process_time()
    assert len({entry.tool_id for entry in legal(map(call, ids))}) == len(ids)
    assert time.process_time() - started < 2


@given(histories)
def test_any_history_becomes_legal_and_keeps_all_that_was_said(history):
    sent = legal(history)
    assert not open_calls(sent)
    waiting = 0
    for entry in sent:
        waiting += entry.is_call
        waiting -= entry.role == "tool"
        assert waiting >= 0
        assert not (waiting and entry.role in ("user", "summary"))
    said = [entry.content for entry in history if entry in (USER, TEXT)]
    assert [entry.content for entry in sent if entry in (USER, TEXT)] == said
    assert [e.is_call for e in sent].count(True) == sum(e.is_call for e in history)


@given(histories)
def test_any_cut_of_any_legal_history_parts_it_into_two_legal_ones(history):
    sent = legal(history)
    for cut in safe_cuts(sent):
        assert legal(sent[:cut]) + legal(sent[cut:]) == sent
