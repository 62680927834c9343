"""The cost of a turn grows with what is new, not with the length of the chat."""

import copy
import gc
import sys
import time
from collections.abc import Callable
from itertools import count

import pytest
from fault_server import AnthropicDialect, FaultServer, OpenAIDialect

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.memory.words import Words
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.providers import anthropic as anthropic_wire
from nbchat.providers import gemini as gemini_wire
from nbchat.providers import openai_chat as openai_wire
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Request
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.wire_format import WireFormat, WireMessages, legal
from nbchat.testing import ScriptedProvider, says

DIALECTS = {"openai": OpenAIDialect(), "anthropic": AnthropicDialect()}
FORMS = [openai_wire.FORMAT, gemini_wire.FORMAT, anthropic_wire.FORMAT]
SUMMARY = "<summary>\nIt went on.\n</summary>"


def provider_at(server: FaultServer, kind: str) -> OpenAIProvider | AnthropicProvider:
    known = {"openai": (OpenAIProvider, "/v1"), "anthropic": (AnthropicProvider, "")}
    provider, path = known[kind]
    return provider(
        "m", base_url=server.url + path, api_key=lambda: "k", window=100_000
    )


def look(name: str) -> str:
    """Look something up."""
    return f"{name} was found"


def exchange(number: int) -> list[Entry]:
    """Four entries, no two exchanges equal."""
    tool_id = f"call_{number}"
    return [
        Entry("user", f"Question {number}, in some more words than that."),
        Entry("assistant", "", tool_id, "look", f'{{"name": "thing {number}"}}'),
        Entry("tool", f"thing {number} was found", tool_id, "look"),
        Entry("assistant", f"Answer {number}, in some more words than that."),
    ]


def chat(entries: int) -> list[Entry]:
    return [entry for number in range(entries // 4) for entry in exchange(number)]


def shortest_seconds(action: Callable[[], object]) -> float:
    """CPU of the fastest of several runs: the machine has other work, too."""
    taken = []
    for _ in range(5):
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return min(taken)


def test_a_decision_costs_the_same_after_ten_thousand_messages_as_after_a_hundred():
    def seconds(size: int) -> float:
        session, engine = Session(chat(size)), CompactionEngine(None)
        engine.should_compact(session)

        def turn() -> None:
            session.append(Entry("user", f"And {len(session.transcript)}?"))
            engine.should_compact(session)

        return shortest_seconds(turn)

    assert seconds(10_000) < 3 * seconds(100)


def test_the_running_sum_equals_the_sum_of_the_history():
    session, engine = Session(chat(40)), CompactionEngine(None)

    def is_exact() -> bool:
        return engine.tracker.context_tokens(session) == (
            engine.tracker.counter.count_entries(session.history)
        )

    assert is_exact()
    session.append(Entry("user", "And then?"))
    assert is_exact()
    session.compactions.append(Compaction("c", 0, 20, SUMMARY))
    assert is_exact()
    session.append(Entry("assistant", "Then it went on."))
    assert is_exact()
    session.compactions.append(engine.undo(session))
    assert is_exact()
    session = Session(chat(8))
    assert is_exact()


@pytest.mark.parametrize("form", FORMS, ids=["openai", "gemini", "anthropic"])
def test_the_next_request_of_a_long_chat_serializes_only_new_entries(form: WireFormat):
    history, known = tuple(chat(1_600)), WireMessages(form)
    known.update(history)
    longer = ((*history, *exchange(0) * n) for n in count(1))
    again = shortest_seconds(lambda: known.update(next(longer)))
    fresh = shortest_seconds(lambda: WireMessages(form).update(history))
    assert again < fresh / 5


@pytest.mark.parametrize("form", FORMS, ids=["openai", "gemini", "anthropic"])
def test_messages_once_written_are_the_same_objects_and_never_change(form: WireFormat):
    writer = WireMessages(form)
    first = writer.update(chat(40))
    kept = copy.deepcopy(first)
    second = writer.update((*chat(40), *exchange(99)))
    other = writer.update((*chat(20), Entry("user", "Something else.")))
    assert first == kept
    same = [a is b for a, b in zip(first, second, strict=False)]
    assert all(same[:-1])
    assert other[:-1] == kept[: len(other) - 1]


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_chat_sends_the_bodies_that_new_agents_would_send(server, kind):
    dialect = DIALECTS[kind]
    agent = Agent(provider_at(server, kind), tools=[look], system="Be brief.")

    def assert_a_turn_sends_what_a_new_agent_would(name: str) -> None:
        calls = [(tool_id, "look", f'{{"name": "{name}"}}') for tool_id in "ab"]
        server.script(dialect.calls(*calls), dialect.text("ok"), dialect.text("ok"))
        agent.ask(f"Look for {name}.")
        sent = legal(agent.session.history[:-1])  # all but the answer
        request = Request(tuple(sent), "Be brief.", agent.tools)
        list(provider_at(server, kind).stream(request))
        assert server.requests[-1].body == server.requests[-2].body

    assert_a_turn_sends_what_a_new_agent_would("one")
    assert_a_turn_sends_what_a_new_agent_would("two")
    server.script(dialect.text(SUMMARY))
    list(agent.compact())
    assert agent.session.compaction.is_active
    assert_a_turn_sends_what_a_new_agent_would("three")


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_provider_remembers_one_history_however_many_sessions_it_serves(server, kind):
    provider = provider_at(server, kind)
    agent = Agent(provider)
    for number in range(20):
        server.script(DIALECTS[kind].text("ok"))
        agent.switch(Session(chat(8)))
        agent.ask(f"Session {number}.")
    assert len(provider._messages._history) == 9


def test_an_abandoned_call_does_not_block_compaction_and_an_open_one_does():
    old = [*chat(8), Entry("assistant", "", "x", "look", "{}"), *chat(8)]
    engine = CompactionEngine(None)
    assert engine.plan(Session(old)).skip == ""
    open_one = [*old, *exchange(9)[:2]]
    assert "is still waiting for its result" in engine.plan(Session(open_one)).skip
    agent = Agent(ScriptedProvider(says(SUMMARY)), session=Session(old))
    list(agent.compact())
    assert agent.session.compaction.stop == len(old)


def test_the_next_request_calls_no_function_for_each_old_message():
    def calls(size: int) -> int:
        agent = Agent(ScriptedProvider(), session=Session(chat(size)), recall=False)
        agent.next_request()
        counted = 0

        def count_call(_frame: object, event: str, _argument: object) -> None:
            nonlocal counted
            counted += event == "call"

        gc.disable()  # finalizers of other tests' objects would be counted
        sys.setprofile(count_call)
        try:
            agent.next_request()
        finally:
            sys.setprofile(None)
            gc.enable()
        return counted

    assert calls(4_000) <= calls(40) + 20


def test_the_words_of_a_memory_are_written_only_as_far_as_there_is_room():
    counted: list[str] = []

    def count_tokens(text: str) -> int:
        counted.append(text)
        return len(text.split())

    words = Words()
    for number in range(3_000):
        words.read(Entry("user", f"Look at W{number:05} " + "and on " * 40), number)
    lines = words.lines(400, count_tokens)
    assert [line.position for line in lines][-2:] == [2_998, 2_999]
    assert lines[0].position == 0
    assert len(counted) < 100
