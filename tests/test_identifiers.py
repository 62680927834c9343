"""The names of things, found by their form."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbchat.compaction.identifiers import identifiers
from nbchat.history import Entry


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my order is #W3445693, please", "#W3445693"),
        ("write to ann.lee+shop@example.com.", "ann.lee+shop@example.com"),
        ("it was 59.90 euros", "59.90"),
        ("on 2026-11-21 at 14:30", "2026-11-21"),
        ("see /var/log/app/error.log now", "/var/log/app/error.log"),
        ("see https://example.com/a?b=1 now", "https://example.com/a?b=1"),
        ("I am mei_kovacs_8020", "mei_kovacs_8020"),
        ("from JFK to Oslo", "JFK"),
    ],
)
def test_a_name_is_found_in_what_somebody_said(text: str, name: str):
    assert name in identifiers([Entry("user", text)])


def test_plain_words_are_no_names():
    assert (
        identifiers([Entry("user", "please find out what happened to my parcel")]) == []
    )


def test_values_of_calls_and_of_json_answers_count():
    call = Entry("assistant", "", "1", "look", '{"city": "New York", "ids": [123]}')
    answer = Entry("tool", '{"name": {"first": "Mei"}, "ok": true}', "1", "look")
    assert set(identifiers([call, answer])) == {"New York", "123", "Mei"}


def test_what_people_and_calls_name_comes_before_what_tools_answer():
    said = Entry("user", "order W1234")
    answers = [Entry("tool", f"row A{n:04}", "1", "list") for n in range(50)]
    assert identifiers([said, *answers])[0] == "W1234"
    assert identifiers([said, *answers])[1] == "A0049"


@pytest.mark.parametrize("text", ["a", "a_", "/", "1", "@", "a.", "A", "http://", "漢"])
def test_five_million_characters_without_a_space_take_no_time(text: str):
    """Searched as one piece they would take hours; a tool may well answer so."""
    began = time.process_time()
    identifiers([Entry("tool", text * (5_000_000 // len(text)), "1", "read")])
    assert time.process_time() - began < 2


@given(st.text(max_size=300))
def test_any_text_gives_short_names_and_each_once(text: str):
    names = identifiers([Entry("tool", text, "1", "read"), Entry("user", text)])
    assert all(3 <= len(name) <= 60 for name in names)
    assert len(set(names)) == len(names)
