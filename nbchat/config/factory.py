"""How the parts are put together: settings become an agent that saves what happens."""

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import cast

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.summarizer.strategies import ShapeChoice
from nbchat.compaction.summary_entry import LiveVariables
from nbchat.config.preferences import POLICY_FIELDS, with_preferences
from nbchat.config.settings import NbChat, is_locked, refuse_locked, settings
from nbchat.conversation.entries import Entry
from nbchat.conversation.namespace import reader
from nbchat.conversation.session import Session
from nbchat.errors import StoreError
from nbchat.providers import connect, default_model
from nbchat.providers.base import Provider, SupportsSiblings
from nbchat.providers.tokens import CHARACTERS
from nbchat.storage.recorder import Recorder
from nbchat.storage.store import SessionStore

logger = logging.getLogger(__name__)

RECALLING_HOSTS = ("api.openai.com", "api.anthropic.com")
"""Servers all of whose chat models call tools; others refuse a request that has any."""


def build_agent(
    config: NbChat | None = None,
    *,
    tools: Iterable[Callable[..., object]] = (),
    system: str | None = None,
    tool_choice: str | Callable[[Session], str] = "auto",
    approve: Callable[[Entry], bool] | None = None,
    session: Session | None = None,
    store: SessionStore | None = None,
    namespace: Callable[[], Mapping[str, object]] | None = None,
) -> Agent:
    """An agent as the settings say, its session saved event by event.

    `namespace` gives the variables that summaries may list. Raises ConfigError when a
    setting cannot work, or is not what a site file locks.
    """
    config = config or settings()
    store = store or SessionStore(config.store_url)
    config = with_preferences(config, store)
    system = config.system_prompt if system is None else system
    values = {name: getattr(config, name) for name in config.traits(config=True)}
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
        max_steps=config.max_steps,
        max_output_tokens=config.max_output_tokens,
        approve=approve,
        recall=offers_recall(config, provider),
    )
    agent.recorder = recorder(store, session, agent, log_folder=config.log_folder)
    return agent


def build_engine(
    config: NbChat,
    provider: Provider,
    *,
    namespace: Callable[[], Mapping[str, object]] | None = None,
) -> CompactionEngine:
    """The engine the settings describe."""
    policy = policy_of(config)
    if config.context_token_threshold is not None and policy.meter != "cumulative":
        logger.warning(
            "context_token_threshold is not used: policy %r goes by the %s",
            policy.name,
            policy.meter,
        )
    engine = CompactionEngine(
        config.context_token_threshold,
        config.summary_prompt or None,
        writer_model(config.summary_model, config, provider),
        policy,
        info=provider.info(),
        fallback_model=writer_model(config.fallback_model, config, provider),
        summary_shape=cast("ShapeChoice", config.summary_shape),  # an Enum trait
        live_variables=live_variables(config, namespace),
        encoding=encoding_of(config),
    )
    engine.tracker.base_policy = policy_named(config.policy)
    return engine


def live_variables(
    config: NbChat, namespace: Callable[[], Mapping[str, object]] | None
) -> LiveVariables | None:
    """What tells summaries of the notebook's variables, if it may."""
    return reader(namespace) if namespace and config.live_variables else None


def encoding_of(config: NbChat) -> str:
    """What to count with instead of the model's own vocabulary; empty for that."""
    return CHARACTERS if config.tokenizer == CHARACTERS else ""


def policy_of(config: NbChat, base: Policy | None = None) -> Policy:
    """The policy with the fields that are set for themselves.

    `base` is the one to go on with instead of the one that is set.
    """
    fields = {each: getattr(config, each) for each in POLICY_FIELDS}
    fields |= {"style": config.summary_style, "detail": config.summary_detail}
    fields |= {} if config.automatic else {"meter": "off"}
    given = {name: value for name, value in fields.items() if value is not None}
    return replace(base or policy_named(config.policy), **given)


def connect_as(
    config: NbChat, name: str, beside: Provider, *, window: int | None = None
) -> Provider:
    """A model for a chat whose own is `beside`: of that one's server, if it can be.

    Else it is asked where the settings say, if they mean its provider. Where a site
    locks the address every model is asked there.
    """
    kind, _, model = name.partition(":")
    if is_locked("base_url"):
        return connect(name, base_url=config.base_url, window=window)
    if model and kind == kind_of(beside.name) and isinstance(beside, SupportsSiblings):
        return beside.sibling(model, window=window)
    is_meant = kind == kind_of(config.model or default_model())
    base_url = config.base_url if is_meant else ""
    return connect(name, base_url=base_url, window=window)


def kind_of(model: str) -> str:
    """The provider in a model's name."""
    return model.partition(":")[0]


def writer_model(
    name: str, config: NbChat, provider: Provider
) -> str | Provider | None:
    """A model that writes summaries: another one of the same provider goes by name."""
    if ":" not in name:
        return name or None
    return provider if name == provider.name else connect_as(config, name, provider)


def offers_recall(config: NbChat, provider: Provider) -> bool:
    """Whether to offer the tool: as set, else where tools are sure to work."""
    if config.recall is not None:
        return bool(config.recall)
    endpoint = getattr(provider, "endpoint", None)  # the embedded model has none
    return getattr(endpoint, "host", "") in RECALLING_HOSTS


def recorder(
    store: SessionStore, session: Session, agent: Agent, *, log_folder: str = ""
) -> Recorder:
    """What saves a session's events; a session that is new gets its identity here."""
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
    """The notebook this kernel belongs to, as Jupyter Server tells it; or empty."""
    return os.environ.get("JPY_SESSION_NAME", "")


def newest_session(store: SessionStore) -> Session:
    """The notebook's newest session, to go on with after a restart; else a new one.

    A store that cannot be read is no reason not to chat: the session is new then, and
    its first event tells that it cannot be saved.
    """
    try:
        found = store.sessions(notebook=notebook_name()) if notebook_name() else []
        return store.load(found[0].id) if found else Session()
    except StoreError as error:
        logger.warning("the earlier session cannot be read: %s", error)
        return Session()
