"""Read a summary in JSON, merge it with the one before, and write it as text.

Models wrap their JSON, forget a bracket or answer in prose. Fields that can be read are
kept; an answer without any is left as it is.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import json_repair

from nbchat.conversation.entries import SummaryFields, Texts
from nbchat.conversation.values import values

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

REPAIRED_LIMIT, MOST_BRACKETS = 10_000, 1_000
"""Characters of JSON that are repaired, some 2,500 tokens, and brackets that open in
it: each takes as long as all before it."""

MOST_ITEMS, ITEM_LIMIT = 60, 600
"""Items of a list, and characters of one, that are kept."""


SAME_WORDS = 0.8
"""Share of words by which two items with the same values are the same."""

CHARACTERS_PER_TOKEN = 4


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXTS = {"type": "array", "items": {"type": "string"}}
SCHEMA = _object(
    {
        "overview": {"type": "string"},
        "key_facts": _TEXTS,
        "decisions": _TEXTS,
        "entities": {
            "type": "array",
            "items": _object({"kind": {"type": "string"}, "names": _TEXTS}),
        },
        "unresolved_questions": _TEXTS,
        "conversation_flow": _TEXTS,
        "resolved": {"type": "array", "items": {"type": "integer"}},
    }
)
"""The schema of an answer, for servers that enforce it."""


@dataclass(frozen=True, slots=True)
class StructuredAnswer:
    """A summary in JSON: its fields, and the numbers of items that it ends."""

    fields: SummaryFields
    resolved: frozenset[int] = frozenset()


def read_answer(text: str) -> StructuredAnswer | None:
    """The fields in a text with JSON; None when there is no JSON."""
    found = _fields(text)
    if not found:
        return None
    lists = {name: tuple(_items(found.get(name))) for name in LISTS}
    fields = SummaryFields(
        overview=_text(found.get("overview", "")),
        entities=tuple(_entities(found.get("entities"))),
        **lists,
    )
    numbers = found.get("resolved")
    listed = numbers if isinstance(numbers, list) else []
    return StructuredAnswer(fields, frozenset(n for n in listed if isinstance(n, int)))


def as_text(fields: SummaryFields) -> str:
    """The fields as headings and lists."""
    parts = [fields.overview]
    for name, heading in LISTS.items():
        parts.append(_section(heading, getattr(fields, name)))
        if name == "decisions":
            parts.append(_section("Entities", _entity_lines(fields)))
    return "\n\n".join(filter(None, parts))


def merged(
    earlier: SummaryFields, answer: StructuredAnswer, ended: Texts, most_tokens: int
) -> SummaryFields:
    """The fields of an answer with what still holds of the earlier ones.

    Decisions and questions of before hold unless they are among `ended`. What is
    longer than allowed loses its oldest events and facts first.
    """
    new, gone = answer.fields, set(ended)
    lists: dict[str, Any] = {
        name: _united(
            (item for item in getattr(earlier, name) if item not in gone),
            getattr(new, name),
        )
        for name in LISTS
    }
    kinds = {kind.casefold(): kind for kind, _ in (*earlier.entities, *new.entities)}
    names: dict[str, Texts] = {}
    for kind, listed in (*earlier.entities, *new.entities):
        known = names.get(kinds[kind.casefold()], ())
        names[kinds[kind.casefold()]] = tuple(dict.fromkeys((*known, *listed)))
    fields = replace(new, entities=tuple(names.items()), **lists)
    fields = replace(fields, overview=new.overview or earlier.overview)
    return _within(fields, new, most_tokens * CHARACTERS_PER_TOKEN)


def _united(earlier: Iterable[str], new: Texts) -> Texts:
    """Earlier items that are not said again, then the new ones."""
    said = list(map(_signature, new))
    kept = [item for item in earlier if not _is_said(_signature(item), said)]
    return (*kept, *new)


Signature = tuple[frozenset[str], frozenset[str]]


def _signature(item: str) -> Signature:
    found = frozenset().union(*(value.keys for value in values(item)))
    return found, frozenset(re.findall(r"[^\W\d_]+", item.casefold()))


def _is_said(old: Signature, new: Iterable[Signature]) -> bool:
    return any(
        found == old[0]
        and len(words & old[1]) >= SAME_WORDS * max(1, len(words | old[1]))
        for found, words in new
    )


def _within(
    fields: SummaryFields, new: SummaryFields, characters: int
) -> SummaryFields:
    """The fields without the oldest events, facts, decisions that do not fit.

    New ones stay: an answer that is too long by itself is refused.
    """
    for name in ("conversation_flow", "key_facts", "decisions"):
        items: Texts = getattr(fields, name)
        excess = len(as_text(fields)) - characters
        while excess > 0 and len(items) > len(getattr(new, name)):
            excess -= len(items[0]) + len("- \n")
            items = items[1:]
        kept: dict[str, Any] = {name: items}
        fields = replace(fields, **kept)
    return fields


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
        brackets = text.count("{") + text.count("[")
        is_short = len(text) <= REPAIRED_LIMIT and brackets <= MOST_BRACKETS
        return _repaired(text) if is_short else None


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
    fields = {"overview", "entities", "resolved", *LISTS}
    return {name: part for name, part in named.items() if name in fields}


def _section(heading: str, items: Iterable[str]) -> str:
    lines = [f"- {item}" for item in items]
    return "\n".join([f"## {heading}", *lines]) if lines else ""


def _items(value: object) -> list[str]:
    if isinstance(value, str):
        value = [value]
    items = value if isinstance(value, list) else []
    return [text for item in items[:MOST_ITEMS] if (text := _text(item))]


def _entities(value: object) -> Iterator[tuple[str, Texts]]:
    """Kinds with their names; names without a kind have an empty one."""
    if not isinstance(value, dict):
        listed = value if isinstance(value, list) else [value]
        pairs = [each for each in listed if isinstance(each, dict) and "names" in each]
        others = [each for each in listed if each not in pairs]
        value = {str(each.get("kind", "")): each["names"] for each in pairs}
        if names := _items(others):
            yield "", tuple(names)
    for kind, names in list(value.items())[:MOST_ITEMS]:
        if kept := _items(names):
            yield str(kind), tuple(kept)


def _entity_lines(fields: SummaryFields) -> Iterator[str]:
    for kind, names in fields.entities:
        if not kind:
            yield from names
        else:
            yield f"{kind.replace('_', ' ')}: {', '.join(names)}"[:ITEM_LIMIT]


def _text(value: object) -> str:
    if isinstance(value, dict):
        value = "; ".join(f"{name}: {part}" for name, part in value.items())
    return " ".join(str(value).split())[:ITEM_LIMIT] if value else ""
