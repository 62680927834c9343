"""How sessions stand in the rows of a database, and how they are read back."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from nbchat.conversation.entries import INCOMPLETE, Compaction, Entry, Usage
from nbchat.conversation.session import title_of
from nbchat.storage.schema import TOKENS

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


def storable(text: str) -> str:
    """A text as any database takes it; `restored` gives it back as it was.

    Lone surrogates cannot be encoded and PostgreSQL refuses null bytes, so a text with
    either is kept in Python's escapes.
    """
    if _is_plain(text):
        return text
    return ESCAPED + escaped(text)


def escaped(text: str) -> str:
    """A text in Python's escapes."""
    return text.encode("unicode_escape").decode("ascii")


def restored(text: str) -> str:
    """A text as it was before `storable`."""
    if not text.startswith(ESCAPED):
        return text
    return text.removeprefix(ESCAPED).encode("ascii").decode("unicode_escape")


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text and not text.startswith(ESCAPED)


def entry_of(row: Any) -> Entry:
    """An entry as it was said."""
    texts = (row.role, row.content, row.tool_id, row.tool_name, row.tool_args)
    return Entry(*map(restored, texts))


def cut_short(draft: Any) -> Entry:
    """An answer whose kernel ended while it came."""
    return Entry("assistant", restored(draft.content), tool_args=INCOMPLETE)


def billed(usage: Usage) -> dict[str, Any]:
    """A response's usage as columns."""
    return {
        **{name: getattr(usage, name) for name in TOKENS},
        "dropped_tokens": usage.dropped_tokens,
        "model": storable(usage.model),
        "cost": usage.dollars if usage.priced_tokens else None,
        "is_estimated": usage.is_estimated,
    }


def usage_of(row: Any) -> Usage:
    """What a response took."""
    usage = Usage(
        **{name: getattr(row, name) for name in TOKENS},
        dropped_tokens=row.dropped_tokens or 0,
        is_estimated=bool(row.is_estimated),
        model=restored(row.model or ""),
    )
    if row.cost is None:
        return usage
    return replace(usage, dollars=row.cost, priced_tokens=usage.total_tokens)


def is_pins(snapshot: Any) -> bool:
    """Whether a snapshot is of rules, not of a compaction."""
    return snapshot.kind in ("pin", "unpin")


def pins_of(snapshots: Sequence[Any]) -> tuple[str, ...]:
    """The rules in the newest of their snapshots."""
    kept = [each.content_json for each in snapshots if is_pins(each)]
    return tuple(json.loads(kept[-1])) if kept else ()


def compaction_of(content: str) -> Compaction:
    """A record of a compaction."""
    fields = json.loads(content)
    fields = fields.get("record", fields)  # bare before it had others beside it
    fields["cost"] = Usage(**fields["cost"])
    fields["replacements"] = tuple(map(tuple, fields.get("replacements", ())))
    return Compaction(**fields)


def info_of(row: Any) -> SessionInfo:
    """One line of the list."""
    texts = (row.id, row.content, row.notebook, row.model)
    session_id, content, notebook, model = map(restored, texts)
    title = title_of(content)
    return SessionInfo(session_id, title, notebook, model, row.used_at, row.entries)
