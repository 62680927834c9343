"""Shorten a JSON value to its most important leaves, in the value's own shape.

Leaves are kept by rank until the budget is full: status fields, ids, numbers, then
texts. Numbers keep the digits they were written with, and gaps are marked with "…".
"""

import heapq
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from nbchat.compaction.results import Number

TABLE_ROWS = 100
"""Rows up to which a result set stays whole (seed 003, selective post-processing)."""

SAMPLE_ROWS = 4
"""Rows shown from the head of a longer one; the last one is shown as well."""

COLUMNS_SHOWN = 20

LONGEST_ID, LONG_TEXT = 60, 100
"""Characters of the longest identifier, and of a text before it is cut."""

DEEPEST = 20
"""Levels that are read; deeper values count as missing."""

STATE_KEYS = frozenset((
    *("id", "name", "title", "type", "kind", "status", "state", "ok", "success"),
    *("error", "code", "message", "total", "count", "next", "cursor"),
))  # fmt: skip
"""Fields at the top of an answer that say what it is and how it went."""

_NAME_KEY = re.compile(
    r"(?:.*[_-])?(?:id|ids|name|title|key|code|number|reference|sku|email|url|status)",
    re.IGNORECASE,
)
ABOUT_THE_ANSWER = 5
_ABOUT_THE_ANSWER = re.compile(r"(?:.*[_-])?(?:headers?|meta|metadata)", re.IGNORECASE)
"""Objects about an answer and its transport, which its reader seldom needs."""

_IDENTIFIER = re.compile(r"[^\s\d@_/-]*[\d@_/-]\S*")

Path = tuple[str | int, ...]
Containers = dict[Path, dict[str, Any] | list[Any]]


class Leaf(NamedTuple):
    """One value at the end of a path, as JSON; the lower its rank, the sooner kept."""

    rank: int
    depth: int
    order: int
    path: Path
    text: str


def is_result_set(value: dict[str, Any] | list[Any]) -> bool:
    """True if this is rows of short values under the same columns, not too many.

    They may be a field of an object whose other fields are short values.
    """
    inner = [value] if isinstance(value, list) else list(value.values())
    lists = [each for each in inner if isinstance(each, list)]
    beside = [each for each in inner if not isinstance(each, list)]
    if len(lists) != 1 or not 1 < len(lists[0]) <= TABLE_ROWS:
        return False
    return all(map(_is_short, beside)) and _has_columns(lists[0])


def outline(
    value: dict[str, Any] | list[Any], budget_tokens: int, count: Callable[[str], int]
) -> str:
    """The most telling leaves of a value that fit a budget, in the value's shape."""
    containers: Containers = {}
    # A leaf takes a token at the least, so more of them need not be looked at.
    leaves = heapq.nsmallest(budget_tokens, _leaves(value, containers))
    told = [leaf for leaf in leaves if leaf.rank < ABOUT_THE_ANSWER]
    leaves = told or leaves
    fitting, too_many = 0, len(leaves) + 1
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if count(_text_of(leaves[:middle], containers)) <= budget_tokens:
            fitting = middle
        else:
            too_many = middle
    return _text_of(leaves[:fitting], containers)


def _has_columns(rows: Sequence[Any]) -> bool:
    first = rows[0]
    return all(
        isinstance(row, dict)
        and row.keys() == first.keys()
        and all(map(_is_short, row.values()))
        for row in rows
    )


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list) and len(str(value)) <= LONG_TEXT


def _leaves(value: Any, containers: Containers) -> Iterator[Leaf]:
    """Every leaf in order; `containers` learns what they were in."""
    for index, (path, leaf) in enumerate(_ends(value, (), containers)):
        yield Leaf(_rank(path, leaf), len(path), index, path, _written(leaf))


def _ends(value: Any, path: Path, containers: Containers) -> Iterator[tuple[Path, Any]]:
    if not value or not isinstance(value, dict | list):
        yield path, value
        return
    containers[path] = value
    items: Iterable[tuple[str | int, Any]] = (
        value.items()
        if isinstance(value, dict)
        else ((index, value[index]) for index in _sampled(value))
    )
    if len(path) < DEEPEST:
        for part, inner in items:
            yield from _ends(inner, (*path, part), containers)


def _sampled(items: Sequence[Any]) -> Iterable[int]:
    if len(items) <= TABLE_ROWS:
        return range(len(items))
    return (*range(SAMPLE_ROWS), len(items) - 1)


def _rank(path: Path, leaf: Any) -> int:
    """0 how it went, 1 names, 2 values, 3 words, 4 long texts, 5 about the answer."""
    if any(_ABOUT_THE_ANSWER.fullmatch(str(part)[:LONGEST_ID]) for part in path[:-1]):
        return ABOUT_THE_ANSWER
    if not isinstance(leaf, str):
        return 3
    if len(leaf) > LONGEST_ID:
        return 4
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    if len(path) == 1 and key.lower() in STATE_KEYS:
        return 0
    if _NAME_KEY.fullmatch(key[-LONGEST_ID:]):
        return 1
    is_value = isinstance(leaf, Number) or _IDENTIFIER.fullmatch(leaf)
    return 2 if is_value else 3


def _written(leaf: Any) -> str:
    if isinstance(leaf, Number):
        return str(leaf[:LONG_TEXT])
    if isinstance(leaf, str) and len(leaf) > LONG_TEXT:
        leaf = f"{leaf[:LONG_TEXT]}… ({len(leaf) - LONG_TEXT:,} characters more)"
    return json.dumps(leaf, ensure_ascii=False)


def _text_of(leaves: Iterable[Leaf], containers: Containers) -> str:
    tree: dict[str | int, Any] = {}
    for leaf in sorted(leaves, key=lambda leaf: leaf.order):
        node = tree
        for part in leaf.path[:-1]:
            node = node.setdefault(part, {})
        node[leaf.path[-1]] = leaf.text
    return _branch(tree, (), containers)


def _branch(
    node: dict[str | int, Any] | str, path: Path, containers: Containers
) -> str:
    if isinstance(node, str):
        return node
    inner = {part: _branch(node[part], (*path, part), containers) for part in node}
    whole = containers.get(path, inner)
    missing = len(whole) - len(inner)
    if isinstance(whole, list):
        note = [f"… {missing:,} more of {_described(whole)}"] if missing else []
        return "[" + ", ".join([*inner.values(), *note]) + "]"
    pairs = [f"{_key(part)}: {text}" for part, text in inner.items()]
    return "{" + ", ".join([*pairs, *["…"] * bool(missing)]) + "}"


def _described(items: Sequence[Any]) -> str:
    """The count of a list's items, and of a long one's rows the columns."""
    if len(items) <= TABLE_ROWS or not isinstance(items[0], dict):
        return f"{len(items):,}"
    columns = ", ".join(_key(name) for name in [*items[0]][:COLUMNS_SHOWN])
    return f"{len(items):,} rows with {columns}"


def _key(part: str | int) -> str:
    return json.dumps(str(part)[:LONGEST_ID], ensure_ascii=False)
