"""What the wire formats share: messages written once, checks of streamed replies.

Messages are valid JSON and UTF-8, whatever the history contains.
"""

import json
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from operator import eq
from typing import Any
from uuid import uuid4

from nbchat.conversation.entries import Entry, Usage
from nbchat.errors import ProtocolFault
from nbchat.providers.base import Reply, ReplyStop, Request, estimated_tokens
from nbchat.providers.history_repair import LegalHistory
from nbchat.providers.tokens import TokenCounter

Json = dict[str, Any]

EMPTY_TEXT = "(nothing was written)"
"""Sent for a user message without text, which the APIs refuse."""

SPARE_DEPTH = 100
"""Levels of nesting reserved for what surrounds a value in a request, and stack frames
of the call that encodes it; Python encodes less than a thousand levels."""


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How a run of entries by one speaker becomes messages."""

    speaker: Callable[[Entry], str]
    messages: Callable[[list[Entry]], list[Json]]


class WireMessages:
    """The messages of a growing history; only new entries are serialized.

    Safe for several threads. The messages are shared and must not be changed.
    """

    def __init__(self, form: WireFormat) -> None:
        """Start with an empty history."""
        self._form = form
        self._lock = threading.Lock()
        self._legal = LegalHistory()
        self._history: tuple[Entry, ...] = ()
        self._messages: list[Json] = []
        self._run_ends: list[tuple[int, int]] = []
        """The end of every run by one speaker: in the history and in the messages."""

    def update(self, history: Sequence[Entry]) -> list[Json]:
        """The messages of a history, made legal to send.

        Those of the beginning that it has in common with the last one are kept.
        """
        with self._lock:
            self._write(self._legal.update(history))
            return self._messages.copy()

    def _write(self, history: tuple[Entry, ...]) -> None:
        """Serialize from the last common run on, for it may have become longer."""
        same = _common_length(self._history, history)
        run_ends = self._run_ends[: bisect_left(self._run_ends, (same, 0))]
        entries_done, messages_done = run_ends[-1] if run_ends else (0, 0)
        messages = self._messages[:messages_done]
        for _, run in groupby(history[entries_done:], self._form.speaker):
            entries = list(run)
            messages += self._form.messages(entries)
            entries_done += len(entries)
            run_ends.append((entries_done, len(messages)))
        self._history, self._messages, self._run_ends = history, messages, run_ends


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """What a stream brought until it ended; without a stop reason it broke off."""

    entries: tuple[Entry, ...]
    stop_reason: ReplyStop | None
    usage: Usage | None


def finished_reply(
    answer: StreamedReply, request: Request, *, model: str, counter: TokenCounter
) -> Reply:
    """The reply of a stream; raises ProtocolFault if it is empty or broke off.

    Calls are removed from replies that were truncated or refused: they may be
    incomplete and must never run.
    """
    stop = answer.stop_reason
    if stop is None:
        raise ProtocolFault(f"the reply of {model} broke off; try again")
    entries = answer.entries
    if stop in ("max_tokens", "refusal"):
        entries = tuple(entry for entry in entries if not entry.is_call)
    elif not entries:
        raise ProtocolFault(f"the reply of {model} is empty; try again")
    else:
        stop = "tool_use" if any(entry.is_call for entry in entries) else "end_turn"
    usage = answer.usage
    if usage is None or not usage.input_tokens:  # some servers report zeros
        usage = _estimated_usage(request, answer.entries, counter)
    return Reply(entries, usage, stop, model)


def json_object(entry: Entry) -> Json:
    """`tool_args` as an object that can be encoded; empty if it is none."""
    value: Any = entry.arguments
    for _ in range(SPARE_DEPTH if value else 0):
        value = [value]
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):  # 1e999 is read as infinity
        return {}
    return entry.arguments


def utf8_safe(messages: Iterable[Json]) -> list[Json]:
    """Messages that can be encoded as UTF-8: a lone surrogate becomes U+FFFD."""
    wanted = list(messages)
    text = json.dumps(wanted, ensure_ascii=False)
    clean = utf8_safe_text(text)
    return wanted if clean is text else list(json.loads(clean))


def utf8_safe_text(text: str) -> str:
    """A text that can be encoded as UTF-8; the same object if it already can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def new_call_id() -> str:
    """An id for a call whose server gave none."""
    return f"call_{uuid4().hex[:12]}"


def _common_length(one: tuple[Entry, ...], other: tuple[Entry, ...]) -> int:
    """The number of entries that two histories have in common at the beginning."""
    if one == other[: len(one)]:  # the usual case, compared by identity, in C
        return len(one)
    return sum(takewhile(bool, map(eq, one, other)))


def _estimated_usage(
    request: Request, entries: Iterable[Entry], counter: TokenCounter
) -> Usage:
    counted = Usage(estimated_tokens(request, counter), counter.count_entries(entries))
    return replace(counted, is_estimated=True)
