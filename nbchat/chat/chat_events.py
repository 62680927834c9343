"""Events of a chat's runner besides those of its turns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbchat.agent.approvals import PendingCall
from nbchat.conversation.cell_changes import LeftCell
from nbchat.conversation.events import Event
from nbchat.conversation.rules_file import RulesFile
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError

if TYPE_CHECKING:
    from nbchat.agent.agent import Agent


@dataclass(frozen=True, slots=True)
class AgentReady:
    """Another agent, or the same in another session, answers from now on."""

    agent: "Agent"


@dataclass(frozen=True, slots=True)
class SessionLoaded:
    """A stored session can be shown; the agent that continues it is being built."""

    session: Session


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """The messages in the queue changed."""

    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message left the queue and is being answered."""

    text: str


@dataclass(frozen=True, slots=True)
class CommandReplied:
    """A command replied in plain text; one that lists things, as a table, too."""

    text: str
    columns: tuple[str, ...] = ()
    """Headings of the table; none where there is no table."""
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A command or a message was refused before anything was asked.

    Its text goes back to the input box.
    """

    error: NbchatError


@dataclass(frozen=True, slots=True)
class Working:
    """The current work of a command, in a few words."""

    activity: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """Stop was requested; the turn ends as soon as its request is closed."""


@dataclass(frozen=True, slots=True)
class MessagesReturned:
    """Messages that were not answered go back to the input box.

    `position` is that of the earlier message which the text was to replace.
    """

    texts: tuple[str, ...]
    position: int | None = None


@dataclass(frozen=True, slots=True)
class ApprovalsPending:
    """Tool calls wait for approval, those of cells included."""

    pending: tuple[PendingCall, ...]


@dataclass(frozen=True, slots=True)
class RulesOffered:
    """Rules from a file wait for the person's decision; empty once none do.

    `problem` says in a line why a file is not used.
    """

    rules: RulesFile | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CellsUndone:
    """A turn's changes of the notebook were undone, except in the cells that are left.

    `turn` is the position where it begins; `problem` says why it was not undone.
    """

    turn: int
    left: tuple[LeftCell, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing runs and nothing is queued."""


RunnerEvent = (
    AgentReady
    | SessionLoaded
    | QueueChanged
    | TurnStarted
    | CommandReplied
    | Refused
    | Working
    | Stopping
    | MessagesReturned
    | ApprovalsPending
    | RulesOffered
    | CellsUndone
    | Idle
)

ChatEvent = Event | RunnerEvent
