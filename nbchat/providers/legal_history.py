"""Where a history may be cut, and how any history is made legal to send.

An atomic unit is a user message with its attachments, or an assistant's text, thinking
and calls with all their results. Cuts fall only between units, so signed thinking goes
back with its whole message or not at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nbchat.conversation.entries import Entry, failed_result
from nbchat.conversation.turns import (
    INTERRUPTED,
    MODEL_ROLES,
    CallMatcher,
    begins_chat_message,
)
from nbchat.providers.base import wire_name

LONGEST_ID = 40
"""Letters of a call's id: OpenAI refuses more, other servers make longer ones."""

NUMBER_LENGTH = 8
"""Letters kept free for what tells two calls of one id apart."""

ANY_ID = "call"
"""For calls whose server gave no id."""


def legal(history: Iterable[Entry]) -> list[Entry]:
    """The same history as any server accepts it; the transcript stays as it is."""
    return list(LegalHistory().of(list(history)))


class LegalHistory:
    """The legal form of a growing history, made once: it costs what is new.

    Every call has an id of its own and is followed by its result: a late one is moved
    up, a missing one is stated as interrupted. A result without a call is left out, and
    so is an assistant's message that says nothing.
    """

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._begin()

    def of(self, history: Sequence[Entry]) -> tuple[Entry, ...]:
        """The legal form of a history; made anew when it is not the last one, grown."""
        if history[: len(self._seen)] != self._seen:
            self._begin()
        for entry in history[len(self._seen) :]:
            self._add(entry)
        return (*self._sent, *self._message_with_results())

    def _begin(self) -> None:
        self._seen: list[Entry] = []
        self._sent: list[Entry] = []
        self._message: list[Entry] = []
        self._results: dict[int, Entry] = {}
        self._given_up: dict[int, int] = {}
        self._ties = CallMatcher()
        self._ids = _Ids()

    def _add(self, entry: Entry) -> None:
        place = len(self._seen)
        if begins_chat_message(entry, self._seen[-1] if self._seen else None):
            self._end_message()
        self._seen.append(entry)
        answered = self._ties.match(entry)
        if answered is not None:
            self._answer(answered, entry)
        elif entry.is_call:
            call = _with_id(entry, self._ids.unique(entry.tool_id))
            self._message.append(call)
            self._results[place] = failed_result(call, INTERRUPTED)
        elif entry.role in MODEL_ROLES:
            self._message.append(entry)
        elif entry.role != "tool":
            self._sent.append(entry)

    def _answer(self, place: int, result: Entry) -> None:
        """Put a result where its call's interruption was stated."""
        if place in self._results:
            stated = self._results[place]
            self._results[place] = _with_id(result, stated.tool_id)
        else:
            at = self._given_up.pop(place)
            self._sent[at] = _with_id(result, self._sent[at].tool_id)

    def _end_message(self) -> None:
        self._sent += self._message_with_results()
        first = len(self._sent) - len(self._results)
        self._given_up |= {place: first + n for n, place in enumerate(self._results)}
        self._message, self._results = [], {}

    def _message_with_results(self) -> list[Entry]:
        says_something = any(
            entry.is_call or (entry.is_answer and entry.content.strip())
            for entry in self._message
        )
        return [*self._message, *self._results.values()] if says_something else []


class _Ids:
    """Gives out ids that both APIs take: none twice, none empty, none too long."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last_number: dict[str, int] = defaultdict(lambda: 1)

    def unique(self, tool_id: str) -> str:
        """The id itself the first time, one with a number after that."""
        name = tool_id[:LONGEST_ID] or ANY_ID
        stem = name[: LONGEST_ID - NUMBER_LENGTH]
        while (written := wire_name(name)) in self._taken:
            self._last_number[wire_name(stem)] += 1
            name = f"{stem}_{self._last_number[wire_name(stem)]}"
        self._taken.add(written)
        return name


def _with_id(entry: Entry, tool_id: str) -> Entry:
    return entry if entry.tool_id == tool_id else entry._replace(tool_id=tool_id)
