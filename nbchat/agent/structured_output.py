"""Structured answers: the requested JSON schema, and the value of an answer.

    answer = agent.ask("Ticket T1 ...", output=Decision)
    answer.value        # a Decision, validated

The server enforces the schema where it can. Every answer is validated here, too, and
asked for again with the fault that was found.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from nbchat.conversation.json_schemas import (
    Json,
    adapter_of,
    closed,
    faults,
    json_schema,
    schema_text,
)
from nbchat.errors import ConfigError

ATTEMPTS = 3
"""Answers that are asked for until one is valid."""

MOST_REPAIRED = 100_000
"""Characters of JSON that are repaired: a second for a hostile text."""

SCHEMA_REFUSED = re.compile(
    r"schema|response_?format|grammar|output_config|json|\bformat\b", re.IGNORECASE
)
"""Matches errors of servers that can't enforce a schema, or not this one."""

_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


class InvalidValue(ValueError):
    """An answer without a valid value; the text names the fault."""


@dataclass(frozen=True, slots=True)
class OutputType:
    """The type of a structured answer."""

    name: str
    schema: Json
    """Schema as servers enforce it: a closed object with all properties required."""
    read: Callable[[str], Any]
    """The value of a JSON text; raises InvalidValue."""
    is_wrapped: bool = False
    """True if the value is wrapped in an object, as APIs demand, as `value`."""

    @property
    def instruction(self) -> str:
        """The sentence in the request that asks for an answer of this form."""
        return (
            "When you give the final answer, write nothing but JSON that follows this "
            f"schema: {schema_text(self.schema)}"
        )

    def value(self, text: str) -> Any:
        """The value in an answer; raises InvalidValue."""
        problem = InvalidValue("the answer is empty")
        for candidate in _candidates(text):
            try:
                return self.read(self._unwrapped(candidate))
            except InvalidValue as error:
                problem = error
        for candidate in _candidates(text):
            with suppress(InvalidValue):
                return self.read(self._unwrapped(self._repaired(candidate)))
        raise problem

    def _repaired(self, text: str) -> str:
        """JSON with trailing commas, line breaks in texts and the like made right.

        Empty for a text that has none of the names in the schema: prose is no JSON.
        """
        import json_repair  # noqa: PLC0415  # rarely needed

        try:
            found = json_repair.loads(text) if len(text) <= MOST_REPAIRED else None
        except (RecursionError, ValueError):
            found = None
        names = set(self.schema.get("properties", ()))
        is_it = isinstance(found, dict) and names & set(found)
        return json.dumps(found) if is_it else ""

    def _unwrapped(self, text: str) -> str:
        if not self.is_wrapped:
            return text
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(found, dict) and set(found) == {"value"}:
            return json.dumps(found["value"])
        return text


def output_type(output: Any) -> OutputType | None:
    """The type of an answer: a model, dataclass, TypedDict, other type or JSON schema.

    Raises ConfigError for a type that has no JSON schema, and for an invalid schema.
    """
    if output is None or isinstance(output, OutputType):
        return output
    if isinstance(output, Mapping):
        name = str(output.get("title", "the schema"))
        return _of_object(name, dict(output), _reader_of_schema(output))
    return _of_class(output) if isinstance(output, type) else _of_type(output)


@lru_cache(maxsize=16)
def _of_class(output: type) -> OutputType:
    """Type of a class, cached: each row of a long run asks for the same one."""
    return _of_type(output)


def _of_type(output: Any) -> OutputType:
    adapter = adapter_of(output, "output")

    def read(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            raise InvalidValue(faults(error)) from None

    name = getattr(output, "__name__", str(output))
    return _of_object(name, json_schema(adapter), read)


def _of_object(name: str, schema: Json, read: Callable[[str], Any]) -> OutputType:
    if schema.get("type") == "object" and "properties" in schema:
        return OutputType(name, closed(schema), read)
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    inner = {word: each for word, each in schema.items() if word != "$defs"}
    whole = {"type": "object", "properties": {"value": inner}, **definitions}
    return OutputType(name, closed(whole), read, is_wrapped=True)


def _reader_of_schema(schema: Mapping[str, Any]) -> Callable[[str], Any]:
    import jsonschema  # noqa: PLC0415  # its grammars of web addresses take a second

    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise ConfigError(f"output isn't a JSON schema: {error.message}") from None
    validator = jsonschema.Draft202012Validator(dict(schema))

    def read(text: str) -> Any:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidValue(f"Invalid JSON: {error}") from None
        for fault in validator.iter_errors(value):
            raise InvalidValue(f"{fault.json_path}: {fault.message}")
        return value

    return read


def _candidates(text: str) -> list[str]:
    """The parts of an answer that may be the JSON, the likeliest first."""
    plain = text.strip()
    fenced = [each.strip() for each in _FENCED.findall(plain)]
    start, end = plain.find("{"), plain.rfind("}")
    inside = [plain[start : end + 1]] if 0 <= start < end else []
    return [each for each in dict.fromkeys([*inside, *fenced, plain]) if each]
