"""What a text, or a list of anything, keeps when there is only so much room.

Nothing is left out silently: every cut says how much is missing.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

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


class Number(str):
    """A number with the digits it was written with."""

    __slots__ = ()


def parsed(text: str) -> dict[str, Any] | list[Any] | None:
    """The JSON object or list a text is, numbers as written; None if it is neither."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=Number
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
