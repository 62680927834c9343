"""What a model that works in a notebook meets in Notebook 7, and where things go wrong.

The model does what a message says (`notebook_model.py`).
"""

import io
import json
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from labkit import Lab, Notebook, going_on, permit
from notebook_model import MODEL, SHARED, Model
from panels import run_first, say
from PIL import Image
from playwright.sync_api import Page, expect

from nbchat.agent.mcp import McpServer, McpServers

pytestmark = pytest.mark.slow

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

CODES = "\n".join(f"code_{n} = {n}" for n in range(200))

FAILS = f"{CODES}\nprint('a line of text\\n' * 3_000)\n{{'amount': 1}}['amuont']"

SHOWS = """
import io
from IPython.display import HTML, display
from PIL import Image as Pillow
print('line "one"')
display(HTML('<table><tr><th>region</th></tr><tr><td>north</td></tr></table>'))
display(Pillow.new('RGB', (90, 90)))
"""

ASKS = "name = input('Your name? ')\nprint('hello', name)"

ENDLESS = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)"

HOSTILE = "<script>window.hacked = 1</script><table><tr><td>saved</td></tr></table>"


@pytest.fixture
def in_notebook_7(lab: Lab, page: Page) -> Iterator[Callable[..., Model]]:
    """Opens cells in Notebook 7, which has not made them and so does not trust them."""
    visitor = going_on(page.context.new_page())

    def open_one(*cells: str, hostile: int) -> Model:
        notebook = Notebook(page, lab, "rows-in-seven.ipynb", cells)
        book = nbformat.read(lab.root / notebook.name, as_version=4)
        html = {"text/html": HOSTILE, "text/plain": "<Table object>"}
        book.cells[hostile].outputs = [nbformat.v4.new_output("display_data", html)]
        nbformat.write(book, lab.root / notebook.name)
        visitor.goto(f"{lab.url}/notebooks/{notebook.name}")
        run_first(visitor)
        return Model(notebook, visitor)

    yield open_one
    visitor.close()
    for session in page.request.get(f"{lab.url}/api/sessions").json():
        if session["path"] == "rows-in-seven.ipynb":
            page.request.delete(f"{lab.url}/api/sessions/{session['id']}")


def words_of_the_person_stay(model: Model) -> None:
    """She edits every cell that the model edits."""
    for n in (1, 2):
        model.do("read_notebook", cells=[model.id(n)])
        model.types(n, f"# cell {n - 1}\nmine = {n}\nx = 1")
    for n in (1, 2):
        told = model.edit("replace", cell=model.id(n), source="x = 2")
        assert f"it has changed since. Cell {n + 1} now:\n# cell {n - 1}\nmine" in told
        told = model.edit("replace", cell=model.id(n), old="x = 1", source="x = 2")
        assert told == f"changed cell {n + 1} of 8, id {model.id(n)[:8]}"
        assert model.source(n) == f"# cell {n - 1}\nmine = {n}\nx = 2"
    told = model.edit("replace", cell="3", source="")
    assert f"not its number, which changes; cell 3 has the id {model.id(2)[:8]}" in told
    told = model.edit("kind", cell=model.id(1), kind="markdown")
    assert told.startswith("now markdown: cell 2 of 8")


def what_is_allowed_ends_by_a_click(model: Model) -> None:
    """The next change waits for the person."""
    allowed = model.panel.locator(".nbc-allowed")
    allowed.click()
    expect(allowed).to_be_hidden()
    change = {"cell": model.id(2), "old": "x = 2", "source": "x = 22"}
    model.begin("edit_notebook", change="replace", run=True, **change)
    card = model.panel.locator("[data-ticket]")
    expect(card).to_contain_text("+x = 22")
    card.get_by_role("button", name="Approve", exact=True).click()
    assert model.told().startswith(f"changed cell 3 of 8, id {model.id(2)[:8]}\n")
    say(model.panel, "/allow all")
    expect(allowed).to_be_visible()


def test_what_a_model_meets_in_notebook_7(
    in_notebook_7: Callable[..., Model],
) -> None:
    edited = [f"# cell {n}\nx = 1" for n in range(2)]
    cells = (MODEL, *edited, FAILS, SHOWS, ASKS, ENDLESS, "saved = 1")
    model = in_notebook_7(*cells, hostile=7)
    outputs = model.page.locator(".jp-Notebook .jp-Cell").nth(6)

    words_of_the_person_stay(model)
    what_is_allowed_ends_by_a_click(model)

    # What runs put out
    told = model.run(3)
    assert told.split("\n")[1] == "KeyError: 'amuont'"
    assert "characters removed]" in told
    told = model.run(4)
    assert 'line "one"\n| region |\n| north |\n[picture 1 of 1]' in told
    assert len(model.result()) == 1
    model.begin("run_cells", cells=[model.id(5)])
    question = model.card.locator(".nbc-run-form")
    question.get_by_role("textbox").fill("Ada")
    question.get_by_role("button", name="Answer").click()
    assert "hello Ada" in model.told()

    # A notebook that is not trusted stays so.
    told = model.do("read_notebook", cells=[model.id(7)])
    assert told.endswith("output:\n| saved |")
    assert model.page.evaluate("() => window.hacked") is None
    trusted = f"() => {SHARED.removesuffix('.sharedModel')}.cells.get(7).trusted"
    assert model.page.evaluate(trusted) is False

    # Stop stops the cell.
    model.begin("run_cells", cells=[model.id(6)])
    expect(outputs).to_contain_text("begun")
    model.panel.get_by_role("button", name="Stop").click()
    expect(outputs).to_contain_text("KeyboardInterrupt")
    expect(model.card).to_have_attribute("data-state", "failed")

    # Read-only
    read_only = SHARED.removesuffix(".sharedModel")
    model.page.evaluate(f"() => {{ {read_only}.readOnly = true }}")
    told = model.edit("insert", after=model.id(1), source="1")
    assert told == "error: NbchatError: this notebook is read-only"
    model.page.evaluate(f"() => {{ {read_only}.readOnly = false }}")


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


PLOTS = """
import numpy as np
from PIL import Image as Pillow
from IPython.display import display
for n in range(3): display(Pillow.fromarray(np.random.randint(0, 255, (720, 600, 3), 'uint8')))
"""

SAVED = f"""picture => {{
    const output = {{ output_type: 'display_data', data: {{ 'image/png': picture }}, metadata: {{}} }};
    for (const at of [1, 2, 3]) {SHARED}.cells[at].setOutputs([output, output, output]) }}"""
"""What PLOTS puts out is in three cells, as after opening a notebook."""


@pytest.mark.usefixtures("windowed")
def test_a_model_works_in_a_notebook_of_5000_cells_and_15_megabytes_of_plots(
    open_notebook: OpenNotebook,
) -> None:
    values = (f"value_{n} = {n}" for n in range(4_996))
    model = Model(open_notebook(MODEL, *[PLOTS] * 3, *values))
    plot = io.BytesIO()
    Image.frombytes("RGB", (720, 600), os.urandom(3 * 720 * 600)).save(plot, "PNG")
    model.page.evaluate(SAVED, b64encode(plot.getvalue()).decode())
    size = f"() => JSON.stringify({SHARED}.cells.map(each => each.toJSON())).length"
    assert model.page.evaluate(size) > 15_000_000
    outline = model.do("read_notebook")
    assert outline.startswith("5,000 cells\n1 ")
    assert outline.endswith("[more from first=201 on]")
    found = model.do("read_notebook", search="value_4990")
    cell = model.id(4_994)
    line = f"4995 {cell[:8]} code: value_4990 = 4990"
    assert found == f"5,000 cells, 1 with 'value_4990'\n{line}"
    scrolled = """() => [...document.querySelectorAll('.jp-NotebookPanel *')]
        .filter(each => !each.closest('.nbc')).map(each => each.scrollTop).filter(Boolean)"""
    before = model.page.evaluate(scrolled)
    told = model.edit("replace", cell=cell, old="= 4990", source="= 7", run=True)
    assert model.page.evaluate(scrolled) == before
    place = f"cell 4,995 of 5,000, id {cell[:8]}"
    assert told == f"changed {place}\n{place}\nno output"
    assert model.source(4_994) == "value_4990 = 7"
    model.do("read_notebook", cells=[cell])
    assert "now cell 2 of 5,000" in model.edit("move", cell=cell, after=model.id(0))
    assert "4,999 cells are left" in model.edit("delete", cell=cell)
    assert "[picture 3 of 3]" in model.do("read_notebook", cells=[model.id(1)])
    assert "[picture 3 of 3]" in model.run(1)
    assert len(model.result()) == 3


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
    open_shared_notebook: OpenNotebook, screenshot: Screenshot
) -> None:
    notebook = open_shared_notebook(MODEL, FOLDER, "total = 5\nprint(total)")
    notebook.run(1)
    notebook.run(2)
    model = Model(notebook)
    chip = model.panel.locator(".nbc-allowed")
    expect(chip).to_contain_text("Edits and runs cells without asking")
    screenshot("allowed")
    with other_agent(notebook.lab) as tools, ThreadPoolExecutor(1) as threads:
        listed = str(tools["list_notebooks"]())
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
        refused = threads.submit(tools["edit_notebook"], **about, source="total = 8")
        assert name not in str(tools["list_notebooks"]())
        with pytest.raises(Exception, match="No open page shows this notebook"):
            refused.result(30)
    notebook.open()


def test_of_a_kernel_that_dies_the_person_is_told_and_keeps_all_cells(
    open_shared_notebook: OpenNotebook,
) -> None:
    dies = "import os\nprint('on', flush=True)\nos._exit(1)"
    model = Model(open_shared_notebook(MODEL, "mine = 1", dies))
    model.edit("replace", cell=model.id(1), old="= 1", source="= 2")
    model.begin("run_cells", cells=[model.id(2)])
    alert = model.panel.get_by_role("alert")
    expect(alert).to_have_count(1)
    expect(alert).to_contain_text("The kernel restarted.")
    expect(model.panel.get_by_role("button", name="Stop")).to_be_hidden()
    expect(model.panel.locator(".nbc-user")).to_have_count(2)
    assert [model.source(n) for n in (1, 2)] == ["mine = 2", dies]
