"""The figures that the list of requirements names are those that the notebooks print."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = Path(__file__).with_name("README.md")
ROW = re.compile(r"^\| [\d, ]+ \|.*`(notebooks/[\w/]+\.ipynb)`.*$", re.MULTILINE)
FIGURE = re.compile(
    r"\d[\d,.]* %|\d\d,\d{3}(?= of)|\d+(?= tickets)|\d\.\d(?= (?:and|times))"
)


def printed(notebook: str) -> str:
    """All that a notebook puts out, and its text."""
    cells = json.loads((ROOT / notebook).read_text("utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [each.get("text") or each["data"].get("text/plain", "") for each in outputs]
    sources = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
    return "\n".join("".join(each) for each in [*texts, *sources])


ROWS = [(found[1], found[0]) for found in ROW.finditer(README.read_text("utf-8"))]


@pytest.mark.parametrize(("notebook", "row"), ROWS, ids=[row[0] for row in ROWS])
def test_each_figure_of_a_row_is_printed_by_its_notebook(notebook: str, row: str):
    measured = row.split("|")[4]
    text = printed(notebook).replace("%", " %").replace("  %", " %")
    figures = FIGURE.findall(measured)
    assert figures
    assert [each for each in figures if each not in text] == []
