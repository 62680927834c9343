"""Read a file as the text that is attached: tables described, documents as text.

A table of over 2,000 tokens is described like a variable. Only parts of a large file
are read, so that gigabytes take as long as megabytes. Documents are read by libraries
of the extra `files`; without them an error says what to install.
"""

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile, is_zipfile

from nbchat.chat.attachments.failures import without_colours
from nbchat.chat.attachments.table_preview import frame_lines
from nbchat.chat.attachments.text_decoding import decoded
from nbchat.chat.attachments.value_preview import truncated
from nbchat.errors import AttachmentError
from nbchat.providers.tokens import TokenCounter

TEXT_BYTES = 200_000
"""Bytes of a text that is sent whole: about 50,000 tokens."""

TABLE_TOKENS = 2_000
"""Tokens from which on a table is described instead of sent."""

ASKED_TOKENS = 4_000
"""Tokens from which on a person is asked whether a text is sent or described."""

READ_BYTES, PIECES = 20_000_000, 40
"""Bytes of a table that are read whole; of a larger one, so many pieces."""

HEAD_CHARACTERS, TAIL_CHARACTERS = 4_000, 1_000
"""Shown of a longer text."""

SAMPLE_BYTES = 1_000_000
"""Bytes of the beginning, from which the number of lines is estimated."""

SNIFFED = 65_536
"""Characters from which separator and decimal mark are found."""

UNPACKED_BYTES = 300_000_000
"""Bytes that a packed file may become: office files are zip archives."""

PIECE_BYTES = 1_000_000
"""Bytes that are unpacked at once."""

SHEETS_READ, PAGES_READ, ROWS_READ = 10, 200, 200_001

OUTPUT_CHARACTERS = 2_000
"""Characters of one output in a notebook, whose middle is left out."""

_DECIMAL_COMMA = re.compile(r"-?[\d.]*\d,\d+")
_DECIMAL_POINT = re.compile(r"-?\d+\.\d+")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:\.\d{3})+,\d+")
_GROUPED = re.compile(r"-?\d{1,3}(?:\.\d{3})*(?:,\d+)?")
_LEADING_ZERO = re.compile(r"0\d+")


@dataclass(frozen=True, slots=True)
class FileText:
    """The text that is sent of a file."""

    text: str
    is_whole: bool = False
    """True if it is the file's own text, unchanged."""
    whole: str = ""
    """All of it, where the text only describes it."""
    description: str = ""
    """A description of a long text."""


def file_text(path: Path) -> FileText:
    """The text of a file; raises AttachmentError for one that cannot be read."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".gz":
            return _unpacked(path)
        read = _READERS.get(suffix)
        return _text(path) if read is None else read(path)
    except AttachmentError:
        raise
    except Exception as error:  # noqa: BLE001  # readers raise errors of all kinds
        reason = " ".join(f"{error}".split())[:200] or type(error).__name__
        raise AttachmentError(f"{path.name} can't be read: {reason}") from None


def _unpacked(path: Path) -> FileText:
    """The text of a file that is packed by gzip, or of its beginning."""
    with gzip.open(path) as file, TemporaryDirectory() as folder:
        content = file.read(READ_BYTES + 1)
        inside = Path(folder, path.stem)
        inside.write_bytes(content[:READ_BYTES])
        found = file_text(inside)
    if len(content) <= READ_BYTES:
        return found
    cut = f"Only the first {READ_BYTES:,} bytes of the unpacked file were read."
    return FileText(f"{found.text}\n{cut}")


def _text(path: Path) -> FileText:
    """A text, or the beginning and the end of a long one."""
    size = path.stat().st_size
    if size <= TEXT_BYTES:
        text, note = decoded(path.read_bytes())
        return _described_too(path, _with_note(text, note), is_whole=not note)
    with path.open("rb") as file:
        head = file.read(HEAD_CHARACTERS * 4)
        file.seek(max(size - TAIL_CHARACTERS * 2, 0))
        tail = file.read()
    begins, note = decoded(_without_cut(head))
    encoding = (
        note.removeprefix("read as ").partition(",")[0] if "read as" in note else ""
    )
    ends = tail.decode(encoding or _wide(head) or "utf-8", "replace")
    begins, ends = begins[:HEAD_CHARACTERS], ends[-TAIL_CHARACTERS:]
    left_out = size - len(begins.encode()) - len(ends.encode())
    lines = [_size(path), f"about {_lines(path):,} lines", begins]
    lines += [f"… about {left_out:,} bytes omitted …", ends]
    return FileText(_with_note("\n".join(lines), note))


def _described_too(path: Path, text: str, *, is_whole: bool = False) -> FileText:
    """A text, and of a long one a description, so that a person can choose."""
    least = ASKED_TOKENS * 2  # a token has seldom fewer characters
    if len(text) < least or TokenCounter().count(text) < ASKED_TOKENS:
        return FileText(text, is_whole)
    shown = truncated(text, HEAD_CHARACTERS, TAIL_CHARACTERS)
    lines = [_size(path), f"{text.count(chr(10)) + 1:,} lines", shown]
    return FileText(text, is_whole, description="\n".join(lines))


def _without_cut(head: bytes) -> bytes:
    """The bytes to the last line's end, where there is one: no character is cut."""
    line, mark, _ = head.rpartition(b"\n")
    return line + mark if mark and not _wide(head) else head[: len(head) // 4 * 4]


def _wide(head: bytes) -> str:
    """The encoding of a text with a mark of UTF-16."""
    marks = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
    return marks.get(head[:2], "")


def _with_note(text: str, note: str) -> str:
    return f"[{note}]\n{text}" if note else text


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
    return f"{path.name}: {size:,} bytes, not sent whole"


def _table(path: Path, parse: Callable[[str], tuple[Any, str]]) -> FileText:
    """A table of lines: whole if it is short, else described, if pandas is there."""
    size, whole = path.stat().st_size, ""
    if size <= TEXT_BYTES:
        whole, note = decoded(path.read_bytes())
        is_short = (
            len(whole) <= TABLE_TOKENS * 10
            and TokenCounter().count(whole) <= TABLE_TOKENS
        )
        if is_short or find_spec("pandas") is None:
            return FileText(_with_note(whole, note), is_whole=not note)
        whole = _with_note(whole, note)
    if find_spec("pandas") is None:
        return _text(path)
    try:
        text, note = decoded(_read(path))
        frame, how = parse(text)
    except Exception as error:  # noqa: BLE001  # pandas raises errors of all kinds
        kind = type(error).__name__
        found = _text(path).text
        return FileText(f"pandas can't read this as a table ({kind})\n{found}")
    lines = _described(path, frame, text, [how, note])
    return FileText("\n".join(lines), whole=whole)


def _described(
    path: Path, frame: Any, text: str, notes: Iterable[str]
) -> Iterator[str]:
    size, rows = path.stat().st_size, len(frame)
    yield "; ".join(filter(None, (_size(path), *notes)))
    if size <= READ_BYTES:
        yield f"{rows:,} rows x {len(frame.columns):,} columns"
        yield from frame_lines(frame)
        return
    read = max(len(text.encode()), 1)
    about = f"about {round(rows * size / read):,}"
    yield f"{about} rows x {len(frame.columns):,} columns"
    yield from frame_lines(frame, total=about)


def _read(path: Path) -> bytes:
    """A file's bytes; of a large one whole lines from places that are spread evenly.

    Nothing of a file that begins with a line of megabytes.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= READ_BYTES:
            return file.read()
        length = READ_BYTES // PIECES
        pieces = [file.read(length).rpartition(b"\n")[0]]
        for number in range(1, PIECES):
            file.seek(size * number // PIECES)
            pieces.append(file.read(length).partition(b"\n")[2].rpartition(b"\n")[0])
    return b"\n".join(filter(None, pieces)) if pieces[0] else b""


def _separated(text: str, *, usual: str) -> tuple[Any, str]:
    """A frame of a text with separators, and which ones it has."""
    import pandas as pd  # noqa: PLC0415  # optional

    sample = text[:SNIFFED].rpartition("\n")[0] or text[:SNIFFED]
    separator = _separator(sample, usual)
    rows = list(csv.reader(io.StringIO(sample), delimiter=separator)) or [[]]
    cells = [each for row in rows[1:] for each in row]
    marks = _number_marks(cells, separator)
    kept = {
        name: str
        for n, name in enumerate(rows[0])
        if _has_codes([row[n] for row in rows[1:] if n < len(row)], marks)
    }
    read = partial(pd.read_csv, sep=separator, dtype=kept, low_memory=False, **marks)
    shown = {"\t": "tab", ";": "semicolon", "|": "bar"}.get(separator, "comma")
    how = f"separated by {shown}" + (", decimal comma" if marks else "")
    try:
        return read(io.StringIO(text)), how
    except pd.errors.ParserError:
        frame = read(io.StringIO(text), on_bad_lines="skip")
        return frame, f"{how}; lines with more fields than the first were left out"


def _separator(sample: str, usual: str) -> str:
    """The character that occurs equally often in the first lines."""
    lines = sample.splitlines()[:20]
    counts = {mark: [line.count(mark) for line in lines] for mark in (usual, *";\t|,")}
    even = {mark: n[0] for mark, n in counts.items() if n[0] and len(set(n)) == 1}
    if even:
        return str(max(even, key=lambda mark: (even[mark], mark == usual)))
    try:
        return str(csv.Sniffer().sniff(sample, delimiters=",;\t|").delimiter)
    except csv.Error:
        return usual


def _number_marks(cells: Iterable[str], separator: str) -> dict[str, str]:
    """How numbers are written, where that is not as in Python."""
    if separator == ",":
        return {}
    cells = list(cells)
    commas = sum(_DECIMAL_COMMA.fullmatch(each) is not None for each in cells)
    points = sum(_DECIMAL_POINT.fullmatch(each) is not None for each in cells)
    if not commas or points > commas:
        return {}
    has_thousands = any(map(_THOUSANDS.fullmatch, cells))
    return {"decimal": ",", **({"thousands": "."} if has_thousands else {})}


def _has_codes(cells: Iterable[str], marks: Mapping[str, str]) -> bool:
    """True if cells would be other texts as numbers: 007, or 01.02.2026 with points."""
    is_pointed = "thousands" in marks
    return any(
        _LEADING_ZERO.fullmatch(each)
        or (is_pointed and "." in each and not _GROUPED.fullmatch(each))
        for each in cells
    )


def _json_lines(text: str) -> tuple[Any, str]:
    import pandas as pd  # noqa: PLC0415  # optional

    rows, bad = [], 0
    for line in filter(str.strip, text.splitlines()):
        try:
            rows.append(json.loads(line))
        except ValueError:
            bad += 1
    frame = pd.DataFrame(
        [row if isinstance(row, dict) else {"value": row} for row in rows]
    )
    return frame, f"{bad:,} lines that are not JSON were left out" if bad else ""


def _parquet(path: Path) -> FileText:
    """The rows of some row groups, which are spread evenly."""
    try:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  # optional
    except ImportError:
        raise _missing("Parquet") from None
    import pyarrow as pa  # noqa: PLC0415  # as above

    with ParquetFile(path) as file:
        rows, groups = file.metadata.num_rows, file.num_row_groups
        is_whole = rows < ROWS_READ
        chosen = (
            range(groups)
            if is_whole
            else sorted({groups * n // PIECES for n in range(PIECES)})
        )
        most = rows if is_whole else ROWS_READ // max(len(chosen), 1)
        tables = [_beginning(file, group, most) for group in chosen]
        table = pa.concat_tables(tables) if tables else file.schema_arrow.empty_table()
    total = "" if is_whole else f"{rows:,}"
    shape = f"{rows:,} rows x {len(table.column_names):,} columns"
    return FileText("\n".join([_size(path), shape, *frame_lines(table, total=total)]))


def _beginning(file: Any, group: int, rows: int) -> Any:
    """The first rows of a row group."""
    import pyarrow as pa  # noqa: PLC0415  # optional

    batches = file.iter_batches(batch_size=max(rows, 1), row_groups=[group])
    first = next(batches, None)
    return file.schema_arrow.empty_table() if first is None else pa.table(first)


def _sheets(path: Path) -> FileText:
    """Each sheet of a workbook as a table."""
    try:
        import pandas as pd  # noqa: PLC0415  # optional
        from python_calamine import CalamineWorkbook  # noqa: PLC0415  # optional
    except ImportError:
        raise _missing("Excel") from None
    _check_unpacked(path)
    book = CalamineWorkbook.from_path(str(path))
    parts = [f"{path.name}: {len(book.sheet_names)} sheets"]
    for name in book.sheet_names[:SHEETS_READ]:
        rows = book.get_sheet_by_name(name).to_python(nrows=ROWS_READ)
        parts.append(f"\nSheet {name!r}:")
        parts += _sheet(rows, pd) if rows else ["empty"]
    return FileText("\n".join(parts))


def _sheet(rows: list[list[Any]], pandas: Any) -> list[str]:
    """A sheet's cells if they are few, else its table; the first row has the names."""
    lines = ["\t".join(map(str, row)) for row in rows[:200]]
    whole = "\n".join(lines)
    if len(rows) <= len(lines) and len(whole) <= TABLE_TOKENS * 3:
        return lines
    cells = [[None if each == "" else each for each in row] for row in rows[1:]]
    frame = pandas.DataFrame(cells, columns=rows[0]).convert_dtypes()
    shape = f"{len(frame):,} rows x {len(frame.columns):,} columns"
    return [shape, *frame_lines(frame)]


def _notebook(path: Path) -> FileText:
    """The cells of a notebook with their outputs, without its pictures."""
    if path.stat().st_size > UNPACKED_BYTES:
        return _text(path)
    try:
        cells = json.loads(decoded(path.read_bytes())[0])["cells"]
        parts = [_cell_text(number, cell) for number, cell in enumerate(cells, 1)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return FileText(f"not a notebook that can be read\n{_text(path).text}")
    return _bounded(path, "\n\n".join(parts))


def _cell_text(number: int, cell: dict[str, Any]) -> str:
    head = f"[{number}] {cell['cell_type']}"
    shown = [head, _joined(cell.get("source", ""))]
    for output in cell.get("outputs", ()):
        text = _output_text(output)
        shown += (
            [f"output:\n{truncated(text, *[OUTPUT_CHARACTERS // 2] * 2)}"]
            if text
            else []
        )
    return "\n".join(shown)


def _output_text(output: dict[str, Any]) -> str:
    if "traceback" in output:
        return without_colours("\n".join(output["traceback"]))
    if "text" in output:
        return _joined(output["text"]).rstrip("\n")
    data = output.get("data", {})
    if any(kind.startswith("image/") for kind in data):
        return "[picture]"
    kinds = ("text/markdown", "text/plain", "application/json", "text/html")
    return next((_joined(data[kind]) for kind in kinds if kind in data), "")


def _joined(text: Any) -> str:
    """A text, which notebooks may keep as a list of lines."""
    if isinstance(text, list):
        return "".join(map(str, text))
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


def _pdf(path: Path) -> FileText:
    try:
        from pypdf import PdfReader  # noqa: PLC0415  # optional
    except ImportError:
        raise _missing("PDF") from None
    pages = PdfReader(path).pages
    parts = [f"{path.name}: {len(pages):,} pages"]
    for number, page in zip(range(1, PAGES_READ + 1), pages, strict=False):
        parts.append(f"\nPage {number}:\n{page.extract_text().strip() or '[no text]'}")
        if sum(map(len, parts)) > TEXT_BYTES:
            break
    return _bounded(path, "\n".join(parts))


def _word(path: Path) -> FileText:
    try:
        from docx import Document  # noqa: PLC0415  # optional
        from docx.table import Table  # noqa: PLC0415  # optional
    except ImportError:
        raise _missing("Word") from None
    _check_unpacked(path)
    parts = []
    for block in Document(str(path)).iter_inner_content():
        if isinstance(block, Table):
            rows = (row.cells for row in block.rows)
            parts += [" | ".join(cell.text for cell in cells) for cells in rows]
        elif block.text.strip():
            style = (block.style.name if block.style else "") or ""
            is_heading = style.startswith("Heading")
            parts.append(f"# {block.text}" if is_heading else block.text)
    return _bounded(path, "\n".join(parts))


def _slides(path: Path) -> FileText:
    try:
        from pptx import Presentation  # noqa: PLC0415  # optional
    except ImportError:
        raise _missing("PowerPoint") from None
    _check_unpacked(path)
    parts = []
    for number, slide in enumerate(Presentation(str(path)).slides, 1):
        parts.append(f"Slide {number}:")
        for shape in slide.shapes:
            if shape.has_text_frame:
                parts += filter(None, [shape.text_frame.text.strip()])
            elif shape.has_table:
                rows = shape.table.rows
                parts += [" | ".join(cell.text for cell in row.cells) for row in rows]
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame):
            parts += [f"Notes: {frame.text.strip()}"] if frame.text.strip() else []
    return _bounded(path, "\n".join(parts))


def _bounded(path: Path, text: str) -> FileText:
    """A text, or the beginning and the end of one that is too long."""
    if len(text) <= TEXT_BYTES:
        return _described_too(path, text)
    return FileText(truncated(text, TEXT_BYTES - TAIL_CHARACTERS, TAIL_CHARACTERS))


def _check_unpacked(path: Path) -> None:
    """Raise ValueError for a zip archive that becomes too large: a zip bomb.

    What it becomes is counted, because the size that the archive states may be false.
    """
    if not is_zipfile(path):
        return  # an old .xls is no archive
    left = UNPACKED_BYTES
    with ZipFile(path) as archive:
        for member in archive.infolist():
            member.file_size = sys.maxsize  # read all, whatever it states
            with archive.open(member) as file:
                while piece := file.read(PIECE_BYTES):
                    left -= len(piece)
                    if left < 0:
                        raise ValueError(
                            f"it is larger than {UNPACKED_BYTES:,} bytes unpacked"
                        )


def _missing(kind: str) -> AttachmentError:
    return AttachmentError(
        f"To attach {kind} files, run: pip install 'jupyter-nbchat[files]'"
    )


_READERS: dict[str, Callable[[Path], FileText]] = {
    ".csv": partial(_table, parse=partial(_separated, usual=",")),
    ".tsv": partial(_table, parse=partial(_separated, usual="\t")),
    ".jsonl": partial(_table, parse=_json_lines),
    ".ndjson": partial(_table, parse=_json_lines),
    ".parquet": _parquet,
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), _sheets),
    ".ipynb": _notebook,
    ".pdf": _pdf,
    ".docx": _word,
    ".pptx": _slides,
}
