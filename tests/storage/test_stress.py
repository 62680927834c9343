"""Kills, full disks and crowds: nothing is lost that was said to be saved.

Short forms of `tests/benchmarks/store_stress.py`, with a fresh seed each time.
"""

import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa
from postgres import running_server
from stressed_store import crowd, fill_disks, kill_chats, small_disk

from nbchat.storage.database import CONNECTIONS, engine_for


@pytest.fixture
def chance() -> random.Random:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


def test_kills_at_any_moment_lose_nothing_on_sqlite(tmp_path, chance):
    assert kill_chats(f"sqlite:///{tmp_path}/sessions.db", 5, chance) >= 5


def test_a_disk_that_fills_loses_nothing_and_later_all_is_saved(chance):
    try:
        with small_disk() as disk:
            seen = fill_disks(disk, 5, chance)
    except OSError as error:
        pytest.xfail(str(error))
    assert seen["killed"] == 3


def test_a_crowd_on_a_server_that_crashes_loses_nothing_and_shares_connections(chance):
    with running_server("max_connections=15", is_synced=True) as url:
        found = crowd(url, 4, 3, 8, chance, restarts=1)
    assert found.entries >= 3 * 3 * 2 * 8
    assert found.most_connections <= 4 * CONNECTIONS


def test_threads_that_open_a_database_at_once_share_its_connections(tmp_path):
    for number in range(20):
        url = sa.make_url(f"sqlite:///{tmp_path}/{number}.db")
        together = Barrier(8)
        with ThreadPoolExecutor(8) as pool:
            made = pool.map(
                lambda _, url=url, each=together: opened(url, each), range(8)
            )
        assert len(set(made)) == 1


def opened(url: sa.URL, together: Barrier) -> sa.Engine:
    together.wait()
    return engine_for(url)
