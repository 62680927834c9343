"""Pictures of 24 states of the panel, and of eight of them in all forms, to be looked at.

    python tests/benchmarks/looks.py [FOLDER] [--only NAME ...]

A form is a theme and a width: light and dark, 350 and 1,920 pixels. The panel stands in
a blank page, as high as it's in a cell or as beside a notebook.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

for place in ("browser", "support"):
    sys.path.insert(0, str(Path(__file__).parents[1] / place))
HOME = tempfile.mkdtemp(prefix="nbchat-looks-")
for name in [each for each in os.environ if each.endswith("_API_KEY")]:
    del os.environ[name]
os.environ |= {"JUPYTER_DATA_DIR": HOME, "JUPYTER_CONFIG_DIR": HOME}

from labkit import chromium  # noqa: E402
from panel_page import PanelPage, PanelServer, comms_through  # noqa: E402
from panels import choose, is_idle, say  # noqa: E402
from playwright.sync_api import Locator, Page, expect  # noqa: E402

FORMS = [("Dark", 760), ("Light", 350), ("Dark", 350), ("Light", 1920)]

IN_ALL_FORMS = [
    "answer",
    "approval",
    "error",
    "compaction",
    "view",
    "models",
    "settings",
    "attachments",
]

BEGIN = """
%load_ext nbchat
import threading, time
import numpy as np
import pandas as pd
from nbchat.conversation.session import Session
from nbchat.errors import AuthenticationFailed, ConnectionFailed, KeyWithheld
from nbchat.testing import ScriptedProvider, calls, fails, says

orders = pd.DataFrame({"region": ["north", "south"] * 900, "paid": np.arange(1_800) * 1.5})
def look_up(ticket: int) -> str:
    "Read a ticket."
    return f"Ticket {ticket}: the printer is offline since Monday."
def refund(order: str, amount: float) -> str:
    "Pay an order back."
    return "done"
def scripted(*lines, **more):
    agent = get_ipython().run_line_magic("chat", "agent")
    for name, value in more.items():
        setattr(agent, name, value)
    agent.use(ScriptedProvider(*lines, window=64_000))
    return agent
ANSWER = '''The **south** pays less. Its median is \\\\(m = 674\\\\).

| region | orders | median |
|---|--:|--:|
| north | 900 | 675.0 |
| south | 900 | 674.0 |

```python
orders.groupby("region")["paid"].median().plot.barh()
```

1. Both have 900 orders.
2. No value is missing.
'''
"""

SESSION = """
from memory_cases import notebook_work
agent = scripted(says(SUMMARY), says("It goes on."))
session = Session([tuple(each) for each in notebook_work("insight-bench")[0].entries])
agent.session = session
%chat
"""

SUMMARY = (
    "<summary>We looked at 500 incidents (csvs/flag-15.csv). Beth Anglin and Luke "
    "Wilson are assigned more incidents than the others between 2023-06-01 and "
    "2023-08-28, while Howard Johnson, Charlie Whitherspoon and Fred Luddy are away; "
    "categories and the time to resolution stay the same. The forecast for Beth Anglin "
    "from 2023-08-16 on is a linear increase. Open: what happens if nothing is done."
    "</summary>"
)


class Studio:
    """Opens panels in one page, and takes their pictures."""

    def __init__(self, page: Page, server: PanelServer, folder: Path) -> None:
        """Pictures go to the folder."""
        self.page, self.server, self.folder = page, server, folder
        self.form = ("Light", 760)
        self.opened: PanelPage | None = None

    def panel(self, *sources: str, before: str = BEGIN) -> Locator:
        """The panel that the cells show, idle."""
        self.end()
        theme, width = self.form
        self.page.set_viewport_size({"width": width, "height": 900})
        cells = (before, *sources)
        self.opened = PanelPage(self.page, self.server, cells, theme)
        for index in range(len(cells)):
            self.opened.run(index)
        panel = self.page.locator(".nbc").first
        expect(panel.locator(".nbc-model")).not_to_be_empty()
        return panel

    def end(self) -> None:
        """Close what is open."""
        if self.opened is not None:
            self.opened.close()
            self.opened = None

    def take(self, name: str) -> None:
        """Save a picture once the panel has its answers."""
        if self.opened is not None:
            self.opened.await_answers()
        theme, width = self.form
        path = self.folder / f"{name}-{theme.lower()}-{width}.png"
        self.page.screenshot(path=str(path))
        print(path, flush=True)


def start(studio: Studio) -> None:
    """An empty chat with the trial model, and one whose key is missing."""
    studio.panel("%chat")
    studio.take("start")
    os.environ["NBCHAT_MODEL"] = "anthropic:claude-haiku-4-5"
    try:
        studio.panel("%chat")
        studio.take("no-key")
    finally:
        del os.environ["NBCHAT_MODEL"]


def answer(studio: Studio) -> None:
    """An answer as it comes, and when it is complete."""
    panel = studio.panel("agent = scripted(says(ANSWER, delay_seconds=0.15))", "%chat")
    say(panel, "Which region pays less in @orders?")
    expect(panel.locator(".nbc-live table")).to_be_visible()
    studio.page.screenshot(path=str(studio.folder / "streaming.png"))
    is_idle(panel)
    studio.take("answer")


def approval(studio: Studio) -> None:
    """Calls: done, waiting, denied with a reason, and a message in the queue."""
    panel = studio.panel(
        "agent = scripted(calls('look_up', ticket=42), "
        "calls('refund', order='W-1077', amount=129.9), says('I left it.'))\n"
        "from nbchat.agent.approvals import Approvals\n"
        "from nbchat.conversation.tools import tool\n"
        "agent.tools = (tool(read_only=True)(look_up), refund)\n"
        "agent.approve = Approvals()",
        "%chat",
    )
    say(panel, "Refund what the ticket 42 is about.")
    expect(panel.get_by_text("W-1077").first).to_be_visible()
    studio.take("approval")
    say(panel, "And tell Ann.")
    studio.take("queue")
    panel.get_by_role("button", name="Deny", exact=True).first.click()
    is_idle(panel)
    studio.take("denied")


def error(studio: Studio) -> None:
    """A lost connection, a refused key, a withheld one, and Stop before an answer."""
    panel = studio.panel(
        "refused = AuthenticationFailed('OpenAI rejected the API key.')\n"
        "refused.kind = 'openai'\n"
        "agent = scripted("
        "fails(ConnectionFailed('Lost the connection to 127.0.0.1:8000.\\nRemoteProtocolError: "
        "peer closed connection')), fails(refused))\n",
        "%chat",
    )
    say(panel, "Hello")
    is_idle(panel)
    say(panel, "Hello again")
    is_idle(panel)
    studio.take("error")
    panel = studio.panel("agent = scripted(says('x ' * 99, delay_seconds=3))", "%chat")
    say(panel, "Hello")
    panel.get_by_role("button", name="Stop").click()
    is_idle(panel)
    studio.take("stopped")


def compaction(studio: Studio) -> None:
    """The line of a compaction, and what it kept, of an analyst's notebook."""
    panel = studio.panel(f"SUMMARY = {SUMMARY!r}\n{SESSION}")
    say(panel, "/compact")
    is_idle(panel)
    say(panel, "And then?")
    is_idle(panel)
    studio.take("compaction")
    panel.get_by_role("button", name="View").first.click()
    expect(panel.get_by_role("dialog")).to_contain_text("Copied")
    studio.take("view")
    panel.get_by_role("dialog").locator(".nbc-copied").nth(
        1
    ).scroll_into_view_if_needed()
    studio.take("view-more")
    studio.page.keyboard.press("Escape")
    panel.locator(".nbc-open-context").click()
    studio.take("context")
    studio.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Undo").first.click()
    is_idle(panel)
    studio.take("undone")


def models(studio: Studio) -> None:
    """The page of models, with a server that is there."""
    from own_server import OwnServer

    server = OwnServer("qwen3:8b", "gpt-oss:20b", "mistral-small")
    panel = studio.panel("agent = scripted(says('Hello.'))", "%chat")
    panel.locator(".nbc-open-models, .nbc-model").first.click()
    dialog = panel.get_by_role("dialog")
    dialog.get_by_label("Address").fill(server.address)
    dialog.get_by_role("button", name="Connect").click()
    expect(
        dialog.get_by_role("button", name="qwen3:8b", exact=False).first
    ).to_be_visible()
    studio.take("models")
    server.close()


def settings(studio: Studio) -> None:
    """The menu and its dialogs."""
    panel = studio.panel("agent = scripted(says('Hello.'), says('Yes.'))", "%chat")
    say(panel, "Say hello.")
    is_idle(panel)
    panel.get_by_role("button", name="More", exact=True).click()
    studio.take("menu")
    studio.page.keyboard.press("Escape")
    for item in ("Settings", "Sessions", "History"):
        choose(panel, item)
        expect(panel.get_by_role("dialog")).to_be_visible()
        studio.take(item.lower())
        studio.page.keyboard.press("Escape")
    say(panel, "/hlep")
    is_idle(panel)
    say(panel, "/help")
    is_idle(panel)
    studio.take("help")


def attachments(studio: Studio) -> None:
    """Names that complete, chips with tokens, a picture, a problem."""
    panel = studio.panel(
        "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "fig, axes = plt.subplots(); axes.plot([1, 3, 2])\n"
        "agent = scripted(says('A line.'))",
        "%chat",
    )
    panel.locator(".nbc-input").press_sequentially("Compare @")
    studio.take("completion")
    studio.page.keyboard.press("Escape")
    panel.locator(".nbc-input").fill(
        "Compare @orders, @image:fig and @file:no.csv please"
    )
    expect(panel.locator(".nbc-attached-open")).to_have_count(2)
    studio.take("attachments")
    panel.locator(".nbc-attached-open").first.click()
    studio.take("preview")


def gone(studio: Studio) -> None:
    """Without a kernel, and a compaction that waits for a yes."""
    panel = studio.panel(
        "from dataclasses import replace\n"
        "agent = scripted(says('One. ' * 400), says('Two.'))\n"
        "tracker = agent.engine.tracker\n"
        "tracker.use_policy(replace(tracker.policy, asks_first=True), base=tracker.policy)\n"
        "tracker.set_threshold(150)",
        "%chat",
    )
    say(panel, "Hello " * 200)
    is_idle(panel)
    studio.take("asks-first")
    assert studio.opened is not None
    studio.opened.end_kernel()
    expect(panel.locator(".nbc-is-gone, .nbc-gone").first).to_be_attached()
    studio.page.screenshot(path=str(studio.folder / "gone.png"))


SCENES: dict[str, Callable[[Studio], None]] = {
    each.__name__: each
    for each in (
        *(start, answer, approval, error, compaction),
        *(models, settings, attachments, gone),
    )
}


def scenes(
    only: list[str],
) -> Iterator[tuple[tuple[str, int], Callable[[Studio], None]]]:
    """Each scene in light at 760 pixels, and those of `IN_ALL_FORMS` in all forms."""
    chosen = [scene for name, scene in SCENES.items() if not only or name in only]
    yield from ((("Light", 760), scene) for scene in chosen)
    for form in FORMS:
        yield from ((form, each) for each in chosen if each.__name__ in IN_ALL_FORMS)


def main() -> None:
    """Take all pictures; a scene that fails is named, and the others are taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("test-output/looks")
    )
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    server = PanelServer()
    expect.set_options(timeout=20_000)
    with chromium() as browser, comms_through(server):
        page = browser.new_page()
        page.set_default_timeout(20_000)
        studio = Studio(page, server, options.folder)
        for form, scene in scenes(options.only):
            studio.form = form
            try:
                scene(studio)
            except (AssertionError, Exception) as fault:  # noqa: BLE001
                print(f"{scene.__name__} {form}: {fault}"[:600], flush=True)
                page.screenshot(
                    path=str(options.folder / f"fault-{scene.__name__}.png")
                )
        studio.end()
    server.close()


if __name__ == "__main__":
    main()
