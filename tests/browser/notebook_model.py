"""A model that does in a notebook what a message says, and the panel that shows it.

A message is the name of a tool and its arguments as JSON.
"""

import json
from typing import Any

from labkit import Notebook
from panels import say
from playwright.sync_api import Page, expect

MODEL = r"""
import json, os
os.environ.update(
    NBCHAT_MODEL='openai:no-model', OPENAI_BASE_URL='http://127.0.0.1:9/v1',
    NBCHAT_STORE_URL='sqlite://', NBCHAT_NOTEBOOK_TOOLS='1', NBCHAT_NOTEBOOK_CONTEXT='off',
)
%load_ext nbchat
from nbchat.testing import ScriptedProvider, calls, says

def follow(request):
    prompts = [n for n, e in enumerate(request.history) if e.role == 'user' and not e.tool_name]
    said, new = request.history[prompts[-1]].content, request.history[prompts[-1] + 1:]
    name, _, arguments = said.partition(' ')
    if not new:
        return calls(name, **json.loads(arguments))
    told = [e.content for e in new if e.role == 'tool'][-1]
    sizes = [len(e.tool_args) for e in new if e.tool_name == 'image']
    with open('told.json', 'w') as file:
        json.dump({'text': told, 'pictures': sizes}, file)
    return says(f'Step {len(prompts)} is done.')

agent = %chat agent
agent.use(ScriptedProvider(*[follow] * 2000))
%chat /allow all
%chat
"""

HAS_SAID = """said => document.querySelector(
    '.jp-NotebookPanel:not(.lm-mod-hidden) .nbc-log')?.textContent.includes(said)"""
"""`expect` would look again after a second."""

SHARED = "window.jupyterapp.shell.currentWidget.content.model.sharedModel"


class Model:
    """The model of a notebook whose first cell is MODEL, and its panel."""

    def __init__(self, notebook: Notebook, page: Page | None = None) -> None:
        """Run the cell, or use the panel that another page shows already."""
        self.notebook = notebook
        self.page = page or notebook.page
        if page is None:
            notebook.run(0)
        self.panel = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .nbc")
        self.notice = self.panel.locator(".nbc-cell-notice")
        self.card = self.panel.locator(".nbc-tool").last
        self.steps = 0
        expect(self.panel.locator(".nbc-model")).to_have_text("scripted:model")

    def begin(self, tool: str, **arguments: Any) -> None:
        """Have the model call a tool."""
        self.steps += 1
        say(self.panel, f"{tool} {json.dumps(arguments)}")

    def told(self) -> str:
        """What the tool has answered, in the end."""
        self.result()
        return str(self._told["text"])

    def result(self) -> list[int]:
        """The sizes of the pictures that the model was sent."""
        done = f"Step {self.steps} is done."
        self.page.wait_for_function(HAS_SAID, arg=done, polling=50, timeout=60_000)
        self._told = json.loads((self.notebook.lab.root / "told.json").read_text())
        return list(self._told["pictures"])

    def do(self, tool: str, **arguments: Any) -> str:
        """Have the model call a tool; its answer."""
        self.begin(tool, **arguments)
        return self.told()

    def edit(self, change: str, **arguments: Any) -> str:
        return self.do("edit_notebook", change=change, **arguments)

    def run(self, index: int, **arguments: Any) -> str:
        return self.do("run_cells", cells=[self.id(index)], **arguments)

    def id(self, index: int) -> str:
        found: str = self.page.evaluate(f"n => {SHARED}.cells[n].id", index)
        return found

    def source(self, index: int) -> str:
        found: str = self.page.evaluate(f"n => {SHARED}.cells[n].source", index)
        return found

    def types(self, index: int, source: str) -> None:
        """A person changes a cell."""
        change = f"([n, source]) => {SHARED}.cells[n].setSource(source)"
        self.page.evaluate(change, [index, source])
