"""Describe a table: for each column what it holds, then the rows that tell most.

Small tables are shown whole. Figures are exact up to 200,000 rows; of more rows
shape and types are exact, and the rest comes from rows that are spread evenly, which
the text says. Tables of pandas, polars, pyarrow and geopandas are read by the methods
of these libraries themselves: a subclass is read as the class that it comes from.
"""

import csv
import io
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from nbchat.chat.attachments.column_summary import (
    FIRST_ROWS,
    Summary,
    numeric_note,
    of_array,
    of_keys,
    of_objects,
    spread,
    summary_text,
)
from nbchat.chat.attachments.short_repr import cell, cell_text, comes_from, described
from nbchat.conversation.live_variables import is_one_of, member, type_name
from nbchat.conversation.secret_masking import HIDDEN, is_secret_name

WHOLE_ROWS, WHOLE_CHARACTERS = 200, 6_000
"""Rows and characters of the longest table that is shown whole: 2,000 tokens."""

TELLING_ROWS = 6
"""Most rows with missing values or extremes that are shown after the first ones."""

COLUMNS_DESCRIBED, NAMES_SHOWN = 60, 200
"""Columns that are summarized, and names of further ones that are listed."""

ROW_CHARACTERS = 300
"""Characters of a row; further columns are left out of the rows, with a note."""

WHOLE_CELLS, WHOLE_TEXT = 20_000, 2_000_000
"""Cells and characters of a table that can be sent whole: a fifth of a second to write
the cells, and a second to find secrets in the characters."""

FLOATS = ("float", "double", "halffloat")
"""How the names of float types begin in polars and pyarrow."""

_FOREIGN = "…"
"""Shown for the values of a column whose type no known package defines."""

Hides = Callable[[str], bool]
"""True if the texts in a column of this name are hidden."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is read: at the positions of its table's `places`."""

    name: object
    dtype: str
    summarize: Callable[[], Summary]
    value: Callable[[int], object] | None
    """The value at a position among those that are looked at; None: not readable."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of any library."""

    rows: int
    columns: Sequence[Column]
    more_names: Sequence[object]
    """Names of columns that are not described."""
    label: Callable[[int], object]
    """The label of a row, by its number."""
    places: Sequence[int]
    """Numbers of the rows that are looked at."""
    total: str = ""
    """How many rows there are, where these are only some of them."""

    @property
    def is_exact(self) -> bool:
        """True if all rows are looked at."""
        return len(self.places) == self.rows and not self.total


def table_lines(value: object, is_hidden: Hides = is_secret_name) -> list[str] | None:
    """The lines about a table; None if the value is no table of a known library."""
    for as_plain, read in _READERS:
        if (plain := as_plain(value)) is not None:
            head = described(plain)
            if type(plain) is not type(value):
                own, known = type_name(type(value)), type(plain).__name__
                name = own.rpartition(".")[2]
                head = f"{name} (a {known}){head.removeprefix(known)}"
            return [head, *_lines(read(plain), is_hidden)]
    return None


def table_csv(value: object, is_hidden: Hides = is_secret_name) -> str:
    """All rows of a table as CSV; empty for what is no table, or is too large."""
    for as_plain, read in _READERS:
        if (plain := as_plain(value)) is not None:
            table = read(plain)
            cells = table.rows * len(table.columns)
            if table.more_names or not table.is_exact or cells > WHOLE_CELLS:
                return ""
            return _csv(table, is_hidden)
    return ""


def _csv(table: Table, is_hidden: Hides) -> str:
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(_name(column.name) for column in table.columns)
    for place in range(table.rows):
        rows.writerow(_whole(each, place, is_hidden) for each in table.columns)
        if file.tell() > WHOLE_TEXT:
            return ""
    return file.getvalue()


def _whole(column: Column, place: int, is_hidden: Hides) -> str:
    """The value at a place; a text in full."""
    shown = _shown(column, place, is_hidden=is_hidden)
    if shown in (HIDDEN, _FOREIGN) or column.value is None:
        return shown
    value = column.value(place)
    return value if type(value) is str else shown


def frame_lines(frame: object, *, total: str = "") -> list[str]:
    """The lines about the rows that were read of a file, without its shape.

    `total` is how many it has, where these are only some of them.
    """
    for as_plain, read in _READERS:
        if (plain := as_plain(frame)) is not None:
            table = replace(read(plain), total=total)
            return list(_lines(table, is_secret_name))
    return []


def _lines(table: Table, is_hidden: Hides) -> Iterator[str]:
    """The figures of each column, and rows."""
    found = [_summary(column) for column in table.columns]
    if table.columns and table.rows:
        yield _basis(table)
        yield from map(partial(_column_line, is_hidden=is_hidden), table.columns, found)
    if table.more_names:
        names = ", ".join(map(_name, table.more_names[:NAMES_SHOWN]))
        yield f"{len(table.more_names):,} more columns: {names}"
    yield from _rows(table, found, is_hidden)


def _basis(table: Table) -> str:
    if table.is_exact:
        return "columns:"
    return f"columns, with figures from {len(table.places):,} rows spread evenly:"


def _summary(column: Column) -> Summary:
    try:
        return column.summarize()
    except Exception:  # noqa: BLE001  # libraries raise errors of all kinds
        return Summary()


def _column_line(column: Column, found: Summary, *, is_hidden: Hides) -> str:
    show = partial(_shown, column, is_hidden=is_hidden)
    text = summary_text(found, show)
    return f"- {_name(column.name)}: {'; '.join(filter(None, (column.dtype, text)))}"


def _name(name: object) -> str:
    """A column's name; that of an unnamed series says what it has."""
    return "values" if name is None else cell(name)


def _shown(column: Column, place: int, *, is_hidden: Hides) -> str:
    """The value at a place; one that cannot be read costs itself alone."""
    if column.value is None:
        return _FOREIGN
    try:
        value = column.value(place)
        if type(column.name) is str and type(value) is str and is_hidden(column.name):
            return HIDDEN
        return cell(value)
    except Exception:  # noqa: BLE001  # as above
        return _FOREIGN


def _rows(table: Table, found: Sequence[Summary], is_hidden: Hides) -> Iterator[str]:
    if _may_be_whole(table):
        lines = _aligned(table, range(table.rows), is_hidden)
        if sum(map(len, lines)) <= WHOLE_CHARACTERS:
            yield f"all {table.rows:,} rows:"
            yield from lines
            return
    first = range(min(FIRST_ROWS, len(table.places)))
    telling = _telling(found, first)
    lines = _aligned(table, [*first, *telling], is_hidden)
    yield f"the first {len(first)} of {table.total or f'{table.rows:,}'} rows:"
    yield from lines[: len(first) + 1]
    if telling:
        yield "rows with missing values or extremes:"
        yield from lines[len(first) + 1 :]


def _may_be_whole(table: Table) -> bool:
    return table.is_exact and table.rows <= WHOLE_ROWS and not table.more_names


def _telling(found: Sequence[Summary], first: range) -> list[int]:
    """Places of rows with the first missing value of a column, then with extremes."""
    gaps = [each.first_missing for each in found if each.first_missing is not None]
    ends = [place for each in found if each.ends for place in each.ends]
    half = TELLING_ROWS // 2
    chosen = dict.fromkeys(place for place in gaps if place not in first)
    chosen = dict.fromkeys(list(chosen)[:half])
    chosen |= dict.fromkeys(place for place in ends if place not in first)
    return sorted(list(chosen)[:TELLING_ROWS])


def _aligned(table: Table, places: Sequence[int], is_hidden: Hides) -> list[str]:
    """A line with the columns' names and one for each row, aligned."""
    labels = ["", *(cell(table.label(table.places[each])) for each in places)]
    shown, width = [labels], max(map(len, labels))
    for number, column in enumerate(table.columns):
        texts = [_shown(column, each, is_hidden=is_hidden) for each in places]
        texts.insert(0, _name(column.name))
        width += max(map(len, texts)) + 2
        if number and width > ROW_CHARACTERS:
            shown.append(
                [f"[{len(table.columns) - number:,} more columns]", *[""] * len(places)]
            )
            break
        shown.append(texts)
    widths = [max(map(len, texts)) for texts in shown]
    return [
        "  ".join(map(str.rjust, row, widths)).rstrip()
        for row in zip(*shown, strict=True)
    ]


def _inherits(value: object, module: str, name: str) -> bool:
    """True if a value's class is one of a library's, or inherits from it."""
    kind = member(module, name)
    ancestors = type.__dict__["__mro__"].__get__(type(value))
    return kind is not None and is_one_of(kind, ancestors)


def _pandas_frame(value: Any) -> Any:
    """A frame without what its class has changed in pandas; None if it is none."""
    for name in ("DataFrame", "Series"):
        if _inherits(value, "pandas", name):
            kind = member("pandas", name)
            return value if type(value) is kind else _as_plain(value, kind)
    is_index = _inherits(value, "pandas", "Index") and comes_from(type(value), "pandas")
    return value if is_index else None


def _as_plain(value: Any, kind: Any) -> Any:
    """The same data as pandas' own class: no method of the subclass runs."""
    manager = object.__getattribute__(value, "_mgr")
    plain = kind._from_mgr(manager, axes=manager.axes)  # noqa: SLF001  # no public way
    if kind is member("pandas", "Series"):
        plain._name = object.__getattribute__(value, "__dict__").get("_name")  # noqa: SLF001
    return plain


def _read_pandas(value: Any) -> Table:
    import numpy as np  # noqa: PLC0415  # pandas needs it
    import pandas as pd  # noqa: PLC0415  # it has made the value

    if isinstance(value, pd.MultiIndex):
        value = value.to_frame(index=False)
    elif isinstance(value, pd.Index):
        value = pd.Series(value, name=value.name)
    is_frame = isinstance(value, pd.DataFrame)
    names = list(value.columns) if is_frame else [value.name]
    places = spread(len(value))
    taken = None if len(places) == len(value) else np.asarray(places)
    columns = [
        _pandas_column(name, value.iloc[:, n] if is_frame else value, taken)
        for n, name in enumerate(names[:COLUMNS_DESCRIBED])
    ]
    more = names[COLUMNS_DESCRIBED:]
    return Table(len(value), columns, more, value.index.__getitem__, places)


def _pandas_column(name: object, column: Any, places: Any) -> Column:
    """A column of pandas; of a type that another package defines its name alone."""
    dtype = column.dtype
    if not comes_from(type(dtype), "numpy", "pandas", "geopandas"):
        return Column(name, type_name(type(dtype)), Summary, None)
    values = column.array
    if places is not None:
        is_number = dtype.kind in "iufb" and comes_from(type(dtype), "numpy")
        # take copies a whole column that is not in one piece
        values = column.to_numpy()[places] if is_number else values.take(places)
    summarize = partial(_pandas_summary, values, dtype)
    return Column(name, cell_text(str(dtype)), summarize, values.__getitem__)


def _pandas_summary(values: Any, dtype: Any) -> Summary:
    import numpy as np  # noqa: PLC0415  # pandas needs it
    import pandas as pd  # noqa: PLC0415  # it has made the value

    if isinstance(dtype, np.dtype):
        return of_array(np.asarray(values))
    if dtype.name == "geometry":
        return of_objects(list(values))
    codes, different = pd.factorize(values)
    if isinstance(dtype, pd.StringDtype) or dtype.kind == "U":
        return _of_codes(codes, different.tolist())
    if isinstance(dtype, pd.CategoricalDtype):
        return of_keys(codes, codes < 0, is_ordered=False)
    ranks = np.zeros(len(different) + 1, dtype=np.int64)
    ranks[different.argsort()] = np.arange(len(different))
    return of_keys(ranks[codes], codes < 0, is_ordered=True)


def _polars_frame(value: Any) -> Any:
    """A frame of polars, without what its class has changed; None if it is none."""
    for name, inside, make in (
        ("DataFrame", "_df", "_from_pydf"),
        ("Series", "_s", "_from_pyseries"),
    ):
        if _inherits(value, "polars", name):
            kind = member("polars", name)
            if type(value) is kind:
                return value
            return getattr(kind, make)(object.__getattribute__(value, inside))
    return None


def _read_polars(value: Any) -> Table:
    found = value.get_columns() if hasattr(value, "get_columns") else [value]
    rows = len(value)
    places = spread(rows)
    columns = [
        _polars_column(each if len(places) == rows else each.gather(places))
        for each in found[:COLUMNS_DESCRIBED]
    ]
    more = [each.name for each in found[COLUMNS_DESCRIBED:]]
    return Table(rows, columns, more, _number, places)


def _polars_column(values: Any) -> Column:
    dtype = cell_text(str(values.dtype))
    counted = values.to_physical() if dtype == "Time" else values
    summarize = partial(_numbers_or_objects, counted, dtype, counted.to_list)
    return Column(values.name, dtype, summarize, values.__getitem__)


def _numbers_or_objects(
    values: Any, dtype: str, as_list: Callable[[], list[Any]]
) -> Summary:
    """Numbers and times by numpy, if it is there; all others by Python.

    Integers with missing ones among them are floats in numpy, which round large ones.
    """
    if find_spec("numpy") is not None:
        array = values.to_numpy()
        is_float = dtype.lower().startswith(FLOATS)
        if array.dtype.kind in ("f" if is_float else "iubmM"):
            return of_array(array)
    return of_objects(as_list())


def _arrow_table(value: Any) -> Any:
    return value if type(value) is member("pyarrow", "Table") else None


def _read_arrow(value: Any) -> Table:
    rows = value.num_rows
    places = spread(rows)
    names = value.column_names
    columns = [
        _arrow_column(name, value.column(n), places)
        for n, name in enumerate(names[:COLUMNS_DESCRIBED])
    ]
    return Table(rows, columns, names[COLUMNS_DESCRIBED:], _number, places)


def _arrow_column(name: str, column: Any, places: Sequence[int]) -> Column:
    if len(places) < len(column):
        column = _taken(column, places)
    dtype = cell_text(str(column.type))
    summarize = partial(_numbers_or_objects, column, dtype, column.to_pylist)
    return Column(name, dtype, summarize, lambda at: column[at].as_py())


def _taken(column: Any, places: Sequence[int]) -> Any:
    """Some rows of a column, piece by piece: taking from the whole joins all of it."""
    import pyarrow as pa  # noqa: PLC0415  # it has made the value
    from pyarrow.compute import subtract  # noqa: PLC0415  # as above

    pieces, start, wanted = [], 0, pa.array(places, pa.int64())
    for chunk in column.chunks:
        low, high = (bisect_left(places, at) for at in (start, start + len(chunk)))
        pieces.append(chunk.take(subtract(wanted[low:high], start)))
        start += len(chunk)
    return pa.chunked_array(pieces, type=column.type)


def _of_codes(codes: Any, texts: Sequence[Any]) -> Summary:
    """The summary of texts that are given by their numbers; -1 is none."""
    import numpy as np  # noqa: PLC0415  # the codes are from it

    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    found = of_keys(codes, codes < 0, is_ordered=False)
    return found._replace(note=numeric_note(texts, counts.tolist()))


def _number(row: int) -> int:
    """The label of a row where rows have none."""
    return row


_READERS: tuple[tuple[Callable[[Any], Any], Callable[[Any], Table]], ...] = (
    (_pandas_frame, _read_pandas),
    (_polars_frame, _read_polars),
    (_arrow_table, _read_arrow),
)
