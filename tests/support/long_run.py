"""Replay long sessions through the real agent; measure what is readable when needed.

A value is *needed* when a call names it, it was said before, and no system prompt or
tool spells it out (`needed_values.py`: 3 to 80 characters, a whole word).
It is *remembered* when it does not stand in the newest two entries, which every engine
keeps: what was asked or returned last. Which values are remembered does not depend on
the policy. A value is *readable* when it stands in the history that the model is sent
with the request that makes the call. The context is the history, without system prompt
and tools.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from long_sessions import LongSession
from measures import COUNTER
from needed_values import Past, has_word, texts

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TurnFailed
from nbchat.providers.base import ReplyStream, Request
from nbchat.testing import Replay

WINDOW = 24_000
NEWEST = 2
"""Entries in which a value need not be remembered."""

FORGOTTEN_SHARE = 0.2
"""Share of its lines that the forgetful summariser drops each time."""

Story = Literal["none", "copy", "forgetful"]
"""What the model's summaries say: nothing, the beginning of each prompt, or the old
summary and all messages, of which each line is dropped with a chance of a fifth."""

_TAG = re.compile(r"</?(?:user|assistant|call|result)\b[^>\n]*>")

_LONG_NUMBER = re.compile(r"#?\b[A-Z]?\d{5,}\b")

NO_STORY = "(no story was written)"


@dataclass(frozen=True)
class Memory:
    """The remembered values of the calls of one reply."""

    domain: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """A session as the agent replays it, and what each reply remembers."""

    session: LongSession

    @cached_property
    def memories(self) -> list[Memory]:
        """One for each reply, in order."""
        before: list[Entry] = []
        past, found = Past(), list[Memory]()
        for turn in Replay(self.session.entries).turns:
            said = [Entry("user", turn.text)]
            for step in turn.steps:
                before += said
                past.add(said)
                found.append(self._memory(step.said, past, texts(before[-NEWEST:])))
                said = [*step.said, *(Entry("tool", text) for text in step.results)]
            before += said
            past.add(said)
        return found

    def _memory(self, said: Sequence[Entry], past: Past, newest: str) -> Memory:
        calls = [entry for entry in said if entry.is_call]
        values = dict.fromkeys(
            value
            for call in calls
            for value in past.used_by(call)
            if not has_word(newest, value) and not self._is_known(value)
        )
        domain = self.session.domains[calls[0].tool_id] if calls else ""
        return Memory(domain, tuple(values))

    def _is_known(self, value: str) -> bool:
        known = self.session.known
        return value in known and has_word(known, value)


@dataclass
class Measured:
    """Counts over one or more sessions."""

    needed: Counter[str] = field(default_factory=Counter)
    """Remembered values by domain."""
    readable: Counter[str] = field(default_factory=Counter)
    contexts: list[int] = field(default_factory=list)
    summaries: list[int] = field(default_factory=list)
    """Tokens of the summary entry in each request that has one."""
    compactions: int = 0
    failed: int = 0
    missed: list[str] = field(default_factory=list)

    def count(self, memory: Memory, history: Sequence[Entry]) -> None:
        """Count one request."""
        view = texts(history) if memory.values else ""
        for value in memory.values:
            is_readable = value in view and has_word(view, value)
            self.needed[memory.domain] += 1
            self.readable[memory.domain] += is_readable
            if not is_readable:
                self.missed.append(value)
        self.contexts.append(COUNTER.count_entries(history))
        if history and history[0].role == "summary":
            self.summaries.append(COUNTER.count_entry(history[0]))

    def share(self, domains: Iterable[str] = ()) -> float:
        """Share of the remembered values that is readable; of all domains by default."""
        chosen = [*domains] or [*self.needed]
        needed = sum(self.needed[domain] for domain in chosen)
        return sum(self.readable[domain] for domain in chosen) / max(needed, 1)

    @property
    def mean_context(self) -> float:
        """Tokens of the history in a request, on average."""
        return sum(self.contexts) / max(len(self.contexts), 1)

    @property
    def mean_summary(self) -> float:
        """Tokens of the summary entry, on average over the requests with one."""
        return sum(self.summaries) / max(len(self.summaries), 1)


class Recorded(Replay):
    """A replay that measures each request, and whose summaries say what is wanted."""

    def __init__(
        self, script: Script, measured: Measured, *, story: Story, window: int
    ) -> None:
        """`window` is the model's context window in tokens."""
        super().__init__(script.session.entries, window=window)
        self._memories = iter(script.memories)
        self._measured = measured
        self._story = story
        self._chance = random.Random(1)
        self._lines: list[str] = []

    def stream(self, request: Request, *, stop: object = None) -> ReplyStream:
        """The next recorded reply, or a summary."""
        del stop
        if request.answer_tag:
            text = self._told(request)
            yield from ()
            return self._reply(request, (Entry("assistant", text),), "")
        memory = next(self._memories)
        self._measured.count(memory, request.history)
        return (yield from super().stream(request))

    def _told(self, request: Request) -> str:
        if self._story == "none":
            return f"<summary>{NO_STORY} {_first_value(request)}</summary>"
        if self._story == "copy":
            return self._summary()
        return f"<summary>\n{self._remembered(request)}\n</summary>"

    def _remembered(self, request: Request) -> str:
        """The old summary and what was said since, without a fifth of the lines."""
        said = "\n".join(entry.content for entry in request.history)
        lines = (
            _TAG.sub("", line) for line in said.splitlines() if "summary>" not in line
        )
        new = [line.strip() for line in lines if len(line.split()) > 2]
        known = dict.fromkeys([*self._lines, *new])
        room = int((request.max_output_tokens or 1_500) / 2)
        self._lines = []
        for line in reversed(known):
            room -= COUNTER.count(line)
            if room < 0:
                break
            if self._chance.random() >= FORGOTTEN_SHARE:
                self._lines.insert(0, line)
        return "\n".join(self._lines)


def _first_value(request: Request) -> str:
    """The first long number that a request asks to summarize.

    A summary without any value is refused where the conversation has many.
    """
    asked = "\n".join(f"{entry.content} {entry.tool_args}" for entry in request.history)
    data = asked.partition("</transcript>")[0]
    return next(iter(_LONG_NUMBER.findall(data)), "")


def replay(
    script: Script,
    measured: Measured,
    engine: CompactionEngine,
    *,
    story: Story = "none",
    window: int = WINDOW,
) -> Agent:
    """Run a session to its end; raises the error of a turn that fails."""
    model = Recorded(script, measured, story=story, window=window)
    agent = Agent(model, tools=model.tools, engine=engine)
    for turn in model.turns:
        agent.max_steps = len(turn.steps)
        for event in agent.run(turn.text):
            if isinstance(event, TurnFailed):
                raise event.error
    records = agent.session.compactions
    measured.compactions += sum(r.is_active and r.kind == "summary" for r in records)
    measured.failed += sum(r.status in ("failed", "degraded") for r in records)
    return agent


def slide(script: Script, measured: Measured, *, tokens: int) -> None:
    """What a plain window of the newest tokens would have held."""
    said: list[Entry] = []
    memories = iter(script.memories)
    for turn in Replay(script.session.entries).turns:
        said.append(Entry("user", turn.text))
        for step in turn.steps:
            measured.count(next(memories), newest(said, tokens))
            said += [*step.said, *(Entry("tool", text) for text in step.results)]


def newest(said: Sequence[Entry], tokens: int) -> list[Entry]:
    """The newest entries that fit into so many tokens."""
    kept: list[Entry] = []
    for entry in reversed(said):
        tokens -= COUNTER.count_entry(entry)
        if tokens < 0:
            break
        kept.insert(0, entry)
    return kept
