"""Find turns, messages and tool-call pairs, and where a history can be cut.

| noun | begins with |
|---|---|
| message | every entry, but what a model says in a row is one message |
| turn | the first of a run of entries of the user; holds all until the next such run |
| unit | a message, with the attachments before it and all that its calls returned |

A result belongs to a call by `tool_id` alone; of several calls with one id the first
open one is answered. A call without a result is open until the next user or model
message, then abandoned; a late result still attaches to it. Cuts fall between units.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import pairwise

from nbchat.conversation.entries import Entry, failed_result

INTERRUPTED = "interrupted, the result is unknown"
"""The result that is assumed for a call that has none."""

MODEL_ROLES = ("assistant", "thinking")


def begins_message(entry: Entry, previous: Entry | None) -> bool:
    """True if an entry begins a message or continues the model's last one."""
    if previous is None or entry.role not in MODEL_ROLES:
        return True
    return previous.role not in MODEL_ROLES


def message_starts(entries: Sequence[Entry]) -> list[int]:
    """Indices where messages begin."""
    starts: list[int] = []
    previous: Entry | None = None
    for index, entry in enumerate(entries):
        if begins_message(entry, previous):
            starts.append(index)
        previous = entry
    return starts


def count_messages(entries: Sequence[Entry]) -> int:
    """How many messages the entries make."""
    return len(message_starts(entries))


def message_at(entries: Sequence[Entry], index: int) -> range:
    """Indices of the message that an entry is part of."""
    start, stop = index, index + 1
    while start and not begins_message(entries[start], entries[start - 1]):
        start -= 1
    while stop < len(entries) and not begins_message(entries[stop], entries[stop - 1]):
        stop += 1
    return range(start, stop)


def ends_with_answer(entries: Sequence[Entry]) -> bool:
    """True if the last message is the model's and calls no tool."""
    if not entries or entries[-1].role not in MODEL_ROLES:
        return False
    last = message_at(entries, len(entries) - 1)
    return not any(entries[index].is_call for index in last)


def has_unfinished_turn(entries: Sequence[Entry]) -> bool:
    """True if the last turn has no whole answer yet, as after a crash."""
    if not entries or last_prompt(entries) is None:
        return False
    return not ends_with_answer(entries) or entries[-1].is_incomplete


def begins_turn(entries: Sequence[Entry], index: int) -> bool:
    """True if a turn begins at an index."""
    return _begins_turn(entries[index], entries[index - 1] if index else None)


def _begins_turn(entry: Entry, previous: Entry | None) -> bool:
    continues = previous is not None and previous.is_of_user
    return entry.is_of_user and not continues


def turns(entries: Sequence[Entry]) -> list[range]:
    """Indices of every turn; entries before the first prompt belong to none."""
    starts: list[int] = []
    previous: Entry | None = None
    for index, entry in enumerate(entries):
        if _begins_turn(entry, previous):
            starts.append(index)
        previous = entry
    return [range(*turn) for turn in pairwise([*starts, len(entries)])]


def last_turn(entries: Sequence[Entry]) -> range | None:
    """Indices of the last turn; None before the first one."""
    indices = reversed(range(len(entries)))
    start = next((index for index in indices if begins_turn(entries, index)), None)
    return None if start is None else range(start, len(entries))


def last_prompt(entries: Sequence[Entry]) -> int | None:
    """The index of the last text that the user typed; None before the first one."""
    indices = reversed(range(len(entries)))
    return next((index for index in indices if entries[index].is_prompt), None)


def attachments_start(entries: Sequence[Entry], index: int) -> int:
    """The index where the attachments of the prompt at `index` begin."""
    while index and _is_attached(entries[index - 1]):
        index -= 1
    return index


def answered_length(entries: Sequence[Entry]) -> int:
    """The number of entries before those at the end that ask the model."""
    length = len(entries)
    while length and _asks(entries[length - 1]):
        length -= 1
    return length


class CallMatcher:
    """Matches results to calls, entry by entry."""

    def __init__(self) -> None:
        self._open: dict[str, deque[int]] = defaultdict(deque)
        self._abandoned: dict[str, deque[int]] = defaultdict(deque)
        self._previous: Entry | None = None
        self._index = -1

    def match(self, entry: Entry) -> int | None:
        """The index of the call that the next entry answers; None if it answers none.

        An open call comes before an abandoned one, of which the latest comes first.
        """
        self._index += 1
        if begins_chat_message(entry, self._previous):
            for tool_id, indices in self._open.items():
                self._abandoned[tool_id] += indices
            self._open.clear()
        self._previous = entry
        if entry.role == "tool":
            return self._call_of(entry.tool_id)
        if entry.is_call:
            self._open[entry.tool_id].append(self._index)
        return None

    def _call_of(self, tool_id: str) -> int | None:
        if self._open.get(tool_id):
            return self._open[tool_id].popleft()
        if self._abandoned.get(tool_id):
            return self._abandoned[tool_id].pop()
        return None

    def open_calls(self) -> list[int]:
        """Indices of the calls that wait for a result, in order."""
        return sorted(index for indices in self._open.values() for index in indices)


def begins_chat_message(entry: Entry, previous: Entry | None) -> bool:
    """True if an entry begins a message of the user or the model."""
    return entry.role != "tool" and begins_message(entry, previous)


def calls_by_result(entries: Iterable[Entry]) -> dict[int, int]:
    """The index of the call that each result answers, by the result's index."""
    matcher = CallMatcher()
    found = ((index, matcher.match(entry)) for index, entry in enumerate(entries))
    return {index: call for index, call in found if call is not None}


def call_pairs(entries: Iterable[Entry]) -> dict[int, int]:
    """Indices of calls and results that belong together, each by the other."""
    calls = calls_by_result(entries)
    return calls | {call: result for result, call in calls.items()}


def open_calls(history: Iterable[Entry]) -> list[Entry]:
    """The calls of the last message that have no result yet, in order."""
    matcher = CallMatcher()
    entries = list(history)
    for entry in entries:
        matcher.match(entry)
    return [entries[index] for index in matcher.open_calls()]


def safe_cuts(history: Sequence[Entry]) -> list[int]:
    """Indices where a unit begins and no call waits for its result; the end included.

    Without the end where calls are open.
    """
    matcher = CallMatcher()
    ends = {matcher.match(entry): index for index, entry in enumerate(history)}
    ends |= dict.fromkeys(matcher.open_calls(), len(history))
    cuts, last_end = [], -1
    for index in range(len(history) + 1):
        if index > last_end and not _continues_unit(history, index):
            cuts.append(index)
        last_end = max(last_end, ends.get(index, -1))
    return cuts


def interrupted_results(entries: Sequence[Entry]) -> dict[int, Entry]:
    """A result that says "interrupted" for every call without one, by its index."""
    finished = set(calls_by_result(entries).values())
    return {
        index: failed_result(entry, INTERRUPTED)
        for index, entry in enumerate(entries)
        if entry.is_call and index not in finished
    }


def with_interrupted_results(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, each call without a result followed by one that says so."""
    results = interrupted_results(entries)
    pairs = ((entry, results.get(index)) for index, entry in enumerate(entries))
    return [each for pair in pairs for each in pair if each is not None]


def _continues_unit(history: Sequence[Entry], index: int) -> bool:
    if not 0 < index < len(history):
        return False
    entry, previous = history[index], history[index - 1]
    if entry.is_tool_picture:
        return previous.is_returned
    is_after_attachment = entry.role == "user" and _is_attached(previous)
    return not begins_chat_message(entry, previous) or is_after_attachment


def _is_attached(entry: Entry) -> bool:
    return entry.is_attachment and not entry.is_tool_picture


def _asks(entry: Entry) -> bool:
    return entry.role == "user" and not entry.is_tool_picture
