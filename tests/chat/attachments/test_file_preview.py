"""Files are attached as what answers need: tables described, documents as text."""

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import nbformat as nbf
import numpy as np
import openpyxl
import pandas as pd
import pptx
import pytest
from cpu_time import CpuTime
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from nbchat.chat.attachments.file_preview import file_text
from nbchat.errors import AttachmentError
from nbchat.providers.tokens import TokenCounter

GERMAN = "Datum;Größe;Straße\n01.02.2026;3,5;Königsallee – „A“\n"


def text_of(path: Path, content: bytes = b"") -> str:
    if content:
        path.write_bytes(content)
    return file_text(path).text


def sales(rows: int = 2_000) -> pd.DataFrame:
    """A quarter of the amounts is n/a, but none of the first five."""
    random = np.random.default_rng(3)
    amounts = random.gamma(2, 50, rows).round(2)
    amounts[random.permutation(np.arange(5, rows))[: rows // 4]] = np.nan
    cities = random.choice(["Lyon", "Bonn", "Oslo"], rows)
    return pd.DataFrame({"id": range(rows), "amount": amounts, "city": cities})


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "a.csv": lambda frame, path: frame.to_csv(path, index=False, na_rep="n/a"),
    "a.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "a.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "a.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "a.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "european.csv": lambda frame, path: frame.to_csv(
        path, index=False, sep=";", decimal=",", encoding="cp1252"
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_in_a_file_is_described_like_a_variable(name: str, tmp_path: Path):
    frame = sales()
    WRITERS[name](frame, tmp_path / name)
    text = text_of(tmp_path / name)
    low, high = frame.amount.min(), frame.amount.max()
    assert "2,000 rows x 3 columns" in text
    assert "500 missing; " in text
    assert f"{frame.amount.nunique():,} different; {low} to {high}" in text
    counts = frame.city.value_counts()
    assert ", ".join(f"{city} ({n:,})" for city, n in counts.items()) in text
    assert "rows with missing values or extremes:" in text
    assert TokenCounter().count(text) < 2_000


def test_a_short_table_is_sent_unchanged(tmp_path: Path):
    short = b"a,b\n1,n/a\n"
    assert text_of(tmp_path / "a.csv", short) == short.decode()


def test_a_separator_and_a_decimal_comma_are_recognised(tmp_path: Path):
    rows = "01.02.2026;1.234,5;Königsallee\n" * 900
    text = text_of(tmp_path / "a.csv", ("Datum;Größe;Straße\n" + rows).encode("cp1252"))
    assert "separated by semicolon, decimal comma" in text
    assert "900 rows x 3 columns" in text
    assert "- Größe: float64; 0 missing; 1 different; 1234.5 (900)" in text
    assert "01.02.2026 (900)" in text


def test_numbers_that_begin_with_zero_stay_as_they_are(tmp_path: Path):
    rows = "".join(f"00{n},x\n" for n in range(100, 2_000))
    assert "00100" in text_of(tmp_path / "a.csv", f"code,b\n{rows}".encode())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("one.csv", "city\n" + "Bonn am Rhein\n" * 3_000),
        ("uneven.csv", "a;b\n1;2\n\n3;4;5\n" + "1;2\n" * 3_000),
        ("prose.csv", "It was a day\nlike others, but\n" * 3_000),
        ("empty.csv", ""),
    ],
)
def test_a_file_that_is_hardly_a_table_is_readable(
    name: str, content: str, tmp_path: Path
):
    (tmp_path / name).write_text(content)
    text = text_of(tmp_path / name)
    assert content[:9] in text or " rows x " in text


def test_lines_with_too_many_fields_do_not_hide_the_others(tmp_path: Path):
    rows = "1,2\n" * 3_000 + "1,2,3,4\n" + "1,2\n" * 10
    text = text_of(tmp_path / "a.csv", f"a,b\n{rows}".encode())
    assert "3,010 rows" in text
    assert "lines with more fields than the first were left out" in text


def test_lines_of_json_that_are_broken_are_counted(tmp_path: Path):
    rows = '{"a": 1, "b": {"c": [1]}}\n' * 1_000 + '{"a": \n'
    text = text_of(tmp_path / "a.jsonl", rows.encode())
    assert "1 lines that are not JSON were left out" in text
    assert "1,000 rows x 2 columns" in text
    assert "{'c': [1]}" in text


def test_figures_of_a_large_table_come_from_all_parts_of_it(tmp_path: Path):
    with (tmp_path / "big.csv").open("w") as file:
        file.write("n,part\n")
        for part in ("first", "middle", "last"):
            file.writelines(f"{n},{part}\n" for n in range(1_000_000))
    began = CpuTime()
    text = text_of(tmp_path / "big.csv")
    assert began.spent() < 3
    assert "first (" in text
    assert "middle (" in text
    assert "last (" in text
    assert "rows spread evenly" in text
    about = int(text.partition("about ")[2].partition(" rows")[0].replace(",", ""))
    assert about == pytest.approx(3_000_000, rel=0.03)


def test_of_one_line_of_a_gigabyte_only_the_beginning_is_read(tmp_path: Path):
    with (tmp_path / "line.csv").open("wb") as file:
        file.write(b"abc," * 10_000)
        file.truncate(1_000_000_000)
        file.seek(0, io.SEEK_END)
    began = CpuTime()
    text = text_of(tmp_path / "line.csv")
    assert began.spent() < 1
    assert text.startswith("line.csv: 1.0 GB") or "line.csv: 1.0 GB" in text
    assert len(text) < 10_000


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (GERMAN.encode("cp1252"), GERMAN),
        (GERMAN.encode("utf-8-sig"), GERMAN),
        (GERMAN.encode("utf-16"), GERMAN),
        (GERMAN.encode("utf-16-le"), GERMAN),
        (GERMAN.encode("utf-32"), GERMAN),
        ("Fehler: Größe ungültig\n".encode("latin-1"), "Fehler: Größe ungültig"),
        ("Le café est fermé à Noël\n".encode("cp1252"), "Le café est fermé à Noël"),
        ("Zażółć gęślą jaźń\n".encode("cp1250"), "Zażółć gęślą jaźń"),
        ("Заказ отправлен сегодня\n".encode("cp1251"), "Заказ отправлен сегодня"),
        ("注文番号 A1 は発送済み\n".encode("cp932"), "注文番号 A1 は発送済み"),
        ("주문 번호 A1 발송 완료\n".encode("euc_kr"), "주문 번호 A1 발송 완료"),
        (b"ok line\n" * 200 + b"bad \xff byte\n", "1 bytes that are not UTF-8"),
        ("größer\n".encode() * 99 + b"bad \xff byte\n", "1 bytes that are not UTF-8"),
        ("日志\n".encode() * 5 + b"\xff\n", "日志\n日志\n"),
        (b"line\n" * 50 + b"\0" * 4 + b"tail\n", "4 null bytes left out"),
        (b"line\r\n", "line\r\n"),
    ],
)  # fmt: skip
def test_text_in_any_encoding_is_readable(content: bytes, shown: str, tmp_path: Path):
    assert shown in text_of(tmp_path / "a.log", content)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8"])
def test_a_long_text_is_read_like_a_short_one(encoding: str, tmp_path: Path):
    text = text_of(tmp_path / "a.log", ("Größe ungültig\n" * 50_000).encode(encoding))
    assert text.count("Größe ungültig") > 100
    assert "\ufffd" not in text.rpartition("omitted")[2].partition("\n")[2][100:]
    assert "not sent whole" in text


def notebook(plots: int) -> str:
    """Eight cells, of which some show a plot."""
    cells = [nbf.v4.new_code_cell(f"model_{n} = fit(df)") for n in range(8)]
    for cell in cells[:plots]:
        data = {"image/png": "A" * 120_000, "text/plain": "<Figure>"}
        cell.outputs = [nbf.v4.new_output("display_data", data)]
    cells[7].outputs.append(nbf.v4.new_output("stream", text="done\n" * 2_000))
    cells[7].outputs.append(
        nbf.v4.new_output(
            "error", ename="E", evalue="v", traceback=["\x1b[31mE: v\x1b[0m"]
        )
    )
    return str(nbf.writes(nbf.v4.new_notebook(cells=cells)))


@pytest.mark.parametrize("plots", [0, 1, 2, 6])
def test_a_notebook_is_its_cells_and_the_texts_of_its_outputs(
    plots: int, tmp_path: Path
):
    text = text_of(tmp_path / "a.ipynb", notebook(plots).encode())
    assert all(f"model_{n} = fit" in text for n in range(8))
    assert text.count("[picture]") == plots
    assert "E: v" in text
    assert "\x1b" not in text
    assert TokenCounter().count(text) < 1_500


@pytest.mark.parametrize(
    "content", [b"no JSON", b"[]", b'{"cells": 3}', b'{"cells": [1]}']
)
def test_a_notebook_that_cannot_be_read_is_sent_as_text(content: bytes, tmp_path: Path):
    text = text_of(tmp_path / "a.ipynb", content)
    assert text == f"not a notebook that can be read\n{content.decode()}"


def test_a_pdf_is_the_text_of_its_pages(tmp_path: Path):
    with PdfPages(tmp_path / "a.pdf") as pages:
        for line in ("Invoice 17", "Total 35 EUR"):
            figure = Figure()
            figure.text(0.2, 0.5, line)
            pages.savefig(figure)
    text = text_of(tmp_path / "a.pdf")
    assert text.index("Page 1:\nInvoice 17") < text.index("Page 2:\nTotal 35 EUR")


def test_a_word_document_is_its_paragraphs_and_tables_in_order(tmp_path: Path):
    document = docx.Document()
    document.add_heading("Contract", 1)
    document.add_paragraph("Between A and B.")
    cells = document.add_table(1, 2).rows[0].cells
    cells[0].text, cells[1].text = "Price", "35 EUR"
    document.add_paragraph("Signed.")
    document.save(str(tmp_path / "a.docx"))
    expected = "# Contract\nBetween A and B.\nPrice | 35 EUR\nSigned."
    assert text_of(tmp_path / "a.docx") == expected


def test_slides_are_their_texts_tables_and_notes(tmp_path: Path):
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Results"
    table = slide.shapes.add_table(1, 2, 0, 0, 999_999, 999_999).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Q1", "12 %"
    slide.notes_slide.notes_text_frame.text = "Say why."
    deck.save(str(tmp_path / "a.pptx"))
    text = text_of(tmp_path / "a.pptx")
    assert text == "Slide 1:\nResults\nQ1 | 12 %\nNotes: Say why."


def test_a_workbook_is_each_of_its_sheets(tmp_path: Path):
    book = openpyxl.Workbook()
    book.active.title = "Totals"
    book.active.append(["Q1", 12])
    book.create_sheet("Empty")
    orders = book.create_sheet("Orders")
    orders.append(["id", "amount"])
    for number in range(3_000):
        orders.append([number, None if number % 4 == 3 else number / 2])
    book.save(tmp_path / "a.xlsx")
    text = text_of(tmp_path / "a.xlsx")
    assert "Sheet 'Totals':\nQ1\t12" in text
    assert "Sheet 'Empty':\nempty" in text
    assert "3,000 rows x 2 columns" in text
    assert "750 missing" in text


def zip_bomb(path: Path, *, stated: int | None = None) -> None:
    """A workbook of which a sheet becomes 400 MB; it may state another size."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet,
    ):
        for _ in range(400):
            sheet.write(b" " * 1_000_000)
    if stated is not None:
        content = path.read_bytes()
        whole = struct.pack("<I", 400_000_000)
        path.write_bytes(content.replace(whole, struct.pack("<I", stated)))


@pytest.mark.parametrize("stated", [None, 10])
def test_a_zip_bomb_is_refused_in_one_line(stated: int | None, tmp_path: Path):
    zip_bomb(tmp_path / "bomb.xlsx", stated=stated)
    began = CpuTime()
    with pytest.raises(
        AttachmentError, match=r"bomb\.xlsx can't be read: it is larger"
    ):
        text_of(tmp_path / "bomb.xlsx")
    assert began.spent() < 3


@pytest.mark.parametrize(
    "name", ["a.xlsx", "a.docx", "a.pptx", "a.pdf", "a.parquet", "a.gz"]
)
def test_a_file_that_is_not_what_its_name_says_is_one_line(name: str, tmp_path: Path):
    with pytest.raises(AttachmentError, match=f"{name} can't be read") as refused:
        text_of(tmp_path / name, b"something else")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "module"),
    [("a.pdf", "pypdf"), ("a.docx", "docx"), ("a.pptx", "pptx"), ("a.parquet", "pyarrow.parquet"), ("a.xlsx", "python_calamine")],
)  # fmt: skip
def test_without_its_library_a_file_says_what_to_install(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(AttachmentError, match=r"pip install 'jupyter-nbchat\[files\]'"):
        text_of(tmp_path / name, b"x")


def test_only_the_beginning_of_a_packed_file_is_read(tmp_path: Path):
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"line\n" * 6_000_000))
    assert "Only the first 20,000,000 bytes" in text_of(tmp_path / "a.log.gz")


def test_json_outputs_of_a_notebook_are_shown(tmp_path: Path):
    cell = {"cell_type": "code", "source": ["a\n", "b"], "outputs": [{"data": {"application/json": {"x": 1}}}]}  # fmt: skip
    text = text_of(tmp_path / "a.ipynb", json.dumps({"cells": [cell]}).encode())
    assert text == '[1] code\na\nb\noutput:\n{"x": 1}'
