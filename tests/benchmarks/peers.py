"""What a turn costs here and in other context managers, side by side in one run.

    python tests/benchmarks/peers.py --langchain PYTHON --openhands PYTHON

Each peer runs in its own Python, on the same history of real conversations, one after
the other, and is measured in CPU time. Their environments, the second of Python 3.12:

    python3.11 -m venv lc && lc/bin/pip install langchain langchain-openai \
        langchain-anthropic tiktoken
    python3.12 -m venv oh && oh/bin/pip install openhands-sdk

P1: two new messages added, counted and decided upon, in a conversation of 100, 1,000
and 10,000. P2: that and a whole request of 1,000 messages through the SDK to a server
on this machine; `own` is what the manager itself takes of it. P3: decide and build on
every turn of a chat of 1,000, two messages each. Cold: 1,000 messages never seen.

The figures are printed and never asserted: machines differ.
"""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from fault_server import AnthropicDialect, OpenAIDialect
from trajectories import FILE

from nbchat.providers.tokens import _vocabulary_file

HERE = Path(__file__).parent

MESSAGES = 10_200
TIKTOKEN_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
TIMEOUT_SECONDS = 1_800

Json = dict[str, Any]

HEADINGS = (
    *("", "P1 100", "P1 1,000", "P1 10,000", "ratio"),
    *("own openai", "own anthr.", "P2 openai", "P2 anthr."),
    *("P3 seconds", "exponent", "cold 1,000"),
)


def history(length: int) -> list[Json]:
    """Real conversations one after another, ids made different, in OpenAI's format."""
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    conversations = [json.loads(line)["messages"] for line in lines]
    messages: list[Json] = []
    for number in count():
        said = conversations[number % len(conversations)]
        messages += [numbered(m, number) for m in said if m["role"] != "system"]
        if len(messages) >= length:
            return messages[:length]
    raise AssertionError("unreachable")


def numbered(message: Json, number: int) -> Json:
    """A message whose ids no other conversation has."""
    kept = {key: value for key, value in message.items() if value is not None}
    kept.setdefault("content", "")
    if calls := kept.get("tool_calls"):
        kept["tool_calls"] = [
            {**call, "id": f"{call['id']}_{number}"} for call in calls
        ]
    if "tool_call_id" in kept:
        kept["tool_call_id"] += f"_{number}"
        kept.setdefault("name", "tool")
    return kept


class Model(BaseHTTPRequestHandler):
    """A server that answers "ok" in both APIs, streamed or not."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = "anthropic" if "messages" in self.path else "openai"
        is_stream = bool(body.get("stream"))
        content = STREAMS[kind] if is_stream else json.dumps(REPLIES[kind]).encode()
        content_type = "text/event-stream" if is_stream else "application/json"
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


STREAMS = {
    "openai": b"".join(OpenAIDialect().text("ok").events),
    "anthropic": b"".join(AnthropicDialect().text("ok").events),
}
REPLIES: dict[str, Json] = {
    "openai": {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "ok"},
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    },
    "anthropic": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
}


def measured(python: str, name: str, history_file: Path, url: str, cache: Path) -> Json:
    """A peer's figures; what went wrong under `error` when there are none."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1]) if name == "nbchat" else "",
        "TIKTOKEN_CACHE_DIR": str(cache),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENHANDS_SUPPRESS_BANNER": "1",
    }
    command = [python, str(HERE / "one_peer.py"), name, str(history_file), url]
    run = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if run.returncode:
        return {"error": (run.stderr.strip().splitlines() or ["no output"])[-1]}
    figures: Json = json.loads(run.stdout.splitlines()[-1])
    return figures


def fill_cache(folder: Path) -> None:
    """The vocabularies where tiktoken looks before it downloads them."""
    for name in ("o200k_base", "cl100k_base"):
        key = hashlib.sha1(TIKTOKEN_URL.format(name).encode()).hexdigest()
        (folder / key).write_bytes(gzip.decompress(_vocabulary_file(name).read_bytes()))


def cells(name: str, row: Json) -> list[str]:
    """A row of the table."""
    if "error" in row:
        return [name, row["error"][:80]]
    chat = f"{row['chat_seconds']:.2f}" + ("" if row["turns"] == 1_000 else " (proj.)")
    return [
        name,
        *(f"{figure:.3f}" for figure in row["decide"]),
        f"{row['decide'][-1] / row['decide'][0]:.1f}",
        *(f"{figure:.2f}" for figure in row["own"] + row["send"]),
        *(chat, f"{row['exponent']:.2f}", f"{row['cold']:.0f}"),
    ]


def print_table(rows: list[list[str]]) -> None:
    """Columns as wide as their widest cell."""
    full = [row for row in rows if len(row) == len(HEADINGS)]
    widths = [max(len(row[place]) for row in full) for place in range(len(HEADINGS))]
    for row in rows:
        padded = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([row[0].ljust(widths[0]), *padded[1:]]))


def main() -> None:
    """Measure all that were named and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--langchain", metavar="PYTHON")
    parser.add_argument("--openhands", metavar="PYTHON")
    wanted = parser.parse_args()
    peers = {
        "nbchat": sys.executable,
        "langchain": wanted.langchain,
        "langchain-exact": wanted.langchain,
        "openhands": wanted.openhands,
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    rows = [list(HEADINGS)]
    with tempfile.TemporaryDirectory() as folder:
        fill_cache(Path(folder))
        history_file = Path(folder) / "history.json"
        history_file.write_text(json.dumps(history(MESSAGES)), encoding="utf-8")
        for name, python in peers.items():
            if python:
                row = measured(python, name, history_file, url, Path(folder))
                rows.append(cells(name, row))
    print("CPU milliseconds, medians; P3 in seconds.\n")
    print_table(rows)


if __name__ == "__main__":
    main()
