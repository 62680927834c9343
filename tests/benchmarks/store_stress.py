"""Kill chats, fill their disk, crowd their server: is anything lost that was saved?

    PYTHONPATH=tests/support python tests/benchmarks/store_stress.py kills --rounds 200
    ... store_stress.py disk --rounds 500        a small disk is mounted: needs root
    ... store_stress.py crowd                    20 processes with 5 sessions each

`kills` ends processes with SIGKILL at random moments, on SQLite and on a PostgreSQL of
its own. `disk` lets a real disk (tmpfs) fill at random moments; three in four chats are
killed then, the fourth gets its disk back. `crowd` runs on a PostgreSQL with
max_connections=60, kills one process in four and restarts the server twice.
"""

import argparse
import random
import secrets
import sys
import tempfile
import time

from postgres import running_server
from stressed_store import crowd, fill_disks, kill_chats, small_disk

CONNECTIONS = "max_connections=60"


def kills(rounds: int, chance: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        entries = kill_chats(f"sqlite:///{folder}/sessions.db", rounds, chance)
        print(f"SQLite: {rounds} kills, {entries:,} entries saved, 0 lost", flush=True)
    with running_server(CONNECTIONS, is_synced=True) as url:
        entries = kill_chats(url, rounds, chance)
        print(f"PostgreSQL: {rounds} kills, {entries:,} entries saved, 0 lost")


def disk(rounds: int, chance: random.Random) -> None:
    try:
        with small_disk() as found:
            seen = fill_disks(found, rounds, chance)
    except OSError as error:
        sys.exit(str(error))
    killed = seen.pop("killed")
    print(f"{rounds} full disks, {killed} kills, 0 entries lost; what was told:")
    for line, count in seen.most_common():
        print(f"{count:6} x {line}")


def meet(rounds: int, chance: random.Random) -> None:
    for _ in range(rounds):
        with running_server(CONNECTIONS, is_synced=True) as url:
            found = crowd(url, 20, 5, 16, chance)
        print(
            f"20 processes x 5 sessions: {found.entries:,} entries saved, 0 lost, "
            f"at most {found.most_connections} connections; what was told:"
        )
        for line, count in found.failures.most_common():
            print(f"{count:6} x {line}")


MODES = {"kills": (kills, 200), "disk": (disk, 500), "crowd": (meet, 1)}


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    run, rounds = MODES[asked.mode]
    began = time.monotonic()
    run(asked.rounds or rounds, random.Random(asked.seed))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
