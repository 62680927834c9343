"""What a person has set for good: for all models, for a provider's, or for one model.

They count more than defaults and site files, and less than the environment, IPython's
configuration and code; what a site locks they do not change. They are kept in the
database beside the sessions.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from traitlets import Bool, Enum, Float, Int, TraitError, TraitType, Unicode

from nbchat.compaction.policies import PRESETS
from nbchat.config.settings import NbChat, refuse_locked
from nbchat.errors import ConfigError, StoreError
from nbchat.providers import default_model
from nbchat.storage.store import SessionStore

logger = logging.getLogger(__name__)

POLICY_FIELDS = (
    "window_share",
    "target_share",
    "keep",
    "keep_unit",
    "bullets",
    "least_tokens",
    "summarizer",
    "prunes",
    "verbosity",
)
"""Fields of a policy that are settings, too."""

WRITERS = ("summary_model", "fallback_model")
"""Settings that name a model."""

SETTABLE = (
    "policy",
    "automatic",
    "context_token_threshold",
    *POLICY_FIELDS,
    "summary_style",
    "summary_detail",
    *WRITERS,
    "summary_prompt",
    "notifications",
    "window",
    "max_output_tokens",
)
"""What may differ from model to model and be changed while a chat runs."""

TAKEN_BACK = "default"
"""The word that takes a preference back."""

EMPTY = '""'
"""What stands for a text without any letters, where a setting is a text."""

KINDS = ((Bool, "bool"), (Int, "int"), (Float, "float"))


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as a person sees it."""

    name: str
    value: str
    help: str
    kind: str
    """How it is entered: choice, bool, int, float or text."""
    origin: str
    """Where the value comes from."""
    choices: tuple[str, ...] = ()
    scope: str | None = None
    """For whom the preference is kept that counts; None where none does."""


def scopes_of(model: str) -> tuple[str, str, str]:
    """Whose preferences count for a model: those of all, of its provider, its own."""
    return ("", model.partition(":")[0], model)


def with_preferences(config: NbChat, store: SessionStore, model: str = "") -> NbChat:
    """The settings for a model with what was set for good.

    A store that cannot be read changes nothing.
    """
    changed = NbChat(**_values(config))
    changed.explicit, origins = config.explicit, dict(config.origins)
    for name, (scope, value) in kept(config, store, model).items():
        try:
            setattr(changed, name, value)
            origins[name] = origin_of(scope)
        except TraitError as error:  # of another version of nbchat
            logger.warning(
                "the setting %s kept in the store cannot be: %s", name, error
            )
    changed.origins, changed.locks = origins, config.locks
    return changed


def origin_of(scope: str) -> str:
    """Where a preference is from, in words."""
    return f"set for {scope or 'all models'}"


def listed(config: NbChat, store: SessionStore, model: str = "") -> list[Setting]:
    """Everything that can be set, with its value for a model and where that is from."""
    found = with_preferences(config, store, model)
    scopes = {name: scope for name, (scope, _) in kept(config, store, model).items()}
    settings = (_setting(name, found) for name in SETTABLE)
    return [replace(each, scope=scopes.get(each.name)) for each in settings]


def parsed(name: str, text: str) -> Any:
    """A setting's value from what a person wrote; raises ConfigError, also when locked.

    None is what "default" means; two quotation marks are the empty text.
    """
    if name not in SETTABLE:
        raise ConfigError(
            f"there is no setting {name!r}; there are {', '.join(SETTABLE)}"
        )
    trait = NbChat.class_traits()[name]
    if text == TAKEN_BACK:
        refuse_locked(**{name: trait.default_value})
        return None
    written = "" if text == EMPTY and isinstance(trait, Unicode) else text
    try:
        value = trait.from_string(written)
        value = trait._validate(NbChat(), value)  # noqa: SLF001  # the only way to ask
    except (TraitError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{name} cannot be {text!r}: {reason}") from error
    refuse_locked(**{name: value})
    return value


def kept(config: NbChat, store: SessionStore, model: str) -> dict[str, tuple[str, Any]]:
    """What was set for good for a model and counts, each with the scope it is from."""
    try:
        found = store.settings(scopes_of(model or config.model or default_model()))
    except StoreError as error:
        logger.warning("settings kept in the store cannot be read: %s", error)
        return {}
    names = set(SETTABLE) - config.explicit - config.locks.keys()
    return {name: pair for name, pair in found.items() if name in names}


def _setting(name: str, config: NbChat) -> Setting:
    trait = config.traits()[name]
    value = getattr(config, name)
    choices = tuple(_choices(name, trait))
    kinds = (kind for type_, kind in KINDS if isinstance(trait, type_))
    text = TAKEN_BACK if value is None and choices else ""
    if value is not None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return Setting(
        name,
        text,
        str(trait.help),
        "choice" if choices else next(kinds, "text"),
        _origin(name, config),
        choices,
    )


def _origin(name: str, config: NbChat) -> str:
    if name in config.locks:
        return f"locked by {config.locks[name]}"
    return config.origins.get(name, "default")


def _choices(name: str, trait: TraitType[Any, Any]) -> Iterator[str]:
    if name == "policy":
        yield from PRESETS
    elif isinstance(trait, Enum):
        yield from (*map(str, trait.values or ()), TAKEN_BACK)
    elif isinstance(trait, Bool) and trait.allow_none:
        yield from ("true", "false", TAKEN_BACK)


def _values(config: NbChat) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.traits(config=True)}
