"""The first minutes of a newcomer: no key, the trial model, and what to ask."""

from panel_page import OpenPanelPage
from panels import is_idle
from playwright.sync_api import expect

NO_KEY = """
import os
os.environ['NBCHAT_MODEL'] = 'anthropic:claude-haiku-4-5'
%load_ext nbchat
%chat
"""

MODEL_ARRIVES = """
from nbchat.testing import ScriptedProvider, fails, says
from nbchat.errors import RequestRefused
agent = %chat agent
agent.use(ScriptedProvider(fails(RequestRefused('overloaded, sorry')), says('Hello.')))
panel = %chat
panel.refresh()
"""

ERROR = "1 / 0"


def test_without_a_key_the_panel_says_how_to_get_a_model_and_nothing_is_dead(
    open_panel_page: OpenPanelPage, screenshot
):
    notebook = open_panel_page(NO_KEY, MODEL_ARRIVES)
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-start-problem")).to_contain_text("no key for anthropic")
    trial = panel.get_by_role("button", name="Use the trial model")
    expect(trial).to_contain_text("poor answers")
    screenshot("first-minutes-no-key")
    panel.get_by_role("button", name="Choose a model", exact=True).click()
    expect(panel.locator(".nbc-model-list button").first).to_be_enabled()
    panel.page.keyboard.press("Escape")
    key = panel.get_by_label("Key", exact=True)
    expect(key).to_have_attribute("type", "password")
    key.fill("two words")
    panel.get_by_role("button", name="Use key").click()
    expect(panel).to_contain_text("this is not a key")
    expect(key).to_have_value("")
    notebook.run(1)
    expect(panel.locator(".nbc-start-problem")).to_have_count(0)


def test_a_failed_turn_is_tried_again_by_a_click(open_panel_page: OpenPanelPage):
    notebook = open_panel_page(NO_KEY, MODEL_ARRIVES)
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-start-problem")).to_be_visible()
    notebook.run(1)
    panel.locator(".nbc-input").fill("Are you there?")
    panel.locator(".nbc-input").press("Enter")
    failed = panel.locator(".nbc-error")
    expect(failed).to_contain_text("overloaded, sorry")
    failed.get_by_role("button", name="Try again").click()
    expect(panel.locator(".nbc-assistant")).to_have_text("Hello.")
    expect(failed).to_have_count(0)
    expect(panel.locator(".nbc-user")).to_have_count(1)
    is_idle(panel)
