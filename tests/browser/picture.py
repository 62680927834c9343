"""The README's animation: a compaction in the panel of a real JupyterLab.

    python tests/browser/picture.py

A local server plays the model. The steps are looked at one by one, so that how fast a
machine is changes nothing: a question, its answer, the compaction, *View*, *Undo*.
"""

import json
import os
import tempfile
import threading
from io import BytesIO
from pathlib import Path

from fault_server import FaultServer, OpenAIDialect, Recorded, Response, failure
from labkit import REPOSITORY, Lab, Notebook, chromium, lab_server, load_lab
from panels import ask, is_idle, say
from PIL import Image, ImageDraw
from playwright.sync_api import Locator, Page, expect

ANIMATION = REPOSITORY / "notebooks" / "compaction.gif"

SIZE = {"width": 940, "height": 700}
COLOURS = 96

CHARACTERS_OF_A_TOKEN = 3
"""In tables and JSON."""

FRAMES = """import pandas as pd

orders = pd.read_csv("orders.csv", dtype={"customer": str})
customers = pd.read_csv("customers.csv")"""

REASON = """The merge finds nothing because the keys differ in type: `orders.customer` is
text, `customers.id` is an integer. No row of 90 matches.

```python
orders["customer"] = orders["customer"].astype(int)
merged = orders.merge(customers, left_on="customer", right_on="id")
```"""

RULE = "Noted. I'll leave refunds out of every sum, and round to whole euros."

REGIONS = """After the fix all 90 orders have their customer:

| region | orders | revenue |
|---|---:|---:|
| North | 48 | 3,210 |
| South | 42 | 2,977 |"""

SUMMARY = """<summary>
**Goal** The user merges orders with customers and compares the revenue of the regions.

**Findings** orders.customer was text, customers.id an integer. After astype(int) all 90
orders have their customer.

**Next** Revenue of the regions, in whole euros.

**Rules**
- "Leave out refunds."
</summary>"""

QUESTIONS = (
    "Why does the merge of @orders and @customers find no rows?",
    "Leave out refunds.",
    "And the revenue per region?",
)


class Model(FaultServer):
    """Answers in order; the summary waits until it may be written."""

    def __init__(self) -> None:
        super().__init__()
        self.may_summarize = threading.Event()
        self._answers = iter((REASON, RULE, REGIONS))

    def next_response(self, request: Recorded) -> Response:
        """The next answer, and after the last one the summary."""
        if not request.body:
            return failure(404)
        messages = request.body["messages"]
        tokens = len(json.dumps(messages)) // CHARACTERS_OF_A_TOKEN
        if "<summary>" in json.dumps(messages[-1]):
            self.may_summarize.wait(60)
            return OpenAIDialect().text(SUMMARY, usage=(tokens, 90, 0))
        return OpenAIDialect().text(next(self._answers), usage=(tokens, 90, 0))


class Film:
    """Frames of a page, each with the time that it is shown."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[Image.Image] = []
        self._times: list[int] = []

    def take(self, milliseconds: int, at: Locator | None = None) -> None:
        """One more frame; a dot shows where the person clicks next."""
        shot = Image.open(BytesIO(self._page.screenshot())).convert("RGB")
        if at is not None and (box := at.bounding_box()):
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            drawing = ImageDraw.Draw(shot, "RGBA")
            drawing.ellipse((x - 13, y - 13, x + 13, y + 13), fill=(217, 83, 79, 110))
        self._frames.append(shot)
        self._times.append(milliseconds)

    def save(self, file: Path) -> None:
        """Write all frames with the colours of all of them."""
        height = sum(each.height for each in self._frames)
        sheet = Image.new("RGB", (self._frames[0].width, height))
        for index, each in enumerate(self._frames):
            sheet.paste(each, (0, index * each.height))
        palette = sheet.quantize(COLOURS)
        first, *others = (
            each.quantize(palette=palette, dither=Image.Dither.NONE)
            for each in self._frames
        )
        first.save(
            file,
            save_all=True,
            append_images=others,
            duration=self._times,
            loop=0,
            optimize=True,
        )


def main() -> None:
    """Make the animation again."""
    expect.set_options(timeout=60_000)
    model = Model()
    os.environ.update(
        NBCHAT_MODEL="openai:my-model",
        NBCHAT_BASE_URL=f"{model.url}/v1",
        NBCHAT_CONTEXT_TOKEN_THRESHOLD="5000",
        NBCHAT_WINDOW="32000",
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        lab_server(Path(folder)) as lab,
        chromium() as browser,
    ):
        page = browser.new_page(viewport=SIZE)
        load_lab(page, lab, "Light")
        film = Film(page)
        play(opened(page, lab), film, model)
        film.save(ANIMATION)
    model.close()
    print(f"{ANIMATION}: {ANIMATION.stat().st_size:,} bytes")


def opened(page: Page, lab: Lab) -> Locator:
    """The panel below its cell, and nothing else of JupyterLab that moves."""
    write_tables(lab.root)
    cells = (FRAMES, "%load_ext nbchat\n%chat")
    notebook = Notebook(page, lab, "orders.ipynb", cells)
    notebook.open()
    page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    notebook.run(0)
    panel = notebook.run(1).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_contain_text("my-model")
    panel.evaluate("panel => { panel.style.height = '545px' }")
    panel.evaluate("panel => panel.scrollIntoView({ block: 'end' })")
    return panel


def write_tables(folder: Path) -> None:
    """Two tables that are short enough to be attached whole."""
    rows = [f"{1_000 + n},{17 + n % 9},{20 + n * 7 % 90}.5" for n in range(90)]
    (folder / "orders.csv").write_text("order,customer,paid\n" + "\n".join(rows))
    rows = [f"{17 + n},{'North' if n % 2 else 'South'},C{n:03}" for n in range(90)]
    (folder / "customers.csv").write_text("id,region,code\n" + "\n".join(rows))


def play(panel: Locator, film: Film, model: Model) -> None:
    """A question, a rule and another question; then the chat is compacted."""
    *earlier, last = QUESTIONS
    for question in earlier:
        panel.locator(".nbc-input").fill(question)
        film.take(1_100)
        ask(panel, question)
        film.take(1_700)
    panel.locator(".nbc-input").fill(last)
    film.take(1_100)
    say(panel, last)
    expect(panel.locator("table").last).to_be_visible()
    film.take(2_000)
    model.may_summarize.set()
    expect(panel.locator(".nbc-banner[data-state='done']")).to_be_visible()
    is_idle(panel)
    film.take(2_400)
    look_and_undo(panel, film)


def look_and_undo(panel: Locator, film: Film) -> None:
    """Look at what stayed, then take the compaction back."""
    view = panel.get_by_role("button", name="View").last
    film.take(600, view)
    view.click()
    memory = panel.get_by_role("dialog", name="What the model remembers")
    expect(memory).to_contain_text("instead of")
    film.take(3_600)
    panel.page.keyboard.press("Escape")
    expect(memory).to_be_hidden()
    undo = panel.get_by_role("button", name="Undo").last
    film.take(700, undo)
    undo.click()
    expect(panel.get_by_role("button", name="Redo").last).to_be_visible()
    film.take(2_400)


if __name__ == "__main__":
    main()
