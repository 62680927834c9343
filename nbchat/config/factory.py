"""Build an agent from the settings: provider, compaction engine, session and store."""

import logging
import os
import uuid
from collections.abc import Callable, Iterable
from functools import partial

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import policy_named
from nbchat.config.components import (
    Namespace,
    configured_model,
    connected,
    encoding_of,
    live_variables,
    policy_of,
    request_options,
    set_attributes,
    summary_writer,
)
from nbchat.config.layers import refuse_locked, settings
from nbchat.config.preferences import Target, with_preferences
from nbchat.config.settings import TABLE, NbChat
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.errors import StoreError
from nbchat.providers.base import Provider, warn_of_untaken
from nbchat.providers.unconnected import connected_or_not
from nbchat.storage.recorder import Recorder
from nbchat.storage.store import SessionStore

logger = logging.getLogger(__name__)


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
    connects_later: bool = False,
) -> Agent:
    """Build an agent from the settings; its session is saved after every event.

    With `connects_later` a model that cannot be connected, as without a key, fails each
    turn with the reason; everything else works. Raises ConfigError if a setting cannot
    work, or differs from what a site locks.
    """
    config = config or settings()
    store = store or SessionStore(config.store_url)
    session = session or Session()
    config = with_preferences(config, store, Target(session_id=session.session_id))
    system = config.system_prompt if system is None else system
    values = {name: getattr(config, name) for name in TABLE}
    refuse_locked(**values | {"system_prompt": system})
    url, window = config.base_url, config.window
    connect = partial(connected, config, config.model, base_url=url, window=window)
    provider = (
        connected_or_not(configured_model(config), connect)
        if connects_later
        else connect()
    )
    agent = Agent(
        provider,
        tools=tools,
        system=system,
        engine=build_engine(config, provider, namespace=namespace),
        session=session,
        tool_choice=tool_choice,
        max_output_tokens=config.max_output_tokens,
        approve=approve,
        recall=config.recall,
    )
    agent.options = request_options(config)
    warn_of_untaken(provider, agent.options)
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
            "context_token_threshold has no effect: the meter of policy %r is %s",
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
