"""OpenAI's Responses API, stateless: what `openai:...` means at OpenAI and Azure.

Nothing is stored on the server. Reasoning comes encrypted, is kept as an entry of the
role `thinking` at its place, and is sent back with the conversation:
https://developers.openai.com/api/docs/guides/reasoning
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import ClassVar

import httpx2

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import Delta, TextDelta, ThinkingDelta
from nbchat.providers.base import ReplyStop, Request, image_of, speaker, user_text
from nbchat.providers.openai_chat import EFFORTS, OpenAIProvider
from nbchat.providers.provider_table import OPENAI
from nbchat.providers.wire_format import (
    EMPTY_TEXT,
    Json,
    StreamedReply,
    WireFormat,
    WireMessages,
    WireStream,
    an_object,
    cache_key,
    json_object,
    marked_for_openai,
    new_call_id,
    usage_of,
    utf8_safe,
    utf8_safe_text,
    whole,
    wire_name,
)

SHORT_ANSWER: tuple[Json, ...] = (
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "role": "assistant", "content": []},
    },
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Yes."},
    {
        "type": "response.completed",
        "response": {
            "status": "completed",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
)
"""The shortest stream of a server, for the warm-up."""

REASONING = ("type", "id", "summary", "encrypted_content")
"""Fields of reasoning that are kept and sent again."""

ENCRYPTED = "reasoning.encrypted_content"

LEAST_OUTPUT = 16
"""Output tokens: a smaller limit is refused."""

NOT_REASONING = re.compile(r"gpt-[34]|chatgpt-|.*chat-latest|text-|ft:gpt-[34]")
"""Names of models that do not reason and refuse parameters of reasoning."""

PARAGRAPH: Json = {"delta": "\n\n"}
"""Between two parts of a summary of reasoning."""

INCOMPLETE_STOPS: dict[str, ReplyStop] = {"content_filter": "refusal"}
"""Stop reasons of an incomplete answer; all others mean a limit."""


class ResponsesProvider(OpenAIProvider):
    """A model of OpenAI, at its own servers or at Azure."""

    warm_up_events = SHORT_ANSWER
    thinking_of = "openai"
    sampling: ClassVar[Mapping[str, str]] = {
        name: name for name in ("temperature", "top_p")
    }

    @property
    def format(self) -> WireFormat:
        """The format of input items."""
        return FORMAT

    @property
    def _counts_tokens(self) -> bool:
        return self._is_home and self.kind == "openai"

    def _counted(self, request: Request) -> int:
        count = self._client.responses.input_tokens.count(
            model=self._model_for(request),
            extra_body=self._body(request),
            timeout=self._timeout_of(request),
        )
        return int(count.input_tokens)

    def _new_reader(self, request: Request) -> "EventReader":  # noqa: ARG002
        return EventReader()

    def _open(self, request: Request) -> WireStream:
        # As extra_body, for the SDK would walk each item through typed unions.
        stream: WireStream = self._client.responses.create(
            model=self._model_for(request),
            stream=True,
            store=False,
            timeout=self._timeout_of(request),
            extra_body=self._extra_body(request),
        )
        return stream

    def _extra_body(self, request: Request) -> Json:
        model = self._model_for(request)
        fields = {**self._body(request), **self._sampling_of(request)}
        fields["prompt_cache_key"] = cache_key(request)
        options = self._options_of(request)
        if self.kind == "openai":
            lifetime = options.get("cache_lifetime")
            fields = marked_for_openai(fields, request, model, lifetime)
        effort = options.get("effort") or ""
        if reasoning := _reasoning(effort, model):
            fields |= {"reasoning": reasoning, "include": [ENCRYPTED]}
        if request.max_output_tokens is not None:
            limit = max(request.max_output_tokens, LEAST_OUTPUT)
            fields["max_output_tokens"] = limit
        return self._adaptations.applied(model, fields)

    def _body(self, request: Request) -> Json:
        return body(request, self._messages.update(request.history))


def _reasoning(effort: str, model: str) -> Json:
    """The options of reasoning, with a summary to show; empty if it cannot reason."""
    if NOT_REASONING.match(model):
        return {}
    chosen = {"effort": EFFORTS[effort]} if effort else {}
    return {**chosen, "summary": "auto"}


def body(request: Request, items: Sequence[Json] | None = None) -> Json:
    """The fields of a request that come from the conversation.

    `items` are those of the history, if they are written already.
    """
    if items is None:
        items = WireMessages(FORMAT).update(request.history)
    fields: Json = {"input": list(items)}
    if request.system:
        fields["instructions"] = utf8_safe_text(request.system)
    if request.tools:
        fields["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
        fields["tool_choice"] = _tool_choice(request.tool_choice)
    if request.output_schema is not None:
        schema = dict(request.output_schema)
        named = {"type": "json_schema", "name": "answer", "strict": True}
        fields["text"] = {"format": {**named, "schema": schema}}
    return fields


def _tool_choice(choice: str) -> str | Json:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "name": choice}


def _items(run: list[Entry]) -> list[Json]:
    match speaker(run[0]):
        case "tool":
            return utf8_safe(map(_result, run))
        case "user":
            content = list(chain.from_iterable(map(_user_parts, run)))
            content = content or [{"type": "input_text", "text": EMPTY_TEXT}]
            return utf8_safe([{"role": "user", "content": content}])
        case _:
            return utf8_safe(_assistant(run))


FORMAT = WireFormat(speaker, _items)
"""One item for each run of the user, one for each part of the assistant's."""


def _result(entry: Entry) -> Json:
    call_id = wire_name(entry.tool_id)
    return {
        "type": "function_call_output",
        "call_id": call_id,
        "output": entry.content,
    }


def _user_parts(entry: Entry) -> Iterator[Json]:
    if (text := user_text(entry)).strip():
        yield {"type": "input_text", "text": text}
    if image := image_of(entry):
        media_type, data = image
        uri = f"data:{media_type};base64,{data}"
        yield {"type": "input_image", "image_url": uri, "detail": "auto"}


def _assistant(run: list[Entry]) -> list[Json]:
    """Reasoning, texts and calls in their order; reasoning never last.

    The API refuses reasoning without the item that followed it.
    """
    items: list[Json] = []
    phase: Json = {}
    for entry in run:
        block = _block(entry)
        if block.get("type") == "reasoning":
            items.append(block)
        elif block.get("type") == "message":
            phase = {"phase": block["phase"]} if block.get("phase") else {}
        elif entry.is_call:
            items.append(_call(entry))
        elif entry.is_answer and entry.content.strip():
            items.append({**_said(entry.content), **phase})
            phase = {}
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _said(text: str) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def _block(entry: Entry) -> Json:
    """Data that OpenAI sent and wants back verbatim; empty for all other entries.

    A file that was imported can hold anything here, so that only whole items count.
    """
    is_ours = entry.role == "thinking" and entry.tool_name == "openai"
    block = json_object(entry) if is_ours else {}
    if block.get("type") == "reasoning":
        block = {name: block[name] for name in REASONING if name in block}
        types = [type(block.get(name)) for name in REASONING]
        block = block if types == [str, str, list, str] else {}
    return block if block and utf8_safe([block]) == [block] else {}


def _call(call: Entry) -> Json:
    arguments = call.tool_args if json_object(call) else "{}"
    return {
        "type": "function_call",
        "call_id": wire_name(call.tool_id),
        "name": wire_name(call.tool_name),
        "arguments": arguments,
    }


class EventReader:
    """Reads a stream of events: yields deltas, then has the reply."""

    def __init__(self) -> None:
        self._items: dict[int, Json] = {}
        self._texts: dict[int, str] = {}
        self._is_refusal = False
        self._response: Json = {}
        self._status = ""

    def read(self, event: Json) -> Iterator[Delta]:
        """Read an event and yield its deltas; raises the SDK's error for a failure."""
        kind, index = str(event.get("type")), event.get("output_index") or 0
        if kind.endswith(".delta"):
            yield from self._read_delta(kind, index, event)
            return
        match kind:
            case "response.output_item.added" | "response.output_item.done":
                self._items[index] = event["item"]
            case "response.reasoning_summary_part.added":
                if event.get("summary_index"):
                    yield ThinkingDelta(self._extend(index, PARAGRAPH))
            case "response.completed" | "response.incomplete" | "response.failed":
                self._finish(kind, event.get("response") or {})
            case "error":
                raise _stream_error(event)

    def _read_delta(self, kind: str, index: int, event: Json) -> Iterator[Delta]:
        match kind:
            case "response.output_text.delta":
                yield TextDelta(self._extend(index, event))
            case "response.refusal.delta":
                self._is_refusal = True
                yield TextDelta(self._extend(index, event))
            case "response.function_call_arguments.delta":
                self._extend(index, event)
            case (
                "response.reasoning_summary_text.delta"
                | "response.reasoning_text.delta"
            ):
                yield ThinkingDelta(self._extend(index, event))

    def answer(self) -> StreamedReply:
        """The data that has arrived until now."""
        entries = tuple(chain.from_iterable(map(self._entries, sorted(self._items))))
        usage = an_object(self._response.get("usage"))
        return StreamedReply(
            entries, self._stop(), self._usage(usage, entries) if usage else None
        )

    def _extend(self, index: int, event: Json) -> str:
        piece: str = event["delta"]
        self._texts[index] = self._texts.get(index, "") + piece
        return piece

    def _finish(self, kind: str, response: Json) -> None:
        if kind == "response.failed":
            raise _stream_error(response.get("error") or {})
        self._response = response
        self._status = kind.removeprefix("response.")
        for index, item in enumerate(response.get("output") or []):
            self._items.setdefault(index, item)

    def _stop(self) -> ReplyStop | None:
        if not self._status:
            return None
        if self._is_refusal:
            return "refusal"
        if self._status == "completed":
            return "end_turn"
        reason = (self._response.get("incomplete_details") or {}).get("reason")
        return INCOMPLETE_STOPS.get(str(reason), "max_tokens")

    def _entries(self, index: int) -> Iterator[Entry]:
        item = self._items[index]
        match item.get("type"):
            case "reasoning":
                yield _reasoning_entry(item, self._texts.get(index, ""))
            case "function_call":
                call_id = item.get("call_id") or new_call_id()
                arguments = item.get("arguments") or self._texts.get(index) or "{}"
                yield Entry("assistant", "", call_id, item["name"], arguments)
            case "message":
                text = self._texts.get(index) or _text(item)
                if text.strip() and item.get("phase"):
                    phase = {"type": "message", "phase": item["phase"]}
                    yield Entry("thinking", "", "", "openai", _json(phase))
                if text.strip():
                    yield Entry("assistant", text)

    def _usage(self, fields: Json, entries: Sequence[Entry]) -> Usage:
        """Usage of a reply, whose output includes reasoning."""
        usage, more = usage_of(fields), an_object(fields.get("output_tokens_details"))
        reasoning = min(whole(more.get("reasoning_tokens")), usage.output_tokens)
        is_kept = self._keeps_reasoning(entries)
        return replace(usage, dropped_tokens=0 if is_kept else reasoning)

    def _keeps_reasoning(self, entries: Sequence[Entry]) -> bool:
        """True if the next request contains the reasoning of this reply.

        Older models read it only until they have answered.
        """
        is_sent = any(each.role == "thinking" and each.tool_args for each in entries)
        mode = (self._response.get("reasoning") or {}).get("context")
        is_open = any(each.is_call for each in entries)
        return is_sent and (is_open or mode != "current_turn")


def _reasoning_entry(item: Json, shown: str) -> Entry:
    """Reasoning without encrypted content cannot be sent again."""
    text = shown or "\n\n".join(
        str(part.get("text") or "")
        for part in [*(item.get("summary") or []), *(item.get("content") or [])]
    )
    kept = {name: item[name] for name in REASONING if item.get(name) is not None}
    is_whole = bool(kept.get("encrypted_content")) and "id" in kept
    block = _json({"summary": [], **kept}) if is_whole else ""
    return Entry("thinking", text, "", "openai", block)


def _text(item: Json) -> str:
    """The text of a message that came without deltas."""
    parts = item.get("content") or []
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts)


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _stream_error(error: Json) -> Exception:
    """The SDK's error for a failure after HTTP 200."""
    import openai  # noqa: PLC0415  # a second, see SdkProvider

    message = str(error.get("message") or "The response failed.")
    request = httpx2.Request("POST", OPENAI.address)
    return openai.APIError(message, request, body=dict(error))
