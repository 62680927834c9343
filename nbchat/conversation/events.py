"""Events of a turn: the only output of an agent.

Panel, cell, log and store are all built from these events.
"""

from dataclasses import dataclass, field
from typing import Literal

from nbchat.conversation.entries import Compaction, Entry, Usage

Change = Literal["redone", "edited", "regenerated"]

EDIT = "edit"
"""Trigger of what undoes, redoes, edits or regenerates a compaction."""

StopReason = Literal[
    "end_turn", "max_tokens", "refusal", "max_steps", "stopped", "budget"
]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's visible thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A request failed before its first delta and will be sent again."""

    attempt: int
    wait_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ContentLeftOut:
    """A model's server refused parts of a request, and answers without them.

    They stay in the transcript; a model that takes them is sent them again.
    """

    parts: tuple[str, ...]
    """As a person knows them: "the picture plot.png", "the tool search"."""
    model: str
    reason: str
    """The server's words."""


@dataclass(frozen=True, slots=True)
class RequestQueued:
    """A request waits to be sent with others as a batch; the turn continues later."""

    name: str


@dataclass(frozen=True, slots=True)
class EntryAdded:
    """An entry was added to the transcript at `position`, with its reply's usage."""

    position: int
    entry: Entry
    usage: Usage | None = None
    seconds: float | None = field(default=None, compare=False)
    """How long the tool call of a result ran; None for other entries."""


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The tokens of a reply were counted: cumulated, and as the context's size."""

    usage: Usage
    input_tokens: int
    threshold: int | None
    context_tokens: int
    window: int | None


@dataclass(frozen=True, slots=True)
class ToolRequested:
    """The model calls a tool; the call is in the transcript already."""

    call: Entry


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A summary is being written; the history is unchanged.

    A second record with the same id follows when the compaction ends.
    """

    trigger: str
    messages: int
    tokens_before: int
    compaction: Compaction | None = None


@dataclass(frozen=True, slots=True)
class CompactionProposed:
    """A compaction is due and waits for a person; nothing has changed yet.

    It comes once. At the window guard the chat compacts without asking.
    """

    messages: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """A long conversation is summarized in chunks: `done` of `total`."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The compacted part of the history was replaced by the summary."""

    compaction: Compaction


@dataclass(frozen=True, slots=True)
class CompactionUndone:
    """A compaction was undone; the history is as before it."""

    compaction: Compaction


@dataclass(frozen=True, slots=True)
class CompactionChanged:
    """A compaction was redone, or its summary was edited or regenerated."""

    compaction: Compaction
    change: Change


@dataclass(frozen=True, slots=True)
class Branched:
    """The conversation continues in a branch; the original is saved as `earlier`."""

    earlier: str


@dataclass(frozen=True, slots=True)
class PinsChanged:
    """A rule was pinned, unpinned, dropped or kept; these are the current ones."""

    pins: tuple[str, ...]
    dropped_rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionSkipped:
    """Nothing was compacted or changed; the history is unchanged."""

    reason: str
    trigger: str = "manual"
    """Or `EDIT`, when a compaction was to be undone, redone, edited or regenerated."""


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """No valid summary was written; the history is unchanged.

    The record has the `reason`, the `code` and the cost of the attempt.
    """

    compaction: Compaction

    @property
    def reason(self) -> str:
        """The reason in one line."""
        return self.compaction.reason


@dataclass(frozen=True, slots=True)
class SavingFailed:
    """An event could not be saved; the chat continues."""

    reason: str
    is_log: bool = False
    """True if the log in `log_folder` failed, not the store."""
    is_resolved: bool = False
    """True if this says that the failure is over."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn ended without an error."""

    stop_reason: StopReason
    steps: int


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn ended in an error; its entries are kept, the session continues."""

    message: str
    error: Exception | None = field(default=None, compare=False, repr=False)
    """The error itself, not stored."""


Delta = TextDelta | ThinkingDelta | RetryScheduled | RequestQueued | ContentLeftOut

Event = (
    Delta
    | EntryAdded
    | UsageReported
    | ToolRequested
    | CompactionStarted
    | CompactionProposed
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
