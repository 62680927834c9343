"""Replay a recorded conversation: for measurements, and notebooks without a model.

    replay = Replay(entries, window=32_000)
    agent = Agent(replay, tools=replay.tools, system=system)
    for turn in replay.turns:
        list(agent.run(turn.text))

Agent, engine, triggers and policies are real; the model's replies and the results of
its tools are recorded. A summary request is answered by the beginning of each prompt.
"""

import gzip
import json
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import calls_by_result, turns
from nbchat.providers.base import Reply, ReplyStream, Request, fixed_tokens, wire_text
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter

GREETING = "Hello."
"""The prompt of a recording that begins with a reply."""

LINE_LIMIT, MOST_LINES = 100, 40
"""Characters of each prompt in a summary, and the most prompts in it."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One reply, and the results of its calls in their order."""

    said: tuple[Entry, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A prompt and the replies to it."""

    text: str
    steps: tuple[RecordedStep, ...]


class Replay:
    """A provider that replays a conversation, with the usage of a real one."""

    def __init__(
        self, entries: Sequence[Entry], *, window: int | None = 100_000
    ) -> None:
        """`window` is the context window of the replayed model, in tokens."""
        self.name = "replay:model"
        self.turns = turns_of(entries)
        self._steps = deque(step for turn in self.turns for step in turn.steps)
        self._prompts = deque(turn.text for turn in self.turns for _ in turn.steps)
        self._asked: list[str] = []
        self._results: deque[str] = deque()
        self._window = window
        self._counter = TokenCounter()

    def __repr__(self) -> str:
        """The number of turns."""
        return f"<Replay of {len(self.turns)} turns>"

    @property
    def tools(self) -> list[Tool]:
        """Tools that return the recorded results; their schemas are empty."""
        said = (e for turn in self.turns for step in turn.steps for e in step.said)
        names = dict.fromkeys(entry.tool_name for entry in said if entry.is_call)
        return [Tool(n, "", {}, self._next_result) for n in names]

    def _next_result(self, **_arguments: object) -> str:
        return self._results.popleft()

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        """The next recorded reply, or a summary; without deltas."""
        del stop  # a reply is complete at once
        yield from ()
        if request.answer_tag:
            return self._reply(request, (Entry("assistant", self._summary()),), "")
        step, text = self._steps.popleft(), self._prompts.popleft()
        if text not in self._asked[-1:]:
            self._asked.append(text)
        self._results.extend(step.results)
        return self._reply(request, step.said, "tool_use" if step.results else "")

    def info(self) -> ModelInfo:
        """The window this was given."""
        return ModelInfo(self.name, window=self._window)

    def count_tokens(self, request: Request) -> int:
        """Tokens of the whole request by the local counter."""
        sent = [entry._replace(content=wire_text(entry)) for entry in request.history]
        self._counter.keep(sent)
        fixed = fixed_tokens(request.system, request.tools, self._counter)
        return fixed + self._counter.count_entries(sent)

    def _summary(self) -> str:
        lines = [" ".join(text.split())[:LINE_LIMIT] for text in self._asked]
        listed = "\n".join(f"- The user said: {line}" for line in lines[-MOST_LINES:])
        return f"<summary>\n{listed}\n</summary>"

    def _reply(self, request: Request, said: tuple[Entry, ...], stop: str) -> Reply:
        usage = Usage(self.count_tokens(request), self._counter.count_entries(said))
        return Reply(said, usage, "tool_use" if stop else "end_turn", self.name)


def recorded_desk() -> list[Entry]:
    """Twelve real conversations of customers with one help desk, in a row.

    429 entries, about 47,000 tokens; `data/LICENSES.md` names their source.
    """
    return _recorded("desk.jsonl.gz")


def recorded_coding() -> list[Entry]:
    """A real session of a coding agent that fixes a bug in a compiler's library.

    97 entries, about 14,000 tokens; `data/LICENSES.md` names its source.
    """
    return _recorded("coding.jsonl.gz")


def _recorded(file: str) -> list[Entry]:
    packed = (files("nbchat.testing") / "data" / file).read_bytes()
    rows = map(json.loads, gzip.decompress(packed).decode().splitlines())
    return [with_own_call_id(Entry(*texts), number) for number, *texts in rows]


def with_own_call_id(entry: Entry, number: int) -> Entry:
    """The entry with a call id that no other conversation, by its number, has."""
    if not entry.tool_id:
        return entry
    return entry._replace(tool_id=f"{number}_{entry.tool_id}")


def turns_of(entries: Sequence[Entry]) -> list[RecordedTurn]:
    """Entries as turns; replies before the first prompt answer a greeting."""
    return list(_turns(entries))


def _turns(entries: Sequence[Entry]) -> Iterator[RecordedTurn]:
    found = turns(entries)
    first = found[0].start if found else len(entries)
    for turn in [range(first), *found]:
        run = entries[turn.start : turn.stop]
        text = "\n".join(entry.content for entry in run if entry.is_of_user)
        steps = _steps([entry for entry in run if entry.role != "user"])
        if steps:
            yield RecordedTurn(text or GREETING, steps)


def _steps(replies: Sequence[Entry]) -> tuple[RecordedStep, ...]:
    """Replies, each with the results of its calls."""
    steps: list[list[Entry]] = []
    for entry in replies:
        if not steps or (steps[-1][-1].role == "tool" and entry.role != "tool"):
            steps.append([])
        steps[-1].append(entry)
    return tuple(map(_answered, steps))


def _answered(run: Sequence[Entry]) -> RecordedStep:
    """A reply, and the results in the order of its calls."""
    results = {call: run[index].content for index, call in calls_by_result(run).items()}
    reply = tuple(entry for entry in run if entry.role != "tool")
    calls = (index for index, entry in enumerate(run) if entry.is_call)
    return RecordedStep(reply, tuple(results.get(call, "") for call in calls))
