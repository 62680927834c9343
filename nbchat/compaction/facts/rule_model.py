"""Score how much a sentence sounds like a rule of a person, in any language.

A linear model over n-grams of letters and words: each has a weight, and a sentence has
the sum of its weights, divided by the square root of how many n-grams it has. It was
trained with logistic regression on sentences written for it (6,200 of seven authors, in
`tests/data/rule_sentences/` and `everyday_rules.jsonl`) and on everyday sentences of
people. `python tests/benchmarks/train_rules.py` prints how
well it does on what it was not trained on:

- of sentences by another author that are hard to tell: 63 % found, 5 % false; the
  regular expressions that it replaced: 62 % and 12 %
- of people's sentences in chats and meetings: 3 of 1,000 are taken for rules
- of a language that it was not trained on: next to nothing, so that each needs its own

The weights are data, in `rule_weights.tsv`.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from math import sqrt
from typing import NamedTuple

LETTERS, WORDS, FORM = (2, 5), (1, 3), (2, 4)
"""Shortest and longest n-grams of letters, of words, and of words without content."""

LONGEST_ENDLESS = 4
"""Letters of a word whose ending says nothing."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


class Model(NamedTuple):
    """What was learned."""

    frequent: frozenset[str]
    """Words that are kept where others become a blank."""
    bias: float
    weights: dict[str, float]


def rule_score(text: str) -> float:
    """How much a plain sentence sounds like a rule; above 0 it is taken for one."""
    learned = model()
    found = features(text, learned.frequent)
    weights = learned.weights
    return learned.bias + sum(weights.get(each, 0.0) for each in found) / sqrt(
        len(found)
    )


def tokens(text: str) -> list[str]:
    """The words and marks of a text."""
    return _TOKEN.findall(text)


def features(text: str, frequent: frozenset[str]) -> set[str]:
    """The n-grams of a plain sentence: of letters, of words, and of its form.

    In its form a word that is not frequent is a blank with its ending, and once more
    without: "every row gets a title" is "every _ gets a _le" and "every _ gets a _".
    """
    words = ["^", *tokens(text), "$"]
    form = [_blank(word, frequent) for word in words]
    bare = ["_" if each.startswith("_") else each for each in form]
    found = {f"w {each}" for each in _runs(words, *WORDS)}
    found.update(f"f {each}" for each in _runs(form, *FORM))
    found.update(f"b {each}" for each in _runs(bare, *FORM))
    for word in ("^", *text.split(), "$"):
        found.update(_runs_of_letters(f" {word} "))
    return found


def _blank(word: str, frequent: frozenset[str]) -> str:
    if word in frequent or not word[0].isalnum():
        return word
    if word.isdigit():
        return "9"
    return f"_{word[-2:]}" if len(word) > LONGEST_ENDLESS else "_"


def _runs(words: list[str], shortest: int, longest: int) -> Iterator[str]:
    for size in range(shortest, longest + 1):
        for start in range(len(words) - size + 1):
            yield " ".join(words[start : start + size])


def _runs_of_letters(word: str) -> Iterator[str]:
    shortest, longest = LETTERS
    for size in range(shortest, min(longest, len(word)) + 1):
        for start in range(len(word) - size + 1):
            yield word[start : start + size]


@cache
def model() -> Model:
    """Read at first use: a title, frequent words, the bias, then weights.

    A line of weights is one weight in hundredths and all n-grams that have it.
    """
    path = files("nbchat.compaction.facts") / "rule_weights.tsv"
    _, frequent, bias, *lines = path.read_text(encoding="utf-8").splitlines()
    weights: dict[str, float] = {}
    for line in lines:
        weight, *found = line.split("\t")
        weights.update(dict.fromkeys(found, int(weight) / 100))
    return Model(frozenset(frequent.split("\t")), float(bias), weights)
