"""Writes `protocol.json`, the JSON Schema of the panel's messages, from their classes.

    python -m nbchat.jupyter.panel.protocol_schema

The types of the front end and the tests read it.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from nbchat.jupyter.panel import protocol

FILE = Path(__file__).with_name("protocol.json")

Schema = dict[str, Any]

SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def schema() -> Schema:
    """The schema of all messages, with a definition for each class."""
    messages = (*_classes(protocol.KernelToView), *_classes(protocol.ViewToKernel))
    definitions = {protocol.name_of(each): _definition(each) for each in messages}
    whole = definitions["state"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages between the kernel side of the panel and its views",
        "description": "Made by `python -m nbchat.jupyter.panel.protocol_schema`.",
        "$defs": {
            "kernel_to_view": _one_of(get_args(protocol.KernelToView)),
            "view_to_kernel": _one_of(get_args(protocol.ViewToKernel)),
            **definitions,
            "state": {
                "allOf": [{"$ref": "#/$defs/some_state"}],
                "required": whole["required"],
            },
            "some_state": {**whole, "required": [], "minProperties": 1},
        },
    }


def text() -> str:
    """Content of the file, with one definition a line."""
    head, definitions = (
        json.dumps({**schema(), "$defs": {}}, indent=1),
        schema()["$defs"],
    )
    lines = [f'  "{name}": {json.dumps(each)}' for name, each in definitions.items()]
    return head.replace("{}", "{\n" + ",\n".join(lines) + "\n }") + "\n"


def _classes(hint: Any) -> Iterator[type]:
    """The classes in a type, and those in their fields."""
    kinds = get_args(hint)
    if is_dataclass(hint):
        yield hint  # type: ignore[misc]  # a class, not an object
        kinds = tuple(get_type_hints(hint).values())
    for kind in kinds:
        yield from _classes(kind)


def _definition(kind: Any) -> Schema:
    """One class: its tag, its fields, and the token of an answer."""
    hints = get_type_hints(kind, include_extras=True)
    named = {each.name: _field(hints[each.name]) for each in fields(kind)}
    required = [each.name for each in fields(kind) if each.default is MISSING]
    if issubclass(kind, protocol.AnyAnswer):
        named = {"token": _field(protocol.Token), **named}
        required = ["token", *required]
    tag = _tag(kind)
    return {
        "description": " ".join(str(kind.__doc__).split()),
        "type": "object",
        "properties": {**tag, **named},
        "required": [*tag, *required],
        "additionalProperties": False,
    }


def _tag(kind: Any) -> Schema:
    name = protocol.name_of(kind)
    if kind in get_args(protocol.Operation):
        return {"op": {"const": name.removesuffix("_operation")}}
    messages = (*get_args(protocol.KernelToView), *get_args(protocol.ViewToKernel))
    return {"type": {"const": name}} if kind in messages else {}


def _field(hint: Any) -> Schema:
    """The schema of a field's type."""
    inner, origin = get_args(hint), get_origin(hint)
    if origin is Annotated:
        return _annotated(inner[0], dict(inner[1:]))
    if NoneType in inner:
        return _or_null(_field(inner[0]))
    schemas: dict[Any, Callable[..., Schema]] = {
        Literal: lambda *values: {"enum": list(values)},
        tuple: lambda item, _: {"type": "array", "items": _field(item)},
        dict: lambda name, value: {
            "type": "object",
            "propertyNames": _field(name),
            "additionalProperties": _field(value),
        },
        UnionType: lambda *kinds: _one_of(kinds),
        None: lambda: SCALARS.get(hint) or _reference(hint),
    }
    return schemas[origin](*inner)


def _annotated(hint: Any, keywords: Schema) -> Schema:
    if keywords.pop("some", False):
        return {"$ref": f"#/$defs/some_{protocol.name_of(hint)}"}
    return {**_field(hint), **keywords}


def _or_null(found: Schema) -> Schema:
    if "type" in found:
        return {**found, "type": [found["type"], "null"]}
    return {"oneOf": [{"type": "null"}, found]}


def _one_of(kinds: tuple[Any, ...]) -> Schema:
    return {"oneOf": list(map(_reference, kinds))}


def _reference(kind: Any) -> Schema:
    return {"$ref": f"#/$defs/{protocol.name_of(kind)}"}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
