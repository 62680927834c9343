"""`nbchat acp`: an agent that an editor or jupyter-ai talks to over stdin and stdout.

It speaks the Agent Client Protocol with the package `agent-client-protocol` (the extra
`nbchat[acp]`). Sessions are those of the store: a chat continues in the panel, here, or
in another editor. Each turn runs in a thread of its own; its events become updates.
"""

import asyncio
import contextlib
import json
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import acp
from acp import schema

from nbchat.agent.agent import Agent
from nbchat.agent.mcp import McpServer, McpServers
from nbchat.config.layers import settings
from nbchat.conversation import events
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import Event, StopReason
from nbchat.conversation.pictures import picture_of
from nbchat.conversation.session import Session
from nbchat.conversation.tools import Tool
from nbchat.errors import NbchatError, Stopped
from nbchat.storage.autosave import save_session
from nbchat.storage.factory import autosave_of, build_agent
from nbchat.storage.store import SessionStore

STOP_REASONS: dict[StopReason, schema.StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "max_steps": "max_turn_requests",
    "stopped": "cancelled",
}
"""The protocol's names of the ways in which a turn ends; of others it is `end_turn`."""

COMPACTIONS: dict[type[Event], str] = {
    events.CompactionStarted: "in_progress",
    events.Compacted: "completed",
    events.CompactionFailed: "failed",
}
"""The protocol's states of a compaction."""

PERMISSIONS = [
    schema.PermissionOption(option_id="once", name="Allow once", kind="allow_once"),
    schema.PermissionOption(
        option_id="always", name="Allow for this session", kind="allow_always"
    ),
    schema.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
]


CANCEL_SECONDS = 0.2
"""How often a wait for a person's decision looks whether the turn was cancelled."""

SESSIONS_LISTED = 100
"""Sessions in one answer; the client asks for more with its cursor."""

ATTACHED_ALONE = "See what is attached."
"""The message of a prompt that mentions or embeds something and says nothing."""

LINE_BYTES = 50 * 1024 * 1024
"""Longest message of a client: a prompt with files."""


def serve(tools: Iterable[Callable[..., object]] = ()) -> None:
    """Answer a client on stdin and stdout until it closes them."""
    asyncio.run(_serve(AcpAgent(tools)))


async def _serve(agent: "AcpAgent") -> None:
    reader, writer = await acp.stdio_streams(limit=LINE_BYTES)
    with contextlib.redirect_stdout(sys.stderr):  # a print would break the protocol
        try:
            serving: Any = agent  # it has the methods that it answers to
            await acp.run_agent(serving, writer, reader, use_unstable_protocol=True)
        finally:
            agent.stop()


@dataclass
class Chat:
    """A session that a client has opened."""

    agent: Agent
    cwd: str
    servers: McpServers
    stop: threading.Event = field(default_factory=threading.Event)
    allowed: set[str] = field(default_factory=set)
    """Tools that run unasked for the rest of the session."""


class AcpAgent:
    """nbchat as an agent of the protocol; one object serves one client."""

    def __init__(
        self,
        tools: Iterable[Callable[..., object]] = (),
        *,
        store: SessionStore | None = None,
        make_agent: Callable[..., Agent] = build_agent,
    ) -> None:
        """Every chat may call `tools`; `make_agent` builds the agent of a session."""
        self._tools = tuple(tools)
        self._store = store or SessionStore(settings().store_url)
        self._make_agent = make_agent
        self._chats: dict[str, Chat] = {}
        self._client: Any = None
        self._knows_compaction = False

    def on_connect(self, conn: Any) -> None:
        """Remember the client, to which updates are sent."""
        self._client = conn
        conn._conn.add_observer(self._observe)  # noqa: SLF001

    def _observe(self, event: Any) -> None:
        """See whether the client knows compactions, which the package's types drop."""
        message = event.message
        if event.direction == "incoming" and message.get("method") == "initialize":
            match message.get("params"):
                case {"clientCapabilities": {"session": {"compaction": dict()}}}:
                    self._knows_compaction = True

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        """Say what this agent can do."""
        del client_capabilities  # `_observe` reads those that the package drops
        can = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(
                embedded_context=True, image=True
            ),
            mcp_capabilities=schema.McpCapabilities(http=True),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(),
                fork=schema.SessionForkCapabilities(),
                resume=schema.SessionResumeCapabilities(),
                close=schema.SessionCloseCapabilities(),
            ),
        )
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=can,
            agent_info=schema.Implementation(
                name="nbchat", title="nbchat", version=version("jupyter-nbchat")
            ),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Begin a chat, with the tools of the client's MCP servers."""
        session = Session()
        await self._open(session, cwd, mcp_servers)
        return schema.NewSessionResponse(session_id=session.session_id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Continue a stored session and send all of its messages again."""
        session = await self._stored(session_id)
        await self._open(session, cwd, mcp_servers)
        for entry in session.transcript:
            for update in _entry_updates(entry):
                await self._client.session_update(session_id, update)
        if usage := _context_now(self._chats[session_id].agent):
            await self._client.session_update(session_id, usage)
        return schema.LoadSessionResponse()

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Continue a stored session whose messages the client has."""
        await self._open(await self._stored(session_id), cwd, mcp_servers)
        return schema.ResumeSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """The stored sessions, the newest first, some at a time."""
        page = partial(self._store.sessions, before=cursor or "")
        found = await asyncio.to_thread(page, limit=SESSIONS_LISTED + 1)
        is_rest = len(found) > SESSIONS_LISTED
        rows = [
            schema.SessionInfo(
                session_id=info.id,
                cwd=cwd or "/",
                title=info.title,
                updated_at=info.used_at,
            )
            for info in found[:SESSIONS_LISTED]
        ]
        return schema.ListSessionsResponse(
            sessions=rows, next_cursor=rows[-1].session_id if is_rest else None
        )

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.ForkSessionResponse:
        """A copy of a session, which continues by itself."""
        chat = self._chats.get(session_id)
        session = chat.agent.session if chat else await self._stored(session_id)
        copy = deepcopy(session)
        copy.session_id = uuid4().hex[:12]
        await asyncio.to_thread(save_session, self._store, copy)
        await self._open(copy, cwd, mcp_servers)
        return schema.ForkSessionResponse(session_id=copy.session_id)

    async def close_session(
        self, session_id: str, **_: Any
    ) -> schema.CloseSessionResponse:
        """End a chat; it stays in the store."""
        await self.cancel(session_id)
        if chat := self._chats.pop(session_id, None):
            await asyncio.to_thread(chat.servers.close)
        return schema.CloseSessionResponse()

    def stop(self) -> None:
        """Stop all turns; their requests would continue after the client has left."""
        for chat in self._chats.values():
            chat.stop.set()
            chat.agent.wake()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the turn of a session."""
        if chat := self._chats.get(session_id):
            chat.stop.set()
            chat.agent.wake()

    async def prompt(
        self, session_id: str, prompt: list[Any], **_: Any
    ) -> schema.PromptResponse:
        """Run a turn and send what happens; returns when it has ended."""
        chat = self._chat(session_id)
        if chat.agent.is_answering:
            reason = "This session is already answering. Cancel it, or wait."
            raise acp.RequestError.invalid_request({"message": reason})
        chat.stop.clear()
        ending = await asyncio.to_thread(self._run, chat, prompt)
        if isinstance(ending, events.TurnFailed):
            raise acp.RequestError.internal_error({"message": ending.message})
        reason = STOP_REASONS.get(ending.stop_reason, "end_turn")
        return schema.PromptResponse(
            stop_reason=reason, usage=_usage(chat.agent.session.usage)
        )

    def _run(
        self, chat: Chat, prompt: list[Any]
    ) -> events.TurnFinished | events.TurnFailed:
        """Run a turn in this thread, its updates in the order of its events."""
        turn = chat.agent.run(
            _message(prompt),
            stop=chat.stop,
            attached=_attachments(prompt),
            pasted=_mentions(prompt),
        )
        for event in turn:
            for update in self._updates(chat, event):
                sending = self._client.session_update(
                    chat.agent.session.session_id, update
                )
                self._in_loop(sending).result()
            if isinstance(event, events.TurnFinished | events.TurnFailed):
                return event
        raise NbchatError("The turn ended without an event.")

    def _updates(self, chat: Chat, event: Event) -> Iterable[Any]:
        match event:
            case events.TextDelta(text):
                yield acp.update_agent_message_text(text)
            case events.ThinkingDelta(text):
                yield acp.update_agent_thought_text(text)
            case events.EntryAdded(_, entry) if entry.is_call or entry.role == "tool":
                yield from _entry_updates(entry)
            case events.UsageReported(window=int(window)):
                yield _context_usage(chat.agent, event.context_tokens, window)
            case (
                events.CompactionStarted(compaction=Compaction() as record)
                | events.Compacted(record)
                | events.CompactionFailed(record)
            ) if self._knows_compaction:
                self._send_compaction(chat, event, record)
            case events.Compacted(compaction):
                note = (
                    f"Compaction occurred: {compaction.messages} messages, "
                    f"{compaction.tokens_before:,} → {compaction.tokens_after:,} "
                    "tokens. Nothing is lost."
                )
                yield acp.update_agent_thought_text(note)
            case events.CompactionFailed():
                yield acp.update_agent_thought_text(
                    f"Nothing was compacted: {event.reason}"
                )

    def _send_compaction(self, chat: Chat, event: Event, record: Compaction) -> None:
        """The protocol's `compaction_update`, which the package has no type for yet."""
        update: dict[str, Any] = {
            "sessionUpdate": "compaction_update",
            "compactionId": record.id,
            "status": COMPACTIONS[type(event)],
        }
        if isinstance(event, events.Compacted):
            update["summary"] = {"type": "text", "text": record.summary}
        params = {"sessionId": chat.agent.session.session_id, "update": update}
        method = acp.CLIENT_METHODS["session_update"]
        self._in_loop(self._client._conn.send_notification(method, params)).result()  # noqa: SLF001

    def _in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _approve(self, chat: Chat, call: Entry) -> bool:
        """Ask the client whether a call may run; a cancelled turn raises Stopped."""
        declared = next((t for t in chat.agent.tools if t.name == call.tool_name), None)
        if call.tool_name in chat.allowed or (declared and declared.read_only):
            return True
        asked = schema.ToolCallUpdate(
            tool_call_id=call.tool_id, title=call.tool_name, raw_input=call.arguments
        )
        session_id = chat.agent.session.session_id
        asking = self._client.request_permission(session_id, asked, PERMISSIONS)
        outcome = _until_cancelled(self._in_loop(asking), chat.stop).outcome
        chosen = getattr(outcome, "option_id", "reject")
        if chosen == "always":
            chat.allowed.add(call.tool_name)
        return chosen in ("once", "always")

    async def _open(self, session: Session, cwd: str, mcp_servers: Any) -> None:
        """Build the agent of a session and connect the client's MCP servers."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._build, session, cwd, mcp_servers or [])

    def _build(self, session: Session, cwd: str, mcp_servers: list[Any]) -> None:
        servers = McpServers(map(_server, mcp_servers))
        tools: list[Callable[..., object]] = [*self._tools, *servers.tools]
        agent = self._make_agent(
            session=session,
            store=self._store,
            tools=tools,
            approve=False,  # until the client can be asked, below
        )
        if agent.autosave is None:
            agent.autosave = autosave_of(self._store, session, agent)
        chat = Chat(agent, cwd, servers)
        recall = {each.name for each in agent.tools} - {_name(each) for each in tools}
        chat.allowed |= recall
        agent.approve = lambda call: self._approve(chat, call)
        self._chats[session.session_id] = chat

    def _chat(self, session_id: str) -> Chat:
        if session_id not in self._chats:
            problem = f"No session {session_id!r} is open. Create or load it first."
            raise acp.RequestError.invalid_params({"message": problem})
        return self._chats[session_id]

    async def _stored(self, session_id: str) -> Session:
        try:
            return await asyncio.to_thread(self._store.load, session_id)
        except NbchatError as error:
            raise acp.RequestError.invalid_params({"message": str(error)}) from None


def _until_cancelled(answer: Future[Any], stop: threading.Event) -> Any:
    """The answer of a client; raises Stopped if the turn is cancelled meanwhile."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            found = answer.result(CANCEL_SECONDS)
            if not stop.is_set():
                return found
    answer.cancel()
    raise Stopped("stopped")


def _name(tool: Callable[..., object]) -> str:
    return tool.name if isinstance(tool, Tool) else getattr(tool, "__name__", "")


def _entry_updates(entry: Entry) -> Iterable[Any]:
    """A stored entry as updates."""
    if entry.is_call:
        yield acp.start_tool_call(
            entry.tool_id,
            entry.tool_name,
            status="in_progress",
            raw_input=entry.arguments,
        )
    elif entry.role == "tool":
        yield acp.update_tool_call(
            entry.tool_id,
            status="failed" if entry.is_error else "completed",
            content=[acp.tool_content(acp.text_block(entry.content))],
        )
    elif entry.is_of_user:
        yield acp.update_user_message_text(entry.content)
    elif entry.role == "thinking":
        yield acp.update_agent_thought_text(entry.content)
    elif entry.is_answer:
        yield acp.update_agent_message_text(entry.content)


def _message(prompt: list[Any]) -> str:
    """The person's text, with the names of mentioned things in their places."""
    if not any(_is_written(block) for block in prompt):
        return ATTACHED_ALONE
    parts = (block.text if _is_written(block) else _mention(block) for block in prompt)
    return "\n\n".join(filter(None, parts))


def _is_written(block: Any) -> bool:
    """True if a block is the person's words: not what is meant for the model alone."""
    if not isinstance(block, schema.TextContentBlock):
        return False
    audience = block.annotations.audience if block.annotations else None
    return bool(block.text.strip()) and (not audience or "user" in audience)


def _mention(block: Any) -> str:
    """A link to what is mentioned or embedded, on one line."""
    match block:
        case schema.ResourceContentBlock():
            link = f"[{block.title or block.name}]({block.uri})"
        case schema.EmbeddedResourceContentBlock():
            link = f"[{_file_name(block.resource.uri)}]({block.resource.uri})"
        case _:
            link = ""
    return " ".join(link.split())


def _mentions(prompt: list[Any]) -> list[str]:
    """The links in a message: others may have named the files."""
    return list(filter(None, map(_mention, prompt)))


def _file_name(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2] or uri


def _attachments(prompt: list[Any]) -> list[Entry]:
    """Pictures, files and links of a prompt, as entries before its text.

    They are what others wrote: no rule of the person is read from them.
    """
    return list(filter(None, map(_attachment, prompt)))


def _attachment(block: Any) -> Entry | None:
    match block:
        case schema.ImageContentBlock():
            return _picture(block)
        case schema.ResourceContentBlock():
            about = "\n".join(filter(None, (block.description, block.uri)))
            name = block.title or block.name
            return _attached("file", f"A link to {name}:", _file(name, about))
        case schema.EmbeddedResourceContentBlock():
            uri = block.resource.uri
            text = getattr(block.resource, "text", "(not text)")
            return _attached("file", f"{uri}:", _file(_file_name(uri), text))
        case schema.TextContentBlock() if block.text and not _is_written(block):
            caption = "From the editor:"
            return _attached("file", caption, _file("the editor", block.text))
    return None


def _file(name: str, text: str) -> dict[str, str]:
    return {"media_type": "text/plain", "name": name, "data": text}


def _attached(kind: str, caption: str, details: dict[str, str]) -> Entry:
    return Entry("user", caption, "", kind, json.dumps(details))


def _picture(block: Any) -> Entry:
    name = block.uri or "A picture:"
    try:
        return picture_of(b64decode(block.data)).entry(name)
    except ValueError as error:
        return Entry("user", f"{name} [{error}]")


def _context_now(agent: Agent) -> schema.UsageUpdate | None:
    """The context of a session that was just opened, where the window is known."""
    held = agent.context_usage()
    return _context_usage(agent, held.total, held.window) if held.window else None


def _context_usage(agent: Agent, used: int, window: int) -> schema.UsageUpdate:
    dollars = agent.session.usage.dollars
    cost = schema.Cost(amount=dollars, currency="USD") if dollars else None
    return schema.UsageUpdate(
        session_update="usage_update", used=used, size=window, cost=cost
    )


def _usage(usage: Usage) -> schema.Usage:
    return schema.Usage(
        total_tokens=usage.total_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_read_tokens=usage.cache_read_tokens,
    )


def _server(server: Any) -> McpServer:
    """An MCP server that the client has configured."""

    def pairs(rows: Any) -> dict[str, str]:
        return {each.name: each.value for each in rows or ()}

    return McpServer(
        server.name,
        getattr(server, "command", ""),
        tuple(getattr(server, "args", ())),
        pairs(getattr(server, "env", ())),
        getattr(server, "url", ""),
        pairs(getattr(server, "headers", ())),
        "the client",
    )
