"""What can be done with a block of code: it becomes a cell, and may be run there."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panel_page import OpenPanelPage
from playwright.sync_api import Locator, Page, expect
from readable import faults

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

SETUP = """
from nbchat.agent.agent import Agent
from nbchat.testing import ScriptedProvider, calls, says
from nbchat.jupyter.panel.chat_ui import ChatUI
"""

PYTHON = "def total(items):\n    return sum(items)\n\nprint(total([40, 2]))"

ANSWER = f"Like this:\n\n```python\n{PYTHON}\n```\n\nor\n\n```bash\nls -l\n```\n"

CELLS = """() => {
    const { cells } = window.jupyterapp.shell.currentWidget.context.model.sharedModel;
    return cells.slice(1).map(cell => cell.source) }"""
"""The sources of all cells but the panel's."""


def answered(
    open_notebook: OpenNotebook | OpenPanelPage, answer: str = ANSWER, *cells: str
) -> tuple[Notebook, Locator]:
    """A panel with an answer in it, above the given cells."""
    script = f"says({answer!r})"
    notebook = open_notebook(
        f"{SETUP}\nui = ChatUI(Agent(ScriptedProvider({script})))\nui",
        *(cells or ("a = 1", "b = 2")),
    )
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    panel.get_by_role("textbox").fill("How?")
    panel.get_by_role("textbox").press("Enter")
    expect(panel.locator(".nbc-codebox").first).to_be_visible()
    return notebook, panel


def enter(notebook: Notebook, index: int) -> None:
    """Click into a cell's text, as a person does before turning to the panel."""
    cells = notebook.page.locator(
        ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell"
    )
    cells.nth(index).locator(".cm-content").click()


def press(panel: Locator, name: str, block: int = 0) -> None:
    """Press a button of a block of code."""
    box = panel.locator(".nbc-codebox").nth(block)
    box.get_by_role("button", name=name, exact=True).click()


def undo(notebook: Notebook) -> None:
    """Take back what changed the notebook's cells last, as a person does."""
    notebook.execute("notebook:enter-command-mode")
    notebook.execute("notebook:undo-cell-action")


def test_code_is_inserted_below_the_cell_a_person_was_in_and_taken_back(
    open_shared_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    before = ["print('old')", "b = 2"]
    notebook, panel = answered(open_shared_notebook, ANSWER, *before)
    told = panel.locator(".nbc-code-notice").first
    press(panel, "More actions for this code")
    press(panel, "Replace cell")  # the panel's own
    expect(told).to_have_text("First click the cell to replace")
    assert page.evaluate(CELLS) == before
    press(panel, "Insert")
    assert page.evaluate(CELLS) == [PYTHON, *before]
    undo(notebook)
    expect(notebook.run(1)).to_have_text("old")

    enter(notebook, 1)
    press(panel, "Insert")
    expect(told).to_have_text(re.compile(r"^Inserted below \[\d+\] as cell 3 of 4$"))
    assert page.evaluate(CELLS) == [before[0], PYTHON, before[1]]
    press(panel, "Insert", 1)
    assert page.evaluate(CELLS) == [before[0], PYTHON, "ls -l", before[1]]
    screenshot("inserted")
    undo(notebook)
    undo(notebook)
    assert page.evaluate(CELLS) == before


def test_code_is_inserted_above(open_shared_notebook: OpenNotebook, page: Page) -> None:
    notebook, panel = answered(open_shared_notebook)
    enter(notebook, 2)
    press(panel, "More actions for this code")
    press(panel, "Insert above")
    assert page.evaluate(CELLS) == ["a = 1", PYTHON, "b = 2"]
    undo(notebook)
    assert page.evaluate(CELLS) == ["a = 1", "b = 2"]


def test_code_replaces_a_cell_and_undo_restores_it_with_its_output(
    open_shared_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    notebook, panel = answered(open_shared_notebook, ANSWER, "print('old')", "b = 2")
    expect(notebook.run(1)).to_have_text("old")
    enter(notebook, 1)
    press(panel, "More actions for this code")
    press(panel, "Replace cell")
    expect(panel.locator(".nbc-code-notice").first).to_have_text(
        re.compile(r"^Replaced \[\d+\], cell 2 of 3$")
    )
    assert page.evaluate(CELLS) == [PYTHON, "b = 2"]
    screenshot("replaced")
    undo(notebook)
    assert page.evaluate(CELLS) == ["print('old')", "b = 2"]
    expect(notebook.outputs(1)).to_have_text("old")


def test_buttons_work_by_the_keyboard_and_no_key_reaches_the_notebook(
    open_shared_notebook: OpenNotebook, page: Page
) -> None:
    notebook, panel = answered(open_shared_notebook)
    enter(notebook, 2)
    panel.get_by_role("group", name="Answer").focus()
    for button in ("copy", "insert"):
        page.keyboard.press("ArrowRight")
        expect(panel.locator(f".nbc-code-{button}").first).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate(CELLS) == ["a = 1", "b = 2", PYTHON]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(panel.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel.locator(".nbc-code-run").first).to_be_focused()
    page.keyboard.press("d")
    page.keyboard.press("d")
    assert page.evaluate(CELLS) == ["a = 1", "b = 2", PYTHON]


OUTLINED = """text => [...document.querySelectorAll(".jp-Notebook .jp-Cell")]
    .some(cell => cell.style.outline && cell.textContent.includes(text))"""
"""For two seconds, in which `expect` may not look: it does so every half second."""


def test_an_inserted_cell_comes_into_view_and_is_outlined(
    open_shared_notebook: OpenNotebook, page: Page
) -> None:
    long = "\n".join(["x = 1"] * 40)
    notebook, panel = answered(open_shared_notebook, ANSWER, long, long, long)
    enter(notebook, 3)
    press(panel, "Insert")  # for which the page scrolls up
    page.wait_for_function(OUTLINED, arg="def total")
    inserted = page.locator(".jp-Notebook .jp-Cell", has_text="def total").last
    expect(inserted).to_be_in_viewport()
    expect(inserted).not_to_have_attribute("style", re.compile("outline: .+px"))


def test_a_long_line_of_code_scrolls_and_its_buttons_stay_visible(
    open_panel_page: OpenPanelPage,
) -> None:
    _, panel = answered(open_panel_page, "```python\nx = " + "1 + " * 200 + "1\n```")
    copy = panel.get_by_role("button", name="Copy code")
    expect(copy).to_be_visible()
    right = "element => element.getBoundingClientRect().right"
    assert copy.evaluate(right) < panel.evaluate(right)


def test_code_runs_in_a_cell_only_after_it_was_shown_and_agreed_to(
    open_shared_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    notebook, panel = answered(open_shared_notebook)
    enter(notebook, 1)
    press(panel, "Run")
    dialog = panel.get_by_role("dialog", name="Run in the kernel")
    expect(dialog.locator("pre")).to_have_text(PYTHON)
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert faults(panel) == []  # in Notebook 7's dark theme, too
    screenshot("asked")
    dialog.get_by_role("button", name="Cancel").click()
    assert page.evaluate(CELLS) == ["a = 1", "b = 2"]
    press(panel, "Run")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(panel.locator(".nbc-code-notice").first).to_have_text(
        re.compile(r"^Ran as \[\d+\], cell 3 of 4$")
    )
    assert page.evaluate(CELLS) == ["a = 1", PYTHON, "b = 2"]
    expect(notebook.outputs(2)).to_have_text("42")
    prompt = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-InputPrompt")
    expect(prompt.nth(2)).to_have_text("[2]:")
    screenshot("ran")
    notebook.save()
    saved = json.loads((notebook.lab.root / notebook.name).read_text())["cells"][2]
    assert saved["outputs"][0]["text"] == ["42\n"]


RICH = """
from IPython.display import HTML, clear_output, display
print("gone")
clear_output()
print("first")
shown = display(HTML("<b>old</b>"), display_id=True)
shown.update(HTML("<b>new</b>"))
1 / 0
"""


HOSTILE = "</script></pre><img src=x onerror='window.nbchatRan=1'>\n'''\u202e }\u2066 \u200b''' \t# é 漢 🙂\n\n\n"

LANGUAGES = "```py\n2\n```\n\n```bash\n3\n```\n\n```\n4\n```\n\n    5\n"


def test_python_alone_runs_with_rich_outputs_and_hostile_code_is_inserted_byte_for_byte(
    open_shared_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    answer = f"```python\n{RICH}```\n\n````python\n{HOSTILE}````\n\n{LANGUAGES}"
    notebook, panel = answered(open_shared_notebook, answer)
    boxes = panel.locator(".nbc-codebox")
    expect(boxes).to_have_count(6)
    expect(panel.locator(".nbc-code-insert")).to_have_count(6)
    runnable = [box.locator(".nbc-code-run").count() for box in boxes.all()]
    assert runnable == [1, 1, 1, 0, 0, 0]

    marks = panel.locator(".nbc-invisible")
    expect(marks).to_have_count(3)
    shown = [mark.get_attribute("data-mark") for mark in marks.all()]
    assert shown == ["U+202E", "U+2066", "U+200B"]
    enter(notebook, 1)
    press(panel, "Insert", 1)
    assert page.evaluate(CELLS) == ["a = 1", HOSTILE.removesuffix("\n"), "b = 2"]
    press(panel, "Run", 1)
    dialog = panel.get_by_role("dialog")
    expect(dialog).to_contain_text("invisible characters")
    assert dialog.locator("pre").text_content() == HOSTILE.removesuffix("\n")
    assert dialog.locator(".nbc-invisible").count() == 3
    screenshot("hostile")
    dialog.get_by_role("button", name="Cancel").click()
    assert page.evaluate("() => window.nbchatRan") is None

    press(panel, "Run")  # below what was inserted
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(panel.locator(".nbc-code-notice").first).to_have_text(
        re.compile(r"^Failed as \[\d+\], cell 4 of 5$")
    )
    outputs = notebook.outputs(3)
    expect(outputs.nth(0)).to_have_text("first")
    expect(outputs.nth(1)).to_have_text("new")
    expect(outputs.nth(2)).to_contain_text("ZeroDivisionError")
    expect(outputs).to_have_count(3)
    screenshot("rich")
