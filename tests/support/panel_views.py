"""A panel whose messages are kept, and a view that reads them without a browser."""

import json
import time
from html import escape
from typing import Any

from panel_protocol import is_valid

from nbchat.jupyter.panel.chat_ui import ChatUI


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
        deadline = time.monotonic() + 10
        while not (heard := [each for each in self.sent if "token" in each]):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert is_valid(heard[-1], "kernel_to_view")
        assert heard[-1].pop("token") == "t1"
        return heard[-1]

    def await_operation(self, name: str) -> None:
        """Block until a batch had an operation of this name."""
        deadline = time.monotonic() + 10
        while name not in operations(self.sent):
            assert time.monotonic() < deadline
            time.sleep(0.005)


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
