"""Queries about the context: parts, costs, summary, and the plan of a compaction."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from notebook_desk import Desk
from panel_protocol import known

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.queries import (
    compaction_plan,
    context_parts,
    current_summary,
)
from nbchat.providers.model_info import Prices
from nbchat.testing import Line, ScriptedProvider, says


@pytest.fixture
def desk() -> Desk:
    return Desk()


def compacted(*more: Line) -> Agent:
    agent = Agent(
        ScriptedProvider(says("Fine. " * 300), says("<summary>**S**</summary>"), *more)
    )
    agent.ask("Call desk DESK-7 about it.")
    list(agent.compact())
    return agent


def agent_that_said(*texts: str, **options: Any) -> Agent:
    """An agent in whose session a person said each text and was answered."""
    said = [
        entry
        for text in texts
        for entry in (Entry("user", text), Entry("assistant", f"Yes: {text}"))
    ]
    return Agent(ScriptedProvider(), session=Session(said), **options)


LONG = "The printer on the second floor is offline. " * 40


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


def test_the_parts_add_up_to_the_size_that_the_server_counts():
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


def test_used_reserved_and_free_tokens_fill_the_window():
    answer = told(agent_with(says("hi")))
    room = answer["total"] + answer["reserve"] + answer["free"]
    assert room == answer["window"] == 100_000
    assert answer["reserve"] == 4_096
    assert answer["limit"] == int((100_000 - 4_096) * 0.8)


def test_an_overfull_window_has_no_free_tokens():
    agent = agent_with(says("x", tokens=99_000), engine=CompactionEngine(policy="off"))
    agent.ask("hi")
    answer = told(agent)
    assert (answer["free"], answer["reserve"]) == (0, 100_000 - answer["total"])
    assert answer["limit"] is None
    assert "only on request" in answer["outlook"]


@pytest.mark.parametrize("policy", ["single-summary", "tiered"])
def test_an_unknown_window_is_assumed_and_says_how_to_change_it(policy: str):
    engine = CompactionEngine(None, policy=policy)
    answer = told(agent_with(window=None, engine=engine))
    assert answer["window"] == 32_000
    assert answer["limit"] < 32_000
    assert "Assuming a 32k context window" in answer["outlook"]
    assert "/set window" in answer["outlook"]


def test_the_outlook_says_when_a_compaction_is_due_and_changes_nothing():
    agent = agent_with(says("hello " * 300, tokens=900), engine=CompactionEngine(5_000))
    agent.ask("hi")
    assert told(agent)["outlook"].startswith(
        "Compacts after 5k input tokens. So far: 900."
    )
    assert told(agent)["outlook"] == agent.engine.should_compact(agent.session).reason


@pytest.mark.slow
def test_the_query_on_another_thread_loses_no_entry():
    agent = agent_with(says("hello", tokens=900))
    agent.ask("hi")
    with ThreadPoolExecutor(1) as pool:
        for number in range(100):
            looked = pool.submit(lambda: told(agent))
            agent.session.append(Entry("user", f"new {number}"))
            looked.result()
    assert agent.session.history == list(agent.session.transcript)


def test_the_outlook_says_that_compaction_waits_after_failures():
    agent = agent_with(engine=CompactionEngine(policy="token-window"))
    agent.engine.tracker.record_failure(agent.session)
    assert "The summary failed once" in told(agent)["outlook"]


def test_costs_are_listed_by_model_for_compactions_and_in_total():
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


def test_costs_without_a_known_price_have_no_dollars():
    agent = agent_with(says("hello", tokens=900), prices=None)
    agent.ask("hi")
    assert [cost["dollars"] for cost in told(agent)["costs"]] == [""]


def test_names_with_lone_surrogates_are_displayable():
    agent = agent_with(says("hello", tokens=900))
    agent.provider.name = "x:\ud800<b>"
    agent.ask("hi")
    assert told(agent)["costs"][0]["label"] == "x:\ufffd<b>"


@pytest.mark.parametrize("name", ["system", "tools", "pins", "summary", "history"])
def test_an_empty_chat_has_system_prompt_and_tools_only(name: str):
    agent = agent_with(session=Session())
    assert (tokens(told(agent))[name] > 0) is (name in ("system", "tools"))


def test_a_plan_counts_what_would_be_compacted_and_kept() -> None:
    engine = CompactionEngine(policy=Policy("mine", keep=2))
    plan = known(
        compaction_plan(agent_that_said(LONG, LONG, LONG, engine=engine), None)
    )
    assert plan["messages"] == 6
    assert (plan["summarized"], plan["compacted"], plan["kept"]) == (0, 4, 2)
    assert 0 < plan["tokens_after"] < plan["tokens_before"]
    assert plan["skip"] == plan["warning"] == ""


def test_a_plan_counts_what_is_compacted_already() -> None:
    agent = Agent(ScriptedProvider(says(LONG), says("<summary>S</summary>")))
    agent.ask(LONG)
    list(agent.compact())
    agent.session.append(Entry("user", LONG))
    agent.session.append(Entry("assistant", LONG))
    plan = known(compaction_plan(agent, None))
    assert (plan["messages"], plan["summarized"], plan["compacted"]) == (4, 2, 2)


def test_a_plan_without_a_compaction_has_the_reason_and_present_figures() -> None:
    plan = known(compaction_plan(agent_that_said(), None))
    assert "nothing new to compact" in plan["skip"]
    assert plan["tokens_after"] == plan["tokens_before"]
    waiting = agent_that_said("one")
    waiting.session.append(Entry("assistant", "", "c1", "look_up", "{}"))
    plan = known(compaction_plan(waiting, None))
    assert "waiting for its result" in plan["skip"]
    assert plan["kept"] == plan["messages"] == 3


def test_a_plan_for_few_tokens_has_a_warning() -> None:
    plan = known(compaction_plan(agent_that_said("Hi."), None))
    assert plan["compacted"] == 2
    assert plan["warning"].startswith("Only 1")
    assert plan["skip"] == ""


def test_a_plan_on_another_thread_loses_no_entry() -> None:
    agent = agent_that_said(LONG)
    with ThreadPoolExecutor(1) as pool:
        for number in range(100):
            looked = pool.submit(lambda: compaction_plan(agent, None))
            agent.session.append(Entry("user", f"new {number}"))
            looked.result()
    assert agent.session.history == list(agent.session.transcript)


def test_a_plan_calls_no_model_and_changes_nothing() -> None:
    agent = agent_that_said(LONG)
    compaction_plan(agent, None)
    assert agent.provider.requests == []
    assert agent.session.compactions == []


def test_the_summary_to_edit_has_no_facts():
    agent = compacted()
    found = known(current_summary(agent))
    assert found["text"] == "**S**"
    assert "DESK-7" in found["facts"]
    list(agent.undo_compaction())
    with pytest.raises(NbchatError, match="no summary to edit"):
        current_summary(agent)
