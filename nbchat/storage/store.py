"""Session storage in a database: appended entry by entry, loaded as a whole.

SQLite in the Jupyter data folder by default, or any SQLAlchemy URL. Rows are only
added, each in its own transaction, so a crash loses nothing that was acknowledged.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from nbchat.conversation.cell_changes import CellChange, masked
from nbchat.conversation.entries import Compaction, Entry, Usage, now
from nbchat.conversation.session import Session, title_of
from nbchat.conversation.turns import begins_message
from nbchat.errors import (
    HistoryError,
    NbchatError,
    SessionNotFound,
    SessionTaken,
    StoreError,
)
from nbchat.storage.branches import (
    Branch,
    family_of,
    take_title,
)
from nbchat.storage.database import (
    Database,
    Response,
    begin_writing,
    database_url,
    default_file,
    open_database,
)
from nbchat.storage.postgresql import (
    OWNER_SETTING,
    SHARE_SETTING,
    announce,
    rls_statements,
)
from nbchat.storage.redaction import (
    Redacted,
    delete_results,
    delete_session,
    erase,
    finish_erasing,
    note_pending,
    redact_sessions,
)
from nbchat.storage.schema import (
    cell_changes,
    chat_messages,
    drafts,
    session_snapshots,
    sessions,
    settings,
    shares,
)
from nbchat.storage.serialization import (
    OwnedRows,
    SessionInfo,
    ancestors_from_json,
    branch_columns,
    cell_changes_from_rows,
    compaction_json,
    compactions_from_rows,
    current_owner,
    entries_from_rows,
    entry_from_draft,
    entry_row,
    pins_from_rows,
    restored,
    setting_from_row,
    storable,
    title_of_entries,
    usage_columns,
    usage_from_row,
)
from nbchat.storage.session_search import (
    add_messages,
    found_sessions,
    listed,
)
from nbchat.storage.text_forms import SHORTEST

_ADD_SESSION = sa.insert(sessions)
_SHOW = (
    sa.update(sessions)
    .where(sessions.c.owner == sa.bindparam("its_owner"))
    .where(sessions.c.id == sa.bindparam("its_id"))
    .values(
        # A clock may jump back.
        used_at=sa.case(
            (sessions.c.used_at > sa.bindparam("at"), sessions.c.used_at),
            else_=sa.bindparam("at"),
        ),
        messages=sessions.c.messages + sa.bindparam("more"),
    )
)
_SHOW_TITLE = _SHOW.values(title=sa.bindparam("name"))
"""Statements of each save, made once: to make one takes longer than to run it."""

_grouped: ContextVar["tuple[SessionStore, sa.Connection] | None"] = ContextVar(
    "grouped", default=None
)
"""The open transaction of a store which all that this thread saves there joins."""

PinKind = Literal["pin", "unpin", "drop", "keep"]
"""Kinds of snapshots: the last two are about dropped rules."""

TAKEN = (
    "Another kernel has continued or deleted this session, so new messages aren't "
    "saved here. /new starts another session."
)


NOT_FOUND = "There's no session {!r}. /sessions lists yours."


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a session is held, by which it is continued after a restart."""

    notebook: str = ""
    """The path of the notebook."""
    notebook_id: str = ""
    """The id in the notebook's metadata, which a copy or a move does not change."""
    server: str = ""
    model: str = ""


class SessionStore:
    """Sessions and settings of one owner in a database, opened at first use."""

    def __init__(self, url: str = "", *, owner: str = "") -> None:
        """`url` is a SQLAlchemy URL; empty for SQLite in the Jupyter data folder.

        Without an `owner`, it is the user of JupyterHub or of the operating system.
        """
        self.url = url
        self.owner = current_owner(owner)
        self._mine = OwnedRows(self.owner)
        self.response = Response()
        self._database: Database | None = None

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
        """Load a session; raises SessionNotFound, or StoreError if it is unreadable.

        A damaged message or record is shown as damaged and hides no other.
        """
        ancestry, used, rows, snapshots, draft, changed = self._rows(
            storable(session_id)
        )
        if not rows:
            raise SessionNotFound(NOT_FOUND.format(session_id))
        try:
            session = Session(
                [*entries_from_rows(rows), *map(entry_from_draft, draft)],
                session_id=session_id,
                compactions=compactions_from_rows(snapshots),
                usages=[(row.position + 1, usage_from_row(row)) for row in used],
                pins=pins_from_rows(snapshots, ("pin", "unpin")),
                dropped_rules=pins_from_rows(snapshots, ("drop", "keep")),
                ancestors=ancestors_from_json(ancestry),
                cell_changes=cell_changes_from_rows(changed),
            )
        except HistoryError as error:
            raise StoreError(f"Can't read session {session_id!r}.\n{error}") from error
        session.newest_snapshot = snapshots[-1].number if snapshots else 0
        return session

    @contextmanager
    def together(self) -> Iterator[None]:
        """Save all that this thread saves meanwhile in one transaction, or nothing."""
        with self._connection() as connection:
            token = _grouped.set((self, connection))
            try:
                yield
            finally:
                _grouped.reset(token)

    def count_sessions(self) -> int:
        """How many sessions there are."""
        with self._connection(writes=False) as connection:
            counted = self._mine.select(sessions, sa.func.count())
            return connection.scalar(counted.select_from(sessions)) or 0

    def known(self, session_ids: Sequence[str]) -> set[str]:
        """The sessions among these that are stored."""
        wanted = sessions.c.id.in_([storable(each) for each in session_ids])
        query = self._mine.select(sessions, sessions.c.id).where(wanted)
        with self._connection(writes=False) as connection:
            return set(map(restored, connection.scalars(query)))

    def sessions(
        self,
        *,
        query: str = "",
        limit: int | None = None,
        before: str = "",
    ) -> list[SessionInfo]:
        """List the sessions, the last used first.

        At most `limit` of them, beginning after the session whose id is `before`, which
        was used later.

        With a `query`, sessions that contain any of its words, the best match first,
        each with a `snippet`. If there are none, those that contain the query inside a
        word, ignoring case. A session's title is the beginning of its first message.
        """
        with self._connection(writes=False) as connection:
            if not (query := query.strip()):
                return listed(connection, self._mine, limit=limit, before=before)
            return found_sessions(connection, self._mine, query)[:limit]

    def newest(
        self, origin: Origin, is_there: Callable[[str], bool] = lambda _path: False
    ) -> str | None:
        """The id of the session used last in a notebook of a server; None without one.

        The notebook is known by the id in its metadata, or else by its path. A session
        with the id that is held at another path, where its notebook still `is_there`,
        belongs to the notebook of which this one is a copy.
        """
        columns = sessions.c
        path = storable(origin.notebook)
        is_it = columns.notebook == path
        if origin.notebook_id:
            has_id = columns.notebook_id == storable(origin.notebook_id)
            is_it = has_id | (is_it & (columns.notebook_id == ""))
        servers = ("", storable(origin.server))  # the first is of earlier versions
        query = (
            self._mine.select(sessions, columns.id, columns.notebook)
            .where(is_it, columns.server.in_(servers))
            .order_by(columns.used_at.desc(), columns.id)
        )
        with self._connection(writes=False) as connection:
            rows = connection.execute(query).all()
        paths = {row.notebook for row in rows} - {path}
        copied = {each for each in paths if is_there(restored(each))}
        own = (restored(row.id) for row in rows if row.notebook not in copied)
        return next(own, None)

    def family(self, session_id: str) -> list[Branch]:
        """A session and all that share messages with it; none if it is not stored."""
        with self._connection(writes=False) as connection:
            return family_of(connection, self._mine, session_id)

    def delete(self, *session_ids: str) -> None:
        """Delete sessions permanently; raises SessionNotFound if there are none.

        Raises NotErased if they are deleted, but not from all files.
        """
        ids = [*map(storable, session_ids)]
        with self._connection() as connection:
            note_pending(connection.engine)
            found = [delete_session(connection, self._mine, each) for each in ids]
            delete_results(connection, self._mine.owner, ids)
        if not any(found):
            raise SessionNotFound(NOT_FOUND.format(", ".join(session_ids)))
        erase(self._engine, "The session is deleted")

    def check_writable(self) -> None:
        """Write a row and roll back; raises StoreError when writing fails."""
        row = {"scope": "", "name": "", "value_json": "null", "created_at": now()}
        with self._connection() as connection:
            connection.execute(self._mine.insert(settings).values(row))
            connection.rollback()

    def close(self) -> None:
        """Close the connections to the database; the next use opens them again."""
        if self._database is not None:
            self._database.engine.dispose()
            self._database = None

    def add_entries(self, session: Session, start: int, stop: int, at: Origin) -> None:
        """Append entries in one transaction; the first one also creates the session.

        Entries that are there already are left: an interrupt or a lost connection may
        come between a commit and its confirmation. Raises SessionTaken when another
        kernel has saved another entry at one of the positions.
        """
        rows = [entry_row(session, position) for position in range(start, stop)]
        try:
            with self._connection() as connection:
                self._add_rows(connection, session, start, rows, at)
        except SessionTaken:
            there = sum(1 for _ in takewhile(self._holds, rows))
            if not there:
                raise
            if there < len(rows):
                self.add_entries(session, start + there, stop, at)

    def _add_rows(
        self,
        connection: sa.Connection,
        session: Session,
        start: int,
        rows: Sequence[dict[str, Any]],
        at: Origin,
    ) -> None:
        created_at = now()
        added = {"owner": self._mine.owner, "created_at": created_at}
        shown = self._shown_after(session, start, len(rows))
        if start == 0:
            begun = {"id": storable(session.session_id), **_stored(at)}
            begun |= branch_columns(session) | added | {"used_at": created_at}
            connection.execute(_ADD_SESSION, {**begun, **shown})
        add_messages(connection, session, [{**row, **added} for row in rows])
        if start:
            its = {"its_owner": self._mine.owner, "its_id": rows[0]["session_id"]}
            its |= {"more": shown["messages"], "at": created_at}
            if "title" in shown:
                connection.execute(_SHOW_TITLE, {**its, "name": shown["title"]})
            else:
                connection.execute(_SHOW, its)
        elif session.ancestors:
            take_title(connection, self._mine, session)

    def _shown_after(self, session: Session, start: int, count: int) -> dict[str, Any]:
        """The columns that a list shows of a session, which change with its entries."""
        added = session.transcript[start : start + count]
        before = session.transcript[start - 1] if start else None
        more = sum(map(begins_message, added, [before, *added]))
        if any(each.is_prompt for each in islice(session.transcript, start)):
            return {"messages": more}
        title = title_of_entries(session.transcript[: start + count])
        return {"messages": more, "title": storable(title)}

    def rename(self, session_id: str, title: str) -> None:
        """Give a session and its branches another title; raises SessionNotFound."""
        with self._connection() as connection:
            family = family_of(connection, self._mine, session_id)
            ids = [storable(member.id) for member in family]
            renamed = self._mine.update(sessions).where(sessions.c.id.in_(ids))
            done = connection.execute(renamed.values(title=storable(title_of(title))))
        if not done.rowcount:
            raise SessionNotFound("This session isn't saved yet. Send a message first.")

    def move(self, session_id: str, at: Origin) -> None:
        """Assign a session to another notebook."""
        is_it = sessions.c.id == storable(session_id)
        belongs = {name: text for name, text in _stored(at).items() if name != "model"}
        with self._connection() as connection:
            connection.execute(self._mine.update(sessions).where(is_it).values(belongs))

    def save_draft(self, session_id: str, position: int, text: str) -> None:
        """Save the streamed part of the answer that will get `position`.

        Until an entry has that position, `load` returns it as an incomplete answer.
        """
        stored_id = storable(session_id)
        row = {"session_id": stored_id, "position": position, "content": storable(text)}
        with self._connection() as connection:
            its_own = drafts.c.session_id == stored_id
            connection.execute(self._mine.delete(drafts).where(its_own))
            connection.execute(self._mine.insert(drafts).values(row))

    def add_compaction(self, session: Session, compaction: Compaction) -> int:
        """Append a record of a compaction that began, ended or changed.

        A row of the kind "summary" always holds one that was in force; the kind of
        others is their status: running, failed or undone. Returns the row's number;
        raises SessionTaken when another kernel has continued.
        """
        is_made = compaction.status in ("done", "degraded")
        return self._add_snapshot(
            session,
            compaction.kind if is_made else compaction.status,
            compaction_json(session.session_id, compaction),
            cutoff=compaction.stop - 1,
            tokens=compaction.summary_tokens,
            created_at=compaction.created_at,
        )

    def add_cell_changes(
        self, session_id: str, changes: Sequence[CellChange], *, first_turn: int
    ) -> None:
        """Append what the model changed in a notebook, without secrets.

        What was changed before `first_turn` is deleted: it is not kept any longer.
        """
        stored_id = storable(session_id)
        rows = [
            {
                "session_id": stored_id,
                "turn": each.turn,
                "content_json": storable(masked(each).to_json()),
                "created_at": now(),
            }
            for each in changes
        ]
        columns = cell_changes.c
        too_old = (columns.session_id == stored_id, columns.turn < first_turn)
        with self._connection() as connection:
            connection.execute(self._mine.delete(cell_changes).where(*too_old))
            connection.execute(self._mine.insert(cell_changes), rows)

    def add_pins(
        self, session: Session, pins: tuple[str, ...], *, kind: PinKind
    ) -> int:
        """Append all rules that are pinned or dropped now, after a change of this kind.

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
            values = {**row, "created_at": now()}
            connection.execute(self._mine.insert(settings).values(values))

    def settings(self, scopes: Sequence[str]) -> dict[str, tuple[str, Any]]:
        """Settings saved for `scopes`, by name, each with its scope.

        When several scopes have the same setting, the last scope counts.
        """
        query = self._mine.select(settings).order_by(settings.c.number)
        with self._connection(writes=False) as connection:
            rows = connection.execute(query).all()
        saved = dict(pair for row in rows for pair in setting_from_row(row))
        return {
            name: (scope, value)
            for wanted in scopes
            for (scope, name), value in saved.items()
            if scope == wanted and value is not None
        }

    def redact(self, session_id: str, text: str) -> Redacted:
        """Remove a text permanently from a session and its branches.

        In all forms of it (`text_forms`). Returns how many messages and places had it.
        Raises NbchatError for a short text.
        """
        if len(text) < SHORTEST:
            raise NbchatError(f"/redact needs {SHORTEST} characters or more.")
        with self._connection() as connection:
            note_pending(connection.engine)
            family = family_of(connection, self._mine, session_id)
            ids = [storable(each.id) for each in family]
            removed = redact_sessions(connection, self._mine, ids, text)
        if not ids:
            raise SessionNotFound(NOT_FOUND.format(session_id))
        erase(self._engine, "The text is removed")
        return removed

    @property
    def _engine(self) -> sa.Engine:
        if self._database is None:
            self._database = self._opened()
        return self._database.engine

    def expire(self, days: int, forget: Callable[[str], object] = str) -> int:
        """Delete the sessions not used for so many days; returns how many.

        `forget` gets the id of each.
        """
        limit = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        query = self._mine.select(sessions, sessions.c.id)
        with self._connection() as connection:
            old = [*connection.scalars(query.where(sessions.c.used_at < limit))]
            if old:
                note_pending(connection.engine)
            for stored_id in old:
                delete_session(connection, self._mine, stored_id)
            delete_results(connection, self._mine.owner, old)
        for stored_id in old:
            forget(restored(stored_id))
        if old:
            erase(self._engine, "Old sessions are deleted")
        return len(old)

    def initialize(self, *, rls: str | None = None) -> None:
        """Create the tables; `rls` is owner or role, on PostgreSQL."""
        with self._connection() as connection:
            if rls and connection.dialect.name != "postgresql":
                raise StoreError("Row level security needs PostgreSQL.")
            for statement in rls_statements(by_role=rls == "role") if rls else ():
                connection.exec_driver_sql(statement)

    def share(self, session: Session, content: str) -> str:
        """Keep a copy that others can read who have the link's token; returns it."""
        token = secrets.token_urlsafe(24)
        row = {
            "token_hash": _hash(token),
            "session_id": storable(session.session_id),
            "content_json": content,
            "created_at": now(),
        }
        with self._connection() as connection:
            connection.execute(self._mine.insert(shares).values(row))
        return token

    def shared(self, token: str) -> str:
        """The copy behind a link, of any owner; raises SessionNotFound."""
        key = _hash(token)
        query = sa.select(shares.c.content_json).where(shares.c.token_hash == key)
        with self._connection(writes=False) as connection:
            if connection.dialect.name == "postgresql":
                announce(connection, SHARE_SETTING, key)
            found = connection.scalar(query)
        if found is None:
            raise SessionNotFound("No shared session has this link.")
        return str(found)

    def _rows(self, stored_id: str) -> tuple[Any, ...]:
        """Ancestors of a session, and its rows: usages, entries, snapshots, others."""
        messages, snapshots = chat_messages.c, session_snapshots.c
        with self._connection(writes=False) as connection:
            its_own = self._mine.select(sessions, sessions.c.ancestors_json)
            ancestry = connection.scalar(its_own.where(sessions.c.id == stored_id))
            columns = (messages[n] for n in ("position", *usage_columns(Usage())))
            used = connection.execute(
                self._mine.select(chat_messages, *columns)
                .where(messages.session_id == stored_id)
                .where(messages.input_tokens.is_not(None))
                .order_by(messages.position)
            ).all()
            texts = (messages[name] for name in Entry._fields)
            rows = connection.execute(  # few columns: there may be 100,000 rows
                self._mine.select(chat_messages, messages.position, *texts)
                .where(messages.session_id == stored_id)
                .order_by(messages.position)
            ).all()
            taken = connection.execute(
                self._mine.select(session_snapshots)
                .where(snapshots.session_id == stored_id)
                .order_by(snapshots.number)
            ).all()
            length = rows[-1].position + 1 if rows else 0
            is_open = (drafts.c.session_id == stored_id, drafts.c.position == length)
            query = self._mine.select(drafts).where(*is_open)
            draft = connection.execute(query).all()
            changed = connection.execute(
                self._mine.select(cell_changes)
                .where(cell_changes.c.session_id == stored_id)
                .order_by(cell_changes.c.number)
            ).all()
        return ancestry, used, rows, taken, draft, changed

    def _holds(self, row: dict[str, Any]) -> bool:
        names = ("session_id", "position", *Entry._fields)
        same = sa.and_(*(chat_messages.c[name] == row[name] for name in names))
        query = self._mine.select(chat_messages, chat_messages.c.number).where(same)
        with self._connection(writes=False) as connection:
            return connection.scalar(query) is not None

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
        its_own = self._mine.select(sessions, sessions.c.id).where(
            sessions.c.id == stored_id
        )
        with self._connection() as connection:
            # One kernel at a time: PostgreSQL locks here, SQLite when it begins.
            connection.execute(its_own.with_for_update()).all()
            insert = self._mine.insert(session_snapshots).values(row)
            added = connection.execute(insert)
            number = int(added.inserted_primary_key[0])  # type: ignore[index]  # one row
            if self._is_stale(connection, session, number):
                raise SessionTaken(TAKEN)
            return int(number)

    def _is_stale(
        self, connection: sa.Connection, session: Session, number: int
    ) -> bool:
        """True if another kernel has added to a session before `number`."""
        stored_id = storable(session.session_id)
        more = self._mine.select(chat_messages, chat_messages.c.number).where(
            chat_messages.c.session_id == stored_id,
            chat_messages.c.position >= len(session.transcript),
        )
        known = number if session.newest_snapshot is None else session.newest_snapshot
        changed = self._mine.select(
            session_snapshots, session_snapshots.c.number
        ).where(
            session_snapshots.c.session_id == stored_id,
            session_snapshots.c.number.between(known + 1, number - 1),
        )
        found = (connection.scalar(each.limit(1)) for each in (more, changed))
        return any(each is not None for each in found)

    def _opened(self) -> Database:
        try:
            opened = open_database(self.url)
            finish_erasing(opened.engine)
        except (ValueError, TypeError) as error:  # an invalid option of the URL
            raise StoreError(
                f"Can't open the database. Check store_url.\n{_first_line(error)}"
            ) from error
        return opened

    @contextmanager
    def _connection(self, *, writes: bool = True) -> Iterator[sa.Connection]:
        """Open a transaction; errors of the database are raised as StoreError."""
        store, joined = _grouped.get() or (None, None)
        if store is self and joined is not None:
            yield joined
            return
        try:
            if self._database is None:
                self._database = self._opened()
            if writes and self._database.refusal:
                raise StoreError(self._database.refusal)
            with self._database.engine.begin() as connection:
                if writes:
                    begin_writing(connection)
                if connection.dialect.name == "postgresql":
                    announce(connection, OWNER_SETTING, self._mine.owner)
                yield connection
        except IntegrityError as error:
            raise SessionTaken(TAKEN) from error
        except (SQLAlchemyError, OSError, ImportError) as error:  # no driver
            raise StoreError(self._line_of(_first_line(error))) from error

    def _line_of(self, seen: str) -> str:
        """A database's error as a person reads it."""
        if "disk is full" in seen or "No space left" in seen:
            return "The disk is full."
        if "file is not a database" in seen:
            return f"{self.location} isn't a database. Set store_url to another file."
        return f"The database failed ({seen})."


def _stored(at: Origin) -> dict[str, str]:
    return {name: storable(text) for name, text in asdict(at).items()}


def _hash(token: str) -> str:
    """The hash that is stored of a link, from which the link cannot be made."""
    return hashlib.sha256(token.encode()).hexdigest()


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
