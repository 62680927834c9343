"""A chat of 10,000 turns in a window of 8,192 tokens: is anything lost, does it grow?

    python tests/benchmarks/long_day.py [--turns 10000] [--words 40]

Each turn asks for another order, and the answer names it; the model refuses what is
larger than its window, as a server does. A store saves each turn. Printed after each
tenth: the memory of the process (what is saved is loaded in another), the compactions, requests that were refused, turns
that failed, and entries that the store lacks.
"""

import argparse
import random
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.events import Compacted, TurnFailed
from nbchat.errors import ContextOverflow
from nbchat.providers.base import Request
from nbchat.storage.autosave import Autosave
from nbchat.storage.store import SessionStore
from nbchat.testing import Line, ScriptedProvider, says

WINDOW = 8_192


def memory_mb() -> float:
    """Resident memory of this process, MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def saved_entries(url: str, session_id: str) -> int:
    """How many entries a store has; in a process of its own, which ends with them."""
    return len(SessionStore(url).load(session_id).transcript)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=40)
    options = parser.parse_args()
    chance = random.Random(1)
    refused = failed = made = 0
    order = ""

    def answer(request: Request) -> Line:
        nonlocal refused
        if provider.count_tokens(request) > WINDOW:
            refused += 1
            raise ContextOverflow("too long")
        if request.answer_tag:
            return says(f"<summary>The customer asked for order {order}.</summary>")
        words = " ".join(
            chance.choices(
                ["to", "the", "order", "is", "sent", "from", "a", "shop"],
                k=options.words,
            )
        )
        return says(f"Order {request.history[-1].content.split()[-1]} {words}.")

    provider = ScriptedProvider(*[answer] * (3 * options.turns), window=WINDOW)
    with tempfile.TemporaryDirectory() as folder:
        store = SessionStore(f"sqlite:///{folder}/chat.db")
        agent = Agent(provider, engine=CompactionEngine())
        autosave = Autosave(store, agent.session, is_saved=False)
        began = time.process_time()
        for number in tqdm(range(1, options.turns + 1), disable=None):
            order = f"W{number:07d}"
            for event in agent.run(f"Where is the parcel of order {order}"):
                autosave(event)
                made += isinstance(event, Compacted)
                failed += isinstance(event, TurnFailed)
            provider.requests.clear()
            if number % (options.turns // 10) == 0:
                autosave.save()
                memory = memory_mb()
                with ProcessPoolExecutor(1, get_context("spawn")) as child:
                    loaded = child.submit(
                        saved_entries, store.url, agent.session.session_id
                    )
                    saved = loaded.result()
                print(
                    f"{number:6,} turns {memory:6.0f} MB  {made:5,} compactions  "
                    f"{refused} refused  {failed} failed  "
                    f"{len(agent.session.transcript) - saved} lost  "
                    f"{time.process_time() - began:5.0f} s CPU",
                    flush=True,
                )


if __name__ == "__main__":
    main()
