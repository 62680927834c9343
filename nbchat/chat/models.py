"""The models that can be chosen: providers with keys, own servers, and a test.

The panel's page of models asks here. What is chosen is for one chat, or for all new
chats: then it is a file in the person's own Jupyter folder, which agents in Python
follow, too.
"""

import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nbchat.config.api_keys import KEY_VARIABLES, Place
from nbchat.config.layers import (
    CHOICE,
    choose_model,
    model_for_new_chats,
    refuse_locked,
)
from nbchat.config.policy_and_models import (
    NO_KEY,
    configured_model,
    connected,
    kind_of,
    model_origin,
)
from nbchat.config.settings import without_login
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TextDelta, ThinkingDelta
from nbchat.conversation.tools import tool
from nbchat.errors import (
    AuthenticationFailed,
    ConfigError,
    NbchatError,
    ProtocolFault,
    RequestRefused,
    Stopped,
)
from nbchat.providers.base import Provider, Reply, Request
from nbchat.providers.connect import (
    LIST_SECONDS,
    Listing,
    listed,
    refuse_unlisted,
)
from nbchat.providers.endpoint import PRODUCTS, check_url, is_loopback, server_of
from nbchat.providers.model_info import ServedModel, chat_models, model_info
from nbchat.providers.model_info_from_server import MESSAGES_OWNER, server_named_by
from nbchat.providers.provider_table import KINDS, SERVICES, service_of, unknown_kind

if TYPE_CHECKING:
    from nbchat.agent.agent import Agent
    from nbchat.chat.live_changes import LiveSettings

TEST_SECONDS = 60.0
"""Time limit of a test: a server may have to load the model first."""

TEST_PROMPT = (
    "Write the numbers from one to twelve in words. Then call the tool `report` once."
)

OPEN = ("ollama", "lmstudio", "vllm")
"""Servers that usually run on this machine and need no key."""


MOST_MODELS = 5_000
"""Names of one server that reach the page; the largest known one has 3,000."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model, with its window in tokens and dollars for a million tokens.

    What is not known is None.
    """

    name: str
    window: int | None
    input_dollars: float | None
    output_dollars: float | None


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """A provider: where its key is, and the models of the price list."""

    kind: str
    name: str
    variable: str
    place: Place
    needs_key: bool
    models: tuple[ModelRow, ...]


@dataclass(frozen=True, slots=True)
class ServerModels:
    """Models that a server lists; `problem` says in one line why there are none.

    `server` is the name of its software, or its host and port. `variable` names the
    provider's key where a person may send that to the server.
    """

    provider: str
    address: str
    server: str
    models: tuple[ModelRow, ...]
    problem: str
    wants_key: bool
    variable: str
    place: Place


@dataclass(frozen=True, slots=True)
class ModelTested:
    """How a model answered one short request; `seconds` are until the first words."""

    model: str
    seconds: float
    tokens_per_second: float | None
    calls_tools: bool


class Models:
    """The models that one chat can use."""

    def __init__(self, live: "LiveSettings") -> None:
        """Send no request yet."""
        self._live = live

    @property
    def is_locked(self) -> bool:
        """True if a site locks the model or its address."""
        return bool({"model", "base_url"} & self._live.config.locks.keys())

    @property
    def for_new_chats(self) -> str:
        """The model that the person chose for new chats; empty without one."""
        return model_for_new_chats()

    def providers(self) -> list[ModelProvider]:
        """Providers that take a key, those with one first, then local servers."""
        found = [self._provider(kind) for kind in KEY_VARIABLES]
        return sorted(
            found, key=lambda each: (not each.needs_key, each.place == "none")
        )

    def origin(self, agent: "Agent") -> str:
        """Why the chat has this model, as it is shown to a person."""
        config, name = self._live.config, agent.provider.name
        own = getattr(agent.provider, "own_address", "")
        if name == configured_model(config) and own in ("", config.base_url):
            origin = model_origin(config)
            return "" if origin == NO_KEY else origin
        chosen = "chosen for this chat"
        if not config.model:
            return chosen
        return f"{chosen} instead of {config.model} ({model_origin(config)})"

    def served(
        self, kind: str, typed: str, key: str = "", *, sends_key: bool = False
    ) -> ServerModels:
        """Ask a server for its models; a fault is one line of the report.

        The address counts as typed by the person. `key` is kept for it; with
        `sends_key` it gets the provider's key. Raises ConfigError for what cannot be an
        address or a key.
        """
        config = self._live.config
        address = self._whole(whole_address(typed, kind)) or self._live.locked_address
        if address:
            refuse_locked(base_url=address)
            config.keys.addresses += (address,)
        if key:
            config.keys.add(kind, key, base_url=address)
        if sends_key:
            self._live.allow_key(address)
        listing = listed(lambda: self._any_of(kind, address))
        return self._reported(kind, address, listing)

    def test(self, name: str, address: str) -> ModelTested:
        """Send one short request; raises NbchatError with why it failed."""
        provider = self._connected(name, address)
        try:
            return _tested(provider, with_tool=True)
        except RequestRefused:  # some servers refuse tools outright
            return _tested(provider, with_tool=False)

    def choose(
        self, agent: "Agent", name: str, address: str, *, always: bool, unlisted: bool
    ) -> str:
        """Use a model for this chat, or for all new chats too; says what was done.

        A name that the server does not list is refused with the nearest ones, unless
        `unlisted` allows it. Raises NbchatError.
        """
        if kind_of(name) not in KINDS:
            raise ConfigError(self._unnamed(name))
        provider = self._connected(name, address)
        if not unlisted:
            refuse_unlisted(provider)
        address = self._whole(address)
        self._live.use_provider(agent, provider, address)
        if not always:
            return f"This chat now uses {name}."
        choose_model(name, address, self._live.window_of(name))
        origin = self._live.config.origins.get("model", CHOICE)
        if origin != CHOICE:
            return f"Saved, but new chats still use the model of the {origin}."
        return f"This chat and new ones now use {name}."

    def forget(self) -> str:
        """Forget the model for new chats; this chat keeps its own."""
        name = model_for_new_chats()
        choose_model("")
        return f"New chats no longer start with {name}."

    def _unnamed(self, name: str) -> str:
        """The message about a name without a provider: the nearest ones of all."""
        listed = (each.name for one in self.providers() for each in one.models)
        return unknown_kind(name, listed)

    def _whole(self, address: str) -> str:
        """An address with the login that was typed or set with it."""
        config = self._live.config
        known = (*config.keys.addresses, config.base_url)
        return next((n for n in known if n and without_login(n) == address), address)

    def _provider(self, kind: str) -> ModelProvider:
        service = next(each for each in SERVICES if each.kind == kind)
        names = chat_models(kind) if kind not in (*OPEN, "openrouter") else []
        names = [name for name in names if name.startswith(kind)] or names
        return ModelProvider(
            kind,
            PRODUCTS.get(kind, kind),
            KEY_VARIABLES[kind],
            self._live.config.keys.place(kind),
            service.needs_key,
            tuple(_known(f"{kind}:{name}") for name in reversed(names)),
        )

    def _connected(self, name: str, address: str) -> Provider:
        address = self._whole(address)
        refuse_locked(model=name, **({"base_url": address} if address else {}))
        window = self._live.window_of(name)
        config = self._live.config
        url = address or self._live.locked_address
        return connected(config, name, base_url=url, window=window)

    def _any_of(self, kind: str, address: str) -> Provider:
        """A provider of a server, to list its models; any model name will do."""
        return connected(self._live.config, f"{kind}:any", base_url=address)

    def _reported(self, kind: str, address: str, listing: Listing) -> ServerModels:
        keys, where = self._live.config.keys, server_of(address) or PRODUCTS[kind]
        if listing.is_alive():
            problem = f"{where} didn't list its models within {LIST_SECONDS:.0f} s."
            shown = without_login(address)
            return ServerModels(kind, shown, where, (), problem, False, "", "none")
        fault, served = listing.fault, listing.served
        if kind == "openai" and {each.owner for each in served} == {MESSAGES_OWNER}:
            kind, address = "anthropic", address.removesuffix("/v1")
        wants_key = isinstance(fault, AuthenticationFailed)
        is_withheld = wants_key and type(fault) is not AuthenticationFailed
        problem = fault.line if fault else ""
        if wants_key and keys.place(kind, address) == "none":
            problem = f"{where} needs a key."
        if isinstance(fault, ProtocolFault):
            problem = f"{where} doesn't answer as a model server. Check the address."
        if not (served or fault):
            problem = f"{where} lists no models. Enter the name of one."
        return ServerModels(
            kind,
            without_login(address),
            server_named_by(served) or where,
            tuple(
                map(partial(_served, kind, is_own=bool(address)), served[:MOST_MODELS])
            ),
            problem,
            wants_key,
            KEY_VARIABLES.get(kind, "") if is_withheld else "",
            keys.place(kind, address),
        )


def whole_address(typed: str, kind: str = "openai") -> str:
    """The full address from a typed one: with a scheme and the usual path.

    Empty for an empty one. Raises ConfigError if it cannot be one.
    """
    typed = typed.strip()
    if not typed:
        return ""
    if "://" not in typed:
        host = urlsplit(f"//{typed}").hostname or ""
        typed = f"{'http' if is_loopback(host) else 'https'}://{typed}"
    check_url(typed, "The address")
    is_bare = not urlsplit(typed).path.strip("/")
    return typed.rstrip("/") + ("/v1" if is_bare and kind != "anthropic" else "")


def _known(name: str) -> ModelRow:
    """The details of a provider's model in the price list."""
    kind, _, model = name.partition(":")
    info = model_info(model, provider=service_of(kind, model).price_list or None)
    dollars = (info.prices.input, info.prices.output) if info.prices else (None, None)
    return ModelRow(name, info.window, *dollars)


def _served(kind: str, served: ServedModel, *, is_own: bool) -> ModelRow:
    """The details of a model that a server lists; a private server's has no price."""
    known = _known(f"{kind}:{served.name.removeprefix(f'{kind}:')}")
    window = served.window or known.window
    if is_own:
        return ModelRow(known.name, window, None, None)
    return replace(known, window=window)


def _tested(provider: Provider, *, with_tool: bool) -> ModelTested:
    stop = threading.Event()
    limit = threading.Timer(TEST_SECONDS, stop.set)
    limit.daemon = True
    limit.start()
    tools = (tool(report),) if with_tool else ()
    asked = Request((Entry("user", TEST_PROMPT),), tools=tools, max_output_tokens=400)
    began = time.monotonic()
    first = 0.0
    try:
        with closing(provider.stream(asked, stop=stop)) as stream:
            while True:
                delta = next(stream)
                if not first and isinstance(delta, TextDelta | ThinkingDelta):
                    first = time.monotonic()
    except StopIteration as ended:
        return _measured(ended.value, began, first or time.monotonic())
    except Stopped as error:
        raise NbchatError(
            f"The answer wasn't complete after {TEST_SECONDS:.0f} s."
        ) from error
    finally:
        limit.cancel()


def report() -> str:
    """Report that the numbers are written."""
    return "done"


def _measured(reply: Reply, began: float, first: float) -> ModelTested:
    spent, tokens = time.monotonic() - first, reply.usage.output_tokens
    is_measurable = spent > 0.05 and tokens > 1  # noqa: PLR2004  # else it is noise
    speed = tokens / spent if is_measurable else None
    return ModelTested(reply.model, first - began, speed, bool(reply.calls))
