"""Connect to a model by its name, and list the models that can be chosen.

The module of a provider, and with it its SDK, is imported when it is first connected.
"""

import gc
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Unpack

from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.base import Provider, ReplyStream, Request, estimated_tokens
from nbchat.providers.endpoint import ReadKey, given_key
from nbchat.providers.model_info import ModelInfo, chat_models, model_info, retirement
from nbchat.providers.provider_table import (
    CHAT,
    KINDS,
    OPENAI,
    Service,
    service_of,
    unknown_kind,
)
from nbchat.providers.request_options import RequestOptions
from nbchat.providers.tokens import TokenCounter

logger = logging.getLogger(__name__)

# A key in the environment chooses the model when none is named: small, current, cheap.
DEFAULT_MODELS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-5-5",
    "OPENAI_API_KEY": "openai:gpt-6-luna",
    "GEMINI_API_KEY": "gemini:gemini-3.5-flash-lite",
}
EMBEDDED_MODEL = "local:smollm2"

TIMEOUT_SECONDS = 6.0
"""For a server's whole list of models; twice the timeout of one of its pages."""


def default_model() -> str:
    """The model for the key in the environment, else the embedded one."""
    for variable, model in DEFAULT_MODELS.items():
        if os.environ.get(variable):
            return model
    return EMBEDDED_MODEL


def connect(
    model: str = "",
    *,
    base_url: str = "",
    api_key: str | ReadKey | None = None,
    window: int | None = None,
    api_key_hosts: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    proxy: str = "",
    **options: Unpack[RequestOptions],
) -> Provider:
    """The provider for a model such as `openai:gpt-6-luna`; nothing is sent yet.

    `api_key` is the key or a function that returns it, called before each request.
    Without it the key is read from the environment or the keyring, and sent only to
    the provider's own servers and to `api_key_hosts`, by HTTPS (`http://host` allows
    plain HTTP there). `window` overrides the known
    context window. `headers` are added to each request; `proxy` is the address of an
    HTTP proxy. `options` (see `RequestOptions`) hold for requests that have no others.
    Raises ConfigError for an unknown provider or option, or a missing key.
    """
    kind, _, name = (model or default_model()).partition(":")
    if kind not in KINDS or not name:
        raise ConfigError(unknown_kind(model))
    service = service_of(kind, name)
    provider = _provider_class(service, base_url)
    connected: Provider = provider(
        name,
        service=service,
        base_url=base_url,
        api_key=given_key(api_key) if isinstance(api_key, str) else api_key,
        window=window,
        api_key_hosts=api_key_hosts,
        headers=headers,
        proxy=proxy,
        **options,
    )
    ending = retirement(name)
    if ending is not None and ending.is_near():
        logger.warning("%s", ending.line(name))
    return connected


def _provider_class(service: Service, base_url: str) -> Callable[..., Provider]:
    """The class for a service; servers that imitate OpenAI's speak chat completions."""
    api = service.api
    if service is OPENAI and not service.is_own(service.find_address(base_url)):
        api = CHAT
    module, name = api
    found: Callable[..., Provider]
    with _without_collections():
        found = getattr(import_module(f"nbchat.providers.{module}"), name)
    return found


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


@dataclass(frozen=True, slots=True)
class ModelList:
    """Names as `/model` takes them, those of the current server first."""

    models: tuple[str, ...]
    problem: str = ""
    """Why the models of the current server are missing."""


def list_models(
    provider: Provider,
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
    has_key: Callable[[str], bool] | None = None,
) -> ModelList:
    """The models of a provider's server, and some of others with a key; never raises.

    `has_key` says of which providers there is a key; without it the environment does.
    A slow or failing server costs a few seconds and one line.
    """
    kind = provider.name.partition(":")[0]
    listing = _Listing(provider)
    listing.start()
    listing.join(timeout_seconds)
    problem = listing.problem
    if not (problem or listing.models):
        problem = "The server lists no models. Enter the name of one."
    if listing.is_alive():
        problem = (
            f"The server didn't list its models within {timeout_seconds:.0f} s. "
            "Enter the name of one."
        )
    listed = [_qualified(kind, model) for model in listing.models]
    others = [*_with_keys(has_key or _has_variable, besides=kind), *_embedded()]
    names = dict.fromkeys([*listed, *others])
    return ModelList(tuple(names), problem)


class _Listing(threading.Thread):
    """Asks a server for its models; abandoned when it takes too long."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(name="nbchat-models", daemon=True)
        self._provider = provider
        self.models: list[str] = []
        self.problem = ""

    def run(self) -> None:
        try:
            self.models = self._provider.models()
        except NbchatError as error:
            self.problem = error.line


def _qualified(kind: str, model: str) -> str:
    return model if model.startswith(f"{kind}:") else f"{kind}:{model}"


def _with_keys(has_key: Callable[[str], bool], *, besides: str) -> list[str]:
    """Models of other providers that have a key."""
    kinds = {model.partition(":")[0]: model for model in DEFAULT_MODELS.values()}
    return [
        f"{kind}:{name}"
        for kind, usual in kinds.items()
        if kind != besides and has_key(kind)
        for name in dict.fromkeys([usual.partition(":")[2], *chat_models(kind)])
    ]


def _has_variable(kind: str) -> bool:
    """Whether the environment has the key of a provider."""
    return any(
        model.startswith(f"{kind}:") and os.environ.get(variable, "").strip()
        for variable, model in DEFAULT_MODELS.items()
    )


def _embedded() -> list[str]:
    return [EMBEDDED_MODEL] if find_spec("xllamacpp") else []


class Unconnected:
    """A model that cannot be asked yet: its key is missing, or its name is wrong.

    A chat is built with it all the same, so that everything but an answer works. Each
    request connects again, for a key may have been set meanwhile; until then it fails
    with the reason.
    """

    def __init__(
        self, name: str, problem: str, connect: Callable[[], Provider]
    ) -> None:
        """Ask nothing; `connect` returns the real provider or raises ConfigError."""
        self.name = name
        self.problem = problem
        """Why it cannot answer; empty since a request was connected."""
        self._connect = connect
        self._provider: Provider | None = None

    def __repr__(self) -> str:
        """The model and the reason."""
        return f"<Unconnected {self.name}: {self.problem}>"

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        """The real provider's reply; raises ConfigError while there is none."""
        return (yield from self._connected().stream(request, stop=stop))

    def info(self) -> ModelInfo:
        """What the price list knows of the model."""
        return model_info(self.name.partition(":")[2])

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request, counted here."""
        return estimated_tokens(request, TokenCounter())

    def models(self) -> list[str]:
        """The models of the real provider; raises ConfigError while there is none."""
        return self._connected().models()

    def _connected(self) -> Provider:
        if self._provider is None:
            self._provider = self._connect()
            self.problem = ""
        return self._provider


def connected_or_not(name: str, connect: Callable[[], Provider]) -> Provider:
    """The provider that `connect` returns, or one that says why it cannot."""
    try:
        return connect()
    except ConfigError as error:
        return Unconnected(name, str(error), connect)


def problem_of(provider: Provider) -> str:
    """Why a model cannot answer; empty if it can, as far as is known."""
    return provider.problem if isinstance(provider, Unconnected) else ""
