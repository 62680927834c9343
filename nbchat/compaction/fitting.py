"""What a text, or a list of anything, keeps when there is only so much room.

Nothing is left out silently: every cut says how much is missing.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def shorten(text: str, limit: int) -> str:
    """At most about `limit` characters: two thirds from the head, one from the tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    missing = len(text) - head - tail
    return f"{text[:head]}\n[{missing:,} characters left out]\n{text[-tail:]}"


def within(
    items: Iterable[Item], budget_tokens: int, size: Callable[[Item], int]
) -> list[Item]:
    """The first items that together stay within a budget."""
    taken = []
    for item in items:
        budget_tokens -= size(item)
        if budget_tokens < 0:
            break
        taken.append(item)
    return taken
