"""Turn the value that a tool returned into what a model reads: text and pictures.

A dataframe becomes CSV; of a long one the model sees the first rows, and recalls the
rest. Figures and images become pictures after the result.
"""

import contextlib
import csv
import io
import json
import sys
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pydantic_core import to_jsonable_python

from nbchat.conversation.entries import Entry, failed_result
from nbchat.conversation.pictures import (
    LONGEST_SIDE,
    Picture,
    looks_like_picture,
    picture_of,
    picture_of_image,
)

OUTPUT_LIMIT = 200_000
"""Characters of an output or an error that are kept, about 50,000 tokens."""

ROWS_KEPT = 10_000
"""Rows of a dataframe that are kept in a result."""

ROWS_SHOWN = 20
"""Rows of a dataframe that the model sees at once."""

PICTURES_SHOWN = 3
"""Pictures of one output that the model sees: each takes about 1,500 tokens."""

ELEMENTS_SHOWN = 200
"""Elements of an array that are written in full."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Texts and pictures in their order, as MCP servers return them."""

    parts: tuple[str | bytes, ...]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call, what the model sees of it at first, and its pictures."""

    entry: Entry
    shown: str = ""
    """Shown instead of the whole result, which can be recalled; empty for all of it."""
    pictures: tuple[Entry, ...] = ()
    seconds: float | None = field(default=None, compare=False)
    """How long the call ran; None if it did not run."""


def output_of(call: Entry, value: object) -> ToolOutput:
    """The result of a call that returned a value.

    A value without a text becomes an error that says so; nothing is raised.
    """
    try:
        return _written(call, value)
    except Exception as error:  # noqa: BLE001  # a user's object may raise anything
        line = error_line(error)
        return ToolOutput(
            failed_result(
                call, f"it ran, but its output cannot be shown as text: {line}"
            )
        )


def error_line(error: BaseException) -> str:
    """Name and text of an error, bounded; the name alone if its `str` fails."""
    name = type(error).__name__
    with contextlib.suppress(Exception):
        text = _bounded(str(error))
        return f"{name}: {text}" if text else name
    return name


def _written(call: Entry, value: object) -> ToolOutput:
    if isinstance(value, Parts):
        return _in_order(call, value)
    if (found := _picture(value)) is not None:
        return _with_pictures(call, "", [found])
    if isinstance(value, list | tuple):
        each_found = [_picture(each) for each in value]
        pictures = [found for found in each_found if found is not None]
        if pictures:
            pairs = zip(value, each_found, strict=True)
            others = [each for each, found in pairs if found is None]
            text = others[0] if len(others) == 1 else others
            return _with_pictures(call, _as_text(text) if others else "", pictures)
    if _is_from(value, "pandas", "DataFrame", "Series"):
        return _table(call, value)
    for package, name in (("polars", "DataFrame"), ("pyarrow", "Table")):
        if _is_from(value, package, name):
            return _other_table(call, value)
    return ToolOutput(_result(call, _as_text(value)))


def _result(call: Entry, text: str) -> Entry:
    return Entry("tool", _bounded(text), call.tool_id, call.tool_name)


def _bounded(text: str) -> str:
    removed = len(text) - OUTPUT_LIMIT
    if removed <= 0:
        return text
    half = OUTPUT_LIMIT // 2  # an error is often at the end
    return f"{text[:half]}\n[{removed:,} characters removed]\n{text[-half:]}"


def _with_pictures(call: Entry, text: str, found: list[Picture | str]) -> ToolOutput:
    """Pictures cannot be in a tool's result everywhere, so they follow it.

    What is found is a picture, or why one cannot be read.
    """
    pictures = [each for each in found if isinstance(each, Picture)]
    unreadable = [f"[{each}]" for each in found if isinstance(each, str)]
    count = len(pictures)
    note = f"[{count} picture{'s' * (count != 1)} follow{'s' * (count == 1)}]"
    has_note = 0 < count <= PICTURES_SHOWN
    lines = filter(None, (text, *unreadable, note if has_note else ""))
    return _followed_by(call, "\n".join(lines), pictures)


def _in_order(call: Entry, value: Parts) -> ToolOutput:
    """Texts joined, each picture named at its place; the pictures follow."""
    found = [_read_part(each) for each in value.parts]
    pictures = [each for each in found if isinstance(each, Picture)]
    if len(pictures) == len(found):
        return _with_pictures(call, "", [*pictures])
    lines, number = list[str](), 0
    for each in found:
        number += isinstance(each, Picture)
        numbered = f"[picture {number} of {len(pictures)} follows]"
        lines.append(each if isinstance(each, str) else numbered)
    return _followed_by(call, "\n".join(filter(None, lines)), pictures)


def _read_part(part: str | bytes) -> Picture | str:
    """A text, a picture, or why the picture cannot be read."""
    if isinstance(part, str):
        return part
    found = _read(part)
    return found if isinstance(found, Picture) else f"[{found}]"


def _followed_by(call: Entry, text: str, pictures: list[Picture]) -> ToolOutput:
    if len(pictures) > PICTURES_SHOWN:
        text += f"\n[the first {PICTURES_SHOWN} of {len(pictures):,} pictures follow]"
    caption = f"The picture that {call.tool_name} returned:"
    entries = (each.entry(caption) for each in pictures[:PICTURES_SHOWN])
    own = tuple(entry._replace(tool_id=call.tool_id) for entry in entries)
    return ToolOutput(_result(call, text), pictures=own)


def _picture(value: object) -> Picture | str | None:
    """The picture of an image or a figure, or why it cannot be read; else None."""
    if isinstance(value, bytes | bytearray):
        return _read(bytes(value)) if looks_like_picture(bytes(value[:16])) else None
    if _is_from(value, "PIL", "Image"):
        return picture_of_image(value)
    if _is_from(value, "matplotlib", "Figure"):
        return picture_of(_png_of_figure(value))
    if _is_from(value, "matplotlib", "Axes"):  # what pandas' plot() returns
        return picture_of(_png_of_figure(value.figure))  # type: ignore[attr-defined]
    return None


def _read(data: bytes) -> Picture | str:
    try:
        return picture_of(data)
    except ValueError as error:
        return str(error)


def _png_of_figure(figure: Any) -> bytes:
    file = io.BytesIO()
    dots = min(100.0, LONGEST_SIDE / max(*figure.get_size_inches(), 0.1))
    figure.savefig(file, format="png", dpi=dots)
    return file.getvalue()


def _is_from(value: object, package: str, *names: str) -> bool:
    """True if a value's class, or one it inherits from, is a package's."""
    return package in sys.modules and any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == package
        for kind in type(value).__mro__
    )


def _table(call: Entry, value: Any) -> ToolOutput:
    """A dataframe as CSV, with its size; the first rows are shown of a long one."""
    frame = value if hasattr(value, "columns") else value.to_frame()
    rows, columns = frame.shape
    size = f"{rows:,} rows x {columns:,} columns, as CSV:"
    whole = _result(call, f"{size}\n{_csv(frame.head(ROWS_KEPT))}")
    if rows <= ROWS_SHOWN and len(whole.content) < OUTPUT_LIMIT:
        return ToolOutput(whole)
    shown = (
        f"{size}\n{_csv(frame.head(ROWS_SHOWN))}\n... {rows - ROWS_SHOWN:,} more rows"
    )
    return ToolOutput(whole, shown if rows > ROWS_SHOWN else "")


def _other_table(call: Entry, value: Any) -> ToolOutput:
    """A dataframe of polars or a table of pyarrow, like one of pandas."""
    rows, columns = value.shape
    size = f"{rows:,} rows x {columns:,} columns, as CSV:"
    whole = _result(call, f"{size}\n{_csv_of(value[:ROWS_KEPT])}")
    if rows <= ROWS_SHOWN:
        return ToolOutput(whole)
    more = f"... {rows - ROWS_SHOWN:,} more rows"
    return ToolOutput(whole, f"{size}\n{_csv_of(value[:ROWS_SHOWN])}\n{more}")


def _csv_of(value: Any) -> str:
    file = io.StringIO()
    rows = (
        value.rows()
        if hasattr(value, "rows")
        else zip(*value.to_pydict().values(), strict=True)
    )
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(value.schema.names if hasattr(value, "num_rows") else value.columns)
    writer.writerows(rows)
    return file.getvalue().strip()


def _csv(frame: Any) -> str:
    """CSV; the index is omitted where it only counts rows."""
    is_count = type(frame.index).__name__ == "RangeIndex" and not frame.index.name
    return str(frame.to_csv(index=not is_count)).strip()


def _as_text(value: object) -> str:
    """A value as text; raises what its `str` raises."""
    if value is None:
        return "ok"
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    if isinstance(value, bytes | bytearray):
        return _bytes_as_text(bytes(value))
    if _is_from(value, "numpy", "ndarray"):
        return _array_as_text(value)
    return _as_json(value)


def _bytes_as_text(data: bytes) -> str:
    if b"\0" not in data:
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode()
    return f"[{len(data):,} bytes that are not text]"


def _array_as_text(array: Any) -> str:
    if array.size <= ELEMENTS_SHOWN:
        return _as_json(array.tolist())
    return f"array of shape {array.shape}, {array.dtype}:\n{array}"


def _as_json(value: object) -> str:
    """JSON, or the `repr` of what has no JSON, such as tuples as keys."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_jsonable)
    except Exception:  # noqa: BLE001  # text that an object makes of itself
        return repr(value)


def _jsonable(value: object) -> object:
    """Dataclasses, models, dates, sets and others as pydantic writes them."""
    if hasattr(value, "item") and _is_from(value, "numpy", "generic"):
        return value.item()
    return to_jsonable_python(value, fallback=str)
