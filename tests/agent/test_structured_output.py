"""Answers as values: of models, dataclasses, TypedDicts, types and JSON schemas."""

import dataclasses
import json
import pickle
from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field
from tables import every

from nbchat.agent.agent import Agent
from nbchat.agent.structured_output import output_type
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import UsageReported
from nbchat.errors import AnswerInvalid, ConfigError, RequestRefused
from nbchat.providers.base import Request
from nbchat.testing import ScriptedProvider, calls, fails, says

pytestmark = pytest.mark.usefixtures("garbage_kept")


class Decision(BaseModel):
    category: Literal["card", "transfer"]
    priority: int = Field(default=1, ge=1, le=3)


@dataclasses.dataclass
class Point:
    x: int
    y: list[int]


class Row(TypedDict):
    key: str
    score: float


GOOD = '{"category": "card", "priority": 2}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@every(
    ("output", "text", "value"),
    [
        (Decision, GOOD, Decision(category="card", priority=2)),
        (Point, '{"x": 1, "y": [2]}', Point(1, [2])),
        (Row, '{"key": "a", "score": 1}', {"key": "a", "score": 1.0}),
        (SCHEMA, '{"n": 3}', {"n": 3}),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (
            list[Row],
            '{"value": [{"key": "a", "score": 1}]}',
            [{"key": "a", "score": 1}],
        ),
        (Literal["yes", "no"], '{"value": "yes"}', "yes"),
        (int | None, '{"value": null}', None),
    ],
)
def test_an_answer_has_the_value_of_the_type(output: Any, text: str, value: object):
    provider = ScriptedProvider(says(text))
    answer = Agent(provider).ask("T1", output=output)
    assert answer.value == value
    assert (str(answer), answer.stop_reason) == (text, "end_turn")
    sent = provider.requests[0].output_schema
    assert sent is not None
    assert (sent["type"], sent["additionalProperties"]) == ("object", False)
    assert sent["required"] == list(sent["properties"])


@pytest.mark.parametrize(
    "text", [f"```json\n{GOOD}\n```", f"Here it is: {GOOD} Bye.", f" {GOOD}"]
)
def test_json_inside_of_other_text_is_found(text: str):
    answer = Agent(ScriptedProvider(says(text))).ask("T1", output=Decision)
    assert answer.value == Decision(category="card", priority=2)


def test_an_invalid_answer_is_asked_for_again_with_its_fault():
    provider = ScriptedProvider(says('{"category": "bike", "priority": 9}'), says(GOOD))
    answer = Agent(provider).ask("T1", output=Decision)
    assert answer.value == Decision(category="card", priority=2)
    said = provider.requests[1].history[-1]
    assert said.role == "user"
    assert "category: Input should be 'card' or 'transfer'" in said.content
    assert "priority: Input should be less than or equal to 3" in said.content
    assert sum(isinstance(event, UsageReported) for event in answer.events) == 2


def test_three_invalid_answers_are_an_error_and_the_next_turn_works():
    agent = Agent(ScriptedProvider(*[says("no")] * 3, says("fine")))
    with pytest.raises(AnswerInvalid, match="gave no valid Decision in 3 attempts"):
        agent.ask("T1", output=Decision)
    assert agent.ask("hello") == "fine"


def test_tools_run_before_the_answer_and_none_while_it_is_repaired():
    def look_up(order: str) -> str:
        return f"{order} is late"

    provider = ScriptedProvider(calls("look_up", order="W1"), says("late"), says(GOOD))
    agent = Agent(provider, tools=[look_up])
    assert agent.ask("T1", output=Decision).value.category == "card"
    assert [each.tool_choice for each in provider.requests] == ["auto", "auto", "none"]


def test_a_server_that_knows_no_schemas_is_asked_without_and_only_once_with():
    def answer(request: Request):
        refused = RequestRefused("response_format is not supported")
        return fails(refused) if request.output_schema else says(GOOD)

    provider = ScriptedProvider(*[answer] * 5)
    agent = Agent(provider, system="You triage.")
    assert agent.ask("T1", output=Decision).value.priority == 2
    assert agent.ask("T2", output=Decision).value.priority == 2
    assert [each.output_schema is None for each in provider.requests] == [
        False,
        True,
        True,
    ]
    assert all("You triage." in each.system for each in provider.requests)
    assert all(
        '"enum":["card","transfer"]' in each.system for each in provider.requests
    )


def test_a_turn_without_an_output_type_gets_no_instruction_for_one():
    provider = ScriptedProvider(says(GOOD), says("hello"))
    agent = Agent(provider)
    agent.ask("T1", output=Decision)
    assert agent.ask("hi").value is None
    assert (provider.requests[1].system, provider.requests[1].output_schema) == (
        "",
        None,
    )


def test_an_answer_that_was_cut_has_no_value_and_says_so():
    answer = Agent(ScriptedProvider(says('{"cat', stop_reason="max_tokens"))).ask(
        "T1", output=Decision
    )
    assert (answer.value, answer.stop_reason) == (None, "max_tokens")


@pytest.mark.parametrize(
    ("output", "said"),
    [(Agent, "without a JSON schema"), ({"type": "bike"}, "isn't a JSON schema")],
    ids=str,
)
def test_what_has_no_schema_is_refused_before_anything_is_sent(output: Any, said: str):
    provider = ScriptedProvider()
    with pytest.raises(ConfigError, match=said):
        Agent(provider).ask("T1", output=output)
    assert provider.requests == []


def test_schemas_of_servers_are_closed_at_every_depth():
    class Tree(BaseModel):
        name: str = "x"
        children: list["Tree"] = []

    made = output_type(Tree)
    assert made is not None
    text = json.dumps(made.schema)
    assert '"default"' not in text
    definition = made.schema.get("$defs", {"Tree": made.schema})["Tree"]
    assert definition["additionalProperties"] is False
    assert definition["required"] == ["name", "children"]


def test_answers_can_be_sent_to_another_process():
    answer = Agent(ScriptedProvider(says(GOOD))).ask("T1", output=Decision)
    same = pickle.loads(pickle.dumps(answer))
    assert (same, same.value, same.usage) == (answer, answer.value, answer.usage)


def test_a_hostile_answer_is_no_value():
    deep = "[" * 20_000
    agent = Agent(ScriptedProvider(*[says(deep)] * 3))
    with pytest.raises(AnswerInvalid):
        agent.ask("T1", output=SCHEMA)
    assert agent.session.transcript[-1] == Entry("assistant", deep)


@every(
    "text",
    [
        '{"category": "card", "priority": 2,}',
        "{'category': 'card', 'priority': 2}",
        '{"category": "card" "priority": 2}',
        'Here it is:\n```json\n{category: "card", priority: 2}\n```',
        '{"category": "card", "priority": 2 // urgent\n}',
    ],
)
def test_json_that_is_nearly_right_costs_no_second_request(text: str):
    agent = Agent(ScriptedProvider(says(text)))
    answer = agent.ask("x", output=Decision)
    assert answer.value == Decision(category="card", priority=2)


def test_prose_with_brackets_is_no_answer():
    class Loose(BaseModel):
        note: str = ""

    agent = Agent(
        ScriptedProvider(says("I use {this} and [that]."), says('{"note": "a"}'))
    )
    assert agent.ask("x", output=Loose).value == Loose(note="a")
