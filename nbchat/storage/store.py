"""Session storage in a database: appended entry by entry, loaded as a whole.

SQLite in the Jupyter data folder by default, or any SQLAlchemy URL. Rows are only
added, each in its own transaction, so a crash loses nothing that was acknowledged.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from nbchat.conversation.entries import Compaction, now
from nbchat.conversation.search import snippet
from nbchat.conversation.search_index import entry_text
from nbchat.conversation.session import Session
from nbchat.conversation.turns import MODEL_ROLES
from nbchat.errors import HistoryError, SessionNotFound, SessionTaken, StoreError
from nbchat.storage.schema import (
    chat_messages,
    database_url,
    default_file,
    drafts,
    open_database,
    session_snapshots,
    sessions,
    settings,
)
from nbchat.storage.serialization import (
    ESCAPED,
    SessionInfo,
    compaction_from_json,
    compaction_json,
    entry_from_draft,
    entry_from_row,
    escaped,
    info_from_row,
    is_pins,
    pins_from_rows,
    restored,
    storable,
    usage_columns,
    usage_from_row,
)
from nbchat.storage.session_search import SessionSearch, matching_entries

PinKind = Literal["pin", "unpin"]

TAKEN = (
    "another kernel has continued or deleted this session; new messages are not saved "
    "here. Start another session with /new"
)


NOT_FOUND = "there is no session {!r}; /sessions lists them"


def session_scope(session_id: str) -> str:
    """The scope of settings that are saved for one session."""
    return f"session:{session_id}"


class SessionStore:
    """Sessions and settings in a database, which is opened at first use."""

    def __init__(self, url: str = "") -> None:
        """`url` is a SQLAlchemy URL; empty for SQLite in the Jupyter data folder."""
        self.url = url
        self._engine: sa.Engine | None = None
        self._search = SessionSearch()

    def __repr__(self) -> str:
        """The location, without a password."""
        try:
            return f"<SessionStore {self.location}>"
        except StoreError:
            return "<SessionStore with an invalid URL>"

    @property
    def location(self) -> str:
        """The file or URL without its password; raises StoreError if it is invalid."""
        if not self.url:
            return str(default_file())
        shown = database_url(self.url).set(query={})
        return shown.render_as_string(hide_password=True)

    def load(self, session_id: str) -> Session:
        """Load a session; raises SessionNotFound, or StoreError if it is unreadable."""
        rows, snapshots, draft = self._rows(storable(session_id))
        if not rows:
            raise SessionNotFound(NOT_FOUND.format(session_id))
        records = (row.content_json for row in snapshots if not is_pins(row))
        try:
            session = Session(
                [*map(entry_from_row, rows), *map(entry_from_draft, draft)],
                session_id=session_id,
                compactions=map(compaction_from_json, records),
                usages=[
                    (row.position + 1, usage_from_row(row))
                    for row in rows
                    if row.input_tokens is not None
                ],
                pins=pins_from_rows(snapshots),
            )
        except HistoryError as error:  # written by a newer nbchat
            raise StoreError(
                f"session {session_id!r} cannot be read: {error}"
            ) from error
        session.newest_snapshot = snapshots[-1].number if snapshots else 0
        return session

    def sessions(
        self, *, notebook: str | None = None, query: str = ""
    ) -> list[SessionInfo]:
        """List the sessions of a notebook or of all, the last used first.

        With a `query`, sessions that contain any of its words, the best match first,
        each with a `snippet`. If there are none, those that contain the query inside a
        word, ignoring case. A session's title is the beginning of its first message.
        """
        with self._connection() as connection:
            if not (query := query.strip()):
                return _listed(connection, notebook)
            if not (found := self._search.find(connection, query)):
                return _listed(connection, notebook, _containing(query))
            best = matching_entries(connection, found)
            is_found = sessions.c.id.in_([each.stored_id for each in found])
            rank = {each.stored_id: number for number, each in enumerate(found)}
            return sorted(
                (
                    replace(info, snippet=snippet(entry_text(best[stored_id]), query))
                    for info in _listed(connection, notebook, is_found)
                    if (stored_id := storable(info.id)) in best
                ),
                key=lambda info: rank[storable(info.id)],
            )

    def delete(self, session_id: str) -> None:
        """Delete a session; raises SessionNotFound if there is none."""
        stored_id = storable(session_id)
        with self._connection() as connection:
            for table in (drafts, session_snapshots, chat_messages):
                is_its_own = table.c.session_id == stored_id
                connection.execute(sa.delete(table).where(is_its_own))
            is_its_own = settings.c.scope == storable(session_scope(session_id))
            connection.execute(sa.delete(settings).where(is_its_own))
            done = connection.execute(
                sa.delete(sessions).where(sessions.c.id == stored_id)
            )
        if not done.rowcount:
            raise SessionNotFound(NOT_FOUND.format(session_id))

    def check_writable(self) -> None:
        """Write a row and roll back; raises StoreError when writing fails."""
        row = {"scope": "", "name": "", "value_json": "null", "created_at": now()}
        with self._connection() as connection:
            connection.execute(settings.insert().values(row))
            connection.rollback()

    def close(self) -> None:
        """Close the connections to the database; the next use opens them again."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def add_entry(
        self, session: Session, position: int, *, notebook: str, model: str
    ) -> None:
        """Append one entry; the first one also creates the session.

        Appending the same entry again changes nothing, because an interrupt may come
        between the commit and its confirmation. Raises SessionTaken when another kernel
        has saved another entry at `position`.
        """
        entry = session.transcript[position]
        usage = session.usage_at(position)
        columns = usage_columns(usage) if usage else {}
        key = {"session_id": storable(session.session_id), "position": position}
        texts = {name: storable(text) for name, text in entry._asdict().items()}
        origin = {"notebook": storable(notebook), "model": storable(model)}
        row = {**key, **texts, **columns, "created_at": now()}
        try:
            with self._connection() as connection:
                if position == 0:
                    begun = {"id": key["session_id"], **origin, "created_at": now()}
                    connection.execute(sessions.insert().values(begun))
                connection.execute(chat_messages.insert().values(row))
        except SessionTaken:
            if not self._holds({**key, **texts}):
                raise

    def move(self, session_id: str, notebook: str) -> None:
        """Assign a session to another notebook."""
        is_it = sessions.c.id == storable(session_id)
        belongs = {"notebook": storable(notebook)}
        with self._connection() as connection:
            connection.execute(sa.update(sessions).where(is_it).values(belongs))

    def save_draft(self, session_id: str, position: int, text: str) -> None:
        """Save the streamed part of the answer that will get `position`.

        Until an entry has that position, `load` returns it as an incomplete answer.
        """
        stored_id = storable(session_id)
        row = {"session_id": stored_id, "position": position, "content": storable(text)}
        with self._connection() as connection:
            connection.execute(
                sa.delete(drafts).where(drafts.c.session_id == stored_id)
            )
            connection.execute(drafts.insert().values(row))

    def add_compaction(self, session: Session, compaction: Compaction) -> int:
        """Append a record of a compaction that began, ended or changed.

        Returns its number; raises SessionTaken when another kernel has continued.
        """
        return self._add_snapshot(
            session,
            compaction.kind,
            compaction_json(session.session_id, compaction),
            cutoff=compaction.stop - 1,
            tokens=compaction.summary_tokens,
            created_at=compaction.created_at,
        )

    def add_pins(
        self, session: Session, pins: tuple[str, ...], *, kind: PinKind
    ) -> int:
        """Append all rules that are pinned now; `kind` says which change led to them.

        Returns their number; raises SessionTaken when another kernel has continued.
        """
        return self._add_snapshot(
            session, kind, pins, cutoff=0, tokens=0, created_at=now()
        )

    def set_setting(self, scope: str, name: str, value: object) -> None:
        """Save a setting for all models (an empty scope), a provider, model or session.

        None resets it to its default.
        """
        named = {"scope": storable(scope), "name": storable(name)}
        row = {**named, "value_json": json.dumps(value)}
        with self._connection() as connection:
            connection.execute(settings.insert().values(**row, created_at=now()))

    def settings(self, scopes: Sequence[str]) -> dict[str, tuple[str, Any]]:
        """Settings saved for `scopes`, by name, each with its scope.

        When several scopes have the same setting, the last scope counts.
        """
        query = sa.select(settings).order_by(settings.c.number)
        with self._connection() as connection:
            rows = connection.execute(query).all()
        saved = {
            (restored(row.scope), restored(row.name)): json.loads(row.value_json)
            for row in rows
        }
        return {
            name: (scope, value)
            for wanted in scopes
            for (scope, name), value in saved.items()
            if scope == wanted and value is not None
        }

    def _rows(self, stored_id: str) -> tuple[Sequence[Any], ...]:
        """The rows of a session: its entries, its snapshots, and its draft if any."""
        messages, snapshots = chat_messages.c, session_snapshots.c
        with self._connection() as connection:
            rows = connection.execute(
                sa.select(chat_messages)
                .where(messages.session_id == stored_id)
                .order_by(messages.position)
            ).all()
            taken = connection.execute(
                sa.select(session_snapshots)
                .where(snapshots.session_id == stored_id)
                .order_by(snapshots.number)
            ).all()
            is_open = (drafts.c.session_id == stored_id, drafts.c.position == len(rows))
            draft = connection.execute(sa.select(drafts).where(*is_open)).all()
        return rows, taken, draft

    def _holds(self, row: dict[str, Any]) -> bool:
        same = sa.and_(*(chat_messages.c[name] == each for name, each in row.items()))
        with self._connection() as connection:
            found = connection.execute(sa.select(sa.exists().where(same)))
            return bool(found.scalar())

    def _add_snapshot(
        self,
        session: Session,
        kind: str,
        content: object,
        *,
        cutoff: int,
        tokens: int,
        created_at: str,
    ) -> int:
        stored_id = storable(session.session_id)
        row = {
            "session_id": stored_id,
            "kind": kind,
            "content_json": json.dumps(content),
            "message_cutoff_id": cutoff,
            "token_count": tokens,
            "created_at": created_at,
        }
        its_own = sa.select(sessions.c.id).where(sessions.c.id == stored_id)
        with self._connection() as connection:
            # One kernel at a time: PostgreSQL locks here, SQLite when it inserts.
            connection.execute(its_own.with_for_update()).all()
            added = connection.execute(session_snapshots.insert().values(row))
            number = int(added.inserted_primary_key[0])  # type: ignore[index]  # one row
            if connection.scalar(_is_stale(session, number)):
                raise SessionTaken(TAKEN)
            return int(number)

    def _opened(self) -> sa.Engine:
        try:
            return open_database(self.url)
        except (ValueError, TypeError) as error:  # an invalid option of the URL
            raise StoreError(
                f"the session store failed: {_first_line(error)}; check store_url"
            ) from error

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """Open a transaction; errors of the database are raised as StoreError."""
        try:
            if self._engine is None:
                self._engine = self._opened()
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError as error:
            raise SessionTaken(TAKEN) from error
        except (SQLAlchemyError, OSError, ImportError) as error:  # no driver
            raise StoreError(
                f"the session store failed: {_first_line(error)}"
            ) from error


def _listed(
    connection: sa.Connection,
    notebook: str | None,
    condition: sa.ColumnElement[bool] | None = None,
) -> list[SessionInfo]:
    """Sessions that meet a condition, the last used first."""
    use = _session_statistics()
    first = sa.and_(
        chat_messages.c.session_id == sessions.c.id,
        chat_messages.c.position == use.c.begins,
    )
    query = (
        sa.select(sessions, chat_messages.c.content, use.c.messages, use.c.used_at)
        .join(use, use.c.session_id == sessions.c.id)
        .join(chat_messages, first)
        .order_by(use.c.used_at.desc(), sessions.c.id)
    )
    if notebook is not None:
        query = query.where(sessions.c.notebook == storable(notebook))
    if condition is not None:
        query = query.where(condition)
    return [info_from_row(row) for row in connection.execute(query)]


def _containing(text: str) -> sa.ColumnElement[bool]:
    """A condition: the session has a message with a text in it."""
    found = sa.select(chat_messages.c.session_id).where(_contains(text))
    return sessions.c.id.in_(found)


def _session_statistics() -> sa.Subquery:
    """For each session: where it begins, how many messages it has, when it was used.

    It begins at the first entry that is no attachment. Messages are counted as in
    `conversation.turns`: consecutive entries of the model are one.
    """
    columns = chat_messages.c
    previous = sa.func.lag(columns.role).over(
        partition_by=columns.session_id, order_by=columns.position
    )
    previous_role = sa.func.coalesce(previous, "").label("previous_role")
    every = sa.select(chat_messages, previous_role).subquery()
    is_attached = sa.and_(every.c.role == "user", every.c.tool_name != "")
    continues = sa.and_(
        every.c.role.in_(MODEL_ROLES), every.c.previous_role.in_(MODEL_ROLES)
    )
    begins = sa.func.min(sa.case((~is_attached, every.c.position)))
    return (
        sa.select(
            every.c.session_id,
            sa.func.coalesce(begins, 0).label("begins"),
            sa.func.count(sa.case((~continues, 1))).label("messages"),
            sa.func.max(every.c.created_at).label("used_at"),
        )
        .group_by(every.c.session_id)
        .subquery()
    )


def _contains(word: str) -> sa.ColumnElement[bool]:
    """A condition: the message contains the word, plain or in escapes."""
    content = chat_messages.c.content
    if storable(word) == word:
        return content.icontains(word, autoescape=True)
    escapes = escaped(word)
    return content.startswith(ESCAPED) & content.icontains(escapes, autoescape=True)


def _is_stale(session: Session, number: int) -> sa.Select[tuple[bool]]:
    """A query: whether another kernel has added to a session before `number`."""
    stored_id = storable(session.session_id)
    more = sa.exists().where(
        chat_messages.c.session_id == stored_id,
        chat_messages.c.position >= len(session.transcript),
    )
    known = number if session.newest_snapshot is None else session.newest_snapshot
    changed = sa.exists().where(
        session_snapshots.c.session_id == stored_id,
        session_snapshots.c.number.between(known + 1, number - 1),
    )
    return sa.select(sa.or_(more, changed))


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
