"""The chat beside the notebook, which the extension of JupyterLab opens."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from labkit import IN_NOTEBOOK_7, Lab, Notebook, going_on
from panels import BUSY, let_cell_end
from playwright.sync_api import Locator, Page, expect

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

BUTTON = ".jp-Toolbar [data-command='nbchat:toggle']"

ICON = BUTTON if IN_NOTEBOOK_7 else ".jp-SideBar.jp-mod-right [title=Chat]"

SCRIPTED = """
%load_ext nbchat
from nbchat.testing import ScriptedProvider, says
agent = %chat agent
answer = "Like this:\\n\\n```python\\nprint(40 + 2)\\n```\\n"
agent.use(ScriptedProvider(*[says(answer)] * 9))
"""

NOT_INSTALLED = """
import sys
class NotInstalled:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "nbchat":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotInstalled())
"""

OLDER = """
sys.meta_path.pop(0)
from nbchat.jupyter import magics
opened = magics.open_beside
del magics.open_beside
"""

UPDATED = "magics.open_beside = opened"

OTHERS = """
import json, sys
from pathlib import Path
from jupyter_core.paths import jupyter_data_dir
code = '''
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
class Kernel(IPythonKernel):
    language_info = {"name": "NAME", "mimetype": "text/plain", "file_extension": ".x"}
IPKernelApp.launch_instance(kernel_class=Kernel)
'''
for name in ("R", "bash"):
    folder = Path(jupyter_data_dir(), "kernels", f"like-{name.lower()}")
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-c", code.replace("NAME", name), "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": name, "language": name}
    (folder / "kernel.json").write_text(json.dumps(spec))
"""

FORBID = """
import json
from pathlib import Path
from jupyter_core.paths import jupyter_config_dir
site = Path(jupyter_config_dir(), "labconfig", "page_config.json")
site.write_text(json.dumps({"disabledExtensions": {"jupyter-nbchat": True}}))
"""
"""As `jupyter labextension disable` does"""

PERMIT = "site.unlink()"

DIES = "import os, threading\nthreading.Timer(0.3, os._exit, [1]).start()"

CLOSES = f"import ipywidgets\nipywidgets.Widget.close_all()\n{BUSY}"

CHANGE_KERNEL = """name => window.jupyterapp.shell.currentWidget.context
    .sessionContext.changeKernel({ name })"""

SOURCES = """() => window.jupyterapp.shell.currentWidget.context.model.sharedModel
    .cells.map(cell => cell.source)"""


@pytest.fixture
def icon(page: Page) -> Locator:
    """What opens the chat, in the right side bar."""
    return page.locator(ICON)


@pytest.fixture
def side(page: Page) -> Locator:
    """The place beside the notebook."""
    return page.locator("#nbchat-side")


@pytest.fixture(autouse=True)
def closed(page: Page) -> Iterator[None]:
    """Close what a test leaves open: the place beside follows each notebook."""
    yield
    if page.locator("#nbchat-side").is_visible():
        page.locator(ICON).click()


def drawn(side: Locator) -> Locator:
    """The chat of the current notebook, once its conversation is there."""
    panel = side.locator(".nbc[data-drawn]:visible")
    expect(panel).to_be_visible()
    return panel


def say(panel: Locator, text: str) -> None:
    """Type a message and send it."""
    panel.locator(".nbc-input").fill(text)
    panel.locator(".nbc-input").press("Enter")


def test_the_icon_opens_the_chat_of_the_notebook_whose_cells_it_brings_and_changes(
    open_notebook: OpenNotebook, icon: Locator, side: Locator, screenshot: Screenshot
) -> None:
    notebook = open_notebook(SCRIPTED, "1 / 0", "{}['key']", "a = 5\na")
    page = notebook.page
    for index in (0, 1, 2, 3):
        notebook.run(index)
    icon.click()
    panel = drawn(side)
    expect(panel.locator(".nbc-input")).to_be_focused()
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    page.get_by_role("button", name="Fix").first.click()  # not the newest error
    chip = panel.locator(".nbc-attached-open")
    expect(chip).to_contain_text("error")
    expect(panel.locator(".nbc-input")).to_have_value("Fix this error.")
    screenshot("fix")
    chip.click()
    expect(page.get_by_role("dialog")).to_contain_text("ZeroDivisionError")
    page.keyboard.press("Escape")
    panel.locator(".nbc-input").press("Enter")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_be_visible()
    panel.get_by_role("button", name="Insert", exact=True).click()
    assert page.evaluate(SOURCES)[1:3] == ["1 / 0", "print(40 + 2)"]
    page.locator(".jp-Cell").nth(4).locator(".cm-content").click()
    notebook.execute("nbchat:ask-about-cell")
    expect(panel.locator(".nbc-input")).to_have_value("@cell:4 ")
    panel.locator(".nbc-input").focus()
    page.keyboard.press("Control+Shift+Y")
    expect(side).to_be_hidden()


def test_it_opens_while_a_cell_runs_follows_notebooks_and_returns_after_a_restart(
    open_notebook: OpenNotebook, icon: Locator, side: Locator, screenshot: Screenshot
) -> None:
    first = open_notebook(
        BUSY, "%load_ext nbchat", "%chat side", "%chat", "a = 1", CLOSES
    )
    for _ in range(2):
        first.run(4)
    first.start(0)
    icon.click()
    drawn(side).locator(".nbc-input").fill("A draft")
    let_cell_end(first)
    second = open_notebook("b = 2")
    expect(drawn(side).locator(".nbc-input")).to_have_value("")
    second.close()
    first.open()
    expect(drawn(side).locator(".nbc-input")).to_have_value("A draft")
    icon.click()
    expect(side).to_be_hidden()
    first.run(1)
    expect(first.run(2)).to_have_text("The chat is open beside the notebook.")
    say(drawn(side), "/pin Be kind.")
    expect(side.locator(".nbc-log")).to_contain_text("1 rule pinned")
    expect(first.run(3).locator(".nbc-log")).to_contain_text("1 rule pinned")
    first.start(5)
    line = side.locator(".nbchat-note:visible")
    expect(line).to_contain_text("The notebook's kernel closed this chat.")
    line.get_by_role("button", name="Open it again").click()
    say(drawn(side), "/pin")
    expect(side.locator(".nbc-log")).to_contain_text("Be kind.")
    let_cell_end(first)
    first.restart_kernel()
    expect(side.locator(".nbc.nbc-is-gone")).to_have_count(0)
    expect(drawn(side).locator(".nbc-input")).to_be_enabled()
    first.page.reload()
    expect(drawn(side).locator(".nbc-input")).to_be_enabled()


def test_it_says_why_there_is_no_chat_and_opens_once_there_can_be_one(
    open_notebook: OpenNotebook, icon: Locator, side: Locator, screenshot: Screenshot
) -> None:
    notebook = open_notebook(NOT_INSTALLED, OLDER, UPDATED, OTHERS, DIES)
    notebook.run(0)
    icon.click()
    line = side.locator(".nbchat-note:visible")
    expect(line).to_contain_text("nbchat isn't installed in this notebook's kernel")
    screenshot("not-installed")
    line.get_by_role("button", name="Add to the notebook").click()
    assert notebook.page.evaluate(SOURCES)[1] == "%pip install jupyter-nbchat"
    notebook.run(2)
    expect(line).to_contain_text("has an older nbchat")
    expect(line).to_contain_text("%pip install --upgrade jupyter-nbchat")
    notebook.run(3)
    drawn(side)
    notebook.run(4)
    for language in ("R", "bash"):
        notebook.page.evaluate(CHANGE_KERNEL, f"like-{language.lower()}")
        told = f"This notebook runs {language}. nbchat works in Python notebooks."
        expect(line).to_have_text(told)
    icon.click()
    notebook.page.evaluate(CHANGE_KERNEL, "python3")
    notebook.run(5)
    icon.click()  # the kernel dies while it opens
    drawn(side)
    notebook.close()
    expect(line).to_have_text("Open a notebook to chat about it.")


def test_in_notebook_7_a_button_opens_it_two_tabs_show_the_same_and_a_site_forbids_it(
    lab: Lab, page: Page, open_notebook: OpenNotebook, icon: Locator, side: Locator
) -> None:
    notebook = open_notebook(SCRIPTED, FORBID, PERMIT)
    notebook.run(0)
    icon.click()
    drawn(side)
    visitor = going_on(page.context.new_page())
    visitor.goto(f"{lab.url}/notebooks/{notebook.name}")
    visitor.locator(BUTTON).click()
    say(drawn(visitor.locator("#nbchat-side")), "Hello")
    for each in (visitor.locator("#nbchat-side"), side):
        expect(each.locator(".nbc-log .nbc-assistant")).to_contain_text("Like this:")
    notebook.run(1)
    visitor.reload()
    expect(visitor.get_by_role("combobox", name="Cell type")).to_be_visible()
    expect(visitor.locator(".jp-Cell").first).to_be_visible()
    expect(visitor.locator("#nbchat-side, [data-command^=nbchat]")).to_have_count(0)
    assert not visitor.evaluate("'nbchatSide' in document.body.dataset")
    notebook.run(2)
    visitor.close()
