"""Tools that an API refuses cost those tools, not the chat."""

import json
import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, Literal

import pytest
from provider_kit import DIALECTS
from refusing_server import Json, RefusingServer, Rule

from nbchat.agent.agent import Agent
from nbchat.conversation.events import ContentLeftOut
from nbchat.conversation.tools import Tool, tool
from nbchat.providers.refused_content import adapted

WIRES = ["openai", "responses", "gemini", "anthropic"]
NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
STRING = {"type": "string"}

Made = Callable[..., RefusingServer]


@pytest.fixture
def serving() -> Iterator[Made]:
    made: list[RefusingServer] = []

    def serve(kind: str, rule: Rule | None = None) -> RefusingServer:
        made.append(RefusingServer(kind, rule))
        return made[-1]

    yield serve
    for server in made:
        server.close()


def tool_of(name: str, **schema: Any) -> Tool:
    """A tool of an MCP server, which returns its arguments."""
    return Tool(name, "Look.", schema, lambda **given: json.dumps(given))


HEALTHY = tool_of("healthy", type="object", properties={"q": STRING})


def schemas_in(body: Json) -> Iterator[tuple[str, Json]]:
    for each in body.get("tools", []):
        function = each.get("function", each)
        schema = function.get("parameters") or function.get("input_schema") or {}
        yield function["name"], schema


def parts_of(schema: Any) -> Iterator[Json]:
    if isinstance(schema, dict):
        yield schema
        for each in schema.values():
            yield from parts_of(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from parts_of(each)


def takes_schemas(body: Json) -> str | None:
    """The published rules, in the servers' words."""
    for number, (name, schema) in enumerate(schemas_in(body)):
        is_anthropic = "input_schema" in body["tools"][0]
        where = f"tools.{number}.custom" if is_anthropic else f"function '{name}'"
        if schema and schema.get("type") != "object":
            return f"Invalid schema for {where}: type must be object"
        if {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"} & set(schema):
            return f"Invalid schema for {where}: no anyOf at the top level"
        for part in parts_of(schema):
            if part.get("type") == "array" and "items" not in part:
                return f"Invalid schema for {where}: array schema missing items"
            if not all(map(NAME.fullmatch, part.get("properties", {}))):
                return f"Invalid schema for {where}: property keys"
    if len(body.get("tools", [])) > 128 and "input_schema" not in body["tools"][0]:
        return "Invalid 'tools': array too long. Expected at most 128"
    return None


ID, TITLE = {"required": ["id"]}, {"required": ["title"]}
BOTH = {"id": STRING, "title": STRING}
REFUSED = {
    "alternatives": tool_of("find", type="object", properties=BOTH, anyOf=[ID, TITLE]),
    "alternatives with properties": tool_of(
        "find",
        oneOf=[
            {"type": "object", "properties": {"id": STRING}, **ID},
            {"type": "object", "properties": {"title": STRING}, **TITLE},
        ],
    ),
    "parts": tool_of(
        "find",
        allOf=[
            {"type": "object", "properties": {"id": STRING}, **ID},
            {"type": "object", "properties": {"title": STRING}, **TITLE},
        ],
    ),
    "a reference": tool_of(
        "find",
        **{"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "properties": BOTH}}},
    ),
    "a list without items": tool_of(
        "find", type="object", properties={"id": {"type": "array"}, "title": STRING}
    ),
    "names": tool_of(
        "find",
        type="object",
        properties={
            "id": STRING,
            "title": STRING,
            "filter[status]": STRING,
            "$top": {},
        },
        required=["filter[status]"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", WIRES)
def test_a_schema_that_apis_refuse_is_sent_in_another_form(serving, kind, name):
    server = serving(kind, takes_schemas)
    agent = Agent(server.provider(), tools=[REFUSED[name], HEALTHY])
    assert agent.ask("hi") == "fine"
    assert server.refused == []
    sent = dict(schemas_in(server.requests[-1].body))
    assert {"id", "title"} <= set(sent["find"]["properties"])
    assert sent["healthy"]["properties"] == HEALTHY.parameters["properties"]


def test_alternatives_are_said_in_words_and_what_they_share_is_required():
    branch = {"type": "object", "properties": BOTH}
    found = tool_of(
        "x", anyOf=[{**branch, **ID}, {**branch, "required": ["id", "title"]}]
    )
    (flat,) = adapted((found,)).tools
    assert flat.parameters["required"] == ["id"]
    assert flat.description == "Look.\n(Give either id; or id, title.)"
    parts = REFUSED["parts"]
    assert adapted((parts,)).tools[0].parameters["required"] == ["id", "title"]


def test_a_schema_that_is_right_is_sent_as_it_is():
    assert adapted((HEALTHY,)).tools[0] is HEALTHY


@pytest.mark.parametrize("kind", WIRES)
def test_renamed_arguments_arrive_under_their_own_names(serving, kind):
    server = serving(kind, takes_schemas)
    server.script(DIALECTS[kind].calls(("c1", "find", '{"filter_status_": "open"}')))
    agent = Agent(server.provider(), tools=[REFUSED["names"]])
    assert agent.ask("hi") == "fine"
    call, result = agent.session.transcript[1:3]
    assert call.arguments == json.loads(result.content) == {"filter[status]": "open"}
    assert "filter_status_" in str(server.requests[-1].body)
    assert "filter[status]" not in str(server.requests[-1].body["tools"])
    assert server.refused == []


def test_other_names_are_unlike_all_others():
    properties = {"a[b]": STRING, "a_b_": STRING, "a(b)": STRING, "x" * 70: STRING}
    form = adapted((tool_of("x", type="object", properties=properties),))
    sent = list(form.tools[0].parameters["properties"])
    assert len(set(sent)) == 4
    assert all(map(NAME.fullmatch, sent))
    assert set(form.names["x"].values()) == {"a[b]", "a(b)", "x" * 70}


@pytest.mark.parametrize("kind", WIRES)
def test_of_more_than_128_tools_some_are_left_out_in_one_line(serving, kind):
    server = serving(kind, takes_schemas)
    tools = [tool_of(f"t{n}", type="object", properties={}) for n in range(131)]
    agent = Agent(server.provider(), tools=tools)
    answers = [agent.ask("hi"), agent.ask("hi")]
    told = [
        [e.parts for e in answer.events if isinstance(e, ContentLeftOut)]
        for answer in answers
    ]
    named = ("the tool t120", "the tool t121", "the tool t122")
    assert told == [[] if kind == "anthropic" else [named], []]
    assert server.refused == []


@pytest.mark.parametrize("kind", WIRES)
def test_a_tool_that_is_still_refused_is_left_out_by_name(serving, kind):
    words = {
        "anthropic": "tools.1.custom.input_schema: too odd",
        "gemini": "Request.tools[0].function_declarations[1].parameters: too odd",
        "openai": "Invalid schema for function 'odd': too odd",
        "responses": "Invalid schema for function 'odd': too odd",
    }

    def rule(body: Json) -> str | None:
        names = [name for name, _ in schemas_in(body)]
        return words[kind] if "odd" in names else None

    odd = tool_of("odd", type="object", properties={"q": STRING})
    server = serving(kind, rule)
    agent = Agent(server.provider(), tools=[HEALTHY, odd])
    answer = agent.ask("hi")
    (event,) = [e for e in answer.events if isinstance(e, ContentLeftOut)]
    assert event.parts == ("the tool odd",)
    assert agent.ask("hi") == "fine"
    assert len(server.refused) == 1
    assert [n for n, _ in schemas_in(server.requests[-1].body)] == ["healthy"]


class Level(IntEnum):
    low = 1
    high = 2


@tool
def triage(
    priority: Literal[1, 2, 3], level: Level, *, flag: Literal[True] = True
) -> str:
    """Set it."""
    return f"{priority!r} {level!r} {flag!r}"


def test_gemini_is_sent_numbers_of_a_list_as_texts_and_they_come_back(serving):
    server = serving("gemini")
    arguments = '{"priority": "2", "level": "1", "flag": "true"}'
    server.script(DIALECTS["gemini"].calls(("c1", "triage", arguments)))
    agent = Agent(server.provider(), tools=[triage])
    agent.ask("hi")
    ((_, schema),) = schemas_in(server.requests[0].body)
    assert schema["properties"]["priority"] == {
        "enum": ["1", "2", "3"],
        "type": "string",
    }
    assert agent.session.transcript[2].content == "2 <Level.low: 1> True"


def test_a_schema_of_endless_depth_ends():
    deep: Json = {"type": "object", "properties": {}}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a[": deep}}
    form = adapted((tool_of("deep", **deep),))
    assert form.names["deep"]
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert adapted((tool_of("loop", **loop),)).tools[0].parameters["type"] == "object"
