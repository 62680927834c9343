"""What users of other chats complain of: moved views, changed notebooks, dead buttons."""

from collections.abc import Callable
from pathlib import Path

import pytest
from labkit import Notebook
from panel_page import OpenPanelPage
from panels import OWN, choose, is_idle, panel_of, say, scripted
from playwright.sync_api import Page, expect

from nbchat.jupyter.panel.chat_ui import FALLBACK_TEXT

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

LONG = "\n\n".join(f"Paragraph {number} says something." for number in range(400))

PLACE = "scroller => scroller.scrollTop"

# Opens a saved notebook with a new kernel, with that of "another" tab, or with "none".
REOPEN = """async ([path, which]) => {
    const { shell, commands } = window.jupyterapp;
    const kernels = [...shell.widgets('main')].map(tab => tab.context?.sessionContext?.session?.kernel);
    const kernel = { id: kernels.find(Boolean)?.id };
    const kernelPreference = { shouldStart: false, canStart: false, autoStartDefault: false };
    await commands.execute('docmanager:open', { path, factory: 'Notebook',
        ...which === 'another' ? { kernel } : {}, ...which === 'none' ? { kernelPreference } : {} });
    await shell.currentWidget.context.ready;
}"""

SELECT = """(element, wanted) => {
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (!texts.nextNode().data.includes(wanted));
    const { currentNode: node } = texts;
    const start = node.data.indexOf(wanted);
    document.getSelection().setBaseAndExtent(node, start, node, start + wanted.length);
}"""

# Notes where the view moves up by itself: after the panel has followed what was drawn,
# before that is painted.
NOTE_JUMPS = """scroller => {
    let last = scroller.scrollTop;
    window.jumps = [];
    window.watch = new ResizeObserver(() => {
        if (scroller.scrollTop < last) window.jumps.push(last - scroller.scrollTop);
        last = scroller.scrollTop;
    });
    window.watch.observe(scroller.firstElementChild);
}"""

# Turns the wheel up in a long output that is scrolled itself.
WHEEL_INSIDE = """message => {
    const output = message.appendChild(document.createElement("pre"));
    output.style.cssText = "height: 40px; overflow: auto";
    output.textContent = "line\\n".repeat(50);
    output.scrollTop = 200;
    output.dispatchEvent(new WheelEvent("wheel", { deltaY: -50, bubbles: true }));
}"""

FROM_BELOW = "({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight"


def test_nothing_jumps_while_an_answer_streams_and_ends_and_latest_goes_to_it(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(scripted(f"says({LONG!r}, delay_seconds=0.005)"))
    panel = panel_of(notebook)
    say(panel, "Tell me a story.")
    scroller = panel.locator(".nbc-scroller")
    expect(panel.locator(".nbc-live p").nth(20)).to_be_attached()
    scroller.evaluate(NOTE_JUMPS)
    expect(panel.locator(".nbc-live p").nth(60)).to_be_attached()
    assert page.evaluate("window.watch.disconnect(), window.jumps") == []
    scroller.hover()
    page.mouse.wheel(0, -12)
    jump = panel.get_by_role("button", name="Latest")
    expect(jump).to_be_visible()
    place = scroller.evaluate(PLACE)
    shown = panel.locator(".nbc-live p").count()
    expect(panel.locator(".nbc-live p").nth(shown + 30)).to_be_attached()
    assert scroller.evaluate(PLACE) == place
    screenshot("scrolled-up")
    jump.click()
    expect(jump).to_be_hidden()
    expect(panel.locator(".nbc-input")).to_be_focused()
    panel.locator(".nbc-user").evaluate(WHEEL_INSIDE)
    expect(panel.locator(".nbc-live p").nth(shown + 60)).to_be_attached()
    assert scroller.evaluate(FROM_BELOW) < 40
    scroller.hover()
    page.mouse.wheel(0, -600)
    expect(jump).to_be_visible()
    read = scroller.locator("p", has_text=f"Paragraph {shown + 50} says")
    place = read.bounding_box()
    panel.get_by_role("button", name="Stop").click()
    is_idle(panel)
    expect(panel.locator(".nbc-cut")).to_be_attached()
    assert read.bounding_box()["y"] == pytest.approx(place["y"], abs=3)


def test_code_is_copied_where_the_page_may_not_use_the_clipboard(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    code = "```python\nprint(6 * 7)\n```"
    panel = panel_of(open_panel_page(scripted(f"says({code!r})")))
    say(panel, "Show me.")
    is_idle(panel)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    copy = panel.get_by_role("button", name="Copy code")
    copy.click()
    expect(panel.locator(".nbc-code-copy")).to_have_accessible_name("Copied")
    expect(panel.locator(".nbc-code-copy")).to_be_focused()
    panel.locator(".nbc-input").press("Control+v")
    expect(panel.locator(".nbc-input")).to_have_value("print(6 * 7)\n")


def test_a_notebook_without_its_kernel_says_in_a_line_what_the_panel_was(
    open_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_notebook(scripted("says('The answer.')"))
    panel = panel_of(notebook)
    visible = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    line = visible.get_by_text(FALLBACK_TEXT)
    expect(line).to_be_attached()
    expect(line).to_be_hidden()
    say(panel, "The question?")
    is_idle(panel)
    notebook.save()
    bare = Notebook(page, notebook.lab, f"bare-{notebook.name}", ())
    file = notebook.lab.root / notebook.name
    (notebook.lab.root / bare.name).write_bytes(file.read_bytes())
    notebook.save_with_widgets()
    saved = file.read_bytes()
    assert b"widget-state" in saved
    assert b"ChatUI()" in saved
    assert b"The question?" not in saved
    assert b"The answer." not in saved.replace(b"says('The answer.')", b"")
    notebook.close()

    shown = visible.locator(".jp-OutputArea")
    for kernel in ("none", "new"):
        bare.close_tab()
        page.evaluate(REOPEN, [bare.name, kernel])
        expect(line).to_be_visible()
        told = shown.inner_text()
        assert "%load_ext nbchat\n%chat" in told
        assert "model not found" not in told
        assert "Loading" not in told
        assert "The " not in told  # neither question nor answer
        screenshot(f"closed-{kernel}")
    page.evaluate(REOPEN, [notebook.name, "another"])
    bare.close_tab()
    closed = "This chat is closed. Run this cell again to go on."
    expect(shown.get_by_role("alert")).to_have_text(closed)
    expect(shown).not_to_contain_text("busy")
    expect(shown).not_to_contain_text("The answer.")
    expect(shown).not_to_contain_text("The question?")
    screenshot("restored")


def test_after_a_restart_a_click_reopens_the_chat_with_what_was_typed(
    open_shared_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    panel = panel_of(open_shared_notebook(OWN))
    box = panel.locator(".nbc-input")
    expect(box).to_be_focused()  # `%chat` was run to type here
    expect(box).to_be_in_viewport(ratio=1)
    page.keyboard.type("half a question")
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext"
        ".session.kernel.restart()"
    )
    reopen = panel.get_by_role("button", name="Reopen chat")
    expect(reopen).to_be_visible()
    expect(panel.get_by_role("alert")).to_have_text("The kernel restarted.")
    screenshot("restarted")
    reopen.click()
    expect(reopen).to_be_hidden()
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    expect(box).to_have_value("half a question")
    say(panel, "And?")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_contain_text("I see.")


def test_a_chat_never_changes_the_notebook_it_is_in(
    open_shared_notebook: OpenNotebook, page: Page
) -> None:
    notebook = open_shared_notebook(scripted("says('One.'), says('Two.')"))
    panel = panel_of(notebook)
    notebook.save()
    file = notebook.lab.root / notebook.name
    before = file.read_bytes()
    say(panel, "First?")
    is_idle(panel)
    say(panel, "/compact")
    is_idle(panel)
    say(panel, "Second?")
    is_idle(panel)
    expect(panel.locator(".nbc-log .nbc-assistant").last).not_to_be_empty()
    dirty = "window.jupyterapp.shell.currentWidget.context.model.dirty"
    assert page.evaluate(dirty) is False
    notebook.save()
    assert file.read_bytes() == before


def test_a_selected_text_is_removed_for_good_after_a_dialog_that_says_what_it_does(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot, tmp_path: Path
) -> None:
    file = tmp_path / "sessions.db"
    store = f"import os; os.environ['NBCHAT_STORE_URL'] = 'sqlite:///{file}'\n"
    notebook = open_panel_page(
        store + scripted("says('I noted hunter2-secret for you.')")
    )
    panel = panel_of(notebook)
    say(panel, "My password is hunter2-secret.")
    is_idle(panel)
    panel.locator(".nbc-assistant").evaluate(SELECT, "hunter2-secret")
    choose(panel, "Remove text permanently …")
    dialog = panel.get_by_role("dialog", name="Remove permanently")
    text = dialog.get_by_label("Text to remove")
    expect(text).to_have_value("hunter2-secret")
    expect(dialog).to_contain_text("This can't be undone")
    screenshot("dialog")
    remove = dialog.get_by_role("button", name="Remove permanently")
    text.fill("hun")
    expect(remove).to_be_disabled()
    text.fill("hunter2-secret")
    remove.click()
    log = panel.locator(".nbc-log")
    expect(log).to_contain_text("Removed it from 2 messages")
    expect(log).to_contain_text("My password is [redacted].")
    is_idle(panel)
    screenshot("removed")
    assert "hunter2" not in panel.evaluate("panel => panel.outerHTML")
    expect(panel.locator(".nbc-removing textarea")).to_have_value("")
    expect(panel.locator(".nbc-input")).to_have_value("")
    assert file.exists()
    for each in tmp_path.glob("sessions.db*"):
        assert b"hunter2" not in each.read_bytes()


def test_a_transcript_is_kept_in_the_notebook_and_follows_what_is_removed(
    open_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_notebook(OWN)
    panel = panel_of(notebook)
    choose(panel, "Keep a transcript in the notebook")
    kept = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").nth(1)
    expect(kept).to_contain_text("%chat transcript keep")
    expect(kept.locator(".jp-OutputArea-output")).to_contain_text("No messages yet.")
    say(panel, "Is the code hunter2-and-more right?")
    expect(kept.locator(".jp-OutputArea-output")).to_contain_text("I see. I see.")
    is_idle(panel)
    texts = kept.locator(".nbc-said").locator(".nbc-text, .nbc-md")
    expect(texts).to_have_count(2)
    places = [texts.nth(n).bounding_box() for n in range(2)]
    question, answer = (round(box["x"]) for box in places if box)
    assert question == answer  # aligned left, beside a panel too
    notebook.save()
    file = notebook.lab.root / notebook.name
    assert "hunter2-and-more right" in file.read_text()
    screenshot("kept")
    say(panel, "/redact hunter2-and-more")
    expect(panel.locator(".nbc-note")).to_contain_text("Save the notebook")
    expect(kept).not_to_contain_text("hunter2")
    notebook.save()
    assert "hunter2" not in file.read_text()
