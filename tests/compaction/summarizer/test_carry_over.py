"""What earlier summaries and people said stays until it is said again or replaced."""

import json
import random
import re

import pytest
from cpu_time import CpuTime
from forgetful import Forgetful, dialogue, folded, keys_of

from nbchat.compaction.facts.read_calls import read_calls
from nbchat.compaction.summarizer.carry_over import (
    carried,
    not_in_rows,
    not_named,
    not_served,
)
from nbchat.compaction.summary_format import (
    GAP,
    UNUSED_TITLE,
    quote_line,
    statements_text,
    summary_entry,
)
from nbchat.conversation.entries import Entry

EARLIER = """Ann wants a refund of 45.10 for order W17. The deadline is May 16.
She paid 80 on May 3 for W18.

## Open questions
- Who informs the carrier?

## Background
- The weather was nice.
- Parcel P-700 is in Lisbon"""


def test_statements_with_values_and_what_is_open_are_carried_over():
    assert carried(EARLIER, [], "They talked.") == [
        "Ann wants a refund of 45.10 for order W17.",
        "The deadline is May 16.",
        "She paid 80 on May 3 for W18.",
        "Who informs the carrier?",
        "Parcel P-700 is in Lisbon",
    ]


@pytest.mark.parametrize(
    "story",
    [
        EARLIER,
        EARLIER.replace("May 16", "05/16").replace("80", "80.00").replace("#", ""),
        "Open: who informs the carrier. W17: Ann wants a refund of 45.10. The deadline "  # noqa: ISC004
        "is 5/16. For W18 she paid 80 on May 3. Parcel P-700 is in Lisbon.",
    ],
)
def test_what_the_new_summary_says_in_its_own_words_is_not_said_again(story: str):
    assert carried(EARLIER, [], story) == []


@pytest.mark.parametrize(
    ("old", "new", "is_carried"),
    [
        (
            "The deadline of the report is May 16.",
            "The deadline of the report is 3/6.",
            0,
        ),
        (
            "The deadline of Ann's report is 3/5.",
            "The deadline of Bob's report is 3/6.",
            1,
        ),
        ("W17 was shipped.", "W17 was cancelled.", 0),
        ("Order W17 costs 45.10 with tax.", "Order W18 costs 46.20 with tax.", 1),
        ("Order W17 was paid with 45.10.", "Order W17 was cancelled.", 1),
        ("She prefers tea.", "They met.", 1),
        ("They met in the morning.", "They talked.", 0),
        ("W9 costs 77 [not in the conversation].", "They met.", 1),
        ("It costs 77 [not in the conversation].", "They met.", 0),
        ("退款45.10元给订单W17。", "他们谈过。", 1),
        ("退款45.10元给订单W17。", "订单W17退款45.10元。", 0),
    ],
)
def test_a_statement_ends_when_another_one_replaces_it(
    old: str, new: str, is_carried: int
):
    assert carried(old, [], new) == [old] * is_carried


@pytest.mark.parametrize(
    "heading",
    ["## Ended", "**Already done**", "Closed:", "### Past", "# Beendet", "## 已完成"],
)
def test_what_was_listed_as_ended_is_not_carried_over(heading: str):
    earlier = f"## Open\n- Ann wants W17.\n\n{heading}\n- Bob Lee: W18 was sent."
    assert carried(earlier, [], "They talked.") == ["Ann wants W17."]
    assert carried(f"{earlier}\nW19 is here.", [], "They talked.") == ["Ann wants W17."]


@pytest.mark.parametrize(
    "heading",
    [
        "Close the ticket:",
        "Finish the report:",
        "## Past decisions",
        "## Past due",
        "## No longer allowed",
        "## Settled on",
        "## Done, and next",
    ],
)
def test_what_only_sounds_like_an_end_is_carried_over(heading: str):
    earlier = f"{heading}\n- Bob Lee: W18 is sent."
    assert carried(earlier, [], "They talked.") == ["Bob Lee: W18 is sent."]


@pytest.mark.parametrize("label", ["**Done:**", "Already done:", "*Transferred*:"])
def test_an_item_that_says_that_it_is_done_is_not_carried_over(label: str):
    earlier = f"- {label} W17, W18.\n- Ann Lee: W19 waits."
    assert carried(earlier, [], "They talked.") == ["Ann Lee: W19 waits."]


@pytest.mark.parametrize(
    "line",
    [
        "- Past due: invoice INV-2017 must be paid by May 16.",
        "- Settled on plan B: ship P-700 by rail.",
        "- No longer allowed: calls to C9000 after 18:00.",
        "- Ended up choosing W17: Ann has it in blue.",
        "- Done: W17. Ann wants W18 back.",
        "Done: W17 was sent to Ann.",
    ],
)
def test_an_item_that_only_begins_like_an_end_is_carried_over(line: str):
    assert carried(line, [], "They talked.") == [line.removeprefix("- ")]


def test_half_of_a_quote_is_carried_over_without_its_mark():
    earlier = '"I want order W17. Also, I want W18, please."'
    said = carried(earlier, [], "They talked.")
    assert said == ["I want order W17.", "Also, I want W18, please."]


ENDED = """## Open
**John Smith** (C1001): W19 waits.

## Ended
- Bob Lee: done. John Smith B17: done.
- Ann Poe (ann_1): W20 was sent."""


@pytest.mark.parametrize(
    ("statement", "is_kept"),
    [
        ("Bob Lee: asked for W31.", False),
        ("My name is Bob Lee and the code is 42211.", False),
        ("Bob Lee (bob_7): asked for W31.", False),
        ("Bob Lee wants W31.", True),
        ("John Smith (B17, line L5): asked for a call.", False),
        ("Ann wants a receipt for W20.", False),
        ("John Smith (C1002): asked for a call.", True),
        ("Eve Poe: asked for W31.", True),
        ("Ann wants W20 and W77.", True),
        ("The deadline is May 16.", True),
        ("W19 has items I-5101, I-5102 and I-5103.", False),
        ("Items I-5101 and I-5102 are in W19.", True),
        ("W19: Ann wants item I-5101 back.", True),
    ],
)
def test_what_has_ended_and_details_that_a_good_summary_leaves_out_are_not_missed(
    statement: str,
    is_kept: bool,  # noqa: FBT001
):
    """But for requests, and records that it does not name."""
    assert not_named([statement], ENDED) == [statement] * is_kept


def test_what_people_wrote_with_values_is_kept_the_newest_first():
    said = [
        "My order is W17. I like the colour.",
        "It cost 45.10.\n```\nx = 99\n```\n> 88 were quoted",
    ]
    said = [Entry("user", text) for text in said]
    assert carried("", said, "They talked.") == ["It cost 45.10.", "My order is W17."]
    assert carried("", said, "Order W17 cost 45.10.") == []


def test_what_only_a_quote_in_the_facts_said_is_kept():
    said = ["My order is W17.", "It cost 45.10."]
    facts = [UNUSED_TITLE, quote_line(GAP.join(said)), "Calls made: 1 in all"]
    before = summary_entry("They talked about tea.", facts).content
    assert carried(statements_text(before), [], "They talked.") == said


def kept_after_ten(summariser: Forgetful) -> tuple[float, str]:
    """The share of statements whose figures are all in the last summary entry."""
    parts = dialogue(10, each=1)
    session = folded(parts, summariser, "single-summary")
    assert len(session.history) == 1
    entry = session.history[0].content
    said = [each.content for part in parts for each in part if each.role == "user"]
    kept = [all(key in entry for key in keys_of(each)) for each in said]
    return sum(kept) / len(kept), entry


@pytest.mark.slow
def test_after_ten_forgetful_summaries_what_is_in_force_is_there():
    share, _ = kept_after_ten(Forgetful(random.Random(3)))
    assert share >= 0.95


@pytest.mark.slow
def test_after_ten_inventive_summaries_no_invented_number_is_unmarked():
    summariser = Forgetful(random.Random(4), invents=True)
    share, entry = kept_after_ten(summariser)
    assert share >= 0.95
    assert len(summariser.invented) == 20
    """Ten compactions, each asked twice."""
    for number in summariser.invented:
        assert not re.search(re.escape(number) + r"(?! \[not)", entry)


@pytest.mark.parametrize(
    "text", ["- " * 9_000, "x? " * 9_000, "1. " * 9_000, "# " * 9_000]
)
def test_no_text_holds_it_up(text: str):
    began = CpuTime()
    carried(text, [Entry("user", text)] * 3, text)
    carried(text.replace(" ", "\n"), [], text)
    assert began.spent() < 4


def test_an_id_that_facts_have_in_a_row_is_not_said_again():
    said = ["My user ID is ann_lee_1234.", "Please cancel W77."]
    rows = ["user_id: ann_lee_1234 | name: Ann | orders: W77"]
    assert not_in_rows(said, rows) == said[1:]
    assert not_in_rows(said, ["user_id: ann_lee_12345"]) == said


def call(tool: str, **arguments: str) -> tuple[Entry, Entry]:
    """A call and its result."""
    asked = json.dumps(arguments)
    return Entry("assistant", "", "1", tool, asked), Entry(
        "tool", '{"status": "ok"}', "1", tool
    )


def unserved(said: str, *entries: Entry, tools: tuple[str, ...] = ()) -> list[str]:
    return not_served([said], entries, calls=read_calls(entries), tools=tools)


QUESTION = Entry("assistant", "Could you give me your user ID and the order ID?")
GIVEN = "Sure, my user ID is ann_lee_4411 and the order is W17."


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        (GIVEN, call("get_order", user_id="ann_lee_4411", order_id="W17")),
        ("Yes, cancel both items of W17 please.", call("cancel_order", order_id="W17")),
    ],
)
def test_what_calls_were_given_is_not_carried_over(said: str, calls: tuple[Entry, ...]):
    assert unserved(said, QUESTION, Entry("user", said), *calls) == []
    assert unserved(said, *calls, QUESTION, Entry("user", said)) == [said]


def test_a_name_that_a_call_returned_is_not_carried_over():
    said = "Sure, my name is John Poe and my number is 555-123-2002."
    asked = Entry("assistant", "What is your name and your phone number?")
    given, found = call("find_customer", phone_number="555-123-2002")
    for name, is_kept in (("John Poe", False), ("Eve Lee", True)):
        record = found.with_content(json.dumps({"id": "C1", "full_name": name}))
        entries = [asked, Entry("user", said), given, record]
        assert unserved(said, *entries) == [said] * is_kept


@pytest.mark.parametrize(
    "said",
    [
        "Cancel W17.",
        "I want W17 back.",
        "Call Ann about W17 please.",
        "My order is W17, and W18 too.",
    ],
)
def test_a_request_is_carried_over_until_an_action_took_all_its_values(said: str):
    looked_up = [QUESTION, Entry("user", said), *call("get_order", order_id="W17")]
    assert unserved(said, *looked_up, tools=("get_order", "cancel_order")) == [said]


def test_what_no_person_said_is_carried_over():
    entries = [Entry("user", "hi"), *call("cancel_order", order_id="W17")]
    assert unserved("W17 waits.", *entries) == ["W17 waits."]
