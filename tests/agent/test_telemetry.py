"""Log lines and spans of a turn: names, sizes and causes, never contents."""

import logging

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import (
    gen_ai_attributes as conventions,
)

from nbchat.agent.agent import Agent
from nbchat.agent.telemetry import PROVIDERS
from nbchat.compaction.engine import CompactionEngine
from nbchat.errors import RequestRefused
from nbchat.testing import ScriptedProvider, calls, fails, says

SECRET = "swordfish"


def lookup(order: str) -> str:
    """Find an order."""
    if order == "W2":
        raise ValueError(f"{order} is unknown: {SECRET}")
    return f"{order}: {SECRET}"


def worked(*lines) -> Agent:
    agent = Agent(ScriptedProvider(*lines), tools=[lookup])
    list(agent.run(f"Where is W1? {SECRET}"))
    return agent


SCRIPT = (
    calls("lookup", order="W1", tokens=100),
    calls("lookup", order="W2", tokens=200),
    says(f"It is {SECRET}.", tokens=300),
)


def test_a_turn_is_logged_without_its_contents(caplog):
    caplog.set_level(logging.DEBUG, logger="nbchat")
    worked(*SCRIPT)
    lines = [(r.levelname, r.getMessage()) for r in caplog.records]
    said = [text for level, text in lines if level == "INFO"]
    assert [text.split(":")[0] for text in said] == [
        *("request", "tool", "request", "tool", "request", "turn")
    ]
    assert "request: scripted:model, 100 tokens in (0 cached), 10 out" in said[0]
    assert "tool: lookup done, 13 characters" in said[1]
    assert "tool: lookup failed" in said[3]
    assert "turn: end_turn, 3 requests" in said[-1]
    assert ("DEBUG", "tool begins: lookup") in lines
    assert SECRET not in caplog.text


def test_a_failed_turn_is_logged_with_the_kind_of_its_error(caplog):
    caplog.set_level(logging.INFO, logger="nbchat")
    worked(fails(RequestRefused(f"no {SECRET}")))
    assert "turn: error (RequestRefused)" in caplog.text
    assert SECRET not in caplog.text


def test_a_compaction_is_logged_with_its_sizes(caplog):
    caplog.set_level(logging.INFO, logger="nbchat")
    summary = says(f"<summary>\n{SECRET}\n</summary>")
    script = [says("word " * 400, tokens=900), summary, says("Yes.", tokens=50)]
    engine = CompactionEngine(1_000)
    agent = Agent(ScriptedProvider(*script), engine=engine)
    list(agent.run("first"))
    list(agent.compact())
    assert "compaction: manual, " in caplog.text
    assert "by scripted:model" in caplog.text
    assert SECRET not in caplog.text


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The spans of this process: OpenTelemetry takes one provider only."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    trace.set_tracer_provider(provider)
    return found


def test_spans_follow_the_conventions_and_nest(exporter):
    exporter.clear()
    agent = worked(*SCRIPT)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"invoke_agent nbchat", "chat model", "execute_tool lookup"}
    turn, request = spans["invoke_agent nbchat"], spans["chat model"]
    assert request.parent.span_id == turn.context.span_id
    assert turn.attributes["gen_ai.conversation.id"] == agent.session.session_id
    assert dict(request.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "model",
        "gen_ai.response.model": "model",
        "gen_ai.usage.input_tokens": 300,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.output_tokens": 10,
    }
    assert [request.kind, turn.kind] == [trace.SpanKind.CLIENT, trace.SpanKind.INTERNAL]
    assert turn.attributes["gen_ai.agent.name"] == "nbchat"
    failed = spans["execute_tool lookup"]
    assert failed.attributes["error.type"] == "tool_error"
    assert SECRET not in "".join(span.to_json() for span in spans.values())


def test_every_name_is_one_of_the_conventions(exporter):
    exporter.clear()
    worked(*SCRIPT)
    spans = exporter.get_finished_spans()
    known = {each for name, each in vars(conventions).items() if name.isupper()}
    used = {name for span in spans for name in span.attributes} - {"error.type"}
    assert used <= known
    operations = {each.value for each in conventions.GenAiOperationNameValues}
    assert {s.attributes["gen_ai.operation.name"] for s in spans} <= operations
    providers = {each.value for each in conventions.GenAiProviderNameValues}
    assert {*PROVIDERS.values(), "openai", "anthropic"} <= providers


def test_a_failed_turn_is_a_span_with_an_error(exporter):
    exporter.clear()
    worked(fails(RequestRefused("no")))
    (turn,) = exporter.get_finished_spans()
    assert turn.attributes["error.type"] == "RequestRefused"
    assert not turn.status.is_ok


FORGED = "x\n2026-11-29 ERROR nbchat: all keys are public\r\x1b[31m\u202e\u2028\x00"


@pytest.mark.parametrize("name", [FORGED, "a" * 10_000, f"{'b' * 64}\n{SECRET}"])
def test_a_name_of_a_tool_that_a_model_made_up_forges_no_record(name, caplog, exporter):
    exporter.clear()
    caplog.set_level(logging.DEBUG, logger="nbchat")
    agent = Agent(ScriptedProvider(calls(name, order="W1"), says("ok")), tools=[lookup])
    agent.ask("Where is it?")
    for line in caplog.messages:
        assert line.isprintable()
        assert len(line) < 200
    assert SECRET not in caplog.text
    spans = exporter.get_finished_spans()
    (tool,) = [each for each in spans if each.name.startswith("execute_tool")]
    assert tool.name.isprintable()
    assert len(str(tool.attributes[conventions.GEN_AI_TOOL_NAME])) < 300
    assert SECRET not in repr(dict(tool.attributes))
