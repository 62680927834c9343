"""Read what a tool returned: JSON with its numbers as written, and an exit status.

A process's exit status tells that a call failed, never words in its output, so that no
program's messages and no language have to be known. What else says that a call failed
is its error mark, `is_error`.
"""

import json
import re
from typing import Any

FIELDS = frozenset(("exit", "exitcode", "exitstatus", "returncode"))
"""Fields with an exit status, in small letters and without marks between words."""

DEEPEST = 4
"""Levels of objects in which a status is looked for."""

_NOT_ZERO = re.compile(r"[+-]?0*[1-9]\d*")
_TAG = re.compile(
    rf"<(exit_code|exit_status|returncode|return_code)>\s*{_NOT_ZERO.pattern}\s*</\1>"
)


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


def reports_failure(
    value: Any, *, in_lists: bool = False, levels: int = DEEPEST
) -> bool:
    """True if a parsed result has an exit status other than 0.

    A list is a table of states unless `in_lists`: one failed job of many does not make
    the call that lists them a failed one.
    """
    if not levels:
        return False
    if isinstance(value, dict):
        return any(
            _is_failure(key, each)
            or reports_failure(each, in_lists=in_lists, levels=levels - 1)
            for key, each in value.items()
        )
    return (in_lists and isinstance(value, list)) and any(
        reports_failure(each, in_lists=in_lists, levels=levels - 1) for each in value
    )


def ends_in_failure(text: str) -> bool:
    """True if the first or last line of a text is a tag with an exit status."""
    text = text.strip()
    ends = text.partition("\n")[0], text.rpartition("\n")[2]
    return any(_TAG.fullmatch(end.strip()) for end in ends)


def _is_failure(key: str, value: Any) -> bool:
    name = key.lower().replace("_", "").replace("-", "")
    is_status = name in FIELDS and isinstance(value, Number)
    return is_status and bool(_NOT_ZERO.fullmatch(value))
