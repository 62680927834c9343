"""Bound a tool's output when it arrives, before the model first reads it.

In every policy and for every tool: a text is whole up to 8,000 tokens and 500 lines. Of
a longer one head and tail stay, of a failed call its last 60 lines and what it wrote to
stderr. A call has failed by its error mark or by an exit status, never by the words in
its output, so that no program's messages have to be known.
"""

from typing import Any

from nbchat.compaction.exact_json import parsed, written
from nbchat.compaction.exit_status import ends_in_failure, reports_failure
from nbchat.compaction.pruning.output_kinds import Count
from nbchat.compaction.shortening import shorten_to_tokens
from nbchat.providers.tokens import most_tokens

WHOLE_TOKENS, WHOLE_LINES = 8_000, 500
"""Up to these a text is whole: a file, or the output of a run of all tests."""

BOUNDED_TOKENS = 4_000
"""The tokens that are left of a longer text."""

FAILED_LINES, FAILED_TOKENS = 60, 2_500
"""Last lines of a failed call that stay, and their most tokens."""


def bounded(text: str, count: Count, *, is_failed: bool = False) -> str:
    """The text, or what of a long one shows most."""
    is_long = text.count("\n") >= WHOLE_LINES
    if most_tokens(text) <= (BOUNDED_TOKENS if is_long else WHOLE_TOKENS):
        return text
    size = count(text)
    if size <= BOUNDED_TOKENS or (size <= WHOLE_TOKENS and not is_long):
        return text
    value = parsed(text)
    if reports_failure(value, in_lists=True):
        text, is_failed = written(_with_ends(value, count)), True
        if count(text) <= BOUNDED_TOKENS:
            return text
    if not is_failed and not ends_in_failure(text):
        return shorten_to_tokens(text, BOUNDED_TOKENS, count)
    lines = text.splitlines()
    tail = shorten_to_tokens("\n".join(lines[-FAILED_LINES:]), FAILED_TOKENS, count)
    left = BOUNDED_TOKENS - count(tail)
    head = shorten_to_tokens("\n".join(lines[:-FAILED_LINES]), left, count)
    return "\n".join(filter(None, (head, tail)))


def _with_ends(value: Any, count: Count) -> Any:
    """A result whose texts are cut to their last lines; stderr has the most room."""
    if isinstance(value, list):
        return [_with_ends(each, count) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _end(each, count, tokens=FAILED_TOKENS if key == "stderr" else 1_000)
        if type(each) is str
        else _with_ends(each, count)
        for key, each in value.items()
    }


def _end(text: str, count: Count, *, tokens: int) -> str:
    """The last lines of a text, within some tokens."""
    if count(text) <= tokens:
        return text
    lines = text.splitlines()
    left_out = len(lines) - FAILED_LINES
    tail = shorten_to_tokens("\n".join(lines[-FAILED_LINES:]), tokens, count)
    return f"[{left_out:,} lines omitted]\n{tail}" if left_out > 0 else tail
