"""What a summary says and its sources do not is found, and nothing else is."""

import json

import pytest
from cpu_time import CpuTime
from honest_stories import STORIES
from trajectories import read_trajectories

from nbchat.agent.agent import Agent
from nbchat.compaction.summarizer.coverage import GOOD_SHARE
from nbchat.compaction.summarizer.fact_check import FactCheck, check_facts
from nbchat.compaction.summarizer.source_index import Sources
from nbchat.compaction.summary_entry import SummaryBuilder
from nbchat.compaction.summary_format import summary_entry
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import ScriptedProvider

pytestmark = pytest.mark.usefixtures("garbage_kept")

COUNTER = TokenCounter()


def sources(*said: str | Entry) -> Sources:
    index = Sources()
    index.add(Entry("user", each) if isinstance(each, str) else each for each in said)
    return index


def checked(story: str, *said: str | Entry) -> FactCheck:
    return check_facts(story, sources(*said))


def result(value: object, **arguments: object) -> tuple[Entry, Entry]:
    """A call and its result."""
    call = Entry("assistant", "", "1", "get", json.dumps(arguments))
    return call, Entry("tool", json.dumps(value), "1", "get")


@pytest.mark.parametrize(
    ("story", "said"),
    [
        ("It cost 1,299.00 dollars.", "It was $1299"),
        ("Es kostete 1.299,00 €.", "It was 1,299.00"),
        ("Il a payé 1 299 €.", "I paid 1299"),
        ("They paid $1.5k.", "I paid 1500"),
        ("A tenth: 12.5 %", "12,5 Prozent"),
        ("It is due on May 16, 2024.", "due 2024-05-16"),
        ("Fällig am 16. Mai 2024.", "due 05/16/2024"),
        ("截止日期是2024年5月16日。", "due on the 16th of May 2024"),
        ("It is due on 16.05.2024.", "due on May 16"),
        (
            "James (1997-01-23) flies (2024-05-19, HAT284).",
            "1997-01-23 2024-05-19 HAT284",
        ),
        ("It is due on May 16.", "due 2024-05-16T14:30:00-05:00"),
        ("They meet at 2:30 pm.", "at 14:30"),
        ("They meet at 14:30.", "2024-05-16T14:30:00"),
        ("Order W123 waits.", "order #W123"),
        ("Order SO-107 waits.", "so_107"),
        ("The card ends in 7447.", "my card is 4421 4864 3324 7447"),
        ("She pays by card 4421486.", "credit_card_4421486"),
        ("Call (555) 123-4567.", "my number: +1 555 123 4567"),
        ("Commit f3a9c21 broke it.", "f3a9c21d0be4ff"),
        ("They wait for 25 tickets.", "twenty-five tickets"),
        ("The limit is 12.5 euros.", "twelve and a half euros"),
        ("Refuel at $2.0/GB, 15GB/month.", '{"price_per_gb": 2.0, "limit": 15}'),
        ("It costs 12.50.", "under twelve fifty"),
        ("On July 25 she leaves.", "the quals are in July twenty-fifth"),
        ("About 1,300 were sent.", "1299 were sent"),
        ("The load is 88 %.", "load: 87.6"),
        ("It has 3 orders and 12 items.", "I ordered things"),
        ("1. First\n21. Last", "nothing"),
        ("They want help 24/7.", "always"),
        ("订单W2905754已退款。", "W2905754"),
        ("Orders T1-T3 are closed.", "T1, T2, T3"),
        ("ANN@example.com wrote.", "mail ann@example.com"),
        ("It is in src/app_2.py:14.", "look at src/app_2.py:14"),
        ("the file app_2.py", "look at src/app_2.py"),
        ("on the 23rd", "2024-05-23"),
        ("in 2024", "2024-05-23"),
    ],
)
def test_the_same_value_in_another_form_is_no_invention(story: str, said: str):
    assert checked(story, said).names == []


@pytest.mark.parametrize(
    ("story", "said", "named"),
    [
        ("Order W124 waits.", "order W123", ["W124"]),
        ("It cost $1,298.", "It was $1299", ["1,298"]),
        ("It cost $15.", "It was $14", ["15"]),
        ("Due on May 17.", "due 2024-05-16", ["May 17"]),
        ("Due on 2025-05-16.", "due 2024-05-16", ["2025-05-16"]),
        ("At 15:30.", "at 2:30 pm", ["15:30"]),
        ("Order SO-108.", "SO-107", ["SO-108"]),
        ("bob@example.com", "ann@example.com", ["bob@example.com"]),
        ("Ends in 7448.", "4421 4864 3324 7447", ["7448"]),
        ("45 tickets, then 45.", "four tickets", ["45"]),
        ("About 2,300 were sent.", "1299 were sent", ["2,300"]),
        ("Das kostet 99,95 €.", "99,59 €", ["99,95"]),
        ("订单W2905755", "订单W2905754", ["W2905755"]),
        ("Refuel at $3.5/GB.", '{"price_per_gb": 2.0}', ["3.5"]),
    ],
)
def test_a_value_that_was_never_said_is_found(story: str, said: str, named: list[str]):
    assert checked(story, said).names == named


PAID = [
    {"id": "W1", "paid": 80.25},
    {"id": "W2", "paid": 50.5},
    {"id": "W3", "paid": 9},
]


@pytest.mark.parametrize(
    "story",
    [
        "HAT003 ($488) and HAT438 ($484), $972 in all",
        "$488 and $484 and $445 make $1,417",
        "The new fare is $484, $4 less than the $488 before",
        "They paid $139.75 in all",
        "There are 21 tickets",
        "- W1 was $80.25\n- W2 is $50.50\n- Next: pay the difference of $29.75",
        "80.25 and 50.50 per order\n\nIn all 130.75",
    ],
)
def test_a_number_that_can_be_computed_is_no_invention(story: str):
    said = "HAT003 is 488, HAT438 484; or 445"
    tickets = result({"tickets": [f"T{n}" for n in range(21)]})
    assert checked(story, said, *result({"orders": PAID}), *tickets).names == []


def test_the_price_of_two_flights_together_is_no_invention():
    legs = [{"flight": f"HAT{n}", "prices": {"economy": n}} for n in (240, 233)]
    said = result([legs, [{"flight": "HAT300", "prices": {"economy": 300}}]])
    assert checked("Both flights cost $473.", *said).names == []
    assert checked("Both flights cost $533.", *said).names == ["533"]


def test_a_sum_that_another_record_holds_too_belongs_to_no_id():
    legs = [{"flight": f"HAT{n}", "prices": {"economy": n}} for n in (240, 233)]
    said = result([legs, [{"flight": "HAT473", "prices": {"economy": 473}}]])
    assert checked("HAT240 and the second flight cost $473.", *said).names == []


def test_in_a_line_of_many_amounts_the_nearest_are_added():
    many = ", ".join(f"{n} for seat {n // 100}" for n in range(1_100, 3_100, 100))
    said = f"{many}, 5393, 255 and 252"
    story = f"{many}; really 5393, fares 255 and 252: 507, difference {{}}."
    assert checked(story.format(5_141), said).names == []
    assert checked(story.format(4_999), said).names == ["4999"]


def test_two_numbers_beside_each_other_are_no_thousands():
    assert (
        checked("Option 2 429 is the dearer one.", "2 options, 406 or 429").names == []
    )
    assert checked("Option 2 430 is dearer.", "2 options, 429").names == ["2 430"]


def test_what_is_before_an_arrow_belongs_to_no_id_after_it():
    said = result([{"id": "HAT111", "on": "2025-04-14"}, {"id": "HAT550"}])
    assert checked("2025-04-14 → HAT550, 2025-04-15", *said, "2025-04-15").names == []
    assert checked("2025-04-14 with HAT550", *said).names == ["2025-04-14 for HAT550"]


def test_a_difference_from_the_price_of_a_named_item_is_no_invention():
    said = result([{"item": "1388333606", "price": 535.25}, {"price": 200.0}])
    story = "To item 1388333606, from 659.87: {} more to pay."
    assert checked(story.format(124.62), "659.87?", *said).names == []
    assert checked(story.format(459.87), "659.87?", *said).names == ["459.87"]


@pytest.mark.parametrize(
    ("story", "named"),
    [
        ("HAT003 ($488) and HAT438 ($484), $837 in all", ["837"]),
        ("HAT003 ($488) and HAT438 ($499), $987 in all", ["499", "987"]),
        ("They paid $488 and $484.\nThe total is $972.", ["972"]),
        ("They paid $130.76 in all", ["130.76"]),
        ("There are 22 tickets", ["22"]),
        ("- W1 was $80.25\n- W2 is $50.50\n- a difference of $29.57", ["29.57"]),
        ("W1 was $80.25\n\n\nW2 is $50.50, a difference of $29.75", ["29.75"]),
    ],
)
def test_a_number_that_is_computed_wrongly_is_found(story: str, named: list[str]):
    said = "HAT003 is 488, HAT438 484; or 445"
    tickets = result({"tickets": [f"T{n}" for n in range(21)]})
    assert checked(story, said, *result({"orders": PAID}), *tickets).names == named


def test_each_invented_value_is_marked_where_it_is_and_nothing_is_dropped():
    found = checked("W1 costs 80, W2 costs 90.\nW2 on May 3!", "W1 costs 80")
    assert found.marked == (
        "W1 costs 80, W2 [not in the conversation] costs 90 [not in the conversation]."
        "\nW2 [not in the conversation] on May 3 [not in the conversation]!"
    )
    assert found.names == ["W2", "90", "May 3"]
    assert found.refusal == "the conversation does not say: W2, 90, May 3"


def test_calls_results_attachments_and_an_earlier_summary_are_sources():
    attached = Entry(
        "user", "", "", "file", '{"media_type": "text/csv", "data": "W5,59.90"}'
    )
    earlier = summary_entry("W7 waits.", ["W8 open 12.75"])
    said = [*result({"total": 80.5}, order="W1"), attached, earlier]
    story = "W1 is 80.50, W5 59.90, W7 waits, W8 owes 12.75."
    assert checked(story, *said).names == []


def test_what_was_marked_before_is_no_source_and_gets_no_second_mark():
    earlier = summary_entry(checked("W1 costs 81.", "W1 costs 80").marked, [])
    assert "81 [not" in earlier.content
    said = (earlier, Entry("user", "W1 costs 80"))
    assert checked("W1 costs 81.", *said).names == ["81"]
    again = checked("W1 costs 81 [not in the conversation].", *said)
    assert (again.names, again.marked) == ([], again.text)


def test_what_the_summaries_before_covered_is_a_source():
    index = Sources(other=[[Entry("user", f"W{n} costs {n}.25") for n in range(900)]])
    index.add([Entry("user", "and now?")])
    assert check_facts("W823 costs 823.25.", index).names == []
    assert check_facts("W923 costs 823.25.", index).names == ["W923"]
    assert check_facts("W822 costs 823.25.", index).names == ["823.25 for W822"]


ORDERS = [{"id": "W1", "total": 80.0}, {"id": "W2", "total": 50.0}]


@pytest.mark.parametrize(
    "said",
    [
        result(ORDERS),
        result({"orders": {"W1": {"total": 80}, "W2": {"total": 50}}}),
        (*result({"total": 80}, id="W1"), *result({"total": 50}, id="W2")),
        (Entry("user", "W1 costs 80 and W2 50."),),
        (Entry("assistant", "- W1: total 80\n- W2: total 50"),),
    ],
)
def test_a_value_beside_the_wrong_id_is_found(said: tuple[Entry, ...]):
    assert checked("W1 costs 80, and W2 costs 50.", *said).names == []
    assert checked("Orders W1 and W2 cost 80 and 50.", *said).names == []
    assert checked("Change W1 (blue; 80) to W2 (red; 50).", *said).names == []
    found = checked("Order W1 costs 50.", *said)
    assert found.names == ["50 for W1"]
    assert found.marked == "Order W1 costs 50 [not with W1 in the conversation]."


def test_an_id_beside_the_wrong_id_is_found():
    said = result(
        [{"id": "W1", "tracking": "TRK-111"}, {"id": "W2", "tracking": "TRK-222"}]
    )
    assert checked("W2 is sent as TRK-222.", *said).names == []
    assert checked("W1 is sent as TRK-222.", *said).names == ["TRK-222 for W1"]


def test_ids_with_names_are_of_one_kind_only_with_as_many_digits():
    trip = {"user": "ann_taylor_3067", "flights": [{"date": "2026-11-06"}]}
    said = result({**trip, "paid": [{"by": "gift_card_2176570", "amount": 946}]})
    assert checked("On 2026-11-06, paid by gift_card_2176570.", *said).names == []
    story = "Robert: robert_miller_4411 flies on 2026-11-06."
    names = checked(story, *said, "robert_miller_4411?").names
    assert names == ["2026-11-06 for robert_miller_4411"]


def test_an_id_that_follows_its_value_is_what_the_value_belongs_to():
    said = result(
        [{"id": "W1", "tracking": "TRK-111"}, {"id": "W2", "tracking": "TRK-222"}]
    )
    assert checked("Like W2: TRK-111 of order W1.", *said).names == []
    assert checked("Nach W2 kommt TRK-111 von Auftrag W1.", *said).names == []
    found = checked("Like W1: TRK-111 of order W2.", *said)
    assert found.names[0] == "TRK-111 for W2"


@pytest.mark.parametrize(
    "said",
    [
        ("Where is W1?", "It comes on May 16.", "W2 came on May 3."),
        ("W1 and W2: one of them costs 50.",),
        (*result({"order": "W2", "total": 50}), "take 50 for W1 as well"),
        result({"ticket": "T1", "items": [{"item": "A7", "paid": 50}]}),
    ],
)
def test_what_may_belong_to_an_id_is_not_held_against_it(said: tuple[str, ...]):
    for story in ("W1 comes on May 16.", "W1 costs 50."):
        found = checked(story, "W1, May 16, 50", *said)
        assert found.names == []


@pytest.mark.slow
def test_the_answers_of_recorded_agents_are_true_but_for_what_they_computed():
    computed = {"May 24, 2024", "207", "216", "236", "2,544"}
    """A date "a day later" and four sums, one of them wrong."""
    found = set()
    for run in read_trajectories():
        index = sources(run.system, *(e for e in run.entries if not e.is_answer))
        for entry in run.entries:
            if entry.is_answer:
                found.update(check_facts(entry.content, index).names)
    assert found <= computed


@pytest.mark.parametrize("number", STORIES)
def test_an_honest_summary_gets_no_mark_and_counts_as_good(number: int):
    run = read_trajectories()[number]
    story = STORIES[number]
    assert check_facts(story, sources(run.system, *run.entries)).names == []
    session = Session(run.entries)
    agent = Agent(ScriptedProvider(window=200_000), session=session)
    plan = agent.engine.plan(session)
    builder = SummaryBuilder(session, plan, agent.engine.policy, COUNTER)
    begun = "\n".join(e.content[:100] for e in run.entries if e.is_prompt)
    assert builder.coverage(story).share >= GOOD_SHARE
    assert builder.coverage(begun).share < GOOD_SHARE
    assert builder.coverage("They talked about it.").share == 0


HOSTILE = {
    "nested": "[" * 15_000,
    "digits": "9" * 15_000,
    "commas": "1," * 8_000,
    "dots": "1.2" * 8_000,
    "dashes": "a1-" * 8_000,
    "spaces": "1 000" * 5_000,
    "surrogates": "\udcff1 \ud83d W1",
    "arabic": "١٢٣ ٤٥٦",
    "superscript": "x² ½ ①",
    "months": "may may may " * 2_000,
    "at": "a@" * 8_000,
    "words": "twenty " * 8_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_breaks_the_audit_or_holds_it_up(text: str):
    began = CpuTime()
    index = sources(text, *result({"x": text[:1_000]}))
    assert check_facts(text, index).names == []
    assert isinstance(check_facts(text, sources("nothing")).marked, str)
    assert began.spent() < 2
