"""Where a history may be cut, and how any history is made legal to send.

An atomic unit is a user message, or an assistant's text, thinking and calls with all
their results. Cuts fall only between units. Calls and results are tied by `tool_id`
and nothing else; an id that is used again ties the n-th call to the n-th result.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from nbchat.history import Entry
from nbchat.tools import failed_result

INTERRUPTED = "interrupted, the result is unknown"


def open_calls(history: Iterable[Entry]) -> list[Entry]:
    """The calls that have no result yet, in order."""
    waiting: list[Entry] = []
    for entry in history:
        if entry.is_call:
            waiting.append(entry)
        elif entry.role == "tool":
            answered = next((c for c in waiting if c.tool_id == entry.tool_id), None)
            if answered is not None:
                waiting.remove(answered)
    return waiting


def safe_cuts(history: Sequence[Entry]) -> list[int]:
    """Indices between units, the end included: no call waits there for its result."""
    waiting: dict[str, int] = defaultdict(int)
    cuts = []
    for place, entry in enumerate(history):
        if not any(waiting.values()) and not _continues(history, place):
            cuts.append(place)
        if entry.is_call:
            waiting[entry.tool_id] += 1
        elif entry.role == "tool" and waiting[entry.tool_id]:
            waiting[entry.tool_id] -= 1
    if not any(waiting.values()):
        cuts.append(len(history))
    return cuts


def legal(history: Iterable[Entry]) -> list[Entry]:
    """The same history as any server accepts it; the transcript stays as it is.

    Every call is followed by its result: a late one is moved up, a missing one is
    stated as interrupted. A result without a call is left out.
    """
    entries = list(history)
    results = _results_by_call(entries)
    sound: list[Entry] = []
    owed: list[Entry] = []
    for place, entry in enumerate(entries):
        if entry.role == "tool":
            continue
        if owed and entry.role not in ("assistant", "thinking"):
            sound += owed
            owed = []
        sound.append(entry)
        if entry.is_call:
            owed.append(results.get(place) or failed_result(entry, INTERRUPTED))
        next_role = entries[place + 1].role if place + 1 < len(entries) else ""
        if owed and next_role == "tool":
            sound += owed
            owed = []
    return sound + owed


def _continues(history: Sequence[Entry], place: int) -> bool:
    """Whether the entry at `place` belongs to the message or unit before it."""
    entry = history[place]
    if entry.role == "tool":
        return place > 0
    is_assistant = entry.role in ("assistant", "thinking")
    return (
        is_assistant
        and place > 0
        and (history[place - 1].role in ("assistant", "thinking"))
    )


def _results_by_call(entries: Sequence[Entry]) -> dict[int, Entry]:
    """The result of each call that has one, by the call's place."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    results = {}
    for place, entry in enumerate(entries):
        if entry.is_call:
            waiting[entry.tool_id].append(place)
        elif entry.role == "tool" and waiting[entry.tool_id]:
            results[waiting[entry.tool_id].popleft()] = entry
    return results
