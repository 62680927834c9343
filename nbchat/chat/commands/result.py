"""What a command is, and what it answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event as Flag

from nbchat.agent.agent import Agent
from nbchat.conversation.events import Event


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command says, and what it makes happen while its events are read."""

    text: str = ""
    events: Iterator[Event] = field(default_factory=lambda: iter(()))


Stop = Flag | None

Command = Callable[[Agent, str, Stop], CommandResult]
