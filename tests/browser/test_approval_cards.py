"""Cards on which a person approves, edits or denies what the model wants to do."""

from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panels import is_idle, panel_of, say
from playwright.sync_api import expect

MODEL = r"""
import os, re
os.environ['NBCHAT_MODEL'] = 'openai:no-model'
os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'
os.environ['NBCHAT_STORE_URL'] = 'sqlite://'
os.environ['NBCHAT_NOTEBOOK_TOOLS'] = '1'
%load_ext nbchat
from nbchat.testing import ScriptedProvider, calls, says

def cell(request, number):
    read = next(e for e in request.history if e.role == 'tool')
    return re.search(rf'(?m)^{number} (\S+) ', read.content)[1]

def heard(request):
    return says('I read: ' + request.history[-1].content)

def change(source, run=False):
    return lambda r: calls('edit_notebook', change='replace', cell=cell(r, 2), source=source, run=run)

agent = %chat agent
agent.use(ScriptedProvider(
    calls('read_notebook'), lambda r: calls('read_notebook', cells=[cell(r, 2)]),
    change('total = 3'), heard,
    change('total = 4'), heard,
    change('total = 5', run=True), change('total = 6', run=True), lambda r: calls('run_cells', cells=[cell(r, 2)]), heard,
))
%chat
"""

SCROLLED = """() => [...document.querySelectorAll(".jp-NotebookPanel:not(.lm-mod-hidden) *")]
    .filter(each => each.scrollTop && !each.closest(".nbc"))
    .map(each => each.scrollTop)"""


def test_a_card_names_its_cell_and_can_be_denied_with_a_reason_edited_or_be_for_a_turn(
    open_shared_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    notebook = open_shared_notebook(MODEL, "total = 1\nprint(total)")
    notebook.run(1)
    panel = panel_of(notebook)
    log = panel.locator(".nbc-log")
    card = panel.locator("[data-ticket]")
    say(panel, "Make it three.")
    expect(card).to_contain_text("changes cell 2 of 2, `total = 1`")
    expect(panel.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
    screenshot("card")
    card.get_by_role("button", name="Show cell").click()
    reason = card.get_by_label("Reason for denying")
    reason.fill("keep the print")
    reason.press("Enter")
    expect(log).to_contain_text("I read: error: denied by the user: keep the print")
    is_idle(panel)

    say(panel, "Then four.")
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("New source").fill("total = 40\nprint(total)")
    screenshot("edited")
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(log).to_contain_text("the user has edited your source: total = 40")
    cells = notebook.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
    expect(cells.nth(1).locator(".cm-content")).to_have_text("total = 40print(total)")
    is_idle(panel)

    say(panel, "Run it all.")
    expect(card).to_contain_text("and runs it")
    approve = card.get_by_role("button", name="Approve all of this turn")
    expect(approve).to_be_enabled()
    notebook.page.set_viewport_size({"width": 1280, "height": 500})
    box = panel.locator(".nbc-input")
    box.press_sequentially("a draft")
    scrolled = notebook.page.evaluate(SCROLLED)
    approve.evaluate("button => button.click()")
    expect(log).to_contain_text("I read: cell 2 of 2")
    assert notebook.page.evaluate(SCROLLED) == scrolled != []  # while a person types
    expect(box).to_have_value("a draft")
    notebook.page.set_viewport_size({"width": 1280, "height": 900})
    expect(cells.nth(1).locator(".cm-content")).to_have_text("total = 6")
