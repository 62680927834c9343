"""Compaction banners and notices, as safe HTML and as plain text.

A banner describes a `Compaction`, a notice an event of a turn that deserves a line of
its own. Text of models and users is escaped, as in `entries.py`.
"""

import re
from collections.abc import Iterable, Sequence
from html import unescape
from typing import assert_never

from nbchat.compaction.triggers.triggers import in_thousands
from nbchat.conversation.cell_changes import (
    CellChange,
    CellUndo,
    LeftCell,
    counts,
    undo_of,
)
from nbchat.conversation.entries import BY_MODEL, Compaction
from nbchat.conversation.events import (
    EDIT,
    Branched,
    Change,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionProposed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    ContentLeftOut,
    PinsChanged,
    SavingFailed,
    TurnFailed,
)
from nbchat.rendering.entries import (
    details_html,
    escaped,
    memory_html,
    notice_line_html,
    summary_html,
    summary_parts,
    summary_text_html,
)
from nbchat.rendering.markdown import code_html, markdown_html

PREVIEW_LIMIT = 200
"""Characters of the summary shown on a collapsed banner."""

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
"""CSS of a banner outside the panel, where its stylesheet is not loaded."""

TITLES = {
    "summary": {
        "running": "Compacting",
        "done": "Compaction occurred",
        "degraded": "Compaction occurred",
        "undone": "Compaction undone",
        "redone": "Compaction redone",
        "failed": "Compaction failed",
    },
    "pruning": {
        "running": "Shortening tool outputs",
        "done": "Tool outputs shortened",
        "degraded": "Tool outputs shortened",
        "undone": "Tool outputs restored",
        "redone": "Tool outputs shortened again",
        "failed": "Couldn't shorten tool outputs",
    },
    "exclusion": {
        "done": "Message excluded",
        "undone": "Message included",
        "redone": "Message excluded again",
    },
}
"""The bold words of a banner, by the kind of record and its status."""

WITHOUT_MODEL = "No model was available, so the newest messages were quoted instead."
"""Said of a summary that was to be a model's."""

PROPOSED = "About to compact {messages} ({before} to {after} tokens)."

BRANCHED = "Branched. The original stays in your sessions."

TRIGGERS = {
    "manual": "on request",
    BY_MODEL: "at the model's request",
    "overflow": "because the request was too long",
    "window": "because the context was nearly full",
    "cumulative": "at the threshold of input tokens",
    "auto": "because sending everything again cost more",
}
"""Why a compaction ran, by its trigger."""

STATES = {
    CompactionStarted: "running",
    CompactionSkipped: "skipped",
    CompactionFailed: "failed",
    CompactionUndone: "undone",
    CompactionChanged: "done",
}
"""The `data-state` of a notice, by which the stylesheet colours it."""

CompactionNotice = (
    CompactionStarted
    | CompactionSkipped
    | CompactionFailed
    | CompactionUndone
    | CompactionChanged
)

Notice = (
    CompactionNotice
    | Branched
    | ContentLeftOut
    | PinsChanged
    | SavingFailed
    | TurnFailed
)

LEFT = {
    "same": "{} is already back to how it was.",
    "edited": "{} has edits you made since, so it stays as it is.",
    "deleted": "You have deleted a cell that was changed. It stays deleted.",
    "moved": "{} has been moved since, so it stays where it is.",
    "hidden": "{} had a secret that isn't kept. It stays as it is.",
}
"""Why an undo has left a cell as it is."""

_INLINE_TAG = re.compile(r"</?(?:a|code|em|s|span|strong)\b[^>]*>")
_TAG = re.compile(r"<[^>]+>")


def compaction_html(compaction: Compaction) -> str:
    """Render a compaction banner: what was compacted, what it saved, the summary."""
    summary = summary_html(compaction.summary) if compaction.summary else ""
    return (
        f'<details class="nbc-banner" data-state="{escaped(compaction.status)}">'
        f'<summary><span class="nbc-banner-title">{escaped(_title(compaction))}</span> '
        f'<span class="nbc-banner-figures">{escaped(_figures(compaction))}</span>'
        f"{_preview(compaction)}</summary>"
        f'<div class="nbc-banner-facts">{escaped(_details(compaction))}</div>'
        f"{summary}</details>"
    )


def divider_html(compaction: Compaction) -> str:
    """Render a compaction as the panel's line between messages; it opens like one."""
    figures = _figures(compaction)
    if compaction.status == "undone":
        figures = _undone_text(compaction).partition(": ")[2]
    elif compaction.is_active and _titles(compaction) is TITLES["summary"]:
        sizes = f"{compaction.tokens_before:,} → {compaction.tokens_after:,} tokens"
        figures = f"{_plural(compaction.messages, 'message')}, {sizes}"
    title = _title(compaction)
    if told := _without_model(compaction):
        title, figures = f"{title}.", told
    is_asked = compaction.is_active and compaction.trigger == "manual"
    preview = _preview(compaction) if is_asked else ""
    return (
        f'<details class="nbc-banner" data-divider data-state="'
        f'{escaped(compaction.status)}" title="{escaped(compaction_text(compaction))}">'
        f'<summary><span class="nbc-banner-title">{escaped(title)}</span>'
        f'<span class="nbc-banner-figures">{escaped(figures)}</span>'
        f"{preview}</summary>"
        f'<div class="nbc-banner-facts">{escaped(_details(compaction))}</div>'
        f"{_memory_html(compaction)}</details>"
    )


def _memory_html(compaction: Compaction) -> str:
    """The summary, and what code copied, as sections."""
    if not compaction.summary:
        return ""
    if not compaction.memory:
        return summary_html(compaction.summary)
    story, _ = summary_parts(compaction.summary)
    shown = summary_text_html(story) + memory_html(compaction.memory)
    return f'<div class="nbc-summary-text">{shown}</div>'


def compaction_cell_html(compaction: Compaction) -> str:
    """Render a compaction banner for a cell's output, with its own CSS."""
    banner = compaction_html(compaction)
    # JupyterLab lets MathJax read a cell's HTML, and its \href takes any address.
    style = f"<style>{CELL_STYLE}</style>"
    return f'<div class="nbc-cell mathjax_ignore">{style}{banner}</div>'


def compaction_text(compaction: Compaction) -> str:
    """Describe a compaction in one line of plain text."""
    asked = "The model asked for it." if compaction.trigger == BY_MODEL else ""
    notes = (asked, _without_model(compaction), compaction.reason, compaction.note)
    said = " ".join(filter(None, notes))
    suffix = f". {said}" if said else ""
    return f"{_title(compaction)}: {_figures(compaction)}{suffix}"


def notice_html(event: Notice) -> str:
    """Render an event as one line of HTML."""
    text = notice_text(event)
    match event:
        case Branched(earlier):
            named = f'class="nbc-branched" data-session="{escaped(earlier)}"'
            html = f"<div {named}><span>{BRANCHED}</span></div>"
        case ContentLeftOut(parts, _, reason):
            html = _left_out_html(text, parts, reason)
        case SavingFailed(reason):
            html = notice_line_html(text, reason.partition("\n")[2])
        case PinsChanged():
            html = notice_line_html(text)
        case TurnFailed():
            html = failure_html(text)
        case _:
            html = _compaction_notice_html(STATES[type(event)], text)
    return html


def proposal_text(event: CompactionProposed) -> str:
    """Say in a line what a compaction would do that waits for a person."""
    return PROPOSED.format(
        messages=_plural(event.messages, "message"),
        before=in_thousands(event.tokens_before),
        after=in_thousands(event.tokens_after),
    )


def proposal_html(event: CompactionProposed) -> str:
    """Render the line, to which the panel adds its buttons."""
    text = escaped(proposal_text(event))
    return f'<div class="nbc-proposal"><span>{text}</span></div>'


def failure_html(
    text: str,
    *,
    can_retry: bool = False,
    can_continue: bool = False,
    key_of: str = "",
    server: str = "",
    is_refusal: bool = False,
) -> str:
    """Render why a turn failed; the panel offers to try again or to continue.

    `key_of` is the provider whose key was refused, `server` one that did not get it.
    A refusal is what a mistyped command gets: a line without the colour of failures.
    """
    offer = " data-refusal" if is_refusal else ""
    offer += " data-retry" if can_retry else ""
    offer += " data-continue" if can_continue else ""
    offer += f' data-key="{escaped(key_of)}"' if key_of else ""
    offer += f' data-server="{escaped(server)}"' if server else ""
    line, _, details = text.partition("\n")
    shown = f"<p>{escaped(line)}</p>{details_html(details)}"
    return f'<div class="nbc-error"{offer}>{shown}</div>'


def stopped_html() -> str:
    """Render that a message was stopped before its answer; the panel offers another."""
    return '<div class="nbc-error nbc-stopped" data-retry><p>Stopped.</p></div>'


def notice_text(event: Notice) -> str:
    """Describe an event in one line of plain text."""
    match event:
        case Branched(earlier):
            text = f"{BRANCHED} /resume {earlier} reopens it."
        case ContentLeftOut(parts, model):
            text = left_out_text(parts, model)
        case PinsChanged(pins, dropped):
            text = f"{_plural(len(pins), 'rule')} pinned"
            text += f", {len(dropped):,} dropped" if dropped else ""
        case SavingFailed(reason, is_log=is_log, is_resolved=is_resolved):
            line = reason.partition("\n")[0]
            text = line if is_log or is_resolved else _unsaved_text(line)
        case TurnFailed(message):
            text = message
        case _:
            text = _compaction_notice_text(event)
    return text


def _unsaved_text(reason: str) -> str:
    cause = f"{reason[:1].lower()}{reason[1:]}"
    return f"Can't save this chat: {cause} Messages stay until the kernel stops."


def left_out_text(parts: tuple[str, ...], model: str) -> str:
    """Say what a model did not take, in one line: it stays in the chat."""
    first, *others = parts
    what = f"{first} and {len(others)} more" if others else first
    name = model.partition(":")[2] or model
    if others:
        kept = "They were left out of the request and stay in the chat."
    else:
        kept = "It was left out of the request and stays in the chat."
    return f"{name} doesn't accept {what}. {kept}"


def _left_out_html(text: str, parts: tuple[str, ...], reason: str) -> str:
    """The line, which opens to all parts and the server's words."""
    listed = "".join(f"<li>{escaped(part)}</li>" for part in parts)
    return (
        f'<details class="nbc-notice nbc-left-out"><summary>{escaped(text)} '
        f'<span class="nbc-show">Show</span></summary><ul>{listed}</ul>'
        f"<p>{escaped(reason)}</p></details>"
    )


def progress_text(event: CompactionProgress) -> str:
    """Name the part of a long compaction that is being summarized."""
    return f"part {event.done + 1} of {event.total}"


def _details(compaction: Compaction) -> str:
    """The line of a banner that shows when it is open: origin, cost, author, notes."""
    author = (
        "summary edited by you" if compaction.revision == "edited" else compaction.model
    )
    origin = [
        f"policy {compaction.policy}",
        TRIGGERS.get(compaction.trigger, ""),
        f"cost {compaction.cost.total_tokens:,} tokens",
    ]
    return " · ".join(
        [
            *([] if compaction.is_exclusion else filter(None, origin)),
            *filter(None, [compaction.cost.dollars_text, author]),
            f"{compaction.created_at[:19].replace('T', ' ')} UTC",
            *filter(None, [compaction.reason, compaction.note]),
        ]
    )


def _without_model(compaction: Compaction) -> str:
    return WITHOUT_MODEL if compaction.status == "degraded" else ""


def _preview(compaction: Compaction) -> str:
    """The beginning of the summary, without its Markdown."""
    summary, _ = summary_parts(compaction.summary)
    text = unescape(_TAG.sub(" ", _INLINE_TAG.sub("", markdown_html(summary))))
    text = " ".join(text.split())
    if not text:
        return ""
    shown = text if len(text) <= PREVIEW_LIMIT else f"{text[:PREVIEW_LIMIT]}…"
    return f'<span class="nbc-banner-preview">{escaped(shown)}</span>'


def _title(compaction: Compaction) -> str:
    title = _titles(compaction)[compaction.status]
    is_changed = compaction.is_active and compaction.revision
    return f"{title}, {compaction.revision}" if is_changed else title


def _titles(compaction: Compaction) -> dict[str, str]:
    return TITLES["exclusion" if compaction.is_exclusion else compaction.kind]


def _figures(compaction: Compaction) -> str:
    """How much was compacted, and the size of the context before and after."""
    before, after = compaction.tokens_before, compaction.tokens_after
    sizes = f"{before:,} → {after:,} tokens"
    messages = _plural(compaction.messages, "message")
    if compaction.is_exclusion:
        figures = f"#{compaction.start}"
        figures += f", {sizes}" if compaction.is_active else ""
    elif compaction.kind == "pruning":
        figures = f"{_outputs(compaction)}, {sizes}, without a model"
    elif compaction.is_attempt:
        figures = f"{messages}, {before:,} tokens"
    else:
        done = " compacted" if compaction.is_active else ""
        saved = f" ({after / before - 1:+.0%})".replace("-", "\u2212") if before else ""
        figures = f"{messages}{done}, {sizes}{saved}"
    return figures


def _compaction_notice_html(state: str, text: str) -> str:
    title, _, rest = text.partition(": ")
    return (
        f'<div class="nbc-banner" data-state="{state}">'
        f'<span class="nbc-banner-title">{escaped(title)}</span> '
        f'<span class="nbc-banner-figures">{escaped(rest)}</span></div>'
    )


def _compaction_notice_text(event: CompactionNotice) -> str:
    match event:
        case CompactionStarted(_, messages, tokens):
            text = f"Compacting: {_plural(messages, 'message')}, {tokens:,} tokens …"
        case CompactionSkipped(reason, trigger):
            title = "Nothing changed" if trigger == EDIT else "Nothing was compacted"
            text = f"{title}: {reason}"
        case CompactionFailed(compaction):
            reason = " ".join(filter(None, (compaction.reason, compaction.note)))
            text = f"Compaction failed: {reason} The conversation is unchanged."
        case CompactionUndone(compaction):
            text = _undone_text(compaction)
        case CompactionChanged(compaction, change):
            text = _changed_text(compaction, change)
        case _:
            assert_never(event)
    return text


def _undone_text(compaction: Compaction) -> str:
    if compaction.is_exclusion:
        visible = f"#{compaction.start}"
    elif compaction.kind == "pruning":
        visible = f"{_outputs(compaction)} in full"
    else:
        visible = f"the original {_plural(compaction.messages, 'message')}"
    return f"{_titles(compaction)['undone']}: the model sees {visible} again."


def _changed_text(compaction: Compaction, change: Change) -> str:
    if change == "redone":
        return f"{_titles(compaction)['redone']}: {_figures(compaction)}."
    note = f" {compaction.reason}" if compaction.reason else ""
    before, after = compaction.tokens_before, compaction.tokens_after
    return f"Summary {change}: {before:,} → {after:,} tokens.{note}"


def _outputs(compaction: Compaction) -> str:
    return _plural(len(compaction.replacements), "output")


def _plural(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def cells_html(
    turn: int,
    changes: Sequence[CellChange],
    left: Iterable[LeftCell] = (),
    problem: str = "",
) -> str:
    """Render what a turn changed in the notebook; empty where it changed nothing.

    A view adds the buttons: with `data-undo` one that undoes it, and one for each cell
    that was `left` as it is with a person's own edits.
    """
    undo = undo_of(changes)
    lines = [_cells_changed(undo), _cells_restored(changes), problem]
    shown = "".join(f"<span>{escaped(line)}</span> " for line in lines if line)
    details = "".join(map(_left_html, left))
    if not (shown or details):
        return ""
    kept = "Variables keep their values."
    can_undo = " data-undo" if undo else ""
    return (
        f'<div class="nbc-cells" data-turn="{turn}"{can_undo}>{shown}'
        f'<span class="nbc-cells-note">{kept}</span>{details}</div>'
    )


def _cells_changed(undo: Iterable[CellUndo]) -> str:
    """The changes that can be undone: "Changed 2 cells, added 1"."""
    first, *others = [f"{verb} {n:,}" for verb, n in counts(undo).items() if n] or [""]
    if not first:
        return ""
    plural = "" if first.endswith(" 1") else "s"
    return f"{', '.join([f'{first} cell{plural}', *others]).capitalize()}."


def _cells_restored(changes: Iterable[CellChange]) -> str:
    """How many cells an undo has restored, and what it could not."""
    newest = {each.cell: each for each in changes}
    undone = [each for each in newest.values() if each.is_undo]
    if not undone:
        return ""
    lost = sum(each.after.left_out for each in undone if each.after)
    plural = "" if len(undone) == 1 else "s"
    pictures = " Pictures in outputs aren't kept. Run the cell again." if lost else ""
    return f"Undone in {len(undone):,} cell{plural}.{pictures}"


def _left_html(left: LeftCell) -> str:
    """A cell that stays as it is, with what restoring it would change."""
    name = f"Cell {left.number:,}" if left.number else "A cell"
    text = escaped(LEFT[left.outcome].format(name))
    if left.outcome not in ("edited", "deleted"):
        return f'<div class="nbc-cell-left">{text}</div>'
    added = " data-added" if left.is_added else ""
    return (
        f'<details class="nbc-cell-left" data-cell="{escaped(left.cell)}"{added}>'
        f"<summary><span>{text}</span></summary>{code_html(left.difference, 'diff')}"
        "</details>"
    )
