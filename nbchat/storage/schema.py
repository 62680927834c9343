"""The tables in which sessions and settings are kept, and how a database is opened."""

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
"""Figures of a usage, each a column."""

metadata = sa.MetaData()

# Other databases have no keys of any length, and SQLite goes by no length.
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
    # Of the response that ended with this entry; null in rows of an older nbchat.
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
"""Of each session the answer that was under way last; none when its place is taken."""


UNLIMITED = (
    *(settings.c.scope, sessions.c.id),
    *(each.c.session_id for each in (chat_messages, session_snapshots, drafts)),
)
"""Columns that an older nbchat limited."""


def default_file() -> Path:
    """The SQLite file used when no URL is set."""
    return Path(jupyter_data_dir()) / "nbchat" / "sessions.db"


def address(url: str) -> sa.URL:
    """A database's address; raises StoreError without any part of what was written.

    An @ in a password would make the rest of it part of the host, which all may see.
    """
    try:
        found = sa.make_url(url)
    except (ArgumentError, ValueError):
        found = None
    credentials = url.partition("://")[2].partition(":")[2]
    if found is None or (found.password is not None and credentials.count("@") > 1):
        raise StoreError(
            "the session store failed: store_url cannot be read as the address of a "
            "database, as in postgresql+psycopg://user:password@host:5432/chats; write "
            "@ in a password as %40, : as %3A and / as %2F"
        ) from None
    return found


def open_database(url: str) -> sa.Engine:
    """The database at a URL, its tables made; an empty one is the default file.

    One that an older nbchat has made gets the columns it lacks.
    """
    if not url:
        file = default_file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        url = f"sqlite:///{file}"
    engine = _engine(address(url))
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
    """What opens connections; one that the server has dropped is replaced unseen."""
    if url.get_backend_name() != "sqlite" or url.database not in (None, "", ":memory:"):
        return sa.create_engine(url, pool_pre_ping=True)
    # In memory each connection is a database: threads take turns on the only one.
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
    """Add a column, unless another kernel has just done so."""
    definition = sa.schema.CreateColumn(column).compile(dialect=engine.dialect)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE chat_messages ADD {definition}")
    except (OperationalError, ProgrammingError):
        if column.name not in _columns(engine):
            raise


def _widen(engine: sa.Engine) -> None:
    """Let in ids and scopes of any length where an older nbchat made the tables.

    Who may not alter them can go on with short ones.
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
    """WAL with full sync: one fsync a commit, and nothing acknowledged is lost.

    And a `lower` that knows every letter, as PostgreSQL's does.
    """
    for pragma in (
        f"busy_timeout={BUSY_SECONDS * 1000}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.create_function("lower", 1, str.lower, deterministic=True)
