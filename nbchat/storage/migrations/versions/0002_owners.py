"""Owners, a list of sessions that reads no message, and a full-text index.

Tables get other keys, so new ones are filled from the old. PostgreSQL keeps the old
tables as `NAME_0001`; of a SQLite file there is a backup. The new tables are those of
`nbchat.storage.schema` as it is now: a later migration that adds a column has to look
first whether it is there.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from nbchat.conversation.turns import count_messages
from nbchat.storage import schema
from nbchat.storage.serialization import readable_entry, storable, title_of_entries
from nbchat.storage.session_search import index_messages

revision = "0002"
down_revision = "0001"

OLD = ("drafts", "session_snapshots", "chat_messages", "sessions", "settings")
"""In the order in which they can be dropped."""

ROWS_AT_ONCE = 1_000


def upgrade() -> None:
    """Fill new tables from the old ones."""
    bind, owner = op.get_bind(), context.config.attributes["owner"]
    for name in OLD:
        op.rename_table(name, f"{name}_0001")
    if sa.inspect(bind).has_table("run_results"):  # of a version between releases
        op.rename_table("run_results", "run_results_0001")
    schema.metadata.create_all(bind)
    for statement in schema.INDEXES.get(bind.dialect.name, ()):
        op.execute(statement)
    found = sa.MetaData()
    old = {name: sa.Table(f"{name}_0001", found, autoload_with=bind) for name in OLD}
    _add_sessions(bind, old["sessions"], old["chat_messages"], storable(owner))
    for name in ("chat_messages", "session_snapshots", "drafts", "settings"):
        for rows in _batches(bind, old[name]):
            bind.execute(
                schema.metadata.tables[name].insert(),
                [{**row, "owner": storable(owner)} for row in rows],
            )
    _index(bind)
    for name in OLD if bind.dialect.name == "sqlite" else ():
        op.drop_table(f"{name}_0001")


def _add_sessions(
    bind: sa.Connection, old: sa.Table, messages: sa.Table, owner: str
) -> None:
    """Add the sessions with what a list shows of them."""
    known = {row.id: row._asdict() for row in bind.execute(sa.select(old))}
    ordered = sa.select(messages).order_by(messages.c.session_id, messages.c.position)
    shown: dict[str, dict[str, Any]] = {}
    for session_id, rows in groupby(bind.execute(ordered), attrgetter("session_id")):
        found = list(rows)
        entries = [readable_entry(row) for row in found]
        shown[session_id] = {
            "title": storable(title_of_entries(entries)),
            "messages": count_messages(entries),
            "used_at": max(row.created_at for row in found),
        }
    for session_id, row in known.items():
        empty = {"title": "", "messages": 0, "used_at": row["created_at"]}
        values = {**row, **shown.get(session_id, empty), "owner": owner}
        bind.execute(schema.sessions.insert().values(values))


def _batches(bind: sa.Connection, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """All rows of a table; snapshots and settings in the order of their numbers."""
    query = sa.select(table).order_by(*table.primary_key.columns)
    result = bind.execute(query).mappings()
    for rows in result.partitions(ROWS_AT_ONCE):
        yield [
            {name: value for name, value in row.items() if name != "number"}
            for row in rows
        ]


def _index(bind: sa.Connection) -> None:
    """Add all messages to the full-text index."""
    table = schema.chat_messages
    for rows in bind.execute(sa.select(table)).partitions(ROWS_AT_ONCE):
        index_messages(
            bind, [(row.number, row.owner, readable_entry(row)) for row in rows]
        )
