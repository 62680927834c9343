"""The names of things, found by their form."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbchat.compaction.facts.entities import names, spoken_names
from nbchat.conversation.entries import Entry


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my order is #W3445693, please", "#W3445693"),
        ("write to ann.lee+shop@example.com.", "ann.lee+shop@example.com"),
        ("it was 59.90 euros", "59.90"),
        ("a fee of $7", "$7"),
        ("on 2026-11-21 at 14:30", "2026-11-21"),
        ("it came on May 3, at last", "May 3"),
        ("since 21 November 2026", "21 November 2026"),
        ("see /var/log/app/error.log now", "/var/log/app/error.log"),
        ("see https://example.com/a?b=1 now", "https://example.com/a?b=1"),
        ("I am mei_kovacs_8020", "mei_kovacs_8020"),
        ("from JFK to Oslo", "JFK"),
        ("my name is Lei Wilson", "Lei Wilson"),
        ('they call it "blue folder" there', "blue folder"),
        ("they call it “blue folder” there", "blue folder"),
    ],
)
def test_names_are_found_in_messages(text: str, name: str):
    assert name in set(names(text))
    assert name in spoken_names([Entry("user", text)])


def test_plain_words_are_no_names():
    text = "please find out what happened to my parcel"
    assert spoken_names([Entry("user", text)]) == {}


def test_an_answer_in_words_is_searched_and_one_in_json_is_not():
    said = [
        Entry("tool", "/src/cli.pony:12: class Parser", "1", "grep"),
        Entry("tool", '{"row": "A0001"}', "2", "list"),
        Entry("assistant", "It is B22."),
    ]
    weights = spoken_names(said)
    assert next(iter(weights)) == "B22"
    assert "A0001" not in weights
    assert 0 < weights["/src/cli.pony"] < weights["B22"]


def test_an_unused_name_weighs_most_and_the_models_own_least():
    said = [Entry("assistant", "B222 and W111"), Entry("user", "C333 and D444")]
    weights = spoken_names(said, used={"D444"})
    assert weights["C333"] > weights["D444"] > weights["B222"]


@pytest.mark.parametrize(
    "text", ["a", "a_", "/", "1", "@", "a.", "A", "Ab ", '"', "漢"]
)
def test_a_hundred_thousand_characters_without_a_space_take_no_time(text: str):
    """Searched as one piece they would take many minutes; a person may well paste it."""
    began = time.process_time()
    spoken_names([Entry("user", text * (100_000 // len(text)))])
    assert time.process_time() - began < 3


@given(st.text(max_size=300))
def test_any_text_gives_short_names_and_weights_above_nothing(text: str):
    found = spoken_names([Entry("user", text)])
    assert all(2 <= len(name) <= 60 for name in found)
    assert all(weight > 0 for weight in found.values())
