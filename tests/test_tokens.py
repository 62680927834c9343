"""Token counts: exact, offline, and safe for any string."""

import pytest

from nbchat.history import Entry
from nbchat.tokens import ENTRY_OVERHEAD, TokenCounter


@pytest.mark.parametrize(
    ("encoding", "text", "expected"),
    [
        # figures from tiktoken's own encodings
        ("o200k_base", "hello world", 2),
        ("o200k_base", "tiktoken is great!", 6),
        ("cl100k_base", "tiktoken is great!", 6),
        ("o200k_base", "", 0),
        ("o200k_base", "<|endoftext|>", 7),
    ],
)
def test_counts_are_those_of_tiktoken(encoding: str, text: str, expected: int):
    assert TokenCounter(encoding).count(text) == expected


@pytest.mark.parametrize("text", ["a", " ", "\n", "0", "^", "漢", "👩\u200d", "\ud800"])
def test_a_million_hostile_characters_are_counted(text: str):
    assert 0 < TokenCounter().count(text * 1_000_000) <= 4_000_000


def test_an_entry_costs_its_texts_and_its_markers():
    counter = TokenCounter()
    call = Entry("assistant", "", "1", "add", '{"a": 1}')
    assert counter.count_entry(call) == ENTRY_OVERHEAD + counter.count("add") + (
        counter.count('{"a": 1}')
    )


def test_without_a_vocabulary_characters_are_counted_and_the_log_says_so(caplog):
    assert TokenCounter("unknown_base").count("x" * 100) == 31
    assert "characters / 4" in caplog.text
