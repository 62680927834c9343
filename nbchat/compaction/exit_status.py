"""Tell by a process's exit status that a call failed, never by words in its output.

So no program's messages and no language have to be known. What else says that a call
failed is its error mark, `is_error`.
"""

import re
from typing import Any

from nbchat.compaction.exact_json import Number

FIELDS = frozenset(("exit", "exitcode", "exitstatus", "returncode"))
"""Fields with an exit status, in small letters and without marks between words."""

DEEPEST = 4
"""Levels of objects in which a status is looked for."""

_NOT_ZERO = re.compile(r"[+-]?0*[1-9]\d*")
_TAG = re.compile(
    rf"<(exit_code|exit_status|returncode|return_code)>\s*{_NOT_ZERO.pattern}\s*</\1>"
)


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
