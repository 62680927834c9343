"""Turns: answers, tools, compaction, faults and stops, all seen as events."""

import json
import pickle
import sys
import threading

import pytest

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionSkipped,
    EntryAdded,
    Event,
    RetryScheduled,
    SavingFailed,
    TextDelta,
    ToolRequested,
    TurnFailed,
    TurnFinished,
    UsageReported,
)
from nbchat.conversation.session import Session
from nbchat.errors import (
    ConfigError,
    ContextOverflow,
    Overloaded,
    RequestRefused,
    Stopped,
    StoreError,
)
from nbchat.providers.wire_format import legal
from nbchat.testing import Line, ScriptedProvider, calls, fails, says

STORY = "The customer asks about an order and its parcel. " * 20


def lookup(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def agent_with(*lines: Line, threshold: int | None = None, **options: object) -> Agent:
    provider = ScriptedProvider(*lines)
    engine = CompactionEngine(context_token_threshold=threshold)
    return Agent(provider, engine=engine, **options)  # type: ignore[arg-type]


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def requests(agent: Agent) -> list:
    return agent.provider.requests  # type: ignore[attr-defined]


def test_a_turn_streams_an_answer_and_keeps_both_messages():
    agent = agent_with(says("Hello there."))
    events = list(agent.run("Hi"))
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert text == "Hello there."
    assert agent.session.history == [
        ("user", "Hi", "", "", ""),
        ("assistant", "Hello there.", "", "", ""),
    ]
    assert events[-1] == TurnFinished("end_turn", steps=1)


def test_the_next_turn_remembers_the_last():
    agent = agent_with(says("Hello Ada."), says("Your name is Ada."))
    agent.ask("I am Ada.")
    assert agent.ask("Who am I?") == "Your name is Ada."
    assert [e.content for e in requests(agent)[-1].history] == [
        "I am Ada.",
        "Hello Ada.",
        "Who am I?",
    ]


def test_tools_run_until_the_model_answers():
    agent = agent_with(
        calls("lookup", order="W1"), says("It was shipped."), tools=[lookup]
    )
    events = list(agent.run("Where is W1?"))
    assert [e.role for e in agent.session.history] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert agent.session.history[2].content == "W1 was shipped"
    assert any(isinstance(event, ToolRequested) for event in events)
    assert events[-1] == TurnFinished("end_turn", steps=2)


def test_the_model_reads_the_error_of_a_tool_and_the_turn_continues():
    def explode() -> str:
        """Fail."""
        raise RuntimeError("no disk")

    agent = agent_with(calls("explode"), says("It failed."), tools=[explode])
    assert agent.ask("Try.") == "It failed."
    assert agent.session.history[2].content == "error: RuntimeError: no disk"


def test_the_loop_ends_after_max_steps():
    agent = agent_with(*[calls("lookup", order="W1")] * 9, tools=[lookup], max_steps=3)
    assert list(agent.run("Loop."))[-1] == TurnFinished("max_steps", steps=3)


def test_code_can_hold_the_workflow_by_choosing_the_tool():
    agent = agent_with(
        calls("lookup", order="W1"),
        says("done"),
        tools=[lookup],
        tool_choice=lambda session: "lookup" if len(session.transcript) < 2 else "none",
    )
    agent.ask("Go.")
    assert [request.tool_choice for request in requests(agent)] == ["lookup", "none"]


def test_after_a_compaction_the_conversation_continues_from_the_summary():
    agent = agent_with(
        says(STORY, tokens=101),
        says("<summary>what happened</summary>"),
        says("two", tokens=20),
        threshold=100,
    )
    agent.ask("first")
    agent.ask("second")
    assert [entry.role for entry in requests(agent)[-1].history] == ["summary", "user"]
    contents = [entry.content for entry in agent.session.transcript]
    assert contents == ["first", STORY, "second", "two"]


def test_between_tool_steps_the_agent_compacts_and_continues():
    def lookup(order: str) -> str:
        """Find an order."""
        return f"{order}: {STORY}"

    agent = agent_with(
        calls("lookup", order="W1", tokens=50),
        calls("lookup", order="W2", tokens=100),
        says("<summary>W1 was looked up.</summary>"),
        says("All done.", tokens=30),
        threshold=100,
        tools=[lookup],
    )
    assert agent.ask("Look up W1 and W2, then stop.") == "All done."
    carried = requests(agent)[-1].history
    assert [entry.role for entry in carried] == ["summary", "assistant", "tool"]
    assert carried[-1].content == f"W2: {STORY}"
    assert "Look up W1 and W2, then stop." in carried[0].content


def test_a_compaction_never_buys_another_turn_of_the_model():
    agent = agent_with(
        says(STORY, tokens=101), says("<summary>short</summary>"), threshold=100
    )
    agent.ask("first")
    assert len(requests(agent)) == 2


def test_a_failed_compaction_leaves_the_history_and_the_chat_continues():
    agent = agent_with(
        says(STORY, tokens=101),
        says("no tags"),
        says("no tags"),
        says("two"),
        threshold=100,
    )
    events = list(agent.run("first"))
    failed = [event for event in events if isinstance(event, CompactionFailed)]
    assert failed[0].compaction.code == "no-tags"
    assert agent.session.history == agent.session.transcript
    assert agent.ask("second") == "two"


def test_an_overflow_that_compaction_cannot_fix_ends_the_turn_with_one_line():
    agent = agent_with(fails(ContextOverflow("too long by 3,000 tokens")))
    assert list(agent.run("x"))[-1] == TurnFailed("too long by 3,000 tokens")


def test_temporary_faults_are_retried_and_shown():
    agent = agent_with(fails(Overloaded("busy", retry_after=0.0)), says("ok"))
    events = list(agent.run("x"))
    assert RetryScheduled(1, 0.0, "busy") in events
    assert agent.session.last_answer == "ok"


def test_stop_keeps_the_partial_answer_and_marks_it():
    agent = agent_with(says("one two three four", delay_seconds=0.01), says("fine"))
    stop = threading.Event()
    for event in agent.run("count", stop=stop):
        if isinstance(event, TextDelta) and "two" in event.text:
            stop.set()
    kept = agent.session.transcript[-1]
    assert kept.content == "one two "
    assert kept.is_incomplete
    assert agent.ask("go on") == "fine"


def test_stop_between_calls_answers_those_that_did_not_run():
    stop = threading.Event()

    def first(order: str) -> str:
        """Look and stop."""
        stop.set()
        return order

    two = Line(calls=tuple(calls("first", order=o).calls[0] for o in "ab"))
    agent = agent_with(two, says("fine"), tools=[first])
    events = list(agent.run("x", stop=stop))
    assert events[-1] == TurnFinished("stopped", steps=1)
    assert [e.content for e in agent.session.transcript[-2:]] == [
        "a",
        "error: stopped before it ran",
    ]
    assert agent.ask("go on") == "fine"


def test_a_stop_within_a_call_gives_its_result_to_who_reads_the_events():
    stop = threading.Event()

    def run_cell(cell: str) -> str:
        """Run a cell that ends with the turn."""
        stop.set()
        raise Stopped("stopped")

    agent = agent_with(calls("run_cell", cell="a"), tools=[run_cell])
    heard = list(agent.run("x", stop=stop))
    shown = [each.entry for each in heard if isinstance(each, EntryAdded)]
    assert shown == agent.session.transcript[:]
    assert shown[-1].content == "error: interrupted, the result is unknown"
    assert heard[-1] == TurnFinished("stopped", steps=1)


def test_an_interrupt_marks_the_running_call_unknown_and_later_ones_not_run():
    def refund(order: str) -> str:
        """Refund an order, and be interrupted while the server is slow."""
        raise KeyboardInterrupt

    heard: list[Event] = []
    two = Line(calls=tuple(calls("refund", order=o).calls[0] for o in "ab"))
    agent = agent_with(two, says("fine"), tools=[refund], listener=heard.append)
    with pytest.raises(KeyboardInterrupt):
        list(agent.run("Refund both."))
    results = agent.session.transcript[-2:]
    assert [e.content for e in results] == [
        "error: interrupted, the result is unknown",
        "error: interrupted before it ran",
    ]
    assert [e.entry for e in heard if isinstance(e, EntryAdded)][-2:] == results
    assert agent.ask("go on") == "fine"


def test_a_tool_that_exits_ends_its_call_alone():
    def refund(order: str) -> str:
        """Refund an order with a command line."""
        if order == "a":
            sys.exit(2)
        return "refunded"

    two = Line(calls=tuple(calls("refund", order=o).calls[0] for o in "ab"))
    agent = agent_with(two, says("fine"), tools=[refund])
    assert agent.ask("Refund both.") == "fine"
    results = [e.content for e in agent.session.transcript if e.role == "tool"]
    assert results == ["error: exit code 2", "refunded"]


def test_manual_compaction_acts_below_the_threshold_and_says_when_it_cannot():
    agent = agent_with(says(STORY), says("<summary>short</summary>"))
    assert isinstance(list(agent.compact())[-1], CompactionSkipped)
    agent.ask("first")
    assert isinstance(list(agent.compact(focus="the order"))[-1], Compacted)
    assert "the order" in requests(agent)[-1].history[0].content


def test_an_open_call_of_an_ended_kernel_prevents_no_compaction_and_is_kept():
    order = {"order_id": "W778812", "amount": "319.50"}
    dead = Entry("assistant", "", "c1", "refund_order", json.dumps(order))
    left = Session(
        [("user", "Where is W1?"), ("assistant", STORY), ("user", "x"), dead]
    )
    heard: list[Event] = []
    agent = agent_with(
        says("<summary>short</summary>"), session=left, listener=heard.append
    )
    assert isinstance(list(agent.compact())[-1], Compacted)
    stated = left.history[-1]
    assert stated.content == "error: interrupted, the result is unknown"
    assert [e.entry for e in heard if isinstance(e, EntryAdded)] == [stated]


def test_every_event_reaches_the_listener_and_usage_comes_with_the_last_entry():
    heard: list[Event] = []
    agent = agent_with(says("hello", tokens=7), listener=heard.append)
    assert list(agent.run("x")) == heard
    added = [event for event in heard if isinstance(event, EntryAdded)]
    assert added[0].usage is None
    assert added[1].usage is not None
    reports = [event for event in heard if isinstance(event, UsageReported)]
    assert reports[0].input_tokens == 7


def test_a_store_that_fails_is_reported_and_the_chat_continues():
    def broken(event: Event) -> None:
        if isinstance(event, EntryAdded):
            raise StoreError("disk full")

    agent = agent_with(says("hello"), listener=broken)
    events = list(agent.run("x"))
    assert SavingFailed("disk full") in events
    assert agent.session.last_answer == "hello"


def test_the_summary_request_counts_as_cost_and_never_towards_the_threshold():
    agent = agent_with(
        says(STORY, tokens=101),
        says("<summary>short</summary>", tokens=500),
        threshold=100,
    )
    agent.ask("first")
    assert agent.engine.input_tokens == 0
    assert agent.session.usage.input_tokens == 601


def test_an_answer_that_was_cut_before_it_said_anything_ends_the_turn():
    agent = agent_with(Line(stop_reason="max_tokens"), says("fine"))
    assert list(agent.run("x"))[-1] == TurnFinished("max_tokens", steps=1)
    assert agent.ask("again") == "fine"


def test_an_empty_reply_is_billed_and_not_sent_again():
    cut = says("", tokens=50_000, stop_reason="max_tokens")
    agent = agent_with(cut, says("fine"))
    list(agent.run("x"))
    assert agent.session.usage.input_tokens == 50_000
    assert agent.session.transcript[-1].is_incomplete
    resumed = Agent(agent.provider, session=agent.session)
    assert resumed.engine.input_tokens == 50_000
    assert resumed.ask("again") == "fine"
    sent = legal(requests(agent)[-1].history)
    assert [entry.role for entry in sent] == ["user", "user"]


def test_an_empty_last_reply_adds_no_empty_line():
    call = calls("lookup", order="W1")
    agent = agent_with(
        Line("I look.", call.calls, "tool_use"),
        says("", stop_reason="max_tokens"),
        tools=[lookup],
    )
    assert agent.ask("Where is W1?") == "I look."


def test_a_failed_turn_counts_no_tokens():
    agent = agent_with(
        says("one", tokens=50), fails(RequestRefused("no")), says("two", tokens=60)
    )
    agent.ask("first")
    list(agent.run("second"))
    assert agent.engine.input_tokens == 50
    agent.ask("third")
    assert agent.engine.input_tokens == 110


def test_a_model_with_a_smaller_window_causes_one_compaction():
    agent = agent_with(says(STORY, tokens=900))
    agent.ask("first")
    small = ScriptedProvider(
        says("<summary>short</summary>"),
        says("two", tokens=100),
        says("three", tokens=120),
        window=1_000,
    )
    agent.use(small)
    events = [event for text in ("second", "third") for event in agent.run(text)]
    assert kinds(events).count("Compacted") == 1
    assert agent.session.last_answer == "three"


def test_a_tool_that_asks_for_a_compaction_gets_an_error_and_no_deadlock():
    def tidy_up() -> str:
        """Compact the conversation."""
        list(agent.compact())
        return "done"

    agent = agent_with(calls("tidy_up"), says("I could not."), tools=[tidy_up])
    assert agent.ask("Tidy up.") == "I could not."
    assert "already answering" in agent.session.history[2].content


def test_attachments_are_added_before_the_message():
    provider = ScriptedProvider(says("A list."))
    agent, heard = Agent(provider), []
    agent.listener = heard.append
    brought = Entry("user", "The variable x", "", "file", '{"data": "[1]"}')
    list(agent.run("What is it?", attached=iter([brought])))
    said = (brought, Entry("user", "What is it?"))
    assert provider.requests[0].history == said
    assert [e.entry for e in heard if isinstance(e, EntryAdded)][:2] == list(said)


def sent_rules(agent: Agent) -> list[list[str]]:
    """The texts of rules in each request."""
    return [
        [each.arguments["data"] for each in request.history if each.is_rules]
        for request in requests(agent)
    ]


def test_rules_of_a_file_are_sent_before_the_first_message_and_when_they_change(
    tmp_path,
):
    file = tmp_path / "team.md"
    file.write_text("Prices are in euros.")
    agent = agent_with(says("a"), says("b"), says("c"), rules=file)
    agent.ask("one")
    agent.ask("two")
    file.write_text("Prices are in pounds.")
    agent.ask("three", attached=[Entry("user", "A file", "", "file", '{"data": "1"}')])
    euros, pounds = "Prices are in euros.", "Prices are in pounds."
    assert sent_rules(agent) == [[euros], [euros], [euros, pounds]]
    first = requests(agent)[0].history
    assert [each.is_rules for each in first] == [True, False]
    assert [each.content[:5] for each in agent.session.transcript[-4:]] == [
        "Rules",
        "A fil",
        "three",
        "c",
    ]


def test_agents_made_of_one_have_its_rules_in_sessions_of_their_own(tmp_path):
    file = tmp_path / "team.md"
    file.write_text("Prices are in euros.")
    agent = agent_with(says("a"), rules=str(file))
    agent.ask("one")
    again = pickle.loads(pickle.dumps(agent.another()))
    again.provider = ScriptedProvider(says("b"))
    again.ask("two")
    assert sent_rules(again) == sent_rules(agent) == [["Prices are in euros."]]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "can't be read: No such file"), (b"", "is empty"), (b"\0", "not a text")],
)
def test_rules_that_cannot_be_read_are_refused_in_one_line(tmp_path, content, message):
    file = tmp_path / "team.md"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        agent_with(rules=file)
    assert "\n" not in str(caught.value)
