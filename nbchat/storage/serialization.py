"""Conversion of entries, usages, compactions and pins to database rows and back."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from nbchat.conversation.entries import (
    INCOMPLETE,
    Compaction,
    Entry,
    Fact,
    SummaryFields,
    Usage,
)
from nbchat.conversation.session import title_of
from nbchat.storage.schema import TOKENS

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
    snippet: str = ""
    """The part of a message that matches a search best."""


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


def entry_from_row(row: Any) -> Entry:
    """Read an entry."""
    texts = (row.role, row.content, row.tool_id, row.tool_name, row.tool_args)
    return Entry(*map(restored, texts))


def entry_from_draft(draft: Any) -> Entry:
    """Read an answer whose kernel ended while it streamed."""
    return Entry("assistant", restored(draft.content), tool_args=INCOMPLETE)


def usage_columns(usage: Usage) -> dict[str, Any]:
    """The columns for a response's usage."""
    return {
        **{name: getattr(usage, name) for name in TOKENS},
        "dropped_tokens": usage.dropped_tokens,
        "model": storable(usage.model),
        "cost": usage.dollars if usage.priced_tokens else None,
        "is_estimated": usage.is_estimated,
    }


def usage_from_row(row: Any) -> Usage:
    """Read a response's usage."""
    usage = Usage(
        **{name: getattr(row, name) for name in TOKENS},
        dropped_tokens=row.dropped_tokens or 0,
        is_estimated=bool(row.is_estimated),
        model=restored(row.model or ""),
    )
    if row.cost is None:
        return usage
    return replace(usage, dollars=row.cost, priced_tokens=usage.total_tokens)


def is_pins(row: Any) -> bool:
    """Whether a snapshot holds pins; otherwise it holds a compaction."""
    return row.kind in ("pin", "unpin")


def pins_from_rows(rows: Sequence[Any]) -> tuple[str, ...]:
    """Read the pins from their newest snapshot."""
    found = [row.content_json for row in rows if is_pins(row)]
    return tuple(json.loads(found[-1])) if found else ()


def compaction_from_json(content: str) -> Compaction:
    """Read a compaction record."""
    fields = json.loads(content)["record"]
    fields["cost"] = Usage(**fields["cost"])
    fields["replacements"] = tuple(map(tuple, fields.get("replacements", ())))
    if fields.get("fields"):
        fields["fields"] = SummaryFields.from_json(fields["fields"])
    fields["facts"] = tuple(Fact(*fact) for fact in fields.get("facts", ()))
    return Compaction(**fields)


def info_from_row(row: Any) -> SessionInfo:
    """Read one row of the list of sessions."""
    texts = (row.id, row.content, row.notebook, row.model)
    session_id, content, notebook, model = map(restored, texts)
    title = title_of(content)
    return SessionInfo(session_id, title, notebook, model, row.used_at, row.messages)
