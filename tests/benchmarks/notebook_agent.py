"""How a model works in a notebook: tokens, requests, clicks and seconds of 21 tasks.

    python tests/benchmarks/notebook_agent.py [--by approve|turn|always] [--only NAME,NAME]
    python tests/benchmarks/notebook_agent.py --tabs 50

Scripts play the model (`support/notebook_tasks.py`) behind OpenAI's API; all else is
real: JupyterLab in Chromium, the panel, the tools, the kernel. Every change is approved
by a click; with `--by turn` all of a turn, with `always` all later ones of a tool. A
task is right if its script has seen what it expects and its check passes in the kernel.
Tokens are of all requests, tools and the notebook's block included, counted with
o200k_base, a picture as 1,000; cached are those at the start of a request that were in
the one before. What a compaction between two turns asks is not counted.

With `--tabs` two tabs show one notebook, and a person has the model edit in both, as
often as said in each, cells that she has just changed there. Counted are edits that
reached another cell or tab, and refusals.

The figures are printed and never asserted. Those of the first version, for "load,
clean, plot, fix": 16,580 tokens, 11 requests, 10 clicks.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))

import nbformat
from labkit import Lab, Notebook, chromium, going_on, lab_server, load_lab
from notebook_model import MODEL, Model
from notebook_models import NotebookModel
from notebook_tasks import TABLES, Script, Task, tasks
from panels import say
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page

from nbchat.providers.tokens import TokenCounter

PICTURE_TOKENS = 1_000

SUMMARY = "<summary>\nThe person's task in the notebook is done.\n</summary>"
"""What a compaction in the background gets, whose request has no tools."""

TASK_SECONDS = 120

BUTTONS = {
    "approve": "Approve",
    "turn": "Approve all of this turn",
    "always": "Always approve in this session",
}

COUNTING = """panel => {
    window.nbchatClicks = 0;
    panel.addEventListener('click', ({ target }) => {
        if (target.closest('.nbc-decision button')) window.nbchatClicks++ }, true) }"""
"""Counts clicks on the buttons of cards."""

SETUP = """
import os
os.environ.update({environment})
os.environ['NBCHAT_MODEL'] = 'openai:agent'
os.environ['NBCHAT_NOTEBOOK_TOOLS'] = 'true'
os.environ['NBCHAT_STORE_URL'] = 'sqlite://'
%load_ext nbchat
%chat
"""


@dataclass
class Figures:
    """What a task has taken."""

    name: str
    problem: str = ""
    requests: int = 0
    tokens: int = 0
    cached: int = 0
    pictures: int = 0
    clicks: int = 0
    seconds: float = 0.0
    parts: list[str] = field(default_factory=list)
    """The messages of the last request, from which the next may be cached."""


class ScriptedAgent(NotebookModel):
    """Plays one script after the other, and counts what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.figures = Figures("")
        self.script: Script | None = None

    def begin(self, task: Task) -> Figures:
        """Play the script of a task from now on."""
        self.figures, self.script = Figures(task.name), task.script()
        self._has_begun = False
        return self.figures

    def reply(
        self, body: dict[str, Any], messages: list[dict[str, Any]]
    ) -> str | tuple[str, dict[str, Any]]:
        if not body.get("tools"):
            return SUMMARY
        self._count(body, messages)
        results = [each for each in messages if each["role"] == "tool"]
        assert self.script is not None
        try:
            if not self._has_begun:
                self._has_begun = True
                return next(self.script)
            return self.script.send(str(results[-1]["content"]))
        except StopIteration as ended:
            return str(ended.value)
        except Exception as error:  # noqa: BLE001  # what the script expected was not there
            self.figures.problem = f"{type(error).__name__}: {error}"
            return f"I give up: {error}"

    def _count(self, body: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        figures = self.figures
        parts = [json.dumps(body.get("tools", [])), *map(_text, messages)]
        same = next(
            (
                n
                for n, pair in enumerate(zip(parts, figures.parts, strict=False))
                if len({*pair}) > 1
            ),
            min(len(parts), len(figures.parts)),
        )
        pictures = sum(map(_pictures, messages))
        figures.requests += 1
        figures.tokens += sum(map(tokens, parts)) + PICTURE_TOKENS * pictures
        figures.cached += sum(map(tokens, parts[:same]))
        figures.pictures += pictures
        figures.parts = parts


@cache
def tokens(text: str) -> int:
    """Tokens of a text."""
    return counter().count(text)


@cache
def counter() -> TokenCounter:
    """Counts with o200k_base."""
    return TokenCounter()


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(each.get("text", "") for each in content)
    calls = [each["function"] for each in message.get("tool_calls") or []]
    return content + "".join(f"{each['name']}{each['arguments']}" for each in calls)


def _pictures(message: dict[str, Any]) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return sum(each.get("type") == "image_url" for each in parts)


class TaskNotebook(Notebook):
    """A notebook with the cells of a task below the one that shows the chat."""

    def __init__(
        self, page: Page, lab: Lab, task: Task, number: int, setup: str
    ) -> None:
        super().__init__(page, lab, f"task-{number}.ipynb", (setup,))
        book = nbformat.read(lab.root / self.name, as_version=4)
        for each in task.cells:
            make = getattr(nbformat.v4, f"new_{each.kind}_cell")
            cell = make(each.source)
            if each.pictures:
                cell.execution_count = 1
                cell.outputs = [
                    nbformat.v4.new_output("display_data", {"image/png": picture})
                    for picture in each.pictures
                ]
            book.cells.append(cell)
        nbformat.write(book, lab.root / self.name)

    def problem_of(self, code: str) -> str:
        """Run code in the kernel; its error, if it has one."""
        found: str = self.page.evaluate(
            f"""async code => {{
                const {{ kernel }} = {self._CURRENT}.context.sessionContext.session;
                const asked = kernel.requestExecute({{ code, silent: true }});
                const {{ content }} = await asked.done;
                return content.status === 'ok' ? '' : content.ename + ': ' + content.evalue }}""",
            code,
        )
        return found


def perform(
    task: Task, page: Page, lab: Lab, agent: ScriptedAgent, number: int, *, by: str
) -> Figures:
    """Have a task done, approving what is asked."""
    for table in task.tables:
        (lab.root / table).write_text(TABLES[table]())
    setup = SETUP.format(environment=agent.environment)
    notebook = TaskNotebook(page, lab, task, number, setup)
    notebook.open()
    for index, each in enumerate(task.cells, 1):
        if each.runs:
            notebook.run(index)
    notebook.run(0)
    panel = notebook.outputs(0).locator(".nbc")
    panel.locator("textarea").first.wait_for()
    figures = agent.begin(task)
    began = time.monotonic()
    say(panel, task.ask)
    figures.clicks = approve_all(panel, by)
    figures.seconds = time.monotonic() - began
    if not figures.problem and task.check:
        figures.problem = notebook.problem_of(task.check)
    notebook.close()
    return figures


def approve_all(panel: Locator, choice: str) -> int:
    """Approve each card by one of the buttons, until the turn ends; clicks."""
    panel.evaluate(COUNTING)
    until = time.monotonic() + TASK_SECONDS
    card = panel.locator(".nbc-tool[data-state='waiting']").first
    unread = card.locator(".nbc-unread")
    approve = card.get_by_role("button", name=BUTTONS[choice], exact=True)
    while time.monotonic() < until and not panel.locator(".nbc-spent").count():
        with suppress(PlaywrightError):  # the card is drawn again meanwhile
            if unread.is_visible():
                unread.click(timeout=500)
            elif approve.is_visible() and approve.is_enabled(timeout=500):
                approve.click(timeout=500)
    clicks: int = panel.evaluate("() => window.nbchatClicks")
    return clicks


def two_tabs(page: Page, lab: Lab, edits: int) -> str:
    """Edits in two tabs on one notebook, in turn; a line of figures."""
    names = [f"x_{n}" for n in range(1, 11)]
    notebook = Notebook(page, lab, "tabs.ipynb", (MODEL, *(f"{n} = 0" for n in names)))
    notebook.open()
    first = Model(notebook)
    notebook.save()
    other = going_on(page.context.new_page())
    other.goto(f"{lab.url}/lab/tree/{notebook.name}")
    other.locator(".nbc-input").wait_for(timeout=60_000)
    tabs = (first, Model(notebook, other))
    wrong, refused = [0, 0], [0, 0]
    for number in range(2 * edits):
        at, index = number % 2, number * 7 % len(names) + 1
        tab, rest = tabs[at], tabs[1 - at]
        tab.page.bring_to_front()
        tab.steps = rest.steps
        typed, cell = f"{names[index - 1]} = {number}", tab.id(index)
        tab.types(index, typed)
        before = [[each.source(n) for n in range(1, 11)] for each in tabs]
        tab.do("read_notebook", cells=[cell])
        told = tab.edit("replace", cell=cell, source=f"{typed}\nprint({number})")
        refused[at] += not told.startswith(f"changed cell {index + 1} of 11")
        before[at][index - 1] = f"{typed}\nprint({number})"
        now = [[each.source(n) for n in range(1, 11)] for each in tabs]
        wrong[at] += now != before
    other.close()
    notebook.close()
    return f"{edits} edits in each of two tabs: wrong {wrong}, refused {refused}"


def shown(found: Sequence[Figures]) -> str:
    """The figures as a table."""
    rows = [
        "task                     | right | requests | tokens | cached | pictures | clicks | seconds"
    ]
    for each in found:
        figures = f"{each.requests:8} | {each.tokens:6,} | {each.cached:6,} | {each.pictures:8} | {each.clicks:6} | {each.seconds:7.1f}"
        rows.append(
            f"{each.name:24} | {'no' if each.problem else 'yes':5} | {figures}  {each.problem[:300]}"
        )
    right = sum(not each.problem for each in found)
    rows.append(f"{right} of {len(found)} right")
    return "\n".join(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--by", choices=BUTTONS, default="approve")
    parser.add_argument("--only", default="")
    parser.add_argument("--tabs", type=int, default=0)
    options = parser.parse_args()
    found: list[Figures] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(ScriptedAgent()) as agent,
        chromium() as browser,
        lab_server(Path(folder)) as lab,
    ):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(TASK_SECONDS * 1_000)
        load_lab(page, lab, "Light")
        if options.tabs:
            print(two_tabs(page, lab, options.tabs))
            return
        for number, task in enumerate(tasks()):
            if any(each in task.name for each in options.only.split(",")):
                found.append(perform(task, page, lab, agent, number, by=options.by))
                print(shown(found[-1:]).splitlines()[1], flush=True)
    print(shown(found))


if __name__ == "__main__":
    main()
