"""The model that finds rules: its data, its features and what it costs."""

import hashlib
import time
from pathlib import Path

import pytest

from nbchat.compaction.facts import rule_model
from nbchat.compaction.facts.rule_model import features, model, rule_score

DATA = Path(__file__).parents[2] / "data"
WEIGHTS = Path(rule_model.__file__).with_name("rule_weights.tsv")


def test_the_weights_are_made_from_the_sentences_that_are_committed():
    paths = [
        DATA / "everyday_rules.jsonl",
        *sorted((DATA / "rule_sentences").iterdir()),
    ]
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in paths))
    title = WEIGHTS.read_text("utf-8").partition("\n")[0]
    assert title.endswith(digest.hexdigest()[:16]), "run train_rules.py --write"
    assert WEIGHTS.stat().st_size < 300_000


def test_a_form_keeps_frequent_words_and_the_endings_of_others():
    found = features("every table gets 3 titles", frozenset({"every", "gets"}))
    assert {
        "f every _le gets",
        "b every _ gets 9",
        "w 3 titles",
        " ti",
        "itle",
    } <= found


@pytest.mark.parametrize(
    ("rule", "other"),
    [
        ("never move the piano.", "i never move the piano."),
        ("please don't paint the door.", "please paint the door."),
        ("always weigh the flour.", "do you always weigh the flour?"),
        ("niemals die katze wecken.", "wann wacht die katze auf?"),
        ("no menciones nunca el regalo.", "menciona el regalo."),
        ("绝对不要公开电话。", "请公开电话。"),
    ],
)
def test_what_makes_a_rule_is_its_form_not_its_topic(rule, other):
    assert rule_score(rule) > 0 > rule_score(other)


def test_a_sentence_is_scored_in_well_under_a_millisecond():
    sentence = "whatever you write for the newsletter has to stay under 150 words."
    model()
    began = time.process_time()
    for _ in range(200):
        rule_score(sentence)
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize("text", ["", " ", "\n", "!", "\ud800", "a" * 10_000])
def test_any_text_has_a_score(text):
    assert isinstance(rule_score(text), float)
