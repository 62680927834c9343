"""An entry of a conversation as safe HTML: nothing in it runs, and nothing is fetched.

Every text of people, models, tools and files is hostile. What a model writes is
Markdown, made safe in `markdown.py`; everything else is escaped.
"""

import json
import re
from html import escape
from typing import Any

from nbchat.conversation.entries import Entry
from nbchat.rendering.markdown import displayable, markdown_html
from nbchat.rendering.unseen import with_unseen_shown

OUTPUT_LIMIT = 20_000
"""Characters of one tool call or result that are shown; the transcript holds all."""

HINT_LIMIT = 90
"""Characters of a call's arguments shown on its folded card."""

MARKDOWN_START = '<div class="nbc-md">'
"""What stands before the blocks of an answer."""

TEXT_START = '<div class="nbc-text">'
"""What stands before a plain text."""

_TAG = re.compile(r"</?(?:summary|facts)>\n?")


def entry_html(entry: Entry) -> str:
    """One entry as the panel shows it; empty when there is nothing to show.

    A call is a card; its result is the second half of the card, found by `data-call`.
    """
    match entry.role:
        case "user" if entry.is_text_file:
            html = _file_html(entry)
        case "user":
            html = _article("user", "You", _user_html(entry))
        case "assistant" if entry.is_call:
            html = _call_html(entry)
        case "assistant":
            html = _article("assistant", "Assistant", _answer_html(entry))
        case "tool":
            html = _result_html(entry)
        case "thinking":
            html = _thinking_html(entry)
        case "summary":
            html = _folded("summary", "Summary", summary_html(entry.content))
        case _:
            html = _article("other", entry.role, text_html(entry.content))
    return html


def summary_html(summary: str) -> str:
    """The story as Markdown, and below it the facts that code has kept."""
    prose, _, facts = summary.partition("<facts>")
    told = markdown_html(_TAG.sub("", prose).strip())
    kept = _TAG.sub("", facts).strip()
    return (
        f'<div class="nbc-summary-text"><div class="nbc-md">{told}</div>'
        f"{part_html('Facts kept by code', kept) if kept else ''}</div>"
    )


def waiting_html(call: Entry, ticket: str) -> str:
    """A call that waits for a person's word: open, and with all of its arguments.

    What a person decides about must not hide behind its end, or behind characters that
    nobody sees.
    """
    name = escaped(with_unseen_shown(call.tool_name))
    arguments = escaped(with_unseen_shown(_arguments(call)))
    return (
        f'<details class="nbc-entry nbc-tool" data-call="{escaped(call.tool_id)}"'
        f' data-state="waiting" data-ticket="{escaped(ticket)}"><summary>'
        f'<span class="nbc-tool-name">{name}</span><span class="nbc-tool-hint"></span>'
        f'</summary><div class="nbc-label">Arguments</div>'
        f'<pre class="nbc-output">{arguments}</pre></details>'
    )


def text_html(text: str) -> str:
    """A text with its line breaks, escaped."""
    return f"{TEXT_START}{escaped(text)}</div>"


def note_html(text: str) -> str:
    """A command's answer: plain text whose columns stay aligned."""
    return f'<pre class="nbc-note">{escaped(text)}</pre>'


def spent_html(text: str) -> str:
    """The line below an answer that says what it took."""
    title = "Tokens read and written for this answer, and what they cost"
    return f'<div class="nbc-spent" title="{title}">{escaped(text)}</div>'


def escaped(text: str) -> str:
    """A text as HTML shows it."""
    return escape(displayable(text))


def _article(kind: str, label: str, inside: str) -> str:
    return (
        f'<article class="nbc-entry nbc-{kind}" aria-label="{escaped(label)}">'
        f"{inside}</article>"
    )


def _folded(kind: str, title: str, inside: str) -> str:
    return (
        f'<details class="nbc-entry nbc-{kind}"><summary>{title}</summary>'
        f"{inside}</details>"
    )


def _user_html(entry: Entry) -> str:
    if not entry.tool_name:
        return text_html(entry.content)
    media_type = str(entry.arguments.get("media_type", ""))
    label = " · ".join(filter(None, (entry.tool_name, media_type)))
    return f'<span class="nbc-chip">{escaped(label)}</span>{text_html(entry.content)}'


def _file_html(entry: Entry) -> str:
    """A folded card with the text that the model read."""
    text, media_type = entry.arguments["data"], entry.arguments.get("media_type", "")
    name = escaped(entry.content or entry.tool_name)
    return (
        '<details class="nbc-entry nbc-attached">'
        f"<summary><span>{name}</span></summary>"
        f"{part_html(escaped(str(media_type)), text)}</details>"
    )


def _answer_html(entry: Entry) -> str:
    cut = '<div class="nbc-cut">stopped here</div>'
    answer = f"{MARKDOWN_START}{markdown_html(entry.content)}</div>"
    return answer + (cut if entry.is_incomplete else "")


def _thinking_html(entry: Entry) -> str:
    """Nothing when the provider shows none of its model's thinking."""
    if not entry.content:
        return ""
    return _folded("thinking", "Thinking", text_html(entry.content))


def _call_html(call: Entry) -> str:
    return (
        f'<details class="nbc-entry nbc-tool" data-call="{escaped(call.tool_id)}">'
        f'<summary><span class="nbc-tool-name">{escaped(call.tool_name)}</span>'
        f'<span class="nbc-tool-hint">{escaped(_hint(call.arguments))}</span></summary>'
        f"{part_html('Arguments', _arguments(call))}</details>"
    )


def _arguments(call: Entry) -> str:
    """As JSON that reads well, or as the model wrote them if they are no object."""
    arguments = call.arguments
    if not arguments:
        return call.tool_args
    return json.dumps(arguments, indent=2, ensure_ascii=False)


def _result_html(result: Entry) -> str:
    state = "denied" if result.is_denied else "failed" if result.is_error else "done"
    return (
        f'<div class="nbc-tool-result" data-call="{escaped(result.tool_id)}"'
        f' data-state="{state}">{part_html("Result", result.content)}</div>'
    )


def part_html(label: str, text: str) -> str:
    """A labelled output, cut where it gets too long to show."""
    left_out = len(text) - OUTPUT_LIMIT
    more = f"\n… {left_out:,} more characters in the transcript" if left_out > 0 else ""
    return (
        f'<div class="nbc-label">{label}</div>'
        f'<pre class="nbc-output">{escaped(text[:OUTPUT_LIMIT] + more)}</pre>'
    )


def _hint(arguments: dict[str, Any]) -> str:
    pairs = (f"{name}={_short(value)}" for name, value in arguments.items())
    hint = ", ".join(pairs)
    return hint if len(hint) <= HINT_LIMIT else f"{hint[:HINT_LIMIT]}…"


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
