"""Time compactions of one long session: the first after opening, and later ones.

    python tests/benchmarks/compaction.py [entries]

Its entries but the newest 400 were compacted before, as in a chat that goes on.
100,000 entries, CPU: 16 s the first time, 2 s later. When each
compaction read the whole transcript it was 40 and 42 s.
"""

import json
import random
import sys
import time
from collections.abc import Iterator

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.testing import ScriptedProvider, says

SUMMARY = "<summary>\nIt went on.\n</summary>"
NEW = 400


def entries(count: int, seed: int) -> Iterator[Entry]:
    """Questions, calls, results and answers, each about an order of its own."""
    chance = random.Random(seed)
    for number in range(count // 4):
        order, call = f"SO-{seed}-{number}", f"c{seed}-{number}"
        tool = chance.choice(["get_order", "cancel_order", "find_customer"])
        items = [{"item_id": f"I{chance.randrange(99_999)}", "price": 3.5}] * 2
        state = {"order_id": order, "total": chance.randrange(9_999), "items": items}
        yield Entry("user", f"Please look at order {order} of Ann Lee in Berlin.")
        yield Entry("assistant", "", call, tool, json.dumps({"order_id": order}))
        yield Entry("tool", json.dumps(state), call, tool)
        yield Entry("assistant", f"Order {order} arrives on 2024-05-1{number % 10}.")


def main(count: int) -> None:
    session = Session(entries(count, 0))
    session.compactions.append(Compaction("c", 0, count - NEW, SUMMARY))
    agent = Agent(ScriptedProvider(*[says(SUMMARY)] * 3), session=session)
    for number, name in enumerate(("first", "second", "third"), 1):
        worked = time.process_time()
        list(agent.compact())
        print(f"{name:8}{time.process_time() - worked:6.2f} s of CPU")
        for entry in entries(NEW, number):
            session.append(entry)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
