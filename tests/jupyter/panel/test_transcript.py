"""Streaming, costs and refreshes in the panel's transcript."""

import json
import re
import threading

import pytest
from cpu_time import CpuTime
from panel_views import (
    agent_with,
    folded,
    items,
    kinds,
    ran,
    shown,
    shown_page,
    text_of,
)

from nbchat.chat.chat_events import AgentReady, CellsUndone, Idle, TurnStarted
from nbchat.conversation.cell_changes import CellChange, CellState, LeftCell
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import (
    EntryAdded,
    TextDelta,
    ThinkingDelta,
    ToolRequested,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.rendering.entries import entry_html
from nbchat.testing import calls, says


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 4, 7, 1_000])
@pytest.mark.parametrize(
    "text",
    [
        "# One\n\nTwo\n\n```py\nx = 1\n\ny\n```\n\n- a\n\n- b\n\nEnd.",
        "1. one\n\n2. two\n\n   more\n\n10. ten\n\nText\n\n12 apples\n\nEnd",
        "See [this].\n\nMore.\n\n[this]: https://example.org\n\nEnd.",
        "| a |\n|---|\n| 1 |\n\n> quote\n\n> more\n\n~~~\n\nopen",
    ],
)
def test_an_answer_streamed_in_any_pieces_has_the_same_item(
    text: str, size: int
) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    entry = Entry("assistant", text)
    view = shown(*map(TextDelta, pieces), EntryAdded(0, entry))
    assert view.items == {0: entry_html(entry)}
    assert view.live == {}


@pytest.mark.slow
def test_streamed_blocks_are_not_sent_again() -> None:
    text = "".join(f"Paragraph {number} of many.\n\n" for number in range(200))
    state = PanelState()
    pieces = [text[start : start + 4] for start in range(0, len(text), 4)]
    streamed = [op for piece in pieces for op in state.fold(TextDelta(piece))]
    assert sum(operation["op"] == "block" for operation in streamed) > 100
    added = state.fold(EntryAdded(0, Entry("assistant", text)))
    assert [operation["op"] for operation in added[:2]] == ["item", "settle"]
    assert len(json.dumps(added)) < 500


def test_finished_blocks_become_html_while_the_answer_streams() -> None:
    pieces = [
        "# He",
        "llo\n\n",
        "Wor",
        "ld\n\n```py\na\n\nb\n```\n\n- x\n\n- y\n\nend",
        ".",
    ]
    view = shown(*map(TextDelta, pieces))
    html, text = view.live["assistant"].values()
    assert "<h1>Hello</h1>" in html
    assert "<p>World</p>" in html
    assert html.count("<pre") == 1
    assert "<li>" in html
    assert text == "end."


def test_a_finished_entry_replaces_its_stream() -> None:
    view = shown(
        ThinkingDelta("hm"),
        EntryAdded(0, Entry("thinking", "hm")),
        TextDelta("Yes"),
        EntryAdded(1, Entry("assistant", "Yes.")),
    )
    assert view.live == {}
    assert [
        ">hm<" in html or "<p>Yes.</p>" in html for html in view.items.values()
    ] == [
        True,
        True,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["\n", " \n", "a\n\n", "- a\n\n", "```\n\n"])
def test_an_answer_of_blank_lines_is_split_quickly(text: str) -> None:
    """A hundred thousand newlines took over a minute, at every further delta."""
    state = PanelState()
    began = CpuTime()
    for _ in range(3):
        state.fold(TextDelta(text * (15_000 // len(text))))
    assert began.spent() < 3


def test_costs_are_shown_below_an_answer():
    agent, state = agent_with(says("one", tokens=1_000)), PanelState()
    folded(state, AgentReady(agent), TurnStarted("hi"))
    shown = items(ran(state, agent.run("hi")))
    assert kinds(shown) == ["user", "assistant", "spent"]
    assert re.fullmatch(
        r"1,000 in · 10 out · \$0\.0021 · \d+\.\d s", text_of(shown[-1])
    )
    assert state.snapshot()["state"]["spent"] == "1,000 in · 10 out · $0.0021"


def test_all_requests_of_a_turn_share_one_line_of_costs():
    agent = agent_with(
        calls("look_up", order="W1", tokens=100), says("Shipped.", tokens=200)
    )
    state = PanelState()
    folded(state, AgentReady(agent))
    shown = items(ran(state, agent.run("Where is W1?")))
    assert kinds(shown) == ["user", "tool", "tool-result", "assistant", "spent"]
    assert text_of(shown[-1]) == "300 in · 20 out · $0.00080 · 2 requests"


def test_a_turn_without_an_answer_shows_its_costs_at_its_end():
    agent = agent_with(calls("look_up", order="W1", tokens=100), max_steps=1)
    state = PanelState()
    folded(state, AgentReady(agent))
    shown = items(ran(state, agent.run("Where is W1?")))
    assert kinds(shown)[-2:] == ["spent", "note"]


def test_a_refresh_within_a_turn_adds_no_costs():
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


def test_a_message_stopped_before_its_answer_says_so_until_it_is_answered():
    agent, state = agent_with(says("Shipped.")), PanelState()
    folded(state, AgentReady(agent))
    stop = threading.Event()
    stop.set()
    (asked, said) = items(ran(state, agent.run("Where is W1?", stop=stop)))
    assert kinds([asked]) == ["user"]
    assert text_of(said) == "Stopped."
    assert "data-retry" in said
    assert "drop" in [each["op"] for each in ran(state, agent.retry())]


def test_a_stopped_turn_of_a_cell_is_shown_with_its_costs():
    agent, state = agent_with(calls("look_up", order="W1", tokens=100)), PanelState()
    agent.max_steps = 1
    folded(state, AgentReady(agent), TurnStarted("/help"), Idle())
    list(agent.run("Where is W1?"))
    assert kinds(items(folded(state, AgentReady(agent))))[-1] == "spent"


def test_the_first_turn_of_a_branch_shows_its_duration():
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


def test_a_restored_session_shows_the_costs_of_each_turn():
    agent = agent_with(says("one", tokens=1_000), says("two", tokens=2_000))
    agent.ask("first")
    agent.ask("second")
    state = PanelState()
    folded(state, AgentReady(agent))
    shown = shown_page(state)
    assert kinds(shown) == ["user", "assistant", "spent"] * 2
    assert text_of(shown[-1]) == "2,000 in · 10 out · $0.0041"
    assert folded(state, TurnFinished("end_turn", 1)) == []


def test_a_session_without_usages_shows_no_costs():
    said = [Entry("user", "a"), Entry("assistant", "b")]
    state = PanelState()
    folded(state, AgentReady(agent_with(session=Session(said))))
    assert kinds(shown_page(state)) == ["user", "assistant"]
    assert state.snapshot()["state"]["spent"] == ""


def test_the_duration_of_a_long_turn_is_in_minutes():
    times = iter([0.0, 125.0])
    agent, state = (
        agent_with(says("one", tokens=10)),
        PanelState(clock=lambda: next(times)),
    )
    folded(state, AgentReady(agent), TurnStarted("hi"))
    shown = items(ran(state, agent.run("hi")))
    assert "2 min 5 s" in shown[-1]
    assert folded(state, TurnFinished("end_turn", 1)) == []


@pytest.mark.parametrize(
    ("seconds", "size"),
    [
        (0.05, "3 characters"),
        (1.5, "3 characters · 1.5 s"),
        (125, "3 characters · 2 min 5 s"),
    ],
)
def test_a_call_says_how_long_it_ran_also_later(seconds, size):
    state = PanelState()
    call = Entry("assistant", "", "c", "wait", "{}")
    folded(state, EntryAdded(0, call), ToolRequested(call))
    result = Entry("tool", "ran", "c", "wait")
    folded(state, EntryAdded(1, result, seconds=seconds))
    assert f'data-size="{size}"' in shown_page(state)[-1]


@pytest.mark.parametrize("text", ["hm", "a < b & 'c'\n\n  d\ud800\u202e", "x " * 5_000])
def test_streamed_thinking_is_not_sent_again(text: str):
    state, entry = PanelState(), Entry("thinking", text)
    pieces = [text[place : place + 7] for place in range(0, len(text), 7)]
    folded(state, *map(ThinkingDelta, pieces))
    item, settled = folded(state, EntryAdded(0, entry))[:2]
    assert item["streamed"] == "thinking"
    assert len(json.dumps(item)) < 300
    assert settled == {"op": "settle", "kind": "thinking"}
    assert shown_page(state) == [entry_html(entry)]


def test_thinking_that_differs_from_its_stream_is_sent_whole():
    state = PanelState()
    folded(state, ThinkingDelta("hm, one"))
    item = folded(state, EntryAdded(0, Entry("thinking", "two")))[0]
    assert "streamed" not in item
    assert ">two<" in item["html"]


def test_a_refresh_adds_a_turn_of_a_cell():
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


def test_another_session_of_the_agent_replaces_all_items():
    agent, state = agent_with(says("one"), says("two")), PanelState()
    folded(state, AgentReady(agent))
    ran(state, agent.run("first"))
    agent.switch(Session([("user", "old"), ("assistant", "older")]))
    assert folded(state, AgentReady(agent))[0]["op"] == "restart"
    assert kinds(shown_page(state)) == ["user", "assistant"]
    agent.switch(Session())
    assert kinds(items(ran(state, agent.run("new"))))[:2] == ["user", "assistant"]


def test_an_entry_that_a_refresh_added_is_not_added_twice():
    agent, state = agent_with(says("one")), PanelState()
    folded(state, AgentReady(agent))
    events = agent.run("first")
    waiting = next(events)
    folded(state, AgentReady(agent))
    folded(state, waiting, TextDelta("o"))
    assert len(shown_page(state)) == 1
    ran(state, events)
    assert kinds(shown_page(state)) == ["user", "assistant", "spent"]


def test_a_turn_that_changed_cells_can_be_undone_below_its_costs() -> None:
    def edit() -> str:
        before, after = CellState("code", "x = 1"), CellState("code", "x = 2")
        agent.session.cell_changes.append(CellChange(0, "a", before, after))
        return "changed"

    agent = agent_with(calls("edit"), says("Done."), says("No more."))
    agent.tools = [edit]
    state = PanelState()
    folded(state, AgentReady(agent))
    shown = ran(state, agent.run("change it"))
    (line,) = [html for html in items(shown) if "nbc-cells" in html]
    assert 'data-turn="0" data-undo' in line
    assert text_of(line) == "Changed 1 cell. Variables keep their values."
    reopened = PanelState()
    folded(reopened, AgentReady(agent))
    assert shown_page(reopened)[-1] == line
    undone = CellChange(0, "a", CellState("code", "x"), CellState("code", "y"), True)
    agent.session.cell_changes.append(undone)
    left = LeftCell("b", 2, "edited", "-mine")
    (line,) = items(folded(state, CellsUndone(0, (left,))))
    assert "data-undo" not in line
    assert text_of(line).startswith(
        "Undone in 1 cell. Variables keep their values."
        "Cell 2 has edits you made since, so it stays as it is."
    )
    (line,) = items(folded(state, CellsUndone(0, (), "The page did not answer.")))
    assert "The page did not answer." in line
