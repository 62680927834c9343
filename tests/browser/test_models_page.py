"""The page of models: from a fresh panel to an answer, and what servers say there."""

import re
from collections.abc import Iterator

import pytest
from fault_server import FaultServer, answer, page
from own_server import MessagesServer, OwnServer
from panel_page import OpenPanelPage
from panels import is_idle, say
from playwright.sync_api import Locator, expect

KEY = "sk-right-0123456789"

FRESH = "%load_ext nbchat\n%chat"

WRONG_KEY = """
import os
os.environ['NBCHAT_MODEL'] = 'openai:my-model'
os.environ['NBCHAT_BASE_URL'] = {address!r}
os.environ['NBCHAT_API_KEY_HOSTS'] = '127.0.0.1'
os.environ['OPENAI_API_KEY'] = 'sk-wrong-0123456789'
%load_ext nbchat
%chat
"""

CORRECTED = f"os.environ['OPENAI_API_KEY'] = {KEY!r}"

COUNT_CLICKS = """
window.clicks = 0;
document.addEventListener("click", ({ detail }) => (window.clicks += Math.min(detail, 1)), true);
"""
"""A click that Enter makes has no detail."""


@pytest.fixture
def server() -> Iterator[OwnServer]:
    served = OwnServer("my-own:8b", "gpt-oss:20b", says="Hello from qwen.")
    yield served
    served.close()


def open_models(panel: Locator) -> Locator:
    panel.get_by_role("button", name="Choose a model", exact=True).click()
    return panel.get_by_role("dialog", name="Models")


def connect(models: Locator, address: str) -> None:
    models.get_by_label("Address", exact=True).fill(address)
    models.get_by_role("button", name="Connect").click()


def test_an_own_server_answers_after_four_clicks_with_nothing_but_its_address(
    server: OwnServer, open_panel_page: OpenPanelPage, screenshot
):
    notebook = open_panel_page(FRESH)
    panel = notebook.run(0).locator(".nbc")
    notebook.page.evaluate(COUNT_CLICKS)
    models = open_models(panel)
    address = models.get_by_label("Address", exact=True)
    expect(address).to_be_focused()
    expect(models.get_by_label("In use", exact=True)).to_contain_text("local:smollm2")
    screenshot("models-page")
    connect(models, server.address.removeprefix("http://").removesuffix("/v1"))
    expect(models).to_contain_text("has 2 models")
    screenshot("models-own-server")
    models.get_by_role("button", name="openai:my-own:8b", exact=True).click()
    expect(models).to_be_hidden()
    expect(panel.locator(".nbc-model").first).to_contain_text("my-own:8b")
    say(panel, "Hello?")
    expect(panel.locator(".nbc-assistant")).to_contain_text("Hello from qwen.")
    assert notebook.page.evaluate("window.clicks") <= 4
    is_idle(panel)

    panel.get_by_role("button", name="Context: ").click()
    context = panel.get_by_role("dialog", name="Context")
    expect(context).to_contain_text("Assuming a context window of 32k")
    screenshot("models-assumed")
    context.get_by_role("button", name="Change").click()
    expect(models.get_by_label("Context window in tokens")).to_be_focused()
    models.get_by_role("button", name="Close").click()

    panel.locator(".nbc-model").first.click()
    used = models.get_by_label("In use", exact=True)
    expect(used).to_contain_text("32k context window (assumed)")
    expect(used).to_contain_text("chosen for this chat")
    used.get_by_role("button", name="Test").click()
    status = models.get_by_role("status")
    expect(status.first).to_contain_text(re.compile(r"first words after \d+\.\d s"))
    screenshot("models-tested")
    used.get_by_role("button", name="Change").click()
    used.get_by_label("Context window in tokens").fill("16000")
    used.get_by_role("button", name="Set").click()
    expect(models).to_be_hidden()
    expect(panel).to_contain_text("Set window to 16000 for openai:my-own:8b")

    panel.locator(".nbc-model").first.click()
    connect(models, server.address)
    models.get_by_label("Use for", exact=True).select_option("always")
    models.get_by_role("button", name="openai:gpt-oss:20b", exact=True).click()
    expect(used).to_contain_text("New chats start with openai:gpt-oss:20b.")
    used.get_by_role("button", name="Forget").click()
    forgotten = "New chats no longer start with openai:gpt-oss:20b."
    expect(models.locator(".nbc-dialog-status")).to_have_text(forgotten)
    expect(used.get_by_role("button", name="Forget")).to_be_hidden()


def test_what_is_wrong_with_a_server_or_a_name_is_one_line_and_nothing_is_lost(
    server: OwnServer, open_panel_page: OpenPanelPage, screenshot
):
    notebook = open_panel_page(FRESH)
    panel = notebook.run(0).locator(".nbc")
    models = open_models(panel)
    status = models.locator(".nbc-dialog-status")
    website = FaultServer()
    website.script(page("<h1>Welcome</h1>"), page("<h1>Welcome</h1>"))
    connect(models, website.url)
    expect(status).to_contain_text("doesn't answer as a model server")
    website.close()
    empty = FaultServer()
    empty.script(*2 * [answer({"data": []})])
    connect(models, empty.url)
    expect(status).to_contain_text("lists no models. Enter the name of one.")
    empty.close()
    other = MessagesServer()  # speaks Anthropic's API
    connect(models, other.url)
    expect(status).to_contain_text("has 1 model")
    expect(
        models.get_by_role("button", name="anthropic:claude-x", exact=True)
    ).to_be_visible()
    other.close()
    expect(models.get_by_label("In use", exact=True)).to_be_visible()
    connect(models, "127.0.0.1:9")
    expect(status).to_contain_text("127.0.0.1:9")
    connect(models, "not an address")
    expect(status).to_contain_text("isn't a valid URL")
    address = models.get_by_label("Address", exact=True)
    expect(address).to_have_value("not an address")
    server.models = tuple(f"model-{number:04}" for number in range(3_000))
    server.key = KEY
    connect(models, server.address)
    key = models.get_by_label("Your own server").get_by_label("Key", exact=True)
    expect(key).to_be_visible()
    expect(status).to_contain_text("needs a key")
    screenshot("models-key")
    key.fill("two words")
    key.press("Enter")
    expect(status).to_contain_text("This isn't a key")
    key.fill(KEY)
    key.press("Enter")
    expect(status).to_contain_text("has 3,000 models")
    expect(models.get_by_text("2,800 more")).to_be_visible()
    name = models.get_by_label("Model", exact=True)
    name.fill("gpt-6-lana")
    name.press("Enter")
    expect(status).to_contain_text("'gpt-6-lana' has no provider. Did you mean openai:")
    name.fill("gemini")
    notebook.page.set_viewport_size({"width": 350, "height": 700})
    name.scroll_into_view_if_needed()
    screenshot("models-narrow")
    trial = models.get_by_label("Trial model").get_by_role("button").first
    assert trial.bounding_box()["width"] > 100  # not one letter below the other


def test_a_corrected_key_is_used_after_one_click_and_a_typed_one_replaces_it(
    open_panel_page: OpenPanelPage, screenshot
):
    server = OwnServer("my-model", key=KEY)
    notebook = open_panel_page(WRONG_KEY.format(address=server.address), CORRECTED)
    panel = notebook.run(0).locator(".nbc")
    say(panel, "Hello?")
    error = panel.locator(".nbc-error")
    replace = error.get_by_role("button", name="Replace key")
    expect(replace).to_be_visible()
    screenshot("models-refused-key")
    replace.click()
    key = error.get_by_label("Key", exact=True)
    expect(key).to_be_focused()
    key.fill("sk-typed-0123456789")
    key.press("Enter")
    expect(replace).to_be_visible()  # it was refused, too
    notebook.run(1)
    notebook.page.evaluate(COUNT_CLICKS)
    panel.get_by_role("button", name="Try again").click()
    expect(panel.locator(".nbc-assistant")).to_contain_text("From my server.")
    assert notebook.page.evaluate("window.clicks") == 1
    server.close()


def test_a_key_that_was_not_sent_is_sent_after_a_yes(
    open_panel_page: OpenPanelPage, screenshot
):
    server = OwnServer("my-model", key=KEY)
    cell = WRONG_KEY.format(address=server.address)
    cell = cell.replace("os.environ['NBCHAT_API_KEY_HOSTS'] = '127.0.0.1'", CORRECTED)
    cell = cell.replace("os.environ['OPENAI_API_KEY'] = 'sk-wrong-0123456789'", "")
    panel = open_panel_page(cell).run(0).locator(".nbc")
    say(panel, "Hello?")
    host = server.address.split("/")[2]
    send = panel.get_by_role("button", name=f"Send the key to {host}")
    expect(send).to_be_visible()
    expect(panel.get_by_role("button", name="Continue without a key")).to_be_visible()
    assert not any(KEY in str(each.headers) for each in server.requests)
    screenshot("models-withheld-key")
    send.click()
    expect(panel.locator(".nbc-assistant")).to_contain_text("From my server.")
    server.close()
