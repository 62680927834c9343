"""From `%chat` to the first answer: seconds and clicks of a newcomer without a key.

    python tests/benchmarks/newcomer.py

A notebook with a data frame in a real JupyterLab in Chromium; no key, nothing set up.
The newcomer runs the cell with `%chat`, clicks what the panel offers, and waits for the
end of the answer of the trial model. Three cases: its file is in the cache; it must be
fetched; and a model of a provider is configured whose key is missing.

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

from labkit import Notebook, chromium, lab_server, load_lab
from playwright.sync_api import Browser, Locator, expect

from nbchat.config.api_keys import KEY_VARIABLES
from nbchat.providers.model_download import model_file

LONGEST_MILLISECONDS = 300_000

FRAME = """import pandas as pd

orders = pd.DataFrame({"customer": ["Ann", "Bob"] * 602, "paid": range(1_204)})"""

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


if __name__ == "__main__":
    main()
