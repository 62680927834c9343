"""Turn a summary in JSON into readable text (seed 000).

Models wrap their JSON, forget a bracket or answer in prose. Fields that can be read are
kept; an answer without any is left as it is.
"""

import json
from collections.abc import Iterable, Iterator
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

REPAIRED_LIMIT = 10_000
"""Characters of JSON that are repaired, some 2,500 tokens: even of brackets alone that
takes a second at most."""

MOST_ITEMS, ITEM_LIMIT = 60, 600
"""Items of a list, and characters of one, that are kept."""


def rendered(text: str) -> str:
    """The summary in a text with JSON; the text itself when there is no JSON.

    Empty when all of its fields are.
    """
    fields = _fields(text)
    if not fields:
        return text
    parts = [_text(fields.get("overview", ""))]
    for name, heading in LISTS.items():
        parts.append(_section(heading, _items(fields.get(name))))
        if name == "decisions":
            parts.append(_section("Entities", _entities(fields.get("entities"))))
    return "\n\n".join(filter(None, parts))


def _fields(text: str) -> dict[str, Any]:
    """The fields of the JSON object in a text, repaired; none without an object.

    It is read to the last bracket and to the end of the text, because words may follow
    and brackets may be missing.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0:
        return {}
    readings = (_read(text[start : end + 1]), _read(text[start:]))
    objects = (each for value in readings for each in _objects(value))
    return max(map(_known, objects), key=len, default={})


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _repaired(text) if len(text) <= REPAIRED_LIMIT else None


def _repaired(text: str) -> object:
    try:
        return json_repair.loads(text)
    except (ValueError, RecursionError):
        return None


def _objects(value: object) -> Iterator[dict[str, Any]]:
    """The object that was read, and those directly inside or beside it."""
    parts = list(value.values()) if isinstance(value, dict) else value
    for each in [value, *(parts if isinstance(parts, list) else [])]:
        if isinstance(each, dict):
            yield each


def _known(value: dict[str, Any]) -> dict[str, Any]:
    """The known fields of an object, by their standard names."""
    named = {ALIASES.get(str(name), str(name)): part for name, part in value.items()}
    fields = {"overview", "entities", *LISTS}
    return {name: part for name, part in named.items() if name in fields}


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
