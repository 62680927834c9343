"""How a view goes on from an earlier message: its words to edit, and the way anew."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from nbchat.agent.agent import Agent
from nbchat.chat.runner import (
    Action,
    AgentReady,
    CommandOutcome,
    LoadAttachments,
    MessagesReturned,
    RunnerEvent,
)
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Event, TurnFailed
from nbchat.errors import NbchatError


class Branch(Protocol):
    """What lets a conversation go on from an earlier message, the old one kept."""

    def __call__(
        self,
        agent: Agent,
        place: int,
        text: str,
        /,
        *,
        attached: Sequence[Entry],
        stop: threading.Event | None,
    ) -> CommandOutcome:
        """Other words for the message at a place, and what happens then."""


def words_at(agent: Agent, place: int) -> dict[str, Any]:
    """What a person said at a place of the transcript, as it was typed."""
    entries = agent.session.transcript[place : place + 1]
    if not any(entry.is_prompt for entry in entries):
        raise NbchatError(f"there is no message of yours at {place}")
    try:
        entries[0].content.encode()
    except UnicodeEncodeError:
        raise NbchatError("this text holds characters that no page shows") from None
    return {"type": "words_said", "text": entries[0].content}


def other_way(branch: Branch, place: int, text: str, attach: LoadAttachments) -> Action:
    """Answer other words for an earlier message.

    Whatever refuses them changes nothing, and their author has them back.
    """

    def play(agent: Agent, stop: threading.Event) -> Iterator[Event | RunnerEvent]:
        try:
            attached = tuple(attach())
            outcome = branch(agent, place, text, attached=attached, stop=stop)
        except NbchatError as error:
            yield TurnFailed(str(error))
            yield MessagesReturned((text,), place)
        else:
            yield AgentReady(agent)
            yield from outcome.events

    return play
