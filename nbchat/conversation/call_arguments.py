"""Read the arguments of calls as models really send them.

Some write lists and objects as JSON in a string, encode all arguments twice, or write
Python instead of JSON. What leaves no doubt is read; nothing is guessed: a text that
was cut off stays a fault, and a string stays one where the schema allows it.
"""

import ast
import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

MOST_ENCODED = 3
"""How often arguments may be encoded; two is what models do."""

TYPES: dict[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}
"""JSON Schema's names of the types of JSON values."""

ALTERNATIVES = ("anyOf", "oneOf")


def object_text(text: str) -> str:
    """The JSON object that a call's arguments are; the same text if they are none."""
    value: Any = text
    for _ in range(MOST_ENCODED):
        if not isinstance(value, str):
            break
        inner, value = value, _decoded(value)
        if isinstance(value, dict):
            return inner if _is_json(inner) else _encoded(value, text)
    return text


def fitted(value: Any, schema: Json, definitions: Json | None = None) -> Any:
    """A value in which strings are decoded where the schema allows no string."""
    known = schema.get("$defs", {}) if definitions is None else definitions
    choices = list(_choices(schema, known))
    if isinstance(value, str):
        value = _unquoted(value, choices)
    if isinstance(value, dict):
        properties = {
            name: each for c in choices for name, each in _mapping(c, "properties")
        }
        return {
            name: fitted(each, properties.get(name, {}), known)
            for name, each in value.items()
        }
    if isinstance(value, list):
        schemas = [c["items"] for c in choices if _is_schema(c.get("items"))]
        items: Json = schemas[0] if schemas else {}
        return [fitted(each, items, known) for each in value]
    return value


def _unquoted(text: str, choices: list[Json]) -> Any:
    """The value that a string means where no string is allowed; else the string."""
    values = [each for c in choices for each in _values(c)]
    if values:
        same = [each for each in values if _json(each) == text or str(each) == text]
        is_sure = len(same) == 1 and text not in values
        return same[0] if is_sure else text
    allowed = {name for c in choices for name in _types(c)}
    if not allowed or "string" in allowed or not all(map(_types, choices)):
        return text
    value = _decoded(text)
    return value if set(TYPES.get(type(value), ())) & allowed else text


def _choices(schema: Json, definitions: Json) -> Iterator[Json]:
    """The schemas of which a value may follow any, without references."""
    for _ in range(len(definitions) + 1):
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name not in definitions:
            break
        others = {word: each for word, each in schema.items() if word != "$ref"}
        schema = {**definitions[name], **others}
    listed = [each for word in ALTERNATIVES for each in schema.get(word) or ()]
    if not listed:
        yield schema
    for each in listed:
        yield from _choices(each, definitions) if _is_schema(each) else ()


def _values(schema: Json) -> list[Any]:
    """The values that a schema lists."""
    return [schema["const"]] if "const" in schema else list(schema.get("enum") or ())


def _types(schema: Json) -> tuple[str, ...]:
    found = schema.get("type", ())
    return (found,) if isinstance(found, str) else tuple(found)


def _mapping(schema: Json, word: str) -> Iterator[tuple[str, Json]]:
    found = schema.get(word)
    for name, each in found.items() if isinstance(found, dict) else ():
        if _is_schema(each):
            yield name, each


def _is_schema(value: object) -> bool:
    return isinstance(value, dict)


def _decoded(text: str) -> Any:
    """The value of JSON, also with line breaks in strings, or of a Python literal."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _encoded(value: Any, otherwise: str) -> str:
    """JSON; a Python literal may hold what JSON has not."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return otherwise


def _json(value: Any) -> str:
    return _encoded(value, "")
