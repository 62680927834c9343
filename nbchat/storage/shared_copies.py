"""Shared copies of sessions, readable by anyone with the link."""

import hashlib
import secrets

import sqlalchemy as sa

from nbchat.conversation.entries import now
from nbchat.errors import SessionNotFound
from nbchat.storage.owners import SHARE_SETTING, OwnedRows
from nbchat.storage.schema import shares


def add_share(
    connection: sa.Connection, mine: OwnedRows, stored_id: str, content: str
) -> str:
    """Keep a copy of a session; returns the token that opens it."""
    token = secrets.token_urlsafe(24)
    row = {
        "token_hash": _hash(token),
        "session_id": stored_id,
        "content_json": content,
        "created_at": now(),
    }
    connection.execute(mine.insert(shares).values(row))
    return token


def shared_copy(connection: sa.Connection, token: str) -> str:
    """The copy that a token opens, of any owner; raises SessionNotFound."""
    key = _hash(token)
    if connection.dialect.name == "postgresql":
        setting = sa.func.set_config(SHARE_SETTING, key, True)
        connection.execute(sa.select(setting))
    query = sa.select(shares.c.content_json).where(shares.c.token_hash == key)
    found = connection.scalar(query)
    if found is None:
        raise SessionNotFound("there is no shared session with this link")
    return str(found)


def _hash(token: str) -> str:
    """What is stored of a link, by which it cannot be made."""
    return hashlib.sha256(token.encode()).hexdigest()
