"""Remove a session, or a text from one, permanently: messages, facts, index.

Also from the streaming answer, the list of sessions, shared copies and results of runs.
Summaries stay in force: their hashes are computed again.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from nbchat.compaction.summary_format import escape
from nbchat.config.private_files import create_private
from nbchat.conversation.entries import Entry, prefix_hash
from nbchat.conversation.pastes import with_changed_text
from nbchat.errors import NotErased
from nbchat.storage.database import sqlite_file
from nbchat.storage.postgresql import rewrite_tables
from nbchat.storage.schema import (
    SESSION_TABLES,
    cell_changes,
    chat_messages,
    drafts,
    run_results,
    session_snapshots,
    sessions,
    settings,
    shares,
)
from nbchat.storage.serialization import (
    OwnedRows,
    readable_entry,
    restored,
    session_scope,
    storable,
)
from nbchat.storage.session_search import (
    index_messages,
    purge_index,
    unindex_rows,
)
from nbchat.storage.text_forms import MARK, Remover

REMOVED_COPY = f"- {MARK}"
"""In place of what a record copied of a message that was changed."""

DELETED = "its session was deleted"

READERS_SECONDS = 5.0
"""How long others are waited for who read a SQLite file."""

PENDING = ".not-erased"
"""The end of the name of the mark beside a SQLite file."""

MOST_NAMED = 10
"""Sessions whose results are looked for by name; of more, all results are read."""

Result = dict[str, Any]


class Redacted(NamedTuple):
    """How much of a text was removed."""

    messages: int
    places: int
    """Of messages, summaries, facts, settings and results, each occurrence."""


def redact_sessions(
    connection: sa.Connection, mine: OwnedRows, stored_ids: Collection[str], text: str
) -> Redacted:
    """Remove a text from all rows of sessions and from what runs answered in them."""
    remove = Remover(text)
    counts = [_redact_session(connection, mine, each, remove) for each in stored_ids]
    _redact_results(connection, mine.owner, stored_ids, remove)
    return Redacted(sum(counts), remove.places)


def _redact_session(
    connection: sa.Connection, mine: OwnedRows, stored_id: str, remove: Remover
) -> int:
    """Remove a text from all rows of a session; returns from how many messages."""
    its_own = chat_messages.c.session_id == stored_id
    query = mine.select(chat_messages).where(its_own).order_by(chat_messages.c.position)
    rows = connection.execute(query).all()
    before = [readable_entry(row) for row in rows]
    after = [_redacted(entry, remove) for entry in before]
    changed = [index for index, entry in enumerate(after) if entry != before[index]]
    unindex_rows(connection, mine, [rows[index] for index in changed])
    for index in changed:
        texts = {name: storable(each) for name, each in after[index]._asdict().items()}
        is_it = chat_messages.c.number == rows[index].number
        connection.execute(mine.update(chat_messages).where(is_it).values(texts))
    index_messages(
        connection,
        [(rows[index].number, mine.owner, after[index]) for index in changed],
    )
    _redact_snapshots(connection, mine, stored_id, (before, after), remove)
    _redact_others(connection, mine, stored_id, remove)
    purge_index(connection)
    return len(changed)


def _redact_others(
    connection: sa.Connection, mine: OwnedRows, stored_id: str, remove: Remover
) -> None:
    """Remove a text from a session's draft, shared copies, title, settings and cells.

    The cells are those kept to undo what the model changed.
    """
    as_json = partial(_redacted_json, remove=remove)
    scope = _scope_of(stored_id)
    for column, is_its_own, without in (
        (drafts.c.content, drafts.c.session_id == stored_id, remove),
        (shares.c.content_json, shares.c.session_id == stored_id, remove),
        (sessions.c.title, sessions.c.id == stored_id, remove),
        (settings.c.value_json, settings.c.scope == scope, as_json),
        (cell_changes.c.content_json, cell_changes.c.session_id == stored_id, as_json),
    ):
        query = mine.select(column.table, column).where(is_its_own)
        for content in connection.scalars(query).all():
            values = {column.name: storable(without(restored(content)))}
            change = mine.update(column.table).where(is_its_own, column == content)
            connection.execute(change.values(values))


def _redacted_json(text: str, remove: Remover) -> str:
    try:
        return json.dumps(_without(json.loads(text), remove))
    except (ValueError, RecursionError):  # a damaged row
        return "null"


def _redacted(entry: Entry, remove: Remover) -> Entry:
    if not entry.pasted:
        return Entry(entry.role, *map(remove, entry[1:]))
    counted = remove.places
    remove(entry.content)
    places = remove.places
    changed = with_changed_text(entry, remove)  # it looks at parts again
    remove.places = places if changed != entry else counted
    return changed


def delete_session(connection: sa.Connection, mine: OwnedRows, stored_id: str) -> bool:
    """Delete all rows of a session and its settings; whether there was one."""
    scope = _scope_of(stored_id)
    its_own = chat_messages.c.session_id == stored_id
    unindex_rows(
        connection,
        mine,
        connection.execute(mine.select(chat_messages).where(its_own)).all(),
    )
    for table in (*SESSION_TABLES, shares):
        connection.execute(mine.delete(table).where(table.c.session_id == stored_id))
    connection.execute(mine.delete(settings).where(settings.c.scope == scope))
    done = connection.execute(mine.delete(sessions).where(sessions.c.id == stored_id))
    purge_index(connection)
    return bool(done.rowcount)


def _redact_results(
    connection: sa.Connection,
    owner: str,
    session_ids: Collection[str],
    remove: Remover,
) -> None:
    """Remove a text from what rows of `map_agents` answered in sessions."""
    _change_results(
        connection,
        owner,
        session_ids,
        lambda result: {**_without(result, remove), "key": result["key"]},
    )


def delete_results(
    connection: sa.Connection, owner: str, session_ids: Collection[str]
) -> None:
    """Remove what rows answered in sessions; the rows stay decided."""
    _change_results(
        connection,
        owner,
        session_ids,
        lambda result: {
            **result,
            "value": None,
            "error": result.get("error") and DELETED,
            "note": DELETED,
        },
    )


def _change_results(
    connection: sa.Connection,
    owner: str,
    session_ids: Collection[str],
    change: Callable[[Result], Result],
) -> None:
    table = run_results.c
    ids = {restored(each) for each in session_ids}
    query = sa.select(table.run, table.key, table.result_json)
    query = query.where(table.owner == owner)
    if len(ids) <= MOST_NAMED:
        named = (json.dumps(each) for each in ids)
        is_named = (table.result_json.contains(each, autoescape=True) for each in named)
        query = query.where(sa.or_(sa.false(), *is_named))
    for row in connection.execute(query).all():
        try:
            result = json.loads(row.result_json)
            is_its_own = result["session_id"] in ids
        except (ValueError, KeyError, TypeError, RecursionError):  # a damaged row
            continue
        if is_its_own:
            is_it = (table.owner == owner) & (table.run == row.run)
            update = sa.update(run_results).where(is_it & (table.key == row.key))
            connection.execute(update.values(result_json=json.dumps(change(result))))


def _redact_snapshots(
    connection: sa.Connection,
    mine: OwnedRows,
    stored_id: str,
    entries: tuple[list[Entry], list[Entry]],
    remove: Remover,
) -> None:
    before, after = entries
    changed = {n for n, entry in enumerate(after) if entry != before[n]}
    copied = _shown_beside(changed, after)
    snapshots = session_snapshots.c
    query = mine.select(session_snapshots).where(snapshots.session_id == stored_id)
    for row in connection.execute(query).all():
        try:
            content = _without(json.loads(row.content_json), remove)
        except (ValueError, RecursionError):  # a damaged row
            content = None
        record = content.get("record") if isinstance(content, dict) else None
        if isinstance(record, dict):
            stop = record.get("stop", 0)
            if record.get("prefix_hash") == prefix_hash(before[:stop]):
                record["prefix_hash"] = prefix_hash(after[:stop])
            _remove_copies(record, changed, copied)
        is_it = snapshots.number == row.number
        values = {"content_json": json.dumps(content)}
        connection.execute(mine.update(session_snapshots).where(is_it).values(values))


def _shown_beside(changed: Collection[int], entries: Sequence[Entry]) -> set[int]:
    """The positions of the lines that may copy a part of a changed message.

    A call stands with its result, and the person's message with the answers before it
    and, as one line for an exchange, after it.
    """
    calls = {each.tool_id: n for n, each in enumerate(entries) if each.is_call}
    said = [n for n, each in enumerate(entries) if each.is_of_user]
    beside = {calls.get(entries[n].tool_id, n) for n in changed}
    for position in changed:
        next_one = bisect_right(said, position)
        beside.update(said[max(next_one - 1, 0) : next_one + 1])
    return beside.union(changed)


def _remove_copies(
    record: dict[str, Any], changed: Collection[int], beside: Collection[int]
) -> None:
    """Remove what a record copied of changed messages, and what stands beside it.

    A copy that was cut may hold a part of the removed text.
    """
    summary = record.get("summary", "")
    for line in [each for each in record.get("memory", ()) if each[2] in beside]:
        shown = escape(line[1])
        summary = summary.replace(f"\n{shown}\n", f"\n{REMOVED_COPY}\n")
        line[1] = REMOVED_COPY
    record["summary"] = summary
    record["facts"] = [f for f in record.get("facts", ()) if f[3] not in changed]


def _without(value: Any, remove: Remover) -> Any:
    """A JSON value without the text in any of its strings."""
    if isinstance(value, str):
        return remove(value)
    if isinstance(value, list):
        return [_without(each, remove) for each in value]
    if isinstance(value, dict):
        return {remove(name): _without(each, remove) for name, each in value.items()}
    return value


def note_pending(engine: sa.Engine) -> None:
    """Mark a SQLite file before texts are erased from it, should this process end.

    The mark is an empty file beside it, so that it holds no text. Where none can be
    written, erasing is not finished at the next start.
    """
    if (mark := _mark_of(engine)) is not None:
        with suppress(OSError):
            create_private(mark)


def finish_erasing(engine: sa.Engine) -> None:
    """Erase what an earlier process could not, if no process reads the file now."""
    mark = _mark_of(engine)
    if mark is None or not mark.exists():
        return
    with suppress(SQLAlchemyError):
        list(_left_in_database(engine, wait_seconds=0))  # it removes the mark


def erase(engine: sa.Engine, done: str) -> None:
    """Erase removed texts from the database's files.

    Raises NotErased, which says what was `done` and where they are left.
    """
    if left := [*_left_in_database(engine, READERS_SECONDS)]:
        raise NotErased(f"{done}, but {', and '.join(left)}.")


def _left_in_database(engine: sa.Engine, wait_seconds: float) -> Iterator[str]:
    """Free the space that may still contain removed texts; else say why not."""
    try:
        with engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            if engine.dialect.name == "sqlite":
                yield from _left_in_log(connection, wait_seconds)
            elif engine.dialect.name == "postgresql":
                rewrite_tables(connection)
    except SQLAlchemyError as error:
        yield (
            f"a copy is still in free space of the database ({_reason(error)}), which "
            "its administrator can vacuum fully"
        )


def _left_in_log(connection: sa.Connection, wait_seconds: float) -> Iterator[str]:
    """Write SQLite's log into the file and empty it; else say who keeps it.

    A connection that reads, also one of a stopped kernel, keeps all that was written
    since it began. SQLite says so in its result alone.
    """
    milliseconds = round(wait_seconds * 1_000)
    connection.exec_driver_sql(f"PRAGMA busy_timeout={milliseconds}")
    row = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    mark = _mark_of(connection.engine)
    if not row[0]:
        if mark is not None:
            mark.unlink(missing_ok=True)
        return
    log = f"{mark.name.removesuffix(PENDING)}-wal" if mark is not None else "its log"
    yield (
        f"a copy is still in {log}, because another program is reading the database. "
        "nbchat finishes when it starts again after you close that program"
    )


def _mark_of(engine: sa.Engine) -> Path | None:
    """The file that says that something is still to be erased; None without a file."""
    file = sqlite_file(engine.url)
    return None if file is None else file.with_name(f"{file.name}{PENDING}")


def _scope_of(stored_id: str) -> str:
    """The scope of a session's settings, as it is stored."""
    return storable(session_scope(restored(stored_id)))


def _reason(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", error)).partition("\n")[0]
