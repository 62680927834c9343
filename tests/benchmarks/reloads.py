"""How many of many reloads during a running cell leave a widget dead in JupyterLab.

    python tests/benchmarks/reloads.py [--rounds 50] [--without] [--log FOLDER]

A slider, the chat of a cell and the chat beside the notebook must come back each time.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "browser"), str(HERE.parent / "support")]

from labkit import Lab, Notebook, chromium, going_on, lab_server  # noqa: E402
from panels import BUSY  # noqa: E402
from playwright.sync_api import Page  # noqa: E402
from playwright.sync_api import TimeoutError as PlaywrightTimeout  # noqa: E402

WIDGETS = "import ipywidgets\nipywidgets.IntSlider()"
CHAT = "%load_ext nbchat\n%chat"
PATIENCE_MILLISECONDS = 30_000
ICON = ".jp-SideBar.jp-mod-right [title=Chat]"
ALIVE = (".jp-OutputArea .widget-slider", ".jp-OutputArea .nbc[data-drawn]")
BESIDE = "#nbchat-side .nbc[data-drawn]"


def main() -> None:
    """Reload as often as asked and print each round that left something dead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--without", action="store_true", help="never open the icon")
    parser.add_argument("--log", type=Path, help="messages of rounds that failed")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        lab_server(Path(folder)) as lab,
        chromium() as browser,
    ):
        page = going_on(browser.new_page(viewport={"width": 1400, "height": 1000}))
        frames: list[tuple[float, str, bytes]] = []
        page.on("websocket", lambda socket: _record(socket, frames))
        notebook = Notebook(page, lab, "reloads.ipynb", (WIDGETS, CHAT, BUSY))
        notebook.open()
        notebook.run(0)
        notebook.run(1)
        awaited = ALIVE
        if not options.without:
            page.locator(ICON).click()
            awaited = (*ALIVE, BESIDE)
        _await(page, awaited)
        notebook.save()
        dead = 0
        for each in range(options.first, options.first + options.rounds):
            frames.clear()
            begun = time.monotonic()
            missing = _reload(notebook, lab, awaited, each)
            dead += bool(missing)
            print(each, f"{time.monotonic() - begun:.1f} s", missing or "", flush=True)
            if missing and options.log:
                _write(frames, options.log / f"round-{each}.jsonl")
                page.screenshot(path=options.log / f"round-{each}.png")
        print(f"{dead} of {options.rounds} reloads left a widget dead")


def _reload(
    notebook: Notebook, lab: Lab, awaited: tuple[str, ...], number: int
) -> list[str]:
    """Reload during a cell that ends 0 to 7 seconds after the page is there.

    Most end in the first 2.5 seconds: ipywidgets asks so long for a model.
    """
    page = notebook.page
    (lab.root / "cell-may-end").unlink(missing_ok=True)
    notebook.start(2)
    page.wait_for_timeout(300)
    page.reload()
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_timeout(
        number * 1_700 % 7_000 if number % 5 == 0 else number * 170 % 2_500
    )
    (lab.root / "cell-may-end").touch()
    missing = _await(page, awaited)
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.sessionContext?."
        "session?.kernel?.status === 'idle'"
    )
    return missing


def _await(page: Page, awaited: tuple[str, ...]) -> list[str]:
    """What does not appear in time."""
    missing, deadline = [], time.monotonic() + PATIENCE_MILLISECONDS / 1000
    for selector in awaited:
        left = max(deadline - time.monotonic(), 1.0)
        try:
            page.wait_for_selector(selector, timeout=left * 1000)
        except PlaywrightTimeout:
            missing.append(selector)
    return missing


def _record(socket: object, frames: list[tuple[float, str, bytes]]) -> None:
    socket.on(  # type: ignore[attr-defined]
        "framesent", lambda frame: frames.append((time.time(), ">", frame))
    )
    socket.on(  # type: ignore[attr-defined]
        "framereceived", lambda frame: frames.append((time.time(), "<", frame))
    )


def _write(frames: list[tuple[float, str, bytes]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        for when, way, frame in frames:
            text = frame if isinstance(frame, str) else frame.decode("utf-8", "replace")
            out.write(json.dumps([round(when, 3), way, text[:2_000]]) + "\n")


if __name__ == "__main__":
    main()
