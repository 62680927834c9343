"""A whole conversation for a cell's output: readable anywhere, without a kernel.

For front ends that draw no widgets, and for notebooks that others will read. Nobody's
words are put there unasked.
"""

from collections.abc import Iterator

from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.rendering.banners import CELL_STYLE, compaction_html, compaction_text
from nbchat.rendering.entries import entry_html

SPEAKERS = {"user": "You", "assistant": "Assistant", "tool": "Result"}

STYLE = """
.nbc-said { margin: 10px 0; }
.nbc-said > strong { display: block; font-weight: 600; }
.nbc-said .nbc-text { white-space: pre-wrap; overflow-wrap: anywhere; }
.nbc-said > .nbc-user { width: auto; max-width: none; margin: 0; padding: 0; }
.nbc-said > .nbc-user { background: none; }
.nbc-said :is(pre, details) { margin: 4px 0; }
"""
"""The few rules that what was said needs outside of the panel, or beside one."""


def parts(session: Session) -> Iterator[tuple[int, Entry | Compaction]]:
    """The transcript with each compaction's record where it happened; their places."""
    records, end = session.finished_compactions, len(session.transcript)
    decided = (each for each in reversed(session.compactions) if not each.is_attempt)
    began = {record.id: min(record.committed_at, end) for record in decided}
    for place in range(end + 1):
        yield from ((place, each) for each in records if began[each.id] == place)
        yield from ((place, each) for each in session.transcript[place : place + 1])


def conversation_html(session: Session) -> str:
    """All that was said, safe in any notebook, with a banner for each compaction."""
    shown = "".join(_html(part) for _, part in parts(session))
    # JupyterLab lets MathJax read a cell's HTML, and its \href takes any address.
    style = f"<style>{CELL_STYLE}{STYLE}</style>"
    return f'<div class="nbc-cell mathjax_ignore">{style}{shown}</div>'


def conversation_text(session: Session) -> str:
    """The same as plain text, without what tools were told and told."""
    lines = (_text(part) for _, part in parts(session))
    return "\n\n".join(filter(None, lines)) or "nothing was said yet"


def _html(part: Entry | Compaction) -> str:
    if isinstance(part, Compaction):
        return compaction_html(part)
    label = "" if part.is_call else SPEAKERS.get(part.role, "")
    speaker = f"<strong>{label}</strong>" if label else ""
    inside = entry_html(part)
    return f'<div class="nbc-said">{speaker}{inside}</div>' if inside else ""


def _text(part: Entry | Compaction) -> str:
    if isinstance(part, Compaction):
        return f"[{compaction_text(part)}]"
    if part.is_call or part.role not in ("user", "assistant"):
        return ""
    return f"{SPEAKERS[part.role]}: {part.content}"
