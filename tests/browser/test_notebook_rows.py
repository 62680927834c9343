"""What a model that works in a notebook meets in Notebook 7, and where things go wrong.

The model does what a message says (`notebook_model.py`).
"""

import json
from collections.abc import Callable, Iterator

import pytest
from labkit import Lab, Notebook, permit
from notebook_model import MODEL, Model
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow

OpenNotebook = Callable[..., Notebook]


@pytest.fixture
def windowed(lab: Lab, page: Page) -> Iterator[None]:
    """JupyterLab draws only the cells in sight, as it does by itself."""
    address = f"{lab.url}/lab/api/settings/@jupyterlab/notebook-extension:tracker"
    permitted = permit(page, lab)

    def use(mode: str) -> None:
        chosen = {"raw": json.dumps({"windowingMode": mode})}
        assert page.request.put(address, data=chosen, headers=permitted).ok
        page.goto("about:blank")

    use("full")
    yield
    use("none")


@pytest.mark.usefixtures("windowed")
def test_a_model_works_in_a_notebook_of_5000_cells(
    open_notebook: OpenNotebook,
) -> None:
    model = Model(open_notebook(MODEL, *(f"value_{n} = {n}" for n in range(4_999))))
    assert model.do("read_notebook").startswith("5,000 cells\n1 ")
    found = model.do("read_notebook", search="value_4990")
    cell = model.id(4_991)
    line = f"4992 {cell[:8]} code: value_4990 = 4990"
    assert found == f"5,000 cells, 1 with 'value_4990'\n{line}"
    told = model.edit("replace", cell=cell, old="= 4990", source="= 7", run=True)
    assert told.startswith(f"changed cell 4,992 of 5,000, id {cell[:8]}\n")
    assert told.endswith("no output")
    assert model.source(4_991) == "value_4990 = 7"
    model.do("read_notebook", cells=[cell])
    assert "now cell 2 of 5,000" in model.edit("move", cell=cell, after=model.id(0))
    assert "4,999 cells are left" in model.edit("delete", cell=cell)


def test_of_a_kernel_that_dies_the_person_is_told_and_keeps_all_cells(
    open_notebook: OpenNotebook,
) -> None:
    dies = "import os\nprint('on', flush=True)\nos._exit(1)"
    model = Model(open_notebook(MODEL, "mine = 1", dies))
    model.edit("replace", cell=model.id(1), old="= 1", source="= 2")
    model.begin("run_cells", cells=[model.id(2)])
    expect(model.panel).to_contain_text("The kernel restarted.")
    assert [model.source(n) for n in (1, 2)] == ["mine = 2", dies]
