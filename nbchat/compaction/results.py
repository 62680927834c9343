"""Read what a tool returned: JSON with numbers as written, tables, an exit status.

A table is CSV, Markdown, what psql and MySQL print, or a dataframe as pandas prints it.
Its rows are objects with the columns as names. Values stay as they are written; a text
that is no table for sure stays a text.

A process's exit status tells that a call failed, never words in its output, so that no
program's messages and no language have to be known. What else says that a call failed
is its error mark, `is_error`.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
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


LONGEST_RESULT = 2_000_000
"""Characters of a result that is read as objects; longer ones are words only."""

MOST_ROWS = 2_000
"""Rows that are read of one result: more than any allowance has room for."""

MOST_DEPTH = 8
"""Levels of nesting that are read."""

LONGEST_COLUMN = 60
"""Characters of a column's name; longer ones are sentences."""

LONGEST_LINE = 1_000
"""Characters of a line of a printed dataframe; pandas breaks lines much earlier."""

SAMPLE = 4
"""Lines from which the names of a table's columns are known."""

KEY = "key"
"""The field of an object that only its key in another object names."""

CURSOR = "cursor"
"""The field beside each object in a page of GraphQL, by its specification."""

Node = dict[str, Any]

_SIZE = re.compile(r"[\d,]+ rows x [\d,]+ columns, as CSV:\n")
_MORE_ROWS = re.compile(r"\.\.\. [\d,]+ more rows")
_RULE = re.compile(r"\|?[ :]*-+[ :]*(?:[|+][ :]*-+[ :]*)*\|?|\+[-=+]+\+")
_COLUMN = re.compile(r"[^\W\d](?:[^\n,;.!?:]|[.:]\w)*")
_ID = re.compile(r"(?:^|[_\s-])id$|^ID$|[a-z\d]I[dD]$|_ID$", re.ASCII)
_BOXES = str.maketrans(
    dict.fromkeys("│┃┆", "|")
    | dict.fromkeys("─━═", "-")
    | dict.fromkeys("┌┬┐├┼┤└┴┘╞╪╡╭╮╰╯┏┳┓┡╇┩", "+")
)
"""Lines around the cells of polars and rich, as others write them."""
_FRAME_SIZE = re.compile(r"\[\d+ rows x \d+ columns\]")


@dataclass(frozen=True, slots=True)
class Siblings:
    """Objects that stand in one list, or one object that stands alone."""

    objects: tuple[Node, ...]
    is_list: bool
    place: str = ""
    """The field that holds them; empty at the top."""


def is_id(name: str) -> bool:
    """True if a field's name says that it holds an id: `id`, `order_id`, `orderId`."""
    return _ID.search(name) is not None


def read_result(text: str) -> Node | list[Any] | None:
    """The JSON of a result, or the rows of its table; None where it is words."""
    if len(text) > LONGEST_RESULT:
        return None
    opening = text.lstrip()[:1]
    if opening == '"':
        text = _inner_text(text)
    value = parsed(text)
    if value is None:
        value = _json_lines(text) if opening == "{" else _table(text)
    return value


def _inner_text(text: str) -> str:
    """The text that is written as a JSON string."""
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return inner if isinstance(inner, str) else text


def _json_lines(text: str) -> list[Any] | None:
    lines = [line for line in text.splitlines() if line.strip()][:MOST_ROWS]
    rows = [parsed(line) for line in lines]
    return (
        rows if len(rows) > 1 and all(isinstance(row, dict) for row in rows) else None
    )


def siblings_in(value: Any, is_named: Callable[[Node], bool]) -> list[Siblings]:
    """The objects of a result, taken out of the wrappers around them.

    An object is a wrapper if it has no name of its own, and one of its fields holds
    objects that have, or a list of objects; or all that it has are such fields.
    `is_named` tells which objects have a name, such as an id.
    """
    found, count = list[Siblings](), 0
    for siblings in _siblings(value, is_named, "", 0):
        found.append(siblings)
        count += len(siblings.objects)
        if count >= MOST_ROWS:
            break
    return found


def _siblings(
    value: Any, is_named: Callable[[Node], bool], place: str, depth: int
) -> Iterator[Siblings]:
    if depth > MOST_DEPTH:
        return
    if isinstance(value, dict):
        value = value if is_named(value) else _rows_in(value) or value
    if isinstance(value, list):
        yield from _siblings_of_list(value, is_named, place, depth)
    elif isinstance(value, dict):
        inner = _wrapped(value, is_named, depth)
        rest = {name: each for name, each in value.items() if name not in inner}
        if rest:
            yield Siblings((rest,), is_list=False, place=place)
        for name in inner:
            yield from _siblings(value[name], is_named, name, depth + 1)


def _siblings_of_list(
    value: list[Any], is_named: Callable[[Node], bool], place: str, depth: int
) -> Iterator[Siblings]:
    objects = [
        _only_inner(each) for each in value[:MOST_ROWS] if isinstance(each, dict)
    ]
    if objects:
        yield Siblings(tuple(objects), is_list=True, place=place)
    for each in value[:MOST_ROWS]:
        if isinstance(each, list):
            yield from _siblings(each, is_named, place, depth + 1)


def _only_inner(node: Node) -> Node:
    """The object inside an object that has nothing else, such as `{"node": {...}}`."""
    rest = [each for name, each in node.items() if name != CURSOR]
    inner = rest[0] if len(rest) == 1 else None
    return inner if isinstance(inner, dict) and inner else node


def _wrapped(node: Node, is_named: Callable[[Node], bool], depth: int) -> list[str]:
    """The fields of a wrapper that hold objects."""
    if is_named(node):
        return []
    holding = [n for n, each in node.items() if _holds(each, is_named, depth + 1)]
    return holding if len(holding) == 1 or len(holding) == len(node) else []


def _holds(value: Any, is_named: Callable[[Node], bool], depth: int) -> bool:
    if depth > MOST_DEPTH:
        return False
    if isinstance(value, list):
        return any(isinstance(each, dict) for each in value[:MOST_ROWS])
    if not isinstance(value, dict):
        return False
    if is_named(value) or _rows_in(value):
        return True
    return any(_holds(each, is_named, depth + 1) for each in value.values())


def _rows_in(node: Node) -> list[Any] | None:
    """The rows of an object that holds them by column, or by their ids."""
    return _rows_apart(node) or _rows_by_column(node) or rows_by_key(node)


def _rows_apart(node: Node) -> list[Any] | None:
    """Rows that are lists, beside a list of the names of their columns."""
    lists = [each for each in node.values() if isinstance(each, list) and each]
    columns = [each for each in lists if all(isinstance(name, str) for name in each)]
    for names in columns:
        for rows in lists:
            is_table = 1 < len(names) == len(set(names)) and all(
                isinstance(row, list) and len(row) == len(names) for row in rows
            )
            if is_table:
                return [dict(zip(names, row, strict=True)) for row in rows[:MOST_ROWS]]
    return None


def _rows_by_column(node: Node) -> list[Any] | None:
    """The rows of columns that are objects with the numbers of the rows as keys."""
    columns = list(node.values())
    if len(columns) <= 1 or not all(isinstance(each, dict) for each in columns):
        return None
    keys = list(map(str, range(len(columns[0]))))
    if not keys or any(list(each) != keys for each in columns):
        return None
    return [{name: each[k] for name, each in node.items()} for k in keys[:MOST_ROWS]]


def rows_by_key(node: Node) -> list[Any] | None:
    """Objects whose keys are their ids: each key has a digit, as no field's name has.

    The key becomes a field where no field of the object says it already.
    """
    is_keyed = bool(node) and all(
        isinstance(each, dict) and any(map(str.isdigit, name))
        for name, each in node.items()
    )
    return [with_key(name, each) for name, each in node.items()] if is_keyed else None


def with_key(name: str, node: Node) -> Node:
    """An object with its key as a field, unless one of its fields has that value."""
    return node if name in node.values() else {KEY: name, **node}


def _table(text: str) -> list[Any] | None:
    """The rows of a text that is a table."""
    declared = _SIZE.match(text)
    lines = text[declared.end() if declared else 0 :].strip("\r\n").split("\n")
    lines = [line.rstrip("\r") for line in lines[: MOST_ROWS + 1]]
    if len(lines) <= 1:
        return None
    if declared:
        rows = _separated([each for each in lines if not _MORE_ROWS.fullmatch(each)])
    else:
        rows = _ruled(lines) or _printed_frame(lines) or _undeclared(lines)
    return _as_objects(rows)


def _ruled(lines: Sequence[str]) -> list[list[str]]:
    """The rows of a table with a rule below its header, text around it left out."""
    rules = (n for n, line in enumerate(lines) if n and _is_rule(line, lines[n - 1]))
    rule = next(rules, None)
    if rule is None:
        return []
    rows = [_ruled_cells(lines[rule - 1])]
    for line in lines[rule + 1 :]:
        if "|" not in line:
            break
        rows.append(_ruled_cells(line))
    return rows


def _is_rule(line: str, header: str) -> bool:
    is_rule = ("|" in line or "+" in line) and _RULE.fullmatch(line.strip())
    return bool(is_rule) and "|" in header


def _ruled_cells(line: str) -> list[str]:
    line = line.strip()
    has_edges = line.startswith("|") and line.endswith("|") and len(line) > 1
    cells = re.split(r"(?<!\\)\|", line[1:-1] if has_edges else line)
    return [cell.strip().replace("\\|", "|") for cell in cells]


def headers(text: str) -> Iterator[list[str]]:
    """The names of the columns of each table in a text, wherever it stands."""
    lines = text.translate(_BOXES).splitlines()[:MOST_ROWS]
    for is_blank, run in groupby(lines, lambda line: not line.strip()):
        if not is_blank:
            yield from _headers([line[:LONGEST_LINE] for line in run])


def _headers(lines: Sequence[str]) -> Iterator[list[str]]:
    """Those of the tables in lines without a blank one between them."""
    if rows := _ruled(lines):
        yield rows[0]
        return
    separated = _as_objects(_undeclared(lines[:SAMPLE])) or []
    if separated and not any(name == row[name] for row in separated for name in row):
        yield list(separated[0])
        return
    for at, line in enumerate(lines):
        if not at or line.startswith(" "):  # above the index
            yield from (names[1:] for names in _frame(lines[at : at + SAMPLE])[:1])


def _printed_frame(lines: Sequence[str]) -> list[list[str]]:
    """The rows of a dataframe as pandas prints it, without numbers of rows.

    Not of one that lost its first indentation, or that goes on below.
    """
    is_whole = lines[0].startswith(" ") and not lines[0].endswith("\\")
    rows = _frame(lines) if is_whole else []
    body = [row for row in rows[1:] if set("".join(row)) - {"."}]
    if all(row[0] == str(number) for number, row in enumerate(body)):
        return [row[1:] for row in [*rows[:1], *body]]
    return [rows[0], *body] if len(rows[0]) > 2 else []  # noqa: PLR2004  # text has two by chance


def _frame(lines: Sequence[str]) -> list[list[str]]:
    """The cells of lines that are a dataframe as pandas prints it, its index first.

    Its columns end below the last letters of their names; no rows are found where a
    line differs from that. Only the first line may have lost its indentation.
    """
    lines = [line.rstrip("\\ ") for line in lines if not _FRAME_SIZE.fullmatch(line)]
    lines = [line for line in lines if line]
    if len(lines) <= 1 or max(map(len, lines)) > LONGEST_LINE:
        return []
    label = "index"
    if len(lines[1].split()) == 1 < len(lines) - 1 and not lines[1].startswith(" "):
        label = lines.pop(1)  # the name of the index has a line of its own
    lines[0] = lines[0].rjust(max(map(len, lines[1:])))
    ends = _column_ends(lines[0], lines[1:])
    cells = [_frame_cells(line, ends) for line in lines]
    names = cells[0]
    is_even = len(ends) > 1 and all(cells) and not names[0] and all(names[1:])
    if not is_even or any("  " in name for name in names):
        return []
    return [[label, *names[1:]], *cells[1:]]


def _column_ends(header: str, lines: Sequence[str]) -> list[int]:
    """Where the columns of printed rows end: two spaces follow in all rows.

    One is enough where a name ends and two spaces follow in the header: a minus sign
    takes the place of a space.
    """
    width = max(map(len, [header, *lines]))
    columns = zip(*(line.ljust(width) for line in lines), strict=True)
    is_blank = [set(signs) == {" "} for signs in columns] + [True, True]
    names = header.ljust(width + 2)
    ends = []
    for at in range(width):
        ends_name = names[at] != " " and names[at + 1 : at + 3] == "  "
        is_gap = is_blank[at + 1] and (is_blank[at + 2] or ends_name)
        if is_gap and not is_blank[at]:
            ends.append(at + 1)
    return ends


def _frame_cells(line: str, ends: Sequence[int]) -> list[str]:
    """The cells of a printed row; none where one does not end at its column's end."""
    cells = [line[a:b] for a, b in pairwise([0, *ends])]
    is_even = len(line.rstrip()) == ends[-1] and all(
        cell.startswith(" ") and not cell.endswith(" ") for cell in cells[1:]
    )
    return [cell.strip() for cell in cells] if is_even else []


def _undeclared(lines: Sequence[str]) -> list[list[str]]:
    """The rows of CSV whose header cannot be prose: its names follow without spaces."""
    sign = next((sign for sign in "\t;,|" if sign in lines[0]), "")
    if not sign:
        return []
    rows = _separated(lines, sign)
    is_header = bool(rows) and all(
        len(name) <= LONGEST_COLUMN and _COLUMN.fullmatch(name) for name in rows[0]
    )
    is_sure = len(rows[1:]) > 1 or any(map(is_id, rows[0] if rows else ()))
    return rows if is_header and is_sure else []


def _separated(lines: Sequence[str], sign: str = ",") -> list[list[str]]:
    try:
        return list(csv.reader([f"{line}\n" for line in lines], delimiter=sign))
    except csv.Error:
        return []


def _as_objects(rows: Sequence[Sequence[str]]) -> list[Any] | None:
    """Rows below a header as objects, if all are of one length and the names differ."""
    if len(rows) <= 1:
        return None
    header = [name.strip() or "index" for name in rows[0]]
    is_even = all(len(row) == len(header) for row in rows)
    if not is_even or not 1 < len(header) == len(set(header)):
        return None
    return [dict(zip(header, row, strict=True)) for row in rows[1:]]
