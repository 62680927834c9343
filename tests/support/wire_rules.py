"""What the APIs demand of a list of messages, as their servers check it."""

import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

NAME = re.compile(r"[a-zA-Z0-9_-]+")


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
        faults += [f"{place}: {fault}" for fault in openai_call_faults(calls)]
        if not message.get("content") and not calls:
            faults.append(f"{place}: an empty message")
    return faults + ([f"calls at the end: {waiting}"] if waiting else [])


def openai_call_faults(calls: list[Json]) -> Iterator[str]:
    """Ids once each and not too long, names in few letters, arguments an object."""
    ids = [call["id"] for call in calls]
    if len(set(ids)) < len(ids) or not all(0 < len(each) <= 40 for each in ids):
        yield f"ids that are not allowed: {ids}"
    for function in (call["function"] for call in calls):
        if not NAME.fullmatch(function["name"]):
            yield f"a tool named {function['name']!r}"
        if not isinstance(json.loads(function["arguments"]), dict):
            yield f"arguments that are no object: {function['arguments'][:80]}"


def anthropic_cache_faults(body: Json) -> list[str]:
    """At most four marks, the longer lifetimes first, none on what cannot have one."""
    blocks = [*body.get("tools", [])]
    system = body.get("system", "")
    blocks += system if isinstance(system, list) else []
    blocks += [block for each in body["messages"] for block in each["content"]]
    marked = [block for block in blocks if "cache_control" in block]
    faults = [f"{len(marked)} marks"] if len(marked) > 4 else []
    lifetimes = [block["cache_control"].get("ttl", "5m") for block in marked]
    if lifetimes != sorted(lifetimes, key=["1h", "5m"].index):
        faults.append(f"lifetimes in the wrong order: {lifetimes}")
    for block in marked:
        is_empty = block.get("type") == "text" and not block["text"].strip()
        if is_empty or block.get("type") in ("thinking", "redacted_thinking"):
            faults.append(f"a mark on {block}")
    return faults


def gemini_faults(contents: list[Json]) -> list[str]:
    """Turns that alternate and say something, as many results as calls before them."""
    faults, calls = [], 0
    for place, turn in enumerate(contents):
        if place and turn["role"] == contents[place - 1]["role"]:
            faults.append(f"{place}: {turn['role']} twice")
        if not turn["parts"] or any(part.get("text") == "" for part in turn["parts"]):
            faults.append(f"{place}: an empty part")
        results = sum("functionResponse" in part for part in turn["parts"])
        if results != calls:
            faults.append(f"{place}: {results} results for {calls} calls")
        calls = sum("functionCall" in part for part in turn["parts"])
    return faults


def anthropic_faults(messages: list[Json]) -> list[str]:
    """User first, alternating, the results of all calls in the very next message."""
    faults, waiting, used = [], [], set()
    for place, message in enumerate(messages):
        expected = "assistant" if place % 2 else "user"
        if message["role"] != expected:
            faults.append(f"{place}: {message['role']} where {expected} belongs")
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(answered) != sorted(waiting):
            faults.append(f"{place}: results {answered} for calls {waiting}")
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if len(used.union(waiting)) < len(used) + len(waiting):
            faults.append(f"{place}: tool_use ids must be unique: {waiting}")
        used.update(waiting)
        faults += [f"{place}: {fault}" for fault in anthropic_block_faults(blocks)]
    return faults + ([f"calls at the end: {waiting}"] if waiting else [])


def anthropic_block_faults(blocks: list[Json]) -> Iterator[str]:
    """Results first, no thinking last, nothing empty, names in few letters."""
    kinds = [block["type"] == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        yield "results after text"
    texts = [b["text"] for b in blocks if b["type"] == "text"]
    if not blocks or not all(text.strip() for text in texts):
        yield "an empty block"
    if blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        yield "thinking at the end"
    for use in (block for block in blocks if block["type"] == "tool_use"):
        if not (NAME.fullmatch(use["id"]) and NAME.fullmatch(use["name"])):
            yield f"letters that are not allowed in {use['id']!r} or {use['name']!r}"


def responses_faults(items: list[Json]) -> list[str]:
    """Items in the words of OpenAI's Responses API when it refuses them."""
    faults, calls, answered = [], set(), set()
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < len(items) else {}
        match item.get("type", "message"):
            case "reasoning":
                faults += responses_reasoning_faults(item, following)
            case "function_call":
                if item["call_id"] in calls:
                    faults.append(f"{place}: call_id {item['call_id']} twice")
                calls.add(item["call_id"])
                faults += responses_call_faults(item)
            case "function_call_output":
                if item["call_id"] not in calls - answered:
                    faults.append(
                        "No tool call found for function call output with call_id "
                        f"{item['call_id']}."
                    )
                answered.add(item["call_id"])
            case "message":
                faults += responses_message_faults(place, item)
            case unknown:
                faults.append(f"Invalid value: '{unknown}'.")
    return faults + [
        f"No tool output found for function call {call_id}."
        for call_id in sorted(calls - answered)
    ]


def responses_reasoning_faults(item: Json, following: Json) -> Iterator[str]:
    """Reasoning as it was sent, with the item after it."""
    known = {"type", "id", "summary", "encrypted_content", "content", "status"}
    if not item.get("id") or "summary" not in item or set(item) - known:
        yield f"Missing or unknown parameter in reasoning: {sorted(item)}"
    if not item.get("encrypted_content"):
        yield (
            f"Item with id '{item.get('id')}' not found. Items are not persisted when "
            "`store` is set to false."
        )
    is_answered = following.get("type") in ("reasoning", "function_call")
    if not (is_answered or following.get("role") == "assistant"):
        yield (
            f"Item '{item.get('id')}' of type 'reasoning' was provided without its "
            "required following item."
        )


def responses_call_faults(item: Json) -> Iterator[str]:
    """Names in few letters, ids not too long, arguments an object."""
    if not (NAME.fullmatch(item["name"]) and 0 < len(item["call_id"]) <= 64):
        yield f"a call of {item['name']!r} with the id {item['call_id']!r}"
    if not isinstance(json.loads(item["arguments"]), dict):
        yield f"arguments that are no object: {item['arguments'][:80]}"


def responses_message_faults(place: int, item: Json) -> Iterator[str]:
    """Parts of the user and of the assistant with their own types."""
    content, role = item["content"], item["role"]
    if set(item) - {"type", "role", "content", "phase"} or not content:
        yield f"{place}: an empty message or an unknown field: {sorted(item)}"
    if role == "user":
        for part in content:
            if part["type"] not in ("input_text", "input_image"):
                yield f"Invalid value: '{part['type']}'."
            if part["type"] == "input_text" and not part["text"].strip():
                yield f"{place}: an empty text"
    elif role != "assistant" or {part["type"] for part in content} != {"output_text"}:
        yield f"{place}: a message of {role} with {content}"
