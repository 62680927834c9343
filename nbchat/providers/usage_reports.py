"""Read the usage that any API reports: a dictionary, an SDK's object or a response.

For loops of one's own, whose client is not one of the providers here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nbchat.conversation.entries import Usage
from nbchat.providers.wire_format import Json, a_list, an_object, whole

WITHIN = ("usage", "usage_metadata", "response_metadata", "tokens", "response")
"""Where a response has its usage."""

INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count", "prompt_eval_count")
"""Anthropic and OpenAI's Responses; chat completions; Gemini; Ollama."""

OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count", "eval_count")

BESIDE = (
    *("cache_read_input_tokens", "cache_creation_input_tokens"),  # Anthropic
    *("cache_write_input_tokens", "tool_use_prompt_token_count"),  # Bedrock, Gemini
)
"""Input that is not in the figure of `INPUT`."""

DETAILS = ("input_tokens_details", "prompt_tokens_details", "input_token_details")
READ = ("cached_tokens", "cache_read", "cache_read_input_tokens")
WRITTEN = ("cache_write_tokens", "cache_creation", "cache_creation_input_tokens")


def usage_of(report: object) -> Usage:
    """The usage in a report; none for what is no report."""
    if isinstance(report, Usage):
        return report
    fields = _fields(report)
    if not _first(fields, (*INPUT, *OUTPUT)):
        inner = (fields.get(name) for name in WITHIN)
        found = (usage_of(each) for each in inner if each is not None)
        return next(filter(lambda usage: usage.total_tokens, found), Usage())
    *earlier, last = map(_round, a_list(fields.get("iterations")) or [fields])
    dropped = sum(earlier, Usage())  # the server compacted in between
    return replace(dropped + last, dropped_tokens=dropped.total_tokens)


def _round(report: object) -> Usage:
    fields = _fields(report)
    inside = next(filter(None, (_fields(fields.get(name)) for name in DETAILS)), {})
    output = _first(fields, OUTPUT) + whole(fields.get("thoughts_token_count"))
    cached = whole(fields.get("cached_content_token_count"))
    return Usage(
        _first(fields, INPUT) + sum(whole(fields.get(name)) for name in BESIDE),
        output,
        _first({**fields, **inside}, READ) or cached,
        _first({**fields, **inside}, WRITTEN),
    )


def _fields(report: object) -> Json:
    """A report as a dictionary with names in snake_case."""
    for name in ("model_dump", "to_dict", "dict", "_asdict"):
        method: Any = getattr(report, name, None)
        if callable(method) and not isinstance(report, type | Mapping):
            report = method()
            break
    if not isinstance(report, Mapping):
        report = getattr(report, "__dict__", None)
    named = dict(report) if isinstance(report, Mapping) else {}
    return an_object({_snake(str(name)): each for name, each in named.items()})


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def _first(fields: Json, names: Iterable[str]) -> int:
    return next((n for name in names if (n := whole(fields.get(name)))), 0)
