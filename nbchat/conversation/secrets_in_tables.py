"""Find secrets in tables: below a column's name, or beside a name in a row.

CSV, TSV and text with semicolons, tables of Markdown, of `psql` and `mysql`, frames as
pandas prints them, and HTML. `secret_masking` says what a name is, and which values are
none; here is only where the values of a name are.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from nbchat.conversation.entries import Span

LONGEST_LINE = 4_000
"""Characters of a line that is read as a row of a table."""

LONGEST_NAME = 40
"""Characters of a column's name; what is longer is a sentence."""

MOST_WORDS = 4
"""Of a column's name."""

LEAST = 3
"""Characters of a value."""

_RULE = re.compile(r"[\s|+:=-]+")
"""A line between the rows of a table."""

_CELLS = {
    "|": re.compile(r"[^|]+"),
    "\t": re.compile(r"[^\t]+"),
    ",": re.compile(r'"(?:[^"]|"")*"|[^,]+'),
    ";": re.compile(r'"(?:[^"]|"")*"|[^;]+'),
    "": re.compile(r"\S+(?: \S+)*"),
}
"""The cells of a line by what separates them; nothing: two spaces."""

_EDGES = " \t\r\"'*_`"
"""Signs around a name or a value that are no part of it."""

_STATEMENT = re.compile(
    r"(?:select|insert|update|from|import|def|class|return|with)\b", re.IGNORECASE
)
"""A line of a program that names columns or arguments."""

_HTML_CELL = re.compile(
    r"</t[dh]>\s*<t[dh](?: [^>]{0,100})?>\s*"
    r"([^<\s](?:[^<]{1,200}?[^<\s])?)(?=\s*</t[dh]>)"
)
"""A cell of HTML after another one."""

_HEAD = re.compile(r"\w[\w .#%()/-]*")
"""The name of a column."""

_MIXED = re.compile(r"(?=\D*\d)(?=[^^]*[^\W\d_]).{5,}", re.DOTALL)
"""Letters and digits: the value of a name that may also be a word's."""

Cells = list[Span]

IsName = Callable[[str], bool]
IsValue = Callable[[str, str], bool]
"""True if a text may be the secret of a name."""


def secret_cells(
    text: str, names: Iterable[Span], is_name: IsName, is_value: IsValue
) -> Iterator[Span]:
    """Where values of secret names are in tables; `names` are where names end cells.

    Each line is read as a heading once, and as a row once.
    """
    read, covered = -1, -1
    for place, _ in names:
        start, stop = _line_at(text, place)
        if start == read or stop - start > LONGEST_LINE:
            continue
        read = start
        separator = _separator(text[start:stop])
        cells = _cells(text, start, stop, separator)
        secret = [n for n, cell in enumerate(cells) if _is_named(text, cell, is_name)]
        if not secret or len(cells) < 2:  # noqa: PLR2004  # a name and something else
            continue
        if (beside := _beside(text, cells, secret[0], is_value)) is not None:
            yield beside
        elif start >= covered and _is_heading(text, start, cells, separator):
            below = [(_bare(text, cells[each]), each) for each in secret]
            for covered, row in _rows(text, stop, len(cells), separator):
                at = start, covered
                found = ((n, _below(cells, i, row, separator, at)) for n, i in below)
                yield from _values(text, found, is_value)


def _values(
    text: str, found: Iterable[tuple[str, Span | None]], is_value: IsValue
) -> Iterator[Span]:
    """The cells that are secrets of their names."""
    for name, cell in found:
        value = "" if cell is None else _bare(text, cell)
        if (
            cell is not None
            and len(value.split()) <= MOST_WORDS
            and is_value(name, value)
        ):
            yield _inner(text, cell)


def secret_html_cells(text: str, is_name: IsName, is_value: IsValue) -> Iterator[Span]:
    """Where values of secret names are in cells of HTML, beside their names."""
    if "</t" not in text:
        return
    for found in _HTML_CELL.finditer(text):
        before = text[max(0, found.start() - LONGEST_NAME) : found.start()]
        name = before.rpartition(">")[2].strip()
        if is_name(name) and is_value(name, found[1]):
            yield found.span(1)


def is_mixed(value: str) -> bool:
    """True if a value has letters and digits, as words of a language have not."""
    return _MIXED.fullmatch(value) is not None


def _line_at(text: str, place: int) -> Span:
    start = text.rfind("\n", 0, place) + 1
    stop = text.find("\n", place)
    return start, len(text) if stop < 0 else stop


def _separator(line: str) -> str:
    return next((each for each in "|\t,;" if each in line.strip(" ,;")), "")


def _cells(text: str, start: int, stop: int, separator: str) -> Cells:
    """The cells of a line, without the empty ones at its edges."""
    found = (each.span() for each in _CELLS[separator].finditer(text, start, stop))
    if separator != "|":
        return list(found)
    cells = list(found)
    return [each for each in cells if text[slice(*each)].strip()]


def _bare(text: str, cell: Span) -> str:
    return text[slice(*cell)].strip(_EDGES)


def _inner(text: str, cell: Span) -> Span:
    """A cell without what stands around its value."""
    value = text[slice(*cell)]
    start = cell[0] + len(value) - len(value.lstrip(_EDGES))
    return start, start + len(value.strip(_EDGES))


def _is_named(text: str, cell: Span, is_name: IsName) -> bool:
    name = _bare(text, cell)
    is_short = len(name) <= LONGEST_NAME and len(name.split()) <= MOST_WORDS
    return is_short and is_name(name)


def _beside(text: str, cells: Cells, number: int, is_value: IsValue) -> Span | None:
    """The value beside a name: the last cell of a row that has nothing else.

    A row of a frame begins with its number.
    """
    is_last = number == len(cells) - 2
    is_first = number == 0 or (number == 1 and _bare(text, cells[0]).isdecimal())
    if not (is_last and is_first):
        return None
    value = _bare(text, cells[number + 1])
    is_one = (
        " " not in value
        and is_mixed(value)
        and is_value(_bare(text, cells[number]), value)
    )
    return _inner(text, cells[number + 1]) if is_one else None


def _is_heading(text: str, start: int, cells: Cells, separator: str) -> bool:
    """True if a line names columns: no row below others, no sentence, no program."""
    line = text[start : cells[-1][1]]
    if _STATEMENT.match(line.strip()) or not all(
        len(name) <= LONGEST_NAME and _HEAD.fullmatch(name)
        for name in (_bare(text, each) for each in cells)
    ):
        return False
    above = _line_at(text, start - 1) if start else (0, 0)
    if separator in text[slice(*above)]:
        width = len(_cells(text, *above, separator))
        is_row = width > 1 if separator == "" else width == len(cells)
        if is_row and not _RULE.fullmatch(text[slice(*above)]):
            return False
    if separator == "|":
        return "| " in line or " |" in line
    has_spaces = any(" " in _bare(text, each) for each in cells)
    return separator != "," or ", " not in line or not (has_spaces or len(cells) < 3)  # noqa: PLR2004


def _rows(
    text: str, stop: int, width: int, separator: str
) -> Iterator[tuple[int, Cells]]:
    """The rows below a heading, each with where it begins; lines between them not."""
    while stop < len(text):
        start, stop = _line_at(text, stop + 1)
        line = text[start:stop]
        if _RULE.fullmatch(line) and line.strip():
            continue
        if len(line) > LONGEST_LINE or (separator and separator not in line):
            return
        row = _cells(text, start, stop, separator)
        is_row = len(row) == width if separator else bool(row)
        if not is_row:
            return
        yield start, row


def _below(
    cells: Cells, number: int, row: Cells, separator: str, lines: Span
) -> Span | None:
    """The cell of a row below a column's name; without separators by where it is."""
    if separator:
        return row[number]
    head, line = lines
    left, right = cells[number][0] - head, cells[number][1] - head
    for start, stop in row:
        if start - line == left or stop - line == right:
            return start, stop
    return None
