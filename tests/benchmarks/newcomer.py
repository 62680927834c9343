"""From `%chat`, or the icon, to the first answer: a newcomer's seconds and clicks.

    python tests/benchmarks/newcomer.py

A notebook with a data frame in a real JupyterLab in Chromium; no key, nothing set up.
The newcomer runs the cell with `%chat`, clicks what the panel offers, and waits for the
end of the answer of the trial model. Three cases: its file is in the cache; it must be
fetched; and a model of a provider is configured whose key is missing. Then by the icon of
JupyterLab: to the chat of a fresh kernel and of one that has loaded nbchat, to an answer
of the trial model, and of a server of one's own with nothing but its address.

The figures are printed and never asserted: machines and connections differ.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from labkit import Lab, Notebook, chromium, lab_server, load_lab
from own_server import OwnServer
from panels import say
from playwright.sync_api import Browser, Locator, Page, expect

from nbchat.config.api_keys import KEY_VARIABLES
from nbchat.providers.model_download import model_file

LONGEST_MILLISECONDS = 300_000

FRAME = """import pandas as pd

orders = pd.DataFrame({"customer": ["Ann", "Bob"] * 602, "paid": range(1_204)})"""

ICON = ".jp-SideBar.jp-mod-right [title=Chat]"

COUNT_CLICKS = """() => {
    window.clicks = 0;
    const count = ({ detail }) => (window.clicks += Math.min(detail, 1));
    document.addEventListener("click", count, true);
}"""
"""A click that Enter makes has no detail."""

CELLS = (FRAME, "%load_ext nbchat", "%chat")


def main() -> None:
    """Print a line for each case."""
    for name in [*KEY_VARIABLES.values(), "NBCHAT_MODEL"]:
        os.environ.pop(name, None)
    expect.set_options(timeout=LONGEST_MILLISECONDS)
    model_file("smollm2")
    with chromium() as browser:
        print_case("the trial model is in the cache", browser)
        with set_to("NBCHAT_MODEL", "anthropic:claude-haiku-4-5"):
            print_case("a model is configured, its key is missing", browser)
        with (
            tempfile.TemporaryDirectory() as empty,
            set_to("XDG_CACHE_HOME", empty),
        ):
            print_case("the trial model must be fetched", browser)
        print_by_icon(browser)


@contextmanager
def set_to(name: str, value: str) -> Iterator[None]:
    """An environment variable for the time of a case."""
    before = os.environ.get(name)
    os.environ[name] = value
    yield
    os.environ.pop(name)
    if before is not None:
        os.environ[name] = before


def print_case(name: str, browser: Browser) -> None:
    """Seconds from running the cell to each step, in a server of its own."""
    with tempfile.TemporaryDirectory() as folder, lab_server(Path(folder)) as lab:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(LONGEST_MILLISECONDS)
        load_lab(page, lab, "Light")
        notebook = Notebook(page, lab, "first.ipynb", CELLS)
        notebook.open()
        notebook.run(0)
        notebook.run(1)
        begun = time.monotonic()
        notebook.start(2)
        clicks, steps = chat(notebook.outputs(2).locator(".nbc"), begun)
        page.close()
    told = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items())
    print(f"{name}: {clicks} clicks; {told}", flush=True)


def chat(panel: Locator, begun: float) -> tuple[int, dict[str, float]]:
    """Click until an answer is there; the clicks, and when each step was reached."""
    steps: dict[str, float] = {}
    clicks = 0

    def reach(step: str, seen: Locator) -> None:
        expect(seen.first).to_be_visible()
        steps[step] = time.monotonic() - begun

    suggestion = panel.get_by_role("button", name="Describe orders")
    trial = panel.get_by_role("button", name="Use the trial model")
    reach("offer", suggestion.or_(trial))
    if not suggestion.is_visible():
        trial.click()
        clicks += 1
        reach("model chosen", suggestion)
    suggestion.click()
    clicks += 1
    reach("first words", panel.locator(".nbc-live .nbc-md, .nbc-log .nbc-assistant"))
    reach("whole answer", panel.locator(".nbc-log .nbc-assistant"))
    return clicks, steps


def print_by_icon(browser: Browser) -> None:
    """Clicks and seconds from the icon, in one JupyterLab."""
    server = OwnServer("qwen3:8b", "gpt-oss:20b")
    with tempfile.TemporaryDirectory() as folder, lab_server(Path(folder)) as lab:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(LONGEST_MILLISECONDS)
        load_lab(page, lab, "Light")
        page.evaluate(COUNT_CLICKS)
        begun, panel = opened(page, lab, "fresh.ipynb")
        say(panel, "Say hello.")
        expect(panel.locator(".nbc-log .nbc-assistant")).to_be_visible()
        told(page, "icon to an answer of the trial model", begun)
        begun, panel = opened(
            page, lab, "loaded.ipynb", "%load_ext nbchat\n%chat /help"
        )
        panel.get_by_role("button", name="Choose a model", exact=True).click()
        models = panel.get_by_role("dialog", name="Models")
        models.get_by_label("Address", exact=True).fill(server.address.split("/")[2])
        models.get_by_label("Address", exact=True).press("Enter")
        models.get_by_role("button", name="openai:qwen3:8b", exact=True).click()
        say(panel, "Say hello.")
        expect(panel.locator(".nbc-log")).to_contain_text("From my server.")
        told(page, "icon to an answer of an own server", begun)
        page.close()
    server.close()


def opened(page: Page, lab: Lab, name: str, *cells: str) -> tuple[float, Locator]:
    """Open a notebook, run its cells, and click the icon; when that was."""
    notebook = Notebook(page, lab, name, cells or ("1 + 1",))
    notebook.open()
    for index in range(len(cells)):
        notebook.run(index)
    if page.locator("#nbchat-side").is_visible():
        page.locator(ICON).click()
    page.evaluate("() => { window.clicks = 0 }")
    begun = time.monotonic()
    page.locator(ICON).click()
    panel = page.locator("#nbchat-side .nbc[data-drawn]:visible")
    expect(panel).to_be_visible()
    told(page, f"icon to the chat of {name}", begun)
    return begun, panel


def told(page: Page, what: str, begun: float) -> None:
    """Print the clicks and seconds so far."""
    clicks = page.evaluate("window.clicks")
    print(f"{what}: {clicks} clicks, {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
