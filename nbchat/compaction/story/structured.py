"""A summary that comes as JSON, made readable (seed 000).

Models wrap their JSON, forget a bracket or answer in prose; whatever says something is
kept, and only where nothing can be read is the answer left as it is.
"""

import json
from collections.abc import Iterable
from typing import Any

import json_repair

LISTS = {
    "key_facts": "Key facts",
    "decisions": "Decisions made",
    "unresolved_questions": "Unresolved questions",
    "conversation_flow": "What happened, in order",
}
"""The fields that are lists, with their headings."""

ALIASES = {
    "summary": "overview",
    "decisions_made": "decisions",
    "flow": "conversation_flow",
}
"""Other names that models give to the fields."""

MOST_ITEMS, ITEM_LIMIT = 60, 600
"""Items of a list, and characters of one, that are kept."""


def rendered(text: str) -> str:
    """The story that a text holds as JSON; the text itself when it holds none."""
    fields = _fields(text)
    if fields is None:
        return text
    parts = [_text(fields.get("overview", ""))]
    for name, heading in LISTS.items():
        parts.append(_section(heading, _items(fields.get(name))))
        if name == "decisions":
            parts.append(_section("Entities", _entities(fields.get("entities"))))
    return "\n\n".join(filter(None, parts)) or text


def _fields(text: str) -> dict[str, Any] | None:
    """The JSON object in a text, repaired; None when there is none of this form."""
    start = text.find("{")
    value = _read(text[start:]) if start >= 0 else None
    if not isinstance(value, dict):
        return None
    named = {ALIASES.get(str(name), str(name)): part for name, part in value.items()}
    return named if {"overview", "entities", *LISTS} & set(named) else None


def _read(text: str) -> object:
    """The value that begins a text, whatever is wrong with it or follows it."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        pass
    try:
        return json_repair.loads(text)
    except (ValueError, RecursionError):
        return None


def _section(heading: str, items: Iterable[str]) -> str:
    lines = [f"- {item}" for item in items]
    return "\n".join([f"## {heading}", *lines]) if lines else ""


def _items(value: object) -> list[str]:
    if isinstance(value, str):
        value = [value]
    items = value if isinstance(value, list) else []
    return [text for item in items[:MOST_ITEMS] if (text := _text(item))]


def _entities(value: object) -> list[str]:
    if not isinstance(value, dict):
        return _items(value)
    kinds = ((str(kind), ", ".join(_items(names))) for kind, names in value.items())
    lines = [f"{kind.replace('_', ' ')}: {names}" for kind, names in kinds if names]
    return [line[:ITEM_LIMIT] for line in lines[:MOST_ITEMS]]


def _text(value: object) -> str:
    if isinstance(value, dict):
        value = "; ".join(f"{name}: {part}" for name, part in value.items())
    return " ".join(str(value).split())[:ITEM_LIMIT] if value else ""
