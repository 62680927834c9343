"""The panel when a kernel says odd things, stops in mid-sentence, or is told too much."""

from collections.abc import Callable

from labkit import Notebook
from panel_page import OpenPanelPage
from panels import is_idle, panel_of, say, scripted
from playwright.sync_api import Page, expect

OpenNotebook = Callable[..., Notebook]

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


ANOTHER_KERNEL = """async () => {
    const context = window.jupyterapp.shell.currentWidget.context.sessionContext;
    await context.shutdown();
    await context.changeKernel({ name: 'python3' }) }"""


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


def test_a_second_view_of_a_chat_whose_kernel_was_replaced_says_so(
    open_shared_notebook: OpenNotebook, page: Page
) -> None:
    notebook = open_shared_notebook(scripted("says('One.')"))
    panel = panel_of(notebook)
    say(panel, "First?")
    is_idle(panel)
    page.evaluate(ANOTHER_KERNEL)
    expect(panel.get_by_role("alert")).to_contain_text("The kernel restarted.")
    notebook.execute("docmanager:clone")
    expect(page.locator(".nbc")).to_have_count(2)
    second = page.locator(".nbc").last  # hears nothing from a kernel without work
    expect(second.get_by_role("alert")).to_contain_text("This chat is closed.")
    expect(second).not_to_contain_text("busy")
