"""What happens around the turns of a chat: what waits, what runs, who is asked."""

from dataclasses import dataclass

from nbchat.agent import Agent
from nbchat.approvals import Question


@dataclass(frozen=True, slots=True)
class AgentReady:
    """An agent answers from now on; its session may hold a transcript already."""

    agent: Agent


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """These messages wait for their turn."""

    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message left the queue and is being answered."""

    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A command answered in plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """Stop was asked for; the turn ends as soon as its request is closed."""


@dataclass(frozen=True, slots=True)
class Returned:
    """These messages were not answered, and their author has them back.

    `place` is where an earlier message stands that one of them was to replace.
    """

    texts: tuple[str, ...]
    place: int | None = None


@dataclass(frozen=True, slots=True)
class CallsWaiting:
    """These tool calls wait for a person's word, whoever's turn they belong to."""

    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing runs and nothing waits."""


WorkerEvent = (
    AgentReady
    | QueueChanged
    | TurnStarted
    | Noted
    | Stopping
    | Returned
    | CallsWaiting
    | Idle
)
