"""What a summary says and its sources do not is found, and nothing else is."""

import json

import pytest
from cpu_time import CpuTime
from honest_stories import STORIES
from tables import every
from trajectories import read_trajectories

from nbchat.compaction.summarizer.reply_validation import (
    FactCheck,
    Sources,
    check_facts,
    without_marked,
)
from nbchat.compaction.summary_format import summary_entry
from nbchat.conversation.entries import Entry

pytestmark = pytest.mark.usefixtures("garbage_kept")


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


@every(
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
        ("Refuel at $2.0/GB, 15GB/month.", '{"price_per_gb": 2.0, "limit": 15}'),
        ("On May 25 she leaves.", "can we move it to 5/25?"),
        ("It rose to 87.6 %.", "share 0.8763"),
        ("About $60,000,000 of sales.", "total 60024740.11"),
        ("Zahlen: 12,5 und 1 299,00 €", "12.5; 1299"),
        ("DE89 3704 0044 was named.", "IBAN DE8937040044"),
        ("The column `Growth Rate` is used.", "Region,Growth Rate,Open"),
        ('Use df["growth_rate"] here.', "growth_rate float64"),
        ("Read C:\\data\\x.csv.", "path: C:/data/x.csv"),
        ("2 of 101,250,300", "id,paid\n101,250,300"),
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


@every(
    ("story", "said", "named"),
    [
        ("Order W124 waits.", "order W123", ["W124"]),
        ("It cost $1,298.", "It was $1299", ["$1,298"]),
        ("It cost $15.", "It was $14", ["$15"]),
        ("Due on May 17.", "due 2024-05-16", ["May 17"]),
        ("Due on 2025-05-16.", "due 2024-05-16", ["2025-05-16"]),
        ("At 15:30.", "at 2:30 pm", ["15:30"]),
        ("Order SO-108.", "SO-107", ["SO-108"]),
        ("bob@example.com", "ann@example.com", ["bob@example.com"]),
        ("Ends in 7448.", "4421 4864 3324 7447", ["7448"]),
        ("45 tickets, then 45.", "four tickets", ["45"]),
        ("About 2,300 were sent.", "1299 were sent", ["2,300"]),
        ("Das kostet 99,95 €.", "99,59 €", ["99,95 €"]),
        ("Sales of $60.", "Sales of $60,024,740", ["$60"]),
        ("It is 400.50.", "It is 1,250,400.50", ["400.50"]),
        ("Cents are $50.", "It cost 80.50", ["$50"]),
        ("The column 'Close' is used.", "Region,Growth Rate,Open", ["Close"]),
        ("It is in src/other.py.", "look at src/app.py", ["src/other.py"]),
        ("On 2024-05-16T10:30Z.", "2024-05-16T10:00Z", ["2024-05-16T10:30Z"]),
        ("订单W2905755", "订单W2905754", ["W2905755"]),
        ("Refuel at $3.5/GB.", '{"price_per_gb": 2.0}', ["$3.5/GB"]),
    ],
)
def test_a_value_that_was_never_said_is_found(story: str, said: str, named: list[str]):
    assert checked(story, said).names == named


PAID = [
    {"id": "W1", "paid": 80.25},
    {"id": "W2", "paid": 50.5},
    {"id": "W3", "paid": 9},
]


@every(
    "story",
    [
        "HAT003 ($488) and HAT438 ($484), $972 in all",
        "$488 and $484 and $445 make $1,417",
        "The new fare is $484, $4 less than the $488 before",
        "They paid $139.75 in all",
        "There are 21 tickets",
        "- W1 was $80.25\n- W2 is $50.50\n- Next: pay the difference of $29.75",
        "80.25 and 50.50 per order\nIn all 130.75",
    ],
)
def test_a_number_that_can_be_computed_is_no_invention(story: str):
    said = "HAT003 is 488, HAT438 484; or 445"
    tickets = result({"tickets": [f"T{n}" for n in range(21)]})
    assert checked(story, said, *result({"orders": PAID}), *tickets).names == []


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
    assert checked("Option 2 430 is dearer.", "2 options, 429").names == ["430"]


@every(
    ("story", "named"),
    [
        ("HAT003 ($488) and HAT438 ($484), $837 in all", ["$837"]),
        ("HAT003 ($488) and HAT438 ($499), $987 in all", ["$499", "$987"]),
        ("They paid $488 and $484.\n\nThe total is $972.", ["$972"]),
        ("They paid $130.76 in all", ["$130.76"]),
        ("There are 22 tickets", ["22"]),
        ("- W1 was $80.25\n- W2 is $50.50\n- a difference of $29.57", ["$29.57"]),
        ("W1 was $80.25\n\n\nW2 is $50.50, a difference of $29.75", ["$29.75"]),
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


@every(
    ("line", "marks"),
    [
        ('"Bitte immer Dezimalkomma \u2013 auch in Tabellen."', 0),
        ('- "bitte immer Dezimalkomma, auch in Tabellen"', 0),
        ('1. "Bitte immer ... auch in Tabellen!" (rule)', 0),
        ("Regel: \u201eBitte immer Dezimalkomma\u201c", 0),
        ('"Bitte" and "in Tabellen"', 0),
        ('"Bitte nie Dezimalkomma, auch in Tabellen."', 1),
        ('- Regel: "Bitte immer Dezimalkomma, auch in Diagrammen."', 1),
        ('"\u2026"', 0),
    ],
)
def test_a_quote_on_a_line_of_its_own_was_said_word_for_word(line: str, marks: int):
    said = "Bitte immer Dezimalkomma - auch in Tabellen. Danke!"
    found = checked(f"Goal\n{line}\nDone.", said)
    assert len(found.findings) == marks
    again = check_facts(found.marked, sources(said))
    assert again.marked == found.marked
    assert without_marked(found.marked).count("Bitte") == (
        0 if marks else line.count("Bitte")
    )


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


@pytest.mark.slow
def test_the_answers_of_recorded_agents_are_true_but_for_what_they_computed():
    computed = {"$207", "$216", "$236", "$121.20"}
    """Three sums, one of them wrong, and the difference of two records."""
    advised = {"No SIM", "SOS only", "Restart", "Mobile Network", "About phone"}
    advised |= {"Network & Internet", "Access Point Names", "Reset to default"}
    advised |= {"str_replace_editor"}
    """What the models know of phones and of their tools."""
    found = set()
    for run in read_trajectories():
        index = sources(run.system, *(e for e in run.entries if not e.is_answer))
        for entry in run.entries:
            if entry.is_answer:
                found.update(check_facts(entry.content, index).names)
    assert found <= computed | advised


@pytest.mark.parametrize("number", STORIES)
def test_an_honest_summary_gets_no_mark(number: int):
    run = read_trajectories()[number]
    index = sources(run.system, *run.entries)
    assert check_facts(STORIES[number], index).names == []


@pytest.mark.slow
def test_a_summary_of_1000_words_is_checked_against_30_000_tokens_soon():
    entries, size = [], 0
    for entry in (entry for run in read_trajectories() for entry in run.entries):
        entries.append(entry)
        size += len(entry.content) + len(entry.tool_args)
        if size > 120_000:
            break
    story = " ".join((" ".join(STORIES.values()) * 10).split()[:1_000])
    began = CpuTime()
    check_facts(story, sources(*entries))
    assert began.spent() < 0.5


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
    "names": "'a b' " * 3_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_breaks_the_audit_or_holds_it_up(text: str):
    began = CpuTime()
    index = sources(text, *result({"x": text[:1_000]}))
    assert check_facts(text, index).names == []
    assert isinstance(check_facts(text, sources("nothing")).marked, str)
    assert began.spent() < 2
