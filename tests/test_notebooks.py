"""The demo notebooks, executed by nbval: every cell runs, every output is compared.

nbval passes vacuously on notebooks that were never executed, and an unknown magic is no
failure for it; so the notebooks are looked at as files first.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import nbformat
import pytest
from kernels import without_ports
from nbclient import NotebookClient
from notebook_models import NotebookModel, RetailModel, TriageModel

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted([*FOLDER.glob("*.ipynb"), *FOLDER.glob("policies/*.ipynb")])
SLOW_CELL_SECONDS = 900
TOGETHER = (
    ("ticket_triage",),
    ("quickstart", "policies", "agent_in_the_notebook"),
    ("batch_triage", "retail_desk", *(f.stem for f in FOLDER.glob("policies/*.ipynb"))),
)
"""Notebooks that one process of nbval runs: each start takes 2 s. The times are alike."""

FEWER = {
    "NBCHAT_DEMO_TICKETS": "2",
    "NBCHAT_DEMO_HELD_OUT": "1",
    "NBCHAT_MAX_OUTPUT_TOKENS": "40",
}
"""Fewer tickets and shorter answers than in the committed run: as many decisions of each
kind, less waiting."""

SMALL_WINDOW = {"NBCHAT_WINDOW": "1300"}
"""For the tickets: two of them fill it, so that the chat is compacted."""


def code_cells(notebook: Path) -> list[dict]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def text_of(cell: dict) -> str:
    return json.dumps(cell["outputs"])


def test_the_demo_notebooks_are_there():
    assert [notebook.stem for notebook in NOTEBOOKS] == [
        "agent_in_the_notebook",
        "batch_triage",
        "000_tiered",
        "001_single_summary",
        "002_recent_messages",
        "003_early",
        "004_token_window",
        "policies",
        "quickstart",
        "retail_desk",
        "ticket_triage",
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_code_cell_is_committed_executed_and_without_an_error(notebook: Path):
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert "UsageError" not in text_of(cell)
        assert [o for o in cell["outputs"] if o["output_type"] == "error"] == []
        assert "nbval-skip" not in cell["metadata"].get("tags", [])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_where_a_model_speaks_the_output_is_not_compared_but_asserted_on(
    notebook: Path,
):
    cells = code_cells(notebook)
    free = [n for n, c in enumerate(cells) if c["metadata"].get("tags")]
    strict = [cell for n, cell in enumerate(cells) if n not in free]
    assert len(strict) >= len(free) // 2
    assert sum("assert " in "".join(cell["source"]) for cell in strict) >= 1
    assert any(cell["outputs"] for cell in strict)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_saved_notebook_holds_no_widget_state_and_no_path_of_a_machine(
    notebook: Path,
):
    text = notebook.read_text(encoding="utf-8")
    assert "widgets" not in json.loads(text)["metadata"]
    for folder in ("/root", "/home/", "/work/", "/tmp/"):
        assert folder not in text


def test_nbval_is_asked_for_each_notebook_once():
    names = [name for names in TOGETHER for name in names]
    assert sorted(names) == sorted(notebook.stem for notebook in NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_nbval_runs_and_compares_every_code_cell(names: tuple[str], tmp_path: Path):
    notebooks = [notebook for notebook in NOTEBOOKS if notebook.stem in names]
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings="]
    command += [f"--nbval-cell-timeout={SLOW_CELL_SECONDS}", f"--junitxml={report}"]
    environment = {**os.environ, **FEWER}
    if "ticket_triage" in names:
        environment |= SMALL_WINDOW
    done = subprocess.run(
        [*command, *map(str, notebooks)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SLOW_CELL_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-3_000:]
    results = list(ET.parse(report).iter("testcase"))  # our own file
    assert len(results) == sum(len(code_cells(each)) for each in notebooks)
    assert [case for case in results if len(case)] == []


def executed(name: str, server: NotebookModel, folder: Path) -> list[str]:
    """The outputs of a notebook in which a model of OpenAI's API decides."""
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    (chosen,) = [c for c in book.cells if "parameters" in c.metadata.get("tags", [])]
    chosen.source = 'model = "openai:gpt-6-luna"'
    there = {"metadata": {"path": folder}}
    client = NotebookClient(book, timeout=120, resources=there, config=without_ports())
    environment = {**os.environ, **server.environment, "PYTHONPATH": str(FOLDER)}
    client.execute(env=environment)
    server.close()
    return [json.dumps(cell.get("outputs", "")) for cell in book.cells]


@pytest.mark.slow
def test_a_model_decides_the_tickets_of_the_batch_with_its_own_faults(tmp_path):
    server = TriageModel()
    shown = " ".join(executed("batch_triage", server, tmp_path))
    assert "131 of 150 right" in shown
    assert "the price of openai:gpt-6-luna is not known here" in shown
    assert "147 of 150 tickets are noted" in shown
    assert "input tokens instead of" in shown
    asked = [each for each in server.requests if not each.body]
    assert len(asked) < 10  # the window is asked once, not once a ticket


@pytest.mark.slow
def test_a_model_serves_the_customers_of_the_shop_and_is_scored(tmp_path):
    shown = " ".join(executed("retail_desk", RetailModel(), tmp_path))
    assert "20 of 21 shops are in the right state" in shown
