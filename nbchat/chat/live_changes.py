"""Change a setting of a running chat: check, store and apply it, update the views."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.compaction.policies import Policy, policy_named
from nbchat.config.api_keys import Place
from nbchat.config.layers import (
    BY_CONFIGURATION,
    changed_connection,
    choose_window,
    is_locked,
    refuse_locked,
    settings,
    trusted_addresses,
)
from nbchat.config.policy_and_models import (
    Namespace,
    address_of,
    configured_model,
    connect_as,
    connected,
    encoding_of,
    kind_of,
    live_variables,
    model_of,
    policy_of,
    request_options,
    set_attributes,
    summary_writer,
)
from nbchat.config.settings import (
    DEFAULT,
    EMPTY,
    MODEL_SETTINGS,
    TABLE,
    NbChat,
    unknown_setting,
)
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.base import Provider, ServedProvider
from nbchat.providers.connect import EMBEDDED_MODEL, Unconnected, default_model
from nbchat.providers.endpoint import is_encrypted, server_of
from nbchat.providers.provider_table import KINDS
from nbchat.storage.saved_settings import (
    THIS_SESSION,
    SettingInForce,
    Target,
    is_overridden,
    keep_model,
    kept_model,
    settings_in_force,
    stored_settings,
    with_saved_settings,
)
from nbchat.storage.serialization import session_scope
from nbchat.storage.store import SessionStore

logger = logging.getLogger(__name__)

SUMMARY_WRITERS = tuple(
    name for name, row in TABLE.items() if row.apply == "summary_writer"
)
"""Settings that name a model that writes summaries."""


NOTEBOOK_TOOLS = {
    True: "The model can now read, edit and run cells. You approve each change.",
    False: "The model can no longer read, edit and run cells.",
}
"""The answers once the model may use the notebook, and once it may not."""


class LiveSettings:
    """The settings of one running chat.

    A change that is refused leaves the settings, the database and the chat as they
    were.
    """

    def __init__(
        self,
        store: SessionStore,
        config: NbChat | None = None,
        *,
        namespace: Namespace | None = None,
        changed: Callable[[NbChat], None] = lambda _config: None,
    ) -> None:
        """Call `changed` with the settings in force after each change.

        Without a `config` the settings are read at first use. `namespace` returns the
        variables that summaries may list.
        """
        self._store = store
        self._config = config
        self._namespace = namespace
        self._changed = changed
        self._is_reverting = False
        self._is_rereading = False
        self._own_policy: Policy | None = None
        """Policy of an agent made in code, before its session chose another."""

    @property
    def config(self) -> NbChat:
        """The settings without values stored by `/set`."""
        if self._config is None:
            self._config = settings()
        return self._config

    def in_force(self, agent: Agent | None = None) -> NbChat:
        """A copy of the settings for a chat, or for new chats, stored ones included."""
        target = self._target(agent) if agent else None
        return with_saved_settings(self.config, self._store, target)

    def listed(self, agent: Agent) -> list[SettingInForce]:
        """Everything that `/set` can store, with its value for a chat."""
        return settings_in_force(self.config, self._store, self._target(agent))

    def set(self, agent: Agent, name: str, text: str, scope: str = "") -> str:
        """Store a setting, apply it if it is for this chat; report it.

        `scope` is "" (all models), a provider, a model or "session". Raises ConfigError
        if the setting is unknown, invalid or locked.
        """
        target = self._target(agent)
        model = agent.provider.name
        text = _with_provider(name, text, scope, model)
        value = _checked(name, text)
        if scope == THIS_SESSION and not target.session_id:
            raise ConfigError(
                "This chat isn't saved yet, so it has no settings of its own."
            )
        self._store_and_apply(agent, target.scope(scope), name, value)
        if name == "window":
            choose_window(scope, value)  # agents in Python don't read the store
        if name == "notebook_tools" and not scope:
            return NOTEBOOK_TOOLS[bool(value)]
        done = f"Reset {name}" if value is None else f"Set {name} to {text}"
        whom = "this session" if scope == THIS_SESSION else scope or "all models"
        is_hidden = scope != THIS_SESSION and is_overridden(self.config, name)
        more = " The environment, configuration or code overrides it for now."
        return f"{done} for {whom}.{more * is_hidden}"

    def use_model(
        self,
        agent: Agent,
        name: str,
        check: Callable[[Provider], None] = lambda _provider: None,
    ) -> None:
        """Continue the chat with another model and the settings stored for it.

        This session keeps it after a restart, until another one is configured. `check`
        may refuse it.
        """
        refuse_locked(model=name)
        window = self.window_of(name)
        provider = connect_as(self.config, name, agent.provider, window=window)
        check(provider)
        self._use(agent, provider)
        self._keep_model(agent)

    def use_provider(self, agent: Agent, provider: Provider, address: str) -> None:
        """Continue the chat with a connected model, which this session keeps."""
        self._use(agent, provider)
        self._keep_model(agent, address)

    def window_of(self, name: str) -> int | None:
        """The window that is set for a model."""
        return with_saved_settings(self.config, self._store, Target(name)).window

    @property
    def locked_address(self) -> str:
        """The address that a site sets for all models; empty if it sets none."""
        return self.config.base_url if is_locked("base_url") else ""

    def use_key(self, agent: Agent, kind: str, key: str) -> Place:
        """Continue with a key that a person typed, and a model of its provider.

        It is for the server that the chat asks, if that is one of `kind`. Says where
        the key is kept. Raises NbchatError if it cannot be one, or while a turn runs.
        """
        known, config = agent.provider.name, self.config
        name = known if kind == kind_of(known) else model_of(kind)
        url = address_of(config, name or f"{kind}:")
        if kind == kind_of(known):
            url = getattr(agent.provider, "own_address", url)
        place = config.keys.add(kind, key, base_url=url)
        if not name:
            return place
        refuse_locked(model=config.model if name == known else name)
        target = replace(self._target(agent), model=name)
        window = with_saved_settings(config, self._store, target).window
        self._use(agent, connected(config, name, base_url=url, window=window))
        self._keep_model(agent)
        return place

    def send_key(self, agent: Agent) -> None:
        """Send the provider's key to the chat's server from now on, in this kernel.

        Only to an address that this person typed, or that comes from their environment
        or a site file, and never by plain HTTP to another machine. Raises ConfigError.
        """
        provider, name = agent.provider, agent.provider.name
        url = getattr(provider, "own_address", "")
        self.allow_key(url, kind_of(name))
        window = self.in_force(agent).window
        self._use(agent, connected(self.config, name, base_url=url, window=window))

    def allow_key(self, address: str, kind: str = "openai") -> None:
        """Let a server have the provider's key in this kernel; raises ConfigError."""
        config, server = self.config, server_of(address)
        if "api_key_hosts" in config.locks:
            file = config.locks["api_key_hosts"]
            raise ConfigError(f"{file} doesn't allow sending a key to {server}.")
        if not is_encrypted(address):
            raise ConfigError(f"{server} is reached by plain HTTP. Use https:// first.")
        if address not in trusted_addresses(config, kind):
            raise ConfigError(
                f"The address of {server} was set by code in this notebook. To send "
                "your key there, type the address in Models."
            )
        config.keys.servers += (server,)

    def reread(self, agent: Agent) -> None:
        """Apply changes of the environment and site files to the model.

        What IPython's configuration or code has set stays, and so does the model that
        was chosen for the chat, unless another one is configured.
        """
        self.take_changes()
        if self._is_waiting_for_a_key(agent):
            window = self.in_force().window
            url = self.config.base_url
            self._use(agent, connected(self.config, "", base_url=url, window=window))

    def take_changes(self) -> None:
        """Take over the model and address from the environment and site files."""
        self._is_rereading = True
        try:
            for name, value in changed_connection(self.config).items():
                setattr(self.config, name, value)
        finally:
            self._is_rereading = False

    def _is_waiting_for_a_key(self, agent: Agent) -> bool:
        """True if a key has come that names a model, and no one has chosen one."""
        provider, config = agent.provider, self.config
        is_makeshift = isinstance(provider, Unconnected) or (
            provider.name == EMBEDDED_MODEL
            and not kept_model(config, self._store, self._session(agent))[0]
        )
        is_unset = not config.model and is_makeshift
        return is_unset and provider.name != configured_model(config)

    def _keep_model(self, agent: Agent, address: str | None = None) -> None:
        if session_id := self._session(agent):
            provider = agent.provider
            if address is None:
                address = getattr(provider, "own_address", "")
            chosen = (provider.name, address)
            keep_model(self.config, self._store, session_id, chosen)

    def use_policy(self, agent: Agent, name: str) -> None:
        """Choose a policy for this session alone, also after a restart.

        A session that is not saved has it until the chat ends.
        """
        base = policy_named(name)
        refuse_locked(policy=name)
        target = self._target(agent)
        self._own_policy = self._own_policy or agent.engine.tracker.base_policy
        if target.session_id:
            scope = target.scope(THIS_SESSION)
            self._store_and_apply(agent, scope, "policy", name)
        else:
            config = with_saved_settings(self.config, self._store, target)
            use_policy(agent, config, base)

    def use_session(self, agent: Agent, before: str, *, copies: bool = False) -> None:
        """Apply what is stored for the session that was opened instead of `before`.

        `copies` gives it the settings of that session, as for a branch. The model
        stays; each session is kept with the one it is continued with.
        """
        each_has = (before, self._session(agent))
        if any(kept_model(self.config, self._store, each)[0] for each in each_has):
            self._keep_model(agent)
        own = {each: session_scope(each) for each in (before, self._session(agent))}
        if before and copies:
            for name, (_, value) in self._store.settings([own[before]]).items():
                self._store.set_setting(own[self._session(agent)], name, value)
        stored = self._store.settings([scope for each, scope in own.items() if each])
        names = [name for name in TABLE if name in stored]
        if names:
            self.apply(agent, [*names, "automatic"])

    def follow(self, agent: Agent | None, change: Mapping[str, Any]) -> None:
        """Apply a change of the configuration, as traitlets reports it.

        Other settings stay as they are, also those chosen for this session. Raises
        NbchatError if the chat cannot follow; the old value is then restored.
        """
        if self._is_reverting:
            return
        name, config = change["name"], self.config
        before = config.explicit, config.assigned, config.origins
        config.explicit = config.explicit | {name}
        if not self._is_rereading:
            config.assigned = {**config.assigned, name: change["new"]}
            config.origins = {**config.origins, name: BY_CONFIGURATION}
        try:
            if agent is None:
                self._changed(self.in_force())
            else:
                self._follow(agent, name)
        except NbchatError:
            self._is_reverting = True
            try:
                setattr(config, name, change["old"])
            finally:
                self._is_reverting = False
            config.explicit, config.assigned, config.origins = before
            raise

    def apply(self, agent: Agent, names: Iterable[str]) -> None:
        """Let the chat follow the settings in force for it."""
        config = self.in_force(agent)
        for name in names:
            if name == "policy":
                use_policy(agent, config, self._base_policy(config))
            elif name == "notebook_context":
                agent.engine.live_variables = live_variables(config, self._namespace)
            else:
                apply_setting(agent, config, name)
        self._changed(config)

    def _base_policy(self, config: NbChat) -> Policy:
        """The set policy, or one given in code if the session has chosen none.

        The other fields of a policy made in code are its own.
        """
        chosen = policy_named(config.policy)
        own = self._own_policy
        if own is not None and "policy" not in config.origins:
            self._own_policy = None
            return own
        return chosen

    def _store_and_apply(self, agent: Agent, scope: str, name: str, value: Any) -> None:
        """Store a value, and apply it if it is for this chat; both or neither."""
        _, before = self._store.settings([scope]).get(name, (scope, None))
        self._store.set_setting(scope, name, value)
        if scope in self._target(agent).scopes:
            try:
                self.apply(agent, [name])
            except NbchatError:
                self._store.set_setting(scope, name, before)
                raise

    def _target(self, agent: Agent) -> Target:
        return Target(agent.provider.name, self._session(agent))

    def _session(self, agent: Agent) -> str:
        return agent.session.session_id

    def _follow(self, agent: Agent, name: str) -> None:
        if agent.is_answering:
            raise NbchatError("The chat is answering. Change settings when it's done.")
        how, is_new = TABLE[name].apply, isinstance(agent.provider, Unconnected)
        if how != "model" and not (is_new and how == "base_url"):
            self.apply(agent, [name])
            chosen = agent.engine.tracker.base_policy.name
            if name == "policy" and chosen != self.config.policy:
                logger.warning(
                    "This session keeps its policy %r. /policy changes it.", chosen
                )
            return
        config = self.config
        window = self.in_force().window
        url = config.base_url
        self._use(agent, connected(config, config.model, base_url=url, window=window))

    def _use(self, agent: Agent, provider: Provider) -> None:
        old = agent.provider
        writers = {name: getattr(agent.engine, name) for name in SUMMARY_WRITERS}
        targets = [
            replace(self._target(agent), model=each.name) for each in (old, provider)
        ]
        stored = {
            name
            for target in targets
            for name in stored_settings(self.config, self._store, target)
        }
        names = [name for name in TABLE if name in stored | {"automatic"}]
        try:
            agent.use(provider)
            _keep_summary_writers(agent, self.config, old)
            self.apply(agent, names)
        except NbchatError:
            agent.use(old)
            for name, writer in writers.items():
                setattr(agent.engine, name, writer)
            self.apply(agent, names)
            raise


def use_policy(agent: Agent, config: NbChat, base: Policy) -> None:
    """Use a policy with the fields that are set for it."""
    agent.engine.tracker.use_policy(policy_of(config, base), base=base)


def apply_setting(agent: Agent, config: NbChat, name: str) -> None:
    """Apply one setting to a running chat; raises ConfigError if that's impossible."""
    how = TABLE[name].apply
    if how in APPLY:
        APPLY[how](agent, config, name)
    else:
        set_attributes(config, [name], agent=agent, engine=agent.engine)


def _apply_summary_writer(agent: Agent, config: NbChat, name: str) -> None:
    writer = summary_writer(getattr(config, name), config, agent.provider)
    setattr(agent.engine, name, writer)


def _apply_window(agent: Agent, config: NbChat, _name: str) -> None:
    provider, window = agent.provider, config.window
    if window is None and isinstance(provider, ServedProvider):
        # A new one: the old one may have been made with a window.
        provider = provider.sibling(provider.name.partition(":")[2])
    agent.use(provider, window=window)


def _apply_to_requests(agent: Agent, config: NbChat, name: str) -> None:
    """Set an attribute that changes what a request needs; restore it if refused."""
    attribute = "system" if name == "system_prompt" else name
    before = getattr(agent, attribute)
    setattr(agent, attribute, getattr(config, name))
    try:
        agent.use(agent.provider, window=config.window)
    except NbchatError:
        setattr(agent, attribute, before)
        raise


def _apply_tokenizer(agent: Agent, config: NbChat, _name: str) -> None:
    agent.engine.tracker.encoding = encoding_of(config)
    agent.use(agent.provider, window=config.window)


def _apply_base_url(agent: Agent, config: NbChat, _name: str) -> None:
    """Reach the chat's models at another address, if they are of its provider."""
    provider, kind = agent.provider, kind_of(config.model or default_model())
    if kind == kind_of(provider.name) and isinstance(provider, ServedProvider):
        url, window = config.base_url, config.window
        agent.use(connected(config, provider.name, base_url=url, window=window))
    for name in SUMMARY_WRITERS:
        if ":" in getattr(config, name):  # a name alone follows the chat's model
            apply_setting(agent, config, name)


def _apply_log_folder(agent: Agent, config: NbChat, _name: str) -> None:
    if agent.autosave is not None:
        agent.autosave.write_log_to(config.log_folder)


def _refuse(_agent: Agent, _config: NbChat, name: str) -> None:
    raise ConfigError(
        f"{name} can't change while a chat is open. Set {TABLE[name].variable} or "
        "IPython's configuration before the first %chat."
    )


APPLY: Mapping[str, Callable[[Agent, NbChat, str], None]] = {
    "policy": lambda agent, config, _name: use_policy(
        agent, config, agent.engine.tracker.base_policy
    ),
    "threshold": lambda agent, config, _name: agent.engine.tracker.set_threshold(
        config.context_token_threshold
    ),
    "summary_writer": _apply_summary_writer,
    "window": _apply_window,
    "request": _apply_to_requests,
    "request_options": lambda agent, config, name: agent.set_options(
        {name: dict(request_options(config)).get(name)}
    ),
    "tokenizer": _apply_tokenizer,
    "base_url": _apply_base_url,
    "log_folder": _apply_log_folder,
    "view": lambda _agent, _config, _name: None,  # the views follow on their own
    "restart": _refuse,
}
"""Functions that the table names in `apply`, for settings that are not copied as is."""


def _keep_summary_writers(agent: Agent, config: NbChat, provider: Provider) -> None:
    """Let writers named without a provider stay with `provider`, now another one."""
    kind = kind_of(provider.name)
    if kind == kind_of(agent.provider.name) or kind not in KINDS:
        return
    for name in SUMMARY_WRITERS:
        if isinstance(model := getattr(agent.engine, name), str):
            writer = connect_as(config, f"{kind}:{model}", provider)
            setattr(agent.engine, name, writer)


def _with_provider(name: str, text: str, scope: str, model: str) -> str:
    """A value for all models: a model's name alone gets the provider of the chat."""
    kind = kind_of(model)
    is_name_alone = (
        name in SUMMARY_WRITERS and ":" not in text and text not in (DEFAULT, EMPTY)
    )
    return f"{kind}:{text}" if is_name_alone and not scope and kind in KINDS else text


def _checked(name: str, text: str) -> Any:
    """The value to store; None removes it. Raises ConfigError."""
    if name not in MODEL_SETTINGS:
        raise ConfigError(_not_stored(name))
    row = TABLE[name]
    value = None if text == DEFAULT else row.parse(text)
    refuse_locked(**{name: row.default if value is None else value})
    return value


def _not_stored(name: str) -> str:
    if name in TABLE:
        return (
            f"/set can't store {name}. Use %config NbChat.{name} = ... or "
            f"{TABLE[name].variable}."
        )
    listed = "/settings lists them all."
    return unknown_setting(name, known=MODEL_SETTINGS, listed=listed)
