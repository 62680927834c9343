"""What a person does in a notebook while the model's card waits, and after its turn.

The model does what a message says (`notebook_model.py`).
"""

import time
from collections.abc import Callable

import pytest
from labkit import Notebook
from notebook_model import MODEL, SHARED, Model
from panels import say
from playwright.sync_api import Locator, Route, expect

pytestmark = pytest.mark.slow

CONTENT = "window.jupyterapp.shell.currentWidget.content"

PASTED = "AAAA"

AS_TEXT = f"""pasted => {{
    const notebook = {CONTENT}.model.sharedModel;
    const make = (at, cell_type, more) => {{
        const {{ id, source }} = notebook.cells[at];
        notebook.deleteCell(at);
        notebook.insertCell(at, {{ id, cell_type, source, ...more }}) }};
    make(2, 'markdown', {{}});
    make(6, 'markdown', {{ attachments: {{ 'plot.png': {{ 'image/png': pasted }} }} }});
    notebook.clearUndoHistory() }}"""

FOLDED = f"() => {{ {CONTENT}.widgets[2].headingCollapsed = true }}"

SELECT = f"""([first, last]) => {{
    {CONTENT}.mode = 'command';
    {CONTENT}.deselectAll();
    {CONTENT}.activeCellIndex = first;
    if (last > first) {CONTENT}.extendContiguousSelectionTo(last) }}"""

ATTACHED = f"n => Object.keys({SHARED}.cells[n].getAttachments?.() ?? {{}})"

SET_SECONDS = """
next(e for e in Out.values() if hasattr(e, 'page')).page.answer_seconds = 4
"""
"""What a tool waits for the page."""

FREEZE = """() => {
    const { send } = WebSocket.prototype;
    let isKept = false;
    WebSocket.prototype.send = function (sent) {
        send.call(this, sent);
        const text = typeof sent === 'string' ? sent : new TextDecoder().decode(sent);
        isKept ||= text.includes('"kept"');
        if (!isKept || !text.includes('"digest"')) return;
        WebSocket.prototype.send = send;
        const held = new XMLHttpRequest();
        held.open('GET', '/until-told', false);
        held.send() } }"""
"""Blocks the page's thread once it has said that it is there, just before an edit."""

RENAME = """name => window.jupyterapp.shell.currentWidget.context.rename(name)"""


class Person:
    """The person at the notebook, and the cards of the model."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.model = Model(notebook)
        self.model.page.evaluate(AS_TEXT, PASTED)
        self.ids = [self.model.id(n) for n in range(8)]

    def card(self, cell: int, source: str) -> Locator:
        """The card of a change by the model, which has read the cell."""
        self.model.do("read_notebook", cells=[self.ids[cell]])
        what = {"change": "replace", "cell": self.ids[cell], "source": source}
        self.model.begin("edit_notebook", **what)
        card = self.model.panel.locator("[data-ticket]")
        expect(card).to_be_visible()
        return card

    def does(self, command: str, first: int, last: int = 0) -> None:
        """Run a command of the notebook on the cells that are selected first."""
        self.model.page.evaluate(SELECT, [first, last])
        self.notebook.execute(f"notebook:{command}")

    def approves(self, card: Locator) -> str:
        """What the model then hears."""
        card.get_by_role("button", name="Approve", exact=True).click()
        return self.model.told()

    def undoes(self) -> None:
        """Undo the last turn of the model."""
        self.tries_to_undo("Undone in 1 cell")

    def tries_to_undo(self, said: str) -> None:
        """Undo the last turn of the model; the line under it says something."""
        line = self.model.panel.locator(".nbc-cells").last
        line.get_by_role("button", name="Undo changes of this turn").click()
        expect(line).to_contain_text(said)

    def sources(self) -> list[str]:
        """All cells but that of the panel."""
        found: list[str] = self.model.page.evaluate(
            f"() => {SHARED}.cells.slice(1).map(cell => cell.source)"
        )
        return found


CELLS = (
    "a = 1",
    "# Heading",
    "b = 1",
    "c = 1\nd = 1",
    "e = 1",
    "![](attachment:plot.png)",
    "f = 1",
    SET_SECONDS,
)


def a_cell_that_both_have_moved_stays(person: Person) -> None:
    """She moves a cell that the model has moved, and then undoes."""
    person.model.do("read_notebook", cells=[person.ids[1]])
    told = person.model.edit("move", cell=person.ids[1])
    assert "moved, now cell 1 of 10" in told
    person.does("move-cell-down", 0)
    person.tries_to_undo("Cell 2 has been moved since, so it stays where it is.")
    assert person.sources()[:2] == ["a = 1", "# Heading"]


def what_is_pasted_into_text_stays(person: Person) -> None:
    """A change of its kind and an undo keep the picture in a text cell."""
    model, page = person.model, person.model.page
    text = person.ids[6]
    at = [each.startswith("![]") for each in person.sources()].index(True) + 1
    model.do("read_notebook", cells=[text])
    model.edit("kind", cell=text, kind="raw")
    assert page.evaluate(ATTACHED, at) == ["plot.png"]
    for change in ({"change": "kind", "kind": "code"}, {"change": "delete"}):
        model.edit(cell=text, **change)
        person.undoes()
        assert page.evaluate(ATTACHED, at) == ["plot.png"]
    assert model.do("run_cells", cells=[text]).endswith("raw: nothing to run")


def a_frozen_page_edits_nothing_later(person: Person) -> None:
    """The page's thread is blocked just before an edit, until that is given up."""
    model, last = person.model, len(person.sources())
    person.notebook.run(last)
    cell = model.id(last - 1)
    model.do("read_notebook", cells=[cell])
    told = model.notebook.lab.root / "told.json"
    told.unlink()

    def thaw(route: Route) -> None:
        until = time.monotonic() + 60
        while not told.exists() and time.monotonic() < until:
            time.sleep(0.02)
        route.fulfill()

    model.page.route("**/until-told", thaw, times=1)
    model.page.evaluate(FREEZE)
    said = model.edit("replace", cell=cell, source="late = 1")
    assert "didn't answer within 4 s" in said
    assert model.do("read_notebook", cells=[cell]).endswith("f = 1")


def test_what_a_person_does_while_a_card_waits_loses_nothing(
    open_shared_notebook: Callable[..., Notebook],
) -> None:
    person = Person(open_shared_notebook(MODEL, *CELLS))
    model, page = person.model, person.model.page
    model.panel.locator(".nbc-allowed").click()
    cells = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")

    # Folds and moves it
    person.does("run-cell", 2)
    page.evaluate(FOLDED)
    card = person.card(3, "b = 2")
    expect(cells.nth(3)).to_be_hidden()
    card.get_by_role("button", name="Show cell").click()
    expect(cells.nth(3)).to_be_in_viewport()
    person.does("move-cell-down", 3)
    assert person.approves(card).startswith("changed cell 5 of 9")
    assert person.sources()[2:4] == ["c = 1\nd = 1", "b = 2"]

    # Splits, merges, deletes and undoes
    card = person.card(4, "c = 2\nd = 2")
    page.evaluate(
        f"() => {{ {CONTENT}.activeCellIndex = 3; {CONTENT}.mode = 'edit'; {CONTENT}.activeCell.editor.setCursorPosition({{ line: 1, column: 0 }}) }}"
    )
    person.notebook.execute("notebook:split-cell-at-cursor")
    told = person.approves(card)
    assert "it has changed since" in told
    assert person.sources()[2:5] == ["c = 1", "d = 1", "b = 2"]
    card = person.card(5, "e = 2")
    person.does("merge-cells", 5, 6)
    assert "it may have been deleted" in person.approves(card)
    assert person.sources()[4] == "b = 2\n\ne = 1"
    person.does("undo-cell-action", 1)
    card = person.card(1, "a = 2")
    person.does("delete-cell", 1)
    assert "it may have been deleted" in person.approves(card)
    person.does("undo-cell-action", 1)
    assert person.sources()[0] == "a = 1"

    # Renames the notebook; moves the cell after the turn
    card = person.card(1, "a = 3")
    name = person.notebook.name
    page.evaluate(RENAME, "renamed-by-a-person.ipynb")
    person.notebook.name = "renamed-by-a-person.ipynb"
    assert person.approves(card).startswith("changed cell 2 of 10")
    person.does("move-cell-down", 1)
    person.undoes()
    assert person.sources()[:2] == ["# Heading", "a = 1"]
    page.evaluate(RENAME, name)
    person.notebook.name = name

    say(model.panel, "/allow all")
    expect(model.panel.locator(".nbc-allowed")).to_be_visible()
    a_cell_that_both_have_moved_stays(person)
    what_is_pasted_into_text_stays(person)
    a_frozen_page_edits_nothing_later(person)
