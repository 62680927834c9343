"""What stands in for a summary when no model can write one: the words themselves."""

from collections.abc import Sequence

from nbchat.compaction.envelope import story
from nbchat.compaction.fitting import shorten, within
from nbchat.history import Entry
from nbchat.tokens import TokenCounter

OPENING = "(No model wrote this. The newest words themselves, shortened:)"

LINE_LIMIT = 160
"""Characters kept of one message."""


def extract(
    covered: Sequence[Entry], *, budget_tokens: int, counter: TokenCounter
) -> str:
    """The newest of what was said, oldest first, with the earlier summary before it."""
    lines = [_line(entry) for entry in covered if _is_said(entry)]
    room = budget_tokens - counter.count(OPENING)
    kept = within(reversed(lines), room, lambda line: counter.count(line) + 1)
    missing = len(lines) - len(kept)
    note = [f"({missing} earlier messages left out)"] if missing else []
    return "\n".join([OPENING, *note, *reversed(kept)])


def _is_said(entry: Entry) -> bool:
    is_answer = entry.role == "assistant" and not entry.is_call
    return is_answer or entry.role in ("user", "summary")


def _line(entry: Entry) -> str:
    text = story(entry.content) if entry.role == "summary" else entry.content
    who = "before" if entry.role == "summary" else entry.role
    return f"- {who}: {shorten(' '.join(text.split()), LINE_LIMIT)}"
