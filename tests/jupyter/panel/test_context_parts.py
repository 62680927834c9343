"""What the panel is told of the context: parts that add up, room, outlook and costs."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from panel_protocol import known

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.queries.context import context_parts
from nbchat.providers.model_info import Prices
from nbchat.testing import Line, ScriptedProvider, says

PRICES = Prices(input=2.0, cache_read=0.2, cache_write=2.5, output=10.0)

STORY = "<summary>They said hello.</summary>"


def look_up(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def agent_with(
    *lines: Line, window: int | None = 100_000, prices: Prices | None = PRICES, **more
) -> Agent:
    provider = ScriptedProvider(*lines, window=window, prices=prices)
    return Agent(provider, tools=[look_up], system="You sell shoes.", **more)


def told(agent: Agent) -> dict[str, Any]:
    """The answer, if it is one that the protocol knows."""
    return known(context_parts(agent))


def tokens(answer: dict[str, Any]) -> dict[str, int]:
    return {part["name"]: part["tokens"] for part in answer["parts"]}


def test_all_parts_of_a_chat_add_up_to_what_the_server_counts():
    agent = agent_with(says("hello " * 300, tokens=900), says(STORY), says("Yes."))
    agent.ask("hi")
    list(agent.compact())
    list(agent.pin("Be brief."))
    agent.ask("And red ones?")
    agent.session.append(Entry("user", "And blue ones?"))
    answer = told(agent)
    parts = tokens(answer)
    assert sum(parts.values()) == answer["total"]
    assert all(size > 0 for size in parts.values())
    assert answer["total"] == agent.engine.tracker.context_tokens(agent.session)


def test_the_window_is_what_is_held_what_is_kept_free_and_the_rest():
    answer = told(agent_with(says("hi")))
    room = answer["total"] + answer["reserve"] + answer["free"]
    assert room == answer["window"] == 100_000
    assert answer["reserve"] == 4_096
    assert answer["limit"] == int((100_000 - 4_096) * 0.8)


def test_a_window_that_is_more_than_full_has_nothing_free():
    agent = agent_with(says("x", tokens=99_000), engine=CompactionEngine(policy="off"))
    agent.ask("hi")
    answer = told(agent)
    assert (answer["free"], answer["reserve"]) == (0, 100_000 - answer["total"])
    assert answer["limit"] is None
    assert "only by hand" in answer["outlook"]


def test_where_the_window_is_unknown_nothing_is_made_up():
    answer = told(agent_with(window=None))
    assert (answer["window"], answer["free"], answer["reserve"]) == (None, None, None)
    tiered = agent_with(window=None, engine=CompactionEngine(policy="tiered"))
    assert "window is not known" in told(tiered)["outlook"]


def test_the_outlook_is_what_the_meters_would_say_and_changes_nothing():
    agent = agent_with(says("hello " * 300, tokens=900), engine=CompactionEngine(5_000))
    agent.ask("hi")
    assert told(agent)["outlook"].startswith(
        "900 input tokens since the last compaction, the threshold is 5,000"
    )
    assert told(agent)["outlook"] == agent.engine.should_compact(agent.session).reason


def test_the_question_from_another_thread_loses_nothing_the_agent_says():
    agent = agent_with(says("hello", tokens=900))
    agent.ask("hi")
    with ThreadPoolExecutor(1) as pool:
        for number in range(100):
            looked = pool.submit(lambda: told(agent))
            agent.session.append(Entry("user", f"new {number}"))
            looked.result()
    assert agent.session.history == list(agent.session.transcript)


def test_a_meter_that_waits_after_failures_says_so():
    agent = agent_with(engine=CompactionEngine(policy="token-window"))
    agent.engine.tracker.record_failure(agent.session)
    assert "the summary failed once" in told(agent)["outlook"]


def test_costs_come_by_model_compactions_apart_and_then_in_all():
    agent = agent_with(says("hello " * 300, tokens=900), says(STORY, tokens=100))
    assert told(agent)["costs"] == []
    agent.ask("hi")
    assert [cost["label"] for cost in told(agent)["costs"]] == ["scripted:model"]
    list(agent.compact())
    answers, compactions, whole = told(agent)["costs"]
    assert (answers["requests"], answers["dollars"]) == (1, "$0.0019")
    assert (compactions["label"], compactions["requests"]) == ("Compactions", None)
    assert (whole["label"], whole["input"]) == ("Total", 1_000)
    assert whole["dollars"] == "$0.0022"


def test_what_nobody_knows_the_price_of_has_none():
    agent = agent_with(says("hello", tokens=900), prices=None)
    agent.ask("hi")
    assert [cost["dollars"] for cost in told(agent)["costs"]] == [""]


def test_names_nobody_can_show_are_shown_as_far_as_they_can():
    agent = agent_with(says("hello", tokens=900))
    agent.provider.name = "x:\ud800<b>"
    agent.ask("hi")
    assert told(agent)["costs"][0]["label"] == "x:\ufffd<b>"


@pytest.mark.parametrize("name", ["system", "tools", "pins", "summary", "history"])
def test_an_empty_chat_has_nothing_but_its_floor(name: str):
    agent = agent_with(session=Session())
    assert (tokens(told(agent))[name] > 0) is (name in ("system", "tools"))
