"""Time what a store does with one large session: save, open, append, list, search.

    python tests/benchmarks/storage.py [entries] [store_url]

100,000 entries in SQLite, CPU: opened in 0.7 s, appended to in 2 ms, searched in 3 to
20 ms, in 40 ms inside words. Opened by a chat, it is then counted and indexed in 2 s in
the background; then the first count takes 40 ms, and /recall 1 to 80 ms.
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.storage.autosave import save_session
from nbchat.storage.factory import PREPARING, autosave_of
from nbchat.storage.store import Origin, SessionStore
from nbchat.testing import ScriptedProvider

WORDS = [
    "order",
    "parcel",
    "customer",
    "refund",
    "shipped",
    "waiting",
    "address",
    "street",
    "invoice",
    "number",
    "status",
    "open",
    "closed",
    "pending",
    "gold",
    "silver",
    "printer",
    "toner",
    "paper",
    "queue",
    "ticket",
]


def entries(count: int, seed: int = 0) -> Iterator[Entry]:
    """Questions, calls, results and answers, each about an order of its own."""
    chance = random.Random(seed)
    for number in range(count):
        text = " ".join(chance.choices(WORDS, k=30))
        order = f"SO-{number // 4}"
        match number % 4:
            case 0:
                yield Entry("user", f"{text} {order}")
            case 1:
                yield Entry("assistant", "", f"c{number}", "lookup", f'["{order}"]')
            case 2:
                yield Entry("tool", f"{text} {order}", f"c{number - 1}", "lookup")
            case _:
                yield Entry("assistant", text)


def timed(name: str, step: Callable[[], object]) -> object:
    """Run a step and print how long it took."""
    begun, worked = time.perf_counter(), time.process_time()
    found = step()
    wall, cpu = time.perf_counter() - begun, time.process_time() - worked
    print(f"{name:28}{wall * 1_000:10,.1f} ms, {cpu * 1_000:10,.1f} ms of CPU")
    return found


def await_preparation() -> None:
    """Wait for the thread that prepares a large session."""
    for thread in threading.enumerate():
        if thread.name == PREPARING:
            thread.join()


def main(count: int, url: str) -> None:
    store = SessionStore(url)
    session = Session(entries(count), session_id=f"big-{time.time_ns()}")
    timed(f"save {count:,} entries", lambda: save_session(store, session))
    again = SessionStore(url)
    again.sessions()
    loaded = timed("open", lambda: again.load(session.session_id))
    assert isinstance(loaded, Session)
    agent = Agent(ScriptedProvider(), session=loaded)
    autosave_of(again, loaded, agent)
    timed("prepare, in the background", await_preparation)
    timed("count", lambda: agent.engine.tracker.history_tokens(loaded))
    for query in ("SO-4000", "toner SO-4001", "printer", "nowhere"):
        timed(f"recall {query}", lambda each=query: loaded.recall(each))
    for each in ("first", "second"):
        loaded.append(Entry("user", "one more"))
        length = len(loaded.transcript)
        timed(
            f"append, {each}",
            lambda stop=length: again.add_entries(loaded, stop - 1, stop, Origin()),
        )
    timed("list", again.sessions)
    for query in ("SO-4000", "toner SO-4001", "printer", "nowhere"):
        timed(f"search {query}", lambda each=query: again.sessions(query=each))
    again.delete(session.session_id)
    again.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
        main(count, sys.argv[2] if len(sys.argv) > 2 else f"sqlite:///{folder}/s.db")
