"""Transcript entries as safe HTML: no scripts run and no URL is fetched.

Text of users, models, tools and files is untrusted. A model's text is Markdown, which
`markdown.py` sanitizes; everything else is escaped.
"""

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from nbchat.conversation.entries import Entry, MemoryLine
from nbchat.conversation.pictures import thumbnail_of
from nbchat.conversation.rules_file import RulesFile
from nbchat.conversation.tools import Preview
from nbchat.rendering.arguments import arguments_html, with_invisibles_escaped
from nbchat.rendering.markdown import markdown_html
from nbchat.rendering.plain_text import displayable

OUTPUT_LIMIT = 20_000
"""Characters shown of one tool call or result; the transcript holds all of them."""

TEXT_PART = (20_000, 500)
"""Characters and lines of a message that are shown at once."""

ANSWER_PART = (200_000, 5_000)
"""The same for Markdown, whose blocks out of sight a browser does not lay out."""

HINT_LIMIT = 200
"""Characters of a call's arguments shown on its collapsed card."""

MARKDOWN_START = '<div class="nbc-md">'
"""The opening tag around an answer's Markdown."""

TEXT_START = '<div class="nbc-text">'
"""The opening tag around plain text."""

COPIED_TITLE = "Copied from the conversation"

SECTIONS = {
    "rules": "Rules in force",
    "words": "What you said",
    "work": "Variables, names and files",
    "calls": "Calls",
    "records": "Records",
    "newest": "Newest answers and outputs",
}
"""The parts of a memory, as a person reads them."""

CODE_PARTS = ("work", "calls", "newest")
"""Parts with code and outputs."""

LINE_PARTS = ("work", "calls")
"""Parts of one line each, which are not wrapped."""

SEPARATOR = " | "
"""Between the cells of a record."""

NOTE = "(before "
"""How a remark behind the cells begins: an action was asked for later."""

HEADING = "## "
"""Before a title within a part, in policies whose summary has headings."""

_LINE_END = re.compile(r"(?<=[^\s|])\n(?=\*\*)")
"""The end of a line of a summary before the bold name of its next part."""

_SUMMARY_TAG = re.compile(r"</?(?:summary|facts)>\n?")


def entry_html(entry: Entry, *, duration: str = "") -> str:
    """Render one entry; empty when there is nothing to show.

    A call is a card; its result is the second half of that card, found by `data-call`.
    `duration` is how long a result's call ran.
    """
    match entry.role:
        case "user":
            html = _user_html(entry)
        case "assistant" if entry.is_call:
            html = _call_html(entry)
        case "assistant":
            html = _article("assistant", "Assistant", _answer_html(entry))
        case "tool":
            html = _result_html(entry, duration)
        case "thinking":
            html = _thinking_html(entry)
        case "summary":
            html = _collapsed("summary", "Summary", summary_html(entry.content))
        case _:
            html = _article("other", entry.role, text_html(entry.content))
    return html


def beginning_html(entry: Entry, *, duration: str = "") -> str:
    """Render an entry, of a long message or answer the beginning.

    An element with the class `nbc-rest` says where that ends: a browser lays out some
    hundred kilobytes in a moment, and needs minutes for a text of 100,000 lines.
    """
    text = entry.content
    end = part_end(text, 0, ANSWER_PART if entry.role == "assistant" else TEXT_PART)
    if end == len(text) or not (entry.is_prompt or entry.is_answer):
        return entry_html(entry, duration=duration)
    more = f'<div class="nbc-rest" data-end="{end}" data-length="{len(text)}"></div>'
    html = entry_html(entry._replace(content=text[:end]), duration=duration)
    return f"{html.removesuffix('</article>')}{more}</article>"


def part_end(text: str, start: int, size: tuple[int, int] = TEXT_PART) -> int:
    """Index where a part of a text ends: after a line, if one ends in its second half.

    `size` is the most characters and lines of a part.
    """
    characters, lines = size
    end = start
    for _ in range(lines):
        line_end = text.find("\n", end, start + characters) + 1
        if not line_end:
            break
        end = line_end
    else:
        return end
    last = min(start + characters, len(text))
    is_line_end = last < len(text) and end - start > characters // 2
    return end if is_line_end else last


def summary_html(content: str) -> str:
    """Render a summary as Markdown, followed by the facts that code kept."""
    summary, facts = summary_parts(content)
    shown = part_html("Facts kept by code", facts) if facts else ""
    return f'<div class="nbc-summary-text">{summary_text_html(summary)}{shown}</div>'


def summary_text_html(text: str) -> str:
    """Render a summary's text with its own line breaks."""
    broken = _LINE_END.sub("  \n", text)
    return f'<div class="nbc-md">{markdown_html(broken)}</div>'


def summary_parts(content: str) -> tuple[str, str]:
    """Split a summary entry's content into the summary and the facts, without tags."""
    summary, _, facts = content.partition("<facts>")
    return _SUMMARY_TAG.sub("", summary).strip(), _SUMMARY_TAG.sub("", facts).strip()


def memory_html(lines: Sequence[MemoryLine]) -> str:
    """Render the lines that code copied, part by part; empty without any.

    The panel makes a button of each text with a position.
    """
    if not lines:
        return ""
    parts = [(part, list(group)) for part, group in groupby(lines, lambda e: e.part)]
    shown = "".join(_part_html(part, group) for part, group in parts)
    label = f'<div class="nbc-label">{COPIED_TITLE}</div>'
    return f'<div class="nbc-kept-facts">{label}{shown}</div>'


def _part_html(part: str, lines: Sequence[MemoryLine]) -> str:
    """A part below its own title; the first line is the title that the model reads."""
    groups: list[list[MemoryLine]] = []
    for line in lines[1:]:
        if not groups or (line.position is None and _is_heading(line.text)):
            groups.append([])
        groups[-1].append(line)
    shown = "".join(_table_of(group) or _list_of(group) for group in groups)
    kind = " nbc-copied-code" if part in CODE_PARTS else ""
    kind += " nbc-copied-lines" if part in LINE_PARTS else ""
    title = escaped(SECTIONS.get(part, part))
    return f'<p>{title}</p><div class="nbc-copied{kind}">{shown}</div>'


def _is_heading(text: str) -> bool:
    return text.endswith((":", "]")) or text.startswith(HEADING)


def _list_of(lines: Sequence[MemoryLine]) -> str:
    items = (_item(line) for line in lines)
    return f"<ul>{''.join(items)}</ul>"


def _item(line: MemoryLine) -> str:
    text = line.text.removeprefix("- ").removeprefix(HEADING).replace("\n  ", "\n")
    kind = ' class="nbc-muted"' if line.position is None else ""
    return f'<li dir="auto"{kind}>{_placed(text, line.position)}</li>'


def _table_of(lines: Sequence[MemoryLine]) -> str:
    """Records as a table; empty for other lines, and where cells have bars in them."""
    scope, bracket, header = lines[0].text.rpartition("[")
    if not (bracket and header.endswith("]")) or lines[0].position is not None:
        return ""
    names = header.removesuffix("]").split(SEPARATOR)
    rows = [line.text.split(SEPARATOR) for line in lines[1:]]
    if not all(len(row) == len(names) + row[-1].startswith(NOTE) for row in rows):
        return ""
    caption = f"<caption>{escaped(scope)}</caption>" if scope else ""
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    body = "".join(
        f"<tr>{_cells_html(row, line.position)}</tr>"
        for row, line in zip(rows, lines[1:], strict=True)
    )
    table = f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="nbc-records"><table>{table}</table></div>'


def _cells_html(cells: Sequence[str], position: int | None) -> str:
    """The cells of a row, of which the first leads to the message."""
    rest = "".join(f'<td dir="auto">{escaped(cell)}</td>' for cell in cells[1:])
    return f'<td dir="auto">{_placed(cells[0], position)}</td>{rest}'


def _placed(text: str, position: int | None) -> str:
    if position is None:
        return escaped(text)
    return f'<span data-position="{position}">{escaped(text)}</span>'


def waiting_html(call: Entry, ticket: str, preview: Preview | None = None) -> str:
    """Render a call that waits for approval: expanded, with all of its arguments.

    Arguments are neither cut nor hidden by invisible characters, because the user
    decides by what is shown.
    """
    name, attributes = with_invisibles_escaped(call.tool_name), {"state": "waiting"}
    attributes["ticket"] = ticket
    if preview is not None and preview.place:
        attributes["place"] = preview.place
    if preview is not None and preview.take is not None:
        attributes["draft"] = preview.draft
    written = (f' data-{key}="{escaped(each)}"' for key, each in attributes.items())
    return _card(call, name, "", arguments_html(call, preview), "".join(written))


def rules_html(rules: RulesFile) -> str:
    """Render rules from a file that wait for a yes: whole, nothing in them hidden."""
    text = with_invisibles_escaped(rules.text)
    title = f"{rules.name} in this project has rules for the model. Use them?"
    shown = part_html(escaped(rules.title), text)
    return _collapsed("rules", f"<span>{escaped(title)}</span>", shown, " open")


def text_html(text: str) -> str:
    """Render plain text, escaped; CSS keeps its line breaks."""
    return f"{TEXT_START}{escaped(text)}</div>"


def note_html(text: str) -> str:
    """Render a command's output: a line as prose, several as preformatted text."""
    kind = "pre" if "\n" in text else "p"
    return f'<{kind} class="nbc-note">{escaped(text)}</{kind}>'


def notice_line_html(text: str, details: str = "") -> str:
    """Render a line about what is unusual, with details that open."""
    return f'<div class="nbc-notice">{escaped(text)}{details_html(details)}</div>'


def details_html(text: str) -> str:
    """Details of a failure, such as a status, which open on a click."""
    if not text:
        return ""
    return f"<details><summary>Details</summary>{escaped(text)}</details>"


def listing_html(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render what a command lists as a table."""
    head = "".join(f"<th>{escaped(name)}</th>" for name in columns)
    cells = ("".join(f"<td>{_cell(text)}</td>" for text in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="nbc-md nbc-reply">{table}</div>'


def _cell(text: str) -> str:
    """Escaped, its indentation kept with its first word."""
    plain = text.lstrip(" ")
    return "\u00a0" * (len(text) - len(plain)) + escaped(plain)


def usage_html(text: str) -> str:
    """Render the usage line below an answer."""
    title = "Tokens read and written for this answer, and what they cost"
    return f'<div class="nbc-spent" title="{title}">{escaped(text)}</div>'


def part_html(label: str, text: str) -> str:
    """Render labelled preformatted text, cut at `OUTPUT_LIMIT` characters."""
    hidden = len(text) - OUTPUT_LIMIT
    more = f"\n… {hidden:,} more characters in the transcript" if hidden > 0 else ""
    return (
        f'<div class="nbc-label">{label}</div>'
        f'<pre class="nbc-output">{escaped(text[:OUTPUT_LIMIT] + more)}</pre>'
    )


def escaped(text: str) -> str:
    """Escape text for HTML; lone surrogates become U+FFFD."""
    return escape(displayable(text))


def _article(kind: str, label: str, inside: str) -> str:
    return (
        f'<article class="nbc-entry nbc-{kind}" aria-label="{escaped(label)}">'
        f"{inside}</article>"
    )


def _collapsed(kind: str, title: str, inside: str, attributes: str = "") -> str:
    return (
        f'<details class="nbc-entry nbc-{kind}"{attributes}>'
        f"<summary>{title}</summary>{inside}</details>"
    )


def _card(call: Entry, name: str, hint: str, inside: str, attributes: str = "") -> str:
    """A call with its arguments."""
    title = (
        f'<span class="nbc-tool-name">{escaped(name)}</span>'
        f'<span class="nbc-tool-hint">{escaped(hint)}</span>'
    )
    arguments = f'<div class="nbc-arguments">{inside}</div>'
    attributes = f' data-call="{escaped(call.tool_id)}"{attributes}'
    return _collapsed("tool", title, arguments, attributes)


def request_text(entry: Entry) -> str:
    """A line about what nbchat asked the model, such as to write an answer again."""
    return f"nbchat asked the model: {entry.content}"


def _user_html(entry: Entry) -> str:
    if entry.is_by_nbchat:
        return notice_line_html(request_text(entry))
    if entry.is_tool_picture:
        return _picture_html(entry)
    if entry.is_text_file:
        return _file_html(entry)
    return _article("user", "You", _said_html(entry))


def _said_html(entry: Entry) -> str:
    if not entry.tool_name:
        return text_html(entry.content)
    if small := thumbnail_of(entry):
        name = escaped(str(entry.arguments.get("name") or entry.content))
        alt = escaped(entry.content)
        picture = f'<img class="nbc-thumbnail" src="{small}" alt="{alt}">'
        return f'<span class="nbc-picture" title="{alt}">{picture}{name}</span>'
    media_type = str(entry.arguments.get("media_type", ""))
    label = " · ".join(filter(None, (entry.tool_name, media_type)))
    return f'<span class="nbc-chip">{escaped(label)}</span>{text_html(entry.content)}'


def _file_html(entry: Entry) -> str:
    """Render an attached text file as a collapsed card with all of its text."""
    text, media_type = entry.arguments["data"], entry.arguments.get("media_type", "")
    name = escaped(entry.content or entry.tool_name)
    shown = part_html(escaped(str(media_type)), text)
    return _collapsed("attached", f"<span>{name}</span>", shown)


def _answer_html(entry: Entry) -> str:
    cut = '<div class="nbc-cut">cut off here</div>' if entry.is_incomplete else ""
    return f"{MARKDOWN_START}{markdown_html(entry.content)}</div>{cut}"


def _thinking_html(entry: Entry) -> str:
    """Empty when the provider hides its model's thinking."""
    if not entry.content:
        return ""
    return _collapsed("thinking", "Thinking", text_html(entry.content))


def _call_html(call: Entry) -> str:
    shown = arguments_html(call)
    if len(call.tool_args) > OUTPUT_LIMIT:
        shown = part_html("Arguments", call.tool_args)
    return _card(call, call.tool_name, _hint(call.arguments), shown)


def _result_html(result: Entry, duration: str) -> str:
    size = " · ".join(filter(None, (_size(result.content), duration)))
    state = "denied" if result.is_denied else "failed" if result.is_error else "done"
    return (
        f'<div class="nbc-tool-result" data-call="{escaped(result.tool_id)}"'
        f' data-state="{state}" data-size="{escaped(size)}">'
        f"{part_html('Result', result.content)}</div>"
    )


def _picture_html(picture: Entry) -> str:
    """Render a line about a tool's picture, which belongs on the card of its call."""
    return (
        '<div class="nbc-tool-result nbc-tool-picture"'
        f' data-call="{escaped(picture.tool_id)}">{_said_html(picture)}</div>'
    )


def _size(text: str) -> str:
    """How much a tool returned, in words."""
    lines = len(text.splitlines())
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def _hint(arguments: dict[str, Any]) -> str:
    """The arguments of a call in words: "order W1, quantity 2, not express"."""
    is_only = len(arguments) == 1
    parts = (_said(name, arguments[name], is_only=is_only) for name in arguments)
    hint = ", ".join(filter(None, parts))
    return hint if len(hint) <= HINT_LIMIT else f"{hint[:HINT_LIMIT]}…"


def _said(name: str, value: object, *, is_only: bool) -> str:
    """An argument in words; the name of the only one says nothing more."""
    words = name.replace("_", " ").strip() or name
    match value:
        case None | "":
            return ""
        case bool():
            return words if value else f"not {words}"
        case str() if (lines := len(value.strip().splitlines())) > 1:
            return f"{words} of {lines} lines"
        case str():
            said = " ".join(value.split())
        case list() if all(isinstance(each, str | int | float) for each in value):
            said = " and ".join(map(str, value))
        case _:
            said = json.dumps(value, ensure_ascii=False)
    return said if is_only else f"{words} {said}"
