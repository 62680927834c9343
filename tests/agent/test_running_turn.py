"""Turns and answers: what runs, what a cell shows, and what is raised."""

import pickle
import threading
from itertools import product

import pytest
from tables import every

from nbchat.agent.agent import Agent
from nbchat.agent.running_turn import Answer, Turn
from nbchat.conversation.entries import Usage
from nbchat.conversation.events import (
    EntryAdded,
    SavingFailed,
    TextDelta,
    TurnFailed,
    TurnFinished,
)
from nbchat.errors import (
    AuthenticationFailed,
    NbchatError,
    QuotaExhausted,
    RateLimited,
    StoreError,
)
from nbchat.testing import Line, ScriptedProvider, calls, fails, says


def agent_with(*lines: object, **options: object) -> Agent:
    return Agent(ScriptedProvider(*lines), **options)


def lookup(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped"


def test_a_turn_runs_nothing_until_it_is_iterated_and_says_so():
    agent = agent_with(says("Hello."))
    turn = agent.run("hi")
    for shown in (repr(turn), turn._repr_html_()):
        assert "not started" in shown
        assert "agent.chat(...)" in shown
    assert len(agent.session.transcript) == 0
    assert turn.stop_reason is None


def test_each_event_comes_once_and_a_second_loop_continues_where_the_first_ended():
    turn = agent_with(says("one two")).run("count")
    first = next(turn)
    assert isinstance(first, EntryAdded)
    assert "running" in repr(turn)
    rest = list(turn)
    assert rest[-1] == TurnFinished("end_turn", steps=1)
    assert turn.events == [first, *rest]
    assert list(turn) == []
    assert repr(turn) == "<Turn finished (end_turn): 'one two'>"


def test_the_result_of_a_turn_is_its_whole_answer_with_usage_and_events():
    line = Line("I look.", calls("lookup", order="W1").calls, "tool_use", Usage(10, 2))
    agent = agent_with(line, says("Shipped.", tokens=20), tools=[lookup])
    turn = agent.run("Where is W1?")
    next(turn)
    answer = turn.result()
    assert answer == agent.session.last_answer == "I look.\nShipped."
    assert (answer.usage.input_tokens, answer.stop_reason) == (30, "end_turn")
    assert list(answer.events) == turn.events
    assert turn.result() == answer
    html = turn._repr_html_()
    for part in ("finished (end_turn)", "30 in, 12 out", "Tool calls"):
        assert part in html


def test_closing_a_turn_ends_it_keeps_what_had_arrived_and_frees_the_chat():
    agent = agent_with(says("one two three"), says("fine"))
    turn = agent.run("count")
    while not isinstance(next(turn), TextDelta):
        pass
    turn.close()
    assert repr(turn).startswith("<Turn interrupted")
    assert agent.session.transcript[-1].content == "one "
    with pytest.raises(NbchatError, match="interrupted"):
        turn.result()
    assert agent.ask("go on") == "fine"


def test_a_turn_can_be_delegated_to():
    agent = agent_with(says("one two"), says("fine"))

    def outer():
        yield from agent.run("count")

    events = outer()
    while not isinstance(next(events), TextDelta):
        pass
    events.close()
    assert agent.session.transcript[-1].is_incomplete
    assert agent.ask("go on") == "fine"


@every(
    ("error", "ask"),
    product(
        [
            RateLimited("slow down", retry_after=7_200.0),
            AuthenticationFailed("no key"),
            QuotaExhausted("no money"),
        ],
        [Agent.ask, Agent.chat],
    ),
)
def test_a_failed_turn_raises_the_error_itself_with_its_cause(error, ask):
    error.__cause__ = cause = ConnectionError("401")
    agent = agent_with(fails(error), says("fine"))
    with pytest.raises(type(error)) as raised:
        ask(agent, "hi")
    assert raised.value is error
    assert raised.value.__cause__ is cause
    assert raised.value.retry_after == error.retry_after
    assert ask(agent, "again") == "fine"


def test_a_failed_turn_shows_its_error_and_compares_by_its_message():
    turn = agent_with(fails(AuthenticationFailed("no key"))).run("hi")
    end = list(turn)[-1]
    assert end == TurnFailed("no key")
    assert isinstance(end, TurnFailed)
    assert isinstance(end.error, AuthenticationFailed)
    assert turn.error is end.error
    assert repr(turn) == "<Turn failed (AuthenticationFailed: no key)>"


def test_the_error_of_a_turn_is_raised_after_its_last_event():
    def broken(event: object) -> None:
        if isinstance(event, TurnFailed):
            raise StoreError("disk full")

    agent = agent_with(fails(AuthenticationFailed("no key")), listener=broken)
    turn = agent.run("hi")
    with pytest.raises(AuthenticationFailed):
        turn.result()
    assert turn.events[-1] == SavingFailed("disk full")


@pytest.mark.parametrize(
    ("line", "options", "reason"),
    [
        (says("half an", stop_reason="max_tokens"), {}, "max_tokens"),
        (says("No.", stop_reason="refusal"), {}, "refusal"),
        (calls("lookup", order="W1"), {"max_steps": 1, "tools": [lookup]}, "max_steps"),
    ],
)
def test_an_answer_that_ended_early_never_looks_finished(line, options, reason, capsys):
    for ask in (Agent.ask, Agent.chat):
        answer = ask(agent_with(line, **options), "hi")
        assert answer.stop_reason == reason
        assert f"stop_reason='{reason}'" in repr(answer)
        assert answer._repr_markdown_() == f"{answer}\n\n*({answer.note})*"
        assert answer.note
    assert f"({answer.note})\n" in capsys.readouterr().out


def test_a_stopped_turn_says_so():
    stop = threading.Event()
    stop.set()
    answer = agent_with(says("never")).ask("hi", stop=stop)
    assert answer.stop_reason == "stopped"
    assert answer == ""


def test_a_finished_answer_is_shown_as_its_text():
    answer = agent_with(says("**Hello.**")).ask("hi")
    assert isinstance(answer, Answer)
    assert repr(answer) == "'**Hello.**'"
    assert answer._repr_markdown_() == "**Hello.**"


def test_an_answer_can_be_pickled():
    answer = Answer("a", usage=Usage(1, 2), stop_reason="max_tokens")
    copied = pickle.loads(pickle.dumps(answer))
    assert copied == "a"
    assert (copied.usage, copied.stop_reason) == (Usage(1, 2), "max_tokens")


def test_hostile_text_is_escaped_in_the_html_of_a_turn():
    turn: Turn = agent_with(says("<img src=x onerror=alert(1)>")).run("<b>hi</b>")
    list(turn)
    html = turn._repr_html_()
    assert "<img" not in html
    assert "<b>" not in html
    assert "&lt;img" in html
    assert "mathjax_ignore" in html
