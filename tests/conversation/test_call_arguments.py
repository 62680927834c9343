"""Arguments as models really send them."""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import pytest
from tables import every

from nbchat.conversation.entries import Entry
from nbchat.conversation.json_schemas import fitted, object_text
from nbchat.conversation.tools import Tool, run_tool, tool


class Level(IntEnum):
    low = 1
    high = 2


@dataclass
class Row:
    name: str
    tags: list[str]


@tool
def file_away(  # noqa: PLR0917  # one argument of each kind
    title: str,
    tags: list[str] | None = None,
    rows: list[Row] | None = None,
    options: dict[str, int] | None = None,
    level: Level = Level.low,
    priority: Literal[1, 2, 3] = 1,
    mixed: list[str] | str = "",
) -> str:
    """File something away."""
    seen = [title, tags, rows, options, int(level), priority, mixed]
    return json.dumps(seen, default=vars)


def ran(arguments: Any, called: Tool = file_away) -> Entry:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return run_tool([called], Entry("assistant", "", "c", called.name, text)).entry


def seen(arguments: Any) -> list[Any]:
    found = ran(arguments)
    assert not found.is_error, found.content
    return list(json.loads(found.content))


@every(
    ("name", "sent", "place", "value"),
    [
        ("tags", '["a", "b"]', 1, ["a", "b"]),
        ("tags", "['a', 'b']", 1, ["a", "b"]),
        ("rows", '[{"name": "x", "tags": ["a"]}]', 2, [{"name": "x", "tags": ["a"]}]),
        ("rows", ['{"name": "x", "tags": ["a"]}'], 2, [{"name": "x", "tags": ["a"]}]),
        ("rows", [{"name": "x", "tags": '["a"]'}], 2, [{"name": "x", "tags": ["a"]}]),
        ("options", '{"a": 1}', 3, {"a": 1}),
        ("level", "2", 4, 2),
        ("priority", "3", 5, 3),
    ],
)
def test_a_string_is_decoded_where_the_schema_takes_none(name, sent, place, value):
    assert seen({"title": "t", name: sent})[place] == value


@every("text", ['["a"]', '{"a": 1}', "1", "true", "null", "'a'"])
def test_a_string_stays_one_where_the_schema_takes_it(text: str):
    found = seen({"title": text, "tags": [text], "mixed": text})
    assert (found[0], found[1], found[6]) == (text, [text], text)


WHOLE = {"title": 'say "hi"', "tags": ["a"]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.dumps(WHOLE)),
        json.dumps(json.dumps(json.dumps(WHOLE))),
        repr(WHOLE),
        '{"title": "say \\"hi\\"", "tags": ["a"],}',
    ],
    ids=["encoded twice", "three times", "Python", "a comma too much"],
)
def test_arguments_in_another_form_run_at_once(text: str):
    assert seen(text)[:2] == ['say "hi"', ["a"]]


def test_line_breaks_within_a_text_are_read():
    assert seen('{"title": "a\nb"}')[0] == "a\nb"
    assert json.loads(object_text('{"title": "a\nb"}')) == {"title": "a\nb"}


@every(
    "text",
    ['{"title": "rm /tmp/a', '{"title": "x", "tags": ["a"', '"title"', "[1]", "x"],
)
def test_what_was_cut_off_or_is_no_object_stays_a_fault(text: str):
    assert "bad arguments" in ran(text).content


def test_a_wrong_argument_is_told_as_it_was_sent():
    found = ran({"title": "t", "tags": "a, b"})
    assert found.content.startswith("error: bad arguments: tags")


def test_arguments_of_a_server_s_tool_are_decoded_by_its_schema():
    schema = {
        "type": "object",
        "properties": {
            "ids": {"$ref": "#/$defs/ids"},
            "any": {},
            "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "$defs": {"ids": {"type": "array", "items": {"type": "integer"}}},
    }
    sent = {"ids": '["1", 2]', "any": "[1]", "size": "7"}
    assert fitted(sent, schema) == {"ids": [1, 2], "any": "[1]", "size": 7}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "array"]},
        {"anyOf": [{"type": "array"}, {"type": "string"}]},
        {},
    ],
)
def test_what_may_be_a_string_is_not_decoded_for_a_server_s_tool(
    schema: dict[str, Any],
):
    whole = {"type": "object", "properties": {"x": schema}}
    assert fitted({"x": "[1]", "other": "[2]"}, whole) == {"x": "[1]", "other": "[2]"}


def test_a_definition_of_itself_ends():
    node = {"properties": {"next": {"$ref": "#/$defs/node"}}, "type": "object"}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    assert fitted({"next": '{"next": {}}'}, schema) == {"next": {"next": {}}}
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert fitted("x", loop) == "x"


def test_a_number_for_a_string_and_a_word_for_a_list_are_what_was_meant():
    text, number = {"type": "string"}, {"type": "integer"}
    texts, sizes = ({"type": "array", "items": each} for each in (text, number))
    either = {"type": ["string", "integer"]}
    named = {"cell": text, "cells": texts, "sizes": sizes, "either": either}
    schema = {"type": "object", "properties": named}
    sent = {"cell": 3, "cells": "a1-b", "sizes": "x", "either": 3, "other": 3}
    assert fitted(sent, schema) == {**sent, "cell": "3", "cells": ["a1-b"]}
    unclear = {"cell": True, "cells": "a, b"}
    assert fitted(unclear, schema) == unclear
