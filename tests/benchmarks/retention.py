"""How much of what later tool calls need is still readable after a compaction.

    python tests/benchmarks/retention.py

Each real conversation is cut at 25, 50 and 75 % of its tokens, on a unit boundary, and
compacted without any model, so that the figure is of what code keeps. A value counts
when a call after the cut uses it and it stood before the cut as a whole word: 3 to 80
characters, not spelled out by the system prompt. "must" are those that nothing repeats
between the cut and their first use.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from trajectories import Trajectory, read_trajectories

from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.units import safe_cuts
from nbchat.errors import RequestRefused
from nbchat.history import Compaction, Entry, Session
from nbchat.testing import ScriptedProvider, fails
from nbchat.tokens import TokenCounter

SHARES = (0.25, 0.5, 0.75)
COUNTER = TokenCounter()


def texts(entries: Sequence[Entry]) -> str:
    """All that stands in entries, calls included."""
    return "\n".join(f"{e.content}\n{e.tool_name}\n{e.tool_args}" for e in entries)


def has_word(text: str, value: str) -> bool:
    """Whether a value stands in a text by itself, not inside of a longer word."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def leaves(value: Any) -> Iterator[str]:
    """The texts and numbers inside a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def cut_at(entries: Sequence[Entry], share: float) -> int:
    """The last unit boundary before a share of the tokens."""
    limit = share * COUNTER.count_entries(entries)
    cuts = [cut for cut in safe_cuts(entries) if cut]
    return max(
        (c for c in cuts if COUNTER.count_entries(entries[:c]) <= limit), default=0
    )


def needed(run: Trajectory, cut: int) -> Iterator[tuple[str, bool]]:
    """Values that later calls need from before the cut, and whether nothing repeats them."""
    before = texts(run.entries[:cut])
    seen: set[str] = set()
    for place in range(cut, len(run.entries)):
        entry = run.entries[place]
        if not entry.is_call:
            continue
        between = texts(run.entries[cut:place])
        for value in leaves(json.loads(entry.tool_args or "{}")):
            is_new = 3 <= len(value) <= 80 and value not in seen
            if is_new and has_word(before, value) and not has_word(run.system, value):
                seen.add(value)
                yield value, not has_word(between, value)


def compacted(entries: Sequence[Entry]) -> Compaction:
    """The record of a compaction that no model took part in."""
    session, engine = Session(entries), CompactionEngine()
    plan = engine.plan(session, trigger="window")
    gone = ScriptedProvider(fails(RequestRefused("no model")))
    work = engine.compact(session, gone, plan)
    while True:
        try:
            next(work)
        except StopIteration as finished:
            return finished.value


def main() -> None:
    """Print a line for each share and for all of them."""
    kept = {"all": 0, "must": 0}
    total = {"all": 0, "must": 0}
    sizes, failures = [], 0
    for share in SHARES:
        for run in read_trajectories():
            cut = cut_at(run.entries, share)
            values = list(needed(run, cut)) if cut else []
            if not values:
                continue
            record = compacted(run.entries[:cut])
            failures += not record.is_in_force
            view = record.summary.partition("<facts>")[2]
            sizes.append(COUNTER.count(view) / COUNTER.count_entries(run.entries[:cut]))
            for value, is_must in values:
                for kind in ("all", "must") if is_must else ("all",):
                    total[kind] += 1
                    kept[kind] += has_word(view, value)
    for kind, number in total.items():
        print(
            f"{kind:5} {kept[kind]:5} of {number:5} values kept: {kept[kind] / number:.1%}"
        )
    print(f"size  {sum(sizes) / len(sizes):.1%} of what was covered, on average")
    print(f"      {max(sizes):.1%} at most; {failures} compactions failed")


if __name__ == "__main__":
    main()
