"""Ten compactions in a row of a real session on the embedded model.

    python tests/benchmarks/embedded.py

Real conversations are typed into a chat with the embedded model (8,192-token window)
under the default policy until it has been compacted ten times. Prints each compaction
and how often the server called a request too long, which is never. On two cores it
takes about ten minutes.
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from measures import interleaved
from trajectories import read_trajectories

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Compacted, CompactionFailed, TurnFailed
from nbchat.providers.connect import connect

COMPACTIONS = 10
AT_ONCE = 3_000
"""Characters typed in one turn."""


def letters(entries: tuple[Entry, ...]) -> list[str]:
    """What was said and answered in a conversation, in messages of some length."""
    said = "\n".join(
        entry.content or f"{entry.tool_name} {entry.tool_args}" for entry in entries
    )
    return [said[n : n + AT_ONCE] for n in range(0, len(said), AT_ONCE)]


def main() -> None:
    """Chat until ten compactions have been made, and print them."""
    runs = read_trajectories()
    typed = letters(interleaved(runs, random.Random(5)))
    engine = CompactionEngine(context_token_threshold=None)
    agent = Agent(connect("local:smollm2"), engine=engine, max_output_tokens=30)
    began, made, overflows, failed = time.monotonic(), 0, 0, 0
    for turn, text in enumerate(typed, 1):
        for event in agent.run(text):
            failed += isinstance(event, CompactionFailed)
            if isinstance(event, TurnFailed):
                print(f"turn {turn} failed: {event.message}")
            if isinstance(event, Compacted):
                made += 1
                record = event.compaction
                overflows += record.trigger == "overflow"
                print(
                    f"{made:2}  turn {turn:3}  {record.trigger:10} {record.status:9}"
                    f"{record.tokens_before:6,} -> {record.tokens_after:5,} tokens  "
                    f"{record.note or record.reason}",
                    flush=True,
                )
        if made >= COMPACTIONS:
            break
    print(
        f"{made} compactions in {turn} turns, {overflows} overflows, {failed} failed, "
        f"{len(agent.session.transcript)} entries in the transcript, "
        f"{time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
