"""The panel when a kernel says odd things, stops in mid-sentence, or is told too much."""

from collections.abc import Callable
from pathlib import Path

import pytest
from labkit import Notebook
from panel_page import OpenPanelPage
from panels import is_idle, panel_of, say, scripted
from playwright.sync_api import Page, expect

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

# Of another version, in a wrong order, twice, without their parts, or no message at all.
ODD = """
shown = ui._state.snapshot()
odd = [
    {}, {"type": None}, {"type": "nothing_of_this_name", "token": "q"}, {"type": ["snapshot"]},
    {"type": "events", "seq": -5, "events": []}, {"type": "events", "seq": 10**9, "events": []},
    {"type": "events", "seq": "1", "events": [{"op": "item"}]},
    {"type": "earlier_page", "token": "q1", "items": [], "before": None},
    {"type": "planned", "token": "q2"}, {"type": "history_page", "token": "q3"},
    {"type": "completions", "token": "q4"}, {"type": "refused", "token": "q5", "reason": "no"},
    {"type": "snapshot", "seq": 7, **shown}, {"type": "snapshot", "seq": 7, **shown},
    {"type": "events", "seq": 8, "events": [
        {"op": "nothing_of_this_name"}, {"op": "settle", "kind": "assistant"},
        {"op": "drop", "key": 99}, {"op": "draft", "text": ""}, {"op": "state", "state": {}}]},
]
for message in odd * 2:
    ui.send(message)
"""


ANOTHER_KERNEL = "shutdown(); await context.changeKernel({ name: 'python3' })"


def test_odd_messages_of_a_kernel_break_nothing(
    open_panel_page: OpenPanelPage,
) -> None:
    notebook = open_panel_page(scripted("says('One.'), says('Two.')"), ODD)
    panel = panel_of(notebook)
    say(panel, "First?")
    is_idle(panel)
    notebook.run(1)
    say(panel, "Second?")
    answers = panel.locator(".nbc-log .nbc-assistant")
    expect(answers).to_have_text(["One.", "Two."])
    expect(panel.locator(".nbc-user")).to_have_text(["First?", "Second?"])
    is_idle(panel)


def test_a_kernel_that_dies_while_it_answers_leaves_one_clear_line(
    open_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_notebook(
        scripted("says('word ' * 500, delay_seconds=0.05)"),
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    )
    panel = panel_of(notebook)
    say(panel, "Tell me a story.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    notebook.start(1)
    alert = panel.get_by_role("alert")
    expect(alert).to_have_count(1)
    expect(alert).to_contain_text("The kernel restarted.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    expect(panel.get_by_role("button", name="Stop")).to_be_hidden()
    screenshot("died")
    expect(page.locator(".jp-Dialog")).to_have_count(0)  # closed by `going_on`


@pytest.mark.parametrize(
    "ended", ["session.kernel.restart()", ANOTHER_KERNEL], ids=["restarted", "replaced"]
)
def test_a_second_view_of_a_chat_whose_kernel_has_ended_says_so(
    open_notebook: OpenNotebook, page: Page, ended: str
) -> None:
    notebook = open_notebook(scripted("says('One.')"))
    panel = panel_of(notebook)
    say(panel, "First?")
    is_idle(panel)
    page.evaluate(
        "async () => { const context = window.jupyterapp.shell.currentWidget.context"
        f".sessionContext; await context.{ended} }}"
    )
    expect(panel.get_by_role("alert")).to_contain_text("The kernel restarted.")
    notebook.execute("docmanager:clone")
    expect(page.locator(".nbc")).to_have_count(2)
    second = page.locator(".nbc").last
    expect(second.get_by_role("alert")).to_contain_text("This chat is closed.")
    expect(second).not_to_contain_text("busy")


def test_a_kernel_without_work_that_never_answers_is_not_called_busy_for_long(
    open_notebook: OpenNotebook, page: Page
) -> None:
    deaf = "from nbchat.jupyter.panel.chat_ui import _receive; ui.on_msg(_receive, remove=True)"
    notebook = open_notebook(scripted("says('One.')"), deaf)
    is_idle(panel_of(notebook))
    notebook.run(1)
    notebook.execute("docmanager:clone")
    second = page.locator(".nbc").last
    expect(second.get_by_role("alert")).to_contain_text("This chat is closed.")
