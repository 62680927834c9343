"""A scripted provider: for tests, docs and demo notebooks.

    provider = ScriptedProvider(says("Hello."), calls("add", a=1, b=2), says("3."))

Everything else (agent, engine, store, panel) is real.
"""

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import TextDelta
from nbchat.errors import NbchatError, Stopped
from nbchat.providers.base import Reply, ReplyStop, ReplyStream, Request, wire_text
from nbchat.providers.model_info import ModelInfo, Prices
from nbchat.providers.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Line:
    """One scripted response: an answer, calls, or an error to raise."""

    text: str = ""
    calls: tuple[Entry, ...] = ()
    stop_reason: ReplyStop = "end_turn"
    usage: Usage | None = None
    error: NbchatError | None = None
    delay_seconds: float = 0.0
    """Wait before each piece of text."""


def says(
    text: str,
    *,
    tokens: int | None = None,
    stop_reason: ReplyStop = "end_turn",
    delay_seconds: float = 0.0,
) -> Line:
    """An answer; `tokens` is the input size it reports, counted by default."""
    usage = None if tokens is None else Usage(tokens, 10)
    return Line(text, (), stop_reason, usage, delay_seconds=delay_seconds)


def calls(tool_name: str, /, *, tokens: int | None = None, **arguments: object) -> Line:
    """A call of one tool."""
    call = Entry("assistant", "", "", tool_name, json.dumps(arguments))
    usage = None if tokens is None else Usage(tokens, 10)
    return Line(calls=(call,), stop_reason="tool_use", usage=usage)


def fails(error: NbchatError) -> Line:
    """A request that fails with `error`."""
    return Line(error=error)


ScriptedReply = Line | Callable[[Request], Line]


class ScriptedProvider:
    """Replies with its lines one by one; `requests` holds all requests it got.

    A line may be a function of the request. After the last line the model answers
    "(end of script)". Token counts come from the real counter unless a line gives its
    own, so triggers and thresholds behave as with a live model.
    """

    def __init__(
        self,
        *lines: ScriptedReply,
        name: str = "scripted:model",
        window: int | None = 100_000,
        prices: Prices | None = None,
    ) -> None:
        """Reply with `lines` in order; without `prices` their cost is unknown."""
        self.name = name
        self.requests: list[Request] = []
        self._lines: Iterable[ScriptedReply] = iter(lines)
        self._window = window
        self._prices = prices
        self._counter = TokenCounter()

    def __repr__(self) -> str:
        """The name, without the script."""
        return f"<ScriptedProvider {self.name}>"

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        """The next line, word by word."""
        self.requests.append(request)
        line = next(iter(self._lines), says("(end of script)"))
        if callable(line):
            line = line(request)
        if line.error is not None:
            raise line.error
        for piece in _words(line.text):
            _wait(line.delay_seconds, stop)
            yield TextDelta(piece)
        return self._reply(request, line)

    def info(self) -> ModelInfo:
        """The model with the window and prices given."""
        return ModelInfo(self.name, window=self._window, prices=self._prices)

    def count_tokens(self, request: Request) -> int:
        """Tokens of the whole request by the local counter."""
        entries = [
            entry._replace(content=wire_text(entry)) for entry in request.history
        ]
        schemas = json.dumps([each.parameters for each in request.tools])
        fixed = self._counter.count(request.system) + self._counter.count(schemas)
        self._counter.keep(entries)
        return fixed + self._counter.count_entries(entries)

    def _reply(self, request: Request, line: Line) -> Reply:
        number = len(self.requests)
        said = [Entry("assistant", line.text)] if line.text else []
        asked = [
            call._replace(tool_id=call.tool_id or f"call_{number}_{index}")
            for index, call in enumerate(line.calls)
        ]
        entries = (*said, *asked)
        usage = line.usage or Usage(
            self.count_tokens(request), self._counter.count_entries(entries)
        )
        priced = self.info().priced(usage)
        return Reply(entries, priced, line.stop_reason, self.name)


def _words(text: str) -> list[str]:
    return [word for word in text.replace(" ", " \0").split("\0") if word]


def _wait(seconds: float, stop: threading.Event | None) -> None:
    flag = stop or threading.Event()
    if flag.wait(seconds) if seconds else flag.is_set():
        raise Stopped("stopped")
