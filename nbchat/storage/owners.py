"""Owners of sessions and settings, and statements limited to an owner's rows.

The owner is given, or the user of JupyterHub, or of the operating system. `OwnedRows`
makes every statement of a store, so no query can forget the owner. On PostgreSQL row
level security is a second wall: `rls_statements`.
"""

import getpass
import os
import platform
from typing import Any

import sqlalchemy as sa

from nbchat.storage.schema import metadata, shares
from nbchat.storage.serialization import storable

SETTING = "nbchat.owner"
"""PostgreSQL's setting that names the owner in each transaction."""

SHARE_SETTING = "nbchat.share"
"""PostgreSQL's setting that names the shared copy to read."""


def current_owner(given: str = "") -> str:
    """The owner of what this process saves: given, of JupyterHub, or of the system."""
    return given.strip() or os.environ.get("JUPYTERHUB_USER", "") or _system_user()


def _system_user() -> str:
    try:
        return getpass.getuser() if os.name == "nt" else _unix_user()
    except (KeyError, OSError, ImportError):  # a container's user without a name
        return f"uid-{os.getuid()}" if hasattr(os, "getuid") else "user"


def _unix_user() -> str:
    """The name of the process's user, which no environment variable changes."""
    import pwd  # noqa: PLC0415  # not on Windows

    return pwd.getpwuid(os.getuid()).pw_name


def current_server() -> str:
    """The Jupyter server that this kernel belongs to: of the hub, else the machine."""
    return os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "") or platform.node()


class OwnedRows:
    """Statements that read and change the rows of one owner, and no others."""

    def __init__(self, owner: str) -> None:
        """`owner` is a user's name, in any characters."""
        self.owner = storable(owner)

    def select(
        self, table: sa.Table, *columns: sa.ColumnElement[Any]
    ) -> sa.Select[Any]:
        """Read rows, or some columns of them."""
        return sa.select(*(columns or (table,))).where(self.has(table))

    def insert(self, table: sa.Table) -> sa.Insert:
        """Add rows; they get the owner."""
        return sa.insert(table).values(owner=self.owner)

    def update(self, table: sa.Table) -> sa.Update:
        """Change rows."""
        return sa.update(table).where(self.has(table))

    def delete(self, table: sa.Table) -> sa.Delete:
        """Delete rows."""
        return sa.delete(table).where(self.has(table))

    def has(self, table: sa.Table) -> sa.ColumnElement[bool]:
        """A condition: the row is the owner's."""
        return table.c.owner == sa.literal(self.owner)

    def announce(self, connection: sa.Connection) -> None:
        """Name the owner to PostgreSQL's row level security, for this transaction."""
        if connection.dialect.name == "postgresql":
            setting = sa.func.set_config(SETTING, self.owner, True)
            connection.execute(sa.select(setting))


def rls_statements(*, by_role: bool = False) -> list[str]:
    """SQL that lets every user of a PostgreSQL database reach only their own rows.

    The owner is what nbchat announces: a wall against errors of nbchat. With `by_role`
    it must also be the role that is logged in, so it holds against the users, too; then
    each needs a role named as the owner.
    """
    mine = f"owner = current_setting('{SETTING}', true)"
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
