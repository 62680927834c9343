"""What the clients of the official SDKs share: connections, streams, canned replies."""

import json
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Protocol

import httpx2

from nbchat.conversation.events import Delta
from nbchat.providers.wire_format import Json, StreamedReply

CONNECTIONS = httpx2.Limits(keepalive_expiry=3.0)
"""Idle connections are closed before the server drops them: llama.cpp does after 5 s,
which is also the SDKs' own figure."""

DROPPED = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""Errors of a dropped connection: no answer, a reset, a broken pipe."""


class WireItem(Protocol):
    """One item of an SDK's stream."""

    def to_dict(self, *, warnings: bool) -> Json:
        """The item as it came over the wire."""


class WireStream(AbstractContextManager[Iterable[WireItem]], Protocol):
    """An SDK's stream and its response."""

    response: httpx2.Response


class SdkClient(Protocol):
    """An SDK's client."""

    def with_options(self, *, http_client: httpx2.Client) -> "SdkClient":
        """The same client with another HTTP client."""


class Reader(Protocol):
    """Reads a stream in one wire format."""

    def read(self, item: Json) -> Iterator[Delta]:
        """Read an item and yield its deltas."""

    def answer(self) -> StreamedReply:
        """What has arrived until now."""


def certificates() -> ssl.SSLContext:
    """The certificates that this machine trusts, read once for all clients (20 ms)."""
    variables = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    return _certificates(*(os.environ.get(name) for name in variables))


@cache
def _certificates(*_places: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def canned_client(events: Iterable[Json]) -> httpx2.Client:
    """A client that answers every request with these events, without a network."""
    body = "".join(
        f"{_event_line(each)}data: {json.dumps(each)}\n\n" for each in events
    )
    headers = {"content-type": "text/event-stream"}
    answer = httpx2.Response(200, headers=headers, text=f"{body}data: [DONE]\n\n")
    return httpx2.Client(transport=httpx2.MockTransport(lambda _request: answer))


def is_dropped(error: Exception) -> bool:
    """Whether an error of httpx2 or of an SDK means a dropped connection."""
    return any(isinstance(each, DROPPED) for each in (error, error.__cause__))


def _event_line(event: Json) -> str:
    return f"event: {event['type']}\n" if "type" in event else ""
