"""Train the model that finds rules, and print how well it does on what it has not seen.

    pip install scikit-learn
    python tests/benchmarks/train_rules.py [--write]

Each author, and each language, is left out once: the model is trained without it, and
its threshold is the one at which 5 % of the other authors' sentences that are no rules
are taken for some. Of people's everyday sentences (chats, tickets, meetings) one half is
trained on as no rules, and of the other half it is counted how many are taken for rules.
With `--write` the model is trained on all sentences and becomes the product's.
"""

import argparse
import gzip
import hashlib
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, diags
from sklearn.linear_model import LogisticRegression

from nbchat.compaction.facts import rule_model
from nbchat.compaction.facts.pasted_text import passages
from nbchat.compaction.facts.rule_model import features, rule_score, tokens
from nbchat.compaction.facts.sentence_forms import plain

TESTS = Path(__file__).parents[1]
SENTENCES = TESTS / "data" / "rule_sentences"
EVERYDAY_RULES = TESTS / "data" / "everyday_rules.jsonl"
TICKETS = TESTS.parent / "nbchat" / "testing" / "data" / "tickets.jsonl"
PEOPLE = ("chats_oasst", "trajectories", "meetings_qmsum", "meetings_retrieval")
WEIGHTS = Path(rule_model.__file__).with_name("rule_weights.tsv")

PLAIN = "plain"
"""The file of sentences that are easy to tell; the others sound like the other kind."""

FREQUENT = 15
"""Sentences in which a word must be to be kept in a form."""

SIZE = 34_000
"""N-grams with a weight: with all 60,000 the model finds 1 % more in 900 KB."""

FALSE = 0.05
"""Of sentences that sound like rules and are none, how many may be taken for some."""

STRENGTH = 10.0
"""The inverse of the regularization; from 3 to 30 the figures are alike."""

EVERYDAY_WEIGHT = 0.1
"""What an everyday sentence counts beside one that was written to be hard."""


@dataclass(frozen=True)
class Row:
    """A text with its label."""

    author: str
    language: str
    is_rule: bool
    sentences: tuple[str, ...]

    @property
    def examples(self) -> tuple[str, ...]:
        """What is learned from: which sentence of several is the rule is not known."""
        return (" ".join(self.sentences),) if self.is_rule else self.sentences


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences that the product would read in a message."""
    masks = (plain(each.mask).strip() for each in passages(text) if not each.is_list)
    return tuple(filter(None, masks))


def labelled() -> list[Row]:
    """The sentences of all authors that are trained on."""
    rows = []
    for path in [EVERYDAY_RULES, *sorted(SENTENCES.glob("*.jsonl"))]:
        for line in path.read_text("utf-8").splitlines():
            said = json.loads(line)
            sentences = sentences_of(said["text"])
            if sentences and said.get("split") != "held":
                language, is_rule = said["language"], said["is_rule"]
                rows.append(Row(path.stem, language, is_rule, sentences))
    return rows


def everyday() -> Iterator[tuple[str, bool, str]]:
    """Sentences of people: where from, whether of the half that is trained on, text."""
    for name in PEOPLE:
        with gzip.open(
            TESTS / "data" / f"{name}.jsonl.gz", "rt", encoding="utf-8"
        ) as file:
            for number, line in enumerate(file):
                for message in json.loads(line)["messages"]:
                    if message["role"] == "user":
                        said = message["content"]
                        text = said.partition(": ")[2] if "meet" in name else said
                        yield from (
                            (name, number % 2 == 1, s) for s in sentences_of(text)
                        )
    for number, line in enumerate(TICKETS.read_text("utf-8").splitlines()):
        text = json.loads(line)["text"]
        yield from (("tickets", number % 2 == 1, each) for each in sentences_of(text))


class Table:
    """Texts as rows of a matrix, whose columns are n-grams."""

    def __init__(self, texts: Sequence[str], frequent: frozenset[str]) -> None:
        columns: dict[str, int] = {}
        indices: list[int] = []
        ends = [0]
        for text in texts:
            found = sorted(features(text, frequent))
            indices += [columns.setdefault(each, len(columns)) for each in found]
            ends.append(len(indices))
        ones = np.ones(len(indices))
        self.names = list(columns)
        self.counts = np.diff(ends)
        shape = (len(texts), len(columns))
        self.matrix = csr_matrix((ones, indices, ends), shape=shape)


@dataclass(frozen=True)
class Trained:
    """The n-grams that were chosen, their weights and the bias."""

    columns: np.ndarray
    weights: np.ndarray
    bias: float

    def scores(self, table: Table, rows: np.ndarray) -> np.ndarray:
        """The scores of rows, as the product computes them."""
        sums = table.matrix[rows][:, self.columns] @ self.weights
        return self.bias + sums / np.sqrt(table.counts[rows])


def train(
    table: Table, rows: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> Trained:
    """Learn all n-grams, then only those that matter most.

    A rare n-gram says more (its idf), so that its column is larger; in the end that is
    part of its weight.
    """
    matrix = table.matrix[rows]
    seen = np.asarray(matrix.sum(axis=0)).ravel()
    columns = np.flatnonzero(seen > 1)
    rarity = np.log((1 + len(rows)) / (1 + seen)) + 1
    for _ in range(2):
        scale = diags(1 / np.sqrt(table.counts[rows]) / 4)
        scaled = scale @ matrix[:, columns] @ diags(rarity[columns])
        model = LogisticRegression(C=STRENGTH, max_iter=1_000, tol=1e-5)
        model.fit(scaled, labels, sample_weight=counts)
        weights = model.coef_[0] * rarity[columns] / 4
        matter = np.abs(weights) * np.sqrt(seen[columns])
        chosen = np.sort(np.argsort(-matter, kind="stable")[:SIZE])
        if len(chosen) == len(columns):
            break
        columns = columns[chosen]
    return Trained(columns, weights, float(model.intercept_[0]))


class Experiment:
    """All sentences, of which some are left out."""

    def __init__(self) -> None:
        self.rows = labelled()
        self.people = list(everyday())
        words = Counter(
            word for r in self.rows for s in r.sentences for word in set(tokens(s))
        )
        self.frequent = frozenset(w for w, n in words.items() if n >= FREQUENT)
        learned = [
            (n, text) for n, row in enumerate(self.rows) for text in row.examples
        ]
        read = [(n, text) for n, row in enumerate(self.rows) for text in row.sentences]
        plain_negatives = dict.fromkeys(t for _, is_ours, t in self.people if is_ours)
        texts = [text for _, text in (*learned, *read)] + list(plain_negatives)
        self.table = Table(texts, self.frequent)
        self.learned = np.array([n for n, _ in learned])
        self.read = np.array([n for n, _ in read])
        self.labels = np.array([row.is_rule for row in self.rows])
        self.hard = np.array([row.author != PLAIN for row in self.rows])
        self.everyday = np.arange(len(learned) + len(read), len(texts))

    def trained(self, is_in: Callable[[Row], bool]) -> Trained:
        """The model of the rows that are in, and of everyday sentences."""
        used = np.array([is_in(row) for row in self.rows])
        rows = np.flatnonzero(used[self.learned])
        labels = self.labels[self.learned[rows]]
        return train(
            self.table,
            np.concatenate([rows, self.everyday]),
            np.concatenate([labels, np.zeros(len(self.everyday), bool)]),
            np.concatenate(
                [np.ones(len(rows)), np.full(len(self.everyday), EVERYDAY_WEIGHT)]
            ),
        )

    def scores(self, model: Trained) -> np.ndarray:
        """The highest score of a sentence of each row."""
        sentences = len(self.learned) + np.arange(len(self.read))
        best = np.full(len(self.rows), -np.inf)
        np.maximum.at(best, self.read, model.scores(self.table, sentences))
        return best

    def left_out(self, group: Callable[[Row], str]) -> tuple[np.ndarray, np.ndarray]:
        """The score of each row by a model without its group, and the groups."""
        groups = np.array([group(row) for row in self.rows])
        scores = np.zeros(len(self.rows))
        for name in dict.fromkeys(groups):
            model = self.trained(lambda row, name=name: group(row) != name)
            scores[groups == name] = self.scores(model)[groups == name]
        return scores, groups

    def threshold(self, scores: np.ndarray, among: np.ndarray) -> float:
        """Above which as many are false as may be, of those that are hard to tell."""
        return float(np.quantile(scores[among & self.hard & ~self.labels], 1 - FALSE))

    def shares(self, scores: np.ndarray, among: np.ndarray) -> str:
        """Found and false at thresholds above 0."""
        found = (scores[among & self.labels] > 0).mean()
        false = (scores[among & ~self.labels] > 0).mean()
        return f"{among.sum():5} texts  found {found:4.0%}  false {false:4.0%}"


def main() -> None:
    """Print the figures, and write the model if asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    experiment = Experiment()
    scores, authors = experiment.left_out(lambda row: row.author)
    everyone = np.ones(len(scores), bool)
    by_author = scores.copy()
    for name in dict.fromkeys(authors):
        rest = experiment.threshold(scores, authors != name)
        by_author[authors == name] -= rest
        print(f"without {name:16}", experiment.shares(by_author, authors == name))
    print(f"{'all that are hard':24}", experiment.shares(by_author, experiment.hard))
    languages = np.array([row.language for row in experiment.rows])
    for name in sorted(set(languages)):
        among = experiment.hard & (languages == name)
        print(f"  of these, {name:12}", experiment.shares(by_author, among))
    threshold = experiment.threshold(scores, everyone)
    by_language, _ = experiment.left_out(lambda row: row.language)
    for name in sorted(set(languages)):
        among = experiment.hard & (languages == name)
        shares = experiment.shares(by_language - threshold, among)
        print(f"without language {name:7}", shares)
    if options.write:
        write(experiment, experiment.trained(lambda _: True), threshold)
    print_everyday(experiment)


def write(experiment: Experiment, model: Trained, threshold: float) -> None:
    """Write the product's model, in which a threshold is 0."""
    by_weight: dict[int, list[str]] = defaultdict(list)
    for column, weight in zip(model.columns, model.weights, strict=True):
        if hundredths := round(100 * weight):
            by_weight[hundredths].append(experiment.table.names[column])
    lines = [
        "\t".join([str(weight), *sorted(by_weight[weight])])
        for weight in sorted(by_weight, reverse=True)
    ]
    title = f"Made by tests/benchmarks/train_rules.py from {data_digest()}"
    frequent = "\t".join(sorted(experiment.frequent))
    text = "\n".join([title, frequent, f"{model.bias - threshold:.3f}", *lines])
    WEIGHTS.write_text(text + "\n", encoding="utf-8")


def data_digest() -> str:
    """What identifies the sentences that are trained on."""
    paths = [EVERYDAY_RULES, *sorted(SENTENCES.glob("*.jsonl"))]
    content = b"".join(path.read_bytes() for path in paths)
    return hashlib.sha256(content).hexdigest()[:16]


def print_everyday(experiment: Experiment) -> None:
    """Print what the product takes for rules in the half that it was not trained on."""
    rule_model.model.cache_clear()
    held = [(name, text) for name, is_ours, text in experiment.people if not is_ours]
    began = time.perf_counter()
    flagged = [(name, text) for name, text in held if rule_score(text) > 0]
    spent = time.perf_counter() - began
    for name, count in Counter(name for name, _ in held).items():
        found = [text for other, text in flagged if other == name]
        print(
            f"{name:20} {count:5} sentences, {1_000 * len(found) / count:5.1f} per 1,000"
        )
        if not name.startswith("meetings"):
            print(*(f"    {text[:100]}" for text in found), sep="\n")
    print(
        f"{1_000_000 * spent / len(held):.0f} microseconds a sentence", file=sys.stderr
    )


if __name__ == "__main__":
    main()
