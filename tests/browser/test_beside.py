"""`%chat side` in a real JupyterLab."""

from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from playwright.sync_api import expect


def test_a_chat_beside_the_notebook_is_the_same_chat_and_survives_a_reload(
    open_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    notebook = open_notebook("%load_ext nbchat", "%chat", "%chat side")
    notebook.run(0)
    inside = notebook.run(1).locator(".nbc")
    notebook.run(2)
    page = notebook.page
    beside = page.locator(".jupyterlab-sidecar .nbc")
    expect(beside.locator(".nbc-model")).to_have_text("local:smollm2")
    box = beside.get_by_role("textbox", name="Message")
    box.fill("/pin Be kind.")
    box.press("Enter")
    pinned = "1 rule pinned"
    expect(beside.locator(".nbc-log")).to_contain_text(pinned)
    expect(inside.locator(".nbc-log")).to_contain_text(pinned)
    height = "each => each.getBoundingClientRect().height"
    assert beside.evaluate(height) > 1.4 * inside.evaluate(height)
    screenshot("beside")
    page.reload()
    expect(beside.locator(".nbc-model")).to_have_text("local:smollm2")
    expect(beside.get_by_role("textbox", name="Message")).to_be_enabled()
    page.evaluate(
        """() => { for (const tab of [...window.jupyterapp.shell.widgets('main')])
            if (tab.title.label === 'Chat') tab.close() }"""
    )
    expect(beside).to_have_count(0)


def test_the_menu_shows_a_panel_beside_the_notebook_and_moves_it_back(
    open_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    notebook = open_notebook("%load_ext nbchat", "%chat")
    notebook.run(0)
    inside = notebook.run(1).locator(".nbc")
    beside = notebook.page.locator(".jupyterlab-sidecar .nbc")
    expect(inside.locator(".nbc-model")).to_have_text("local:smollm2")
    for _ in range(2):
        inside.get_by_role("button", name="More").click()
        inside.get_by_role("menuitem", name="Show beside the notebook").click()
        expect(beside.locator(".nbc-model")).to_have_text("local:smollm2")
        beside.get_by_role("button", name="More").click()
        screenshot("menu")
        expect(beside.get_by_role("menuitem", name="Show beside")).to_have_count(0)
        beside.get_by_role("menuitem", name="Move back into the notebook").click()
        expect(beside).to_have_count(0)
