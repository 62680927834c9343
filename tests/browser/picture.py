"""The README's picture: the panel in JupyterLab after a compaction, on a scripted model.

python tests/browser/picture.py
"""

import tempfile
from pathlib import Path

from labkit import (
    REPOSITORY,
    Notebook,
    chromium,
    lab_server,
    load_lab,
)
from panels import ask, is_idle, say
from playwright.sync_api import Locator, Page, expect

PICTURE = REPOSITORY / "notebooks" / "panel.png"

BEHIND = """
import os
os.environ['NBCHAT_MODEL'] = 'openai:no-model'
os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'
%load_ext nbchat
from nbchat.testing import ScriptedProvider, calls, says
from nbchat.conversation.tools import as_tools

REASON = '''The merge finds nothing because the keys differ in type: `orders.customer` is
text, `customers.id` is an integer. No row of $1{,}204$ matches.

```python
orders["customer"] = orders["customer"].astype(int)
merged = orders.merge(customers, left_on="customer", right_on="id")
```'''

STORY = '''<summary>
**Goal** The user merges orders with customers and found no rows.

**Findings** orders.customer was text, customers.id an integer; after astype(int) all 1,204
orders have their customer.

**Next** Revenue per region, refunds omitted.
</summary>'''

REGIONS = '''After the fix all 1,204 orders have their customer:

| region | orders | revenue |
|---|---:|---:|
| North | 611 | 48,210.50 |
| South | 593 | 45,977.25 |'''

def dtypes(frame: str) -> str:
    "Tell the types of a dataframe's columns."
    return "order int64, customer object, paid float64, refunded bool"

agent = %chat agent
agent.tools = as_tools([dtypes])
agent.use(ScriptedProvider(
    calls("dtypes", frame="orders"), says(REASON), says(STORY), says(REGIONS)
))
"""
"""Run first and taken out of the notebook: it lets a script answer."""

FRAMES = """import pandas as pd

orders = pd.DataFrame({"order": range(1_204), "customer": ["17"] * 1_204, "paid": 78.2})
customers = pd.DataFrame({"id": [17], "region": ["North"]})"""


def main() -> None:
    """Make the picture again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        lab_server(Path(folder)) as lab,
        chromium() as browser,
    ):
        page = browser.new_page(
            viewport={"width": 1120, "height": 1010}, device_scale_factor=1.5
        )
        load_lab(page, lab, "Light")
        notebook = Notebook(page, lab, "orders.ipynb", (BEHIND, FRAMES, "%chat"))
        notebook.open()
        page.evaluate(
            "window.jupyterapp.commands.execute('application:toggle-left-area')"
        )
        notebook.run(0)
        notebook.run(1)
        talk(notebook.run(2).locator(".nbc"))
        take(notebook, page)


def talk(panel: Locator) -> None:
    """A question, a compaction, another question."""
    expect(panel.locator(".nbc-model")).to_have_text("scripted:model")
    panel.evaluate("panel => { panel.style.height = '740px' }")
    ask(panel, "Why does the merge of @orders find no rows?")
    say(panel, "/compact")
    expect(panel.locator(".nbc-banner[data-state='done']")).to_be_visible()
    is_idle(panel)
    ask(panel, "And the revenue per region?")


def take(notebook: Notebook, page: Page) -> None:
    """The notebook without its first cell."""
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    notebook.execute("notebook:delete-cell")
    page.screenshot(path=str(PICTURE))


if __name__ == "__main__":
    main()
