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
from nbchat.jupyter.panel.view_model.costs import Costs, session_text
from nbchat.jupyter.panel.view_model.screen import Screen
from nbchat.jupyter.panel.view_model.transcript import Transcript
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


def folded(screen: Screen, *events: Event | RunnerEvent) -> list[dict[str, Any]]:
    """All operations that events make."""
    return ran(screen, events)


def ran(screen: Screen, events: Iterable[Event | RunnerEvent]) -> list[dict[str, Any]]:
    """All operations of a turn, each event taken in before the next one happens."""
    return [operation for event in events for operation in screen.fold(event)]


def items(operations: list[dict[str, Any]]) -> list[str]:
    """The HTML of all new items, in order."""
    return [each["html"] for each in operations if each["op"] == "item"]


def kinds(htmls: list[str]) -> list[str]:
    """What each item is."""
    found = (re.search(r'class="(?:nbc-entry )?nbc-([\w-]+)"', html) for html in htmls)
    return [kind.group(1) if kind else "" for kind in found]


def text_of(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


def shown_page(screen: Screen) -> list[str]:
    return [item["html"] for item in screen.snapshot()["items"]]


def test_below_an_answer_stands_what_it_took():
    agent, screen = agent_with(says("one", tokens=1_000)), Screen()
    folded(screen, AgentReady(agent), TurnStarted("hi"))
    shown = items(ran(screen, agent.run("hi")))
    assert kinds(shown) == ["user", "assistant", "spent"]
    assert re.fullmatch(
        r"1,000 in · 10 out · \$0\.0021 · \d+\.\d s", text_of(shown[-1])
    )
    assert screen.snapshot()["state"]["spent"] == "1,000 in · 10 out · $0.0021"


def test_a_view_that_comes_later_is_told_how_long_a_retry_still_takes():
    times = iter((100.0, 109.0, 130.0))
    screen = Screen(clock=lambda: next(times))
    screen.fold(RetryScheduled(1, 20.0, "slow down"))
    retries = [screen.snapshot()["state"]["retry"] for _ in range(2)]
    assert [retry["seconds"] for retry in retries] == [11.0, 0.0]
    assert retries[0]["reason"] == "slow down"


def test_the_line_comes_once_for_all_requests_of_a_turn():
    agent = agent_with(
        calls("look_up", order="W1", tokens=100), says("Shipped.", tokens=200)
    )
    screen = Screen()
    folded(screen, AgentReady(agent))
    shown = items(ran(screen, agent.run("Where is W1?")))
    assert kinds(shown) == ["user", "tool", "tool-result", "assistant", "spent"]
    assert text_of(shown[-1]) == "300 in · 20 out · $0.00080 · 2 requests"


def test_a_turn_that_ends_before_its_answer_has_the_line_at_its_end():
    agent = agent_with(calls("look_up", order="W1", tokens=100), max_steps=1)
    screen = Screen()
    folded(screen, AgentReady(agent))
    shown = items(ran(screen, agent.run("Where is W1?")))
    assert kinds(shown)[-2:] == ["spent", "note"]


def test_a_refresh_in_the_middle_of_a_turn_leaves_its_line_to_its_end():
    agent = agent_with(
        calls("look_up", order="W1", tokens=100), says("Shipped.", tokens=200)
    )
    screen = Screen()
    folded(screen, AgentReady(agent), TurnStarted("Where is W1?"))
    shown = []
    for event in agent.run("Where is W1?"):
        shown += folded(screen, event, AgentReady(agent))
    assert kinds(items(shown)) == ["user", "tool", "tool-result", "assistant", "spent"]
    assert text_of(items(shown)[-1]).startswith("300 in · 20 out · $0.00080 · 2 req")


def test_a_turn_that_a_cell_broke_off_has_its_line_when_it_is_shown():
    agent, screen = agent_with(calls("look_up", order="W1", tokens=100)), Screen()
    agent.max_steps = 1
    folded(screen, AgentReady(agent), TurnStarted("/help"), Idle())
    list(agent.run("Where is W1?"))
    assert kinds(items(folded(screen, AgentReady(agent))))[-1] == "spent"


def test_a_turn_on_another_way_says_how_long_it_took():
    agent, screen = agent_with(says("one", tokens=10), says("two", tokens=20)), Screen()
    folded(screen, AgentReady(agent), TurnStarted("hi"))
    ran(screen, agent.run("hi"))
    folded(screen, TurnStarted("hi, otherwise"))
    agent.switch(agent.session.branch(0))
    folded(screen, AgentReady(agent))
    shown = items(ran(screen, agent.run("hi, otherwise")))
    assert re.fullmatch(r"20 in · 10 out · \$\S+ · \d+\.\d s", text_of(shown[-1]))


def test_a_restored_session_has_the_lines_where_they_stood():
    agent = agent_with(says("one", tokens=1_000), says("two", tokens=2_000))
    agent.ask("first")
    agent.ask("second")
    screen = Screen()
    folded(screen, AgentReady(agent))
    shown = shown_page(screen)
    assert kinds(shown) == ["user", "assistant", "spent"] * 2
    assert text_of(shown[-1]) == "2,000 in · 10 out · $0.0041"
    assert folded(screen, TurnFinished("end_turn", 1)) == []


def test_a_session_of_which_no_usage_is_known_has_no_lines():
    said = [Entry("user", "a"), Entry("assistant", "b")]
    screen = Screen()
    folded(screen, AgentReady(agent_with(session=Session(said))))
    assert kinds(shown_page(screen)) == ["user", "assistant"]
    assert screen.snapshot()["state"]["spent"] == ""


def test_a_long_turn_is_told_in_minutes():
    times = iter([0.0, 125.0])
    agent = agent_with(says("one", tokens=10))
    costs = Costs(Transcript(), lambda: next(times))
    costs.begin()
    agent.ask("hi")
    assert "2 min 5 s" in costs.tell(agent.session)[0]["html"]
    assert costs.tell(agent.session) == []


def test_what_compactions_took_is_told_apart():
    paid = Usage(100, 10, dollars=0.02, priced_tokens=110)
    record = Compaction("c", 0, 1, "S", cost=paid)
    said = [Entry("user", "a"), Entry("assistant", "b")]
    usage = Usage(200, 20, dollars=0.1, priced_tokens=220)
    session = Session(said, compactions=[record], usages=[(2, usage)])
    told = "300 in · 30 out · $0.12; compactions took $0.020 of that"
    assert session_text(session) == told


@pytest.mark.parametrize("text", ["hm", "a < b & 'c'\n\n  d\ud800\u202e", "x " * 5_000])
def test_thoughts_that_were_streamed_are_not_sent_again(text: str):
    screen, entry = Screen(), Entry("thinking", text)
    pieces = [text[place : place + 7] for place in range(0, len(text), 7)]
    folded(screen, *map(ThinkingDelta, pieces))
    item, settled = folded(screen, EntryAdded(0, entry))[:2]
    assert item["streamed"] == "thinking"
    assert len(json.dumps(item)) < 300
    assert settled == {"op": "settle", "kind": "thinking"}
    assert shown_page(screen) == [entry_html(entry)]


def test_thoughts_that_read_otherwise_in_the_end_come_whole():
    screen = Screen()
    folded(screen, ThinkingDelta("hm, one"))
    item = folded(screen, EntryAdded(0, Entry("thinking", "two")))[0]
    assert "streamed" not in item
    assert ">two<" in item["html"]


def test_a_skipped_automatic_compaction_is_told_only_where_one_notifies():
    begun = CompactionStarted("cumulative", 4, 900)
    skipped = CompactionSkipped("too little", "cumulative")
    for notifies, count in ((True, 1), (False, 0)):
        screen = Screen()
        screen.set_notifies(notifies=notifies)
        folded(screen, begun, skipped)
        assert len(shown_page(screen)) == count
    screen.set_notifies(notifies=False)
    assert len(items(folded(screen, CompactionSkipped("too little")))) == 1


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
    agent, screen = agent_with(says("one"), says("two"), says("three")), Screen()
    agent.ask("first")
    folded(screen, AgentReady(agent))
    before = shown_page(screen)
    agent.ask("second")
    grown = folded(screen, AgentReady(agent))
    assert "restart" not in [operation["op"] for operation in grown]
    assert kinds(items(grown)) == ["user", "assistant", "spent"]
    assert shown_page(screen) == before + items(grown)
    assert kinds(items(ran(screen, agent.run("third")))) == [
        *("user", "assistant", "spent")
    ]
    assert items(folded(screen, AgentReady(agent))) == []


def test_a_compaction_made_in_a_cell_and_taken_back_changes_one_banner():
    agent = agent_with(says("hello " * 300), says("<summary>S</summary>"))
    screen = Screen()
    folded(screen, AgentReady(agent))
    ran(screen, agent.run("hi"))
    list(agent.compact())
    made = folded(screen, AgentReady(agent))
    assert kinds(items(made)) == ["banner"]
    list(agent.undo_compaction())
    undone = [op for op in folded(screen, AgentReady(agent)) if op["op"] == "item"]
    assert undone[0]["key"] == made[0]["key"]
    assert "Compaction undone" in undone[0]["html"]
    assert len(undone) == 1


def test_another_session_begins_anew_also_in_the_same_agent():
    agent, screen = agent_with(says("one"), says("two")), Screen()
    folded(screen, AgentReady(agent))
    ran(screen, agent.run("first"))
    agent.switch(Session([("user", "old"), ("assistant", "older")]))
    assert folded(screen, AgentReady(agent))[0]["op"] == "restart"
    assert kinds(shown_page(screen)) == ["user", "assistant"]
    agent.switch(Session())
    assert kinds(items(ran(screen, agent.run("new"))))[:2] == ["user", "assistant"]


def test_what_a_refresh_has_shown_already_is_not_shown_twice():
    agent, screen = agent_with(says("one")), Screen()
    folded(screen, AgentReady(agent))
    events = agent.run("first")
    waiting = next(events)
    folded(screen, AgentReady(agent))
    folded(screen, waiting, TextDelta("o"))
    assert len(shown_page(screen)) == 1
    ran(screen, events)
    assert kinds(shown_page(screen)) == ["user", "assistant", "spent"]


def test_a_banner_that_a_refresh_has_shown_is_taken_by_its_event():
    agent = agent_with(says("hello " * 300), says("<summary>S</summary>"))
    screen = Screen()
    agent.ask("hi")
    folded(screen, AgentReady(agent))
    events = list(agent.compact())
    folded(screen, AgentReady(agent))
    assert isinstance(events[-1], Compacted)
    folded(screen, events[-1])
    assert kinds(shown_page(screen)).count("banner") == 1
