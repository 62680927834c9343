"""Tools: Python functions that a model may call, with a JSON schema.

The schema is made from the signature (names, types, defaults) and the docstring.
Arguments are validated before the function is called.
"""

import contextlib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from nbchat.conversation.entries import Entry, failed_result
from nbchat.errors import ConfigError

OUTPUT_LIMIT = 200_000
"""Characters of an output that are kept, about 50,000 tokens."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function as a model sees it: name, purpose and JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., object]
    arguments_model: type[BaseModel]


def tool(function: Callable[..., object]) -> Tool:
    """A tool made from a function with type hints and a docstring.

    `Literal` hints become enums, defaults become optional arguments, the docstring's
    `Args:` (any common style) become the arguments' descriptions.
    """
    if isinstance(function, Tool):
        return function
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ConfigError(f"a tool must be a function with a name, not {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"the tool {name!r} is async and would never be awaited; "
            "use a function without async"
        )
    text = docstring_parser.parse(inspect.getdoc(function) or "")
    described = {argument.arg_name: argument.description for argument in text.params}
    model = create_model(
        name, __config__=ConfigDict(extra="forbid"), **_fields(function, described)
    )
    summary = "\n".join(filter(None, (text.short_description, text.long_description)))
    return Tool(name, summary or name, _plain_schema(model), function, model)


def as_tools(functions: Iterable[Callable[..., object]]) -> tuple[Tool, ...]:
    """Tools made from functions; raises ConfigError if two have the same name."""
    tools = tuple(tool(function) for function in functions)
    names = [each.name for each in tools]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"two tools are named {', '.join(sorted(twice))}; rename one")
    return tools


def run_tool(tools: Iterable[Tool], call: Entry) -> Entry:
    """Run a call and return its result; an error becomes a result of one line."""
    known = {each.name: each for each in tools}
    called = known.get(call.tool_name)
    if called is None:
        return failed_result(
            call, f"there is no tool {call.tool_name!r}; use {_names(known)}"
        )
    try:
        arguments = called.arguments_model.model_validate_json(call.tool_args or "{}")
    except ValidationError as error:
        return failed_result(call, f"bad arguments: {_faults(error)}")
    values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
    try:
        output = called.function(**values)
    except Exception as error:  # noqa: BLE001  # a user's tool may raise anything
        return failed_result(call, _error_line(error))
    try:
        text = _as_text(output)
    except Exception as error:  # noqa: BLE001  # so may what it returns
        return failed_result(
            call, f"it ran, but its output has no text: {_error_line(error)}"
        )
    return Entry("tool", text, call.tool_id, call.tool_name)


def _fields(
    function: Callable[..., object], described: dict[str, str | None]
) -> dict[str, Any]:
    hints = get_type_hints(function)
    fields = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (
            hints.get(parameter.name, str),
            Field(default, description=described.get(parameter.name)),
        )
    return fields


def _plain_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON schema without the titles that only cost tokens."""
    schema = model.model_json_schema()
    schema.pop("title", None)
    for definition in schema.get("properties", {}).values():
        definition.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _names(known: dict[str, Tool]) -> str:
    return ", ".join(sorted(known)) or "none: no tools are offered"


def _faults(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    )


def _error_line(error: Exception) -> str:
    """Name and text of an error; the name alone if its `str` fails."""
    with contextlib.suppress(Exception):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


def _as_text(output: object) -> str:
    """An output as text, truncated at `OUTPUT_LIMIT`; raises what its `str` raises."""
    if output is None:
        return "ok"
    text = output if isinstance(output, str) else _as_json(output)
    if len(text) <= OUTPUT_LIMIT:
        return text
    return f"{text[:OUTPUT_LIMIT]}\n[{len(text) - OUTPUT_LIMIT:,} characters removed]"


def _as_json(output: object) -> str:
    """JSON, or the `repr` of what has no JSON, such as tuples as keys."""
    try:
        return json.dumps(output, ensure_ascii=False, default=str)
    except Exception:  # noqa: BLE001  # text that an object makes of itself
        return repr(output)
