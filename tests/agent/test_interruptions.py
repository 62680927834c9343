"""Partial answers: what is kept of them, and that they are billed."""

import json
import threading
from collections.abc import Iterable

import pytest

from nbchat.agent.agent import Agent
from nbchat.agent.agent_loop import BROKEN_OFF, GO_ON
from nbchat.chat.chat_events import AgentReady
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.memory.words import Words
from nbchat.conversation.entries import Usage
from nbchat.conversation.events import (
    Delta,
    EntryAdded,
    Event,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from nbchat.conversation.turns import turns
from nbchat.errors import ConnectionFailed
from nbchat.jupyter.panel.panel_state import PanelState
from nbchat.providers.base import ReplyStream, Request
from nbchat.providers.model_info import Prices
from nbchat.providers.tokens import TokenCounter
from nbchat.rendering.conversation import conversation_html, conversation_text
from nbchat.storage.export import exported, imported
from nbchat.testing import Line, ScriptedProvider, says

PRICES = Prices(input=2.0, cache_read=0.2, cache_write=2.5, output=10.0)

CACHED = Usage(1_000, 10, cache_read_tokens=600, cache_write_tokens=300)


class BreakingOff(ScriptedProvider):
    """Brings pieces of an answer, then its line breaks; after that it follows a script."""

    def __init__(self, *pieces: Delta, script: tuple[Line, ...] = ()) -> None:
        super().__init__(*script, prices=PRICES)
        self.pieces = pieces

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        pieces, self.pieces = self.pieces, ()
        if not pieces:
            return (yield from super().stream(request, stop=stop))
        yield from pieces
        raise ConnectionFailed("the line broke")


def stopped(agent: Agent, text: str, after: str) -> list[Event]:
    """A turn that is stopped when a certain piece has arrived."""
    stop, events = threading.Event(), []
    for event in agent.run(text, stop=stop):
        events.append(event)
        if isinstance(event, TextDelta) and after in event.text:
            stop.set()
    return events


def agent_with(*lines: Line, threshold: int | None = None) -> Agent:
    engine = CompactionEngine(context_token_threshold=threshold)
    return Agent(ScriptedProvider(*lines, prices=PRICES), engine=engine)


def test_a_stopped_answer_is_billed_by_estimate():
    agent = agent_with(says("one two three four"))
    before = agent.engine.tracker.context_tokens(agent.session)
    events = stopped(agent, "Count to four.", "two")
    position, usage = agent.session.usages[-1]
    counter = TokenCounter()
    assert position == len(agent.session.transcript)
    assert usage.is_estimated
    assert usage.model == "scripted:model"
    assert usage.input_tokens >= before + counter.count("Count to four.")
    assert usage.output_tokens == counter.count("one two ")
    assert usage.dollars == pytest.approx(
        (usage.input_tokens * 2 + usage.output_tokens * 10) / 1_000_000
    )
    assert agent.engine.input_tokens == usage.input_tokens
    [reported] = [each for each in events if isinstance(each, UsageReported)]
    assert reported.usage == usage
    assert reported.context_tokens == agent.engine.tracker.context_tokens(agent.session)


def test_its_context_is_assumed_to_be_cached_as_before():
    agent = agent_with(Line("Hello.", usage=CACHED), says("one two three"))
    agent.ask("Hello?")
    stopped(agent, "Count.", "one")
    usage = agent.session.usages[-1][1]
    assert usage.input_tokens > 1_000
    assert usage.cache_read_tokens == 900


def test_after_a_compaction_nothing_is_assumed_to_be_cached():
    agent = agent_with(
        *[Line(f"Answer {n}. " * 40, usage=CACHED) for n in range(3)],
        says("<summary>They counted.</summary>"),
        says("one two three"),
    )
    for n in range(3):
        agent.ask(f"Question {n}?")
    assert list(agent.compact())
    assert agent.session.compaction is not None
    stopped(agent, "Count.", "one")
    assert agent.session.usages[-1][1].cache_read_tokens == 0


@pytest.mark.parametrize("said", ["", "Well, "])
def test_partial_thoughts_are_kept_to_read_and_take_no_context(said: str):
    pieces = [
        ThinkingDelta("Let me "),
        ThinkingDelta("see."),
        *[TextDelta(said)] * bool(said),
    ]
    provider = BreakingOff(*pieces, script=(says("Fine."),))
    agent = Agent(provider, attempts=1)
    list(agent.run("What is it?"))
    thought, answer = agent.session.transcript[-2:]
    assert (thought.role, thought.content) == ("thinking", "Let me see.")
    assert (answer.content, answer.is_incomplete) == (said, True)
    usage = agent.session.usages[-1][1]
    counter = TokenCounter()
    assert usage.dropped_tokens == counter.count("Let me see.")
    assert usage.output_tokens == usage.dropped_tokens + counter.count(said)
    assert agent.ask("Go on.") == "Fine."


@pytest.mark.slow
def test_after_thoughts_alone_a_broken_stream_is_asked_for_again():
    provider = BreakingOff(ThinkingDelta("Let me "), script=(says("Fine."),))
    agent = Agent(provider)
    events = list(agent.run("What is it?"))
    assert any(isinstance(each, RetryScheduled) for each in events)
    assert [e.content for e in agent.session.transcript] == ["What is it?", "Fine."]


def test_an_answer_with_a_lost_connection_is_billed_too():
    agent = Agent(BreakingOff(TextDelta("One, "), TextDelta("two")))
    list(agent.run("Count."))
    assert agent.session.transcript[-1].content == "One, two"
    assert agent.session.usages[-1][1].dollars > 0


def test_an_answer_that_never_began_is_neither_kept_nor_billed():
    stop = threading.Event()
    stop.set()
    agent = agent_with(says("one two three"))
    list(agent.run("Count.", stop=stop))
    assert [entry.role for entry in agent.session.transcript] == ["user"]
    assert not agent.session.usages
    assert agent.engine.input_tokens == 0


def test_closing_a_turn_in_an_answer_saves_what_it_cost():
    told: list[Event] = []
    agent = agent_with(says("one two three"))
    agent.listener = told.append
    turn = agent.run("Count.")
    assert any(isinstance(event, TextDelta) for event in turn)
    turn.close()
    kept = [each for each in told if isinstance(each, EntryAdded) and each.usage]
    assert [(each.entry.content, each.usage.is_estimated) for each in kept] == [
        ("one ", True)
    ]


def test_a_session_that_is_loaded_counts_it_as_the_chat_did():
    agent = agent_with(says("Hello.", tokens=400), says("one two three"))
    agent.ask("Hello?")
    stopped(agent, "Count.", "one")
    later = CompactionEngine(context_token_threshold=None)
    later.tracker.resume(agent.session)
    assert later.input_tokens == agent.engine.input_tokens > 800
    assert later.tracker.context_tokens(
        agent.session
    ) == agent.engine.tracker.context_tokens(agent.session)


def test_the_panel_says_about_what_a_stopped_answer_has_cost():
    agent = agent_with(says("one two three " * 50))
    state = PanelState()
    state.fold(AgentReady(agent))
    for event in stopped(agent, "Count.", "two"):
        state.fold(event)
    assert "about" in state.snapshot()["state"]["spent"]


def test_a_turn_that_broke_in_its_answer_can_be_tried_again_in_the_panel():
    agent = Agent(BreakingOff(TextDelta("It is "), script=(says("It is late."),)))
    state = PanelState()

    def shown(events: Iterable[Event]) -> str:
        for event in events:
            state.fold(event)
        return str(state.snapshot()["items"])

    assert "data-retry" in shown([AgentReady(agent), *agent.run("Where is W1?")])
    assert agent.can_retry
    assert "It is late." in shown(agent.retry())
    assert agent.session.last_answer == "It is late."
    assert not agent.can_retry


def test_an_answer_that_was_cut_off_is_continued_where_it_ended():
    provider = BreakingOff(TextDelta("It is "), script=(says("late."),))
    agent = Agent(provider)
    state = PanelState()
    for event in [AgentReady(agent), *agent.run("Where is W1?")]:
        state.fold(event)
    assert "data-continue" in str(state.snapshot()["items"])
    assert agent.retry(keeps_partial=True).result() == "late."
    said = [e.content for e in agent.session.transcript if e.role == "assistant"]
    assert said == ["It is ", "late."]
    assert agent.session.transcript[2].content == GO_ON
    assert not agent.can_retry


def retried() -> Agent:
    """An agent after an answer that broke off and was written again."""
    agent = Agent(BreakingOff(TextDelta("It is "), script=(says("It is late."),)))
    list(agent.run("Where is W1?"))
    agent.retry().result()
    return agent


def test_what_nbchat_asks_after_a_broken_answer_is_not_shown_as_the_users():
    session = retried().session
    asked = session.transcript[2]
    assert (asked.role, asked.content) == ("user", BROKEN_OFF)
    assert [entry.content for entry in session.transcript if entry.is_prompt] == [
        "Where is W1?"
    ]
    text = conversation_text(session)
    assert f"[nbchat asked the model: {BROKEN_OFF}]" in text
    assert (
        text.count("You:")
        == conversation_html(session).count("<strong>You</strong>")
        == 1
    )
    assert exported(session, "md").count("## You") == 1
    _first, *cells = json.loads(exported(session, "ipynb"))["cells"]
    assert [cell["source"] for cell in cells] == ["%%chat\nWhere is W1?"]
    assert imported(exported(session, "json")).transcript[2].is_by_nbchat


def test_the_persons_words_in_a_memory_have_nothing_that_nbchat_asked():
    words = Words()
    for position, entry in enumerate(retried().session.transcript):
        words.read(entry, position)
    lines = [line.text for line in words.lines(800, TokenCounter().count)]
    assert lines == ["- Where is W1?"]


def test_a_turn_with_a_repeated_answer_is_one_turn():
    agent = retried()
    assert len(turns(agent.session.transcript)) == 1
    assert agent.session.last_prompt == 0
