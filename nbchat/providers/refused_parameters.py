"""Adapt requests to what a model refuses: unsupported parameters, returned reasoning.

A server that refuses an optional parameter names it in its error. The request is then
sent again without it, or with a value that the server lists, and so are all later ones.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from nbchat.providers.wire_format import Json

logger = logging.getLogger(__name__)

OPTIONAL = (
    *("reasoning_effort", "reasoning.effort", "reasoning.summary", "reasoning"),
    *("thinking", "output_config.effort", "include"),
    *("temperature", "top_p", "seed", "stop", "stop_sequences", "frequency_penalty"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens"),
    *("stream_options", "prompt_cache_key", "prompt_cache_options", "diagnostics"),
)
"""Fields of a request, as paths, without which it asks the same."""

WARNED = ("tools", "temperature", "top_p", "seed", "stop", "stop_sequences")
"""Fields that a person has chosen; the others are of no consequence."""

RENAMED = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
"""Fields with two names: OpenAI's new models refuse the old, other servers the new."""

UNSUPPORTED = re.compile(
    r"unsupported|not supported|does ?n[o']t support|unrecognized|unknown|unexpected"
    r"|not permitted|not allowed"
    r"|must be verified",  # an organization, to read summaries of reasoning
    re.IGNORECASE,
)

TOOLS_WITH_REASONING = re.compile(
    r"function tools with reasoning_effort", re.IGNORECASE
)
"""OpenAI's chat completions since gpt-5.2: with tools only `none`, and from gpt-5.6 on
it must be sent. https://github.com/openai/openai-openapi/issues/541"""

SUPPORTED_VALUES = re.compile(r"supported values are:?(.*)", re.IGNORECASE | re.DOTALL)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Efforts of reasoning from least to most."""

DEMANDED = re.compile(r"reasoning_content", re.IGNORECASE)
"""DeepSeek's error when a reply's reasoning is not sent back with its tool calls.
https://api-docs.deepseek.com/guides/thinking_mode"""

REASONING_BACK = "messages.reasoning_content"
"""Learned from that error: replies are sent back with their reasoning."""

NO_REASONING_WITH_TOOLS = "tools.reasoning_effort"
"""Learned where tools are refused with reasoning: `none` is sent with them."""

NO_TOOLS = re.compile(
    r"does not support (tools|function)|tools? (is|are) not supported"
    r"|requires --enable-auto-tool-choice",
    re.IGNORECASE,
)
"""Errors of Ollama, others and vLLM about a model that calls no tools."""

DROPPED = object()


class Adaptations:
    """Parameters that each model refused, and what is sent instead."""

    def __init__(self) -> None:
        self._changes: dict[str, dict[str, Any]] = {}
        self._tried: set[tuple[str, str, str]] = set()

    def learn(self, model: str, sent: Json, error: Mapping[str, Any]) -> bool:
        """True if another request may succeed where `sent` was refused with `error`."""
        found = next(_changes(sent, error), None)
        if found is None:
            return False
        path, value = found
        attempt = (model, path, str(value))
        if attempt in self._tried:
            return False
        self._tried.add(attempt)
        if path in WARNED:
            it = "them" if path == "tools" else "it"
            logger.warning(
                "%s doesn't accept %s, so requests are sent without %s.",
                model,
                path,
                it,
            )
        self._changes.setdefault(model, {})[path] = value
        return True

    def applied(self, model: str, fields: Json) -> Json:
        """The fields of a request to a model without what it refused."""
        for path, value in self._changes.get(model, {}).items():
            if path == "tools":
                fields = _with(_with(fields, path, value), "tool_choice", value)
            elif path == NO_REASONING_WITH_TOOLS and "tools" in fields:
                fields = {**fields, "reasoning_effort": value}
            else:
                fields = _with(fields, path, value)
        return fields

    def returns_reasoning(self, model: str) -> bool:
        """True if the model demands the reasoning of earlier replies."""
        return REASONING_BACK in self._changes.get(model, {})


def _changes(sent: Json, error: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The changes that may help, the best first."""
    message = str(error.get("message") or "")
    if TOOLS_WITH_REASONING.search(message):
        yield NO_REASONING_WITH_TOOLS, "none"
        return
    if DEMANDED.search(message) and "messages" in sent:
        yield REASONING_BACK, True
        return
    if NO_TOOLS.search(message):
        if sent.get("tool_choice") in ("auto", "none"):  # no call is demanded
            yield "tools", DROPPED
        return
    codes = f"{error.get('code')} {error.get('type')} {message}"
    path = _named(sent, str(error.get("param") or ""), message)
    if not path or not UNSUPPORTED.search(codes.replace("_", " ")):
        return
    nearest = _nearest(_at(sent, path), message)
    if nearest:
        yield path, nearest
    elif path in RENAMED and RENAMED[path] in message:
        yield path, RENAMED[path]
    else:
        yield path, DROPPED


def _named(sent: Json, parameter: str, message: str) -> str:
    """The optional field that an error is about; empty if there is none."""
    present = [path for path in OPTIONAL if _at(sent, path) is not None]
    if parameter:
        known = (path for path in present if parameter.startswith(path))
        return next(known, "")
    words = set(re.findall(r"[\w.]+", message))
    named = (path for path in present if {path, path.partition(".")[2]} & words)
    return next(named, "")


def _nearest(value: object, message: str) -> str:
    """The listed effort that is nearest to the refused one; empty without a list."""
    listed = SUPPORTED_VALUES.search(message)
    if value not in EFFORTS or not listed:
        return ""
    allowed = [each for each in EFFORTS if re.search(rf"\b{each}\b", listed[1])]
    wanted = EFFORTS.index(str(value))
    return min(allowed, key=lambda each: abs(EFFORTS.index(each) - wanted), default="")


def _at(fields: Json, path: str) -> Any:
    value: Any = fields
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _with(fields: Json, path: str, value: Any) -> Json:
    """The fields with another value at a path; unchanged if they have none there."""
    name, _, rest = path.partition(".")
    if _at(fields, path) is None:
        return fields
    others = {key: each for key, each in fields.items() if key != name}
    if path in RENAMED and value is not DROPPED:
        return {**others, value: fields[path]}
    if rest:
        value = _with(fields[name], rest, value) or DROPPED
    return others if value is DROPPED else {**others, name: value}
