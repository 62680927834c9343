"""Settings stored by `/set`: for all models, for a provider, or for one model.

They are kept in the database beside the sessions. They override packaged defaults and
site files; the environment, IPython's configuration and code override them, and a
setting that a site locks never changes.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from traitlets import TraitError

from nbchat.config.settings import MODEL_SETTINGS, TABLE, NbChat
from nbchat.errors import StoreError
from nbchat.providers.connect import default_model
from nbchat.storage.store import SessionStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """One setting with its value for a model, as `/settings` and the dialog show it."""

    name: str
    value: str
    help: str
    kind: str
    """How it is entered: choice, bool, int, float or text."""
    origin: str
    """Where the value comes from."""
    choices: tuple[str, ...] = ()
    scope: str | None = None
    """The model, provider or "" (all models) it is stored for; None if not stored."""


def scopes_of(model: str) -> tuple[str, str, str]:
    """Whose preferences apply to a model, the last one wins: all, provider, model."""
    return ("", model.partition(":")[0], model)


def with_preferences(config: NbChat, store: SessionStore, model: str = "") -> NbChat:
    """A copy of the settings with what is stored for a model.

    An unreadable store changes nothing.
    """
    return _merged(config, stored(config, store, model))


def settings_in_force(
    config: NbChat, store: SessionStore, model: str = ""
) -> list[SettingInForce]:
    """Everything that `/set` can store, with its value for a model and its origin."""
    preferences = stored(config, store, model)
    merged = _merged(config, preferences)
    scopes = {name: scope for name, (scope, _) in preferences.items()}
    return [
        SettingInForce(
            name,
            row.text(getattr(merged, name)),
            row.help,
            row.kind,
            _origin(name, merged),
            row.choices,
            scopes.get(name),
        )
        for name, row in TABLE.items()
        if name in MODEL_SETTINGS
    ]


def stored(
    config: NbChat, store: SessionStore, model: str = ""
) -> dict[str, tuple[str, Any]]:
    """The preferences that apply to a model, each with the scope it is stored for."""
    try:
        found = store.settings(scopes_of(model or config.model or default_model()))
    except StoreError as error:
        logger.warning("stored settings cannot be read: %s", error)
        return {}
    names = {*MODEL_SETTINGS} - config.explicit - config.locks.keys()
    return {name: pair for name, pair in found.items() if name in names}


def _merged(config: NbChat, preferences: Mapping[str, tuple[str, Any]]) -> NbChat:
    merged, origins = config.copy(), dict(config.origins)
    for name, (scope, value) in preferences.items():
        try:
            setattr(merged, name, value)
            origins[name] = f"set for {scope or 'all models'}"
        except TraitError as error:  # stored by another version of nbchat
            logger.warning("a stored setting is ignored: %s", error)
    merged.origins = origins
    return merged


def _origin(name: str, config: NbChat) -> str:
    if name in config.locks:
        return f"locked by {config.locks[name]}"
    return config.origins.get(name, "default")
