"""A panel whose messages are kept, and a view that reads them without a browser."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from panel_protocol import check, is_valid

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import ChatEvent, RunnerEvent
from nbchat.chat.chat_runner import RunCommand
from nbchat.chat.commands import Commands
from nbchat.conversation.events import Event
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.providers.model_info import Prices
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider

PRICES = Prices(input=2.0, cache_read=0.2, cache_write=2.5, output=10.0)


class Panel(ChatUI):
    """A panel whose messages are kept, with the time they were sent at."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.times: list[float] = []
        super().__init__(*arguments, **options)

    def send(self, content: dict[str, Any], _buffers: object = None) -> None:
        self.sent.append(json.loads(json.dumps(content)))
        self.times.append(time.monotonic())

    def view_says(self, **content: Any) -> None:
        """What arrives when a view sends a message."""
        self._handle_custom_msg(content, [])

    def answer_to(self, **question: Any) -> dict[str, Any]:
        """What all views hear after one of them has asked."""
        self.view_says(**question, token="t1")
        deadline = time.monotonic() + 60
        while not (heard := [each for each in self.sent if "token" in each]):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert is_valid(heard[-1], "kernel_to_view")
        assert heard[-1].pop("token") == "t1"
        return heard[-1]

    def snapshot(self) -> dict[str, Any]:
        """What a view gets that is opened once the panel is idle."""
        assert self.wait(60)
        self.view_says(type="hello")
        # Something else may have been sent since by another thread.
        shown = next(e for e in reversed(self.sent) if e["type"] == "snapshot")
        check(shown, "kernel_to_view")
        return shown

    def edit_message(self, position: int, text: str) -> None:
        """Edit an earlier message, as a view does; waits for the answer."""
        message = {"type": "branch", "position": position, "text": text, "previews": []}
        check(message, "view_to_kernel")
        self.view_says(**message)
        assert self.wait(60)

    def await_operation(self, name: str) -> None:
        """Block until a batch had an operation of this name."""
        deadline = time.monotonic() + 60
        while name not in operations(self.sent):
            assert time.monotonic() < deadline
            time.sleep(0.005)


class Replying(Commands):
    """Commands that a test makes up, on a store of their own."""

    def __init__(self, reply: RunCommand) -> None:
        super().__init__(SessionStore("sqlite://"))
        self._reply = reply

    def __call__(
        self, agent: Agent, line: str, stop: threading.Event | None = None
    ) -> Iterable[ChatEvent]:
        return self._reply(agent, line, stop or threading.Event())


class View:
    """What the page does with the messages, without drawing it."""

    def __init__(self) -> None:
        self.sequence: int | None = None
        self.items: dict[int, str] = {}
        self.live: dict[str, dict[str, str]] = {}
        self.state: dict[str, Any] = {}

    def receive(self, message: dict[str, Any]) -> bool:
        """Take a message; False when something is missing before it."""
        if message["type"] == "snapshot":
            self.sequence = message["seq"]
            self.items = {item["key"]: item["html"] for item in message["items"]}
            self.live = json.loads(json.dumps(message["live"]))
            self.state = dict(message["state"])
        elif self.sequence is None or message["seq"] != self.sequence + 1:
            return False
        else:
            self.sequence = message["seq"]
            for operation in message["events"]:
                self.apply(operation)
        return True

    def whole(self, item: dict[str, Any]) -> str:
        """An item with what was streamed of it."""
        html, kind = item["html"], item.get("streamed")
        if kind is None:
            return str(html)
        live, mark = self.live[kind], "md"
        streamed = live["html"]
        if kind == "thinking":
            streamed, mark = escape(live["text"]), "text"
        start, begins, rest = html.partition(f'<div class="nbc-{mark}">')
        return f"{start}{begins}{streamed}{rest}"

    def apply(self, operation: dict[str, Any]) -> None:
        match operation:
            case {"op": "item", "key": key}:
                self.items[key] = self.whole(operation)
            case {"op": "restart", "items": items}:
                self.items = {item["key"]: item["html"] for item in items}
            case {"op": "drop", "key": key}:
                del self.items[key]
            case {"op": "text", "kind": kind, "text": text}:
                self.live.setdefault(kind, {"html": "", "text": ""})["text"] += text
            case {"op": "block", "kind": kind, "html": html, "text": text}:
                live = self.live.setdefault(kind, {"html": "", "text": ""})
                live.update(html=live["html"] + html, text=text)
            case {"op": "settle", "kind": kind}:
                del self.live[kind]
            case {"op": "state", "state": news}:
                self.state.update(news)


def operations(messages: list[dict[str, Any]]) -> list[str]:
    """The names of all operations, in order."""
    batches = [message for message in messages if message["type"] == "events"]
    return [operation["op"] for batch in batches for operation in batch["events"]]


def settled(panel: Panel) -> list[dict[str, Any]]:
    """All messages, once the panel is idle and the last batch was sent."""
    assert panel.wait(60)
    deadline = time.monotonic() + 60
    idle = '"is_busy": false'
    while not panel._sync.is_flushed or idle not in json.dumps(panel.sent[-1:]):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return panel.sent


def shown(*events: Event | RunnerEvent, notifies: bool = True) -> View:
    """What a view shows after these events; a snapshot shows the same."""
    state, view, later = PanelState(clock=lambda: 0.0), View(), View()
    state.set_notifies(notifies=notifies)
    view.receive({"type": "snapshot", "seq": 0, **state.snapshot()})
    for operation in ran(state, events):
        assert is_valid({"type": "events", "seq": 1, "events": [operation]}, "events")
        view.apply(operation)
    later.receive({"type": "snapshot", "seq": 0, **state.snapshot()})
    assert (view.items, view.live, view.state) == (later.items, later.live, later.state)
    return view


def look_up(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def agent_with(*lines: Line, **options: Any) -> Agent:
    """An agent with a tool, whose answers have a price."""
    return Agent(ScriptedProvider(*lines, prices=PRICES), tools=[look_up], **options)


def folded(state: PanelState, *events: Event | RunnerEvent) -> list[dict[str, Any]]:
    """All operations of events."""
    return ran(state, events)


def ran(
    state: PanelState, events: Iterable[Event | RunnerEvent]
) -> list[dict[str, Any]]:
    """All operations of a turn, each event shown before the next one happens."""
    return [operation for event in events for operation in state.fold(event)]


def items(operations: list[dict[str, Any]]) -> list[str]:
    """The HTML of all new items, in order."""
    return [each["html"] for each in operations if each["op"] == "item"]


def shown_page(state: PanelState) -> list[str]:
    """The HTML of the newest page."""
    return [item["html"] for item in state.snapshot()["items"]]


def kinds(htmls: list[str]) -> list[str]:
    """The CSS class of each item, without its prefix."""
    found = (re.search(r'class="(?:nbc-entry )?nbc-([\w-]+)"', html) for html in htmls)
    return [kind.group(1) if kind else "" for kind in found]


def text_of(html: str) -> str:
    """HTML without its tags."""
    return re.sub(r"<[^>]+>", "", html)


MakePanel = Callable[..., Panel]
