"""What the two APIs demand of a list of messages, as their servers check it."""

from typing import Any

Json = dict[str, Any]


def openai_faults(messages: list[Json]) -> list[str]:
    """Every call answered right after it, every answer called for, nothing empty."""
    faults, waiting = [], set()
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                faults.append(f"{place}: a result without a call")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            faults.append(f"{place}: {role} while calls wait for results")
            waiting = set()
        calls = message.get("tool_calls") or []
        waiting = {call["id"] for call in calls}
        if not message.get("content") and not calls:
            faults.append(f"{place}: an empty message")
    return faults + ([f"calls at the end: {waiting}"] if waiting else [])


def anthropic_faults(messages: list[Json]) -> list[str]:
    """User first, alternating, the results of all calls in the very next message."""
    faults, waiting = [], set()
    for place, message in enumerate(messages):
        expected = "assistant" if place % 2 else "user"
        if message["role"] != expected:
            faults.append(f"{place}: {message['role']} where {expected} belongs")
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        answered = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
        if answered != waiting:
            faults.append(f"{place}: results {answered} for calls {waiting}")
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            faults.append(f"{place}: results after text")
        waiting = {b["id"] for b in blocks if b["type"] == "tool_use"}
        texts = [b["text"] for b in blocks if b["type"] == "text"]
        if not blocks or not all(text.strip() for text in texts):
            faults.append(f"{place}: an empty block")
    return faults + ([f"calls at the end: {waiting}"] if waiting else [])
