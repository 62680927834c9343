"""What the five policies make of real conversations: size, success, time.

    python tests/benchmarks/policies.py

*Reduction*: all 23 recorded conversations in one session, and the three meetings, folded
once by hand; the summary is as long as three quarters of what is asked for. *Success*:
the twelve conversations of the desk in a window of 24,000 tokens, once with a model that
writes summaries and once with one of which every other answer is bad, and every fourth
request meets a fault of the server. *Time*: CPU time of what happens before each
request, for a conversation of 1,000 messages.
"""

import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from answers import meetings
from trajectories import read_trajectories

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import Compacted, CompactionFailed, TurnFailed
from nbchat.conversation.session import Session
from nbchat.errors import Overloaded
from nbchat.providers.base import Reply, ReplyStream, Request
from nbchat.providers.tokens import TokenCounter
from nbchat.storage.session_log import monitoring
from nbchat.testing import Replay, ScriptedProvider, recorded_desk

POLICIES = ("single-summary", "tiered", "recent-messages", "early", "token-window")
COUNTER = TokenCounter()
WINDOW = 24_000
SUMMARY_SHARE = 0.75
ROUNDS = 20


class Summarizer(ScriptedProvider):
    """Writes a summary of three quarters of the length it is allowed."""

    def stream(self, request: Request, *, stop: object = None) -> ReplyStream:
        """The summary, at once."""
        yield from ()
        size = int((request.max_output_tokens or 0) / 1.5 * SUMMARY_SHARE)
        entry = Entry("assistant", f"<summary>They said{' the' * size}.</summary>")
        used = Usage(self.count_tokens(request), COUNTER.count_entry(entry))
        return Reply((entry,), used, "end_turn", self.name)


class Flaky(Replay):
    """A replay whose summaries are bad every other time, and whose server stumbles."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Begin with a good answer."""
        super().__init__(entries, window=WINDOW)
        self._moods = cycle(["good", "bad", "good", "fault"])
        self.asked = self.refused = 0

    def stream(self, request: Request, *, stop: object = None) -> ReplyStream:
        """What was said; of summaries only some are any good."""
        if not request.answer_tag:
            return super().stream(request)
        self.asked += 1
        mood = next(self._moods)
        self.refused += mood != "good"
        if mood == "fault":
            raise Overloaded("the server is overloaded", retry_after=0.0)
        return self._bad(request) if mood == "bad" else super().stream(request)

    def _bad(self, request: Request) -> ReplyStream:
        yield from ()
        return self._reply(request, (Entry("assistant", "I see."),), "")


def reductions() -> None:
    """How much smaller one fold makes a long conversation."""
    desk = [entry for run in read_trajectories() for entry in run.entries]
    said = {"23 conversations": desk}
    said |= {f"meeting {n}": [*e.said] for n, e in enumerate(meetings(), 1)}
    print(
        "\ncompacted once by hand: tokens of what was compacted, of the entry, their ratio"
    )
    for title, entries in said.items():
        cells = [f"{_reduction(policy, entries):>24}" for policy in POLICIES]
        print(f"{title:18}", *cells)


def _reduction(policy: str, entries: Sequence[Entry]) -> str:
    engine = CompactionEngine(policy=policy)
    agent = Agent(Summarizer(window=1_000_000), engine=engine, session=Session(entries))
    list(agent.compact())
    done = agent.session.compaction
    if done is None:
        return "nothing to compact"
    folded = COUNTER.count_entries(agent.session.transcript[: done.stop])
    after = COUNTER.count_entry(done.entry)
    return f"{folded:,} -> {after:,} {folded / after:.1f}:1"


def successes() -> None:
    """How often an automatic compaction ends in a smaller context."""
    print(
        "\nautomatic compactions of the desk: made, degraded, failed; turns that failed"
    )
    makers: dict[str, Callable[[], Replay]] = {
        "sound model": lambda: Replay(recorded_desk(), window=WINDOW),
        "flaky model": lambda: Flaky(recorded_desk()),
    }
    for title, make in makers.items():
        for policy in POLICIES:
            replay = make()
            engine = CompactionEngine(None, policy=policy)
            agent = Agent(replay, tools=replay.tools, engine=engine)
            failed_turns = peak = 0
            for turn in replay.turns:
                agent.max_steps = len(turn.steps)
                for event in agent.run(turn.text):
                    failed_turns += isinstance(event, TurnFailed)
                    if isinstance(event, Compacted | CompactionFailed):
                        peak = max(peak, event.compaction.tokens_before)
            seen = monitoring(agent.session)
            print(
                f"{title:12} {policy:16} {seen.compactions:3} {seen.degraded:3} "
                f"{seen.failed:3}   {failed_turns}   {seen.success_share:.0%} of attempts, "
                f"largest context {peak:,} of {WINDOW:,}"
            )


def times() -> None:
    """CPU time of counting, deciding, planning and building, for 1,000 messages."""
    desk = [entry for run in read_trajectories() for entry in run.entries][:1_000]
    print(f"\nCPU time for {len(desk)} entries, ms")
    cold = _timed(lambda: TokenCounter().count_entries(desk), rounds=3)
    print(f"count from nothing  {cold:.0f}")
    for policy in POLICIES:
        agent = Agent(
            Summarizer(window=200_000),
            engine=CompactionEngine(None, policy=policy),
            session=Session(desk),
        )
        decide = _timed(lambda a=agent: a.engine.should_compact(a.session))
        build = _timed(lambda a=agent: a.next_request())
        plan = _timed(lambda a=agent: a.engine.plan(a.session))
        began = time.process_time()
        list(agent.compact())
        fold = (time.process_time() - began) * 1000
        print(
            f"{policy:16} decide {decide:.2f}   build the context {build:.2f}   "
            f"plan {plan:.1f}   summarize without the model's time {fold:.0f}"
        )


def _timed(work: Callable[[], object], *, rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append((time.process_time() - began) * 1000)
    return sorted(times)[len(times) // 2]


if __name__ == "__main__":
    reductions()
    successes()
    times()
