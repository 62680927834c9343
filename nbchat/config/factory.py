"""Build an agent from the settings: provider, compaction engine, session and store."""

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.summary_entry import LiveVariables
from nbchat.config.preferences import with_preferences
from nbchat.config.settings import TABLE, NbChat, is_locked, refuse_locked, settings
from nbchat.conversation.entries import Entry
from nbchat.conversation.namespace import reader
from nbchat.conversation.session import Session
from nbchat.errors import StoreError
from nbchat.providers.base import Provider, SupportsSiblings
from nbchat.providers.connect import connect, default_model
from nbchat.providers.tokens import CHARACTERS
from nbchat.storage.recorder import Recorder
from nbchat.storage.store import SessionStore

logger = logging.getLogger(__name__)

RECALLING_HOSTS = ("api.openai.com", "api.anthropic.com")
"""Servers whose chat models all call tools; others may refuse a request with tools."""

POLICY_FIELDS = {
    name: row.apply.removeprefix("policy.")
    for name, row in TABLE.items()
    if row.apply.startswith("policy.")
}
"""Settings that replace a field of the policy, each with the field's name."""

Namespace = Callable[[], Mapping[str, object]]
"""Returns the notebook's variables, which summaries may list."""


def build_agent(
    config: NbChat | None = None,
    *,
    tools: Iterable[Callable[..., object]] = (),
    system: str | None = None,
    tool_choice: str | Callable[[Session], str] = "auto",
    approve: Callable[[Entry], bool] | None = None,
    session: Session | None = None,
    store: SessionStore | None = None,
    namespace: Namespace | None = None,
) -> Agent:
    """Build an agent from the settings; its session is saved after every event.

    Raises ConfigError if a setting cannot work, or differs from what a site locks.
    """
    config = config or settings()
    store = store or SessionStore(config.store_url)
    config = with_preferences(config, store)
    system = config.system_prompt if system is None else system
    values = {name: getattr(config, name) for name in TABLE}
    refuse_locked(**values | {"system_prompt": system})
    provider = connect(config.model, base_url=config.base_url, window=config.window)
    session = session or Session()
    agent = Agent(
        provider,
        tools=tools,
        system=system,
        engine=build_engine(config, provider, namespace=namespace),
        session=session,
        tool_choice=tool_choice,
        max_output_tokens=config.max_output_tokens,
        approve=approve,
        recall=offers_recall(config, provider),
    )
    set_attributes(config, agent=agent)
    agent.recorder = recorder(store, session, agent, log_folder=config.log_folder)
    return agent


def build_engine(
    config: NbChat, provider: Provider, *, namespace: Namespace | None = None
) -> CompactionEngine:
    """Build the compaction engine that the settings describe."""
    policy = policy_of(config)
    if config.context_token_threshold is not None and policy.meter != "cumulative":
        logger.warning(
            "context_token_threshold is not used: policy %r goes by the %s",
            policy.name,
            policy.meter,
        )
    engine = CompactionEngine(
        config.context_token_threshold,
        summary_model=writer_model(config.summary_model, config, provider),
        policy=policy,
        info=provider.info(),
        fallback_model=writer_model(config.fallback_model, config, provider),
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
    return replace(base or policy_named(config.policy), **given)


def connect_as(
    config: NbChat, name: str, current: Provider, *, window: int | None = None
) -> Provider:
    """Connect to a model by name, for a chat that uses `current`.

    A model of the same provider is reached at the same server with the same key. If a
    site locks `base_url`, every model is reached there.
    """
    kind, _, model = name.partition(":")
    if is_locked("base_url"):
        return connect(name, base_url=config.base_url, window=window)
    is_same_kind = kind == kind_of(current.name)
    if model and is_same_kind and isinstance(current, SupportsSiblings):
        return current.sibling(model, window=window)
    is_configured = kind == kind_of(config.model or default_model())
    base_url = config.base_url if is_configured else ""
    return connect(name, base_url=base_url, window=window)


def kind_of(model: str) -> str:
    """The provider in a model's name."""
    return model.partition(":")[0]


def writer_model(
    name: str, config: NbChat, provider: Provider
) -> str | Provider | None:
    """The model that writes summaries; a name without provider means the chat's."""
    if ":" not in name:
        return name or None
    return provider if name == provider.name else connect_as(config, name, provider)


def offers_recall(config: NbChat, provider: Provider) -> bool:
    """Whether to offer the recall tool: as set, else where tools always work."""
    if config.recall is not None:
        return bool(config.recall)
    return isinstance(provider, SupportsSiblings) and provider.host in RECALLING_HOSTS


def recorder(
    store: SessionStore, session: Session, agent: Agent, *, log_folder: str = ""
) -> Recorder:
    """Make the listener that saves a session; a new session gets its id here."""
    is_saved = bool(session.session_id)
    session.session_id = session.session_id or uuid.uuid4().hex[:12]
    return Recorder(
        store,
        session,
        notebook_name(),
        agent.provider.name,
        is_saved=is_saved,
        log_folder=log_folder,
    )


def notebook_name() -> str:
    """The path of this kernel's notebook, as Jupyter Server reports it; or empty."""
    return os.environ.get("JPY_SESSION_NAME", "")


def newest_session(store: SessionStore) -> Session:
    """The newest session of this notebook, to continue after a restart; else a new one.

    An unreadable store gives a new session, whose first event reports the failure.
    """
    try:
        found = store.sessions(notebook=notebook_name()) if notebook_name() else []
        return store.load(found[0].id) if found else Session()
    except StoreError as error:
        logger.warning("the earlier session cannot be read: %s", error)
        return Session()
