"""The model reads, edits and runs cells of its notebook in a real JupyterLab."""

import json
from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panels import choose, panel_of, say
from playwright.sync_api import expect

OFFER = "Let the model edit and run cells"

MODEL = r"""
import os, re
os.environ['NBCHAT_MODEL'] = 'openai:no-model'
os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'
os.environ['NBCHAT_STORE_URL'] = 'sqlite://'
%load_ext nbchat
from nbchat.testing import ScriptedProvider, calls, says

def cell(request, number):
    read = next(e for e in request.history if e.role == 'tool')
    return re.search(rf'(?m)^{number} (\S+) ', read.content)[1]

def heard(request):
    return says('I read: ' + request.history[-1].content)

NEW = "total = 2 + 3\nprint('five:', total)"
agent = %chat agent
agent.use(ScriptedProvider(
    calls('read_notebook'), lambda r: calls('read_notebook', cells=[cell(r, 2)]), heard,
    lambda r: calls('edit_notebook', change='replace', cell=cell(r, 2), source=NEW, run=True), heard,
    lambda r: calls('edit_notebook', change='insert', after=cell(r, 3), source='*Done*', kind='markdown'), heard,
    calls('read_notebook'), heard,
))
%chat
"""


def test_the_model_reads_edits_and_runs_cells_as_approved(
    open_shared_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    total = "total = 1 + 1\nprint('two:', total)"
    notebook = open_shared_notebook(MODEL, total, "1 / 0")
    notebook.save()
    notebook.run(1)
    panel = panel_of(notebook)
    log = panel.locator(".nbc-log")
    choose(panel, OFFER)
    expect(log).to_contain_text("The model can now read, edit and run cells")
    panel.get_by_role("button", name="More", exact=True).click()
    expect(panel.get_by_role("menuitem", name=OFFER, exact=True)).to_have_count(0)
    screenshot("menu")
    panel.page.keyboard.press("Escape")
    say(panel, "What does it say?")
    expect(log).to_contain_text("3 cells")
    expect(log).to_contain_text("I read: cell 2 of 3, id")
    expect(log).to_contain_text("print('two:', total)")
    expect(log).to_contain_text("two: 2")

    say(panel, "Make it five.")
    waiting = panel.locator("[data-ticket]")
    expect(waiting).to_contain_text("changes cell 2 of 3, `total = 1 + 1`, and runs it")
    expect(waiting).to_contain_text("-total = 1 + 1")
    expect(waiting).to_contain_text("+total = 2 + 3")
    screenshot("difference")
    approve = panel.get_by_role("button", name="Approve", exact=True)
    approve.click()
    expect(log).to_contain_text("I read: changed cell 2 of 3, id")
    expect(notebook.outputs(1)).to_have_text("five: 5\n")
    saved = json.loads((notebook.lab.root / notebook.name).read_text())
    assert "1 + 1" in "".join(
        saved["cells"][1]["source"]
    )  # the page has it, not the file

    say(panel, "Add a line.")
    expect(waiting).to_contain_text("new markdown cell below cell 3 of 3")
    approve.click()
    expect(log).to_contain_text("I read: new markdown cell 4 of 4, id")
    cells = notebook.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
    expect(cells.nth(3).locator("em")).to_have_text("Done")
    screenshot("done")

    choose(panel, f"Stop letting{OFFER.removeprefix('Let')}")
    expect(log).to_contain_text("can no longer read, edit and run cells")
    say(panel, "What do the cells say now?")
    expect(log).to_contain_text("there is no tool 'read_notebook'")


def test_a_notebook_gets_an_id_by_which_its_chat_is_found_after_a_move(
    open_notebook: Callable[..., Notebook],
) -> None:
    setting = "import os; os.environ['NBCHAT_NOTEBOOK_IDENTITY'] = '1'"
    asked = (
        "import time\nwhile 'JPY_NOTEBOOK_ID' not in os.environ:\n    time.sleep(0.05)\n"
        "print(os.environ['JPY_NOTEBOOK_ID'])"
    )
    notebook = open_notebook(f"{setting}\n%load_ext nbchat", "%chat", asked)
    notebook.run(0)
    panel = notebook.run(1).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("local:smollm2")
    metadata = "() => window.jupyterapp.shell.currentWidget.model.sharedModel.getMetadata('nbchat')"
    notebook.page.wait_for_function(f"{metadata}?.notebook_id")
    known = notebook.page.evaluate(metadata)["notebook_id"]
    expect(notebook.run(2)).to_contain_text(known)
    notebook.save()
    saved = json.loads((notebook.lab.root / notebook.name).read_text())
    assert saved["metadata"]["nbchat"] == {"notebook_id": known}
