"""MCP servers: their tools as tools of an agent.

    servers = McpServers(read_servers(Path.cwd()).values())
    agent = Agent(tools=servers.tools, approve=Approvals())   # named server__tool

The package `mcp` (1.26 to 2.x, the extra `nbchat[mcp]`) is loaded when the first server
starts. A server that does not answer is one line in `problems`, or one line as a call's
result; no turn fails. What a server says of itself (descriptions, annotations, results)
is shown, never trusted: its calls are approved like any other. An agent without
`approve=` takes only tools that claim to read, and those of servers in `trust`.
"""

import asyncio
import json
import os
import re
import threading
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nbchat.conversation.returned_values import Parts
from nbchat.conversation.tools import Tool
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.endpoint import check_url, is_loopback

CONNECT_SECONDS = 60.0
"""Longest time for a server to start and list its tools; a first start may download."""

CLOSE_SECONDS = 5.0
"""Longest time for a server to end."""

CALL_SECONDS = 120.0
"""Longest time for a call."""

HTTP_SECONDS, READ_SECONDS = 30.0, 300.0
"""Longest time of a request, and longest silence of its answer, as mcp has them."""

PROJECT_FILES = (".jupyter/mcp_settings.json", "mcp.json", ".mcp.json")
"""Files with servers, looked for in a folder and in those above it."""

NAME_LIMIT = 64
"""Characters of a tool's name that every API takes."""

DESCRIPTION_LIMIT = 4_000
"""Characters kept of a description: it is sent with every request."""

HINTS = {
    "read_only_hint": ("reads only", "writes"),
    "destructive_hint": ("destructive", ""),
    "open_world_hint": ("reaches the network", ""),
}
"""Annotations of a tool, in words for true and for false."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server to start as a process (`command`), or one that runs at a `url`."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    origin: str = ""
    """The file or setting that names it."""

    @property
    def address(self) -> str:
        """The command, or the URL without a login and a query."""
        if self.command:
            return " ".join([self.command, *self.args])
        return re.sub(r"//[^/@]*@", "//", self.url).partition("?")[0]

    @property
    def is_on_this_machine(self) -> bool:
        """True if its URL is on this machine, so that no proxy is used."""
        return bool(self.url) and is_loopback(urlsplit(self.url).hostname or "")


def read_servers(folder: Path) -> dict[str, McpServer]:
    """The servers that the files of a folder and those above it name; nearest first.

    Raises ConfigError with the file and what is wrong in it.
    """
    found: dict[str, McpServer] = {}
    for parent in (folder.resolve(), *folder.resolve().parents):
        for name in PROJECT_FILES:
            file = parent / name
            if file.is_file():
                found = servers_in(file) | found
    return found


def servers_in(file: Path) -> dict[str, McpServer]:
    """The servers that a file names; raises ConfigError with what is wrong in it."""
    return servers_of(_read_json(file), str(file))


def servers_of(content: object, origin: str) -> dict[str, McpServer]:
    """Servers in one of the usual forms; raises ConfigError for what is no server.

    `{"mcpServers": {name: {...}}}`, or `{"mcp_servers": [{"name": ..., ...}]}` with
    environment and headers as lists of `{"name", "value"}`.
    """
    if not isinstance(content, Mapping):
        raise ConfigError(f"{origin} must be an object with mcpServers.")
    named = content.get("mcpServers", {})
    listed = content.get("mcp_servers", [])
    if not isinstance(named, Mapping) or not isinstance(listed, list):
        raise ConfigError(
            f"{origin}: mcpServers must be an object, and mcp_servers a list."
        )
    rows = [(name, row) for name, row in named.items()]
    rows += [
        (row.get("name") if isinstance(row, Mapping) else None, row) for row in listed
    ]
    return {server.name: server for server in (_server(*row, origin) for row in rows)}


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server that is configured, and what it offers now."""

    name: str
    address: str
    """The command that connecting starts, or the URL."""
    origin: str
    """The file or setting that names it."""
    tools: tuple[Tool, ...] | None = None
    """None while it is not connected."""
    problem: str = ""
    """Reason why it couldn't be reached."""


class McpServers:
    """Connections to some servers, on a shared thread."""

    def __init__(
        self,
        servers: Iterable[McpServer] = (),
        *,
        trust: Collection[str] = (),
        connect_seconds: float = CONNECT_SECONDS,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        """Connect to each server; one that cannot be reached is in `problems`.

        Tools of servers in `trust`, names, run without `approve=`. Raises ConfigError
        if the package `mcp` is missing.
        """
        if isinstance(trust, str):
            raise ConfigError(
                f"trust={trust!r} isn't a set of names. Use {{{trust!r}}}."
            )
        self._trust = frozenset(trust)
        self._connect_seconds, self._call_seconds = connect_seconds, call_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: dict[str, _Connection] = {}
        self.problems: dict[str, str] = {}
        """One line for each server that cannot be reached, by its name."""
        self.connect(servers)

    def __repr__(self) -> str:
        """The connected servers."""
        return f"<McpServers: {', '.join(self._connections) or 'none'}>"

    def __enter__(self) -> "McpServers":
        """Return self: the servers are already connected."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connections."""
        self.close()

    @property
    def tools(self) -> list[Tool]:
        """The tools of all connected servers, named `server__tool`."""
        tools: dict[str, Tool] = {}
        for connection in self._connections.values():
            for each in connection.tools:
                name = _free_name(each.name, tools)
                tools[name] = replace(each, name=name)
        return list(tools.values())

    @property
    def connected(self) -> dict[str, list[Tool]]:
        """The tools of each connected server."""
        return {name: each.tools for name, each in self._connections.items()}

    def connect(self, servers: Iterable[McpServer]) -> None:
        """Connect to more servers, all at once; skips those that are connected."""
        new = [each for each in servers if each.name not in self._connections]
        if not new:
            return
        require_mcp()
        loop = self._loop = self._loop or _running_loop()
        opened = [
            (
                each,
                _Connection(
                    each,
                    loop,
                    self._call_seconds,
                    is_trusted=each.name in self._trust,
                ),
            )
            for each in new
        ]
        for server, connection in opened:
            try:
                connection.ready.result(self._connect_seconds)
            except Exception as error:  # noqa: BLE001  # a server may fail in any way
                connection.close()
                self.problems[server.name] = _line(server, error)
            else:
                self.problems.pop(server.name, None)
                self._connections[server.name] = connection

    def disconnect(self, name: str) -> None:
        """Close one connection; raises NbchatError if there is none."""
        connection = self._connections.pop(name, None)
        if connection is None:
            raise NbchatError(f"No MCP server {name!r} is connected.")
        connection.close()

    def state(self, server: McpServer) -> ServerState:
        """Tools that a server offers now, or the reason why it can't be reached."""
        tools = self.connected.get(server.name)
        offered = None if tools is None else tuple(tools)
        problem = self.problems.get(server.name, "")
        return ServerState(server.name, server.address, server.origin, offered, problem)

    def close(self) -> None:
        """Close all connections, and end the processes that were started."""
        for name in tuple(self._connections):
            self.disconnect(name)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


def require_mcp() -> None:
    """Raise ConfigError if the package `mcp` is missing or too old."""
    try:
        found = version("mcp")
    except PackageNotFoundError:
        raise ConfigError(
            'MCP servers need the package mcp. Run: pip install "jupyter-nbchat[mcp]"'
        ) from None
    if int(found.split(".")[0]) not in (1, 2):
        raise ConfigError(f"nbchat works with mcp 1.26 to 2.x, not {found}.")


class _Connection:
    """One server; its session is opened, used and closed in one task of the loop."""

    def __init__(
        self,
        server: McpServer,
        loop: asyncio.AbstractEventLoop,
        call_seconds: float,
        *,
        is_trusted: bool,
    ) -> None:
        self.server = server
        self._is_trusted = is_trusted
        self.tools: list[Tool] = []
        self.ready: Future[None] = Future()
        """Set once the tools are listed."""
        self._loop, self._call_seconds = loop, call_seconds
        self._session: Any = None
        self._closing = asyncio.Event()
        self._task = asyncio.run_coroutine_threadsafe(self._serve(), loop)

    def close(self) -> None:
        """End the session, and the process if one was started."""
        self._loop.call_soon_threadsafe(self._closing.set)
        with suppress(Exception):
            self._task.result(CLOSE_SECONDS)
        self._task.cancel()

    async def _serve(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                session = await stack.enter_async_context(_session(self.server))
                listed = await _all_tools(session)
                self.tools = [self._tool(each) for each in listed]
                self._session = session
                self.ready.set_result(None)
                await self._closing.wait()
        except BaseException as error:
            if not self.ready.done():
                self.ready.set_exception(error)
            raise
        finally:
            self._session = None

    def _tool(self, listed: Any) -> Tool:
        made = _tool(self.server.name, listed, self._call, self._call_seconds)
        annotations = getattr(listed, "annotations", None)
        if self._is_trusted or _get(annotations, "read_only_hint") is True:
            return made
        return replace(made, server=self.server.name)

    def _call(self, name: str, /, **arguments: object) -> object:
        """Run a call from the agent's thread; raises NbchatError in one line."""
        if self._session is None:
            raise NbchatError(f"The MCP server {self.server.name!r} isn't connected.")
        calling = self._session.call_tool(name, arguments)
        running = asyncio.run_coroutine_threadsafe(calling, self._loop)
        try:
            result = running.result(self._call_seconds)
        except Exception as error:  # noqa: BLE001  # a server may fail in any way
            running.cancel()
            raise NbchatError(_line(self.server, error)) from None
        if _get(result, "is_error"):
            raise NbchatError(
                result_text(result) or f"{name} failed and gave no reason."
            )
        return result_parts(result)


@asynccontextmanager
async def _session(server: McpServer) -> AsyncIterator[Any]:
    """An open session of either version of the package: both can list and call."""
    import mcp  # noqa: PLC0415  # two seconds, and an optional dependency

    async with AsyncExitStack() as stack:
        if hasattr(mcp, "Client"):
            transport = await _transport(server, stack)
            yield await stack.enter_async_context(mcp.Client(transport))
            return
        if server.command:
            streams = _process(server, stack)
        else:
            import httpx  # noqa: PLC0415  # comes with mcp 1
            from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

            timeout = httpx.Timeout(HTTP_SECONDS, read=READ_SECONDS)
            client = httpx.AsyncClient(
                headers=dict(server.headers),
                timeout=timeout,
                trust_env=not server.is_on_this_machine,
            )
            await stack.enter_async_context(client)
            streams = streamable_http_client(server.url, http_client=client)  # type: ignore[arg-type]  # mcp 1
        read, write, *_ = await stack.enter_async_context(streams)
        session = await stack.enter_async_context(mcp.ClientSession(read, write))
        await session.initialize()
        yield session


async def _transport(server: McpServer, stack: AsyncExitStack) -> Any:
    """Argument from which an `mcp.Client` of version 2 connects."""
    if server.command:
        return _process(server, stack)
    if not (server.headers or server.is_on_this_machine):
        return server.url
    import httpx2  # noqa: PLC0415  # comes with mcp 2
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    client = httpx2.AsyncClient(
        headers=dict(server.headers),
        timeout=httpx2.Timeout(HTTP_SECONDS, read=READ_SECONDS),
        trust_env=not server.is_on_this_machine,
    )
    await stack.enter_async_context(client)
    return streamable_http_client(server.url, http_client=client)


def _process(server: McpServer, stack: AsyncExitStack) -> Any:
    """The streams of a process to start; what it writes to stderr is not shown."""
    import mcp  # noqa: PLC0415

    parameters = mcp.StdioServerParameters(
        command=server.command, args=list(server.args), env=dict(server.env) or None
    )
    unread = stack.enter_context(open(os.devnull, "w"))  # noqa: PTH123, SIM115
    return mcp.stdio_client(parameters, errlog=unread)


async def _all_tools(session: Any) -> list[Any]:
    """Every page of a server's list of tools."""
    tools: list[Any] = []
    cursor: str | None = None
    while True:
        page = await (
            session.list_tools(cursor=cursor) if cursor else session.list_tools()
        )
        tools += page.tools
        following = _get(page, "next_cursor")
        if not following or following == cursor:
            return tools
        cursor = following


def _tool(
    server: str, listed: Any, call: Callable[..., object], seconds: float
) -> Tool:
    """A tool of a server as a tool of an agent; the server checks the arguments."""
    schema = {"type": "object", "properties": {}} | dict(_get(listed, "input_schema"))
    description = (listed.description or listed.name)[:DESCRIPTION_LIMIT]
    if hints := annotation_text(listed):
        description = f"{description}\n(The server says: {hints}.)"
    name = _safe(f"{server}__{listed.name}")
    function = partial(call, listed.name)
    return Tool(name, description, schema, function, timeout_seconds=seconds)


def tool_line(tool: Tool) -> str:
    """The first line of a description, and what the server claims of the tool."""
    first, _, rest = tool.description.strip().partition("\n")
    claims = rest.rpartition("\n")[2] if rest.endswith(".)") else ""
    return " ".join(filter(None, (first[:100], claims)))


def annotation_text(listed: Any) -> str:
    """A server's claims about a tool, in words."""
    annotations = getattr(listed, "annotations", None)
    claims = (
        words[0 if claimed else 1]
        for hint, words in HINTS.items()
        if (claimed := _get(annotations, hint)) is not None
    )
    return ", ".join(filter(None, claims))


def result_text(result: Any) -> str:
    """The text of a call's result; other content is named with its size."""
    return "\n".join(e if isinstance(e, str) else "[picture]" for e in _parts(result))


def result_parts(result: Any) -> str | Parts:
    """A call's result: its text, or texts and pictures in their order."""
    parts = tuple(_parts(result))
    if all(isinstance(each, str) for each in parts):
        return result_text(result)
    return Parts(parts)


def _parts(result: Any) -> list[str | bytes]:
    """Texts, bytes of pictures, and lines that name other content."""
    parts = [part for part in map(_part, result.content or ()) if part]
    structured = _get(result, "structured_content")
    if not parts and structured is not None:
        return [json.dumps(structured, ensure_ascii=False)]
    return parts


def _part(block: Any) -> str | bytes:
    """A text, the bytes of a picture, or a line with type, name and size."""
    resource = getattr(block, "resource", None)
    for each in (block, resource):
        if (text := getattr(each, "text", None)) is not None:
            return str(text)
    data = getattr(block, "data", "") or getattr(resource, "blob", "") or ""
    kind = str(_get(block, "mime_type") or _get(resource, "mime_type") or block.type)
    if data and (block.type == "image" or kind.startswith("image/")):
        with suppress(ValueError):
            return b64decode(data)
    size = _get(block, "size") or len(data) * 3 // 4 - data[-2:].count("=")
    name = getattr(block, "title", "") or getattr(block, "name", "")
    where = getattr(block, "uri", "") or getattr(resource, "uri", "")
    about = [kind, str(name or ""), f"{size:,} bytes" if size else "", str(where)]
    return f"[{', '.join(filter(None, about))}]"


def _get(value: Any, name: str) -> Any:
    """An attribute by its name in mcp 2, or by that in mcp 1: `isError`."""
    if (found := getattr(value, name, None)) is not None:
        return found
    first, *rest = name.split("_")
    return getattr(value, first + "".join(map(str.capitalize, rest)), None)


def _line(server: McpServer, error: BaseException) -> str:
    """Why a server cannot be used, in one line."""
    while isinstance(error, BaseExceptionGroup):  # anyio wraps what failed in a task
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        reason = "it didn't answer in time"
    elif type(error).__name__ in ("ClosedResourceError", "BrokenResourceError"):
        reason = "the connection is closed"  # of anyio, without a text of its own
    else:
        text = " ".join(str(error).split())[:200]
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"The MCP server {server.name!r} ({server.address}) failed: {reason}"


def _running_loop() -> asyncio.AbstractEventLoop:
    """An event loop that runs in its own thread until it is stopped."""
    loop = asyncio.new_event_loop()

    def run() -> None:
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    threading.Thread(target=run, name="nbchat-mcp", daemon=True).start()
    return loop


def _safe(name: str) -> str:
    """A name that every API takes: letters, digits, underscore and hyphen."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:NAME_LIMIT]


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """The name, with a number if another tool has it."""
    number = 2
    free = name
    while free in taken:
        free = f"{name[: NAME_LIMIT - 3]}_{number}"
        number += 1
    return free


def _read_json(file: Path) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} can't be read as JSON: {error}.") from None


def _server(name: object, row: object, origin: str) -> McpServer:
    if not isinstance(name, str) or not name.strip() or not isinstance(row, Mapping):
        raise ConfigError(f"{origin}: the MCP server {name!r} must be an object.")
    command, url = row.get("command", ""), row.get("url", "")
    args = row.get("args", [])
    is_list = isinstance(args, list) and all(isinstance(each, str) for each in args)
    if not (isinstance(command, str) and isinstance(url, str) and is_list):
        raise ConfigError(
            f"{origin}: {name}: command and url must be strings, and args a list of "
            "strings."
        )
    if bool(command) == bool(url):
        raise ConfigError(f"{origin}: {name} needs either a command or a url.")
    if url:
        check_url(url, f"{origin}: {name}: the url")
    env = _pairs(row.get("env", {}), f"{origin}: {name}: env")
    headers = _pairs(row.get("headers", {}), f"{origin}: {name}: headers")
    return McpServer(name, command, tuple(args), env, url, headers, origin)


def _pairs(value: object, origin: str) -> dict[str, str]:
    """Texts by name, from an object or from a list of `{"name", "value"}`."""
    if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        value = {each.get("name"): each.get("value") for each in value}
    if not isinstance(value, Mapping) or not all(
        isinstance(text, str) for pair in value.items() for text in pair
    ):
        raise ConfigError(f"{origin} must map names to strings.")
    return dict(value)
