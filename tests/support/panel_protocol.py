"""The messages of the panel, held against `protocol.json`."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import nbchat.jupyter.panel

PROTOCOL = json.loads(
    (Path(nbchat.jupyter.panel.__file__).parent / "protocol.json").read_text()
)


def is_valid(message: dict[str, Any], direction: str) -> bool:
    """Whether a message is one the protocol knows."""
    return bool(_validator(direction).is_valid(message))


def check(message: dict[str, Any], definition: str) -> None:
    """Raise ValidationError, saying why, for a message the protocol does not know."""
    json.dumps(message).encode()
    _validator(definition).validate(message)


def known(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to a question, if it is one that the protocol knows."""
    check({**answer, "token": "t"}, answer["type"])
    assert "id" not in answer
    return answer


@cache
def _validator(definition: str) -> Draft202012Validator:
    schema = {"$ref": f"#/$defs/{definition}", "$defs": PROTOCOL["$defs"]}
    return Draft202012Validator(schema)
