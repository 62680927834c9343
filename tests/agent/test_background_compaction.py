"""A summary that is written while the person reads, and what happens meanwhile."""

import threading
from collections.abc import Callable

import pytest
from wire_rules import anthropic_faults, openai_faults

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import ChatEvent, Idle
from nbchat.chat.chat_runner import ChatRunner
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    Event,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.providers import anthropic as anthropic_wire
from nbchat.providers import openai_chat as openai_wire
from nbchat.providers.base import Request
from nbchat.rendering.banners import notice_text
from nbchat.testing import Line, ScriptedProvider, calls, says

STORY = "The customer asks about order W100 and its parcel. " * 40
TOLD = "<summary>The customer asks about order W100.</summary>"
WAIT = 60


class Reader:
    """A model whose summaries wait until they are let go."""

    def __init__(self, summary: str = TOLD, window: int = 10_000) -> None:
        self.may_write = threading.Event()
        self.asked = threading.Event()
        self.provider = ScriptedProvider(*[self._answer] * 99, window=window)
        self.summary = summary
        self.answers: list[Line] = []

    def _answer(self, request: Request) -> Line:
        if not request.answer_tag:
            return self.answers.pop(0) if self.answers else says("Fine.")
        self.asked.set()
        assert self.may_write.wait(WAIT)
        return says(self.summary)

    def agent(self, threshold: int | None = 1_000, turns: int = 3, **options) -> Agent:
        """An agent whose next compaction is nearly due."""
        said = [("user", "Where is it?"), ("assistant", STORY)] * turns
        engine = CompactionEngine(threshold)
        return Agent(self.provider, engine=engine, session=Session(said), **options)

    def chat_requests(self) -> list[Request]:
        return [each for each in self.provider.requests if not each.answer_tag]


@pytest.fixture
def model() -> Reader:
    return Reader()


def is_begun(agent: Agent, on_ready: Callable[[], object] = lambda: None) -> bool:
    """Begin to write a summary, as a turn does at its end with `compacts_later`."""
    with agent.alone():
        return agent._compactor.begin_in_background(on_ready)


def test_a_message_sent_meanwhile_is_answered_at_once_from_the_old_view(model: Reader):
    agent = model.agent()
    ready = threading.Event()
    assert is_begun(agent, ready.set)
    assert model.asked.wait(WAIT)
    before = agent.session.history
    assert agent.ask("And now?") == "Fine."
    assert model.chat_requests()[-1].history == (*before, Entry("user", "And now?"))
    model.may_write.set()
    assert ready.wait(WAIT)
    assert agent.ask("And then?") == "Fine."
    record = agent.session.compaction
    assert (record.status, record.stop, record.trigger) == ("done", 6, "background")
    assert record.committed_at == 9
    seen = model.chat_requests()[-1].history
    assert [entry.content for entry in seen[1:]] == ["And now?", "Fine.", "And then?"]
    assert "The customer asks about order W100." in seen[0].content
    assert record.tokens_after < record.tokens_before
    count = agent.engine.tracker.counter.count_entries
    size = agent.engine.tracker.context_tokens(agent.session)
    assert size == pytest.approx(count(agent.session.history), abs=60)


def test_it_is_committed_between_the_steps_of_a_turn(model: Reader):
    """Also while tools run; every request is legal."""

    def look(number: int) -> str:
        """Look."""
        if number == 2:
            model.may_write.set()
            assert agent.wait_for_background(WAIT)
        return f"found {number}"

    agent = model.agent(tools=[look])
    model.answers = [calls("look", number=n, tokens=300) for n in (1, 2, 3)]
    assert is_begun(agent)
    assert agent.ask("Look three times.") == "Fine."
    views = [request.history for request in model.chat_requests()]
    assert [view[0].role for view in views] == ["user", "user", "summary", "summary"]
    assert [view[-1].content for view in views[1:]] == ["found 1", "found 2", "found 3"]
    for view in views:
        request = Request(view, max_output_tokens=100)
        assert openai_faults(openai_wire.body(request)["messages"]) == []
        assert anthropic_faults(anthropic_wire.wire_messages(request)) == []


def test_when_no_turn_runs_it_is_committed_on_request(model: Reader):
    agent = model.agent()
    model.may_write.set()
    assert is_begun(agent)
    assert agent.wait_for_background(WAIT)
    heard: list[Event] = []
    agent.listener = heard.append
    (event,) = agent.commit_background()
    assert isinstance(event, Compacted)
    assert heard == [event]
    assert len(agent.session.history) == 1
    assert list(agent.commit_background()) == []


def test_where_nothing_is_due_soon_nothing_is_begun(model: Reader):
    assert not is_begun(model.agent(threshold=50_000))
    assert not is_begun(model.agent(threshold=50_000, turns=0))
    assert model.provider.requests == []


def test_one_is_written_at_a_time(model: Reader):
    agent = model.agent()
    assert is_begun(agent)
    assert not is_begun(agent)
    model.may_write.set()
    assert agent.wait_for_background(WAIT)
    assert sum(bool(each.answer_tag) for each in model.provider.requests) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda agent: agent.exclude(1),
        lambda agent: agent.compact(upto=3),
    ],
    ids=["excluded", "compacted"],
)
def test_what_was_changed_meanwhile_is_not_covered_by_an_old_summary(
    model: Reader, change
):
    agent = model.agent()
    assert is_begun(agent)
    assert model.asked.wait(WAIT)
    model.asked.clear()
    threading.Timer(0.05, model.may_write.set).start()
    list(change(agent))
    assert agent.wait_for_background(WAIT)
    view = agent.session.history
    cost = agent.session.usage.total_tokens
    for event in agent.commit_background():
        assert isinstance(event, CompactionFailed)
        assert event.compaction.code == "outdated"
        assert agent.session.usage.total_tokens > cost
    assert agent.session.history == view
    assert agent.ask("Go on?") == "Fine."


def test_a_cancelled_one_leaves_the_conversation_as_it_was():
    slow = says(TOLD, delay_seconds=WAIT)
    provider = ScriptedProvider(slow, says("Fine."), window=10_000)
    said = [("user", "Where is it?"), ("assistant", STORY)] * 3
    agent = Agent(provider, engine=CompactionEngine(1_000), session=Session(said))
    before = agent.session.history
    assert is_begun(agent)
    agent.cancel_background()
    assert agent.wait_for_background(WAIT / 2)
    assert list(agent.commit_background()) == []
    assert agent.session.history == before


def test_another_session_gets_no_summary_of_the_old_one(model: Reader):
    agent = model.agent()
    assert is_begun(agent)
    assert model.asked.wait(WAIT)
    agent.switch(Session([("user", "Hi"), ("assistant", "Hello.")]))
    model.may_write.set()
    assert agent.wait_for_background(WAIT)
    assert agent.ask("Go on?") == "Fine."
    assert agent.session.compactions == []


def test_a_failure_is_shown_with_the_next_try_and_waits():
    model = Reader("no tags")
    model.may_write.set()
    agent = model.agent()
    assert is_begun(agent)
    assert agent.wait_for_background(WAIT)
    (event,) = agent.commit_background()
    assert isinstance(event, CompactionFailed)
    assert notice_text(event).endswith(
        " nbchat tries again after 1 request. The conversation is unchanged."
    )
    assert not is_begun(agent)


def test_a_window_that_fills_before_it_is_ready_is_compacted_at_once():
    model = Reader(window=3_000)
    agent = model.agent(threshold=None, turns=5)
    assert is_begun(agent)
    assert model.asked.wait(WAIT)
    threading.Timer(0.05, model.may_write.set).start()
    assert agent.ask("And this? " + STORY) == "Fine."
    assert agent.session.compaction.trigger in ("window", "background")
    assert all(model.provider.count_tokens(r) < 3_000 for r in model.chat_requests())


def test_a_message_waits_for_the_summary_before_the_sum_is_past_the_threshold_by_half():
    model = Reader()
    agent = model.agent(threshold=2_000)
    assert agent.ask("First?") == "Fine."
    assert is_begun(agent)
    assert model.asked.wait(WAIT)
    assert agent.ask("And now?") == "Fine."
    assert not agent.session.compactions
    assert 2_000 < agent.engine.input_tokens < 3_000
    threading.Timer(0.05, model.may_write.set).start()
    assert agent.ask("And then?") == "Fine."
    record = agent.session.compaction
    assert (record.trigger, record.stop) == ("background", 8)
    contents = [entry.content for entry in model.chat_requests()[-1].history]
    assert contents[1:] == ["And now?", "Fine.", "And then?"]
    assert agent.engine.input_tokens <= 3_000


def test_without_being_asked_an_agent_compacts_within_its_turn(model: Reader):
    model.may_write.set()
    agent = model.agent()
    events = list(agent.run("And now?"))
    assert any(isinstance(event, Compacted) for event in events)
    names = [thread.name for thread in threading.enumerate()]
    assert "nbchat-background" not in names


# In a chat that runs in a thread of its own.


class Heard(list[ChatEvent]):
    """The events of a chat."""

    def __init__(self) -> None:
        super().__init__()
        self.added = threading.Condition()

    def __call__(self, event: ChatEvent) -> None:
        with self.added:
            self.append(event)
            self.added.notify_all()

    def await_kind(self, kind: type, count: int = 1) -> None:
        with self.added:
            assert self.added.wait_for(lambda: self.number_of(kind) >= count, WAIT)

    def number_of(self, kind: type) -> int:
        return sum(isinstance(each, kind) for each in self)

    def order(self, *kinds: type) -> list[type]:
        return [type(each) for each in self if isinstance(each, kinds)]


def test_in_a_chat_the_answer_is_there_before_its_summary_and_nothing_waits(
    model: Reader,
):
    heard = Heard()
    agent = model.agent(threshold=2_000)
    runner = ChatRunner(lambda: agent, heard)
    runner.submit("And now?")
    heard.await_kind(Idle)
    assert model.asked.wait(WAIT)
    assert heard.order(TurnFinished, Compacted) == [TurnFinished]
    runner.submit("And then?")
    heard.await_kind(TurnFinished, 2)
    assert model.chat_requests()[-1].history[-1].content == "And then?"
    model.may_write.set()
    heard.await_kind(Compacted)
    assert runner.wait(WAIT)
    assert heard.order(TurnFinished, Compacted) == [TurnFinished] * 2 + [Compacted]
    assert agent.session.compaction.stop == 8
    assert isinstance(heard[-1], Idle)
    runner.close()


def test_a_chat_that_is_closed_ends_the_summary_too(model: Reader):
    heard = Heard()
    agent = model.agent()
    runner = ChatRunner(lambda: agent, heard)
    runner.submit("And now?")
    assert model.asked.wait(WAIT)
    runner.close()
    model.may_write.set()
    assert agent.wait_for_background(WAIT)
    assert heard.number_of(Compacted) == 0
    assert agent.session.compaction is None


def test_a_cell_shows_its_compaction_itself(model: Reader):
    model.may_write.set()
    agent = model.agent()
    runner = ChatRunner(lambda: agent)
    events = list(runner.run_message("And now?"))
    assert any(isinstance(event, Compacted) for event in events)
    runner.close()


# In a script.


def test_in_a_script_the_summary_is_written_while_it_goes_on(model: Reader):
    agent = model.agent()
    agent.compacts_later = True
    assert agent.ask("And now?") == "Fine."
    assert model.asked.wait(WAIT)
    assert not agent.session.compactions
    model.may_write.set()
    agent.close(wait_seconds=WAIT)
    assert agent.session.compaction.trigger == "background"


def test_an_agent_that_is_closed_drops_a_summary_that_is_not_ready(model: Reader):
    agent = model.agent()
    agent.compacts_later = True
    assert agent.ask("And now?") == "Fine."
    assert model.asked.wait(WAIT)
    threading.Timer(0.05, model.may_write.set).start()
    agent.close()
    assert agent.session.compaction is None
    assert agent.wait_for_background(0)
