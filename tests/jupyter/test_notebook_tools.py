"""Tools for the cells of a notebook, on a page that is no browser."""

import base64
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
from nbchat.jupyter.notebook_tools import OUTPUT_SHOWN, NotebookTools, PageRequests
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.jupyter.panel.protocol import NotebookAnswer, received
from nbchat.testing import ScriptedProvider, calls, says

PNG = base64.b64encode(b"\x89PNG and so on").decode()


def cell(name: str, source: str, *outputs: tuple[str, str]) -> dict[str, Any]:
    shown = [{"kind": kind, "data": data} for kind, data in outputs]
    return {"id": name, "kind": "code", "source": source, "count": 3, "outputs": shown}


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

    def hear(self, asked: dict[str, Any]) -> None:
        check(asked, "notebook")
        for each in (self, *self.others):
            if asked["action"] == "find" or asked["view"] == each.name:
                each.answer(asked, self.requests)

    def answer(self, asked: dict[str, Any], requests: PageRequests) -> None:
        if asked["action"] != "find":
            self.acted.append(asked)
        found = [each for each in self.cells if each["id"] == asked.get("cell")]
        answer = {
            "type": "notebook_answer",
            "token": asked["token"],
            "view": self.name,
            "problem": "",
            "cells": found if "cell" in asked else self.cells,
        }
        check(answer, "notebook_answer")
        requests.receive(heard(answer))


def tools_of(view: View) -> dict[str, Any]:
    return {each.name: each for each in NotebookTools(lambda: view.requests).tools}


def test_cells_are_read_with_numbers_ids_sources_and_outputs():
    long = "x" * (OUTPUT_SHOWN + 5)
    view = View(
        "v", cell("a", "x = 1"), cell("b", "plot()", ("text", long), ("png", PNG))
    )
    read = tools_of(view)["read_cells"]
    assert read(first=2) == (
        "2 cells\n\ncell 2, id b, code, run as [3]\nplot()\noutput:\n"
        f"{'x' * OUTPUT_SHOWN}\n[15 characters removed]"
    )
    assert read(count=1) == "2 cells\n\ncell 1, id a, code, run as [3]\nx = 1"
    assert tools_of(View("v"))["read_cells"]() == "the notebook has no cells"


def test_of_a_progress_bar_the_last_state_is_read():
    bar = "".join(f"\r{n:3}%|{'#' * n}|" for n in range(101))
    view = View("v", cell("a", "work()", ("text", f"one\r\n{bar}\ndone\r")))
    shown = tools_of(view)["read_cells"]()
    assert shown.endswith(f"output:\none\r\n100%|{'#' * 100}|\ndone\r")


def test_a_run_returns_text_and_pictures():
    view = View("v", cell("b", "plot()", ("text", "hi\n"), ("png", PNG)), cell("c", ""))
    run = tools_of(view)["run_cell"]
    assert run("b") == ["hi\n[picture]", b"\x89PNG and so on"]
    assert run("c") == "no output"


KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwx"
WITH_KEY = f'import x\nkey = "{KEY}"\nx.call(key)'


def test_secrets_in_cells_and_outputs_are_hidden_from_the_model():
    view = View("v", cell("a", WITH_KEY, ("text", f"called with {KEY}")))
    tools = tools_of(view)
    for read in (tools["read_cells"](), tools["run_cell"](cell="a")):
        assert HIDDEN in read
        assert KEY not in read


def test_an_edit_around_a_secret_keeps_it():
    view = View("v", cell("a", WITH_KEY))
    edit = tools_of(view)["edit_cell"]
    source = without_secrets(WITH_KEY)[0].replace("x.call(key)", "x.call(key, 2)")
    shown = edit.preview(cell="a", source=source).text
    assert "+x.call(key, 2)" in shown
    assert HIDDEN not in shown
    edit(cell="a", source=source)
    assert view.acted[-1]["source"] == WITH_KEY.replace("(key)", "(key, 2)")


def test_of_two_secrets_that_look_the_same_none_is_written_for_the_other():
    both = "\n".join([WITH_KEY, WITH_KEY.replace(KEY, f"{KEY}2")])
    edit = tools_of(View("v", cell("a", both)))["edit_cell"]
    with pytest.raises(NbchatError, match="hidden from you"):
        edit(cell="a", source=without_secrets(both)[0] + "\n1")


@pytest.mark.parametrize("place", ["replace", "below"])
def test_the_placeholder_of_a_secret_is_never_written(place: str):
    view = View("v", cell("a", WITH_KEY))
    edit = tools_of(view)["edit_cell"]
    with pytest.raises(NbchatError, match="hidden from you"):
        edit(cell="a", source=f'other = "{HIDDEN}"', place=place)
    assert all(each["action"] == "read" for each in view.acted)


def test_one_of_two_pages_acts():
    view, other = View("v", cell("a", "1")), View("w", cell("a", "1"))
    view.others = [other]
    tools_of(view)["run_cell"]("a")
    assert [len(view.acted), len(other.acted)] == [1, 0]


def test_what_was_approved_is_what_is_sent():
    view = View("v", cell("a", "x = 1\ny = 2\n"))
    tools = tools_of(view)
    shown = tools["edit_cell"].preview(cell="a", source="x = 1\ny = 3\n")
    assert shown.text == "@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3"
    tools["edit_cell"](cell="a", source="x = 1\ny = 3\n")
    assert view.acted[-1]["expected"] == "x = 1\ny = 2\n"
    assert tools["run_cell"].preview(cell="a").text == "x = 1\ny = 2\n"
    tools["run_cell"]("a")
    assert view.acted[-1]["expected"] == "x = 1\ny = 2\n"
    tools["run_cell"]("a")  # approved for the session: nothing was shown
    assert view.acted[-1]["expected"] is None
    with pytest.raises(NbchatError, match="the notebook has no cell 'z'"):
        tools["run_cell"].preview(cell="z")


def test_a_page_that_refuses_or_is_silent_is_a_line_of_its_own():
    def refuse(asked: dict[str, Any]) -> None:
        problem = "" if asked["action"] == "find" else "the cell has changed since"
        if asked["action"] != "read":
            requests.receive(NotebookAnswer(asked["token"], "v", problem, ()))

    requests = PageRequests(refuse, find_seconds=0.05)
    with pytest.raises(NbchatError, match="has changed since"):
        requests.ask("run", timeout_seconds=1, cell="a")
    with pytest.raises(NbchatError, match=r"did not answer within 0.05 s"):
        requests.ask("read", timeout_seconds=0.05)
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


def test_the_setting_offers_the_tools_and_takes_them_away(shell):
    agent = agent_with(shell)
    names = {"read_cells", "edit_cell", "run_cell"}
    assert not names & {each.name for each in agent.tools}
    shell.run_line_magic("chat", "/set notebook_tools true")
    assert names <= {each.name for each in agent.tools}
    assert isinstance(agent.approve, Approvals)
    shell.run_line_magic("chat", "/set notebook_tools false")
    assert not names & {each.name for each in agent.tools}


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
        calls("read_cells"),
        calls("edit_cell", cell="a", source="x"),
        says("Well."),
    )
    agent = agent_with(shell, *script)
    shell.run_line_magic("chat", "/set notebook_tools true")
    shell.run_cell_magic("chat", "", "What is in it?")
    read, edited = results(agent)
    assert "no open page shows this notebook" in read
    assert edited.startswith("error: not run: no open page")


def test_no_cell_runs_while_a_chat_cell_does(shell, capsys):
    agent = agent_with(shell, calls("run_cell", cell="a"), says("Well."))
    shell.run_line_magic("chat", "/set notebook_tools true")
    shell.run_cell_magic("chat", "", "Run it.")
    assert results(agent)[0].startswith("error: not run: a %%chat cell is running")


def test_a_stop_ends_the_wait_for_a_cell_that_runs():
    begun, stop = threading.Event(), threading.Event()

    class Silent(View):
        def hear(self, asked: dict[str, Any]) -> None:
            if asked["action"] == "run":
                begun.set()
            else:
                super().hear(asked)

    view = Silent("v", cell("a", "forever()"))
    agent = Agent(
        ScriptedProvider(calls("run_cell", cell="a")),
        tools=NotebookTools(lambda: view.requests).tools,
        approve=True,
    )
    ended: list[Any] = []
    turn = threading.Thread(target=lambda: ended.extend(agent.run("go", stop=stop)))
    turn.start()
    assert begun.wait(10)
    stop.set()
    turn.join(5)
    assert not turn.is_alive()
    assert ended[-1].stop_reason == "stopped"
