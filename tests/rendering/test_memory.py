"""What code copied beside a summary, as sections of lines."""

import re

from nbchat.conversation.entries import Compaction, MemoryLine
from nbchat.rendering.banners import divider_html
from nbchat.rendering.entries import memory_html


def test_the_memory_of_a_record_without_lines_is_shown_as_its_text() -> None:
    evil = "<img src=x onerror=x>\ud800"
    summary = f"<summary>\nAnn asked.\n</summary>\n<facts>\n- {evil}\n</facts>"
    shown = divider_html(Compaction("c", 0, 4, summary, 900, 90))
    assert "- &lt;img src=x" in shown
    assert "<img" not in shown
    shown.encode()


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
