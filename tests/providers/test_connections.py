"""One connection to a server is kept from request to request."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest
from fault_server import Response, answer
from provider_kit import DIALECTS, provider_at, reply_of


class KeepingServer:
    """Keeps connections, and counts them; bodies end a moment after the last event."""

    def __init__(self, response: Response, pause_seconds: float = 0.02) -> None:
        self.connections = self.requests = self.ended = 0
        self.may_end = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                outer.connections += 1

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                self._send(answer({"data": []}), 0)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests += 1
                self._send(response, pause_seconds)

            def _send(self, sent: Response, pause: float) -> None:
                self.send_response(sent.status)
                for name, value in sent.headers.items():
                    self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in sent.events:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                outer.may_end.wait(pause)
                outer.ended += pause > 0
                self.wfile.write(b"0\r\n\r\n")

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.005,), daemon=True).start()

    def close(self) -> None:
        self.may_end.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    servers: list[Any] = []
    yield servers
    for server in servers:
        server.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", DIALECTS)
def test_twenty_requests_share_one_connection(opened: list[Any], kind: str):
    server = KeepingServer(DIALECTS[kind].text("fine"))
    opened.append(server)
    provider: Any = provider_at(server, kind, window=1_000)  # type: ignore[arg-type]
    for _ in range(20):
        assert reply_of(provider).text == "fine"
    assert (server.requests, server.connections) == (20, 1)


@pytest.mark.slow
def test_a_server_that_does_not_end_its_body_holds_no_reply_back(opened: list[Any]):
    server = KeepingServer(DIALECTS["openai"].text("fine"), pause_seconds=60)
    opened.append(server)
    provider: Any = provider_at(server, "openai", window=1_000)  # type: ignore[arg-type]
    assert reply_of(provider).text == "fine"
    assert server.ended == 0
