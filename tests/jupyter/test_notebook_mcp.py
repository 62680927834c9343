"""Other agents read an open notebook by MCP, and change it only if a person approves."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_desk import Desk
from notebook_pages import Page
from PIL import Image

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals, PendingCall
from nbchat.agent.mcp import McpServer, McpServers
from nbchat.chat.chat_runner import ChatRunner
from nbchat.chat.control_socket import ControlSocket
from nbchat.jupyter.notebook_mcp import ACTION, SharedNotebook
from nbchat.jupyter.notebook_tools import NotebookTools
from nbchat.testing import ScriptedProvider, says

pytestmark = pytest.mark.slow

NBCHAT = "from nbchat.cli.main import main; raise SystemExit(main(['mcp']))"

PLOT = {"plot": Image.new("RGB", (9, 9))}


class Kernel:
    """A kernel with one chat, whose cards a function answers."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.cards: list[str] = []
        self.answer = "approve"
        self.agent = Agent(ScriptedProvider(says("x")), approve=Approvals())
        self.runner = ChatRunner(lambda: self.agent)
        shared = SharedNotebook(
            NotebookTools(lambda: page.requests, contents=Desk(values=PLOT)),
            self.runner,
            path=lambda: "/home/ann/work.ipynb",
            variables=lambda: {
                "total": 5,
                "key": "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12",
                "os": os,
                "Page": Page,
                "find": max,
                "__doc__": "x",
            },
            find_page=page.requests.find,
        )
        self.socket = ControlSocket({ACTION: shared.answer}, "c0ffee00")
        self.agent.approve.subscribe(self.decide)
        self.socket._open("kernel-1")

    def decide(self, pending: tuple[PendingCall, ...]) -> None:
        for each in pending:
            self.cards.append(f"{each.call.tool_name}: {each.preview}")
            getattr(each, self.answer)()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("runtime")
    environment = {"JUPYTER_RUNTIME_DIR": str(folder)}
    environment |= {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    before = os.environ.get("JUPYTER_RUNTIME_DIR")
    os.environ["JUPYTER_RUNTIME_DIR"] = str(folder)
    server = McpServer("nb", sys.executable, ("-c", NBCHAT), environment)
    with McpServers([server], trust={"nb"}) as servers:
        assert servers.problems == {}
        yield {each.name.removeprefix("nb__"): each for each in servers.tools}
    if before is None:
        del os.environ["JUPYTER_RUNTIME_DIR"]
    else:
        os.environ["JUPYTER_RUNTIME_DIR"] = before


@pytest.fixture
def kernel(tools: dict[str, Any]) -> Iterator[Kernel]:
    made = Kernel(Page(first="total = 5", second="key = 1"))
    yield made
    made.socket.close()
    made.runner.close()


def test_another_agent_reads_cells_and_variables_of_an_open_notebook(tools, kernel):
    assert "/home/ann/work.ipynb" in str(tools["list_notebooks"]())
    name = "kernel-1/c0ffee00"
    assert name in str(tools["list_notebooks"]())
    assert "first code: total = 5" in str(tools["read_notebook"](notebook=name))
    one = str(tools["read_notebook"](notebook=name, cells=["second"]))
    assert "key = 1" in one
    variables = str(tools["list_variables"](notebook=name))
    assert "- total: int 5\n- key: " in variables.replace("\\n", "\n")
    assert not {"os", "Page", "find", "__doc__"} & set(re.findall(r"\w+", variables))
    assert "sk-proj" not in variables
    shown = str(tools["inspect_variable"](notebook=name, name="plot"))
    assert "The image plot" in shown
    assert "[pictures are shown only in the notebook]" in shown
    assert "follow" not in shown
    assert kernel.cards == []


def test_a_change_by_another_agent_waits_for_the_card(tools, kernel):
    name = "kernel-1/c0ffee00"
    tools["read_notebook"](notebook=name, cells=["first"])
    change = {"notebook": name, "change": "replace", "cell": "first"}
    done = str(tools["edit_notebook"](**change, source="total = 6"))
    assert "changed cell" in done
    assert kernel.page.cells["first"] == "total = 6"
    (card,) = kernel.cards
    assert "edit_notebook (for another agent)" in card
    assert "+total = 6" in card
    kernel.answer = "deny"
    with pytest.raises(Exception, match="the person denied this"):
        tools["edit_notebook"](**change, source="total = 7")
    assert kernel.page.cells["first"] == "total = 6"


def test_without_an_open_page_or_cards_nothing_is_read_or_changed(tools, kernel):
    name = "kernel-1/c0ffee00"
    kernel.agent.approve = True
    call = {"notebook": name, "change": "delete", "cell": "first"}
    with pytest.raises(Exception, match="shows no approval cards"):
        tools["edit_notebook"](**call)
    kernel.page.tabs.clear()
    for ask in (
        lambda: tools["read_notebook"](notebook=name),
        lambda: tools["list_variables"](notebook=name),
        lambda: tools["edit_notebook"](**call),
    ):
        with pytest.raises(Exception, match="No open page shows this notebook"):
            ask()
    assert "ipynb" not in str(tools["list_notebooks"]())
    kernel.socket.close()
    with pytest.raises(Exception, match="no longer open"):
        tools["read_notebook"](notebook=name)
