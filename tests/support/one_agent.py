"""One agent that decides many tickets in a row, by any policy, and the truth beside it."""

import re
from itertools import repeat

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.providers.base import Request
from nbchat.testing import Line, ScriptedProvider, calls, says

STORY = "<summary>Tickets were decided, one after the other.</summary>"
CATEGORIES = ("card", "transfer", "cash", "other")

Truth = dict[str, dict[str, str]]


def decisions(number: int) -> dict[str, str]:
    return {
        "ticket": f"T{number:04}",
        "category": CATEGORIES[number * 7 % 4],
        "priority": ("low", "normal", "high")[number % 3],
    }


def answer(request: Request) -> Line:
    """Decides the ticket of the last prompt; every tenth is corrected afterwards."""
    if request.answer_tag or request.output_schema:
        return says(STORY)
    last = request.history[-1]
    prompt = next((e.content for e in reversed(request.history) if e.is_prompt), "")
    if not prompt:  # compacted within the turn: the ticket is decided
        return says("That is decided.")
    decided = decisions(int(re.findall(r"T(\d{4})", prompt)[-1]))
    if last.role != "tool":
        first = {**decided, "priority": "low"} if prompt.endswith("!") else decided
        return calls("decide", **first)
    if (
        prompt.endswith("!")
        and '"low"' in last.content
        and decided["priority"] != "low"
    ):
        return calls("decide", **decided)
    return says(f"{decided['ticket']} is decided.")


def prompt(number: int) -> str:
    mark = "!" if number % 10 == 9 else "."
    return (
        f"Ticket T{number:04}: my parcel and my card are both late since Monday{mark}"
    )


def desk_agent(policy: str, truth: Truth, *, threshold: int, window: int) -> Agent:
    def decide(ticket: str, category: str, priority: str) -> dict[str, str]:
        """Decide a ticket."""
        truth[ticket] = {"category": category, "priority": priority}
        return {"ticket": ticket, **truth[ticket], "status": "decided"}

    provider = ScriptedProvider(window=window)
    provider._lines = repeat(answer)
    engine = CompactionEngine(threshold, policy=policy)
    return Agent(provider, tools=[decide], engine=engine)


def assert_true_table(agent: Agent, truth: Truth, count: int) -> None:
    """The table made from facts has every ticket with its last decision."""
    table = agent.facts_by("ticket")
    wanted = {
        name: {"ticket": name, "status": "decided", **row}
        for name, row in truth.items()
    }
    assert len(truth) == count
    assert table == wanted
