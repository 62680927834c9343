"""What all wire formats share: texts on the way out, checks of answers coming in.

What goes out is JSON that any server can read, whatever the history holds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.tools import Tool
from nbchat.errors import ProtocolFault
from nbchat.providers.base import Reply, ReplyStop, Request, wire_text
from nbchat.providers.message_cache import Json
from nbchat.providers.tokens import IMAGE_TOKENS, TokenCounter

NOTHING_SAID = "(nothing was written)"
"""Stands for a user's message without any text, which the APIs refuse."""

PINNED = "The user has pinned these rules; they hold for the whole conversation:"

SPARE_DEPTH = 100
"""Brackets that may stand around a value, and frames around the call that writes it;
Python writes JSON of less than a thousand."""


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """What a stream had brought when it ended; no stop reason: it did not finish."""

    entries: tuple[Entry, ...]
    stop_reason: ReplyStop | None
    usage: Usage | None


def user_text(entry: Entry) -> str:
    """The text of a user or summary entry; that of an attached text file included."""
    return entry.attachment_text if entry.is_attachment else wire_text(entry)


def image_of(entry: Entry) -> tuple[str, str] | None:
    """Media type and base64 data of a picture; None for all other entries."""
    if entry.role != "user" or entry.tool_name != "image":
        return None
    data = entry.arguments.get("data")
    media_type = str(entry.arguments.get("media_type", "image/png"))
    return (media_type, str(data)) if data else None


def json_object(entry: Entry) -> Json:
    """`tool_args` as an object that can be written as JSON; empty for anything else."""
    value: Any = entry.arguments
    for _ in range(SPARE_DEPTH if value else 0):
        value = [value]
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):  # 1e999 is read as infinity
        return {}
    return entry.arguments


def utf8_safe(messages: Iterable[Json]) -> list[Json]:
    """Messages that can be written as UTF-8: a lone surrogate becomes U+FFFD."""
    wanted = list(messages)
    text = json.dumps(wanted, ensure_ascii=False)
    clean = utf8_safe_text(text)
    return wanted if clean is text else list(json.loads(clean))


def utf8_safe_text(text: str) -> str:
    """A text that can be written as UTF-8; the same object when it can already."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def new_call_id() -> str:
    """An id for a call whose server gave none."""
    return f"call_{uuid4().hex[:12]}"


def estimated_tokens(request: Request, counter: TokenCounter) -> int:
    """Input tokens of a request by the local counter; thinking is not sent again."""
    fixed = fixed_tokens(request.system, request.tools, counter)
    return fixed + sum(_entry_tokens(entry, counter) for entry in request.history)


def instructions(system: str, pins: Sequence[str]) -> str:
    """The system prompt with what was pinned below it: no compaction touches it."""
    rules = [PINNED, *pins] if pins else []
    return "\n\n".join(filter(None, [system, *rules]))


def fixed_tokens(system: str, tools: Sequence[Tool], counter: TokenCounter) -> int:
    """Tokens that every request of a chat begins with: the system prompt, the tools."""
    schemas = [[each.name, each.description, each.parameters] for each in tools]
    return counter.count(system) + (counter.count(json.dumps(schemas)) if tools else 0)


def finished_reply(
    answer: StreamedReply, request: Request, *, model: str, counter: TokenCounter
) -> Reply:
    """A reply, when the answer is a whole one; raises ProtocolFault for half of one.

    Calls of an answer that was cut at its limit or refused are left out: half a call
    must never run.
    """
    stop = answer.stop_reason
    if stop is None:
        raise ProtocolFault(f"{model} broke off: this is half an answer; try again")
    entries = answer.entries
    if stop in ("max_tokens", "refusal"):
        entries = tuple(entry for entry in entries if not entry.is_call)
    elif not entries:
        raise ProtocolFault(f"{model} answered with nothing at all; try again")
    else:
        stop = "tool_use" if any(entry.is_call for entry in entries) else "end_turn"
    usage = answer.usage
    if usage is None or not usage.input_tokens:  # some servers report zeros
        usage = _estimated_usage(request, answer.entries, counter)
    return Reply(entries, usage, stop, model)


def _estimated_usage(
    request: Request, entries: Iterable[Entry], counter: TokenCounter
) -> Usage:
    counted = Usage(estimated_tokens(request, counter), counter.count_entries(entries))
    return replace(counted, is_estimated=True)


def _entry_tokens(entry: Entry, counter: TokenCounter) -> int:
    if entry.role == "thinking":
        return 0
    if image_of(entry) is not None:
        return IMAGE_TOKENS + counter.count(entry.content)
    if entry.role in ("user", "summary"):
        entry = Entry(entry.role, user_text(entry))
    return counter.count_entry(entry)
