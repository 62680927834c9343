"""A server that watches its sockets: it knows when a client has left."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Manner = Literal["silent", "comments", "stream", "stalls"]

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@dataclass
class WatchingServer:
    """Keeps every request open until its client leaves.

    `silent` sends nothing, `comments` keeps the line alive, `stream` sends `event`
    again and again, `stalls` sends it once.
    """

    manner: Manner
    event: bytes = b""
    url: str = ""
    began: threading.Event = field(default_factory=threading.Event)
    """A request has arrived, and what the manner sends first was sent."""
    left: threading.Event = field(default_factory=threading.Event)
    """The client has closed its end."""
    left_at: float = 0.0

    def serve(self, connection: socket.socket) -> None:
        """Play the manner until the client leaves, for half a minute at most."""
        if self.manner != "silent":
            connection.sendall(HEAD)
        if self.manner in ("stream", "stalls"):
            connection.sendall(chunk(self.event))
        self.began.set()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not has_left(connection):
            repeated = {"comments": b": still here\n\n", "stream": self.event}
            if (data := repeated.get(self.manner)) is not None:
                with suppress(OSError):
                    connection.sendall(chunk(data))
        self.left_at = time.monotonic()
        self.left.set()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def has_left(connection: socket.socket) -> bool:
    """True if the client has closed its end, seen within 10 ms."""
    if not select.select([connection], [], [], 0.01)[0]:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.close_connection = True
        self.server.watching.serve(self.connection)  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def watching(manner: Manner, event: bytes = b"") -> Iterator[WatchingServer]:
    """A server on a free port of this machine."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    url = f"http://127.0.0.1:{http.server_port}"
    server = http.watching = WatchingServer(manner, event, url)  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
