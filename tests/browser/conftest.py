"""One browser, one JupyterLab and one blank page for all browser tests."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from labkit import (
    CHROMIUM,
    REPOSITORY,
    Lab,
    Notebook,
    chromium,
    going_on,
    lab_server,
)
from panel_page import OpenPanelPage, PanelPage, PanelServer, comms_through
from playwright.sync_api import Browser, Error, Page, expect

SCREENSHOTS = REPOSITORY / "test-output"

ALL_SCREENSHOTS = bool(os.environ.get("NBCHAT_TEST_SCREENSHOTS"))

FAILED = "end"
"""The suffix of what a failed test has left."""

TIMEOUT_MILLISECONDS = 20_000

# JupyterLab's, when a kernel ends while it is asked for a subshell, its widgets', in a
# notebook that is opened without a kernel, and Notebook 7's (7.6.5), whose keyboard
# shortcuts read the schema of their settings before it is there, at each load, with and
# without nbchat in the page. The last is anywidget's, which says so of a script that has
# not run after two seconds, as on a busy machine, and goes on: that a panel is shown at
# all each test asserts itself.
OWN_FAULTS = (
    "Canceled future",
    "properties of null (reading 'kernel')",
    "properties of undefined (reading 'schema')",
    "[anywidget] Failed to initialize model",
)

# A page with unsaved changes asks whether to leave, and a load of another one may end
# in an error meanwhile.
LEAVE_UNASKED = """addEventListener(
    'beforeunload', event => event.stopImmediatePropagation(), true)"""

OpenNotebook = Callable[..., Notebook]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab server in a folder of its own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: `apt-get install chromium`, or set NBCHAT_CHROMIUM")
    with lab_server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium, which is closed when all tests are done."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: `apt-get install chromium`, or set NBCHAT_CHROMIUM")
    with chromium() as browser:
        expect.set_options(timeout=TIMEOUT_MILLISECONDS)
        yield browser


@pytest.fixture(scope="session")
def lab_page(browser: Browser) -> Page:
    """The window in which JupyterLab is."""
    return going_on(new_page(browser))


@pytest.fixture(scope="session")
def blank_page(browser: Browser) -> Page:
    """The window for panels without JupyterLab."""
    return new_page(browser)


def new_page(browser: Browser) -> Page:
    """A page with cookies and requests of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    context.add_init_script(LEAVE_UNASKED)
    return context.new_page()


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Page:
    """The tab that a test uses: the blank page if it opens panels there, else the lab's."""
    is_blank = "open_panel_page" in request.fixturenames
    used: Page = request.getfixturevalue("blank_page" if is_blank else "lab_page")
    used.bring_to_front()
    return used


@pytest.fixture(scope="session")
def panel_server() -> Iterator[PanelServer]:
    """What serves the blank page."""
    server = PanelServer()
    yield server
    server.close()


@pytest.fixture
def open_panel_page(
    page: Page,
    panel_server: PanelServer,
    request: pytest.FixtureRequest,
    screenshot: Callable[[str], Path],
) -> Iterator[OpenPanelPage]:
    """Open the blank page with the given cells; afterwards it must have no faults."""
    opened: list[PanelPage] = []
    environment = dict(os.environ)

    def open_one(*cells: str) -> PanelPage:
        opened.append(PanelPage(page, panel_server, cells))
        return opened[-1]

    with faultless(page), comms_through(panel_server):
        with pictured(request, screenshot):
            yield open_one
        for each in opened:
            each.close()
    os.environ.clear()
    os.environ.update(environment)


@contextmanager
def faultless(page: Page) -> Iterator[None]:
    """Assert that no script of the page fails."""
    faults: list[str] = []

    def note(error: Error) -> None:
        if not any(own in str(error) for own in OWN_FAULTS):
            faults.append(str(error))

    page.on("pageerror", note)
    yield
    page.remove_listener("pageerror", note)
    assert faults == []


@contextmanager
def pictured(
    request: pytest.FixtureRequest, screenshot: Callable[[str], Path]
) -> Iterator[None]:
    """Save what a failed test has left, before anything is closed."""
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        screenshot(FAILED)


@pytest.fixture
def screenshot(page: Page, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Save what the page shows under the test's name and a suffix.

    Of a test that passes only if `NBCHAT_TEST_SCREENSHOTS` is set: they take half a
    minute.
    """
    stem = re.sub(r"\W+", "-", request.node.name)

    def save(suffix: str) -> Path:
        path = SCREENSHOTS / f"{stem}-{suffix}.png"
        if suffix == FAILED or ALL_SCREENSHOTS:
            SCREENSHOTS.mkdir(exist_ok=True)
            page.screenshot(path=str(path))
        return path

    return save


@pytest.fixture
def open_notebook(
    lab: Lab,
    page: Page,
    request: pytest.FixtureRequest,
    screenshot: Callable[[str], Path],
) -> Iterator[OpenNotebook]:
    """Open a notebook with the given cells; afterwards the page must have no faults."""
    opened: list[Notebook] = []

    def open_one(*cells: str) -> Notebook:
        name = f"{re.sub(r'[^a-z]+', '-', request.node.name)}-{len(opened)}.ipynb"
        notebook = Notebook(page, lab, name, cells)
        notebook.open()
        opened.append(notebook)
        return notebook

    with faultless(page):
        with pictured(request, screenshot):
            yield open_one
        for notebook in opened:
            notebook.close()


@pytest.fixture(scope="session")
def kept_notebooks() -> list[Notebook]:
    """The notebook that tests of several files share, once one of them has opened it."""
    return []


@pytest.fixture(scope="module")
def shared_notebooks(
    lab_page: Page, kept_notebooks: list[Notebook]
) -> Iterator[list[Notebook]]:
    """The same; after a file's tests its tab is closed, and its kernel goes on."""
    yield kept_notebooks
    lab_page.bring_to_front()
    for notebook in kept_notebooks:
        notebook.close_tab()


@pytest.fixture
def open_shared_notebook(
    lab: Lab,
    page: Page,
    shared_notebooks: list[Notebook],
    request: pytest.FixtureRequest,
    screenshot: Callable[[str], Path],
) -> Iterator[OpenNotebook]:
    """Open a notebook with the given cells, in a tab and on a kernel that tests share.

    It takes a quarter of the time, and does unless a test closes the notebook, loads it
    again, or reads its file without saving it.
    """
    failed_before = request.session.testsfailed

    def open_one(*cells: str) -> Notebook:
        if not shared_notebooks:
            notebook = Notebook(page, lab, "shared.ipynb", ())
            notebook.open()
            shared_notebooks.append(notebook)
        shared_notebooks[0].rewrite(*cells)
        return shared_notebooks[0]

    with faultless(page), pictured(request, screenshot):
        yield open_one
    if request.session.testsfailed > failed_before and shared_notebooks:
        shared_notebooks.pop().close()
