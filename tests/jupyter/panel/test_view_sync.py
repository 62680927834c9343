"""Batches and snapshots keep views in sync with the panel's state."""

import json
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from at_best import assert_within
from panel_protocol import is_valid
from panel_views import (
    MakePanel,
    Panel,
    View,
    operations,
    settled,
)

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import RunnerEvent
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import (
    Event,
    TextDelta,
)
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.panel_state import PanelState, Send, ViewSync
from nbchat.testing import ScriptedProvider, says


def synced(
    send: Send,
) -> tuple[ViewSync, Callable[[Event | RunnerEvent], None]]:
    """A ViewSync of a new state, and a function that shows events in it."""
    state = PanelState()
    sync = ViewSync(state, send)
    return sync, partial(sync.change, state.fold)


def test_all_batches_lead_to_the_state_of_a_snapshot(
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


def test_a_view_that_missed_a_batch_gets_a_snapshot(
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


def test_a_view_that_asks_gets_a_snapshot_even_if_it_missed_nothing(
    panel_with: MakePanel,
) -> None:
    panel = panel_with()
    panel.view_says(type="hello")
    hello = panel.sent[-1]
    panel.view_says(type="resync", seq=hello["seq"])
    assert panel.sent[-1] == hello
    assert panel.sent[-1] is not hello


def test_at_most_thirty_batches_are_sent_per_second(
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


def test_a_long_stream_is_sent_in_fewer_batches_and_its_start_at_once(
    panel_with: MakePanel,
) -> None:
    def first_pause() -> float:
        panel = panel_with(says("word " * 600, delay_seconds=0.005))
        panel.ask("Talk.")
        messages = settled(panel)
        texts = [
            moment
            for moment, message in zip(panel.times, messages, strict=True)
            if "text" in operations([message])
        ]
        pauses = [after - before for before, after in pairwise(texts)]
        assert sum(pauses[-6:-1]) > 5 * 0.095
        return min(pauses[:3])

    assert_within(0.08, first_pause)


def test_a_block_replaces_its_text_within_a_batch() -> None:
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


def test_the_batch_after_a_failed_one_has_the_next_number() -> None:
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


def test_a_long_session_is_sent_in_pages_from_its_end() -> None:
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
