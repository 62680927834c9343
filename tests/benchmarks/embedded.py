"""Ten compactions in a row of a real session on the embedded model.

    python tests/benchmarks/embedded.py
    python tests/benchmarks/embedded.py --policy tiered --compactions 3

Real conversations are typed into a chat with the embedded model (8,192-token window)
under the default policy until it has been compacted ten times. Prints each compaction
with its CPU time, the fields of a structured one, and how often the server called a
request too long, which is never. On two cores it takes about ten minutes.
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from measures import interleaved
from trajectories import read_trajectories

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionStarted,
    TurnFailed,
)
from nbchat.providers.connect import connect

AT_ONCE = 3_000
"""Characters typed in one turn."""


def letters(entries: tuple[Entry, ...]) -> list[str]:
    """What was said and answered in a conversation, in messages of some length."""
    said = "\n".join(
        entry.content or f"{entry.tool_name} {entry.tool_args}" for entry in entries
    )
    return [said[n : n + AT_ONCE] for n in range(0, len(said), AT_ONCE)]


def shown(record: Compaction, seconds: float) -> str:
    """One compaction in a line, and its fields in another."""
    fields = f"\n    {record.fields}" if record.fields else ""
    return (
        f"{record.trigger:10} {record.status:9}{record.tokens_before:6,} -> "
        f"{record.tokens_after:5,} tokens {seconds:4.0f} s  "
        f"{record.note or record.reason}{fields}"
    )


def main() -> None:
    """Chat until so many compactions have been made, and print them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policy", default="single-summary")
    parser.add_argument("--compactions", type=int, default=10)
    options = parser.parse_args()
    typed = letters(interleaved(read_trajectories(), random.Random(5)))
    engine = CompactionEngine(context_token_threshold=None, policy=options.policy)
    agent = Agent(connect("local:smollm2"), engine=engine, max_output_tokens=30)
    began, started = time.monotonic(), 0.0
    ended: list[Compaction] = []
    failed = 0
    for turn, text in enumerate(typed, 1):
        for event in agent.run(text):
            failed += isinstance(event, CompactionFailed)
            if isinstance(event, CompactionStarted):
                started = time.process_time()
            if isinstance(event, TurnFailed):
                print(f"turn {turn} failed: {event.message}")
            if isinstance(event, Compacted | CompactionFailed):
                ended.append(event.compaction)
                seconds = time.process_time() - started
                print(f"turn {turn:3} {shown(ended[-1], seconds)}", flush=True)
        if len(ended) >= options.compactions:
            break
    overflows = sum(record.trigger == "overflow" for record in ended)
    print(
        f"{len(ended)} compactions in {turn} turns, {overflows} overflows, "
        f"{failed} failed, {len(agent.session.transcript)} entries in the transcript, "
        f"{time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
