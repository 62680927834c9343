"""Faults x providers x moments: the turn ends with a named error, and nothing is lost."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from fault_server import FaultServer, Response
from faults import FAULTS, MID_STREAM, begun, fault
from provider_kit import DIALECTS, KEY, provider_at
from wire_rules import anthropic_faults, openai_faults, responses_faults

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import CompactionFailed, TurnFailed, TurnFinished
from nbchat.conversation.session import Session
from nbchat.conversation.tools import tool
from nbchat.errors import NbchatError

WORDS = "Many words of a long conversation about one thing. " * 12
SAID = [Entry(role, WORDS) for role in ("user", "assistant") * 2]
MOMENTS = ("after a tool", "summary")
"""Besides the first request and the middle of an answer: providers/test_providers.py."""

QUICK = {"attempts": 1, "timeout_seconds": 30}
SILENT = 0.15
"""Seconds that a chat waits where the fault is silence; elsewhere a busy machine may
take longer to answer."""
FAULTS_OF = {
    "openai": openai_faults,
    "gemini": openai_faults,
    "responses": responses_faults,
    "anthropic": anthropic_faults,
}


def responses_of(wire: str) -> dict[str, Response]:
    """Every fault before an answer, and every one in its middle."""
    dialect = DIALECTS[wire]
    before = {name: fault(name, dialect) for name in FAULTS}
    within = {
        f"after the first words: {name}": make(dialect, begun(dialect))
        for name, (make, _) in MID_STREAM.items()
    }
    return {**before, **within}


def agent_at(server: FaultServer, wire: str, act: Callable[[str], None]) -> Agent:
    @tool
    def note(text: str) -> str:
        """Note a text."""
        act(text)
        return "noted"

    return Agent(
        provider_at(server, wire, window=200_000),
        tools=[note],
        engine=CompactionEngine(context_token_threshold=None),
        session=Session(SAID),
        recall=False,
        **QUICK,  # type: ignore[arg-type]
    )


def suffer(wire: str, moment: str, bad: Response) -> None:
    """A chat that meets a fault at a moment, and must go on as if it had not.

    A server of its own, for all chats with a server share what it says of its limits.
    """
    with closing(FaultServer()) as server:
        suffer_at(server, wire, moment, bad)


def suffer_at(server: FaultServer, wire: str, moment: str, bad: Response) -> None:
    dialect, ran = DIALECTS[wire], list[str]()

    def act(text: str) -> None:
        ran.append(text)
        await_bad()

    def await_bad() -> None:
        """Wait but a moment from now on: what comes before may take its time."""
        if bad.ending in ("stall", "silence"):
            agent.options = {**usual, "timeout_seconds": SILENT}

    agent = agent_at(server, wire, act)
    usual = agent.options
    match moment:
        case "after a tool":
            server.script(dialect.calls(("c1", "note", '{"text": "x"}')), bad)
        case "summary":
            server.script(*[bad] * 8)
            await_bad()
    if moment == "summary":
        *_, last = agent.compact()
        assert isinstance(last, CompactionFailed)
    else:
        # Too long is answered by a compaction, which may ask as often as it needs to.
        *_, last = agent.run("Three?")
        assert isinstance(last, TurnFailed)
        assert isinstance(last.error, NbchatError)
    assert KEY not in repr(last)
    assert ran == (["x"] if moment == "after a tool" else [])
    assert agent.session.transcript[: len(SAID)] == SAID
    agent.options = usual
    assert_goes_on(server, agent, wire)


def assert_goes_on(server: FaultServer, agent: Agent, wire: str) -> None:
    """The next turn is legal to send, and answered."""
    server._script.clear()
    server.script(DIALECTS[wire].text("Still here."))
    *_, last = agent.run("And now?")
    assert last == TurnFinished("end_turn", 1)
    body: Any = server.requests[-1].body
    assert FAULTS_OF[wire](body.get("messages") or body["input"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("wire", DIALECTS)
def test_whatever_fails_is_named_and_the_chat_continues(wire, moment):
    for name, bad in responses_of(wire).items():
        try:
            suffer(wire, moment, bad)
        except Exception as error:
            raise AssertionError(f"{name}, {wire}, {moment}") from error


def test_the_matrix_has_over_400_combinations():
    here = len(MOMENTS) * len(responses_of("openai"))
    elsewhere = len(FAULTS) + len(MID_STREAM)
    assert len(DIALECTS) * (here + elsewhere) >= 400
