"""Rows of the store and the values they stand for."""

import json
from dataclasses import replace
from types import SimpleNamespace

from nbchat.conversation.entries import Compaction, Fact, MemoryLine, Rule
from nbchat.storage.serialization import (
    compaction_from_json,
    compaction_json,
    compactions_from_rows,
)


def test_equal_facts_of_loaded_records_are_one_object():
    """Each record repeats most facts of the one before."""
    facts = tuple(Fact(f"W{n}", "status", "sent", n) for n in range(300))
    record = Compaction("1", 0, 1, "", facts=facts)
    rows = [
        SimpleNamespace(
            kind="compaction", content_json=json.dumps(compaction_json("s", each))
        )
        for each in (record, replace(record, id="2"))
    ]
    first, second = compactions_from_rows(rows)
    assert first.facts == second.facts == facts
    assert all(a is b for a, b in zip(first.facts, second.facts, strict=True))
    assert first.facts[0].value is first.facts[1].value


def test_the_memory_and_the_rules_of_a_record_are_stored_with_it():
    lines = (MemoryLine("words", "Said:", None), MemoryLine("words", "- Hi.", 0))
    rules = (Rule("Write dates as 2026-11-29.", 4),)
    record = Compaction("1", 0, 9, "", memory=lines, rules=rules)
    loaded = compaction_from_json(json.dumps(compaction_json("s", record)))
    assert loaded == record
    assert isinstance(loaded.memory[1], MemoryLine)
    assert isinstance(loaded.rules[0], Rule)


def test_a_record_of_an_older_version_has_no_lines_and_no_rules():
    known = compaction_json("s", Compaction("1", 0, 9, "<summary>x</summary>"))
    old = {
        name: each for name, each in known.items() if name not in ("memory", "rules")
    }
    loaded = compaction_from_json(json.dumps(old))
    assert (loaded.memory, loaded.rules) == ((), ())
