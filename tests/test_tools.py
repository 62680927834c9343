"""Plain functions as tools: schema, validation, and faults told to the model."""

from typing import Literal

import pytest

from nbchat.errors import ConfigError
from nbchat.history import Entry
from nbchat.tools import as_tools, run_tool, tool


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
        "[100,000 characters cut here]"
    )


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two tools are named set_priority"):
        as_tools([set_priority, set_priority])


def test_a_lambda_cannot_be_a_tool():
    with pytest.raises(ConfigError, match="function with a name"):
        tool(lambda: "x")
