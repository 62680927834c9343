"""Kill a run of many agents again and again: is any ticket lost, or decided twice?

    PYTHONPATH=.:tests/support python tests/benchmarks/kills.py --tickets 2000 --kills 20
    ... --postgres postgresql+psycopg://user@host/empty_database

Each process is killed with SIGKILL at a random number of closed tickets; the next one
goes on. At the end every ticket must be decided once, right, and closed once by its tool.
"""

import argparse
import tempfile
import time
from pathlib import Path

from map_desk import assert_decided_once, make_effects, run_with_kills

from nbchat.storage.run_store import Store


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tickets", type=int, default=2_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--postgres", default="")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.postgres or f"sqlite:///{Path(folder) / 'sessions.db'}"
        effects = asked.postgres or f"sqlite:///{Path(folder) / 'effects.db'}"
        make_effects(effects)
        began = time.monotonic()
        run_with_kills(url, effects, asked.tickets, asked.kills)
        seconds = time.monotonic() - began
        store = Store(url)
        assert_decided_once(store, effects, asked.tickets)
        store.close()
    print(
        f"{asked.tickets:,} tickets, {asked.kills} kills, {seconds:.0f} s: none lost, "
        "none decided twice, each closed once"
    )


if __name__ == "__main__":
    main()
