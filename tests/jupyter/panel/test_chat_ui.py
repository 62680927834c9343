"""The panel's kernel side: what it sends is small, numbered, complete and safe."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anywidget
import pytest
from jupyter_core.paths import jupyter_data_dir
from panel_protocol import PROTOCOL, is_valid
from panel_views import Panel, View, operations

import nbchat.jupyter.panel
from nbchat.agent.agent import Agent
from nbchat.chat.runner import AgentReady, Idle, QueueChanged, RunnerEvent, TurnStarted
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS, Policy
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import (
    Change,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProgress,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    EntryAdded,
    Event,
    PinsChanged,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    ThinkingDelta,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError, Overloaded
from nbchat.jupyter.panel.frontend import script, style
from nbchat.jupyter.panel.queries.dispatch import whole_number
from nbchat.jupyter.panel.view_model.panel_state import PanelState
from nbchat.jupyter.panel.view_sync import Send, ViewSync
from nbchat.providers.base import Request
from nbchat.rendering.entries import entry_html
from nbchat.testing import Line, ScriptedProvider, ScriptedReply, calls, fails, says

FOLDER = Path(nbchat.jupyter.panel.__file__).parent
THREADS = ("nbchat-runner", "nbchat-view-sync")

SLOW = says("word " * 1_000, delay_seconds=0.005)

RECORD = Compaction("c1", 0, 2, "<summary>S</summary>", 5_000, 500, committed_at=2)


MakePanel = Callable[..., Panel]


@pytest.fixture
def panel_with() -> Iterator[MakePanel]:
    """Make a panel on a script, and close it when the test is over."""
    made: list[Panel] = []

    def make(*script: ScriptedReply, **options: Any) -> Panel:
        panel = Panel(Agent(ScriptedProvider(*script), **options))
        made.append(panel)
        return panel

    yield make
    for panel in made:
        panel.close()


def settled(panel: Panel) -> list[dict[str, Any]]:
    """Everything sent, once the answer is there and the last batch is out."""
    assert panel.wait(20)
    deadline = time.monotonic() + 10
    while not panel._sync.is_flushed or '"is_busy": false' not in json.dumps(
        panel.sent[-1:]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return panel.sent


def synced(
    send: Send,
) -> tuple[ViewSync, Callable[[Event | RunnerEvent], None]]:
    """A ViewSync of a new state, and a function that shows events in it."""
    state = PanelState()
    sync = ViewSync(state.snapshot, state.page, send)
    return sync, partial(sync.change, state.fold)


def shown(*events: Event | RunnerEvent, notifies: bool = True) -> View:
    """What a view shows after these events."""
    state, view = PanelState(clock=lambda: 0.0), View()
    state.set_notifies(notifies=notifies)
    view.receive({"type": "snapshot", "seq": 0, **state.snapshot()})
    for event in events:
        for operation in state.fold(event):
            assert is_valid(
                {"type": "events", "seq": 1, "events": [operation]}, "events"
            )
            view.apply(operation)
    fresh = View()
    fresh.receive({"type": "snapshot", "seq": 0, **state.snapshot()})
    assert (view.items, view.live, view.state) == (fresh.items, fresh.live, fresh.state)
    return view


def test_every_message_is_one_the_protocol_knows_and_has_no_id(
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


def test_what_a_view_sends_is_in_the_protocol_too() -> None:
    text = script()
    sent = set(re.findall(r'send\(\{ type: "(\w+)"', text))
    known = [ref["$ref"] for ref in PROTOCOL["$defs"]["view_to_kernel"]["oneOf"]]
    assert sent == {name.rpartition("/")[2] for name in known}
    applied = text[text.index("const steps") : text.index("steps[operation.op]")]
    for name in re.findall(r'"op": \{ "const": "(\w+)"', json.dumps(PROTOCOL)):
        assert f"{name}:" in applied
    assert is_valid({"type": "resync", "seq": -1}, "view_to_kernel")
    assert not is_valid({"type": "send", "text": "", "id": "x"}, "view_to_kernel")


def test_the_view_is_one_small_file_that_asks_its_own_server_alone() -> None:
    others = r"https?://|@import|\bimport\b|url\(|XMLHttp|sendBeacon|Socket|EventSource"
    for text in (script(), style()):
        assert len(text) < 100_000
        assert not re.search(others, text)
    fetched = re.findall(r"fetch.*", script())
    assert fetched == ['fetch(address, { ...options, mode: "same-origin" });']


def test_a_view_that_gets_all_batches_shows_what_a_new_view_gets(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(
        says("# One\n\nTwo\n\n```\nx\n\ny\n```\n\nThree", delay_seconds=0.01)
    )
    panel.view_says(type="hello")
    panel.ask("Count.")
    old, new = View(), View()
    assert all(old.receive(message) for message in settled(panel))
    panel.view_says(type="hello")
    new.receive(panel.sent[-1])
    assert old.__dict__ == new.__dict__
    assert "<h1>One</h1>" in "".join(old.items.values())


def test_a_view_that_lost_a_batch_asks_and_is_whole_again(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("word " * 60, delay_seconds=0.01))
    panel.view_says(type="hello")
    panel.ask("Talk.")
    messages, view = settled(panel), View()
    lost = len(messages) // 2
    for message in messages[:lost]:
        assert view.receive(message)
    assert not view.receive(messages[lost + 1])
    panel.view_says(type="resync", seq=view.sequence)
    assert view.receive(panel.sent[-1])
    assert "word word" in list(view.items.values())[-2]
    count = len(panel.sent)
    panel.view_says(type="resync", seq=view.sequence)
    assert len(panel.sent) == count


def test_deltas_travel_in_batches_of_at_most_thirty_a_second(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("word " * 400, delay_seconds=0.002))
    panel.view_says(type="hello")
    started = time.monotonic()
    panel.ask("Talk.")
    messages = settled(panel)
    seconds = time.monotonic() - started
    assert operations(messages).count("text") >= 10
    assert len(messages) <= 30 * seconds + 2
    sizes = sum(len(json.dumps(message)) for message in messages)
    assert sizes < 6 * len("word " * 400)


def test_a_long_stream_goes_in_fewer_batches_and_the_first_piece_at_once(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("word " * 600, delay_seconds=0.005))
    panel.ask("Talk.")
    messages = settled(panel)
    texts = [
        moment
        for moment, message in zip(panel.times, messages, strict=True)
        if "text" in operations([message])
    ]
    pauses = [after - before for before, after in pairwise(texts)]
    assert min(pauses[:3]) < 0.08
    assert sum(pauses[-6:-1]) > 5 * 0.095


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
def test_however_an_answer_is_cut_its_item_reads_as_if_it_had_come_whole(
    text: str, size: int
) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    entry = Entry("assistant", text)
    view = shown(*map(TextDelta, pieces), EntryAdded(0, entry))
    assert view.items == {0: entry_html(entry)}
    assert view.live == {}


def test_blocks_that_were_streamed_are_not_sent_again() -> None:
    text = "".join(f"Paragraph {number} of many.\n\n" for number in range(200))
    state = PanelState()
    pieces = [text[start : start + 4] for start in range(0, len(text), 4)]
    streamed = [op for piece in pieces for op in state.fold(TextDelta(piece))]
    assert sum(operation["op"] == "block" for operation in streamed) > 100
    added = state.fold(EntryAdded(0, Entry("assistant", text)))
    assert [operation["op"] for operation in added[:2]] == ["item", "settle"]
    assert len(json.dumps(added)) < 500


def test_text_that_became_a_block_in_the_same_batch_travels_as_html_only() -> None:
    sent: list[dict[str, Any]] = []
    sync, show = synced(sent.append)
    show(TextDelta("first "))
    while not sent:
        time.sleep(0.001)
    for piece in ("one\n\n", "two", "\n\n", "three", " four"):
        show(TextDelta(piece))
    sync.close()
    news = sent[-1]["events"]
    assert [operation["op"] for operation in news] == ["block"]
    assert news[0]["html"] == "<p>first one</p>\n<p>two</p>\n"
    assert news[0]["text"] == "three four"


def test_after_a_batch_that_could_not_be_sent_the_next_one_shows_the_gap() -> None:
    tried: list[dict[str, Any]] = []

    def send(message: dict[str, Any]) -> None:
        tried.append(message)
        if len(tried) == 1:
            raise OSError("the kernel's line is closed")

    sync, show = synced(send)
    for count, piece in enumerate(("one", "two"), 1):
        show(TextDelta(piece))
        end = time.monotonic() + 10
        while len(tried) < count and time.monotonic() < end:
            time.sleep(0.001)
    sync.close()
    assert [message["seq"] for message in tried] == [1, 2]


def test_a_long_session_is_shown_from_its_end_and_earlier_pages_on_demand() -> None:
    said = [Entry("user", f"message {number}") for number in range(100)]
    panel = Panel(Agent(ScriptedProvider(), session=Session(said)))
    panel.view_says(type="hello")
    panel.await_operation("restart")
    panel.view_says(type="hello")
    newest = panel.sent[-1]
    assert is_valid(newest, "kernel_to_view")
    assert "message 99" in newest["items"][-1]["html"]
    earlier = panel.answer_to(type="earlier", before=newest["before"])
    assert 0 < len(earlier["items"]) < 100
    assert earlier["items"][-1]["key"] == newest["before"] - 1
    panel.close()


def test_only_look_and_protocol_are_synced_and_no_text_is(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("The secret answer."))
    panel.ask("A secret question?")
    settled(panel)
    base = anywidget.AnyWidget()
    assert set(panel.keys) - set(base.keys) == {"height", "theme", "protocol", "_css"}
    state = json.dumps({key: panel.get_state(key)[key] for key in ("height", "theme")})
    assert json.loads(state) == {"height": "480px", "theme": "auto"}
    assert "secret" not in str(panel.get_state())


def test_it_looks_the_same_in_every_saved_notebook(panel_with: MakePanel) -> None:
    panel = panel_with()
    bundle = panel._repr_mimebundle_()
    assert bundle is not None
    assert bundle[0]["text/plain"] == repr(panel) == "ChatUI()"
    assert "application/vnd.jupyter.widget-view+json" in bundle[0]


def test_the_agent_is_built_by_the_worker_when_the_panel_is_first_seen() -> None:
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


def test_an_agent_that_cannot_be_built_leaves_the_reason_and_the_draft() -> None:
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


@pytest.mark.parametrize("keep", [True, -1, "many", 2.5, None])
def test_invalid_options_of_a_compaction_are_ignored(
    keep: object, panel_with: MakePanel
) -> None:
    assert whole_number(keep) is None
    assert whole_number(0) == 0
    panel = panel_with()
    panel.view_says(type="compact", focus=5, keep=keep)
    assert '"queue": ["/compact"]' in json.dumps(settled(panel))
    panel.view_says(type="compact", focus="printers", keep=0)
    assert '"queue": ["/compact printers"]' in json.dumps(settled(panel))


def test_views_are_answered_by_the_token_of_the_one_that_asked(
    panel_with: MakePanel,
) -> None:
    panel = panel_with(says("hello"))
    panel.ask("hi")
    settled(panel)
    assert panel.answer_to(type="plan", keep=None)["messages"] == 2
    page = panel.answer_to(type="history", query="HI", before=None)
    assert "hi" in page["items"][0]["html"]


def test_history_can_be_read_while_an_answer_streams(panel_with: MakePanel) -> None:
    panel = panel_with(SLOW)
    panel.ask("Talk.")
    panel.await_operation("text")
    assert panel.answer_to(type="history", query="", before=None)["total"] == 1
    assert panel.is_busy


def test_a_question_that_cannot_be_answered_gets_the_reason() -> None:
    def build() -> Agent:
        raise ConfigError("no key; set OPENAI_API_KEY")

    panel = Panel(build=build)
    answer = panel.answer_to(type="plan", keep=None)
    assert answer == {"type": "refused", "reason": "no key; set OPENAI_API_KEY"}
    panel.close()


def test_settings_are_offered_where_somebody_knows_them(panel_with: MakePanel) -> None:
    def broken(_agent: Agent) -> list[Any]:
        raise ValueError("<b>")

    assert shown().state["has_settings"] is False
    panel = Panel(Agent(ScriptedProvider()), settings=broken)
    assert panel.answer_to(type="settings")["reason"] == "ValueError: <b>"
    panel.view_says(type="hello")
    assert panel.sent[-1]["state"]["has_settings"] is True
    panel.close()
    panel = Panel(Agent(ScriptedProvider()), settings=lambda _agent: [])
    assert panel.answer_to(type="settings")["settings"] == []
    panel.close()


def test_messages_the_protocol_does_not_know_are_ignored(panel_with: MakePanel) -> None:
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
        {"type": "settings", "token": "t"},
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


def test_interrupting_wait_stops_the_answer(
    panel_with: MakePanel, interruptible: None
) -> None:
    panel = panel_with(says("word " * 10_000, delay_seconds=0.005))
    panel.ask("Talk.")
    panel.await_operation("text")
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    assert panel.wait()
    assert panel.session.transcript[-1].is_incomplete


def test_close_ends_both_threads(panel_with: MakePanel) -> None:
    others = set(threading.enumerate())
    panel = panel_with(SLOW)
    panel.ask("Talk.")
    panel.await_operation("text")
    panel.close()
    deadline = time.monotonic() + 5
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
    assert panel.wait(20)
    assert databases_open() == 1


def test_python_may_stop_too(panel_with: MakePanel) -> None:
    panel = panel_with(SLOW)
    panel.ask("Talk.")
    panel.await_operation("text")
    panel.stop()
    assert panel.wait(10)


def test_a_session_that_was_there_before_is_shown_with_its_banner() -> None:
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


def test_a_turn_that_ran_elsewhere_is_shown_after_a_refresh(
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


def test_finished_blocks_become_html_while_the_answer_goes_on() -> None:
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


def test_a_finished_entry_replaces_what_was_streamed_of_it() -> None:
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


def test_half_a_compaction_goes_when_its_turn_ends() -> None:
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
def test_the_banner_takes_the_place_of_the_running_one(
    event: Event, words: str
) -> None:
    view = shown(CompactionStarted("manual", 4, 900), event)
    assert list(view.items) == [0]
    assert words in view.items[0]


def test_a_compaction_in_parts_says_how_far_it_has_come() -> None:
    started = CompactionStarted("manual", 4, 900)
    view = shown(started, CompactionProgress(1, 5))
    assert view.state["activity"] == "Compacting, part 2 of 5"
    view = shown(started, CompactionProgress(1, 5), Compacted(RECORD))
    assert view.state["activity"] == ""


AUTOMATIC = replace(RECORD, trigger="cumulative")


def test_a_panel_that_does_not_notify_shows_no_banner_of_an_automatic_compaction() -> (
    None
):
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
def test_what_a_person_did_and_what_failed_is_told_without_notifications(
    events: tuple[Event, ...],
) -> None:
    assert len(shown(*events, notifies=False).items) == 1


def test_notifications_can_be_turned_off_later_and_hold_for_a_reloaded_session() -> (
    None
):
    session = Session([("user", "q"), ("assistant", "a")], compactions=[AUTOMATIC])
    panel, view = Panel(Agent(ScriptedProvider(), session=session)), View()
    assert panel.notifies
    panel.notifies = False
    panel.view_says(type="hello")
    panel.await_operation("restart")
    panel.view_says(type="hello")
    view.receive(panel.sent[-1])
    assert view.state["notifies"] is False
    assert len(view.items) == 2
    assert view.state["summary"]["messages"] == 2
    assert "Compaction" in str(panel.answer_to(type="history", query="", before=None))
    panel.close()
    panel = Panel(Agent(ScriptedProvider()), notifies=False)
    assert panel.notifies is False
    panel.close()


def test_the_summary_in_force_stands_by_itself_until_it_is_undone(
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


def test_the_policy_in_force_is_told_even_if_it_is_ones_own() -> None:
    engine = CompactionEngine(policy=Policy("mine", meter="off"))
    view = shown(AgentReady(Agent(ScriptedProvider(), engine=engine)))
    assert view.state["policy"] == "mine"
    assert view.state["policies"] == list(PRESETS)
    engine = CompactionEngine(policy="off")
    assert (
        shown(AgentReady(Agent(ScriptedProvider(), engine=engine))).state["policy"]
        == "off"
    )


def test_an_undone_compaction_changes_its_banner_and_says_so_below() -> None:
    undone = Compaction("c1", 0, 2, "S", status="undone", messages=2)
    view = shown(Compacted(RECORD), TextDelta("x"), CompactionUndone(undone))
    assert "Compaction undone" in view.items[0]
    assert "sees the original 2 messages again" in view.items[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("redone", "Compaction redone"),
        ("edited", "Summary edited"),
        ("regenerated", "Summary regenerated"),
    ],
)
def test_a_changed_compaction_has_its_banner_redrawn_and_says_so_below(
    change: Change, words: str
) -> None:
    changed = replace(RECORD, summary="<summary>T</summary>")
    begun = [CompactionStarted("manual", 4, 900)] if change == "regenerated" else []
    view = shown(Compacted(RECORD), *begun, CompactionChanged(changed, change))
    assert list(view.items) == [0, 1]
    assert "<p>T</p>" in view.items[0]
    assert "Compaction occurred" in view.items[0]
    assert words in view.items[1]
    assert "running" not in view.items[1]
    assert view.state["activity"] == ""


def test_a_failed_rewrite_leaves_the_banner_of_the_summary_in_force() -> None:
    failed = replace(RECORD, status="failed", reason="echo", summary="")
    begun = CompactionStarted("manual", 4, 900, failed)
    view = shown(Compacted(RECORD), begun, CompactionFailed(failed))
    assert "Compaction occurred" in view.items[0]
    assert "the conversation is unchanged" in view.items[1]
    assert "echo" in view.items[1]


def test_a_reloaded_session_shows_each_compaction_where_it_happened(
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


def test_changed_pins_are_a_line_of_their_own() -> None:
    view = shown(PinsChanged(("a",)))
    assert "Pins changed: 1 rule pinned" in view.items[0]


def test_a_session_shown_anew_forgets_the_compaction_that_was_running() -> None:
    begun = CompactionStarted("manual", 4, 900)
    ready = AgentReady(Agent(ScriptedProvider()))
    view = shown(begun, ready, TurnFinished("stopped", 0))
    assert view.items == {}


def test_a_retry_is_counted_down_until_something_arrives() -> None:
    retry = RetryScheduled(2, 3.5, "busy \ud800")
    assert shown(retry).state["retry"] == {
        "attempt": 2,
        "seconds": 3.5,
        "reason": "busy \ufffd",
    }
    assert shown(retry, TextDelta("x")).state["retry"] is None


@pytest.mark.parametrize(
    "event",
    [CompactionProgress(1, 5), Compacted(RECORD), CompactionFailed(RECORD)],
)
def test_a_retry_for_a_summary_ends_when_the_compaction_goes_on(event: Event) -> None:
    started = CompactionStarted("manual", 4, 900)
    view = shown(started, RetryScheduled(1, 2.0, "busy"), event)
    assert view.state["retry"] is None


def test_the_meter_follows_what_is_reported() -> None:
    view = shown(UsageReported(Usage(10, 5), 1_234, 5_000, 900, None))
    assert view.state["meter"] == {
        "tokens": 1_234,
        "threshold": 5_000,
        "context": 900,
        "window": None,
    }


def test_the_meter_is_read_again_after_a_compaction(panel_with: MakePanel) -> None:
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


def test_errors_and_odd_ends_are_told() -> None:
    view = shown(
        TurnStarted("x"),
        SavingFailed("disk full"),
        TurnFinished("max_tokens", 1),
        TurnFailed("no key"),
        QueueChanged(("next",)),
        QueueChanged(()),
        Idle(),
    )
    text = "".join(view.items.values())
    for words in ("disk full", "output limit", "no key"):
        assert words in text
    assert view.state["is_busy"] is False


def test_stop_can_be_seen_from_the_first_moment() -> None:
    assert shown(QueueChanged(("hi",))).state["is_busy"] is True


def test_a_command_answers_in_the_transcript() -> None:
    class Outcome:
        text = "tokens 5"
        events = iter([Compacted(RECORD)])

    panel = Panel(
        Agent(ScriptedProvider()), commands=lambda _agent, _line, stop: Outcome()
    )
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


def test_a_busy_provider_shows_its_countdown(panel_with: MakePanel) -> None:
    panel = panel_with(fails(Overloaded("busy", retry_after=0.1)), says("ok"))
    panel.view_says(type="hello")
    panel.ask("hi")
    assert '"retry": {"attempt"' in json.dumps(settled(panel))


@pytest.mark.parametrize("text", ["\n", " \n", "a\n\n", "- a\n\n", "```\n\n"])
def test_an_answer_of_blank_lines_costs_no_time(text: str) -> None:
    """A hundred thousand newlines took over a minute, at every further delta."""
    state = PanelState()
    began = time.process_time()
    for _ in range(3):
        state.fold(TextDelta(text * (30_000 // len(text))))
    assert time.process_time() - began < 5
