"""Where sessions are kept: appended event by event, loaded back whole.

SQLite in the Jupyter data folder by default, any SQLAlchemy URL otherwise. Rows are
only ever added, each in its own transaction, so a crash loses nothing acknowledged.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from nbchat.errors import HistoryError, SessionNotFound, SessionTaken, StoreError
from nbchat.history import Compaction, Entry, Usage, now
from nbchat.session import Session, title_of
from nbchat.storage.database import (
    TOKENS,
    chat_messages,
    default_file,
    open_database,
    session_snapshots,
    sessions,
    settings,
)

PinKind = Literal["pin", "unpin"]
ESCAPED = "\ufdd0"
"""Begins a text kept in escapes: a noncharacter, reserved for a program's own use."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of the list of sessions."""

    id: str
    title: str
    notebook: str
    model: str
    used_at: str
    entries: int


class SessionStore:
    """Sessions in a database; opened at the first use."""

    def __init__(self, url: str = "") -> None:
        """A SQLAlchemy URL; empty for the SQLite file in the Jupyter data folder."""
        self.url = url
        self._engine: sa.Engine | None = None

    def __repr__(self) -> str:
        """The URL without its password."""
        url = sa.make_url(self.url) if self.url else default_file()
        return f"<SessionStore {url!r}>"

    @property
    def place(self) -> str:
        """Where it is, without a password; raises StoreError for what is no URL."""
        if not self.url:
            return str(default_file())
        try:
            return sa.make_url(self.url).render_as_string(hide_password=True)
        except SQLAlchemyError as error:
            raise StoreError(f"the session store failed: {error}") from error

    def load(self, session_id: str) -> Session:
        """A session as it was; raises SessionNotFound if there is none of that id."""
        kept_id = _storable(session_id)
        with self._connection() as connection:
            rows = connection.execute(
                sa.select(chat_messages)
                .where(chat_messages.c.session_id == kept_id)
                .order_by(chat_messages.c.position)
            ).all()
            snapshots = connection.execute(
                sa.select(session_snapshots.c.kind, session_snapshots.c.content_json)
                .where(session_snapshots.c.session_id == kept_id)
                .order_by(session_snapshots.c.number)
            ).all()
        if not rows:
            raise SessionNotFound(
                f"there is no session {session_id!r}; /sessions lists them"
            )
        transcript = list(map(_entry, rows))
        usages = [
            (row.position + 1, _usage(row))
            for row in rows
            if row.input_tokens is not None
        ]
        try:
            return Session(
                transcript,
                session_id=session_id,
                compactions=[
                    _compaction(r.content_json) for r in snapshots if not _is_pins(r)
                ],
                usages=usages,
                pins=_pins(snapshots),
            )
        except HistoryError as error:  # written by a newer nbchat, or by others
            raise StoreError(
                f"session {session_id!r} cannot be read: {error}"
            ) from error

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
            query = query.where(sessions.c.notebook == _storable(notebook))
        for word in words:
            is_said = chat_messages.c.content.icontains(word, autoescape=True)
            said = sa.select(chat_messages.c.session_id).where(is_said)
            query = query.where(sessions.c.id.in_(said))
        with self._connection() as connection:
            return [_info(row) for row in connection.execute(query)]

    def delete(self, session_id: str) -> None:
        """Remove a session for good; raises SessionNotFound if there is none."""
        with self._connection() as connection:
            for table in (session_snapshots, chat_messages):
                is_its_own = table.c.session_id == session_id
                connection.execute(sa.delete(table).where(is_its_own))
            done = connection.execute(
                sa.delete(sessions).where(sessions.c.id == session_id)
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
        billed = _billed(usage) if usage else {}
        key = {"session_id": _storable(session.session_id), "position": position}
        texts = {name: _storable(text) for name, text in entry._asdict().items()}
        origin = {"notebook": _storable(notebook), "model": _storable(model)}
        row = {**key, **texts, **billed, "created_at": now()}
        try:
            with self._connection() as connection:
                if position == 0:
                    begun = {"id": key["session_id"], **origin, "created_at": now()}
                    connection.execute(sessions.insert().values(begun))
                connection.execute(chat_messages.insert().values(row))
        except SessionTaken:
            if not self._holds({**key, **texts}):
                raise

    def _holds(self, row: dict[str, Any]) -> bool:
        same = sa.and_(*(chat_messages.c[name] == each for name, each in row.items()))
        with self._connection() as connection:
            found = connection.execute(sa.select(sa.exists().where(same)))
            return bool(found.scalar())

    def add_compaction(self, session_id: str, compaction: Compaction) -> None:
        """Append a record of a compaction: its beginning, its end, a change of it."""
        self._add_snapshot(
            session_id,
            compaction.kind,
            snapshot(session_id, compaction),
            cutoff=compaction.stop - 1,
            tokens=compaction.summary_tokens,
            created_at=compaction.created_at,
        )

    def add_pins(
        self, session_id: str, pins: tuple[str, ...], *, kind: PinKind
    ) -> None:
        """Append the rules that hold from now on, as `kind` has changed them."""
        self._add_snapshot(session_id, kind, pins, cutoff=0, tokens=0, created_at=now())

    def set_setting(self, scope: str, name: str, value: object) -> None:
        """Keep a setting for all models (an empty scope), a provider or a model.

        None takes it back.
        """
        named = {"scope": _storable(scope), "name": _storable(name)}
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
            (_restored(row.scope), _restored(row.name)): json.loads(row.value_json)
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
        session_id: str,
        kind: str,
        content: object,
        *,
        cutoff: int,
        tokens: int,
        created_at: str,
    ) -> None:
        with self._connection() as connection:
            connection.execute(
                session_snapshots.insert().values(
                    session_id=_storable(session_id),
                    kind=kind,
                    content_json=json.dumps(content),
                    message_cutoff_id=cutoff,
                    token_count=tokens,
                    created_at=created_at,
                )
            )

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """A transaction; database faults come out as StoreError."""
        try:
            if self._engine is None:
                self._engine = open_database(self.url)
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError as error:
            raise SessionTaken(
                "another kernel has gone on with this session; what follows is not "
                "saved here: start another one with /new"
            ) from error
        except (SQLAlchemyError, OSError, ImportError) as error:  # no driver
            raise StoreError(
                f"the session store failed: {_first_line(error)}"
            ) from error


def snapshot(session_id: str, compaction: Compaction) -> dict[str, Any]:
    """A compaction as it is kept: what others may want to read, and the record itself.

    The fields are those of seed 004, FR-4.2.1; a message's id is its session's and its
    place.
    """
    is_manual = compaction.trigger == "manual"
    return {
        "summaryText": compaction.summary,
        "messageRange": {
            "firstMessageId": f"{session_id}:{compaction.start}",
            "lastMessageId": f"{session_id}:{compaction.stop - 1}",
        },
        "compressionTimestamp": compaction.created_at,
        "compressionType": "manual" if is_manual else "auto",
        "originalTokenCount": compaction.replaced_tokens,
        "summaryTokenCount": compaction.summary_tokens,
        "messagesIncluded": compaction.stop - compaction.start,
        "record": asdict(compaction),
    }


def _storable(text: str) -> str:
    """A text as any database takes it; `_restored` gives it back as it was.

    Lone surrogates cannot be encoded and PostgreSQL refuses null bytes, so a text with
    either is kept in Python's escapes.
    """
    if _is_plain(text):
        return text
    return ESCAPED + text.encode("unicode_escape").decode("ascii")


def _restored(text: str) -> str:
    if not text.startswith(ESCAPED):
        return text
    return text.removeprefix(ESCAPED).encode("ascii").decode("unicode_escape")


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text and not text.startswith(ESCAPED)


def _entry(row: Any) -> Entry:
    texts = (row.role, row.content, row.tool_id, row.tool_name, row.tool_args)
    return Entry(*map(_restored, texts))


def _billed(usage: Usage) -> dict[str, Any]:
    """A response's usage as columns; what was dropped is told by the next response."""
    return {
        **{name: getattr(usage, name) for name in TOKENS},
        "model": _storable(usage.model),
        "cost": usage.dollars if usage.priced_tokens else None,
        "is_estimated": usage.is_estimated,
    }


def _usage(row: Any) -> Usage:
    usage = Usage(
        **{name: getattr(row, name) for name in TOKENS},
        is_estimated=bool(row.is_estimated),
        model=_restored(row.model or ""),
    )
    if row.cost is None:
        return usage
    return replace(usage, dollars=row.cost, priced_tokens=usage.total_tokens)


def _is_pins(snapshot: Any) -> bool:
    return snapshot.kind in ("pin", "unpin")


def _pins(snapshots: Sequence[Any]) -> tuple[str, ...]:
    """The rules in the newest of their snapshots."""
    kept = [each.content_json for each in snapshots if _is_pins(each)]
    return tuple(json.loads(kept[-1])) if kept else ()


def _compaction(content: str) -> Compaction:
    fields = json.loads(content)
    fields = fields.get("record", fields)  # bare before it had others beside it
    fields["cost"] = Usage(**fields["cost"])
    fields["replacements"] = tuple(map(tuple, fields.get("replacements", ())))
    return Compaction(**fields)


def _info(row: Any) -> SessionInfo:
    texts = (row.id, row.content, row.notebook, row.model)
    session_id, content, notebook, model = map(_restored, texts)
    title = title_of(content)
    return SessionInfo(session_id, title, notebook, model, row.used_at, row.entries)


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
