"""A server that is none: it streams the same short answer to whatever is asked.

With it a provider goes through a whole request before anybody has asked anything, for
the SDKs load most of themselves, and build their models, during the first one.
"""

import json
from collections.abc import Iterable

import httpx2

from nbchat.providers.written import Json


def stage(events: Iterable[Json]) -> httpx2.Client:
    """A client whose requests are answered with these events, here and at once."""
    body = "".join(f"{_name(each)}data: {json.dumps(each)}\n\n" for each in events)
    headers = {"content-type": "text/event-stream"}
    answer = httpx2.Response(200, headers=headers, text=f"{body}data: [DONE]\n\n")
    return httpx2.Client(transport=httpx2.MockTransport(lambda _request: answer))


def _name(event: Json) -> str:
    return f"event: {event['type']}\n" if "type" in event else ""
