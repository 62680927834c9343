"""A server of OpenAI's chat API that answers at once, for measurements of clients.

    python tests/support/quick_server.py [--calls 2] [--seconds 0.1] [--caches]

Prints its port. It calls each offered tool in turn, up to `--calls`, and then answers
with a decision about the ticket of the newest message; `--seconds` is the time it takes,
and with `--caches` it tells of a prompt cache, as OpenAI does.
A request for a summary gets one that names the newest tickets.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]

CHUNK = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
WHOLE = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
MODELS = {"data": [{"id": "m", "object": "model", "max_model_len": 128_000}]}


LEAST_CACHED = 1_024


@contextmanager
def quick_server(
    *, calls: int = 0, seconds: float = 0.0, caches: bool = False
) -> Iterator[str]:
    """Run it in a process of its own; yields the address."""
    command = [sys.executable, str(Path(__file__)), "--calls", str(calls)]
    command += ["--caches"] if caches else []
    with subprocess.Popen(
        [*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


def answer_to(asked: Json, calls: int) -> tuple[Json, str]:
    """A message and why it ended."""
    messages, tools = asked["messages"], asked.get("tools") or []
    text = [each["content"] for each in messages if each["role"] == "user"][-1]
    if text.endswith("inside <summary></summary>."):
        return {"role": "assistant", "content": summary_of(messages)}, "stop"
    ticket = [text[:5], *re.findall(r"\bT\d{4}\b", text)][-1]
    newest = messages[-1].get("tool_call_id", "_-1")
    done = int(newest.rpartition("_")[2]) + 1
    if done < min(calls, len(tools)):
        function = tools[done]["function"]
        names = function["parameters"]["properties"]
        arguments = {n: ticket if "ticket" in n else "card" for n in names}
        called = {"name": function["name"], "arguments": json.dumps(arguments)}
        tool_id = f"call_{ticket}_{len(messages)}_{done}"
        call = {"id": tool_id, "type": "function", "function": called}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [call],
        }, "tool_calls"
    category = next((each for each in ("card", "transfer") if each in text), "other")
    decided = json.dumps({"category": category, "ticket": ticket})
    return {"role": "assistant", "content": decided}, "stop"


def summary_of(messages: Json) -> str:
    """A summary that names the newest tickets of a conversation."""
    names = list(dict.fromkeys(re.findall(r"\bT\d{4}\b", json.dumps(messages))))
    return (
        f"<summary>\nTickets {', '.join(names[-20:])} were decided: card.\n</summary>"
    )


def cached(asked: Json, before: list[Json]) -> int:
    """Tokens at the start of a request that the one before had, too, from 1,024 on."""
    messages, same = asked["messages"], 0
    for message, known in zip(messages, before, strict=False):
        if message != known:
            break
        same += len(json.dumps(message))
    before[:] = messages
    return read if (read := same // 5 // 128 * 128) >= LEAST_CACHED else 0


def body_of(
    asked: Json, calls: int, size: int, before: list[Json] | None
) -> tuple[bytes, bytes]:
    """The type and content of a response."""
    message, reason = answer_to(asked, calls)
    usage: Json = {"prompt_tokens": 200 + size // 5, "completion_tokens": 20}
    usage["total_tokens"] = sum(usage.values())
    if before is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached(asked, before)}
    if not asked.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = {**WHOLE, "choices": [choice], "usage": usage}
        return b"application/json", json.dumps(whole).encode()
    called = [{"index": n, **c} for n, c in enumerate(message.get("tool_calls") or [])]
    delta = {**message, "tool_calls": called} if called else message
    choices = (
        {"index": 0, "delta": delta, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": reason},
    )
    chunks = [{**CHUNK, "choices": [each]} for each in choices]
    sent = [*chunks, {**CHUNK, "choices": [], "usage": usage}]
    lines = "".join(f"data: {json.dumps(each)}\n\n" for each in sent)
    return b"text/event-stream", f"{lines}data: [DONE]\n\n".encode()


async def serve(
    port: int, calls: int, seconds: float, before: list[Json] | None
) -> None:
    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
                asked = await reader.readexactly(int(length or 0))
                if head.startswith(b"get"):
                    kind, content = b"application/json", json.dumps(MODELS).encode()
                else:
                    await asyncio.sleep(seconds)
                    read = json.loads(asked)
                    kind, content = body_of(read, calls, len(asked), before)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
                    % (kind, len(content), content)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--caches", action="store_true")
    asked = parser.parse_args()
    before: list[Json] | None = [] if asked.caches else None
    asyncio.run(serve(asked.port, asked.calls, asked.seconds, before))
