"""What only PostgreSQL needs: patience with it, row level security, erasing for good.

A server that is stopped, or a proxy before it that hangs, still acknowledges what
arrives: no timeout of TCP ends the wait, and neither libpq nor psycopg has one. So a
connection is given up when the server sends nothing for half a minute.
"""

import math
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from nbchat.storage.schema import (
    SESSION_TABLES,
    metadata,
    run_results,
    sessions,
    settings,
    shares,
)

OWNER_SETTING = "nbchat.owner"
"""The setting that names the owner in each transaction."""

SHARE_SETTING = "nbchat.share"
"""The setting that names the shared copy to read."""

WAITS = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
"""Until a PostgreSQL server that does not answer counts as out of reach. By itself a
connection whose network is gone would wait for a quarter of an hour."""

LOCK_NUMBER = 0x6E626368
"""PostgreSQL's advisory lock under which tables are created: "nbch"."""

SILENT_SECONDS = 30.0
"""How long a server may send nothing before its connection is given up."""

LOCK_SECONDS = 5.0
"""How long others are waited for who read a table of PostgreSQL: all wait behind."""

_is_patient: ContextVar[bool] = ContextVar("is_patient", default=False)


def announce(connection: sa.Connection, setting: str, value: str) -> None:
    """Name an owner or a shared copy to row level security, for this transaction."""
    connection.execute(sa.select(sa.func.set_config(setting, value, True)))


def rls_statements(*, by_role: bool = False) -> list[str]:
    """SQL that lets every user of a PostgreSQL database reach only their own rows.

    The owner is what nbchat announces: a wall against errors of nbchat. With `by_role`
    it must also be the role that is logged in, so it holds against the users, too; then
    each needs a role named as the owner.
    """
    mine = f"owner = current_setting('{OWNER_SETTING}', true)"
    mine += " AND owner = session_user" if by_role else ""
    linked = f"token_hash = current_setting('{SHARE_SETTING}', true)"
    found = []
    for name in (*metadata.tables, "message_words"):
        found += [
            f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY",
            f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY",
            f"DROP POLICY IF EXISTS nbchat_owner ON {name}",
            f"CREATE POLICY nbchat_owner ON {name} USING ({mine}) WITH CHECK ({mine})",
        ]
    found += [
        f"DROP POLICY IF EXISTS nbchat_link ON {shares.name}",
        f"CREATE POLICY nbchat_link ON {shares.name} FOR SELECT USING ({linked})",
    ]
    return found


def rewrite_tables(connection: sa.Connection) -> None:
    """Write PostgreSQL's tables again.

    A plain VACUUM leaves bytes in free space, and in the index words of no message.
    """
    tables = (*SESSION_TABLES, sessions, shares, settings, run_results)
    connection.detach()  # no other use has its timeout
    connection.exec_driver_sql(f"SET lock_timeout = {round(LOCK_SECONDS * 1_000)}")
    for name in (*(table.name for table in tables), "message_words"):
        file = sa.select(sa.func.pg_relation_filenode(sa.text(f"'{name}'")))
        before = connection.scalar(file)
        connection.exec_driver_sql(f"VACUUM FULL {name}")
        if connection.scalar(file) == before:  # PostgreSQL only warns
            raise SQLAlchemyError(
                "only the database user who owns the tables may do that"
            )


@contextmanager
def patience() -> Iterator[None]:
    """Let a statement take its time: others create tables, or a large one changes."""
    token = _is_patient.set(True)
    try:
        yield
    finally:
        _is_patient.reset(token)


def connect_impatiently(
    _dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]
) -> Any:
    """Connect as SQLAlchemy would; for its event `do_connect`."""
    return _connection_class().connect(*arguments, **options)


@cache
def _connection_class() -> Any:
    # Not at the top: psycopg is installed for PostgreSQL alone.
    from psycopg import Connection, OperationalError  # noqa: PLC0415

    class Impatient(Connection[Any]):
        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_limited(gen), *arguments, **options)
            except TimeoutError as error:
                self.pgconn.finish()  # else it would be used again
                raise OperationalError(str(error)) from None

    return Impatient


def _limited(step: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """A step of psycopg; raises TimeoutError after `SILENT_SECONDS` without a byte.

    psycopg resumes it with 0 ten times a second meanwhile.
    """
    seconds = math.inf if _is_patient.get() else SILENT_SECONDS
    end = time.monotonic() + seconds
    try:
        wanted = next(step)
        while True:
            ready = yield wanted
            if ready:
                end = time.monotonic() + seconds
            elif time.monotonic() > end:
                raise TimeoutError(f"the database sent nothing for {seconds:.0f} s")
            wanted = step.send(ready)
    except StopIteration as ended:
        return ended.value
