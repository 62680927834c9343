"""The panel where there is no JupyterLab around it: in Notebook 7 and in Voilà."""

import re
from collections.abc import Callable, Iterator

import nbformat
import pytest
from conftest import ALL_SCREENSHOTS, SCREENSHOTS
from labkit import REPOSITORY, Lab, going_on, permit
from nbconvert import HTMLExporter
from panels import run_first
from playwright.sync_api import Locator, Page, Response, expect
from readable import faults

from nbchat.jupyter.panel.chat_ui import FALLBACK_TEXT

Picture = Callable[[str], None]

THEME = '{{"theme": "JupyterLab {}"}}'

RAN = re.compile(r"\[\d\]:")

CELL = """
import os
from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.testing import ScriptedProvider, says
from nbchat.jupyter.panel.chat_ui import ChatUI

found = "# Found\\n\\nIn `ticket 42`:\\n\\n```python\\nprint(6 * 7)\\n```\\n\\nIs that enough?"
long = says("word " * 500, delay_seconds=0.02)
ui = ChatUI(Agent(ScriptedProvider(
    says(found, delay_seconds=0.1),
    lambda asked: os._exit(1) if "dies" in asked.history[-1].content else long,
    says("<summary>The printer of Ann is offline since Monday.</summary>"),
    says("Still here."),
), engine=CompactionEngine(context_token_threshold=5_000)))
ui
"""


@pytest.fixture
def use_theme(lab: Lab, page: Page) -> Iterator[Callable[[str], None]]:
    """Choose what Notebook looks like from the next load on, "Light" or "Dark"."""
    settings = f"{lab.url}/lab/api/settings/@jupyterlab/apputils-extension:themes"
    permitted = permit(page, lab)

    def use(theme: str) -> None:
        chosen = {"raw": THEME.format(theme)}
        assert page.request.put(settings, data=chosen, headers=permitted).ok

    yield use
    use("Light")


@pytest.fixture
def visitor(page: Page) -> Iterator[Page]:
    """A page beside JupyterLab's, in which our script may not fail; it has no address."""
    faulty: list[str] = []
    visited = going_on(page.context.new_page())
    visited.on("pageerror", lambda error: faulty.append(str(error.stack)))
    yield visited
    visited.close()
    assert [fault for fault in faulty if "blob:" in fault] == []


@pytest.fixture
def picture(visitor: Page, request: pytest.FixtureRequest) -> Picture:
    """Save what the visitor sees under the test's name and a suffix, if asked for."""
    stem = re.sub(r"\W+", "-", request.node.name)

    def save(suffix: str) -> None:
        if ALL_SCREENSHOTS:
            SCREENSHOTS.mkdir(exist_ok=True)
            visitor.screenshot(path=SCREENSHOTS / f"{stem}-{suffix}.png")

    return save


@pytest.fixture
def notebook(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Iterator[str]:
    """A notebook whose first cell shows a panel; its kernel ends with the test."""
    name = f"{re.sub(r'[^a-z]+', '-', request.node.name)}.ipynb"
    sources = (CELL, "second = 2\nsecond")
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    whole = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.write(whole, lab.root / name)
    yield name
    for session in page.request.get(f"{lab.url}/api/sessions").json():
        if session["path"] == name:
            page.request.delete(f"{lab.url}/api/sessions/{session['id']}")


def ready(visitor: Page) -> Locator:
    """The panel of the page, once its agent is there."""
    panel = visitor.locator(".nbc")
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    return panel


def is_compacted(banner: Locator) -> None:
    """Wait until a line says that the chat so far is compacted, and all about it."""
    expect(banner).to_contain_text("Compaction occurred")
    told = re.compile(r"^Compaction occurred: 4 messages compacted, \d+ → \d+ tokens")
    expect(banner).to_have_attribute("title", told)


def talk(panel: Locator, picture: Picture) -> None:
    """Type, see an answer stream in, stop the next, and compact."""
    keyboard = panel.page.keyboard
    stop = panel.get_by_role("button", name="Stop")
    panel.locator(".nbc-input").click()
    keyboard.type("What is in ticket 42? add")
    keyboard.press("Shift+Enter")
    keyboard.type("dd")
    keyboard.press("Enter")
    expect(panel.locator(".nbc-user")).to_have_text("What is in ticket 42? add\ndd")
    expect(panel.locator(".nbc-live h1")).to_have_text("Found")
    expect(panel.locator(".nbc-log .nbc-code .nb")).to_have_text("print")
    expect(stop).to_be_hidden()
    picture("answer")
    keyboard.type("Tell me more.")
    keyboard.press("Enter")
    expect(panel.locator(".nbc-live")).to_contain_text("word word")
    stop.click()
    expect(panel.locator(".nbc-cut")).to_have_text("cut off here")
    keyboard.type("/compact")
    keyboard.press("Enter")
    banner = panel.locator(".nbc-banner[data-state=done]")
    is_compacted(banner)
    banner.locator("summary").click()
    expect(banner).to_contain_text("The printer of Ann is offline since Monday.")
    picture("banner")
    assert faults(panel) == []


def has_a_place_beside(panel: Locator) -> None:
    """Check that the menu offers the side bar, and no tools for a chat without them."""
    panel.get_by_role("button", name="More", exact=True).click()
    expect(panel.get_by_role("menuitem", name="Compact", exact=True)).to_be_visible()
    expect(panel.get_by_role("menuitem", name="Show beside")).to_be_visible()
    expect(panel.get_by_role("menuitem", name="edit and run cells")).to_have_count(0)
    panel.page.keyboard.press("Escape")


def code_runs_in_a_cell(panel: Locator, cells: Locator) -> None:
    """Click into the last of two cells and run the answer's code below it."""
    cells.nth(1).locator(".cm-content").click()
    box = panel.locator(".nbc-codebox")
    box.get_by_role("button", name="Run", exact=True).click()
    expect(panel.get_by_role("dialog")).to_be_visible()
    assert faults(panel) == []
    panel.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()
    expect(panel.locator(".nbc-code-notice").first).to_have_text(
        re.compile(r"^Ran as \[\d+\], cell 3 of 3$")
    )
    expect(cells.nth(2).locator(".jp-OutputArea-output")).to_have_text("42")


def written(notebook: str) -> Callable[[Response], bool]:
    """True if the server answers that it has saved the notebook."""
    return lambda answer: (
        answer.request.method == "PUT" and f"/api/contents/{notebook}" in answer.url
    )


def test_in_notebook_7_a_chat_streams_stops_compacts_runs_code_and_survives_a_reload(
    use_theme: Callable[[str], None],
    lab: Lab,
    visitor: Page,
    notebook: str,
    picture: Picture,
) -> None:
    use_theme("Dark")
    visitor.goto(f"{lab.url}/notebooks/{notebook}")
    body = visitor.locator("body")
    expect(body).to_have_attribute("data-jp-theme-name", "JupyterLab Dark")
    cells = visitor.locator(".jp-Notebook .jp-Cell")
    run_first(visitor)
    panel = ready(visitor)
    talk(panel, picture)
    has_a_place_beside(panel)
    expect(cells).to_have_count(2)
    expect(cells.first.locator(".jp-InputPrompt")).to_have_text(RAN)
    code_runs_in_a_cell(panel, cells)
    with visitor.expect_response(written(notebook)):
        visitor.get_by_role("button", name="Save").first.click()
    use_theme("Light")
    visitor.reload()
    expect(body).to_have_attribute("data-jp-theme-name", "JupyterLab Light")
    panel = ready(visitor)
    expect(panel.locator(".nbc-user").first).to_contain_text("What is in ticket 42?")
    is_compacted(panel.locator(".nbc-banner"))
    assert faults(panel) == []
    panel.locator(".nbc-input").fill("And now?")
    panel.locator(".nbc-input").press("Enter")
    expect(panel.locator(".nbc-log .nbc-assistant").last).to_have_text("Still here.")


def test_in_voila_a_chat_streams_stops_compacts_copies_code_and_restarts_after_a_reload(
    lab: Lab, visitor: Page, notebook: str, picture: Picture
) -> None:
    address = f"{lab.url}/voila/render/{notebook}"
    visitor.goto(f"{address}?theme=dark")
    panel = ready(visitor)
    expect(visitor.locator("body.theme-dark")).to_have_count(1)
    talk(panel, picture)
    only_copy = panel.locator(".nbc-codebar button")  # there is no notebook to change
    expect(only_copy).to_have_count(1)
    expect(only_copy).to_have_accessible_name("Copy code")
    visitor.goto(f"{address}?theme=light")
    panel = ready(visitor)
    expect(visitor.locator("body.theme-light")).to_have_count(1)
    expect(panel.locator(".nbc-user")).to_have_count(0)
    panel.locator(".nbc-input").fill("Hello?")
    panel.locator(".nbc-input").press("Enter")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_contain_text("In ticket 42")
    assert faults(panel) == []
    panel.locator(".nbc-input").fill("Now the kernel dies.")
    panel.locator(".nbc-input").press("Enter")
    alert = panel.get_by_role("alert")
    expect(alert).to_contain_text("Reload the page")
    expect(panel.locator(".nbc-log .nbc-assistant")).to_contain_text("In ticket 42")
    picture("gone")


def test_a_page_made_of_a_notebook_says_in_a_line_what_the_panel_was(
    visitor: Page, picture: Picture
) -> None:
    """What nbviewer and `jupyter nbconvert --to html` show of a committed notebook."""
    notebook = REPOSITORY / "notebooks" / "quickstart.ipynb"
    html, _ = HTMLExporter().from_filename(str(notebook))
    visitor.route("**/*", lambda route: route.abort())  # scripts of other servers
    visitor.set_content(html, wait_until="domcontentloaded")
    line = visitor.get_by_text(FALLBACK_TEXT)
    expect(line.first).to_be_visible()
    line.first.scroll_into_view_if_needed()
    picture("page")
