"""Streams with mistakes, and what may come of them: an answer or a named error."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields
from typing import Any

import httpx2
from fault_server import (
    AnthropicDialect,
    GeminiDialect,
    OpenAIDialect,
    Response,
    ResponsesDialect,
    gemini_call,
    responses_call,
    responses_reasoning,
    responses_text,
    sse,
)

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import TextDelta, ThinkingDelta
from nbchat.errors import ProviderError
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Reply, Request
from nbchat.providers.gemini import GeminiProvider
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.providers.sdk_provider import SdkProvider

HELLO = Request((Entry("user", "Hello"),))
ARGUMENTS = '{"a": 1, "b": 2}'
THINKING = {"type": "thinking", "thinking": "", "signature": ""}

STREAMS: dict[str, tuple[type[SdkProvider], Response]] = {
    "chat completions": (
        OpenAIProvider,
        OpenAIDialect().stream(
            {"reasoning_content": "Hm."},
            {"content": "I "},
            {"content": "add."},
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "c1",
                        "function": {"name": "add", "arguments": ARGUMENTS},
                    }
                ]
            },
            stop="tool_use",
        ),
    ),
    "gemini": (
        GeminiProvider,
        GeminiDialect().stream(
            {"content": "I add."},
            {"tool_calls": [gemini_call("c1", "add", ARGUMENTS, "c2ln")]},
            stop="tool_use",
        ),
    ),
    "responses": (
        ResponsesProvider,
        ResponsesDialect().stream(
            responses_reasoning("rs_1", "Hm.", "Yes."),
            responses_text("I ", "add.", phase="commentary"),
            responses_call("c1", "add", ARGUMENTS),
            reasoning=(3, "all_turns"),
        ),
    ),
    "anthropic": (
        AnthropicProvider,
        AnthropicDialect().stream(
            (
                THINKING,
                [
                    {"type": "thinking_delta", "thinking": "Hm."},
                    {"type": "signature_delta", "signature": "c2ln"},
                ],
            ),
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "I add."}]),
            (
                {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
                [{"type": "input_json_delta", "partial_json": ARGUMENTS}],
            ),
            stop="tool_use",
        ),
    ),
}

VALUES: list[Any] = [
    *(None, "", "x", "\ud800", 0, -1, 10**30, 1.5, True, [], {}, ["a"], [None]),
    *({"type": "text", "text": "t"}, [{"type": "text", "text": ["t"]}], [[[]]]),
]


def events_of(response: Response) -> list[tuple[str, Any]]:
    """The name and the content of each event."""
    found = []
    for event in response.events:
        name = event.partition(b"data: ")[0].decode().removeprefix("event: ").strip()
        text = event.partition(b"data: ")[2].decode().strip()
        found.append((name, text if text == "[DONE]" else json.loads(text)))
    return found


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a value with every key of it."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def mutated(events: list[tuple[str, Any]], chance: random.Random) -> bytes:
    """The stream with one to three mistakes."""
    events = deepcopy(events)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(events))
        kind = chance.choice(
            ["value", "value", "value", "delete", "twice", "drop", "swap"]
        )
        content = events[at][1]
        if kind in ("value", "delete") and isinstance(content, dict) and content:
            where, key = chance.choice(list(places(content)))
            if kind == "value":
                where[key] = deepcopy(chance.choice(VALUES))
            else:
                del where[key]
        elif kind == "twice":
            events.insert(at, events[at])
        elif kind == "drop" and len(events) > 1:
            del events[at]
        elif kind == "swap":
            other = chance.randrange(len(events))
            events[at], events[other] = events[other], events[at]
    return b"".join(map(written, events))


def written(event: tuple[str, Any]) -> bytes:
    name, content = event
    return b"data: [DONE]\n\n" if content == "[DONE]" else sse(content, name)


def provider_of(kind: type[SdkProvider], body: bytes) -> SdkProvider:
    """A provider whose SDK reads a stream without a network."""
    headers = {"content-type": "text/event-stream"}
    response = httpx2.Response(200, headers=headers, content=body)
    transport = httpx2.MockTransport(lambda _request: response)
    provider = kind(
        "m", base_url="http://127.0.0.1:1/v1", api_key=lambda: "k", window=9
    )
    staged = httpx2.Client(transport=transport)
    vars(provider)["_client"] = provider._client.with_options(http_client=staged)
    return provider


def faults(provider: SdkProvider) -> list[str]:
    """What is wrong with an answer, for it is neither whole nor a named error."""
    stream = provider.stream(HELLO)
    try:
        while True:
            delta = next(stream)
            if not isinstance(delta, TextDelta | ThinkingDelta):
                return [f"a delta of {delta}"]
            if not isinstance(delta.text, str):
                return [f"a text of {delta.text!r}"]
    except StopIteration as finished:
        return reply_faults(finished.value)
    except ProviderError as error:
        return [] if len(str(error).splitlines()) < 5 else ["an error of many lines"]
    except Exception as error:  # noqa: BLE001
        return [repr(error)]


def reply_faults(reply: Reply) -> list[str]:
    found = [
        f"a part that is no text: {part!r}"
        for entry in reply.entries
        for part in entry
        if not isinstance(part, str)
    ]
    figures = [getattr(reply.usage, each.name) for each in fields(Usage)]
    numbers = [each for each in figures if isinstance(each, int | float)]
    if len(numbers) < 7 or min(numbers) < 0:
        found.append(f"a usage of {reply.usage}")
    if reply.stop_reason not in ("end_turn", "tool_use", "max_tokens", "refusal"):
        found.append(f"a stop reason of {reply.stop_reason!r}")
    return found
