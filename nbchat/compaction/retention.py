"""What stays word for word: the newest messages, exchanges or tokens."""

from collections.abc import Sequence
from itertools import pairwise

from nbchat.compaction.policies import KeepUnit
from nbchat.history import Entry
from nbchat.ties import SPOKEN


def kept_start(
    history: Sequence[Entry],
    cuts: Sequence[int],
    keep: int,
    unit: KeepUnit,
    sizes: Sequence[int],
) -> int:
    """Where the newest begins that stays: one of the `cuts` between whole units.

    Of tokens as many whole units stay as fit `keep`, and what nobody has answered yet
    is not counted; messages and exchanges are rounded up to whole units. `sizes` are
    the tokens of all entries before each place.
    """
    answered = answered_part(history)
    if unit == "tokens":
        most = sizes[answered] - keep
        return next((c for c in cuts if c <= answered and sizes[c] >= most), answered)
    starts = (
        _messages(history) if unit == "messages" else _exchanges(history[:answered])
    )
    wanted = len(history) if not keep else [0, *starts][-keep:][0]
    return max((cut for cut in cuts if cut <= wanted), default=0)


def answered_part(history: Sequence[Entry]) -> int:
    """How much of a history somebody has reacted to; the newest request never folds."""
    end = len(history)
    while end and history[end - 1].role == "user":
        end -= 1
    return end


def count_messages(entries: Sequence[Entry]) -> int:
    """How many messages entries make: what a model says at once is one."""
    return len(_messages(entries))


def exchanges(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Entries in exchanges: what a person says, and all that follows from it."""
    starts = _exchanges(entries)
    return [entries[a:b] for a, b in pairwise([*starts, len(entries)])]


def _messages(entries: Sequence[Entry]) -> list[int]:
    return [
        place
        for place, entry in enumerate(entries)
        if not place
        or entry.role not in SPOKEN
        or entries[place - 1].role not in SPOKEN
    ]


def _exchanges(entries: Sequence[Entry]) -> list[int]:
    return [
        place
        for place, entry in enumerate(entries)
        if entry.role == "user" and (not place or entries[place - 1].role != "user")
    ]
