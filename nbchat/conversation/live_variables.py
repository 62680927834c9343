"""Describe the kernel's variables: names, types, shapes, columns, short values.

The variables that a conversation mentions are described at every compaction, for a
summary may forget what `df` is. Objects of unknown types are not touched: their `repr`,
`len` and attributes may be slow, huge or hostile. What may be a secret by its name or
its form is hidden, and of a long text only the length is shown.
"""

import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import PosixPath, PurePosixPath, WindowsPath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from nbchat.conversation.entries import Entry
from nbchat.conversation.secret_masking import HIDDEN, is_secret_name, without_secrets

COLUMNS_SHOWN = 20

NAME_LENGTH, LINE_LENGTH = 40, 300
"""Characters of a column's or type's name, and of one variable's line."""

ITEMS_SHOWN, DEPTH_SHOWN, TEXT_SHOWN = 20, 2, 60
"""Items of a list or mapping, its levels, and characters of a text that are shown:
thresholds and names, no tables and no documents."""

_WORD = re.compile(r"\w+")
_UNFIT = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type)
_SCALARS = (bool, float, complex, type(None))
_TEXTS = (str, bytes, bytearray)
_TIMES = (date, timedelta, Decimal, PosixPath, PurePosixPath, WindowsPath)
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}"}
_SIZED = (
    *(list, tuple, dict, set, frozenset, range),
    *(deque, defaultdict, OrderedDict, Counter),
)


def mentioned(entries: Sequence[Entry], namespace: Mapping[str, object]) -> list[str]:
    """Names of variables that messages or calls mention, newest first.

    A name of one letter counts only inside backticks or a call: "a" is an English word.
    Modules, functions, classes and names with a leading underscore are left aside.
    """
    fit = {name for name in namespace if is_fit(name, namespace[name])}
    found: dict[str, None] = {}
    for entry in reversed(entries):
        for text, is_code in _texts(entry):
            words = dict.fromkeys(_WORD.findall(text))
            found |= {w: None for w in words if w in fit and (is_code or len(w) > 1)}
    return list(found)


def describe_variables(
    namespace: Mapping[str, object], *, names: Iterable[str]
) -> list[str]:
    """A line for each existing variable: its name, type, and shape."""
    return [
        _line(name, namespace[name], _headline) for name in names if name in namespace
    ]


def remembered_variables(
    namespace: Mapping[str, object], *, names: Iterable[str]
) -> list[str]:
    """The lines with the types of columns, and with short values, for the memory."""
    return [_line(name, namespace[name], _whole) for name in names if name in namespace]


def reader(
    namespace: Callable[[], Mapping[str, object]],
) -> Callable[[Sequence[Entry]], list[str]]:
    """A function that describes the variables that entries mention."""

    def describe_mentioned(entries: Sequence[Entry]) -> list[str]:
        variables = dict(namespace())
        return remembered_variables(variables, names=mentioned(entries, variables))

    return describe_mentioned


def is_fit(name: str, value: object) -> bool:
    """True if a variable is data: no module, function or class, and not private."""
    if type(name) is not str or name.startswith("_") or name in ("In", "Out"):
        return False
    # The type, not isinstance: that would ask the object's own __class__.
    return not issubclass(type(value), _UNFIT)


def _texts(entry: Entry) -> Iterable[tuple[str, bool]]:
    """The texts of an entry, and whether they are code."""
    if entry.is_call:
        return [(entry.tool_args, True)]
    if entry.role not in ("user", "assistant"):
        return []
    return [(entry.content, False), (" ".join(entry.content.split("`")[1::2]), True)]


class _Description(NamedTuple):
    """The type of a value, and the columns in it."""

    kind: str
    columns: Sequence[tuple[str, str]] = ()
    """The first ones, each with its type."""
    more: int = 0
    """Columns that are not listed."""


def _line(name: str, value: object, describe: Callable[[object], str]) -> str:
    """A variable's line, without what may be a secret."""
    kind = type(value)
    if is_secret_name(name) and (kind is int or is_one_of(kind, _SCALARS)):
        return f"- {name}: {kind.__name__}, {HIDDEN}"[:LINE_LENGTH]
    if is_secret_name(name.removesuffix("s")):
        describe = _headline
    try:
        described = describe(value)
    except Exception:  # noqa: BLE001  # a data frame may contain anything
        described = type_name(kind)
    return f"- {name}: {without_secrets(described)[0]}"[:LINE_LENGTH]


def _headline(value: object) -> str:
    """The type and the shape of a value, with the names of its columns."""
    described = _described(value)
    return _joined(described, [name for name, _ in described.columns])


def _whole(value: object) -> str:
    """The headline with the types of columns, or with a short value."""
    described = _described(value)
    typed = [f"{name} {kind}" for name, kind in described.columns]
    whole = _joined(described, typed)
    if typed:
        return whole if len(whole) <= LINE_LENGTH else _headline(value)
    short = _short(value) if is_one_of(type(value), (str, *_BRACKETS)) else ""
    return _with_value(described.kind, short)


def _joined(described: _Description, columns: Sequence[str]) -> str:
    more = [f"and {described.more:,} more"] * (described.more > 0)
    listed = ", ".join([*columns, *more])
    return f"{described.kind}: {listed}" if listed else described.kind


def _with_value(kind: str, short: str) -> str:
    """A kind with its value, unless that is long or may be a secret."""
    is_long = not short or len(short) > LINE_LENGTH - len(kind)
    if is_long or without_secrets(short)[1]:
        return kind
    return f"{kind}: {short}"


def _short(value: Any, depth: int = DEPTH_SHOWN) -> str:
    """A plain value of few items; empty if it is anything else."""
    kind = type(value)
    if kind is str:
        is_short = 0 < len(value) <= TEXT_SHOWN and value.isprintable()
        return repr(value) if is_short else ""
    if kind is int:
        return repr(value) if int.bit_length(value) <= LINE_LENGTH else ""
    if is_one_of(kind, _SCALARS):
        return repr(value)
    if not (depth and is_one_of(kind, _BRACKETS) and 0 < len(value) <= ITEMS_SHOWN):
        return ""
    items = list((_pairs if kind is dict else _items)(value, depth - 1))
    opens, closes = list(_BRACKETS[kind])
    return f"{opens}{', '.join(items)}{closes}" if all(items) else ""


def _items(values: Iterable[object], depth: int) -> Iterator[str]:
    for value in values:
        yield _short(value, depth)


def _pairs(values: Mapping[object, object], depth: int) -> Iterator[str]:
    """The items of a mapping, those with the name of a secret hidden."""
    for key, value in values.items():
        shown = (
            HIDDEN if type(key) is str and is_secret_name(key) else _short(value, depth)
        )
        name = _short(key, 0)
        yield f"{name}: {shown}" if name and shown else ""


def _described(value: object) -> _Description:
    kind = type(value)
    if kind is int:
        bits = int.bit_length(value)  # type: ignore[arg-type]
        return _Description(f"int {_short(value) or f'of {bits:,} bits'}")
    if is_one_of(kind, _SCALARS):
        return _Description(f"{kind.__name__} {value!r}")
    if is_one_of(kind, _TIMES) or (kind is datetime and value.tzinfo is None):  # type: ignore[attr-defined]
        return _Description(f"{kind.__name__} {' '.join(str(value).split())}")
    if is_one_of(kind, _TEXTS):
        return _Description(f"{kind.__name__} of length {len(value):,}")  # type: ignore[arg-type]
    if is_one_of(kind, _SIZED):
        return _Description(f"{kind.__name__} of {len(value):,} items")  # type: ignore[arg-type]
    return _of_library(value)


def _of_library(value: object) -> _Description:
    for module, name, describe in _KNOWN:
        if type(value) is member(module, name):
            return describe(value)
    return _Description(type_name(type(value)))


def member(module: str, name: str) -> Any:
    """A member of a module that is imported, without what would import more."""
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


def is_one_of(kind: type, kinds: Iterable[type]) -> bool:
    """By identity: `in` would ask the metaclass for its `==`."""
    return any(kind is each for each in kinds)


def _frame(value: Any) -> _Description:
    rows, columns = value.shape
    names = map(_label, value.columns[:COLUMNS_SHOWN])
    kinds = map(_dtype, islice(value.dtypes, COLUMNS_SHOWN))
    index = [_label(name) for name in getattr(value, "index", _Unnamed).names if name]
    kind = f"{type(value).__name__} of {rows:,} rows x {columns:,} columns"
    return _Description(
        f"{kind} by {', '.join(index)}" if index else kind,
        list(zip(names, kinds, strict=True)),
        columns - COLUMNS_SHOWN,
    )


class _Unnamed:
    """The index of a frame that has none, as in polars."""

    names: tuple[str, ...] = ()


def _arrow(value: Any) -> _Description:
    pairs = zip(value.schema.names, value.schema.types, strict=True)
    shown = islice(pairs, COLUMNS_SHOWN)
    rows, columns = value.shape
    return _Description(
        f"Table of {rows:,} rows x {columns:,} columns",
        [(_label(name), _dtype(kind)) for name, kind in shown],
        columns - COLUMNS_SHOWN,
    )


def _series(value: Any) -> _Description:
    name = "" if value.name is None else f" {_label(value.name)}"
    kind = f"{type(value).__name__}{name}"
    return _Description(f"{kind} of {len(value):,}, {_dtype(value.dtype)}")


def _array(value: Any) -> _Description:
    shape = " x ".join(f"{size:,}" for size in value.shape)
    return _Description(f"array of {shape or 'one value'}, {_dtype(value.dtype)}")


def _tensor(value: Any) -> _Description:
    shape = " x ".join(f"{size:,}" for size in value.shape)
    where = _label(str(value.device))
    kind = _dtype(value.dtype)
    return _Description(f"Tensor of {shape or 'one value'}, {kind}, {where}")


def _number(value: Any) -> _Description:
    return _Description(f"{type(value).__name__} {value.item()!r}")


def _grid(value: Any) -> _Description:
    """An xarray DataArray."""
    return _Description(
        f"DataArray {_label(value.name)} of {_sizes(value)}, {_dtype(value.dtype)}"
    )


def _grids(value: Any) -> _Description:
    """An xarray Dataset."""
    names = list(islice(value.data_vars, COLUMNS_SHOWN))
    return _Description(
        f"Dataset of {_sizes(value)}",
        [(_label(name), _dtype(value.variables[name].dtype)) for name in names],
        len(value.data_vars) - COLUMNS_SHOWN,
    )


def _sizes(value: Any) -> str:
    sizes = (f"{_label(name)} {size:,}" for name, size in value.sizes.items())
    return " x ".join(sizes) or "one value"


def _time(value: Any) -> _Description:
    if value.tzinfo is not None:
        return _Description(type_name(type(value)))
    return _Description(f"Timestamp {value}")


def _label(name: object) -> str:
    """A column's name if it is plain, else its type, on one line."""
    if type(name) is tuple and all(is_one_of(type(each), _PLAIN) for each in name):
        name = f"({', '.join(map(str, name))})"
    if is_one_of(type(name), _PLAIN):
        return " ".join(str(name).split())[:NAME_LENGTH]
    return type_name(type(name))


def _dtype(dtype: object) -> str:
    """A column's type; that of a package which is not known by its class alone."""
    name = type_name(type(dtype))
    is_known = name.partition(".")[0] in _TRUSTED
    return " ".join(str(dtype).split())[:NAME_LENGTH] if is_known else name


def type_name(kind: type) -> str:
    """The type's name as Python keeps it, whatever its metaclass would say."""
    name = type.__dict__["__qualname__"].__get__(kind)
    module = type.__dict__["__module__"].__get__(kind)
    is_plain = type(module) is str and module != "__main__"
    full = f"{module}.{name}" if is_plain else str(name)
    return " ".join(full.split())[: NAME_LENGTH * 2]


_PLAIN = (str, int, float, bool, type(None))
_TRUSTED = ("numpy", "pandas", "polars", "pyarrow", "geopandas", "torch")
"""Packages whose types of columns are asked for their names."""

_KNOWN: tuple[tuple[str, str, Callable[[Any], _Description]], ...] = (
    ("pandas", "DataFrame", _frame),
    ("geopandas", "GeoDataFrame", _frame),
    ("polars", "DataFrame", _frame),
    ("pyarrow", "Table", _arrow),
    *(("pandas", name, _series) for name in ("Series", "Index", "RangeIndex")),
    ("pandas", "DatetimeIndex", _series),
    ("geopandas", "GeoSeries", _series),
    ("polars", "Series", _series),
    ("numpy", "ndarray", _array),
    ("torch", "Tensor", _tensor),
    ("xarray", "DataArray", _grid),
    ("xarray", "Dataset", _grids),
    *(
        ("numpy", f"{kind}{bits}", _number)
        for kind in ("float", "int")
        for bits in (32, 64)
    ),
    ("numpy", "bool_", _number),
    ("pandas", "Timestamp", _time),
)
"""Types whose shape is read, looked up only if they are imported; the type itself is
compared, for any class can be named DataFrame."""
