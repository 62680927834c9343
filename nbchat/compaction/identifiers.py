"""The names of things: ids, amounts, dates, addresses and paths that were mentioned.

Found by their form alone, so nothing is understood and nothing is invented. What people
said and what tools were called with counts more than what tools answered.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from nbchat.history import Entry

SHORTEST, LONGEST = 3, 60
"""Characters of a value worth keeping; longer ones are prose."""

_CHUNK = re.compile(r"[^\s\"'<>()\[\]{}|;]{1,100}")
"""Forms are looked for in short pieces: in a megabyte without a space the search would
take a time that grows with the square of the length."""

_HINT = re.compile(r"[\d/@_]|[A-Z]{3}")
"""Every form has one of these, which prose seldom has."""

SEARCHED_LIMIT = 100_000
"""Characters of one entry that are looked through; megabytes would take a minute."""

_FORMS = re.compile(
    r"""
    https?://[^\s"'<>)\]]+          # addresses of pages
    | [\w.+-]+@[\w-]+\.[\w.-]*\w    # addresses of people
    | (?:[\w.-]*/){2,}[\w.-]+       # paths
    | [#$€£]?\w*\d[\w,.:/#-]*\w     # ids, amounts, dates, times
    | \w+(?:_\w+)+                  # names as programs write them
    | \b[A-Z]{3,5}\b                # codes
    """,
    re.VERBOSE,
)


def identifiers(entries: Sequence[Entry]) -> list[str]:
    """Every value once, the most telling first: said or used, then newest."""
    weight: dict[str, tuple[int, int]] = {}
    for place, entry in enumerate(entries):
        is_ours = entry.role in ("user", "assistant")
        for value in _values(entry):
            used, _ = weight.get(value, (0, 0))
            weight[value] = (used or int(is_ours), place)
    return sorted(weight, key=lambda value: weight[value], reverse=True)


def _values(entry: Entry) -> Iterator[str]:
    pieces = _CHUNK.findall(entry.content[:SEARCHED_LIMIT])
    chunks = filter(_HINT.search, pieces)
    found: Iterable[str] = chain.from_iterable(map(_FORMS.findall, chunks))
    if entry.is_call:
        found = _leaves(entry.arguments)
    elif entry.role == "tool":
        found = [*found, *_leaves(_parsed(entry.content))]
    for value in found:
        text = value.strip(" .,:;")
        if SHORTEST <= len(text) <= LONGEST and "\n" not in text:
            yield text


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any) -> Iterator[str]:
    """The texts and numbers inside a JSON value."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            waiting += current.values()
        elif isinstance(current, list):
            waiting += current
        elif isinstance(current, str):
            yield current
        elif isinstance(current, int | float) and not isinstance(current, bool):
            yield str(current)
