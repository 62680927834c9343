"""Full-text index of all stored messages, in the database itself.

SQLite's FTS5 and PostgreSQL's tsvector; other databases have no index and are searched
inside words. The owner is a word of each indexed text, so the index itself finds
nothing of another owner.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import sqlalchemy as sa

from nbchat.conversation.entries import Entry
from nbchat.conversation.search import snippet
from nbchat.conversation.search_index import entry_text, indexed_text, words_of
from nbchat.conversation.session import Session
from nbchat.storage.schema import INDEXES, chat_messages, sessions
from nbchat.storage.serialization import (
    ESCAPED,
    OwnedRows,
    SessionInfo,
    escaped,
    info_from_row,
    readable_entry,
    storable,
)

MOST_CANDIDATES = 500
"""Messages that are ranked: the rarest words come first, of equals the newest."""

MOST_SESSIONS = 40
"""Sessions in which a word is looked for that more messages have than are ranked."""

MOST_WORDS = 32
"""Words of a query that are looked up."""

LONGEST_TEXT = 200_000
"""Characters of a message that are indexed: a tsvector may have a megabyte."""

LONGEST_WORD = 500
"""Characters of a word; PostgreSQL refuses words over two kilobytes."""

MOST_SCANNED = 50_000
"""The newest messages that are searched inside words, when no word is found."""

_ALPHANUMERIC = re.compile(r"[^\W_]+")

Message = tuple[int, str, Entry]
"""A message's number in the database, its owner as stored, and the entry."""


def found_sessions(
    connection: sa.Connection,
    mine: OwnedRows,
    query: str,
) -> list[SessionInfo]:
    """Sessions with a match, the best first, each with a snippet."""
    numbers = best_messages(connection, query, mine)
    rank = {number: place for place, number in enumerate(numbers)}
    is_best = chat_messages.c.number.in_(numbers)
    rows = connection.execute(mine.select(chat_messages).where(is_best)).all()
    best: dict[str, Any] = {}
    for row in sorted(rows, key=lambda row: rank[row.number]):
        best.setdefault(row.session_id, row)
    if not best:
        found = _containing(connection, mine, query)
        return listed(connection, mine, found)
    order = {stored_id: place for place, stored_id in enumerate(best)}
    infos = listed(connection, mine, [*best])
    infos.sort(key=lambda info: order[storable(info.id)])
    entries = (readable_entry(best[storable(info.id)]) for info in infos)
    return [
        replace(info, snippet=snippet(entry_text(entry), query))
        for info, entry in zip(infos, entries, strict=True)
    ]


def listed(
    connection: sa.Connection,
    mine: OwnedRows,
    only: Sequence[str] | None = None,
    *,
    limit: int | None = None,
    before: str = "",
) -> list[SessionInfo]:
    """Sessions, or some of them by id, the last used first; those after `before`."""
    columns = sessions.c
    order = (columns.used_at.desc(), columns.id)
    query = mine.select(sessions).order_by(*order).limit(limit)
    if only is not None:
        query = query.where(columns.id.in_(only))
    if before:
        its_time = mine.select(sessions, columns.used_at)
        used_at = connection.scalar(its_time.where(columns.id == storable(before)))
        if used_at is None:
            return []
        is_later = (columns.used_at == used_at) & (columns.id > storable(before))
        query = query.where((columns.used_at < used_at) | is_later)
    return [info_from_row(row) for row in connection.execute(query)]


_ADD_MESSAGES = sa.insert(chat_messages)
_ADD_AND_NUMBER = _ADD_MESSAGES.returning(
    chat_messages.c.number, chat_messages.c.position
)


def add_messages(
    connection: sa.Connection, session: Session, rows: Sequence[dict[str, Any]]
) -> None:
    """Add rows of a session's messages, and their words to the index."""
    if not has_index(connection):
        connection.execute(_ADD_MESSAGES, rows)
        return
    owner, entries = rows[0]["owner"], session.transcript
    added = connection.execute(_ADD_AND_NUMBER, rows).all()
    index_messages(
        connection, [(row.number, owner, entries[row.position]) for row in added]
    )


def unindex_rows(
    connection: sa.Connection, mine: OwnedRows, rows: Iterable[Any]
) -> None:
    """Remove rows of messages from the index."""
    unindex_messages(
        connection, [(row.number, mine.owner, readable_entry(row)) for row in rows]
    )


def _containing(connection: sa.Connection, mine: OwnedRows, text: str) -> list[str]:
    """Ids of sessions with a text inside a word of one of the newest messages."""
    columns = chat_messages.c
    last = _newest_message(connection, mine)
    # Chosen by number alone: SQLite would look up an owner's rows one by one.
    numbers = sa.select(columns.number).where(
        columns.number.between(last - MOST_SCANNED + 1, last),
        _contains(text, connection.dialect.name),
    )
    query = mine.select(chat_messages, columns.session_id)
    return [*connection.scalars(query.where(columns.number.in_(numbers)).distinct())]


def _newest_message(connection: sa.Connection, mine: OwnedRows) -> int:
    """The highest number of a message in an owner's recent sessions."""
    columns = chat_messages.c
    last = mine.select(chat_messages, columns.number)
    last = last.where(columns.session_id == sessions.c.id).correlate(sessions)
    last = last.order_by(columns.position.desc()).limit(1)
    newest = mine.select(sessions, last.scalar_subquery().label("number"))
    newest = newest.order_by(sessions.c.used_at.desc()).limit(MOST_SESSIONS)
    return connection.scalar(sa.select(sa.func.max(newest.subquery().c.number))) or 0


def _contains(word: str, dialect: str) -> sa.ColumnElement[bool]:
    """A condition: the message contains the word, plain or in escapes."""
    content = chat_messages.c.content
    # LIKE ignores case in SQLite already: both sides in lower case take twice as long.
    like = content.contains if dialect == "sqlite" else content.icontains
    if storable(word) == word:
        return like(word, autoescape=True)
    return content.startswith(ESCAPED) & like(escaped(word), autoescape=True)


def has_index(connection: sa.Connection) -> bool:
    """True if this kind of database has a full-text index."""
    return connection.dialect.name in INDEXES


def index_messages(connection: sa.Connection, messages: Iterable[Message]) -> None:
    """Add messages to the index."""
    rows = _rows(connection, messages)
    if rows and has_index(connection):
        connection.execute(_ADD[connection.dialect.name], rows)


def unindex_messages(connection: sa.Connection, messages: Iterable[Message]) -> None:
    """Remove messages from the index; the entries must be those that were added."""
    rows = _rows(connection, messages)
    if rows and has_index(connection):
        connection.execute(_REMOVE[connection.dialect.name], rows)


def purge_index(connection: sa.Connection) -> None:
    """Remove the words of deleted messages from SQLite's index, which keeps them."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(
            "INSERT INTO message_words(message_words) VALUES ('optimize')"
        )


def best_messages(connection: sa.Connection, query: str, mine: OwnedRows) -> list[int]:
    """Numbers of an owner's messages with any word of a query, the best first.

    Of a word that more messages have than are ranked, the newest may all be of one
    session: then the newest message with it of each recent session is there, too.
    """
    if not has_index(connection):
        return []
    terms = (_term(word, connection.dialect.name) for word in words_of(query))
    found = {
        each: numbers
        for each in islice(filter(None, terms), MOST_WORDS)
        if (numbers := _matching(connection, each, mine.owner))
    }
    scores: dict[int, float] = {}
    total = 0
    for term in sorted(found, key=lambda term: len(found[term])):
        numbers = found[term]
        total += len(numbers)
        if scores and total > MOST_CANDIDATES:
            break
        if len(numbers) == MOST_CANDIDATES:
            numbers += _in_recent_sessions(connection, term, mine)
        for number in dict.fromkeys(
            numbers
        ):  # a rare word says more than a frequent one
            scores[number] = scores.get(number, 0) + 1 / len(numbers)
    return sorted(scores, key=lambda number: (-scores[number], -number))


def _in_recent_sessions(
    connection: sa.Connection, term: str, mine: OwnedRows
) -> list[int]:
    """The newest message with a word of each of an owner's sessions used last."""
    dialect = connection.dialect.name
    ids = mine.select(sessions, sessions.c.id).order_by(sessions.c.used_at.desc())
    values = {"words": _of_owner(term, mine.owner, dialect), "owner": mine.owner}
    rows = (
        connection.execute(
            _MATCH_IN_SESSION[dialect], {**values, "session": each}
        ).first()
        for each in connection.scalars(ids.limit(MOST_SESSIONS)).all()
    )
    return [row[0] for row in rows if row is not None]


def _rows(
    connection: sa.Connection, messages: Iterable[Message]
) -> list[dict[str, object]]:
    is_split = connection.dialect.name == "postgresql"
    return [
        {
            "number": number,
            "owner": owner,
            "text": _searchable(owner, entry, is_split=is_split),
        }
        for number, owner, entry in messages
    ]


def _matching(connection: sa.Connection, term: str, owner: str) -> list[int]:
    """Numbers of an owner's messages with a word, the newest up to the limit."""
    dialect = connection.dialect.name
    values = {"words": _of_owner(term, owner, dialect), "term": term}
    rows = connection.execute(_MATCH[dialect], {**values, "most": MOST_CANDIDATES})
    return [row[0] for row in rows]


_ADD = {
    "sqlite": sa.text("INSERT INTO message_words(rowid, text) VALUES (:number, :text)"),
    "postgresql": sa.text(
        "INSERT INTO message_words(number, owner, words) "
        "VALUES (:number, :owner, to_tsvector('english', :text))"
    ),
}
_REMOVE = {
    "sqlite": sa.text(
        "INSERT INTO message_words(message_words, rowid, text) "
        "VALUES ('delete', :number, :text)"
    ),
    "postgresql": sa.text("DELETE FROM message_words WHERE number = :number"),
}
_MATCH = {
    # Not by bm25: it counts all rows with a word, and each has the owner's.
    "sqlite": sa.text(
        "SELECT rowid FROM message_words WHERE message_words MATCH :words "
        "ORDER BY rowid DESC LIMIT :most"
    ),
    # A word such as "the" is not indexed: a query without nodes.
    "postgresql": sa.text(
        "SELECT number FROM message_words WHERE words @@ to_tsquery('english', :words) "
        "AND numnode(to_tsquery('english', :term)) > 0 ORDER BY number DESC LIMIT :most"
    ),
}


_RANGE = """BETWEEN
    (SELECT number FROM chat_messages WHERE owner = :owner AND session_id = :session
        ORDER BY position LIMIT 1)
    AND (SELECT number FROM chat_messages WHERE owner = :owner AND session_id = :session
        ORDER BY position DESC LIMIT 1)"""
"""The numbers of a session's messages, and of others that were written meanwhile."""

_MATCH_IN_SESSION = {
    "sqlite": sa.text(
        "SELECT w.rowid FROM message_words w JOIN chat_messages m "
        "ON m.number = w.rowid WHERE message_words MATCH :words "
        f"AND w.rowid {_RANGE} AND m.owner = :owner AND session_id = :session "
        "ORDER BY w.rowid DESC LIMIT 1"
    ),
    "postgresql": sa.text(
        "SELECT w.number FROM message_words w JOIN chat_messages m "
        "ON m.number = w.number WHERE words @@ to_tsquery('english', :words) "
        f"AND w.number {_RANGE} AND m.owner = :owner AND session_id = :session "
        "ORDER BY w.number DESC LIMIT 1"
    ),
}


def _searchable(owner: str, entry: Entry, *, is_split: bool) -> str:
    """The indexed text of a message: its owner's word, and its text without accents.

    PostgreSQL would read an id such as SO-101 as a word and a negative number, so it
    gets letters and digits only (`is_split`).
    """
    text = _plain(indexed_text(entry)[:LONGEST_TEXT])
    words = _ALPHANUMERIC.findall(text) if is_split else text.split()
    return " ".join([_owner_word(owner), *(word[:LONGEST_WORD] for word in words)])


def _plain(text: str) -> str:
    """A text without accents and in one case, which PostgreSQL does not do."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(each for each in apart if not unicodedata.combining(each))
    return unicodedata.normalize("NFC", kept)


def _owner_word(owner: str) -> str:
    """A word that no text contains by chance."""
    return f"owner{hashlib.sha256(owner.encode()).hexdigest()[:24]}"


def _term(word: str, dialect: str) -> str:
    """A word as a term of the database's query language; empty if it has none."""
    plain = _plain(word[:LONGEST_WORD])
    if dialect == "sqlite":
        return '"' + plain.replace('"', " ") + '"'
    return " <-> ".join(f"'{each}'" for each in _ALPHANUMERIC.findall(plain))


def _of_owner(term: str, owner: str, dialect: str) -> str:
    """A query for the messages of an owner that have a term."""
    if dialect == "sqlite":
        return f"{_owner_word(owner)} AND {term}"
    return f"'{_owner_word(owner)}' & ({term})"
