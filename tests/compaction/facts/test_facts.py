"""The facts that code carries over a compaction."""

import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from trajectories import read_trajectories

from nbchat.compaction.facts.facts import facts, last_exchange
from nbchat.conversation.entries import FAILED, Entry
from nbchat.providers.tokens import TokenCounter

COUNTER = TokenCounter()
NUMBERS = count()

ORDER = {
    "order_id": "#W2905754",
    "user_id": "lei_wilson_4541",
    "status": "delivered",
    "items": [
        {"name": "Hose", "product_id": "6679515468", "item_id": "5206946487"},
        {"name": "Laptop", "product_id": "4760268021", "item_id": "3478699712"},
    ],
    "payment_history": [{"payment_method_id": "credit_card_3677959"}],
}
CATALOGUE = {
    "name": "Laptop",
    "product_id": "4760268021",
    "variants": {
        f"98448881{n:02}": {
            "item_id": f"98448881{n:02}",
            "options": {
                "processor": f"i{n % 7 + 3}",
                "color": "grey" if n % 2 else "black",
            },
        }
        for n in range(20)
    },
}


def did(tool: str, answer: object, *, failed: bool = False, **arguments: object):
    """A call and its result."""
    number = str(next(NUMBERS))
    content = answer if isinstance(answer, str) else json.dumps(answer)
    return [
        Entry("assistant", "", number, tool, json.dumps(arguments)),
        Entry("tool", content, number, tool, FAILED if failed else ""),
    ]


def told(*said: Entry, budget: int = 500, **options: object) -> list[str]:
    return facts(list(said), budget_tokens=budget, counter=COUNTER, **options)


def row_with(lines: list[str], *values: str) -> str:
    return next(line for line in lines if all(value in line for value in values))


def test_an_empty_transcript_has_no_facts():
    assert told() == []


def test_one_entity_has_one_row():
    lines = told(*did("get_order_details", ORDER, order_id="#W2905754"))
    row = row_with(lines, "#W2905754", "3478699712", "credit_card_3677959", "delivered")
    assert "Laptop 4760268021 3478699712" in row
    assert COUNTER.count(row) <= 120


def test_the_names_in_a_row_are_explained_once():
    lines = told(*did("get_order_details", ORDER, order_id="#W2905754"))
    assert "From get_order_details, parts as name product_id item_id:" in lines


def test_of_a_catalogue_what_was_spoken_of_joins_the_thing_it_is_offered_for():
    lines = told(
        *did("get_order_details", ORDER, order_id="#W2905754"),
        *did("get_product_details", CATALOGUE, product_id="4760268021"),
        Entry("user", "I take the black one with the i9."),
    )
    wanted = next(
        number
        for number, each in CATALOGUE["variants"].items()
        if each["options"] == {"processor": "i9", "color": "black"}
    )
    assert row_with(lines, "#W2905754", "3478699712", wanted, "credit_card_3677959")


def test_a_row_shows_the_newest_state():
    changed = {**ORDER, "status": "exchange requested"}
    lines = told(
        *did("get_order_details", ORDER, order_id="#W2905754"),
        *did("exchange_items", changed, order_id="#W2905754"),
    )
    assert "exchange requested" in row_with(lines, "#W2905754", "Laptop")
    assert not any("delivered" in line for line in lines)


def test_an_answer_of_another_kind_does_not_wipe_out_what_was_known():
    customer = {"customer_id": "C1001", "line_ids": ["L1001", "L1002"]}
    lines = told(
        *did("get_customer", customer, phone="555-123-2002"),
        *did("resume_line", {"message": "ok"}, customer_id="C1001", line_id="L1002"),
    )
    assert row_with(lines, "C1001", "L1001", "L1002")


def test_actions_are_listed_under_their_entity_and_counted():
    lines = told(
        *did("set_category", "T3: category top_up", category="top_up"),
        *did("close_ticket", "T3: closed"),
        *did("close_ticket", "T4: closed"),
        *did("close_ticket", "error: no ticket is open", failed=True),
    )
    assert "Calls made: 4 in all, close_ticket x3 (1 failed)" in lines
    done = lines.index("Done, not to be done again:")
    assert lines[done + 1] == "T3 set_category top_up; close_ticket"
    failed = lines.index("Tried, and failed:")
    assert lines[failed + 1] == "close_ticket error: no ticket is open"


def test_interrupted_calls_are_listed_apart_from_failed_ones():
    def kill(number: str, tool: str, **arguments: str) -> Entry:
        return Entry("assistant", "", number, tool, json.dumps(arguments))

    lines = told(
        kill("dead", "refund_order", order_id="W778812", amount="319.50"),
        Entry("user", "Are you there?"),
        *did("refund_order", "error: no such order", failed=True, order_id="W1"),
        kill("dead too", "close_ticket"),
        Entry("user", "Are you there?"),
    )
    counts = (
        "refund_order x2 (1 failed, 1 interrupted), close_ticket x1 (1 interrupted)"
    )
    assert f"Calls made: 3 in all, {counts}" in lines
    unknown = lines.index("Interrupted, the result is unknown:")
    assert lines[unknown + 1] == "refund_order W778812 319.50"
    assert lines[unknown + 2].startswith("close_ticket")
    assert lines[lines.index("Tried, and failed:") + 1].startswith("refund_order W1")


def test_a_search_that_found_nothing_is_remembered():
    lines = told(*did("search_direct_flight", "[]", origin="ATL", date="2024-05-24"))
    assert "search_direct_flight ATL 2024-05-24; nothing found" in lines


def test_an_unused_name_of_the_user_comes_first():
    said = [Entry("user", "My reservation is 1N99U6.")]
    for number in range(60):
        said += did("get_order", {**ORDER, "order_id": f"#W{number:07}"})
    assert any("1N99U6" in line for line in told(*said, budget=120))


def test_the_open_request_is_word_for_word():
    lines = told(
        *did("get_order", ORDER),
        last=[("Open request, word for word:", "Exchange the laptop,\nplease.")],
    )
    assert lines[:2] == [
        "Open request, word for word:",
        "Exchange the laptop,\nplease.",
    ]


def test_a_long_open_request_does_not_push_out_the_facts():
    lines = told(*did("get_order", ORDER), last=[("Asked:", "please " * 5_000)])
    assert "characters left out" in lines[1]
    assert row_with(lines, "#W2905754", "Laptop")


def test_rows_that_do_not_fit_are_counted_with_indices_to_recall():
    said = []
    for number in range(80):
        said += did("cancel_order", f"cancelled {number}", order_id=f"#W{number:07}")
    lines = told(*said, budget=200)
    assert lines[-1].startswith(tuple("123456789"))
    assert " more not shown; recall " in lines[-1]
    assert any("#W0000079" in line for line in lines)
    assert "Calls made: 80 in all, cancel_order x80" in lines


def test_facts_never_exceed_their_budget():
    for run in read_trajectories():
        for budget in (0, 30, 100, 500, 2_000):
            lines = facts(run.entries, budget_tokens=budget, counter=COUNTER)
            size = COUNTER.count("\n".join(lines))
            assert size <= max(budget, 60), (run.name, budget, size)


PRINT_FACTS = """
from itertools import islice
from measures import COUNTER, desks
from nbchat.compaction.facts.facts import facts
from trajectories import read_trajectories

for case in islice(desks(read_trajectories(), count=11), 29, None):
    budget = COUNTER.count_entries(case.covered) // 12
    print(*facts(case.covered, budget_tokens=budget, counter=COUNTER), sep="\\n")
"""
"""Desks of which catalogues made the facts depend on the order of sets."""


@pytest.mark.slow
def test_equal_conversations_give_equal_facts_in_every_process():
    """Else a summary written anew would break the prompt cache for nothing."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", PRINT_FACTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2] / "support",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4")
    }
    assert len(printed) == 1


def test_a_long_session_and_hostile_outputs_take_seconds_at_most():
    said = []
    for number in range(3_000):
        said += did("get_order", {**ORDER, "order_id": f"#W{number:07}"})
    said += did("read", "a" * 3_000_000)
    said += did("list", json.dumps([{"id": n, "x": "y" * 99} for n in range(10_000)]))
    began = time.process_time()
    assert told(*said, budget=3_000)
    assert time.process_time() - began < 10


def test_the_last_exchange_is_kept_word_for_word_when_it_is_compacted():
    said = [
        Entry("user", "Exchange it."),
        *did("get_order", ORDER),
        Entry("assistant", "For 59.90, yes?"),
    ]
    assert last_exchange(said, len(said)) == [
        ("Last request, word for word:", "Exchange it."),
        ("Last answer, word for word:", "For 59.90, yes?"),
    ]
    assert last_exchange([*said, Entry("user", "Yes.")], len(said)) == []
    assert last_exchange(said[:3], 3) == [
        ("Open request, word for word:", "Exchange it.")
    ]
    assert last_exchange([], 0) == []
