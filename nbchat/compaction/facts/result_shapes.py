"""Read common forms of results as lists of records.

Connections of GraphQL (`edges` and `nodes`), pages of search servers, rows with their
columns apart, and tables in text: CSV, as dataframes are returned, Markdown, those of
psql and MySQL, and aligned columns, as of kubectl.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from nbchat.compaction.facts.tool_names import singular, snake, word_set

MOST_ROWS, LEAST_ROWS, LEAST_COLUMNS = 2_000, 2, 2
"""Rows that are read of a table in text; rows and columns that make text a table."""

LONGEST_COLUMN, LONGEST_TABLE, OPENING = 40, 500_000, 200
"""Characters of a column's name, of a text that may be a table, and of the opening in
which an envelope shows."""

_LISTS = ("edges", "nodes", "hits", "items", "data", "results", "records", "elements")
"""Names of a list inside an object that is only its page."""

_PAGE = word_set(
    """
    _links count cursor done expand has_more hasMore href incomplete_results isLast
    IsTruncated jsonapi kind limit links maxResults max_score meta next next_cursor
    nextPageToken nextRecordsUrl next_page next_page_token object offset ok page
    pageInfo page_info pagination paging per_page previous previous_page
    response_metadata size startAt success total totalCount totalSize total_count
    truncated url
    """
)
"""Fields of a page beside its list."""

_COLUMNS = ("columns", "column_names", "fields", "header", "headers", "schema")
_ROWS = ("rows", "data", "values", "records")

_SIZE = re.compile(r"[\d,]+ rows x [\d,]+ columns, as CSV:\n")
_SINGLE = re.compile(r"(?=.*(?:_id|Id|\bid)\b)\w+(?:[,\t]\w+){2,}\n[^\n]+")
"""One record below the names of its fields, of which one is an id."""

_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+|-+(?:\+-+)+|\+[-=]+(?:\+[-=]+)+\+")
"""The line below the header of a table in Markdown, of psql and of MySQL."""

_ROW_COUNT = re.compile(r"\(\d+ rows?\)|\d+ rows? in set.*")
_ALIGNED = re.compile(r"[A-Z][A-Z0-9_()%-]*(?: [A-Z0-9_()%-]+)?(?= {2,}|$)")
"""The name of an aligned column, as of kubectl, with at least two spaces after it."""

_NAME = re.compile(r"[^\W\d](?:[^\n,;.!?]|\.\w)*")


def as_list(node: dict[str, Any]) -> list[Any] | None:
    """The records of an object that is only a page of them; None for another one."""
    if (rows := as_rows(node)) is not None:
        return rows
    own = {name: value for name, value in node.items() if not _is_about_page(name)}
    if len(own) != 1:
        return None
    name, items = next(iter(own.items()))
    if name == "_embedded" and isinstance(items, dict) and len(items) == 1:  # HAL
        items = next(iter(items.values()))
    elif name == "value" and len(node) == 1:  # of OData it comes with its context
        return None
    if not isinstance(items, list) or not items:
        return None
    is_page = len(node) > 1 and all(isinstance(each, dict) for each in items)
    return items if is_page or name in (*_LISTS, "_embedded", "value") else None


def _is_about_page(name: str) -> bool:
    return name in _PAGE or name.startswith("@odata.")


def as_rows(node: dict[str, Any]) -> list[Any] | None:
    """The rows of an object that holds its columns apart; None for another one.

    Its columns may be objects with the numbers of rows as keys, as of a dataframe.
    """
    numbered = [v.keys() for v in node.values() if isinstance(v, dict)]
    if len(node) > 1 and len(numbered) == len(node) and numbered[0]:
        count = len(numbered[0])
        if all(list(keys) == list(map(str, range(count))) for keys in numbered):
            return [{n: v[str(at)] for n, v in node.items()} for at in range(count)]
    columns: list[Any] = next(
        (node[n] for n in _COLUMNS if isinstance(node.get(n), list)), []
    )
    names = [each.get("name") if isinstance(each, dict) else each for each in columns]
    rows: list[Any] = next(
        (node[name] for name in _ROWS if isinstance(node.get(name), list)), []
    )
    is_table = (
        len(set(map(str, names))) == len(names) > 1
        and all(isinstance(name, str) for name in names)
        and rows
        and all(isinstance(row, list) and len(row) == len(names) for row in rows)
    )
    return [dict(zip(names, row, strict=True)) for row in rows] if is_table else None


def item_of(node: dict[str, Any]) -> dict[str, Any]:
    """The record of an item: `node` of an edge, `_source` of a hit, or a resource."""
    if isinstance(node.get("attributes"), dict) and {"type", "id"} <= node.keys():
        return _resource(node)
    if isinstance(node.get("node"), dict) and node.keys() <= {"node", "cursor"}:
        return dict(node["node"])
    if isinstance(node.get("_source"), dict):
        own = {name: node[name] for name in ("_id",) if name in node}
        return {**own, **node["_source"]}
    return node


def _resource(node: dict[str, Any]) -> dict[str, Any]:
    """A resource of JSON:API as a record that has the ids it refers to."""
    related = node.get("relationships")
    found = {}
    for name, each in related.items() if isinstance(related, dict) else ():
        data = each.get("data") if isinstance(each, dict) else None
        if isinstance(data, dict) and "id" in data:
            found[f"{name}_id"] = data["id"]
    own = {f"{singular(snake(str(node['type'])))}_id": node["id"]}
    return {**own, **found, **node["attributes"]}


def unwrapped_text(text: str) -> str:
    """The JSON inside of a string in JSON, a list of texts, or lines of JSON."""
    try:
        if text.startswith('"'):
            inner = json.loads(text)
            return inner if isinstance(inner, str) else text
        if text.startswith("{") and '"type"' in text[:OPENING]:
            (content,) = json.loads(text)["content"]
            return str(content["text"])
        lines = text.strip().splitlines()
        if text.startswith("{") and len(lines) > 1:
            for line in lines:
                json.loads(line)
            return f"[{','.join(lines)}]"
    except (ValueError, RecursionError, KeyError, TypeError):
        pass
    return text


def table_in(text: str) -> list[dict[str, str]] | None:
    """The rows of a text that is a table and nothing else; None for another text."""
    if len(text) > LONGEST_TABLE:
        return None
    size = _SIZE.match(text)
    lines = text[size.end() if size else 0 :].strip("\n ").splitlines()
    if len(lines) > LEAST_ROWS and any(map(_is_rule, lines[:2])):
        rows = list(_ruled_rows(lines))
    elif len(lines) > 1 and (starts := _aligned_starts(lines[0])):
        rows = list(_aligned_rows(lines, starts))
    elif size or len(lines) > LEAST_ROWS or _SINGLE.fullmatch("\n".join(lines)):
        rows = _separated(lines[: MOST_ROWS + 1], is_declared=size is not None)
    else:
        return None
    return _records(rows)


def _is_rule(line: str) -> bool:
    return _RULE.fullmatch(line.strip()) is not None


def _ruled_rows(lines: Sequence[str]) -> Iterator[list[str]]:
    """The rows of a table with a rule below its header."""
    is_row = (each for each in lines if not _is_rule(each))
    rows = (each.strip() for each in is_row if not _ROW_COUNT.fullmatch(each.strip()))
    for line in islice(filter(None, rows), MOST_ROWS + 1):
        has_edges = line.startswith("|") and line.endswith("|")
        yield [cell.strip() for cell in (line[1:-1] if has_edges else line).split("|")]


def _aligned_starts(header: str) -> list[int]:
    """Where the columns of an aligned table start; empty for another header."""
    found = list(_ALIGNED.finditer(header.rstrip()))
    is_whole = not _ALIGNED.sub("", header.rstrip()).strip()
    return [each.start() for each in found] if is_whole and len(found) > 1 else []


def _aligned_rows(lines: Sequence[str], starts: Sequence[int]) -> Iterator[list[str]]:
    """The rows of an aligned table; none where a value reaches into another column."""
    stops = [*starts[1:], None]
    for line in islice(lines, MOST_ROWS + 1):
        if any(line[start - 1 : start].strip() for start in starts[1:]):
            yield []
        yield [line[a:b].strip() for a, b in zip(starts, stops, strict=True)]


def _separated(lines: Sequence[str], *, is_declared: bool) -> list[list[str]]:
    sign = "," if is_declared else next((s for s in "\t;," if s in lines[0]), "")
    try:
        rows = list(csv.reader(lines, delimiter=sign)) if sign else []
    except csv.Error:
        return []
    is_table = is_declared or (rows and all(map(_is_column, rows[0])))
    return rows if is_table else []


def _is_column(name: str) -> bool:
    return len(name) <= LONGEST_COLUMN and _NAME.fullmatch(name.strip()) is not None


def _records(rows: Sequence[Sequence[str]]) -> list[dict[str, str]] | None:
    """Rows as records, if all are of one length and the columns differ."""
    if not rows:
        return None
    header = [name.strip() or "index" for name in rows[0]]
    is_even = all(len(row) == len(header) for row in rows)
    if not is_even or not len(set(header)) == len(header) >= LEAST_COLUMNS:
        return None
    return [dict(zip(header, row, strict=True)) for row in rows[1:]] or None
