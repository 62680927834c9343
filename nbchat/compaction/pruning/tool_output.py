"""How a tool's output is made smaller by what it is: hits, rows, file, answer or log.

What it is shows in its form; the tool's name only helps where the form is open. Small
outputs stay as they are, and every gap says how much is missing.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from nbchat.compaction.pruning import search_results
from nbchat.compaction.pruning.json_outline import (
    SAMPLE_ROWS,
    TABLE_ROWS,
    is_result_set,
    outline,
)
from nbchat.compaction.truncation import parsed, shorten
from nbchat.providers.tokens import TokenCounter

SMALL_TOKENS, SMALL_STRUCTURE_TOKENS = 200, 500
"""Below these an output, or one that is structured data, stays (seed 003)."""

FILE_LINES = 500
"""Lines up to which a file that was read stays whole (seed 003)."""

WHOLE_TOKENS = 8_000
"""A file or table within its limit of lines stays up to here: 500 lines of 16 tokens;
one line may hold a megabyte."""

ANSWER_TOKENS, TEXT_CHARACTERS = 400, 800
"""What is kept of a JSON answer (the size from which other engines clear an output: 400
tokens), and of a text or log: about 200 tokens."""

HEAD_LINES, TAIL_LINES, LINE_LIMIT = 20, 10, 160
"""What is kept of a long file: the first and last lines, clipped."""

WORTHWHILE = 0.8
"""A shortened output may be at most this share of the whole one."""

SEARCH_WORDS = frozenset(("search", "find", "query", "lookup", "retrieve"))
FILE_WORDS = frozenset(("file", "cat", "editor"))
"""Words in a tool's name that decide where the form of its output does not."""

ERROR_WORDS = ("error", "traceback", "exception", "fatal")
"""How a text begins that tells of a failure; those stay whole, to be worked on."""

MOST = 0.8
"""The share of lines that must have a form before the text counts as having it."""

LOOKED_AT = 200
"""Lines looked at to find a text's form."""

_NUMBERED = re.compile(r"\s{0,10}(\d{1,9})[\t:|→]")
_FIELD = re.compile(r"[\s-]{0,40}[\w .-]{1,40}:(?:\s|$)")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


_RULE = re.compile(r"[-+|=:\s]{1,1000}")


def shortened(text: str, counter: TokenCounter, *, tool_name: str = "") -> str:
    """The output as short as its kind allows, or the same text where it should stay."""
    size = counter.count(text)
    if size < SMALL_TOKENS:
        return text
    words = {word.lower() for word in _WORDS.findall(tool_name)}
    kept = _shortened(text, size, words, counter)
    return kept if counter.count(kept) <= size * WORTHWHILE else text


def _shortened(text: str, size: int, words: set[str], counter: TokenCounter) -> str:
    value = parsed(text)
    is_small = size < SMALL_STRUCTURE_TOKENS
    if value is None:
        tells_error = text[:LINE_LIMIT].lstrip().lower().startswith(ERROR_WORDS)
        if tells_error and size < WHOLE_TOKENS:
            return text
        return _shortened_text(text, size, words, counter)
    if is_small:
        return text
    is_search = bool(words & SEARCH_WORDS)
    found = search_results.shortened_value(value, counter, is_search=is_search)
    if found is None and size < WHOLE_TOKENS and is_result_set(value):
        return text
    return found or outline(value, ANSWER_TOKENS, counter)


def _shortened_text(
    text: str, size: int, words: set[str], counter: TokenCounter
) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if _is_numbered(lines):
        return _file(text, size)
    head = _head(lines)
    if head is not None:
        return _table(text, lines, head, size)
    if found := search_results.shortened_text(text, counter):
        return found
    if words & FILE_WORDS:
        return _file(text, size)
    if size < SMALL_STRUCTURE_TOKENS and _most(_FIELD.match, lines):
        return text
    return shorten(text, TEXT_CHARACTERS)


def _file(text: str, size: int) -> str:
    lines = text.splitlines()
    if len(lines) <= FILE_LINES:
        return text if size < WHOLE_TOKENS else shorten(text, TEXT_CHARACTERS)
    first, last = HEAD_LINES + 1, len(lines) - TAIL_LINES
    gap = f"[lines {first} to {last:,} of {len(lines):,} left out]"
    shown = [*lines[:HEAD_LINES], gap, *lines[-TAIL_LINES:]]
    return "\n".join(map(_clipped, shown))


def _table(text: str, lines: Sequence[str], head: int, size: int) -> str:
    rows = lines[head:]
    if len(rows) <= TABLE_ROWS:
        return text if size < WHOLE_TOKENS else shorten(text, TEXT_CHARACTERS)
    gap = f"[{len(rows) - SAMPLE_ROWS - 1:,} of {len(rows):,} rows left out]"
    shown = [*lines[: head + SAMPLE_ROWS], gap, rows[-1]]
    return "\n".join(map(_clipped, shown))


def _head(lines: Sequence[str]) -> int | None:
    """How many lines stand above a table's rows; None when it is no table."""
    if _most(_is_object, lines):
        return 0
    if not any(_most(_has_as_many(mark, lines), lines) for mark in "|\t,;"):
        return None
    return 2 if len(lines) > 1 and _RULE.fullmatch(lines[1]) else 1


def _is_object(line: str) -> bool:
    """Whether this looks like a line of JSON Lines."""
    return line.startswith("{") and line.endswith("}")


def _has_as_many(mark: str, lines: Sequence[str]) -> Callable[[str], bool]:
    """Whether a line has as many separators as the first; log lines have one comma."""
    wanted = lines[0].count(mark) if lines else 0
    is_mark = wanted >= (1 if mark == "\t" else 2)
    return lambda line: is_mark and line.count(mark) == wanted


def _is_numbered(lines: Sequence[str]) -> bool:
    """Whether the lines carry numbers that count up, as `cat -n` and editors show."""
    found = [_NUMBERED.match(line) for line in lines[:LOOKED_AT]]
    if not found or (found[0] is None and "\t" in lines[0]):
        return False  # the first line names columns, and the rows count up
    numbers = [int(match[1]) for match in found if match]
    steps = sum(b - a == 1 for a, b in pairwise(numbers))
    return steps > 1 and steps >= MOST * (len(found) - 2)


def _most(has_form: Callable[[str], object], lines: Sequence[str]) -> bool:
    looked_at = lines[:LOOKED_AT]
    return len(looked_at) > 1 and (
        sum(bool(has_form(line)) for line in looked_at) >= MOST * len(looked_at)
    )


def _clipped(line: str) -> str:
    return line if len(line) <= LINE_LIMIT else f"{line[: LINE_LIMIT - 1]}…"
