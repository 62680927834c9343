"""What a model that works in a notebook meets, in a real JupyterLab.

The model does what a message says (`notebook_model.py`).
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from labkit import Notebook
from notebook_model import MODEL, SHARED, Model
from playwright.sync_api import Page, expect

RTC = find_spec("jupyter_collaboration") is not None
"""All tabs agree then. CI doesn't install it, as each notebook of each test would be a
shared one; run this file in an environment that has it."""


def test_a_model_changes_cells_only_as_it_has_read_them(
    open_shared_notebook: Callable[..., Notebook],
) -> None:
    model = Model(open_shared_notebook(MODEL, "# alpha", "# beta\nx = 1", "# gamma"))
    beta = model.id(2)
    model.do("read_notebook", cells=[beta])
    model.types(2, "# beta\nperson_line = 'important'\nx = 1")
    for asked in (
        {"change": "replace", "source": "# beta\nx = 2"},
        {"change": "delete"},
        {"change": "kind", "kind": "markdown"},
    ):
        model.types(2, f"{model.source(2)}  # more")
        told = model.edit(cell=beta, **asked)
        assert "it has changed since. Cell 3 now:\n# beta\nperson_line" in told
    assert model.source(2).startswith("# beta\nperson_line = 'important'\nx = 1")
    told = model.edit("replace", cell=beta, old="x = 1", source="x = 22")
    assert told == f"changed cell 3 of 4, id {beta[:8]}"
    assert model.source(2).startswith("# beta\nperson_line = 'important'\nx = 22")
    for old, new in (
        ("important", "\U0001f600"),
        ("\U0001f600", "\U0001f601\U0001f602"),
    ):
        model.edit("replace", cell=beta, old=old, source=new)
        assert f"person_line = '{new}'" in model.source(2)
    alpha, long = model.source(1), "a = 1\n" + "#" * 99_990
    model.types(1, long)
    more = {"old": "a = 1", "source": "a = 1_000_000"}
    told = model.edit("replace", cell=model.id(1), **more)
    assert told == "error: NbchatError: a cell has at most 100000 characters"
    assert model.source(1) == long
    model.types(1, alpha)

    told = model.edit("replace", cell="3", source="")
    assert f"not its number, which changes; cell 3 has the id {beta[:8]} now" in told
    model.do("read_notebook", cells=[beta[:8]])
    assert "now raw: cell 3 of 4" in model.edit("kind", cell=beta[:8], kind="raw")
    told = model.edit("replace", cell=beta, source="# beta", kind="markdown")
    assert told == f"changed, markdown: cell 3 of 4, id {beta[:8]}"
    kinds = f"() => {SHARED}.cells.map(each => each.cell_type)"
    assert model.page.evaluate(kinds) == ["code", "code", "markdown", "code"]
    assert model.id(2) == beta
    assert "moved, now cell 4 of 4" in model.edit("move", cell=beta, after=model.id(3))
    assert "moved, now cell 1 of 4" in model.edit("move", cell=beta)
    assert "deleted cell 1; 3 cells are left" in model.edit("delete", cell=beta)
    assert [model.source(n).split("\n")[0] for n in (1, 2)] == ["# alpha", "# gamma"]
    model.do("read_notebook", cells=[model.id(0)])
    assert "shows the chat" in model.edit("delete", cell=model.id(0))
    model.page.evaluate(f"() => {SHARED}.cells[1].setMetadata('editable', false)")
    model.do("read_notebook", cells=[model.id(1)])
    assert "not editable" in model.edit("replace", cell=model.id(1), source="")
    model.page.evaluate(
        "() => { window.jupyterapp.shell.currentWidget.content.model.readOnly = true }"
    )
    told = model.edit("insert", after=model.id(1), source="1")
    assert told == "error: NbchatError: this notebook is read-only"
    assert model.do("read_notebook").startswith("3 cells\n1 ")


KINDS = r"""
from IPython.display import HTML, Latex, SVG, Image, JSON, display
import io, matplotlib.pyplot as plt
print('line one\nline "two"')
plt.plot([1, 2]); plt.show()
display(HTML('<table><tr><th>region</th><th>sum</th></tr><tr><td>north</td><td>3</td></tr></table>'))
display(Latex(r'$\frac{1}{2}$'))
display(HTML('<p>plain <b>words</b></p>'))
print('the end')
"""

DRAWN = r"""
from IPython.display import HTML, SVG, Image, display
from PIL import Image as Pillow
square = '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="200"><rect width="200" height="200" fill="red"/></svg>'
display(SVG(square), HTML(f'<div>{square}</div>'))
file = io.BytesIO()
Pillow.effect_noise((1600, 900), 90).convert('RGB').save(file, 'JPEG', quality=95)
display(Image(file.getvalue(), format='jpeg'))
"""

PLOTTED = """
spec = {'$schema': 'https://vega.github.io/schema/vega-lite/v5.json', 'mark': 'bar', 'title': 'Sales',
    'data': {'values': [{'month': 1, 'sum': 2}]}, 'encoding': {'x': {'field': 'month'}, 'y': {'field': 'sum'}}}
vega = {'application/vnd.vegalite.v5+json': spec, 'text/plain': '<VegaLite 5 object>\\n\\nIf you see this'}
display(vega, raw=True)
late = '''<div></div><script>{ const place = document.currentScript.previousElementSibling
const library = Object.assign(document.createElement('script'), {src: 'data:text/javascript,0'})
library.onload = () => { const canvas = document.createElement('canvas')
    Object.assign(canvas, {width: 120, height: 90}).getContext('2d').fillRect(0, 0, 120, 90)
    place.attachShadow({mode: 'open'}).append(canvas) }
document.head.append(library) }</script>'''
display({'text/html': late, 'text/plain': 'Figure(id=1)'}, raw=True)
figure = {'data': [{'type': 'bar', 'name': 'north'}], 'layout': {'title': {'text': 'Costs'}}}
display({'application/vnd.plotly.v1+json': figure}, raw=True)
"""

MANY = """
from IPython.display import Image, display
file = io.BytesIO(); Pillow.new('RGB', (50, 50)).save(file, 'PNG')
for n in range(60): display(Image(file.getvalue()))
"""

FAILED = """
import pandas as pd
print('\\n'.join(f'epoch {n}: loss {1 / (n + 1):.6f}' for n in range(2000)))
frame = pd.DataFrame({'amount': [1]})
frame['amuont'].sum()
"""


@pytest.mark.slow
def test_a_model_reads_what_cells_put_out_as_text_and_three_small_pictures(
    open_shared_notebook: Callable[..., Notebook],
) -> None:
    loud = "print('x' * 99 + '\\n' * 1, end='') or print(('y' * 99 + '\\n') * 2_000)"
    cells = (
        KINDS,
        DRAWN,
        MANY,
        FAILED,
        loud,
        "import ipywidgets; each = ipywidgets.Label(); display(each); each.value = 'now'",
        PLOTTED,
    )
    model = Model(open_shared_notebook(MODEL, *cells))
    text = model.run(1)
    assert 'line one\nline "two"\n[picture 1 of 1]' in text
    assert (
        "| region | sum |\n| north | 3 |\n$\\frac{1}{2}$\nplain words\nthe end" in text
    )
    assert len(model.result()) == 1
    text = model.run(2)
    assert "[picture 1 of 3]\n[picture 2 of 3]\n[picture 3 of 3]" in text
    sizes = model.result()
    assert len(sizes) == 3
    assert max(sizes) < 1_000_000
    expect(model.panel.locator(".nbc-spent").last).to_contain_text("2 requests")
    said = model.panel.locator(".nbc-user")
    expect(said.filter(has_text="picture")).to_have_count(0)
    assert "[57 more pictures]" in model.run(3)
    assert len(model.result()) == 3
    text = model.run(4)
    assert text.split("\n")[1] == "KeyError: 'amuont'"
    assert "----> 4 frame['amuont'].sum()" in text
    assert (
        model.do("read_notebook", cells=[model.id(4)]).count("KeyError: 'amuont'") > 1
    )
    assert "characters removed]" in model.run(5)
    assert "[widget] Label(value='')" in model.run(6)
    expect(model.notebook.outputs(6)).to_have_text("now")
    told = model.do("read_notebook", cells=[model.id(6)])
    assert told.endswith("[widget] Label(value='')\nshows: now")
    _, *shown = model.run(7).split("\n")
    vega = '[picture 1 of 2: Vega plot, "Sales", bar of x month, y sum]'
    plotly = '[not drawn: Plotly plot, "Costs", bar "north"]'
    assert shown == [
        vega,
        "[picture 2 of 2: Figure(id=1)]",
        plotly,
        "[2 pictures follow]",
    ]
    assert min(model.result()) > 500


def a_cell_asks(model: Model) -> None:
    """A cell waits for the person to answer input(), and the model is told so."""
    asking = "waiting for the user to answer its input()"
    assert f"{asking}; interrupt, or read it later" in model.run(1, wait_seconds=1)
    model.begin("read_notebook", cells=[model.id(1)], wait_seconds=60)
    question = model.panel.locator(".nbc-run-form")
    expect(question).to_contain_text("Your name?")
    expect(question.get_by_role("textbox")).to_be_in_viewport()
    question.get_by_role("textbox").fill("Ada")
    question.get_by_role("button", name="Answer").click()
    told = model.told()
    assert "hello Ada" in told
    assert asking not in told
    expect(question).to_have_count(0)


@pytest.mark.slow
def test_a_model_waits_asks_and_is_stopped_with_its_cell(
    open_shared_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    asks = "name = input('Your name? ')\nprint('hello', name)"
    endless = (
        "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)"
    )
    deaf = (
        "import time\nprint('begun', flush=True)\nwhile True:\n    try:\n        time.sleep(0.05)\n"
        "    except KeyboardInterrupt:\n        print('no')"
    )
    script = f"{SHARED}.deleteCell(5)"
    vanishing = f"from IPython.display import Javascript\nJavascript({script!r})"
    model = Model(
        open_shared_notebook(MODEL, asks, endless, "print('mine')", deaf, vanishing)
    )
    a_cell_asks(model)

    told = model.run(2, wait_seconds=1)
    assert "still running; interrupt, or read it later\nbegun" in told
    assert "running" in model.do("read_notebook", cells=[model.id(2)]).split("\n")[0]
    told = model.run(3, wait_seconds=1)
    assert "not run: the kernel is busy with cell 3, for" in told
    assert "KeyboardInterrupt" in model.do("interrupt")
    assert "no cell that you started is running" in model.do("interrupt")
    assert model.run(3).endswith("mine")

    told = model.run(5)
    assert "the cell ran, and was deleted meanwhile with its outputs" in told
    model.notebook.start(2)  # the person's own cell
    expect(model.notebook.outputs(2)).to_have_text("begun\n")
    model.begin("run_cells", cells=[model.id(3)])
    expect(model.notice).to_contain_text("Waiting: the kernel is busy with cell 3.")
    screenshot("waits")
    model.notice.get_by_role("button", name="Withdraw").click()
    assert "the person withdrew it: not run" in model.told()
    model.notebook.execute("notebook:interrupt-kernel")
    model.notebook.join()

    model.begin("run_cells", cells=[model.id(2)])
    expect(model.notebook.outputs(2)).to_have_count(1)
    expect(model.notebook.outputs(2)).to_have_text("begun\n")
    model.panel.get_by_role("button", name="Stop").click()
    expect(model.notebook.outputs(2).last).to_contain_text("KeyboardInterrupt")
    expect(model.notice).to_be_hidden()
    expect(model.card).to_have_attribute("data-state", "failed")
    model.begin("run_cells", cells=[model.id(4)])
    expect(model.notebook.outputs(4)).to_have_text("begun\n")
    model.panel.get_by_role("button", name="Stop").click()
    expect(model.notice).to_contain_text("Cell 5 doesn't stop. Restart the kernel")
    screenshot("does-not-stop")
    model.notice.get_by_role("button", name="Restart kernel").click()
    expect(model.panel).to_contain_text("The kernel restarted.")
    state = "() => window.jupyterapp.shell.currentWidget.content.widgets[4].model.executionState"
    assert model.page.evaluate(state) == "idle"


EDITS = 3
"""In two tabs; `tests/benchmarks/notebook_agent.py --tabs 50` makes a hundred."""


@pytest.mark.slow
def test_a_model_works_in_the_tab_where_the_person_types(
    open_shared_notebook: Callable[..., Notebook], page: Page
) -> None:
    notebook = open_shared_notebook(MODEL, "x = 1")
    first = Model(notebook)
    notebook.save()
    other = page.context.new_page()
    told = list[str]()
    try:
        other.goto(notebook.lab.address(notebook.name))
        expect(other.locator(".nbc-input")).to_be_visible(timeout=60_000)
        second = Model(notebook, other)
        for number in range(EDITS):
            tab, rest = (first, second) if number % 2 else (second, first)
            tab.page.bring_to_front()
            tab.steps = rest.steps
            before, unseen = f"x = {number}", rest.source(1)
            tab.types(1, before)
            told.append(tab.do("read_notebook", cells=[tab.id(1)]))
            assert f"\n{before}" in told[-1]
            new = f"{before}\ny = {number}"
            told.append(tab.edit("replace", cell=tab.id(1), source=new))
            assert told[-1].startswith("changed cell 2 of 2")
            assert tab.source(1) == new
            assert RTC or rest.source(1) == unseen
    finally:
        other.close()
    named = [each for each in told if "Another tab shows a different version" in each]
    assert bool(named) is not RTC
