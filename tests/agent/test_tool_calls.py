"""Calls of a reply: who may run, at the same time, with which key and which results."""

import json
import threading
import time
from collections.abc import Callable

import pandas as pd
import pytest
from matplotlib.figure import Figure

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import EntryAdded
from nbchat.conversation.session import Session
from nbchat.conversation.tools import idempotency_key, run_tool, tool
from nbchat.errors import ConfigError, NbchatError
from nbchat.testing import Line, ScriptedProvider, calls, says


def all_calls(name: str, *arguments: dict[str, object]) -> Line:
    """One reply with several calls of a tool."""
    entries = (Entry("assistant", "", "", name, json.dumps(each)) for each in arguments)
    return Line(calls=tuple(entries), stop_reason="tool_use")


def results(agent: Agent) -> list[str]:
    return [entry.content for entry in agent.session.transcript if entry.role == "tool"]


@tool(read_only=False)
def refund(order: str) -> str:
    """Give money back."""
    return f"{order} refunded"


@tool(read_only=True)
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is late"


def plain(order: str) -> str:
    """Declares nothing."""
    return order


SCRIPT = [calls(name, order="W1") for name in ("refund", "look_up", "plain")]


@pytest.mark.parametrize(
    ("approve", "asked", "ran"),
    [
        (None, [], ["look_up", "plain"]),
        (True, [], ["refund", "look_up", "plain"]),
        (False, [], ["look_up"]),
        (
            lambda call: call.tool_name == "plain",
            ["refund", "plain"],
            ["look_up", "plain"],
        ),
    ],
    ids=["headless", "all", "none", "a function"],
)
def test_declared_effects_decide_which_calls_need_approval(
    approve, asked: list[str], ran: list[str]
):
    heard: list[str] = []

    def ask(call: Entry) -> bool:
        heard.append(call.tool_name)
        return approve(call)

    agent = Agent(
        ScriptedProvider(*SCRIPT, says("x")),
        tools=[refund, look_up, plain],
        approve=ask if isinstance(approve, Callable) else approve,
    )
    agent.ask("go")
    done = [
        e.tool_name
        for e in agent.session.transcript
        if e.role == "tool" and not e.is_error
    ]
    assert (done, heard) == (ran, asked)


def test_a_headless_refusal_says_what_to_do():
    agent = Agent(ScriptedProvider(SCRIPT[0], says("x")), tools=[refund])
    agent.ask("go")
    (said,) = results(agent)
    assert said.startswith("error: not run: this tool changes something")
    assert said.endswith("approve= to Agent")


def test_always_holds_for_the_function_and_the_agent_not_for_the_name():
    approvals = Approvals()

    def agent_with(function: Callable[..., str]) -> Agent:
        made = tool(name="act")(function)
        return Agent(
            ScriptedProvider(*[calls("act", order="W1"), says("x")] * 2),
            tools=[made],
            approve=approvals,
        )

    def asked(agent: Agent, *, always: bool = False) -> bool:
        """True if a person was asked, who then answers."""
        turn = threading.Thread(target=agent.ask, args=("go",))
        turn.start()
        while turn.is_alive() and not approvals.waiting:
            turn.join(0.005)
        was_asked = bool(approvals.waiting)
        for each in approvals.waiting:
            each.approve(always=always)
        turn.join(60)
        return was_asked

    session = Session()
    first, same, other = (
        agent_with(plain),
        agent_with(plain),
        agent_with(lambda order: order),
    )
    for agent in (first, same, other):
        agent.switch(session)
    assert asked(first, always=True)
    assert not asked(first)
    assert asked(same)
    assert asked(other)


def test_a_users_tool_named_recall_is_asked_for():
    def recall(query: str) -> str:
        return query

    heard: list[str] = []
    approvals = Approvals(
        listener=lambda waiting: heard.extend(e.call.tool_name for e in waiting)
    )
    agent = Agent(
        ScriptedProvider(calls("recall", query="x"), says("x")),
        tools=[recall],
        approve=approvals,
    )
    turn = threading.Thread(target=agent.ask, args=("go",))
    turn.start()
    while not approvals.waiting:
        turn.join(0.005)
    approvals.waiting[0].deny()
    turn.join(60)
    assert heard == ["recall"]
    assert results(agent) == ["error: denied by the user"]


def test_calls_of_one_reply_run_at_the_same_time_where_the_tool_allows_it():
    meeting = threading.Barrier(3, timeout=60)

    @tool(parallel=True)
    def meet(number: int) -> str:
        meeting.wait()
        return f"met {number}"

    agent = Agent(
        ScriptedProvider(
            all_calls("meet", *({"number": n} for n in range(3))), says("x")
        ),
        tools=[meet],
    )
    assert agent.ask("go") == "x"
    assert results(agent) == ["met 0", "met 1", "met 2"]


@pytest.mark.slow
def test_each_of_parallel_calls_knows_how_long_it_ran_itself():
    @tool(parallel=True)
    def work(seconds: float) -> str:
        time.sleep(seconds)
        return "done"

    times = [{"seconds": 0.0}, {"seconds": 0.2}]
    agent = Agent(ScriptedProvider(all_calls("work", *times), says("x")), tools=[work])
    added = [event for event in agent.run("go") if isinstance(event, EntryAdded)]
    short, long = (e.seconds for e in added if e.entry.role == "tool")
    assert short < 0.2 <= long
    assert {e.seconds for e in added if e.entry.role != "tool"} == {None}


def test_an_interrupt_in_parallel_calls_keeps_what_was_done():
    @tool(parallel=True)
    def work(number: int) -> str:
        if number == 1:
            raise KeyboardInterrupt
        return f"done {number}"

    agent = Agent(
        ScriptedProvider(all_calls("work", {"number": 0}, {"number": 1}), says("x")),
        tools=[work],
    )
    with pytest.raises(KeyboardInterrupt):
        agent.ask("go")
    assert results(agent) == ["done 0", "error: interrupted, the result is unknown"]


def test_the_key_of_a_call_is_the_same_when_it_is_repeated_after_a_crash():
    keys: list[str] = []
    is_crashing = [True]

    def pay(order: str) -> str:
        keys.append(idempotency_key())
        if is_crashing.pop() if is_crashing else False:
            raise KeyboardInterrupt
        return "paid"

    script = [calls("pay", order="W1")] * 3 + [calls("pay", order="W2"), says("x")]
    agent = Agent(ScriptedProvider(*script), tools=[pay])
    with pytest.raises(KeyboardInterrupt):
        agent.ask("go")
    assert agent.session.transcript[-1].content.endswith("the result is unknown")
    agent.retry().result()
    first, again, on_purpose, other = keys
    assert first == again
    assert len({first, on_purpose, other}) == 3
    with pytest.raises(NbchatError, match="only while a tool runs"):
        idempotency_key()


def test_the_key_differs_between_sessions():
    keys: list[str] = []

    def pay(order: str) -> None:
        keys.append(idempotency_key())

    for name in ("a", "b", "", ""):
        session = Session(session_id=name)
        Agent(
            ScriptedProvider(calls("pay", order="W1"), says("x")),
            tools=[pay],
            session=session,
        ).ask("go")
    assert len(set(keys)) == 4


def test_of_a_long_table_the_model_sees_the_first_rows_and_recalls_the_rest():
    def orders() -> pd.DataFrame:
        return pd.DataFrame(
            {"order": [f"W{n}" for n in range(200)], "total": range(200)}
        )

    provider = ScriptedProvider(
        calls("orders"), says("x"), calls("recall", query="2"), says("y")
    )
    agent = Agent(provider, tools=[orders], recall=True)
    agent.ask("go")
    seen = provider.requests[1].history[-1].content
    assert seen.startswith("200 rows x 2 columns, as CSV:\norder,total\nW0,0\n")
    assert "W19,19\n... 180 more rows" in seen
    assert "recall(2) returns them]" in seen
    assert "W20," not in seen
    agent.ask("and W199?")
    assert "W199,199" in results(agent)[-1]


def test_a_figure_follows_its_result_as_a_picture():
    def plot() -> Figure:
        return Figure(figsize=(1, 1))

    provider = ScriptedProvider(all_calls("plot", {}, {}), says("nice"))
    agent = Agent(provider, tools=[plot])
    assert agent.ask("go") == "nice"
    roles = [
        (entry.role, entry.tool_name) for entry in provider.requests[1].history[3:]
    ]
    assert roles == [("tool", "plot")] * 2 + [("user", "image")] * 2
    assert provider.requests[1].history[-1].arguments["media_type"] == "image/png"


def test_a_turn_that_is_complete_cannot_be_retried():
    agent = Agent(ScriptedProvider(says("x")))
    agent.ask("go")
    with pytest.raises(NbchatError, match="The last message has an answer"):
        agent.retry()


def test_two_tools_of_one_name_are_refused_when_set_later():
    @tool(name="wire", read_only=True)
    def safe() -> str:
        """Read."""
        return "safe"

    @tool(name="wire", read_only=False)
    def dangerous() -> str:
        """Send."""
        return "dangerous"

    agent = Agent(ScriptedProvider(calls("wire"), says("ok")), tools=[safe])
    with pytest.raises(ConfigError, match="Two tools are named wire"):
        agent.tools = (safe, dangerous)
    agent.ask("send")
    assert results(agent) == ["safe"]
    given = run_tool([safe, dangerous], Entry("assistant", "", "1", "wire", "{}"))
    assert given.entry.content == "safe"  # the one whose approval is asked
