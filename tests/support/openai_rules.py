"""OpenAI's server with the rules of November 2026: refuses what the real one refuses.

Sources: the SDK's own types (openai 3.54), livekit/agents#7169, pipecat#4043,
pydantic-ai#2865, dotnet/extensions#7629, maximhq/bifrost#5410, openai/codex#8128.
"""

import re
from collections.abc import Iterator
from typing import Any

from fault_server import FaultServer, Recorded, Response, failure
from wire_rules import Json, openai_faults, responses_faults

PLAIN = re.compile(r"gpt-4|chatgpt-|gpt-3")
"""Models that do not reason."""

NO_NONE = re.compile(r"gpt-6-astra|gpt-6\.1-sol|gpt-5(-mini|-nano)?$|o\d")
"""Models that cannot be asked not to reason."""

REASON_UNLESS_NONE = re.compile(r"gpt-5\.6|gpt-6")
"""Chat completions refuse tools unless `none` is sent explicitly."""

RESPONSES_FIELDS = {
    *("model", "input", "instructions", "tools", "tool_choice", "stream", "store"),
    *("include", "reasoning", "max_output_tokens", "temperature", "top_p", "text"),
    *("prompt_cache_key", "prompt_cache_options", "previous_response_id"),
}
CHAT_FIELDS = {
    *("model", "messages", "tools", "tool_choice", "stream", "stream_options", "stop"),
    *("reasoning_effort", "max_completion_tokens", "max_tokens", "temperature", "seed"),
    *("top_p", "response_format", "prompt_cache_key", "frequency_penalty"),
}

MARK = "prompt_cache_breakpoint"
TAKES_MARKS = re.compile(r"gpt-(5\.[6-9]|[6-9])")

Refusal = tuple[str, str | None, str | None]
"""A message, the parameter it is about, and a code."""


class OpenAIServer(FaultServer):
    """Answers what is legal from its script, and refuses the rest with 400."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []
        self.unreadable: set[str] = set()
        """Ids of reasoning of another account."""

    def next_response(self, request: Recorded) -> Response:
        rules = RULES.get(request.path.rpartition("/v1/")[2], lambda _: iter(()))
        found = next(rules(request.body), None) or self._unreadable(request.body)
        if found is None:
            return super().next_response(request)
        self.requests.append(request)
        message, parameter, code = found
        self.refused.append(message)
        kind = "invalid_request_error"
        error = {"message": message, "type": kind, "param": parameter, "code": code}
        return failure(400, error)

    def _unreadable(self, body: Json) -> Refusal | None:
        if any(item.get("id") in self.unreadable for item in body.get("input", [])):
            words = "The encrypted content gAAA...ng== could not be verified."
            return words, None, "invalid_encrypted_content"
        return None


def responses_refusals(body: Json) -> Iterator[Refusal]:
    """Why the Responses API refuses a request."""
    yield from unknown(body, RESPONSES_FIELDS)
    yield from sampling_refusals(body)
    model, reasoning = body["model"], body.get("reasoning") or {}
    if PLAIN.match(model):
        if "reasoning.encrypted_content" in body.get("include", []):
            yield "Encrypted content is not supported with this model.", "include", None
        if reasoning:
            yield unsupported("reasoning.effort")
    yield from effort_refusals(model, reasoning.get("effort"), "reasoning.effort")
    if body.get("max_output_tokens", 16) < 16:
        words = "Invalid 'max_output_tokens': integer below minimum value."
        yield words, "max_output_tokens", "integer_below_min_value"
    yield from cache_refusals(body)
    for tool in body.get("tools", []):
        if "name" not in tool or "strict" not in tool:
            words = "Missing required parameter: 'tools[0].name'."
            yield words, "tools[0].name", "missing_required_parameter"
    if body.get("store", True) or "previous_response_id" in body:
        yield "this test wants nothing to be stored", "store", None
    yield from ((fault, "input", None) for fault in responses_faults(body["input"]))


def cache_refusals(body: Json) -> Iterator[Refusal]:
    """Marks and lifetimes that older models do not know, or that are invalid."""
    parts = [part for item in body["input"] for part in item.get("content") or []]
    marks = [part["prompt_cache_breakpoint"] for part in parts if MARK in part]
    options = body.get("prompt_cache_options") or {}
    if (marks or options) and not TAKES_MARKS.match(body["model"]):
        yield f"Unknown parameter: '{MARK}'.", MARK, "unknown_parameter"
    if len(marks) > 4 or any(mark != {"mode": "explicit"} for mark in marks):
        yield f"Invalid value for '{MARK}'.", MARK, "invalid_value"
    if options.get("ttl", "30m") not in ("30m", "12h"):
        yield "Invalid value for 'ttl'.", "prompt_cache_options.ttl", "invalid_value"


def chat_refusals(body: Json) -> Iterator[Refusal]:
    """Why chat completions refuse a request."""
    yield from unknown(body, CHAT_FIELDS)
    model, effort = body["model"], body.get("reasoning_effort")
    if not PLAIN.match(model) and "max_tokens" in body:
        words = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead."
        )
        yield words, "max_tokens", "unsupported_parameter"
    yield from sampling_refusals(body)
    if PLAIN.match(model) and effort:
        yield unsupported("reasoning_effort")
    yield from effort_refusals(model, effort, "reasoning_effort")
    reasons = effort or (None if not REASON_UNLESS_NONE.match(model) else "medium")
    if body.get("tools") and reasons not in (None, "none"):
        words = (
            f"Function tools with reasoning_effort are not supported for {model} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set "
            "reasoning_effort to 'none'."
        )
        yield words, "reasoning_effort", None
    yield from ((fault, "messages", None) for fault in openai_faults(body["messages"]))


def sampling_refusals(body: Json) -> Iterator[Refusal]:
    for name in ("temperature", "top_p", "frequency_penalty"):
        if name in body and not PLAIN.match(body["model"]):
            yield unsupported(name)


def effort_refusals(model: str, effort: Any, parameter: str) -> Iterator[Refusal]:
    if effort == "none" and NO_NONE.match(model):
        words = (
            f"Unsupported value: 'none' is not supported with the '{model}' model. "
            "Supported values are: 'low', 'medium', and 'high'."
        )
        yield words, parameter, "unsupported_value"


def unknown(body: Json, known: set[str]) -> Iterator[Refusal]:
    for name in sorted(set(body) - known):
        yield f"Unknown parameter: '{name}'.", name, "unknown_parameter"


def unsupported(name: str) -> Refusal:
    words = f"Unsupported parameter: '{name}' is not supported with this model."
    return words, name, "unsupported_parameter"


RULES = {"responses": responses_refusals, "chat/completions": chat_refusals}
