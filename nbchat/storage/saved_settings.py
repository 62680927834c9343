"""Settings stored by `/set`: for all models, a provider, a model or one session.

They are kept in the database beside the sessions. They override packaged defaults and
site files; the environment, IPython's configuration and code override them, except
those of a session; a setting that a site locks never changes.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any

from traitlets import TraitError

from nbchat.config.layers import CHOICE
from nbchat.config.policy_and_models import window_for
from nbchat.config.settings import (
    MODEL_SETTINGS,
    TABLE,
    Kind,
    NbChat,
)
from nbchat.errors import StoreError
from nbchat.providers.connect import default_model
from nbchat.storage.serialization import session_scope
from nbchat.storage.store import SessionStore

logger = logging.getLogger(__name__)

THIS_SESSION = "session"
"""How `/set` and the dialog name the scope of the session that is open."""

CHOSEN_MODEL = "chosen_model"
"""The name under which a session keeps its model, with the one configured then."""

Found = dict[str, tuple[str, Any]]
"""Stored values by the name they are stored under, each with its scope."""


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """One setting with its value for a model, as `/settings` and the dialog show it."""

    name: str
    value: str
    help: str
    kind: Kind
    origin: str
    """Where the value comes from."""
    choices: tuple[str, ...]
    scope: str | None
    """The scope of the value: a model, a provider, "session" or "" (all models); None
    if it is not stored."""


@dataclass(frozen=True, slots=True)
class Target:
    """The purpose of the settings; what is empty is as configured."""

    model: str = ""
    session_id: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Whose settings apply, the last one wins: all, provider, model, session."""
        own = (session_scope(self.session_id),) if self.session_id else ()
        return ("", self.model.partition(":")[0], self.model, *own)

    def scope(self, name: str) -> str:
        """The scope in the database of a scope as a person names it."""
        is_own = name == THIS_SESSION and self.session_id
        return session_scope(self.session_id) if is_own else name

    def scope_name(self, scope: str) -> str:
        """How a scope in the database is named to a person."""
        is_own = self.session_id and scope == session_scope(self.session_id)
        return THIS_SESSION if is_own else scope


def with_saved_settings(
    config: NbChat, store: SessionStore, target: Target | None = None
) -> NbChat:
    """A copy of the settings with what is stored for a target.

    An unreadable store changes nothing.
    """
    target = _known(config, target)
    return _merged(config, _stored(config, store, target), target)


def keep_model(
    config: NbChat, store: SessionStore, session_id: str, chosen: tuple[str, str]
) -> None:
    """Remember a session's model, by name and address, for after a restart.

    A store that fails is logged.
    """
    try:
        name, address = chosen
        kept = [name, _configured(config), address]
        store.set_setting(session_scope(session_id), CHOSEN_MODEL, kept)
    except StoreError as error:
        logger.warning("Can't keep the model for this session: %s", error)


def kept_model(
    config: NbChat, store: SessionStore, session_id: str
) -> tuple[str, str | None]:
    """The model chosen for a session, with its address; none is as configured.

    The name is empty if another was configured or locked since. An unreadable store has
    none.
    """
    if not session_id or "model" in config.locks:
        return "", None
    try:
        found = store.settings([session_scope(session_id)]).get(CHOSEN_MODEL)
    except StoreError:
        return "", None
    match found:
        case (_, [str(name), configured, *rest]) if configured == _configured(config):
            return name, rest[0] if rest else None
    return "", None


def _configured(config: NbChat) -> str:
    """The configured model; a choice for new chats concerns no chat with its own."""
    return "" if config.origins.get("model") == CHOICE else config.model


def settings_in_force(
    config: NbChat, store: SessionStore, target: Target | None = None
) -> list[SettingInForce]:
    """Everything that `/set` can store, with its value for a target and its origin."""
    target = _known(config, target)
    found = _stored(config, store, target)
    merged = _merged(config, found, target)
    scopes = {name: target.scope_name(scope) for name, (scope, _) in found.items()}
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


def stored_settings(config: NbChat, store: SessionStore, target: Target) -> set[str]:
    """Names of the settings that are stored for a target and not overridden."""
    return _stored(config, store, _known(config, target)).keys() & TABLE.keys()


def _known(config: NbChat, target: Target | None) -> Target:
    target = target or Target()
    return replace(target, model=target.model or config.model or default_model())


def _stored(config: NbChat, store: SessionStore, target: Target) -> Found:
    """The values stored for a target and not overridden, by their stored names."""
    scopes = target.scopes
    try:
        found = store.settings(scopes)
    except StoreError as error:
        logger.warning("Can't read the stored settings: %s", error)
        return {}
    own = scopes[3:]
    return {
        name: (scope, value)
        for name, (scope, value) in found.items()
        if scope in own or not is_overridden(config, name)
    }


def is_overridden(config: NbChat, name: str) -> bool:
    """True if the environment, configuration or code sets a setting."""
    return name in config.explicit


def _merged(config: NbChat, found: Found, target: Target) -> NbChat:
    """A copy of the settings with what was found for a target."""
    merged = config.copy()
    if merged.window != (window := window_for(config, target.model)):
        merged.window = window
    origins = dict(merged.origins)
    for name in MODEL_SETTINGS:
        if name not in found or name in merged.locks:
            continue
        scope, value = found[name]
        try:
            setattr(merged, name, value)
            origins[name] = _set_for(target.scope_name(scope))
        except TraitError as error:  # stored by another version of nbchat
            logger.warning("Ignored a stored setting: %s", error)
    merged.origins = origins
    return merged


def _set_for(scope: str) -> str:
    if scope == THIS_SESSION:
        return "set for this session"
    return f"set for {scope or 'all models'}"


def _origin(name: str, config: NbChat) -> str:
    if name in config.locks:
        return f"locked by {config.locks[name]}"
    return config.origins.get(name, "default")
