"""The panel widget: messages of views, threads, and what is saved with a notebook."""

import gc
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anywidget
import pytest
from jupyter_core.paths import jupyter_data_dir
from panel_protocol import is_valid
from panel_views import (
    MakePanel,
    Panel,
    Replying,
    View,
    operations,
    settled,
)

import nbchat.jupyter.panel
from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import CommandReplied
from nbchat.chat.live_changes import LiveSettings
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import (
    Compacted,
)
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError, Overloaded, StoreError
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.providers.base import Request
from nbchat.storage.autosave import Autosave
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, calls, fails, says

FOLDER = Path(nbchat.jupyter.panel.__file__).parent


THREADS = ("nbchat-runner", "nbchat-view-sync")


SLOW = says("word " * 1_000, delay_seconds=0.005)


RECORD = Compaction("c1", 0, 2, "<summary>S</summary>", 5_000, 500, committed_at=2)


@pytest.mark.slow
def test_every_message_is_in_the_protocol_and_has_no_id(
    panel_with: MakePanel,
) -> None:
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    two = says("# Two\n\nis it", delay_seconds=0.05)
    panel = panel_with(calls("add", a=1), two, tools=[add])
    panel.view_says(type="hello")
    panel.view_says(type="send", text="1 + 1?")
    for message in settled(panel):
        assert is_valid(message, "kernel_to_view")
        assert "id" not in message
    assert {"item", "text", "state", "settle"} <= set(operations(panel.sent))


def test_the_widget_state_contains_no_text_of_the_conversation(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("The marzipan answer."))
    panel.ask("A marzipan question?")
    settled(panel)
    base = anywidget.AnyWidget()
    assert set(panel.keys) - set(base.keys) == {"height", "theme", "protocol", "_css"}
    state = json.dumps({key: panel.get_state(key)[key] for key in ("height", "theme")})
    assert json.loads(state) == {"height": "480px", "theme": "auto"}
    assert "marzipan" not in str(panel.get_state())


def test_a_saved_notebook_contains_the_same_output_in_every_run(
    panel_with: MakePanel,
) -> None:
    panel = panel_with()
    bundle = panel._repr_mimebundle_()
    assert bundle is not None
    assert bundle[0]["text/plain"] == repr(panel) == "ChatUI()"
    assert "application/vnd.jupyter.widget-view+json" in bundle[0]


def test_the_agent_is_built_by_the_runner_when_a_view_opens() -> None:
    built: list[str] = []

    def build() -> Agent:
        built.append(threading.current_thread().name)
        return Agent(ScriptedProvider(says("hello")))

    panel = Panel(build=build)
    assert built == []
    panel.view_says(type="hello")
    assert panel.sent[0]["state"]["phase"] == "starting"
    panel.await_operation("state")
    assert built == ["nbchat-runner"]
    assert panel.session.transcript == []
    panel.close()


def test_an_error_while_building_the_agent_is_shown_and_returns_the_draft() -> None:
    def build() -> Agent:
        raise ConfigError("no key; set OPENAI_API_KEY")

    panel, view = Panel(build=build), View()
    panel.view_says(type="hello")
    panel.view_says(type="send", text="hi")
    panel.await_operation("draft")
    for message in settled(panel):
        view.receive(message)
    assert view.state["phase"] == "failed"
    assert view.state["is_busy"] is False
    assert "set OPENAI_API_KEY" in "".join(view.items.values())
    panel.close()


def test_stop_from_a_view_keeps_the_partial_answer(panel_with: MakePanel) -> None:
    panel = panel_with(SLOW)
    panel.view_says(type="send", text="Talk.")
    panel.await_operation("text")
    panel.view_says(type="stop")
    settled(panel)
    assert panel.session.transcript[-1].is_incomplete
    assert not panel.is_busy


def test_compact_from_a_view_and_from_python(panel_with: MakePanel) -> None:
    story = says("<summary>S</summary>")
    panel = panel_with(says("hello " * 300), story, says("again " * 300), story)
    panel.ask("hi")
    panel.view_says(type="compact")
    panel.ask("hi again")
    panel.compact("greetings")
    settled(panel)
    assert len(panel.session.compactions) == 2


def test_a_compaction_from_a_view_carries_its_focus(panel_with: MakePanel) -> None:
    asked: list[str] = []

    def summarize(request: Request) -> Line:
        asked.append(request.history[-1].content)
        return says("<summary>S</summary>")

    panel = panel_with(says("hello " * 300), summarize)
    panel.ask("hi")
    panel.view_says(type="compact", focus="the printers", keep=0)
    settled(panel)
    assert "the printers" in asked[0]
    assert len(panel.session.active_compactions) == 1


@pytest.mark.parametrize("keep", [True, -1, "many", 2.5])
def test_a_compaction_with_invalid_options_is_ignored(
    keep: object, panel_with: MakePanel
) -> None:
    panel = panel_with()
    panel.view_says(type="compact", focus="garbled", keep=keep)
    panel.view_says(type="compact", focus="printers", keep=0)
    sent = json.dumps(settled(panel))
    assert "/compact printers" in sent
    assert "garbled" not in sent


def test_answers_carry_the_token_of_their_query(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("hello"))
    panel.ask("hi")
    settled(panel)
    assert panel.answer_to(type="plan", keep=None)["messages"] == 2
    page = panel.answer_to(type="history", query="HI", before=None)
    assert "hi" in page["items"][0]["html"]


def test_a_view_plans_and_makes_a_compaction_up_to_a_message(
    panel_with: MakePanel,
) -> None:
    summary = says("<summary>The user said hello.</summary>")
    panel = panel_with(says("hello " * 300), says("bye"), summary)
    panel.ask("hi")
    settled(panel)
    panel.ask("and now?")
    settled(panel)
    planned = panel.answer_to(type="plan", keep=None, upto=1)
    assert (planned["compacted"], planned["kept"]) == (2, 2)
    panel.view_says(type="compact", focus="", keep=None, upto=1)
    settled(panel)
    assert panel.session.compaction.stop == 2


def test_history_can_be_read_while_an_answer_streams(panel_with: MakePanel) -> None:
    panel = panel_with(SLOW)
    panel.ask("Talk.")
    panel.await_operation("text")
    assert panel.answer_to(type="history", query="", before=None)["total"] == 1
    assert panel.is_busy


def test_a_failed_query_is_answered_with_the_reason() -> None:
    def build() -> Agent:
        raise ConfigError("no key; set OPENAI_API_KEY")

    panel = Panel(build=build)
    answer = panel.answer_to(type="plan", keep=None)
    assert answer == {"type": "refused", "reason": "no key; set OPENAI_API_KEY"}
    panel.close()


def test_settings_are_listed_or_it_is_said_why_not() -> None:
    class Broken(LiveSettings):
        def listed(self, _agent: Agent) -> list[Any]:
            raise ValueError("<b>")

    own = Panel(Agent(ScriptedProvider(name="scripted:m")))
    offered = own.answer_to(type="settings")["settings"]
    assert {"policy", "effort"} <= {each["name"] for each in offered}
    own.close()
    commands = Replying(lambda *_: ())
    commands.live_settings = Broken(commands.store)
    panel = Panel(Agent(ScriptedProvider()), commands=commands)
    assert panel.answer_to(type="settings")["reason"] == "ValueError: <b>"
    panel.close()


def test_messages_outside_the_protocol_are_ignored(panel_with: MakePanel) -> None:
    panel = panel_with()
    for content in (
        {"type": "send"},
        {"type": "send", "text": "  \n"},
        {"type": "send", "text": 5},
        {"type": "eval", "text": "1"},
        {"type": "resync"},
        {"type": "plan", "token": "t"},
        {"type": "earlier", "token": "t"},
        {"type": "earlier", "before": None, "token": "t"},
        {"type": "history", "query": 5, "before": None, "token": "t"},
        {"type": "plan", "keep": None},
        {},
    ):
        panel.view_says(**content)
    assert panel.sent == []
    assert not panel.is_busy


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a kernel: what a shell has put in the background ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_waiting(thread: threading.Thread) -> bool:
    """True while a thread is within `ChatUI.wait`, and waits."""
    frames = traceback.extract_stack(sys._current_frames()[thread.ident or 0])
    names = [each.name for each in frames]
    return names[-1] == "wait" and names.count("wait") >= 3


@pytest.mark.slow
def test_interrupting_wait_stops_the_answer(
    panel_with: MakePanel, interruptible: None
) -> None:
    panel = panel_with(says("word " * 10_000, delay_seconds=0.005))
    panel.ask("Talk.")
    panel.await_operation("text")

    def interrupt() -> None:
        while not is_waiting(threading.main_thread()):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert panel.wait()
    assert panel.session.transcript[-1].is_incomplete


@pytest.mark.slow
def test_a_closed_panel_is_collected_with_its_agent() -> None:
    agent = Agent(ScriptedProvider(says("Hi.")))
    panel = ChatUI(agent)
    panel.receive({"type": "hello"})
    panel.ask("Hello?")
    assert panel.wait(60)
    panel.close()
    left = weakref.ref(panel), weakref.ref(agent)
    del panel, agent
    deadline = time.monotonic() + 60
    while [each() for each in left] != [None, None]:  # until its threads have ended
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.01)


class Flaky(SessionStore):
    """A store that another program locks for a while."""

    is_locked = False

    def add_entries(self, *arguments: Any) -> None:
        if self.is_locked:
            raise StoreError("the session store failed: database is locked")
        super().add_entries(*arguments)


def test_a_panel_says_by_itself_that_everything_is_saved_again(
    panel_with: MakePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbchat.storage.autosave.RETRY_SECONDS", 0.1)
    store = Flaky(f"sqlite:///{tmp_path / 'sessions.db'}")
    panel = panel_with(says("one"), says("two"), says("three"))
    panel.session.session_id = "s1"
    panel.agent.autosave = Autosave(store, panel.session, is_saved=False)
    panel.refresh(panel.agent)
    store.is_locked = True
    panel.ask("first")
    assert "Not saved since" in json.dumps(settled(panel))
    assert "saved again" not in json.dumps(panel.sent)
    store.is_locked = False
    deadline = time.monotonic() + 60
    while "Everything is saved again" not in json.dumps(panel.sent):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    panel.ask("second")
    assert json.dumps(settled(panel)).count("Everything is saved again") == 1
    saved = store.load(panel.session.session_id)
    assert saved.transcript == panel.session.transcript


def test_close_ends_both_threads(panel_with: MakePanel) -> None:
    others = set(threading.enumerate())
    panel = panel_with(SLOW)
    panel.ask("Talk.")
    panel.await_operation("text")
    panel.close()
    deadline = time.monotonic() + 60
    while {t.name for t in set(threading.enumerate()) - others} & {*THREADS}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def databases_open() -> int:
    """How often this test's database of sessions is open."""
    files = [entry.resolve() for entry in Path("/proc/self/fd").iterdir()]
    return files.count(Path(jupyter_data_dir(), "nbchat", "sessions.db").resolve())


def test_all_commands_of_a_panel_share_one_open_database(panel_with: MakePanel) -> None:
    panel = panel_with()
    for _ in range(20):
        panel.ask("/sessions")
    assert panel.wait(60)
    assert databases_open() == 1


def test_python_can_stop_the_answer(panel_with: MakePanel) -> None:
    panel = panel_with(SLOW)
    panel.ask("Talk.")
    panel.await_operation("text")
    panel.stop()
    assert panel.wait(60)


def test_a_restored_session_is_shown_with_its_banner() -> None:
    transcript = [("user", "q1"), ("assistant", "a1"), ("user", "q2")]
    panel = Panel(
        Agent(ScriptedProvider(), session=Session(transcript, compactions=[RECORD]))
    )
    panel.view_says(type="hello")
    panel.await_operation("restart")
    view = View()
    panel.view_says(type="hello")
    view.receive(panel.sent[-1])
    kinds = [
        re.search(r'class="(?:nbc-entry )?([\w-]+)"', html)
        for html in view.items.values()
    ]
    assert [kind and kind.group(1) for kind in kinds] == [
        "nbc-user",
        "nbc-assistant",
        "nbc-banner",
        "nbc-user",
    ]
    panel.close()


def test_a_turn_of_a_cell_is_shown_after_a_refresh(
    panel_with: MakePanel,
) -> None:
    panel, view = panel_with(says("said in a cell")), View()
    panel.view_says(type="hello")
    panel.agent.ask("Hello from a cell.")
    panel.refresh()
    panel.view_says(type="hello")
    view.receive(panel.sent[-1])
    assert "said in a cell" in "".join(view.items.values())
    assert len(view.items) == 3


def test_notifications_can_be_turned_off_later() -> None:
    session = Session(
        [("user", "q"), ("assistant", "a")],
        compactions=[replace(RECORD, trigger="cumulative")],
    )
    panel, view = Panel(Agent(ScriptedProvider(), session=session)), View()
    assert panel.notifies
    panel.notifies = False
    panel.view_says(type="hello")
    panel.await_operation("restart")
    panel.view_says(type="hello")
    view.receive(panel.sent[-1])
    assert len(view.items) == 2
    assert view.state["summary"]["messages"] == 2
    assert "Compaction" in str(panel.answer_to(type="history", query="", before=None))
    panel.close()
    panel = Panel(Agent(ScriptedProvider()), notifies=False)
    assert panel.notifies is False
    panel.close()


def test_the_current_summary_is_shown_until_it_is_undone(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("hello " * 300), says("<summary>**S**</summary>"))
    view = View()
    panel.view_says(type="hello")
    panel.ask("hi")
    panel.compact()
    seen = len(settled(panel))
    for message in panel.sent:
        view.receive(message)
    assert view.state["summary"]["messages"] == 2
    assert "<strong>S</strong>" in view.state["summary"]["html"]
    panel.ask("/undo")
    for message in settled(panel)[seen:]:
        view.receive(message)
    assert view.state["summary"] is None


def test_a_restored_session_shows_each_compaction_where_it_happened(
    panel_with: MakePanel,
) -> None:
    said = [Entry("user", "one"), Entry("assistant", "two"), Entry("user", "three")]
    records = [
        RECORD,
        replace(RECORD, status="failed", reason="a rewrite failed", committed_at=3),
        replace(RECORD, status="undone", committed_at=3),
        replace(RECORD, id="c2", stop=3, status="running", committed_at=3),
    ]
    panel, view = panel_with(session=Session(said, compactions=records)), View()
    panel.view_says(type="hello")
    assert panel.agent.session.history == said
    panel.view_says(type="hello")
    view.receive(panel.sent[-1])
    shown_now = list(view.items.values())
    assert len(shown_now) == 4
    assert "Compaction undone" in shown_now[2]
    assert "running" not in "".join(shown_now)


def test_the_meter_is_updated_after_a_compaction(panel_with: MakePanel) -> None:
    panel = panel_with(
        says("hello " * 300, tokens=900),
        says("<summary>S</summary>"),
        engine=CompactionEngine(5_000),
    )
    panel.view_says(type="hello")
    panel.ask("hi")
    panel.compact()
    view = View()
    for message in settled(panel):
        view.receive(message)
    assert view.state["meter"]["tokens"] == 0
    assert view.state["meter"]["threshold"] == 5_000
    assert view.state["meter"]["guard"] == panel.agent.engine.tracker.limits.guard


def test_the_answer_of_a_command_is_in_the_transcript() -> None:
    events = [CommandReplied("tokens 5"), Compacted(RECORD)]
    commands = Replying(lambda _agent, _line, _stop: events)
    panel = Panel(Agent(ScriptedProvider()), commands=commands)
    panel.view_says(type="hello")
    panel.ask("/context")
    view = View()
    for message in settled(panel):
        view.receive(message)
    assert [
        words in html
        for words, html in zip(
            ("tokens 5", "Compaction occurred"), view.items.values(), strict=True
        )
    ] == [True, True]
    panel.close()


def test_a_retry_is_shown_with_its_countdown(panel_with: MakePanel) -> None:
    panel = panel_with(fails(Overloaded("busy", retry_after=0.1)), says("ok"))
    panel.view_says(type="hello")
    panel.ask("hi")
    assert '"retry": {"attempt"' in json.dumps(settled(panel))
