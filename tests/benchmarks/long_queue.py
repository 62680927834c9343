"""One agent that works through 200 tickets: how often it compacts, and what that costs.

    python tests/benchmarks/long_queue.py [--tickets 200]

Each ticket takes three requests and two tools, in a window of 16,000 tokens; below, 50
turns of recorded notebooks in one of 32,000. No threshold is set. The model is a script
in this process, which makes the share of a compaction large, and for "SDK" a server of
this machine that the SDK of OpenAI asks; for "cached" it tells of a prompt cache. The
figures are printed and never asserted: machines differ.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from long_run import Measured, Script
from long_run import replay as replayed
from long_sessions import work_sessions
from quick_server import quick_server

from nbchat import connect
from nbchat.agent.agent import Agent
from nbchat.agent.compactor import Compactor
from nbchat.compaction.engine import CompactionEngine
from nbchat.providers.base import Provider, Request
from nbchat.testing import Line, ScriptedProvider, calls, says

POLICIES = ("single-summary", "recent-messages", "tiered")
"""The default, whose meter is the sum of input tokens, and two with a window meter."""

WINDOW = 16_000
"""Tokens of the window of the model that decides tickets."""

WORDS = (
    "The card was declined at a shop abroad and the customer has called twice. " * 20
)


@dataclass
class Clock:
    """CPU seconds within compactions, one for each that was made."""

    seconds: list[float] = field(default_factory=list)
    checking: float = 0.0
    """Where none was made."""

    def measure(self) -> None:
        """Measure all that a request does about compactions before it is sent."""
        inner = Compactor.if_due

        def if_due(compactor: Compactor, *args: Any, **options: Any) -> Iterator[Any]:
            records = compactor._agent.session.compactions
            before, began = len(records), time.process_time()
            yield from inner(compactor, *args, **options)
            spent = time.process_time() - began
            if len(records) > before:
                self.seconds.append(spent)
            else:
                self.checking += spent

        Compactor.if_due = if_due  # type: ignore[method-assign,assignment]


def answer(request: Request) -> Line:
    """Gets the ticket, records a decision, and says so."""
    if request.answer_tag:
        said = " ".join(f"{each.content} {each.tool_args}" for each in request.history)
        names = list(dict.fromkeys(re.findall(r"T\d{4}", said)))
        told = ", ".join(names[-20:])
        return says(f"<summary>\nTickets {told} were decided: card.\n</summary>")
    last = request.history[-1]
    if last.role == "tool" and "recorded" in last.content:
        return says("It is decided.")
    if last.role == "tool":
        ticket = json.loads(last.content)["ticket_id"]
        return calls("record_decision", ticket_id=ticket, category="card")
    ticket = last.content.split()[0]
    return calls("get_ticket", ticket_id=ticket)


def get_ticket(ticket_id: str) -> dict[str, str]:
    """Get a ticket."""
    return {"ticket_id": ticket_id, "text": WORDS, "customer": f"C{ticket_id[1:]}"}


def record_decision(ticket_id: str, category: str) -> dict[str, str]:
    """Record the category of a ticket."""
    return {"ticket_id": ticket_id, "category": category, "state": "recorded"}


def scripted() -> ScriptedProvider:
    provider = ScriptedProvider(window=WINDOW)
    provider._lines = repeat(answer)
    return provider


def tickets(policy: str, count: int, provider: Provider) -> Agent:
    engine = CompactionEngine(None, policy=policy)
    agent = Agent(provider, tools=[get_ticket, record_decision], engine=engine)
    for number in range(count):
        agent.ask(f"T{number:04} is next.")
    return agent


def notebooks(policy: str, turns: int) -> Agent:
    (session,) = work_sessions("notebook", tokens=60_000, count=1)
    prompts = [n for n, each in enumerate(session.entries) if each.role == "user"]
    end = prompts[turns] if len(prompts) > turns else len(session.entries)
    session = replace(session, entries=session.entries[:end])
    engine = CompactionEngine(None, policy=policy)
    return replayed(Script(session), Measured(), engine, story="copy", window=32_000)


def report(name: str, clock: Clock, agent: Agent, seconds: float) -> None:
    records = [each for each in agent.session.compactions if each.is_active]
    summaries = sum(each.kind == "summary" for each in records)
    timed = clock.seconds
    share = (sum(timed) + clock.checking) / seconds
    tenth = max(len(timed) // 10, 1)
    first, last = (
        sum(each) / max(len(each), 1) for each in (timed[:tenth], timed[-tenth:])
    )
    requests = len(agent.session.usages)
    print(
        f"{name:28} {requests:4} requests, {summaries:3} summaries of {len(timed):3} "
        f"compactions, {share:4.0%} of {seconds:5.1f} s of CPU, "
        f"{1000 * first:4.0f} ms each at first, {1000 * last:4.0f} ms at last",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tickets", type=int, default=200)
    parser.add_argument("--turns", type=int, default=50)
    given = parser.parse_args()
    with quick_server(calls=2) as plain, quick_server(calls=2, caches=True) as other:
        hosted, caching = (
            connect("openai:m", base_url=each, api_key=lambda: "k", window=WINDOW)
            for each in (plain, other)
        )
        kinds: dict[str, Callable[[str], Agent]] = {
            "tickets": lambda policy: tickets(policy, given.tickets, scripted()),
            "tickets, SDK": lambda policy: tickets(policy, given.tickets, hosted),
            "tickets, cached": lambda policy: tickets(policy, given.tickets, caching),
            "notebooks": lambda policy: notebooks(policy, given.turns),
        }
        for warm in (scripted(), hosted):  # loads what is loaded once
            tickets("single-summary", 5, warm)
        inner = Compactor.if_due
        for kind, work in kinds.items():
            for policy in POLICIES:
                Compactor.if_due, clock = inner, Clock()  # type: ignore[method-assign]
                clock.measure()
                began = time.process_time()
                agent = work(policy)
                report(f"{kind}, {policy}", clock, agent, time.process_time() - began)


if __name__ == "__main__":
    main()
