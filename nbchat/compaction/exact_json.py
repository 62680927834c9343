"""Read and write JSON with its numbers as they were written."""

import json
from typing import Any


class Number(str):
    """A number with the digits it was written with."""

    __slots__ = ()


def parsed(text: str) -> dict[str, Any] | list[Any] | None:
    """Parse a JSON object or list, numbers as written; None for anything else.

    An object that gives one name two values says neither of them, and is no record.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(
            text,
            parse_int=Number,
            parse_float=Number,
            parse_constant=Number,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs) and any(found[name] != value for name, value in pairs):
        raise ValueError("one name has two values")
    return found


def written(value: Any) -> str:
    """A parsed value as JSON, numbers as they were written."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)}: {written(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return str(value) if isinstance(value, Number) else json.dumps(value)
