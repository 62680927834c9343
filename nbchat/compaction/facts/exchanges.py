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

ASKED_LIMIT, ANSWERED_LIMIT = 80, 120
"""Characters kept of a question and of its answer."""


def exchange_lines(
    entries: Sequence[Entry], most: int, budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """Lines of the newest `most` exchanges, oldest first; the newest get room first."""
    lines = _folded(exchanges(entries)[-most:])
    room = budget_tokens - counter.count(TITLE)
    kept = within(reversed(lines), room, lambda line: counter.count(line) + 1)
    return [TITLE, *reversed(kept)] if kept else []


def _folded(all_exchanges: Sequence[Sequence[Entry]]) -> list[str]:
    """One line for each question, with how often it was asked."""
    by_question: dict[str, list[Sequence[Entry]]] = {}
    for exchange in all_exchanges:
        question = "".join(c for c in exchange[0].content.casefold() if c.isalnum())
        by_question.setdefault(question, []).append(exchange)
    newest = sorted(
        by_question.values(), key=lambda same: all_exchanges.index(same[-1])
    )
    return [_line(same[-1], len(same)) for same in newest]


def _line(exchange: Sequence[Entry], times: int) -> str:
    asked = _brief(exchange[0].content, ASKED_LIMIT)
    answers = [e.content for e in exchange if e.role == "assistant" and not e.is_call]
    answer = next(filter(None, reversed(answers)), "")
    tools = list(dict.fromkeys(e.tool_name for e in exchange if e.is_call))
    called = f" [{', '.join(tools)}]" if tools else ""
    again = f" (asked {times} times)" if times > 1 else ""
    told = f" → {_brief(answer, ANSWERED_LIMIT)}" if answer else ""
    return f"- {asked}{again}{called}{told}"


def _brief(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
