"""Sixty chats begun at once on one event loop: for how long they block it.

    PYTHONPATH=.:tests/support python tests/benchmarks/loop_chats.py [--chats 60] [--freeze]

A server of this machine answers at once, which is the worst case: all threads want to
run. The first round comes after one chat, which loads what is loaded once. CPU time of
the loop's own thread is what nbchat does there; the clock also shows how long it waits
for the other threads. With `--freeze` the garbage collector leaves out what is loaded
once, as a server should tell it: a full collection takes longest. The figures are
printed and never asserted: machines differ.
"""

import argparse
import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from typing import Any

from quick_decision import Decision
from quick_server import quick_server

from nbchat import Agent, connect

Chat = Callable[[int], Coroutine[Any, Any, object]]


def get_ticket(ticket: str) -> str:
    """Get a ticket."""
    return ticket


async def blocks(over: asyncio.Event) -> tuple[float, float]:
    """The longest time between two turns of the loop: its thread's CPU, and the clock."""
    cpu = clock = 0.0
    while not over.is_set():
        began = time.thread_time(), time.monotonic()
        await asyncio.sleep(0.005)
        cpu = max(cpu, time.thread_time() - began[0])
        clock = max(clock, time.monotonic() - began[1] - 0.005)
    return cpu, clock


async def measure(name: str, chat: Chat, count: int, *, freezes: bool) -> None:
    await chat(0)
    if freezes:
        gc.collect()
        gc.freeze()
    for _ in range(3):
        over = asyncio.Event()
        watch = asyncio.create_task(blocks(over))
        await asyncio.sleep(0.05)
        began = time.process_time()
        await asyncio.gather(*map(chat, range(count)))
        spent = time.process_time() - began
        over.set()
        cpu, clock = await watch
        print(
            f"{name}: {count} chats, {1_000 * spent / count:.1f} ms of CPU each; the "
            f"longest block {1_000 * cpu:.0f} ms of the loop's CPU, {1_000 * clock:.0f} "
            "ms by the clock",
            flush=True,
        )


async def main(address: str, count: int, *, freezes: bool) -> None:
    def made() -> Agent:
        provider = connect("openai:m", base_url=address, api_key=lambda: "k")
        return Agent(provider, tools=[get_ticket])

    async def asked(number: int) -> object:
        return await made().aask(f"T{number:06} is gone", output=Decision)

    async def streamed(number: int) -> object:
        return [event async for event in made().run(f"T{number:06} is gone")]

    await measure("aask", asked, count, freezes=freezes)
    await measure("async for", streamed, count, freezes=freezes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--chats", type=int, default=60)
    parser.add_argument("--freeze", action="store_true")
    given = parser.parse_args()
    with quick_server(calls=1) as served:
        asyncio.run(main(served, given.chats, freezes=given.freeze))
