"""ChatRunner: queued turns on its thread, the turns of cells, Stop and errors."""

import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextvars import ContextVar

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import (
    AgentReady,
    ChatEvent,
    CommandReplied,
    Idle,
    MessagesReturned,
    QueueChanged,
    Refused,
    Stopping,
    TurnStarted,
)
from nbchat.chat.chat_runner import ChatRunner
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionSkipped,
    CompactionStarted,
    EntryAdded,
    Event,
    TextDelta,
    TurnFailed,
    TurnFinished,
)
from nbchat.conversation.session import Session
from nbchat.errors import AttachmentError, ConfigError, NbchatError
from nbchat.testing import ScriptedProvider, ScriptedReply, calls, says

SLOW = says("word " * 1_000, delay_seconds=0.01)

request = ContextVar("request", default="")


class Recorder:
    """A listener that keeps the events and can be waited on."""

    def __init__(self) -> None:
        self.events: list[ChatEvent] = []
        self.threads: set[str] = set()
        self._arrived = threading.Condition()

    def __call__(self, event: ChatEvent) -> None:
        with self._arrived:
            self.events.append(event)
            self.threads.add(threading.current_thread().name)
            self._arrived.notify_all()

    def await_event(self, kind: type) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: self.all(kind), 60)

    def all(self, kind: type) -> list[ChatEvent]:
        return [event for event in self.events if isinstance(event, kind)]


Turn = Generator[ChatEvent, None, None]

Start = Callable[..., tuple[ChatRunner, Recorder]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Make a runner on a script, and close it when the test is over."""
    started: list[ChatRunner] = []

    def make(*script: ScriptedReply, **options: object) -> tuple[ChatRunner, Recorder]:
        recorder = Recorder()
        agent = Agent(ScriptedProvider(*script), engine=CompactionEngine(5_000))
        runner = ChatRunner(lambda: agent, recorder, **options)  # type: ignore[arg-type]
        started.append(runner)
        return runner, recorder

    yield make
    for runner in started:
        runner.close()


def said(recorder: Recorder, role: str) -> list[str]:
    entries = [
        event.entry for event in recorder.events if isinstance(event, EntryAdded)
    ]
    return [entry.content for entry in entries if entry.role == role]


def test_a_submitted_turn_runs_on_the_thread_and_ends_idle(start: Start) -> None:
    runner, recorder = start(says("hello"))
    runner.submit("hi")
    assert runner.wait(60)
    assert said(recorder, "assistant") == ["hello"]
    assert recorder.events[0] == QueueChanged(("hi",))
    assert recorder.events[-2:] == [TurnFinished("end_turn", 1), Idle()]
    assert "nbchat-runner" in recorder.threads


def test_nothing_is_built_or_started_before_first_use() -> None:
    built: list[int] = []
    runner = ChatRunner(lambda: built.append(1), Recorder())  # type: ignore[arg-type,func-returns-value]
    assert not runner.is_busy
    runner.close()
    assert built == []
    assert "nbchat-runner" not in {thread.name for thread in threading.enumerate()}


def test_messages_during_a_turn_are_queued_and_answered_in_order(
    start: Start,
) -> None:
    runner, recorder = start(
        says("a b c", delay_seconds=0.05), says("two"), says("three")
    )
    runner.submit("1")
    recorder.await_event(TextDelta)
    runner.submit("2")
    runner.submit("3")
    assert runner.is_busy
    assert runner.wait(60)
    assert QueueChanged(("2", "3")) in recorder.events
    assert recorder.all(TurnStarted) == [TurnStarted(text) for text in "123"]
    assert said(recorder, "assistant") == ["a b c", "two", "three"]


def test_stop_keeps_the_partial_answer_and_returns_the_queue(start: Start) -> None:
    runner, recorder = start(SLOW, says("fine"))
    runner.submit("1")
    recorder.await_event(TextDelta)
    runner.submit("2")
    runner.stop()
    assert runner.wait(60)
    assert recorder.all(Stopping) == [Stopping()]
    assert recorder.all(MessagesReturned) == [MessagesReturned(("2",))]
    assert recorder.all(TurnFinished)[-1].stop_reason == "stopped"  # type: ignore[union-attr]
    assert runner.agent.session.transcript[-1].is_incomplete
    runner.submit("again")
    assert runner.wait(60)
    assert said(recorder, "assistant")[-1] == "fine"


def test_a_queued_message_is_taken_back_if_it_still_is_the_one(start: Start) -> None:
    runner, recorder = start(SLOW, says("fine"))
    runner.submit("1")
    recorder.await_event(TextDelta)
    for text in ("2", "3", "4"):
        runner.submit(text)
    runner.withdraw(1, "2", is_returned=True)  # another one is there
    runner.withdraw(0, "2", is_returned=False)
    runner.withdraw(1, "4", is_returned=True)
    assert recorder.all(QueueChanged)[-1] == QueueChanged(("3",))
    assert recorder.all(MessagesReturned) == [MessagesReturned(("4",))]
    runner.stop()
    assert runner.wait(60)


def test_stopping_a_message_before_the_thread_wakes_leaves_the_chat_idle(
    start: Start,
) -> None:
    runner, recorder = start(says("hello"))
    runner.submit("1")
    assert runner.wait(60)
    with runner._changed:  # the thread cannot wake in between
        runner.submit("2")
        runner.stop()
    assert recorder.events[-3:] == [MessagesReturned(("2",)), QueueChanged(()), Idle()]
    runner.submit("3")
    assert runner.wait(60)
    assert said(recorder, "user") == ["1", "3"]


def test_stop_when_nothing_runs_does_nothing(start: Start) -> None:
    runner, recorder = start()
    runner.stop()
    assert recorder.events == []


def test_close_ends_the_thread_during_a_turn(start: Start) -> None:
    runner, recorder = start(SLOW)
    runner.submit("1")
    recorder.await_event(TextDelta)
    runner.close()
    assert "nbchat-runner" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(NbchatError, match="closed"):
        runner.submit("2")
    runner.warm_up()


def test_warming_up_builds_the_agent_once(start: Start) -> None:
    runner, recorder = start(says("one"))
    runner.warm_up()
    recorder.await_event(AgentReady)
    runner.warm_up()
    runner.submit("hi")
    assert runner.wait(60)
    assert len(recorder.all(AgentReady)) == 1


@pytest.mark.slow
def test_a_failed_build_is_reported_and_tried_again() -> None:
    recorder = Recorder()
    agent = Agent(ScriptedProvider(says("now it works")))
    outcomes: list[Agent | ConfigError] = [ConfigError("no key; set one"), agent]

    def build() -> Agent:
        outcome = outcomes.pop(0)
        if isinstance(outcome, ConfigError):
            raise outcome
        return outcome

    runner = ChatRunner(build, recorder)
    runner.submit("hi")
    assert runner.wait(60)
    assert recorder.all(TurnFailed) == [TurnFailed("no key; set one")]
    assert recorder.all(MessagesReturned) == [MessagesReturned(("hi",))]
    runner.submit("hi")
    assert runner.wait(60)
    assert said(recorder, "assistant") == ["now it works"]
    runner.close()


def explodes(_request: object) -> Entry:
    raise ZeroDivisionError("boom")


def test_no_error_ends_the_thread(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    runner, recorder = start(explodes, lambda _: sys.exit(3), says("still here"))
    for text in ("1", "2", "3"):
        runner.submit(text)
    assert runner.wait(60)
    assert recorder.all(TurnFailed) == [
        TurnFailed("ZeroDivisionError: boom"),
        TurnFailed("SystemExit: 3"),
    ]
    assert said(recorder, "assistant") == ["still here"]
    assert "A step of the chat failed" in caplog.text


def test_a_broken_listener_does_not_break_the_conversation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent(ScriptedProvider(says("hello")))

    def broken(_event: object) -> None:
        raise ValueError("no view")

    runner = ChatRunner(lambda: agent, broken)
    runner.submit("hi")
    assert runner.wait(60)
    assert agent.session.last_answer == "hello"
    assert "no view" in caplog.text
    runner.close()


def test_an_action_runs_after_the_queued_messages(start: Start) -> None:
    story = says("<summary>They greeted.</summary>")
    runner, recorder = start(says("hello " * 300), story)
    runner.submit("hi")
    runner.submit_action("/compact greetings", lambda agent, stop: agent.compact())
    assert runner.wait(60)
    assert TurnStarted("/compact greetings") in recorder.events
    assert len(recorder.all(Compacted)) == 1


def test_a_compaction_can_be_stopped(start: Start) -> None:
    runner, recorder = start(says("hello " * 300), SLOW)
    runner.submit("hi")
    assert runner.wait(60)
    runner.submit_action("/compact", lambda agent, stop: agent.compact(stop=stop))
    recorder.await_event(CompactionStarted)
    runner.stop()
    assert runner.wait(60)
    assert recorder.all(Compacted) == []
    assert [each.reason for each in recorder.all(CompactionFailed)] == ["Stopped."]
    assert runner.agent.session.history == runner.agent.session.transcript


def test_messages_with_a_slash_are_commands(start: Start) -> None:
    def commands(_agent: Agent, line: str, stop: threading.Event) -> list[ChatEvent]:
        return [CommandReplied(f"ran {line}"), CompactionSkipped("nothing to do")]

    runner, recorder = start(says("an answer"), commands=commands)
    runner.submit("/undo")
    runner.submit("not /undo")
    assert runner.wait(60)
    assert recorder.all(CommandReplied) == [CommandReplied("ran /undo")]
    assert recorder.all(CompactionSkipped) == [CompactionSkipped("nothing to do")]
    assert said(recorder, "assistant") == ["an answer"]


def test_a_command_that_changes_the_session_sends_the_agent_again(start: Start) -> None:
    def commands(agent: Agent, _line: str, stop: threading.Event) -> list[ChatEvent]:
        agent.session = Session()
        return [CommandReplied("a new session")]

    runner, recorder = start(commands=commands)
    runner.submit("/new")
    assert runner.wait(60)
    kinds = [type(event) for event in recorder.events]
    assert kinds.count(AgentReady) == 2
    assert kinds.index(CommandReplied) > kinds.index(TurnStarted) + 1


def test_refresh_sends_the_agent_and_can_replace_it(start: Start) -> None:
    runner, recorder = start()
    runner.refresh()
    assert recorder.events == []
    other = Agent(ScriptedProvider(says("from another"), name="scripted:other"))
    runner.refresh(other)
    assert recorder.events == [AgentReady(other)]
    runner.submit("hi")
    assert runner.wait(60)
    assert other.session.last_answer == "from another"


def test_a_command_may_reply_nothing(start: Start) -> None:
    runner, recorder = start(commands=lambda _agent, _line, _stop: [])
    runner.submit("/quiet")
    assert runner.wait(60)
    assert recorder.all(CommandReplied) == []


def refuses(_agent: Agent, line: str, stop: threading.Event) -> list[ChatEvent]:
    raise ConfigError(f"unknown command: {line}")


def test_a_refused_command_is_returned(start: Start) -> None:
    runner, recorder = start(says("hello"), commands=refuses)
    runner.submit("/compct all of it")
    runner.submit("hi")
    assert runner.wait(60)
    (refused,) = recorder.all(Refused)
    assert str(refused.error) == "unknown command: /compct all of it"
    assert recorder.all(MessagesReturned) == [MessagesReturned(("/compct all of it",))]
    assert said(recorder, "user") == ["hi"]


@pytest.mark.parametrize(
    "text", ["/usr/bin/python3 fails:\nline", "/* why? */ x", "// why?"]
)
def test_a_path_or_a_comment_is_a_message(start: Start, text: str) -> None:
    runner, recorder = start(says("an answer"), commands=refuses)
    runner.submit(text)
    assert runner.wait(60)
    assert said(recorder, "user") == [text]
    assert recorder.all(TurnFailed) == []


def test_without_commands_a_slash_is_just_text(start: Start) -> None:
    runner, recorder = start(says("an answer"))
    runner.submit("/etc/hosts?")
    assert runner.wait(60)
    assert said(recorder, "user") == ["/etc/hosts?"]


def test_a_turn_runs_in_the_context_it_was_submitted_in(start: Start) -> None:
    seen: list[str] = []

    def answer(_request: object) -> ScriptedReply:
        seen.append(request.get())
        return says("ok")

    runner, _ = start(answer, answer)  # type: ignore[arg-type]
    for name in ("first click", "second click"):
        token = request.set(name)
        runner.submit("hi")
        request.reset(token)
    assert runner.wait(60)
    assert seen == ["first click", "second click"]


def test_wait_ends_at_its_timeout(start: Start) -> None:
    runner, _ = start(SLOW)
    runner.submit("hi")
    assert not runner.wait(0.05)
    runner.stop()
    assert runner.wait(60)


def test_tools_run_on_the_runners_thread(start: Start) -> None:
    def where() -> str:
        """Name the thread."""
        return threading.current_thread().name

    recorder = Recorder()
    agent = Agent(ScriptedProvider(calls("where"), says("done")), tools=[where])
    runner = ChatRunner(lambda: agent, recorder)
    runner.submit("where?")
    assert runner.wait(60)
    assert said(recorder, "tool") == ["nbchat-runner"]
    runner.close()


def test_attachments_are_loaded_when_the_message_leaves_the_queue(
    start: Start,
) -> None:
    runner, recorder = start(says("a b c", delay_seconds=0.05), says("two"))
    looked: list[str] = []
    runner.submit("1")
    recorder.await_event(TextDelta)
    brought = Entry("user", "The variable x", "", "file", "{}")
    runner.submit(
        "2", lambda: looked.append(said(recorder, "assistant")[-1]) or [brought]
    )
    assert runner.wait(60)
    assert looked == ["a b c"]
    assert said(recorder, "user") == ["1", "The variable x", "2"]


def test_a_message_with_a_missing_attachment_is_returned(
    start: Start,
) -> None:
    def missing() -> list[Entry]:
        raise AttachmentError("@file:x: there is no such file")

    runner, recorder = start(says("hello"))
    runner.submit("see @file:x", missing)
    runner.submit("hi")
    assert runner.wait(60)
    (refused,) = recorder.all(Refused)
    assert str(refused.error) == "@file:x: there is no such file"
    assert recorder.all(MessagesReturned) == [MessagesReturned(("see @file:x",))]
    assert said(recorder, "user") == ["hi"]


def behind_a_cell(start: Start) -> tuple[ChatRunner, Recorder, Iterator[Event]]:
    """A panel's message that waits for a cell's turn."""
    runner, recorder = start(says("one"), says("two"))
    turn = runner.agent.run("from a cell")
    next(turn)
    runner.submit("from the panel")
    assert not runner.wait(0.3)
    return runner, recorder, turn


@pytest.mark.slow
def test_a_message_waits_while_a_cell_runs_the_agent(
    start: Start,
) -> None:
    runner, recorder, turn = behind_a_cell(start)
    assert recorder.events[-1] == QueueChanged(("from the panel",))
    list(turn)
    assert runner.wait(60)
    assert recorder.all(TurnFailed) == []
    said_in_all = [entry.content for entry in runner.agent.session.transcript]
    assert said_in_all == ["from a cell", "one", "from the panel", "two"]


@pytest.mark.slow
def test_stop_returns_a_message_that_waits_for_code_running_the_agent(
    start: Start,
) -> None:
    runner, recorder, turn = behind_a_cell(start)
    runner.stop()
    assert runner.wait(60)
    assert recorder.all(MessagesReturned) == [MessagesReturned(("from the panel",))]
    assert recorder.all(TurnStarted) == []
    list(turn)
    assert runner.agent.session.last_answer == "one"
    runner.submit("again")
    assert runner.wait(60)
    assert said(recorder, "assistant") == ["two"]


def test_a_message_is_returned_if_a_cell_runs_the_agent_first(
    start: Start,
) -> None:
    runner, recorder = start(says("one"))
    turn = runner.agent.run("from a cell")

    def slow() -> list[Entry]:
        next(turn)
        return []

    runner.submit("from the panel", slow)
    assert runner.wait(60)
    (refused,) = recorder.all(Refused)
    assert "already answering" in str(refused.error)
    assert recorder.all(MessagesReturned) == [MessagesReturned(("from the panel",))]
    list(turn)
    assert runner.agent.session.last_answer == "one"


def cell_turn(
    start: Start, *script: ScriptedReply
) -> tuple[ChatRunner, Recorder, Turn]:
    """The turn of a cell that has begun, and a message of the panel in the queue."""
    runner, recorder = start(*script)
    turn = runner.run_message("from a cell")
    assert isinstance(next(turn), EntryAdded)
    runner.submit("from the panel")
    return runner, recorder, turn


@pytest.mark.slow
def test_the_listener_gets_the_turn_of_a_cell_and_a_message_waits_for_it(
    start: Start,
) -> None:
    runner, recorder, turn = cell_turn(start, says("one"), says("two"))
    assert runner.is_busy
    assert not runner.wait(0.3)
    assert [type(event) for event in turn][-1] is TurnFinished
    assert runner.wait(60)
    assert recorder.all(TurnStarted) == [
        TurnStarted("from a cell"),
        TurnStarted("from the panel"),
    ]
    assert said(recorder, "assistant") == ["one", "two"]
    assert recorder.events[-1] == Idle()


def test_stop_ends_the_turn_of_a_cell_and_returns_the_queue(start: Start) -> None:
    runner, recorder, turn = cell_turn(start, SLOW, says("fine"))
    runner.stop()
    assert recorder.all(Stopping) == [Stopping()]
    assert recorder.all(MessagesReturned) == [MessagesReturned(("from the panel",))]
    assert list(turn)[-1] == TurnFinished("stopped", 0)
    assert recorder.events[-1] == Idle()
    assert [type(event) for event in runner.run_message("again")][-1] is TurnFinished
    assert runner.agent.session.last_answer == "fine"


def test_a_cell_is_refused_while_a_message_is_answered_and_disturbs_nothing(
    start: Start,
) -> None:
    runner, recorder = start(says("a b c", delay_seconds=0.05))
    runner.submit("from the panel")
    recorder.await_event(TextDelta)
    with pytest.raises(NbchatError, match="already answering"):
        list(runner.run_message("from a cell"))
    assert runner.wait(60)
    assert recorder.all(TurnStarted) == [TurnStarted("from the panel")]
    assert recorder.all(Idle) == [Idle()]
    assert recorder.all(MessagesReturned) == []


def test_the_reply_and_the_errors_of_a_cells_command_are_for_the_cell_alone(
    start: Start,
) -> None:
    runner, recorder = start(
        commands=lambda _agent, line, _stop: [CommandReplied(line)]
    )
    assert list(runner.run_command("help")) == [CommandReplied("help")]
    assert recorder.all(CommandReplied) == []
    runner, recorder = start(commands=refuses)
    with pytest.raises(ConfigError, match="unknown command: bogus"):
        list(runner.run_command("bogus"))
    assert recorder.all(TurnFailed) + recorder.all(MessagesReturned) == []


def test_closing_the_turn_of_a_cell_keeps_its_partial_answer(start: Start) -> None:
    runner, recorder = start(SLOW)
    turn = runner.run_message("from a cell")
    assert any(isinstance(event, TextDelta) for event in turn)
    turn.close()
    assert runner.agent.session.transcript[-1].is_incomplete
    assert not runner.is_busy
    kinds = [type(event) for event in recorder.events]
    assert kinds[-3:] == [AgentReady, TurnFinished, Idle]


def test_another_listener_gets_the_agent_and_all_events_from_then_on(
    start: Start,
) -> None:
    runner, recorder = start(says("one"))
    runner.agent  # noqa: B018
    later = Recorder()
    runner.listen(later)
    runner.submit("hi")
    assert runner.wait(60)
    assert later.events[0] == AgentReady(runner.agent)
    assert said(later, "assistant") == ["one"]
    assert said(recorder, "assistant") == []


class SlowStart(ScriptedProvider):
    """A provider that counts how often it was made ready."""

    def __init__(self, *script: ScriptedReply, fault: Exception | None = None) -> None:
        super().__init__(*script)
        self.warmed: list[str] = []
        self._fault = fault

    def warm_up(self) -> None:
        self.warmed.append(threading.current_thread().name)
        if self._fault is not None:
            raise self._fault


@pytest.mark.parametrize("fault", [None, ConfigError("no key"), ValueError("odd")])
def test_a_provider_is_warmed_up_once_and_errors_cost_no_message(
    fault: Exception | None,
) -> None:
    provider, recorder = SlowStart(says("hello"), fault=fault), Recorder()
    runner = ChatRunner(lambda: Agent(provider), recorder)
    runner.warm_up()
    recorder.await_event(AgentReady)
    assert runner.wait(60)
    runner.warm_up()
    runner.submit("hi")
    assert runner.wait(60)
    assert provider.warmed == ["nbchat-runner"]
    assert said(recorder, "assistant") == ["hello"]
    assert recorder.all(TurnFailed) == []
    runner.close()


def test_a_queued_message_needs_no_warm_up() -> None:
    provider, recorder = SlowStart(says("hello")), Recorder()
    runner = ChatRunner(lambda: Agent(provider), recorder)
    runner.submit("hi")
    runner.warm_up()
    assert runner.wait(60)
    assert provider.warmed == []
    runner.close()


class HeldStart(ScriptedProvider):
    """A provider whose preparation ends when it is told to."""

    def __init__(self, *script: ScriptedReply) -> None:
        super().__init__(*script)
        self.may_end = threading.Event()

    def warm_up(self) -> None:
        assert self.may_end.wait(60)


def test_a_runner_warms_up_until_something_is_said() -> None:
    provider, recorder = HeldStart(says("hello")), Recorder()
    runner = ChatRunner(lambda: Agent(provider), recorder)
    assert not runner.is_warming_up
    runner.warm_up()
    assert runner.is_warming_up
    runner.submit("hi")
    assert not runner.is_warming_up
    provider.may_end.set()
    assert runner.wait(60)
    assert not runner.is_warming_up
    runner.close()
