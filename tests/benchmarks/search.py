"""Time the search over all sessions of a store that has many owners.

    python tests/benchmarks/search.py [entries] [store_url]

A million entries of ten owners, in sessions of a thousand. Each query is asked ten times
by one owner; the slowest answer counts. CPU: 2 to 24 ms in SQLite; 3 to 22 ms with the
server's in PostgreSQL (2.1 million entries).
"""

import sys
import tempfile
import time

from storage import entries

from nbchat.conversation.session import Session
from nbchat.storage.autosave import save_session
from nbchat.storage.store import SessionStore

OWNERS, LENGTH, REPEATS = 10, 1_000, 10

QUERIES = (
    "RX-13",
    "order RX-13",
    "order SO-77",
    "printer",
    "printer toner paper queue ticket",
    "of the printer",
    "nowhere",
    "rinte",
    "secret of ann",
)
"""An id, also with a word that all have, an id in each session, words that all have,
none, inside a word, and words of another owner."""


def fill(url: str, count: int) -> None:
    """Save sessions of a thousand entries, in turn for each owner."""
    for number in range(count // LENGTH):
        owner = f"owner-{number % OWNERS}"
        opening = ("user", f"Where is RX-{number}?"), ("assistant", "I look it up.")
        said = [*opening, *entries(LENGTH - 2, seed=number)]
        session = Session(said, session_id=f"s{number}")
        save_session(SessionStore(url, owner=owner), session)
    ann = Session([("user", "The secret of Ann")], session_id="ann")
    save_session(SessionStore(url, owner="ann"), ann)


def main(count: int, url: str) -> None:
    began = time.perf_counter()
    fill(url, count)
    print(f"saved {count:,} entries in {time.perf_counter() - began:,.0f} s")
    store = SessionStore(url, owner="owner-3")
    for query in ("", *QUERIES):
        times, used = [], time.process_time()
        for _ in range(REPEATS):
            began = time.perf_counter()
            found = store.sessions(query=query)
            times.append((time.perf_counter() - began) * 1_000)
        cpu = (time.process_time() - used) / REPEATS * 1_000
        print(
            f"{query or '(list)':34}{len(found):5} sessions{max(times):10,.1f} ms at most"
            f"{sorted(times)[REPEATS // 2]:10,.1f} median{cpu:10,.1f} ms of our CPU"
        )
    store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
        main(count, sys.argv[2] if len(sys.argv) > 2 else f"sqlite:///{folder}/s.db")
