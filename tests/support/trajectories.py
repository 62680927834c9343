"""Real conversations with tools, as entries."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from nbchat.conversation.entries import Entry, Usage

FILE = Path(__file__).parents[1] / "data" / "trajectories.jsonl.gz"


@dataclass(frozen=True)
class Trajectory:
    """One conversation: what the agent was told, and what was then said."""

    name: str
    system: str
    entries: tuple[Entry, ...]
    tools: str = ""
    """The definitions of its tools as JSON, where the run recorded them."""
    model: str = ""
    usages: tuple[tuple[int, int, Usage], ...] = ()
    """Of each response that was counted: where its entries begin and end."""


def read_trajectories() -> list[Trajectory]:
    """All of them, in the order of the file."""
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    return [_trajectory(json.loads(line)) for line in lines]


def in_turn(runs: list[Trajectory], values: list[int]) -> list[Any]:
    """Parameters: each run with one of the values, which take turns."""
    return [
        pytest.param(run, value, id=f"{run.name[:40]}-{value}")
        for run, value in zip(runs, cycle(values), strict=False)
    ]


def _trajectory(row: dict[str, Any]) -> Trajectory:
    messages = row["messages"]
    system = "".join(m["content"] for m in messages if m["role"] == "system")
    entries = [entry for message in messages for entry in _entries(message)]
    tools = json.dumps(row["tools"]) if row.get("tools") else ""
    usages = tuple(_usage(messages, counted) for counted in row.get("usage") or ())
    return Trajectory(
        row["id"], system, tuple(entries), tools, row.get("model") or "", usages
    )


def _usage(
    messages: list[dict[str, Any]], counted: dict[str, int]
) -> tuple[int, int, Usage]:
    place = counted["message"]
    before, after = (
        sum(len([*_entries(message)]) for message in messages[:stop])
        for stop in (place, place + 1)
    )
    return (
        before,
        after,
        Usage(counted["prompt_tokens"], counted["completion_tokens"]),
    )


def _entries(message: dict[str, Any]) -> Iterator[Entry]:
    content = message.get("content") or ""
    match message["role"]:
        case "user":
            yield Entry("user", content)
        case "tool":
            name = message.get("name") or ""
            yield Entry("tool", content, message["tool_call_id"], name)
        case "assistant":
            if content:
                yield Entry("assistant", content)
            for call in message.get("tool_calls") or ():
                function = call["function"]
                yield Entry(
                    "assistant", "", call["id"], function["name"], function["arguments"]
                )
