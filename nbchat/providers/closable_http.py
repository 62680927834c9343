"""Streams that Stop ends: they are read in a thread whose connection can be closed.

A thread that waits for a server cannot be interrupted, and closing its socket from
elsewhere does not wake it. Shutting the socket down does both: the thread gets an end
of file, and the server sees that the client has left. All clients share certificates.
"""

import json
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from threading import Event as Flag
from typing import Any, Generic, TypeVar

import httpx2

from nbchat.errors import NbchatError, ProtocolFault, Stopped
from nbchat.providers.endpoint import Endpoint

CONNECTIONS = httpx2.Limits(keepalive_expiry=3.0)
"""Idle connections are closed before the server drops them: llama.cpp does after 5 s,
which is also the SDKs' own figure."""

DROPPED = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""Errors of a dropped connection: no answer, a reset, a broken pipe."""

DRAIN_SECONDS = 0.2
"""Longest wait for the end of a body after its last event, which mostly is there."""

MOST_BYTES = 32_000_000
"""Bytes of one event or page: a hundred times the longest that servers send."""


STEP_SECONDS = 0.05
"""How often `stop` is checked while the server is silent."""

LONGEST_PLACE = 100
"""Characters that are shown of where a server redirects to."""


Item = TypeVar("Item")


class Line:
    """The connection that the request of one thread uses at the moment."""

    def __init__(self, first_byte_seconds: float | None = None) -> None:
        self.first_byte_seconds = first_byte_seconds
        """Longest silence in seconds until an answer begins; None: the usual one."""
        self._lock = threading.Lock()
        self._stream: WatchedStream | None = None
        self.is_cut = False
        self.received = 0
        """Bytes since the last item of the answer."""

    def cut(self) -> None:
        """Close the connection now, or as soon as there is one."""
        with self._lock:
            self.is_cut = True
            stream = self._stream
        if stream is not None:
            stream.shut_down(self)

    def count(self, received: int) -> None:
        """Count bytes of one item; raises ProtocolFault if it does not end."""
        self.received += received
        if self.received > MOST_BYTES:
            endless = ProtocolFault(
                "Stopped the answer: one event in it is longer than "
                f"{MOST_BYTES:,} bytes."
            )
            endless.is_retryable = False
            raise endless

    def hold(self, stream: "WatchedStream") -> None:
        """Remember the connection; closes it if the line was cut."""
        with self._lock:
            self._stream = stream
            is_cut = self.is_cut
        if is_cut:
            stream.shut_down(self)


_CURRENT: ContextVar[Line | None] = ContextVar("line", default=None)
"""The line of the thread that runs."""


@contextmanager
def using(line: Line) -> Generator[None, None, None]:
    """Let the requests of this thread use a line."""
    token = _CURRENT.set(line)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def read_stream(
    open_stream: Callable[[], AbstractContextManager[Iterable[Item]]],
    stop: Flag | None,
    first_byte_seconds: float | None = None,
) -> Generator[Item, None, None]:
    """The items of a blocking stream, read in a thread; raises its errors, or Stopped.

    `first_byte_seconds` is the longest silence before the first item, if that is not
    the connection's own timeout.

    The caller can leave at any moment, by `stop`, by KeyboardInterrupt or by closing
    the generator. The connection is then closed, which ends the request on the server.
    """
    arrived: queue.SimpleQueue[_Got[Item] | _End] = queue.SimpleQueue()
    line = Line(first_byte_seconds)
    threading.Thread(
        target=_read_all,
        args=(open_stream, line, arrived),
        name="nbchat-stream",
        daemon=True,
    ).start()
    message: _Got[Item] | _End | None = None
    try:
        while isinstance(message := _next(arrived, stop), _Got):
            yield message.item
        if message.error is not None:
            raise message.error
    finally:
        if not isinstance(message, _End):
            line.cut()


def until_stopped(call: Callable[[], Item], stop: Flag | None) -> Item:
    """The result of a request; raises its errors, or Stopped and closes it."""
    with closing(read_stream(lambda: nullcontext([call()]), stop)) as results:
        return next(results)


def _read_all(
    open_stream: Callable[[], AbstractContextManager[Iterable[Item]]],
    line: Line,
    arrived: "queue.SimpleQueue[_Got[Item] | _End]",
) -> None:
    """Put all items of a stream into the queue, and its end, until the line is cut."""
    try:
        with using(line), open_stream() as stream:
            for item in stream:
                line.first_byte_seconds, line.received = None, 0
                if line.is_cut:
                    return
                arrived.put(_Got(item))
    except BaseException as error:  # noqa: BLE001  # raised again by the caller
        arrived.put(_End(error))
    else:
        arrived.put(_End())


@dataclass(frozen=True, slots=True)
class _Got(Generic[Item]):
    item: Item


@dataclass(frozen=True, slots=True)
class _End:
    """The end of the stream, with the error that caused it if there is one."""

    error: BaseException | None = None


def _next(
    arrived: "queue.SimpleQueue[_Got[Item] | _End]", stop: Flag | None
) -> _Got[Item] | _End:
    while True:
        if stop is not None and stop.is_set():
            raise Stopped("stopped")
        try:
            return arrived.get(timeout=STEP_SECONDS)
        except queue.Empty:
            continue


class WatchedStream:
    """A connection's stream that knows whose request uses it, for the pool reuses it.

    It has the methods of httpcore2's `NetworkStream`, which is imported late.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._user = _CURRENT.get()
        self._hold()

    def shut_down(self, line: Line) -> None:
        """End the connection if it is still used by the line."""
        found = self._stream.get_extra_info("socket")
        if self._user is line and isinstance(found, socket.socket):
            with suppress(OSError):  # it is closed already
                # Not the method of a TLS socket, which changes what a reader uses.
                socket.socket.shutdown(found, socket.SHUT_RDWR)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read from the connection."""
        self._hold()
        if self._user is not None and self._user.first_byte_seconds is not None:
            timeout = self._user.first_byte_seconds
        data: bytes = self._stream.read(max_bytes, timeout)
        if self._user is not None:
            self._user.count(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write to the connection."""
        self._hold()
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(self, *args: Any, **options: Any) -> "WatchedStream":
        """The same connection with TLS."""
        return WatchedStream(self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        """A property of the connection, such as its socket."""
        return self._stream.get_extra_info(info)

    def _hold(self) -> None:
        self._user = _CURRENT.get()
        if self._user is not None:
            self._user.hold(self)


class DrainedStream(httpx2.SyncByteStream):
    """The body of a response that is read to its end when it is closed.

    OpenAI's SDK closes a body after its last event; the connection can then not be used
    again, for a few bytes that end the body are not read yet.
    """

    def __init__(self, body: httpx2.SyncByteStream) -> None:
        self._body = body
        self._chunks = iter(body)

    def __iter__(self) -> Iterator[bytes]:
        """The bytes of the body."""
        yield from self._chunks

    def close(self) -> None:
        """Read what little is left, then close."""
        line, end = _CURRENT.get(), time.monotonic() + DRAIN_SECONDS
        if line is not None:
            line.first_byte_seconds = DRAIN_SECONDS
        with suppress(httpx2.HTTPError, httpx2.StreamError, NbchatError):
            while time.monotonic() < end and next(self._chunks, None) is not None:
                pass
        self._body.close()


class WatchedBackend:
    """A network backend of httpcore2 whose connections can be closed elsewhere."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def connect_tcp(self, *args: Any, **options: Any) -> WatchedStream:
        """Connect to a host."""
        return WatchedStream(self._backend.connect_tcp(*args, **options))

    def connect_unix_socket(self, *args: Any, **options: Any) -> WatchedStream:
        """Connect to a socket of this machine."""
        return WatchedStream(self._backend.connect_unix_socket(*args, **options))

    def sleep(self, seconds: float) -> None:
        """Wait between two attempts to connect."""
        self._backend.sleep(seconds)


def watched(client: httpx2.Client) -> httpx2.Client:
    """The client, whose connections a `Line` can close, those by a proxy included.

    httpx2 has no public place for a backend; a test notices if this one moves.
    """
    transports = [client._transport, *client._mounts.values()]  # noqa: SLF001
    for transport in transports:
        pool = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = WatchedBackend(pool._network_backend)  # noqa: SLF001
    return client


def client_of(
    endpoint: Endpoint,
    kind: Callable[..., httpx2.Client],
    headers: Mapping[str, str],
) -> httpx2.Client:
    """A client for a server, made by an SDK's `kind`, without the key.

    A proxy of the environment is not asked for a server of this machine. The client of
    Anthropic's SDK always reads it, so a plain one is used there.
    """
    proxy = endpoint.used_proxy
    is_plain = bool(proxy) or endpoint.is_on_this_machine
    make: Callable[..., httpx2.Client] = httpx2.Client if is_plain else kind
    return watched(
        make(
            limits=CONNECTIONS,
            follow_redirects=True,
            verify=certificates(),
            auth=endpoint.login,
            headers=headers,
            trust_env=not endpoint.is_on_this_machine,
            event_hooks={"response": [refuse_other_host]},
            **({"proxy": proxy} if proxy else {}),
        )
    )


class RedirectRefused(httpx2.RequestError):
    """A server redirected a request to another one; it was not followed."""


def refuse_other_host(response: httpx2.Response) -> None:
    """Raise RedirectRefused before a request is sent again to another server.

    A conversation and secret headers go to the server that was chosen alone: to the
    same host and port, or to the same host by HTTPS.
    """
    if not response.has_redirect_location:
        return
    request = response.request
    try:
        wanted = request.url.join(response.headers["location"])
    except httpx2.InvalidURL:
        raise RedirectRefused("an address that is no URL", request=request) from None
    is_same = _origin(wanted) == _origin(request.url)
    is_upgrade = wanted.host == request.url.host and wanted.scheme == "https"
    if not (is_same or is_upgrade):
        where = f"{wanted.scheme}://{wanted.netloc.decode('ascii', 'replace')}"
        raise RedirectRefused(where[:LONGEST_PLACE], request=request)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    ports = {"http": 80, "https": 443}
    return url.scheme, url.host, url.port or ports.get(url.scheme)


def certificates() -> ssl.SSLContext:
    """The certificates that this machine trusts, read once for all clients (20 ms)."""
    variables = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    return _certificates(*(os.environ.get(name) for name in variables))


@cache
def _certificates(*_places: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def canned_client(events: Iterable[dict[str, Any]]) -> httpx2.Client:
    """A client that answers every request with these events, without a network."""
    body = "".join(
        f"{_event_line(each)}data: {json.dumps(each)}\n\n" for each in events
    )
    headers = {"content-type": "text/event-stream"}
    answer = httpx2.Response(200, headers=headers, text=f"{body}data: [DONE]\n\n")
    return httpx2.Client(transport=httpx2.MockTransport(lambda _request: answer))


def is_dropped(error: Exception) -> bool:
    """True if an error of httpx2 or of an SDK means a dropped connection."""
    return any(isinstance(each, DROPPED) for each in (error, error.__cause__))


def _event_line(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\n" if "type" in event else ""
