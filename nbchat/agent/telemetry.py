"""Log lines and OpenTelemetry spans of turns, requests, tools and compactions.

Both are made from an agent's events and hold no contents: names, sizes, times and
causes only. Lines go to the logger `nbchat.agent.telemetry`, results at INFO and steps
at DEBUG. Spans follow OpenTelemetry's GenAI conventions and are made where its API is
installed; without an SDK they go nowhere.
"""

import logging
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

from nbchat.conversation import events
from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import Event
from nbchat.conversation.tools import NAME_LENGTH

logger = logging.getLogger(__name__)

PROVIDERS = {
    "gemini": "gcp.gemini",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "vertex": "gcp.vertex_ai",
}
"""The conventions' names of providers that nbchat calls otherwise."""


class Telemetry:
    """Follows the events of one agent."""

    def __init__(self, about: Callable[[], tuple[str, str]]) -> None:
        """`about` returns the model as provider:name, and the session's id."""
        self._about = about
        self._turn: _Timed | None = None
        self._tools: dict[str, _Timed] = {}
        self._asked_at = 0
        """When the request that is running was sent, in nanoseconds."""

    def __call__(self, event: Event) -> None:
        """Note an event."""
        match event:
            case events.EntryAdded(entry=Entry(role="user")) if self._turn is None:
                self._begin_turn()
            case events.UsageReported(usage):
                self._end_request(usage)
            case events.ToolRequested(call):
                self._begin_tool(call)
            case events.EntryAdded(entry=Entry(role="tool") as entry):
                self._end_tool(entry)
            case events.TurnFinished(reason, steps):
                self._end_turn(reason, steps, "")
            case events.TurnFailed(error=error):
                self._end_turn("error", 0, type(error).__name__)
            case _:
                _log(event)

    def _begin_turn(self) -> None:
        model, session = self._about()
        logger.debug("turn begins: model %s, session %s", model, session)
        attributes = {
            **_model_attributes(model),
            "gen_ai.agent.name": "nbchat",
            "gen_ai.conversation.id": session,
        }
        self._turn = _Timed("invoke_agent", "nbchat", attributes)
        self._asked_at = time.time_ns()

    def _end_request(self, usage: Usage) -> None:
        model, _ = self._about()
        request = _Timed(
            "chat",
            model.partition(":")[2],
            _model_attributes(model) | _usage_attributes(usage),
            begun_at=self._asked_at,
            parent=self._turn,
        )
        seconds = request.end()
        logger.info(
            "request: %s, %d tokens in (%d cached), %d out, %.1f s",
            *(model, usage.input_tokens, usage.cache_read_tokens),
            *(usage.output_tokens, seconds),
        )
        self._asked_at = time.time_ns()

    def _begin_tool(self, call: Entry) -> None:
        name = shown_name(call.tool_name)
        logger.debug("tool begins: %s", name)
        attributes = {
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": shown_name(call.tool_id),
            "gen_ai.tool.type": "function",
        }
        tool = _Timed("execute_tool", name, attributes, parent=self._turn)
        self._tools[call.tool_id] = tool

    def _end_tool(self, result: Entry) -> None:
        tool = self._tools.pop(result.tool_id, None)
        if tool is not None:
            seconds = tool.end("tool_error" if result.is_error else "")
            state = "failed" if result.is_error else "done"
            logger.info(
                "tool: %s %s, %d characters, %.1f s",
                *(shown_name(result.tool_name), state, len(result.content), seconds),
            )
        self._asked_at = time.time_ns()

    def _end_turn(self, reason: str, steps: int, error: str) -> None:
        turn, self._turn = self._turn, None
        self._tools.clear()
        seconds = turn.end(error) if turn else 0.0
        cause = f" ({error})" if error else ""
        logger.info("turn: %s%s, %d requests, %.1f s", reason, cause, steps, seconds)


def shown_name(name: str) -> str:
    """A tool's name as logs show it: a model may make up any text instead of one."""
    shown = "".join(
        each if each.isprintable() else ascii(each)[1:-1] for each in name[:NAME_LENGTH]
    )
    return shown if len(name) <= NAME_LENGTH else f"{shown}..."


def _log(event: Event) -> None:
    """Log a retry or a compaction."""
    match event:
        case events.RetryScheduled(attempt, wait):
            logger.info("retry %d in %.1f s", attempt, wait)
        case events.CompactionStarted(trigger):
            logger.debug("compaction begins: %s", trigger)
        case events.CompactionFailed(compaction):
            logger.info("compaction failed: %s", compaction.code or "no summary")
        case events.Compacted(compaction):
            logger.info(
                "compaction: %s, %d to %d tokens, by %s",
                compaction.trigger,
                compaction.tokens_before,
                compaction.tokens_after,
                compaction.model or "code",
            )


class _Timed:
    """Something that takes time, as a span where OpenTelemetry is installed."""

    def __init__(
        self,
        operation: str,
        name: str,
        attributes: dict[str, Any],
        *,
        begun_at: int | None = None,
        parent: "_Timed | None" = None,
    ) -> None:
        self._begun_at = begun_at or time.time_ns()
        self._trace = _trace_api()
        self._span: Any = None
        if self._trace is not None:
            within = parent and self._trace.set_span_in_context(parent._span)  # noqa: SLF001
            self._span = self._trace.get_tracer("nbchat").start_span(
                f"{operation} {name}".strip(),
                within,
                _kind_of(operation, self._trace),
                {"gen_ai.operation.name": operation, **attributes},
                start_time=self._begun_at,
            )

    def end(self, error: str = "") -> float:
        """End the span; returns the seconds it took."""
        if self._trace is not None:
            if error:
                self._span.set_attribute("error.type", error)
                self._span.set_status(self._trace.StatusCode.ERROR)
            self._span.end()
        return (time.time_ns() - self._begun_at) / 1e9


@cache
def _trace_api() -> Any:
    """OpenTelemetry's API for spans; None where it is not installed."""
    if find_spec("opentelemetry") is None:
        return None
    from opentelemetry import trace  # noqa: PLC0415  # an optional package

    return trace


def _kind_of(operation: str, trace: Any) -> Any:
    """A request leaves this process; an agent and its tools are in it."""
    kinds = trace.SpanKind
    return kinds.CLIENT if operation == "chat" else kinds.INTERNAL


def _model_attributes(model: str) -> dict[str, Any]:
    kind, _, name = model.partition(":")
    return {
        "gen_ai.provider.name": PROVIDERS.get(kind, kind),
        "gen_ai.request.model": name,
    }


def _usage_attributes(usage: Usage) -> dict[str, Any]:
    return {
        "gen_ai.response.model": usage.model.partition(":")[2],
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
