"""Rows of `map_agents`, and asks, whose streams break after the first words.

    PYTHONPATH=tests/support python tests/benchmarks/broken_streams.py [--rows 300] [--share 0.09]

A share of all streams breaks after its first words; Anthropic's after thinking. No row
may be lost, and an answer may hold nothing of a broken one.
"""

import argparse
import random
import threading
import time
from dataclasses import replace

from fault_server import AnthropicDialect, FaultServer, Recorded, Response
from provider_kit import DIALECTS, provider_at

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import map_agents
from nbchat.errors import NbchatError

ANSWER = ("The ", "parcel ", "is in ", "Bergen.")


class BreakingServer(FaultServer):
    """Answers all requests; a share of the answers breaks off."""

    def __init__(self, kind: str, share: float) -> None:
        super().__init__()
        self.kind, self.share, self.broken = kind, share, 0
        self._chance, self._lock = random.Random(kind), threading.Lock()

    def next_response(self, request: Recorded) -> Response:
        whole = self._answer()
        with self._lock:
            self.requests.append(request)
            is_broken = self._chance.random() < self.share
            self.broken += is_broken
            how = self._chance.choice(["cut", "reset"])
        events = len(whole.events) // 2 + 1
        return replace(whole.after(events), ending=how) if is_broken else whole

    def _answer(self) -> Response:
        if self.kind != "anthropic":
            return DIALECTS[self.kind].text(*ANSWER)
        start = {"type": "thinking", "thinking": "", "signature": ""}
        thought = [
            {"type": "thinking_delta", "thinking": "Where is it?"},
            {"type": "signature_delta", "signature": "s1"},
        ]
        said = [{"type": "text_delta", "text": each} for each in ANSWER]
        wire = AnthropicDialect()
        return wire.stream((start, thought), ({"type": "text", "text": ""}, said))


def run(kind: str, rows: int, share: float) -> str:
    server = BreakingServer(kind, share)
    provider = provider_at(server, kind, window=200_000)
    began = time.monotonic()
    items = [{"id": n, "text": f"ticket {n}"} for n in range(rows)]
    done = map_agents(
        lambda: Agent(provider), items, key="id", prompt="text", workers=8
    )
    found = list(done.wait().rows())
    lost = sum(each.get("value") != "".join(ANSWER) for each in found)
    seconds, broken = time.monotonic() - began, server.broken
    failed = 0
    for _ in range(50):
        try:
            failed += Agent(provider).ask("where?") != "".join(ANSWER)
        except NbchatError:
            failed += 1
    line = (
        f"{kind}: {rows} rows, {broken} of {len(server.requests)} streams broken, "
        f"{lost} rows lost, {failed} of 50 asks failed, {seconds:.0f} s"
    )
    server.close()
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--share", type=float, default=0.09)
    asked = parser.parse_args()
    for kind in ("openai", "responses", "anthropic"):
        print(run(kind, asked.rows, asked.share))


if __name__ == "__main__":
    main()
