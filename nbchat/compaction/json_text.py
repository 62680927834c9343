"""A text that is JSON, read so that what it says can be repeated as it was written."""

import json
from typing import Any


class Number(str):
    """A number with the digits it was written with."""

    __slots__ = ()


def parsed(text: str) -> dict[str, Any] | list[Any] | None:
    """The JSON object or list a text is, numbers as written; None if it is neither."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=Number
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
