"""One agent over many tickets: the table is true however often it was compacted."""

from pathlib import Path

import pytest
from map_desk import Decision
from one_agent import assert_true_table, desk_agent, prompt

from nbchat.agent.agent import Agent
from nbchat.agent.budget import Budget
from nbchat.compaction.policies import PRESETS
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, calls, says

COMPACTING = sorted({*PRESETS} - {"off"})


@pytest.mark.slow
@pytest.mark.parametrize("policy", COMPACTING)
def test_the_table_made_from_facts_is_the_truth_for_every_policy(policy: str):
    truth: dict[str, dict[str, str]] = {}
    agent = desk_agent(policy, truth, threshold=1_500, window=4_000)
    for number in range(24):
        agent.ask(prompt(number))
    list(agent.compact())
    assert agent.session.compaction is not None
    assert_true_table(agent, truth, 24)


def look_up(ticket: str) -> str:
    """Look a ticket up."""
    return f"{ticket}: a long story about a card, " * 50


@pytest.mark.slow
def test_of_a_branch_only_its_row_returns(tmp_path: Path):
    row = '{"category": "card", "ticket": "T0001"}'
    provider = ScriptedProvider(
        says("hello"), calls("look_up", ticket="T0001"), says(row), says("bye")
    )
    agent = Agent(provider, tools=[look_up], budget=Budget(steps=9))
    store = SessionStore(f"sqlite:///{tmp_path / 'x.db'}")
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask("hi")
    answer = agent.ask_in_branch("Decide ticket T0001: my card", output=Decision)
    assert answer.value == Decision(category="card", ticket="T0001")
    assert [e.content for e in provider.requests[1].history] == [
        "hi",
        "hello",
        "Decide ticket T0001: my card",
    ]
    _, _, task, said = agent.session.transcript
    assert task.content.startswith("Decide ticket T0001: my card (session ")
    assert said.content == row
    branch = store.load(task.content.split()[-1].rstrip(")"))
    assert "long story" in branch.transcript[4].content
    assert store.load(agent.session.session_id).transcript == agent.session.transcript
    assert agent.meter is not None
    assert agent.meter.steps == 3
    agent.ask("bye")
    assert len(provider.requests[-1].history) == 5
    store.close()
