"""Change a setting of a running chat: check it, store it, apply it, tell the views."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.compaction.policies import policy_named
from nbchat.config.components import (
    Namespace,
    connect_as,
    connected,
    encoding_of,
    kind_of,
    live_variables,
    policy_of,
    request_options,
    set_attributes,
    summary_writer,
)
from nbchat.config.layers import refuse_locked, settings
from nbchat.config.preferences import (
    SettingInForce,
    scopes_of,
    settings_in_force,
    stored,
    with_preferences,
)
from nbchat.config.settings import DEFAULT, EMPTY, MODEL_SETTINGS, TABLE, NbChat
from nbchat.errors import ConfigError, NbchatError, StoreError
from nbchat.providers.base import Provider, SupportsSiblings
from nbchat.providers.connect import KINDS, default_model
from nbchat.providers.unconnected import Unconnected
from nbchat.storage.store import SessionStore

SUMMARY_WRITERS = tuple(
    name for name, row in TABLE.items() if row.apply == "summary_writer"
)
"""Settings that name a model that writes summaries."""


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

    @property
    def config(self) -> NbChat:
        """The settings without those that `/set` stored."""
        if self._config is None:
            self._config = settings()
        return self._config

    def in_force(self, model: str = "") -> NbChat:
        """A copy of the settings for a model, stored ones included."""
        return with_preferences(self.config, self._store, model)

    def listed(self, model: str) -> list[SettingInForce]:
        """Everything that `/set` can store, with its value for a model."""
        return settings_in_force(self.config, self._store, model)

    def set(self, agent: Agent, name: str, text: str, scope: str = "") -> str:
        """Store a setting, apply it if the chat's model is in its scope; report it.

        Raises ConfigError if the setting is unknown, invalid or locked.
        """
        model = agent.provider.name
        text = _with_provider(name, text, scope, model)
        config = self.in_force(model)
        value = _checked(config, name, text)
        is_overridden = name in self.config.explicit
        applies = scope in scopes_of(model) and not is_overridden
        if applies:
            in_force = self._in_force_after(model, name, scope, value)
            setattr(config, name, in_force)
            self._apply(agent, [name], config)
        try:
            self._store.set_setting(scope, name, value)
        except StoreError:
            if applies:
                self.apply(agent, [name])
            raise
        done = "is no longer set" if value is None else f"is {text}"
        more = "; the environment, configuration or code overrides it now"
        return f"{name} {done} for {scope or 'all models'}{more * is_overridden}"

    def use_model(self, agent: Agent, name: str) -> None:
        """Continue the chat with another model and the settings stored for it."""
        refuse_locked(model=name)
        window = self.in_force(name).window
        self._use(agent, connect_as(self.config, name, agent.provider, window=window))

    def use_policy(self, agent: Agent, name: str) -> None:
        """Choose a policy for this chat alone; `set` stores one."""
        base = policy_named(name)
        refuse_locked(policy=name)
        policy = policy_of(self.in_force(agent.provider.name), base)
        agent.engine.tracker.use_policy(policy, base=base)

    def follow(self, agent: Agent | None, change: Mapping[str, Any]) -> None:
        """Apply a change of the configuration, as traitlets reports it.

        Other settings stay as they are, also those chosen for this chat alone. Raises
        NbchatError if the chat cannot follow; the old value is then restored.
        """
        if self._is_reverting:
            return
        name, explicit = change["name"], self.config.explicit
        self.config.explicit = explicit | {name}
        try:
            if agent is None:
                self._changed(self.in_force())
            else:
                self._follow(agent, name)
        except NbchatError:
            self._is_reverting = True
            try:
                setattr(self.config, name, change["old"])
            finally:
                self._is_reverting = False
            self.config.explicit = explicit
            raise

    def apply(self, agent: Agent, names: Iterable[str]) -> None:
        """Let the chat follow the settings in force for its model."""
        self._apply(agent, names, self.in_force(agent.provider.name))

    def _apply(self, agent: Agent, names: Iterable[str], config: NbChat) -> None:
        for name in names:
            if name == "live_variables":
                agent.engine.live_variables = live_variables(config, self._namespace)
            else:
                apply_setting(agent, config, name)
        self._changed(config)

    def _in_force_after(self, model: str, name: str, scope: str, value: Any) -> Any:
        """The value of a setting for a model once `value` is stored for `scope`."""
        scopes = scopes_of(model)
        others = self._store.settings([each for each in scopes if each != scope])
        other_scope, other = others.get(name, ("", None))
        if value is None or scopes.index(other_scope) > scopes.index(scope):
            value = other
        return getattr(self.config, name) if value is None else value

    def _follow(self, agent: Agent, name: str) -> None:
        if agent.is_answering:
            raise NbchatError("the chat is answering; change settings when it is done")
        how, is_new = TABLE[name].apply, isinstance(agent.provider, Unconnected)
        if how != "model" and not (is_new and how == "base_url"):
            self.apply(agent, [name])
            return
        config = self.config
        window = self.in_force(config.model or default_model()).window
        url = config.base_url
        self._use(agent, connected(config, config.model, base_url=url, window=window))

    def _use(self, agent: Agent, provider: Provider) -> None:
        old = agent.provider
        writers = {name: getattr(agent.engine, name) for name in SUMMARY_WRITERS}
        names = {
            **stored(self.config, self._store, old.name),
            **stored(self.config, self._store, provider.name),
        }
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


def apply_setting(agent: Agent, config: NbChat, name: str) -> None:
    """Let a running chat follow one setting; raises ConfigError if it cannot."""
    how = TABLE[name].apply
    if how in APPLY:
        APPLY[how](agent, config, name)
    elif how.startswith("policy."):
        _apply_policy(agent, config, name)
    else:
        set_attributes(config, [name], agent=agent, engine=agent.engine)


def _apply_policy(agent: Agent, config: NbChat, name: str) -> None:
    tracker = agent.engine.tracker
    base = policy_named(config.policy) if name == "policy" else tracker.base_policy
    tracker.use_policy(policy_of(config, base), base=base)


def _apply_threshold(agent: Agent, config: NbChat, _name: str) -> None:
    agent.engine.tracker.set_threshold(config.context_token_threshold)


def _apply_summary_writer(agent: Agent, config: NbChat, name: str) -> None:
    writer = summary_writer(getattr(config, name), config, agent.provider)
    setattr(agent.engine, name, writer)


def _apply_window(agent: Agent, config: NbChat, _name: str) -> None:
    provider, window = agent.provider, config.window
    if window is None and isinstance(provider, SupportsSiblings):
        # A new one: the old one may have been made with a window.
        provider = provider.sibling(provider.name.partition(":")[2])
    agent.use(provider, window=window)


def _apply_output_tokens(agent: Agent, config: NbChat, _name: str) -> None:
    _change(agent, config, max_output_tokens=config.max_output_tokens)


def _apply_system_prompt(agent: Agent, config: NbChat, _name: str) -> None:
    _change(agent, config, system=config.system_prompt)


def _apply_request_options(agent: Agent, config: NbChat, name: str) -> None:
    agent.set_options({name: dict(request_options(config)).get(name)})


def _apply_recall(agent: Agent, config: NbChat, _name: str) -> None:
    _change(agent, config, recall=config.recall)


def _apply_tokenizer(agent: Agent, config: NbChat, _name: str) -> None:
    agent.engine.tracker.encoding = encoding_of(config)
    agent.use(agent.provider, window=config.window)


def _apply_base_url(agent: Agent, config: NbChat, _name: str) -> None:
    """Reach the chat's models at another address, if they are of its provider."""
    provider, kind = agent.provider, kind_of(config.model or default_model())
    if kind == kind_of(provider.name) and isinstance(provider, SupportsSiblings):
        url, window = config.base_url, config.window
        agent.use(connected(config, provider.name, base_url=url, window=window))
    for name in SUMMARY_WRITERS:
        if ":" in getattr(config, name):  # a name alone follows the chat's model
            apply_setting(agent, config, name)


def _apply_log_folder(agent: Agent, config: NbChat, _name: str) -> None:
    if agent.recorder is not None:
        agent.recorder.write_log_to(config.log_folder)


def _apply_nothing(_agent: Agent, _config: NbChat, _name: str) -> None:
    """The views follow on their own."""


def _refuse(_agent: Agent, _config: NbChat, name: str) -> None:
    raise ConfigError(
        f"{name} cannot change while a chat is open; set {TABLE[name].variable} or "
        "IPython's configuration before the first %chat"
    )


APPLY: Mapping[str, Callable[[Agent, NbChat, str], None]] = {
    "policy": _apply_policy,
    "threshold": _apply_threshold,
    "summary_writer": _apply_summary_writer,
    "window": _apply_window,
    "max_output_tokens": _apply_output_tokens,
    "system_prompt": _apply_system_prompt,
    "request_options": _apply_request_options,
    "recall": _apply_recall,
    "tokenizer": _apply_tokenizer,
    "base_url": _apply_base_url,
    "log_folder": _apply_log_folder,
    "view": _apply_nothing,
    "restart": _refuse,
}
"""Functions that the table names in `apply`, for settings that are not copied as is."""


def _change(agent: Agent, config: NbChat, **attributes: object) -> None:
    """Set attributes that change what a request needs; restore them if refused."""
    before = {name: getattr(agent, name) for name in attributes}
    try:
        for name, value in attributes.items():
            setattr(agent, name, value)
        agent.use(agent.provider, window=config.window)
    except NbchatError:
        for name, value in before.items():
            setattr(agent, name, value)
        raise


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


def _checked(config: NbChat, name: str, text: str) -> Any:
    """The value to store; None removes it. Raises ConfigError."""
    if name not in MODEL_SETTINGS:
        raise ConfigError(_not_stored(name))
    row = TABLE[name]
    if text == DEFAULT:
        refuse_locked(**{name: row.default})
        return None
    value = row.parse(text)
    refuse_locked(**{name: value})
    wanted = config.copy()
    setattr(wanted, name, value)
    policy_of(wanted)  # raises if no model could work with it
    return value


def _not_stored(name: str) -> str:
    if name in TABLE:
        return (
            f"/set cannot store {name}; use %config NbChat.{name} = ... or "
            f"{TABLE[name].variable}"
        )
    return f"unknown setting: {name}. Choose one of: {', '.join(MODEL_SETTINGS)}"
