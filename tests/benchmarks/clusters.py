"""A run of many agents on a cluster of one process, whose agents a local function makes.

PYTHONPATH=.:tests/support python tests/benchmarks/clusters.py dask
... ipyparallel        pip install ipyparallel
... ray                pip install ray
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from map_desk import Decision, category, tickets

from nbchat import Agent, Budget, map_agents


def main(kind: str) -> None:
    if kind == "dask":
        from dask.distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=1, threads_per_worker=2, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            check(client.get_executor())
    elif kind == "ray":
        check_ray()
    else:
        import ipyparallel

        with ipyparallel.Cluster(n=1, log_level=40) as engines:
            check(engines.load_balanced_view().executor)


def check_ray() -> None:
    """Ray has no executor of its own; its futures are those of the standard library."""
    import ray

    @ray.remote
    def call(function: Callable[..., object], *arguments: object) -> object:
        return function(*arguments)

    class RayExecutor(Executor):
        def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
            return call.remote(function, *arguments).future()

    paths = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    ray.init(num_cpus=1, include_dashboard=False, runtime_env={"env_vars": paths})
    check(RayExecutor())
    ray.shutdown()


def check(executor: object) -> None:
    here = os.getpid()

    def make_agent() -> Agent:  # of a notebook's cell: sent with its code
        import os

        from map_desk import Desk

        from nbchat import Agent

        if os.getpid() == here:
            return Agent(Desk())
        return Agent(Desk(), system="You triage tickets elsewhere.")

    run = map_agents(
        make_agent,
        tickets(12),
        key="id",
        prompt="text",
        output=Decision,
        workers=2,
        executor=executor,
        budget=Budget(tokens=10**6),
    ).wait()
    print(run.problem, list(run.rows())[:1])
    right = sum(
        row.get("category") == category(ticket["text"])
        for row, ticket in zip(run.rows(), tickets(12), strict=True)
    )
    meter = run._control.meter
    where = "another process" if meter and meter.steps == 12 else "this process"
    print(f"{right} of 12 rows are right, in {where}")


if __name__ == "__main__":
    main(sys.argv[1])
