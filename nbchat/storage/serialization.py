"""Rows of the database: their owner, and what they hold as values, there and back.

Each row has an owner: given, or the user of JupyterHub or of the operating system.
`OwnedRows` makes every statement of a store, so that no query forgets the owner.
"""

import getpass
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args

import sqlalchemy as sa

from nbchat.conversation.cell_changes import CellChange
from nbchat.conversation.entries import (
    INCOMPLETE,
    Compaction,
    Entry,
    Fact,
    Kind,
    MemoryLine,
    Rule,
    Status,
    SummaryFields,
    Usage,
)
from nbchat.conversation.session import ROLES, Ancestors, Session, title_of
from nbchat.errors import StoreError
from nbchat.providers.tokens import TOKEN_BYTES, most_tokens_of
from nbchat.storage.schema import TOKENS

MOST_GAPS = 1_000
"""Messages missing in a damaged session that are shown as such."""

ESCAPED = "\ufdd0"
"""Prefix of a text stored in escapes: a noncharacter, reserved for programs."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as `SessionStore.sessions` lists it."""

    id: str
    title: str
    notebook: str
    model: str
    used_at: str
    messages: int
    snippet: str
    """The part of a message that matches a search best."""
    family: str
    """The oldest session of those that it is a branch of; else itself."""
    branches: int
    """Sessions of its family in the list, this one included."""


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


def compaction_json(session_id: str, compaction: Compaction) -> dict[str, Any]:
    """A compaction as JSON: a summary of it for other programs, and the record itself.

    A message's id is its session's id and its position.
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
        "messagesIncluded": compaction.messages,
        "record": asdict(compaction),
    }


def session_scope(session_id: str) -> str:
    """The scope of settings that are saved for one session."""
    return f"session:{session_id}"


def storable(text: str) -> str:
    """Encode a text so that any database accepts it; `restored` decodes it.

    Lone surrogates cannot be encoded and PostgreSQL refuses null bytes, so a text with
    either is stored in Python's escapes.
    """
    if _is_plain(text):
        return text
    return ESCAPED + escaped(text)


def escaped(text: str) -> str:
    """Encode a text in Python's escapes."""
    return text.encode("unicode_escape").decode("ascii")


def restored(text: str) -> str:
    """Decode a text that `storable` encoded."""
    if not text.startswith(ESCAPED):
        return text
    return text.removeprefix(ESCAPED).encode("ascii").decode("unicode_escape")


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text and not text.startswith(ESCAPED)


def readable_entry(row: Any) -> Entry:
    """Read an entry; a damaged row becomes a message that says so."""
    texts = (row.role, row.content, row.tool_id, row.tool_name, row.tool_args)
    try:
        if ESCAPED not in "".join(texts):  # nearly always
            entry = Entry(*texts)
        else:
            entry = Entry(*map(restored, texts))
    except (ValueError, AttributeError, TypeError) as error:  # no text
        return damaged_entry(row.position, type(error).__name__)
    if entry.role not in ROLES:
        return damaged_entry(row.position, f"its role {entry.role[:20]!r} is unknown")
    return entry


def entries_from_rows(rows: Sequence[Any]) -> Iterator[Entry]:
    """The entries at their positions; a missing one is shown as damaged."""
    position, gaps = 0, 0
    for row in rows:
        for missing in range(position, row.position):
            gaps += 1
            if gaps > MOST_GAPS:
                raise StoreError(
                    f"over {MOST_GAPS:,} messages are missing in the store"
                )
            yield damaged_entry(missing, "it is missing")
        yield readable_entry(row)
        position = row.position + 1


def setting_from_row(row: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """A stored setting; nothing if its row is damaged."""
    with suppress(ValueError, RecursionError):
        yield (restored(row.scope), restored(row.name)), json.loads(row.value_json)


def damaged_entry(position: int, reason: str) -> Entry:
    """The text in place of a message that cannot be read."""
    text = f"[message {position} is damaged in the session store: {reason}]"
    return Entry("assistant", text)


def title_of_entries(entries: Sequence[Entry]) -> str:
    """The beginning of the first prompt, or of the first entry; as a list shows it."""
    first = next(
        (each for each in entries if each.is_prompt), next(iter(entries), None)
    )
    return title_of(first.content) if first else ""


def entry_from_draft(draft: Any) -> Entry:
    """Read an answer whose kernel ended while it streamed."""
    return Entry("assistant", restored(draft.content), tool_args=INCOMPLETE)


def entry_row(session: Session, position: int) -> dict[str, Any]:
    """The columns of an entry, but for its time."""
    entry = session.transcript[position]
    usage = session.usage_at(position)
    return {
        "session_id": storable(session.session_id),
        "position": position,
        **{name: storable(text) for name, text in entry._asdict().items()},
        "tokens": most_tokens_of(entry) // TOKEN_BYTES,
        **(usage_columns(usage) if usage else _NO_USAGE),
    }


def usage_columns(usage: Usage) -> dict[str, Any]:
    """The columns for a response's usage."""
    return {
        **{name: getattr(usage, name) for name in TOKENS},
        "dropped_tokens": usage.dropped_tokens,
        "model": storable(usage.model),
        "cost": usage.dollars if usage.priced_tokens else None,
        "is_estimated": usage.is_estimated,
        "cache_loss": storable(usage.cache_loss),
    }


_NO_USAGE = dict.fromkeys(usage_columns(Usage()))


def usage_from_row(row: Any) -> Usage:
    """Read a response's usage."""
    usage = Usage(
        **{name: getattr(row, name) for name in TOKENS},
        dropped_tokens=row.dropped_tokens or 0,
        is_estimated=bool(row.is_estimated),
        model=restored(row.model or ""),
        cache_loss=restored(row.cache_loss or ""),
    )
    if row.cost is None:
        return usage
    return replace(usage, dollars=row.cost, priced_tokens=usage.total_tokens)


def is_pins(row: Any) -> bool:
    """True if a snapshot holds pins or dropped rules; else it holds a compaction."""
    return row.kind in ("pin", "unpin", "drop", "keep")


def pins_from_rows(rows: Sequence[Any], kinds: tuple[str, str]) -> tuple[str, ...]:
    """Read pins or dropped rules from their newest snapshot that can be read."""
    for row in reversed(rows):
        if row.kind in kinds:
            try:
                pins = json.loads(row.content_json)
            except (ValueError, RecursionError):
                continue
            if isinstance(pins, list) and all(isinstance(each, str) for each in pins):
                return tuple(pins)
    return ()


def cell_changes_from_rows(rows: Iterable[Any]) -> Iterator[CellChange]:
    """Read what the model changed in a notebook; a damaged row is left out."""
    for row in rows:
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            yield CellChange.from_json(row.turn, restored(row.content_json))


def compactions_from_rows(rows: Iterable[Any]) -> list[Compaction]:
    """Read the compactions; a damaged record becomes a failed one that says so."""
    found: list[Compaction] = []
    known: dict[Any, Any] = {}
    for row in rows:
        if is_pins(row):
            continue
        try:
            record = compaction_from_json(row.content_json)
            found.append(replace(record, facts=_shared(record.facts, known)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            found.append(
                Compaction(
                    f"damaged-{row.number}",
                    0,
                    0,
                    "",
                    status="failed",
                    reason="This record is damaged in the database.",
                    code="damaged",
                    created_at=str(row.created_at),
                )
            )
    return found


def _shared(facts: Iterable[Fact], known: dict[Any, Any]) -> tuple[Fact, ...]:
    """The facts, with one object for all that are equal.

    Each record repeats most facts of the one before: that is most of a long session.
    """
    return tuple(
        known[fact]
        if fact in known
        else known.setdefault(
            fact, Fact(*(known.setdefault(each, each) for each in fact))
        )
        for fact in facts
    )


def compaction_from_json(content: str) -> Compaction:
    """Read a compaction record; fields of a newer nbchat are omitted."""
    found = _known(Compaction, json.loads(content)["record"])
    found["cost"] = Usage(**_known(Usage, found["cost"]))
    found["replacements"] = tuple(map(tuple, found.get("replacements", ())))
    if found.get("fields"):
        found["fields"] = SummaryFields.from_json(found["fields"])
    found["facts"] = tuple(Fact(*fact) for fact in found.get("facts", ()))
    found["memory"] = tuple(MemoryLine(*line) for line in found.get("memory", ()))
    found["rules"] = tuple(Rule(*rule) for rule in found.get("rules", ()))
    record = Compaction(**found)
    is_known = record.kind in get_args(Kind) and record.status in get_args(Status)
    if not is_known or type(record.start) is not int or type(record.stop) is not int:
        raise ValueError("an unknown kind of record")
    return record


def _known(kind: type[Compaction | Usage], values: dict[str, Any]) -> dict[str, Any]:
    """The fields that this version has."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def branch_columns(session: Session) -> dict[str, str]:
    """The columns that name the session from which a branch comes."""
    if not session.ancestors:
        return {"family": "", "ancestors_json": ""}
    root = session.ancestors[0][0]
    return {
        "family": storable(root),
        "ancestors_json": json.dumps(session.ancestors),
    }


def ancestors_from_json(text: str | None) -> Ancestors:
    """The ancestors of a session; none if they are damaged."""
    try:
        return tuple((str(name), int(at)) for name, at in json.loads(text or "[]"))
    except (ValueError, TypeError, RecursionError):
        return ()


def info_from_row(row: Any) -> SessionInfo:
    """Read one row of the list of sessions; a damaged text is shown as such."""
    session_id, title, notebook, model, family = map(
        _readable, (row.id, row.title, row.notebook, row.model, row.family or row.id)
    )
    return SessionInfo(
        session_id,
        title,
        notebook,
        model,
        row.used_at,
        row.messages,
        "",
        family,
        1,
    )


def _readable(text: str) -> str:
    try:
        return restored(text)
    except (ValueError, AttributeError):
        return "[damaged]"
