"""Where sessions are kept: appended event by event, loaded back whole.

SQLite in the Jupyter data folder by default, any SQLAlchemy URL otherwise. Rows are
only ever added, each in its own transaction, so a crash loses nothing acknowledged.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from nbchat.conversation.entries import Compaction, now
from nbchat.conversation.session import Session
from nbchat.errors import HistoryError, SessionNotFound, SessionTaken, StoreError
from nbchat.storage.schema import (
    address,
    chat_messages,
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
    billed,
    compaction_of,
    cut_short,
    entry_of,
    escaped,
    info_of,
    is_pins,
    pins_of,
    restored,
    snapshot,
    storable,
    usage_of,
)

PinKind = Literal["pin", "unpin"]

TAKEN = (
    "another kernel has gone on with this session, or deleted it; what follows is not "
    "saved here: start another one with /new"
)


class SessionStore:
    """Sessions in a database; opened at the first use."""

    def __init__(self, url: str = "") -> None:
        """A SQLAlchemy URL; empty for the SQLite file in the Jupyter data folder."""
        self.url = url
        self._engine: sa.Engine | None = None

    def __repr__(self) -> str:
        """Where it is, without a password."""
        try:
            return f"<SessionStore {self.place}>"
        except StoreError:
            return "<SessionStore of an address that cannot be read>"

    @property
    def place(self) -> str:
        """Where it is, without a password; raises StoreError for what is no URL."""
        if not self.url:
            return str(default_file())
        shown = address(self.url).set(query={})
        return shown.render_as_string(hide_password=True)

    def load(self, session_id: str) -> Session:
        """A session as it was; raises SessionNotFound if there is none of that id."""
        kept_id = storable(session_id)
        with self._connection() as connection:
            rows = connection.execute(
                sa.select(chat_messages)
                .where(chat_messages.c.session_id == kept_id)
                .order_by(chat_messages.c.position)
            ).all()
            snapshots = connection.execute(
                sa.select(session_snapshots)
                .where(session_snapshots.c.session_id == kept_id)
                .order_by(session_snapshots.c.number)
            ).all()
            is_open = (drafts.c.session_id == kept_id, drafts.c.position == len(rows))
            draft = connection.execute(sa.select(drafts).where(*is_open)).first()
        if not rows:
            raise SessionNotFound(
                f"there is no session {session_id!r}; /sessions lists them"
            )
        transcript = [*map(entry_of, rows), *([cut_short(draft)] if draft else [])]
        usages = [
            (row.position + 1, usage_of(row))
            for row in rows
            if row.input_tokens is not None
        ]
        try:
            session = Session(
                transcript,
                session_id=session_id,
                compactions=[
                    compaction_of(r.content_json) for r in snapshots if not is_pins(r)
                ],
                usages=usages,
                pins=pins_of(snapshots),
            )
        except HistoryError as error:  # written by a newer nbchat, or by others
            raise StoreError(
                f"session {session_id!r} cannot be read: {error}"
            ) from error
        session.newest_snapshot = snapshots[-1].number if snapshots else 0
        return session

    def sessions(
        self, *, notebook: str | None = None, words: Iterable[str] = ()
    ) -> list[SessionInfo]:
        """All sessions or a notebook's, last used first, titled by how they begin.

        Only those in which each of `words` was said, wherever case.
        """
        every = chat_messages.alias()
        is_attached = sa.and_(every.c.role == "user", every.c.tool_name != "")
        spoken = sa.func.min(sa.case((~is_attached, every.c.position)))
        use = (
            sa.select(
                every.c.session_id,
                sa.func.coalesce(spoken, 0).label("begins"),
                sa.func.count().label("entries"),
                sa.func.max(every.c.created_at).label("used_at"),
            )
            .group_by(every.c.session_id)
            .subquery()
        )
        first = sa.and_(
            chat_messages.c.session_id == sessions.c.id,
            chat_messages.c.position == use.c.begins,
        )
        query = (
            sa.select(sessions, chat_messages.c.content, use.c.entries, use.c.used_at)
            .join(use, use.c.session_id == sessions.c.id)
            .join(chat_messages, first)
            .order_by(use.c.used_at.desc(), sessions.c.id)
        )
        if notebook is not None:
            query = query.where(sessions.c.notebook == storable(notebook))
        for word in words:
            said = sa.select(chat_messages.c.session_id).where(_is_said(word))
            query = query.where(sessions.c.id.in_(said))
        with self._connection() as connection:
            return [info_of(row) for row in connection.execute(query)]

    def delete(self, session_id: str) -> None:
        """Remove a session for good; raises SessionNotFound if there is none."""
        kept_id = storable(session_id)
        with self._connection() as connection:
            for table in (drafts, session_snapshots, chat_messages):
                is_its_own = table.c.session_id == kept_id
                connection.execute(sa.delete(table).where(is_its_own))
            done = connection.execute(
                sa.delete(sessions).where(sessions.c.id == kept_id)
            )
        if not done.rowcount:
            raise SessionNotFound(
                f"there is no session {session_id!r}; /sessions lists them"
            )

    def check_writable(self) -> None:
        """Write and take it back; raises StoreError where that cannot be done."""
        row = {"scope": "", "name": "", "value_json": "null", "created_at": now()}
        with self._connection() as connection:
            connection.execute(settings.insert().values(row))
            connection.rollback()

    def close(self) -> None:
        """Let the database go."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def add_entry(
        self, session: Session, position: int, *, notebook: str, model: str
    ) -> None:
        """Append one entry, the first one with its session's row.

        To append it once more changes nothing: an interrupt may come between the commit
        and the news of it. Raises StoreError, also when another kernel has that place.
        """
        entry = session.transcript[position]
        usage = session.usage_at(position)
        paid = billed(usage) if usage else {}
        key = {"session_id": storable(session.session_id), "position": position}
        texts = {name: storable(text) for name, text in entry._asdict().items()}
        origin = {"notebook": storable(notebook), "model": storable(model)}
        row = {**key, **texts, **paid, "created_at": now()}
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
        """Let a session belong to a notebook: the one in which it goes on."""
        is_it = sessions.c.id == storable(session_id)
        belongs = {"notebook": storable(notebook)}
        with self._connection() as connection:
            connection.execute(sa.update(sessions).where(is_it).values(belongs))

    def keep_draft(self, session_id: str, position: int, text: str) -> None:
        """Keep what has come of the answer that will stand at `position`.

        Should nothing come to stand there, `load` has it as an answer cut short.
        """
        kept_id = storable(session_id)
        row = {"session_id": kept_id, "position": position, "content": storable(text)}
        with self._connection() as connection:
            connection.execute(sa.delete(drafts).where(drafts.c.session_id == kept_id))
            connection.execute(drafts.insert().values(row))

    def _holds(self, row: dict[str, Any]) -> bool:
        same = sa.and_(*(chat_messages.c[name] == each for name, each in row.items()))
        with self._connection() as connection:
            found = connection.execute(sa.select(sa.exists().where(same)))
            return bool(found.scalar())

    def add_compaction(self, session: Session, compaction: Compaction) -> int:
        """Append a record of a compaction: its beginning, its end, a change of it.

        Its number; raises SessionTaken where another kernel went on.
        """
        return self._add_snapshot(
            session,
            compaction.kind,
            snapshot(session.session_id, compaction),
            cutoff=compaction.stop - 1,
            tokens=compaction.summary_tokens,
            created_at=compaction.created_at,
        )

    def add_pins(
        self, session: Session, pins: tuple[str, ...], *, kind: PinKind
    ) -> int:
        """Append the rules that hold from now on, as `kind` has changed them.

        Their number; raises SessionTaken where another kernel went on.
        """
        return self._add_snapshot(
            session, kind, pins, cutoff=0, tokens=0, created_at=now()
        )

    def set_setting(self, scope: str, name: str, value: object) -> None:
        """Keep a setting for all models (an empty scope), a provider or a model.

        None takes it back.
        """
        named = {"scope": storable(scope), "name": storable(name)}
        row = {**named, "value_json": json.dumps(value)}
        with self._connection() as connection:
            connection.execute(settings.insert().values(**row, created_at=now()))

    def settings(self, scopes: Sequence[str]) -> dict[str, tuple[str, Any]]:
        """The settings kept for some scopes, by name, with the scope they come from.

        Of scopes with the same setting the last one counts.
        """
        query = sa.select(settings).order_by(settings.c.number)
        with self._connection() as connection:
            rows = connection.execute(query).all()
        kept = {
            (restored(row.scope), restored(row.name)): json.loads(row.value_json)
            for row in rows
        }
        return {
            name: (scope, value)
            for wanted in scopes
            for (scope, name), value in kept.items()
            if scope == wanted and value is not None
        }

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
        kept_id = storable(session.session_id)
        row = {
            "session_id": kept_id,
            "kind": kind,
            "content_json": json.dumps(content),
            "message_cutoff_id": cutoff,
            "token_count": tokens,
            "created_at": created_at,
        }
        its_own = sa.select(sessions.c.id).where(sessions.c.id == kept_id)
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
        except (ValueError, TypeError) as error:  # an option that cannot be
            raise StoreError(
                f"the session store failed: {_first_line(error)}; check store_url"
            ) from error

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """A transaction; database faults come out as StoreError."""
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


def _is_said(word: str) -> sa.ColumnElement[bool]:
    """Whether a message holds a word, as it is or in escapes."""
    content = chat_messages.c.content
    if storable(word) == word:
        return content.icontains(word, autoescape=True)
    escapes = escaped(word)
    return content.startswith(ESCAPED) & content.icontains(escapes, autoescape=True)


def _is_stale(session: Session, number: int) -> sa.Select[tuple[bool]]:
    """Whether more is kept of a session than it knows, before the snapshot `number`."""
    kept_id = storable(session.session_id)
    more = sa.exists().where(
        chat_messages.c.session_id == kept_id,
        chat_messages.c.position >= len(session.transcript),
    )
    known = number if session.newest_snapshot is None else session.newest_snapshot
    changed = sa.exists().where(
        session_snapshots.c.session_id == kept_id,
        session_snapshots.c.number.between(known + 1, number - 1),
    )
    return sa.select(sa.or_(more, changed))


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
