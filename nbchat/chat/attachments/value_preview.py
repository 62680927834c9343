"""Describe a value in a text of limited size: its type, shape and first items.

No code of the user runs: a `repr`, a property or a custom column may be slow, huge or
hostile. Only types that are known by identity are read; other values show their type
and the attributes in their own `__dict__`.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import PosixPath, PurePosixPath, WindowsPath
from types import GetSetDescriptorType
from uuid import UUID

from nbchat.conversation.live_variables import describe_variables, is_one_of, type_name
from nbchat.conversation.secret_masking import HIDDEN, is_secret_name

TEXT_LIMIT = 8_000
"""Characters of one value, cell or traceback: about 2,000 tokens."""

ROWS_SHOWN, COLUMNS_SHOWN, CELL_WIDTH = 5, 20, 40
"""Rows and columns shown of a table or an array, and characters of a value."""

ITEMS_SHOWN, DEPTH_SHOWN, STRING_SHOWN, BITS_SHOWN = 20, 4, 200, 600
"""Items of a container, levels of nesting, characters of a string, bits of an int."""

Hides = Callable[[str], bool]
"""Whether the texts in a column of this name are hidden."""

_PLAIN = (bool, float, complex, range, type(None), type(...))
_SAFE = (date, timedelta, Decimal, UUID, PosixPath, PurePosixPath, WindowsPath)
_STRINGS = (str, bytes, bytearray)
_BRACKETS: tuple[tuple[type, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (set, "{", "}"),
    (frozenset, "frozenset({", "})"),
    (deque, "deque([", "])"),
)
_MAPPINGS = (dict, defaultdict, OrderedDict, Counter)
_TIMES = (
    *("datetime.datetime", "datetime.time", "pandas.Timestamp"),
    "pandas._libs.tslibs.timestamps.Timestamp",  # before pandas 3
)
_CLOCKS = ("datetime", "zoneinfo", "pytz", "dateutil")
"""Packages whose time zones are safe to print."""


def describe_value(value: object, *, is_raw: bool = False) -> str:
    """Type, shape and first items of a value, in at most `TEXT_LIMIT` characters.

    Texts in columns such as `password` are hidden unless `is_raw`.
    """
    try:
        return truncated("\n".join(_lines(value, _never if is_raw else is_secret_name)))
    except Exception:  # noqa: BLE001  # a frame may hold user code
        return type_name(type(value))


def truncated(text: str) -> str:
    """A text of at most about `TEXT_LIMIT` characters, without its middle."""
    missing = len(text) - TEXT_LIMIT
    if missing <= 0:
        return text
    begins, ends = text[: TEXT_LIMIT * 3 // 4], text[-(TEXT_LIMIT // 4) :]
    return f"{begins}\n… {missing:,} characters omitted …\n{ends}"


def short_repr(value: object, *, depth: int = DEPTH_SHOWN) -> str:
    """A `repr` of limited size that runs code of Python, numpy and pandas only."""
    kind = type(value)
    if is_one_of(kind, _PLAIN):
        return repr(value)
    if kind is int:
        return _integer(value)
    if is_one_of(kind, _STRINGS):
        return _string(value)
    if is_one_of(kind, _SAFE) or _is_plain_time(value):
        return _on_one_line(repr(value))[:STRING_SHOWN]
    if comes_from(kind, "numpy"):
        return _numpy_scalar(value)
    return _container(value, depth) if depth else "…"


def comes_from(kind: type, *packages: str) -> bool:
    """Whether a type is defined in one of these packages, by identity."""
    module, _, name = type_name(kind).rpartition(".")
    is_named_so = module.partition(".")[0] in packages
    return is_named_so and getattr(sys.modules.get(module), name, None) is kind


def _never(_name: str) -> bool:
    """No column is hidden."""
    return False


def _lines(value: object, is_hidden: Hides) -> Iterator[str]:
    """The first line names type and shape, the others show the contents."""
    (line,) = describe_variables({"it": value}, names=["it"])
    line = line.removeprefix("- it: ").removeprefix("builtins.")
    for module, name, preview in _KNOWN:
        if type(value) is getattr(sys.modules.get(module), name, None):
            yield from (line, *preview(value, is_hidden))
            return
    if type(value) is str:
        yield from (line, value)
        return
    inside = short_repr(value)
    if inside not in line and not inside.startswith(f"{line}("):
        yield line
    yield line if inside in line else inside


def frame_lines(value: object, is_hidden: Hides = is_secret_name) -> Iterator[str]:
    """Types and first rows of a data frame of pandas."""
    columns = [value.iloc[:, n] for n in range(min(value.shape[1], COLUMNS_SHOWN))]  # type: ignore[attr-defined]
    yield "dtypes: " + ", ".join(
        f"{_short(each.name)} {_short_text(str(each.dtype))}" for each in columns
    )
    yield from _table(value.index, columns, len(value), is_hidden)  # type: ignore[attr-defined, arg-type]


def _series(value: object, is_hidden: Hides) -> Iterator[str]:
    yield from _table(value.index, [value], len(value), is_hidden)  # type: ignore[attr-defined, arg-type]


def _table(
    index: object, columns: Iterable[object], rows: int, is_hidden: Hides
) -> Iterator[str]:
    """The first rows, in aligned columns."""
    count = min(rows, ROWS_SHOWN)
    labels = ["", *map(_short, index[:count].tolist())]  # type: ignore[index]
    columns_shown = [labels, *(_column(each, count, is_hidden) for each in columns)]
    widths = [max(map(len, column)) for column in columns_shown]
    yield f"the first {count} of {rows:,} rows:"
    for row in zip(*columns_shown, strict=True):
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _column(column: object, count: int, is_hidden: Hides) -> list[str]:
    """A column's name and first values; only the name if its type is unknown."""
    name, kind = column.name, type(column.dtype)  # type: ignore[attr-defined]
    if not comes_from(kind, "numpy", "pandas"):
        return [_short(name), *["…"] * count]
    values = column.iloc[:count].tolist()  # type: ignore[attr-defined]
    if type(name) is str and is_hidden(name):
        values = [HIDDEN if type(each) is str else each for each in values]
    return [_short(name), *map(_short, values)]


def _array(value: object, _is_hidden: Hides) -> Iterator[str]:
    """The first rows and columns of the first plane."""
    while value.ndim > 2:  # type: ignore[attr-defined]  # noqa: PLR2004
        if not len(value):  # type: ignore[arg-type]
            return
        value = value[0]  # type: ignore[index]
    corner = value[(slice(ROWS_SHOWN * 2),) * value.ndim].tolist()  # type: ignore[index, attr-defined]
    if not isinstance(corner, list):
        yield _short(corner)
        return
    yield "the first values:"
    rows = corner if corner and isinstance(corner[0], list) else [corner]
    for row in rows[:ROWS_SHOWN]:
        yield "  ".join(map(_short, row))


def _short(value: object) -> str:
    if type(value) is str or _is_plain_time(value):
        return _short_text(str(value))
    return _short_text(short_repr(value, depth=2))


def _short_text(text: str) -> str:
    text = " ".join(text[: CELL_WIDTH * 2].split())
    return text if len(text) <= CELL_WIDTH else f"{text[: CELL_WIDTH - 1]}…"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _integer(value: object) -> str:
    bits = int.bit_length(value)  # type: ignore[arg-type]
    return repr(value) if bits <= BITS_SHOWN else f"int of {bits:,} bits"


def _string(value: object) -> str:
    more = len(value) - STRING_SHOWN  # type: ignore[arg-type]
    shown = repr(value[:STRING_SHOWN])  # type: ignore[index]
    return shown + (f"… {more:,} more" if more > 0 else "")


def _is_plain_time(value: object) -> bool:
    """Whether a time has no zone, or one of a known package."""
    if type_name(type(value)) not in _TIMES or not comes_from(
        type(value), "datetime", "pandas"
    ):
        return False
    zone = value.tzinfo  # type: ignore[attr-defined]
    return zone is None or comes_from(type(zone), *_CLOCKS)


def _numpy_scalar(value: object) -> str:
    item = value.item() if hasattr(value, "item") else value
    kind = type(item)
    is_array = getattr(value, "ndim", 0) > 0
    return (
        type_name(type(value)) if is_array or kind is type(value) else short_repr(item)
    )


def _container(value: object, depth: int) -> str:
    kind = type(value)
    for known, opens, closes in _BRACKETS:
        if kind is known:
            first = islice(value, ITEMS_SHOWN)  # type: ignore[call-overload]
            items = [short_repr(each, depth=depth - 1) for each in first]
            return opens + _joined(items, len(value)) + closes  # type: ignore[arg-type]
    if is_one_of(kind, _MAPPINGS):
        return "{" + _pairs(value, depth, ": ") + "}"  # type: ignore[arg-type]
    name = type_name(kind).removeprefix("builtins.")
    return f"{name}({_pairs(attributes_of(value), depth, '=')})"


def _pairs(values: Mapping[object, object], depth: int, separator: str) -> str:
    pairs = []
    for key, value in islice(values.items(), ITEMS_SHOWN):
        is_name = type(key) is str
        named = str(key) if is_name and separator == "=" else short_repr(key, depth=1)
        pairs.append(f"{named}{separator}{short_repr(value, depth=depth - 1)}")
    return _joined(pairs, len(values))


def _joined(items: list[str], total: int) -> str:
    more = [f"… {total - len(items):,} more"] * (total > len(items))
    return ", ".join([*items, *more])


def attributes_of(value: object) -> dict[object, object]:
    """Public attributes in an instance's `__dict__`, unless its class overrides it."""
    for each in type.__dict__["__mro__"].__get__(type(value)):
        own = type.__dict__["__dict__"].__get__(each).get("__dict__")
        if own is not None and type(own) is not GetSetDescriptorType:
            return {}
    try:
        kept = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return {k: v for k, v in kept.items() if type(k) is str and not k.startswith("_")}


_KNOWN: tuple[tuple[str, str, Callable[[object, Hides], Iterator[str]]], ...] = (
    ("pandas", "DataFrame", frame_lines),
    ("pandas", "Series", _series),
    ("numpy", "ndarray", _array),
)
