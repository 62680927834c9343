"""Facts kept by code as sections of lines, and as a table of values."""

import re

import pytest

from nbchat.conversation.entries import Compaction, Fact, MemoryLine
from nbchat.rendering.banners import divider_html
from nbchat.rendering.facts import fact_sections, facts_html, memory_html

TEXT = """Rules and decisions in force, quoted from the user:
- "Never promise a date."
Calls made: 5 in all
Known, newest state:
id | total
11 | 12.5
(2 more not shown; recall 2 to 6)"""

FACTS = (Fact("11", "total", "12.5", 10), Fact("11", "status", "open", 10))


def test_lines_of_records_become_a_table_and_all_others_stay() -> None:
    sections = [(each.title, each.lines) for each in fact_sections(TEXT, FACTS)]
    assert sections == [
        (
            "Rules and decisions in force, quoted from the user",
            ('"Never promise a date."',),
        ),
        ("", ("Calls made: 5 in all",)),
        ("Known, newest state", ("(2 more not shown; recall 2 to 6)",)),
    ]
    html = facts_html(TEXT, FACTS)
    assert html.count("<tr>") == 2
    assert html.count('<th scope="row" rowspan="2">11</th>') == 1
    assert html.count('<span data-position="10">') == 2


def test_a_value_without_a_field_leaves_no_empty_column() -> None:
    html = facts_html("", (Fact("look_up(ticket: 42)", "", "offline", 3),))
    assert '</th><td colspan="2"><span data-position="3">offline</span></td>' in html


def test_without_known_values_every_line_is_shown() -> None:
    html = facts_html(TEXT, ())
    assert "11 | 12.5" in html
    assert "<table" not in html
    assert facts_html("", ()) == ""


@pytest.mark.parametrize("value", ["1", "5", "120"])
def test_a_value_hides_no_line_that_counts(value: str) -> None:
    text = "Calls made: 120 in all\nKnown:\n21 of 5120 rows\norder 120"
    sections = fact_sections(text, (Fact("x", "n", value, 1),))
    order = () if value == "120" else ("order 120",)
    shown = tuple(line for section in sections for line in section.lines)
    assert shown == ("Calls made: 120 in all", "21 of 5120 rows", *order)


def test_text_of_facts_is_escaped_everywhere() -> None:
    evil = "<img src=x onerror=x>\ud800"
    html = facts_html(f"{evil}:\n- {evil}", (Fact(evil, evil, evil, 1),))
    assert "<img" not in html
    html.encode()


def test_an_opened_line_of_a_compaction_shows_its_facts_as_a_table() -> None:
    summary = f"<summary>\nAnn asked.\n</summary>\n<facts>\n{TEXT}\n</facts>"
    shown = divider_html(Compaction("c", 0, 4, summary, 900, 90, facts=FACTS))
    assert '<table class="nbc-facts"' in shown
    assert "Never promise a date." in shown


MEMORY = [
    MemoryLine("words", "The user's messages:", None),
    MemoryLine("words", "- Look at <b>both</b>.\n  Now.", 0),
    MemoryLine("calls", "Calls made:", None),
    MemoryLine("calls", "Look-ups:", None),
    MemoryLine("calls", "get(id: 1) → 1 record", 2),
    MemoryLine("records", "Records:", None),
    MemoryLine("records", "[id | state]", None),
    MemoryLine("records", "1 | open | (before close)", 2),
    MemoryLine("records", "get(day: 2): [sky | note]", None),
    MemoryLine("records", 'clear | "a | b"', 4),
    MemoryLine("newest", "The newest:", None),
    MemoryLine("newest", "(2 lines of work: not shown here, recall finds them.)", None),
]


def test_each_part_of_a_memory_has_its_title_and_each_line_its_place():
    html = memory_html(MEMORY)
    titles = ["What you said", "Calls", "Records", "Newest answers and outputs"]
    assert re.findall(r"<p>([^<]*)</p>", html) == titles
    assert (
        '<span data-position="0">Look at &lt;b&gt;both&lt;/b&gt;.\nNow.</span>' in html
    )
    assert '<li dir="auto" class="nbc-muted">Look-ups:</li>' in html
    assert memory_html([]) == ""


def test_records_of_a_memory_are_a_table_where_no_cell_has_a_bar():
    html = memory_html(MEMORY)
    assert html.count("<table>") == 1
    assert '<th scope="col">id</th><th scope="col">state</th>' in html
    assert '<td dir="auto"><span data-position="2">1</span></td>' in html
    assert '<span data-position="4">clear | &quot;a | b&quot;</span>' in html


def test_rows_below_a_call_say_the_call():
    lines = [
        MemoryLine("records", "Records:", None),
        MemoryLine("records", "get(day: 2): [sky | note]", None),
        MemoryLine("records", "clear | -", 4),
    ]
    assert "<caption>get(day: 2): </caption>" in memory_html(lines)
