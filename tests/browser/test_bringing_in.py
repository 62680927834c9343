"""What a person brings into a message in a real JupyterLab, and what the model gets."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from labkit import Notebook
from panel_page import OpenPanelPage
from panels import panel_of
from playwright.sync_api import Locator, Page, expect
from readable import CONTRAST

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

CHAT = (
    "import os\n"
    "os.environ['NBCHAT_MODEL'] = 'openai:no-model'\n"
    "os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'\n"
    "%load_ext nbchat\n"
    "from nbchat.testing import ScriptedProvider, says\n"
    "agent = %chat agent\n"
    "said = ScriptedProvider(*[says('I see.')] * 9)\n"
    "agent.use(said)\n"
    "%chat"
)

FRAME = (
    "import pandas as pd\n"
    "df = pd.DataFrame({'city': ['Bonn', 'Köln'] * 600, 'price': range(1_200)})\n"
    "api_key = 'sk-never-shown'\n"
    "df.shape"
)

FIGURE = (
    "from matplotlib.figure import Figure\n"
    "fig = Figure(figsize=(4, 2))\n"
    "_ = fig.subplots().plot([1, 3, 2])"
)

SENT = (
    "from nbchat.providers.base import image_of, user_text\n"
    "for entry in said.requests[-1].history:\n"
    "    print(user_text(entry))\n"
    "    print(*(image_of(entry) or ['-'])[:1])"
)

HIDDEN_KEY = "The variable api_key\n\nstr\n<hidden: may be a secret>"

TYPE_AND_SEND = """(box, text) => {
  box.value = text;
  box.dispatchEvent(new InputEvent('input', { bubbles: true }));
  box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
}"""
"""Sooner than anything about the text can be looked up"""

# Notes from now on what the chips above the message say, whenever that changes.
NOTE_CHIPS = """(list) => {
  window.noted = [];
  const note = () => noted.push(list.textContent);
  new MutationObserver(note).observe(list, { childList: true });
}"""


@pytest.fixture(autouse=True, scope="module")
def fonts() -> None:
    """Let matplotlib look for fonts once: in a new environment that takes a while."""
    code = "import matplotlib.pyplot, pandas"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def options(panel: Locator) -> Locator:
    """What the list offers."""
    return panel.get_by_role("listbox").get_by_role("option")


def chips(panel: Locator) -> Locator:
    """What the message brings along."""
    return panel.get_by_role("list", name="Attached").get_by_role("listitem")


def answers(panel: Locator, count: int) -> None:
    """Wait until the model has answered so often."""
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_count(count)
    expect(panel.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_dataframe_is_chosen_previewed_and_sent_word_for_word(
    open_shared_notebook: OpenNotebook, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_shared_notebook(FRAME, CHAT, SENT)
    notebook.run(0)
    panel = panel_of(notebook, 1)
    field = panel.locator(".nbc-input")
    field.click()
    page.keyboard.type("What is in @")
    expect(options(panel).filter(has_text="@error")).to_be_visible()
    expect(options(panel).filter(has_text="DataFrame")).to_have_count(1)
    expect(options(panel).filter(has_text="api_key")).to_have_text("@api_keystr")
    expect(panel).not_to_contain_text("never-shown")
    screenshot("names")
    assert options(panel).nth(1).locator(".nbc-choice-help").evaluate(CONTRAST) >= 4.5
    page.keyboard.type("d")
    chosen = options(panel).first
    expect(chosen).to_contain_text("@dfpandas.DataFrame")
    expect(chips(panel)).to_have_count(0)  # no warning about a name half typed
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute(
        "aria-activedescendant", str(chosen.get_attribute("id"))
    )
    page.keyboard.press("Enter")
    expect(field).to_have_value("What is in @df ")
    expect(panel.get_by_role("listbox")).to_be_hidden()
    expect(chips(panel)).to_contain_text(["tokens"])
    page.keyboard.type("?")
    screenshot("chip")
    chips(panel).get_by_role("button").first.click()
    dialog = panel.get_by_role("dialog")
    expect(dialog).to_have_accessible_name("What will be sent")
    shown = dialog.locator("pre")
    expect(shown).to_contain_text("1,200 rows x 2 columns")
    expect(dialog.get_by_role("status")).to_contain_text("@df · ")
    seen = shown.inner_text()
    screenshot("preview")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    field.focus()
    page.keyboard.press("Enter")
    answers(panel, 1)
    expect(chips(panel)).to_have_count(0)
    card = panel.locator(".nbc-log .nbc-attached")
    expect(card.locator("summary")).to_have_text("The variable df")
    screenshot("sent")
    sent = notebook.run(2).inner_text()
    assert sent.startswith(f"{seen}\n-\nWhat is in @df ?\n-")
    assert "Köln" in seen


def test_what_was_seen_goes_out_as_it_was_and_a_look_shows_what_is_new(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    notebook = open_panel_page("price = 1", CHAT, "price = 2", SENT, "price = 3")
    notebook.run(0)
    panel = panel_of(notebook, 1)
    panel.locator(".nbc-input").fill("@price?")
    expect(chips(panel)).to_have_count(1)
    notebook.run(2)
    panel.locator(".nbc-send").evaluate("button => button.click()")
    answers(panel, 1)
    assert "int 1" in notebook.run(3).inner_text()
    panel.locator(".nbc-input").fill("And @price?")
    chips(panel).get_by_role("button").first.click()
    expect(panel.get_by_role("dialog").locator("pre")).to_contain_text("int 2")
    page.keyboard.press("Escape")
    notebook.run(4)
    panel.locator(".nbc-input").blur()
    panel.locator(".nbc-input").focus()
    notebook.await_answers()  # the chip of the look before is shown until then
    chips(panel).get_by_role("button").first.click()
    expect(panel.get_by_role("dialog").locator("pre")).to_contain_text("int 3")


def test_a_picture_is_shown_before_it_is_sent_and_can_be_removed(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(FIGURE, CHAT, SENT)
    notebook.run(0)
    panel = panel_of(notebook, 1)
    field = panel.locator(".nbc-input")
    field.fill("Read @image:fig and @image:fig2")
    expect(chips(panel)).to_have_count(2)
    expect(chips(panel).nth(1)).to_contain_text("There's no file")
    screenshot("chips")
    chips(panel).nth(0).get_by_role("button").first.click()
    picture = panel.get_by_role("dialog").get_by_role("img", name="The image fig")
    expect(picture).to_have_js_property("naturalWidth", 400)
    screenshot("preview")
    panel.get_by_role("dialog").get_by_role("button", name="Done").click()
    chips(panel).nth(1).get_by_role("button", name="Don't attach").click()
    expect(field).to_have_value("Read @image:fig and image:fig2")
    expect(field).to_be_focused()
    expect(chips(panel)).to_have_count(1)
    page.keyboard.press("Enter")
    answers(panel, 1)
    sent = notebook.run(2).inner_text()
    assert sent.startswith("The image fig\nimage/png\nRead @image:fig and")
    field.fill("Once more @image:fig, @image:fig2")
    expect(chips(panel)).to_have_count(2)
    chips(panel).get_by_role("button").first.click()
    panel.get_by_role("list", name="Attached").evaluate(NOTE_CHIPS)
    panel.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(field).to_have_value("Once more image:fig, @image:fig2")
    expect(chips(panel)).to_have_count(1)
    expect(chips(panel)).to_contain_text("There's no file")
    notebook.await_answers()
    assert not any("tokens" in shown for shown in page.evaluate("noted"))


def test_the_last_error_and_its_cell_are_brought_in_without_colours(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page("print('before')\n1 / 0", CHAT, SENT)
    notebook.run(0)
    panel = panel_of(notebook, 1)
    panel.locator(".nbc-input").fill("Why @error in @cell?")
    expect(chips(panel)).to_have_count(2)
    chips(panel).nth(0).get_by_role("button").first.click()
    shown = panel.get_by_role("dialog").locator("pre")
    expect(shown).to_contain_text("ZeroDivisionError: division by zero")
    while "by zero" not in (seen := shown.inner_text()):  # not drawn yet
        page.wait_for_timeout(20)
    screenshot("preview")
    page.keyboard.press("Escape")
    panel.locator(".nbc-input").press("Enter")
    answers(panel, 1)
    sent = notebook.run(2).inner_text()
    assert sent.startswith(f"{seen.rstrip()}\n-\nThe cell run as [1]")
    assert "Its output:\nbefore" in sent
    assert "[31m" not in sent


def test_what_is_missing_leaves_the_message_with_its_author(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(CHAT, "said.requests")
    panel = panel_of(notebook, 0)
    field = panel.locator(".nbc-input")
    for text, reason in (
        ("See @file:gone.txt", "There's no file"),
        ("See @cell:77", "No cell 77 was run in this kernel"),
    ):
        field.fill(text)
        field.press("Enter")
        expect(panel.locator(".nbc-error").last).to_contain_text(reason)
        expect(field).to_have_value(text)
    screenshot("missing")
    expect(notebook.run(1)).to_have_text("[]")


def test_a_key_goes_without_its_value_unless_its_author_insists(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page("api_key = 'sk-never-shown'", CHAT, SENT)
    notebook.run(0)
    panel = panel_of(notebook, 1)
    field = panel.locator(".nbc-input")
    field.fill("See @api_key")
    anyway = chips(panel).get_by_role("button", name="send anyway")
    expect(anyway).to_have_text("1 hidden · send anyway")
    chips(panel).get_by_role("button").first.click()
    shown = panel.get_by_role("dialog").locator("pre")
    expect(shown).to_have_text(HIDDEN_KEY)
    screenshot("hidden")
    page.keyboard.press("Escape")
    field.press("Enter")
    answers(panel, 1)
    expect(panel).not_to_contain_text("never-shown")
    sent = notebook.run(2).inner_text()
    assert sent.startswith(f"{HIDDEN_KEY}\n-\nSee @api_key\n-")
    field.fill("See @api_key")
    anyway.click()
    expect(field).to_have_value("See @!api_key")
    expect(chips(panel)).to_contain_text(["@!api_key"])
    expect(anyway).to_have_count(0)
    expect(panel.get_by_role("region", name="What @!api_key sends")).to_contain_text(
        "sk-never-shown"
    )  # before it is shown Enter sends nothing
    field.press("Enter")
    answers(panel, 2)
    assert "str of length 14\nsk-never-shown\n-\nSee @!" in notebook.run(2).inner_text()


def refused_alike(panel: Locator, page: Page) -> None:
    """A mistyped command and a wrong argument get a line, and their text back."""
    field = panel.locator(".nbc-input")
    page.keyboard.type("/hlep")
    page.keyboard.press("Enter")
    refused = panel.locator(".nbc-error")
    expect(refused).to_have_text("No command named /hlep. Did you mean /help?")
    expect(field).to_have_value("/hlep")  # to be corrected
    look = "each => [each.className, getComputedStyle(each).background]"
    typo = refused.evaluate(look)
    field.fill("/set attempts many")
    page.keyboard.press("Enter")
    expect(refused).to_have_text(  # in place of the line before
        "attempts can't be 'many'. Use a whole number from 1 to 100."
    )
    expect(refused).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    assert refused.evaluate(look) == typo
    expect(field).to_have_value("/set attempts many")
    field.fill("/pin")
    page.keyboard.press("Enter")
    expect(panel.locator(".nbc-note").last).to_have_text("No rules are pinned.")
    expect(refused).to_have_count(0)  # it was only about what was typed before


def test_commands_are_completed_by_keyboard_and_no_key_leaves_the_panel(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(CHAT)
    panel = panel_of(notebook, 0)
    field = panel.locator(".nbc-input")
    page.evaluate(
        "() => { window.nbchatKeys = []; document.addEventListener('keydown', "
        "event => window.nbchatKeys.push(event.key)) }"
    )
    field.click()
    page.keyboard.type("/")
    compact = options(panel).filter(has_text="Compact now: keep N tokens")
    expect(compact).to_contain_text("/compact")
    screenshot("commands")
    page.keyboard.press("Escape")
    expect(panel.get_by_role("listbox")).to_be_hidden()
    expect(field).to_be_focused()
    field.fill("")
    page.keyboard.type("/co")
    expect(options(panel).first).to_have_text(
        "/contextShow what's in the context and when it's compacted"
    )
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(panel.locator("[aria-selected=true]")).to_contain_text("/compact")
    page.keyboard.press("Tab")
    expect(field).to_have_value("/compact ")
    expect(field).to_be_focused()
    page.keyboard.type("@ce")
    expect(options(panel)).to_have_count(1)
    page.keyboard.press("ArrowLeft")
    expect(panel.get_by_role("listbox")).to_be_hidden()
    field.fill("")
    page.keyboard.type("/help")
    expect(options(panel)).to_have_count(1)
    page.keyboard.press("Enter")
    expect(panel.locator(".nbc-reply")).to_contain_text("/compact")
    expect(panel.locator(".nbc-reply th").last).to_be_in_viewport()
    refused_alike(panel, page)
    field.fill("")
    page.keyboard.type("/new")
    options(panel).first.click()
    expect(field).to_have_value("/new")
    assert page.evaluate("() => window.nbchatKeys") == []


def test_what_a_message_brings_says_what_it_costs_before_it_is_sent(
    open_panel_page: OpenPanelPage,
    page: Page,
    screenshot: Screenshot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("words and more words\n" * 2_000)
    notebook = open_panel_page(
        f"{FRAME}\n{FIGURE}\nconfig = {{'password': 'hunter2'}}", CHAT
    )
    notebook.run(0)
    panel = panel_of(notebook, 1)
    field = panel.locator(".nbc-input")
    expect(panel.locator(".nbc-send")).to_be_disabled()
    field.fill("Sum up @file:notes.txt, @df and @fig")
    expect(chips(panel)).to_have_count(3)
    expect(panel.locator(".nbc-attached-picture")).to_have_count(1)
    field.press("Enter")  # nothing is sent before the person has chosen
    expect(panel.locator(".nbc-attached-reason")).to_have_text(
        "Choose how to send @file:notes.txt."
    )
    expect(panel.locator(".nbc-attached-form").first).to_be_focused()
    screenshot("asks")
    first, second, _third = chips(panel).all()[:3]
    first.get_by_role("button", name="Send a description").click()
    expect(first).to_contain_text("description")
    second.get_by_role("button", name="Send all").click()
    expect(second.get_by_role("button", name="Send a description")).to_be_visible()
    expect(field).to_be_focused()
    page.keyboard.press("Enter")
    answers(panel, 1)
    cards = panel.locator(".nbc-log .nbc-attached")
    expect(cards.first.locator("pre")).to_contain_text("2,001 lines")
    expect(cards.nth(1).locator("pre")).to_contain_text("Köln,1199")
    expect(panel.locator(".nbc-log .nbc-thumbnail")).to_be_visible()
    screenshot("sent")
    field.evaluate(TYPE_AND_SEND, "Is @!config right?")
    shown = panel.get_by_role("region", name="What @!config sends")
    expect(shown).to_contain_text("hunter2")
    expect(panel.locator(".nbc-log .nbc-user")).to_have_count(2)
    screenshot("raw")
    field.press("Enter")
    answers(panel, 2)
