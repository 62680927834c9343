"""Rows of the store and the values they stand for."""

import json
from dataclasses import replace
from types import SimpleNamespace

from nbchat.conversation.entries import Compaction, Fact
from nbchat.storage.serialization import compaction_json, compactions_from_rows


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
