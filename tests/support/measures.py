"""Recorded conversations, one at a time or several in turns, and a compaction of them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trajectories import Trajectory

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.conversation.turns import safe_cuts
from nbchat.providers.base import Provider
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import ScriptedProvider
from nbchat.testing.replay import with_own_call_id

COUNTER = TokenCounter()


def cut_at(entries: Sequence[Entry], share: float) -> int:
    """The last unit boundary before a share of the tokens."""
    limit = share * COUNTER.count_entries(entries)
    sizes, total = [0], 0
    for entry in entries:
        total += COUNTER.count_entry(entry)
        sizes.append(total)
    return max((c for c in safe_cuts(entries) if c and sizes[c] <= limit), default=0)


@dataclass(frozen=True)
class Case:
    """A conversation and where it is cut."""

    name: str
    entries: tuple[Entry, ...]
    cut: int

    @property
    def covered(self) -> tuple[Entry, ...]:
        """What a compaction at the cut would cover."""
        return self.entries[: self.cut]


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
                yield Case(run.name, run.entries, cut)


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
        for share in shares:
            if cut := cut_at(entries, share):
                yield Case(f"desk {number}", entries, cut)


def interleaved(runs: Sequence[Trajectory], chance: random.Random) -> tuple[Entry, ...]:
    """Conversations that take turns, one to six units at a time, each in its own order."""
    waiting = [units_of(run.entries, number) for number, run in enumerate(runs)]
    merged: list[Entry] = []
    while waiting := [units for units in waiting if units]:
        units = chance.choice(waiting)
        for _ in range(chance.randint(1, 6)):
            if units:
                merged += units.pop(0)
    return tuple(merged)


def units_of(entries: Sequence[Entry], number: int) -> list[list[Entry]]:
    """The units of a conversation, with call ids of its own."""
    cuts = safe_cuts(entries)
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
