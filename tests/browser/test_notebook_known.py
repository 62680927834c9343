"""The chip above the box: what the model is told of the notebook, unasked."""

from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panels import is_idle, panel_of, say
from playwright.sync_api import expect

MODEL = r"""
import os
os.environ['NBCHAT_MODEL'] = 'openai:no-model'
os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'
os.environ['NBCHAT_STORE_URL'] = 'sqlite://'
%load_ext nbchat
from nbchat.testing import ScriptedProvider, says
heard = lambda request: says('I see: ' + request.live.replace('<', '(') + '.')
agent = %chat agent
agent.use(ScriptedProvider(heard, heard, heard))
%chat
"""

OTHER = "agent.use(ScriptedProvider(heard, heard, name='other:model'))"


def test_the_chip_opens_exactly_what_is_sent_and_leaves_out_parts(
    open_shared_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    cells = ("prices = [1, 2, 3]", "prices['a']", "# Notes", OTHER)
    notebook = open_shared_notebook(MODEL, *cells)
    notebook.page.evaluate("localStorage.removeItem('nbchat-told-of-outline')")
    panel = panel_of(notebook)
    notebook.run(1)
    notebook.run(2)
    chip = panel.locator(".nbc-known-chip")
    panel.locator(".nbc-input").focus()
    expect(chip).to_contain_text("Knows: 5 cells, 1 variable")
    expect(panel.locator(".nbc-known-first")).to_contain_text("also sees an outline")
    screenshot("chip")
    chip.click()
    dialog = panel.get_by_role("dialog", name="What the model knows")
    sent = dialog.locator("pre")
    expect(sent).to_contain_text("- prices: list of 3 items: [1, 2, 3]")
    expect(sent).to_contain_text("cell 3: TypeError: list indices must be integers")
    expect(sent).to_contain_text("4 [")
    screenshot("dialog")
    dialog.get_by_label("Variables used last").uncheck()
    expect(sent).not_to_contain_text("- prices: list")
    text = sent.inner_text()
    dialog.get_by_role("button", name="Done").click()
    expect(chip).to_have_text("Knows: 5 cells")
    say(panel, "What do you see?")
    log = panel.locator(".nbc-log")
    expect(log).to_contain_text("I see: (notebook_now>")
    is_idle(panel)
    expect(panel.locator(".nbc-known-first")).to_be_hidden()
    shown = " ".join(log.inner_text().split())
    cells = text.partition("Cells:")[2].partition("</")[0]
    assert " ".join(cells.replace("#", "").split()[:6]) in shown.replace("#", "")

    notebook.run(4)
    panel.locator(".nbc-input").focus()
    expect(chip).to_have_text("Share this notebook with other?")
    say(panel, "And you?")
    expect(log).to_contain_text("I see: .")
    is_idle(panel)
    chip.click()
    screenshot("another-provider")
    dialog.get_by_role("button", name="Share with other").click()
    expect(sent).to_contain_text("Cells:")
    dialog.get_by_role("button", name="Done").click()
    expect(chip).to_have_text("Knows: 5 cells")
    chip.click()
    dialog.get_by_role("button", name="Turn off").click()
    expect(chip).to_be_hidden()
