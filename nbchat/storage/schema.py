"""Database tables for sessions and settings, and opening a database."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from jupyter_core.paths import jupyter_data_dir
from sqlalchemy.exc import ArgumentError, OperationalError, ProgrammingError

from nbchat.errors import StoreError

BUSY_SECONDS = 5

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
"""Fields of a usage that have a column each."""

metadata = sa.MetaData()

# MySQL and others need a length for a key; SQLite ignores it.
SESSION_ID = sa.String(64).with_variant(sa.Text(), "postgresql")

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", SESSION_ID, primary_key=True),
    sa.Column("notebook", sa.Text, nullable=False, default=""),
    sa.Column("model", sa.Text, nullable=False, default=""),
    sa.Column("created_at", sa.String(32), nullable=False),
)

chat_messages = sa.Table(
    "chat_messages",
    metadata,
    sa.Column("session_id", sa.ForeignKey("sessions.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in ("role", "content", "tool_id", "tool_name", "tool_args")
    ),
    *(sa.Column(name, sa.Integer) for name in TOKENS),
    sa.Column("created_at", sa.String(32), nullable=False),
    # Of the response that ended with this entry; null in rows of earlier versions.
    sa.Column("model", sa.Text),
    sa.Column("cost", sa.Float),
    sa.Column("is_estimated", sa.Boolean),
    sa.Column("dropped_tokens", sa.Integer),
)

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("value_json", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
)

session_snapshots = sa.Table(
    "session_snapshots",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("session_id", sa.ForeignKey("sessions.id"), nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("content_json", sa.Text, nullable=False),
    sa.Column("message_cutoff_id", sa.Integer, nullable=False),
    sa.Column("token_count", sa.Integer, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
)


drafts = sa.Table(
    "drafts",
    metadata,
    sa.Column("session_id", sa.ForeignKey("sessions.id"), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
)
"""The streaming answer of each session; obsolete once an entry has its position."""


run_results = sa.Table(
    "run_results",
    metadata,
    sa.Column("run", sa.String(200), primary_key=True),
    sa.Column("key", sa.String(250), primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("is_failed", sa.Boolean, nullable=False),
    sa.Column("result_json", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Index("run_results_by_number", "run", "number"),
)
"""What became of each row of `map_agents`."""

run_batches = sa.Table(
    "run_batches",
    metadata,
    sa.Column("run", sa.String(200), primary_key=True),
    sa.Column("batch_id", sa.String(200), primary_key=True),
    sa.Column("names_json", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
)
"""Batches of requests that a provider works on."""


UNLIMITED = (
    *(settings.c.scope, sessions.c.id),
    *(each.c.session_id for each in (chat_messages, session_snapshots, drafts)),
)
"""Columns whose length earlier versions limited."""


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
            "the session store failed: store_url is not a valid database URL such as "
            "postgresql+psycopg://user:password@host:5432/chats; in a password write "
            "@ as %40, : as %3A and / as %2F"
        ) from None
    return found


def open_database(url: str) -> sa.Engine:
    """Open the database at a URL, or the default file, and create its tables.

    A database of an earlier version gets the columns that it lacks.
    """
    if not url:
        file = default_file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        url = f"sqlite:///{file}"
    engine = _engine(database_url(url))
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _tune_sqlite)
    metadata.create_all(engine)
    known = _columns(engine)
    for column in chat_messages.columns:
        if column.name not in known:
            _add(engine, column)
    if engine.dialect.name == "postgresql":
        _widen(engine)
    return engine


def _engine(url: sa.URL) -> sa.Engine:
    """Create the engine; a connection that the server closed is replaced."""
    if url.get_backend_name() != "sqlite" or url.database not in (None, "", ":memory:"):
        return sa.create_engine(url, pool_pre_ping=True)
    # In memory each connection is its own database, so all threads share one.
    return sa.create_engine(
        url,
        poolclass=sa.QueuePool,
        pool_size=1,
        max_overflow=0,
        connect_args={"check_same_thread": False},
    )


def _columns(engine: sa.Engine) -> set[str]:
    found = sa.inspect(engine).get_columns(chat_messages.name)
    return {str(each["name"]) for each in found}


def _add(engine: sa.Engine, column: sa.Column[Any]) -> None:
    """Add a column, unless another kernel has just added it."""
    definition = sa.schema.CreateColumn(column).compile(dialect=engine.dialect)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE chat_messages ADD {definition}")
    except (OperationalError, ProgrammingError):
        if column.name not in _columns(engine):
            raise


def _widen(engine: sa.Engine) -> None:
    """Remove length limits from columns that an earlier version created.

    A user without the right to alter tables keeps the limits.
    """
    inspector = sa.inspect(engine)
    for column in UNLIMITED:
        table = column.table.name
        found = {each["name"]: each["type"] for each in inspector.get_columns(table)}
        if getattr(found[column.name], "length", None):
            with suppress(ProgrammingError), engine.begin() as connection:
                connection.exec_driver_sql(
                    f"ALTER TABLE {table} ALTER {column.name} TYPE TEXT"
                )


def _tune_sqlite(connection: Any, _record: object) -> None:
    """Use WAL with full sync (one fsync a commit) and a `lower` for all alphabets."""
    for pragma in (
        f"busy_timeout={BUSY_SECONDS * 1000}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.create_function("lower", 1, str.lower, deterministic=True)
