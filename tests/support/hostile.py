"""Texts that attack the page, every place where a text can appear, and what is harmless.

The corpus in `data/hostile.json` has the known families. A payload that runs sets
`window.nbchatPwned`, and one that fetches asks for evil.example.
"""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

from nbchat.conversation.entries import FAILED, INCOMPLETE, Compaction, Entry
from nbchat.conversation.events import (
    Branched,
    CompactionChanged,
    CompactionFailed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    PinsChanged,
    SavingFailed,
    TurnFailed,
)
from nbchat.conversation.search import find
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Preview
from nbchat.jupyter.cell_output import Banner, Conversation
from nbchat.rendering.banners import (
    CELL_STYLE,
    compaction_html,
    divider_html,
    notice_html,
)
from nbchat.rendering.conversation import STYLE
from nbchat.rendering.entries import (
    entry_html,
    listing_html,
    note_html,
    summary_html,
    text_html,
    waiting_html,
)
from nbchat.rendering.markdown import (
    CODE_BOX,
    _cleaned,
    code_style,
    markdown_cell_html,
    markdown_html,
)
from nbchat.rendering.plain_text import displayable

FAMILIES: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[1] / "data" / "hostile.json").read_text(encoding="utf-8")
)

PAYLOADS = {
    f"{family} {number}": payload
    for family, payloads in FAMILIES.items()
    for number, payload in enumerate(payloads, 1)
}

PLACES: dict[str, Callable[[str], str]] = {
    "HTML that the parser let through": lambda text: _cleaned(displayable(text)),
    "an answer": lambda text: entry_html(Entry("assistant", text)),
    "a stopped answer": lambda text: entry_html(
        Entry("assistant", text, tool_args=INCOMPLETE)
    ),
    "an answer in a cell": markdown_cell_html,
    "what a person says": lambda text: entry_html(Entry("user", text)),
    "an attached file": lambda text: entry_html(
        Entry("user", text, "", text, json.dumps({"media_type": text}))
    ),
    "thinking": lambda text: entry_html(Entry("thinking", text, text, text, text)),
    "a tool's name": lambda text: entry_html(Entry("assistant", "", text, text, "{}")),
    "an argument": lambda text: entry_html(
        Entry("assistant", "", text, "t", json.dumps({text: text, "a": [{text: 1}]}))
    ),
    "broken arguments": lambda text: entry_html(Entry("assistant", "", "c", "t", text)),
    "a call that waits": lambda text: waiting_html(
        Entry("assistant", "", text, text, json.dumps({text: text})), "0" * 16
    ),
    "what a call would do": lambda text: waiting_html(
        Entry("assistant", "", "c", "t", json.dumps({"source": text})),
        "0" * 16,
        Preview(text, text, "diff"),
    ),
    "a result": lambda text: entry_html(Entry("tool", text, text, text)),
    "a failed result": lambda text: entry_html(Entry("tool", text, "c", "t", FAILED)),
    "a summary": lambda text: entry_html(Entry("summary", text)),
    "a story": lambda text: compaction_html(
        Compaction("c", 0, 1, f"<summary>\n{text}\n</summary>\n<facts>\nx\n</facts>")
    ),
    "the bar with the summary": lambda text: summary_html(
        f"<summary>\n{text}\n</summary>\n<facts>\n{text}\n</facts>"
    ),
    "facts": lambda text: compaction_html(
        Compaction("c", 0, 1, f"<summary>\nx\n</summary>\n<facts>\n{text}\n</facts>")
    ),
    "a banner": lambda text: compaction_html(banner(text)),
    "the panel's line of a compaction": lambda text: divider_html(banner(text)),
    "a conversation in a cell": lambda text: Conversation(
        Session([Entry("user", text), Entry("assistant", text)])
    )._repr_html_(),
    "a banner in a cell": lambda text: Banner(banner(text))._repr_html_(),
    "what a banner shows of its author": lambda text: compaction_html(
        Compaction("c", 0, 1, "x", revision=text)  # type: ignore[arg-type]
    ),
    "notices": lambda text: "".join(map(notice_html, notices(text))),
    "a command's note": note_html,
    "a command's table": lambda text: listing_html([text], [[text, text]]),
    "plain text": text_html,
    "something recalled": lambda text: find([Entry("user", text)], 0)._repr_html_(),
    "an entry of an unknown kind": lambda text: entry_html(
        Entry(text, text, text, text, text)
    ),
}
"""How each place makes HTML of a text."""

MARKDOWN = [
    "{}",
    "# {}",
    "> {}",
    "- {}",
    "**{}**",
    "`{}`",
    "```{}\nx\n```",
    "```html\n{}\n```",
    "| {} |\n|---|\n| {} |",
    "[{}](https://a.example)",
    "[x]({})",
    '[x](https://a.example "{}")',
    "[x]\n\n[x]: {}",
    "<{}>",
    "![{}](https://a.example)",
    "![x]({})",
    "$\\text{{}}$",
    "$$\n{}\n$$",
    "\\({}\\)",
    "\\[ {} \\]",
]
"""Where in Markdown a text can stand."""

TAGS = {
    *("article", "div", "details", "summary", "span", "pre", "code", "p", "a", "em"),
    *(
        "img",
        "strong",
        "ul",
        "ol",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "br",
    ),
    *("blockquote", "hr", "s", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("math", "menclose", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom"),
    *("mroot", "mrow", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup"),
    *("mtable", "mtd", "mtext", "mtr", "munder", "munderover"),
}

WORD = r"[\w+#.-]{0,30}"
LENGTH = r"-?\d{0,2}(\.\d{1,3})?(em|ex|pt|px)?"

ATTRIBUTES = {
    "aria-label": ".*",
    "class": r"nbc-cell mathjax_ignore|(nbc-(?!send|stop|input|copy|code(box|bar))[a-z-]+ ?)+|[a-z]{1,3}\d?",
    "data-call": ".*",
    "data-divider": "",
    "data-mark": r"U\+[0-9A-F]{4,6}",
    "data-position": r"\d+",
    "data-size": r"[\d,]+ (lines|characters)",
    "data-language": WORD,
    "data-session": ".*",
    "data-state": "[a-z]+",
    "data-ticket": "[0-9a-f]{16}",
    "dir": "auto",
    "alt": ".*",
    "src": r"data:image/png;base64,[A-Za-z0-9+/=]+",
    "href": r"(https?://|mailto:).*",
    "rel": "noopener noreferrer",
    "rowspan": r"\d+",
    "scope": "row",
    "start": r"\d{1,9}",
    "style": "text-align:(left|center|right)",
    "target": "_blank",
    "title": ".*",
    **dict.fromkeys(("accent", "accentunder", "displaystyle", "fence"), "true|false"),
    **dict.fromkeys(("movablelimits", "stretchy"), "true|false"),
    **dict.fromkeys(("columnalign", "display", "form", "scriptlevel"), WORD),
    **dict.fromkeys(("mathvariant", "notation"), WORD),
    **dict.fromkeys(("depth", "height", "linethickness", "lspace", "rspace"), LENGTH),
    **dict.fromkeys(("maxsize", "minsize", "width"), LENGTH),
}
"""What may stand on an element, and the form of its value."""


class Elements(HTMLParser):
    """The elements of a document; faults are what no document of ours has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("br", "hr", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes what it did not open")

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def assert_harmless(html: str) -> None:
    """Only known elements and attributes, links only to where a click may lead."""
    html.encode()
    for style in (CELL_STYLE, CELL_STYLE + STYLE + code_style(), code_style()):
        html = html.replace(f"<style>{style}</style>", "")
    html = html.replace(f' style="{CODE_BOX}"', "")
    elements = Elements(html)
    assert elements.faults == []
    for tag, attributes in elements.found:
        assert tag in TAGS
        for name, value in attributes.items():
            assert name in ATTRIBUTES
            assert re.fullmatch(ATTRIBUTES[name], value, re.DOTALL), (name, value)
        assert tag == "a" or "href" not in attributes
        if tag == "a":
            assert set(attributes) <= {"href", "rel", "target"}
            assert {"rel", "target"} <= set(attributes)
        assert tag in ("th", "td") or "style" not in attributes


def markdowns(text: str) -> list[str]:
    """The text in every place that Markdown has for one, as HTML."""
    return [markdown_html(template.replace("{}", text)) for template in MARKDOWN]


def banner(text: str) -> Compaction:
    """A compaction that says `text` wherever it can."""
    return Compaction(
        text, 0, 1, text, model=text, trigger=text, policy=text, reason=text,
        note=text, created_at=text,
    )  # fmt: skip


def notices(
    text: str,
) -> list[
    CompactionStarted
    | CompactionSkipped
    | CompactionFailed
    | CompactionUndone
    | CompactionChanged
    | Branched
    | PinsChanged
    | SavingFailed
    | TurnFailed
]:
    """One of each, saying `text`."""
    record = Compaction("c", 0, 1, text, reason=text, status="failed", messages=1)
    return [
        CompactionStarted(text, 1, 10),
        CompactionSkipped(text),
        CompactionFailed(record),
        CompactionUndone(record),
        CompactionChanged(record, "edited"),
        Branched(text),
        PinsChanged((text,)),
        SavingFailed(text),
        TurnFailed(text),
    ]
