"""How much of what a call needs is readable when it is made, in long sessions.

    python tests/benchmarks/longrun.py                  30,000 tokens, all policies
    python tests/benchmarks/longrun.py --quick          six sessions, in half a minute
    python tests/benchmarks/longrun.py --tokens 300000 --sessions 2
    python tests/benchmarks/longrun.py --only default --story forgetful
    python tests/benchmarks/longrun.py --domain airline
    python tests/benchmarks/longrun.py --domain notebook
    python tests/benchmarks/longrun.py --tickets

Recorded conversations take turns in one session, which is replayed through the real
agent in a window of 24,000 tokens; `long_run.py` defines what is counted. The model's
summaries say nothing unless `--story` says otherwise, so what is read is what code
kept. The columns of the domains are the same figure for calls of that domain;
`--domain` builds the sessions of that domain alone. Notebooks and scientific coding come
one after the other, a fifth as many sessions. `--tickets` works through 200
tickets in one session and counts the rows that hold a ticket and its decisions.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))

from long_run import WINDOW, Measured, Script, Story, replay, slide
from long_sessions import DOMAINS, WORK, domain_of, long_sessions, work_sessions
from ticket_run import CHECKPOINTS, right_rows
from tqdm import tqdm
from trajectories import read_trajectories

from nbchat.compaction.engine import CompactionEngine

SETTINGS: dict[str, tuple[int | None, str]] = {
    "default": (None, "single-summary"),
    "default 5000": (5_000, "single-summary"),
    "extractive": (None, "extractive"),
    "auto": (None, "auto"),
    "tiered": (None, "tiered"),
    "recent-messages": (None, "recent-messages"),
    "early": (None, "early"),
    "token-window": (None, "token-window"),
}
"""Threshold and policy of each row."""

ALL = (*DOMAINS, *WORK)

WINDOWS = (2_200, 3_000, 10_000)
"""Tokens of the plain sliding windows that are compared."""

FRONTIER = {
    f"default {tokens}": (tokens, "single-summary")
    for tokens in (2_500, 10_000, 40_000)
}
FRONTIER_WINDOWS = (1_000, 5_000, 16_000)
"""More of both, for a drawing of what is readable beside what it costs."""

Work = Callable[[Script, Measured], object]


def rows(story: Story, only: Sequence[str], *, is_frontier: bool) -> dict[str, Work]:
    """What is done with each session, by the name of the row."""

    def run(threshold: int | None, policy: str) -> Work:
        return lambda script, measured: replay(
            script, measured, CompactionEngine(threshold, policy=policy), story=story
        )

    made: dict[str, Work] = {
        f"newest {tokens:,}": lambda script, measured, tokens=tokens: slide(
            script, measured, tokens=tokens
        )
        for tokens in (*WINDOWS, *(FRONTIER_WINDOWS * is_frontier))
    }
    settings = SETTINGS | (FRONTIER if is_frontier else {})
    made |= {name: run(*setting) for name, setting in settings.items()}
    return {name: work for name, work in made.items() if not only or name in only}


def line(name: str, measured: Measured, seconds: float) -> str:
    """One line of the table."""
    shares = [
        f"{measured.share([domain]):6.1%}" if measured.needed[domain] else f"{'-':>6}"
        for domain in ALL
    ]
    return (
        f"{name:16} {measured.share():6.1%} of {sum(measured.needed.values()):5}  "
        f"{measured.mean_context:8,.0f} {measured.mean_summary:8,.0f} "
        f"{measured.compactions:5} {measured.failed:4}  {'  '.join(shares)} "
        f"{seconds:5.0f} s"
    )


def figures(measured: Measured) -> dict[str, float]:
    """The same for a program."""
    return {
        "share": round(measured.share(), 4),
        "mean_context": round(measured.mean_context),
        "mean_summary": round(measured.mean_summary),
        "compactions": measured.compactions,
        **{domain: round(measured.share([domain]), 4) for domain in ALL},
    }


def scripts_of(domain: str | None, tokens: int, count: int) -> Iterator[Script]:
    """The sessions of a domain, or of all."""
    runs = [run for run in read_trajectories() if domain in (None, domain_of(run))]
    if runs:
        yield from map(Script, long_sessions(runs, tokens=tokens, count=count))
    few = count if domain else -(-count // 5)
    for name in WORK:
        if domain in (None, name):
            yield from map(Script, work_sessions(name, tokens=tokens, count=few))


def main() -> None:
    """Print the table."""
    options = _options()
    if options.tickets:
        for name, (threshold, policy) in SETTINGS.items():
            if not options.only or name in options.only:
                counts = right_rows(CompactionEngine(threshold, policy=policy))
                shown = "  ".join(
                    f"{n}: {counts[n]}" for n in CHECKPOINTS if n in counts
                )
                print(f"{name:16} {shown}", flush=True)
        return
    scripts = [*scripts_of(options.domain, options.tokens, options.sessions)]
    print(
        f"{len(scripts)} sessions of {options.tokens:,} tokens, window {WINDOW:,}, "
        f"story: {options.story}\n{'':16} readable         context  summary  "
        f"made fail  {'  '.join(f'{domain[:6]:>6}' for domain in ALL)}"
    )
    table = {}
    for name, work in rows(
        options.story, options.only, is_frontier=options.frontier
    ).items():
        measured, began = Measured(), time.process_time()
        for script in tqdm(scripts, name, leave=False, disable=None):
            work(script, measured)
        print(line(name, measured, time.process_time() - began), flush=True)
        table[name] = figures(measured)
        if options.missed:
            print(*measured.missed, sep="\n")
    if options.json:
        record = {
            "command": " ".join(["python", *sys.argv]),
            "sessions": len(scripts),
            "tokens": options.tokens,
            "window": WINDOW,
            "rows": table,
        }
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=30_000)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="six sessions")
    parser.add_argument("--story", choices=("none", "copy", "forgetful"))
    parser.add_argument("--domain", choices=ALL)
    parser.add_argument("--only", nargs="*", default=(), help="names of rows")
    parser.add_argument("--missed", action="store_true", help="print what is missing")
    parser.add_argument("--tickets", action="store_true")
    parser.add_argument("--frontier", action="store_true", help="more settings")
    parser.add_argument("--json", help="write the figures to this file, too")
    parser.set_defaults(story="none")
    options = parser.parse_args()
    if options.quick:
        options.sessions = 6
    return options


if __name__ == "__main__":
    main()
