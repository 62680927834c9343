"""Token counts: exact, offline, and safe for any string."""

import base64
import pickle
import random
import tracemalloc
from copy import deepcopy

import pytest
from cpu_time import CpuTime
from measures import Noting

from nbchat.conversation.entries import Entry
from nbchat.providers.base import Request
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.tokens import (
    CHARACTERS,
    ENTRY_OVERHEAD,
    SPARE_SIZES,
    TokenCounter,
)
from nbchat.testing import ScriptedProvider


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "encoding"), [("gpt-4", "cl100k_base"), ("gpt-4o-mini", "o200k_base")]
)
def test_a_model_of_openai_names_its_encoding(model: str, encoding: str):
    text = "Größe 1,204 x 5; hello world, this is a test"
    assert TokenCounter(model).count(text) == TokenCounter(encoding).count(text)


def test_an_entry_costs_its_texts_and_its_markers():
    counter = TokenCounter()
    call = Entry("assistant", "", "1", "add", '{"a": 1}')
    assert counter.count_entry(call) == ENTRY_OVERHEAD + counter.count("add") + (
        counter.count('{"a": 1}')
    )


def test_without_a_vocabulary_characters_are_counted_and_the_log_says_so(caplog):
    assert TokenCounter("unknown_base").count("x" * 100) == 31
    assert "characters / 4" in caplog.text


def hostile_texts() -> dict[str, str]:
    """The texts that broke or stopped other counters."""
    rng = random.Random(3)
    marks = [
        "".join(chr(0x300 + rng.randrange(111)) for _ in range(9)) for _ in "x" * 100
    ]
    return {
        **{f"many {each!r}": each * 300_000 for each in "a \n0^\0\u6f22\ud800"},
        "many joined emoji": "\U0001f469\u200d" * 300_000,
        "ab x 50k": "ab" * 50_000,
        "base64": base64.b64encode(rng.randbytes(75_000)).decode(),
        "zalgo": "".join("e" + rng.choice(marks) for _ in range(10_000)),
        "letters": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=100_000)),
        "special": "<|endoftext|>" * 1_000,
        "ten megabytes of letters": "qzjx" * 2_500_000,
        "ten megabytes of spaces": " " * 10_000_000,
    }


@pytest.mark.slow
def test_hostile_texts_are_counted_in_less_than_a_second_each():
    counter = TokenCounter()
    counter.count("load the vocabulary")
    for name, text in hostile_texts().items():
        started = CpuTime()
        assert 0 < counter.count(text) <= 4 * len(text), name
        assert started.spent() < 1, name


def test_a_copy_of_a_counter_shares_its_vocabulary():
    """It has 200,000 words; each row of `map_rows` copies a counter."""
    counter = TokenCounter()
    size = counter.count("What is the status of order W1?")
    assert deepcopy(counter)._tokenizer is counter._tokenizer
    assert len(pickle.dumps(counter)) < 1_000
    assert (
        pickle.loads(pickle.dumps(counter)).count("What is the status of order W1?")
        == size
    )


@pytest.mark.slow
def test_a_text_of_a_million_characters_is_counted_whole_and_a_longer_one_by_a_sample():
    counter = TokenCounter()
    words = "word " * 200_000
    assert 0 <= counter.count(words) - 200_001 <= 50  # a token a slice
    assert abs(counter.count(words * 7) - 7 * 200_000) < 1_000


@pytest.mark.slow
def test_a_thousand_new_messages_are_counted_in_half_a_second():
    counter = TokenCounter()
    counter.count("load the vocabulary")
    entries = [
        Entry("user", f"Message {n}: {'words and more ' * 25}") for n in range(1000)
    ]
    started = CpuTime()
    assert counter.count_entries(entries) > 50_000
    assert started.spent() < 0.5


@pytest.mark.slow
def test_counting_keeps_no_text_in_memory():
    counter = TokenCounter()
    counter.count("load the vocabulary")
    tracemalloc.start()
    for number in range(20):
        counter.count_entry(Entry("user", f"{number} " + "0" * 200_000))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 200_000
    assert counter.count_entry(Entry("user", "hello")) == ENTRY_OVERHEAD + 1


def test_the_counter_keeps_the_sizes_of_a_history_and_few_others():
    counter = Noting(CHARACTERS)
    history = [Entry("user", f"question {number}") for number in range(30)]
    others = [Entry("tool", f"result {number}") for number in range(SPARE_SIZES + 31)]
    counter.count_entries([*history, *others[:SPARE_SIZES]])
    counter.keep(history)
    counter.count_entries([*history, *others])
    assert len(counter.seen) == len(history) + len(others)
    counter.keep(history)
    counter.count_entries(history)
    assert len(counter.seen) == len(history) + len(others)
    counter.count_entry(others[0])
    assert counter.seen[-1] == others[0].content


@pytest.mark.parametrize("kind", [ScriptedProvider, OpenAIProvider])
def test_a_providers_counter_forgets_the_sizes_of_what_was_compacted(kind: type):
    model = (
        kind() if kind is ScriptedProvider else kind("gpt-6-luna", api_key=lambda: "k")
    )
    counter = vars(model)["_counter"] = Noting(CHARACTERS)
    requests = [
        Request((Entry("user", f"Is it {n}?"),)) for n in range(SPARE_SIZES + 3)
    ]
    for request in [*requests, requests[-1], requests[0]]:
        model.count_tokens(request)
    assert counter.seen.count("Is it 0?") == 2
    assert counter.seen.count(requests[-1].history[0].content) == 1
