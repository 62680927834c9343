"""Read and write JSON with its numbers as they were written."""

import json
from typing import Any


class Number(str):
    """A number with the digits it was written with."""

    __slots__ = ()


def parsed(text: str) -> dict[str, Any] | list[Any] | None:
    """Parse a JSON object or list, numbers as written; None for anything else."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=Number
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def written(value: Any) -> str:
    """A parsed value as JSON, numbers as they were written."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)}: {written(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return str(value) if isinstance(value, Number) else json.dumps(value)
