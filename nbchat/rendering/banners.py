"""The banner of a compaction, and what else happens in a turn, as HTML and as text.

The same rules hold as for entries: nothing runs, nothing is fetched.
"""

import re
from html import unescape
from typing import assert_never

from nbchat.compaction.markup import story
from nbchat.conversation.costs import dollars_text
from nbchat.conversation.entries import Compaction
from nbchat.conversation.events import (
    Branched,
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
from nbchat.rendering.entries import escaped, summary_html
from nbchat.rendering.markdown import markdown_html

PREVIEW_LIMIT = 200
"""Characters of a summary's story shown on its folded banner."""

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
"""The few rules of the stylesheet that a banner outside of the panel needs."""

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
    "exclusion": {
        "done": "Message left out",
        "undone": "Message taken in again",
        "redone": "Message left out again",
    },
}
"""What a banner says first, by the record's kind and what became of it."""

BRANCHED = "From here on another way; the earlier one stays among the sessions."

STATES = {
    CompactionStarted: "running",
    CompactionSkipped: "skipped",
    CompactionFailed: "failed",
    CompactionUndone: "undone",
    CompactionChanged: "done",
}
"""How the banner of a notice looks."""

CompactionNotice = (
    CompactionStarted
    | CompactionSkipped
    | CompactionFailed
    | CompactionUndone
    | CompactionChanged
)

Notice = CompactionNotice | Branched | PinsChanged | SavingFailed | TurnFailed

_INLINE_MARK = re.compile(r"</?(?:a|code|em|s|span|strong)\b[^>]*>")
_MARK = re.compile(r"<[^>]+>")


def compaction_html(compaction: Compaction) -> str:
    """The banner of a compaction: what was folded, what it saved, and the summary."""
    author = "summary by you" if compaction.revision == "edited" else compaction.model
    facts = [
        *([] if compaction.is_exclusion else _origin(compaction)),
        *filter(None, [dollars_text(compaction.cost)]),
        *filter(None, [author, _time(compaction)]),
        *filter(None, [compaction.reason, compaction.note]),
    ]
    summary = summary_html(compaction.summary) if compaction.summary else ""
    return (
        f'<details class="nbc-banner" data-state="{escaped(compaction.status)}">'
        f'<summary><span class="nbc-banner-title">{escaped(_title(compaction))}</span> '
        f'<span class="nbc-banner-figures">{escaped(_figures(compaction))}</span>'
        f"{_preview(compaction)}</summary>"
        f'<div class="nbc-banner-facts">{escaped(" · ".join(facts))}</div>'
        f"{summary}</details>"
    )


def _origin(compaction: Compaction) -> list[str]:
    """What decided on a compaction, and what it took."""
    return [
        f"policy {compaction.policy}",
        f"trigger {compaction.trigger}",
        f"cost {compaction.cost.total_tokens:,} tokens",
    ]


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
        case Branched(earlier):
            named = f'class="nbc-branched" data-session="{escaped(earlier)}"'
            html = f"<div {named}><span>{BRANCHED}</span></div>"
        case PinsChanged() | SavingFailed():
            html = f'<div class="nbc-notice">{escaped(text)}</div>'
        case TurnFailed():
            html = f'<div class="nbc-error">{escaped(text)}</div>'
        case _:
            html = _banner(STATES[type(event)], text)
    return html


def notice_text(event: Notice) -> str:
    """An event that is worth a line of its own, as plain text."""
    match event:
        case Branched(earlier):
            text = f"a branch of session {earlier}, which /resume brings back"
        case PinsChanged(pins):
            rules = "1 rule" if len(pins) == 1 else f"{len(pins)} rules"
            text = f"Pinned, kept word for word: {rules}"
        case SavingFailed(reason, is_log=True):
            text = f"No log of this chat: {reason}"
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


def _banner(state: str, text: str) -> str:
    title, _, rest = text.partition(": ")
    return (
        f'<div class="nbc-banner" data-state="{state}">'
        f'<span class="nbc-banner-title">{escaped(title)}</span> '
        f'<span class="nbc-banner-figures">{escaped(rest)}</span></div>'
    )


def _preview(compaction: Compaction) -> str:
    """How the summary begins, without its Markdown."""
    told = markdown_html(story(compaction.summary))
    text = unescape(_MARK.sub(" ", _INLINE_MARK.sub("", told)))
    text = " ".join(text.split())
    if not text:
        return ""
    shown = text if len(text) <= PREVIEW_LIMIT else f"{text[:PREVIEW_LIMIT]}…"
    return f'<span class="nbc-banner-preview">{escaped(shown)}</span>'


def _title(compaction: Compaction) -> str:
    title = _titles(compaction)[compaction.status]
    is_changed = compaction.is_in_force and compaction.revision
    return f"{title}, {compaction.revision}" if is_changed else title


def _titles(compaction: Compaction) -> dict[str, str]:
    return TITLES["exclusion" if compaction.is_exclusion else compaction.kind]


def _figures(compaction: Compaction) -> str:
    before, after = compaction.tokens_before, compaction.tokens_after
    if compaction.is_exclusion:
        sizes = f", {before:,} → {after:,} tokens" if compaction.is_in_force else ""
        return f"#{compaction.start}{sizes}"
    if compaction.kind == "pruning":
        outputs = _outputs(compaction)
        return f"{outputs}, {before:,} → {after:,} tokens; no model was called"
    folded = _counted(compaction.stop - compaction.start)
    if compaction.is_attempt:
        return f"{folded}, {before:,} tokens"
    saved = f" ({after / before - 1:+.0%})".replace("-", "\u2212") if before else ""
    return f"{folded} folded, {before:,} → {after:,} tokens{saved}"


def _undone_text(compaction: Compaction) -> str:
    if compaction.is_exclusion:
        again = f"the model sees #{compaction.start} again"
        return f"{TITLES['exclusion']['undone']}: {again}"
    if compaction.kind == "pruning":
        again = f"the model sees {_outputs(compaction)} in full again"
        return f"Tool outputs restored: {again}"
    folded = _counted(compaction.stop - compaction.start)
    return f"Compaction undone: the model sees the original {folded} again"


def _changed_text(compaction: Compaction, change: Change) -> str:
    match change:
        case "redone":
            return f"{_titles(compaction)['redone']}: {_figures(compaction)}"
        case "edited":
            title = "Summary edited"
        case "regenerated":
            title = "Summary written anew"
        case _:
            assert_never(change)
    note = f" ({compaction.reason})" if compaction.reason else ""
    before, after = compaction.tokens_before, compaction.tokens_after
    return f"{title}: {before:,} → {after:,} tokens{note}"


def _outputs(compaction: Compaction) -> str:
    count = len(compaction.replacements)
    return "1 output" if count == 1 else f"{count:,} outputs"


def _time(compaction: Compaction) -> str:
    return f"{compaction.created_at[:19].replace('T', ' ')} UTC"


def _counted(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"
