"""JSON schemas of types and functions, and arguments of calls that should fit them.

Pydantic makes the schemas. Some models write lists and objects as JSON in a string,
encode all arguments twice, or write Python instead of JSON. What leaves no doubt is
read; nothing is guessed: a text that was cut off stays a fault, and a string stays one
where the schema allows it.
"""

import ast
import json
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from inspect import Parameter, Signature, signature
from operator import or_
from typing import Any, get_args, get_origin, get_type_hints

import typing_extensions
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import PydanticJsonSchemaWarning

from nbchat.errors import ConfigError

Json = dict[str, Any]

FAULTS_SHOWN = 10
"""Faults of one value that are named; a long list has the same fault everywhere."""


def arguments_adapter(function: Callable[..., object], name: str) -> TypeAdapter[Json]:
    """Validates the arguments of a function, given by name as a JSON object.

    Every kind of parameter but `*args` and `**kwargs` is one; without a type hint it is
    a string. Raises ConfigError for a type that has no JSON schema.
    """
    hints = type_hints(function)
    parameters = [
        each.replace(
            kind=Parameter.KEYWORD_ONLY, annotation=modern(hints.get(each.name, str))
        )
        for each in signature(function).parameters.values()
        if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]

    def arguments(**values: Any) -> Json:
        return values

    # pydantic reads the signature of a function; this one only returns its arguments.
    arguments.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    arguments.__annotations__ = {each.name: each.annotation for each in parameters}
    return adapter_of(arguments, f"an argument of the tool {name!r}")


def closed_arguments(schema: Json) -> Json:
    """The schema of a function's arguments as every API takes it: always an object."""
    schema = {"type": "object", "properties": {}, **schema}
    schema.setdefault("additionalProperties", False)
    return schema


def adapter_of(hint: Any, what: str) -> TypeAdapter[Any]:
    """Pydantic's adapter of a type; raises ConfigError if it has no JSON schema."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(modern(hint))
        json_schema(adapter)
    except (PydanticUserError, TypeError, NameError) as error:
        line = str(error).splitlines()[0]
        raise ConfigError(
            f"{what} has a type without a JSON schema: {line}. Use JSON types, "
            "dataclasses or pydantic models."
        ) from None
    return adapter


def json_schema(adapter: TypeAdapter[Any]) -> Json:
    """The JSON schema, without the titles that only cost tokens."""
    with warnings.catch_warnings():  # of defaults that have no JSON
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        schema: Json = _untitled(adapter.json_schema())
    return schema


def faults(error: ValidationError) -> str:
    """The faults of a value, on one line."""
    listed = error.errors(include_url=False, include_input=False)
    shown = "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'value'}: {each['msg']}"
        for each in listed[:FAULTS_SHOWN]
    )
    more = len(listed) - FAULTS_SHOWN
    return f"{shown}; {more} more" if more > 0 else shown


def closed(schema: Json) -> Json:
    """A schema as servers enforce it: no other properties, and none may be missing.

    A default has no use there, for every property is written; beside a reference
    nothing may be, and of alternatives `oneOf` is unknown.
    """
    if "$ref" in schema and "$defs" not in schema:
        return {"$ref": schema["$ref"]}
    schema = {
        "anyOf" if word == "oneOf" else word: each for word, each in schema.items()
    }
    return {
        word: _closed_inner(word, value)
        for word, value in _with_all_required(schema).items()
        if word not in ("default", "discriminator")
    }


def modern(hint: Any) -> Any:
    """A type hint in which a `TypedDict` is one that pydantic reads on Python 3.11."""
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        fields = get_type_hints(hint, include_extras=True)
        named = {name: modern(each) for name, each in fields.items()}
        made: Any = typing_extensions.TypedDict
        return made(hint.__name__, named, total=hint.__total__)
    arguments = get_args(hint)
    changed = tuple(modern(each) for each in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return hint
    origin = get_origin(hint)
    is_union = origin in (typing.Union, types.UnionType)
    return reduce(or_, changed) if is_union else origin[changed]


def schema_text(schema: Mapping[str, Any]) -> str:
    """A schema as short JSON."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def type_hints(function: Callable[..., object]) -> dict[str, Any]:
    """The type hints of a function, of an object's `__call__`, or of a partial."""
    target = getattr(function, "func", function)
    if not hasattr(target, "__annotations__") or isinstance(target, type):
        target = type(target).__call__ if not isinstance(target, type) else target
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise ConfigError(f"A type hint of {target!r} can't be read: {error}") from None


def _untitled(value: Any, *, is_schema: bool = True) -> Any:
    """A schema without titles; a property may be named "title"."""
    if isinstance(value, list):
        return [_untitled(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _untitled(each, is_schema=key not in ("properties", "$defs"))
        for key, each in value.items()
        if not (is_schema and key == "title" and isinstance(each, str))
    }


def _with_all_required(schema: Json) -> Json:
    if "properties" not in schema:
        return schema
    names = list(schema["properties"])
    return {**schema, "required": names, "additionalProperties": False}


def _closed_inner(word: str, value: Any) -> Any:
    if word in ("properties", "$defs"):
        return {name: closed(each) for name, each in value.items()}
    if word in ("anyOf", "allOf", "prefixItems"):
        return [closed(each) for each in value]
    return closed(value) if word == "items" and isinstance(value, dict) else value


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
    """A value in which strings are decoded where the schema allows no string.

    A whole number in place of a string becomes one, and a word in place of a list of
    strings its only item: "a, b" may be two.
    """
    known = schema.get("$defs", {}) if definitions is None else definitions
    choices = list(_choices(schema, known))
    if isinstance(value, str):
        value = _unquoted(value, choices)
    if isinstance(value, int | str):
        return _plain(value, choices, known)
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


def _plain(value: int | str, choices: list[Json], definitions: Json) -> Any:
    """A number as a string, or a word in a list, where nothing else is allowed."""
    allowed = {name for c in choices for name in _types(c)} - {"null"}
    if type(value) is int and allowed == {"string"}:
        return str(value)
    if isinstance(value, str) and allowed == {"array"} and _is_word(value):
        items = [c["items"] for c in choices if _is_schema(c.get("items"))]
        if any("string" in _types(c) for i in items for c in _choices(i, definitions)):
            return [value]
    return value


def _is_word(text: str) -> bool:
    return text.replace("-", "").replace("_", "").isalnum()


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
