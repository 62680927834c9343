"""Build an agent from the settings: provider, compaction engine, session and store."""

import json
import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approve
from nbchat.config.layers import is_locked, refuse_locked, settings
from nbchat.config.policy_and_models import (
    Namespace,
    address_of,
    build_engine,
    configured_model,
    connected,
    request_options,
    set_attributes,
)
from nbchat.config.settings import TABLE, NbChat
from nbchat.conversation.session import Session
from nbchat.errors import LogNotWritten, NotErased, StoreError
from nbchat.providers.base import Provider, warn_of_untaken
from nbchat.providers.connect import connected_or_not
from nbchat.providers.tokens import TokenCounter
from nbchat.storage.autosave import Autosave
from nbchat.storage.export import MarkdownLog
from nbchat.storage.saved_settings import Target, kept_model, with_saved_settings
from nbchat.storage.store import Origin, SessionStore

logger = logging.getLogger(__name__)

NOTEBOOK_ID = "JPY_NOTEBOOK_ID"
"""In the environment of a kernel: the id that its notebook's page has reported, which
the notebook's file has when it is saved."""

LARGE_SESSION = 5_000
"""Entries from which on the first count and search would take 100 ms."""

PREPARING = "nbchat-prepare"
"""The thread that counts and indexes a large session."""

LARGEST_NOTEBOOK = 20_000_000
"""Bytes of a notebook that is read for its id; a larger one is known by its path."""


def build_agent(
    config: NbChat | None = None,
    *,
    tools: Iterable[Callable[..., object]] = (),
    system: str | None = None,
    tool_choice: str | Callable[[Session], str] = "auto",
    approve: Approve = None,
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
    store = store or opened_store(config)
    session = session or Session()
    chosen, address = kept_model(config, store, session.session_id)
    config = with_saved_settings(config, store, Target(chosen, session.session_id))
    system = config.system_prompt if system is None else system
    values = {name: getattr(config, name) for name in TABLE}
    refuse_locked(**values | {"system_prompt": system})
    connect = partial(_provider_of, config, chosen, address)
    model = chosen or configured_model(config)
    provider = connected_or_not(model, connect) if connects_later else connect()
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
        context_tools=config.context_tools,
    )
    agent.options = request_options(config)
    warn_of_untaken(provider, agent.options)
    set_attributes(config, agent=agent)
    agent.autosave = autosave_of(store, session, agent, log_folder=config.log_folder)
    return agent


def _provider_of(config: NbChat, chosen: str, address: str | None) -> Provider:
    """The provider of the model that was chosen before, else of the settings."""
    model = chosen or configured_model(config)
    url = address_of(config, chosen) if chosen else config.base_url
    if chosen and address is not None and not is_locked("base_url"):
        url = address
    return connected(config, model, base_url=url, window=config.window)


def autosave_of(
    store: SessionStore, session: Session, agent: Agent, *, log_folder: str = ""
) -> Autosave:
    """Make the listener that saves a session; a new session gets its id here.

    A large session that was loaded is prepared for searches in the background.
    """
    is_saved = bool(session.session_id)
    if is_saved and len(session.transcript) >= LARGE_SESSION:
        counter = agent.engine.tracker.counter
        prepare = threading.Thread(
            target=_prepare, args=(session, counter), name=PREPARING, daemon=True
        )
        prepare.start()
    session.session_id = session.session_id or uuid.uuid4().hex[:12]
    return Autosave(
        store,
        session,
        origin(agent.provider.name),
        is_saved=is_saved,
        log_folder=log_folder,
    )


def _prepare(session: Session, counter: TokenCounter) -> None:
    """Count and index all messages, so that no turn and no search waits for it."""
    counter.count_entries(session.transcript)
    session.fill_search_index()


def notebook_name() -> str:
    """The path of this kernel's notebook, as Jupyter Server reports it; or empty."""
    return os.environ.get("JPY_SESSION_NAME", "")


def opened_store(config: NbChat) -> SessionStore:
    """The store of the settings, for the owner that they name."""
    return SessionStore(config.store_url, owner=config.owner)


def _current_server() -> str:
    """The Jupyter server that this kernel belongs to: of the hub, else the machine."""
    return os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "") or platform.node()


def origin(model: str = "") -> Origin:
    """Where this kernel's sessions are held."""
    path = notebook_name()
    known = os.environ.get(NOTEBOOK_ID, "") or _notebook_id(path)
    return Origin(path, known, _current_server() if path else "", model)


def _notebook_id(path: str) -> str:
    """The id in a notebook's metadata (`nbchat`, `notebook_id`); empty without one."""
    try:
        if not path or Path(path).stat().st_size > LARGEST_NOTEBOOK:
            return ""
        book = json.loads(Path(path).read_text(encoding="utf-8"))
        found = book["metadata"]["nbchat"]["notebook_id"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found[:128] if isinstance(found, str) else ""


def _is_there(notebook: str) -> bool:
    """True if a notebook is where it was: then one with its id is a copy of it."""
    return Path(notebook).exists()


def expire_sessions(store: SessionStore, config: NbChat) -> None:
    """Delete sessions, and their logs, that are older than the settings keep them."""
    if config.retention_days is not None:
        try:
            store.expire(config.retention_days, partial(_remove_log, config.log_folder))
        except NotErased as error:  # they are deleted
            logger.warning("%s", error)
        except StoreError as error:
            logger.warning("Couldn't delete all old sessions: %s", error)


def _remove_log(folder: str, session_id: str) -> None:
    try:
        MarkdownLog(folder).remove(session_id)
    except LogNotWritten as error:
        logger.warning("%s", error)


def newest_session(store: SessionStore) -> Session:
    """The newest session of this notebook, to continue after a restart; else a new one.

    An unreadable store gives a new session, whose first event reports the failure.
    """
    try:
        found = store.newest(origin(), _is_there) if notebook_name() else None
        return store.load(found) if found else Session()
    except StoreError as error:
        logger.warning("Can't read the earlier session: %s", error)
        return Session()
