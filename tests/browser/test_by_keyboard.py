"""The panel without a mouse: all can be reached, nothing typed reaches the notebook."""

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit import Notebook
from panel_page import OpenPanelPage
from panels import OWN, SETUP, choose, is_idle, panel_of, say, scripted
from playwright.sync_api import Locator, Page, expect

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

CODE = "Here it is:\n\n```python\nprint(6 * 7)\n```\n"

STATE = """() => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    return {
        mode: notebook.mode,
        active: notebook.activeCellIndex,
        cells: notebook.widgets.map(({ model }) => [model.type, model.sharedModel.source,
            model.executionCount ?? null]),
    };
}"""

EVERY_KEY = [
    *string.ascii_lowercase,
    *string.ascii_uppercase,
    *string.digits,
    *string.punctuation,
    *("Enter", "Shift+Enter", "Control+Enter", "Alt+Enter", "Escape", "Space"),
    *("Backspace", "Delete", "Home", "End", "PageUp", "PageDown"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Shift+ArrowUp"),
    *("Control+z", "Control+Shift+z", "Control+/", "Control+b", "Control+Shift+c"),
    *("Control+s", "Control+m", "Control+Shift+-", "F1", "Shift+Tab", "Shift+L"),
]

COMMANDS = ["d", "d", "x", "a", "b", "m", "y", "Shift+D", "0", "0", "i", "i", "z"]


def state_of(page: Page) -> dict[str, Any]:
    """What a notebook command would change: cells, their sources, the mode, the place."""
    found: dict[str, Any] = page.evaluate(STATE)
    return found


def tab_to(page: Page, target: Locator, key: str = "Tab") -> None:
    """Press Tab until a control has the focus."""
    for _ in range(60):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{target} cannot be reached with {key}")


def press_all(page: Page, where: Locator, keys: list[str]) -> None:
    """Press keys one after the other; each with the focus where the first had it."""
    found = where.element_handle()  # to look it up for each key takes 10 ms
    for key in keys:
        found.focus()
        page.keyboard.press(key)


def test_no_key_in_the_box_is_a_command_to_the_notebook(
    open_shared_notebook: OpenNotebook, page: Page
) -> None:
    notebook = open_shared_notebook(OWN, "first = 1", "second = 2")
    panel = panel_of(notebook)
    box = panel.locator(".nbc-input")
    before = state_of(page)
    press_all(page, box, EVERY_KEY)
    is_idle(panel)
    assert state_of(page) == before
    for name, field, keys in (
        ("Settings", "input, select", COMMANDS),
        ("History", "input", COMMANDS),
        ("Compact", "input", COMMANDS),
    ):
        choose(panel, name)
        dialog = panel.get_by_role("dialog")
        fields = dialog.locator(field)
        expect(fields.first).to_be_visible()
        press_all(page, fields.first, keys)
        press_all(page, dialog, COMMANDS)
        press_all(page, dialog.get_by_role("button", name="Close"), COMMANDS[:6])
        fields.first.focus()
        page.keyboard.press("Shift+Enter")
        if dialog.is_visible():
            dialog.get_by_role("button", name="Close").press("Enter")
        expect(dialog).to_be_hidden()
        page.keyboard.press("d")
        page.keyboard.press("d")
        is_idle(panel)
    for control in panel.locator("header > button, header > * > button").all():
        press_all(page, control, COMMANDS[:6])
    press_all(page, panel.get_by_role("region", name="Transcript"), COMMANDS)
    is_idle(panel)
    assert state_of(page) == before


def test_everything_can_be_done_from_the_keyboard(
    open_shared_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    script = (
        "calls('look_up', ticket=42), says('word ' * 500, delay_seconds=0.05), "
        f"says({CODE!r})"
    )
    notebook = open_shared_notebook(scripted(script, "tools=[look_up]"), "second = 2")
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(
        0
    ).locator(".jp-InputPrompt").click()
    page.keyboard.press("Control+Enter")
    panel = notebook.outputs(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    box = panel.locator(".nbc-input")
    tab_to(page, box)
    page.keyboard.type("Tell me a story")
    page.keyboard.press("Enter")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    stop = panel.get_by_role("button", name="Stop")
    tab_to(page, stop)
    page.keyboard.press("Enter")
    expect(panel.locator(".nbc-cut")).to_have_text("cut off here")
    expect(box).to_be_focused()
    page.keyboard.type("And the code?")
    tab_to(page, panel.get_by_role("button", name="Send"))
    page.keyboard.press("Space")
    expect(box).to_be_focused()
    is_idle(panel)
    copy = panel.locator(".nbc-code-copy")
    tab_to(page, panel.get_by_role("group", name="Answer").last, "Shift+Tab")
    tab_to(page, copy, "ArrowRight")
    screenshot("copy")
    page.keyboard.press("Enter")
    expect(copy).not_to_have_accessible_name("Copy code")
    card = panel.locator(".nbc-tool")
    tab_to(page, card, "ArrowUp")
    summary = card.locator("summary")
    tab_to(page, summary, "ArrowRight")
    page.keyboard.press("Enter")
    expect(panel.locator(".nbc-tool")).to_contain_text("the printer is offline")
    opener = panel.get_by_role("button", name="More", exact=True)
    for name in ("Compact", "History"):
        tab_to(page, opener, "Shift+Tab")
        page.keyboard.press("Enter")
        item = panel.get_by_role("menuitem", name=name, exact=True)
        while not item.evaluate("item => item === document.activeElement"):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(panel.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(opener).to_be_focused()
    tab_to(page, box)


def test_the_focus_stays_in_the_panel_when_what_had_it_goes(
    open_panel_page: OpenPanelPage,
) -> None:
    notebook = open_panel_page(
        scripted(
            "lambda asked: go.wait(30) and says('Quick.'), "
            "says('word ' * 500, delay_seconds=0.05)"
        ),
        "put = ui._show\n"
        "record = Compaction('c', 0, 2, '<summary>She waits.</summary>', 5_000, 500)\n"
        "put(Compacted(record))",
        "from dataclasses import replace\n"
        "put(CompactionUndone(replace(record, status='undone')))",
        "go.set()",
    )
    panel = panel_of(notebook)
    box = panel.locator(".nbc-input")
    say(panel, "Hello?")
    stop = panel.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    stop.focus()
    notebook.run(3)
    is_idle(panel)
    expect(box).to_be_focused()
    notebook.run(1)
    summary = panel.locator(".nbc-banner > summary")
    summary.focus()
    notebook.start(2)
    summary.focus()
    expect(panel.locator(".nbc-banner[data-state=undone]")).to_have_count(1)
    expect(summary).to_be_focused()
    say(panel, "And a story?")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    box.focus()
    notebook.end_kernel()
    expect(panel.get_by_role("alert")).to_contain_text("The kernel ")
    expect(panel.get_by_role("region", name="Transcript")).to_be_focused()
    expect(box).to_be_disabled()
    expect(stop).to_be_hidden()
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_text("Quick.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")


def test_messages_are_one_stop_escape_stops_and_arrow_up_recalls_what_was_asked(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    script = "says('One.'), says('Two.'), says('word ' * 500, delay_seconds=0.05)"
    panel = panel_of(open_panel_page(scripted(script)))
    box = panel.locator(".nbc-input")
    box.fill("にほん")
    for details in ("isComposing: true", "keyCode: 229"):
        box.evaluate(  # keys of an input method
            f"""box => box.dispatchEvent(new KeyboardEvent('keydown',
            {{ key: 'Enter', bubbles: true, cancelable: true, {details} }}))"""
        )
    expect(box).to_have_value("にほん")
    box.press("Enter")
    expect(panel.locator(".nbc-user")).to_have_text(["にほん"])
    is_idle(panel)
    say(panel, "Second?")
    is_idle(panel)
    newest = panel.get_by_role("group", name="Answer").last
    expect(box).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(newest).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    expect(newest).to_be_focused()
    lines = panel.locator(".nbc-log > *")
    page.keyboard.press("ArrowRight")
    expect(newest.get_by_role("button", name="Copy")).to_be_focused()
    page.keyboard.press("Home")
    expect(lines.first).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(panel.get_by_role("button", name="More")).to_be_focused()
    page.keyboard.press("Tab")
    expect(lines.first).to_be_focused()
    page.keyboard.press("Tab")
    expect(box).to_be_focused()

    say(panel, "Third?")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    page.keyboard.press("Escape")
    expect(panel.locator(".nbc-cut")).to_have_text("cut off here")
    for key, text in (
        ("ArrowUp", "Third?"),
        ("ArrowUp", "Second?"),
        ("ArrowDown", "Third?"),
        ("ArrowDown", ""),
    ):
        page.keyboard.press(key)
        expect(box).to_have_value(text)
    box.fill("a draft")
    page.keyboard.press("ArrowUp")
    expect(box).to_have_value("a draft")


def test_a_draft_outlives_its_view_and_a_queued_message_can_be_taken_back(
    open_panel_page: OpenPanelPage,
) -> None:
    script = "says('word ' * 900, delay_seconds=0.05), says('Two.')"
    notebook = open_panel_page(scripted(script), "ui")
    panel = panel_of(notebook)
    box = panel.locator(".nbc-input")
    say(panel, "Tell me a story.")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    for text in ("Remove me.", "Change me.", "Keep me."):
        say(panel, text)
    waiting = panel.locator(".nbc-queued")
    expect(waiting).to_have_count(3)
    waiting.first.get_by_role("button", name="Remove").click()
    expect(waiting).to_have_text(["Change me.", "Keep me."])
    waiting.first.get_by_role("button", name="Edit").click()
    expect(box).to_have_value("Change me.")
    expect(waiting).to_have_text(["Keep me."])
    other = panel_of(notebook, 1).locator(".nbc-input")
    other.fill("A draft")
    again = notebook.run(1).locator(".nbc-input")
    expect(again).to_have_value("A draft")
    again.fill("")
    box.fill("Or rather")
    panel.get_by_role("button", name="Stop").click()
    expect(panel.locator(".nbc-cut")).to_have_text("cut off here")
    expect(box).to_have_value("Keep me.\n\nOr rather")  # before what is typed
    expect(again).to_have_value("Keep me.")
    say(panel, "Keep me.")
    expect(panel.locator(".nbc-user")).to_have_count(2)
    expect(again).to_have_value("")


def test_the_height_is_changed_by_pointer_and_keys_and_kept(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    made = "from nbchat.jupyter.panel.chat_ui import ChatUI\nui = ChatUI(Agent(ScriptedProvider(says('Yes.'))))"
    notebook = open_panel_page(f"{SETUP}\n{made}\nui", "ui")
    panel = panel_of(notebook)
    edge = panel.get_by_role("separator", name="Height of the chat")
    edge.press("ArrowDown")
    expect(edge).to_have_attribute("aria-valuenow", "520")
    place = edge.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 300, place["y"] + 4)
    page.mouse.down()
    page.mouse.move(place["x"] + 300, place["y"] - 56)
    page.mouse.up()
    expect(edge).to_have_attribute("aria-valuenow", "460")
    again = panel_of(notebook, 1)
    expect(again).to_have_css("height", "460px")
    page.evaluate("localStorage.clear()")
