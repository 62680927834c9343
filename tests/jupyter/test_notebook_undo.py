"""Changes of cells are kept and undone through pages that are no browsers."""

import pytest
from notebook_pages import Page, place

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session, turn_costs
from nbchat.errors import NbchatError
from nbchat.jupyter.notebook_tools import NotebookTools
from nbchat.jupyter.notebook_undo import NotebookUndo
from nbchat.providers.base import Request
from nbchat.testing import Line, ScriptedProvider, calls, says

STORY = "<summary>\nCells were set, one after the other, as asked.\n</summary>"


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

    def edit(
        self, change: str, cell: str = "", source: str = "", after: str = ""
    ) -> None:
        what = {"cell": cell, "source": source, "after": after}
        self._tools.edit_notebook(change=change, **what)


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


def test_a_cell_that_a_person_moved_since_stays_where_it_is():
    page = Page(a="1", b="2", c="3", d="4")
    desk = Desk(page)
    desk.read("a", "b")
    desk.edit("move", "a", after="d")
    desk.edit("move", "b", after="c")
    desk.edit("replace", "b", "20")
    assert [*page.cells] == ["c", "b", "d", "a"]
    place(page.cells, "a", "c")
    assert [(e.cell, e.outcome) for e in desk.undo.undo(0)] == [("a", "moved")]
    assert page.cells == {"b": "2", "c": "3", "a": "1", "d": "4"}
    assert [*page.cells] == ["b", "c", "a", "d"]


def test_of_a_cell_that_a_person_moved_the_model_s_text_goes_back_where_it_is():
    page = Page(a="1", b="2", c="3")
    desk = Desk(page)
    desk.read("a")
    desk.edit("move", "a", after="b")
    desk.edit("replace", "a", "10")
    place(page.cells, "a", "c")
    assert [(e.cell, e.outcome) for e in desk.undo.undo(0)] == [("a", "moved")]
    assert [*page.cells.items()] == [("b", "2"), ("c", "3"), ("a", "1")]


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


@pytest.mark.slow
def test_after_compactions_edits_reach_their_cells_and_turns_are_undone():
    page = Page(**{f"cell_{n}": f"x_{n} = 0" for n in range(30)})
    tools = NotebookTools(lambda: page.requests)

    def reply(request: Request) -> Line:
        if not request.tools:
            return says(STORY)
        if request.history[-1].role == "tool":
            return says("Done.")
        number = int(request.history[-1].content.split()[-1])
        cell = f"cell_{number}"
        what = {"change": "replace", "cell": cell, "old": " = 0", "source": " = 1"}
        return calls("edit_notebook", **what)

    provider = ScriptedProvider(*[reply] * 120)
    agent = Agent(
        provider, tools=tools.tools, approve=True, engine=CompactionEngine(3_000)
    )
    undo = NotebookUndo(lambda: page.requests, lambda: agent.session)
    tools.before_change, tools.after_change = undo.before_change, undo.after_change
    for number in range(30):
        agent.ask(f"Set number {number}")
    session = agent.session
    assert len(session.finished_compactions) >= 2
    assert set(page.cells.values()) == {f"x_{n} = 1" for n in range(30)}
    costs = turn_costs(session)
    assert [each.requests for each in costs] == [2] * 30
    assert sum(each.usage.input_tokens for each in costs) == sum(
        usage.input_tokens for _, usage in session.usages
    )
    starts = [each.start for each in costs]
    assert session.cell_changes.turns == starts[-20:]
    assert undo.undo(starts[25]) == []
    assert page.cells["cell_25"] == "x_25 = 0"
    assert [text for text in page.cells.values() if text.endswith("0")] == ["x_25 = 0"]
