"""A line for each earlier exchange: what was asked, and what came of it (seed 000).

Code writes them from the words themselves. Questions that were asked again share one
line, at the place of the newest.
"""

from collections.abc import Sequence

from nbchat.compaction.fitting import within
from nbchat.compaction.retention import exchanges
from nbchat.history import Entry
from nbchat.tokens import TokenCounter

TITLE = "Earlier exchanges, a line each:"

LENGTHS = ((80, 120), (80, 40), (60, 0))
"""Characters kept of a question and of its answer: as many as leave room for all."""

NOTE_TOKENS = 8
"""Of the line that says how many found no room."""


def exchange_lines(
    entries: Sequence[Entry], most: int, budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """Lines of the newest `most` exchanges, oldest first; the newest get room first."""
    asked = _folded(exchanges(entries)[-most:])
    room = budget_tokens - counter.count(TITLE) - NOTE_TOKENS
    kept: list[str] = []
    for length in LENGTHS:
        lines = [_line(same, *length) for same in reversed(asked)]
        kept = within(lines, room, lambda line: counter.count(line) + 1)
        if len(kept) == len(lines):
            break
    missing = len(asked) - len(kept)
    note = [f"({missing} earlier left out)"] if missing else []
    return [TITLE, *note, *reversed(kept)] if kept else []


def _folded(all_exchanges: Sequence[Sequence[Entry]]) -> list[list[Sequence[Entry]]]:
    """The exchanges of each question, by when it was asked last."""
    by_question: dict[str, list[Sequence[Entry]]] = {}
    for exchange in all_exchanges:
        asked = _question(exchange)
        question = "".join(filter(str.isalnum, asked.casefold())) or asked
        same = by_question.pop(question, [])
        by_question[question] = [*same, exchange]
    return list(by_question.values())


def _line(same: Sequence[Sequence[Entry]], asked_limit: int, told_limit: int) -> str:
    exchange = same[-1]
    answers = [e.content for e in exchange if e.role == "assistant" and not e.is_call]
    answer = next(filter(None, reversed(answers)), "")
    tools = list(dict.fromkeys(e.tool_name for e in exchange if e.is_call))
    called = f" [{', '.join(tools)}]" if tools else ""
    again = f" (asked {len(same)} times)" if len(same) > 1 else ""
    told = f" → {_brief(answer, told_limit)}" if answer and told_limit else ""
    return f"- {_brief(_question(exchange), asked_limit)}{again}{called}{told}"


def _question(exchange: Sequence[Entry]) -> str:
    """All that a person said before somebody reacted."""
    return " ".join(e.content for e in exchange if e.role == "user")


def _brief(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
