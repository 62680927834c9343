"""Describe a file that is too large to be sent: its size, types and first rows.

Only the beginning and the end are read, so gigabytes take as long as megabytes. Tables
are read by pandas, and Parquet also by pyarrow, where these are installed.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbchat.chat.attachments.value_preview import frame_lines

ROWS_READ = 1_000
"""Rows from which the types of a text file's columns are read."""

SAMPLE_BYTES = 1_000_000
"""Of the beginning, from which the number of lines is estimated."""

HEAD_CHARACTERS, TAIL_CHARACTERS = 4_000, 1_000


def describe_large_file(path: Path) -> str:
    """Size, shape, types and head of a file, and how much is omitted.

    Raises ValueError for a file that is neither text nor a table.
    """
    read = _READERS.get(path.suffix.lower())
    if read is not None and find_spec("pandas") is not None:
        try:
            return "\n".join([_size(path), *read(path)])
        except Exception as error:  # noqa: BLE001  # readers raise errors of all kinds
            cause = f"not a table that pandas reads ({type(error).__name__})"
            return "\n".join([_size(path), cause, *_text(path)])
    return "\n".join([_size(path), *_text(path)])


def _separated(path: Path) -> list[str]:
    import pandas as pd  # noqa: PLC0415  # optional

    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    frame = pd.read_csv(path, sep=separator, nrows=ROWS_READ)
    return _table(frame, f"about {_lines(path) - 1:,}")


def _json_lines(path: Path) -> list[str]:
    import pandas as pd  # noqa: PLC0415  # optional

    frame = pd.read_json(path, lines=True, nrows=ROWS_READ)
    return _table(frame, f"about {_lines(path):,}")


def _parquet(path: Path) -> list[str]:
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  # optional

    with ParquetFile(path) as file:
        batch = next(file.iter_batches(batch_size=ROWS_READ), None)
        rows, names = file.metadata.num_rows, file.schema_arrow.names
        if batch is None:
            return [f"0 rows x {len(names)} columns: {', '.join(names)}"]
        return _table(batch.to_pandas(), f"{rows:,}")


_READERS: dict[str, Callable[[Path], list[str]]] = {
    ".csv": _separated,
    ".tsv": _separated,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
}


def _table(frame: Any, rows: str) -> list[str]:
    shape = f"{rows} rows x {len(frame.columns):,} columns"
    return [f"{shape}; types from the first {len(frame):,} rows", *frame_lines(frame)]


def _text(path: Path) -> list[str]:
    """The beginning and the end; raises ValueError for a file that is not text."""
    with path.open("rb") as file:
        head = file.read(HEAD_CHARACTERS * 2)
        file.seek(max(path.stat().st_size - TAIL_CHARACTERS, 0))
        tail = file.read().decode("utf-8", "replace")
    if b"\0" in head:
        raise ValueError("not text")
    begins = head.decode("utf-8-sig", "replace")[:HEAD_CHARACTERS]
    left_out = path.stat().st_size - len(begins.encode()) - len(tail.encode())
    between = f"… about {left_out:,} bytes omitted …"
    return [f"about {_lines(path):,} lines", begins, between, tail]


def _lines(path: Path) -> int:
    """The number of lines, estimated from the beginning."""
    size = path.stat().st_size
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
    exact = sample.count(b"\n")
    return exact if len(sample) >= size else round(exact * size / max(len(sample), 1))


def _size(path: Path) -> str:
    size = path.stat().st_size
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{path.name}: {size / factor:.1f} {unit}, not sent whole"
    return f"{path.name}: {size:,} bytes"
