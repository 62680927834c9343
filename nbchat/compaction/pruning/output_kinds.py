"""Shorten a tool's output by its kind: search hits, table, file, JSON or plain text.

The kind is found by the form; the tool's name only decides where the form does not.
Small outputs stay as they are, and so does what reports a failure by its exit status.
Every gap states how much is missing.

JSON keeps its shape. Its leaves are kept by rank until the budget is full: status
fields, ids, numbers, then texts.
"""

import heapq
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from nbchat.compaction.results import Number, ends_in_failure, parsed, reports_failure
from nbchat.compaction.shortening import shorten, within

Count = Callable[[str], int]
"""Counts the tokens of a text."""

SMALL_TOKENS, SMALL_STRUCTURE_TOKENS = 200, 500
"""Tokens below which an output, or structured data, stays whole (seed 003)."""

FILE_LINES = 500
"""Lines up to which the content of a file stays whole (seed 003)."""

WHOLE_TOKENS, FILE_TOKENS = 8_000, 32_000
"""A table within its limit of rows, and an output that reports a failure, stay whole up
to the first; a file within its limit of lines up to the second: 500 lines of 64 tokens,
because one line may hold a megabyte."""

LONG_LINES = 20
"""Lines from which a text inside of JSON is an output, and not a field."""

ANSWER_TOKENS, TEXT_CHARACTERS = 400, 800
"""Tokens kept of a JSON answer (the size from which other engines clear an output: 400
tokens), and of a text or log: about 200 tokens."""

HEAD_LINES, TAIL_LINES, LINE_LIMIT = 20, 10, 160
"""Lines kept of a long file, the first and the last, and where each is clipped."""

WORTHWHILE = 0.8
"""A shortened output may be at most this share of the whole one."""

SEARCH_WORDS = frozenset(("search", "find", "query", "lookup", "retrieve"))
FILE_WORDS = frozenset(("file", "cat", "editor"))
"""Words in a tool's name that decide where the form of its output does not."""

MOST = 0.8
"""The share of lines that must have a form before the text counts as having it."""

LOOKED_AT = 200
"""Lines looked at to find a text's form."""

SNIPPET_LENGTH, TITLE_LENGTH = 160, 120

HITS_TOKENS, REST_TOKENS = 600, 60
"""Tokens kept of the hits of one search (about ten), and of everything else."""

TITLE_KEYS = ("title", "name", "headline")
URL_KEYS = ("url", "link", "href", "uri")
SNIPPET_KEYS = (
    *("snippet", "description", "summary", "excerpt", "abstract"),
    *("text", "content", "body"),
)

ADDRESS_LINE_LIMIT = 300
"""Characters of a line in which an address is looked for."""

_ADDRESS = re.compile(
    r"[-*\d.\s]*(?:(?:url|link|source|href)\s?[:=]\s?)?<?(https?://[^\s>]+)>?\s?",
    re.IGNORECASE,
)
_LINKED_TITLE = re.compile(r"[-*#\d.\s]*\[([^\]]+)\]\((https?://[^)\s]+)\)\s?")
_LABEL = re.compile(r"[-*#\d.)\s]*(?:title\s?:\s?)?", re.IGNORECASE)
_NUMBERED = re.compile(r"\s{0,10}(\d{1,9})[\t:|→]")
_FIELD = re.compile(r"[\s-]{0,40}[\w .-]{1,40}:(?:\s|$)")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


_CODE_LINE = re.compile(r"\s{2,200}[^\s|]|.{0,200}[(){};]\s{0,20}(?:,\s{0,20})?$")
"""An indented line, or one that ends as lines of code do."""

_RULE = re.compile(r"[-+|=:\s]{1,1000}")


class Hit(NamedTuple):
    """One search result."""

    title: str
    url: str
    snippet: str


def shortened(text: str, count: Count, *, tool_name: str = "") -> str:
    """The shortened output, or the same text where it should stay whole."""
    size = count(text)
    if size < SMALL_TOKENS:
        return text
    words = {word.lower() for word in _WORDS.findall(tool_name)}
    kept = _shortened(text, size, words, count)
    return kept if count(kept) <= size * WORTHWHILE else text


def shortened_at_once(text: str, count: Count, *, tool_name: str = "") -> str:
    """A new output, shortened if it is data: search hits, rows or fields of JSON.

    A text is not, whatever the tool's name is: what matters in it may be anywhere.
    """
    value = parsed(text)
    is_whole = is_text(value) if value is not None else not _is_data(text, count)
    return text if is_whole else shortened(text, count, tool_name=tool_name)


def _is_data(text: str, count: Count) -> bool:
    """True if a text is search hits, or a table in each of its lines.

    A log may look like a table, except for the line that matters.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    is_table = not _most(_CODE_LINE.match, lines) and any(
        all(map(_has_as_many(mark, lines), lines)) for mark in "|\t,;"
    )
    return is_table or len(lines) >= FILE_LINES or bool(_hits_in_text(text, count))


def is_text(value: Any) -> bool:
    """True if a JSON result is mostly an output of many lines."""
    fields = value.values() if isinstance(value, dict) else ()
    texts = (each for each in fields if type(each) is str)
    return any(each.count("\n") >= LONG_LINES for each in texts)


def _shortened(text: str, size: int, words: set[str], count: Count) -> str:
    value = parsed(text)
    has_failed = reports_failure(value, in_lists=True) or ends_in_failure(text)
    if has_failed and size < WHOLE_TOKENS:
        return text
    if value is None:
        return _shortened_text(text, size, words, count)
    if size < SMALL_STRUCTURE_TOKENS:
        return text
    found = _hits_in_value(value, count, is_search=bool(words & SEARCH_WORDS))
    if found is None and is_result_set(value) and size < WHOLE_TOKENS:
        return text
    return found or outline(value, ANSWER_TOKENS, count)


def _shortened_text(text: str, size: int, words: set[str], count: Count) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if _is_numbered(lines) or words & FILE_WORDS:
        return _file(text, size)
    head = _head(lines)
    if head is not None:
        return _table(text, lines, head, size)
    if found := _hits_in_text(text, count):
        return found
    if size < SMALL_STRUCTURE_TOKENS and _most(_FIELD.match, lines):
        return text
    return shorten(text, TEXT_CHARACTERS)


def _file(text: str, size: int) -> str:
    """A file of few lines, or the first and last lines of a long one, clipped."""
    lines = text.splitlines()
    if len(lines) <= FILE_LINES:
        return text if size < FILE_TOKENS else shorten(text, TEXT_CHARACTERS)
    last = len(lines) - TAIL_LINES
    gap = f"[lines {HEAD_LINES + 1} to {last:,} of {len(lines):,} omitted]"
    head, tail = map(_clipped, lines[:HEAD_LINES]), map(_clipped, lines[last:])
    return "\n".join([*head, gap, *tail])


def _table(text: str, lines: Sequence[str], head: int, size: int) -> str:
    rows = lines[head:]
    if len(rows) <= TABLE_ROWS:
        return text if size < WHOLE_TOKENS else shorten(text, TEXT_CHARACTERS)
    gap = f"[{len(rows) - SAMPLE_ROWS - 1:,} of {len(rows):,} rows omitted]"
    shown = [*lines[: head + SAMPLE_ROWS], gap, rows[-1]]
    return "\n".join(map(_clipped, shown))


def _head(lines: Sequence[str]) -> int | None:
    """How many lines are above a table's rows; None when it is no table."""
    if _most(_is_object, lines):
        return 0
    if not any(_most(_has_as_many(mark, lines), lines) for mark in "|\t,;"):
        return None
    if _most(_CODE_LINE.match, lines):
        return None
    return 2 if len(lines) > 1 and _RULE.fullmatch(lines[1]) else 1


def _is_object(line: str) -> bool:
    """True if this looks like a line of JSON Lines."""
    return line.startswith("{") and line.endswith("}")


def _has_as_many(mark: str, lines: Sequence[str]) -> Callable[[str], bool]:
    """True if a line has as many separators as the first; log lines have one comma."""
    wanted = lines[0].count(mark) if lines else 0
    is_mark = wanted >= (1 if mark == "\t" else 2)
    return lambda line: is_mark and line.count(mark) == wanted


def _is_numbered(lines: Sequence[str]) -> bool:
    """True if the lines carry numbers that count up, as `cat -n` and editors show."""
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


def _hits_in_value(
    value: dict[str, Any] | list[Any], count: Count, *, is_search: bool
) -> str | None:
    """The hits of a JSON result; None when it is no list of hits.

    A hit has a title and an address; that of a search tool, a title and a text.
    """
    items, rest = _items(value)
    hits = [_hit(item, is_search=is_search) for item in items]
    found = [hit for hit in hits if hit is not None]
    if not found or len(found) < len(hits):
        return None
    head = [outline(rest, REST_TOKENS, count)] if rest else []
    return "\n".join([*head, *_hit_lines(found, count)])


def _hits_in_text(text: str, count: Count) -> str | None:
    """The hits of a text, one block with an address line each; None without hits."""
    blocks = list(_blocks(text))
    hits = [hit for hit in map(_block_hit, blocks) if hit is not None]
    if len(hits) < 2 or len(hits) * 2 < len(blocks):  # noqa: PLR2004  # one is a page
        return None
    return "\n".join(_hit_lines(hits, count))


def _items(value: dict[str, Any] | list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The longest list in a result, and the other fields."""
    if isinstance(value, list):
        return value, {}
    lists = {key: inner for key, inner in value.items() if isinstance(inner, list)}
    longest = max(lists, key=lambda key: len(lists[key]), default=None)
    if longest is None:
        return [], value
    rest = {key: inner for key, inner in value.items() if key != longest}
    return lists[longest], rest


def _hit(item: Any, *, is_search: bool) -> Hit | None:
    if not isinstance(item, dict):
        return None
    hit = Hit(*(_field(item, keys) for keys in (TITLE_KEYS, URL_KEYS, SNIPPET_KEYS)))
    is_page = hit.url.startswith(("http://", "https://"))
    is_text = is_search and bool(hit.snippet)
    if not hit.title or not (is_page or is_text):
        return None
    number = item.get("id")
    named = isinstance(number, str) and len(number) <= TITLE_LENGTH
    return hit._replace(title=f"{hit.title} (id {number})") if named else hit


def _field(item: dict[str, Any], keys: Sequence[str]) -> str:
    return next((item[key] for key in keys if isinstance(item.get(key), str)), "")


def _blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines between blank ones."""
    block: list[str] = []
    for line in text.splitlines():
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _block_hit(block: Sequence[str]) -> Hit | None:
    """The hit of a block that has a line with only an address or a link."""
    for index, line in enumerate(block):
        if len(line) > ADDRESS_LINE_LIMIT:
            continue
        linked, address = _LINKED_TITLE.fullmatch(line), _ADDRESS.fullmatch(line)
        if not linked and (not address or len(block) == 1):
            continue
        others = [*block[:index], *block[index + 1 :]]
        if linked:
            return Hit(linked[1], linked[2], " ".join(others))
        if address:
            title = others[0][: ADDRESS_LINE_LIMIT + TITLE_LENGTH]
            return Hit(_LABEL.sub("", title, count=1), address[1], " ".join(others[1:]))
    return None


def _hit_lines(hits: Sequence[Hit], count: Count) -> list[str]:
    texts = [f"{number}. {_hit_text(hit)}" for number, hit in enumerate(hits, 1)]
    kept = within(texts, HITS_TOKENS, count)
    missing = len(texts) - len(kept)
    return [*kept, f"[{missing:,} more hits]"] if missing else kept


def _hit_text(hit: Hit) -> str:
    parts = (
        _one_line(hit.title, TITLE_LENGTH),
        hit.url[:ADDRESS_LINE_LIMIT],
        _one_line(hit.snippet, SNIPPET_LENGTH),
    )
    return "\n   ".join(filter(None, parts))


def _one_line(text: str, limit: int) -> str:
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


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
