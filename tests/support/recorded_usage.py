"""Requests that real APIs counted: what was sent, and the tokens they reported."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajectories import read_trajectories

from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool
from nbchat.providers.base import fixed_texts
from nbchat.providers.model_info import model_info

FILE = Path(__file__).parents[1] / "data" / "api_usage.jsonl.gz"

Json = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """One request and its size as the provider reported it."""

    name: str
    api: str
    model: str
    system: str
    tools: tuple[Tool, ...]
    entries: tuple[Entry, ...]
    usage: Usage
    report: tuple[int, Usage] | None = None
    """Of the request before it: how many entries there were with its answer."""

    def counted(self, *, is_anchored: bool) -> int:
        """What the engine says the request holds, with the report before it or not."""
        engine = CompactionEngine(None, info=model_info(self.model))
        engine.tracker.set_fixed_texts(fixed_texts(self.system, self.tools))
        if is_anchored and self.report is not None:
            position, usage = self.report
            engine.update_token_count(usage, position=position)
        return engine.tracker.context_tokens(Session(self.entries))

    def error(self, *, is_anchored: bool) -> float:
        """By how much that is more than the provider's number, as a share of it."""
        counted = self.counted(is_anchored=is_anchored)
        return counted / self.usage.input_tokens - 1


def read_recorded() -> list[Recorded]:
    """All requests, those of the conversations in `trajectories` included."""
    return [*_of_runs(), *_of_apis()]


def _of_runs() -> Iterator[Recorded]:
    for run in read_trajectories():
        tools = _tools(json.loads(run.tools or "[]"))
        report = None
        for start, stop, usage in run.usages:
            yield Recorded(
                run.name,
                f"{run.name.partition('/')[0]}{'' if tools else ' (tools unknown)'}",
                run.model,
                run.system,
                tools,
                run.entries[:start],
                usage,
                report,
            )
            report = (stop, usage)


def _of_apis() -> Iterator[Recorded]:
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    earlier: Recorded | None = None
    for row in map(json.loads, lines):
        request = _recorded(row)
        yield Recorded(**{**vars(request), "report": _report(earlier, request)})
        earlier = request


def _report(earlier: Recorded | None, request: Recorded) -> tuple[int, Usage] | None:
    """What is known of a request from the one before, if it goes on from that."""
    if earlier is None or _file(earlier) != _file(request):
        return None
    known = len(earlier.entries)
    answer = request.entries[known : known + 1]
    if request.entries[:known] != earlier.entries or not _are_said(answer):
        return None
    while known < len(request.entries) and _are_said(request.entries[known:][:1]):
        known += 1
    return known, earlier.usage


def _file(request: Recorded) -> str:
    return request.name.rpartition("#")[0]


def _are_said(entries: Sequence[Entry]) -> bool:
    return bool(entries) and all(e.role in ("assistant", "thinking") for e in entries)


def _recorded(row: Json) -> Recorded:
    body = row["request"]
    messages = [
        m for key in ("messages", "input", "contents") for m in body.get(key, ())
    ]
    entries = [entry for message in messages for entry in _entries(message)]
    told = [body.get(key) for key in ("system", "instructions", "systemInstruction")]
    system = [_text(each) for each in told if each]
    system += [e.content for e in entries if e.role == "system"]
    return Recorded(
        row["id"],
        row["api"],
        row["model"],
        "\n".join(system),
        _tools(body.get("tools") or []),
        tuple(entry for entry in entries if entry.role != "system"),
        _usage(row["usage"]),
    )


def _usage(fields: Json) -> Usage:
    """Input and output, whatever they are called.

    Chat APIs never get their reasoning back; others may.
    """
    read = ("input_tokens", "prompt_tokens", "promptTokenCount")
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    said = ("output_tokens", "completion_tokens", "candidatesTokenCount")
    details = fields.get("completion_tokens_details") or {}
    return Usage(
        sum(fields.get(name) or 0 for name in (*read, *cached)),
        sum(fields.get(name) or 0 for name in (*said, "thoughtsTokenCount")),
        dropped_tokens=details.get("reasoning_tokens") or 0,
    )


def _entries(message: Json) -> Iterator[Entry]:
    """A message of any of the APIs; a call and a result are one entry each."""
    role = message.get("role") or "assistant"
    role = {"developer": "system", "model": "assistant"}.get(role, role)
    for part in _parts(message):
        yield from _entry(role, part)
    for call in message.get("tool_calls") or ():
        yield _call(call["function"])


def _parts(message: Json) -> Iterable[Any]:
    content = message.get("content", message.get("parts"))
    if message.get("role") == "tool":
        return [{"output": content}]
    if "type" in message:
        return [message]
    return [content] if isinstance(content, str) else content or []


def _entry(role: str, part: Any) -> Iterator[Entry]:
    if isinstance(part, str):
        yield Entry(role, part)
    elif "functionCall" in part or part.get("type") in ("function_call", "tool_use"):
        yield _call(part.get("functionCall", part))
    elif "functionResponse" in part:
        yield Entry("tool", json.dumps(part["functionResponse"].get("response")))
    elif "output" in part or part.get("type") == "tool_result":
        yield Entry("tool", _text(part.get("output", part.get("content"))))
    elif part.get("type") in ("thinking", "reasoning", "compaction"):
        yield Entry("thinking", part.get("thinking") or "")
    elif text := _text(part):
        yield Entry(role, text)


def _call(call: Json) -> Entry:
    given = call.get("arguments", call.get("args", call.get("input", {})))
    text = given if isinstance(given, str) else json.dumps(given)
    return Entry("assistant", "", "", call["name"], text)


def _text(content: Any) -> str:
    """The words of a content, however deep they lie."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return _text(content.get("text", content.get("parts", content.get("content"))))
    return "\n".join(map(_text, content or []))


def _tools(listed: list[Json] | Json) -> tuple[Tool, ...]:
    found = [listed] if isinstance(listed, dict) else listed
    named = [inner for each in found for inner in _declared(each)]
    return tuple(map(_tool, named))


def _declared(each: Json) -> list[Json]:
    for key in ("functionDeclarations", "function_declarations"):
        if key in each:
            return list(each[key])
    return [each["function"]] if "function" in each else [each]


def _tool(each: Json) -> Tool:
    keys = ("parameters", "input_schema", "parameters_json_schema")
    schema = next((each[key] for key in keys if each.get(key)), {})
    return Tool(each.get("name", ""), each.get("description", ""), schema, print)
