"""The messages from a view of the panel to the kernel, one class each.

A message is a JSON object whose `type` is the name of its class in snake case. The
pairs in an annotation are JSON Schema keywords; a field with a default may be absent.
`answers` and `updates` hold the messages from the kernel. `protocol.json` and, from it,
the types of the front end are made from these modules:

    python -m nbchat.jupyter.panel.protocol_schema

All are custom messages of one widget. None has a field `id`: ipykernel 7.4 keeps a
routing entry for each until it is answered.
"""

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Amount = Annotated[int, ("minimum", 0)]
"""A count, a position in the transcript, or the key of an item."""

Token = Annotated[str, ("minLength", 1), ("maxLength", 40)]
"""Made by the view that asks, because an answer reaches all views."""

Ticket = Annotated[str, ("minLength", 1)]
"""Id of one approval; a tool call's own id may occur twice."""

Text = Annotated[str, ("minLength", 1)]

Html = Annotated[
    str,
    ("description", "Safe HTML from nbchat.rendering: all that a view inserts as HTML"),
]


@dataclass(frozen=True, slots=True)
class Hello:
    """A view was opened; answered with a snapshot."""


@dataclass(frozen=True, slots=True)
class Resync:
    """A view missed a batch after `seq`; answered with a snapshot."""

    seq: Annotated[int, ("minimum", -1)]


@dataclass(frozen=True, slots=True)
class Send:
    """A message, or a command that begins with a slash.

    `previews` are keys of attachments, which are sent as they were shown. `pasted` are
    texts that were pasted and are in the message, whole or in part.
    """

    text: Text
    previews: tuple[str, ...] = ()
    pasted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """Edit the message at `position` and continue from there, in a new session."""

    position: Amount
    text: Text
    previews: tuple[str, ...] = ()
    pasted: tuple[str, ...] = ()


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
class Side:
    """Show the panel in a tab beside the notebook, or close that tab."""

    is_open: bool


@dataclass(frozen=True, slots=True)
class Approve:
    """Approve a tool call; with `always` the later ones of its tool in this session."""

    ticket: Ticket
    always: bool


@dataclass(frozen=True, slots=True)
class Deny:
    """Deny a tool call."""

    ticket: Ticket


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
    """Ask which models can be chosen; answered with models_list."""


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
    """Use a key that was typed, for this session; answered with key_used or refused.

    With `keep` the system's keyring keeps it.
    """

    provider: str
    key: Text
    keep: bool


@dataclass(frozen=True, slots=True)
class CellOutput:
    """An output of a cell: text, an error's traceback, or a picture in base64."""

    kind: Literal["text", "error", "png"]
    data: str


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A cell as it is in the page; `count` is null until it has run."""

    id: str
    kind: str
    source: str
    count: int | None
    outputs: tuple[CellOutput, ...]


@dataclass(frozen=True, slots=True)
class NotebookAnswer:
    """What a view found or did in its notebook; `problem` says why it did not."""

    token: Token
    view: Token
    problem: str
    cells: tuple[NotebookCell, ...]
    notebook_id: str = ""


Said = Send | Branch

Request = Send | Branch | Stop | Withdraw | Side | Approve | Deny | Compact
"""What a user asks for."""

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
    | Servers
    | Sessions
    | Branches
    | Export
    | Mentions
    | Preview
    | Upload
    | Paths
    | Complete
    | Start
    | UseKey
    | NotebookAnswer
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
