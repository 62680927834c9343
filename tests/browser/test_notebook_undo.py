"""What the model changed in a real notebook is undone, and nothing that a person wrote."""

import re
from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panels import panel_of, say
from playwright.sync_api import Locator, expect

MODEL = r"""
import os, re
os.environ['NBCHAT_MODEL'] = 'openai:no-model'
os.environ['OPENAI_BASE_URL'] = 'http://127.0.0.1:9/v1'
os.environ['NBCHAT_NOTEBOOK_TOOLS'] = 'true'
%load_ext nbchat
from nbchat.testing import ScriptedProvider, calls, says

def by(number, change, **what):
    at = 'after' if change == 'insert' else 'cell'
    def call(request):
        read = [e for e in request.history if e.role == 'tool' and ' cells' in e.content[:12]][-1]
        return calls('edit_notebook', change=change, **{name: re.search(
            rf'(?m)^{value} (\S+) ', read.content)[1] if name in ('cell', 'after') else value
            for name, value in {at: number, **what}.items()})
    return call

def read(number):
    return lambda r: calls('read_notebook', cells=[re.search(
        rf'(?m)^{number} (\S+) ', next(e for e in r.history if e.role == 'tool').content)[1]])

agent = %chat agent
if not agent.session.transcript:
    agent.approve = True
    agent.use(ScriptedProvider(
        calls('read_notebook'), *(read(n) for n in (2, 3, 4, 5)),
        by(2, 'replace', source="a = 20\nprint('a is', a)", run=True),
        by(3, 'replace', source='b = 30'),
        by(4, 'delete'),
        by(5, 'move', after=1),
        by(2, 'insert', source='new = 1'),
        says('Done.'),
    ))
else:
    agent.use(ScriptedProvider(says('Again.')))
%chat
"""

SOURCES = "() => window.jupyterapp.shell.currentWidget.model.sharedModel.cells.slice(1).map(cell => cell.source)"

SET = """([index, source]) =>
    window.jupyterapp.shell.currentWidget.model.sharedModel.cells[index].setSource(source)"""

BEFORE = ["a = 2\nprint('a is', a)", "b = 3", "c = 4\nprint('c is', c)", "d = 5"]


def undo(panel: Locator, name: str = "Undo changes of this turn") -> None:
    panel.get_by_role("button", name=name, exact=True).click()


def test_a_turn_is_undone_but_for_what_a_person_wrote_since_also_after_a_restart(
    open_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    notebook = open_notebook(MODEL, *BEFORE)
    page = notebook.page
    notebook.run(1)
    notebook.run(3)
    panel = panel_of(notebook)
    say(panel, "Change all of it.")
    line = panel.locator(".nbc-cells")
    expect(line).to_contain_text("Changed 2 cells, added 1, deleted 1, moved 1.")
    expect(line).to_contain_text("Variables keep their values.")
    expect(notebook.outputs(2)).to_have_text("a is 20\n")
    screenshot("changed")
    assert page.evaluate(SOURCES) == [
        "d = 5",
        "a = 20\nprint('a is', a)",
        "new = 1",
        "b = 30",
    ]
    page.evaluate(SET, [4, "b = 30\nmine = 1"])

    notebook.restart_kernel()
    panel = panel_of(notebook)
    undo(panel)
    left = line.locator("details")
    expect(left).to_have_text(re.compile("Cell 3 has edits you made since"))
    expect(line).to_contain_text("Undone in 4 cells.")
    assert page.evaluate(SOURCES) == [BEFORE[0], "b = 30\nmine = 1", *BEFORE[2:]]
    expect(notebook.outputs(1)).to_have_text("a is 2\n")
    expect(notebook.outputs(3)).to_have_text("c is 4\n")
    left.locator("summary").click()
    expect(left).to_contain_text("-mine = 1")
    screenshot("left")
    undo(panel, "Restore anyway")
    expect(line).to_contain_text("Undone in 5 cells.")
    assert page.evaluate(SOURCES) == BEFORE
    expect(line.get_by_role("button")).to_have_count(0)
    screenshot("undone")
