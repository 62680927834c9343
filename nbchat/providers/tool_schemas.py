"""Tools in a form that every API takes, and arguments of calls mapped back.

An API that refuses the schema of one tool refuses the whole request, so a tool of an
MCP server must not end the chat: alternatives at the top level become one object, a
list without items may hold anything, and names that are refused get others.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import Tool
from nbchat.providers.wire_format import Json, a_list, an_object

MOST_TOOLS = 128
"""Most tools of a request to OpenAI and Gemini; Anthropic counts only tokens.
https://developers.openai.com/api/docs/api-reference/chat/create"""

LAST_KEPT = 8
"""Tools at the end of the list that are kept where there are too many: the chat's own
tools about its context are added last."""

NAME_LENGTH = 64

NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
"""Characters that Anthropic and OpenAI refuse in the name of a property."""

TOP_LEVEL = ("anyOf", "oneOf", "allOf", "not", "enum", "if", "then", "else", "$ref")
"""Words that APIs refuse at the top of a tool's schema."""

BY_NAME = ("properties", "$defs", "definitions", "patternProperties")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
NESTED = ("items", "additionalProperties", "not", "contains")
"""Words whose values are schemas: by name, in a list, or one."""

MOST_NESTED = 50
"""Levels of a schema; servers refuse far less."""


class Adapted(NamedTuple):
    """Tools as they are sent."""

    tools: tuple[Tool, ...]
    names: Mapping[str, Mapping[str, str]]
    """By tool: the names of properties as they are sent, with the real ones."""
    left_out: tuple[str, ...] = ()
    """Tools beyond the number that the API takes."""


def adapted(tools: tuple[Tool, ...], *, most: int | None = None) -> Adapted:
    """Tools whose schemas every API takes; those that are right stay the same."""
    left_out: tuple[str, ...] = ()
    if most is not None and len(tools) > most:
        first, last = most - LAST_KEPT, len(tools) - LAST_KEPT
        left_out = tuple(each.name for each in tools[first:last])
        tools = (*tools[:first], *tools[last:])
    found = list(map(_adapted, tools))
    names = {each.name: names for each, names in found if names}
    return Adapted(tuple(each for each, _ in found), names, left_out)


def renamed(
    history: Iterable[Entry], names: Mapping[str, Mapping[str, str]]
) -> tuple[Entry, ...]:
    """A history whose calls use the names as they are sent."""
    sent = {
        tool: {real: name for name, real in each.items()}
        for tool, each in names.items()
    }
    return tuple(with_names(entry, sent) for entry in history)


def with_names(entry: Entry, names: Mapping[str, Mapping[str, str]]) -> Entry:
    """A call with other names of its arguments; any other entry as it is."""
    if not entry.is_call or entry.tool_name not in names:
        return entry
    found = _renamed_keys(entry.arguments, names[entry.tool_name])
    return entry._replace(tool_args=json.dumps(found, ensure_ascii=False))


def _adapted(tool: Tool) -> tuple[Tool, dict[str, str]]:
    """A tool in the common form, and the real names of its renamed properties."""
    schema, note = _flat(tool.parameters)
    names = _free_names(_properties(schema))
    changed = _walked(schema, names)
    if changed == tool.parameters:
        return tool, {}
    description = f"{tool.description}\n({note})" if note else tool.description
    back = {name: real for real, name in names.items()}
    return replace(tool, parameters=changed, description=description), back


def _flat(schema: Json) -> tuple[Json, str]:
    """A schema that is one object at the top, and what it does not say any more."""
    definitions = an_object(schema.get("$defs")) or an_object(schema.get("definitions"))
    for _ in range(len(definitions) + 1):  # a definition may be another one's name
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name not in definitions:
            break
        schema = {**schema, "$ref": "", **an_object(definitions[name])}
    branches = [
        _flat({**an_object(each), "$defs": definitions})[0] if each else {}
        for word in ("anyOf", "oneOf", "allOf")
        for each in a_list(schema.get(word))
    ]
    flat = {word: each for word, each in schema.items() if word not in TOP_LEVEL}
    properties = dict(an_object(flat.get("properties")))
    for branch in branches:
        for name, each in an_object(branch.get("properties")).items():
            properties.setdefault(name, each)
    flat |= {"type": "object", "properties": properties}
    required = _required(schema, branches)
    if required or "required" in flat:
        flat["required"] = required
    return flat, "" if "allOf" in schema else _alternatives(branches)


def _required(schema: Json, branches: list[Json]) -> list[str]:
    """Properties always required: all parts of `allOf`, and those shared by all."""
    needed = [a_list(each.get("required")) for each in branches]
    shared = [n for n in (needed[0] if needed else []) if all(n in e for e in needed)]
    every = [name for each in needed for name in each] if "allOf" in schema else shared
    return list(dict.fromkeys([*a_list(schema.get("required")), *every]))


def _alternatives(branches: list[Json]) -> str:
    """Which arguments belong together, in words."""
    groups = [", ".join(map(str, a_list(each.get("required")))) for each in branches]
    known = list(dict.fromkeys(filter(None, groups)))
    return f"Give either {'; or '.join(known)}." if len(known) > 1 else ""


def _walked(value: Json, names: Mapping[str, str], depth: int = 0) -> Json:
    """A schema with other names, and items in every list."""
    if depth > MOST_NESTED:
        return {}
    inner = _inner(lambda each: _walked(each, names, depth + 1))
    found = {word: inner(word, each) for word, each in value.items()}
    for word in ("properties", "dependentRequired"):
        if isinstance(found.get(word), dict):
            found[word] = {names.get(n, n): each for n, each in found[word].items()}
    if isinstance(found.get("required"), list):
        found["required"] = [names.get(name, name) for name in found["required"]]
    is_list = "array" in (found.get("type"), *a_list(found.get("type")))
    if is_list and not {"items", "prefixItems"} & set(found):
        found["items"] = {}
    return found


def _inner(walk: Callable[[Json], Json]) -> Callable[[str, Any], Any]:
    """Applies `walk` to each schema in the value of a word."""

    def inner(word: str, value: Any) -> Any:
        if word in BY_NAME and isinstance(value, dict):
            return {
                name: walk(each) if isinstance(each, dict) else each
                for name, each in value.items()
            }
        if word in LISTED and isinstance(value, list):
            return [walk(each) if isinstance(each, dict) else each for each in value]
        is_schema = word in NESTED and isinstance(value, dict)
        return walk(value) if is_schema else value

    return inner


def _properties(value: Json, depth: int = 0) -> Iterator[str]:
    """The names of all properties in a schema."""
    if depth > MOST_NESTED:
        return
    yield from map(str, an_object(value.get("properties")))
    for word, each in value.items():
        schemas: Iterable[Any] = ()
        if word in BY_NAME:
            schemas = an_object(each).values()
        elif word in LISTED:
            schemas = a_list(each)
        elif word in NESTED:
            schemas = [each]
        for schema in schemas:
            yield from _properties(an_object(schema), depth + 1)


def _free_names(names: Iterable[str]) -> dict[str, str]:
    """Another name for each that is refused, unlike all others."""
    known = list(dict.fromkeys(names))
    taken, found = set(known), dict[str, str]()
    for name in known:
        safe = NOT_IN_NAME.sub("_", name)[:NAME_LENGTH] or "_"
        number = 2
        while safe != name and safe in taken:
            safe = f"{safe[: NAME_LENGTH - 4]}_{number}"
            number += 1
        if safe != name:
            found[name] = safe
            taken.add(safe)
    return found


def _renamed_keys(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed_keys(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    return {names.get(k, k): _renamed_keys(each, names) for k, each in value.items()}
