"""Open notebooks for other agents, by the Model Context Protocol: `nbchat mcp`.

    other agent ── stdio, MCP ──> nbchat mcp ── control socket ──> kernel ──> open page

They read outlines, cells and variables of notebooks whose panel is open, with the same
limits as the chat's own model and without secrets. A change or a run is done only after
a person has approved it on a card of the open panel; "always" that they once chose for
the chat's own model does not count.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from importlib.metadata import version
from threading import Event as Flag
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import approvals_of
from nbchat.agent.mcp import require_mcp
from nbchat.chat.chat_runner import ChatRunner
from nbchat.chat.control_socket import chats, send_action
from nbchat.conversation.entries import Entry
from nbchat.conversation.live_variables import describe_variables
from nbchat.conversation.tools import Tool, run_tool
from nbchat.errors import ChatUnreachable, ConfigError, NbchatError
from nbchat.jupyter.notebook_context import is_data
from nbchat.jupyter.notebook_tools import NotebookTools

ACTION = "notebook"
"""The request to the control socket."""

READ_SECONDS = 30.0

APPROVAL_SECONDS = 600.0
"""Seconds that a person may take to decide, and a cell to run."""

MOST_VARIABLES = 100

MOST_ASKED = 16
"""Notebooks asked at the same time: one without a page answers after seconds."""

READING = ("read_notebook", "inspect")

CHANGING = ("edit_notebook", "run_cells")

OTHER = "{} (for another agent)"
"""The name of a tool on its card."""

NO_CARDS = (
    "this chat shows no approval cards, so another agent can't change its notebook"
)

NO_PICTURES = "[pictures are shown only in the notebook]"

NEEDS_MCP_2 = 'nbchat mcp needs the package mcp 2. Run: pip install "mcp>=2"'

DENIED = "the person denied this"

INSTRUCTIONS = (
    "Jupyter notebooks that a person has open with nbchat. list_notebooks first. Cells "
    "are named by id. Changes and runs wait until the person approves them."
)


class SharedNotebook:
    """A notebook for other agents, in the kernel that runs it."""

    def __init__(
        self,
        tools: NotebookTools,
        runner: ChatRunner,
        *,
        path: Callable[[], str],
        variables: Callable[[], Mapping[str, object]],
        find_page: Callable[[], object],
    ) -> None:
        """`tools` are not the model's own: each knows what its reader has read.

        `find_page` raises NbchatError where no page shows the panel.
        """
        self._tools = {each.name: each for each in tools.tools}
        self._runner = runner
        self._path = path
        self._variables = variables
        self._find_page = find_page

    def answer(self, request: Mapping[str, Any]) -> str:
        """Run a tool for another agent and return text; raises NbchatError."""
        name, given = request.get("tool"), request.get("arguments")
        arguments = given if isinstance(given, dict) else {}
        self._find_page()
        if name == "about":
            return self._path()
        if name == "variables":
            found = dict(self._variables())
            names = [name for name in found if is_data(name, found[name])]
            names = names[-MOST_VARIABLES:]
            return "\n".join(describe_variables(found, names=names)) or "no variables"
        tool = self._tools.get(str(name))
        if tool is None or tool.name not in (*READING, *CHANGING):
            raise NbchatError(f"there is no tool {name!r}")
        call = self._call(tool, arguments)
        if tool.name in CHANGING:
            self._ask(tool, call)
        output = run_tool([tool], call._replace(tool_name=tool.name))
        text = output.entry.content
        if output.entry.is_error:
            raise NbchatError(text.removeprefix("error: "))
        if output.pictures:  # the last line says that they follow
            text = f"{text.rpartition(chr(10))[0]}\n{NO_PICTURES}"
        return text

    def _call(self, tool: Tool, arguments: Mapping[str, Any]) -> Entry:
        name = OTHER.format(tool.name)
        return Entry(
            "assistant", "", f"mcp-{secrets.token_hex(4)}", name, json.dumps(arguments)
        )

    def _ask(self, tool: Tool, call: Entry) -> None:
        """Wait for a person's approval; raises NbchatError without one."""
        agent: Agent = self._runner.agent
        approvals = approvals_of(agent.approve)
        if approvals is None:
            raise NbchatError(NO_CARDS)
        if not self._runner.is_busy:
            approvals.begin(agent.session, Flag())  # an earlier turn was stopped
        if not approvals(call, tool=tool, agent=self):
            reason = approvals.reason(call)
            raise NbchatError(f"{DENIED}: {reason}" if reason else DENIED)


def serve() -> None:
    """Serve the open notebooks on stdin and stdout until the client closes them.

    Raises ConfigError without the package mcp in version 2.
    """
    require_mcp()
    server_of_notebooks().run()


def server_of_notebooks() -> Any:
    """The server, with a tool for each thing that can be asked."""
    try:  # an optional package, which takes a second
        from mcp.server import MCPServer  # noqa: PLC0415
        from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415
        from mcp.types import ToolAnnotations  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(NEEDS_MCP_2) from error

    def telling(function: Callable[..., object]) -> Callable[..., object]:
        """The same, but for errors: a server hides those of other kinds."""

        @wraps(function)
        def tell(*arguments: Any, **named: Any) -> object:
            try:
                return function(*arguments, **named)
            except NbchatError as error:
                raise ToolError(str(error)) from error

        return tell

    ours = version("jupyter-nbchat")
    server = MCPServer("nbchat", instructions=INSTRUCTIONS, version=ours)
    reading = server.tool(annotations=ToolAnnotations(read_only_hint=True))
    for function in (list_notebooks, read_notebook, list_variables, inspect_variable):
        reading(telling(function))
    changing = server.tool(annotations=ToolAnnotations(destructive_hint=True))
    for changer in (edit_notebook, run_cells):
        changing(telling(changer))
    return server


def list_notebooks() -> list[dict[str, str]]:
    """List the notebooks that are open with a chat panel: their ids and paths."""
    names = [f"{kernel}/{chat}" for kernel, chat in chats()]
    with ThreadPoolExecutor(MOST_ASKED) as threads:
        paths = [*threads.map(_path_of, names)]
    listed = zip(names, paths, strict=True)
    return [
        {"notebook": name, "path": path} for name, path in listed if path is not None
    ]


def read_notebook(
    notebook: str,
    cells: list[str] | None = None,
    search: str = "",
    first: int = 1,
) -> str:
    """Read cells with their outputs by id; without ids an outline of all cells."""
    given = {"cells": cells or [], "search": search, "first": first}
    return _asked(notebook, "read_notebook", given)


def list_variables(notebook: str) -> str:
    """List the variables of a notebook: types, shapes and columns."""
    return _asked(notebook, "variables", {})


def inspect_variable(notebook: str, name: str) -> str:
    """Show one variable: type, shape, columns and some values."""
    return _asked(notebook, "inspect", {"name": name})


def edit_notebook(
    notebook: str,
    change: str,
    cell: str = "",
    source: str = "",
    *,
    old: str = "",
    after: str = "",
    kind: str = "code",
    run: bool = False,
) -> str:
    """Change a cell once the person approves it in the open notebook.

    `change` is replace, insert, move, delete or kind. Replace the whole source, or only
    the part `old`. Insert or move below the cell `after`.
    """
    given = {"change": change, "cell": cell, "source": source, "old": old}
    more = {"after": after, "kind": kind, "run": run}
    return _asked(notebook, "edit_notebook", {**given, **more})


def run_cells(notebook: str, cells: list[str]) -> str:
    """Run cells by id once the person approves it; returns their outputs."""
    return _asked(notebook, "run_cells", {"cells": cells})


def _path_of(notebook: str) -> str | None:
    """The path of a notebook; None where no panel is open."""
    try:
        return _asked(notebook, "about", {})
    except NbchatError:
        return None


def _asked(notebook: str, tool: str, arguments: Mapping[str, Any]) -> str:
    kernel, _, chat = notebook.partition("/")
    if not (kernel and chat):
        raise NbchatError(f"no open notebook {notebook!r}; list_notebooks names them")
    seconds = APPROVAL_SECONDS if tool in CHANGING else READ_SECONDS
    details = {"tool": tool, "arguments": dict(arguments)}
    try:
        return str(
            send_action(
                kernel, ACTION, chat_id=chat, timeout_seconds=seconds, **details
            )
        )
    except ChatUnreachable:
        raise NbchatError(f"the notebook {notebook!r} is no longer open") from None


if __name__ == "__main__":
    serve()
