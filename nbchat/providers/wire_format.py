"""The common part of the wire formats: messages, streams, prompt caching, replies.

Messages are written once, and are legal to send, valid JSON and UTF-8, whatever the
history contains: calls are paired, their ids unique, and no reply is empty.

A request is read from the cache up to the last mark that an earlier one has written:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
https://developers.openai.com/api/docs/guides/prompt-caching.
"""

import json
import re
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, groupby, takewhile
from operator import eq
from typing import Any, Protocol
from uuid import uuid4

import httpx2

from nbchat.conversation.entries import Entry, Usage, failed_result
from nbchat.conversation.events import Delta, TextDelta, ThinkingDelta
from nbchat.conversation.json_schemas import object_text
from nbchat.conversation.turns import (
    INTERRUPTED,
    MODEL_ROLES,
    CallMatcher,
    begins_chat_message,
)
from nbchat.errors import ProtocolFault, with_details
from nbchat.providers.base import (
    Reply,
    ReplyStop,
    Request,
    estimated_tokens,
    is_live_context,
    most_bytes,
    wire_text,
)
from nbchat.providers.model_info import ASSUMED_WINDOW, NEWER_OPENAI
from nbchat.providers.tokens import TokenCounter, most_tokens_of

Json = dict[str, Any]

EMPTY_TEXT = "(nothing was written)"
"""Sent for a user message without text, which the APIs refuse."""

MOST_TOKENS = 10**16
"""A larger number of tokens is no count."""

SPARE_DEPTH = 100
"""Levels of nesting reserved for what surrounds a value in a request, and stack frames
of the call that encodes it; Python encodes less than a thousand levels."""

MARKABLE = ("text", "image", "tool_result")
"""Types of blocks of a message that Anthropic can mark."""

LONG_OPENAI = "12h"
"""OpenAI's next lifetime after half an hour, which is the usual one."""


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


ANSWER_LIMIT = 16_000_000
"""Characters of an answer: thirty times the longest that models write."""

ITEM_LIMIT = 2_000_000
"""Pieces of an answer, of which each has a token or more."""

LONG_TEXT = 500
"""Characters from which a string of an item counts even if it is not shown, such as
the arguments of a call."""


class SizeCheck:
    """Stops an answer that does not end."""

    def __init__(self) -> None:
        self._items = 0
        self._characters = 0

    def add(self, item: Any, shown: Iterable[Delta]) -> None:
        """Count an item and its deltas; raises ProtocolFault past the limits."""
        self._items += 1
        self._characters += sum(len(delta_text(delta)) for delta in shown)
        self._characters += sum(filter(LONG_TEXT.__lt__, map(len, _strings(item))))
        if self._characters > ANSWER_LIMIT or self._items > ITEM_LIMIT:
            endless = ProtocolFault(
                f"Stopped the answer: it's longer than {ANSWER_LIMIT:,} characters."
            )
            endless.is_retryable = False
            raise endless


def delta_text(delta: Delta) -> str:
    """The text of a delta; raises TypeError if a server sent something else."""
    text = delta.text if isinstance(delta, TextDelta | ThinkingDelta) else ""
    if not isinstance(text, str):
        raise TypeError(f"a text was expected, not {type(text).__name__}")
    return text


def whole(value: object) -> int:
    """A number of tokens as a server reports it; 0 for what is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < MOST_TOKENS:  # type: ignore[operator]
        return 0
    return int(value)  # type: ignore[call-overload,no-any-return]


def an_object(value: object) -> Json:
    """A JSON object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def a_list(value: object) -> list[Any]:
    """A JSON list; empty for anything else."""
    return value if isinstance(value, list) else []


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from chain.from_iterable(map(_strings, value.values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_strings, value))


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """The content of a stream until it ended; without a stop reason it broke off."""

    entries: tuple[Entry, ...]
    stop_reason: ReplyStop | None
    usage: Usage | None


def finished_reply(
    answer: StreamedReply,
    request: Request,
    *,
    model: str,
    window: int | None,
    counter: TokenCounter,
) -> Reply:
    """The reply of a stream; raises ProtocolFault if it is empty or broke off.

    Calls are removed if they have no name, and from replies that were truncated or
    refused: they may be incomplete and must never run. A usage that cannot be true is
    counted here instead.
    """
    stop = answer.stop_reason
    if stop is None:
        raise ProtocolFault(with_details("The answer was cut off.", f"Model: {model}"))
    entries = answer.entries
    if not all(isinstance(part, str) for part in chain.from_iterable(entries)):
        raise ProtocolFault(f"{model} sent an answer that can't be read.")
    entries = tuple(each for each in entries if each.content or each.tool_name)
    if stop in ("max_tokens", "refusal"):
        entries = tuple(entry for entry in entries if not entry.is_call)
    elif not entries:
        raise ProtocolFault(f"{model} sent an empty answer.")
    else:
        stop = "tool_use" if any(entry.is_call for entry in entries) else "end_turn"
    entries = tuple(map(_with_object, entries))
    usage = answer.usage
    if usage is None or not _can_be_true(usage, request, answer.entries, window):
        usage = _estimated_usage(request, answer.entries, counter)
    return Reply(entries, usage, stop, model)


def _with_object(entry: Entry) -> Entry:
    """A call whose arguments are one JSON object, where they are one in some form."""
    if not entry.is_call:
        return entry
    return entry._replace(tool_args=object_text(entry.tool_args))


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


def _can_be_true(
    usage: Usage, request: Request, entries: Iterable[Entry], window: int | None
) -> bool:
    """False for zeros, and for more tokens than the window and the texts have bytes.

    A server may add a prompt of its own to a short request, but never past its window.
    """
    tokens = usage.input_tokens + usage.output_tokens
    if not usage.input_tokens or tokens <= (window or ASSUMED_WINDOW):
        return bool(usage.input_tokens)
    return tokens <= most_bytes(request) + sum(map(most_tokens_of, entries))


def _estimated_usage(
    request: Request, entries: Iterable[Entry], counter: TokenCounter
) -> Usage:
    counter.keep(request.history)
    counted = Usage(estimated_tokens(request, counter), counter.count_entries(entries))
    return replace(counted, is_estimated=True)


class WireItem(Protocol):
    """One item of an SDK's stream."""

    def to_dict(self, *, warnings: bool) -> Json:
        """The item as it came over the wire."""


class WireStream(AbstractContextManager[Iterable[WireItem]], Protocol):
    """An SDK's stream and its response."""

    response: httpx2.Response


class Reader(Protocol):
    """Reads a stream in one wire format."""

    def read(self, item: Json) -> Iterator[Delta]:
        """Read an item and yield its deltas."""

    def answer(self) -> StreamedReply:
        """The data that has arrived until now."""


def cache_key(request: Request) -> str:
    """A name for the beginning of a conversation, by which its cache is found.

    The same for all requests of a conversation until it is compacted. It reveals no
    text.
    """
    first = request.history[:1]
    begun = json.dumps([request.system, [each.name for each in request.tools], first])
    return sha256(begun.encode("utf-8", "replace")).hexdigest()[:32]


def marked_for_anthropic(fields: Json, request: Request, lifetime: str) -> Json:
    """The fields with marks on tools, system prompt, summary and last user message.

    Four are allowed. A summary, with its facts, stays until the next compaction; what
    ends at the last message is read again by the next request.
    """
    ttl = {"ttl": lifetime} if lifetime else {}
    mark = {"cache_control": {"type": "ephemeral", **ttl}}
    found = dict(fields)
    if tools := a_list(found.get("tools")):
        found["tools"] = [*tools[:-1], {**tools[-1], **mark}]
    if system := found.get("system"):
        found["system"] = [{"type": "text", "text": system, **mark}]
    messages = list(found["messages"])
    for is_marked in (_is_summary(request), _is_kept):
        _mark_last(messages, "user", is_marked, mark)
    return {**found, "messages": messages}


def marked_for_openai(
    fields: Json, request: Request, model: str, lifetime: str | None
) -> Json:
    """The fields with a mark after the summary; OpenAI itself marks the end."""
    if not NEWER_OPENAI.match(model):
        return fields
    items = list(fields["input"])
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    _mark_last(items, "user", _is_summary(request), mark)
    options = {"prompt_cache_options": {"ttl": LONG_OPENAI}} if lifetime == "1h" else {}
    return {**fields, "input": items, **options}


def _is_kept(block: Json) -> bool:
    """True if the next request has this block, too."""
    return not is_live_context(block.get("text"))


def _is_summary(request: Request) -> Callable[[Json], bool]:
    """True if a block is the text of the summary with which a history begins."""
    first = next(iter(request.history), None)
    if first is None or first.role != "summary":
        return lambda _block: False
    text = utf8_safe_text(wire_text(first))
    return lambda block: block.get("text") == text


def _mark_last(
    messages: list[Json], role: str, is_marked: Callable[[Json], bool], mark: Json
) -> None:
    """Mark the last block of a role that fits, in a copy of its message."""
    for place, message in _reversed(messages):
        blocks = a_list(message.get("content")) if message.get("role") == role else []
        for at, block in _reversed(blocks):
            is_fit = block.get("type") in (*MARKABLE, "input_text") and is_marked(block)
            if is_fit:
                content = [*blocks[:at], {**block, **mark}, *blocks[at + 1 :]]
                messages[place] = {**message, "content": content}
                return


def _reversed(items: list[Json]) -> Iterable[tuple[int, Json]]:
    return reversed(list(enumerate(items)))


WITHIN = ("usage", "usage_metadata", "response_metadata", "tokens", "response")
"""Where a response has its usage."""

INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count", "prompt_eval_count")
"""Anthropic and OpenAI's Responses; chat completions; Gemini; Ollama."""

OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count", "eval_count")

BESIDE = (
    *("cache_read_input_tokens", "cache_creation_input_tokens"),  # Anthropic
    *("cache_write_input_tokens", "tool_use_prompt_token_count"),  # Bedrock, Gemini
)
"""Input that is not in the figure of `INPUT`."""

DETAILS = ("input_tokens_details", "prompt_tokens_details", "input_token_details")
READ = ("cached_tokens", "cache_read", "cache_read_input_tokens")
WRITTEN = ("cache_write_tokens", "cache_creation", "cache_creation_input_tokens")


def usage_of(report: object) -> Usage:
    """The usage in a report; none for what is no report."""
    if isinstance(report, Usage):
        return report
    fields = _fields(report)
    rounds = a_list(fields.get("iterations"))
    if not (rounds or _first(fields, (*INPUT, *OUTPUT))):
        inner = (fields.get(name) for name in WITHIN)
        found = (usage_of(each) for each in inner if each is not None)
        return next(filter(lambda usage: usage.total_tokens, found), Usage())
    *earlier, last = map(_round, rounds or [fields])
    dropped = sum(earlier, Usage())  # the server compacted in between
    return replace(dropped + last, dropped_tokens=dropped.total_tokens)


def _round(report: object) -> Usage:
    fields = _fields(report)
    inside = next(filter(None, (_fields(fields.get(name)) for name in DETAILS)), {})
    output = _first(fields, OUTPUT) + whole(fields.get("thoughts_token_count"))
    cached = whole(fields.get("cached_content_token_count"))
    has_all = whole(fields.get("prompt_tokens"))  # a proxy may repeat parts beside it
    beside = 0 if has_all else sum(whole(fields.get(name)) for name in BESIDE)
    return Usage(
        _first(fields, INPUT) + beside,
        output,
        _first({**fields, **inside}, READ) or cached,
        _first({**fields, **inside}, WRITTEN),
    )


def _fields(report: object) -> Json:
    """A report as a dictionary with names in snake_case."""
    for name in ("model_dump", "to_dict", "dict", "_asdict"):
        method: Any = getattr(report, name, None)
        if callable(method) and not isinstance(report, type | Mapping):
            report = method()
            break
    if not isinstance(report, Mapping):
        report = getattr(report, "__dict__", None)
    named = dict(report) if isinstance(report, Mapping) else {}
    return an_object({_snake(str(name)): each for name, each in named.items()})


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def _first(fields: Json, names: Iterable[str]) -> int:
    return next((n for name in names if (n := whole(fields.get(name)))), 0)


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
