"""All providers in a table, and how tests connect, ask and read them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fault_server import (
    AnthropicDialect,
    FaultServer,
    GeminiDialect,
    OpenAIDialect,
    ResponsesDialect,
)

from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Delta
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Reply, ReplyStream, Request
from nbchat.providers.gemini import GeminiProvider
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.providers.sdk_provider import SdkProvider

KEY = "sk-canary-5up3rs3cr3t-0123456789"
PROVIDERS = {
    "openai": OpenAIProvider,
    "responses": ResponsesProvider,
    "gemini": GeminiProvider,
    "anthropic": AnthropicProvider,
}
PATHS = {
    "openai": "/v1",
    "responses": "/v1",
    "gemini": "/v1beta/openai",
    "anthropic": "",
}
Dialect = OpenAIDialect | ResponsesDialect | AnthropicDialect

DIALECTS: dict[str, Dialect] = {
    "openai": OpenAIDialect(),
    "responses": ResponsesDialect(),
    "gemini": GeminiDialect(),
    "anthropic": AnthropicDialect(),
}
HELLO = Request((Entry("user", "Hello"),))


def provider_at(server: FaultServer, kind: str, **options: Any) -> SdkProvider:
    """The provider of a wire format, connected to a server."""
    options = {"base_url": server.url + PATHS[kind], "api_key": lambda: KEY, **options}
    return PROVIDERS[kind](options.pop("model", "model-x"), **options)


def at_home(made: type[SdkProvider], address: str) -> Callable[..., SdkProvider]:
    """Makes a provider for which an address is that of the API's own server."""
    return partial(made, service=replace(made.usual_service, address=address))


def drained(stream: ReplyStream) -> tuple[list[Delta], Reply]:
    """All deltas of a stream, and its reply."""
    deltas: list[Delta] = []
    while True:
        try:
            deltas.append(next(stream))
        except StopIteration as finished:
            return deltas, finished.value


def reply_of(provider: Any, request: Request = HELLO) -> Reply:
    """The reply to a request."""
    return drained(provider.stream(request))[1]


def name_of(provider: SdkProvider) -> str:
    """The wire format of a provider."""
    return next(name for name, made in PROVIDERS.items() if type(provider) is made)


def sent_body(server: FaultServer, provider: SdkProvider, request: Request) -> Any:
    """The body of a request as the server gets it."""
    server.script(DIALECTS[name_of(provider)].text("ok"))
    reply_of(provider, request)
    return server.requests[-1].body
