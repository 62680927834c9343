"""What a model that works in a notebook meets where things go wrong, and other agents.

The model does what a message says (`notebook_model.py`).
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from labkit import Lab, Notebook, permit
from notebook_model import MODEL, Model
from playwright.sync_api import Page, expect

from nbchat.agent.mcp import McpServer, McpServers

pytestmark = pytest.mark.slow

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]


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


KERNEL = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.id"

NBCHAT = "from nbchat.cli.main import main; raise SystemExit(main(['mcp']))"

FOLDER = "from jupyter_core.paths import jupyter_runtime_dir\nopen('runtime.txt', 'w').write(jupyter_runtime_dir())"


@contextmanager
def other_agent(lab: Lab) -> Iterator[dict[str, Callable[..., object]]]:
    """The tools of `nbchat mcp`, as another agent calls them."""
    environment = {"JUPYTER_RUNTIME_DIR": (lab.root / "runtime.txt").read_text()}
    environment |= {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = McpServer("nb", sys.executable, ("-c", NBCHAT), environment)
    with McpServers([server], trust={"nb"}) as servers:
        yield {e.name.removeprefix("nb__"): e.function for e in servers.tools}


def test_another_agent_reads_an_open_notebook_and_changes_it_by_the_card(
    open_notebook: OpenNotebook, screenshot: Screenshot
) -> None:
    notebook = open_notebook(MODEL, FOLDER, "total = 5\nprint(total)")
    notebook.run(1)
    notebook.run(2)
    model = Model(notebook)
    chip = model.panel.locator(".nbc-allowed")
    expect(chip).to_contain_text("Edits and runs cells without asking")
    screenshot("allowed")
    with other_agent(notebook.lab) as tools, ThreadPoolExecutor(1) as threads:
        listed = str(tools["list_notebooks"]())
        assert notebook.name in listed
        kernel = model.page.evaluate(KERNEL)
        name = next(e for e in listed.split('"') if e.startswith(kernel))
        cell = model.id(2)
        about = {"notebook": name, "cell": cell, "change": "replace"}
        outline = str(tools["read_notebook"](notebook=name))
        assert f"3 {cell[:8]} code, run as [" in outline
        assert "output:\n5" in str(tools["read_notebook"](notebook=name, cells=[cell]))
        assert "total: int 5" in str(tools["list_variables"](notebook=name))
        assert "5" in str(tools["inspect_variable"](notebook=name, name="total"))

        def change(button: str, **what: Any) -> str:
            asked = threads.submit(tools["edit_notebook"], **about, **what)
            card = model.panel.locator("[data-ticket]")
            expect(card).to_contain_text("edit_notebook (for another agent)")
            expect(card).to_contain_text("changes cell 3 of 3, `total = 5`")
            screenshot("card")
            card.get_by_label("Reason for denying").fill("keep it five")
            card.get_by_role("button", name=button, exact=True).click()
            try:
                return str(asked.result(30))
            except Exception as refused:  # noqa: BLE001  # as the agent reads it
                return str(refused)

        told = change("Deny", source="total = 6")
        assert "the person denied this: keep it five" in told
        assert model.source(2) == "total = 5\nprint(total)"
        told = change("Approve", source="total = 7\nprint(total)", run=True)
        assert f"changed cell 3 of 3, id {cell[:8]}" in told
        assert told.rstrip("'\"}]").endswith("7")
        assert model.source(2) == "total = 7\nprint(total)"

        chip.click()  # what the person allowed ends, and was not for other agents
        expect(chip).to_be_hidden()
        model.begin("run_cells", cells=[cell])
        asked = model.panel.locator("[data-ticket]")
        expect(asked).to_contain_text("runs cell 3 of 3")
        asked.get_by_role("button", name="Approve", exact=True).click()
        assert model.told().endswith("7")

        notebook.close_tab()
        assert notebook.name not in str(tools["list_notebooks"]())
        with pytest.raises(Exception, match="No open page shows this notebook"):
            tools["edit_notebook"](**about, source="total = 8")
    notebook.open()


def test_of_a_kernel_that_dies_the_person_is_told_and_keeps_all_cells(
    open_notebook: OpenNotebook,
) -> None:
    dies = "import os\nprint('on', flush=True)\nos._exit(1)"
    model = Model(open_notebook(MODEL, "mine = 1", dies))
    model.edit("replace", cell=model.id(1), old="= 1", source="= 2")
    model.begin("run_cells", cells=[model.id(2)])
    expect(model.panel).to_contain_text("The kernel restarted.")
    assert [model.source(n) for n in (1, 2)] == ["mine = 2", dies]
