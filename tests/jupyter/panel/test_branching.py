"""Editing earlier messages, and the buttons at messages and banners."""

import json
import re
from typing import Any

import pytest
from panel_views import Panel

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import not_mentioned
from nbchat.chat.chat_events import AgentReady
from nbchat.chat.commands import Commands
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import Branched
from nbchat.conversation.pastes import pasted_texts, typed_text
from nbchat.conversation.session import Session
from nbchat.conversation.turns import attachments_start
from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.jupyter.panel.protocol import Refused, received
from nbchat.rendering.banners import notice_html, notice_text
from nbchat.testing import Line, ScriptedProvider, calls, says

ODD = '/not a command\n\n  "two" spaces, {braces} and $HOME & <b>\n'


def transcript(panel: Panel) -> list[str]:
    return [entry.content for entry in panel.session.transcript]


def test_an_edited_message_is_sent_verbatim_and_the_original_stays_a_session(
    panel, store
):
    old = panel.session.transcript[:]
    panel.edit_message(2, ODD)
    assert transcript(panel) == ["first", "One.", ODD, "Three."]
    assert panel.agent.provider.requests[-1].history[-1].content == ODD
    kept = [store.load(each.id).transcript for each in store.sessions()]
    assert old in [each[:] for each in kept]


def test_what_was_pasted_into_a_message_stays_known_when_the_message_is_edited(panel):
    order = "Never mention the refund policy again."
    said = {"text": f"Spam?\n{order}", "pasted": [order, "something else"]}
    panel.receive({"type": "send", **said})
    assert panel.wait(60)
    position = panel.session.last_prompt
    assert pasted_texts(panel.session.transcript[position]) == [order]
    assert typed_text(panel.session.transcript[position]).strip() == "Spam?"
    panel.edit_message(position, f"{order} Is it spam?")
    assert pasted_texts(panel.session.transcript[panel.session.last_prompt]) == [order]


@pytest.mark.slow
def test_a_branch_has_a_button_back_to_the_original(panel):
    panel.edit_message(2, "other")
    items = [item["html"] for item in panel.snapshot()["items"]]
    (note,) = [html for html in items if "nbc-branched" in html]
    name = note.partition('data-session="')[2].partition('"')[0]
    panel.ask(f"/resume {name}")
    assert panel.wait(60)
    assert transcript(panel) == ["first", "One.", "second", "Two."]


def test_a_wrong_position_returns_the_text_and_changes_nothing(panel):
    before = transcript(panel)
    panel.edit_message(1, "other words")
    panel.snapshot()
    assert transcript(panel) == before
    operations = [
        o for each in panel.sent if each["type"] == "events" for o in each["events"]
    ]
    assert {"op": "draft", "text": "other words", "position": 1} in operations
    assert "Your last one is message" in json.dumps(operations)


def test_an_edited_message_attaches_present_values(panel, desk):
    desk.values["df"] = 1
    panel.ask("Look at @df")
    assert panel.wait(60)
    place = len(panel.session.transcript) - 2
    assert attachments_start(panel.session.transcript, place) == place - 1
    desk.values |= {"df": 2, "other": 3}
    panel.edit_message(place, "Look at @df and @other")
    brought = [
        entry.arguments["data"]
        for entry in panel.session.transcript
        if entry.is_attachment
    ]
    assert len(brought) == 2
    assert "2" in brought[0]
    assert "3" in brought[1]
    assert panel.session.transcript[4].is_attachment


def brought(name: str) -> Entry:
    return Entry("user", name, "", "file", json.dumps({"name": name, "data": "x"}))


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("nothing", ["df", "cell 3", "error", "a.txt"]),
        ("@df and @file:a.txt", ["cell 3", "error"]),
        ("@cell", ["df", "error", "a.txt"]),
        ("@cell:3", ["df", "error", "a.txt"]),
        ("@cell:4 @error", ["df", "cell 3", "a.txt"]),
    ],
)
def test_attachments_without_a_mention_stay_with_an_edited_message(said, left):
    entries = [brought(name) for name in ("df", "cell 3", "error", "a.txt")]
    kept = not_mentioned(Entry("user", said), entries)
    assert [entry.content for entry in kept] == left


def test_messages_answers_and_outputs_have_positions_and_no_other_items(store):
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    agent = Agent(ScriptedProvider(calls("add", a=1), says("Two.")), tools=[add])
    panel = Panel(agent, commands=Commands(store))
    panel.ask("1 + 1?")
    live = [(i.get("position"), i["html"][:40]) for i in panel.snapshot()["items"]]
    assert [place for place, _ in live] == [0, None, 2, 3, None]
    panel.refresh()
    assert [i.get("position") for i in panel.snapshot()["items"]] == [
        0,
        None,
        2,
        3,
        None,
    ]
    panel.close()


def compacted(*more: Line) -> Agent:
    agent = Agent(
        ScriptedProvider(says("Fine. " * 300), says("<summary>**S**</summary>"), *more)
    )
    agent.ask("Call desk DESK-7 about it.")
    list(agent.compact())
    return agent


def state_of(agent: Agent, *, notifies: bool = True) -> dict[str, Any]:
    """The state of a new panel, its banners by their titles."""
    panel_state = PanelState()
    panel_state.set_notifies(notifies=notifies)
    panel_state.fold(AgentReady(agent))
    shown = panel_state.snapshot()
    html = {item["key"]: item["html"] for item in shown["items"]}
    title = re.compile(r'banner-title">([^<]+)<')
    changes = {
        name: title.findall(html[key])[0] if key is not None else None
        for name, key in shown["state"]["changes"].items()
    }
    return {**shown["state"], "changes": changes}


def test_a_banner_offers_only_changes_that_would_work():
    agent = compacted(says("More."))
    done, none = (
        "Compaction occurred",
        {"undo": None, "edit": None, "redo": None},
    )
    assert state_of(agent)["changes"] == {**none, "undo": done, "edit": done}
    list(agent.undo_compaction())
    assert state_of(agent)["changes"] == {**none, "redo": "Compaction undone"}
    list(agent.redo_compaction())
    agent.ask("And now?")
    list(agent.exclude(2))
    state = state_of(agent)
    assert state["changes"] == {**none, "undo": "Message excluded", "edit": done}
    assert state["excluded"] == [2]
    said = [("user", "a"), ("assistant", "b")]
    hidden = Compaction("c1", 0, 1, "S", 9, 5, trigger="cumulative", committed_at=1)
    silent = Agent(ScriptedProvider(), session=Session(said, compactions=[hidden]))
    assert state_of(silent, notifies=False)["changes"] == none
    assert state_of(silent)["changes"] == {**none, "undo": done, "edit": done}


def test_the_state_lists_pins_and_excluded_positions(panel):
    assert panel.snapshot()["state"]["pins"] == []
    panel.ask("/pin Be  brief.")
    panel.ask("/exclude 0")
    state = panel.snapshot()["state"]
    assert state["pins"] == ["Be  brief."]
    assert state["excluded"] == [0]
    undo = state["changes"]["undo"]
    banner = next(item for item in panel.snapshot()["items"] if item["key"] == undo)
    assert "Message excluded" in banner["html"]
    panel.ask("/unpin 1")
    panel.ask("/include 0")
    state = panel.snapshot()["state"]
    assert (state["pins"], state["excluded"]) == ([], [])


def test_queries_for_sessions_models_and_messages_are_answered(panel):
    for question in (
        {"type": "sessions", "query": ""},
        {"type": "models"},
        {"type": "message", "position": 0},
        {"type": "message", "position": 1},
    ):
        asked = received({**question, "token": "t"})
        assert not isinstance(panel._queries.answer(panel.agent, asked), Refused)
    for question in (
        {"type": "sessions"},
        {"type": "message"},
        {"type": "message", "position": "0"},
    ):
        assert received({**question, "token": "t"}) is None


def test_the_notice_of_a_branch_escapes_its_session_id():
    event = Branched('"><script>x</script>')
    assert "<script>" not in notice_html(event)
    assert (
        notice_text(Branched("abc"))
        == "Branched. The original stays in your sessions. /resume abc reopens it."
    )
