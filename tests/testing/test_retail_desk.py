"""The desk of a shop: right actions lead to the right state, others do not."""

import json

import pytest
from retail_shop import RetailDesk, retail_scenarios
from tables import every

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Entry
from nbchat.errors import NbchatError
from nbchat.testing import Replay, ScriptedProvider, calls, recorded_desk, says

SCENARIOS = {each.id: each for each in retail_scenarios()}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda each: each.id)
def test_an_agent_that_acts_right_leaves_the_right_state(scenario):
    desk = RetailDesk()
    lines = [calls(name, **arguments) for name, arguments in scenario.actions]
    model = ScriptedProvider(*lines, says("Done."))
    assert Agent(model, tools=desk.tools).ask(scenario.prompt) == "Done."
    assert desk.differences(scenario) == []


def test_17_of_the_21_scenarios_need_a_change():
    untouched = [RetailDesk().differences(each) for each in SCENARIOS.values()]
    assert (sum(map(bool, untouched)), len(untouched)) == (17, 21)


def recorded(customer: str) -> list[Entry]:
    entries = recorded_desk()
    number = next(e.tool_id for e in entries if e.is_call and customer in e.tool_args)
    begin = number.split("_")[0] + "_"
    return [entry for entry in entries if entry.tool_id.startswith(begin)]


@pytest.mark.parametrize(
    ("number", "wrong"), [("32", ""), ("55", "orders #W4597054 return_items: ")]
)
def test_recorded_calls_of_a_real_model_are_answered_and_scored_as_they_were(
    number: str, wrong: str
):
    entries = recorded(SCENARIOS[number].customer)
    desk, replay = RetailDesk(), Replay(entries)
    agent = Agent(replay, tools=desk.tools, max_steps=len(replay.turns[0].steps))
    for turn in replay.turns:
        list(agent.run(turn.text))
    assert records(agent.session.transcript) == records(entries)
    found = desk.differences(SCENARIOS[number])
    assert [line[: len(wrong)] for line in found] == ([wrong] if wrong else [])


def records(entries: list[Entry]) -> list[dict]:
    texts = [e.content for e in entries if e.role == "tool" and e.content[0] == "{"]
    return [{k: v for k, v in json.loads(t).items() if v is not None} for t in texts]


@every(
    ("tool", "arguments", "reason"),
    [
        ("get_order_details", {"order_id": "#W1"}, "no order #W1"),
        (
            "cancel_pending_order",
            {"order_id": "#W2586676", "reason": "no longer needed"},
            "#W2586676 is cancelled, not pending",
        ),
        (
            "return_delivered_order_items",
            {
                "order_id": "#W4597054",
                "item_ids": ["5669664287", "5669664287"],
                "payment_method_id": "gift_card_3491931",
            },
            "has no item 5669664287",
        ),
        ("calculate", {"expression": "__import__('os')"}, "only numbers"),
        ("calculate", {"expression": "1/0"}, "division by zero"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(tool, arguments, reason):
    desk = RetailDesk()
    with pytest.raises(NbchatError, match=reason):
        getattr(desk, tool)(**arguments)
    assert (desk.orders, desk.users) == (RetailDesk().orders, RetailDesk().users)


def test_money_is_computed():
    assert RetailDesk().calculate("3131.1 + (2 * -3) / 4") == "3129.60"
