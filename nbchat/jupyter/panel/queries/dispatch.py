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
from typing import TYPE_CHECKING, Any, Protocol

from nbchat.agent.agent import Agent
from nbchat.agent.mcp import ServerState
from nbchat.chat.attachments.mentions import Resolver
from nbchat.config.api_keys import Place
from nbchat.errors import NbchatError
from nbchat.jupyter.panel import protocol
from nbchat.jupyter.panel.queries.choices import (
    CommandList,
    Settings,
    completions,
    paths_list,
    servers_list,
    settings_list,
    start_options,
    trial,
)
from nbchat.jupyter.panel.queries.context import (
    compaction_plan,
    context_parts,
    current_summary,
    memory_view,
    notebook_known,
)
from nbchat.jupyter.panel.queries.history import (
    Store,
    branch_switches,
    history_page,
    message_text,
    session_text,
    sessions_list,
)
from nbchat.jupyter.panel.queries.models import (
    model_chosen,
    model_forgotten,
    model_tested,
    models_page,
    server_models,
)
from nbchat.jupyter.panel.queries.previews import Previews

if TYPE_CHECKING:
    from nbchat.chat.models import Models
    from nbchat.jupyter.notebook_context import NotebookContext

logger = logging.getLogger(__name__)

BY_CODE = "The code that made this chat chooses its model."

Query = Callable[[Agent], protocol.Answer]

Send = Callable[[dict[str, Any]], None]


class UseKey(Protocol):
    """Continues a chat with a key that a person typed."""

    def __call__(self, agent: Agent, kind: str, key: str, /) -> Place:
        """Says where the key is kept; raises NbchatError."""


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of one panel, and where their answers come from."""

    previews: Previews
    commands: CommandList
    settings: Settings | None = None
    store: Callable[[], Store] | None = None
    resolver: Resolver | None = None
    use_key: UseKey | None = None
    send_key: Callable[[Agent], None] | None = None
    models: "Callable[[], Models] | None" = None
    refresh: Callable[[], None] = lambda: None
    """Shows what a query has changed of the agent."""
    servers: Callable[[], Iterable[ServerState]] | None = None
    notebook: "NotebookContext | None" = None

    def find(self, question: protocol.Question) -> Query | None:
        """The query that answers a question; None where it cannot be asked."""
        others = (
            self._find_in_context,
            self._find_choices,
            self._find_models,
            self._find_in_history,
            self._find_in_store,
            self._find_in_typing,
            self._find_at_start,
        )
        found = (find(question) for find in others)
        return next(filter(None, found), None)

    def _find_in_context(self, question: protocol.Question) -> Query | None:
        match question:
            case protocol.Plan(_, keep, upto):
                return partial(compaction_plan, keep=keep, upto=upto)
            case protocol.Context():
                return context_parts
            case protocol.Summary():
                return current_summary
            case protocol.Memory():
                return memory_view
            case protocol.Knows():
                notebook = self.notebook
                return lambda agent: notebook_known(agent, notebook, question)
        return None

    def _find_choices(self, question: protocol.Question) -> Query | None:
        match question:
            case protocol.Settings() if self.settings is not None:
                return partial(settings_list, settings=self.settings)
            case protocol.Servers() if servers := self.servers:
                return lambda _agent: servers_list(servers())
        return None

    def _find_models(self, question: protocol.Question) -> Query | None:
        if (models := self.models) is None:
            is_asked = isinstance(question, protocol.Models)
            return (lambda _agent: protocol.Refused(BY_CODE)) if is_asked else None
        match question:
            case protocol.Models():
                return lambda agent: models_page(agent, models(), trial())
            case protocol.AskServer():
                return lambda _agent: server_models(models(), question)
            case protocol.TestModel():
                return lambda _agent: model_tested(models(), question)
            case protocol.ChooseModel():
                return lambda agent: self._chosen(agent, models(), question)
            case protocol.ForgetModel():
                return lambda _agent: model_forgotten(models())
        return None

    def _chosen(
        self, agent: Agent, models: "Models", chosen: protocol.ChooseModel
    ) -> protocol.ModelChosen:
        answer = model_chosen(agent, models, chosen)
        self.refresh()
        return answer

    def _find_in_history(self, question: protocol.Question) -> Query | None:
        match question:
            case protocol.History(_, query, before):
                return lambda agent: history_page(agent.session, query, before=before)
            case protocol.Message(_, position, start):
                return lambda agent: message_text(agent.session, position, start=start)
        return None

    def _find_in_store(self, question: protocol.Question) -> Query | None:
        if (store := self.store) is None:
            return None
        match question:
            case protocol.Sessions(_, query):
                return lambda agent: sessions_list(agent.session, query, store())
            case protocol.Branches():
                return lambda agent: branch_switches(agent.session, store())
            case protocol.Export(_, session_id):
                return lambda agent: session_text(agent.session, session_id, store())
        return None

    def _find_in_typing(self, question: protocol.Question) -> Query | None:
        match question:
            case protocol.Mentions(_, text, pasted):
                return partial(self.previews.mentioned, text=text, pasted=pasted)
            case protocol.Preview(_, key):
                return partial(self.previews.previewed, key=key)
            case protocol.Upload(_, name, media_type, data):
                return lambda agent: self.previews.uploaded(
                    agent, name, media_type, data
                )
            case protocol.Paths(_, start) if self.resolver is not None:
                folder = self.resolver.folder
                return lambda _agent: paths_list(folder, start)
            case protocol.Complete():
                return lambda _agent: completions(self.commands(), self.resolver)
        return None

    def _find_at_start(self, question: protocol.Question) -> Query | None:
        match question:
            case protocol.Start():
                return lambda _agent: start_options(self.resolver)
            case protocol.UseKey() if (use := self.use_key) is not None:
                return lambda agent: self._with_key(use, agent, question)
            case protocol.SendKey() if (send := self.send_key) is not None:
                return lambda agent: self._with_sent_key(send, agent)
            case protocol.UseKey() | protocol.SendKey():
                return lambda _agent: protocol.Refused(BY_CODE)
        return None

    def _with_key(
        self, use: UseKey, agent: Agent, typed: protocol.UseKey
    ) -> protocol.KeyUsed:
        place = use(agent, typed.provider, typed.key)
        self.refresh()
        return protocol.KeyUsed(agent.provider.name, place)

    def _with_sent_key(
        self, send: Callable[[Agent], None], agent: Agent
    ) -> protocol.KeyUsed:
        send(agent)
        self.refresh()
        return protocol.KeyUsed(agent.provider.name, "environment")


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


def _answer(query: Query, agent: Callable[[], Agent], token: str, send: Send) -> None:
    answer: protocol.Answer
    try:
        answer = query(agent())
    except NbchatError as error:
        answer = protocol.Refused(str(error))
    except Exception as error:  # a fault in settings or a store that a caller passed
        logger.exception("A query of the panel failed")
        answer = protocol.Refused(f"{type(error).__name__}: {error}")
    send(protocol.as_message(answer, token))
