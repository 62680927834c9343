"""The model has the tool `recall` where something is hidden, and notes are true."""

from dataclasses import replace

import pytest

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.providers.connect import connect
from nbchat.testing import ScriptedProvider, calls, says

LOG = "\n".join(f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(500))


def read() -> str:
    """Read the log."""
    return LOG


def agent_with(*lines: object, **options: object) -> Agent:
    engine = CompactionEngine(policy=replace(PRESETS["early"], offers_checkpoint=False))
    options = {"tools": [read], "engine": engine} | options
    return Agent(ScriptedProvider(*lines), **options)  # type: ignore[arg-type]


def offered(request: object) -> list[str]:
    return [each.name for each in request.tools]


def test_recall_is_offered_from_the_first_shortened_output_on():
    agent = agent_with(calls("read"), calls("recall", query="2"), says("Done."))
    agent.ask("Read it.")
    first, second, third = agent.provider.requests
    assert offered(first) == ["read"]
    assert offered(second) == ["read", "recall"]
    assert "recall(2) returns them" in second.history[-1].content
    assert third.history[-1].content.startswith("[2] result of read:\nline 0:")


def test_recall_is_offered_after_a_compaction():
    lines = (
        says("The parcel left Lisbon. " * 99),
        says("<summary>They talked about a parcel.</summary>"),
    )
    agent = agent_with(*lines, engine=CompactionEngine())
    agent.ask("Hello.")
    assert [tool.name for tool in agent.tools] == ["read"]
    list(agent.compact())
    assert agent.session.compaction is not None
    assert [tool.name for tool in agent.tools] == ["read", "recall"]
    known = agent.engine.tracker.context_tokens(agent.session)
    sent = agent.provider.count_tokens(agent.next_request())
    assert known == pytest.approx(sent, abs=60)


def test_without_other_tools_an_unknown_server_is_offered_none():
    lines = (
        says("The parcel left Lisbon. " * 99),
        says("<summary>They talked about a parcel.</summary>"),
    )
    agent = agent_with(*lines, tools=[], engine=CompactionEngine())
    agent.ask("Hello.")
    list(agent.compact())
    assert agent.session.compaction is not None
    assert agent.tools == ()


@pytest.mark.parametrize("model", ["openai:gpt-5", "anthropic:claude-haiku-4-5"])
def test_models_of_known_servers_have_it_always(model, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert [tool.name for tool in Agent(connect(model)).tools] == ["recall"]
    assert Agent(connect(model), recall=False).tools == ()


def test_an_excluded_message_is_no_reason_to_offer_it():
    agent = agent_with(says("one"))
    agent.ask("Hello.")
    list(agent.exclude(0))
    assert [tool.name for tool in agent.tools] == ["read"]


def test_a_tool_of_the_user_with_this_name_stays_the_only_one():
    def recall() -> str:
        """One of the user's own."""
        return ""

    agent = agent_with(calls("read"), says("x"), tools=[read, recall])
    agent.ask("Read it.")
    assert [tool.name for tool in agent.tools] == ["read", "recall"]


def test_a_note_promises_recall_only_where_the_model_has_it():
    agent = agent_with(calls("read"), says("x"), says("y"), recall=False)
    agent.ask("Read it.")
    shown = agent.provider.requests[1].history[-1].content
    assert shown.endswith(" tokens omitted]")
    assert "recall" not in shown
    agent.recall = True
    agent.ask("Again.")
    assert "recall(2) returns them]" in agent.provider.requests[2].history[2].content


@pytest.mark.slow
@pytest.mark.parametrize("recall", [True, False])
def test_facts_that_did_not_fit_are_mentioned_only_if_recall_is_offered(
    *, recall: bool
):
    orders = [
        Entry(*each)
        for n in range(500)
        for each in (
            ("user", f"And order W{n}?"),
            ("assistant", "", f"c{n}", "get_order", f'{{"order_id": "W{n}"}}'),
            ("tool", f'{{"order_id": "W{n}", "total": {n}.5}}', f"c{n}", "get_order"),
            ("assistant", f"W{n} costs {n}.5."),
        )
    ]
    told = says("<summary>The customer asked about many orders.</summary>")
    engine = CompactionEngine()
    agent = agent_with(told, says("x"), recall=recall, engine=engine)
    agent.session = Session(orders)
    list(agent.compact())
    assert "; recall " in agent.session.compaction.summary
    agent.ask("Well?")
    shown = agent.provider.requests[-1].history[0].content
    assert " more not shown" in shown
    assert ("; recall " in shown) is recall


def test_an_imported_summary_names_no_message_of_the_other_session():
    text = "<facts>\nT1 | card\n(3 more not shown; recall 57)\n</facts>"
    record = Compaction("c1", 0, 0, text, status="done")
    other = Session([], compactions=[record])
    assert other.compaction is not None
    agent = agent_with(says("Yes."))
    list(agent.import_summary(other))
    agent.ask("Is it known?")
    assert "(3 more not shown)" in agent.provider.requests[0].history[0].content


def test_a_checkpoint_of_the_model_is_no_longer_than_a_pin():
    """It is in every request from then on, and no compaction removes it."""
    agent = agent_with(
        calls("checkpoint", state=LOG),
        calls("checkpoint", state="Step 2 of 3."),
        says("Done."),
        engine=CompactionEngine(policy="early"),
    )
    agent.ask("Work through the log.")
    refused, kept = (each for each in agent.session.transcript if each.role == "tool")
    assert refused.is_error
    assert "a pin may have 2,000" in refused.content
    assert not kept.is_error
    assert agent.session.pins == ("Checkpoint: Step 2 of 3.",)
