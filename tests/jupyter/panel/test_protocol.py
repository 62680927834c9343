"""The messages of the panel: their classes, their schema, and what is accepted."""

from typing import Any, get_args

import pytest
from panel_protocol import FROM_VIEWS, is_valid

from nbchat.jupyter.panel import protocol, protocol_schema

FITTING: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "boolean": True,
    "array": ["key"],
}

ODD = [None, True, 0, -1, -2, 2.5, "", "x", "x" * 41, [], ["x"], [1], {}, [["x"]]]


def whole(schema: dict[str, Any]) -> dict[str, Any]:
    """A message with all of its fields."""
    fields = schema["properties"]
    values = {name: fitting(each) for name, each in fields.items() if "type" in each}
    return {"type": fields["type"]["const"], **values}


def fitting(field: dict[str, Any]) -> Any:
    """A value of a field; a list of objects is empty."""
    kind = field["type"]
    if "$ref" in field.get("items", {}):
        return []
    return FITTING[kind if isinstance(kind, str) else kind[0]]


def variants(schema: dict[str, Any]) -> list[Any]:
    """A message, and others that miss a field or have an odd or unknown one."""
    message = whole(schema)
    names = [*schema["properties"], "id"]
    without = [{n: v for n, v in message.items() if n != left} for left in names]
    changed = [{**message, name: odd} for name in names for odd in ODD]
    return [message, *without, *changed]


def follows_its_schema(message: dict[str, Any]) -> bool:
    """True if a message is valid; the schema of its type is the only one it can follow."""
    names = map(protocol.name_of, get_args(protocol.ViewToKernel))
    own = {
        whole(each)["type"]: name for each, name in zip(FROM_VIEWS, names, strict=True)
    }
    found = [name for kind, name in own.items() if kind == message.get("type")]
    return bool(found) and is_valid(message, found[0])


def test_the_schema_is_made_from_the_classes() -> None:
    hint = f"python -m {protocol_schema.__name__}"
    assert protocol_schema.FILE.read_text(encoding="utf-8") == (
        protocol_schema.text()
    ), hint


@pytest.mark.slow
@pytest.mark.parametrize("schema", FROM_VIEWS, ids=lambda each: whole(each)["type"])
def test_the_kernel_accepts_the_messages_of_the_schema_and_no_others(
    schema: dict[str, Any],
) -> None:
    for message in variants(schema):
        is_accepted = protocol.received(message) is not None
        assert is_accepted == follows_its_schema(message), message


def test_every_message_can_be_received_and_what_is_none_is_not() -> None:
    accepted = {type(protocol.received(whole(each))) for each in FROM_VIEWS}
    assert accepted == set(get_args(protocol.ViewToKernel))
    assert protocol.received({"type": "stop"}) == protocol.Stop()
    sent = {"type": "send", "text": "x", "previews": ["a", "b"]}
    assert protocol.received(sent) == protocol.Send("x", ("a", "b"))
    for other in (None, "stop", [], {}, {"type": ["stop"]}, {"type": "snapshot"}):
        assert protocol.received(other) is None


def test_all_text_of_an_answer_can_be_encoded() -> None:
    page = protocol.PathsList((protocol.Completion("a\ud800", ""),))
    assert protocol.as_message(page, "t") == {
        "type": "paths_list",
        "token": "t",
        "paths": [{"name": "a\ufffd", "help": ""}],
    }
