"""OpenAI's chat completions, and every server that speaks them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import chain
from json import dumps, loads
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx2

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import Delta, TextDelta, ThinkingDelta
from nbchat.providers.base import ReplyStop, Request, image_of, speaker, user_text
from nbchat.providers.closable_http import DrainedStream
from nbchat.providers.model_info_from_server import loaded_window
from nbchat.providers.provider_table import OPENAI, Service
from nbchat.providers.sdk_provider import (
    QUESTION_TIMEOUT_SECONDS,
    SdkProvider,
)
from nbchat.providers.wire_format import (
    EMPTY_TEXT,
    Json,
    Reader,
    StreamedReply,
    WireFormat,
    WireMessages,
    WireStream,
    a_list,
    an_object,
    json_object,
    new_call_id,
    usage_of,
    utf8_safe,
    utf8_safe_text,
    whole,
    wire_name,
)

SHORT_ANSWER: tuple[Json, ...] = (
    {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
)
"""The shortest stream of a server, for the warm-up."""

EFFORTS = {"off": "none", "low": "low", "medium": "medium", "high": "high"}
"""The setting in the words of the API."""

STOPS: dict[str, ReplyStop] = {"length": "max_tokens", "content_filter": "refusal"}


class OpenAIProvider(SdkProvider):
    """A model of Ollama, vLLM, llama.cpp, OpenRouter, LM Studio and others.

    Models of OpenAI itself are asked by the Responses API (see `responses.py`).
    """

    usual_service: ClassVar[Service] = OPENAI
    sdk: ClassVar[tuple[str, str]] = ("openai", "OpenAIError")
    warm_up_events = SHORT_ANSWER
    sampling: ClassVar[Mapping[str, str]] = {
        name: name for name in ("temperature", "top_p", "seed", "stop")
    }

    def _new_client(self, **given: Any) -> Any:
        key, url, sdk = self._credentials(), self.endpoint.url, self._sdk
        match self.kind:
            case "bedrock":
                token = self._credentials if key else None
                cloud = import_module("openai.providers.bedrock")
                made = cloud.bedrock(base_url=url, token_provider=token)
                return sdk.OpenAI(provider=made, **given)
            case "vertex":
                token = self._credentials if key else None
                cloud = import_module("openai.providers.vertex")
                made = cloud.vertex(base_url=url, token_provider=token)
                return sdk.OpenAI(provider=made, **given)
        return sdk.OpenAI(api_key=key, base_url=url, **given)

    @property
    def format(self) -> WireFormat:
        """The format of messages."""
        return FORMAT

    def _new_reader(self, request: Request) -> Reader:
        model = self._model_for(request)
        is_returned = self._adaptations.returns_reasoning(model)
        return ChunkReader(returns_reasoning=is_returned)

    @cached_property
    def _messages_with_reasoning(self) -> WireMessages:
        return WireMessages(WITH_REASONING)

    def _open(self, request: Request) -> WireStream:
        # Everything goes as extra_body: the SDK would walk each message through typed
        # unions, 58 times slower for the same bytes (263 ms per 1,000 messages).
        stream: WireStream = self._client.chat.completions.create(
            model=self._model_for(request),
            messages=[],
            stream=True,
            stream_options={"include_usage": True},
            timeout=self._timeout_of(request),
            extra_body=self._extra_body(request),
        )
        body = stream.response.stream
        if isinstance(body, httpx2.SyncByteStream):
            stream.response.stream = DrainedStream(body)
        return stream

    def _extra_body(self, request: Request) -> Json:
        model = self._model_for(request)
        is_returned = self._adaptations.returns_reasoning(model)
        cached = self._messages_with_reasoning if is_returned else self._messages
        fields = body(request, cached.update(request.history))
        fields |= self._sampling_of(request)
        if effort := self._options_of(request).get("effort"):
            fields["reasoning_effort"] = EFFORTS[effort]
        if request.max_output_tokens is not None:
            fields[self._limit_field] = request.max_output_tokens
        return self._adaptations.applied(model, fields)

    @property
    def _limit_field(self) -> str:
        """OpenAI's new models refuse `max_tokens`, compatible servers the new name."""
        is_new = self._is_home and not self.service.tells_limits
        return "max_completion_tokens" if is_new else "max_tokens"

    def _served_window(self) -> int | None:
        models = self._served_models()
        listed = self._learn(models)
        return listed or loaded_window(models, self._model, self._ask_server)

    def _should_ask_window(self) -> bool:
        return self.service.tells_limits or not self._is_home

    def _ask_server(self, path: str, body: Json | None) -> Any:
        """Ask the server outside of OpenAI's API, with the key only in a header."""
        parts = urlsplit(self.endpoint.url)
        key = self.endpoint.key()
        with self._http_client(httpx2.Client) as client:
            response = client.request(
                "GET" if body is None else "POST",
                f"{parts.scheme}://{parts.netloc}{path}",
                headers={"Authorization": f"Bearer {key}"} if key else {},
                json=body,
                timeout=QUESTION_TIMEOUT_SECONDS,
            )
        response.raise_for_status()
        return response.json()


def body(request: Request, messages: Sequence[Json] | None = None) -> Json:
    """The fields of a chat completion that come from the conversation.

    `messages` are those of the history, if they are written already.
    """
    if messages is None:
        messages = WireMessages(FORMAT).update(request.history)
    system = utf8_safe_text(request.system)
    opening = [{"role": "system", "content": system}] if system else []
    fields: Json = {"messages": [*opening, *messages]}
    if request.tools:
        fields["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
        fields["tool_choice"] = _tool_choice(request.tool_choice)
    if request.output_schema is not None:
        fields["response_format"] = _response_format(request.output_schema)
    return fields


def _response_format(schema: Mapping[str, Any]) -> Json:
    """The format that OpenAI, Gemini, llama.cpp and vLLM enforce by a grammar."""
    named = {"name": "answer", "strict": True, "schema": dict(schema)}
    return {"type": "json_schema", "json_schema": named}


def _tool_choice(choice: str) -> str | Json:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _messages(run: list[Entry]) -> list[Json]:
    match speaker(run[0]):
        case "tool":
            return utf8_safe(map(_result, run))
        case "user":
            return utf8_safe([{"role": "user", "content": _user_content(run)}])
        case _:
            return utf8_safe(_assistant(run))


FORMAT = WireFormat(speaker, _messages)
"""One message for each run, but one for each tool result."""


def _reasoned_messages(run: list[Entry]) -> list[Json]:
    if speaker(run[0]) != "assistant":
        return _messages(run)
    thoughts = (json_object(each) for each in run if each.role == "thinking")
    reasoning = "".join(str(each.get("reasoning_content") or "") for each in thoughts)
    spoken = [{**each, "reasoning_content": reasoning} for each in _assistant(run)]
    return utf8_safe(spoken)


WITH_REASONING = WireFormat(speaker, _reasoned_messages)
"""The same with the reasoning of every reply, for servers that demand it back."""


def _result(entry: Entry) -> Json:
    return {"role": "tool", "tool_call_id": entry.tool_id, "content": entry.content}


def _user_content(run: list[Entry]) -> str | list[Json]:
    if any(map(image_of, run)):
        return list(chain.from_iterable(map(_user_parts, run)))
    text = "\n\n".join(filter(None, map(user_text, run)))
    return text if text.strip() else EMPTY_TEXT


def _user_parts(entry: Entry) -> Iterator[Json]:
    if text := user_text(entry):
        yield {"type": "text", "text": text}
    if image := image_of(entry):
        media_type, data = image
        uri = f"data:{media_type};base64,{data}"
        yield {"type": "image_url", "image_url": {"url": uri}}


def _assistant(run: list[Entry]) -> list[Json]:
    """One message without thinking, which chat completions do not accept."""
    spoken = [entry for entry in run if entry.role == "assistant"]
    calls = [entry for entry in spoken if entry.is_call]
    texts = [entry.content for entry in spoken if entry.content]
    message: Json = {"role": "assistant", "content": "\n\n".join(texts) or None}
    if calls:
        message["tool_calls"] = list(map(_tool_call, calls))
    return [message] if calls or texts else []


def _tool_call(call: Entry) -> Json:
    """Arguments verbatim; empty if no JSON object, else llama.cpp answers 500."""
    arguments = call.tool_args if json_object(call) else "{}"
    function = {"name": wire_name(call.tool_name), "arguments": arguments}
    return {"id": call.tool_id, "type": "function", "function": function}


@dataclass(slots=True)
class Call:
    """A call while its pieces arrive; `extra_content` is Gemini's."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra_content: Json = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """True if the arguments are a JSON object."""
        try:
            return isinstance(loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


class ChunkReader:
    """Reads a stream of chunks: yields deltas, then has the reply."""

    def __init__(self, *, returns_reasoning: bool = False) -> None:
        self._returns_reasoning = returns_reasoning
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[Call] = []
        self._finish_reason = ""
        self._is_refusal = False
        self._usage: Json = {}

    def read(self, chunk: Json) -> Iterator[Delta]:
        """Read a chunk and yield its deltas."""
        self._usage = an_object(chunk.get("usage")) or self._usage
        for choice in chunk.get("choices") or []:
            self._finish_reason = str(
                choice.get("finish_reason") or self._finish_reason
            )
            yield from self._read_delta(choice.get("delta") or {})

    def answer(self) -> StreamedReply:
        """The data that has arrived until now."""
        usage = _usage(self._usage) if self._usage else None
        if usage is not None and self._returns_reasoning:
            usage = replace(usage, dropped_tokens=0)
        return StreamedReply(tuple(self._entries()), self._stop_reason(), usage)

    def _read_delta(self, delta: Json) -> Iterator[Delta]:
        # Not part of OpenAI's API: vLLM and OpenRouter send `reasoning`, llama.cpp and
        # DeepSeek `reasoning_content`.
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            self._thinking.append(thought)
            yield ThinkingDelta(thought)
        yield from self._read_content(delta.get("content"))
        if refusal := delta.get("refusal"):
            self._text.append(refusal)
            self._is_refusal = True
            yield TextDelta(refusal)
        for piece in delta.get("tool_calls") or []:
            self._read_call(piece)

    def _read_content(self, content: Any) -> Iterator[Delta]:
        """A text; or a list of parts, as Mistral sends with reasoning.

        https://docs.mistral.ai/capabilities/reasoning
        """
        if isinstance(content, str) and content:
            self._text.append(content)
            yield TextDelta(content)
        for part in a_list(content):
            if thought := _joined_text(an_object(part).get("thinking")):
                self._thinking.append(thought)
                yield ThinkingDelta(thought)
            yield from self._read_content(an_object(part).get("text"))

    def _read_call(self, piece: Json) -> None:
        function = piece.get("function") or {}
        name = function.get("name") or ""
        call = self._call(piece.get("index"), piece.get("id") or "", name)
        if name != call.name:  # some servers repeat it in each piece
            call.name += name
        call.arguments += function.get("arguments") or ""
        call.extra_content = piece.get("extra_content") or call.extra_content

    def _call(self, index: int | None, call_id: str, name: str) -> Call:
        """The call that a piece belongs to; some servers number all calls 0.

        Without an id a name begins another call once the last one is whole.
        """
        for call in reversed(self._calls):
            if call.index == index and call_id in ("", call.id):
                if name and not call_id and call.is_whole:
                    break
                return call
        self._calls.append(Call(index, call_id))
        return self._calls[-1]

    def _entries(self) -> Iterator[Entry]:
        thought, text = "".join(self._thinking), "".join(self._text)
        if thought:
            block = dumps({"reasoning_content": thought}, ensure_ascii=False)
            yield Entry("thinking", thought, "", "openai", block)
        if text.strip():
            yield Entry("assistant", text)
        for call in self._calls:
            if call.name:
                yield from self._call_entries(call)

    def _call_entries(self, call: Call) -> Iterator[Entry]:
        call_id = call.id or new_call_id()
        yield Entry("assistant", "", call_id, call.name, call.arguments or "{}")

    def _stop_reason(self) -> ReplyStop | None:
        if not self._finish_reason:
            return None
        if self._is_refusal:
            return "refusal"
        return STOPS.get(self._finish_reason, "end_turn")


def _joined_text(thinking: object) -> str:
    """The text of thinking: a string, or a list of parts with texts."""
    if isinstance(thinking, str):
        return thinking
    return "".join(str(an_object(part).get("text") or "") for part in a_list(thinking))


def _usage(fields: Json) -> Usage:
    """Usage of a reply, whose reasoning is not sent again.

    Some servers report more of it than output.
    """
    usage, more = usage_of(fields), an_object(fields.get("completion_tokens_details"))
    reasoning = min(whole(more.get("reasoning_tokens")), usage.output_tokens)
    return replace(usage, dropped_tokens=reasoning)
