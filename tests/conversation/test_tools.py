"""Plain functions as tools: schema, validation, and faults told to the model."""

from collections.abc import AsyncIterator
from typing import Literal

import pytest

from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import as_tools, run_tool, tool
from nbchat.errors import ConfigError


def set_priority(
    ticket_id: str, priority: Literal["low", "high"], note: str = ""
) -> str:
    """Set how urgent a ticket is.

    Args:
        ticket_id: The ticket, as in T1.
        priority: How urgent.
    """
    return f"{ticket_id} is {priority}{note}"


def call(name: str, arguments: str) -> Entry:
    return Entry("assistant", "", "call_1", name, arguments)


def test_the_schema_comes_from_signature_and_docstring():
    made = tool(set_priority)
    assert (made.name, made.description) == (
        "set_priority",
        "Set how urgent a ticket is.",
    )
    assert made.parameters["required"] == ["ticket_id", "priority"]
    assert made.parameters["properties"]["priority"] == {
        "description": "How urgent.",
        "enum": ["low", "high"],
        "type": "string",
    }


def test_a_call_gives_an_entry_tied_by_its_id():
    done = run_tool(
        as_tools([set_priority]),
        call("set_priority", '{"ticket_id": "T1", "priority": "low"}'),
    )
    assert done == ("tool", "T1 is low", "call_1", "set_priority", "")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            call("set_priority", '{"ticket_id": "T1", "priority": "huge"}'),
            "'low' or 'high'",
        ),
        (call("set_priority", '{"ticket_id": "T1"'), "bad arguments"),
        (call("set_priority", '{"ticket_id":"T","priority":"low","x":1}'), "x: Extra"),
        (call("format_disk", "{}"), "no tool 'format_disk'; use set_priority"),
    ],
)
def test_wrong_calls_become_one_line_for_the_model(entry: Entry, said: str):
    done = run_tool(as_tools([set_priority]), entry)
    assert done.is_error
    assert said in done.content
    assert "\n" not in done.content


def test_a_tool_that_raises_becomes_an_error_entry():
    def explode() -> str:
        raise ZeroDivisionError("by zero")

    done = run_tool(as_tools([explode]), call("explode", ""))
    assert done.is_error
    assert done.content == "error: ZeroDivisionError: by zero"


def test_values_that_are_not_text_come_as_json_and_long_ones_are_cut_with_a_note():
    def numbers() -> dict[str, int]:
        return {"a": 1}

    def flood() -> str:
        return "x" * 300_000

    tools = as_tools([numbers, flood])
    assert run_tool(tools, call("numbers", "{}")).content == '{"a": 1}'
    assert run_tool(tools, call("flood", "{}")).content.endswith(
        "[100,000 characters removed]"
    )


class Mute:
    """Something that cannot be written at all."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def circle() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("output", "content"),
    [({("a", 1): 3}, "{('a', 1): 3}"), (circle(), "[[...]]")],
    ids=["tuples for keys", "a circle"],
)
def test_what_json_has_no_form_for_comes_as_python_writes_it(
    output: object, content: str
):
    def give() -> object:
        return output

    done = run_tool(as_tools([give]), call("give", "{}"))
    assert done == ("tool", content, "call_1", "give", "")


def test_of_an_output_that_cannot_be_written_the_model_reads_that_the_tool_ran():
    def give() -> object:
        return [Mute()]

    done = run_tool(as_tools([give]), call("give", "{}"))
    assert done.is_error
    assert done.content == (
        "error: it ran, but its output has no text: RuntimeError: no words"
    )


def test_of_a_fault_without_words_the_model_reads_the_name():
    def explode() -> str:
        raise MuteError

    done = run_tool(as_tools([explode]), call("explode", "{}"))
    assert (done.content, done.is_error) == ("error: MuteError", True)


def test_an_async_tool_is_refused_with_what_to_give_instead():
    async def lookup(order: str) -> str:
        return order

    async def each(order: str) -> AsyncIterator[str]:
        yield order

    for function in (lookup, each):
        with pytest.raises(
            ConfigError, match=r"is async.*use a function without async"
        ):
            tool(function)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two tools are named set_priority"):
        as_tools([set_priority, set_priority])


def test_a_lambda_cannot_be_a_tool():
    with pytest.raises(ConfigError, match="function with a name"):
        tool(lambda: "x")
