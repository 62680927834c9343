"""What streaming.py measures, run in a notebook's kernel: one answer on one surface.

feed = Feed("nbchat", 8_000, 200)
feed.surface   # as a cell's last line
feed.play()    # in the next cell; returns the figures as JSON
"""

import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TextDelta
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.providers.base import ReplyStream, Request
from nbchat.testing import ScriptedProvider, says

ROOT = Path(__file__).parents[2]
CHATS = ROOT / "tests" / "data" / "chats_oasst.jsonl.gz"

PIECE_CHARACTERS = 4
HERTZ = 20
LATENCY_SECONDS = 1.0
"""Before the first piece, as a server takes some time."""

LOADED = time.process_time()
"""CPU of the kernel when this was imported."""

_FUNCTION = re.compile(r"^def .*?(?=^\S(?!\)))", re.MULTILINE | re.DOTALL)


def answer_text(size: int) -> str:
    """Real Markdown: numbered parts with people's answers, lists and Python code."""
    answers, functions = _answers(), _functions()
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        number = len(parts)
        said, code = answers[number % len(answers)], functions[number % len(functions)]
        parts.append(
            f"## Part {number:04}\n\n{said}\n\n- **first**, `{number}`\n- second\n\n"
            f"```python\n{code.rstrip()}\n```\n\n"
        )
    return "".join(parts)[:size].rstrip("`\n ") + "\n```\n\nTHE-END."


def _answers() -> list[str]:
    lines = gzip.decompress(CHATS.read_bytes()).decode().splitlines()
    chats = [json.loads(line) for line in lines]
    said = [each for chat in chats for each in chat["messages"]]
    texts = [each["content"] for each in said if each["role"] == "assistant"]
    return [text for text in texts if "```" not in text and 300 < len(text) < 1_500]


def _functions() -> list[str]:
    """Short Python functions, of this project."""
    sources = sorted((ROOT / "nbchat").glob("*.py"))
    found = [f for each in sources for f in _FUNCTION.findall(each.read_text("utf-8"))]
    return [function for function in found if 200 < len(function) < 1_200]


class Paced(ScriptedProvider):
    """A model that says each answer in pieces of four characters, so many a second."""

    def __init__(self, pieces_per_second: float, *texts: str) -> None:
        super().__init__(*map(says, texts), window=None)
        self.pieces_per_second = pieces_per_second
        self.first = self.last = 0.0

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        line = next(iter(self._lines))
        time.sleep(LATENCY_SECONDS)
        self.first = time.time()
        for piece in paced(line.text, self.pieces_per_second):
            yield TextDelta(piece)
        self.last = time.time()
        return self._reply(request, line)


def paced(text: str, pieces_per_second: float) -> Iterator[str]:
    """The pieces of a text, each when its time has come."""
    began = time.perf_counter()
    for number, start in enumerate(range(0, len(text), PIECE_CHARACTERS)):
        wait = began + number / pieces_per_second - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        yield text[start : start + PIECE_CHARACTERS]


class CountingPanel(ChatUI):
    """A panel that counts what it sends."""

    sent = 0

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent += 1
        super().send(content, buffers)


class DeltaWidget(anywidget.AnyWidget):
    """The least a widget can do: text is sent and appended."""

    _esm = """export default { render({ model, el }) {
        const node = document.createTextNode("");
        const box = document.createElement("div");
        box.style = "white-space: pre-wrap; height: 480px; overflow: auto";
        box.append(node);
        el.append(box);
        model.on("msg:custom", ({ text }) => {
            node.appendData(text);
            box.scrollTop = box.scrollHeight;
        });
    } }"""


class Feed:
    """One answer, on one surface, at one speed."""

    def __init__(self, method: str, size: int, pieces_per_second: float) -> None:
        self.text = answer_text(size)
        self.pieces_per_second = pieces_per_second
        self.sent = 0
        self.first = self.last = 0.0
        surface, self._run = METHODS[method](self)
        self.surface = surface

    def play(self) -> str:
        """Stream it all; when, what was sent, and the CPU it took, as JSON."""
        began = time.process_time()
        self._run()
        time.sleep(0.3)  # the last batch
        spent = time.process_time() - began
        figures = {"first": self.first, "last": self.last, "sent": self.sent}
        return json.dumps(
            {**figures, "cpu": spent, "parts": self.text.count("## Part")}
        )

    def pieces(self) -> Iterator[str]:
        """The pieces in their time, after the server's latency."""
        time.sleep(LATENCY_SECONDS)
        self.first = time.time()
        yield from paced(self.text, self.pieces_per_second)
        self.last = time.time()

    def batches(self) -> Iterator[str]:
        """The pieces of each twentieth of a second together."""
        waiting, sent_at = "", 0.0
        for piece in self.pieces():
            waiting += piece
            if time.perf_counter() - sent_at >= 1 / HERTZ:
                yield waiting
                waiting, sent_at = "", time.perf_counter()
        yield waiting


Method = Callable[[Feed], tuple[Any, Callable[[], None]]]


def _nbchat(feed: Feed) -> tuple[Any, Callable[[], None]]:
    model = Paced(feed.pieces_per_second, feed.text)
    panel = CountingPanel(Agent(model))

    def run() -> None:
        before = panel.sent
        panel.ask("Tell me all.")
        panel.wait()
        time.sleep(0.2)
        feed.first, feed.last = model.first, model.last
        feed.sent = panel.sent - before

    return panel, run


def _delta(feed: Feed) -> tuple[Any, Callable[[], None]]:
    widget = DeltaWidget()

    def run() -> None:
        for batch in feed.batches():
            widget.send({"text": batch})
            feed.sent += 1

    return widget, run


def _html(feed: Feed, pieces: Callable[[], Iterator[str]]) -> Any:
    widget = ipywidgets.HTML()

    def run() -> None:
        shown = ""
        for piece in pieces():
            shown += piece
            widget.value = shown
            feed.sent += 1

    return widget, run


def _output(feed: Feed) -> tuple[Any, Callable[[], None]]:
    widget = ipywidgets.Output()

    def run() -> None:
        with widget:
            for piece in feed.pieces():
                print(piece, end="", flush=True)
                feed.sent += 1

    return widget, run


METHODS: dict[str, Method] = {
    "nbchat": _nbchat,
    "delta 20 Hz": _delta,
    "HTML 20 Hz": lambda feed: _html(feed, feed.batches),
    "HTML each": lambda feed: _html(feed, feed.pieces),
    "Output": _output,
}


def long_session(messages: int) -> Session:
    """A conversation of at least so many entries: turns of six, two tools in each."""
    answers, functions = _answers(), _functions()
    said: list[Entry] = []
    while len(said) < messages:
        number = len(said) // 6
        code = functions[number % len(functions)]
        table = f"| a | b |\n|---|--:|\n| x | {number} |"
        answer = f"Answer {number}. {answers[number % len(answers)]}\n\n{table}"
        names = (f"call_{number}_a", f"call_{number}_b")
        result = json.dumps({"order": number, "rows": [1] * 40})
        said += [
            Entry("user", f"Question {number}: {answers[number % 7][:200]}"),
            *(
                Entry("assistant", "", each, "look_up", '{"order": 1}')
                for each in names
            ),
            *(Entry("tool", result, each, "look_up") for each in names),
            Entry("assistant", f"{answer}\n\n```python\n{code}```"),
        ]
    return Session(said)


def long_chat(messages: int) -> ChatUI:
    """A panel on a long conversation whose model answers at 200 pieces a second."""
    answer = answer_text(2_000)
    model = Paced(200, *[answer] * 20)
    engine = CompactionEngine(policy="off")
    session = long_session(messages)
    return ChatUI(build=partial(Agent, model, session=session, engine=engine))


def spent() -> float:
    """Seconds of the kernel's CPU since this was imported."""
    return round(time.process_time() - LOADED, 2)
