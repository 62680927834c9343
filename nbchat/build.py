"""How the parts are put together: settings become an agent that saves what happens."""

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import cast

from nbchat.agent import Agent
from nbchat.attaching.variables import reader
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy, policy_named
from nbchat.compaction.story.writers import ShapeChoice
from nbchat.configuration.config import NbChat, is_locked, refuse_locked, settings
from nbchat.configuration.preferences import POLICY_FIELDS, with_preferences
from nbchat.errors import StoreError
from nbchat.history import Entry
from nbchat.providers import KINDS, connect, default_model
from nbchat.providers.base import Neighbour, Provider
from nbchat.session import Session
from nbchat.storage.recorder import Recorder
from nbchat.storage.store import SessionStore
from nbchat.tokens import CHARACTERS

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
        recall=_offers_recall(config, provider),
    )
    agent.listener = recorder(store, session, agent)
    return agent


def build_engine(
    config: NbChat,
    provider: Provider,
    *,
    namespace: Callable[[], Mapping[str, object]] | None = None,
) -> CompactionEngine:
    """The engine the settings describe."""
    variables = reader(namespace) if namespace and config.live_variables else None
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
        _model(config.summary_model, config, provider),
        policy,
        info=provider.info(),
        fallback_model=_model(config.fallback_model, config, provider),
        summary_shape=cast("ShapeChoice", config.summary_shape),  # an Enum trait
        live_variables=variables,
        encoding=CHARACTERS if config.tokenizer == CHARACTERS else "",
    )
    engine.base_policy = policy_named(config.policy)
    return engine


def apply_setting(agent: Agent, config: NbChat, name: str) -> None:
    """Let a running chat follow one setting; raises ConfigError if it cannot."""
    engine = agent.engine
    match name:
        case "context_token_threshold":
            engine.set_threshold(config.context_token_threshold)
        case "summary_prompt":
            engine.summary_prompt = config.summary_prompt or None
        case "summary_model":
            engine.summary_model = _model(config.summary_model, config, agent.provider)
        case "fallback_model":
            engine.fallback_model = _model(
                config.fallback_model, config, agent.provider
            )
        case "window":
            agent.use(_measured(agent.provider, config.window), window=config.window)
        case "max_output_tokens":
            agent.max_output_tokens = config.max_output_tokens
            agent.use(agent.provider, window=config.window)
        case "policy":
            base = policy_named(config.policy)
            engine.use_policy(policy_of(config), base=base)
        case _:
            base = engine.base_policy
            engine.use_policy(policy_of(config, base), base=base)


def keep_writers(agent: Agent, config: NbChat, provider: Provider) -> None:
    """Let models that go by name alone stay with `provider` if the chat has left it."""
    kind = _kind(provider.name)
    if kind == _kind(agent.provider.name) or kind not in KINDS:
        return
    engine = agent.engine
    if isinstance(name := engine.summary_model, str):
        engine.summary_model = connect_as(config, f"{kind}:{name}", provider)
    if isinstance(name := engine.fallback_model, str):
        engine.fallback_model = connect_as(config, f"{kind}:{name}", provider)


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
    if model and kind == _kind(beside.name) and isinstance(beside, Neighbour):
        return beside.sibling(model, window=window)
    is_meant = kind == _kind(config.model or default_model())
    base_url = config.base_url if is_meant else ""
    return connect(name, base_url=base_url, window=window)


def _measured(provider: Provider, window: int | None) -> Provider:
    """The provider, or without a window a new one: the old may have begun with one."""
    if window is None and isinstance(provider, Neighbour):
        return provider.sibling(provider.name.partition(":")[2])
    return provider


def _kind(model: str) -> str:
    return model.partition(":")[0]


def _model(name: str, config: NbChat, provider: Provider) -> str | Provider | None:
    """A model that writes summaries: another one of the same provider goes by name."""
    if ":" not in name:
        return name or None
    return provider if name == provider.name else connect_as(config, name, provider)


def _offers_recall(config: NbChat, provider: Provider) -> bool:
    """As set, else where tools are sure to work."""
    if config.recall is not None:
        return bool(config.recall)
    endpoint = getattr(provider, "endpoint", None)  # the embedded model has none
    return getattr(endpoint, "host", "") in RECALLING_HOSTS


def recorder(store: SessionStore, session: Session, agent: Agent) -> Recorder:
    """What saves a session's events; a session that is new gets its identity here."""
    is_saved = bool(session.session_id)
    session.session_id = session.session_id or uuid.uuid4().hex[:12]
    return Recorder(
        store, session, notebook_name(), agent.provider.name, is_saved=is_saved
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
