"""Anthropic's messages API, and every server that speaks it."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, ClassVar, Literal

from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Delta, TextDelta, ThinkingDelta
from nbchat.providers.base import ReplyStop, Request, image_of, speaker, user_text
from nbchat.providers.endpoint import set_variable
from nbchat.providers.provider_table import ANTHROPIC, Service
from nbchat.providers.sdk_provider import (
    QUESTION_TIMEOUT_SECONDS,
    SdkProvider,
)
from nbchat.providers.wire_format import (
    EMPTY_TEXT,
    Json,
    StreamedReply,
    WireFormat,
    WireMessages,
    WireStream,
    an_object,
    json_object,
    marked_for_anthropic,
    new_call_id,
    usage_of,
    utf8_safe,
    utf8_safe_text,
    wire_name,
)

OPENING: Json = {
    "role": "user",
    "content": [{"type": "text", "text": "(The assistant speaks first.)"}],
}
"""Sent before a conversation that the assistant began: the API wants a user first."""

SHORT_ANSWER: tuple[Json, ...] = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Yes."},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 1},
    },
    {"type": "message_stop"},
)
"""The shortest stream of a server, for the warm-up."""

STOPS: dict[str, ReplyStop] = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}
OFF: Json = {"type": "disabled"}

BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
"""Tokens of thinking for each effort, where a model needs a figure."""

LEAST_BUDGET = 1_024
"""Tokens: the API refuses less."""

NEWEST_WITH_BUDGET = (4, 5)

VERTEX_PLACES = {
    "project_id": ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"),
    "region": ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"),
}
"""Environment variables with a project and a region of Google Cloud."""

THINKING = ("thinking", "redacted_thinking")
INPUT_FIELDS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


class AnthropicProvider(SdkProvider):
    """A model of Anthropic."""

    usual_service: ClassVar[Service] = ANTHROPIC
    sdk: ClassVar[tuple[str, str]] = ("anthropic", "AnthropicError")
    warm_up_events = SHORT_ANSWER
    speaks_messages = True
    thinking_of = "anthropic"
    sampling: ClassVar[Mapping[str, str]] = {
        "temperature": "temperature",
        "top_p": "top_p",
        "stop": "stop_sequences",
    }

    def _new_client(self, **given: Any) -> Any:
        key, sdk = self._credentials(), self._sdk
        given["base_url"] = self.endpoint.url
        match self.kind:
            case "azure":
                return sdk.AnthropicFoundry(api_key=key, **given)
            case "bedrock":
                return sdk.AnthropicBedrockMantle(api_key=key or None, **given)
            case "vertex":
                places = {
                    option: value
                    for option, variables in VERTEX_PLACES.items()
                    if (value := os.environ.get(set_variable(variables)))
                }
                given |= places
                return sdk.AnthropicVertex(access_token=key or None, **given)
        return sdk.Anthropic(api_key=key, **given)

    @property
    def format(self) -> WireFormat:
        """The format of messages."""
        return FORMAT

    @property
    def _counts_tokens(self) -> bool:
        return True

    def _counted(self, request: Request) -> int:
        count = self._client.messages.count_tokens(
            model=self._model_for(request),
            messages=[],
            extra_body=body(request, self._messages.update(request.history)),
            timeout=self._timeout_of(request),
        )
        return int(count.input_tokens)

    def _new_reader(self, request: Request) -> "EventReader":  # noqa: ARG002
        return EventReader()

    def _open(self, request: Request) -> WireStream:
        stream: WireStream = self._client.messages.create(
            # In extra_body, for the SDK warns of old models in its own way.
            model=self._model_for(request) if self.kind == "vertex" else "",
            max_tokens=self._output_limit(request),
            messages=[],
            stream=True,
            timeout=self._timeout_of(request),
            extra_body=self._extra_body(request),
        )
        return stream

    def _extra_body(self, request: Request) -> Json:
        model = self._model_for(request)
        fields = body(request, self._messages.update(request.history))
        effort = self._options_of(request).get("effort") or ""
        limit = self._output_limit(request)
        thinking = thinking_fields(request, model, effort=effort, limit=limit)
        fields = {**fields, **self._sampling_of(request), **thinking}
        if schema := body_format(request):
            fields["output_config"] = {**fields.get("output_config", {}), **schema}
        if thinking.get("thinking", OFF) != OFF:
            fields.pop("temperature", None)  # the API takes no other than 1
        # Without marks nothing is ever read from the cache.
        lifetime = self._options_of(request).get("cache_lifetime") or ""
        fields = marked_for_anthropic(fields, request, lifetime)
        named = {} if self.kind == "vertex" else {"model": model}
        return {**named, **self._adaptations.applied(model, fields)}

    def _output_limit(self, request: Request) -> int:
        """The longest answer that fits the window beside the input."""
        return request.max_output_tokens or self._listed(request).output_reserve

    def _served_window(self) -> int | None:
        if not (self._is_home and self.kind == "anthropic"):
            return super()._served_window()
        model = self._client.models.retrieve(
            self._model, timeout=QUESTION_TIMEOUT_SECONDS
        )
        window: int | None = model.max_input_tokens
        return window


def body(request: Request, messages: Sequence[Json] | None = None) -> Json:
    """The fields of a request that come from the conversation.

    `messages` are those of the history, if they are written already.
    """
    fields: Json = {"messages": wire_messages(request, messages)}
    if request.system.strip():
        fields["system"] = utf8_safe_text(request.system)
    if request.tools:
        fields["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters,
            }
            for tool in request.tools
        ]
        fields["tool_choice"] = _tool_choice(_cached_choice(request))
    if schema := body_format(request):
        fields["output_config"] = schema
    return fields


def body_format(request: Request) -> Json:
    """The format of an answer that must follow a schema; else empty.

    The SDK turns what the API does not enforce, such as a maximum, into descriptions.
    """
    if request.output_schema is None:
        return {}
    import anthropic  # noqa: PLC0415  # a second, see SdkProvider

    schema = dict(request.output_schema)
    with suppress(ValueError):  # a schema that the API will refuse
        schema = anthropic.transform_schema(schema)
    return {"format": {"type": "json_schema", "schema": schema}}


def thinking_fields(request: Request, model: str, *, effort: str, limit: int) -> Json:
    """The fields that ask for an effort; `limit` is that of the answer.

    Newer models choose how long they think, older ones get a budget of tokens, which
    must be below the limit. A forced call excludes thinking.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    """
    is_forced = bool(request.tools) and _tool_choice(request.tool_choice)["type"] in (
        *("any", "tool"),
    )
    if not effort:
        return {}
    if effort == "off" or is_forced:
        return {"thinking": OFF}
    if is_adaptive(model):
        shown = {"type": "adaptive", "display": "summarized"}
        return {"thinking": shown, "output_config": {"effort": effort}}
    budget = min(BUDGETS[effort], limit // 2)
    if budget < LEAST_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def is_adaptive(model: str) -> bool:
    """True if a model chooses itself how long it thinks: those since Claude 4.6."""
    found = re.search(r"claude-[a-z]+-(\d+)(?:-(\d)(?!\d))?", model)
    version = (int(found[1]), int(found[2] or 0)) if found else NEWEST_WITH_BUDGET
    return version > NEWEST_WITH_BUDGET


def _cached_choice(request: Request) -> str:
    """The tool choice; a summary's request keeps that of the chat it continues.

    Another one would drop the cached messages (Anthropic's docs, "Prompt caching", what
    invalidates the cache), and a call in an answer to it is refused here.
    """
    is_summary = request.answer_tag and request.tool_choice == "none"
    return "auto" if is_summary else request.tool_choice


def wire_messages(
    request: Request, messages: Sequence[Json] | None = None
) -> list[Json]:
    """Messages whose roles alternate, a user's first."""
    if messages is None:
        messages = WireMessages(FORMAT).update(request.history)
    is_opened = not messages or messages[0]["role"] == "user"
    return list(messages) if is_opened else [OPENING, *messages]


def _role(entry: Entry) -> Literal["user", "assistant"]:
    return "assistant" if speaker(entry) == "assistant" else "user"


def _messages(run: list[Entry]) -> list[Json]:
    """One message: tool results first, thinking never last."""
    blocks = list(chain.from_iterable(map(_entry_blocks, run)))
    role = _role(run[0])
    if role == "user":
        blocks.sort(key=lambda block: bool(block["type"] != "tool_result"))
        blocks = blocks or [{"type": "text", "text": EMPTY_TEXT}]
    while blocks and blocks[-1]["type"] in THINKING:
        blocks.pop()
    return utf8_safe([{"role": role, "content": blocks}] if blocks else [])


FORMAT = WireFormat(_role, _messages)
"""One message for each run; results are part of the user's."""


def _tool_choice(choice: str) -> Json:
    match choice:
        case "auto" | "none":
            return {"type": choice}
        case "required":
            return {"type": "any"}
        case _:
            return {"type": "tool", "name": choice}


def _entry_blocks(entry: Entry) -> Iterator[Json]:
    """The blocks of an entry; none for a blank text, which the API refuses."""
    if entry.role == "tool":
        yield _tool_result(entry)
        return
    if entry.role == "thinking":
        yield from _thinking_blocks(entry)
        return
    if image := image_of(entry):
        yield _image(*image)
    if (text := user_text(entry)).strip():
        yield {"type": "text", "text": text}
    if entry.is_call:
        yield _tool_use(entry)


def _thinking_blocks(entry: Entry) -> list[Json]:
    """The block verbatim, for the API checks its signature; or none.

    A file that was imported can hold anything here, so that other types are omitted.
    """
    block = json_object(entry) if entry.tool_name == "anthropic" else {}
    is_thinking = block.get("type") in THINKING
    return [block] if is_thinking and utf8_safe([block]) == [block] else []


def _tool_use(call: Entry) -> Json:
    return {
        "type": "tool_use",
        "id": wire_name(call.tool_id),
        "name": wire_name(call.tool_name),
        "input": json_object(call),
    }


def _tool_result(entry: Entry) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": wire_name(entry.tool_id)}
    if entry.content.strip():
        block["content"] = entry.content
    if entry.is_error:
        block["is_error"] = True
    return block


def _image(media_type: str, data: str) -> Json:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


class EventReader:
    """Reads a stream of events: yields deltas, then has the reply."""

    def __init__(self) -> None:
        self._blocks: dict[int, Json] = {}
        self._inputs: dict[int, str] = {}
        self._usage: Json = {}
        self._stop_reason = ""
        self._is_complete = False

    def read(self, event: Json) -> Iterator[Delta]:
        """Read an event and yield its deltas."""
        match event.get("type"):
            case "message_start":
                self._read_usage(an_object(event.get("message")).get("usage"))
            case "content_block_start":
                yield from self._start_block(event["index"], event["content_block"])
            case "content_block_delta":
                yield from self._read_delta(event["index"], event["delta"])
            case "message_delta":
                self._stop_reason = event["delta"].get("stop_reason") or ""
                self._read_usage(event.get("usage"))
            case "message_stop":
                self._is_complete = True

    def answer(self) -> StreamedReply:
        """The data that has arrived until now."""
        has_input = any(self._usage.get(name) is not None for name in INPUT_FIELDS)
        return StreamedReply(
            tuple(chain.from_iterable(map(self._block_entries, self._blocks))),
            self._stop(),
            usage_of(self._usage) if has_input else None,
        )

    def _start_block(self, index: int, block: Json) -> Iterator[Delta]:
        self._blocks[index] = dict(block)
        self._inputs[index] = ""
        if block.get("text"):
            yield TextDelta(block["text"])
        if block.get("thinking"):
            yield ThinkingDelta(block["thinking"])

    def _read_delta(self, index: int, delta: Json) -> Iterator[Delta]:
        match delta.get("type"):
            case "text_delta":
                yield TextDelta(self._extend(index, "text", delta))
            case "thinking_delta":
                yield ThinkingDelta(self._extend(index, "thinking", delta))
            case "signature_delta":
                self._extend(index, "signature", delta)
            case "input_json_delta":
                self._inputs[index] += delta["partial_json"]

    def _extend(self, index: int, name: str, delta: Json) -> str:
        piece: str = delta[name]
        block = self._blocks[index]
        block[name] = (block.get(name) or "") + piece
        return piece

    def _read_usage(self, usage: Json | None) -> None:
        """Later figures replace earlier ones: they are running totals."""
        known = {name: n for name, n in an_object(usage).items() if n is not None}
        self._usage = {**self._usage, **known}

    def _block_entries(self, index: int) -> Iterator[Entry]:
        block = self._blocks[index]
        match block.get("type"):
            case "text" if block["text"].strip():
                yield Entry("assistant", block["text"])
            case "tool_use":
                call_id = block.get("id") or new_call_id()
                tool_input = self._inputs[index] or _json(block.get("input") or {})
                yield Entry("assistant", "", call_id, block["name"], tool_input)
            case "thinking" | "redacted_thinking":
                yield _thinking_entry(block)

    def _stop(self) -> ReplyStop | None:
        if not (self._is_complete and self._stop_reason):
            return None
        return STOPS.get(self._stop_reason, "end_turn")


def _thinking_entry(block: Json) -> Entry:
    """A block without its signature has broken off and cannot be sent again."""
    is_whole = block.get("signature") or block.get("data")
    args = _json(block) if is_whole else ""
    return Entry("thinking", block.get("thinking") or "", "", "anthropic", args)


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
