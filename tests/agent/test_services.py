"""Agents in the programs of others: a FastAPI service, tests of pytest-asyncio."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import loops
import pytest
import uvicorn
from at_best import assert_within
from driving import await_that
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fault_server import OpenAIDialect
from pydantic import BaseModel
from watching_server import Manner, watching

from nbchat.agent.agent import Agent
from nbchat.conversation.events import TextDelta
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.testing import ScriptedProvider, calls, says

MOST_BLOCKED = 0.1
"""Seconds of its CPU that the loop's thread may spend before it comes round again."""


class Decision(BaseModel):
    category: str


async def category_of(ticket: str) -> str:
    """Look a category up."""
    await asyncio.sleep(0)
    return f"{ticket} is about a card"


def look_up(ticket: str, fields: list[str], newest: int = 10) -> str:
    """Look up fields of a ticket.

    Args:
        ticket: as in T17
        fields: names of fields
        newest: how many entries
    """
    return f"{ticket}: {fields} {newest}"


def recall_order(order: str, reason: str | None = None) -> str:
    """Call an order back."""
    return f"{order}: {reason}"


async def longest_block() -> float:
    """The most CPU, in seconds, between two turns of this event loop in 0.5 seconds."""
    found, begun = 0.0, time.thread_time()
    for _ in range(100):
        await asyncio.sleep(0.005)
        now = time.thread_time()
        found, begun = max(found, now - begun), now
    return found


def service(make_agent: Callable[[], Agent]) -> FastAPI:
    """What a user's service looks like: an agent for each request."""
    app = FastAPI()

    @app.get("/ask")
    async def ask(text: str) -> dict[str, str]:
        return {"answer": await make_agent().aask(text)}

    @app.get("/decide")
    async def decide(text: str) -> Decision:
        answer = await make_agent().aask(text, output=Decision)
        assert isinstance(answer.value, Decision)
        return answer.value

    @app.get("/stream")
    async def stream(text: str) -> StreamingResponse:
        async def words() -> AsyncIterator[str]:
            async for event in make_agent().run(text):
                if isinstance(event, TextDelta):
                    yield event.text

        return StreamingResponse(words(), media_type="text/plain")

    return app


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of a service that uvicorn serves from a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def scripted(*lines: object, tools: tuple[Callable[..., object], ...] = ()) -> Agent:
    return Agent(ScriptedProvider(*lines), tools=tools)


@pytest.mark.slow
def test_a_service_answers_with_async_tools_and_structured_values():
    def agent() -> Agent:
        answer = says(json.dumps({"category": "card"}))
        script = calls("category_of", ticket="T1"), answer
        return scripted(*script, tools=(category_of,))

    with served(service(agent)) as url:
        assert httpx.get(f"{url}/decide", params={"text": "T1"}).json() == {
            "category": "card"
        }


@pytest.mark.slow
def test_a_service_streams_an_answer_while_it_is_written():
    said = threading.Event()

    def second(_request: object) -> object:
        assert said.wait(30)  # goes on only when the first words were received
        return says("and the rest")

    def agent() -> Agent:
        first = replace(calls("category_of", ticket="T1"), text="At first. ")
        return scripted(first, second, tools=(category_of,))

    received = ""
    with (
        served(service(agent)) as url,
        httpx.stream("GET", f"{url}/stream", params={"text": "go"}) as response,
    ):
        for text in response.iter_text():
            received += text
            said.set()
    assert received == "At first. and the rest"


@pytest.mark.slow
def test_sixty_chats_begun_at_once_leave_the_event_loop_free():
    text = " ".join(["word"] * 12)

    async def chat() -> str:
        tools = (category_of, look_up, recall_order)
        agent = scripted(says(text, delay_seconds=0.01), tools=tools)
        events = [event async for event in agent.run("go")]
        return "".join(each.text for each in events if isinstance(each, TextDelta))

    async def most_blocked() -> float:
        await chat()  # loads what is loaded once
        blocked, *answers = await asyncio.gather(
            longest_block(), *(chat() for _ in range(60))
        )
        assert answers == [text] * 60
        return blocked

    assert_within(MOST_BLOCKED, lambda: loops.run(most_blocked()))


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["stream", "stalls"])
def test_a_client_that_hangs_up_ends_the_request_to_the_model(manner: Manner):
    event = OpenAIDialect().text("word ").events[0]
    agents: list[Agent] = []

    with watching(manner, event) as model:

        def agent() -> Agent:
            provider = OpenAIProvider(
                "m", base_url=f"{model.url}/v1", api_key=lambda: "k", window=9_000
            )
            agents.append(Agent(provider))
            return agents[-1]

        with served(service(agent)) as url:
            with httpx.stream("GET", f"{url}/stream", params={"text": "go"}) as reply:
                if manner == "stream":
                    next(reply.iter_text())
                assert model.began.wait(30)
            assert model.left.wait(20)
    await_that(lambda: not agents[0].is_answering)


@pytest.mark.slow
def test_async_tests_of_pytest_asyncio_run_agents(tmp_path: Path):
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    command = (
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-W", "error", "test_users.py"),
    )
    settings = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    (tmp_path / "pytest.ini").write_text(settings)
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


USERS_TESTS = '''
import asyncio
import threading

import pytest

from nbchat import Agent
from nbchat.testing import ScriptedProvider, calls, says


async def look_up(order: str) -> str:
    """Look an order up."""
    await asyncio.sleep(0)
    return f"{order} was sent"


@pytest.fixture
def agent():
    script = calls("look_up", order="W1"), says("It was sent."), says("Bye.")
    return Agent(ScriptedProvider(*script), tools=[look_up])


@pytest.mark.asyncio
async def test_asking(agent):
    assert await agent.aask("Where is W1?") == "It was sent."
    assert await agent.aask("Thanks") == "Bye."


@pytest.mark.asyncio
async def test_events(agent):
    kinds = [type(event).__name__ async for event in agent.run("Where is W1?")]
    assert kinds[-1] == "TurnFinished"


@pytest.mark.asyncio
async def test_a_timeout_ends_the_turn():
    begun = threading.Event()

    def first(_request):
        begun.set()
        return says("one two three", delay_seconds=5)

    slow = Agent(ScriptedProvider(first, says("ok")))
    asking = asyncio.create_task(slow.aask("go"))
    await asyncio.to_thread(begun.wait)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asking, 0.1)
    assert await slow.aask("again") == "ok"
'''
