"""How many of 1,000 compactions succeed at a server that fails in 5 % of requests.

    python tests/benchmarks/reliability.py
    python tests/benchmarks/reliability.py --policy tiered --failing 0.2 --count 200

A server on this machine speaks the OpenAI API; every request fails with the given
chance, half of them by an error 503 and half by a dropped connection. The summaries it
writes are true and short. A summary that code wrote instead does not count as a
success. Waits between tries are real; the model itself takes no time.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from fault_server import FaultServer, OpenAIDialect, Recorded, Response, failure

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.session import Session
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.testing import recorded_desk

MESSAGES = 34
"""Entries of the recorded desk that each conversation has: two of its twelve."""

SUMMARY = (
    "The customer wanted order #W2905754 changed, and it was changed as they wished."
)
FIELDS = {"overview": SUMMARY, "key_facts": ["The change was made."]}


class FailingServer(FaultServer):
    """Writes summaries, except in some share of the requests."""

    def __init__(self, share: float) -> None:
        """`share` of all requests fail, in an order that is always the same."""
        super().__init__()
        self.failed = 0
        self._share, self._random = share, random.Random(7)

    def next_response(self, request: Recorded) -> Response:
        """A summary or a fault."""
        self.requests.append(request)
        dialect = OpenAIDialect()
        is_json = "response_format" in request.body
        text = json.dumps(FIELDS) if is_json else f"<summary>{SUMMARY}</summary>"
        read = len(json.dumps(request.body)) // 4
        whole = dialect.text(text, usage=(read, 30, 0))
        if self._random.random() >= self._share:
            return whole
        self.failed += 1
        drop = Response(whole.events[:1], ending="reset")
        return failure(503) if self._random.random() < 1 / 2 else drop


def main() -> None:
    """Compact, count what came of it, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="single-summary", choices=PRESETS)
    parser.add_argument("--failing", type=float, default=0.05)
    parser.add_argument("--count", type=int, default=1_000)
    wanted = parser.parse_args()
    server = FailingServer(wanted.failing)
    provider = OpenAIProvider(
        "small", base_url=f"{server.url}/v1", api_key=lambda: "sk-none", window=32_000
    )
    entries = recorded_desk()[:MESSAGES]
    outcomes: Counter[str] = Counter()
    seconds = []
    for _ in range(wanted.count):
        engine = CompactionEngine(None, policy=wanted.policy)
        agent = Agent(provider, session=Session(entries), engine=engine)
        began = time.perf_counter()
        list(agent.compact(keep=0))
        seconds.append(time.perf_counter() - began)
        record = agent.session.compactions[-1]
        outcomes[record.status] += 1
    server.close()
    seconds.sort()
    share = outcomes["done"] / wanted.count
    print(
        f"{wanted.policy}: {share:.1%} of {wanted.count:,} succeeded ({dict(outcomes)}); "
        f"{server.failed} of {len(server.requests):,} requests failed; "
        f"median {seconds[len(seconds) // 2]:.2f} s, "
        f"99 % below {seconds[int(len(seconds) * 0.99)]:.1f} s"
    )


if __name__ == "__main__":
    main()
