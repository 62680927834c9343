"""Answers the queries of views, each on a thread of its own; a query changes nothing.

It may come while a cell or a turn runs, and rendering a page of history may take a
second, in which no click on Stop must wait.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.mcp import ServerState
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.queries.choices import (
    CommandList,
    Settings,
    completions,
    models_list,
    paths_list,
    servers_list,
    settings_list,
)
from nbchat.jupyter.panel.queries.context import (
    compaction_plan,
    context_parts,
    current_summary,
)
from nbchat.jupyter.panel.queries.history import (
    Store,
    branch_switches,
    history_page,
    message_text,
    session_text,
    sessions_list,
)
from nbchat.jupyter.panel.queries.memory import memory_view
from nbchat.jupyter.panel.queries.previews import Previews
from nbchat.jupyter.panel.queries.start import start_options
from nbchat.rendering.markdown import displayable

logger = logging.getLogger(__name__)

Query = Callable[[Agent], dict[str, Any]]

Send = Callable[[dict[str, Any]], None]


class UseKey(Protocol):
    """Continues a chat with a key that a person typed."""

    def __call__(self, agent: Agent, kind: str, key: str, /, *, keep: bool) -> None:
        """`keep` also stores it in the system's keyring; raises NbchatError."""


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of one panel, and where their answers come from."""

    previews: Previews
    commands: CommandList
    settings: Settings | None = None
    store: Callable[[], Store] | None = None
    resolver: Resolver | None = None
    use_key: UseKey | None = None
    servers: Callable[[], Iterable[ServerState]] | None = None

    def find(self, name: str, content: dict[str, Any]) -> Query | None:
        """The query that a message names; None for unknown ones."""
        match name, content:
            case "plan", {"keep": keep}:
                upto = whole_number(content.get("upto"))
                return partial(compaction_plan, keep=whole_number(keep), upto=upto)
            case "context", _:
                return context_parts
            case "summary", _:
                return current_summary
        others = (
            self._find_choices,
            self._find_in_history,
            self._find_in_store,
            self._find_in_typing,
            self._find_at_start,
        )
        found = (find(name, content) for find in others)
        return next(filter(None, found), None)

    def _find_choices(self, name: str, _content: dict[str, Any]) -> Query | None:
        match name:
            case "settings" if self.settings is not None:
                return partial(settings_list, settings=self.settings)
            case "models":
                return lambda agent: models_list(agent.provider)
            case "servers" if servers := self.servers:
                return lambda _agent: servers_list(servers())
        return None

    def _find_in_history(self, name: str, content: dict[str, Any]) -> Query | None:
        match name, content:
            case "memory", _:
                return memory_view
            case "history", {"query": str(query), "before": position}:
                before = whole_number(position)
                return lambda agent: history_page(agent.session, query, before=before)
            case "message", {"position": int(position)}:
                return lambda agent: message_text(agent.session, position)
        return None

    def _find_in_store(self, name: str, content: dict[str, Any]) -> Query | None:
        if (store := self.store) is None:
            return None
        match name, content:
            case "sessions", {"query": str(query)}:
                return lambda agent: sessions_list(agent.session, query, store())
            case "branches", _:
                return lambda agent: branch_switches(agent.session, store())
            case "export", {"session": str(session_id)}:
                return lambda agent: session_text(agent.session, session_id, store())
        return None

    def _find_at_start(self, name: str, content: dict[str, Any]) -> Query | None:
        match name, content:
            case "start", _:
                return lambda _agent: start_options(self.resolver)
            case "use_key", {"provider": str(kind), "key": str(key)}:
                if (use := self.use_key) is not None:
                    keep = content.get("keep") is True
                    return lambda agent: _with_key(use, agent, kind, key, keep=keep)
        return None

    def _find_in_typing(self, name: str, content: dict[str, Any]) -> Query | None:
        match name, content:
            case "mentions", {"text": str(text)}:
                return partial(self.previews.mentioned, text=text)
            case "preview", {"key": str(key)}:
                return partial(self.previews.previewed, key=key)
            case "upload", {"name": str(file), "media_type": str(kind), "data": str(d)}:
                return lambda agent: self.previews.uploaded(agent, file, kind, d)
            case "paths", {"start": str(start)} if self.resolver is not None:
                folder = self.resolver.folder
                return lambda _agent: paths_list(folder, start)
            case "complete", _:
                return lambda _agent: completions(self.commands(), self.resolver)
        return None


def answer_soon(
    query: Query, agent: Callable[[], Agent], token: str, send: Send
) -> None:
    """Answer a query on a new thread; the view knows its answer by the token."""
    threading.Thread(
        target=copy_context().run,  # the answer belongs to this very click
        args=(_answer, query, agent, token, send),
        name="nbchat-answer",
        daemon=True,
    ).start()


def whole_number(value: object) -> int | None:
    """A number from a view, unless it is none or negative."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def _with_key(
    use: UseKey, agent: Agent, kind: str, key: str, *, keep: bool
) -> dict[str, Any]:
    use(agent, kind, key, keep=keep)
    return {"type": "key_used", "model": displayable(agent.provider.name)}


def _answer(query: Query, agent: Callable[[], Agent], token: str, send: Send) -> None:
    try:
        answer = query(agent())
    except NbchatError as error:
        answer = _refused(str(error))
    except Exception as error:  # a fault in settings or a store that a caller passed
        logger.exception("a query of the panel failed")
        answer = _refused(f"{type(error).__name__}: {error}")
    send({**answer, "token": token})


def _refused(reason: str) -> dict[str, Any]:
    return {"type": "refused", "reason": displayable(reason)}
