"""Connect to a model by its name.

The module of a provider is imported when it is first connected, and its SDK for its
first request, or the warm-up before that.
"""

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Unpack

from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.base import (
    Provider,
    ReplyStream,
    Request,
    RequestOptions,
    ServedProvider,
    estimated_tokens,
)
from nbchat.providers.endpoint import ReadKey, given_key
from nbchat.providers.model_info import (
    ModelInfo,
    ServedModel,
    chat_models,
    model_info,
    retirement,
)
from nbchat.providers.provider_table import (
    CHAT,
    KINDS,
    NEAREST,
    OPENAI,
    Service,
    service_of,
    unknown_kind,
)
from nbchat.providers.tokens import TokenCounter

logger = logging.getLogger(__name__)

# A key in the environment chooses the model when none is named: small, current, cheap.
DEFAULT_MODELS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-5-5",
    "OPENAI_API_KEY": "openai:gpt-6-luna",
    "GEMINI_API_KEY": "gemini:gemini-3.5-flash-lite",
}
EMBEDDED_MODEL = "local:smollm2"

LIST_SECONDS = 6.0
"""For a server's list of models."""

UNLISTED = ("azure", "bedrock", "vertex", "local")
"""Providers whose servers do not list what they serve."""


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
        listed = (f"{each}:{name}" for each in KINDS for name in chat_models(each))
        raise ConfigError(unknown_kind(model, listed))
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
    found = getattr(import_module(f"nbchat.providers.{module}"), name)
    return found


class Listing(threading.Thread):
    """Asks a server for its models; abandoned when it takes too long."""

    def __init__(self, connect: Callable[[], Provider]) -> None:
        """Ask nothing before it is started."""
        super().__init__(name="nbchat-models", daemon=True)
        self._connect = connect
        self.served: list[ServedModel] = []
        self.fault: NbchatError | None = None

    def run(self) -> None:
        """Ask the server; a fault is kept."""
        try:
            provider = self._connect()
            if isinstance(provider, ServedProvider):
                self.served = provider.catalog()
        except NbchatError as error:
            self.fault = error


def listed(connect: Callable[[], Provider]) -> Listing:
    """The models that a server listed within a few seconds."""
    listing = Listing(connect)
    listing.start()
    listing.join(LIST_SECONDS)
    return listing


def refuse_unlisted(provider: Provider) -> None:
    """Raise ConfigError for a model that its server does not list, with near names.

    A server that lists none, or does not answer soon, refuses nothing here.
    """
    kind, _, name = provider.name.partition(":")
    names = (
        [] if kind in UNLISTED else [m.name for m in listed(lambda: provider).served]
    )
    if not names or any(_is_same(name, each) for each in names):
        return
    near = get_close_matches(name, names, NEAREST, cutoff=0.3) or names[:NEAREST]
    where = getattr(provider, "host", kind)
    raise ConfigError(
        f"{where} has no model {name!r}. "
        f"It has {', '.join(f'{kind}:{each}' for each in near)}."
    )


def _is_same(name: str, listed: str) -> bool:
    """True if a name means a listed model: it may lack a date, or have an option."""
    return (
        name == listed
        or listed.startswith((f"{name}-", f"{name}:", f"{name}@"))
        or name.startswith(f"{listed}:")
    )


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
        """The details of the model in the price list."""
        return model_info(self.name.partition(":")[2])

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request, counted here."""
        return estimated_tokens(request, TokenCounter())

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
