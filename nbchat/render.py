"""An entry or event as safe HTML: nothing in it runs, and nothing is fetched.

Every text of people, models, tools and files is hostile. What a model writes is
Markdown, made safe in `markdown.py`; everything else is escaped.
"""

import json
import re
from html import escape, unescape
from typing import Any, assert_never

from nbchat.compaction.envelope import story
from nbchat.events import (
    Change,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    PinsChanged,
    SavingFailed,
    TurnFailed,
)
from nbchat.history import Compaction, Entry
from nbchat.markdown import displayable, markdown_html

OUTPUT_LIMIT = 20_000
"""Characters of one tool call or result that are shown; the transcript holds all."""

HINT_LIMIT = 90
"""Characters of a call's arguments shown on its folded card."""

PREVIEW_LIMIT = 200
"""Characters of a summary's story shown on its folded banner."""

MARKDOWN_START = '<div class="nbc-md">'
"""What stands before the blocks of an answer."""

CELL_STYLE = """
.nbc-cell > .nbc-banner { margin: 4px 0; padding: 6px 12px; border-radius: 6px;
  border: 1px solid var(--jp-info-color2, #90caf9);
  background: var(--jp-layout-color2, #eef5fc); color: var(--jp-ui-font-color1, #222);
  font: 13px/1.5 var(--jp-ui-font-family, system-ui, sans-serif); }
.nbc-cell summary { cursor: pointer; }
.nbc-cell .nbc-banner-title { font-weight: 600; margin-right: 8px; }
.nbc-cell .nbc-banner-preview { display: block; }
.nbc-cell details[open] .nbc-banner-preview { display: none; }
.nbc-cell .nbc-banner-facts { color: var(--jp-ui-font-color2, #555); margin: 6px 0; }
.nbc-cell pre { white-space: pre-wrap; }
"""
"""The few rules of chat.css that a banner outside of the panel needs."""

TITLES = {
    "summary": {
        "running": "Compacting",
        "done": "Compaction occurred",
        "degraded": "Compaction occurred, degraded",
        "undone": "Compaction undone",
        "redone": "Compaction redone",
        "failed": "Compaction failed",
    },
    "pruning": {
        "running": "Shortening tool outputs",
        "done": "Tool outputs shortened",
        "degraded": "Tool outputs shortened, degraded",
        "undone": "Tool outputs restored",
        "redone": "Tool outputs shortened again",
        "failed": "Tool outputs not shortened",
    },
}
"""What a banner says first, by the record's kind and what became of it."""

CompactionNotice = (
    CompactionStarted
    | CompactionSkipped
    | CompactionFailed
    | CompactionUndone
    | CompactionChanged
)
Notice = CompactionNotice | PinsChanged | SavingFailed | TurnFailed

_TAG = re.compile(r"</?(?:summary|facts)>\n?")
_INLINE_MARK = re.compile(r"</?(?:a|code|em|s|span|strong)\b[^>]*>")
_MARK = re.compile(r"<[^>]+>")


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


def compaction_html(compaction: Compaction) -> str:
    """The banner of a compaction: what was folded, what it saved, and the summary."""
    author = "summary by you" if compaction.revision == "edited" else compaction.model
    facts = [
        f"policy {compaction.policy}",
        f"trigger {compaction.trigger}",
        f"cost {compaction.cost.total_tokens:,} tokens",
        *filter(None, [author, _time(compaction)]),
        *filter(None, [compaction.reason, compaction.note]),
    ]
    summary = summary_html(compaction.summary) if compaction.summary else ""
    return (
        f'<details class="nbc-banner" data-state="{_clean(compaction.status)}">'
        f'<summary><span class="nbc-banner-title">{_clean(_title(compaction))}</span> '
        f'<span class="nbc-banner-figures">{_clean(_figures(compaction))}</span>'
        f"{_preview(compaction)}</summary>"
        f'<div class="nbc-banner-facts">{_clean(" · ".join(facts))}</div>'
        f"{summary}</details>"
    )


def compaction_cell_html(compaction: Compaction) -> str:
    """The banner for a cell's output, where the panel's stylesheet does not reach."""
    banner = compaction_html(compaction)
    # JupyterLab lets MathJax read a cell's HTML, and its \href takes any address.
    style = f"<style>{CELL_STYLE}</style>"
    return f'<div class="nbc-cell mathjax_ignore">{style}{banner}</div>'


def compaction_text(compaction: Compaction) -> str:
    """The banner as one line of plain text."""
    told = "; ".join(filter(None, (compaction.reason, compaction.note)))
    more = f" ({told})" if told else ""
    return f"{_title(compaction)}: {_figures(compaction)}{more}"


def notice_html(event: Notice) -> str:
    """An event that is worth a line of its own."""
    text = notice_text(event)
    match event:
        case PinsChanged() | SavingFailed():
            html = f'<div class="nbc-notice">{_clean(text)}</div>'
        case TurnFailed():
            html = f'<div class="nbc-error">{_clean(text)}</div>'
        case CompactionStarted():
            html = _banner("running", text)
        case CompactionSkipped():
            html = _banner("skipped", text)
        case CompactionFailed():
            html = _banner("failed", text)
        case CompactionUndone():
            html = _banner("undone", text)
        case CompactionChanged():
            html = _banner("done", text)
        case _:
            assert_never(event)
    return html


def notice_text(event: Notice) -> str:
    """An event that is worth a line of its own, as plain text."""
    match event:
        case PinsChanged(pins):
            rules = "1 rule" if len(pins) == 1 else f"{len(pins)} rules"
            text = f"Pinned, kept word for word: {rules}"
        case SavingFailed(reason):
            text = f"Not saved, the chat goes on in memory: {reason}"
        case TurnFailed(message):
            text = message
        case _:
            text = _compaction_notice(event)
    return text


def _compaction_notice(event: CompactionNotice) -> str:
    match event:
        case CompactionStarted(_, entries, tokens):
            text = f"Compacting: {_counted(entries)}, {tokens:,} tokens …"
        case CompactionSkipped(reason):
            text = f"Compaction skipped: {reason}"
        case CompactionFailed(compaction):
            why = compaction.reason
            text = f"Compaction failed, the conversation is unchanged: {why}"
        case CompactionUndone(compaction):
            text = _undone_text(compaction)
        case CompactionChanged(compaction, change):
            text = _changed_text(compaction, change)
        case _:
            assert_never(event)
    return text


def progress_text(event: CompactionProgress) -> str:
    """How far a compaction in parts has come."""
    return f"part {event.done + 1} of {event.total}"


def summary_html(summary: str) -> str:
    """The story as Markdown, and below it the facts that code has kept."""
    prose, _, facts = summary.partition("<facts>")
    told = markdown_html(_TAG.sub("", prose).strip())
    kept = _TAG.sub("", facts).strip()
    return (
        f'<div class="nbc-summary-text"><div class="nbc-md">{told}</div>'
        f"{_part('Facts kept by code', kept) if kept else ''}</div>"
    )


def text_html(text: str) -> str:
    """A text with its line breaks, escaped."""
    return f'<div class="nbc-text">{_clean(text)}</div>'


def note_html(text: str) -> str:
    """A command's answer: plain text whose columns stay aligned."""
    return f'<pre class="nbc-note">{_clean(text)}</pre>'


def _clean(text: str) -> str:
    return escape(displayable(text))


def _article(kind: str, label: str, inside: str) -> str:
    return (
        f'<article class="nbc-entry nbc-{kind}" aria-label="{_clean(label)}">'
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
    return f'<span class="nbc-chip">{_clean(label)}</span>{text_html(entry.content)}'


def _file_html(entry: Entry) -> str:
    """A folded card with the text that the model read."""
    text, media_type = entry.arguments["data"], entry.arguments.get("media_type", "")
    return (
        '<details class="nbc-entry nbc-attached"><summary>'
        f'<span class="nbc-chip">{_clean(entry.tool_name)}</span>'
        f"<span>{_clean(entry.content)}</span></summary>"
        f"{_part(_clean(str(media_type)), text)}</details>"
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
    arguments = call.arguments
    shown = (
        json.dumps(arguments, indent=2, ensure_ascii=False)
        if arguments
        else call.tool_args
    )
    return (
        f'<details class="nbc-entry nbc-tool" data-call="{_clean(call.tool_id)}">'
        f'<summary><span class="nbc-tool-name">{_clean(call.tool_name)}</span>'
        f'<span class="nbc-tool-hint">{_clean(_hint(arguments))}</span></summary>'
        f"{_part('Arguments', shown)}</details>"
    )


def _result_html(result: Entry) -> str:
    state = "failed" if result.is_error else "done"
    return (
        f'<div class="nbc-tool-result" data-call="{_clean(result.tool_id)}"'
        f' data-state="{state}">{_part("Result", result.content)}</div>'
    )


def _part(label: str, text: str) -> str:
    left_out = len(text) - OUTPUT_LIMIT
    more = f"\n… {left_out:,} more characters in the transcript" if left_out > 0 else ""
    return (
        f'<div class="nbc-label">{label}</div>'
        f'<pre class="nbc-output">{_clean(text[:OUTPUT_LIMIT] + more)}</pre>'
    )


def _hint(arguments: dict[str, Any]) -> str:
    pairs = (f"{name}={_short(value)}" for name, value in arguments.items())
    hint = ", ".join(pairs)
    return hint if len(hint) <= HINT_LIMIT else f"{hint[:HINT_LIMIT]}…"


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _banner(state: str, text: str) -> str:
    title, _, rest = text.partition(": ")
    return (
        f'<div class="nbc-banner" data-state="{state}">'
        f'<span class="nbc-banner-title">{_clean(title)}</span> '
        f'<span class="nbc-banner-figures">{_clean(rest)}</span></div>'
    )


def _preview(compaction: Compaction) -> str:
    """How the summary begins, without its Markdown."""
    told = markdown_html(story(compaction.summary))
    text = unescape(_MARK.sub(" ", _INLINE_MARK.sub("", told)))
    text = " ".join(text.split())
    if not text:
        return ""
    shown = text if len(text) <= PREVIEW_LIMIT else f"{text[:PREVIEW_LIMIT]}…"
    return f'<span class="nbc-banner-preview">{_clean(shown)}</span>'


def _title(compaction: Compaction) -> str:
    title = TITLES[compaction.kind][compaction.status]
    is_changed = compaction.is_in_force and compaction.revision
    return f"{title}, {compaction.revision}" if is_changed else title


def _figures(compaction: Compaction) -> str:
    before, after = compaction.tokens_before, compaction.tokens_after
    if compaction.kind == "pruning":
        outputs = _outputs(compaction)
        return f"{outputs}, {before:,} → {after:,} tokens; no model was called"
    folded = _counted(compaction.stop - compaction.start)
    if compaction.is_attempt:
        return f"{folded}, {before:,} tokens"
    saved = f" ({after / before - 1:+.0%})".replace("-", "\u2212") if before else ""
    return f"{folded} folded, {before:,} → {after:,} tokens{saved}"


def _undone_text(compaction: Compaction) -> str:
    if compaction.kind == "pruning":
        again = f"the model sees {_outputs(compaction)} in full again"
        return f"Tool outputs restored: {again}"
    folded = _counted(compaction.stop - compaction.start)
    return f"Compaction undone: the model sees the original {folded} again"


def _changed_text(compaction: Compaction, change: Change) -> str:
    match change:
        case "redone":
            return f"{TITLES[compaction.kind]['redone']}: {_figures(compaction)}"
        case "edited":
            title = "Summary edited"
        case "regenerated":
            title = "Summary written anew"
        case _:
            assert_never(change)
    note = f" ({compaction.reason})" if compaction.reason else ""
    return f"{title}: the context has {compaction.tokens_after:,} tokens now{note}"


def _outputs(compaction: Compaction) -> str:
    count = len(compaction.replacements)
    return "1 output" if count == 1 else f"{count:,} outputs"


def _time(compaction: Compaction) -> str:
    return f"{compaction.created_at[:19].replace('T', ' ')} UTC"


def _counted(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"
