"""The conversations that are kept, for a person to find one and go back to it."""

from collections.abc import Sequence
from typing import Any, Protocol

from nbchat.agent.agent import Agent
from nbchat.conversation.search import LONGEST_QUERY
from nbchat.rendering.markdown import displayable

MOST_SESSIONS = 200
"""Shown at once; words find the others."""


class Known(Protocol):
    """What is known of a session without reading it."""

    @property
    def id(self) -> str:
        """What `/resume` calls it."""

    @property
    def title(self) -> str:
        """How it begins."""

    @property
    def notebook(self) -> str:
        """The notebook it was held in; may be empty."""

    @property
    def model(self) -> str:
        """The model it began with."""

    @property
    def used_at(self) -> str:
        """When something was said in it last, as ISO 8601."""

    @property
    def entries(self) -> int:
        """How much was said in it."""


class Store(Protocol):
    """Where sessions are kept."""

    def sessions(self, *, words: Sequence[str]) -> Sequence[Known]:
        """Those in which all words were said, last used first."""


def sessions_list(agent: Agent, query: str, store: Store) -> dict[str, Any]:
    """The sessions in which all words of a query were said, last used first."""
    found = store.sessions(words=query[:LONGEST_QUERY].split())
    current = agent.session.session_id
    return {
        "type": "sessions_list",
        "sessions": [_row(each, current) for each in found[:MOST_SESSIONS]],
        "total": len(found),
    }


def _row(session: Known, current: str) -> dict[str, Any]:
    texts = {
        "session": session.id,
        "title": session.title,
        "notebook": session.notebook,
        "model": session.model,
        "used_at": session.used_at,
    }
    row: dict[str, Any] = {name: displayable(text) for name, text in texts.items()}
    return {**row, "entries": session.entries, "is_current": session.id == current}
