"""Database tables for sessions, settings and shared copies; every row has an owner."""

import sqlalchemy as sa

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
"""Fields of a usage that have a column each."""

VERSIONS = ("0004", "0005", "0006")
"""Versions of the schema since nbchat 0.1.0, oldest first.

Each has tables that the one before lacks; no table has changed since.
"""

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s",
        "uq": "uq_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# MySQL and others need a length for a key; SQLite ignores it.
NAME = sa.String(128).with_variant(sa.Text(), "postgresql")
TIME = sa.String(32)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _owner() -> sa.Column[str]:
    return sa.Column("owner", NAME, nullable=False)


def _session() -> tuple[sa.Column[str], sa.Column[str], sa.ForeignKeyConstraint]:
    """The columns by which a row belongs to a session of an owner."""
    key = sa.ForeignKeyConstraint(
        ["owner", "session_id"], ["sessions.owner", "sessions.id"]
    )
    return _owner(), sa.Column("session_id", NAME, nullable=False), key


sessions = sa.Table(
    "sessions",
    metadata,
    _owner(),
    sa.Column("id", NAME, nullable=False),
    sa.Column("notebook", sa.Text, nullable=False, default=""),
    sa.Column("notebook_id", sa.Text, nullable=False, default=""),
    sa.Column("server", sa.Text, nullable=False, default=""),
    sa.Column("model", sa.Text, nullable=False, default=""),
    # What a list shows, kept with each entry: so that it reads no message.
    sa.Column("title", sa.Text, nullable=False, default=""),
    sa.Column("messages", sa.Integer, nullable=False, default=0),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("used_at", TIME, nullable=False),
    # Of a branch: the oldest session of its family, and all that it comes from.
    sa.Column("family", NAME),
    sa.Column("ancestors_json", sa.Text),
    sa.PrimaryKeyConstraint("owner", "id"),
    sa.Index(None, "owner", "used_at"),
    sa.Index(None, "owner", "family"),
)

chat_messages = sa.Table(
    "chat_messages",
    metadata,
    sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
    *_session(),
    sa.Column("position", sa.Integer, nullable=False),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in ("role", "content", "tool_id", "tool_name", "tool_args")
    ),
    *(sa.Column(name, NUMBER) for name in TOKENS),
    sa.Column("created_at", TIME, nullable=False),
    # Of the response that ended with this entry; null in rows of earlier versions.
    sa.Column("model", sa.Text),
    sa.Column("cost", sa.Float),
    sa.Column("is_estimated", sa.Boolean),
    sa.Column("dropped_tokens", NUMBER),
    sa.Column("cache_loss", sa.Text),
    # Of this entry alone, by its length; what a request took is in `input_tokens`.
    sa.Column("tokens", sa.Integer),
    sa.UniqueConstraint("owner", "session_id", "position"),
)

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    _owner(),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("value_json", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index(None, "owner"),
)

session_snapshots = sa.Table(
    "session_snapshots",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    *_session(),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("content_json", sa.Text, nullable=False),
    sa.Column("message_cutoff_id", sa.Integer, nullable=False),
    sa.Column("token_count", NUMBER, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index(None, "owner", "session_id"),
)

drafts = sa.Table(
    "drafts",
    metadata,
    *_session(),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("owner", "session_id"),
)
"""The streaming answer of each session; obsolete once an entry has its position."""

cell_changes = sa.Table(
    "cell_changes",
    metadata,
    sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
    *_session(),
    # The position of the message that begins the turn.
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("content_json", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index(None, "owner", "session_id"),
)
"""The model's changes of a notebook, with each cell before and after."""

run_results = sa.Table(
    "run_results",
    metadata,
    _owner(),
    sa.Column("run", NAME, nullable=False),
    sa.Column("key", NAME, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("is_failed", sa.Boolean, nullable=False),
    sa.Column("result_json", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.PrimaryKeyConstraint("owner", "run", "key"),
    sa.Index(None, "owner", "run", "number"),
)
"""The outcome of each row of `map_agents`."""

run_batches = sa.Table(
    "run_batches",
    metadata,
    _owner(),
    sa.Column("run", NAME, nullable=False),
    sa.Column("batch_id", NAME, nullable=False),
    sa.Column("names_json", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.PrimaryKeyConstraint("owner", "run", "batch_id"),
)
"""Batches of requests that a provider works on."""

request_paces = sa.Table(
    "request_paces",
    metadata,
    _owner(),
    # A hash, for an address may be of any length.
    sa.Column("address_hash", sa.String(64), nullable=False),
    sa.Column("pace_json", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("owner", "address_hash"),
)
"""How far apart the processes of an owner may ask a server that limits them."""

shares = sa.Table(
    "shares",
    metadata,
    sa.Column("token_hash", sa.String(64), primary_key=True),
    _owner(),
    sa.Column("session_id", NAME, nullable=False),
    sa.Column("content_json", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index(None, "owner"),
)
"""Copies that others may read who have the link; a link is known by its hash only."""

SESSION_TABLES = (drafts, cell_changes, session_snapshots, chat_messages)
"""Tables with rows of a session, in the order in which they can be deleted."""

FTS5 = (
    'CREATE VIRTUAL TABLE message_words USING fts5(text, content="", tokenize='
    "\"porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'\")"
)
TSVECTOR = (
    """CREATE TABLE message_words (
        number BIGINT PRIMARY KEY, owner TEXT NOT NULL, words TSVECTOR NOT NULL)""",
    "CREATE INDEX ix_message_words ON message_words USING gin (words)",
)
INDEXES = {"sqlite": (FTS5,), "postgresql": TSVECTOR}
"""Statements that create the full-text index of messages, by database."""

version = sa.table("alembic_version", sa.column("version_num"))
"""The version of the schema, in a table with the name that Alembic gave it."""
