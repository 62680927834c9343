"""Figures in lists and docs are those that notebooks print and the code has."""

import json
import re
from importlib import import_module
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


BENCHMARKS = ROOT / "tests" / "benchmarks"
PAGE = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
METERS = {
    "no compaction": "none",
    "every 5,000 input tokens": "cumulative 5k",
    "every 20,000 input tokens": "cumulative 20k",
    "default, 128k window": "default, 128k",
    "default, 16k window": "default, 16k",
    "half of a 32k window": "window 32k, 50 %",
    "`auto`": "auto",
}
"""Rows of the page, and what the program calls them."""


@pytest.mark.slow
def test_costs_of_the_short_run_are_those_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.syspath_prepend(BENCHMARKS)
    cost = import_module("cost")
    work = cost.ticket_run()
    for row, meter in METERS.items():
        (cells,) = re.findall(rf"(?m)^\| {re.escape(row)} \|(.*)\|$", PAGE)
        told = [cell.replace("*", "").strip() for cell in cells.split("|")][:2]
        for cell, cached in zip(told, ("no cache", "cache"), strict=True):
            bill = cost.replay(work, cost.SCENES[f"claude-sonnet-5-5, {cached}"], meter)
            made = "" if meter == "none" else f" ({bill.compactions})"
            assert cell == f"{bill.dollars:.2f}{made}", row


@pytest.mark.slow
def test_how_exact_counts_are_is_what_the_program_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import_module("counting").main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    before, after = [line[1:] for line in lines if line[:1] == ["all"]]
    mean, most = after[1], after[2]
    assert f"for {before[0]} recorded requests" in PAGE
    assert f"| {float(before[1].rstrip('%')):.0f}% on average |" in PAGE
    for text in (PAGE, README.read_text("utf-8").replace(" %", "%")):
        assert re.search(
            rf"{mean} on average[;,] 95% of requests by at most {most}", text
        )
