"""Build the policy, the models and the tokenizer of a chat from the settings."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.summary_entry import LiveVariables
from nbchat.config.api_keys import KEY_VARIABLES
from nbchat.config.precedence import is_locked
from nbchat.config.settings import POLICY_FIELDS, TABLE, NbChat
from nbchat.conversation.live_variables import reader
from nbchat.errors import ConfigError
from nbchat.providers.base import Provider, SupportsSiblings
from nbchat.providers.connect import DEFAULT_MODELS, connect, default_model
from nbchat.providers.request_options import RequestOptions, checked
from nbchat.providers.tokens import CHARACTERS

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~\w-]+", re.ASCII)

Namespace = Callable[[], Mapping[str, object]]
"""Returns the notebook's variables, which summaries may list."""


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
    """What lists the notebook's variables for summaries; None if it may not."""
    return reader(namespace) if namespace and config.live_variables else None


def encoding_of(config: NbChat) -> str:
    """The encoding to count tokens with; empty for the model's own."""
    return CHARACTERS if config.tokenizer == CHARACTERS else ""


def policy_of(config: NbChat, base: Policy | None = None) -> Policy:
    """The policy with the fields that are set on their own.

    `base` replaces the configured policy.
    """
    fields = {field: getattr(config, name) for name, field in POLICY_FIELDS.items()}
    fields |= {} if config.automatic else {"meter": "off"}
    given = {name: value for name, value in fields.items() if value is not None}
    if tools := given.get("protected_tools"):
        given["protected_tools"] = tuple(re.split(r"[\s,]+", tools.strip()))
    return replace(base or policy_named(config.policy), **given)


def connected(
    config: NbChat, name: str, *, base_url: str, window: int | None = None
) -> Provider:
    """Connect to a model with the settings about keys."""
    name = name or configured_model(config)
    return connect(
        name,
        base_url=base_url,
        api_key=config.keys.reader(kind_of(name), base_url),
        window=window,
        api_key_hosts=re.split(r"[\s,]+", config.api_key_hosts.strip()),
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
                f"invalid headers: {name.strip()!r} is not of the form Name: "
                "value; separate several by semicolons"
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
    if model and is_same_kind and isinstance(current, SupportsSiblings):
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
