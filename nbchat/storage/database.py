"""Open a database: connection pool, timeouts, and the tables of this version.

A database of a newer nbchat opens read-only; one of an older release gets the tables
that it lacks.
"""

import os
import random
import sqlite3
import time
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from jupyter_core.paths import jupyter_data_dir
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.util import asbool

from nbchat.config.private_files import create_private
from nbchat.errors import StoreError
from nbchat.storage.postgresql import (
    LOCK_NUMBER,
    WAITS,
    connect_impatiently,
    patience,
)
from nbchat.storage.schema import INDEXES, VERSIONS, metadata, sessions, version

busy_seconds: ContextVar[float] = ContextVar("busy_seconds", default=5.0)
"""How long a statement waits while another process has the SQLite file."""

CONNECTIONS = 2
"""Connections of one process: 24 processes stay below a server's limit of 60."""

ENGINES_KEPT = 16
"""Databases that a process keeps a pool for."""

BUSY_TIMES = 6
"""How many times `busy_seconds` a transaction waits while others do commit."""

OPEN_SECONDS = 30
"""For how long the first use of a database by many processes at once is repeated."""

NOT_NOW = (
    "locked",
    "too many client",
    "remaining connection slots",
    "starting up",
    "shutting down",
)
"""In errors that pass: a file that others are creating, a server with too many clients,
or one that starts again."""

PAUSE_FACTOR = 9
"""How much longer than for a save that was not answered saves then do not wait."""

READ_ONLY = (
    "A newer nbchat wrote this database, so it can't be changed here. Upgrade nbchat."
    "\nIts schema is {}."
)

NOT_OURS = (
    "This database isn't nbchat's, or it's from before version 0.1.0.\n"
    "Set store_url to another one."
)


@dataclass(frozen=True, slots=True)
class Database:
    """An opened database."""

    engine: sa.Engine
    refusal: str = ""
    """Why it can only be read; empty if it can be written, too."""


class Response:
    """True if a database answers, as far as the last saves of this process tell."""

    def __init__(self) -> None:
        """It does, until a save was not answered."""
        self._expected_at = 0.0

    @property
    def is_expected(self) -> bool:
        """True if it is worth waiting for a save."""
        return time.monotonic() >= self._expected_at

    def note(self, *, is_answered: bool, seconds: float) -> None:
        """Note a save, and how long it was waited for.

        After one that was not answered, waiting takes a tenth of the time at most.
        """
        pause = 0.0 if is_answered else PAUSE_FACTOR * seconds
        self._expected_at = time.monotonic() + pause


def default_file() -> Path:
    """The SQLite file used when no URL is set."""
    return Path(jupyter_data_dir()) / "nbchat" / "sessions.db"


def database_url(url: str) -> sa.URL:
    """Parse a database URL; raises StoreError, which never quotes the URL.

    An unescaped @ in a password would make the rest of it part of the visible host.
    """
    try:
        found = sa.make_url(url)
    except (ArgumentError, ValueError):
        found = None
    credentials = url.partition("://")[2].partition(":")[2]
    if found is None or (found.password is not None and credentials.count("@") > 1):
        raise StoreError(
            "store_url isn't a valid database URL. Use one such as sqlite:///chats.db "
            "or postgresql+psycopg://user:password@host:5432/chats. In a password, "
            "write @ as %40, : as %3A and / as %2F."
        ) from None
    return found


def open_database(url: str) -> Database:
    """Open the database at a URL, or the default file, with tables of this version.

    Raises StoreError for one that another program made.
    """
    if not url:
        default_file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        url = f"sqlite:///{default_file()}"
    found = database_url(url)
    file = sqlite_file(found)
    if file is not None and found.query.get("mode") not in ("ro", "rw"):
        create_private(file)
    engine = engine_for(found)
    return Database(engine, _prepared(engine))


def sqlite_file(url: sa.URL) -> Path | None:
    """The file of a SQLite database, also of a `file:` URL; None for others."""
    name = url.database or ""
    if url.get_backend_name() != "sqlite":
        return None
    if name.startswith("file:"):
        is_in_memory = url.query.get("mode") == "memory" or "vfs" in url.query
        is_uri = asbool(url.query.get("uri", "false"))
        name = "" if is_in_memory or not is_uri else unquote(urlsplit(name).path)
    return None if name in ("", ":memory:") else Path(name)


def engine_for(url: sa.URL) -> sa.Engine:
    """The engine of a URL: one pool in each process, a new one after a fork."""
    if url.get_backend_name() == "sqlite" and sqlite_file(url) is None:
        return _memory_engine(url)
    key = url.render_as_string(hide_password=False), os.getpid()
    if (found := _engines.get(key)) is None:
        # Of threads that come here at once, one decides: a pool each would be too many
        found = _engines.setdefault(key, _new_engine(url))
        while len(_engines) > ENGINES_KEPT:
            oldest = _engines.pop(next(iter(_engines)), None)
            if oldest is not None:
                oldest.dispose()
    return found


_engines: dict[tuple[str, int], sa.Engine] = {}
"""Engines by URL and process, the oldest first. No lock: a fork could copy it held."""


def _new_engine(url: sa.URL) -> sa.Engine:
    """An engine; a connection that the server closed is replaced."""
    if url.get_backend_name() == "sqlite":
        engine = sa.create_engine(url, pool_pre_ping=True)
        sa.event.listen(engine, "connect", _tune_sqlite)
        sa.event.listen(engine, "checkout", _set_busy_timeout)
        return _closing_all(engine)
    waits = {name: wait for name, wait in WAITS.items() if name not in url.query}
    engine = sa.create_engine(
        url,
        pool_pre_ping=True,
        pool_size=CONNECTIONS,
        max_overflow=0,
        connect_args=waits if url.get_backend_name() == "postgresql" else {},
    )
    if engine.driver == "psycopg":
        sa.event.listen(engine, "do_connect", connect_impatiently)
    return _closing_all(engine)


def _closing_all(engine: sa.Engine) -> sa.Engine:
    """Close also connections that were in use when the engine was disposed.

    They go back to its former pool, which nothing would close.
    """
    disposals: list[sa.Engine] = []

    def note_pool(_dialect: Any, record: Any, *_given: Any) -> None:
        record.info["disposals"] = len(disposals)

    def close_former(_connection: Any, record: Any) -> None:
        if record.info.get("disposals") != len(disposals):
            record.close()

    sa.event.listen(engine, "engine_disposed", disposals.append)
    sa.event.listen(engine, "do_connect", note_pool, insert=True)
    sa.event.listen(engine, "checkin", close_former)
    return engine


def _memory_engine(url: sa.URL) -> sa.Engine:
    """In memory each connection is its own database, so all threads share one."""
    engine = sa.create_engine(
        url,
        poolclass=sa.QueuePool,
        pool_size=1,
        max_overflow=0,
        connect_args={"check_same_thread": False},
    )
    sa.event.listen(engine, "connect", _tune_sqlite)
    return engine


def _tune_sqlite(connection: Any, _record: object) -> None:
    """Use WAL with full sync (one fsync a commit); overwrite what is deleted.

    Also a `lower` for all alphabets. Switching to WAL needs the file alone, which
    SQLite does not wait for.
    """
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "secure_delete=ON",
    ):
        _repeat_while_locked(lambda each=pragma: connection.execute(f"PRAGMA {each}"))
    connection.create_function("lower", 1, str.lower, deterministic=True)


def _set_busy_timeout(connection: Any, _record: object, _proxy: object) -> None:
    """Wait for a lock as long as the caller can: autosave tries again by itself."""
    connection.execute(f"PRAGMA busy_timeout={round(busy_seconds.get() * 1_000)}")


def begin_writing(connection: sa.Connection) -> None:
    """Begin a transaction that writes; on SQLite, take its lock at once.

    Processes that want the lock do not queue for it: each tries from time to time, so
    with many of them one can miss it for long. It waits while the others commit, up to
    `BUSY_TIMES` as long as for one that holds the lock and does not end.
    """
    if connection.dialect.name != "sqlite":
        return
    end = time.monotonic() + BUSY_TIMES * busy_seconds.get()
    while True:
        commits = _commits_of_others(connection)
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except OperationalError as error:
            is_moving = commits != _commits_of_others(connection)
            if "locked" not in str(error) or not is_moving or time.monotonic() > end:
                raise
        else:
            return


def _commits_of_others(connection: sa.Connection) -> object:
    """A number that another one replaces when another connection commits."""
    return connection.exec_driver_sql("PRAGMA data_version").scalar()


def _repeat_while_locked(step: Any) -> None:
    """Repeat a step while another process has the SQLite file, for `busy_seconds`."""
    end = time.monotonic() + busy_seconds.get()
    while True:
        try:
            step()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311  # no secret
        else:
            return


def _prepared(engine: sa.Engine) -> str:
    """Create missing tables; returns why nothing can be written, or nothing."""
    end = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            return _checked(engine)
        except OperationalError as error:
            passes = any(each in str(error) for each in NOT_NOW)
            if not passes or time.monotonic() > end:
                raise
            time.sleep(random.uniform(0.05, 0.5))  # noqa: S311  # no secret


def _checked(engine: sa.Engine) -> str:
    found = schema_version(engine)
    if found == VERSIONS[-1]:
        return ""
    if found > VERSIONS[-1]:
        return READ_ONLY.format(found)
    with engine.connect() as connection, patience():
        _lock(connection)
        found = schema_version(connection)  # another process may have been quicker
        if found != VERSIONS[-1]:
            is_there = found or sa.inspect(connection).has_table(sessions.name)
            if is_there and found not in VERSIONS:
                raise StoreError(NOT_OURS)
            create_tables(connection, found)
        connection.commit()
    return ""


def schema_version(bind: sa.Engine | sa.Connection) -> str:
    """The version of the schema; empty before the first tables."""
    if isinstance(bind, sa.Engine):
        with bind.connect() as connection:
            return schema_version(connection)
    if not sa.inspect(bind).has_table("alembic_version"):
        return ""
    return str(bind.scalar(sa.select(version)) or "")


def create_tables(connection: sa.Connection, found: str = "") -> None:
    """Create the tables that the version `found` lacks, and note this version."""
    metadata.create_all(connection)
    if found:
        connection.execute(sa.update(version).values(version_num=VERSIONS[-1]))
        return
    for statement in INDEXES.get(connection.dialect.name, ()):
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
    )
    connection.execute(sa.insert(version).values(version_num=VERSIONS[-1]))


def _lock(connection: sa.Connection) -> None:
    """Begin a transaction that keeps out all others which create tables."""
    begin_writing(connection)
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK_NUMBER)))
