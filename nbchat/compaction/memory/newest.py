"""The newest answers and outputs, word for word, as far as there is room.

    assistant: The mean is 41.2, without the 14 rows that have no region.
    call run_cell: {"code": "df.groupby('region').value.mean()"}
    result: region ...

The person's messages stand in a part of their own.
"""

from collections.abc import Callable, Iterator, Sequence

from nbchat.compaction.memory.lines import Line
from nbchat.compaction.shortening import shorten_to_tokens
from nbchat.conversation.entries import Entry

LEAST_TOKENS = 60
"""Tokens of a text that is worth showing in part: two or three lines."""

WHOLE_SHARE, LARGEST_SHARE = 0.5, 0.5
"""Share of the room for the newest, word for word, and of it for one text, so that one
output is not all there is. Earlier answers have the rest, by their first words."""

FIRST_CHARACTERS = 160
"""Characters of an earlier answer: its first two lines say what it is about."""


def newest_lines(
    entries: Sequence[Entry],
    budget_tokens: int,
    count: Callable[[str], int],
    *,
    has_answers: bool = True,
) -> list[Line]:
    """The newest entries but those of the person, oldest first, within a budget.

    Without answers where each exchange has a line that says its answer.
    """
    lines: list[Line] = []
    left = budget_tokens
    least = budget_tokens - int(budget_tokens * WHOLE_SHARE)
    position = len(entries)
    for position, text in _newest_first(entries, has_answers=has_answers):
        is_first = not lines
        most = left if is_first else min(left - least, int(left * LARGEST_SHARE))
        if most < LEAST_TOKENS:
            break
        shown = shorten_to_tokens(text, most - 1, count).replace("\n", "\n  ")
        size = count(shown) + 1
        if size > left:
            break
        left -= size
        lines.append(Line(shown, position))
    before = entries[: position + 1]
    return [*_beginnings(before, left, count, lines), *lines[::-1]]


def _beginnings(
    entries: Sequence[Entry],
    budget_tokens: int,
    count: Callable[[str], int],
    shown: Sequence[Line],
) -> list[Line]:
    """The first words of earlier answers, as many as fit, oldest first."""
    lines: list[Line] = []
    known = {line.position for line in shown}
    for position in range(len(entries) - 1, -1, -1):
        entry = entries[position]
        if position in known or not (entry.is_answer and entry.content.strip()):
            continue
        first = " ".join(entry.content[: 2 * FIRST_CHARACTERS].split())
        cut = "" if len(entry.content) <= FIRST_CHARACTERS else " ..."
        text = f"assistant: {first[:FIRST_CHARACTERS]}{cut}"
        budget_tokens -= count(text) + 1
        if budget_tokens < 0:
            break
        lines.append(Line(text, position))
    return lines[::-1]


def _newest_first(
    entries: Sequence[Entry], *, has_answers: bool
) -> Iterator[tuple[int, str]]:
    for position in range(len(entries) - 1, -1, -1):
        entry = entries[position]
        if entry.is_call:
            yield position, f"call {entry.tool_name}: {entry.tool_args}"
        elif entry.is_answer and entry.content.strip():
            if has_answers:
                yield position, f"assistant: {entry.content.strip()}"
        elif entry.role == "tool":
            mark = "failed result" if entry.is_error else "result"
            yield position, f"{mark}: {entry.content.strip()}"
