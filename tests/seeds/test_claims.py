"""Figures in lists and docs are those that notebooks print and the code has."""

import json
import re
from pathlib import Path

import pytest

from nbchat.compaction.plan import LEAST_MEMORY
from nbchat.compaction.policies import PRESETS

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


PRESET_ROW = re.compile(r"^\| `([\w-]+)` \|(.*)$", re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*")


def preset_rows() -> list[tuple[str, str]]:
    """The rows about presets in the README and on the page about policies."""
    pages = (ROOT / "README.md", ROOT / "docs" / "concepts" / "policies.md")
    rows = [
        row for page in pages for row in PRESET_ROW.findall(page.read_text("utf-8"))
    ]
    return [(name, row) for name, row in rows if name in PRESETS and NUMBER.search(row)]


def test_shares_and_sizes_of_presets_are_those_of_the_code():
    rows = preset_rows()
    assert {name for name, _ in rows} > {"tiered", "recent-messages", "early"}
    for name, row in rows:
        policy = PRESETS[name]
        shares = (policy.window_share, policy.target_share or 0)
        sizes = (policy.keep, policy.bullets, *(round(100 * each) for each in shares))
        known = {f"{size:,}" for size in sizes if size}
        assert set(NUMBER.findall(row)) <= known, (name, row)


def test_sizes_of_the_memory_are_those_of_the_code():
    text = (ROOT / "docs" / "concepts" / "memory.md").read_text("utf-8")
    policy = PRESETS["single-summary"]
    for size in (LEAST_MEMORY, policy.facts_max_tokens):
        assert f"{size:,}" in text
    assert f"{policy.facts_share:.0%}" in text
