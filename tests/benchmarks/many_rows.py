"""What a row of `map_agents` costs: beside the plain SDK, with and without a store.

    PYTHONPATH=.:tests/support python tests/benchmarks/many_rows.py [--langchain PYTHON]
    ... --rows 100000          one long run on SQLite: does its memory stay the same?

Each kind runs in a process of its own, rounds of all kinds in turn, on a server of this
machine that answers at once. Compare the CPU time: rows a second are those of a machine
with other work. `--langchain` is a Python with langchain-openai, which runs `batch`.

The figures are printed and never asserted: machines differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

MEGABYTE = 1024 * 1024
WORKERS, WARM = 8, 16

Run = Callable[[int, int], object]
"""Decides so many tickets, from a number on."""


def tickets(start: int, count: int) -> list[dict[str, str]]:
    words = ("my card is gone", "the transfer is late", "hello")
    return [
        {"id": f"T{n:06}", "text": f"T{n:06}: {words[n % 3]}"}
        for n in range(start, start + count)
    ]


def plain(address: str, _store: str, _calls: int) -> Run:
    """Threads and the SDK of OpenAI."""
    from openai import OpenAI

    client, schema = (
        OpenAI(base_url=address, api_key="k"),
        decision().model_json_schema(),
    )
    wanted: Any = {
        "type": "json_schema",
        "json_schema": {"name": "d", "schema": schema},
    }

    def ask(ticket: dict[str, str]) -> object:
        said: Any = [
            {"role": "system", "content": "You triage tickets."},
            {"role": "user", "content": ticket["text"]},
        ]
        made = client.chat.completions.create(
            model="m", messages=said, response_format=wanted
        )
        return decision().model_validate_json(made.choices[0].message.content or "")

    def run(start: int, count: int) -> None:
        with ThreadPoolExecutor(WORKERS) as pool:
            assert len([*pool.map(ask, tickets(start, count))]) == count

    return run


def langchain(address: str, _store: str, _calls: int) -> Run:
    """`batch` of LangChain."""
    from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]

    model = ChatOpenAI(model="m", base_url=address, api_key="k")
    asked = model.with_structured_output(decision(), method="json_schema")

    def run(start: int, count: int) -> None:
        said = [
            [("system", "You triage tickets."), ("user", each["text"])]
            for each in tickets(start, count)
        ]
        assert len(asked.batch(said, {"max_concurrency": WORKERS})) == count

    return run


def mapped(address: str, store: str, calls: int) -> Run:
    """`map_agents`, with a store where it has an address."""
    from nbchat import Agent, connect, map_agents, tool

    @tool(read_only=True)
    def get_ticket(ticket: str) -> str:
        """Get a ticket."""
        return json.dumps({"ticket": ticket, "state": "open"})

    @tool(read_only=False)
    def close_ticket(ticket: str) -> str:
        """Close a ticket."""
        return f"{ticket} is closed"

    provider = connect("openai:m", base_url=address, api_key=lambda: "k")
    tools = [get_ticket, close_ticket][:calls]
    agent = Agent(provider, tools=tools, system="You triage tickets.", approve=True)
    kept = None
    if store:
        from nbchat import Store

        kept = Store(store)

    def run(start: int, count: int) -> None:
        made = map_agents(
            agent,
            tickets(start, count),
            key="id",
            prompt="text",
            output=decision(),
            workers=WORKERS,
            store=kept,
            name=f"rows-{os.getpid()}",
        ).wait()
        assert made.counts.done == count, (made, made.problem)

    return run


def decision() -> Any:
    from quick_decision import Decision

    return Decision


def measure(kind: str, address: str, store: str, calls: int, rows: int) -> None:
    """Print what one kind takes, in this process."""
    import psutil

    begun = time.process_time()
    run = {"plain": plain, "langchain": langchain}.get(kind, mapped)(
        address, store, calls
    )
    imported = time.process_time() - begun
    run(0, WARM)
    cpu, clock = time.process_time(), time.monotonic()
    run(WARM, rows)
    cpu, clock = time.process_time() - cpu, time.monotonic() - clock
    memory = psutil.Process().memory_info().rss / MEGABYTE
    found = {"import": imported, "cpu": 1_000 * cpu / rows, "rate": rows / clock}
    print(json.dumps({**found, "memory": memory}))


def measured(python: str, *arguments: object) -> dict[str, float]:
    command = [python, __file__, "--one", *map(str, arguments)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def compare(rows: int, rounds: int, calls: int, other: str) -> None:
    """Print the table: the medians of some rounds."""
    from postgres import running_server
    from quick_server import quick_server

    kinds = ["plain", *(["langchain"] if other else []), "memory", "sqlite", "postgres"]
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with quick_server(calls=calls) as address, running_server() as server:
        for number in range(rounds):
            for kind in kinds:
                with tempfile.TemporaryDirectory() as folder:
                    stores = {
                        "sqlite": f"sqlite:///{folder}/run.db",
                        "postgres": server,
                    }
                    python = other if kind == "langchain" else sys.executable
                    name = f"{number}-{kind}"
                    print(name, file=sys.stderr, flush=True)
                    store = stores.get(kind, "-")
                    found[kind].append(
                        measured(python, kind, address, store, calls, rows)
                    )
    least = median(each["cpu"] for each in found["plain"])
    print(
        "| | rows/s | CPU ms a row | ratio | memory | import |\n|---|---|---|---|---|---|"
    )
    for kind, taken in found.items():
        one = {name: median(each[name] for each in taken) for name in taken[0]}
        print(
            f"| {kind} | {one['rate']:.0f} | {one['cpu']:.1f} | {one['cpu'] / least:.1f} "
            f"| {one['memory']:.0f} MB | {one['import']:.1f} s |"
        )


def run_long(rows: int) -> None:
    """One run on SQLite; the memory at a tenth of the rows and at the end."""
    import psutil
    from map_desk import Decision, make_agent

    from nbchat import Store, map_agents

    process, sizes = psutil.Process(), dict[int, float]()

    def read() -> Iterator[dict[str, str]]:
        for number in range(rows):
            if number % (rows // 10) == 0:
                sizes[number] = process.memory_info().rss / MEGABYTE
                print(f"{number:,} rows read, {sizes[number]:,.0f} MB", flush=True)
            yield tickets(number, 1)[0]

    with tempfile.TemporaryDirectory() as folder:
        store, began = Store(f"sqlite:///{Path(folder) / 'run.db'}"), time.monotonic()
        run = map_agents(
            make_agent,
            read(),
            key="id",
            prompt="text",
            output=Decision,
            workers=4,
            store=store,
        ).wait()
        seconds = time.monotonic() - began
        saved = sum(1 for _ in run.rows())
        store.close()
    late = process.memory_info().rss / MEGABYTE
    print(
        f"{run.counts.done:,} of {rows:,} rows done, {saved:,} saved, {seconds:.0f} s; "
        f"{sizes[rows // 10]:,.0f} MB at a tenth, {late:,.0f} MB at the end"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--langchain", default="")
    parser.add_argument("--one", nargs=5)
    asked = parser.parse_args()
    if asked.one:
        kind, address, store, calls, rows = asked.one
        os.environ.setdefault("OPENAI_API_KEY", "k")
        measure(kind, address, store.strip("-"), int(calls), int(rows))
    elif asked.rows > 10_000:
        run_long(asked.rows)
    else:
        compare(asked.rows, asked.rounds, asked.calls, asked.langchain)


if __name__ == "__main__":
    main()
