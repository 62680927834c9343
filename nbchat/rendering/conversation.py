"""A whole conversation for a cell's output, readable without a kernel.

For front ends without widgets, and for notebooks that others read. It is written into a
notebook only on request.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.secret_masking import (
    without_secrets,
    without_secrets_in,
)
from nbchat.conversation.session import Session
from nbchat.rendering.banners import CELL_STYLE, compaction_html, compaction_text
from nbchat.rendering.entries import entry_html, request_text
from nbchat.rendering.markdown import code_style, with_boxes

KEPT_BYTES = 200_000
"""Bytes of a transcript kept in a notebook's file, which stays quick to open."""

SPEAKERS = {"user": "You", "assistant": "Assistant", "tool": "Result"}

STYLE = """
.nbc-said { margin: 10px 0; }
.nbc-said > strong { display: block; font-weight: 600; }
.nbc-said .nbc-text { white-space: pre-wrap; overflow-wrap: anywhere; }
.nbc-said > .nbc-user { width: auto; max-width: none; margin: 0; padding: 0; }
.nbc-said > .nbc-user { background: none; }
.nbc-said :is(pre, details) { margin: 4px 0; }
"""
"""CSS of messages outside the panel, where its stylesheet may not be loaded."""


def timeline(session: Session) -> Iterator[tuple[int, Entry | Compaction]]:
    """Entries and compactions in the order they happened, each with its position."""
    records, end = session.finished_compactions, len(session.transcript)
    decided = (each for each in reversed(session.compactions) if not each.is_attempt)
    first_made_at = {record.id: min(record.committed_at, end) for record in decided}
    for position in range(end + 1):
        for record in records:
            if first_made_at[record.id] == position:
                yield position, record
        if position < end:
            yield position, session.transcript[position]


def conversation_html(session: Session) -> str:
    """Render a conversation with a banner for each compaction, safe in any notebook."""
    shown = "".join(_html(part) for _, part in timeline(session))
    # JupyterLab lets MathJax read a cell's HTML, and its \href takes any address.
    style = f"<style>{CELL_STYLE}{STYLE}{code_style()}</style>"
    return f'<div class="nbc-cell mathjax_ignore">{style}{shown}</div>'


def kept_html(session: Session) -> str:
    """The newest messages in at most 200 KB, without secrets, for a notebook's file."""
    style = f"<style>{CELL_STYLE}{STYLE}{code_style()}</style>"
    left = KEPT_BYTES - len(style.encode()) - 300
    shown: list[str] = []
    for _, part in reversed([*timeline(session)]):
        html = _html(_without_secrets(part))
        left -= len(html.encode())
        if left < 0:
            note = "Earlier messages aren't in this transcript."
            shown.append(f"<p><em>{note}</em></p>")
            break
        shown.append(html)
    inside = "".join(reversed(shown)) or "No messages yet."
    return f'<div class="nbc-cell mathjax_ignore">{style}{inside}</div>'


def _without_secrets(part: Entry | Compaction) -> Entry | Compaction:
    """An entry or a compaction with its secrets hidden."""
    if isinstance(part, Compaction):
        summary, reason = _masked(part.summary), _masked(part.reason)
        return replace(part, summary=summary, reason=reason, memory=())
    content = _masked(part.content)
    has_data = part.tool_args and not part.is_answer
    if not has_data or (part.role == "user" and not part.is_text_file):
        return part._replace(content=content)
    return part._replace(
        content=content, tool_args=json.dumps(without_secrets_in(part.arguments))
    )


def _masked(text: str) -> str:
    return without_secrets(text)[0]


def conversation_text(session: Session) -> str:
    """The conversation as plain text, without tool calls and their results."""
    lines = (_text(part) for _, part in timeline(session))
    return "\n\n".join(filter(None, lines)) or "no messages yet"


def _html(part: Entry | Compaction) -> str:
    if isinstance(part, Compaction):
        return compaction_html(part)
    has_speaker = not (part.is_call or part.is_by_nbchat)
    label = SPEAKERS.get(part.role, "") if has_speaker else ""
    speaker = f"<strong>{label}</strong>" if label else ""
    inside = with_boxes(entry_html(part))
    return f'<div class="nbc-said">{speaker}{inside}</div>' if inside else ""


def _text(part: Entry | Compaction) -> str:
    if isinstance(part, Compaction):
        return f"[{compaction_text(part)}]"
    if part.is_call or part.role not in ("user", "assistant"):
        return ""
    if part.is_by_nbchat:
        return f"[{request_text(part)}]"
    return f"{SPEAKERS[part.role]}: {part.content}"
