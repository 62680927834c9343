"""Tickets, agents and a model for runs of many agents, which go to other processes, too."""

import json
import os
import random
import signal
import sys
import time
from functools import cache
from itertools import repeat
from typing import Any, Literal

import sqlalchemy as sa
from pydantic import BaseModel

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import MapRun, map_agents
from nbchat.conversation.tools import idempotency_key, tool
from nbchat.errors import RequestRefused
from nbchat.providers.base import Request
from nbchat.storage.run_store import Store
from nbchat.testing import Line, ScriptedProvider, calls, fails, says


class Decision(BaseModel):
    category: Literal["card", "transfer", "other"]
    ticket: str


def tickets(count: int) -> list[dict[str, str]]:
    words = ("my card is gone", "the transfer is late", "hello")
    return [
        {"id": f"T{n:04}", "text": f"T{n:04}: {words[n % 3]}"} for n in range(count)
    ]


def category(text: str) -> str:
    return next((each for each in ("card", "transfer") if each in text), "other")


def decision(request: Request) -> Line:
    """The right decision, without tools; a ticket that says "explode" is refused."""
    text = next(e.content for e in request.history if e.is_prompt)
    if "explode" in text:
        return fails(RequestRefused("no such model"))
    return says(json.dumps({"category": category(text), "ticket": text[:5]}))


def decision_after_a_call(request: Request) -> Line:
    """Closes the ticket by a tool first; again where the result is unknown."""
    last = request.history[-1]
    if last.role == "tool" and not last.is_error:
        return decision(request)
    text = next(e.content for e in request.history if e.is_prompt)
    return calls("close", ticket=text[:5])


class Desk(ScriptedProvider):
    """A model that answers each request by a function."""

    def __init__(self, answer: Any = decision) -> None:
        super().__init__()
        self._answer = answer
        self._lines = repeat(answer)

    def __reduce__(self) -> Any:
        return Desk, (self._answer,)


def make_agent() -> Agent:
    return Agent(Desk(), system="You triage tickets.")


def make_agent_of(ticket: dict[str, str]) -> Agent:
    return Agent(Desk(), system=f"You triage {ticket['id']}.")


@cache
def engine_of(url: str, _process: int) -> sa.Engine:
    return sa.create_engine(url)


class ClosingAgent:
    """Makes agents whose tool closes a ticket in a database, once for each key."""

    def __init__(self, effects: str) -> None:
        self.effects = effects

    def __call__(self) -> Agent:
        effects = engine_of(self.effects, os.getpid())

        @tool(read_only=False)
        def close(ticket: str) -> str:
            """Close a ticket."""
            row = {"key": idempotency_key(), "ticket": ticket, "pid": os.getpid()}
            with effects.begin() as connection:
                connection.execute(
                    sa.text(
                        "INSERT INTO effects (key, ticket, pid) VALUES (:key, :ticket, :pid)"
                        " ON CONFLICT (key) DO NOTHING"
                    ),
                    row,
                )
            return f"{ticket} is closed"

        return Agent(Desk(decision_after_a_call), tools=[close], approve=True)


def assert_decided_once(store: Store, effects_url: str, count: int) -> None:
    """Every ticket is decided once, right, and closed once."""
    results = list(store.results("kill"))
    assert [each.key for each in results] == [each["id"] for each in tickets(count)]
    assert {each.error for each in results} == {""}
    for each, ticket in zip(results, tickets(count), strict=True):
        transcript = store.load(each.session_id).transcript
        answers = [e for e in transcript if e.is_answer and not e.is_incomplete]
        (decided,) = (json.loads(e.content) for e in answers)
        assert decided == each.value
        assert decided["category"] == category(ticket["text"])
        assert sum(e.is_prompt and e.content == ticket["text"] for e in transcript) == 1
    engine = sa.create_engine(effects_url)
    with engine.begin() as connection:
        rows = connection.execute(sa.text("SELECT ticket FROM effects ORDER BY ticket"))
        assert [row.ticket for row in rows] == [each["id"] for each in tickets(count)]
    engine.dispose()


def make_effects(url: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE TABLE effects (key TEXT PRIMARY KEY, ticket TEXT, pid INTEGER)"
            )
        )
    engine.dispose()


def run_to_the_end(store_url: str, effects_url: str, count: int) -> MapRun:
    """What a process does that is killed at any moment."""
    return map_agents(
        ClosingAgent(effects_url),
        tickets(count),
        key="id",
        prompt="text",
        output=Decision,
        workers=4,
        store=Store(store_url),
        name="kill",
    ).wait()


def closed_tickets(effects_url: str, goal: int = 0) -> int:
    """How many tickets are closed, as soon as there are `goal` of them."""
    engine, found = sa.create_engine(effects_url), -1
    with engine.connect() as connection:
        while found < goal:
            time.sleep(0.002)
            count = connection.execute(sa.text("SELECT count(*) FROM effects"))
            found = int(count.scalar() or 0)
            connection.rollback()  # the next statement sees what was closed meanwhile
    engine.dispose()
    return found


def child_with(store_url: str, effects_url: str, count: int) -> int:
    """The id of a process that works on all tickets."""
    child = os.fork()
    if child == 0:
        run = run_to_the_end(store_url, effects_url, count)
        os._exit(0 if run.state == "finished" else 1)
    return child


def run_with_kills(store_url: str, effects_url: str, count: int, kills: int) -> None:
    """Kill the process as often, each time when more tickets are closed; then end."""
    chance = random.Random(count)
    for number in range(kills):
        share = count // (kills + 1)
        goal = number * share + chance.randrange(1, share)
        child = child_with(store_url, effects_url, count)
        closed_tickets(effects_url, goal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print("killed after", closed_tickets(effects_url), flush=True)
    _, status = os.waitpid(child_with(store_url, effects_url, count), 0)
    print("ended with", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    import warm_tokens  # noqa: F401  # else each process reads the vocabulary again

    run_with_kills(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
