"""Describe a value in a text of limited size: its type, shape and what answers need.

No code of the user runs: a `repr`, a property or a custom column may be slow, huge or
hostile. Only types that are known by identity are read; other values show their type
and the attributes in their own `__dict__`.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from nbchat.chat.attachments.column_summary import of_array, spread, summary_text
from nbchat.chat.attachments.short_repr import cell, described, short_repr
from nbchat.chat.attachments.table_preview import Hides, table_lines
from nbchat.conversation.live_variables import type_name
from nbchat.conversation.secret_masking import is_secret_name

TEXT_LIMIT = 8_000
"""Characters of one value, cell or traceback: about 2,000 tokens."""

ROWS_SHOWN = 5
"""Rows shown of an array, and half as many columns as double of it."""

GRIDS_SHOWN = 20
"""Variables of an xarray Dataset that are described."""


def describe_value(value: object, *, is_raw: bool = False) -> str:
    """Type, shape and contents of a value, in at most `TEXT_LIMIT` characters.

    Texts in columns such as `password` are hidden unless `is_raw`.
    """
    try:
        return truncated("\n".join(_lines(value, _never if is_raw else is_secret_name)))
    except Exception:  # noqa: BLE001  # a frame may hold user code
        return type_name(type(value))


def truncated(
    text: str, begins: int = TEXT_LIMIT * 3 // 4, ends: int = TEXT_LIMIT // 4
) -> str:
    """A text, or so many characters of its beginning and its end."""
    missing = len(text) - begins - ends
    if missing <= 0:
        return text
    return f"{text[:begins]}\n… {missing:,} characters omitted …\n{text[-ends:]}"


def _never(_name: str) -> bool:
    """No column is hidden."""
    return False


def _lines(value: object, is_hidden: Hides) -> Iterator[str]:
    """The first line names type and shape, the others show the contents."""
    table = table_lines(value, is_hidden)
    if table is not None:
        yield from table
        return
    line = described(value)
    for module, name, preview in _KNOWN:
        if type(value) is getattr(sys.modules.get(module), name, None):
            yield from (line, *preview(value))
            return
    if type(value) is str:
        yield from (line, value)
        return
    inside = short_repr(value)
    if inside not in line and not inside.startswith(f"{line}("):
        yield line
    yield line if inside in line else inside


def _array(value: Any) -> Iterator[str]:
    """Figures of an array's values, then the first ones of its first plane."""
    yield from _figures(value)
    while value.ndim > 2:  # noqa: PLR2004
        if not len(value):
            return
        value = value[0]
    corner = value[(slice(ROWS_SHOWN * 2),) * value.ndim].tolist()
    if not isinstance(corner, list):
        yield cell(corner)
        return
    yield "the first values:"
    rows = corner if corner and isinstance(corner[0], list) else [corner]
    for row in rows[:ROWS_SHOWN]:
        yield "  ".join(map(cell, row))


def _figures(value: Any) -> Iterator[str]:
    """A line on how many values are missing, and from where to where they go."""
    if value.size > ROWS_SHOWN and value.dtype.kind in "iufbmM":
        places = spread(value.size)
        flat = value.ravel() if len(places) == value.size else value.flat[list(places)]
        text = summary_text(of_array(flat), lambda place: cell(flat[place]))
        few = "" if len(flat) == value.size else f"of {len(flat):,} spread evenly: "
        yield f"values: {few}{text}"


def _grid(value: Any) -> Iterator[str]:
    """The figures of an xarray DataArray or Dataset that is in memory."""
    named = {"values": value.variable} if hasattr(value, "variable") else {}
    own = value.coords if named else value.variables
    named |= {name: getattr(each, "variable", each) for name, each in own.items()}
    for name, variable in list(named.items())[:GRIDS_SHOWN]:
        sizes = " x ".join(f"{cell(d)} {size:,}" for d, size in variable.sizes.items())
        parts = (sizes, cell(str(variable.dtype)), _in_memory(variable))
        yield f"- {cell(name)}: {'; '.join(filter(None, parts))}"


def _in_memory(variable: Any) -> str:
    """The figures of a variable of xarray, unless they would be loaded from a file."""
    inside = variable._data  # noqa: SLF001  # .data would load them
    if hasattr(inside, "array"):  # of a coordinate, an index of pandas
        inside = inside.array.to_numpy()
    if type(inside) is not getattr(sys.modules.get("numpy"), "ndarray", None):
        return "not in memory"
    return "".join(_figures(inside)).removeprefix("values: ")


def _tensor(value: Any) -> Iterator[str]:
    """The values of a torch Tensor; one on another device is not moved."""
    if value.device.type == "cpu":
        yield from _array(value.detach().numpy())


_KNOWN: tuple[tuple[str, str, Callable[[Any], Iterator[str]]], ...] = (
    ("numpy", "ndarray", _array),
    ("xarray", "DataArray", _grid),
    ("xarray", "Dataset", _grid),
    ("torch", "Tensor", _tensor),
)
