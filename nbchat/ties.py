"""Which result belongs to which call.

They are tied by `tool_id` and nothing else; of several calls with one id the first that
waits is answered. A call is open as long as nobody has spoken after it; then it counts
as dead, and only a result that comes late can bring it back.
"""

from collections import defaultdict, deque
from collections.abc import Iterable

from nbchat.history import Entry

SPOKEN = ("assistant", "thinking")
"""The roles of what a model says."""


def calls_by_result(entries: Iterable[Entry]) -> dict[int, int]:
    """The place of the call that each result answers, by the result's own place."""
    ties = Ties()
    found = ((place, ties.tie(entry)) for place, entry in enumerate(entries))
    return {place: call for place, call in found if call is not None}


class Ties:
    """Which call each result answers, told entry by entry."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._waiting: dict[str, deque[int]] = defaultdict(deque)
        self._dead: dict[str, deque[int]] = defaultdict(deque)
        self._previous: Entry | None = None
        self._place = -1

    def tie(self, entry: Entry) -> int | None:
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

    def open_places(self) -> list[int]:
        """Where the calls stand that wait for a result, in order."""
        return sorted(place for places in self._waiting.values() for place in places)


def begins_message(entry: Entry, previous: Entry | None) -> bool:
    """Whether somebody speaks anew, so that open calls before it are dead."""
    if entry.role == "tool":
        return False
    return entry.role not in SPOKEN or previous is None or previous.role not in SPOKEN
