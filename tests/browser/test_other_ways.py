"""Going another way in a real JupyterLab: edit, regenerate, leave out, pin, go back."""

from collections.abc import Callable
from pathlib import Path

from panel_page import OpenPanelPage, PanelPage
from panels import ask, choose, is_idle, panel_of
from playwright.sync_api import Locator, Page, expect

Screenshot = Callable[[str], Path]

SETUP = """
import tempfile
from nbchat.agent.agent import Agent
from nbchat.chat.commands import Commands
from nbchat.compaction.engine import CompactionEngine
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, calls, says
from nbchat.jupyter.panel.chat_ui import ChatUI

def look_up(ticket: int) -> str:
    "Read a ticket."
    return f"Ticket {ticket}: the printer of Ann is offline. " * 20

store = SessionStore(f"sqlite:///{tempfile.mkdtemp()}/sessions.db")
known = Commands(store)
"""

HELD = """
import threading
from nbchat.conversation.events import TextDelta
go = threading.Event()
class Held(ScriptedProvider):
    def stream(self, request, *, stop=None):
        if len(self.requests) == 1:
            yield TextDelta("Two. Two.")
            go.wait(30)
        return (yield from super().stream(request, stop=stop))
"""
"""The second answer goes on after `go`."""

LONG = "The printer of Ann is offline. "

STORY = (
    "<summary>**Ann** works at `DESK-7`. Her printer is offline since Monday, and "
    "ticket 42 is open.</summary>"
)

HOSTILE = "<img src=x onerror=window.nbchatRan=1>"

ODD = '/not a command\n\n  "two" spaces, {braces} and $HOME & <b>\n'


def ways_notebook(
    open_panel_page: OpenPanelPage, script: str, options: str = ""
) -> PanelPage:
    """A notebook with a panel whose sessions are kept in a store of its own."""
    return open_panel_page(
        f"{SETUP}\nprovider = ScriptedProvider({script})\n"
        f"ui = ChatUI(Agent(provider, {options}), commands=known)\nui",
        "provider.requests[-1].history[-1].content",
        "[entry.content[:30] for entry in provider.requests[-1].history]",
    )


def line(panel: Locator, text: str) -> Locator:
    """A message with its buttons."""
    return panel.locator(".nbc-line", has_text=text)


def test_an_earlier_message_is_edited_and_the_original_branch_is_reopened(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    script = "says('One.'), says('Two.'), says('Another two.'), says('Third.')"
    notebook = ways_notebook(open_panel_page, script)
    panel = panel_of(notebook)
    ask(panel, "\n \n    if late:\n        wait()\n\n")
    assert notebook.run(1).inner_text().strip() == r"'    if late:\n        wait()'"
    ask(panel, "Second question?")
    box = panel.locator(".nbc-input")
    box.fill("a draft")
    line(panel, "Second question?").hover()
    screenshot("hover")
    line(panel, "Second question?").get_by_role("button", name="Edit").click()
    bar = panel.locator(".nbc-editing:not(.nbc-cell-notice)")
    expect(bar).to_contain_text("The original stays in your sessions")
    expect(box).to_have_value("Second question?")
    expect(box).to_be_focused()
    screenshot("editing")
    box.press("Escape")
    expect(bar).to_be_hidden()
    expect(box).to_have_value("a draft")

    edit = line(panel, "Second question?").get_by_role("button", name="Edit")
    edit.focus()
    page.keyboard.press("Enter")
    expect(box).to_have_value("Second question?")
    box.fill(ODD)
    expect(panel.locator(".nbc-choices")).to_be_hidden()
    box.press("Enter")
    expect(panel.locator(".nbc-log")).to_contain_text("Another two.")
    is_idle(panel)
    expect(box).to_have_value("a draft")
    expect(panel.locator(".nbc-log .nbc-user")).to_have_count(2)
    expect(panel.locator(".nbc-log")).not_to_contain_text("Second question?")
    screenshot("branched")
    expect(notebook.run(1)).to_have_text(repr(ODD))
    panel.get_by_role("button", name="Earlier version").click()
    expect(panel.locator(".nbc-log")).to_contain_text("Second question?")
    expect(panel.locator(".nbc-log")).not_to_contain_text("Another two.")


def test_versions_of_a_message_are_switched_at_the_message(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    script = ", ".join(f"says('Answer {number}.')" for number in range(8))
    panel = panel_of(ways_notebook(open_panel_page, script))
    ask(panel, "First question?")
    ask(panel, "Second question?")
    expect(panel.locator(".nbc-switch")).to_have_count(0)
    box = panel.locator(".nbc-input")
    for before, text in (
        ("Second question?", "Rewritten?"),
        ("Rewritten?", "Once more?"),
    ):
        line(panel, before).hover()
        line(panel, before).get_by_role("button", name="Edit").click()
        expect(box).to_have_value(before)
        box.fill(text)
        box.press("Enter")
        expect(panel.locator(".nbc-log")).to_contain_text(text)
        is_idle(panel)
    switch = line(panel, "Once more?").locator(".nbc-switch")
    expect(switch).to_have_text("3 / 3")
    expect(switch.get_by_role("button", name="Later version")).to_be_disabled()
    screenshot("switch")
    switch.get_by_role("button", name="Earlier version").click()
    expect(line(panel, "Rewritten?").locator(".nbc-switch")).to_have_text("2 / 3")
    expect(panel.get_by_role("button", name="Earlier version")).to_be_focused()
    page.keyboard.press("Enter")
    switch = line(panel, "Second question?").locator(".nbc-switch")
    expect(switch).to_have_text("1 / 3")
    expect(panel.get_by_role("button", name="Later version")).to_be_focused()
    screenshot("original")
    panel.get_by_role("button", name="More").click()
    panel.get_by_role("menuitem", name="Sessions").click()
    rows = panel.locator(".nbc-session")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("3 branches")
    screenshot("list")


def test_a_draft_and_a_rewrite_outlive_another_edit_and_a_new_session(
    open_panel_page: OpenPanelPage,
) -> None:
    panel = panel_of(ways_notebook(open_panel_page, "says('One.'), says('Two.')"))
    ask(panel, "First question?")
    ask(panel, "Second question?")
    box = panel.locator(".nbc-input")
    box.fill("a draft")
    line(panel, "Second question?").get_by_role("button", name="Edit").click()
    expect(box).to_have_value("Second question?")
    box.fill("a long rewrite")
    line(panel, "First question?").get_by_role("button", name="Edit").click()
    expect(box).to_have_value("First question?")
    panel.get_by_role("button", name="More").click()
    panel.get_by_role("menuitem", name="New session").click()
    expect(box).to_have_value("a draft\n\na long rewrite")
    expect(panel.locator(".nbc-editing:not(.nbc-cell-notice)")).to_be_hidden()


def test_the_newest_answer_is_regenerated(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = "says('One.'), says('Two. Two.'), says('Again.')"
    shown = f"ui = ChatUI(Agent(Held({script})), commands=known)\nui"
    notebook = open_panel_page(f"{SETUP}{HELD}{shown}", "go.set()")
    panel = panel_of(notebook)
    ask(panel, "First?")
    box = panel.locator(".nbc-input")
    box.fill("Second?")
    box.press("Enter")
    expect(panel.locator(".nbc-live")).to_contain_text("Two. Two.")
    edit = line(panel, "First?").get_by_role("button", name="Edit")
    expect(edit).to_be_disabled()
    panel.get_by_role("button", name="More").click()
    begin = panel.get_by_role("menuitem", name="New session")
    expect(begin).to_be_disabled()
    expect(begin).to_have_attribute("title", "Wait for the answer or stop it")
    notebook.run(1)
    is_idle(panel)
    expect(begin).to_be_enabled()
    again = panel.get_by_role("button", name="Regenerate")
    expect(again).to_have_count(1)
    screenshot("answer")
    again.click()
    expect(panel.locator(".nbc-log")).to_contain_text("Again.")
    expect(panel.locator(".nbc-log")).not_to_contain_text("Two.")
    is_idle(panel)
    expect(box).to_be_focused()
    panel.get_by_role("button", name="Earlier version").click()
    expect(panel.locator(".nbc-log")).to_contain_text("Two. Two.")


def test_a_message_and_a_tools_output_are_excluded_and_included_again(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = "calls('look_up', ticket=42), says('It is offline.'), says('Hm.')"
    notebook = ways_notebook(open_panel_page, script, "tools=[look_up]")
    panel = panel_of(notebook)
    ask(panel, LONG * 40)
    meter = panel.locator(".nbc-meter")
    full = tokens_of(meter)
    message = panel.locator(".nbc-line[data-kind=prompt]")
    message.get_by_role("button", name="Exclude").click()
    expect(message.locator(".nbc-mark")).to_be_visible()
    expect(panel.locator(".nbc-banner")).to_contain_text("Message excluded")
    is_idle(panel)
    less = tokens_of(meter)
    assert less < full - 200
    card = panel.locator(".nbc-tool")
    card.locator("summary").click()
    card.get_by_role("button", name="Exclude").click()
    expect(card.locator(".nbc-mark")).to_be_visible()
    is_idle(panel)
    assert tokens_of(meter) < less - 200
    screenshot("left-out")
    ask(panel, "And now?")
    seen = notebook.run(2)
    expect(seen).not_to_contain_text("The printer")
    expect(seen).not_to_contain_text("Ticket 42")
    expect(seen).to_contain_text("[excluded by the user]")
    message.first.get_by_role("button", name="Include").click()
    expect(message.first.locator(".nbc-mark")).to_be_hidden()
    is_idle(panel)
    choose(panel, "History")
    expect(panel.locator(".nbc-row[data-seen='excluded']")).to_have_count(1)
    screenshot("history")


def tokens_of(meter: Locator) -> int:
    """Tokens of the context, from the title of the meter."""
    text = (meter.get_attribute("title") or "").rpartition("context uses ")[2]
    return int(text.partition(" ")[0].replace(",", ""))


def test_a_summary_is_edited_regenerated_undone_and_redone_at_its_banner(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = (
        f"says('It is offline.'), says({STORY!r}), "
        "says('<summary>Written again: Ann waits.</summary>'), window=6_000"
    )
    panel = panel_of(ways_notebook(open_panel_page, script))
    ask(panel, LONG * 60 + "She is at DESK-7, see ticket 42.")
    panel.locator(".nbc-input").fill("/compact")
    panel.locator(".nbc-input").press("Enter")
    banner = panel.locator(".nbc-line[data-kind=banner]").first
    expect(banner).to_contain_text("Compaction occurred")
    is_idle(panel)
    screenshot("banner")
    banner.get_by_role("button", name="Edit").click()
    dialog = panel.get_by_role("dialog")
    story = dialog.get_by_label("Summary", exact=True)
    expect(story).to_have_value(STORY[9:-10])
    expect(dialog).to_contain_text("Facts kept by code")
    screenshot("edit")
    story.fill(LONG * 1_000)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("status")).to_contain_text("the model's window allows")
    expect(story).to_have_value(LONG * 1_000)
    story.fill("Ann waits.\n\nHer printer is **offline**.")
    dialog.get_by_role("button", name="Save").click()
    expect(banner).to_contain_text("Compaction occurred, edited")
    expect(panel.locator(".nbc-input")).to_be_focused()
    is_idle(panel)
    banner.get_by_role("button", name="Regenerate").click()
    dialog.get_by_label("What the summary should focus on").fill("waiting")
    dialog.get_by_label("What the summary should focus on").press("Enter")
    expect(banner).to_contain_text("regenerated")
    expect(banner).to_contain_text("Written again: Ann waits.")
    is_idle(panel)
    banner.get_by_role("button", name="Undo").click()
    expect(banner).to_contain_text("Compaction undone")
    expect(banner.get_by_role("button", name="Edit")).to_have_count(0)
    is_idle(panel)
    screenshot("undone")
    banner.get_by_role("button", name="Redo").click()
    expect(banner).to_contain_text("Compaction occurred")
    expect(banner.get_by_role("button", name="Undo")).to_be_visible()


def test_pins_are_kept_word_for_word_until_removed(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    panel = panel_of(ways_notebook(open_panel_page, "says('Yes.'), says('No.')"))
    ask(panel, "Never promise  a date.")
    line(panel, "Never promise").get_by_role("button", name="Pin").click()
    expect(panel.locator(".nbc-log")).to_contain_text("1 rule pinned")
    is_idle(panel)
    panel.get_by_role("button", name="More").click()
    first = panel.get_by_role("menuitem").first
    expect(first).to_be_focused()
    assert panel.get_by_role("menu").get_by_role("group").evaluate_all(
        "groups => groups.map(each => each.getAttribute('aria-label'))"
    ) == ["Conversation", "What the model gets", "This panel"]
    screenshot("menu")
    for key in ("ArrowDown", "ArrowUp", "ArrowUp", "End", "Home"):
        page.keyboard.press(key)
    expect(first).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel.get_by_role("button", name="More")).to_be_focused()
    page.keyboard.press("ArrowDown")
    items = panel.locator(".nbc-menu button:enabled:visible").all_inner_texts()
    for _ in range(items.index("Pins (1)")):
        page.keyboard.press("ArrowDown")
    expect(panel.get_by_role("menuitem", name="Pins (1)")).to_be_focused()
    page.keyboard.press("Enter")
    dialog = panel.get_by_role("dialog")
    expect(dialog.locator(".nbc-pin-text")).to_have_text("Never promise  a date.")
    rule = dialog.get_by_label("New rule")
    rule.fill(LONG * 500)
    rule.press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("A pin can have 2,000")
    expect(rule).to_have_value(LONG * 500)
    rule.fill("Answer in French.")
    rule.press("Enter")
    expect(dialog.locator(".nbc-pin")).to_have_count(2)
    expect(rule).to_have_value("")
    screenshot("pins")
    dialog.get_by_label("New rule").fill("Answer in French.")
    dialog.get_by_label("New rule").press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("already pinned as number 2")
    dialog.get_by_role("button", name="Remove").first.click()
    expect(dialog.locator(".nbc-pin-text")).to_have_text(["Answer in French."])
    page.keyboard.press("Escape")
    expect(panel.get_by_role("button", name="More")).to_be_focused()
    panel.locator(".nbc-input").fill(f"/checkpoint {HOSTILE}")
    panel.locator(".nbc-input").press("Enter")
    expect(panel.locator(".nbc-log")).to_contain_text("2 rules")
    is_idle(panel)
    choose(panel, "Pins (2)")
    expect(dialog.locator(".nbc-pin .nbc-chip")).to_have_text("checkpoint")
    expect(dialog).to_contain_text(HOSTILE)
    assert page.evaluate("() => window.nbchatRan") is None


def test_sessions_are_found_gone_back_to_renamed_and_deleted(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    script = "says('Toner is low.'), says('Two.'), says('Three.')"
    panel = panel_of(ways_notebook(open_panel_page, script))
    ask(panel, f"What about the printer? {HOSTILE}")
    for question in ("What about the roof?", "What about the lift?"):
        panel.get_by_role("button", name="More").click()
        panel.get_by_role("menuitem", name="New session").click()
        expect(panel.locator(".nbc-user")).to_have_count(0)
        is_idle(panel)
        ask(panel, question)
    panel.get_by_role("button", name="More").click()
    panel.get_by_role("menuitem", name="Sessions").click()
    dialog = panel.get_by_role("dialog")
    rows = dialog.locator(".nbc-session")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("current")
    expect(rows.first.get_by_role("button", name="Delete")).to_have_count(0)
    screenshot("sessions")
    roof = rows.filter(has_text="roof")
    roof.get_by_role("button", name="Rename").click()
    expect(dialog.get_by_label("Title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(roof.get_by_role("button", name="Rename")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("The roof & its <b>tiles</b>")
    screenshot("rename")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("Renamed to The roof")
    expect(roof.locator(".nbc-session-title")).to_have_text(
        "The roof & its <b>tiles</b>"
    )
    with page.expect_download() as saved:
        roof.get_by_role("button", name="Export").click()
    assert saved.value.suggested_filename == "The-roof-its-b-tiles-b.md"
    assert "What about the roof?" in saved.value.path().read_text("utf-8")
    copy = roof.locator("[data-step=copy]")
    copy.click()
    expect(copy).to_have_attribute("aria-label", "Copied")
    roof.get_by_role("button", name="Delete").click()
    expect(roof.get_by_role("button", name="Cancel")).to_be_focused()
    screenshot("confirm")
    roof.get_by_role("button", name="Delete permanently").click()
    expect(rows).to_have_count(2)
    expect(dialog.get_by_role("status")).to_contain_text("Deleted session")
    expect(dialog.get_by_label("Search all sessions")).to_be_focused()
    page.keyboard.type("TONER low")
    expect(rows).to_have_count(1)
    rows.get_by_role("button", name="Resume").click()
    expect(panel.locator(".nbc-log")).to_contain_text("Toner is low.")
    expect(dialog).to_be_hidden()
    assert page.evaluate("() => window.nbchatRan") is None


def test_a_model_is_chosen_from_the_list_or_by_its_name(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    panel = panel_of(ways_notebook(open_panel_page, "says('Yes.')"))
    panel.locator(".nbc-model").click()
    dialog = panel.get_by_role("dialog", name="Models")
    used = dialog.get_by_label("In use", exact=True)
    expect(used).to_contain_text("scripted:model")
    screenshot("models")
    name = dialog.get_by_label("Model", exact=True)
    name.fill("nobody:x")
    name.press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("No provider named nobody")
    name.fill("local:smollm2")
    name.press("Enter")
    expect(dialog).to_be_hidden()
    expect(panel.locator(".nbc-model")).to_have_text("local:smollm2")
    is_idle(panel)


def test_the_notebooks_own_panel_has_its_sessions_and_its_model(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(
        "import os\n"
        "os.environ['NBCHAT_MODEL'] = 'openai:no-model'\n"
        "os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'\n"
        "os.environ['NBCHAT_ATTEMPTS'] = '1'\n"
        "%load_ext nbchat\n%chat"
    )
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("openai:no-model")
    panel.locator(".nbc-model").click()
    dialog = panel.get_by_role("dialog")
    used = dialog.get_by_label("In use", exact=True)
    expect(used).to_contain_text("http://127.0.0.1:9/v1")
    expect(used).to_contain_text("environment variable NBCHAT_MODEL")
    screenshot("no-list")
    page.keyboard.press("Escape")
    expect(panel.locator(".nbc-model")).to_be_focused()
    panel.locator(".nbc-input").fill("/branch 0 nothing")
    panel.locator(".nbc-input").press("Enter")
    expect(panel.locator(".nbc-error")).to_contain_text("There are no messages yet.")
    is_idle(panel)
    panel.locator(".nbc-input").fill("What about the printer?")
    panel.locator(".nbc-input").press("Enter")
    message = line(panel, "What about the printer?")
    expect(message.get_by_role("button", name="Edit")).to_be_enabled(timeout=60_000)
    panel.get_by_role("button", name="More").click()
    panel.get_by_role("menuitem", name="Sessions").click()
    expect(dialog.locator(".nbc-session")).to_contain_text(["What about the printer?"])
    expect(dialog.locator(".nbc-session .nbc-chip")).to_have_text("current")
