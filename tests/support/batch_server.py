"""OpenAI's files and batches and Anthropic's message batches, on a real socket.

    server = BatchServer(answer)        # a function of a request's body: text, or a call
    server.batches                      # requests of each batch, by custom id

Batches need two looks until they are ready, results come in another order, and what the
APIs refuse is refused: ids used twice or malformed, other paths, streams, empty batches.
"""

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
Answer = Callable[[Json], "str | tuple[str, Json] | int"]
"""A text, a call (tool and arguments), or the status of an error."""

ENDPOINT = "/v1/responses"
CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
USAGE = {"input_tokens": 100, "output_tokens": 10}


class BatchServer:
    def __init__(self, answer: Answer, *, looks: int = 2) -> None:
        self.answer = answer
        self.looks = looks
        """Questions until a batch is ready; a negative number: never."""
        self.batches: dict[str, dict[str, Json]] = {}
        self.files: dict[str, str] = {}
        self.endpoints: dict[str, str] = {}
        self._left: dict[str, int] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.owner = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(
            target=self._server.serve_forever, args=(0.005,), daemon=True
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def sizes(self) -> list[int]:
        return [len(each) for each in self.batches.values()]

    def is_ready(self, batch_id: str) -> bool:
        self._left[batch_id] -= 1
        return self._left[batch_id] < 0 <= self.looks

    def add(self, requests: list[tuple[str, Json]], endpoint: str) -> str:
        """A new batch; raises ValueError for what the APIs refuse."""
        names = [name for name, _ in requests]
        if not names or len(set(names)) < len(names):
            raise ValueError("custom_id must be unique, and there must be requests")
        if not all(map(CUSTOM_ID.fullmatch, names)):
            raise ValueError("custom_id must match ^[a-zA-Z0-9_-]{1,64}$")
        if any(body.get("stream") for _, body in requests):
            raise ValueError("stream is not supported in batches")
        batch_id = f"batch_{len(self.batches)}"
        self.batches[batch_id] = dict(requests)
        self.endpoints[batch_id] = endpoint
        self._left[batch_id] = self.looks
        return batch_id


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else some answers take 40 ms more

    @property
    def owner(self) -> BatchServer:
        return self.server.owner  # type: ignore[attr-defined, no-any-return]

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            match self.path:
                case "/v1/files":
                    self._upload(data)
                case "/v1/batches":
                    self._create_openai(json.loads(data))
                case "/v1/messages/batches":
                    self._create_anthropic(json.loads(data))
                case _:
                    self._send({"error": {"message": "not in a batch"}}, 404)
        except (ValueError, KeyError) as error:
            fault = {"type": "invalid_request_error", "message": str(error)}
            self._send({"type": "error", "error": fault}, 400)

    def do_GET(self) -> None:
        parts = self.path.removeprefix("/v1/").split("/")
        match parts:
            case ["files", name, "content"] if name in self.owner.files:
                self._send_text(self.owner.files[name])
            case ["batches", batch_id] if batch_id in self.owner.batches:
                self._send(self._openai_batch(batch_id))
            case ["messages", "batches", batch_id]:
                self._send(self._anthropic_batch(batch_id))
            case ["messages", "batches", batch_id, "results"]:
                lines = [
                    self._anthropic_result(n, b) for n, b in self._shuffled(batch_id)
                ]
                self._send_text("\n".join(map(json.dumps, lines)))
            case _:
                self._send({"error": {"message": f"no {self.path}"}}, 404)

    def _upload(self, data: bytes) -> None:
        head, _, rest = data.partition(b'name="file"')
        fields = data.decode()
        if 'name="purpose"\r\n\r\nbatch' not in fields or not head:
            raise ValueError("purpose must be batch")
        boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
        content = rest.partition(b"\r\n\r\n")[2].partition(b"\r\n--" + boundary)[0]
        name = f"file-{len(self.owner.files)}"
        self.owner.files[name] = content.decode()
        self._send(
            {
                "id": name,
                "object": "file",
                "bytes": len(content),
                "created_at": 1,
                "filename": "x",
                "purpose": "batch",
                "status": "processed",
            }
        )

    def _create_openai(self, body: Json) -> None:
        if body["completion_window"] != "24h" or body["endpoint"] != ENDPOINT:
            raise ValueError("completion_window or endpoint is not supported")
        lines = [
            json.loads(line)
            for line in self.owner.files[body["input_file_id"]].splitlines()
        ]
        if any(
            (each["method"], each["url"]) != ("POST", body["endpoint"])
            for each in lines
        ):
            raise ValueError("url must be the endpoint of the batch")
        batch_id = self.owner.add(
            [(each["custom_id"], each["body"]) for each in lines], body["endpoint"]
        )
        self._send({**self._openai_fields(batch_id), "status": "validating"})

    def _create_anthropic(self, body: Json) -> None:
        requests = [(each["custom_id"], each["params"]) for each in body["requests"]]
        if not all(
            {"model", "max_tokens", "messages"} <= set(each) for _, each in requests
        ):
            raise ValueError("model, max_tokens and messages are required")
        batch_id = self.owner.add(requests, "")
        self._send(
            {**self._anthropic_fields(batch_id), "processing_status": "in_progress"}
        )

    def _openai_fields(self, batch_id: str) -> Json:
        return {
            "id": batch_id,
            "object": "batch",
            "endpoint": self.owner.endpoints[batch_id],
            "input_file_id": "file-0",
            "completion_window": "24h",
            "created_at": 1,
        }

    def _openai_batch(self, batch_id: str) -> Json:
        fields = self._openai_fields(batch_id)
        if not self.owner.is_ready(batch_id):
            return {**fields, "status": "in_progress"}
        good, bad = [], []
        for name, body in self._shuffled(batch_id):
            said = self.owner.answer(body)
            if isinstance(said, int):
                fault = {
                    "error": {"message": "refused", "type": "invalid_request_error"}
                }
                response = {"status_code": said, "request_id": "r", "body": fault}
                bad.append(
                    {"id": "x", "custom_id": name, "response": response, "error": None}
                )
                continue
            response = {"status_code": 200, "request_id": "r", "body": _response(said)}
            good.append(
                {"id": "x", "custom_id": name, "response": response, "error": None}
            )
        ids: Json = {}
        for field, lines in (("output_file_id", good), ("error_file_id", bad)):
            if lines:
                ids[field] = f"file-{batch_id}-{field}"
                self.owner.files[ids[field]] = "\n".join(map(json.dumps, lines))
        return {**fields, **ids, "status": "completed"}

    def _anthropic_fields(self, batch_id: str) -> Json:
        counts = dict.fromkeys(
            ("canceled", "errored", "expired", "processing", "succeeded"), 0
        )
        day = "2026-11-23T00:00:00Z"
        return {
            "id": batch_id,
            "type": "message_batch",
            "created_at": day,
            "expires_at": day,
            "request_counts": counts,
        }

    def _anthropic_batch(self, batch_id: str) -> Json:
        fields = self._anthropic_fields(batch_id)
        if not self.owner.is_ready(batch_id):
            return {**fields, "processing_status": "in_progress"}
        url = f"{self.owner.url}/v1/messages/batches/{batch_id}/results"
        return {**fields, "processing_status": "ended", "results_url": url}

    def _anthropic_result(self, name: str, body: Json) -> Json:
        said = self.owner.answer(body)
        if isinstance(said, int):
            if not said:
                return {"custom_id": name, "result": {"type": "expired"}}
            fault = {"type": "invalid_request_error", "message": "refused"}
            error = {"type": "error", "error": fault, "request_id": "r"}
            return {"custom_id": name, "result": {"type": "errored", "error": error}}
        message = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_sequence": None,
            "usage": USAGE,
        }
        if isinstance(said, str):
            message |= {
                "content": [{"type": "text", "text": said}],
                "stop_reason": "end_turn",
            }
        else:
            call = {
                "type": "tool_use",
                "id": "toolu_1",
                "name": said[0],
                "input": said[1],
            }
            message |= {"content": [call], "stop_reason": "tool_use"}
        return {"custom_id": name, "result": {"type": "succeeded", "message": message}}

    def _shuffled(self, batch_id: str) -> list[tuple[str, Json]]:
        return sorted(
            self.owner.batches[batch_id].items(), key=lambda pair: hash(pair[0])
        )

    def _send(self, body: Json, status: int = 200) -> None:
        self._send_text(json.dumps(body), status, "application/json")

    def _send_text(
        self, text: str, status: int = 200, kind: str = "application/binary"
    ) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _response(said: str | tuple[str, Json]) -> Json:
    if isinstance(said, str):
        content = [{"type": "output_text", "text": said, "annotations": []}]
        item: Json = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": content,
        }
    else:
        item = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": said[0],
            "arguments": json.dumps(said[1]),
        }
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": [item],
        "usage": USAGE,
    }
