"""What later tool calls need of earlier ones, and whether a text still holds it.

A value counts when a call after the cut uses it and it stood before the cut as a whole
word: 3 to 80 characters, not spelled out by the system prompt or the tools. "must" are
those that nothing repeats between the cut and their first use. A call is bound when all
the remembered values it needs stand together in one row.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from needed_values import has_word, leaves, texts
from trajectories import Trajectory

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.conversation.turns import begins_turn, safe_cuts
from nbchat.providers.base import Provider
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import ScriptedProvider
from nbchat.testing.replay import with_own_call_id

COUNTER = TokenCounter()
ROW_TOKENS = 120
"""Tokens of a line that still counts as one row."""


def cut_at(entries: Sequence[Entry], share: float) -> int:
    """The last unit boundary before a share of the tokens."""
    limit = share * COUNTER.count_entries(entries)
    sizes, total = [0], 0
    for entry in entries:
        total += COUNTER.count_entry(entry)
        sizes.append(total)
    return max((c for c in safe_cuts(entries) if c and sizes[c] <= limit), default=0)


@dataclass(frozen=True)
class Need:
    """What one later call needs from before the cut."""

    tool: str
    values: tuple[str, ...]
    """Every remembered value, in order."""
    new: tuple[str, ...]
    """Those that no call before this one had needed."""
    must: frozenset[str]
    """Of the new ones, those that nothing repeats between the cut and here."""


@dataclass(frozen=True)
class Case:
    """A conversation and where it is cut."""

    name: str
    entries: tuple[Entry, ...]
    known: str
    """System prompt and tools: what need not be remembered."""
    cut: int

    @property
    def covered(self) -> tuple[Entry, ...]:
        """What a compaction at the cut would cover."""
        return self.entries[: self.cut]

    @cached_property
    def needs(self) -> list[Need]:
        """The needs of all later calls."""
        before, seen, found = texts(self.covered), set[str](), []
        for place in range(self.cut, len(self.entries)):
            call = self.entries[place]
            if not call.is_call:
                continue
            values = dict.fromkeys(
                value
                for value in leaves(call.arguments)
                if 3 <= len(value) <= 80
                and has_word(before, value)
                and not has_word(self.known, value)
            )
            between = texts(self.entries[self.cut : place])
            new = tuple(value for value in values if value not in seen)
            must = frozenset(value for value in new if not has_word(between, value))
            seen.update(new)
            if values:
                found.append(Need(call.tool_name, tuple(values), new, must))
        return found


def rows_of(text: str) -> list[str]:
    """The lines of a text that are short enough to be rows."""
    return [line for line in text.splitlines() if COUNTER.count(line) <= ROW_TOKENS]


def known_of(run: Trajectory) -> str:
    """What a run's model is told besides the conversation."""
    return run.system + run.tools


def singles(
    runs: Sequence[Trajectory], shares: Sequence[float] = (0.25, 0.5, 0.75)
) -> Iterator[Case]:
    """Each run by itself."""
    for run in runs:
        for share in shares:
            if cut := cut_at(run.entries, share):
                yield Case(run.name, run.entries, known_of(run), cut)


def desks(
    runs: Sequence[Trajectory],
    *,
    size: int = 6,
    count: int = 12,
    shares: Sequence[float] = (0.25, 0.5, 0.75),
    seed: int = 7,
) -> Iterator[Case]:
    """Long sessions in which several conversations take turns, unit by unit."""
    chance = random.Random(seed)
    for number in range(count):
        chosen = chance.sample(list(runs), size)
        entries = interleaved(chosen, chance)
        known = "\n".join(map(known_of, chosen))
        for share in shares:
            if cut := cut_at(entries, share):
                yield Case(f"desk {number}", entries, known, cut)


def interleaved(
    runs: Sequence[Trajectory], chance: random.Random, *, by_turns: bool = False
) -> tuple[Entry, ...]:
    """Conversations that take turns, each in its own order.

    One to six units at a time; with `by_turns` one or two turns of a person, each with
    its answer, as an agent that looks after several people has them.
    """
    split, most = (turns_of, 2) if by_turns else (units_of, 6)
    waiting = [split(run.entries, number) for number, run in enumerate(runs)]
    merged: list[Entry] = []
    while waiting := [units for units in waiting if units]:
        units = chance.choice(waiting)
        for _ in range(chance.randint(1, most)):
            if units:
                merged += units.pop(0)
    return tuple(merged)


def units_of(entries: Sequence[Entry], number: int) -> list[list[Entry]]:
    """The units of a conversation, with call ids of its own."""
    return _parts(entries, safe_cuts(entries), number)


def turns_of(entries: Sequence[Entry], number: int) -> list[list[Entry]]:
    """The turns of a conversation, with call ids of its own."""
    return _parts(entries, turn_starts(entries), number)


def turn_starts(entries: Sequence[Entry]) -> list[int]:
    """Where turns begin, the first entry included."""
    return [n for n in range(len(entries)) if not n or begins_turn(entries, n)]


def _parts(
    entries: Sequence[Entry], cuts: Sequence[int], number: int
) -> list[list[Entry]]:
    return [
        [with_own_call_id(entry, number) for entry in entries[start:stop]]
        for start, stop in zip(cuts, [*cuts[1:], len(entries)], strict=False)
        if stop > start
    ]


class Noting(TokenCounter):
    """A counter that notes what it looked at."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        super().__init__(encoding)
        self.seen: list[str] = []

    def count(self, text: str) -> int:
        self.seen.append(text)
        return super().count(text)


READ = Entry("assistant", "I see.")
"""What a model says to a result."""


def compacted(
    said: Sequence[Entry],
    *,
    policy: str = "extractive",
    provider: Provider | None = None,
) -> Session:
    """What was said, after one compaction of it by hand; by default by no model.

    A result at its end counts as read: else it would stay as it is.
    """
    engine = CompactionEngine(policy=policy)
    session = Session([*said, READ] if said[-1].role == "tool" else said)
    agent = Agent(provider or ScriptedProvider(), session=session, engine=engine)
    list(agent.compact())
    return agent.session
