"""The command /mcp: list the MCP servers that are configured, connect and disconnect.

A server starts a program. So a server that a project's file names starts only on
request, and one in a folder above, where others may write, only after the person has
seen and accepted its command. The servers of the file in the setting `mcp_file` are
connected when the chat begins: a person has chosen them.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from nbchat.agent.agent import Agent
from nbchat.agent.approvals import Approvals
from nbchat.agent.mcp import (
    McpServer,
    McpServers,
    ServerState,
    read_servers,
    servers_in,
    tool_line,
)
from nbchat.conversation.json_schemas import schema_text
from nbchat.conversation.tools import Tool
from nbchat.errors import ConfigError, NbchatError

logger = logging.getLogger(__name__)

HOW = "/mcp NAME connects or disconnects a server. /mcp TOOL describes a tool."

YES = " yes"
"""After a name in `/mcp`: start what was shown."""

NONE = (
    "No MCP servers are configured. Add them to .jupyter/mcp_settings.json or "
    "mcp.json in this folder, or set mcp_file."
)


class ChatServers:
    """The MCP servers of one chat, and which of them its agent may call."""

    def __init__(self, mcp_file: Callable[[], str]) -> None:
        """`mcp_file` returns the file that the settings name, or nothing."""
        self._mcp_file = mcp_file
        self._servers = McpServers()
        self._offered: tuple[Tool, ...] = ()
        self._shown: dict[str, McpServer] = {}
        """Servers of folders above this one, as a person has seen them."""

    def connect_chosen(self, agent: Agent) -> None:
        """Connect to the servers of `mcp_file`; failures are logged."""
        try:
            if chosen := self._chosen():
                self._servers.connect(chosen.values())
                self._offer(agent)
        except ConfigError as error:
            logger.warning("Didn't connect to MCP servers: %s", error)
        for problem in self._servers.problems.values():
            logger.warning("%s", problem)

    def command(self, agent: Agent, name: str) -> str:
        """List the servers; with a name, connect or disconnect that one."""
        known = self._known()
        if not name:
            rows = "\n".join(map(_row, self.listed())) or NONE
            return f"{rows}\n{HOW}" if known else rows
        if tool := self._servers_tool(name):
            return f"{tool.name}\n{tool.description}\n{schema_text(tool.parameters)}"
        if name in self._servers.connected:
            self._servers.disconnect(name)
            self._offer(agent)
            return f"Disconnected {name}."
        is_accepted = name not in known and name.endswith(YES)
        name = name.removesuffix(YES).rstrip() if is_accepted else name
        if name not in known:
            names = f"Choose one of {', '.join(known)}." if known else NONE
            raise NbchatError(f"No MCP server named {name}. {names}")
        if question := self._question(known[name], is_accepted=is_accepted):
            return question
        self._servers.connect([known[name]])
        if problem := self._servers.problems.get(name):
            raise NbchatError(problem)
        self._offer(agent)
        return _row(self._servers.state(known[name]))

    def _question(self, server: McpServer, *, is_accepted: bool) -> str:
        """The question before a server starts; empty where there is none."""
        is_here = Path(server.origin).is_relative_to(Path.cwd().resolve())
        if is_here or server.name in self._chosen():
            return ""
        if is_accepted and self._shown.get(server.name) == server:
            return ""
        self._shown[server.name] = server
        does = "runs" if server.command else "connects to"
        return (
            f"{server.name} comes from {server.origin}, in a folder above this one. It "
            f"{does}: {server.address}\nIf you trust that file, use "
            f"/mcp {server.name}{YES}."
        )

    def listed(self) -> list[ServerState]:
        """The servers that are configured; raises ConfigError for an invalid file."""
        return list(map(self._servers.state, self._known().values()))

    def close(self) -> None:
        """End the connections and the processes that were started."""
        self._servers.close()

    def _chosen(self) -> dict[str, McpServer]:
        file = self._mcp_file()
        return servers_in(Path(file).expanduser()) if file else {}

    def _known(self) -> dict[str, McpServer]:
        return read_servers(Path.cwd()) | self._chosen()

    def _offer(self, agent: Agent) -> None:
        """Give the agent the tools of the connected servers; a person approves calls.

        Raises ConfigError where two tools have the same name.
        """
        with agent.alone():
            own = [each for each in agent.tools if each not in self._offered]
            tools = tuple(self._servers.tools)
            taken = {each.name for each in own} & {each.name for each in tools}
            if taken:
                raise ConfigError(f"Two tools are named {', '.join(sorted(taken))}.")
            if agent.approve is None:
                agent.approve = Approvals()
            agent.tools = (*own, *tools)
            self._offered = tools
            agent.count_fixed_tokens()

    def _servers_tool(self, name: str) -> Tool | None:
        """The tool of a connected server with this name."""
        return next((each for each in self._servers.tools if each.name == name), None)


def _row(server: ServerState) -> str:
    """A server with its state and its tools."""
    if server.tools is None:
        state = server.problem or "not connected"
        return f"{server.name}  {state}  {server.address}  ({server.origin})"
    tools = server.tools
    count = f"{len(tools)} tool{'' if len(tools) == 1 else 's'}"
    lines = [f"{server.name}  connected, {count}  ({server.origin})"]
    lines += [f"  {each.name}  {tool_line(each)}" for each in tools]
    return "\n".join(lines)
