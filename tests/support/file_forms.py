"""The same 2,000 orders, or the same words, as files of ten forms."""

import base64
import io
from collections.abc import Callable
from pathlib import Path

import docx
import nbformat as nbf
import numpy as np
import pandas as pd
import pptx
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure


def orders(rows: int = 2_000) -> pd.DataFrame:
    """A quarter of the amounts is n/a, but none of the first five."""
    random = np.random.default_rng(3)
    amounts = random.gamma(2, 50, rows).round(2)
    amounts[random.permutation(np.arange(5, rows))[: rows // 4]] = np.nan
    return pd.DataFrame(
        {
            "order": [f"A{number}" for number in range(rows)],
            "day": pd.date_range("2026-01-01", periods=rows, freq="h").astype(str),
            "city": random.choice(["Lyon", "Bonn", "Oslo"], rows),
            "amount": amounts,
        }
    )


def write_notebook(path: Path, plots: int = 6) -> None:
    """Eight small cells, some with a scatter plot."""
    cells = []
    for number in range(8):
        cell = nbf.v4.new_code_cell(f"df = load({number})\nmodel_{number} = fit(df)")
        if number < plots:
            figure, file = Figure(), io.BytesIO()
            figure.gca().scatter(*np.random.default_rng(number).normal(size=(2, 800)))
            figure.savefig(file, format="png")
            data = {"image/png": base64.b64encode(file.getvalue()).decode()}
            cell.outputs = [nbf.v4.new_output("display_data", data)]
        cells.append(cell)
    nbf.write(nbf.v4.new_notebook(cells=cells), path)


def write_pdf(path: Path, pages: int = 5) -> None:
    with PdfPages(path) as file:
        for number in range(pages):
            figure = Figure()
            for line in range(20):
                text = f"Page {number}, line {line}: the total was {line * 7} EUR."
                figure.text(0.1, 0.9 - line / 25, text)
            file.savefig(figure)


def write_word(path: Path) -> None:
    document = docx.Document()
    for number in range(100):
        document.add_paragraph(f"Paragraph {number}: the total was {number * 7} EUR.")
    document.save(str(path))


def write_slides(path: Path) -> None:
    deck = pptx.Presentation()
    for number in range(20):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Slide {number}: the total was {number * 7} EUR."
    deck.save(str(path))


FORMS: dict[str, Callable[[Path], object]] = {
    "orders.csv": lambda path: orders().to_csv(path, index=False, na_rep="n/a"),
    "orders.tsv": lambda path: orders().to_csv(path, index=False, sep="\t"),
    "orders.jsonl": lambda path: orders().to_json(path, orient="records", lines=True),
    "orders.parquet": lambda path: orders().to_parquet(path),
    "orders.xlsx": lambda path: orders().to_excel(path, index=False),
    "analysis.ipynb": write_notebook,
    "report.pdf": write_pdf,
    "report.docx": write_word,
    "report.pptx": write_slides,
    "latin.log": lambda path: path.write_bytes(
        "Größe ungültig\n".encode("cp1252") * 99
    ),
}
