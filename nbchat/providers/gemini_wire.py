"""Where Gemini's wire differs from OpenAI's: thought signatures, schemas, its own body.

A call's signature stands before it as an entry of the role `thinking`, and goes back
with the call: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import Tool
from nbchat.providers import openai_wire
from nbchat.providers.base import Request, speaker, wire_name
from nbchat.providers.message_cache import Json, WireFormat
from nbchat.providers.openai_wire import Call, ChunkReader
from nbchat.providers.wire import (
    NOTHING_SAID,
    StreamedReply,
    image_of,
    json_object,
    new_call_id,
    user_text,
    utf8_safe,
)

SCHEMA_WORDS = {
    *("type", "format", "description", "enum", "items", "properties", "required"),
    *("anyOf", "pattern", "minimum", "maximum", "minItems", "maxItems"),
    *("minLength", "maxLength", "minProperties", "maxProperties"),
}
"""Of JSON Schema, what https://ai.google.dev/api/caching#Schema knows; for any other
word a request is refused. The arguments a model sends are validated here anyway."""

START = Entry("user", "")
"""Stands before the first entry of a run."""


def functions(tools: Iterable[Tool]) -> list[Json]:
    """Tools as Gemini takes them; one without arguments has no parameters at all."""
    return list(map(_function, tools))


def _function(tool: Tool) -> Json:
    function: Json = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        definitions = tool.parameters.get("$defs", {})
        function["parameters"] = _schema(tool.parameters, definitions)
    return function


def _schema(schema: Json, definitions: Json) -> Json:
    """A schema in Gemini's words; what is defined elsewhere is written out.

    A definition inside itself is any object: Gemini knows no references.
    """
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name:
        found = {**definitions.get(name, {"type": "object"}), **schema}
        others = {key: each for key, each in definitions.items() if key != name}
        return _schema({**found, "$ref": ""}, others)
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    known = {word: each for word, each in schema.items() if word in SCHEMA_WORDS}
    return {word: _inner(word, each, definitions) for word, each in known.items()}


def _inner(word: str, value: Any, definitions: Json) -> Any:
    match word:
        case "properties":
            return {name: _schema(each, definitions) for name, each in value.items()}
        case "anyOf":
            return [_schema(each, definitions) for each in value]
        case "items":
            return _schema(value, definitions)
        case _:
            return value


def _messages(run: list[Entry]) -> list[Json]:
    """OpenAI's messages; results name their tool, calls have their signatures."""
    messages = openai_wire.FORMAT.messages(run)
    if run[0].role == "tool":
        names = [wire_name(entry.tool_name) for entry in run]
        return [
            {**message, "name": name} if name else message
            for message, name in zip(messages, names, strict=True)
        ]
    return [_signed(message, run) for message in messages]


FORMAT = WireFormat(speaker, _messages)
"""As OpenAI's: one message a run, but one for each result."""


def _signed(message: Json, run: list[Entry]) -> Json:
    if "tool_calls" not in message:
        return message
    extras = [_extra(previous) for previous, _ in _calls(run)]
    calls = zip(message["tool_calls"], extras, strict=True)
    return {**message, "tool_calls": [{**call, **extra} for call, extra in calls]}


def _calls(run: list[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Each call with the entry right before it, where its signature is."""
    return (pair for pair in pairwise([START, *run]) if pair[1].is_call)


def _extra(entry: Entry) -> Json:
    """What Gemini sent beside the call that follows, verbatim; or nothing."""
    is_ours = entry.role == "thinking" and entry.tool_name == "gemini"
    content = json_object(entry).get("extra_content") if is_ours else None
    extra = {"extra_content": content}
    return extra if content and utf8_safe([extra]) == [extra] else {}


class SignedReader(ChunkReader):
    """Collects chunks, and what Gemini sends beside its calls."""

    def answer(self) -> StreamedReply:
        """All that has arrived; output tokens include those of thinking.

        Gemini leaves them out of `completion_tokens` though they are billed as output.
        """
        answer = super().answer()
        if answer.usage is None:
            return answer
        total = self._usage.get("total_tokens") or 0
        thought = total - answer.usage.total_tokens
        output_tokens = answer.usage.output_tokens + max(thought, 0)
        return replace(answer, usage=replace(answer.usage, output_tokens=output_tokens))

    def _read_call(self, piece: Json) -> None:
        """A name begins a call: Gemini sends no index, older models no id either."""
        if (piece.get("function") or {}).get("name") and not piece.get("id"):
            piece = {**piece, "id": new_call_id()}
        super()._read_call(piece)

    def _call_entries(self, call: Call) -> Iterator[Entry]:
        if call.extra_content:
            extra = json.dumps({"extra_content": call.extra_content})
            yield Entry("thinking", "", "", "gemini", extra)
        yield from super()._call_entries(call)


def native_request(request: Request, model: str) -> Json:
    """A request in Gemini's own format, in which it counts tokens."""
    fields: Json = {"model": f"models/{model}", "contents": _contents(request.history)}
    if request.system.strip():
        [instruction] = utf8_safe([{"parts": [{"text": request.system}]}])
        fields["systemInstruction"] = instruction
    if request.tools:
        fields["tools"] = [{"functionDeclarations": functions(request.tools)}]
    return fields


def _contents(history: Iterable[Entry]) -> list[Json]:
    """The conversation in turns of `user` and `model`; results are the user's."""
    turns = (_turn(role, list(run)) for role, run in groupby(history, _role))
    return utf8_safe([turn for turn in turns if turn["parts"]])


def _role(entry: Entry) -> str:
    return "model" if speaker(entry) == "assistant" else "user"


def _turn(role: str, run: list[Entry]) -> Json:
    parts = [
        part
        for previous, entry in pairwise([START, *run])
        for part in _parts(entry, previous)
    ]
    if role == "user" and not parts:
        parts = [{"text": NOTHING_SAID}]
    return {"role": role, "parts": parts}


def _parts(entry: Entry, previous: Entry) -> Iterator[Json]:
    if entry.role == "tool":
        response = {"name": wire_name(entry.tool_name), "response": _output(entry)}
        yield {"functionResponse": response}
        return
    if entry.role == "thinking":
        return
    if image := image_of(entry):
        media_type, content = image
        yield {"inlineData": {"mimeType": media_type, "data": content}}
    if (text := user_text(entry)).strip():
        yield {"text": text}
    if entry.is_call:
        call = {"name": wire_name(entry.tool_name), "args": json_object(entry)}
        yield {"functionCall": call, **_native_signature(previous)}


def _output(entry: Entry) -> Json:
    return {"error" if entry.is_error else "output": entry.content}


def _native_signature(entry: Entry) -> Json:
    match _extra(entry):
        case {"extra_content": {"google": {"thought_signature": signature}}}:
            return {"thoughtSignature": signature}
        case _:
            return {}
