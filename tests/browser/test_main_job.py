"""The main job in a real JupyterLab, with the embedded model and no script at all."""

from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panel_page import OpenPanelPage
from playwright.sync_api import expect

MODEL_MILLISECONDS = 120_000
"""Reading and answering on one core, beside a browser, a server and whatever else."""

LETTER = (
    "My parcel W100 was sent on May 3. It has not arrived, and the tracking page says "
    "that it is in Lisbon. I live in Oslo. Please find out what happened, and tell me "
    "whether I get my money back if it stays lost. I paid 59.90 with my card. "
)


def test_the_embedded_model_answers_compacts_and_continues(
    open_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    notebook = open_notebook(
        "%load_ext nbchat",
        "%config NbChat.context_token_threshold = 200\n"
        "%config NbChat.max_output_tokens = 100\n"  # a small model talks to its limit
        "%config NbChat.notebook_context = 'off'",  # or it retells the notebook
        "%chat",
        "session = %chat session\n[e.role for e in session.history]",
    )
    notebook.run(0)
    notebook.run(1)
    panel = notebook.run(2).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("local:smollm2")
    box = panel.get_by_role("textbox", name="Message")
    box.fill(LETTER * 3)
    box.press("Enter")
    banner = panel.locator(".nbc-log .nbc-banner[data-state=done]")
    expect(banner).to_contain_text("Compaction occurred", timeout=MODEL_MILLISECONDS)
    expect(panel.get_by_role("button", name="Stop")).to_be_hidden(
        timeout=MODEL_MILLISECONDS
    )
    expect(panel.locator(".nbc-log .nbc-assistant")).not_to_be_empty()
    banner.locator("summary").click()
    screenshot("banner")
    expect(notebook.run(3)).to_have_text("['summary']")
    box.fill("Thank you. What comes next?")
    box.press("Enter")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_have_count(
        2, timeout=MODEL_MILLISECONDS
    )
    screenshot("goes-on")


def test_a_missing_key_is_reported_in_the_panel_and_nothing_typed_is_lost(
    open_panel_page: OpenPanelPage, screenshot: Callable[[str], Path]
) -> None:
    notebook = open_panel_page(
        "%load_ext nbchat", "%config NbChat.model = 'openai:gpt-5-mini'", "%chat"
    )
    for cell in (0, 1):
        notebook.run(cell)
    panel = notebook.run(2).locator(".nbc")
    box = panel.get_by_role("textbox", name="Message")
    box.fill("Is anybody there?")
    box.press("Enter")
    failed = panel.locator(".nbc-log .nbc-error")
    asked = panel.locator(".nbc-log .nbc-user")
    expect(failed).to_contain_text("Set OPENAI_API_KEY")
    expect(asked).to_have_text("Is anybody there?")
    screenshot("no-key")
    expect(failed.get_by_role("button", name="Try again")).to_be_enabled()
    panel.get_by_role("group", name="Your message").hover()
    panel.get_by_role("button", name="Edit", exact=True).click()
    expect(box).to_have_value("Is anybody there?")
