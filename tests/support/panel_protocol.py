"""The messages of the panel, held against `protocol.json`."""

import json
from functools import cache
from typing import Any, get_args

from jsonschema import Draft202012Validator

from nbchat.jupyter.panel.protocol import Answer, ViewToKernel, as_message, name_of
from nbchat.jupyter.panel.protocol_schema import FILE

PROTOCOL = json.loads(FILE.read_text(encoding="utf-8"))

FROM_VIEWS = [PROTOCOL["$defs"][name_of(kind)] for kind in get_args(ViewToKernel)]


def is_valid(message: object, direction: str) -> bool:
    """True if a message is one the protocol knows."""
    return bool(_validator(direction).is_valid(message))


def check(message: dict[str, Any], definition: str) -> None:
    """Raise ValidationError, saying why, for a message the protocol does not know."""
    json.dumps(message).encode()
    _validator(definition).validate(message)


def known(answer: Answer) -> dict[str, Any]:
    """The answer to a question as it is sent, if the protocol knows it."""
    message = as_message(answer, "t")
    check(message, "kernel_to_view")
    assert "id" not in message
    return {name: value for name, value in message.items() if name != "token"}


@cache
def _validator(definition: str) -> Draft202012Validator:
    schema = {"$ref": f"#/$defs/{definition}", "$defs": PROTOCOL["$defs"]}
    return Draft202012Validator(schema)
