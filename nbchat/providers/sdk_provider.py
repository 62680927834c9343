"""The base of all providers that use an official SDK: requests, streams, errors."""

import gc
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from threading import Event as Flag
from typing import Any, ClassVar, TypeVar, Unpack
from weakref import finalize

import httpx2

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import Delta
from nbchat.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    NbchatError,
    ProviderError,
    RequestRefused,
    with_details,
)
from nbchat.providers.base import (
    ReplyStream,
    Request,
    RequestOptions,
    checked,
    estimated_tokens,
    merged,
    most_bytes,
    not_among,
    refuse_untaken,
    stop_texts,
)
from nbchat.providers.closable_http import (
    canned_client,
    client_of,
    is_dropped,
    read_stream,
)
from nbchat.providers.endpoint import (
    find_endpoint,
    redact_logs,
    secrets_in,
    set_variable,
)
from nbchat.providers.error_mapping import (
    FOREIGN,
    error_fields,
    provider_error,
    refusal_of,
    unlisted,
    wrong_body,
)
from nbchat.providers.model_info import SERVER, ModelInfo, ServedModel, model_info
from nbchat.providers.model_info_from_server import (
    listed_window,
    model_among,
    newest_first,
    reported_by,
    with_listed,
)
from nbchat.providers.provider_table import Service
from nbchat.providers.refused_content import Adaptations, RefusedContent, Trial
from nbchat.providers.retries import Limiter, limiter_of
from nbchat.providers.tokens import (
    TokenCounter,
)
from nbchat.providers.wire_format import (
    Json,
    Reader,
    SizeCheck,
    WireFormat,
    WireMessages,
    WireStream,
    finished_reply,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

PLACEHOLDER_KEY = "no-key-needed"
"""The SDKs insist on one; compatible servers ignore it."""

CONNECT_TIMEOUT_SECONDS = 10.0
SILENCE_SECONDS = 300.0
"""A slow server computes for minutes before its first word."""

QUESTION_TIMEOUT_SECONDS = 3.0
"""For what a chat can do without, such as a model's window."""

TRUNCATED_FACTOR = 2
"""Local counts differ from a server's by up to 28 %, so twice as many is a proof."""

TOKEN_BYTES = 3
"""Bytes of a token of dense text, such as numbers. A request with fewer bytes for each
reported token was not cut by half, which is known without a vocabulary."""

LEAST_TRUNCATED = 1_000
"""Tokens: no server has a smaller window."""

NEARLY = 0.9

ADAPTABLE = (400, 422)
"""Status of an error that may name a parameter which the model does not take."""


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause the garbage collector while an SDK is imported.

    The many objects of its types all stay, so that a quarter of the time is saved.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class SdkProvider(ABC):
    """A model behind an API; subclasses know its wire format and call its SDK."""

    usual_service: ClassVar[Service]
    """Where the API is served, unless a provider is made with another service."""
    sdk: ClassVar[tuple[str, str]]
    """The SDK's module, and the name of the base of its errors."""
    warm_up_events: ClassVar[tuple[Json, ...]]
    """The events of a short reply, for the warm-up."""
    speaks_messages: ClassVar[bool] = False
    thinking_of: ClassVar[str] = ""
    """The `tool_name` of thinking that is sent back to the API; empty for none."""
    sampling: ClassVar[Mapping[str, str]]
    """Options about answers that the API has, with their names in its requests."""

    def __init__(
        self,
        name: str,
        *,
        service: Service | None = None,
        base_url: str = "",
        api_key: Callable[[], str] | None = None,
        window: int | None = None,
        api_key_hosts: Collection[str] = (),
        headers: Mapping[str, str] | None = None,
        proxy: str = "",
        **options: Unpack[RequestOptions],
    ) -> None:
        """Check address, key and options; sends nothing and builds no client.

        `api_key_hosts` are other hosts that get the environment's key. `headers` are
        added to each request, which goes through `proxy` if there is one. `options`
        hold for requests that have no others.
        """
        self.service = service or self.usual_service
        self.kind = self.service.kind
        self.name = f"{self.kind}:{name}"
        self._sibling = _Maker(
            type(self),
            service=service,
            base_url=base_url,
            api_key=api_key,
            api_key_hosts=api_key_hosts,
            headers=headers,
            proxy=proxy,
            **options,
        )
        address = self.service.find_address(base_url)
        self.endpoint = find_endpoint(
            self.kind,
            address,
            key_variable=set_variable(self.service.key_variables),
            api_key=api_key,
            is_own=self.service.is_own(address),
            needs_key=self.service.needs_key,
            key_hosts=api_key_hosts,
            other_secrets=secrets_in(headers or {}, proxy),
            speaks_messages=self.speaks_messages,
            proxy=proxy,
        )
        self._headers = dict(headers or {})
        self._options = checked(options)
        self._use_model(name, window)
        refuse_untaken(self, self._options)

    def _use_model(self, name: str, window: int | None) -> None:
        """Start with what is known of a model; what its server says comes later."""
        self._model = name
        self._known = self._look_up(name)
        self._window = window
        self._has_asked_window = window is not None
        self._window_source = "the setting window" if window else SERVER
        self._counter = TokenCounter(self._known.encoding)
        self._messages = WireMessages(self.format)
        self._adaptations = Adaptations()
        self._refused = RefusedContent(self.kind, self.thinking_of)
        self._key_version = 0
        """That of the key with which the client was made."""
        self._may_be_dropped = False
        self._largest_report = 0
        self.truncated_at: int | None = None
        """Tokens of the window, where the server has cut a request to them."""

    def __repr__(self) -> str:
        """The model, and the address unless it is the default."""
        address = "" if self._is_home else f" at {self.endpoint.shown_url}"
        return f"<{type(self).__name__} {self.name}{address}>"

    def __reduce__(self) -> Any:
        """Pickled as it was made: a key of the environment is read again elsewhere."""
        return partial(self._sibling, window=self._window), (self._model,)

    def stream(self, request: Request, *, stop: Flag | None = None) -> ReplyStream:
        """Yield deltas and return the reply; raises ProviderError or Stopped.

        A request whose content is refused is sent again without it.
        """
        self._follow_key()
        faults = self._sdk_errors  # imports the SDK before any time is measured
        request = request.as_sent
        trial = self._refused.trial(self._model_for(request), request)
        first: ProviderError | None = None
        while True:
            try:
                return (yield from self._reply_to(trial, stop))
            except faults as error:
                if self._adapt(error, trial.request):
                    continue
                fault = self._provider_error(error, trial.request)
                sent = partial(self._extra_body, trial.request)
                # In no variable: it may quote the key.
                is_changed = trial.learn(refusal_of(error), sent)
            first = first or fault
            if not is_changed:
                raise first if type(fault) is RequestRefused else fault

    def _reply_to(self, trial: Trial, stop: Flag | None) -> ReplyStream:
        request = trial.request
        reader = self._new_reader(request)
        for delta in self._read(reader, request, stop):
            yield from trial.news(self.endpoint.shown)
            yield delta
        model = f"{self.kind}:{self._model_for(request)}"
        answer = reader.answer()
        reply = finished_reply(
            answer,
            request,
            model=model,
            window=self._window_of(request),
            counter=self._counter,
        )
        yield from trial.news(self.endpoint.shown)
        reply = replace(reply, entries=trial.called(reply.entries))
        trial.accepted(reply.entries)
        if self.service.tells_limits or not self._is_home:
            self._notice_truncation(request, reply.usage)
        lifetime = self._options_of(request).get("cache_lifetime")
        info = self._listed(request).with_cache_lifetime(lifetime)
        return replace(reply, usage=info.priced(reply.usage))

    def _read(
        self, reader: Reader, request: Request, stop: Flag | None
    ) -> Iterator[Delta]:
        """The deltas of a reply; its errors are raised again: items may hold a key."""
        size = SizeCheck()
        patience = self._first_byte_seconds(request)
        opened = read_stream(lambda: self._open_checked(request), stop, patience)
        with closing(opened) as items:
            for item in items:
                content = item.to_dict(warnings=False)
                self._check_api(content)
                deltas = list(reader.read(content))
                size.add(content, deltas)
                yield from deltas

    def _check_api(self, content: Json) -> None:
        """Raise for an event of Anthropic's API where OpenAI's is spoken."""
        if not self.speaks_messages and content.get("type") == "message_start":
            raise RequestRefused(
                f"{self.endpoint.shown_url} speaks Anthropic's API. Use "
                "anthropic:MODEL with the address before /v1."
            )

    def warm_up(self) -> None:
        """Load what the first request needs: a client, the SDK's models, certificates.

        Reads a canned reply; sends nothing.
        """
        twin = copy(self)
        vars(twin)["_messages"] = WireMessages(self.format)
        with _without_collections(), canned_client(self.warm_up_events) as staged:
            vars(twin)["_client"] = self._client.with_options(http_client=staged)
            deque(twin.stream(Request((Entry("user", "?"),))), maxlen=0)

    def info(self) -> ModelInfo:
        """The model's window and limits; asks the server once, never raises."""
        if not self._has_asked_window and self._should_ask_window():
            self._ask_window()
        known = self._known.with_cache_lifetime(self._options.get("cache_lifetime"))
        return known.with_window(self._window, source=self._window_source)

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request, counted by the server where it can."""
        sent = self._sendable(request)
        if not self._counts_tokens:
            return self._counted_here(sent)
        return self._inquire(lambda: self._counted(sent), sent)

    @property
    def _counts_tokens(self) -> bool:
        """True if the server counts tokens by `_counted`."""
        return False

    def _counted(self, request: Request) -> int:
        raise NotImplementedError

    def _sendable(self, request: Request) -> Request:
        """The request without what its model has refused."""
        return self._refused.sendable(self._model_for(request), request)

    def _counted_here(self, request: Request) -> int:
        self._counter.keep(request.history)
        return estimated_tokens(request, self._counter)

    def _notice_truncation(self, request: Request, usage: Usage) -> None:
        """Take the reported input for the window where it is far below what was sent.

        Servers such as Ollama cut long requests without an error. A report below an
        earlier one proves nothing: some count only what was not cached.
        """
        reported, largest = usage.input_tokens, self._largest_report
        self._largest_report = max(largest, reported)
        if usage.is_estimated or reported < max(LEAST_TRUNCATED, largest * NEARLY):
            return
        if most_bytes(request) < reported * TRUNCATED_FACTOR * TOKEN_BYTES:
            return
        sent = self._counted_here(request)
        if sent < reported * TRUNCATED_FACTOR or self.truncated_at == reported:
            return
        self.truncated_at = self._window = reported
        logger.warning(
            "%s read only %s of about %s tokens, so its context window is smaller than "
            "the conversation, which is now compacted to fit. Start the server with a "
            "larger window, or set window.",
            self.name,
            f"{reported:,}",
            f"{sent:,}",
        )

    @property
    def host(self) -> str:
        """The server's host name."""
        return self.endpoint.host

    @property
    def own_address(self) -> str:
        """The address, unless it is one of the provider's own servers."""
        return "" if self._is_home else self.endpoint.address

    @property
    def limiter(self) -> Limiter:
        """The limiter of the server, shared by all that ask it in this process."""
        return limiter_of(self.endpoint.address)

    def sibling(self, name: str, *, window: int | None = None) -> "SdkProvider":
        """Another model of the same server, asked with the same key."""
        return self._sibling(name, window=window)

    def catalog(self) -> list[ServedModel]:
        """The models of this server as it describes them, the newest first."""
        return self._inquire(lambda: newest_first(self._served_models()))

    @property
    def _is_home(self) -> bool:
        """True if this is the API's own server, not a compatible one."""
        return self.service.is_own(self.endpoint.address)

    def untaken(self, options: RequestOptions) -> list[str]:
        """Options that this API does not have."""
        return not_among(self.sampling, options)

    def _options_of(self, request: Request) -> RequestOptions:
        return merged(self._options, request.options)

    def _sampling_of(self, request: Request) -> Json:
        """The fields of a request that say how tokens are chosen, and where to end."""
        options: Mapping[str, Any] = self._options_of(request)
        values = {**options, "stop": stop_texts(options)}
        return {
            field: values[name]
            for name, field in self.sampling.items()
            if options.get(name) is not None
        }

    def _timeout_of(self, request: Request) -> httpx2.Timeout:
        options = self._options_of(request)
        return httpx2.Timeout(
            options.get("timeout_seconds") or SILENCE_SECONDS,
            connect=options.get("connect_seconds") or CONNECT_TIMEOUT_SECONDS,
        )

    def _first_byte_seconds(self, request: Request) -> float | None:
        return self._options_of(request).get("first_byte_seconds")

    def _http_client(self, kind: Callable[..., httpx2.Client]) -> httpx2.Client:
        """The connections of an SDK's client, without the key."""
        return client_of(self.endpoint, kind, self._headers)

    def _model_for(self, request: Request) -> str:
        return request.model.removeprefix(f"{self.kind}:") or self._model

    def _listed(self, request: Request) -> ModelInfo:
        """The known limits and prices of the model that a request asks."""
        name = self._model_for(request)
        return self._known if name == self._model else self._look_up(name)

    def _window_of(self, request: Request) -> int | None:
        """The window of the model that a request asks, as far as it is known."""
        is_own = self._model_for(request) == self._model
        return (self._window if is_own else None) or self._listed(request).window

    def _look_up(self, name: str) -> ModelInfo:
        return model_info(
            name, provider=self.service.price_list if self._is_home else None
        )

    @property
    @abstractmethod
    def format(self) -> WireFormat:
        """The format of messages."""

    @cached_property
    def _sdk(self) -> Any:
        """The SDK, imported for the first client: that takes a second."""
        with _without_collections():
            return import_module(self.sdk[0])

    @property
    def _sdk_error(self) -> type[Exception]:
        error: type[Exception] = getattr(self._sdk, self.sdk[1])
        return error

    @cached_property
    def _client(self) -> Any:
        """The SDK's client, built at first use; raises ConfigError if it cannot be."""
        redact_logs(self.endpoint)
        http_client = self._http_client(self._sdk.DefaultHttpxClient)
        try:
            client = self._new_client(http_client=http_client, max_retries=0)
        except (self._sdk_error, ValueError, RuntimeError, ImportError) as error:
            raise ConfigError(self._no_credentials(error)) from None
        finalize(self, client.close)
        return client

    @abstractmethod
    def _new_client(self, **given: Any) -> Any:
        """The SDK's client; for a cloud with the SDK's own way to identify itself."""

    @abstractmethod
    def _new_reader(self, request: Request) -> Reader:
        """A reader of this wire format."""

    @abstractmethod
    def _open(self, request: Request) -> WireStream:
        """The SDK's stream for a request."""

    @abstractmethod
    def _extra_body(self, request: Request) -> Json:
        """The fields of the request's body."""

    def _served_models(self) -> list[Json]:
        """The server's list of models."""
        if getattr(self._client, "models", None) is None:
            raise RequestRefused(
                f"{self.endpoint.product} lists no models. Enter the name of one."
            )
        page = self._client.models.list(timeout=QUESTION_TIMEOUT_SECONDS)
        return [model.to_dict(warnings=False) for model in page]

    def _should_ask_window(self) -> bool:
        """True if the server knows this model's window better than the price list."""
        is_known = self._known.window is not None and not self.service.tells_limits
        return not (self._is_home and is_known)

    def _follow_key(self) -> None:
        """Forget a client that was made with another key than the current one."""
        if self._key_version not in (0, self.endpoint.key_version):
            vars(self).pop("_client", None)

    def _credentials(self) -> str:
        """The key; empty where a cloud's SDK finds the credentials itself.

        They are never sent to a host that is not trusted.
        """
        key, self._key_version = self.endpoint.key(), self.endpoint.key_version
        finds_others = self.service.extra and self.endpoint.is_trusted
        return key if key or finds_others else PLACEHOLDER_KEY

    def _no_credentials(self, error: Exception) -> str:
        extra = self.service.extra
        install = f' Run: pip install "jupyter-nbchat[{extra}]"' if extra else ""
        seen = self.endpoint.shown(str(error))
        line = f"Found no credentials for {self.endpoint.product}.{install}"
        return with_details(line, seen)

    def _inquire(
        self,
        ask: Callable[[], T],
        request: Request | None = None,
        *,
        is_again: bool = False,
    ) -> T:
        """Ask a question that changes nothing; raises ProviderError.

        Repeated once if the server dropped an idle connection just then.
        """
        self._follow_key()
        try:
            return ask()
        except self._sdk_errors as error:
            if is_again or not is_dropped(error):
                raise self._provider_error(error, request) from None
        return self._inquire(ask, request, is_again=True)

    def _served_window(self) -> int | None:
        return self._learn(self._served_models())

    def _learn(self, models: list[Json]) -> int | None:
        """Keep the limits and prices that a list tells; the window is returned."""
        model = model_among(models, self._model)
        self._known = with_listed(self._known, model, is_priced=self._is_home)
        return listed_window(model)

    def _ask_window(self) -> None:
        reported = reported_by(self.kind, self.endpoint.url)
        if known := reported.of(self._model):
            self._window, self._known = known
            self._has_asked_window = True
            return
        try:
            self._window = self._served_window()
        except NbchatError as error:
            logger.debug("no context window from %s: %s", self.name, error)
        except self._sdk_errors as error:
            fault = self._provider_error(error)
            logger.debug("no context window from %s: %s", self.name, fault)
            self._has_asked_window = not isinstance(fault, ConnectionFailed)
        else:
            self._has_asked_window = True
        if self._has_asked_window:
            reported.keep(self._model, self._window, self._known)

    def _open_checked(self, request: Request) -> WireStream:
        """The stream; raises ProviderError for a page or an error sent with a 200."""
        limiter = self.limiter
        started = limiter.now()
        stream = self._open_on_live_connection(request)
        limiter.observe(stream.response.headers, started, request.model or self.name)
        self._may_be_dropped = True
        content_type = stream.response.headers.get("content-type", "")
        if content_type.startswith(("text/html", "application/json")):
            raise self._error_in(stream.response)
        return stream

    def _adapt(self, error: Exception, request: Request) -> bool:
        """True if a request should be sent again without a parameter that was refused.

        No change is tried twice.
        """
        if getattr(error, "status_code", 0) not in ADAPTABLE:
            return False
        found = error_fields(getattr(error, "body", None))
        sent = self._extra_body(request)
        return self._adaptations.learn(self._model_for(request), sent, found)

    def _open_on_live_connection(self, request: Request) -> WireStream:
        """The stream; opened again if the server dropped an idle connection.

        llama.cpp closes the connection after each streamed reply, though it promises to
        keep it; a request sent at that moment was never read.
        """
        try:
            return self._open_identified(request)
        except self._sdk_errors as error:
            if not (self._may_be_dropped and is_dropped(error)):
                raise
        self._may_be_dropped = False
        return self._open(request)

    def _open_identified(self, request: Request) -> WireStream:
        """The stream; a cloud's credentials may fail in any way before it is sent."""
        try:
            return self._open(request)
        except NbchatError:
            raise
        except Exception as error:
            is_sdk = isinstance(error, self._sdk_errors)
            is_of_server = is_sdk and type(error) is not self._sdk_error
            if is_of_server or not self.service.extra:
                raise
            raise AuthenticationFailed(self._no_credentials(error)) from None

    def _error_in(self, response: httpx2.Response) -> Exception:
        """The error for a page, or for an error that came with status 200."""
        response.read()
        try:
            body = unlisted(response.json())
        except ValueError:
            return wrong_body(response.text, self.endpoint)
        if not (isinstance(body, dict) and body.get("error")):
            return wrong_body(response.text, self.endpoint)
        return httpx2.HTTPStatusError(
            "an error with status 200", request=response.request, response=response
        )

    @property
    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        return (self._sdk_error, *FOREIGN)

    def _provider_error(
        self, error: Exception, request: Request | None = None
    ) -> ProviderError:
        """The error to raise `from None`, for an SDK's own may quote the key."""
        model = self._model if request is None else self._model_for(request)
        fault = provider_error(error, self.endpoint, model)
        if isinstance(fault, AuthenticationFailed):
            fault.kind = self.kind
            self.endpoint.source.renew()
        return fault


class _Maker(partial["SdkProvider"]):
    """Makes providers of one server; its repr shows no password."""

    __repr__ = object.__repr__
