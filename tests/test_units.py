"""Where a history may be cut, and that whatever is sent is legal."""

from hypothesis import given
from hypothesis import strategies as st

from nbchat.compaction.units import INTERRUPTED, legal, open_calls, safe_cuts
from nbchat.history import Entry


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
    history = [call("a"), call("a"), result("a"), call("b")]
    assert [entry.tool_id for entry in open_calls(history)] == ["a", "b"]


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
    history = [call("a"), result("a", "1"), call("a"), result("a", "2")]
    assert legal(history) == history


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
    said = [entry for entry in history if entry.role != "tool"]
    assert [entry for entry in sent if entry.role != "tool"] == said


@given(histories)
def test_any_cut_of_any_legal_history_parts_it_into_two_legal_ones(history):
    sent = legal(history)
    for cut in safe_cuts(sent):
        assert legal(sent[:cut]) + legal(sent[cut:]) == sent
