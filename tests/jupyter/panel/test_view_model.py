"""What the panel shows of a session: costs, thoughts, banners, and what grew elsewhere."""

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.runner import AgentReady, Idle, RunnerEvent, TurnStarted
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import (
    Compacted,
    CompactionSkipped,
    CompactionStarted,
    EntryAdded,
    Event,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.view_model.panel_state import PanelState
from nbchat.providers.model_info import Prices
from nbchat.rendering.entries import entry_html
from nbchat.testing import Line, ScriptedProvider, calls, says

PRICES = Prices(input=2.0, cache_read=0.2, cache_write=2.5, output=10.0)


def look_up(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def agent_with(*lines: Line, **options: Any) -> Agent:
    provider = ScriptedProvider(*lines, prices=PRICES)
    return Agent(provider, tools=[look_up], **options)


def folded(state: PanelState, *events: Event | RunnerEvent) -> list[dict[str, Any]]:
    """All operations that events make."""
    return ran(state, events)


def ran(
    state: PanelState, events: Iterable[Event | RunnerEvent]
) -> list[dict[str, Any]]:
    """All operations of a turn, each event taken in before the next one happens."""
    return [operation for event in events for operation in state.fold(event)]


def items(operations: list[dict[str, Any]]) -> list[str]:
    """The HTML of all new items, in order."""
    return [each["html"] for each in operations if each["op"] == "item"]


def kinds(htmls: list[str]) -> list[str]:
    """What each item is."""
    found = (re.search(r'class="(?:nbc-entry )?nbc-([\w-]+)"', html) for html in htmls)
    return [kind.group(1) if kind else "" for kind in found]


def text_of(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


def shown_page(state: PanelState) -> list[str]:
    return [item["html"] for item in state.snapshot()["items"]]


def test_below_an_answer_stands_what_it_took():
    agent, state = agent_with(says("one", tokens=1_000)), PanelState()
    folded(state, AgentReady(agent), TurnStarted("hi"))
    shown = items(ran(state, agent.run("hi")))
    assert kinds(shown) == ["user", "assistant", "spent"]
    assert re.fullmatch(
        r"1,000 in · 10 out · \$0\.0021 · \d+\.\d s", text_of(shown[-1])
    )
    assert state.snapshot()["state"]["spent"] == "1,000 in · 10 out · $0.0021"


def test_a_view_that_comes_later_is_told_how_long_a_retry_still_takes():
    times = iter((100.0, 109.0, 130.0))
    state = PanelState(clock=lambda: next(times))
    state.fold(RetryScheduled(1, 20.0, "slow down"))
    retries = [state.snapshot()["state"]["retry"] for _ in range(2)]
    assert [retry["seconds"] for retry in retries] == [11.0, 0.0]
    assert retries[0]["reason"] == "slow down"


def test_the_line_comes_once_for_all_requests_of_a_turn():
    agent = agent_with(
        calls("look_up", order="W1", tokens=100), says("Shipped.", tokens=200)
    )
    state = PanelState()
    folded(state, AgentReady(agent))
    shown = items(ran(state, agent.run("Where is W1?")))
    assert kinds(shown) == ["user", "tool", "tool-result", "assistant", "spent"]
    assert text_of(shown[-1]) == "300 in · 20 out · $0.00080 · 2 requests"


def test_a_turn_that_ends_before_its_answer_has_the_line_at_its_end():
    agent = agent_with(calls("look_up", order="W1", tokens=100), max_steps=1)
    state = PanelState()
    folded(state, AgentReady(agent))
    shown = items(ran(state, agent.run("Where is W1?")))
    assert kinds(shown)[-2:] == ["spent", "note"]


def test_a_refresh_in_the_middle_of_a_turn_leaves_its_line_to_its_end():
    agent = agent_with(
        calls("look_up", order="W1", tokens=100), says("Shipped.", tokens=200)
    )
    state = PanelState()
    folded(state, AgentReady(agent), TurnStarted("Where is W1?"))
    shown = []
    for event in agent.run("Where is W1?"):
        shown += folded(state, event, AgentReady(agent))
    assert kinds(items(shown)) == ["user", "tool", "tool-result", "assistant", "spent"]
    assert text_of(items(shown)[-1]).startswith("300 in · 20 out · $0.00080 · 2 req")


def test_a_turn_that_a_cell_broke_off_has_its_line_when_it_is_shown():
    agent, state = agent_with(calls("look_up", order="W1", tokens=100)), PanelState()
    agent.max_steps = 1
    folded(state, AgentReady(agent), TurnStarted("/help"), Idle())
    list(agent.run("Where is W1?"))
    assert kinds(items(folded(state, AgentReady(agent))))[-1] == "spent"


def test_a_turn_on_another_way_says_how_long_it_took():
    agent, state = (
        agent_with(says("one", tokens=10), says("two", tokens=20)),
        PanelState(),
    )
    folded(state, AgentReady(agent), TurnStarted("hi"))
    ran(state, agent.run("hi"))
    folded(state, TurnStarted("hi, otherwise"))
    agent.switch(agent.session.branch(0))
    folded(state, AgentReady(agent))
    shown = items(ran(state, agent.run("hi, otherwise")))
    assert re.fullmatch(r"20 in · 10 out · \$\S+ · \d+\.\d s", text_of(shown[-1]))


def test_a_restored_session_has_the_lines_where_they_stood():
    agent = agent_with(says("one", tokens=1_000), says("two", tokens=2_000))
    agent.ask("first")
    agent.ask("second")
    state = PanelState()
    folded(state, AgentReady(agent))
    shown = shown_page(state)
    assert kinds(shown) == ["user", "assistant", "spent"] * 2
    assert text_of(shown[-1]) == "2,000 in · 10 out · $0.0041"
    assert folded(state, TurnFinished("end_turn", 1)) == []


def test_a_session_of_which_no_usage_is_known_has_no_lines():
    said = [Entry("user", "a"), Entry("assistant", "b")]
    state = PanelState()
    folded(state, AgentReady(agent_with(session=Session(said))))
    assert kinds(shown_page(state)) == ["user", "assistant"]
    assert state.snapshot()["state"]["spent"] == ""


def test_a_long_turn_is_told_in_minutes():
    times = iter([0.0, 125.0])
    agent, state = (
        agent_with(says("one", tokens=10)),
        PanelState(clock=lambda: next(times)),
    )
    folded(state, AgentReady(agent), TurnStarted("hi"))
    shown = items(ran(state, agent.run("hi")))
    assert "2 min 5 s" in shown[-1]
    assert folded(state, TurnFinished("end_turn", 1)) == []


def test_what_compactions_took_is_told_apart():
    paid = Usage(100, 10, dollars=0.02, priced_tokens=110)
    record = Compaction("c", 0, 1, "S", cost=paid)
    said = [Entry("user", "a"), Entry("assistant", "b")]
    usage = Usage(200, 20, dollars=0.1, priced_tokens=220)
    session = Session(said, compactions=[record], usages=[(2, usage)])
    told = "300 in · 30 out · $0.12; compactions took $0.020 of that"
    state = PanelState()
    folded(state, AgentReady(agent_with(session=session)))
    assert state.snapshot()["state"]["spent"] == told


@pytest.mark.parametrize("text", ["hm", "a < b & 'c'\n\n  d\ud800\u202e", "x " * 5_000])
def test_thoughts_that_were_streamed_are_not_sent_again(text: str):
    state, entry = PanelState(), Entry("thinking", text)
    pieces = [text[place : place + 7] for place in range(0, len(text), 7)]
    folded(state, *map(ThinkingDelta, pieces))
    item, settled = folded(state, EntryAdded(0, entry))[:2]
    assert item["streamed"] == "thinking"
    assert len(json.dumps(item)) < 300
    assert settled == {"op": "settle", "kind": "thinking"}
    assert shown_page(state) == [entry_html(entry)]


def test_thoughts_that_read_otherwise_in_the_end_come_whole():
    state = PanelState()
    folded(state, ThinkingDelta("hm, one"))
    item = folded(state, EntryAdded(0, Entry("thinking", "two")))[0]
    assert "streamed" not in item
    assert ">two<" in item["html"]


def test_a_skipped_automatic_compaction_is_told_only_where_one_notifies():
    begun = CompactionStarted("cumulative", 4, 900)
    skipped = CompactionSkipped("too little", "cumulative")
    for notifies, count in ((True, 1), (False, 0)):
        state = PanelState()
        state.set_notifies(notifies=notifies)
        folded(state, begun, skipped)
        assert len(shown_page(state)) == count
    state.set_notifies(notifies=False)
    assert len(items(folded(state, CompactionSkipped("too little")))) == 1


def test_an_automatic_compaction_that_is_skipped_says_what_it_was_due_to():
    engine = CompactionEngine(100)
    agent = agent_with(says("a", tokens=150), says("b", tokens=150), engine=engine)
    found = [
        event.trigger
        for text in ("one", "two")
        for event in agent.run(text)
        if isinstance(event, CompactionSkipped)
    ]
    assert found[0] == "cumulative"
    waiting = agent_with(session=Session())
    assert [event.trigger for event in waiting.compact()] == ["manual"]


def test_a_turn_of_a_cell_is_added_below_and_nothing_begins_anew():
    agent, state = agent_with(says("one"), says("two"), says("three")), PanelState()
    agent.ask("first")
    folded(state, AgentReady(agent))
    before = shown_page(state)
    agent.ask("second")
    grown = folded(state, AgentReady(agent))
    assert "restart" not in [operation["op"] for operation in grown]
    assert kinds(items(grown)) == ["user", "assistant", "spent"]
    assert shown_page(state) == before + items(grown)
    assert kinds(items(ran(state, agent.run("third")))) == [
        *("user", "assistant", "spent")
    ]
    assert items(folded(state, AgentReady(agent))) == []


def test_a_compaction_made_in_a_cell_and_taken_back_changes_one_banner():
    agent = agent_with(says("hello " * 300), says("<summary>S</summary>"))
    state = PanelState()
    folded(state, AgentReady(agent))
    ran(state, agent.run("hi"))
    list(agent.compact())
    made = folded(state, AgentReady(agent))
    assert kinds(items(made)) == ["banner"]
    list(agent.undo_compaction())
    undone = [op for op in folded(state, AgentReady(agent)) if op["op"] == "item"]
    assert undone[0]["key"] == made[0]["key"]
    assert "Compaction undone" in undone[0]["html"]
    assert len(undone) == 1


def test_another_session_begins_anew_also_in_the_same_agent():
    agent, state = agent_with(says("one"), says("two")), PanelState()
    folded(state, AgentReady(agent))
    ran(state, agent.run("first"))
    agent.switch(Session([("user", "old"), ("assistant", "older")]))
    assert folded(state, AgentReady(agent))[0]["op"] == "restart"
    assert kinds(shown_page(state)) == ["user", "assistant"]
    agent.switch(Session())
    assert kinds(items(ran(state, agent.run("new"))))[:2] == ["user", "assistant"]


def test_what_a_refresh_has_shown_already_is_not_shown_twice():
    agent, state = agent_with(says("one")), PanelState()
    folded(state, AgentReady(agent))
    events = agent.run("first")
    waiting = next(events)
    folded(state, AgentReady(agent))
    folded(state, waiting, TextDelta("o"))
    assert len(shown_page(state)) == 1
    ran(state, events)
    assert kinds(shown_page(state)) == ["user", "assistant", "spent"]


def test_a_banner_that_a_refresh_has_shown_is_taken_by_its_event():
    agent = agent_with(says("hello " * 300), says("<summary>S</summary>"))
    state = PanelState()
    agent.ask("hi")
    folded(state, AgentReady(agent))
    events = list(agent.compact())
    folded(state, AgentReady(agent))
    assert isinstance(events[-1], Compacted)
    folded(state, events[-1])
    assert kinds(shown_page(state)).count("banner") == 1
