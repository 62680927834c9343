"""What the kernel sends to all views of the panel: its state, and what changes.

The kernel makes these as JSON values, see `view_model`; the tests hold them against the
schema. `protocol` says how the classes are to be read.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from nbchat.jupyter.panel import answers
from nbchat.jupyter.panel.protocol import Amount, Html, Ticket, Token

Kind = Literal["assistant", "thinking"]

ABSENT: Any = None
"""Default of a field that the kernel omits where it has no value."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item; it has a `position` if it can be edited or excluded."""

    key: Amount
    html: Html
    position: Amount = ABSENT


@dataclass(frozen=True, slots=True)
class EarlierPage(answers.Answer):
    """Items, oldest first, before those the view has.

    `before` is the key to ask for earlier ones with; null when these are the first.
    """

    items: tuple[Item, ...]
    before: Amount | None


@dataclass(frozen=True, slots=True)
class Live:
    """An answer that streams: its finished blocks, and the open one as text."""

    html: Html
    text: str


@dataclass(frozen=True, slots=True)
class Retry:
    """A request that will be sent again in some seconds."""

    attempt: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Meter:
    """`tokens` of `threshold` until the next compaction; `context` of `window` now.

    At `guard` of the window it is compacted, whatever the threshold.
    """

    tokens: int
    threshold: int | None
    context: int
    window: int | None
    guard: int | None


@dataclass(frozen=True, slots=True)
class ShownSummary:
    """The summary of the first `messages` messages."""

    messages: Amount
    html: Html


@dataclass(frozen=True, slots=True)
class Changes:
    """Keys of the banners whose compaction can be undone, edited and redone now."""

    undo: Amount | None
    edit: Amount | None
    redo: Amount | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A tool call that waits for approval; `key` is that of its item."""

    ticket: Ticket
    key: Amount
    tool: str


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A preset of when and how to compact, in a sentence."""

    name: str
    about: str


@dataclass(frozen=True, slots=True)
class State:
    """All but the transcript.

    `policy` may be none of `policies`. `problem` is why the model cannot answer yet,
    such as a missing key. `spent` is empty before the first answer. `excluded` are
    positions. `has_side` says whether the kernel can open a tab beside the notebook.
    `offers_cells` is null where the setting `notebook_tools` has no effect.
    By `chat_id` Jupyter Server finds this chat in the kernel.
    """

    phase: Literal["starting", "ready", "failed"]
    model: str
    is_busy: bool
    activity: str
    queue: tuple[str, ...]
    retry: Retry | None
    meter: Meter
    policy: str
    policies: tuple[PolicyChoice, ...]
    spent: str
    summary: ShownSummary | None
    notifies: bool
    pins: tuple[str, ...]
    excluded: tuple[Amount, ...]
    changes: Changes
    has_settings: bool
    has_sessions: bool
    has_branches: bool
    has_servers: bool
    has_side: bool
    offers_cells: bool | None
    waiting: tuple[Waiting, ...]
    problem: str
    is_trial: bool
    takes_keys: bool
    chat_id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after batch number `seq`, with the newest items.

    `before` is the key to ask for earlier ones with; null when these are the first.
    """

    seq: Amount
    items: tuple[Item, ...]
    before: Amount | None
    live: dict[Kind, Live]
    state: State


@dataclass(frozen=True, slots=True)
class RestartOperation:
    """Replace all items: another session is shown."""

    items: tuple[Item, ...]
    before: Amount | None


@dataclass(frozen=True, slots=True)
class ItemOperation:
    """Add an item at the end, or replace the one with this key.

    With `streamed` its beginning is what the view has streamed of that kind, which
    `html` omits.
    """

    key: Amount
    html: Html
    position: Amount = ABSENT
    streamed: Kind = ABSENT


@dataclass(frozen=True, slots=True)
class DropOperation:
    """Remove the item."""

    key: Amount


@dataclass(frozen=True, slots=True)
class TextOperation:
    """More text of the open block."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class BlockOperation:
    """The open block became `html`; a new one begins with `text`."""

    kind: Kind
    html: Html
    text: str


@dataclass(frozen=True, slots=True)
class SettleOperation:
    """The stream is over: its item was added, or none will be."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class StateOperation:
    """The parts of the state that changed."""

    state: Annotated[State, ("some", True)]


@dataclass(frozen=True, slots=True)
class DraftOperation:
    """Messages that were not sent, returned to the input box.

    `position` is that of the message they were to replace.
    """

    text: str
    position: Amount = ABSENT


Operation = (
    RestartOperation
    | ItemOperation
    | DropOperation
    | TextOperation
    | BlockOperation
    | SettleOperation
    | StateOperation
    | DraftOperation
)


@dataclass(frozen=True, slots=True)
class Events:
    """Operations, in order.

    A view whose last number is not `seq` - 1 asks for a resync.
    """

    seq: Amount
    events: Annotated[tuple[Operation, ...], ("minItems", 1)]


@dataclass(frozen=True, slots=True)
class Notebook:
    """A tool of the model reads, edits or runs cells; answered with notebook_answer.

    All views that have the notebook answer `find`, the others only the one in `view`.
    `expected` is the source that a person has approved; null for any. `identify` gives
    the notebook an id, if it has none, and is answered with the one it has.
    """

    action: Literal["find", "identify", "read", "edit", "run"]
    view: str
    token: Token
    notebook_id: str = ABSENT
    cell: str = ABSENT
    source: str = ABSENT
    expected: str | None = ABSENT
    place: Literal["replace", "below"] = ABSENT
    kind: Literal["code", "markdown"] = ABSENT


KernelToView = (
    Snapshot
    | Events
    | EarlierPage
    | Notebook
    | answers.Planned
    | answers.ContextParts
    | answers.HistoryPage
    | answers.SettingsList
    | answers.Mentioned
    | answers.Previewed
    | answers.Completions
    | answers.MessageText
    | answers.SessionText
    | answers.SummaryText
    | answers.MemoryView
    | answers.SessionsList
    | answers.ModelsList
    | answers.ServersList
    | answers.StartOptions
    | answers.BranchSwitches
    | answers.KeyUsed
    | answers.PathsList
    | answers.Refused
)
