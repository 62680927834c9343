"""Budgets end a turn before the next request, and keep what was done."""

import pickle
import time

import pytest

from nbchat.agent.agent import Agent
from nbchat.agent.budget import Budget, Meter
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Usage
from nbchat.errors import ConfigError
from nbchat.providers.model_info import Prices
from nbchat.testing import ScriptedProvider, calls, says


def note(text: str) -> str:
    """Note a text."""
    return text


def agent_of(*lines: object, budget: Budget | None = None, **options: object) -> Agent:
    provider = ScriptedProvider(*lines, **options)  # type: ignore[arg-type]
    return Agent(provider, tools=[note], budget=budget)


CALLS = [calls("note", text=f"n{number}", tokens=100) for number in range(20)]


@pytest.mark.parametrize(
    ("budget", "requests"),
    [
        (Budget(steps=3), 3),
        (Budget(tokens=250), 3),
        (Budget(tokens=0), 0),
        (Budget(steps=50), 20),
    ],
    ids=str,
)
def test_a_budget_ends_a_turn_before_the_request_after_it_is_used_up(
    budget: Budget, requests: int
):
    agent = agent_of(*CALLS[:20], says("end"))
    agent.max_steps = 20
    answer = agent.ask("go", budget=budget)
    done = [entry for entry in agent.session.transcript if entry.role == "tool"]
    assert len(done) == requests
    assert answer.stop_reason == ("budget" if requests < 20 else "max_steps")


def test_dollars_are_counted_and_an_unknown_price_is_an_error():
    prices = Prices(1_000, 1_000, 1_000, 1_000)
    agent = agent_of(*CALLS, says("end"), prices=prices)
    answer = agent.ask("go", budget=Budget(dollars=0.25))
    assert (answer.stop_reason, round(answer.usage.dollars, 2)) == ("budget", 0.33)
    with pytest.raises(
        ConfigError, match=r"price of `scripted:model` is unknown.*tokens"
    ):
        agent_of(says("x")).ask("go", budget=Budget(dollars=1))


def test_seconds_end_a_turn():
    def slow() -> str:
        time.sleep(0.02)
        return "done"

    agent = Agent(ScriptedProvider(*[calls("slow")] * 40), tools=[slow])
    assert agent.ask("go", budget=Budget(seconds=0.05)).stop_reason == "budget"


def test_the_budget_of_an_agent_holds_for_all_its_turns():
    agent = agent_of(*CALLS[:2], says("one"), *CALLS, budget=Budget(steps=4))
    assert agent.ask("one").stop_reason == "end_turn"
    assert agent.ask("two").stop_reason == "budget"
    assert agent.ask("three").stop_reason == "budget"
    assert agent.meter is not None
    assert agent.meter.steps == 4
    assert [entry.content for entry in agent.session.transcript][-1] == "three"


def test_the_cost_of_summaries_counts():
    story = "The customer asks about order W100 and its parcel. " * 60
    lines = (
        says(story, tokens=900),
        says("<summary>It is a story.</summary>", tokens=950),
    )
    agent = Agent(
        ScriptedProvider(*lines, says("never")),
        engine=CompactionEngine(800),
        budget=Budget(tokens=1_500),
    )
    agent.ask("tell me")
    assert len(agent.session.active_compactions) == 1
    assert agent.ask("and then?").stop_reason == "budget"


def test_a_meter_is_sent_to_another_process_as_what_is_left():
    meter = Meter(Budget(tokens=100, steps=5))
    meter.add(Usage(30, 10), steps=2)
    left = pickle.loads(pickle.dumps(meter))
    assert (left.budget, left.is_copy) == (Budget(tokens=60, steps=3), True)


def test_a_negative_budget_is_refused():
    with pytest.raises(ConfigError, match="A budget can't be negative: dollars=-1"):
        Budget(dollars=-1)
