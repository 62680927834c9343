"""Build the policy, the models and the engine of a chat or an agent from settings."""

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy, policy_named, with_fields
from nbchat.compaction.summary_entry import LiveVariables
from nbchat.config.api_keys import KEY_VARIABLES
from nbchat.config.layers import CHOICE, is_locked, refuse_locked, settings
from nbchat.config.settings import TABLE, NbChat
from nbchat.conversation.live_variables import reader
from nbchat.errors import ConfigError
from nbchat.providers.base import Provider, RequestOptions, ServedProvider, checked
from nbchat.providers.connect import DEFAULT_MODELS, connect, default_model
from nbchat.providers.endpoint import ReadKey, server_of
from nbchat.providers.tokens import CHARACTERS

logger = logging.getLogger(__name__)

NO_KEY = "no key found"
"""Why the embedded model was taken."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~\w-]+", re.ASCII)

Namespace = Callable[[], Mapping[str, object]]
"""Returns the notebook's variables, which summaries may list."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent that code makes by a model's name."""

    provider: Provider
    model_origin: str
    """The place that named the model; empty if code did."""
    engine: CompactionEngine
    system: str = ""
    """The system prompt, if one is set: the packaged one is for notebooks."""
    max_steps: int = 50
    max_output_tokens: int | None = None
    recall: bool | None = None
    context_tools: bool = False
    options: RequestOptions = field(default_factory=RequestOptions)


def agent_settings(
    model: str = "",
    *,
    base_url: str = "",
    api_key: str | ReadKey | None = None,
    window: int | None = None,
) -> AgentSettings:
    """Read the environment and site files, and connect to a model.

    An empty `model`, `base_url` or `window` is as set. Nothing that was set in a chat
    counts, and no database is opened. Raises ConfigError.
    """
    config = settings()
    given = {"model": model, "base_url": base_url, "window": window}
    refuse_locked(**{name: each for name, each in given.items() if each})
    name = model or configured_model(config)
    url = base_url or address_of(config, name)
    window = window or window_for(config, name)
    provider = connected(config, name, base_url=url, window=window, api_key=api_key)
    return AgentSettings(
        provider,
        "" if model else model_origin(config),
        build_engine(config, provider),
        config.system_prompt if "system_prompt" in config.origins else "",
        config.max_steps,
        config.max_output_tokens,
        config.recall,
        config.context_tools,
        request_options(config),
    )


def window_for(config: NbChat, model: str) -> int | None:
    """The window that is set; one that was chosen with a model is of this model."""
    is_of_other = config.origins.get("window") == CHOICE and model != config.model
    return None if is_of_other else config.window


def model_origin(config: NbChat) -> str:
    """The place that decides on the model, as it is shown to a person."""
    if config.model:
        return config.origins.get("model", "settings")
    name = default_model()
    variables = (each for each, model in DEFAULT_MODELS.items() if model == name)
    found = next((each for each in variables if os.environ.get(each)), "")
    return f"key in {found}" if found else NO_KEY


def build_engine(
    config: NbChat, provider: Provider, *, namespace: Namespace | None = None
) -> CompactionEngine:
    """Build the compaction engine that the settings describe."""
    policy = policy_of(config)
    if config.context_token_threshold is not None and policy.meter != "cumulative":
        logger.warning(
            "context_token_threshold has no effect. The policy %r goes by %s.",
            policy.name,
            policy.meter,
        )
    engine = CompactionEngine(
        config.context_token_threshold,
        summary_model=summary_writer(config.summary_model, config, provider),
        policy=policy,
        info=provider.info(),
        fallback_model=summary_writer(config.fallback_model, config, provider),
        live_variables=live_variables(config, namespace),
        encoding=encoding_of(config),
    )
    engine.tracker.base_policy = policy_named(config.policy)
    set_attributes(config, engine=engine)
    return engine


def set_attributes(config: NbChat, names: Iterable[str] = TABLE, **owners: Any) -> None:
    """Set the attributes that take a setting's value as it is; an empty text is None.

    The table names them, as in "engine.summary_prompt".
    """
    for name in names:
        owner, _, attribute = TABLE[name].apply.partition(".")
        if attribute and owner in owners:
            value = getattr(config, name)
            setattr(owners[owner], attribute, None if value == "" else value)


def request_options(config: NbChat) -> RequestOptions:
    """The options of requests that are set."""
    names = (name for name, row in TABLE.items() if row.apply == "request_options")
    return checked({name: getattr(config, name) for name in names})


def live_variables(config: NbChat, namespace: Namespace | None) -> LiveVariables | None:
    """Lists the notebook's variables for summaries; None if it may not."""
    is_on = config.notebook_context != "off"
    return reader(namespace) if namespace and is_on else None


def encoding_of(config: NbChat) -> str:
    """The encoding to count tokens with; empty for the model's own."""
    return CHARACTERS if config.tokenizer == CHARACTERS else ""


def policy_of(config: NbChat, base: Policy | None = None) -> Policy:
    """The policy with what site files change of it; `base` replaces the set one."""
    policy = base or policy_named(config.policy)
    fields = dict(config.policy_fields.get(policy.name, {}))
    if config.automatic == "ask":
        fields["asks_first"] = True
    elif config.automatic == "false":
        fields["meter"] = "off"
    return with_fields(policy, fields)


def connected(
    config: NbChat,
    name: str,
    *,
    base_url: str,
    window: int | None = None,
    api_key: str | ReadKey | None = None,
) -> Provider:
    """Connect to a model with the settings about keys."""
    name = name or configured_model(config)
    hosts = re.split(r"[\s,]+", config.api_key_hosts.strip())
    if server_of(base_url) in config.keys.servers:
        hosts.append(urlsplit(base_url).hostname or "")
    return connect(
        name,
        base_url=base_url,
        api_key=api_key or config.keys.reader(kind_of(name), base_url),
        window=window,
        api_key_hosts=hosts,
        headers=_headers(config.headers),
        proxy=config.proxy,
    )


def _headers(text: str) -> dict[str, str]:
    """Headers from `Name: value` parts, separated by semicolons or lines."""
    parts = [part for part in re.split(r"[;\n]", text) if part.strip()]
    pairs = [part.partition(":") for part in parts]
    for name, colon, value in pairs:
        if not (colon and HEADER_NAME.fullmatch(name.strip()) and value.isprintable()):
            raise ConfigError(
                f"headers can't be {name.strip()!r}. Write Name: value, and separate "
                "several by semicolons."
            )
    return {name.strip(): value.strip() for name, _, value in pairs}


def configured_model(config: NbChat) -> str:
    """The model that is set; else the default for a key, or the embedded one."""
    return config.model or model_of(config.keys.provider()) or default_model()


def model_of(kind: str) -> str:
    """The default model of a provider; empty if it takes no key."""
    return DEFAULT_MODELS.get(KEY_VARIABLES.get(kind, ""), "")


def connect_as(
    config: NbChat, name: str, current: Provider, *, window: int | None = None
) -> Provider:
    """Connect to a model by name, for a chat that uses `current`.

    A model of the same provider is reached at the same server with the same key. If a
    site locks `base_url`, every model is reached there.
    """
    kind, _, model = name.partition(":")
    if is_locked("base_url"):
        return connected(config, name, base_url=config.base_url, window=window)
    is_same_kind = kind == kind_of(current.name)
    if model and is_same_kind and isinstance(current, ServedProvider):
        return current.sibling(model, window=window)
    return connected(config, name, base_url=address_of(config, name), window=window)


def address_of(config: NbChat, name: str) -> str:
    """The configured address, where a model is of the configured one's provider.

    If a site locks `base_url`, every model is reached there.
    """
    is_configured = kind_of(name) == kind_of(config.model or default_model())
    return config.base_url if is_configured or is_locked("base_url") else ""


def kind_of(model: str) -> str:
    """The provider in a model's name."""
    return model.partition(":")[0]


def summary_writer(
    name: str, config: NbChat, provider: Provider
) -> str | Provider | None:
    """The model that writes summaries; a name without provider means the chat's."""
    if ":" not in name:
        return name or None
    return provider if name == provider.name else connect_as(config, name, provider)
