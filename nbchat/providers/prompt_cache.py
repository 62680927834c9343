"""Prompt caching: which part of a request a provider keeps, and for how long.

A request is read from the cache up to the last mark that an earlier one has written:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
https://developers.openai.com/api/docs/guides/prompt-caching.
"""

import json
from collections.abc import Callable, Iterable
from hashlib import sha256

from nbchat.providers.base import Request, wire_text
from nbchat.providers.model_info import NEWER_OPENAI
from nbchat.providers.wire_format import Json, a_list, utf8_safe_text

MARKABLE = ("text", "image", "tool_result")
"""Types of blocks of a message that Anthropic can mark."""

LONG_OPENAI = "12h"
"""OpenAI's next lifetime after half an hour, which is the usual one."""


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
    for is_marked in (_is_summary(request), lambda _block: True):
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


def _is_summary(request: Request) -> Callable[[Json], bool]:
    """Whether a block is the text of the summary with which a history begins."""
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
