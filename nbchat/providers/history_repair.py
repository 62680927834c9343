"""Make any history legal to send: paired calls, unique ids, no empty replies."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from nbchat.conversation.entries import Entry, failed_result
from nbchat.conversation.turns import (
    INTERRUPTED,
    MODEL_ROLES,
    CallMatcher,
    begins_chat_message,
)

LONGEST_ID = 40
"""Characters of a call id: OpenAI refuses more, other servers make longer ones."""

NUMBER_LENGTH = 8
"""Characters reserved for the number that makes an id unique."""

DEFAULT_ID = "call"
"""For calls whose server gave no id."""


def legal(history: Iterable[Entry]) -> list[Entry]:
    """A history that any server accepts; the transcript stays as it is."""
    return list(LegalHistory().update(list(history)))


def wire_name(text: str) -> str:
    """An id or tool name in the characters that all APIs allow; others become `_`."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)


class LegalHistory:
    """The legal form of a growing history; only new entries are processed.

    Each call gets a unique id and is followed by its result: a late result is moved up,
    a missing one is replaced by one that says "interrupted". Results without a call and
    model messages without text or calls are omitted.
    """

    def __init__(self) -> None:
        self._reset()

    def update(self, history: Sequence[Entry]) -> tuple[Entry, ...]:
        """The legal form of a history; starts over unless it continues the last one."""
        if list(history[: len(self._seen)]) != self._seen:
            self._reset()
        try:
            for entry in history[len(self._seen) :]:
                self._add(entry)
        except BaseException:  # KeyboardInterrupt may come in the middle of an entry
            self._reset()
            raise
        return (*self._legal, *self._message_with_results())

    def _reset(self) -> None:
        self._seen: list[Entry] = []
        self._legal: list[Entry] = []
        self._message: list[Entry] = []
        self._results: dict[int, Entry] = {}
        self._abandoned: dict[int, int] = {}
        self._matcher = CallMatcher()
        self._ids = _UniqueIds()

    def _add(self, entry: Entry) -> None:
        index = len(self._seen)
        if begins_chat_message(entry, self._seen[-1] if self._seen else None):
            self._end_message()
        self._seen.append(entry)
        call_index = self._matcher.match(entry)
        if call_index is not None:
            self._add_result(call_index, entry)
        elif entry.is_call:
            call = _with_id(entry, self._ids.unique(entry.tool_id))
            self._message.append(call)
            self._results[index] = failed_result(call, INTERRUPTED)
        elif entry.role in MODEL_ROLES:
            self._message.append(entry)
        elif entry.role != "tool":
            self._legal.append(entry)

    def _add_result(self, call_index: int, result: Entry) -> None:
        """Replace the result that said "interrupted"."""
        if call_index in self._results:
            assumed = self._results[call_index]
            self._results[call_index] = _with_id(result, assumed.tool_id)
        else:
            at = self._abandoned.pop(call_index)
            self._legal[at] = _with_id(result, self._legal[at].tool_id)

    def _end_message(self) -> None:
        self._legal += self._message_with_results()
        first = len(self._legal) - len(self._results)
        self._abandoned |= {index: first + n for n, index in enumerate(self._results)}
        self._message, self._results = [], {}

    def _message_with_results(self) -> list[Entry]:
        has_content = any(
            entry.is_call or (entry.is_answer and entry.content.strip())
            for entry in self._message
        )
        return [*self._message, *self._results.values()] if has_content else []


class _UniqueIds:
    """Gives each call an id that all APIs accept: unique, not empty, not too long."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last_number: dict[str, int] = defaultdict(lambda: 1)

    def unique(self, tool_id: str) -> str:
        """The id itself the first time, one with a number after that."""
        name = tool_id[:LONGEST_ID] or DEFAULT_ID
        stem = name[: LONGEST_ID - NUMBER_LENGTH]
        while (written := wire_name(name)) in self._taken:
            self._last_number[wire_name(stem)] += 1
            name = f"{stem}_{self._last_number[wire_name(stem)]}"
        self._taken.add(written)
        return name


def _with_id(entry: Entry, tool_id: str) -> Entry:
    return entry if entry.tool_id == tool_id else entry._replace(tool_id=tool_id)
