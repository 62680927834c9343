"""Which result belongs to which call.

They are tied by `tool_id` and nothing else; of several calls with one id the first that
waits is answered. A call is open as long as nobody has spoken after it; then it counts
as dead, and only a result that comes late can bring it back.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from nbchat.conversation.entries import Entry, failed_result

INTERRUPTED = "interrupted, the result is unknown"

MODEL_ROLES = ("assistant", "thinking")
"""The roles of what a model says."""


def calls_by_result(entries: Iterable[Entry]) -> dict[int, int]:
    """The place of the call that each result answers, by the result's own place."""
    ties = CallMatcher()
    found = ((place, ties.match(entry)) for place, entry in enumerate(entries))
    return {place: call for place, call in found if call is not None}


class CallMatcher:
    """Which call each result answers, told entry by entry."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._waiting: dict[str, deque[int]] = defaultdict(deque)
        self._dead: dict[str, deque[int]] = defaultdict(deque)
        self._previous: Entry | None = None
        self._place = -1

    def match(self, entry: Entry) -> int | None:
        """The place of the call that the next entry answers; None if it answers none.

        A call still open comes before a dead one, the latest of which comes first.
        """
        self._place += 1
        if begins_message(entry, self._previous):
            for tool_id, places in self._waiting.items():
                self._dead[tool_id] += places
            self._waiting.clear()
        self._previous = entry
        if entry.is_call:
            self._waiting[entry.tool_id].append(self._place)
        elif entry.role == "tool" and self._waiting.get(entry.tool_id):
            return self._waiting[entry.tool_id].popleft()
        elif entry.role == "tool" and self._dead.get(entry.tool_id):
            return self._dead[entry.tool_id].pop()
        return None

    def open_positions(self) -> list[int]:
        """Where the calls stand that wait for a result, in order."""
        return sorted(place for places in self._waiting.values() for place in places)


def begins_message(entry: Entry, previous: Entry | None) -> bool:
    """Whether somebody speaks anew, so that open calls before it are dead."""
    if entry.role == "tool":
        return False
    return (
        entry.role not in MODEL_ROLES
        or previous is None
        or previous.role not in MODEL_ROLES
    )


def open_calls(history: Iterable[Entry]) -> list[Entry]:
    """The calls of the newest message that have no result yet, in order."""
    ties = CallMatcher()
    entries = list(history)
    for entry in entries:
        ties.match(entry)
    return [entries[place] for place in ties.open_positions()]


def safe_cuts(history: Sequence[Entry]) -> list[int]:
    """Indices between units, the end included: no call waits there for its result."""
    ties = CallMatcher()
    ends = {ties.match(entry): place for place, entry in enumerate(history)}
    ends |= dict.fromkeys(ties.open_positions(), len(history))
    cuts, last_end = [], -1
    for place in range(len(history) + 1):
        if place > last_end and not _continues(history, place):
            cuts.append(place)
        last_end = max(last_end, ends.get(place, -1))
    return cuts


def interrupted_results(entries: Sequence[Entry]) -> dict[int, Entry]:
    """What is stated of every call that has no result, by the call's place."""
    finished = set(calls_by_result(entries).values())
    return {
        place: failed_result(entry, INTERRUPTED)
        for place, entry in enumerate(entries)
        if entry.is_call and place not in finished
    }


def with_interrupted_results(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries, and after a call without a result what is stated of it."""
    stated = interrupted_results(entries)
    pairs = ((entry, stated.get(place)) for place, entry in enumerate(entries))
    return [each for pair in pairs for each in pair if each is not None]


def _continues(history: Sequence[Entry], place: int) -> bool:
    """Whether the entry at `place` belongs to the unit before it."""
    if not 0 < place < len(history):
        return False
    entry, previous = history[place], history[place - 1]
    if entry.role == "tool":
        return True
    if entry.role == "user":  # a picture or a file stays with the words about it
        return previous.role == "user" and bool(previous.tool_name)
    return entry.role in MODEL_ROLES and previous.role in MODEL_ROLES
