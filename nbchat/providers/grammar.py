"""What a small model is made to write: grammars for forced calls and tagged answers."""

import json
import uuid
from typing import Any

from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import Tool
from nbchat.errors import ProtocolFault
from nbchat.providers.base import Reply, Request

STRING_LEAST, STRING_LIMIT = 3, 160
"""Characters of a free string in a call; without a limit the model never ends it."""

ANSWER_LIMIT = 1_200
"""Characters of an answer where tools are there but not to be called."""

TAGGED_SENTENCES, SENTENCE_LIMIT = 4, 200
"""Sentences inside an answer tag and characters of each, for the same reason."""


def is_forced(request: Request) -> bool:
    """Whether the reply must be a call."""
    return bool(request.tools) and request.tool_choice not in ("auto", "none")


def tag_grammar(tag: str) -> str:
    """A GBNF grammar for a few whole sentences inside `<tag>...</tag>`."""
    return (
        f'root ::= "<{tag}>" sentence{{1,{TAGGED_SENTENCES}}} "</{tag}>"\n'
        f"sentence ::= [^<.!?]{{8,{SENTENCE_LIMIT}}} [.!?]"
    )


def answer_grammar() -> str:
    """A GBNF grammar for plain words: nothing that could begin a call."""
    return f"root ::= [^<{{]{{2,{ANSWER_LIMIT}}}"


def call_grammar(request: Request) -> str:
    """An llguidance grammar for one call, written as the chat template writes calls."""
    allowed = [
        tool for tool in request.tools if request.tool_choice in ("required", tool.name)
    ]
    schema = {
        "x-guidance": {"whitespace_flexible": False},
        "anyOf": [_call_schema(tool) for tool in allowed],
    }
    return (
        "%llguidance {}\n"
        'start: "<tool_call>\\n" call "\\n</tool_call>"\n'
        f"call: %json {json.dumps(schema)}"
    )


def _call_schema(tool: Tool) -> dict[str, Any]:
    properties = {
        name: _bounded(definition)
        for name, definition in tool.parameters["properties"].items()
    }
    return _closed(
        {
            "name": {"const": tool.name},
            "arguments": _closed(properties, tool.parameters.get("required", [])),
        }
    )


def _closed(
    properties: dict[str, Any], required: list[str] | None = None
) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def _bounded(definition: dict[str, Any]) -> dict[str, Any]:
    is_free_string = definition.get("type") == "string" and "enum" not in definition
    limits = {"minLength": STRING_LEAST, "maxLength": STRING_LIMIT}
    return limits | definition if is_free_string else definition


def as_call(reply: Reply, request: Request) -> Reply:
    """The reply with the call read out of its text; raises ProtocolFault."""
    text = reply.text.strip()
    text = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
    try:
        call = json.loads(text)
        entry = Entry(
            "assistant",
            "",
            f"call_{uuid.uuid4().hex[:8]}",
            call["name"],
            json.dumps(call["arguments"], ensure_ascii=False),
        )
    except (ValueError, KeyError, TypeError):
        raise ProtocolFault(
            f"the embedded model was to call {request.tool_choice} and wrote "
            f"{text[:60]!r}; allow more output tokens"
        ) from None
    return Reply((entry,), reply.usage, "tool_use", reply.model)
