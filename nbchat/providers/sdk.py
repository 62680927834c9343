"""A provider behind an official SDK: all that does not depend on whose SDK it is."""

import json
import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing
from copy import copy
from dataclasses import replace
from threading import Event as Flag
from typing import Any, ClassVar, Protocol, TypeVar

import httpx2

from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Delta
from nbchat.errors import ConnectionFailed, NbchatError, ProviderError
from nbchat.providers.base import ReplyStream, Request, estimated_tokens
from nbchat.providers.endpoint import find_endpoint, set_variable
from nbchat.providers.error_mapping import (
    FOREIGN,
    provider_error,
    refusal_in,
    refused,
    unlisted,
    wrong_body,
)
from nbchat.providers.model_info import ModelInfo, model_info
from nbchat.providers.streaming import read_stream
from nbchat.providers.tokens import TokenCounter
from nbchat.providers.wire import (
    Json,
    StreamedReply,
    WireFormat,
    WireMessages,
    finished_reply,
)


def canned_client(events: Iterable[Json]) -> httpx2.Client:
    """A client whose requests are answered with these events, here and at once."""
    body = "".join(f"{_name(each)}data: {json.dumps(each)}\n\n" for each in events)
    headers = {"content-type": "text/event-stream"}
    answer = httpx2.Response(200, headers=headers, text=f"{body}data: [DONE]\n\n")
    return httpx2.Client(transport=httpx2.MockTransport(lambda _request: answer))


def _name(event: Json) -> str:
    return f"event: {event['type']}\n" if "type" in event else ""


logger = logging.getLogger(__name__)

T = TypeVar("T")

CONNECT_TIMEOUT_SECONDS = 10.0
CONNECTIONS = httpx2.Limits(keepalive_expiry=3.0)
"""An idle connection is left before the server drops it: llama.cpp does after 5 s, just
when the SDKs, whose own figure is 5 s too, would use it once more."""

QUESTION_TIMEOUT_SECONDS = 3.0
"""For what a chat can do without: a model's window."""

DROPPED = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""How a server shows that it has dropped a line: no answer, a reset, a broken pipe."""

WINDOW_FIELDS = (
    "n_ctx",  # llama.cpp, inside `meta`
    "max_model_len",  # vLLM
    "context_length",  # OpenRouter
    "context_window",  # Groq
    "max_input_tokens",  # Anthropic
)
"""What servers call a model's window in their list of models."""


class WireItem(Protocol):
    """One item of an SDK's stream."""

    def to_dict(self, *, warnings: bool) -> Json:
        """The item as it came over the wire."""


class WireStream(AbstractContextManager[Iterable[WireItem]], Protocol):
    """An SDK's stream, and the response under it."""

    response: httpx2.Response


class SdkClient(Protocol):
    """An SDK's client."""

    def with_options(self, *, http_client: httpx2.Client) -> "SdkClient":
        """The same client, its requests sent by another one."""


class Reader(Protocol):
    """Collects a stream in one wire format."""

    def read(self, item: Json) -> Iterator[Delta]:
        """Take an item in and give out what it lets us see."""

    def answer(self) -> StreamedReply:
        """All that has arrived."""


class SdkProvider(ABC):
    """A model behind an API; subclasses know its wire format and call its SDK."""

    kind: ClassVar[str]
    default_url: ClassVar[str]
    url_variable: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]]
    sdk_error: ClassVar[type[Exception]]
    warm_up_events: ClassVar[tuple[Json, ...]]
    """The events of a short answer, as a server would stream them."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "",
        api_key: Callable[[], str] | None = None,
        window: int | None = None,
        temperature: float | None = None,
        read_timeout_seconds: float = 60.0,
    ) -> None:
        """Check address and key; nothing is sent, no client is built.

        `read_timeout_seconds` is the longest silence between two events.
        """
        self.name = f"{self.kind}:{name}"
        self._sibling = _maker(
            type(self),
            base_url=base_url,
            api_key=api_key,
            temperature=temperature,
            read_timeout_seconds=read_timeout_seconds,
        )
        address = base_url or os.environ.get(self.url_variable, "") or self.default_url
        self.endpoint = find_endpoint(
            self.kind,
            address,
            key_variable=set_variable(self.key_variables),
            api_key=api_key,
            needs_key=self._needs_key(address),
        )
        self._model = name
        self._known = self._look_up(name)
        self._window = window
        self._has_asked_window = window is not None
        self._sampling = {} if temperature is None else {"temperature": temperature}
        self._timeout = httpx2.Timeout(
            read_timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS
        )
        self._counter = TokenCounter(self._known.encoding)
        self._messages = WireMessages(self.format)
        self._has_kept_line = False

    def __repr__(self) -> str:
        """The model and, where it is not the usual one, the address."""
        place = "" if self._is_home else f" at {self.endpoint.url}"
        return f"<{type(self).__name__} {self.name}{place}>"

    def stream(self, request: Request, *, stop: Flag | None = None) -> ReplyStream:
        """Deltas as they arrive, then the reply; raises ProviderError or Stopped."""
        reader = self._new_reader()
        try:
            with closing(
                read_stream(lambda: self._open_checked(request), stop)
            ) as items:
                for item in items:
                    yield from reader.read(item.to_dict(warnings=False))
            answer = reader.answer()
        except self._foreign_errors as error:
            raise self._in_our_terms(error, request) from None
        model = f"{self.kind}:{self._model_for(request)}"
        reply = finished_reply(answer, request, model=model, counter=self._counter)
        return replace(reply, usage=self._listed(request).priced(reply.usage))

    def warm_up(self) -> None:
        """Load what the first request needs: a client, the SDK's models, certificates.

        A whole answer is read, but nothing leaves this process.
        """
        twin = copy(self)
        vars(twin)["_messages"] = WireMessages(self.format)
        with canned_client(self.warm_up_events) as staged:
            vars(twin)["_client"] = self._client.with_options(http_client=staged)
            deque(twin.stream(Request((Entry("user", "?"),))), maxlen=0)

    def info(self) -> ModelInfo:
        """The model's window and limits; asks the server once, never raises."""
        if not self._has_asked_window and self._should_ask_window():
            self._ask_window()
        return self._known.with_window(self._window)

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request, counted here."""
        return estimated_tokens(request, self._counter)

    @property
    def host(self) -> str:
        """The server's host name."""
        return self.endpoint.host

    def sibling(self, name: str, *, window: int | None = None) -> "SdkProvider":
        """Another model of the same server, asked with the same key."""
        return self._sibling(name, window)

    def models(self) -> list[str]:
        """The models this server offers."""
        return self._inquire(lambda: [str(m["id"]) for m in self._served_models()])

    @property
    def _is_home(self) -> bool:
        """Whether this is the API's maker itself, not a compatible server."""
        default = httpx2.URL(self.default_url)
        return self.endpoint.host == default.host

    def _needs_key(self, address: str) -> bool:  # noqa: ARG002  # a hook
        return True

    def _model_for(self, request: Request) -> str:
        return request.model.removeprefix(f"{self.kind}:") or self._model

    def _listed(self, request: Request) -> ModelInfo:
        """What is known of the model that answers a request."""
        name = self._model_for(request)
        return self._known if name == self._model else self._look_up(name)

    def _look_up(self, name: str) -> ModelInfo:
        return model_info(name, provider=self.kind if self._is_home else None)

    @property
    @abstractmethod
    def format(self) -> WireFormat:
        """How messages are written."""

    @property
    @abstractmethod
    def _client(self) -> SdkClient:
        """The SDK's client, built once."""

    @abstractmethod
    def _new_reader(self) -> Reader:
        """A reader of this wire format."""

    @abstractmethod
    def _open(self, request: Request) -> WireStream:
        """The SDK's stream for a request."""

    @abstractmethod
    def _extra_body(self, request: Request) -> Json:
        """The request's fields; subclasses may add more."""

    @abstractmethod
    def _served_models(self) -> list[Json]:
        """The server's list of models, each as it came over the wire."""

    @abstractmethod
    def _should_ask_window(self) -> bool:
        """Whether the server knows this model's window better than we do."""

    def _inquire(
        self,
        ask: Callable[[], T],
        request: Request | None = None,
        *,
        is_again: bool = False,
    ) -> T:
        """The answer to a question that changes nothing; its faults in our terms.

        A server may drop a kept line just when it is used again: then once more.
        """
        try:
            return ask()
        except self._foreign_errors as error:
            if is_again or not is_dropped(error):
                raise self._in_our_terms(error, request) from None
        return self._inquire(ask, request, is_again=True)

    def _served_window(self) -> int | None:
        return window_among(self._served_models(), self._model)

    def _ask_window(self) -> None:
        try:
            self._window = self._served_window()
        except NbchatError as error:
            logger.debug("%s does not tell its window: %s", self.name, error)
        except self._foreign_errors as error:
            fault = self._in_our_terms(error)
            logger.debug("%s does not tell its window: %s", self.name, fault)
            self._has_asked_window = not isinstance(fault, ConnectionFailed)
        else:
            self._has_asked_window = True

    def _open_checked(self, request: Request) -> WireStream:
        """The stream, unless the server sent a page or an error as a 200."""
        stream = self._open_again_if_left(request)
        self._has_kept_line = True
        content_type = stream.response.headers.get("content-type", "")
        if content_type.startswith(("text/html", "application/json")):
            raise self._fault_in(stream.response, request)
        return stream

    def _open_again_if_left(self, request: Request) -> WireStream:
        """The stream; a kept line that the server has left is no failed attempt.

        llama.cpp leaves the line after each streamed answer, though it promises to keep
        it; a request sent at that moment was never read.
        """
        try:
            return self._open(request)
        except self._foreign_errors as error:
            if not (self._has_kept_line and is_dropped(error)):
                raise
        self._has_kept_line = False
        return self._open(request)

    def _fault_in(self, response: httpx2.Response, request: Request) -> NbchatError:
        response.read()
        try:
            body = unlisted(response.json())
        except ValueError:
            return wrong_body(response.text, self.endpoint)
        if not (isinstance(body, dict) and body.get("error")):
            return wrong_body(response.text, self.endpoint)
        refusal = refusal_in(response.status_code, body, response.headers)
        return refused(refusal, self.endpoint, self._model_for(request))

    @property
    def _foreign_errors(self) -> tuple[type[Exception], ...]:
        return (self.sdk_error, *FOREIGN)

    def _in_our_terms(
        self, error: Exception, request: Request | None = None
    ) -> ProviderError:
        """The error to raise `from None`: an SDK's own may quote the key."""
        model = self._model if request is None else self._model_for(request)
        return provider_error(error, self.endpoint, model)


def is_dropped(error: Exception) -> bool:
    """Whether the server dropped the line, as httpx2 or an SDK around it says it."""
    return any(isinstance(each, DROPPED) for each in (error, error.__cause__))


def window_among(models: list[Json], name: str) -> int | None:
    """The window that a server's list tells; its only model goes by any name."""
    named = [model for model in models if model.get("id") == name]
    for model in named or (models if len(models) == 1 else []):
        told = {**(model.get("meta") or {}), **model}
        sizes = (told.get(field) for field in WINDOW_FIELDS)
        return next((size for size in sizes if isinstance(size, int)), None)
    return None


def _maker(kind: type[SdkProvider], **given: Any) -> Callable[..., SdkProvider]:
    """A closure: unlike a partial, its repr does not show a password in an address."""
    return lambda name, window: kind(name, window=window, **given)
