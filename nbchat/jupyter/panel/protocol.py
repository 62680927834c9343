"""The messages between the kernel and the views of the panel, one class each.

A message is a JSON object whose `type` is the name of its class in snake case. The
pairs in an annotation are JSON Schema keywords; a field with a default may be absent.
`protocol.json` and, from it, the types of the front end are made from this module:

    python -m nbchat.jupyter.panel.protocol_schema

What other folders describe already, such as a setting, is sent as they do.

First what a view sends, then the kernel's answers, then the panel's state and what
changes it, which the view model makes as JSON values.

All are custom messages of one widget. None has a field `id`: ipykernel 7.4 keeps a
routing entry for each until it is answered.
"""

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from nbchat.chat.models import ModelProvider, ModelTested, ServerModels
from nbchat.compaction.triggers.context_breakdown import PartName
from nbchat.config.api_keys import Place
from nbchat.rendering.plain_text import displayable
from nbchat.storage.branches import Switch
from nbchat.storage.saved_settings import SettingInForce
from nbchat.storage.serialization import SessionInfo

Amount = Annotated[int, ("minimum", 0)]
"""A count, a position in the transcript, or the key of an item."""

Token = Annotated[str, ("minLength", 1), ("maxLength", 40)]
"""Made by the view that asks, because an answer reaches all views."""

Ticket = Annotated[str, ("minLength", 1)]
"""Id of one approval; a tool call's own id may occur twice."""

Text = Annotated[str, ("minLength", 1)]

Allowed = Literal["ask", "edits", "all"]
"""Asks before all, edits cells unasked, or runs them too."""

Picture = Annotated[
    str, ("pattern", "^(data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+)?$")
]
"""A picture as an address that fetches nothing; empty without one."""

Html = Annotated[
    str,
    ("description", "Safe HTML from nbchat.rendering: all that a view inserts as HTML"),
]


@dataclass(frozen=True, slots=True)
class Hello:
    """A view was opened; answered with a snapshot.

    `view` is empty outside of notebooks.
    """

    view: str = ""


@dataclass(frozen=True, slots=True)
class Resync:
    """A view missed a batch after `seq`; answered with a snapshot."""

    seq: Annotated[int, ("minimum", -1)]


@dataclass(frozen=True, slots=True)
class Send:
    """A message, or a command that begins with a slash.

    `previews` are keys of attachments, which are sent as they were shown. `pasted` are
    texts that were pasted and are in the message, whole or in part. The model's tools
    use the notebook in the `view` that sent it.
    """

    text: Text
    previews: tuple[str, ...] = ()
    pasted: tuple[str, ...] = ()
    view: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """Edit the message at `position` and continue from there, in a new session."""

    position: Amount
    text: Text
    previews: tuple[str, ...] = ()
    pasted: tuple[str, ...] = ()
    view: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the turn; queued messages come back as a draft.

    A click may arrive by two routes: its `token` counts once.
    """

    token: Token = ""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take the queued message at `index` back, if it still has this text.

    With `edit` it comes back as a draft.
    """

    index: Amount
    text: str
    edit: bool


@dataclass(frozen=True, slots=True)
class Approve:
    """Approve a tool call.

    With `always` also the later ones of its tool in this session, with `turn` those of
    its group until the answer is complete. `draft` is what the person has made of what
    the card offers to edit; null for no change.
    """

    ticket: Ticket
    always: bool
    view: str = ""
    turn: bool = False
    draft: str | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """Deny a tool call; the model reads the reason, if there is one."""

    ticket: Ticket
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Ask before each change and run in the notebook, whatever was allowed before."""


@dataclass(frozen=True, slots=True)
class UndoCells:
    """Undo what the turn that begins at `turn` changed in the notebook of a `view`.

    With a `cell` restore this one alone, whatever the person has edited in it.
    """

    turn: Amount
    view: Token
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Compact:
    """Compact the conversation now; `focus` names what matters most.

    `keep` is how many tokens of the newest messages stay word for word, `upto` the
    position of the last message to compact; null leaves either to the policy.
    """

    focus: str = ""
    keep: Amount | None = None
    upto: Amount | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A message that is answered by one with the same token, or by `refused`."""

    token: Token


@dataclass(frozen=True, slots=True)
class Earlier(Question):
    """Ask for the items before the oldest one of a view; answered with earlier_page."""

    before: Amount


@dataclass(frozen=True, slots=True)
class Plan(Question):
    """Ask what a compaction would do now; answered with planned."""

    keep: Amount | None
    upto: Amount | None = None


@dataclass(frozen=True, slots=True)
class Context(Question):
    """Ask for the parts of the context and the costs; answered with context_parts."""


@dataclass(frozen=True, slots=True)
class History(Question):
    """Ask for messages before the position `before`; answered with history_page."""

    query: str
    before: Amount | None


@dataclass(frozen=True, slots=True)
class Message(Question):
    """Ask for the text of a message, to edit or copy it; answered with message_text.

    With `start` for the part of a long one that begins there.
    """

    position: Amount
    start: Amount | None = None


@dataclass(frozen=True, slots=True)
class Summary(Question):
    """Ask for the current summary, to edit it; answered with summary_text."""


@dataclass(frozen=True, slots=True)
class Memory(Question):
    """Ask what replaces the compacted messages; answered with memory_view."""


@dataclass(frozen=True, slots=True)
class Settings(Question):
    """Ask for the settings; answered with settings_list."""


@dataclass(frozen=True, slots=True)
class Models(Question):
    """Ask which models can be chosen; answered with models_page."""


@dataclass(frozen=True, slots=True)
class AskServer(Question):
    """Ask a server for its models; answered with server_models or refused.

    `address` is as it was typed; empty for the provider's own server. A `key` is kept
    for it; with `sends_key` it gets the provider's.
    """

    provider: str
    address: str
    key: str
    sends_key: bool


@dataclass(frozen=True, slots=True)
class TestModel(Question):
    """Send a model one short request; answered with model_tested or refused."""

    __test__ = False  # it is no test of pytest

    model: Text
    address: str


@dataclass(frozen=True, slots=True)
class ChooseModel(Question):
    """Use a model; answered with model_chosen or refused.

    `always` is for new chats, too. `unlisted` takes one that its server does not list.
    """

    model: Text
    address: str
    always: bool
    unlisted: bool


@dataclass(frozen=True, slots=True)
class ForgetModel(Question):
    """Choose no model for new chats any more; answered with model_chosen."""


@dataclass(frozen=True, slots=True)
class Servers(Question):
    """Ask for the MCP servers; answered with servers_list."""


@dataclass(frozen=True, slots=True)
class Sessions(Question):
    """Ask for sessions with a word of `query`, or all; answered with sessions_list."""

    query: str


@dataclass(frozen=True, slots=True)
class Branches(Question):
    """Ask for messages that have several versions; answered with branch_switches."""


@dataclass(frozen=True, slots=True)
class Export(Question):
    """Ask for a session as Markdown; answered with session_text."""

    session: str


@dataclass(frozen=True, slots=True)
class Mentions(Question):
    """Ask what a message would attach; answered with mentioned.

    Nothing is attached by what is `pasted`.
    """

    text: str
    pasted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Knows(Question):
    """Ask for the notebook context that is sent to the model; answered with known.

    `left_out` are parts that the person leaves out from now on, null for no change, and
    `agrees` allows the current provider to see it.
    """

    left_out: tuple[str, ...] | None = None
    agrees: bool = False


@dataclass(frozen=True, slots=True)
class Preview(Question):
    """Ask for the attachment of a chip; answered with previewed."""

    key: Text


@dataclass(frozen=True, slots=True)
class Upload(Question):
    """Attach a file that was dropped, pasted or picked, in base64.

    Answered with mentioned, whose chip's key goes with the message.
    """

    name: Text
    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Paths(Question):
    """Ask for paths that begin with `start`; answered with paths_list."""

    start: str


@dataclass(frozen=True, slots=True)
class Complete(Question):
    """Ask what can be typed after / and @; answered with completions."""


@dataclass(frozen=True, slots=True)
class Start(Question):
    """Ask what an empty chat can offer; answered with start_options."""


@dataclass(frozen=True, slots=True)
class UseKey(Question):
    """Use a key that was typed; answered with key_used or refused.

    The system's keyring keeps it, if there is one.
    """

    provider: str
    key: Text


@dataclass(frozen=True, slots=True)
class SendKey(Question):
    """Send the provider's key to the chat's server, in this kernel; answered alike."""


@dataclass(frozen=True, slots=True)
class CellOutput:
    """An output of a cell: text, an error's traceback, or a picture.

    `title` is an error's name with its message. A picture is asked for by its place
    among the outputs; its `data` is one line about a plot, or empty.
    """

    kind: Literal["text", "error", "picture"]
    data: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A cell as it is in the page; `number` is its position, from 1.

    `short` is the beginning of its id that no other cell shares. `count` is null until
    it has run. `states` may be running, asks (with input()), error (of its last run)
    and changed (since it ran). In an outline `source` is one line, and there are no
    outputs.
    """

    id: str
    short: str
    number: int
    kind: str
    source: str
    count: int | None
    states: tuple[Literal["running", "asks", "error", "changed"], ...]
    outputs: tuple[CellOutput, ...]


@dataclass(frozen=True, slots=True)
class KeptCell:
    """A cell as it is kept for an undo.

    `metadata`, `attachments` and `outputs` are JSON as in a notebook's file, of outputs
    only the text; `left_out` counts what is not kept. `above` and `below` are the ids
    of the cells beside it.
    """

    id: str
    number: int
    kind: str
    source: str
    metadata: str
    attachments: str
    outputs: str
    above: str
    below: str
    left_out: int


@dataclass(frozen=True, slots=True)
class NotebookAnswer:
    """Result of a request to the notebook; `problem` says why it failed.

    With a `problem`, `cells` may hold the cell as it is now. `total` counts all cells,
    `selected` is the id of the one that is selected. Two views of a notebook with the
    same sources have the same `path` and `digest`. `picture` is in base64. `below` is
    the id of the cell below one that was edited. `clock` is the page's own time in
    milliseconds, which it needs to tell whether a request comes too late.
    """

    token: Token
    view: Token
    problem: str
    cells: tuple[NotebookCell, ...]
    notebook_id: str = ""
    total: Amount = 0
    selected: str = ""
    path: str = ""
    digest: str = ""
    picture: str = ""
    kept: tuple[KeptCell, ...] = ()
    below: str = ""
    clock: Amount = 0


Said = Send | Branch

Request = (
    Send | Branch | Stop | Withdraw | Approve | Deny | AskAgain | UndoCells | Compact
)
"""Requests of a person to the chat."""

ViewToKernel = (
    Hello
    | Resync
    | Request
    | Earlier
    | Plan
    | Context
    | History
    | Message
    | Summary
    | Memory
    | Settings
    | Models
    | AskServer
    | TestModel
    | ChooseModel
    | ForgetModel
    | Servers
    | Sessions
    | Branches
    | Export
    | Mentions
    | Knows
    | Preview
    | Upload
    | Paths
    | Complete
    | Start
    | UseKey
    | SendKey
    | NotebookAnswer
)


Seen = Literal["whole", "shortened", "summarized", "excluded"]
"""How the model sees a message."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answers a question; it is sent with the token of the question."""


AnyAnswer = Answer | ModelTested | ServerModels


@dataclass(frozen=True, slots=True)
class Refused(Answer):
    """A question could not be answered, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Planned(Answer):
    """Preview of a compaction; `skip` says why there would be none."""

    messages: Amount
    summarized: Amount
    compacted: Amount
    kept: Amount
    tokens_before: Amount
    tokens_after: Amount
    skip: str
    warning: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the context."""

    name: PartName
    tokens: Amount


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of a model's answers, of all compactions, or in total.

    `dollars` is empty where no price is known.
    """

    label: str
    requests: int | None
    input: Amount
    cached: Amount
    output: Amount
    is_estimated: bool
    dollars: str


@dataclass(frozen=True, slots=True)
class ContextParts(Answer):
    """Parts that add up to `total`.

    `reserve` is kept for the answer and `free` is left beside it, both null like
    `window` where that is unknown; it may be assumed. At `limit` a compaction is due at
    the latest; `outlook` says what triggers the next one.
    """

    parts: tuple[Part, ...]
    total: Amount
    window: int | None
    is_assumed: bool
    reserve: Amount | None
    free: Amount | None
    limit: int | None
    policy: str
    outlook: str
    costs: tuple[Cost, ...]


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """A message and how the model sees it; a compaction has no position."""

    position: int | None
    label: str
    seen: Seen
    html: Html


@dataclass(frozen=True, slots=True)
class HistoryPage(Answer):
    """The newest of all `total` messages, oldest first; or the best matches first.

    `has_more` says whether there are earlier ones.
    """

    items: tuple[HistoryItem, ...]
    total: Amount
    has_more: bool


@dataclass(frozen=True, slots=True)
class MessageText(Answer):
    """The text, or a part of it, exactly as it was typed; `end` is where it ends."""

    text: str
    end: Amount


@dataclass(frozen=True, slots=True)
class SummaryText(Answer):
    """The text, which can be edited, and the facts kept by code."""

    text: str
    facts: str


@dataclass(frozen=True, slots=True)
class MemoryValue:
    """A value of the summary, and the position of the message it comes from."""

    text: str
    position: Amount | None


@dataclass(frozen=True, slots=True)
class MemoryView(Answer):
    """The summary of what is before the position `covered`, its values and the facts.

    Values of facts have the position of their message in `data-position`. `kept`
    messages follow word for word.
    """

    html: Html
    values: tuple[MemoryValue, ...]
    facts: Html
    covered: Amount
    kept: Amount


@dataclass(frozen=True, slots=True)
class SettingsList(Answer):
    """The settings, and the provider and model a change can be limited to."""

    settings: tuple[SettingInForce, ...]
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A provider with the variable that holds its key, and its default model."""

    provider: str
    variable: str
    model: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The trial model, with 0 megabytes if nothing is to be fetched."""

    model: str
    megabytes: Amount
    is_installed: bool


@dataclass(frozen=True, slots=True)
class ModelsPage(Answer):
    """The chat's model, and all that can be chosen.

    `address` is that of an own server, without a login. `origin` says what named the
    model, `always` is the one chosen for new chats, `window` is its context window, and
    `trial` the small model that needs none.
    """

    model: str
    address: str
    origin: str
    always: str
    window: Amount | None
    is_assumed: bool
    is_locked: bool
    providers: tuple[ModelProvider, ...]
    trial: Trial


@dataclass(frozen=True, slots=True)
class ModelChosen(Answer):
    """A model is in use; `text` says where."""

    text: str


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of an MCP server."""

    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Server:
    """An MCP server.

    `address` is the command that connecting starts, or the URL; `origin` the file or
    setting that names it; `problem` says why it could not be reached, or is empty.
    """

    name: str
    address: str
    origin: str
    problem: str
    is_connected: bool
    tools: tuple[ServerTool, ...]


@dataclass(frozen=True, slots=True)
class ServersList(Answer):
    """The MCP servers that are configured."""

    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class SessionsList(Answer):
    """The sessions used last, or the best matches, of `total`; `current` is this one.

    It is an id, or empty.
    """

    sessions: tuple[SessionInfo, ...]
    current: str
    total: Amount


@dataclass(frozen=True, slots=True)
class SessionText(Answer):
    """A session as `nbchat export` writes it in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class BranchSwitches(Answer):
    """The messages that have several versions, each in a session of its own."""

    switches: tuple[Switch, ...]


@dataclass(frozen=True, slots=True)
class Chip:
    """A mention with the key of its preview, or with a problem and no key.

    `hidden` is how many secrets were replaced in it: the mention with @! in place of @
    attaches them. `other` is the key of its other form: of a description all of it, of
    a long text, about which the person is asked, a description.
    """

    mention: str
    key: str
    tokens: Amount
    problem: str
    hidden: Amount
    other: str
    other_tokens: Amount
    is_described: bool
    thumbnail: Picture


@dataclass(frozen=True, slots=True)
class Mentioned(Answer):
    """Attachments of a message."""

    chips: tuple[Chip, ...]


@dataclass(frozen=True, slots=True)
class KnownPart:
    """A part of the notebook context; `total` counts cells or variables."""

    name: str
    label: str
    total: Amount
    is_on: bool


@dataclass(frozen=True, slots=True)
class Known(Answer):
    """The exact block that ends each request; `text` is empty if nothing is sent.

    `asks_for` is a provider that gets nothing before the person agrees.
    """

    text: str
    tokens: Amount
    parts: tuple[KnownPart, ...]
    asks_for: str
    is_off: bool


@dataclass(frozen=True, slots=True)
class Previewed(Answer):
    """The text exactly as it will be sent, and the picture if it is one."""

    text: str
    tokens: Amount
    picture: Picture


@dataclass(frozen=True, slots=True)
class Completion:
    """A name that can be typed, and what it is."""

    name: str
    help: str


@dataclass(frozen=True, slots=True)
class PathsList(Answer):
    """Paths relative to the notebook's folder; folders end with a slash."""

    paths: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its arguments and its help."""

    name: str
    arguments: str
    help: str


@dataclass(frozen=True, slots=True)
class Completions(Answer):
    """The commands, and the names that @ can mention with their types."""

    commands: tuple[Command, ...]
    names: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A question about the notebook: what its button says, and what is sent."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class StartOptions(Answer):
    """Providers, the trial model and suggestions for an empty chat."""

    providers: tuple[ProviderKey, ...]
    trial: Trial
    suggestions: Annotated[tuple[Suggestion, ...], ("maxItems", 3)]


@dataclass(frozen=True, slots=True)
class KeyUsed(Answer):
    """The key is in use, with this model; `place` says where it is kept."""

    model: str
    place: Place


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
class EarlierPage(Answer):
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
    positions. `offers_cells` is null where the setting `notebook_tools` has no effect.
    `allowed` is what the model does in the notebook without asking.
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
    pins: tuple[str, ...]
    excluded: tuple[Amount, ...]
    changes: Changes
    offers_cells: bool | None
    allowed: Allowed
    waiting: tuple[Waiting, ...]
    problem: str
    is_trial: bool
    chat_id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after batch number `seq`, with the newest items.

    `before` is the key to ask for earlier ones with; null when these are the first.
    `is_new` for the first view after a cell has shown the panel.
    """

    seq: Amount
    is_new: bool
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
    """A tool of the model uses the notebook; answered with notebook_answer.

    All views that have the notebook answer `find`, the others only the one in `view`.
    `cell` is an id or the beginning of one. `outline` is answered with a line for each
    of up to 1,000 cells from the position `first` on, of those with the text `search`.
    `expected` is the source to which an edit or a run applies; null for any.
    `is_trial` only checks an edit. `number` is a picture's place among the outputs.
    Nothing is done after `until`, a time of the page's own clock.
    `keep` is answered with the cell as an undo needs it, or no cell; `restore` puts it
    back, `outputs`, `metadata` and `attachments` as JSON, where its source is
    `expected`, or where it is gone and that is null. `notice` shows a line, `source`,
    in all views until one with an empty line comes; a person may withdraw what it waits
    for. `identify` gives the notebook an id, if it has none, and is answered with the
    one it has.
    """

    action: Literal[
        "find",
        "identify",
        "outline",
        "read",
        "picture",
        "edit",
        "run",
        "interrupt",
        "notice",
        "keep",
        "restore",
    ]
    view: str
    token: Token
    until: Amount = ABSENT
    notebook_id: str = ABSENT
    first: int = ABSENT
    search: str = ABSENT
    cell: str = ABSENT
    number: Amount = ABSENT
    change: Literal["replace", "insert", "move", "delete", "kind"] = ABSENT
    source: str = ABSENT
    after: str = ABSENT
    kind: Literal["code", "markdown", "raw"] = ABSENT
    expected: str | None = ABSENT
    is_trial: bool = ABSENT
    metadata: str = ABSENT
    attachments: str = ABSENT
    outputs: str = ABSENT


KernelToView = (
    Snapshot
    | Events
    | EarlierPage
    | Notebook
    | Planned
    | ContextParts
    | HistoryPage
    | SettingsList
    | Mentioned
    | Known
    | Previewed
    | Completions
    | MessageText
    | SessionText
    | SummaryText
    | MemoryView
    | SessionsList
    | ModelsPage
    | ServerModels
    | ModelTested
    | ModelChosen
    | ServersList
    | StartOptions
    | BranchSwitches
    | KeyUsed
    | PathsList
    | Refused
)


def name_of(kind: type) -> str:
    """The name of a message or of a part of one, in snake case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def received(content: object) -> ViewToKernel | None:
    """The message that a view sent; None for anything else."""
    if not isinstance(content, dict):
        return None
    values = {name: value for name, value in content.items() if name != "type"}
    kind = _from_views().get(str(content.get("type")))
    if kind is None:
        return None
    try:
        message: ViewToKernel = _made(kind, values)
    except ValueError:
        return None
    return message


def _made(kind: Any, values: dict[str, Any]) -> Any:
    """An object of a class, from the values of its fields; raises ValueError."""
    if not _required(kind) <= values.keys() <= _hints(kind).keys():
        raise ValueError(f"{sorted(values)} are not the fields of {kind.__name__}")
    return kind(
        **{name: _read(each, _hints(kind)[name]) for name, each in values.items()}
    )


_CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, least: value >= least,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
}


def _read(value: Any, hint: Any) -> Any:
    """A value of a field, with lists as tuples; raises ValueError for a wrong one."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        found = _read(value, inner[0])
        if all(_CHECKS[name](found, limit) for name, limit in inner[1:]):
            return found
    elif NoneType in inner:
        return None if value is None else _read(value, inner[0])
    elif origin is tuple and isinstance(value, list):
        return tuple(_read(each, inner[0]) for each in value)
    elif is_dataclass(hint) and isinstance(value, dict):
        return _made(hint, value)
    elif type(value) is hint or (
        origin is Literal and value in inner
    ):  # isinstance would take True for a number
        return value
    raise ValueError(f"{value!r} is no {hint}")


@cache
def _from_views() -> dict[str, type]:
    return {name_of(kind): kind for kind in get_args(ViewToKernel)}


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _required(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind) if each.default is MISSING)


def as_message(answer: AnyAnswer, token: str) -> dict[str, Any]:
    """An answer as it is sent; all of its text can be encoded."""
    content: dict[str, Any] = _encodable(answer)
    return {"type": name_of(type(answer)), "token": token, **content}


def _encodable(value: Any) -> Any:
    """A value of an answer as JSON, without lone surrogates."""
    match value:
        case str():
            return displayable(value)
        case tuple():
            return list(map(_encodable, value))
        case bool() | int() | float() | None:
            return value
    return {each.name: _encodable(getattr(value, each.name)) for each in fields(value)}
