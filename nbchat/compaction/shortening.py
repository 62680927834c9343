"""Shorten texts and lists to a budget; every gap states how much is missing."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")

SHORTEST = 40
"""Characters of the note on what is missing, so nothing shorter is cut."""


def shorten(text: str, limit: int) -> str:
    """Keep about `limit` characters: two thirds from the head, one from the tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    missing = len(text) - head - tail
    return f"{text[:head]}\n[{missing:,} characters omitted]\n{text[-tail:]}"


def shorten_to_tokens(
    text: str, budget_tokens: int, count: Callable[[str], int]
) -> str:
    """The head and tail of a text within about `budget_tokens`, the gap counted."""
    short, limit = text, len(text)
    while limit > SHORTEST and (tokens := count(short)) > budget_tokens:
        limit = max(SHORTEST, min(limit * 3 // 4, limit * budget_tokens // tokens))
        short = shorten(text, limit)
    return short


def within(
    items: Iterable[Item], budget_tokens: int, size: Callable[[Item], int]
) -> list[Item]:
    """The first items that together fit a budget."""
    taken = []
    for item in items:
        budget_tokens -= size(item)
        if budget_tokens < 0:
            break
        taken.append(item)
    return taken
