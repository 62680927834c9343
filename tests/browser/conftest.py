"""One lab and one page for all browser tests, one notebook tab for each."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from labkit import (
    CHROMIUM,
    REPOSITORY,
    Lab,
    Notebook,
    chromium,
    lab_server,
    load_lab,
)
from playwright.sync_api import Page, expect

SCREENSHOTS = REPOSITORY / "test-output"

TIMEOUT_MILLISECONDS = 20_000

# JupyterLab's, when a kernel ends while it is asked for a subshell, and its widgets',
# in a notebook that is opened without a kernel.
OWN_FAULTS = ("Canceled future", "properties of null (reading 'kernel')")

OpenNotebook = Callable[..., Notebook]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab server in a folder of its own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: `apt-get install chromium`, or set NBCHAT_CHROMIUM")
    with lab_server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def page(lab: Lab) -> Iterator[Page]:
    """A page of Chromium, which is closed when all tests are done."""
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        expect.set_options(timeout=TIMEOUT_MILLISECONDS)
        yield context.new_page()


@pytest.fixture(params=["Light", "Dark"])
def theme(page: Page, lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """One of JupyterLab's themes, and afterwards the usual one."""
    load_lab(page, lab, request.param)
    yield request.param
    if request.param != "Light":
        load_lab(page, lab, "Light")


@pytest.fixture
def screenshot(page: Page, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Save what the page shows under the test's name and a suffix."""
    SCREENSHOTS.mkdir(exist_ok=True)
    stem = re.sub(r"\W+", "-", request.node.name)

    def save(suffix: str) -> Path:
        path = SCREENSHOTS / f"{stem}-{suffix}.png"
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
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))

    def open_one(*cells: str) -> Notebook:
        name = f"{re.sub(r'[^a-z]+', '-', request.node.name)}-{len(opened)}.ipynb"
        notebook = Notebook(page, lab, name, cells)
        notebook.open()
        opened.append(notebook)
        return notebook

    yield open_one
    screenshot("end")
    for notebook in opened:
        notebook.close()
    assert [
        fault for fault in faults if not any(own in fault for own in OWN_FAULTS)
    ] == []
