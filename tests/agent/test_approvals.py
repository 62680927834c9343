"""Tool calls wait for a person, and every way out of waiting is taken."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from tables import every

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals, PendingCall
from nbchat.agent.map_agents import map_agents
from nbchat.chat.chat_events import AgentReady
from nbchat.chat.chat_runner import ChatRunner
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Event, TurnFinished
from nbchat.conversation.session import Session
from nbchat.conversation.tools import tool as as_tool
from nbchat.errors import ConfigError, NbchatError
from nbchat.testing import ScriptedProvider, calls, says


def refund(order: str) -> str:
    """Give money back."""
    return f"{order} refunded"


def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is late"


class Chat:
    """A worker whose tools ask, and what can be waited for."""

    def __init__(self, *lines: object) -> None:
        self.changed = threading.Condition()
        self.told: list[tuple[PendingCall, ...]] = []
        self.events: list[object] = []
        self.approvals = Approvals(free=["look_up"], listener=self._hear)
        self.agent = Agent(
            ScriptedProvider(*lines),  # type: ignore[arg-type]
            tools=[refund, look_up],
            approve=self.approvals,
        )
        self.worker = ChatRunner(lambda: self.agent, self._see, commands=self._new)

    def _hear(self, waiting: tuple[PendingCall, ...]) -> None:
        with self.changed:
            self.told.append(waiting)
            self.changed.notify_all()

    def _see(self, event: Event | object) -> None:
        self.events.append(event)

    def _new(self, agent: Agent, _line: str, _stop: object) -> list[Event]:
        agent.switch(Session())
        return []

    def await_call(self, number: int = 1) -> PendingCall:
        """The call that waits, when as many have come to wait."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: sum(map(bool, self.told)) >= number, 60
            )
        (call,) = self.approvals.waiting
        return call

    def results(self) -> list[str]:
        transcript = self.agent.session.transcript
        return [entry.content for entry in transcript if entry.role == "tool"]


@pytest.fixture
def chat() -> Iterator[Callable[..., Chat]]:
    made: list[Chat] = []

    def make(*lines: object) -> Chat:
        made.append(Chat(*lines))
        return made[-1]

    yield make
    for each in made:
        each.worker.close()


def test_an_approved_call_runs_and_a_denied_one_does_not(chat):
    one = chat(calls("refund", order="W1"), calls("refund", order="W2"), says("ok"))
    one.worker.submit("refund both")
    first = one.await_call()
    assert first.call.arguments == {"order": "W1"}
    first.approve()
    one.await_call(2).deny()
    assert one.worker.wait(60)
    assert one.results() == ["W1 refunded", "error: denied by the user"]
    assert one.approvals.waiting == ()


def test_the_model_reads_the_reason_of_a_denial(chat):
    one = chat(calls("refund", order="W1"), calls("refund", order="W1"), says("ok"))
    one.worker.submit("refund")
    one.await_call().deny(" it was paid back already ")
    one.await_call(2).deny()
    assert one.worker.wait(60)
    assert one.results() == [
        "error: denied by the user: it was paid back already",
        "error: denied by the user",
    ]
    denied = [e for e in one.agent.session.transcript if e.role == "tool"]
    assert all(each.is_denied for each in denied)


def test_approving_a_turn_holds_for_its_tools_group_until_the_answer(chat):
    one = chat(
        calls("refund", order="W1"),
        calls("void", order="W2"),
        says("ok"),
        calls("refund", order="W3"),
        says("ok"),
    )
    void = replace(as_tool(refund), name="void", group="money")
    one.agent.tools = (replace(as_tool(refund), group="money"), void)
    one.worker.submit("both")
    one.await_call().approve(turn=True)
    assert one.worker.wait(60)
    assert one.results() == ["W1 refunded", "W2 refunded"]
    one.worker.submit("and the third")
    one.await_call(2).deny()
    assert one.worker.wait(60)


def test_always_approves_calls_of_the_same_effect_alone(chat):
    def send(text: str, pays: bool = False) -> str:  # noqa: FBT001, FBT002
        """Send."""
        return text

    one = chat(
        calls("send", text="a"),
        calls("send", text="b"),
        calls("send", text="c", pays="true"),
        says("ok"),
    )
    effect = lambda *, pays=False, **_: "pays" if pays else ""  # noqa: E731
    one.agent.tools = (replace(as_tool(send), effect=effect),)
    one.worker.submit("go")
    one.await_call().approve(always=True)
    waiting = one.await_call(2)
    assert waiting.call.arguments["text"] == "c"
    waiting.deny()
    assert one.worker.wait(60)


def test_only_true_permits_calls_without_a_person(chat):
    one = chat(calls("refund", order="W1"), calls("refund", order="W2"), says("ok"))
    one.approvals.permits = lambda call, tool: (
        True if call.arguments["order"] == "W1" else "yes"
    )
    one.worker.submit("refund both")
    assert one.await_call().call.arguments == {"order": "W2"}
    one.await_call().deny()
    assert one.worker.wait(60)
    assert one.results()[0] == "W1 refunded"


def test_free_tools_run_without_asking(chat):
    one = chat(calls("look_up", order="W1"), says("late"))
    one.worker.submit("where is W1?")
    assert one.worker.wait(60)
    assert one.results() == ["W1 is late"]
    assert one.told == []


def test_always_holds_for_one_tool_and_until_another_session(chat):
    one = chat(
        calls("refund", order="W1"),
        calls("refund", order="W2"),
        says("ok"),
        calls("refund", order="W3"),
        says("ok"),
    )
    one.worker.submit("refund both")
    one.await_call().approve(always=True)
    assert one.worker.wait(60)
    assert one.results() == ["W1 refunded", "W2 refunded"]
    one.worker.submit("/new")
    one.worker.submit("refund the third")
    one.await_call(2).deny()
    assert one.worker.wait(60)
    assert one.results() == ["error: denied by the user"]


def test_approving_once_does_not_approve_later_calls(chat):
    one = chat(calls("refund", order="W1"), calls("refund", order="W2"), says("ok"))
    one.worker.submit("refund both")
    one.await_call().approve()
    one.await_call(2).approve()
    assert one.worker.wait(60)
    assert len(one.results()) == 2


def test_stop_ends_a_turn_that_waits_for_an_answer_and_the_next_turn_works(chat):
    one = chat(calls("refund", order="W1"), says("as you like"))
    one.worker.submit("refund it")
    one.await_call()
    one.worker.stop()
    assert one.worker.wait(60)
    assert one.results() == ["error: stopped before it ran"]
    ends = [e.stop_reason for e in one.events if isinstance(e, TurnFinished)]
    assert ends == ["stopped"]
    one.worker.submit("leave it")
    assert one.worker.wait(60)
    assert one.agent.session.last_answer == "as you like"


def test_closing_a_chat_ends_the_wait(chat):
    one = chat(calls("refund", order="W1"))
    one.worker.submit("refund it")
    one.await_call()
    one.worker.close(10)
    assert one.approvals.waiting == ()
    assert "W1 refunded" not in one.results()


def test_an_answer_to_a_call_that_does_not_wait_is_refused(chat):
    one = chat(calls("refund", order="W1"), says("ok"))
    one.worker.submit("refund it")
    call = one.await_call()
    with pytest.raises(NbchatError, match="No tool call with the ticket 'other'"):
        one.approvals.approve("other")
    call.deny()
    assert one.worker.wait(60)
    with pytest.raises(NbchatError, match="is waiting for approval"):
        call.approve()


def test_a_headless_agent_waits_for_another_thread():
    approvals = Approvals()
    agent = Agent(
        ScriptedProvider(calls("refund", order="W1"), says("done")),
        tools=[refund],
        approve=approvals,
    )
    asked = threading.Event()
    approvals._listener = lambda waiting: asked.set()
    turn = threading.Thread(target=agent.ask, args=("refund it",))
    turn.start()
    assert asked.wait(60)
    approvals.waiting[0].approve()
    turn.join(60)
    assert agent.session.last_answer == "done"


def test_a_message_that_is_refused_leaves_the_stop_to_the_turn_that_runs(chat):
    one = chat(calls("refund", order="W1"), says("never asked for"))
    stop = threading.Event()
    ended: list[Event] = []
    turn = threading.Thread(
        target=lambda: ended.extend(one.agent.run("refund it", stop=stop))
    )
    turn.start()
    one.await_call()
    with pytest.raises(NbchatError, match="already answering"):
        one.agent.ask("hello")
    stop.set()
    one.approvals.wake()
    turn.join(60)
    assert ended[-1] == TurnFinished("stopped", 1)
    assert one.results() == ["error: stopped before it ran"]


def test_another_function_that_approves_is_left_alone():
    agent = Agent(
        ScriptedProvider(calls("refund", order="W1"), says("no")),
        tools=[refund],
        approve=lambda call: False,
    )
    events: list[object] = []
    worker = ChatRunner(lambda: agent, events.append)
    assert worker.approvals.current is None
    worker.submit("refund it")
    assert worker.wait(60)
    assert worker.approvals.current is None
    assert any(isinstance(event, AgentReady) for event in events)
    worker.close()


def test_the_id_of_a_waiting_call_is_not_accepted(chat):
    one = chat(calls("refund", order="W1"), says("ok"))
    one.worker.submit("refund it")
    waiting = one.await_call()
    assert waiting.call.tool_id == "call_1_0"
    for decide in (one.approvals.approve, one.approvals.deny):
        with pytest.raises(NbchatError) as refused:
            decide("call_1_0")
        assert str(refused.value) == (
            "'call_1_0' is the id of a call, not its ticket. Use the ticket, or "
            "approve() or deny() of an item of Approvals.waiting."
        )
    one.approvals.approve(waiting.ticket)
    assert one.worker.wait(60)
    assert one.results() == ["W1 refunded"]


def test_a_call_that_no_approvals_hold_cannot_be_decided():
    with pytest.raises(NbchatError, match="No tool call with the ticket '5' is"):
        PendingCall(Entry("assistant", "", "c1", "refund", "{}"), ticket="5").deny()


def test_two_waiting_calls_with_one_id_are_decided_separately():
    both, answers = threading.Event(), []
    approvals = Approvals(listener=lambda waiting: len(waiting) == 2 and both.set())
    call = Entry("assistant", "", "c1", "refund", "{}")
    asking = [
        threading.Thread(target=lambda: answers.append(approvals(call)))
        for _ in range(2)
    ]
    for each in asking:
        each.start()
    assert both.wait(60)
    one, other = approvals.waiting
    one.approve()
    other.deny()
    for each in asking:
        each.join(60)
    assert sorted(answers) == [False, True]


async def yes(_call: Entry) -> bool:
    return True


async def no(_call: Entry) -> bool:
    await asyncio.sleep(0)
    return False


class AsyncNo:
    async def __call__(self, _call: Entry) -> bool:
        return False


class Later:
    """An awaitable that is no coroutine."""

    def __await__(self) -> Iterator[None]:
        yield from asyncio.sleep(0).__await__()
        return False


async def several(_call: Entry) -> AsyncIterator[bool]:
    yield True


ANSWERS_NO = [
    no,
    AsyncNo(),
    partial(no),
    lambda _call: Later(),
    lambda call: asyncio.wait_for(no(call), 60),
    several,
    lambda _call: "n",
    lambda _call: "no",
    lambda _call: "false",
    lambda _call: "yes",
    lambda _call: [1],
    lambda _call: 1,
    lambda _call: None,
    lambda _call: np.True_,
    lambda _call: (each for each in [True]),
]


def refunds(approve: object) -> Agent:
    script = (calls("refund", order="W1"), says("ok"))
    return Agent(ScriptedProvider(*script), tools=[refund], approve=approve)  # type: ignore[arg-type]


def result_of(agent: Agent) -> str:
    found = [e.content for e in agent.session.transcript if e.role == "tool"]
    (only,) = found
    return only


async def awaited(agent: Agent) -> None:
    await agent.aask("refund")


WAYS = {
    "ask": lambda agent: agent.ask("refund"),
    "aask": lambda agent: asyncio.run(awaited(agent)),
    "ask on a running loop": lambda agent: asyncio.run(_inside(agent)),
}


async def _inside(agent: Agent) -> None:
    agent.ask("refund")


@every(("way", "approve"), product(WAYS, ANSWERS_NO))
def test_only_true_approves_and_async_functions_are_awaited(way, approve):
    agent = refunds(approve)
    WAYS[way](agent)
    assert result_of(agent) == "error: denied by the user"


@every(("way", "approve"), product(WAYS, [yes, lambda _call: True, True]))
def test_true_approves_also_from_an_async_function(way, approve):
    agent = refunds(approve)
    WAYS[way](agent)
    assert result_of(agent) == "W1 refunded"


@pytest.mark.parametrize("approve", [no, lambda _call: "n", AsyncNo()])
def test_rows_of_map_agents_run_only_what_was_approved(approve):
    ran: list[str] = []

    def wire(order: str) -> str:
        """Send money."""
        ran.append(order)
        return "sent"

    def make() -> Agent:
        script = ScriptedProvider(calls("wire", order="W1"), says("ok"))
        return Agent(script, tools=[wire], approve=approve)

    run = map_agents(make, ["a", "b", "c"], workers=2)
    assert run.wait(30).state in ("finished", "failed")
    assert ran == []


def test_an_answer_that_is_neither_yes_nor_no_is_reported_once(caplog):
    def unsure(_call: Entry) -> str:
        return "maybe"

    for _ in range(3):
        refunds(unsure).ask("refund")
    (said,) = [each for each in caplog.messages if "approve=" in each]
    assert "unsure returned a value of type str, so the call was denied" in said
    assert "maybe" not in said


def test_a_stop_ends_the_wait_for_an_async_answer():
    stop = threading.Event()

    async def asks(_call: Entry) -> bool:
        stop.set()
        await asyncio.sleep(60)
        return True

    agent = refunds(asks)
    events = list(agent.run("refund", stop=stop))
    assert events[-1] == TurnFinished("stopped", 1)
    assert "stopped" in result_of(agent)


def test_a_fault_in_approve_runs_nothing():
    async def asks(_call: Entry) -> bool:
        raise LookupError("no one is here")

    agent = refunds(asks)
    with pytest.raises(LookupError):
        agent.ask("refund")
    assert "refunded" not in result_of(agent)


@pytest.mark.parametrize("approve", [Approvals, "yes", 1, [True]])
def test_an_agent_is_refused_an_approve_that_cannot_answer(approve):
    with pytest.raises(ConfigError, match="approve= got"):
        refunds(approve)
