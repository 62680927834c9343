"""The model has the tool `recall` where something is hidden, and notes are true."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from nbchat.agent.agent import Agent
from nbchat.agent.context_tools import WILL_COMPACT
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.events import (
    Compacted,
    CompactionSkipped,
    CompactionStarted,
    EntryAdded,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError
from nbchat.providers.connect import connect
from nbchat.rendering.banners import compaction_text, divider_html
from nbchat.testing import ScriptedProvider, calls, says

LOG = "\n".join(f"line {n}: worker {n % 7} did step {n * 31 % 97}" for n in range(700))


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
def test_recall_is_named_beside_what_found_no_room_only_if_it_is_offered(
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
    told = says("<summary>The customer asked about W499.</summary>")
    engine = CompactionEngine()
    agent = agent_with(told, says("x"), recall=recall, engine=engine)
    agent.session = Session(orders)
    list(agent.compact())
    assert "; recall " in agent.session.compaction.summary
    agent.ask("Well?")
    shown = agent.provider.requests[-1].history[0].content
    assert " not shown here" in shown
    assert ("; recall " in shown) is recall


def test_an_imported_summary_names_no_message_of_the_other_session():
    more = "(3 lines of records: not shown here; recall finds it)"
    text = f"<facts>\nT1 | card\n{more}\n</facts>"
    record = Compaction("c1", 0, 0, text, status="done")
    other = Session([], compactions=[record])
    assert other.compaction is not None
    agent = agent_with(says("Yes."))
    list(agent.import_summary(other))
    agent.ask("Is it known?")
    sent = agent.provider.requests[0].history[0].content
    assert "(3 lines of records: not shown here)" in sent


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
    assert "A pin can have 2,000" in refused.content
    assert not kept.is_error
    assert agent.session.pins == ("Checkpoint: Step 2 of 3.",)


SUMMARY = "<summary>They talked about a parcel from Lisbon.</summary>"


def long_running(*lines: object, **options: object) -> Agent:
    """An agent that may compact by itself, in a conversation with enough to compact."""
    engine = CompactionEngine(policy=options.pop("policy", "single-summary"))  # type: ignore[arg-type]
    options = {"context_tools": True, "engine": engine} | options
    agent = agent_with(says("The parcel left Lisbon. " * 99), *lines, **options)
    agent.ask("Where is it?")
    return agent


def happened(turn: Iterable[object]) -> list[str]:
    shown = (EntryAdded, CompactionStarted, Compacted, CompactionSkipped, TurnFinished)
    return [
        f"{type(event).__name__} {event.entry.role}"
        if isinstance(event, EntryAdded)
        else type(event).__name__
        for event in turn
        if isinstance(event, shown)
    ]


def test_tools_to_compact_are_offered_where_they_were_asked_for():
    assert agent_with().tools[0].name == "read"
    assert [tool.name for tool in agent_with().tools] == ["read"]
    agent = agent_with(context_tools=True)
    assert [tool.name for tool in agent.tools] == ["read", "compact", "context"]
    assert all(tool.read_only for tool in agent.tools[1:])
    assert [t.name for t in agent.another().tools] == ["read", "compact", "context"]
    agent.tools = agent.tools
    agent.context_tools = False
    assert [tool.name for tool in agent.tools] == ["read"]


def test_a_tool_of_the_user_named_compact_is_refused_beside_them():
    def compact() -> str:
        """One of the user's own."""
        return ""

    with pytest.raises(ConfigError, match=r"Two tools are named compact. Rename one."):
        agent_with(tools=[compact], context_tools=True)


def test_the_model_compacts_after_it_has_read_that_it_will():
    agent = long_running(
        calls("compact", note="Keep the number of the parcel."),
        calls("read"),
        says(SUMMARY),
        says("Done."),
        approve=False,
    )
    assert happened(agent.run("Go on.")) == [
        "EntryAdded user",
        "EntryAdded assistant",
        "EntryAdded tool",
        "EntryAdded assistant",
        "EntryAdded tool",
        "CompactionStarted",
        "Compacted",
        "EntryAdded assistant",
        "TurnFinished",
    ]
    _, _, read_by, asked, last = agent.provider.requests
    assert read_by.history[-1].content == WILL_COMPACT
    assert str(asked).count("Keep the number of the parcel.") == 2  # call and focus
    assert last.history[0].role == "summary"
    assert last.history[-1].tool_name == "read"  # not read yet, so it is not compacted


def test_where_the_turn_ends_the_compaction_comes_after_the_answer():
    agent = long_running(calls("compact"), says("I will."), says(SUMMARY))
    assert happened(agent.run("Go on."))[-3:] == [
        "CompactionStarted",
        "Compacted",
        "TurnFinished",
    ]
    record = agent.session.compaction
    assert record
    assert record.trigger == "model"
    assert "The model asked for it." in compaction_text(record)
    assert "at the model&#x27;s request" in divider_html(record)
    assert "trigger model" not in divider_html(record)
    before = agent.session.transcript[:]
    list(agent.undo_compaction())
    assert agent.session.history == before


def test_the_policy_off_compacts_where_the_model_asks_for_it():
    agent = long_running(calls("compact"), says("I will."), says(SUMMARY), policy="off")
    agent.ask("Go on.")
    assert agent.session.compaction


def test_where_there_is_little_to_compact_nothing_happens_and_the_turn_ends():
    agent = agent_with(
        calls("compact"), says("I will."), says("More."), context_tools=True
    )
    assert happened(agent.run("Hello."))[-2:] == ["CompactionSkipped", "TurnFinished"]
    assert happened(agent.run("More?")) == [
        "EntryAdded user",
        "EntryAdded assistant",
        "TurnFinished",
    ]
    assert len(agent.provider.requests) == 3


def test_a_request_to_compact_ends_with_the_session_it_was_made_in():
    agent = long_running(calls("compact"), max_steps=1)
    agent.ask("Go on.")
    agent.switch(Session([*agent.session.transcript, Entry("assistant", "x")]))
    agent.ask("Go on.")
    assert agent.session.compactions == []


def test_a_request_of_a_turn_at_its_limit_waits_for_the_next_reply():
    agent = long_running(calls("compact"), says("I will."), says(SUMMARY), max_steps=1)
    agent.ask("Go on.")
    assert agent.session.compactions == []
    assert happened(agent.run("Go on."))[-2:] == ["Compacted", "TurnFinished"]


def test_a_note_longer_than_a_page_is_refused():
    agent = long_running(calls("compact", note="x" * 2_001), says("Then not."))
    agent.ask("Go on.")
    assert agent.session.transcript[-2].content.endswith(
        "The note has 2,001 characters. The limit is 2,000."
    )
    assert agent.session.compactions == []


def test_the_model_can_see_how_full_its_context_is():
    agent = long_running(calls("context"), says("Half full."))
    agent.ask("How full is it?")
    shown = agent.session.transcript[-2].content.splitlines()
    total = int(shown[0].split()[1].replace(",", ""))
    parts = [int(line.split()[-2].replace(",", "")) for line in shown[1:-2]]
    assert shown[0].endswith(" of 100,000 tokens (1%)")
    assert sum(parts) == total
    assert [line.partition(":")[0] for line in shown[1:-2]] == [
        "  system prompt",
        "  tools",
        "  pinned rules",
        "  summary",
        "  messages",
        "  current message",
    ]
    assert shown[-2] == "compacted so far: 0 times"
    assert shown[-1].startswith("next compaction: ")
