"""Pages of items, and the banners of compactions."""

from dataclasses import replace
from typing import Any

import pytest
from panel_views import (
    agent_with,
    folded,
    items,
    kinds,
    ran,
    shown,
    shown_page,
)

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import AgentReady
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import (
    Change,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionProposed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    Event,
    PinsChanged,
    TextDelta,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.jupyter.panel.transcript import (
    PAGE_CHARACTERS,
    PAGE_ITEMS,
    Items,
)
from nbchat.testing import ScriptedProvider, says

RECORD = Compaction("c1", 0, 2, "<summary>S</summary>", 5_000, 500, committed_at=2)


def items_of(*items: str | Entry | Compaction) -> Items:
    """A transcript with these items, whose keys begin at 0."""
    transcript = Items()
    for item in items:
        transcript.add(item)
    return transcript


def keys(page: dict[str, Any]) -> list[int]:
    """The keys of a page's items, in order."""
    return [item["key"] for item in page["items"]]


def pages(transcript: Items) -> list[list[int]]:
    """The keys of all pages, the newest page first."""
    page = transcript.page()
    found = [keys(page)]
    while page["before"] is not None:
        page = transcript.page(page["before"])
        found.append(keys(page))
    return found


def test_the_banner_of_a_running_compaction_is_removed_when_its_turn_ends() -> None:
    view = shown(CompactionStarted("manual", 4, 900), TurnFinished("stopped", 0))
    assert view.items == {}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Compacted(RECORD), "Compaction occurred"),
        (CompactionSkipped("too little"), "too little"),
        (CompactionFailed(Compaction("x", 0, 1, "", reason="echo")), "echo"),
    ],
)
def test_the_outcome_replaces_the_banner_of_a_running_compaction(
    event: Event, words: str
) -> None:
    view = shown(CompactionStarted("manual", 4, 900), event)
    assert list(view.items) == [0]
    assert words in view.items[0]


AUTOMATIC = replace(RECORD, trigger="cumulative")


def test_without_notifications_automatic_compactions_have_no_banner() -> None:
    started = CompactionStarted("cumulative", 4, 900)
    view = shown(started, CompactionProgress(0, 2), notifies=False)
    assert view.items == {}
    assert view.state["activity"] == "Compacting, part 1 of 2"
    view = shown(started, Compacted(AUTOMATIC), notifies=False)
    assert view.items == {}
    assert view.state["activity"] == ""
    assert len(shown(started, Compacted(AUTOMATIC)).items) == 1


@pytest.mark.parametrize(
    "events",
    [
        (CompactionStarted("manual", 4, 900), Compacted(RECORD)),
        (Compacted(replace(AUTOMATIC, status="degraded")),),
        (
            CompactionStarted("window", 4, 900),
            CompactionFailed(replace(AUTOMATIC, status="failed", reason="echo")),
        ),
        (
            Compacted(AUTOMATIC),
            CompactionUndone(replace(AUTOMATIC, status="undone")),
        ),
    ],
)
def test_without_notifications_manual_and_failed_compactions_are_shown(
    events: tuple[Event, ...],
) -> None:
    assert len(shown(*events, notifies=False).items) == 1


def test_an_undone_compaction_says_so_once_on_its_own_line() -> None:
    undone = Compaction("c1", 0, 2, "S", status="undone", messages=2)
    view = shown(Compacted(RECORD), TextDelta("x"), CompactionUndone(undone))
    assert list(view.items) == [0]
    assert "Compaction undone" in view.items[0]
    assert "sees the original 2 messages again" in view.items[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("redone", "Compaction redone"),
        ("edited", "Summary edited"),
        ("regenerated", "Summary regenerated"),
    ],
)
def test_a_changed_compaction_is_shown_on_its_line_or_below_without_one(
    change: Change, words: str
) -> None:
    changed = replace(RECORD, summary="<summary>T</summary>")
    begun = [CompactionStarted("manual", 4, 900)] if change == "regenerated" else []
    view = shown(Compacted(RECORD), *begun, CompactionChanged(changed, change))
    assert list(view.items) == [0]
    assert "<p>T</p>" in view.items[0]
    assert "Compaction occurred" in view.items[0]
    assert "running" not in view.items[0]
    hidden = shown(CompactionChanged(AUTOMATIC, change), notifies=False)
    assert words in hidden.items[0]
    assert view.state["activity"] == ""


def test_a_failed_regeneration_leaves_the_banner_of_the_summary() -> None:
    failed = replace(RECORD, status="failed", reason="echo", summary="")
    begun = CompactionStarted("manual", 4, 900, failed)
    view = shown(Compacted(RECORD), begun, CompactionFailed(failed))
    assert "Compaction occurred" in view.items[0]
    assert "The conversation is unchanged" in view.items[1]
    assert "echo" in view.items[1]


def test_changed_pins_add_a_notice() -> None:
    view = shown(PinsChanged(("a",)))
    assert "1 rule pinned" in view.items[0]


def test_another_session_removes_the_banner_of_a_running_compaction() -> None:
    begun = CompactionStarted("manual", 4, 900)
    ready = AgentReady(Agent(ScriptedProvider()))
    view = shown(begun, ready, TurnFinished("stopped", 0))
    assert view.items == {}


def test_a_skipped_automatic_compaction_is_shown_with_notifications_only():
    begun = CompactionStarted("cumulative", 4, 900)
    skipped = CompactionSkipped("too little", "cumulative")
    for notifies, count in ((True, 1), (False, 0)):
        state = PanelState()
        state.set_notifies(notifies=notifies)
        folded(state, begun, skipped)
        assert len(shown_page(state)) == count
    state.set_notifies(notifies=False)
    assert len(items(folded(state, CompactionSkipped("too little")))) == 1


def test_a_skipped_compaction_names_its_trigger():
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


def test_a_compaction_made_and_undone_in_a_cell_has_one_banner():
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


def test_an_event_updates_the_banner_that_a_refresh_added():
    agent = agent_with(says("hello " * 300), says("<summary>S</summary>"))
    state = PanelState()
    agent.ask("hi")
    folded(state, AgentReady(agent))
    events = list(agent.compact())
    folded(state, AgentReady(agent))
    assert isinstance(events[-1], Compacted)
    folded(state, events[-1])
    assert kinds(shown_page(state)).count("banner") == 1


@pytest.mark.parametrize("count", [0, 1, PAGE_ITEMS, PAGE_ITEMS + 1, 5 * PAGE_ITEMS])
def test_pages_contain_each_item_once_in_order(count: int) -> None:
    found = pages(items_of(*("<p>x</p>" for _ in range(count))))
    assert [key for page in found[::-1] for key in page] == list(range(count))
    assert all(len(page) == PAGE_ITEMS for page in found[:-1])


def test_only_the_requested_page_is_rendered() -> None:
    said = [Entry("assistant", f"*{number}*") for number in range(200)]
    transcript = items_of(*said)
    page = transcript.page()
    assert "<em>199</em>" in page["items"][-1]["html"]
    unread = [each for each in transcript._items.values() if isinstance(each, Entry)]
    assert len(unread) <= 200 - PAGE_ITEMS
    assert len(unread) >= 200 - 2 * PAGE_ITEMS
    assert transcript.page() == page


def test_a_page_of_long_items_ends_early() -> None:
    found = pages(items_of(*["x" * (PAGE_CHARACTERS // 2)] * 10))
    assert [len(page) for page in found] == [3, 3, 3, 1]


def test_entries_without_html_are_on_no_page() -> None:
    transcript = items_of(Entry("user", "q"), Entry("thinking", ""), RECORD)
    assert keys(transcript.page()) == [0, 2]
    assert "Compaction occurred" in transcript.page()["items"][1]["html"]


def test_a_replaced_item_keeps_its_position_and_a_cleared_key_is_not_reused() -> None:
    transcript = items_of(Entry("user", "a"), Entry("user", "b"))
    assert transcript.add("new face", key=0) == 0
    assert transcript.page()["items"][0]["html"] == "new face"
    assert transcript.drop(1) == [{"op": "drop", "key": 1}]
    assert keys(transcript.page()) == [0]
    transcript.clear()
    assert transcript.add("x") == 2
    assert transcript.page(before=2) == {"items": [], "before": None}


def test_a_proposed_compaction_is_one_line_until_one_begins() -> None:
    proposed = CompactionProposed(41, 64_000, 3_000)
    view = shown(proposed)
    assert "About to compact 41 messages (64k to 3k tokens)." in view.items[0]
    begun = shown(proposed, CompactionStarted("manual", 4, 900), Compacted(RECORD))
    assert len(begun.items) == 1
    assert "Compaction occurred" in "".join(begun.items.values())
