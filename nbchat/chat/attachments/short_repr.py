"""A value on one line: a `repr` of limited size that runs no code of the user.

Only types that are known by identity are read; other values show their type and the
attributes in their own `__dict__`.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import PosixPath, PurePosixPath, WindowsPath
from types import GetSetDescriptorType
from typing import Any
from uuid import UUID

from nbchat.conversation.live_variables import (
    describe_variables,
    is_one_of,
    type_name,
)

CELL_WIDTH = 40
"""Characters of a value in a table."""

FLOAT_WIDTH = 10
"""Characters of a float in a table; a longer one has six digits."""

ITEMS_SHOWN, DEPTH_SHOWN, STRING_SHOWN, BITS_SHOWN = 20, 4, 200, 600
"""Items of a container, levels of nesting, characters of a string, bits of an int."""

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

_PANDAS_VALUES = ("NaTType", "NAType", "Timedelta", "Period", "Interval")
_LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "geopandas", "torch")
_ARRAYS = ("ndarray", "DataFrame", "Series", "Index", "GeoSeries", "Tensor", "Table")
"""Types of values that are shown by their shapes inside of others."""


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
    return _of_library(value, kind) or _container_repr(value, depth)


def cell(value: object) -> str:
    """A value in a table: texts without quotes, dates and numbers as they are read."""
    if comes_from(type(value), "numpy") and type(value).__name__.startswith("float"):
        value = value.item()  # type: ignore[attr-defined]
    if type(value) is float:
        short = repr(value)
        return short if len(short) <= FLOAT_WIDTH else f"{value:.6g}"
    is_read = is_one_of(type(value), (str, *_SAFE)) or _is_plain_time(value)
    return cell_text(str(value) if is_read else short_repr(value, depth=2))


def cell_text(text: str) -> str:
    """A text on one line, as long as a cell."""
    text = " ".join(text[: CELL_WIDTH * 2].split())
    return text if len(text) <= CELL_WIDTH else f"{text[: CELL_WIDTH - 1]}…"


def described(value: object) -> str:
    """The type and the shape of a value, as the memory has it."""
    (line,) = describe_variables({"it": value}, names=["it"])
    return line.removeprefix("- it: ").removeprefix("builtins.")


def _of_library(value: object, kind: type) -> str:
    """A value of a library that is shown by its text or its shape; else empty."""
    try:
        return _by_library(value, kind)
    except Exception:  # noqa: BLE001  # one value that cannot be read costs itself
        return type_name(kind)


def _by_library(value: object, kind: type) -> str:
    if is_pandas_value(value):
        return _on_one_line(str(value))[:STRING_SHOWN]
    name = type_name(kind).rpartition(".")[2]
    if name in _ARRAYS and comes_from(kind, *_LIBRARIES):
        return described(value)
    if comes_from(kind, "numpy"):
        return _numpy_scalar(value)
    return _geometry(value) if comes_from(kind, "shapely") else ""


def is_pandas_value(value: object) -> bool:
    """True if this is one of pandas' own values of time, of an interval or missing."""
    kind = type(value)
    is_known = type_name(kind).rpartition(".")[2] in _PANDAS_VALUES
    return is_known and comes_from(kind, "pandas")


def _container_repr(value: object, depth: int) -> str:
    return _container(value, depth) if depth else "…"


def comes_from(kind: type, *packages: str) -> bool:
    """True if a type is defined in one of these packages, by identity."""
    module, _, name = type_name(kind).rpartition(".")
    is_named_so = module.partition(".")[0] in packages
    return is_named_so and getattr(sys.modules.get(module), name, None) is kind


def is_frame(value: object) -> bool:
    """True if this is a data frame of pandas or polars."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and comes_from(kind, "pandas", "polars")


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
    """True if a time has no zone, or one of a known package."""
    if type_name(type(value)) not in _TIMES or not comes_from(
        type(value), "datetime", "pandas"
    ):
        return False
    zone = value.tzinfo  # type: ignore[attr-defined]
    return zone is None or comes_from(type(zone), *_CLOCKS)


def _numpy_scalar(value: Any) -> str:
    item = value.item() if hasattr(value, "item") else value
    kind = type(item)
    return type_name(type(value)) if kind is type(value) else short_repr(item)


def _geometry(value: Any) -> str:
    """A point as it is, of a larger shape its type and where it lies."""
    kind = value.geom_type
    if kind == "Point":
        return str(value)
    bounds = ", ".join(f"{each:g}" for each in value.bounds)
    return f"{kind} within ({bounds})"


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
