"""What a view may want to know, by the message it asks with; asking changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from nbchat.chat.attachments.mentions import Resolver
from nbchat.jupyter.panel.queries.answers import Question
from nbchat.jupyter.panel.queries.branching import words_at
from nbchat.jupyter.panel.queries.choosing import models_list
from nbchat.jupyter.panel.queries.completing import CommandList, completions
from nbchat.jupyter.panel.queries.context import context_parts
from nbchat.jupyter.panel.queries.history import history_page
from nbchat.jupyter.panel.queries.planning import planned
from nbchat.jupyter.panel.queries.previews import Previews
from nbchat.jupyter.panel.queries.sessions import Store, sessions_list
from nbchat.jupyter.panel.queries.settings import Settings, settings_list
from nbchat.jupyter.panel.view_model.marks import summary_in_force


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one panel, and whom it asks beside its agent."""

    previews: Previews
    commands: CommandList
    settings: Settings | None = None
    store: Callable[[], Store] | None = None
    resolver: Resolver | None = None

    def asked(self, name: str, content: dict[str, Any]) -> Question | None:
        """What a view wants to know; None for what the protocol does not know."""
        match name, content:
            case "plan", {"keep": keep}:
                return partial(planned, keep=amount(keep))
            case "history", {"query": str(query), "before": place}:
                before = amount(place)
                return lambda agent: history_page(agent.session, query, before=before)
            case "context", _:
                return context_parts
            case "settings", _ if self.settings is not None:
                return partial(settings_list, settings=self.settings)
        ways, typing = self._of_ways, self._of_typing
        return ways(name, content) or typing(name, content)

    def _of_ways(self, name: str, content: dict[str, Any]) -> Question | None:
        """What a view wants to know before it goes another way."""
        match name, content:
            case "words", {"place": int(place)}:
                return partial(words_at, place=place)
            case "summary", _:
                return summary_in_force
            case "sessions", {"query": str(query)} if store := self.store:
                return lambda agent: sessions_list(agent, query, store())
            case "models", _:
                return models_list
        return None

    def _of_typing(self, name: str, content: dict[str, Any]) -> Question | None:
        """What a view wants to know while a person types."""
        match name, content:
            case "mentions", {"text": str(text)}:
                return partial(self.previews.mentioned, text=text)
            case "preview", {"key": str(key)}:
                return partial(self.previews.previewed, key=key)
            case "complete", _:
                return lambda _agent: completions(self.commands(), self.resolver)
        return None


def amount(value: object) -> int | None:
    """What a view gave as a number, if it can be a number of anything."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
