"""Google's Gemini: chats by its OpenAI-compatible API, token counts by its own API.

A call's thought signature is an entry of the role `thinking` before the call, and is
sent back with it: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import httpx2

from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import Tool
from nbchat.providers.base import Request, image_of, speaker, user_text
from nbchat.providers.openai_chat import FORMAT as OPENAI_FORMAT
from nbchat.providers.openai_chat import Call, ChunkReader, OpenAIProvider
from nbchat.providers.provider_table import GEMINI
from nbchat.providers.sdk_provider import QUESTION_TIMEOUT_SECONDS
from nbchat.providers.wire_format import (
    EMPTY_TEXT,
    Json,
    StreamedReply,
    WireFormat,
    json_object,
    legal,
    new_call_id,
    utf8_safe,
    whole,
    wire_name,
)

COMPATIBLE_PATH = "/openai"
"""End of the compatible API's address; without it the address is that of Gemini's own.
https://ai.google.dev/gemini-api/docs/openai"""

MODEL_PREFIX = "models/"

SCHEMA_WORDS = {
    *("type", "format", "description", "enum", "items", "properties", "required"),
    *("anyOf", "pattern", "minimum", "maximum", "minItems", "maxItems"),
    *("minLength", "maxLength", "minProperties", "maxProperties"),
}
"""Keywords of JSON Schema in https://ai.google.dev/api/caching#Schema; with any other a
request is refused. Arguments are validated here anyway."""

START = Entry("user", "")
"""Assumed before the first entry of a run."""


class GeminiProvider(OpenAIProvider):
    """A model of Google."""

    usual_service = GEMINI
    thinking_of = "gemini"

    @property
    def format(self) -> WireFormat:
        """The format of messages."""
        return FORMAT

    @property
    def _counts_tokens(self) -> bool:
        return bool(self._native_address)

    def _counted(self, request: Request) -> int:
        model = self._model_for(request).removeprefix(MODEL_PREFIX)
        body = {"generateContentRequest": native_request(request, model)}
        counted = self._native(
            "POST", f"{model}:countTokens", self._timeout_of(request), body
        )
        return int(counted["totalTokens"])

    def _new_reader(self, request: Request) -> "SignedReader":  # noqa: ARG002
        return SignedReader()

    def _extra_body(self, request: Request) -> Json:
        fields = super()._extra_body(request)
        if request.tools:
            fields["tools"] = [
                {"type": "function", "function": each}
                for each in functions(request.tools)
            ]
        return fields

    def _served_models(self) -> list[Json]:
        return list(map(_plainly_named, super()._served_models()))

    def _served_window(self) -> int | None:
        if not (self._is_home and self._native_address):
            return super()._served_window()
        name = self._model.removeprefix(MODEL_PREFIX)
        window = self._native("GET", name, QUESTION_TIMEOUT_SECONDS)["inputTokenLimit"]
        return int(window)

    def _should_ask_window(self) -> bool:
        return self._known.window is None or not self._is_home

    @property
    def _native_address(self) -> str:
        """The address of Gemini's own API; empty for other servers."""
        address = self.endpoint.url.rstrip("/")
        is_gemini = address.endswith(COMPATIBLE_PATH)
        return address.removesuffix(COMPATIBLE_PATH) if is_gemini else ""

    def _native_client(self, timeout: float | httpx2.Timeout) -> httpx2.Client:
        client = self._http_client(httpx2.Client)
        client.timeout = httpx2.Timeout(timeout)
        return client

    def _native(
        self,
        method: str,
        path: str,
        timeout: float | httpx2.Timeout,
        body: Json | None = None,
    ) -> Any:
        """Ask Gemini's own API about a model.

        The key is in no local variable, for tracebacks may show those.
        """
        with self._native_client(timeout) as client:
            response = client.request(
                method,
                f"{self._native_address}/{MODEL_PREFIX}{path}",
                headers={"x-goog-api-key": self.endpoint.key()},
                json=body,
            )
        response.raise_for_status()
        return response.json()


def _plainly_named(model: Json) -> Json:
    """A model of the list without the prefix of its name."""
    if "id" not in model:
        return model
    return {**model, "id": str(model["id"]).removeprefix(MODEL_PREFIX)}


def functions(tools: Iterable[Tool]) -> list[Json]:
    """Tools in Gemini's format; one without arguments has no `parameters`."""
    return list(map(_function, tools))


def _function(tool: Tool) -> Json:
    function: Json = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        definitions = tool.parameters.get("$defs", {})
        function["parameters"] = _schema(tool.parameters, definitions)
    return function


def _schema(schema: Json, definitions: Json) -> Json:
    """A schema with Gemini's keywords and without references.

    A recursive definition becomes any object.
    """
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name:
        found = {**definitions.get(name, {"type": "object"}), **schema}
        others = {key: each for key, each in definitions.items() if key != name}
        return _schema({**found, "$ref": ""}, others)
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    if "enum" in schema:
        schema = _with_texts(schema)
    if schema.get("type") == "array" and not schema.get("items"):
        schema = {**schema, "items": {"type": "string"}}  # it must have a type
    known = {word: each for word, each in schema.items() if word in SCHEMA_WORDS}
    return {word: _inner(word, each, definitions) for word, each in known.items()}


def _with_texts(schema: Json) -> Json:
    """A schema of values that are texts: of others Gemini knows no list.

    A call's text is read as the value that it stands for.
    """
    values = [each for each in schema["enum"] if each is not None]
    if all(isinstance(each, str) for each in values):
        return schema
    texts = [each if isinstance(each, str) else json.dumps(each) for each in values]
    return {**schema, "type": "string", "enum": texts}


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
    """OpenAI's messages with the tool's name in results, and signatures in calls."""
    messages = OPENAI_FORMAT.messages(run)
    if run[0].role == "tool":
        names = [wire_name(entry.tool_name) for entry in run]
        return [
            {**message, "name": name} if name else message
            for message, name in zip(messages, names, strict=True)
        ]
    return [_signed(message, run) for message in messages]


FORMAT = WireFormat(speaker, _messages)
"""One message for each run, but one for each tool result."""


def _signed(message: Json, run: list[Entry]) -> Json:
    if "tool_calls" not in message:
        return message
    extras = [_extra(previous) for previous, _ in _calls(run)]
    calls = zip(message["tool_calls"], extras, strict=True)
    return {**message, "tool_calls": [{**call, **extra} for call, extra in calls]}


def _calls(run: list[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Each call with the entry before it, which may be its signature."""
    return (pair for pair in pairwise([START, *run]) if pair[1].is_call)


def _extra(entry: Entry) -> Json:
    """The signature of the call that follows, verbatim; or nothing."""
    is_ours = entry.role == "thinking" and entry.tool_name == "gemini"
    content = json_object(entry).get("extra_content") if is_ours else None
    extra = {"extra_content": content}
    return extra if content and utf8_safe([extra]) == [extra] else {}


class SignedReader(ChunkReader):
    """Reads a stream of chunks with the signatures of calls."""

    def answer(self) -> StreamedReply:
        """All that has arrived; output tokens include those of thinking.

        They are not in `completion_tokens`, but are billed as output.
        """
        answer = super().answer()
        if answer.usage is None:
            return answer
        total = whole(self._usage.get("total_tokens"))
        thought = total - answer.usage.total_tokens
        output_tokens = answer.usage.output_tokens + max(thought, 0)
        return replace(answer, usage=replace(answer.usage, output_tokens=output_tokens))

    def _read_call(self, piece: Json) -> None:
        """A name begins a call: Gemini sends no index, older models no id."""
        if (piece.get("function") or {}).get("name") and not piece.get("id"):
            piece = {**piece, "id": new_call_id()}
        super()._read_call(piece)

    def _call_entries(self, call: Call) -> Iterator[Entry]:
        if call.extra_content:
            extra = json.dumps({"extra_content": call.extra_content})
            yield Entry("thinking", "", "", "gemini", extra)
        yield from super()._call_entries(call)


def native_request(request: Request, model: str) -> Json:
    """A request in the format of Gemini's own API, which counts tokens."""
    fields: Json = {
        "model": f"models/{model}",
        "contents": _contents(legal(request.history)),
    }
    if request.system.strip():
        [instruction] = utf8_safe([{"parts": [{"text": request.system}]}])
        fields["systemInstruction"] = instruction
    if request.tools:
        fields["tools"] = [{"functionDeclarations": functions(request.tools)}]
    return fields


def _contents(history: Iterable[Entry]) -> list[Json]:
    """The conversation as turns of `user` and `model`; results are the user's."""
    return utf8_safe(_turn(role, list(run)) for role, run in groupby(history, _role))


def _role(entry: Entry) -> str:
    return "model" if speaker(entry) == "assistant" else "user"


def _turn(role: str, run: list[Entry]) -> Json:
    parts = [
        part
        for previous, entry in pairwise([START, *run])
        for part in _parts(entry, previous)
    ]
    if role == "user" and not parts:
        parts = [{"text": EMPTY_TEXT}]
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
