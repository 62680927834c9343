"""A panel in a notebook, and what its visitors do: type, ask, wait."""

from contextlib import suppress

from labkit import Notebook
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

KEY_ATTEMPTS = 5

OWN = """
import os
os.environ['NBCHAT_MODEL'] = 'openai:no-model'
os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'
%load_ext nbchat
from nbchat.testing import ScriptedProvider, says
agent = %chat agent
agent.use(ScriptedProvider(*[says('I see. ' * 30)] * 9))
table = [[1, 2], [3, 4]]
%chat
"""
"""The notebook's own panel, on a model that says the same again and again."""

SETUP = """
import threading
from nbchat.agent.agent import Agent
from nbchat.conversation.events import (
    Compacted,
    CompactionFailed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    EntryAdded,
    PinsChanged,
    RetryScheduled,
    SavingFailed,
    TurnFailed,
)
from nbchat.conversation.entries import INCOMPLETE, Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.testing import ScriptedProvider, calls, fails, says
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.chat.chat_events import CommandReplied, QueueChanged

go = threading.Event()

def look_up(ticket: int) -> str:
    "Read a ticket."
    if ticket == 7:
        raise ValueError("there is no ticket 7")
    return f"Ticket {ticket}: the printer is offline."

def wait() -> str:
    "Wait until the notebook says go."
    go.wait(30)
    return "gone"
"""
"""What the cells of a scripted panel need."""

BUSY = """
import time
from pathlib import Path
latest = time.monotonic() + 60
while time.monotonic() < latest and not Path('cell-may-end').exists():
    time.sleep(0.02)
Path('cell-may-end').unlink()
"""
"""A cell that runs until `let_cell_end`."""

DEAF_TO_STOP = "() => { window.unheard = 'stop' }"
"""In a panel's blank page, no stop reaches the chat any more."""


def scripted(script: str, options: str = "") -> str:
    """A cell that shows a panel on a scripted model."""
    return (
        f"{SETUP}\nui = ChatUI(Agent(ScriptedProvider({script}), {options}), "
        "height='700px')\nui"
    )


def panel_of(notebook: Notebook, index: int = 0) -> Locator:
    """The panel a cell shows, once its agent is ready."""
    panel = notebook.run(index).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    return panel


def say(panel: Locator, text: str) -> None:
    """Type a message and press Enter."""
    panel.locator(".nbc-input").fill(text)
    panel.locator(".nbc-input").press("Enter")


def ask(panel: Locator, text: str) -> None:
    """Say something and wait until it is answered."""
    asked = panel.locator(".nbc-log .nbc-user")
    before = asked.count()
    say(panel, text)
    expect(asked).to_have_count(before + 1)
    is_idle(panel)


def is_idle(panel: Locator) -> None:
    """Wait until nothing is under way, nor on its way from a panel's blank page."""
    panel.page.wait_for_function("() => !window.isHeard || isHeard()")
    expect(panel.get_by_role("button", name="Stop")).to_be_hidden()


def choose(panel: Locator, item: str) -> None:
    """Open the menu of the header and press an item."""
    panel.get_by_role("button", name="More", exact=True).click()
    panel.get_by_role("menuitem", name=item, exact=True).click()


def let_cell_end(notebook: Notebook) -> None:
    """End a cell that is BUSY."""
    (notebook.lab.root / "cell-may-end").touch()
    notebook.join()


def run_first(visitor: Page) -> None:
    """Run the first cell in Notebook 7, which may lose a key while it is loading.

    Where its kernel does not start it is loaded once more.
    """
    status = visitor.locator(".jp-Notebook-ExecutionIndicator")
    try:
        expect(status).to_have_attribute("data-status", "idle")
    except AssertionError:
        visitor.reload()
        expect(status).to_have_attribute("data-status", "idle")
    prompt = visitor.locator(".jp-Notebook .jp-Cell .jp-InputPrompt").first
    for _ in range(KEY_ATTEMPTS):
        try:
            prompt.click()
        except PlaywrightTimeout as error:
            covering = visitor.locator(".jp-Dialog").all_inner_texts()
            raise AssertionError(f"a dialog covers the cell: {covering}") from error
        visitor.keyboard.press("Control+Enter")
        with suppress(AssertionError):
            expect(prompt).not_to_have_text("[ ]:", timeout=3_000)
            return
    raise AssertionError("the first cell did not run")
