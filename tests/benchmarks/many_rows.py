"""A run over many rows: how much memory does it take, and how long?

    PYTHONPATH=.:tests/support python tests/benchmarks/many_rows.py --rows 100000

The rows come from a generator, sessions and results go to SQLite. The memory at a tenth
of the rows and at the end is compared: only a number for each key grows with the rows.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from map_desk import Decision, make_agent

from nbchat.agent.map_agents import map_agents
from nbchat.storage.run_store import Store

MEGABYTE = 1024 * 1024


def tickets(count: int, sizes: dict[int, float]) -> Iterator[dict[str, str]]:
    """Tickets one by one; notes the memory of this process at each tenth of them."""
    process = psutil.Process()
    for number in range(count):
        if number % (count // 10) == 0:
            sizes[number] = process.memory_info().rss / MEGABYTE
            print(f"{number:,} rows read, {sizes[number]:,.0f} MB", flush=True)
        yield {"id": f"T{number:07}", "text": f"T{number:07}: my card is gone"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=4)
    asked = parser.parse_args()
    sizes: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{Path(folder) / 'run.db'}")
        began = time.monotonic()
        run = map_agents(
            make_agent,
            tickets(asked.rows, sizes),
            key="id",
            prompt="text",
            output=Decision,
            workers=asked.workers,
            store=store,
        ).wait()
        seconds = time.monotonic() - began
        saved = sum(1 for _ in run.rows())
        store.close()
    early, late = sizes[asked.rows // 10], psutil.Process().memory_info().rss / MEGABYTE
    print(
        f"{run.counts.done:,} of {asked.rows:,} rows done, {saved:,} saved, {seconds:.0f} s; "
        f"{early:,.0f} MB at a tenth, {late:,.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
