"""The panel's controls for compaction in a real JupyterLab, by mouse and by keyboard."""

import re
from collections.abc import Callable
from pathlib import Path

from panel_page import OpenPanelPage, PanelPage
from panels import ask, choose, is_idle, panel_of, say
from playwright.sync_api import Locator, Page, expect
from readable import CONTRAST, dark, faults, faults_in_light_and_dark

Screenshot = Callable[[str], Path]

SETUP = """
import threading
from dataclasses import dataclass, replace
from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import CommandReplied
from nbchat.chat.commands import Commands
from nbchat.storage.store import SessionStore
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.errors import AuthenticationFailed
from nbchat.conversation.events import TurnFailed
from nbchat.testing import ScriptedProvider, calls, fails, says
from nbchat.jupyter.panel.chat_ui import ChatUI

def look_up(ticket: int) -> str:
    "Read a ticket."
    return f"Ticket {ticket}: the printer of Ann is offline."

@dataclass
class Setting:
    name: str
    value: str
    help: str
    kind: str
    origin: str = "default"
    choices: tuple = ()
    scope: str | None = None

known = {each.name: each for each in (
    Setting("policy", "single-summary", "How a conversation is compacted.",
            "choice", choices=tuple(PRESETS)),
    Setting("context_token_threshold", "2000", "Compact after so many input tokens.",
            "int", "NBCHAT_CONTEXT_TOKEN_THRESHOLD"),
    Setting("window_share", "0.8", "How full the window may become.", "float"),
    Setting("recall", "true", "Whether the model may look up what was compacted.", "bool"),
    Setting("summary_model", "", "Who writes summaries.", "text"),
)}

def commands(agent, line, stop):
    "What a person says to the chat itself; the real commands know more."
    name, *rest = line.split()
    if name == "/policy":
        agent.engine.tracker.use_policy(rest[0])
        return [CommandReplied(f"the policy is {rest[0]}")]
    old = known[rest[0]]
    if rest[1] == "default":
        known[rest[0]] = replace(old, value="", origin="default", scope=None)
    else:
        origin = " ".join(rest[2:]) or "set"
        known[rest[0]] = replace(old, value=rest[1], origin=origin, scope=rest[-1])
    return [CommandReplied(f"{rest[0]} is {rest[1]}")]

class Known(Commands):
    "Those commands, and these settings."

    __call__ = staticmethod(commands)

go = threading.Event()
own = Known(SessionStore("sqlite://"))
own.live_settings.listed = lambda _agent: list(known.values())
"""

STORY = (
    "<summary>**Ann** works at `DESK-7`. Her printer is offline since Monday, ticket 42 "
    "is open, and nobody has looked at the cable yet. She wants to know by Friday whether "
    "a new one is coming, because the quarterly report must be printed and signed, and "
    "the printer on the second floor is reserved.</summary>"
)

SEE_ALL = "The printer of Ann is offline. "


def panel_notebook(
    open_cells: OpenPanelPage, script: str, options: str = ""
) -> PanelPage:
    """Cells with two views of a panel on a scripted model."""
    return open_cells(
        f"{SETUP}\nui = ChatUI(Agent(ScriptedProvider({script}), {options}), "
        "commands=own)\nui",
        "ui",
        "go.set()",
    )


def open_panel(open_cells: OpenPanelPage, script: str, options: str = "") -> Locator:
    """A panel on a scripted model."""
    return panel_of(panel_notebook(open_cells, script, options))


def open_dialog(panel: Locator) -> Locator:
    """The dialog that asks before a compaction, with its figures."""
    choose(panel, "Compact")
    dialog = panel.get_by_role("dialog")
    expect(dialog).to_contain_text("All messages")
    return dialog


def all_that_was_said_is_searched(panel: Locator, screenshot: Screenshot) -> None:
    """What the model no longer sees, too."""
    ask(panel, "Thank you, <b>goodbye</b>.")
    choose(panel, "History")
    view = panel.get_by_role("dialog")
    expect(view).to_contain_text(
        "all messages, including those the model no longer sees"
    )
    expect(view.locator(".nbc-row[data-seen=summarized]")).to_have_count(4)
    expect(view.locator(".nbc-row[data-seen=whole]")).to_have_count(2)
    expect(view.locator(".nbc-banner")).to_have_count(1)
    expect(view.get_by_role("status")).to_have_text("6 messages")
    screenshot("all")
    panel.page.keyboard.type("ANN printer 42")
    expect(view.get_by_role("status")).to_have_text("3 matches")
    best = view.locator(".nbc-row").first
    expect(best).to_contain_text("the printer of Ann is offline")
    screenshot("found")
    panel.page.keyboard.press("Escape")
    expect(view).to_be_hidden()
    assert panel.page.evaluate("() => window.nbchatRan") is None


def test_a_person_sees_the_plan_cancels_confirms_and_searches_all_that_was_said(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    script = (
        f"calls('look_up', ticket=42), says('It is **offline**.'), says({STORY!r}), "
        "says('<img src=x onerror=window.nbchatRan=1> Goodbye.')"
    )
    panel = open_panel(open_panel_page, script, "tools=[look_up]")
    ask(panel, f"{SEE_ALL * 60} She works at DESK-7.")
    dialog = open_dialog(panel)
    expect(dialog).to_have_accessible_name("Compact the conversation")
    expect(dialog.get_by_label("What the summary should focus on")).to_be_focused()
    expect(dialog.locator(".nbc-figures")).to_contain_text("To be compacted4")
    screenshot("plan")
    page.keyboard.type("dd")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(panel.get_by_role("button", name="More", exact=True)).to_be_focused()
    open_dialog(panel).get_by_role("button", name="Cancel").click()
    expect(panel.locator(".nbc-banner")).to_have_count(0)

    dialog = open_dialog(panel)
    for key in ["Tab"] * 8 + ["Shift+Tab"] * 8:
        page.keyboard.press(key)
        expect(dialog.locator(":focus")).to_have_count(1)
    dialog.get_by_label("Tokens of the newest messages").fill("0")
    dialog.get_by_label("What the summary should focus on").fill("printers")
    dialog.get_by_label("What the summary should focus on").press("Enter")
    banner = panel.locator(".nbc-banner")
    expect(banner).to_contain_text("Compaction occurred")
    expect(banner).to_have_attribute("title", re.compile("4 messages compacted"))
    expect(panel.locator(".nbc-input")).to_be_focused()
    expect(banner.locator(".nbc-banner-figures")).to_contain_text("4 messages, ")
    expect(banner.locator(".nbc-banner-preview")).to_contain_text("Ann")
    screenshot("banner")
    overview = panel.locator(".nbc-overview")
    expect(overview.locator(".nbc-badge")).to_have_text("4 messages")
    expect(overview.locator(".nbc-overview-text")).to_be_hidden()
    overview.locator("summary").click()
    expect(overview.locator(".nbc-overview-text strong")).to_have_text("Ann")
    screenshot("overview")
    overview.locator("summary").click()
    expect(overview.locator(".nbc-overview-text")).to_be_empty()
    banner.locator("summary").click()
    expect(banner.locator(".nbc-banner-preview")).to_be_hidden()
    expect(banner.locator(".nbc-summary-text strong")).to_have_text("Ann")
    screenshot("summary")
    all_that_was_said_is_searched(panel, screenshot)


def test_the_memory_can_be_checked_against_all_that_was_said(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    story = (
        "<summary>**Goal** Ann pays 129.50 for order W107 of DESK-7, and she asks for "
        "a receipt.\n**Next** 17 days.</summary>"
    )
    script = f"says('Noted.'), says({story!r}), says('Yes.')"
    panel = open_panel(open_panel_page, script)
    ask(panel, f"{SEE_ALL * 60} Order W107 is 129.50 euros, for DESK-7.")
    open_dialog(panel).get_by_role("button", name="Compact", exact=True).click()
    expect(panel.locator(".nbc-banner[data-state=done]")).to_be_visible()
    is_idle(panel)
    ask(panel, "Is it?")
    panel.get_by_role("button", name="View").click()
    memory = panel.get_by_role("dialog", name="What the model remembers")
    seen = memory.get_by_role("region", name="What the model sees now")
    expect(seen).to_contain_text("instead of the first 2 messages")
    expect(seen.locator(".nbc-unfound")).to_have_text("17")
    said = memory.get_by_role("region", name="All messages")
    seen.get_by_role("button", name="W107").first.click()
    found = said.locator(".nbc-found")
    expect(found).to_contain_text("Order W107 is 129.50 euros")
    expect(found).to_contain_text("#0")
    expect(found).to_be_focused()
    assert faults_in_light_and_dark(memory) == []
    screenshot("memory")
    page.keyboard.press("Escape")
    expect(memory).to_be_hidden()


RECORDED = """
from nbchat.conversation.session import Session
def result(number, text):
    return ("tool", text, number, "get_order")
def asked(number, order):
    return ("assistant", "", number, "get_order", '{"order": "%s"}' % order)
session = Session([
    ("user", "Look at both orders. Never cancel one without asking me."),
    asked("1", "W1"),
    result("1", '{"order_id": "W1", "status": "open", "items": [{"item_id": "i7"}]}'),
    asked("2", "W2"),
    result("2", '{"order_id": "W2", "status": "late", "items": [{"item_id": "i8"}]}'),
    ("assistant", "W2 is late. " * 200),
])
"""
"""A conversation with two records and a rule."""


def test_each_line_of_the_memory_opens_the_message_that_it_copies(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    story = '<summary>W2 is late.\n- "Never cancel one without asking me."</summary>'
    notebook = open_panel_page(
        f"{SETUP}{RECORDED}\nagent = Agent(ScriptedProvider(says({story!r})), "
        "session=session)\nui = ChatUI(agent, commands=own)\nui",
        "ui",
    )
    panel = panel_of(notebook)
    open_dialog(panel).get_by_role("button", name="Compact", exact=True).click()
    expect(panel.locator(".nbc-banner[data-state=done]")).to_be_visible()
    is_idle(panel)
    panel.get_by_role("button", name="View").click()
    memory = panel.get_by_role("dialog", name="What the model remembers")
    seen = memory.get_by_role("region", name="What the model sees now")
    kept = seen.locator(".nbc-kept-facts > p")
    expect(kept.first).to_be_visible()
    titles = kept.all_inner_texts()
    assert titles[:2] == ["Rules in force", "What you said"]
    assert titles[-1] == "Newest answers and outputs"
    table = seen.get_by_role("table")
    expect(table.get_by_role("columnheader").first).to_have_text("order_id")
    expect(table.get_by_role("row")).to_have_count(3)
    found = memory.get_by_role("region", name="All messages").locator(".nbc-found")
    table.get_by_role("button", name="W2").click()
    expect(found).to_contain_text('"status": "late"')
    seen.get_by_role("button", name="Never cancel one").first.click()
    expect(found).to_contain_text("Look at both orders.")
    assert faults(memory) == []
    screenshot("memory-lines")


def test_a_small_conversation_is_warned_about_and_a_failure_can_be_retried(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = (
        "says('Hello, Ann.'), fails(AuthenticationFailed('the key is wrong')), "
        "fails(AuthenticationFailed('the key is still wrong')), "
        "lambda asked: go.wait(30) and says('Still here.')"
    )
    notebook = panel_notebook(open_panel_page, script)
    panel = panel_of(notebook)
    dialog = open_dialog(panel)
    expect(dialog).to_contain_text("nothing new to compact")
    expect(dialog.get_by_role("button", name="Compact", exact=True)).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    ask(panel, "Hello.")
    dialog = open_dialog(panel)
    expect(dialog).to_contain_text("tokens would be compacted")
    screenshot("warning")
    dialog.get_by_role("button", name="Compact", exact=True).click()
    failed = panel.locator(".nbc-banner[data-state=failed]")
    expect(failed).to_contain_text("The key is wrong")
    panel.get_by_role("button", name="Try again").click()
    expect(failed.last).to_contain_text("The key is still wrong")
    expect(panel.get_by_role("button", name="Try again")).to_have_count(1)
    screenshot("failed")
    say(panel, "Are you there?")
    expect(panel.get_by_role("button", name="Try again")).to_be_disabled()
    notebook.run(2)
    is_idle(panel)
    expect(panel.get_by_role("button", name="Try again")).to_be_enabled()
    expect(panel.locator(".nbc-log .nbc-assistant").last).to_have_text("Still here.")


def test_a_policy_and_a_setting_are_chosen_in_the_panel(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    panel = open_panel(open_panel_page, "says('Hello.')")
    choose(panel, "Compaction policy: single-summary")
    policies = panel.get_by_role("dialog", name="Compaction policy")
    chosen = policies.get_by_role("button", name="single-summary")
    expect(chosen).to_have_attribute("aria-current", "true")
    screenshot("policies")
    policies.get_by_role("button", name="extractive").click()
    expect(panel.locator(".nbc-note")).to_have_text("the policy is extractive")
    panel.get_by_role("button", name="More", exact=True).click()
    expect(
        panel.get_by_role("menuitem", name="Compaction policy: extractive")
    ).to_be_visible()
    page.keyboard.press("Escape")
    choose(panel, "Settings")
    dialog = panel.get_by_role("dialog")
    expect(dialog.get_by_label("Search settings")).to_be_focused()
    dialog.get_by_text("Advanced").click()
    share = dialog.get_by_label("Window share", exact=True)
    expect(share).to_have_value("0.8")
    expect(dialog.get_by_label("Recall", exact=True)).to_be_checked()
    screenshot("settings")
    save = dialog.get_by_role("button", name="Save")
    expect(save).to_be_disabled()
    share.fill("0.5")
    dialog.get_by_label("Save for").select_option("scripted:model")
    share.press("Enter")
    status = dialog.locator(".nbc-dialog-status")
    expect(status).to_have_text("Window share is 0.5")
    expect(dialog).to_contain_text("for scripted:model")
    expect(save).to_be_disabled()
    writer = dialog.get_by_label("Model that writes summaries", exact=True)
    taken_back = dialog.get_by_role("button", name="Reset Model that writes")
    expect(taken_back).to_be_hidden()
    writer.fill("small")
    dialog.get_by_label("Recall", exact=True).uncheck()
    dialog.get_by_role("button", name="Save 2 changes").click()
    expect(status).to_have_text("2 settings saved")
    row = writer.locator("xpath=ancestor::*[@class='nbc-setting']")
    expect(row).to_contain_text("for scripted:model")
    taken_back.click()
    expect(status).to_have_text("Model that writes summaries is default")
    expect(writer).to_have_value("")
    expect(taken_back).to_be_hidden()
    assert dialog.evaluate("element => element.contains(document.activeElement)")
    expect(share).to_have_value("0.5")
    screenshot("saved")
    share.press("Escape")
    expect(dialog).to_be_hidden()


def test_a_long_history_comes_in_pages_to_the_view_that_asked(
    open_panel_page: OpenPanelPage,
) -> None:
    said = "[('user', f'question {n}') for n in range(250)]"
    options = f"session=__import__('nbchat').Session({said})"
    notebook = panel_notebook(open_panel_page, "says('Hello.')", options)
    first, second = panel_of(notebook, 0), panel_of(notebook, 1)
    for panel in (first, second):
        choose(panel, "History")
    rows = first.get_by_role("dialog").locator(".nbc-row")
    expect(rows).to_have_count(100)
    expect(rows.last).to_contain_text("question 249")
    for count in (200, 250):
        first.get_by_role("button", name="Earlier").click()
        expect(rows).to_have_count(count)
    expect(rows.first).to_contain_text("question 0")
    expect(first.get_by_role("button", name="Earlier")).to_be_hidden()
    expect(first.get_by_role("dialog")).to_be_focused()
    expect(second.locator(".nbc-row")).to_have_count(100)


def test_a_meter_that_fills_turns_orange_and_red_and_a_compaction_lowers_it(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    script = (
        f"says('One.', tokens=1_600), says('Two.', tokens=300), "
        f"says('Three. ' * 400, tokens=300), says({STORY!r})"
    )
    panel = open_panel(open_panel_page, script, "engine=CompactionEngine(2_000)")
    meter = panel.locator(".nbc-meter")
    for spent, share, level in (("1,600", "80%", "medium"), ("1,900", "95%", "high")):
        ask(panel, "Hello.")
        expect(meter).to_have_attribute("data-level", level)
        expect(meter).to_have_text(share)
        told = re.compile(f"{spent} of 2,000 input tokens.*uses .* of 100,000 tokens")
        expect(meter).to_have_attribute("title", told)
        meter.scroll_into_view_if_needed()
        screenshot(level)
        assert meter.evaluate(CONTRAST) >= 4.5
        with dark(meter.page):
            assert meter.evaluate(CONTRAST) >= 4.5
    open_dialog(panel)
    screenshot("plan")
    panel.get_by_role("button", name="Cancel").click()
    choose(panel, "History")
    expect(panel.locator(".nbc-row")).to_have_count(4)
    screenshot("history")
    meter.page.keyboard.press("Escape")
    ask(panel, SEE_ALL * 60)
    expect(panel.locator(".nbc-banner")).to_contain_text("Compaction occurred")
    told = re.compile("0 of 2,000 input tokens since the last compaction")
    expect(meter).to_have_attribute("title", told)
    screenshot("lowered")


def test_the_notebooks_own_panel_keeps_what_is_set_in_it(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(
        "import os\n"
        "os.environ['NBCHAT_MODEL'] = 'openai:no-model'\n"
        "os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'\n"
        "%load_ext nbchat\n%chat",
        "agent = %chat agent\nengine = agent.engine\n"
        "engine.policy.name, agent.max_output_tokens, engine.summary_prompt",
        "%reload_ext nbchat\n%chat /settings",
    )
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("openai:no-model")
    panel.get_by_role("button", name="More", exact=True).click()
    panel.get_by_role("menuitem", name="Compaction policy").click()
    panel.get_by_role("dialog").get_by_role("button", name="tiered").click()
    expect(panel.get_by_role("log")).to_contain_text("tiered: Compacts at about")
    choose(panel, "Settings")
    dialog = panel.get_by_role("dialog")
    rows = dialog.locator(".nbc-setting")
    length = rows.filter(has=page.get_by_label("Longest answer"))
    expect(length).to_contain_text("Now: the limit of the model")
    length.locator("input").fill("500")
    dialog.get_by_label("Save for", exact=True).select_option("openai:no-model")
    dialog.get_by_role("button", name="Save").click()
    expect(length).to_contain_text("Now: 500 (set for openai:no-model)")
    dialog.get_by_label("Search settings").fill("summary instructions")
    expect(length).to_be_hidden()
    prompt = dialog.get_by_label("Instructions for summaries", exact=True)
    prompt.fill("Be brief.\nName ids.")
    prompt.press("Enter")
    status = dialog.locator(".nbc-dialog-status")
    expect(status).to_contain_text("Set Instructions for summaries to")
    dialog.get_by_label("Search settings").fill("")
    length.locator("input").fill("0")
    dialog.get_by_role("button", name="Save").click()
    expect(length).to_contain_text("Longest answer can't be '0'.")
    expect(length.locator("input")).to_have_value("0")
    screenshot("own-settings")
    page.keyboard.press("Escape")
    expect(panel.locator(".nbc-input")).to_have_value("")
    expect(notebook.run(1)).to_contain_text(r"('tiered', 500, 'Be brief.\nName ids.')")
    expect(notebook.run(2)).to_contain_text("set for openai:no-model")
