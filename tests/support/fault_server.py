"""A model's server on a real socket that says what a test tells it, byte by byte.

    server.script(openai.text("Hello"), failure(529))
    server.requests[0].body["messages"]

A dialect (`OpenAIDialect`, `ResponsesDialect`, `GeminiDialect`, `AnthropicDialect`)
writes whole streams in its wire format;
`after`, `cut`, `plus` and another `ending` turn them into faulty ones.
"""

import json
import socket
import struct
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal, Self

Json = dict[str, Any]
Ending = Literal["clean", "cut", "reset", "stall", "silence", "drop", "leave"]

CLOSE_SECONDS = 0.004
"""How often a server looks whether it was closed; 300 tests wait for it to look."""

CONTENTS = ("content", "arguments", "encrypted_content", "summary")
"""Fields of an item of the Responses API that arrive after its start."""

EVENT_STREAM = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True)
class Response:
    """One scripted response; `clean` ends as HTTP demands, `cut` without a last chunk.

    `reset` drops the line hard, `stall` keeps it open and silent after the last event.
    `silence` and `drop` do the same before a single header. `leave` keeps the line after
    a whole answer and drops it when the next request comes.
    """

    events: tuple[bytes, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: EVENT_STREAM)
    ending: Ending = "clean"

    def after(self, events: int) -> Self:
        """Only the first events."""
        return replace(self, events=self.events[:events])

    def cut(self, length: int) -> Self:
        """Only the first bytes, then a clean end."""
        return replace(self, events=(b"".join(self.events)[:length],))

    def plus(self, *events: bytes) -> Self:
        """These events after the others."""
        return replace(self, events=(*self.events, *events))


@dataclass(frozen=True)
class Recorded:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Json


def failure(status: int, error: Json | None = None, **headers: str) -> Response:
    """An error response; header names with underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer({"error": error or {}}, status, **named)


def answer(body: Json | list[Json], status: int = 200, **headers: str) -> Response:
    """A plain JSON response."""
    content_type = {"Content-Type": "application/json"}
    return Response((json.dumps(body).encode(),), status, {**content_type, **headers})


def page(text: str) -> Response:
    """A page of HTML with status 200, as a proxy's login."""
    return Response((text.encode(),), 200, {"Content-Type": "text/html"})


class FaultServer:
    """Plays its script one response a request; over, it answers 500."""

    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        self._script: list[Response] = []
        self._is_closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Conversation)
        self._server.owner = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_SECONDS,), daemon=True
        ).start()

    def script(self, *responses: Response) -> None:
        """Play these next."""
        self._script.extend(responses)

    def close(self) -> None:
        """End stalls and stop listening."""
        self._is_closing.set()
        self._server.shutdown()
        self._server.server_close()

    def next_response(self, request: Recorded) -> Response:
        """Record a request and take the next line of the script."""
        self.requests.append(request)
        return self._script.pop(0) if self._script else failure(500)

    def stall(self) -> None:
        """Say nothing until the test is over."""
        self._is_closing.wait(30)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: FaultServer


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else some answers take 40 ms more
    server: _Server

    def do_GET(self) -> None:
        self._answer({})

    def do_CONNECT(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self._answer(json.loads(self.rfile.read(length)))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _answer(self, body: Json) -> None:
        self.close_connection = True
        recorded = Recorded(self.path, dict(self.headers), body)
        response = self.server.owner.next_response(recorded)
        with suppress(OSError):  # the client may have left
            if response.ending not in ("silence", "drop"):
                self._send(response)
            self._end(response.ending)

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        if response.ending != "leave":
            self.send_header("Connection", "close")
        self.end_headers()
        for event in filter(None, response.events):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))

    def _end(self, ending: Ending) -> None:
        match ending:
            case "clean":
                self.wfile.write(b"0\r\n\r\n")
            case "leave":
                self.wfile.write(b"0\r\n\r\n")
                self.connection.settimeout(10)
                self.connection.recv(1, socket.MSG_PEEK)
                self._drop()
            case "stall" | "silence":
                self.server.owner.stall()
            case "reset" | "drop":
                self._drop()

    def _drop(self) -> None:
        linger = struct.pack("ii", 1, 0)  # close() then sends RST, not FIN
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()


def sse(payload: Json, event: str = "") -> bytes:
    """A server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(payload)}\n\n".encode()


class OpenAIDialect:
    """Streams as OpenAI writes them; usage is (input, output, cached)."""

    kind = "openai"
    wire = "openai"
    stops: ClassVar = {
        "end_turn": "stop",
        "max_tokens": "length",
        "tool_use": "tool_calls",
    }

    def stream(
        self,
        *deltas: Json,
        stop: str = "end_turn",
        usage: tuple[int, int, int] | None = (20, 5, 0),
    ) -> Response:
        """A whole answer made of deltas."""
        chunks = [_chunk(choices=[_choice(delta)]) for delta in deltas]
        finish = self.stops.get(stop, stop)
        chunks.append(_chunk(choices=[_choice({}, finish)]))
        if usage is not None:
            chunks.append(_chunk(choices=[], usage=_openai_usage(*usage)))
        return Response((*map(sse, chunks), b"data: [DONE]\n\n"))

    def text(self, *pieces: str, **options: Any) -> Response:
        """An answer in pieces."""
        return self.stream(*({"content": piece} for piece in pieces), **options)

    def calls(self, *calls: tuple[str, str, str], **options: Any) -> Response:
        """Calls (id, name, arguments), their arguments in two pieces each."""
        options.setdefault("stop", "tool_use")
        return self.stream(*_openai_call_deltas(calls), **options)

    def error_event(self, kind: str, message: str = "no") -> bytes:
        """An error after HTTP 200."""
        return sse({"error": {"type": kind, "message": message}})


class GeminiDialect(OpenAIDialect):
    """Streams of Gemini's compatible endpoint, which differ from OpenAI's."""

    kind = "gemini"
    stops: ClassVar = {"end_turn": "stop", "max_tokens": "length", "tool_use": "stop"}
    codes: ClassVar = {
        "invalid_request_error": (400, "INVALID_ARGUMENT"),
        "x": (400, "INVALID_ARGUMENT"),
        "authentication_error": (401, "UNAUTHENTICATED"),
        "rate_limit_error": (429, "RESOURCE_EXHAUSTED"),
        "server_error": (503, "UNAVAILABLE"),
        "503": (503, "UNAVAILABLE"),
    }

    def calls(self, *calls: tuple[str, str, str], **options: Any) -> Response:
        """Calls (id, name, arguments), each whole and without an index."""
        options.setdefault("stop", "tool_use")
        pieces = [gemini_call(*call) for call in calls]
        return self.stream(*({"tool_calls": [piece]} for piece in pieces), **options)

    def error_event(self, kind: str, message: str = "no") -> bytes:
        """An error after HTTP 200."""
        code, status = self.codes[kind]
        return sse({"error": {"code": code, "message": message, "status": status}})


def gemini_call(call_id: str, name: str, arguments: str, signature: str = "") -> Json:
    """A call as Gemini streams it, with its thought signature if it has one."""
    function = {"name": name, "arguments": arguments}
    call: Json = {"id": call_id, "type": "function", "function": function}
    google = {"google": {"thought_signature": signature}}
    return {**call, "extra_content": google} if signature else call


def gemini_failure(status: int, message: str, *details: Json) -> Response:
    """An error of the compatible endpoint: a list of one."""
    error = {"code": status, "message": message, "status": "X", "details": details}
    return answer([{"error": error}], status)


class ResponsesDialect:
    """Streams of OpenAI's Responses API; usage is (input, output, cached)."""

    kind = "responses"
    wire = "responses"
    stops: ClassVar = {
        "end_turn": ("completed", ""),
        "tool_use": ("completed", ""),
        "max_tokens": ("incomplete", "max_output_tokens"),
        "refusal": ("incomplete", "content_filter"),
    }

    def stream(
        self,
        *items: tuple[Json, list[Json]],
        stop: str = "end_turn",
        usage: tuple[int, int, int] | None = (20, 5, 0),
        reasoning: tuple[int, str] = (0, "all_turns"),
    ) -> Response:
        """A whole answer of items, each as it ends, with the deltas before that.

        `reasoning` is the number of its tokens, and the turns that it is read in.
        """
        status, reason = self.stops.get(stop, ("incomplete", stop))
        final = {
            "id": "resp_1",
            "object": "response",
            "status": status,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": [item for item, _ in items],
            "usage": _responses_usage(*usage, reasoning[0]) if usage else None,
            "reasoning": {"effort": "medium", "context": reasoning[1]},
        }
        events = [
            {"type": "response.created", "response": {"status": "in_progress"}},
            *(
                event
                for n, each in enumerate(items)
                for event in _item_events(n, *each)
            ),
            {"type": f"response.{status}", "response": final},
        ]
        numbered = [{**event, "sequence_number": n} for n, event in enumerate(events)]
        return Response(tuple(sse(event, event["type"]) for event in numbered))

    def text(self, *pieces: str, **options: Any) -> Response:
        """An answer in pieces."""
        return self.stream(responses_text(*pieces), **options)

    def calls(self, *calls: tuple[str, str, str], **options: Any) -> Response:
        """Calls (id, name, arguments), their arguments in two pieces each."""
        return self.stream(*(responses_call(*call) for call in calls), **options)

    def error_event(self, kind: str, message: str = "no") -> bytes:
        """An error after HTTP 200."""
        return sse({"type": "error", "code": kind, "message": message}, "error")


def responses_text(*pieces: str, phase: str = "") -> tuple[Json, list[Json]]:
    """A message in pieces."""
    content = [{"type": "output_text", "text": "".join(pieces), "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    deltas = [{"type": "response.output_text.delta", "delta": each} for each in pieces]
    return ({**item, "phase": phase} if phase else item), deltas


def responses_call(call_id: str, name: str, arguments: str) -> tuple[Json, list[Json]]:
    """A call, its arguments in two pieces."""
    half = len(arguments) // 2
    kind = "response.function_call_arguments.delta"
    pieces = (arguments[:half], arguments[half:])
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id}
    item |= {"name": name, "arguments": arguments}
    return item, [{"type": kind, "delta": piece} for piece in pieces]


def responses_reasoning(
    item_id: str, *summary: str, encrypted: str = "gAAAA=="
) -> tuple[Json, list[Json]]:
    """Reasoning: its summary in parts, and encrypted content."""
    parts = [{"type": "summary_text", "text": text} for text in summary]
    item = {"type": "reasoning", "id": item_id, "summary": parts, "status": None}
    deltas: list[Json] = []
    for number, text in enumerate(summary):
        place = {"summary_index": number}
        deltas.append({"type": "response.reasoning_summary_part.added", **place})
        kind = "response.reasoning_summary_text.delta"
        deltas.append({"type": kind, "delta": text, **place})
    return ({**item, "encrypted_content": encrypted} if encrypted else item), deltas


class AnthropicDialect:
    """Streams as Anthropic writes them; usage is (input, output, cached)."""

    kind = "anthropic"
    wire = "anthropic"

    def stream(
        self,
        *blocks: tuple[Json, list[Json]],
        stop: str = "end_turn",
        usage: tuple[int, int, int] | None = (20, 5, 0),
    ) -> Response:
        """A whole answer made of blocks, each a start and its deltas."""
        start, end = _anthropic_usages(usage)
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
        events = [
            {"type": "message_start", "message": {**message, "content": [], **start}},
            {"type": "ping"},
            *(event for i, b in enumerate(blocks) for event in _block_events(i, *b)),
            {"type": "message_delta", "delta": {"stop_reason": stop}, **end},
            {"type": "message_stop"},
        ]
        return Response(tuple(sse(event, event["type"]) for event in events))

    def text(self, *pieces: str, **options: Any) -> Response:
        """An answer in pieces."""
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        return self.stream(({"type": "text", "text": ""}, deltas), **options)

    def calls(self, *calls: tuple[str, str, str], **options: Any) -> Response:
        """Calls (id, name, arguments), their arguments in two pieces each."""
        options.setdefault("stop", "tool_use")
        return self.stream(*map(_tool_use_block, calls), **options)

    def error_event(self, kind: str, message: str = "no") -> bytes:
        """An error after HTTP 200."""
        error = {"type": kind, "message": message}
        return sse({"type": "error", "error": error}, "error")


def _chunk(**fields: Any) -> Json:
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, **fields}


def _choice(delta: Json, finish_reason: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _openai_usage(input_tokens: int, output_tokens: int, cached: int) -> Json:
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _responses_usage(
    input_tokens: int, output_tokens: int, cached: int, reasoning: int
) -> Json:
    details = {"cached_tokens": cached, "cache_write_tokens": 0}
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": details,
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": input_tokens + output_tokens,
    }


def _item_events(index: int, item: Json, deltas: list[Json]) -> Iterable[Json]:
    """The start of an item, which is still empty, its deltas, and the whole item."""
    empty = {name: each for name, each in item.items() if name not in CONTENTS}
    empty |= {"arguments": ""} if "arguments" in item else {}
    place = {"output_index": index}
    yield {"type": "response.output_item.added", **place, "item": empty}
    for delta in deltas:
        yield {"item_id": item.get("id"), **place, **delta}
    yield {"type": "response.output_item.done", **place, "item": item}


def _openai_call_deltas(calls: Iterable[tuple[str, str, str]]) -> Iterable[Json]:
    for index, (call_id, name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        head = {"name": name, "arguments": arguments[:half]}
        yield {"tool_calls": [{"index": index, "id": call_id, "function": head}]}
        tail = {"arguments": arguments[half:]}
        yield {"tool_calls": [{"index": index, "function": tail}]}


def _anthropic_usages(usage: tuple[int, int, int] | None) -> tuple[Json, Json]:
    """At the start and at the end: cached tokens are not part of input_tokens."""
    if usage is None:
        return {}, {}
    input_tokens, output_tokens, cached = usage
    start = {
        "input_tokens": input_tokens - cached,
        "cache_creation_input_tokens": None,
        "cache_read_input_tokens": cached,
        "output_tokens": 1,
    }
    return {"usage": start}, {"usage": {"output_tokens": output_tokens}}


def _block_events(index: int, start: Json, deltas: list[Json]) -> Iterable[Json]:
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _tool_use_block(call: tuple[str, str, str]) -> tuple[Json, list[Json]]:
    call_id, name, arguments = call
    half = len(arguments) // 2
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    pieces = (arguments[:half], arguments[half:])
    return start, [{"type": "input_json_delta", "partial_json": p} for p in pieces]
