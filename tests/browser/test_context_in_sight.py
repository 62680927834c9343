"""What the context contains, and what it has cost, in a real JupyterLab."""

from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panel_page import OpenPanelPage, PanelPage
from panels import DEAF_TO_STOP, ask
from playwright.sync_api import Locator, Page, expect
from readable import CONTRAST, dark, pale

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

SETUP = """
from dataclasses import replace
from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.events import ThinkingDelta
from nbchat.conversation.entries import Entry
from nbchat.providers.model_info import Prices
from nbchat.testing import ScriptedProvider, calls, says
from nbchat.jupyter.panel.chat_ui import ChatUI

PRICES = Prices(input=2.0, cache_read=0.2, cache_write=2.5, output=10.0)
STORY = "<summary>Ann works at DESK-7; her printer is offline. " + "x " * 400 + "</summary>"
THOUGHT = "First the printer. " * 30

def look_up(ticket: int) -> str:
    "Read a ticket and everything that people have written about it."
    return f"Ticket {ticket}: the printer of Ann is offline."

class Thinking(ScriptedProvider):
    "Thinks aloud before each answer."

    def stream(self, request, *, stop=None):
        for word in THOUGHT.split(" ")[:-1]:
            yield ThinkingDelta(f"{word} ")
        reply = yield from super().stream(request, stop=stop)
        thought = Entry("thinking", THOUGHT, "", "scripted", "{}")
        return replace(reply, entries=(thought, *reply.entries))

def agent(*lines, kind=ScriptedProvider, **options):
    return Agent(kind(*lines, window=20_000, prices=PRICES), tools=[look_up], **options)
"""


def open_panel(
    open_panel_page: OpenPanelPage, made: str, *cells: str
) -> tuple[PanelPage, Locator]:
    """A panel on an agent, once it is ready."""
    notebook = open_panel_page(f"{SETUP}\nui = ChatUI({made})\nui", *cells)
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    return notebook, panel


def command(panel: Locator, text: str, answer: str) -> None:
    """Type a command and wait for what it answers."""
    panel.locator(".nbc-input").fill(text)
    panel.locator(".nbc-input").press("Enter")
    expect(panel.locator(".nbc-log")).to_contain_text(answer)
    expect(panel.get_by_role("button", name="Stop")).to_be_hidden()


def test_the_meter_opens_what_the_context_holds_and_what_it_has_cost(
    open_panel_page: OpenPanelPage, page: Page, screenshot: Screenshot
) -> None:
    made = (
        "agent(says('Offline. ' * 900, tokens=6_100), says(STORY, tokens=6_200), "
        "calls('look_up', ticket=42, tokens=2_300), says('Nobody has. ' * 300), "
        "system='You help people with their printers. ' * 30, "
        "engine=CompactionEngine(13_000))"
    )
    _, panel = open_panel(open_panel_page, made)
    ask(panel, "My printer is offline. " * 60 + "I am Ann at DESK-7.")
    command(panel, "/compact", "Compaction occurred")
    command(panel, "/pin Never promise a date to anybody.", "1 rule")
    ask(panel, "Has anybody looked at it?")
    line = panel.locator(".nbc-spent")
    expect(line.last).to_contain_text("· 2 requests ·")
    assert line.last.evaluate(CONTRAST) >= 4.5
    screenshot("line")

    meter = panel.locator(".nbc-open-context")
    panel.locator(".nbc-ring").click()
    page.keyboard.press("Escape")
    expect(meter).to_be_focused()
    page.keyboard.press("Enter")
    dialog = panel.get_by_role("dialog", name="Context")
    rows = dialog.locator(".nbc-table").first.locator("tbody tr")
    expect(rows).to_have_count(8)
    for name in ("System prompt", "Tools", "Pinned rules", "Summary", "Messages"):
        row = rows.filter(has_text=name)
        expect(row).to_have_count(1)
        assert row.locator("th").evaluate(CONTRAST) >= 4.5
    with dark(page):
        assert pale(panel) == []
    expect(dialog).to_contain_text("The context window has 20,000 tokens")
    expect(dialog).to_contain_text("Compacts after 13k input tokens")
    costs = dialog.locator(".nbc-table").last
    expect(costs).to_contain_text("Compactions")
    expect(costs.locator("tr").last).to_contain_text("$0.0")
    screenshot("popover")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(meter).to_be_focused()


def test_where_nothing_is_known_the_window_is_assumed_and_no_price_is_made_up(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    made = "Agent(ScriptedProvider(says('Yes.', tokens=900), window=None))"
    _, panel = open_panel(open_panel_page, made)
    ask(panel, "Is it?")
    expect(panel.locator(".nbc-spent")).to_contain_text("900 in · 10 out")
    expect(panel.locator(".nbc-spent")).not_to_contain_text("$")
    panel.locator(".nbc-open-context").click()
    dialog = panel.get_by_role("dialog")
    expect(dialog).to_contain_text("Assuming")
    expect(dialog).to_contain_text("32,000 tokens")
    expect(dialog).to_contain_text("unknown")
    screenshot("unknown")


def test_thoughts_read_the_same_when_their_entry_has_come(
    open_panel_page: OpenPanelPage,
) -> None:
    _, panel = open_panel(open_panel_page, "agent(says('Yes.'), kind=Thinking)")
    ask(panel, "Is it?")
    thought = panel.locator(".nbc-log .nbc-thinking")
    expect(thought).to_have_count(1)
    assert thought.locator(".nbc-text").text_content() == "First the printer. " * 30
    expect(panel.locator(".nbc-live")).to_be_empty()


def test_thoughts_that_came_after_stop_are_in_the_entry(
    open_panel_page: OpenPanelPage, page: Page
) -> None:
    slow = "agent(says('word ' * 2_000, delay_seconds=0.01), kind=Thinking)"
    lost = "ui.send({'type': 'events', 'seq': 10**9, 'events': []})"
    notebook, panel = open_panel(open_panel_page, slow, lost, "ui.stop()")
    panel.locator(".nbc-input").fill("Is it?")
    panel.locator(".nbc-input").press("Enter")
    expect(panel.locator(".nbc-live")).to_contain_text("word")
    page.evaluate(DEAF_TO_STOP)
    panel.get_by_role("button", name="Stop").click()
    notebook.run(1)
    expect(panel.locator(".nbc-live")).to_be_empty()  # all was sent once more
    notebook.run(2)
    thought = panel.locator(".nbc-log .nbc-thinking .nbc-text")
    expect(thought).to_have_count(1)
    assert thought.text_content() == "First the printer. " * 30


def test_a_turn_of_a_cell_leaves_a_reader_where_she_reads(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
) -> None:
    lines = ", ".join("says('A long answer. ' * 60)" for _ in range(6))
    notebook, panel = open_panel(
        open_panel_page,
        f"agent({lines})",
        "ui.agent.ask('From a cell?'); ui.refresh()",
    )
    for number in range(5):
        ask(panel, f"Question {number}? " * 20)
    scroller = panel.locator(".nbc-scroller")
    scroller.evaluate("element => { element.scrollTop = 40 }")
    expect(panel.get_by_role("button", name="Latest")).to_be_visible()
    first = panel.locator(".nbc-log .nbc-user").first
    handle = first.element_handle()
    notebook.run(1)
    expect(panel.locator(".nbc-log .nbc-user")).to_have_count(6)
    assert scroller.evaluate("element => element.scrollTop") == 40
    assert handle.evaluate("element => element.isConnected")
    screenshot("reading")
