"""What a text or a run of entries keeps when there is only so much room.

Nothing is left out silently: every cut says how much is missing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from nbchat.history import Entry
from nbchat.tokens import TokenCounter

Item = TypeVar("Item")

STEPS = (
    (8_000, None),
    (2_000, None),
    (500, 8_000),
    (500, 2_000),
    (160, 500),
    (160, 160),
)
"""Characters a tool's output and any other text may keep, tried until all fits: what
people and the model said is shortened last."""


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


def fit(
    entries: Sequence[Entry], budget_tokens: int | None, counter: TokenCounter
) -> list[Entry]:
    """The entries within a budget: shortened first, then without the middle.

    A budget of None is no limit. A note in the place of what is left out counts it.
    """
    shortened = list(entries)
    for output_limit, text_limit in STEPS:
        shortened = [_shortened(entry, output_limit, text_limit) for entry in entries]
        if budget_tokens is None or counter.count_entries(shortened) <= budget_tokens:
            return shortened
    return _without_middle(shortened, budget_tokens or 0, counter)


def _shortened(entry: Entry, output_limit: int, text_limit: int | None) -> Entry:
    limit = output_limit if entry.role == "tool" else text_limit
    if limit is None or len(entry.content) <= limit:
        return entry
    return entry._replace(content=shorten(entry.content, limit))


def _without_middle(
    entries: Sequence[Entry], budget_tokens: int, counter: TokenCounter
) -> list[Entry]:
    """The first third and the last two thirds of the budget, the gap counted."""
    head = within(entries, budget_tokens // 3, counter.count_entry)
    rest = entries[len(head) :]
    room = budget_tokens - budget_tokens // 3
    tail = within(rest[::-1], room, counter.count_entry)[::-1]
    missing = rest[: len(rest) - len(tail)]
    size = counter.count_entries(missing)
    note = f"[{len(missing)} entries of {size:,} tokens left out here]"
    return [*head, Entry("user", note), *tail]
