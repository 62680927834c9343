"""Messages, banners and notices look right; `test_hostile_texts.py`: and are safe."""

import json
import re
from dataclasses import replace
from html import unescape
from itertools import repeat

import pytest
from cpu_time import CpuTime
from hostile import notices
from pygments.lexers import PythonLexer, TextLexer
from pygments.token import Token
from tables import every

from nbchat.conversation.entries import FAILED, INCOMPLETE, Compaction, Entry, Usage
from nbchat.conversation.events import (
    Change,
    CompactionChanged,
    CompactionUndone,
    PinsChanged,
)
from nbchat.rendering.banners import (
    PREVIEW_LIMIT,
    WITHOUT_MODEL,
    compaction_html,
    compaction_text,
    notice_html,
    notice_text,
)
from nbchat.rendering.entries import OUTPUT_LIMIT, entry_html, waiting_html
from nbchat.rendering.markdown import _coloured, _host, markdown_html, pygments_css
from nbchat.rendering.plain_text import displayable


def test_markdown_has_tables_lists_and_strikethrough() -> None:
    html = markdown_html("| a |\n|--:|\n| 1 |\n\n3. x\n\n~~no~~ **yes**")
    for part in ('<td style="text-align:right">1</td>', '<ol start="3">', "<s>no</s>"):
        assert part in html


def test_bare_addresses_are_links_and_task_lists_have_boxes() -> None:
    html = markdown_html("See https://a.example/b?c=1, report.py and a@b.example.")
    assert '<a href="https://a.example/b?c=1"' in html
    assert html.count("<a ") == 1
    assert markdown_html("- [ ] one\n- [x] *two*\n- [y] three\n\n[ ] no").split() == [
        *("<ul>", "<li", 'class="nbc-task">☐', "one</li>"),
        *("<li", 'class="nbc-task">☑', "<em>two</em></li>"),
        *("<li>[y]", "three</li>", "</ul>", "<p>[", "]", "no</p>"),
    ]


def test_footnotes_are_a_list_below_the_text_without_links_into_the_page() -> None:
    html = markdown_html("One[^a], two[^b], [^c] x^[2].\n\n[^a]: *Here*.\n[^b]: There.")
    assert "One<sup>1</sup>, two<sup>2</sup>, [^c] x^[2]." in html
    notes = html.partition("<hr>")[2].split()
    assert "".join(notes) == (
        "<ol><li><p><em>Here</em>.</p></li><li><p>There.</p></li></ol>"
    )
    assert "href" not in html
    assert "id=" not in html


def test_code_is_coloured_by_classes_and_names_its_language() -> None:
    html = markdown_html("```python\ndef f(): ...\n```")
    assert 'data-language="python"' in html
    assert '<span class="k">def</span>' in html


def test_code_in_an_unknown_language_or_too_long_stays_plain() -> None:
    assert "<code>x &lt; y" in markdown_html("```nosuch\nx < y\n```")
    assert "<span" not in markdown_html(f"```python\n{'a = 1;' * 10_000}\n```")


def test_an_image_becomes_a_link_that_names_its_host() -> None:
    html = markdown_html("![a chart](https://images.example/x.png?q=1)")
    assert ">a chart (image at images.example)</a>" in html
    assert "no host" in markdown_html("![](https://[::1/x.png)")
    assert _host("https://[no address") == "no host"


def test_links_open_in_a_new_tab_without_a_referrer() -> None:
    assert markdown_html("[x](https://a.example/)") == (
        '<p><a href="https://a.example/" target="_blank" rel="noopener noreferrer">x'
        "</a></p>\n"
    )


def test_a_users_message_is_shown_as_typed() -> None:
    html = entry_html(Entry("user", "a *b*\n  <c>"))
    assert '<div class="nbc-text">a *b*\n  &lt;c&gt;</div>' in html


def test_an_attached_file_shows_its_kind_and_caption() -> None:
    html = entry_html(Entry("user", "see", "", "image", '{"media_type": "image/png"}'))
    assert "image · image/png" in html
    assert "see" in html


def test_a_picture_of_a_tool_belongs_to_the_card_of_its_call() -> None:
    details = '{"media_type": "image/png"}'
    html = entry_html(Entry("user", "The picture", "c<1>", "image", details))
    assert 'class="nbc-tool-result nbc-tool-picture" data-call="c&lt;1&gt;"' in html
    assert "image · image/png" in html
    assert "nbc-user" not in html


def test_an_attached_text_is_a_collapsed_card_with_all_that_was_sent() -> None:
    details = {"media_type": "text/csv", "name": "a", "data": "<b>1</b>"}
    html = entry_html(Entry("user", "The file <a>", "", "file", json.dumps(details)))
    assert html.startswith("<details")
    assert "The file &lt;a&gt;" in html
    assert "text/csv" in html
    assert "&lt;b&gt;1&lt;/b&gt;</pre>" in html


def test_a_call_is_a_card_with_a_hint_and_all_arguments() -> None:
    call = Entry("assistant", "", "c1", "search", '{"query": "x", "limit": 5}')
    html = entry_html(call)
    assert 'data-call="c1"' in html
    assert "query x, limit 5</span>" in html
    assert '<span class="nbc-label">limit</span><code>5</code>' in html


def test_a_waiting_call_shows_each_text_as_one_reads_it() -> None:
    code = "import os\n\nos.remove('a')\n"
    plan = {"steps": [{"run": "one\ntwo"}]}
    arguments = {"code": code, "q": "SELECT 1 FROM t\nWHERE x", "n": 5, "plan": plan}
    call = Entry("assistant", "", "c", "run_code", json.dumps(arguments))
    html = waiting_html(call, "t")
    assert "code · python · 3 lines" in html
    assert 'data-language="python"' in html
    assert 'data-language="sql"' in html
    text = unescape(re.sub(r"<[^>]+>", "", html))
    assert code in text
    assert "plan.steps[0].run · 2 lines" in text
    assert "one\ntwo" in text


@every("hidden", ["\r", "\ufeff", "\u3164", "\u2800", "\u00a0", "\u202e"])
def test_what_draws_nothing_is_marked_in_a_waiting_call(hidden: str) -> None:
    arguments = json.dumps(
        {"code": f"{hidden}a = 1 # x{hidden}\nb = 2", "note": hidden}
    )
    html = waiting_html(Entry("assistant", "", "c", "t", arguments), "t")
    assert html.count(f'data-mark="U+{ord(hidden):04X}"') == 3
    assert hidden not in html


@pytest.mark.parametrize("language", ["c-objdump", "console", "matlab", "ini"])
def test_code_in_a_language_that_is_slow_to_colour_stays_plain(language: str) -> None:
    html = markdown_html(f"```{language}\n{'0' * 9_000}\n```")
    assert "<span" not in html
    assert f'data-language="{language}"' in html


def test_code_that_takes_too_long_to_colour_stays_plain() -> None:
    class Endless(TextLexer):
        def get_tokens(self, text: str, **_options: bool):
            return repeat((Token.Text, text))

    assert _coloured("x = 1", PythonLexer())
    assert _coloured("x = 1", Endless()) == ""


@every(
    ("arguments", "words"),
    [
        ({"order": "W1"}, "W1"),
        ({"order_id": "W1", "quantity": 2}, "order id W1, quantity 2"),
        ({"order": "W1", "express": True}, "order W1, express"),
        ({"order": "W1", "express": False, "note": None}, "order W1, not express"),
        ({"express": False}, "not express"),
        ({"code": "x = 1\nprint(x)\n"}, "code of 2 lines"),
        ({"code": "a\n b", "reason": "sum"}, "code of 2 lines, reason sum"),
        ({"items": ["A1", "B2"], "to": ""}, "items A1 and B2"),
        ({"where": {"a": 1}}, "{&quot;a&quot;: 1}"),
        ({}, ""),
    ],
)
def test_the_hint_of_a_call_is_said_in_words(arguments, words) -> None:
    call = Entry("assistant", "", "c", "act", json.dumps(arguments))
    assert f'<span class="nbc-tool-hint">{words}</span>' in entry_html(call)


def test_long_arguments_are_cut_in_the_hint_and_invalid_ones_are_shown() -> None:
    assert "…</span>" in entry_html(
        Entry("assistant", "", "c", "t", f'{{"a": "{"x" * 300}"}}')
    )
    assert "{broken" in entry_html(Entry("assistant", "", "c", "t", "{broken"))


def test_a_result_says_whether_it_failed_and_is_bounded() -> None:
    assert 'data-state="failed"' in entry_html(Entry("tool", "no", "c", "t", FAILED))
    html = entry_html(Entry("tool", "x" * (OUTPUT_LIMIT + 1_234), "c", "t"))
    assert 'data-state="done"' in html
    assert "1,234 more characters" in html


def test_an_interrupted_answer_says_so() -> None:
    assert "cut off here" in entry_html(Entry("assistant", "ha", tool_args=INCOMPLETE))
    assert "cut off here" not in entry_html(Entry("assistant", "ha"))


def test_hidden_thinking_renders_nothing() -> None:
    assert entry_html(Entry("thinking", "", "", "openai", "{}")) == ""
    assert "hm" in entry_html(Entry("thinking", "hm", "", "openai", "{}"))


def test_a_summary_shows_without_its_tags_and_its_facts_verbatim() -> None:
    text = "<summary>\n# Goal\n</summary>\n<facts>\n- a  *b*\n</facts>"
    html = entry_html(Entry("summary", text))
    assert "<h1>Goal</h1>" in html
    assert '<pre class="nbc-output">- a  *b*</pre>' in html
    assert "facts&gt;" not in html


def test_the_banner_says_what_was_compacted_and_what_it_saved() -> None:
    record = Compaction(
        "c", 2, 14, "<summary>S</summary>", 5_230, 410, Usage(600, 20), messages=12
    )
    assert compaction_text(record) == (
        "Compaction occurred: 12 messages compacted, 5,230 → 410 tokens (\u221292%)"
    )
    html = compaction_html(record)
    for part in (
        "Compaction occurred",
        "12 messages compacted",
        "620 tokens",
        "<p>S</p>",
    ):
        assert part in html


def test_the_banner_shows_the_note_of_a_compaction() -> None:
    record = Compaction("c", 0, 1, "S", note="summarized in 3 parts <b>")
    assert compaction_text(record).endswith(". summarized in 3 parts <b>")
    assert "summarized in 3 parts &lt;b&gt;" in compaction_html(record)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("done", "Compaction occurred: 1 message compacted"),
        ("degraded", "Compaction occurred: 1 message compacted"),
        ("undone", "Compaction undone: 1 message"),
    ],
)
def test_each_status_has_its_title(status: str, words: str) -> None:
    record = Compaction("c", 0, 1, "s", status=status, reason="why", messages=1)  # type: ignore[arg-type]
    told = f" {WITHOUT_MODEL}" if status == "degraded" else ""
    assert compaction_text(record) == f"{words}, 0 → 0 tokens.{told} why"
    assert f'data-state="{status}"' in compaction_html(record)


def test_an_attempt_shows_no_savings() -> None:
    record = Compaction("c", 0, 3, "", 900, status="failed", reason="why", messages=3)
    assert compaction_text(record) == "Compaction failed: 3 messages, 900 tokens. why"
    record = Compaction("c", 0, 3, "", 900, status="running", messages=3)
    assert compaction_text(record) == "Compacting: 3 messages, 900 tokens"


def test_an_edited_summary_names_its_author() -> None:
    record = Compaction(
        "c", 0, 2, "S", 900, 90, model="m:x", revision="edited", messages=2
    )
    assert compaction_text(record).startswith("Compaction occurred, edited: 2 messages")
    assert "summary edited by you" in compaction_html(record)
    undone = Compaction("c", 0, 2, "S", status="undone", revision="edited")
    assert compaction_text(undone).startswith("Compaction undone: ")


def test_a_stored_record_that_was_tampered_with_runs_nothing() -> None:
    forged = "<img src=x onerror=alert(1)>"
    html = compaction_html(Compaction("c", 0, 2, "S", revision=forged))  # type: ignore[arg-type]
    assert "<img" not in html
    assert "onerror" in html


def test_shortened_tool_outputs_have_their_own_texts() -> None:
    places = ((1, "short"), (3, "shorter"))
    record = Compaction("p", 0, 4, "", 900, 300, kind="pruning", replacements=places)
    words = "Tool outputs shortened: 2 outputs, 900 → 300 tokens, without a model"
    assert compaction_text(record) == words
    assert "nbc-summary-text" not in compaction_html(record)
    undone = replace(record, status="undone")
    assert notice_text(CompactionUndone(undone)) == (
        "Tool outputs restored: the model sees 2 outputs in full again."
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "redone",
            "Compaction redone: 2 messages compacted, 900 → 90 tokens (\u221290%).",
        ),
        ("edited", "Summary edited: 900 → 90 tokens. too large"),
        ("regenerated", "Summary regenerated: 900 → 90 tokens."),
    ],
)
def test_every_change_of_a_compaction_has_its_notice(
    change: Change, words: str
) -> None:
    reason = "too large" if change == "edited" else ""
    event = CompactionChanged(
        Compaction("c", 0, 2, "S", 900, 90, reason=reason, messages=2), change
    )
    assert notice_text(event) == words
    assert "nbc-banner" in notice_html(event)


def test_a_change_of_the_pins_says_how_many_there_are() -> None:
    assert notice_text(PinsChanged(("a",))) == "1 rule pinned"
    assert "0 rules" in notice_html(PinsChanged(()))


def test_notices_are_sentences() -> None:
    assert [notice_text(event) for event in notices("why")] == [
        "Compacting: 1 message, 10 tokens …",
        "Nothing was compacted: why",
        "Compaction failed: why The conversation is unchanged.",
        "Compaction undone: the model sees the original 1 message again.",
        "Summary edited: 0 → 0 tokens. why",
        "Branched. The original stays in your sessions. /resume why reopens it.",
        "1 rule pinned",
        "Can't save this chat: why Messages stay until the kernel stops.",
        "why",
    ]


def test_any_string_can_be_encoded_for_display() -> None:
    assert displayable("a\ud83d\udc00b") == "a\ufffd\ufffdb"
    markdown_html("\ud800 `\udfff` \x00").encode()


def test_every_code_colour_is_readable_in_light_and_dark() -> None:
    for light, dark in re.findall(r"light-dark\((#\w+), (#\w+)\)", pygments_css()):
        assert contrast(light, "#f6f7f9") >= 4.5
        assert contrast(dark, "#1f2328") >= 4.5


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2: 4.5 is the least for text."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    shares = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_collapsed_banner_previews_the_summary() -> None:
    story = "**Ann** has a `DESK-7`.\n\n- printers &lt;facts> " + "word " * 100
    summary = f"<summary>\n{story}\n</summary>\n<facts>\nseat 4\n</facts>"
    html = compaction_html(Compaction("c", 0, 2, summary))
    preview = html.partition('"nbc-banner-preview">')[2].partition("</span>")[0]
    assert preview.startswith("Ann has a DESK-7. printers &lt;facts&gt; word word")
    assert len(unescape(preview)) == PREVIEW_LIMIT + 1
    assert "seat 4" not in preview


def test_a_banner_without_a_summary_has_no_preview() -> None:
    pruning = Compaction("c", 0, 2, "", kind="pruning")
    for record in (pruning, Compaction("c", 0, 2, "", status="failed")):
        assert "nbc-banner-preview" not in compaction_html(record)


def test_a_banner_shows_what_the_summary_cost_where_a_price_is_known():
    paid = Usage(1_000, 100, dollars=0.004, priced_tokens=1_100)
    html = compaction_html(Compaction("c", 0, 2, "S", cost=paid))
    assert "cost 1,100 tokens · $0.0040" in html
    assert "$" not in compaction_html(Compaction("c", 0, 2, "S", cost=Usage(5, 5)))


LINKS = {
    "in one word": "http://a" * 5_000,
    "in one word, below 5,000 characters": ("http://a" * 624 + "\n\n") * 8,
    "with spaces": "http://a " * 4_444,
    "no hosts": "http://! " * 4_444,
    "no scheme": "a://b" * 8_000,
    "letters before": "xhttp://a" * 4_444,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINKS)
def test_40000_characters_of_addresses_are_rendered_in_a_moment(kind):
    markdown_html("once http://a")  # patterns are compiled at first use
    began = CpuTime()
    markdown_html(LINKS[kind])
    assert began.spent() < 0.3  # 0.1 s where nothing else runs; it was 5 s


def test_bare_addresses_become_links_in_paragraphs_of_usual_length():
    linked = markdown_html(
        "See https://example.org/a?b=c, HTTP://b.org and ftp://c.org."
    )
    assert 'href="https://example.org/a?b=c"' in linked
    assert linked.count("href=") == 2  # ftp is no scheme that may be opened
    assert "<a " not in markdown_html("word " * 1_000 + "https://example.org")
    assert "<a " in markdown_html("word " * 1_000 + "\n\nhttps://example.org")
    assert "<a " in markdown_html("word " * 1_000 + "[here](https://example.org)")


@pytest.mark.parametrize(
    "text",
    ["[https://a.org](https://b.org)", "https://a.org*", "xhttps://a.org", "://a"],
)
def test_addresses_at_the_edges_are_read_as_before(text):
    expected = {
        "[https://a.org](https://b.org)": 1,
        "https://a.org*": 1,
        "xhttps://a.org": 0,
        "://a": 0,
    }
    assert markdown_html(text).count("<a ") == expected[text]
