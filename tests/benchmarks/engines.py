"""Engines that `memory.py --engine` measures: four published ways, without a model.

An engine is a function of messages in the form of OpenAI's chat completions and of a
model's name; it returns the messages or the text that are left.
"""

import json
import re
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


KEPT_PAIRS, CLEARED = 3, "[tool result cleared]"
"""Newest results that stay, and the mark: the defaults of ClearToolResults of
pydantic-ai-harness (pydantic_ai_harness/compaction)."""


def cleared(messages: list[Message], model: str = "") -> list[Message]:
    """Each output but those of the newest calls is replaced by a mark."""
    results = [at for at, each in enumerate(messages) if each["role"] == "tool"]
    old = {*results[: max(len(results) - KEPT_PAIRS, 0)]}
    return [
        {**each, "content": CLEARED} if at in old else each
        for at, each in enumerate(messages)
    ]


PERSON_WORDS, FIRST_WORDS, LAST_WORDS = 256, 80, 120
COMMAND_CHARACTERS, QUERY_CHARACTERS = 240, 60
CALLS_OF_A_TURN, LINES = 8, 120
PATHS = ("file_path", "path", "filename", "file")
"""Limits of the brief transcript of pi-vcc 0.7 (README, src/core/brief.ts), and the
arguments that name a file."""


def brief(messages: list[Message], model: str = "") -> str:
    """A transcript without outputs, in the manner of pi-vcc and without its sections.

    A person's words are cut, an answer has its first and last words, and a call is one
    line with its file, command or query; other arguments are left out.
    """
    lines, calls = list[str](), list[str]()
    for each in messages:
        if each["role"] == "tool":
            continue
        if each.get("tool_calls"):
            calls += [_one_line(call["function"]) for call in each["tool_calls"]]
            continue
        lines += calls[-CALLS_OF_A_TURN:]
        calls = []
        is_person = each["role"] == "user"
        first, last = (PERSON_WORDS, 0) if is_person else (FIRST_WORDS, LAST_WORDS)
        lines += [f"[{each['role']}]", *_cut(each["content"], first, last).splitlines()]
    return "\n".join([*lines, *calls[-CALLS_OF_A_TURN:]][-LINES:])


def _cut(text: str, first: int, last: int) -> str:
    words = list(re.finditer(r"\S+", text))
    if len(words) <= first + last:
        return text
    end = f"\n{text[words[-last].start() :]}" if last else ""
    return f"{text[: words[first - 1].end()]} ...{end}"


def _one_line(function: dict[str, str]) -> str:
    name, arguments = function["name"], json.loads(function["arguments"] or "{}")
    if path := next((arguments[key] for key in PATHS if key in arguments), ""):
        return f'* {name} "{path}"'
    if name.lower() == "bash":
        return f'* {name} "{str(arguments.get("command", ""))[:COMMAND_CHARACTERS]}"'
    query = arguments.get("query")
    return (
        f'* {name} "{query[:QUERY_CHARACTERS]}"'
        if isinstance(query, str)
        else f"* {name}"
    )


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
