"""Changes of cells are kept and undone through pages that are no browsers."""

import pytest
from notebook_pages import Page

from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.jupyter.notebook_tools import NotebookTools
from nbchat.jupyter.notebook_undo import NotebookUndo


class Desk:
    """A notebook's tools with their undo, in a session whose turn begins at 0."""

    def __init__(self, page: Page) -> None:
        self.session = Session([Entry("user", "go")])
        self.undo = NotebookUndo(lambda: page.requests, lambda: self.session)
        tools = NotebookTools(lambda: page.requests)
        tools.before_change = self.undo.before_change
        tools.after_change = self.undo.after_change
        self._tools = tools

    def read(self, *cells: str) -> None:
        self._tools.read_notebook(cells=cells)

    def edit(self, change: str, cell: str = "", source: str = "") -> None:
        self._tools.edit_notebook(change=change, cell=cell, source=source)


def test_a_person_who_edits_every_cell_that_the_agent_edits_loses_nothing():
    page = Page(a="1", b="2")
    desk = Desk(page)
    desk.read("a", "b")
    for name in "ab":
        desk.edit("replace", name, f"{name} = 0")
    desk.edit("insert", source="new = 0")
    page.cells.update({name: f"{text} # mine" for name, text in page.cells.items()})
    before = dict(page.cells)
    left = desk.undo.undo(0)
    assert page.cells == before
    assert [(each.cell, each.outcome) for each in left] == [
        ("new", "edited"),
        ("b", "edited"),
        ("a", "edited"),
    ]
    assert "-a = 0 # mine" in left[2].difference
    assert desk.undo.undo(0, cell="a") == []
    assert page.cells == {**before, "a": "1"}
    assert desk.undo.undo(0, cell="new") == []
    assert page.cells == {"a": "1", "b": "b = 0 # mine"}


def test_cells_that_were_changed_deleted_and_added_are_as_before_and_stay_so():
    page = Page(a="1", b="2")
    desk = Desk(page)
    desk.read("a", "b")
    desk.edit("replace", "a", "3")
    desk.edit("delete", "b")
    desk.edit("insert", source="new = 0")
    assert desk.undo.undo(0) == []
    assert page.cells == {"a": "1", "b": "2"}
    with pytest.raises(NbchatError, match="isn't kept any longer"):
        desk.undo.undo(0)


def test_an_undo_in_a_second_tab_that_never_saw_the_change_does_nothing_there():
    page = Page("one", "two", a="1")
    desk = Desk(page)
    page.requests.stay_with("one")
    desk.read("a")
    desk.edit("replace", "a", "2")
    (left,) = desk.undo.undo(0, view="two")
    assert left.outcome == "same"
    assert [tab["a"] for tab in page.tabs.values()] == ["2", "1"]
    assert desk.undo.undo(0, view="one") == []
    assert [tab["a"] for tab in page.tabs.values()] == ["1", "1"]


def test_a_cell_that_a_person_deleted_stays_deleted_until_they_want_it_back():
    page = Page(a="1")
    desk = Desk(page)
    desk.read("a")
    desk.edit("replace", "a", "2")
    del page.cells["a"]
    (left,) = desk.undo.undo(0)
    assert left.outcome == "deleted"
    assert page.cells == {}
    assert desk.undo.undo(0, cell="a") == []
    assert page.cells == {"a": "1"}


def test_nothing_is_changed_that_could_not_be_kept():
    page = Page(a="1")
    desk = Desk(page)
    desk.read("a")
    page.is_deaf = True
    with pytest.raises(NbchatError, match="the page is busy"):
        desk.edit("replace", "a", "2")
    assert page.cells == {"a": "1"}
    assert [*desk.session.cell_changes] == []
