"""Facts kept by code as sections of lines, and as a table of values."""

import pytest

from nbchat.conversation.entries import Compaction, Fact
from nbchat.rendering.banners import divider_html
from nbchat.rendering.facts import fact_sections, facts_html

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
