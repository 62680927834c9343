"""Find the parts of a JSON value that report a failure.

They are never cut. States in long tables are no failures: there they are data.
"""

from collections.abc import Iterator
from typing import Any

from nbchat.compaction.exact_json import Number
from nbchat.compaction.pruning.failure_lines import failed_lines

TABLE_ITEMS = 20
"""Items from which on the states in a list are data."""

DEEPEST = 20
"""Levels of JSON that are looked at."""

FAILED_KEYS = frozenset(
    ("error", "errors", "exception", "traceback", "failure", "failures", "failed")
)
STATE_KEYS = frozenset(("status", "state", "result", "outcome", "conclusion", "level"))
FAILED_STATES = frozenset(("error", "errored", "failed", "failure", "fail", "fatal"))
SUCCESS_KEYS = frozenset(("ok", "success", "succeeded", "passed"))
CODE_KEYS = frozenset(("exitcode", "exitstatus", "returncode"))
HTTP_KEYS = frozenset(("status", "statuscode", "httpstatus"))
HTTP_ERRORS = range(400, 600)
NOTHING = frozenset(("", "none", "null", "no", "false", "0", "ok"))
"""Texts of a field such as `error` that mean that there was none."""


def failures_in(value: Any) -> Iterator[Any]:
    """The parts of a JSON value that report a failure, the smallest object of each."""
    yield from _failures(value, DEEPEST, is_row=False)


def _failures(value: Any, levels: int, *, is_row: bool) -> Iterator[Any]:
    if not levels:
        return
    if isinstance(value, dict):
        if any(_reports(key, each, is_row=is_row) for key, each in value.items()):
            yield value
        else:
            for each in value.values():
                yield from _failures(each, levels - 1, is_row=is_row)
    elif isinstance(value, list):
        is_table = is_row or len(value) > TABLE_ITEMS
        for each in value:
            yield from _failures(each, levels - 1, is_row=is_table)


def _reports(key: str, value: Any, *, is_row: bool) -> bool:
    """Whether a field says that something failed."""
    name = key.lower().replace("_", "").replace("-", "")
    text = str(value).strip().lower() if isinstance(value, str | int) else ""
    if name in FAILED_KEYS:
        return bool(value) and (isinstance(value, dict | list) or text not in NOTHING)
    if isinstance(value, Number):
        is_code = name in CODE_KEYS and text != "0"
        is_http = name in HTTP_KEYS and text.isdecimal() and int(text) in HTTP_ERRORS
        return (is_code or is_http) and not is_row
    if isinstance(value, str):
        is_state = name in STATE_KEYS and text in FAILED_STATES
        lines = value.splitlines()
        is_data = is_row and len(lines) < 2  # noqa: PLR2004  # more is an output
        return not is_data and (is_state or bool(failed_lines(lines)))
    return name in SUCCESS_KEYS and value is False and not is_row
