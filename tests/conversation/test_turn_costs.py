"""What turns and sessions cost: sums at each model's own prices, in honest words."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image as PILImage
from tables import every

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.session import (
    Session,
    compactions_usage,
    cost_rows,
    last_turn_cost,
    turn_costs,
    usage_text,
)
from nbchat.providers.model_info import ModelInfo, Prices
from nbchat.storage.export import exported, imported
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import Origin, SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, says

PRICES = Prices(input=2.0, cache_read=0.2, cache_write=2.5, output=10.0)
DEAR = Prices(input=20.0, cache_read=2.0, cache_write=25.0, output=100.0)


def priced(dollars: float, tokens: int = 100) -> Usage:
    """A response whose cost is known."""
    return Usage(tokens, 0, dollars=dollars, priced_tokens=tokens)


def look_up(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def agent_with(*lines: Line, prices: Prices | None = PRICES, **options) -> Agent:
    provider = ScriptedProvider(*lines, prices=prices)
    return Agent(provider, tools=[look_up], **options)


def test_a_response_is_kept_with_its_cost_and_its_model():
    agent = agent_with(says("one", tokens=1_000))
    agent.ask("first")
    usage = agent.session.usages[0][1]
    assert usage.dollars == pytest.approx((1_000 * 2 + 10 * 10) / 1e6)
    assert usage.is_priced
    assert usage.model == "scripted:model"


def test_all_requests_of_a_turn_are_counted_though_a_tool_returns_pictures():
    def shot() -> object:
        return PILImage.new("RGB", (4, 4))

    provider = ScriptedProvider(
        calls("shot", tokens=100), calls("shot", tokens=200), says("ok", tokens=300)
    )
    agent = Agent(provider, tools=[shot])
    agent.ask("look twice")
    (turn,) = turn_costs(agent.session)
    assert (turn.requests, turn.usage.input_tokens) == (3, 600)
    assert last_turn_cost(agent.session) == turn


def test_several_models_are_added_up_each_at_its_own_price():
    agent = agent_with(says("one", tokens=1_000))
    agent.ask("first")
    dear = ScriptedProvider(says("two", tokens=1_000), name="dear:m", prices=DEAR)
    agent.use(dear)
    agent.ask("second")
    assert agent.session.usage.dollars == pytest.approx(11 * 0.0021)
    assert [(each.label, each.requests) for each in cost_rows(agent.session)] == [
        ("scripted:model", 1),
        ("dear:m", 1),
    ]


def test_a_summary_costs_the_prices_of_the_model_that_writes_it():
    writer = ScriptedProvider(
        says("<summary>S</summary>", tokens=1_000), name="dear:m", prices=DEAR
    )
    agent = agent_with(says("hello " * 300, tokens=400))
    agent.engine.summary_model = writer
    agent.ask("hi")
    list(agent.compact())
    paid = compactions_usage(agent.session)
    assert paid.dollars == pytest.approx(0.021)
    assert cost_rows(agent.session)[-1].label == "Compactions"
    assert agent.session.usage.dollars == pytest.approx(0.021 + 0.0009)


def test_a_turn_is_all_requests_from_one_message_to_the_next():
    agent = agent_with(
        calls("look_up", order="W1", tokens=100),
        says("Shipped.", tokens=200),
        says("You are welcome.", tokens=300),
    )
    agent.ask("Where is W1?")
    agent.ask("Thanks.")
    first, second = turn_costs(agent.session)
    assert (first.start, first.stop, first.requests) == (0, 4, 2)
    assert first.usage.input_tokens == 300
    assert (second.requests, second.usage.input_tokens) == (1, 300)
    assert last_turn_cost(agent.session) == second


def test_a_turn_that_begins_with_what_is_attached_is_one():
    said = [Entry("user", "a", "", "file"), Entry("user", "b"), Entry("assistant", "c")]
    assert [turn.start for turn in turn_costs(Session(said))] == [0]
    assert last_turn_cost(Session()) is None
    assert list(turn_costs(Session())) == []


@every(
    ("usage", "words"),
    [
        (priced(0.0041), "$0.0041"),
        (priced(1234.5), "$1,234.50"),
        (priced(0.12), "$0.12"),
        (priced(0.0000012), "$0.0000012"),
        (priced(0.12) + Usage(50, 5), "at least $0.12"),
        (replace(priced(0.12), is_estimated=True), "about $0.12"),
        (Usage(50, 5), ""),
        (priced(0.0), ""),
    ],
)
def test_small_sums_are_shown_and_unknown_prices_are_not_zero(usage: Usage, words: str):
    assert usage.dollars_text == words


def test_the_cost_of_a_turn_is_shown_on_one_line():
    usage = replace(priced(0.0041, 3_355), input_tokens=3_210, output_tokens=145)
    usage = replace(usage, cache_read_tokens=2_900)
    told = usage_text(usage, "2 requests", "3.2 s")
    assert told == "3,210 in (2,900 cached) · 145 out · $0.0041 · 2 requests · 3.2 s"
    assert usage_text(Usage(10, 5, is_estimated=True)) == "about 10 in · 5 out"


def store_at(path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{path / 'sessions.db'}")


def test_what_a_response_cost_comes_back_from_the_store(tmp_path: Path):
    store = store_at(tmp_path)
    agent = agent_with(says("one", tokens=1_000), says("two", tokens=5))
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask("first")
    agent.use(ScriptedProvider(says("two", tokens=5), name="other:\ud800\0"))
    agent.ask("second")
    agent.session.append(Entry("user", "x"), Usage(7, 1, is_estimated=True))
    store.add_entries(agent.session, 4, 5, Origin())
    loaded = store.load(agent.session.session_id)
    assert loaded.usages == agent.session.usages
    assert loaded.usage.dollars_text == "at least $0.0021"


def test_costs_go_along_in_an_export_and_an_older_one_still_loads():
    agent = agent_with(says("one", tokens=1_000))
    agent.ask("first")
    agent.session.compactions.append(Compaction("c", 0, 2, "S", cost=priced(0.5)))
    text = exported(agent.session, "json")
    assert imported(text).usage == agent.session.usage
    older = json.loads(text)
    costs = [older["usages"][0][1], older["compactions"][0]["cost"]]
    for cost in costs:
        for name in ("dollars", "priced_tokens", "model"):
            del cost[name]
    loaded = imported(json.dumps(older))
    assert loaded.usages == [(2, Usage(1_000, 10))]
    assert loaded.usage.dollars == 0.0


def test_a_model_without_prices_has_unknown_costs():
    usage = Usage(10, 5)
    assert ModelInfo("m").priced(usage) is usage
    assert not usage.is_priced
    assert Usage().is_priced
