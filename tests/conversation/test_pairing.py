"""Which result belongs to which call, whatever the order."""

from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import calls_by_result

CALL, RESULT = Entry("assistant", "", "1", "f", "{}"), Entry("tool", "", "1", "f")
SAID = Entry("user", "And?")


def test_an_id_that_is_used_again_ties_the_nth_call_to_the_nth_result():
    assert calls_by_result([CALL, CALL, RESULT, RESULT, RESULT]) == {2: 0, 3: 1}


def test_a_result_answers_the_open_call_before_one_that_was_passed_by():
    assert calls_by_result([CALL, SAID, CALL, RESULT]) == {3: 2}


def test_a_late_result_answers_a_call_that_was_passed_by():
    assert calls_by_result([CALL, SAID, RESULT]) == {2: 0}
