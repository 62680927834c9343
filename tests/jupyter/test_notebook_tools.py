"""Tools for the cells of a notebook, on a page that is no browser."""

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from panel_protocol import check

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals
from nbchat.conversation.secret_masking import HIDDEN, without_secrets
from nbchat.errors import NbchatError
from nbchat.jupyter.notebook_page import OTHER_TAB, PageRequests
from nbchat.jupyter.notebook_tools import NotebookTools
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.jupyter.panel.protocol import NotebookAnswer, received
from nbchat.jupyter.shell_contents import RunningCell, ShellContents
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import ScriptedProvider, calls, says

PNG = base64.b64encode(b"\x89PNG and so on").decode()


def cell(name: str, source: str, *outputs: tuple[str, str]) -> dict[str, Any]:
    shown = [{"kind": kind, "data": data, "title": ""} for kind, data in outputs]
    made = {"id": name, "short": name[:8], "number": 0, "kind": "code", "states": []}
    return {**made, "source": source, "count": 3, "outputs": shown}


def heard(answer: dict[str, Any]) -> NotebookAnswer:
    found = received(answer)
    assert isinstance(found, NotebookAnswer)
    return found


class View:
    """A page with a notebook, which answers at once."""

    def __init__(self, name: str, *cells: dict[str, Any]) -> None:
        self.name = name
        self.cells = list(cells)
        self.acted: list[dict[str, Any]] = []
        self.requests = PageRequests(self.hear, find_seconds=0.05)
        self.others: list[View] = []
        self.undrawable: set[int] = set()
        """Places of pictures that it can't draw."""

    def hear(self, asked: dict[str, Any]) -> None:
        check(asked, "notebook")
        for each in (self, *self.others):
            if asked["action"] == "find" or asked["view"] == each.name:
                each.answer(asked, self.requests)

    def answer(self, asked: dict[str, Any], requests: PageRequests) -> None:
        if asked["action"] != "find":
            self.acted.append(asked)
        problem, picture = "", ""
        if asked["action"] == "picture" and asked["number"] not in self.undrawable:
            picture = PNG
        try:
            found = self.act(asked)
        except ValueError as error:
            problem, found = str(error), self.named(asked.get("cell"))
        answer = {
            "type": "notebook_answer",
            "token": asked["token"],
            "view": self.name,
            "problem": problem,
            "cells": [{**each, "number": self.cells.index(each) + 1} for each in found],
            "total": len(self.cells),
            "path": "here.ipynb",
            "digest": str([each["source"] for each in self.cells]),
            "picture": picture,
        }
        check(answer, "notebook_answer")
        requests.receive(heard(answer))

    def named(self, name: str | None) -> list[dict[str, Any]]:
        return [each for each in self.cells if name and each["id"].startswith(name)]

    def act(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        found = self.named(asked.get("cell"))
        if asked["action"] == "outline":
            return self.cells
        if asked["action"] == "find" or asked.get("change") == "insert":
            return self.named(asked.get("after"))
        if not found:
            raise ValueError(f"the notebook has no cell {asked.get('cell')}")
        expected = asked.get("expected")
        if expected not in (None, found[0]["source"]):
            raise ValueError("the cell has changed since you read it")
        if asked.get("change") == "replace" and not asked["is_trial"]:
            found[0]["source"] = asked["source"]
        return found


def tools_of(view: View) -> dict[str, Any]:
    return {each.name: each for each in NotebookTools(lambda: view.requests).tools}


def replace(tools: dict[str, Any], name: str, source: str, **more: Any) -> Any:
    return tools["edit_notebook"](change="replace", cell=name, source=source, **more)


def test_an_outline_has_a_line_for_each_cell_and_a_cell_is_read_by_its_id():
    plot = cell("b" * 30, "plot()", ("text", "hi\n"), ("picture", ""))
    plot["states"] = ["changed"]
    read = tools_of(View("v", cell("a", "x = 1"), plot))["read_notebook"]
    assert read() == (
        "2 cells\n1 a code, run as [3]: x = 1\n"
        "2 bbbbbbbb code, run as [3], changed since it ran: plot()"
    )
    assert read(cells=["a", "bbbbbbbb"]) == (
        "cell 1 of 2, id a, code, run as [3]\nx = 1\n\n"
        "cell 2 of 2, id bbbbbbbb, code, run as [3], changed since it ran\nplot()\n"
        "output:\nhi\n[picture 1 of 1]"
    )
    assert tools_of(View("v"))["read_notebook"]() == "0 cells"


def test_of_several_cells_long_outputs_keep_both_ends_and_an_error_comes_first():
    log = "\n".join(f"epoch {n}" for n in range(1000))
    trace = "\n".join(["Traceback", *["frame"] * 900, "KeyError: 'amount'"])
    failed = cell("b", "fit()", ("text", log), ("error", trace))
    failed["outputs"][1]["title"] = "KeyError: 'amount'"
    shown = tools_of(View("v", cell("a", ""), failed))["read_notebook"](
        cells=["a", "b"]
    )
    assert "output:\nKeyError: 'amount'\nepoch 0\n" in shown
    assert "characters removed]" in shown
    assert shown.endswith("frame\nKeyError: 'amount'")
    assert len(shown) < 3_000


def test_the_schemas_of_the_five_tools_are_small():
    tools = NotebookTools(lambda: View("v").requests).tools
    schemas = [
        {"name": e.name, "description": e.description, "parameters": e.parameters}
        for e in tools
    ]
    assert [each.name for each in tools] == [
        *("read_notebook", "edit_notebook", "run_cells", "interrupt", "inspect")
    ]
    assert TokenCounter().count(json.dumps(schemas)) <= 600


def test_of_a_progress_bar_the_last_state_is_read():
    bar = "".join(f"\r{n:3}%|{'#' * n}|" for n in range(101))
    view = View("v", cell("a", "work()", ("text", f"one\r\n{bar}\ndone\r")))
    shown = tools_of(view)["read_notebook"](cells=["a"])
    assert shown.endswith(f"output:\none\r\n100%|{'#' * 100}|\ndone\r")


def test_a_run_returns_text_and_at_most_three_pictures():
    plots = [("picture", "")] * 60
    plots[1] = ("picture", 'Vega plot, "Sales"')
    view = View("v", cell("b", "plot()", ("text", 'a "b"\n'), *plots), cell("c", ""))
    run = tools_of(view)["run_cells"]
    text, *pictures = run(["b"])
    assert text == (
        'cell 1 of 2, id b\na "b"\n[picture 1 of 60]\n[picture 2 of 60: Vega plot, "Sales"]\n'
        "[picture 3 of 60]\n[57 more pictures]"
    )
    assert pictures == [b"\x89PNG and so on"] * 3
    view.undrawable = {1}
    text, *pictures = run(["b"])
    assert text.endswith("[57 more pictures]\n\n[the page can't draw one of them]")
    assert len(pictures) == 2
    assert run(["c"]) == "cell 2 of 2, id c\nno output"


def test_of_a_long_run_that_fails_the_error_is_whole():
    trace = "\n".join(
        ["----> 5 frame['amuont']", *["frame"] * 900, "KeyError: 'amuont'"]
    )
    failed = cell("b", "fit()", ("text", "e" * 90_000), ("error", trace))
    failed["outputs"][1]["title"] = "KeyError: 'amuont'"
    text = tools_of(View("v", failed))["run_cells"](["b"])
    assert text.split("\n")[1] == "KeyError: 'amuont'"
    assert text.endswith(trace)
    assert "characters removed]\neee" in text
    assert len(text) < 15_000


@pytest.mark.slow
def test_outputs_of_runs_have_few_tokens_whatever_their_characters():
    count = TokenCounter().count
    short = ("text", "\n".join(str(n % 10) for n in range(50_000)))
    many = [("text", f"{n}") for n in range(5_000)]
    odd = ("text", "\u4e00\U0001f600" * 20_000)
    view = View("v", cell("a", "", short), cell("b", "", *many), cell("c", "", odd))
    run = tools_of(view)["run_cells"]
    for name in "abc":
        text = run([name])
        assert 1_500 < count(text) < 4_200
        assert "characters removed]" in text
    assert text.rstrip().endswith("\U0001f600")
    assert count(run(["a", "b", "c"])) < 6_200  # the last one has the most room


def test_cells_run_in_order_up_to_the_first_error():
    failed = cell("b", "1 / 0", ("error", "ZeroDivisionError: division by zero"))
    view = View("v", cell("a", ""), failed, cell("c", ""))
    assert tools_of(view)["run_cells"](["a", "b", "c"]).endswith(
        "cell 2 of 3, id b\nZeroDivisionError: division by zero\n\nnot run: c"
    )
    assert [e["cell"] for e in view.acted if e["action"] == "run"] == ["a", "b"]


def test_text_among_cells_that_run_is_passed_over_and_fifty_names_are_few():
    failed = cell("c03", "1 / 0", ("error", "ZeroDivisionError: division by zero"))
    cells = [cell(f"c{n:02}", f"x = {n}") for n in range(1, 51)]
    view = View("v", *cells[:2], failed, *cells[3:])
    view.cells[1]["kind"] = "markdown"
    run, names = tools_of(view)["run_cells"], [each["id"] for each in view.cells]
    assert run.preview(cells=names).title == (
        "runs cell 1, cell 2, cell 3, cell 4, cell 5 and 45 more of 50"
    )
    assert run(names) == (
        "cell 1 of 50, id c01\nno output\n\ncell 2 of 50, id c02\nmarkdown: nothing to run\n\n"
        "cell 3 of 50, id c03\nZeroDivisionError: division by zero\n\n"
        "not run: c04, c05, c06, c07, c08 and 42 more"
    )
    for ask in (run, run.preview):
        with pytest.raises(NbchatError, match="give the ids of the cells to run"):
            ask(cells=[])


def test_an_edit_and_its_run_are_one_call():
    view = View("v", cell("a", "x = 1", ("text", "2")))
    tools = tools_of(view)
    tools["read_notebook"](cells=["a"])
    asked = {"change": "replace", "cell": "a", "source": "x = 2", "run": True}
    assert tools["edit_notebook"].preview(**asked).title == (
        "changes cell 1 of 1, `x = 1`, and runs it"
    )
    assert tools["edit_notebook"](**asked) == (
        "changed cell 1 of 1, id a\ncell 1 of 1, id a\n2"
    )


def test_a_person_may_edit_a_change_before_approving_it():
    view = View("v", cell("a", "x = 1"))
    tools = tools_of(view)
    tools["read_notebook"](cells=["a"])
    asked = {"change": "replace", "cell": "a", "source": "x = 2"}
    preview = tools["edit_notebook"].preview(**asked)
    assert (preview.draft, preview.place) == ("x = 2", "a")
    preview.take("x = 20")
    assert tools["edit_notebook"](**asked).endswith(
        "the user has edited your source:\nx = 20"
    )
    assert view.cells[0]["source"] == "x = 20"
    asked = {"change": "replace", "cell": "a", "source": "x = 3"}
    assert tools["edit_notebook"](**asked).startswith("changed")  # it knows 20


def test_proposed_changes_are_seen_and_made_together():
    view = View("v", cell("a", "x = 1"), cell("b", "y = 1"))
    known = NotebookTools(lambda: view.requests)
    read = next(each for each in known.tools if each.name == "read_notebook")
    read(cells=["a", "b"])
    changes = [
        {"change": "replace", "cell": "a", "source": "x = 2"},
        {"change": "delete", "cell": "b"},
    ]
    seen = known.proposing.preview(changes)
    assert seen.title == "makes 2 changes"
    assert "1. changes cell 1 of 2, `x = 1`" in seen.text
    assert "+x = 2" in seen.text
    assert "2. deletes cell 2 of 2, `y = 1`" in seen.text
    done = known.proposing(changes)
    assert done.startswith("1. changed cell 1 of 2")
    assert "2. deleted cell 2" in done
    assert view.cells[0]["source"] == "x = 2"
    assert view.acted[-1]["change"] == "delete"


def test_proposed_changes_of_two_parts_of_a_cell_are_both_made():
    view = View("v", cell("a", "x = 1\ny = 1"))
    known = NotebookTools(lambda: view.requests)
    changes = [
        {
            "change": "replace",
            "cell": "a",
            "old": f"{name} = 1",
            "source": f"{name} = 2",
        }
        for name in "xy"
    ]
    assert known.proposing.preview(changes).text.count("+") >= 2
    known.proposing(changes)
    assert view.cells[0]["source"] == "x = 2\ny = 2"


def test_always_approving_edits_never_covers_one_that_runs():
    effect = tools_of(View("v"))["edit_notebook"].effect
    assert effect(change="replace") != effect(change="replace", run=True)


@pytest.mark.parametrize(
    "change",
    [
        {"change": "replace", "source": "mine"},
        {"change": "replace", "source": "y", "old": "x"},
        {"change": "delete"},
        {"change": "move", "after": ""},
        {"change": "kind", "kind": "markdown"},
    ],
)
def test_no_cell_is_changed_that_is_not_as_the_model_has_read_it(change):
    view = View("v", cell("a", "x = 1"))
    tools = tools_of(view)
    tools["read_notebook"](cells=["a"])
    view.cells[0]["source"] = "x = 1\nperson = 'important'"
    with pytest.raises(NbchatError) as refused:
        tools["edit_notebook"](cell="a", **change)
    assert str(refused.value) == (
        "not done: it has changed since. Cell 1 now:\nx = 1\nperson = 'important'"
    )
    assert all(each.get("is_trial", True) for each in view.acted)
    tools["edit_notebook"](cell="a", **change)  # the refusal showed what it is now
    assert view.acted[-1]["is_trial"] is False


def test_a_cell_that_the_model_has_not_read_is_changed_only_in_a_part_that_it_knows():
    view = View("v", cell("a", "x = 1\ny = 1"))
    tools = tools_of(view)
    with pytest.raises(NbchatError, match="occurs 2 times"):
        replace(tools, "a", "2", old="1")
    replace(tools, "a", "x = 2", old="x = 1")
    assert view.cells[0]["source"] == "x = 2\ny = 1"
    with pytest.raises(NbchatError, match="not read this cell"):
        replace(tools_of(view), "a", "z = 1")
    with pytest.raises(NbchatError, match="not read this cell"):
        tools_of(view)["edit_notebook"](change="delete", cell="a", old="x = 2")


@pytest.mark.parametrize(("old", "count"), [("x  = 1", 0), ("1", 2)])
def test_an_old_text_that_does_not_occur_once_is_refused_with_the_present_source(
    old, count
):
    view = View("v", cell("a", "x = 1\ny = 1"))
    tools = tools_of(view)
    with pytest.raises(NbchatError) as refused:
        replace(tools, "a", "x = 2", old=old)
    assert str(refused.value) == (
        f"not done: the old text occurs {count} times in this cell, not once. "
        "Cell 1 now:\nx = 1\ny = 1"
    )
    replace(tools, "a", "x = 2\ny = 1")  # it has seen the cell now


def test_of_several_cells_one_that_is_missing_is_a_line_and_the_others_are_read():
    view = View("v", cell("a", "x = 1"), cell("b", "y = 1"))
    tools = tools_of(view)
    told = tools["read_notebook"](cells=["a", "gone", "b"])
    assert told == (
        "cell 1 of 2, id a, code, run as [3]\nx = 1\n\nthe notebook has no cell gone\n\n"
        "cell 2 of 2, id b, code, run as [3]\ny = 1"
    )
    with pytest.raises(NbchatError, match="has no cell gone"):
        tools["read_notebook"](cells=["gone"])


def test_another_session_has_read_nothing():
    view, session = View("v", cell("a", "x = 1")), [object()]
    tools = {
        each.name: each
        for each in NotebookTools(
            lambda: view.requests, session=lambda: session[0]
        ).tools
    }
    tools["read_notebook"](cells=["a"])
    session[0] = object()
    with pytest.raises(NbchatError, match="not read this cell"):
        replace(tools, "a", "z = 1")


def test_a_change_while_the_card_waits_is_refused_too():
    view = View("v", cell("a", "x = 1\ny = 2\n"))
    tools = tools_of(view)
    tools["read_notebook"](cells=["a"])
    asked = {"change": "replace", "cell": "a", "source": "x = 1\ny = 3\n"}
    shown = tools["edit_notebook"].preview(**asked)
    assert shown.text == "@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3"
    view.cells[0]["source"] = "mine"
    with pytest.raises(NbchatError, match=r"changed since. Cell 1 now:\nmine"):
        tools["edit_notebook"](**asked)
    assert view.cells[0]["source"] == "mine"


def test_the_code_that_was_approved_is_the_code_that_runs():
    view = View("v", cell("a", "x = 1"))
    run = tools_of(view)["run_cells"]
    assert run.preview(cells=["a"]).text == "x = 1"
    view.cells[0]["source"] = "y = 1"
    with pytest.raises(NbchatError, match=r"changed since. Cell 1 now:\ny = 1"):
        run(["a"])
    run(["a"])  # approved for the session: nothing was shown
    assert view.acted[-1]["expected"] is None
    with pytest.raises(NbchatError, match="the notebook has no cell z"):
        run.preview(cells=["z"])


KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwx"
WITH_KEY = f'import x\nkey = "{KEY}"\nx.call(key)'


def test_secrets_in_cells_and_outputs_are_hidden_from_the_model():
    view = View("v", cell("a", WITH_KEY, ("text", f"called with {KEY}")))
    tools = tools_of(view)
    outline, whole = (tools["read_notebook"](cells=c) for c in ((), ("a",)))
    for read in (outline, whole, tools["run_cells"](cells=["a"])):
        assert HIDDEN in read
        assert KEY not in read


@pytest.mark.parametrize("old", ["", "x.call(key)"])
def test_an_edit_around_a_secret_keeps_it(old: str):
    view = View("v", cell("a", WITH_KEY))
    tools = tools_of(view)
    tools["read_notebook"](cells=["a"])
    whole = without_secrets(WITH_KEY)[0].replace("x.call(key)", "x.call(key, 2)")
    source = "x.call(key, 2)" if old else whole
    asked = {"change": "replace", "cell": "a", "source": source, "old": old}
    shown = tools["edit_notebook"].preview(**asked).text
    assert "+x.call(key, 2)" in shown
    assert HIDDEN not in shown
    tools["edit_notebook"](**asked)
    assert view.acted[-1]["source"] == WITH_KEY.replace("(key)", "(key, 2)")


def test_of_two_secrets_that_look_the_same_none_is_written_for_the_other():
    both = "\n".join([WITH_KEY, WITH_KEY.replace(KEY, f"{KEY}2")])
    tools = tools_of(View("v", cell("a", both)))
    tools["read_notebook"](cells=["a"])
    with pytest.raises(NbchatError, match="hidden from you"):
        replace(tools, "a", without_secrets(both)[0] + "\n1")


@pytest.mark.parametrize("change", ["replace", "insert"])
def test_the_placeholder_of_a_secret_is_never_written(change: str):
    view = View("v", cell("a", WITH_KEY))
    tools = tools_of(view)
    tools["read_notebook"](cells=["a"])
    with pytest.raises(NbchatError, match="hidden from you"):
        tools["edit_notebook"](change=change, cell="a", source=f'other = "{HIDDEN}"')
    assert all(each.get("is_trial", True) for each in view.acted)


@pytest.mark.slow
def test_of_fifty_edits_in_each_of_two_tabs_all_reach_the_tab_in_which_they_were_asked():
    tabs = [View(name, cell("a", "x = 0")) for name in "vw"]
    first, second = tabs
    first.others = [second]  # all views hear what is sent; the first answers first
    tools = tools_of(first)
    for number in range(100):
        tab = tabs[number % 2]
        tab.cells[0]["source"] += f"\nx = {number}  # the person's"
        first.requests.stay_with(tab.name)
        tools["read_notebook"](cells=["a"])
        new = f"{tab.cells[0]['source']}\ny = {number}"
        replace(tools, "a", new)
        assert tab.cells[0]["source"] == new
    assert {each["is_trial"] for each in second.acted if "is_trial" in each} == {
        True,
        False,
    }
    lines = [each.count("y = ") for each in (t.cells[0]["source"] for t in tabs)]
    assert lines == [50, 50]


def test_another_tab_with_other_sources_is_named_once():
    first, second = View("v", cell("a", "1")), View("w", cell("a", "1"))
    first.others = [second]
    tools = tools_of(first)
    assert OTHER_TAB not in tools["read_notebook"](cells=["a"])
    second.cells[0]["source"] = "2"
    assert tools["read_notebook"](cells=["a"]).endswith(OTHER_TAB)
    assert OTHER_TAB not in tools["read_notebook"](cells=["a"])
    assert second.acted == []


def test_a_page_that_refuses_or_is_silent_is_a_line_of_its_own():
    def refuse(asked: dict[str, Any]) -> None:
        problem = "" if asked["action"] == "find" else "this notebook is read-only"
        if asked["action"] != "read":
            requests.receive(NotebookAnswer(asked["token"], "v", problem, ()))

    requests = PageRequests(refuse, find_seconds=0.05)
    assert requests.ask("edit").problem.endswith("read-only")
    requests.answer_seconds = 0.05
    with pytest.raises(NbchatError, match=r"didn't answer within 0.05 s"):
        requests.ask("read")
    requests.receive(NotebookAnswer("late", "v", "", ()))


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "nbchat")
    yield shell
    shell.run_line_magic("unload_ext", "nbchat")
    shell.history_manager.end_session()


def agent_with(shell: InteractiveShell, *lines: Any) -> Any:
    """The agent of %chat with the tools, and a panel that no page shows."""
    agent = shell.run_line_magic("chat", "agent")
    agent.use(ScriptedProvider(*lines))
    shell.run_line_magic("chat", "").page._find_seconds = 0.05
    return agent


def results(agent: Any) -> list[str]:
    return [each.content for each in agent.session.transcript if each.role == "tool"]


@pytest.mark.slow
def test_the_setting_offers_the_tools_and_takes_them_away(shell):
    agent = agent_with(shell)
    names = {"read_notebook", "edit_notebook", "run_cells", "interrupt", "inspect"}
    assert not names & {each.name for each in agent.tools}
    shell.run_line_magic("chat", "/set notebook_tools true")
    assert names <= {each.name for each in agent.tools}
    assert isinstance(agent.approve, Approvals)
    shell.run_line_magic("chat", "/set notebook_tools false")
    assert not names & {each.name for each in agent.tools}


@pytest.mark.slow
def test_the_panel_knows_whether_the_model_has_the_cells(shell):
    agent_with(shell)
    panel = shell.run_line_magic("chat", "")
    assert panel.offers_cells is False
    shell.run_line_magic("chat", "/set notebook_tools true")
    assert panel.offers_cells is True
    assert ChatUI(Agent(ScriptedProvider())).offers_cells is None


@pytest.mark.slow
def test_without_a_page_each_tool_fails_without_asking_for_approval(shell, capsys):
    script = (
        calls("read_notebook"),
        calls("edit_notebook", change="replace", cell="a", source="x"),
        says("Well."),
    )
    agent = agent_with(shell, *script)
    shell.run_line_magic("chat", "/set notebook_tools true")
    shell.run_cell_magic("chat", "", "What is in it?")
    read, edited = results(agent)
    assert "No open page shows this notebook" in read
    assert edited.startswith("error: not run: No open page")


@pytest.mark.slow
def test_no_cell_runs_while_a_chat_cell_does(shell, capsys):
    agent = agent_with(shell, calls("run_cells", cells=["a"]), says("Well."))
    shell.run_line_magic("chat", "/set notebook_tools true")
    shell.run_cell_magic("chat", "", "Run it.")
    assert results(agent)[0].startswith("error: not run: a %%chat cell is running")


def test_a_stop_ends_the_wait_for_a_cell_that_runs_and_interrupts_it():
    begun, interrupted, stop = (threading.Event() for _ in range(3))

    class Silent(View):
        def hear(self, asked: dict[str, Any]) -> None:
            if asked["action"] == "run":
                begun.set()
            elif asked["action"] == "interrupt":
                interrupted.set()
            else:
                super().hear(asked)

    view = Silent("v", cell("a", "forever()"))
    agent = Agent(
        ScriptedProvider(calls("run_cells", cells=["a"])),
        tools=NotebookTools(lambda: view.requests).tools,
        approve=True,
    )
    ended: list[Any] = []
    turn = threading.Thread(target=lambda: ended.extend(agent.run("go", stop=stop)))
    turn.start()
    assert begun.wait(60)
    stop.set()
    turn.join(60)
    assert not turn.is_alive()
    assert ended[-1].stop_reason == "stopped"
    assert interrupted.wait(60)


@pytest.mark.slow
def test_a_run_that_outlasts_its_wait_returns_the_output_so_far():
    class Slow(View):
        def hear(self, asked: dict[str, Any]) -> None:
            if asked["action"] != "run":
                super().hear(asked)

    view = Slow("v", cell("a", "fit()", ("text", "epoch 1")))
    view.cells[0]["states"] = ["running"]
    run = tools_of(view)["run_cells"](["a"], wait_seconds=1)
    assert run == (
        "cell 1 of 1, id a\nstill running; interrupt, or read it later\nepoch 1"
    )


@pytest.mark.slow
def test_a_page_that_is_reloaded_while_a_cell_runs_is_a_line():
    class Reloaded(View):
        def hear(self, asked: dict[str, Any]) -> None:
            if asked["action"] == "run":
                self.name = "another"
            else:
                super().hear(asked)

    view = Reloaded("v", cell("a", "fit()"))
    with pytest.raises(NbchatError, match="was closed, reloaded or put to sleep"):
        tools_of(view)["run_cells"](["a"])


def test_a_cell_too_long_to_be_read_whole_is_changed_only_in_parts():
    view = View("v", cell("a", "x = 1\n" + "#" * 30_000))
    tools = tools_of(view)
    tools["read_notebook"](cells=["a"])
    with pytest.raises(NbchatError, match="not read this cell"):
        replace(tools, "a", "x = 2")
    replace(tools, "a", "x = 2", old="x = 1")
    assert len(view.cells[0]["source"]) == 30_006


@pytest.fixture
def running(shell: InteractiveShell) -> Iterator[RunningCell]:
    running = RunningCell(shell)
    yield running
    running.close()


@pytest.mark.slow
def test_a_run_behind_a_busy_kernel_says_so_and_may_be_withdrawn(shell, running):
    view, shown = View("v", cell("a", "1"), cell("b", "2")), list[str]()

    def hear(asked: dict[str, Any]) -> None:
        if asked["action"] == "notice":
            shown.append(asked["source"])
            problem = "the person withdrew it: not run"
            view.requests.receive(NotebookAnswer(asked["token"], "v", problem, ()))
        else:
            view.hear(asked)

    view.requests = PageRequests(hear, find_seconds=0.05)
    own = NotebookTools(lambda: view.requests, running=running)
    shell.user_ns.update(run=own.run_cells, refused=[])
    shell.run_cell(
        "try: run(['b'])\nexcept Exception as error: refused.append(str(error))",
        cell_id="a",
    )
    assert shell.user_ns["refused"] == ["the person withdrew it: not run"]
    assert shown == ["Waiting: the kernel is busy with cell 1.", ""]
    assert all(each["action"] != "run" for each in view.acted)
    assert running.wait(0)


HOSTILE = """
class Odd:
    def __init__(self): self.fine = 1
    def __repr__(self):
        while True: print('x')
    __str__ = __len__ = __iter__ = __eq__ = __bool__ = __repr__
    def __getattr__(self, name): raise SystemExit
    @property
    def total(self): raise SystemExit
    @property
    def __class__(self): raise SystemExit
odd, some = Odd(), [Odd(), Odd()]
"""


def test_inspect_runs_no_code_of_the_value(shell, capsys):
    shell.run_cell(HOSTILE)
    inspect = NotebookTools(
        lambda: View("v").requests, contents=ShellContents(shell)
    ).inspect
    assert "Odd" in str(inspect("odd"))
    assert "Odd" in str(inspect("some"))
    assert inspect("odd.fine") == "int 1"
    for name in ("odd.total", "odd.other", "odd[0]", "odd()", "print('x')", "import"):
        with pytest.raises(NbchatError) as refused:
            inspect(name)
        assert "\n" not in str(refused.value)
    assert capsys.readouterr().out == ""


def test_inspect_shows_what_a_mention_shows(shell):
    shell.user_ns["rows"] = [{"amount": 2, "password": "hunter2-hunter2"}]
    inspect = NotebookTools(
        lambda: View("v").requests, contents=ShellContents(shell)
    ).inspect
    assert "amount" in str(inspect("rows[0]"))
    assert inspect("@rows") == inspect("rows")
    assert HIDDEN in str(inspect("rows[0]['password']"))
    with pytest.raises(NbchatError, match=r"named rovs. Did you mean rows"):
        inspect("rovs")
