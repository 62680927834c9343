"""What all wire formats share: texts on the way out, checks of answers coming in."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import uuid4

from nbchat.errors import ProtocolFault
from nbchat.history import Entry, Usage
from nbchat.providers.base import Reply, ReplyStop, Request, wire_text
from nbchat.tokens import IMAGE_TOKENS, TokenCounter

TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a stream had brought when it ended; no stop reason: it did not finish."""

    entries: tuple[Entry, ...]
    stop_reason: ReplyStop | None
    usage: Usage | None


def user_text(entry: Entry) -> str:
    """What a person, or a summary, says as text; a file with its content."""
    if entry.tool_name != "file":
        return wire_text(entry)
    media_type = str(entry.arguments.get("media_type", "text/plain"))
    content = f"[a file of type {media_type}, which is not text]"
    if media_type.startswith(TEXT_TYPES):
        content = str(entry.arguments.get("data", ""))
    return "\n\n".join(filter(None, (entry.content, content)))


def image_of(entry: Entry) -> tuple[str, str] | None:
    """Media type and base64 data of a picture; None for all other entries."""
    data = entry.arguments.get("data") if entry.tool_name == "image" else None
    if entry.role != "user" or not data:
        return None
    return str(entry.arguments.get("media_type", "image/png")), str(data)


def new_call_id() -> str:
    """An id for a call whose server gave none."""
    return f"call_{uuid4().hex[:12]}"


def estimated_tokens(request: Request, counter: TokenCounter) -> int:
    """Input tokens of a request by the local counter; thinking is not sent again."""
    schemas = [[each.name, each.description, each.parameters] for each in request.tools]
    fixed = counter.count(request.system) + counter.count(json.dumps(schemas))
    return fixed + sum(_entry_tokens(entry, counter) for entry in request.history)


def finished_reply(
    answer: Answer, request: Request, *, model: str, counter: TokenCounter
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
