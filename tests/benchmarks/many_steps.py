"""The steps from 100 rows to a million, at small size, each with what may break it.

    PYTHONPATH=.:tests/support python tests/benchmarks/many_steps.py [--rows 240] [STEP ...]

Threads and a kill, processes and a killed worker, PostgreSQL, and two workers of Dask on
PostgreSQL (`pip install distributed`): one is killed, then the scheduler is restarted.
At the end of each step every row must be decided once, and right.
"""

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from map_desk import (
    Decision,
    category,
    make_agent,
    make_effects,
    run_with_kills,
    tickets,
)

from nbchat import MapRun, Store, map_agents


def begun(url: str, rows: int, **options: Any) -> MapRun:
    return map_agents(
        make_agent,
        tickets(rows),
        key="id",
        prompt="text",
        output=Decision,
        store=Store(url),
        name="steps",
        **options,
    )


def once_half_done(run: MapRun, rows: int, act: Callable[[], object]) -> None:
    def watch() -> None:
        while run.is_running and run.counts.over < rows // 2:
            time.sleep(0.01)
        act()

    threading.Thread(target=watch).start()


def check(run: MapRun, rows: int) -> str:
    found = list(run.wait().rows())
    assert [each["key"] for each in found] == [each["id"] for each in tickets(rows)]
    right = sum(
        each.get("category") == category(ticket["text"])
        for each, ticket in zip(found, tickets(rows), strict=True)
    )
    assert right == rows, (run, run.problem, right)
    rate = run.counts.worked / run.counts.seconds
    return f"{right} of {rows} right, each once; {rate:.0f} rows a second"


def threads(url: str, rows: int) -> str:
    effects = f"{url}.effects" if url.startswith("sqlite") else url
    make_effects(effects)
    run_with_kills(url, effects, rows, 2)
    return f"{rows} rows, 2 kills of the process: each row decided and closed once"


def processes(url: str, rows: int) -> str:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        run = begun(url, rows, executor=pool)
        first = next(iter(pool._processes.values()))
        once_half_done(run, rows, lambda: os.kill(first.pid or 0, signal.SIGKILL))
        return f"a killed worker: {check(run, rows)}"


def dask(url: str, rows: int) -> str:
    from dask.distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 2}
    with (
        LocalCluster(dashboard_address=None, **options) as cluster,
        Client(cluster) as client,
    ):
        run = begun(url, rows, executor=client.get_executor())
        worker = next(iter(cluster.workers.values()))
        once_half_done(run, rows, lambda: os.kill(worker.pid, signal.SIGKILL))
        line = f"a killed worker: {check(run, rows)}"
    with (
        LocalCluster(dashboard_address=None, **options) as cluster,
        Client(cluster) as client,
    ):
        run = begun(url, 2 * rows, executor=client.get_executor())
        run.wait(2)
    with (
        LocalCluster(dashboard_address=None, **options) as cluster,
        Client(cluster) as client,
    ):
        run = begun(url, 2 * rows, executor=client.get_executor())
        return f"{line}; a new scheduler: {check(run, 2 * rows)}"


STEPS = {"threads": threads, "processes": processes, "dask": dask}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", nargs="*", default=[*STEPS])
    parser.add_argument("--rows", type=int, default=240)
    asked = parser.parse_args()
    from postgres import running_server

    for name in asked.steps:
        with tempfile.TemporaryDirectory() as folder:
            if name == "dask":
                with running_server() as server:
                    print(f"{name}: {STEPS[name](server, asked.rows)}", flush=True)
            else:
                url = f"sqlite:///{folder}/run.db"
                print(f"{name}: {STEPS[name](url, asked.rows)}", flush=True)


if __name__ == "__main__":
    main()
