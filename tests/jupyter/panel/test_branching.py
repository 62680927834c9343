"""What a view needs to go another way: places, words, marks, a branch, sessions."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from notebook_desk import Desk
from panel_protocol import check, known

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import not_mentioned
from nbchat.chat.commands import Commands
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Branched
from nbchat.conversation.session import Session
from nbchat.conversation.turns import attachments_start
from nbchat.errors import NbchatError
from nbchat.jupyter.panel import ChatUI
from nbchat.jupyter.panel.queries.branching import words_at
from nbchat.jupyter.panel.queries.sessions import MOST_SESSIONS, sessions_list
from nbchat.jupyter.panel.view_model.marks import marks, summary_in_force
from nbchat.rendering.banners import notice_html, notice_text
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, says

ODD = '/not a command\n\n  "two" spaces, {braces} and $HOME & <b>\n'


class Panel(ChatUI):
    """A panel whose messages are kept."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        super().__init__(*arguments, **options)

    def send(self, content: dict[str, Any], _buffers: object = None) -> None:
        check(content, "kernel_to_view")
        self.sent.append(json.loads(json.dumps(content)))

    def snapshot(self) -> dict[str, Any]:
        """What a view that comes now is told."""
        assert self.wait(20)
        self.receive({"type": "hello"})
        return self.sent[-1]

    def go_back(self, place: int, text: str) -> None:
        """What a view says when an earlier message was edited; waits for the answer."""
        message = {"type": "branch", "place": place, "text": text, "previews": []}
        check(message, "view_to_kernel")
        self.receive(message)
        assert self.wait(20)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'sessions.db'}")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def panel(store: SessionStore, desk: Desk) -> Iterator[Panel]:
    """A panel on four answers, the first two messages said."""
    commands = Commands(store)
    agent = Agent(ScriptedProvider(*map(says, ("One.", "Two.", "Three.", "Four."))))
    panel = Panel(
        agent, commands=commands, branch=commands.branch, store=store, resolver=desk
    )
    for text in ("first", "second"):
        panel.ask(text)
        assert panel.wait(20)
    yield panel
    panel.close()


def transcript(panel: Panel) -> list[str]:
    return [entry.content for entry in panel.session.transcript]


def test_other_words_reach_the_model_byte_by_byte_and_the_old_way_is_a_session(
    panel, store
):
    old = panel.session.transcript[:]
    panel.go_back(2, ODD)
    assert transcript(panel) == ["first", "One.", ODD, "Three."]
    assert panel.agent.provider.requests[-1].history[-1].content == ODD
    kept = [store.load(each.id).transcript for each in store.sessions()]
    assert old in [each[:] for each in kept]


def test_the_way_back_is_offered_and_leads_to_the_old_session(panel):
    panel.go_back(2, "other")
    items = [item["html"] for item in panel.snapshot()["items"]]
    (note,) = [html for html in items if "nbc-branched" in html]
    name = note.partition('data-session="')[2].partition('"')[0]
    panel.ask(f"/resume {name}")
    assert panel.wait(20)
    assert transcript(panel) == ["first", "One.", "second", "Two."]


def test_a_place_that_is_none_gives_the_words_back_and_changes_nothing(panel):
    before = transcript(panel)
    panel.go_back(1, "other words")
    panel.snapshot()
    assert transcript(panel) == before
    operations = [
        o for each in panel.sent if each["type"] == "events" for o in each["events"]
    ]
    assert {"op": "draft", "text": "other words", "place": 1} in operations
    assert "no message of yours" in json.dumps(operations)


def test_without_other_sessions_nothing_can_be_branched():
    agent = Agent(ScriptedProvider(says("One.")))
    panel = Panel(agent, commands=lambda _agent, _line, stop: None)
    panel.ask("first")
    panel.go_back(0, "other")
    state = panel.snapshot()["state"]
    assert transcript(panel) == ["first", "One."]
    assert (state["has_branches"], state["has_sessions"]) == (False, False)
    panel.close()


def test_what_an_edited_message_mentions_comes_along_as_it_is_now(panel, desk):
    desk.values["df"] = 1
    panel.ask("Look at @df")
    assert panel.wait(20)
    place = len(panel.session.transcript) - 2
    assert attachments_start(panel.session.transcript, place) == place - 1
    desk.values |= {"df": 2, "other": 3}
    panel.go_back(place, "Look at @df and @other")
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
def test_what_was_brought_otherwise_stays_with_a_message(said, left):
    entries = [brought(name) for name in ("df", "cell 3", "error", "a.txt")]
    kept = not_mentioned(Entry("user", said), entries)
    assert [entry.content for entry in kept] == left


def test_messages_answers_and_outputs_have_places_and_nothing_else_has(store):
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    agent = Agent(ScriptedProvider(calls("add", a=1), says("Two.")), tools=[add])
    panel = Panel(agent, commands=Commands(store))
    panel.ask("1 + 1?")
    live = [(i.get("place"), i["html"][:40]) for i in panel.snapshot()["items"]]
    assert [place for place, _ in live] == [0, None, 2, 3, None]
    panel.refresh()
    assert [i.get("place") for i in panel.snapshot()["items"]] == [0, None, 2, 3, None]
    panel.close()


def test_a_persons_words_can_be_had_as_they_were_typed():
    said = [
        ("user", f"{ODD}\u202e"),
        ("assistant", "x"),
        ("user", "\ud800"),
        brought("f"),
    ]
    agent = Agent(ScriptedProvider(), session=Session(said))
    assert known(words_at(agent, 0))["text"] == f"{ODD}\u202e"
    for place, reason in (
        (1, "no message of yours at 1"),
        (9, "no message of yours"),
        (3, "no message of yours"),
        (2, "no page shows"),
    ):
        with pytest.raises(NbchatError, match=reason):
            words_at(agent, place)


def compacted(*more: Line) -> Agent:
    agent = Agent(
        ScriptedProvider(says("Fine. " * 300), says("<summary>**S**</summary>"), *more)
    )
    agent.ask("Call desk DESK-7 about it.")
    list(agent.compact())
    return agent


def test_only_what_would_work_is_offered_at_a_banner():
    agent = compacted(says("More."))
    key = agent.session.compactions[-1].id
    assert marks(agent, {key: 7})["changes"] == {"undo": 7, "rewrite": 7, "redo": None}
    list(agent.undo_compaction())
    assert marks(agent, {key: 7})["changes"] == {
        "undo": None,
        "rewrite": None,
        "redo": 7,
    }
    list(agent.redo_compaction())
    agent.ask("And now?")
    list(agent.exclude(2))
    newest = agent.session.compactions[-1].id
    found = marks(agent, {key: 7, newest: 9})
    assert found["changes"] == {"undo": 9, "rewrite": 7, "redo": None}
    assert found["left_out"] == [2]
    assert marks(agent, {})["changes"] == {"undo": None, "rewrite": None, "redo": None}


def test_a_view_is_told_of_pins_and_of_what_is_left_out(panel):
    assert panel.snapshot()["state"]["pins"] == []
    panel.ask("/pin Be  brief.")
    panel.ask("/exclude 0")
    state = panel.snapshot()["state"]
    assert state["pins"] == ["Be  brief."]
    assert state["left_out"] == [0]
    undo = state["changes"]["undo"]
    banner = next(item for item in panel.snapshot()["items"] if item["key"] == undo)
    assert "Message excluded" in banner["html"]
    panel.ask("/unpin 1")
    panel.ask("/include 0")
    state = panel.snapshot()["state"]
    assert (state["pins"], state["left_out"]) == ([], [])


def test_the_summary_to_edit_comes_without_its_facts():
    agent = compacted()
    found = known(summary_in_force(agent))
    assert found["story"] == "**S**"
    assert found["facts"].startswith("Also named: ")
    list(agent.undo_compaction())
    with pytest.raises(NbchatError, match="no summary to edit"):
        summary_in_force(agent)


def test_sessions_are_listed_with_the_one_that_goes_on(panel, store):
    panel.ask("/new")
    panel.ask("about the roof")
    assert panel.wait(20)
    found = known(sessions_list(panel.agent, "", store))
    assert [row["title"] for row in found["sessions"]] == ["about the roof", "first"]
    assert [row["is_current"] for row in found["sessions"]] == [True, False]
    assert [row["entries"] for row in found["sessions"]] == [2, 4]
    found = known(sessions_list(panel.agent, "SECOND two", store))
    assert [row["title"] for row in found["sessions"]] == ["first"]
    assert found["total"] == 1


def test_of_very_many_sessions_the_newest_are_shown(panel):
    @dataclass(frozen=True)
    class Row:
        id: str
        title: str = "\ud800"
        notebook: str = ""
        model: str = "m"
        used_at: str = ""
        entries: int = 1

    class Many:
        def sessions(self, *, words: Any) -> list[Row]:
            return [Row(str(number)) for number in range(MOST_SESSIONS + 50)]

    found = known(sessions_list(panel.agent, "", Many()))
    assert len(found["sessions"]) == MOST_SESSIONS
    assert found["total"] == MOST_SESSIONS + 50
    assert found["sessions"][0]["title"] == "\ufffd"


def test_a_view_may_ask_for_sessions_models_summary_and_words(panel):
    for question in (
        {"type": "sessions", "query": ""},
        {"type": "models"},
        {"type": "summary"},
        {"type": "words", "place": 0},
        {"type": "words", "place": 1},
    ):
        check({**question, "token": "t"}, "view_to_kernel")
        assert panel._questions.asked(question["type"], question) is not None
    for question in (
        {"type": "sessions"},
        {"type": "words"},
        {"type": "words", "place": "0"},
    ):
        assert panel._questions.asked(question["type"], question) is None


def test_the_note_on_a_branch_cannot_be_forged():
    event = Branched('"><script>x</script>')
    assert "<script>" not in notice_html(event)
    assert (
        notice_text(Branched("abc"))
        == "Branched from session abc; /resume abc reopens it"
    )
