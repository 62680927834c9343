"""What happens in a turn: small frozen values, the only output of an agent.

Every surface (panel, cell, log, store) is a fold over these events.
"""

from dataclasses import dataclass, field
from typing import Literal

from nbchat.conversation.entries import Compaction, Entry, Usage

Change = Literal["redone", "edited", "regenerated"]
StopReason = Literal["end_turn", "max_tokens", "refusal", "max_steps", "stopped"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of what the model lets us see of its thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The request failed, nothing was shown yet, and it will be sent again."""

    attempt: int
    wait_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class EntryAdded:
    """An entry joined the transcript at `position`, with its response's usage."""

    position: int
    entry: Entry
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class UsageReported:
    """A response was counted: against the threshold, and as what the window holds."""

    usage: Usage
    input_tokens: int
    threshold: int | None
    context_tokens: int
    window: int | None


@dataclass(frozen=True, slots=True)
class ToolRequested:
    """The model asks for a tool; its call is in the transcript already."""

    call: Entry


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A summary is being written; the history is still what it was.

    The record is the compaction's first; another one of its id follows at its end.
    """

    trigger: str
    messages: int
    tokens_before: int
    compaction: Compaction | None = None


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """A long conversation is told in parts; `done` of `total` are told."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The history was swapped for the summary in `compaction`."""

    compaction: Compaction


@dataclass(frozen=True, slots=True)
class CompactionUndone:
    """The history is again what it was before `compaction`."""

    compaction: Compaction


@dataclass(frozen=True, slots=True)
class CompactionChanged:
    """The history shows `compaction` again, or its summary in other words."""

    compaction: Compaction
    change: Change


@dataclass(frozen=True, slots=True)
class Branched:
    """The conversation goes on another way; the session `earlier` keeps the old one."""

    earlier: str


@dataclass(frozen=True, slots=True)
class PinsChanged:
    """A rule was pinned or let go; these hold now."""

    pins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompactionSkipped:
    """A compaction, or a change of one, was not made; the history is unchanged."""

    reason: str
    trigger: str = "manual"


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """No summary passed the gates; the history is unchanged.

    The record says why (`reason`, `code`) and what the attempt cost.
    """

    compaction: Compaction

    @property
    def reason(self) -> str:
        """Why, in one line."""
        return self.compaction.reason


@dataclass(frozen=True, slots=True)
class SavingFailed:
    """An event could not be stored; the chat goes on."""

    reason: str
    is_log: bool = False
    """Whether it was the log in `log_folder`, not the store."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn is over, and why."""

    stop_reason: StopReason
    steps: int


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn ended in an error; all that was said is kept, the session goes on."""

    message: str
    error: Exception | None = field(default=None, compare=False, repr=False)
    """The error itself, to be raised again; not stored."""


Delta = TextDelta | ThinkingDelta | RetryScheduled

Event = (
    Delta
    | EntryAdded
    | UsageReported
    | ToolRequested
    | CompactionStarted
    | CompactionProgress
    | Compacted
    | CompactionUndone
    | CompactionChanged
    | CompactionSkipped
    | CompactionFailed
    | Branched
    | PinsChanged
    | SavingFailed
    | TurnFinished
    | TurnFailed
)
