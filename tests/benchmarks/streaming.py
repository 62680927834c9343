"""What streaming an answer costs in a real JupyterLab, beside other ways to show it.

    python tests/benchmarks/streaming.py [--sizes 8 80] [--speeds 200 2000] [--methods ...]

An answer of Markdown with code and lists arrives in pieces of 4 characters: as fast as
from a model of 200 tokens a second, and ten times faster. `delta` is the least a widget
can do, text sent and appended; `HTML` is set to the whole text; `Output` is printed to.

MB: all that came over the websockets, counted in the page. Lost: updates that did not
come, and parts of the answer that the page never showed. First: from the first piece's
arrival in the kernel to the page. Done: from the last piece until the page shows it.
Longest: the longest task of the page's main thread of at least 50 ms, and how many.

Then a conversation of 1,000 entries is opened, scrolled through to its beginning, typed
in and answered: milliseconds until its newest entry shows, and the longest tasks.

The figures are printed and never asserted: machines differ.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from labkit import Lab, Notebook, chromium, lab_server
from playwright.sync_api import CDPSession, Page

HERE = Path(__file__).parent

LIMIT_SECONDS = 150
"""After the last piece; what the page does not show by then it is said to lose."""

QUADRATIC = ("HTML each", "Output")
QUADRATIC_LIMIT = 20
"""Thousands of characters: 80 KB take them minutes and break the connection."""

METHODS = ("nbchat", "delta 20 Hz", "HTML 20 Hz", "HTML each", "Output")

HEADINGS = (
    *("KB", "pieces/s", "method", "MB", "messages", "lost", "parts"),
    *("first ms", "done ms", "kernel s", "page s", "longest ms"),
)

# Counts what comes over websockets, and the main thread's long tasks.
COUNTERS = """
window.nbchatBytes = 0; window.nbchatFrames = 0; window.nbchatTasks = [];
const Plain = window.WebSocket;
window.WebSocket = class extends Plain {
  constructor(...given) {
    super(...given);
    this.addEventListener('message', ({ data }) => {
      window.nbchatBytes += data.byteLength ?? data.size ?? data.length;
      window.nbchatFrames += 1;
    });
  }
};
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.nbchatTasks.push(task.duration);
}).observe({ entryTypes: ['longtask'] });
"""

# Looks, once a frame, whether the last visible text has begun and has ended.
WATCH = """(root) => {
  const areas = root.querySelector('.nbc')
    ? () => [...root.querySelectorAll('.nbc-live, .nbc-log > :nth-last-child(-n + 2) .nbc-assistant')]
    : () => [root];
  const lastText = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data.trim() ? node.data : '';
    for (let child = node.lastChild; child; child = child.previousSibling) {
      const text = lastText(child);
      if (text) return text;
    }
    return '';
  };
  window.nbchatFirst = window.nbchatDone = null;
  const look = () => {
    const text = areas().map(lastText).join('');
    if (text) window.nbchatFirst ??= Date.now() / 1000;
    if (text.slice(-30).includes('THE-END')) window.nbchatDone = Date.now() / 1000;
    else requestAnimationFrame(look);
  };
  look();
}"""

RESET = "() => { nbchatBytes = nbchatFrames = 0; nbchatTasks = [] }"
READ = """(root) => ({ bytes: nbchatBytes, frames: nbchatFrames, tasks: nbchatTasks,
  first: nbchatFirst, done: nbchatDone,
  parts: new Set(root.textContent.match(/Part \\d{4}/g)).size })"""

# Tasks count from the frame after the one that shows the newest message.
PAINTED = """() => {
  window.nbchatPainted = null;
  const look = () => {
    if (!document.querySelector('.nbc-log > *')) return requestAnimationFrame(look);
    requestAnimationFrame(() => { nbchatPainted = Date.now(); nbchatTasks = [] });
  };
  look();
}"""

# Goes up a screen at each frame, as a person who drags the scroll bar.
SCROLL_UP = """async (scroller) => {
  const first = () => scroller.querySelector('.nbc-log > *').textContent;
  const end = Date.now() + 60000;
  while (!first().startsWith('Question 0:') && Date.now() < end) {
    scroller.scrollTop -= scroller.clientHeight;
    await new Promise(requestAnimationFrame);
  }
}"""

# As little work as can be: it is asked at each frame. What it cost stands below an answer.
ANSWERED = """() => {
  const cost = document.querySelector('.nbc-log')?.lastElementChild;
  const answer = cost?.previousElementSibling?.querySelector('.nbc-md');
  return answer?.lastElementChild?.textContent.includes('THE-END');
}"""

LONG = 1_002

Row = dict[str, Any]


@contextlib.contextmanager
def jupyter_lab() -> Iterator[tuple[Lab, Page]]:
    """A lab and a page of Chromium that counts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        lab_server(Path(folder)) as lab,
        chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1_000 * LIMIT_SECONDS)
        page.add_init_script(COUNTERS)
        yield lab, page


def busy_seconds(client: CDPSession) -> float:
    """How long the page's main thread has worked so far."""
    metrics = client.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def streamed(lab: Lab, page: Page, feed: tuple[str, int, float]) -> Row:
    """The figures of one answer."""
    method, size, speed = feed
    name = f"{method.replace(' ', '-')}-{size}-{speed:g}.ipynb"
    notebook = Notebook(
        page, lab, name, cells(f"feed = Feed{feed}\nfeed.surface", "feed.play()")
    )
    notebook.open()
    outputs = notebook.run(0)
    outputs.first.wait_for(state="attached")
    time.sleep(2)
    root = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").first
    area = root.locator(".jp-OutputArea-output").first
    area.evaluate(WATCH)
    page.evaluate(RESET)
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    busy = busy_seconds(client)
    told = notebook.run(1).inner_text()
    kernel = json.loads(told.strip("'"))
    with contextlib.suppress(Exception):
        page.wait_for_function("() => nbchatDone", timeout=1_000 * LIMIT_SECONDS)
    seen = area.evaluate(READ)
    row = {
        **seen,
        **kernel,
        "shown": seen["first"],
        "busy": busy_seconds(client) - busy,
    }
    row["lost"] = max(0, kernel["sent"] - seen["frames"])
    row["seen"] = seen["parts"]
    notebook.close()
    return row


def cells(first: str, second: str) -> tuple[str, str]:
    """The two cells of a measurement."""
    importing = f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
    return f"{importing}from stream_feeds import *\n{first}", second


def row_cells(feed: tuple[str, int, float], row: Row) -> list[str]:
    """A row of the table."""
    method, size, speed = feed
    done = f"{1e3 * (row['done'] - row['last']):.0f}" if row["done"] else "never"
    tasks = row["tasks"]
    return [
        *(f"{size / 1_000:g}", f"{speed:g}", method),
        *(f"{row['bytes'] / 1e6:.3f}", str(row["frames"]), str(row["lost"])),
        f"{row['seen']}/{row['parts']}",
        *(f"{1e3 * (row['shown'] - row['first']):.0f}", done),
        *(f"{row['cpu']:.2f}", f"{row['busy']:.1f}"),
        f"{max(tasks):.0f} ({len(tasks)})" if tasks else "-",
    ]


def print_row(row: list[str]) -> None:
    """One line, as soon as it is known."""
    widths = (3, 8, 11, 8, 8, 6, 7, 8, 8, 8, 7, 11)
    padded = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    print("  ".join(padded), flush=True)


def long_chat(lab: Lab, page: Page) -> None:
    """Print what a long conversation costs to open, scroll, type in and stream."""
    opening = f"panel = long_chat({LONG})\npanel"
    notebook = Notebook(page, lab, "long.ipynb", cells(opening, "spent()"))
    notebook.open()
    page.evaluate(RESET)
    page.evaluate(PAINTED)
    began = time.time()
    panel = notebook.run(0).locator(".nbc")
    page.wait_for_function("() => nbchatPainted")
    painted = page.evaluate("() => nbchatPainted / 1000")
    time.sleep(1)
    told(page, "opened", f"{1e3 * (painted - began):.0f} ms to the newest message")
    kernel = notebook.run(1).inner_text()
    began = time.time()
    panel.locator(".nbc-scroller").evaluate(SCROLL_UP)
    items = panel.locator(".nbc-log > *").count()
    took = f"{time.time() - began:.1f} s to the first of {items} items"
    told(page, "scrolled", took)
    box = panel.get_by_role("textbox")
    box.press_sequentially("Is it still as quick as a chat that has just begun?")
    told(page, "typed", "51 characters")
    box.press("Enter")
    page.wait_for_function(ANSWERED)
    told(page, "streamed", "2 KB")
    print(f"kernel CPU until the newest message showed: {kernel} s")
    notebook.close()


def told(page: Page, did: str, figures: str) -> None:
    """One line, with the tasks since the last one; the page's own are not counted."""
    tasks = page.evaluate("() => nbchatTasks.splice(0)")
    longest = f"{max(tasks):.0f} ms ({len(tasks)})" if tasks else "none of 50 ms"
    print(f"{LONG:,} entries {did:9} {figures:36} longest task {longest}", flush=True)


def main() -> None:
    """Measure all that was asked for, and print it row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="*", default=[8, 80])
    parser.add_argument("--speeds", type=float, nargs="*", default=[200, 2_000])
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--all", action="store_true", help="also what takes minutes")
    parser.add_argument("--no-long-chat", action="store_true")
    wanted = parser.parse_args()
    feeds = [
        (method, int(1_000 * size), speed)
        for size in wanted.sizes
        for speed in wanted.speeds
        for method in wanted.methods
        if wanted.all or method not in QUADRATIC or size < QUADRATIC_LIMIT
    ]
    print_row(list(HEADINGS))
    with jupyter_lab() as (lab, page):
        for feed in feeds:
            print_row(row_cells(feed, streamed(lab, page, feed)))
        if not wanted.no_long_chat:
            long_chat(lab, page)


if __name__ == "__main__":
    main()
