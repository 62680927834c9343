"""Engines that `memory.py --engine` measures: two published ones, without a model.

An engine is a function of messages in the form of OpenAI's chat completions and of a
model's name; it returns the messages or the text that are left.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from nbchat.conversation.entries import Entry
from nbchat.providers.tokens import TokenCounter

Message = dict[str, Any]
Engine = Callable[[list[Message]], list[Message] | str]

ATTENTION_WINDOW = 5
"""Newest messages whose outputs stay: the default of OpenHands'
ObservationMaskingCondenser (openhands/memory/condenser/impl)."""

WINDOW_SHARE = 0.15
"""Of the tokens before, what a plain window keeps: as much as nbchat's entry at most."""

MASKED = "<MASKED>"


def masked(messages: list[Message], model: str = "") -> list[Message]:
    """Each output of a tool before the newest messages is replaced by a mark."""
    first = len(messages) - ATTENTION_WINDOW
    return [
        {**each, "content": MASKED} if each["role"] == "tool" and at < first else each
        for at, each in enumerate(messages)
    ]


def windowed(messages: list[Message], model: str = "") -> list[Message]:
    """The newest messages within a share of all tokens, as plain windows keep them."""
    count = TokenCounter("o200k_base").count
    sizes = [count(json.dumps(each, ensure_ascii=False)) for each in messages]
    left, kept = int(sum(sizes) * WINDOW_SHARE), list[Message]()
    for message, size in zip(reversed(messages), reversed(sizes), strict=True):
        if size > left:
            break
        left -= size
        kept.append(message)
    return kept[::-1]


def messages_of(entries: Iterable[Entry]) -> list[Message]:
    """Entries as messages of chat completions; a call is a message of its own."""
    return [_message(each) for each in entries if each.role != "thinking"]


def _message(entry: Entry) -> Message:
    if entry.is_call:
        function = {"name": entry.tool_name, "arguments": entry.tool_args}
        call = {"id": entry.tool_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if entry.role == "tool":
        return {"role": "tool", "tool_call_id": entry.tool_id, "content": entry.content}
    role = "assistant" if entry.role == "assistant" else "user"
    return {"role": role, "content": entry.content}
