"""Windows of servers of one's own, and requests that such servers cut silently."""

from collections.abc import Iterator
from typing import Any

import pytest
from fault_server import (
    FaultServer,
    OpenAIDialect,
    Recorded,
    Response,
    answer,
    failure,
)
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Compacted, TurnFinished
from nbchat.conversation.session import Session
from nbchat.providers.base import Request
from nbchat.providers.model_info_from_server import loaded_window
from nbchat.providers.openai_chat import OpenAIProvider

WIRE = OpenAIDialect()
OLLAMA = [{"id": "llama3.2:latest", "object": "model", "owned_by": "library"}]
LM_STUDIO = [{"id": "qwen", "object": "model", "owned_by": "organization_owner"}]


class OwnServer(FaultServer):
    """Answers by path, and records what was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__()
        self._answers = answers

    def next_response(self, request: Recorded) -> Response:
        if request.path not in self._answers:
            return super().next_response(request)
        self.requests.append(request)
        found = self._answers[request.path]
        return found if isinstance(found, Response) else answer(found)


def window_of(model: str, answers: dict[str, Any]) -> int | None:
    """The window that a provider learns from a server, whose paths it shows."""
    server = OwnServer(answers)
    provider = OpenAIProvider(model, base_url=f"{server.url}/v1")
    found = provider.info().window
    assert provider.info().window == found  # it is asked once
    server.close()
    assert len(server.requests) <= 3
    return found


RUNNING = {"models": [{"name": "llama3.2:latest", "context_length": 16_384}]}
TRAINED = {"model_info": {"general.x": 1, "llama.context_length": 131_072}}


@every(
    ("model", "running", "shown", "expected"),
    [
        ("llama3.2", RUNNING, None, 16_384),
        ("llama3.2:latest", RUNNING, None, 16_384),
        ("llama3.2", {"models": []}, {"parameters": "stop x\nnum_ctx   8192"}, 8_192),
        ("llama3.2", {"models": []}, TRAINED, 4_096),
        ("llama3.2", {}, {"model_info": {"bert.context_length": 512}}, 512),
        ("llama3.2", [], [], 4_096),
        ("llama3.2", failure(500), TRAINED, 131_072),  # of its family
    ],
)
def test_ollama_tells_the_window_that_a_model_runs_with(
    model, running, shown, expected
):
    answers = {"/v1/models": {"data": OLLAMA}, "/api/ps": running, "/api/show": shown}
    assert window_of(model, answers) == expected


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("qwen", {"loaded_context_length": 8_192, "max_context_length": 32_768}, 8_192),
        ("qwen", {"max_context_length": 32_768}, 32_768),
        ("other", {"max_context_length": 32_768}, None),
        ("qwen", {"loaded_context_length": "many"}, None),
    ],
)
def test_lm_studio_tells_the_window_that_a_model_is_loaded_with(
    model, fields, expected
):
    listed = {"data": [{"id": "qwen", **fields}]}
    answers = {
        "/v1/models": {"data": [*LM_STUDIO, *LM_STUDIO]},
        "/api/v0/models": listed,
    }
    assert window_of(model, answers) == expected


def test_vllm_tells_it_in_its_list_and_is_asked_nothing_more():
    listed = [{"id": "m", "owned_by": "vllm", "max_model_len": 32_768}]
    assert window_of("m", {"/v1/models": {"data": listed}}) == 32_768


def test_an_unknown_server_is_asked_only_what_llama_cpp_tells():
    asked: list[str] = []
    models = [{"id": "m", "owned_by": "someone"}, {}]
    assert loaded_window(models, "m", lambda path, _: asked.append(path)) is None
    assert asked == ["/props"]


@pytest.mark.parametrize(
    "told", [{"default_generation_settings": {"n_ctx": 16_384}}, {"n_ctx": 16_384}]
)
def test_llama_cpp_tells_its_window_in_its_properties(told: Any):
    answers = {"/v1/models": {"data": [{"id": "my-model"}]}, "/props": told}
    assert window_of("my-model", answers) == 16_384


class Truncating(FaultServer):
    """Reads only the last 4,096 tokens of a request, and says nothing of it."""

    def next_response(self, request: Recorded) -> Response:
        if "messages" not in request.body:
            return answer({"data": []})
        self.requests.append(request)
        size = sum(len(str(each)) for each in request.body["messages"]) // 4
        return WIRE.text("An answer.", usage=(min(size, 4_096), 5, 0))


@pytest.fixture
def truncating() -> Iterator[Truncating]:
    server = Truncating()
    yield server
    server.close()


def long_session() -> Session:
    history = []
    for number in range(60):
        history.append(Entry("user", f"Question {number}: " + "where is it? " * 80))
        history.append(Entry("assistant", f"Answer {number}: it is in the house."))
    return Session(history)


@pytest.mark.slow
def test_a_request_that_a_server_cut_is_noticed_once_and_then_compacted(
    truncating, caplog
):
    provider = OpenAIProvider("m", base_url=f"{truncating.url}/v1")
    engine = CompactionEngine(policy="extractive")
    agent = Agent(provider, engine=engine, session=long_session())
    assert agent.engine.tracker.info.is_assumed
    events = [*agent.run("Where is it?"), *agent.run("And now?"), *agent.run("Now?")]
    assert sum(isinstance(event, TurnFinished) for event in events) == 3
    assert any(isinstance(event, Compacted) for event in events)
    assert agent.engine.tracker.info.window == 4_096
    [line] = [each for each in caplog.messages if "read only" in each]
    assert "openai:m read only 4,096 of about 2" in line
    sizes = [len(str(each.body["messages"])) // 4 for each in truncating.requests]
    assert sizes[0] > 12_000
    assert sizes[-1] < 4_096


class Refusing(FaultServer):
    """Lists no window, and refuses requests of over 8,192 tokens."""

    def next_response(self, request: Recorded) -> Response:
        if "messages" not in request.body:
            return answer({"data": [{"id": "my-company-model"}]})
        self.requests.append(request)
        size = sum(len(str(each)) for each in request.body["messages"]) // 4
        if size > 8_192:
            message = f"This model's maximum context length is 8192 tokens, not {size}."
            return answer({"error": {"message": message}}, 400)
        return WIRE.text("An answer.", usage=(size, 5, 0))


@pytest.mark.slow
def test_an_assumed_window_compacts_and_the_first_refusal_corrects_it():
    server = Refusing()
    provider = OpenAIProvider("my-company-model", base_url=f"{server.url}/v1")
    engine = CompactionEngine(None, policy="extractive")
    agent = Agent(provider, engine=engine, session=long_session())
    tracker = agent.engine.tracker
    assert (tracker.info.window, engine.context_token_threshold) == (32_000, 24_000)
    assert "Assuming a 32k context window" in tracker.outlook(agent.session)
    events = list(agent.run("Where is it?"))
    assert any(isinstance(event, Compacted) for event in events)
    assert any(isinstance(event, TurnFinished) for event in events)
    assert (tracker.info.window, tracker.info.is_assumed) == (8_192, False)
    assert "assuming" not in tracker.outlook(agent.session)
    server.close()


def test_a_report_that_leaves_the_cached_tokens_out_proves_nothing(truncating, caplog):
    """As older servers report: the second request is nearly all in their cache."""
    server = FaultServer()
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1", window=100_000)
    request = Request(tuple(long_session().history))
    for reported in (18_000, 1_200, 40):
        server.script(WIRE.text("ok", usage=(reported, 5, 0)))
        list(provider.stream(request))
    server.close()
    assert provider.truncated_at is None
    assert caplog.messages == []


def test_a_report_near_the_local_count_proves_nothing(truncating):
    server = FaultServer()
    provider = OpenAIProvider("m", base_url=f"{server.url}/v1", window=100_000)
    request = Request(tuple(long_session().history))
    counted = provider.count_tokens(request)
    server.script(WIRE.text("ok", usage=(int(counted * 0.7), 5, 0)))
    list(provider.stream(request))
    server.close()
    assert provider.truncated_at is None
