"""Chats on an event loop: the same engine, a loop that stays free, cancelling."""

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator

import loops
import pytest
from at_best import assert_within
from fault_server import FaultServer, OpenAIDialect, Response

from nbchat.agent.agent import Agent
from nbchat.conversation.events import TextDelta, TurnFinished
from nbchat.errors import NbchatError, RateLimited
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.testing import ScriptedProvider, calls, fails, says


def test_events_come_one_by_one_and_end_with_the_turn():
    async def main() -> list[object]:
        return [event async for event in Agent(ScriptedProvider(says("a b"))).run("hi")]

    events = loops.run(main())
    assert [each.text for each in events if isinstance(each, TextDelta)] == ["a ", "b"]
    assert events[-1] == TurnFinished("end_turn", 1)


def test_aask_and_achat_return_the_answer_and_raise_what_ended_it(capsys):
    async def main() -> None:
        agent = Agent(
            ScriptedProvider(
                says("one"), says("two words"), fails(RateLimited("no", retry_after=99))
            )
        )
        assert await agent.aask("1") == "one"
        assert (await agent.achat("2")).stop_reason == "end_turn"
        with pytest.raises(RateLimited):
            await agent.aask("3")

    loops.run(main())
    assert capsys.readouterr().out == "two words\n"


async def on_this_loop(order: str) -> str:
    """Look an order up."""
    await asyncio.sleep(0)
    return f"{order} in {threading.current_thread().name}"


async def lines() -> AsyncIterator[str]:
    yield "a\n"
    yield "b\n"


def test_async_tools_run_on_the_loop_that_awaits_beside_plain_ones():
    def plain() -> str:
        return threading.current_thread().name

    script = [
        calls("on_this_loop", order="W1"),
        calls("plain"),
        calls("lines"),
        says("x"),
    ]
    tools = [on_this_loop, plain, lines]

    async def main() -> list[str]:
        agent = Agent(ScriptedProvider(*script), tools=tools)
        await agent.aask("go")
        outputs = [e.content for e in agent.session.transcript if e.role == "tool"]
        return [threading.current_thread().name, *outputs]

    here, awaited, threaded, streamed = loops.run(main())
    assert awaited == f"W1 in {here}"
    assert threaded.startswith("nbchat-turn")
    assert streamed == "a\nb\n"


def test_async_tools_run_in_plain_chats_also_inside_of_a_running_loop():
    agent = Agent(
        ScriptedProvider(*[calls("on_this_loop", order="W1"), says("x")] * 2),
        tools=[on_this_loop],
    )

    async def main() -> None:
        agent.ask("in a notebook's cell")

    agent.ask("in a script")
    loops.run(main())
    results = [e.content for e in agent.session.transcript if e.role == "tool"]
    assert results == ["W1 in nbchat-loop"] * 2


def hosted(server: FaultServer) -> OpenAIProvider:
    return OpenAIProvider(
        "m", base_url=f"{server.url}/v1", api_key=lambda: "k", window=9_000
    )


@pytest.mark.slow
def test_cancelling_the_task_ends_the_request_and_the_next_turn_works(server):
    begun = OpenAIDialect().text("one ", "two ", "three").after(1)
    stalled = Response(begun.events, ending="stall")

    async def seconds() -> float:
        server.script(stalled, OpenAIDialect().text("again"))
        agent = Agent(hosted(server))
        agent.engine.tracker.counter.count("x")  # else Stop loads the vocabulary
        arrived = asyncio.Event()

        async def watch() -> None:
            async for event in agent.run("go"):
                if isinstance(event, TextDelta):
                    arrived.set()

        task = asyncio.create_task(watch())
        await asyncio.wait_for(arrived.wait(), 60)
        cancelled_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        taken = time.monotonic() - cancelled_at
        assert not agent.is_answering
        assert agent.session.transcript[-1].is_incomplete
        assert await agent.aask("and now?") == "again"
        return taken

    assert_within(1, lambda: loops.run(seconds()))


@pytest.mark.slow
def test_cancelling_reaches_an_async_tool():
    begun, cancelled = asyncio.Event(), []

    async def wait_long() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "never"

    async def main() -> None:
        agent = Agent(ScriptedProvider(calls("wait_long")), tools=[wait_long])
        task = asyncio.create_task(agent.aask("go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "unknown" in agent.session.transcript[-1].content

    loops.run(main())
    assert cancelled == [True]


def test_a_turn_sees_the_context_variables_of_its_task():
    user = contextvars.ContextVar("user", default="none")

    def who() -> str:
        return user.get()

    async def main() -> str:
        user.set("Ann")
        agent = Agent(ScriptedProvider(calls("who"), says("x")), tools=[who])
        await agent.aask("go")
        return agent.session.transcript[2].content

    assert loops.run(main()) == "Ann"


def test_one_agent_answers_one_task_at_a_time():
    async def main() -> None:
        agent = Agent(ScriptedProvider(says("a b", delay_seconds=0.05), says("x")))
        first = agent.run("1")
        await anext(aiter(first))
        with pytest.raises(NbchatError, match="already answering"):
            await agent.aask("2")
        async for _ in first:
            pass
        assert first.result() == "a b"

    loops.run(main())
