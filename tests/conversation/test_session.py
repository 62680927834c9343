"""What is remembered, and what the model sees of it."""

import pickle
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest

from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation.entries import (
    EXCLUDED,
    FAILED,
    INCOMPLETE,
    Compaction,
    Entry,
    Usage,
    prefix_hash,
)
from nbchat.conversation.session import Session, Transcript, apply_compactions
from nbchat.errors import NbchatError


def compaction(stop: int, **fields: object) -> Compaction:
    """A record that covers everything before `stop`."""
    text = "<summary>\nwhat happened\n</summary>"
    values = {"id": f"c{stop}", "start": 0, "stop": stop, "summary": text} | fields
    return Compaction(**values)  # type: ignore[arg-type]


def test_an_entry_equals_the_plain_tuple_of_its_five_strings():
    assert Entry("user", "hello") == ("user", "hello", "", "", "")


def test_a_call_knows_its_arguments_and_survives_broken_json():
    assert Entry("assistant", "", "1", "add", '{"a": 1}').arguments == {"a": 1}
    assert Entry("assistant", "", "1", "add", "{broken").arguments == {}
    assert Entry("assistant", "", "1", "add", "[1]").arguments == {}


def test_marks_of_failed_tools_and_incomplete_answers_are_read_back():
    assert Entry("tool", "no", "1", "add", FAILED).is_error
    assert not Entry("tool", "yes", "1", "add").is_error
    assert Entry("assistant", "half an ans", tool_args=INCOMPLETE).is_incomplete


def test_usage_adds_up_and_an_estimate_stays_one():
    total = Usage(100, 10, 40) + Usage(5, 1, is_estimated=True)
    assert total == Usage(105, 11, 40, 0, is_estimated=True)
    assert total.total_tokens == 116


def test_history_is_the_transcript_until_something_is_compacted():
    session = Session([("user", "hello"), ("assistant", "hi")])
    assert session.history == [
        ("user", "hello", "", "", ""),
        ("assistant", "hi", "", "", ""),
    ]


def test_after_a_compaction_the_history_is_one_summary_entry():
    session = Session([("user", "hello"), ("assistant", "hi")])
    session.compactions.append(compaction(2))
    summary = "<summary>\nwhat happened\n</summary>"
    assert session.history == [("summary", summary, "", "", "")]
    assert [entry.content for entry in session.transcript] == ["hello", "hi"]


def test_entries_after_the_cut_follow_the_summary():
    session = Session([("user", "a"), ("assistant", "b"), ("user", "c")])
    session.compactions.append(compaction(2))
    assert [entry.content for entry in session.history[1:]] == ["c"]


def test_an_undone_compaction_gives_the_earlier_view_back():
    session = Session([("user", "a"), ("assistant", "b"), ("user", "c")])
    session.compactions += [compaction(2), compaction(3)]
    assert len(session.history) == 1
    session.compactions.append(compaction(3, status="undone"))
    assert [entry.role for entry in session.history] == ["summary", "user"]


def test_a_failed_compaction_changes_nothing_but_the_bill():
    session = Session([("user", "a")], usages=[(1, Usage(10, 1))])
    session.compactions.append(compaction(1, status="failed", cost=Usage(7, 2)))
    assert session.history == session.transcript
    assert session.usage == Usage(17, 3)


class Meanwhile(Transcript):
    """While it is read another thread says one thing more, and looks, too."""

    look: Callable[[], object] | None = None

    def __getitem__(self, place):
        found = super().__getitem__(place)
        look, self.look = self.look, None
        if look is not None:
            self.append(Entry("user", f"and {len(self)}"))
            look()
        return found


@pytest.mark.parametrize("stop", [0, 2])
def test_a_view_that_two_threads_read_at_once_loses_and_doubles_nothing(stop: int):
    session = Session()
    session.transcript = Meanwhile([("user", "Hi"), ("assistant", "Hello.")])
    session.compactions = [compaction(stop)] * bool(stop)
    for _ in range(3):
        session.transcript.look = lambda: session.history
        session.history  # noqa: B018 - reading it makes the view grow
        session.append(Entry("assistant", "ok"))
    assert session.history == apply_compactions(
        session.transcript, session.active_compactions
    )
    assert session.history_since(3) == session.transcript[3:]


def test_the_size_of_a_history_that_grows_meanwhile_is_right_afterwards():
    session = Session()
    session.transcript = Meanwhile([("user", "Hi")])
    tracker = ContextTracker(None, "auto")
    for _ in range(3):
        session.transcript.look = lambda: tracker.history_tokens(session)
        tracker.history_tokens(session)
        session.append(Entry("assistant", "ok"))
    size = tracker.counter.count_entries(session.transcript)
    assert tracker.history_tokens(session) == size
    assert tracker.transcript_tokens(session)[-1] == size


def test_the_size_of_a_history_is_that_of_what_the_model_sees():
    """A summary, outputs that are shortened before and after it, what is excluded."""
    roles = ("user", "assistant", "tool")
    said = [(role, f"{role} says {n} things") for n in range(4) for role in roles]
    session, tracker = Session(said), ContextTracker(None, "auto")
    pruning = partial(Compaction, start=0, stop=9, summary="", kind="pruning")
    for number, record in enumerate(
        [
            compaction(2),
            pruning("", replacements=((1, "a"), (5, ""))),
            pruning("", replacements=((7, "[excluded]"),), trigger=EXCLUDED),
            compaction(6),
            pruning("", replacements=((7, "c"), (30, ""))),
            compaction(99),
        ]
    ):
        session.compactions.append(replace(record, id=str(number)))
        session.append(Entry("user", "How are you today?"))
        size = tracker.counter.count_entries(session.history)
        assert tracker.history_tokens(session) == size


def test_the_last_answer_leaves_calls_out():
    session = Session(
        [
            ("user", "q"),
            ("assistant", "let me see"),
            ("assistant", "", "1", "add", "{}"),
        ]
        + [("tool", "3", "1", "add"), ("assistant", "it is 3")]
    )
    assert session.last_answer == "let me see\nit is 3"


def test_repr_shows_counts_and_never_what_was_said():
    assert (
        repr(Session([("user", "secret")])) == "<Session of 1 message, 0 compactions>"
    )


def test_an_attempt_never_counts_against_a_compaction_that_succeeded():
    session = Session([("user", "a"), ("assistant", "b")])
    session.compactions.append(compaction(2))
    for status in ("running", "failed"):
        session.compactions.append(compaction(2, status=status))
        assert len(session.history) == 1
    assert [record.status for record in session.finished_compactions] == ["done"]


def test_pins_keep_their_order_and_are_known_by_number():
    session = Session(pins=["a"])
    session.pin("b\n")
    session.pin("c")
    assert session.unpin(2) == "b\n"
    assert session.pins == ("a", "c")


@pytest.mark.parametrize("text", ["", " \n\t", "a"])
def test_a_blank_pin_or_one_there_is_already_is_refused(text: str):
    session = Session(pins=["a"])
    with pytest.raises(NbchatError, match="pin"):
        session.pin(text)
    assert session.pins == ("a",)


def test_a_shortening_beyond_the_entries_there_are_is_ignored():
    record = compaction(9, kind="pruning", replacements=((0, "x"), (7, "y")))
    assert apply_compactions([Entry("tool", "long", "1", "look")], [record]) == [
        Entry("tool", "x", "1", "look")
    ]


@pytest.mark.slow
def test_checking_a_long_session_reads_its_entries_once():
    entries = [Entry("user", "x" * 1_000) for _ in range(2_000)]
    records = [
        compaction(stop, prefix_hash=prefix_hash(entries[:stop]))
        for stop in range(100, 2_001, 100)
    ]

    def seconds(compactions: list[Compaction]) -> float:
        start = time.process_time()
        Session(entries, compactions=compactions)
        return time.process_time() - start

    few = min(seconds(records[-1:]) for _ in range(3))
    assert min(seconds(records) for _ in range(3)) < 3 * few


@pytest.mark.parametrize("stops", [(2, 5, 9), (9, 2, 9), (0, 3, 3), (4, 99)])
def test_the_hash_of_a_growing_transcript_is_that_of_its_entries(stops: list[int]):
    transcript, entries = Transcript(), [Entry("user", f"{n}") for n in range(9)]
    for stop in stops:
        for entry in entries[len(transcript) : stop]:
            transcript.append(entry)
        assert transcript.prefix_hash(stop) == prefix_hash(entries[:stop])
        for copy in (deepcopy(transcript), pickle.loads(pickle.dumps(transcript))):
            assert copy.prefix_hash(stop) == prefix_hash(entries[:stop])


def test_hashing_a_long_transcript_again_reads_only_what_is_new():
    transcript = Transcript(Entry("user", "x" * 1_000) for _ in range(5_000))

    def seconds() -> float:
        start = time.process_time()
        transcript.prefix_hash(len(transcript))
        return time.process_time() - start

    first = seconds()
    transcript.append(Entry("user", "new"))
    assert min(seconds() for _ in range(3)) < first / 5
