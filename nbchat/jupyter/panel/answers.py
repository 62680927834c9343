"""The kernel's answers to what the views of the panel ask, one class each.

See `protocol` for how they become JSON.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from nbchat.compaction.triggers.context_breakdown import PartName
from nbchat.config.settings import Kind as SettingKind
from nbchat.jupyter.panel.protocol import Amount, Html, name_of
from nbchat.rendering.plain_text import displayable

Seen = Literal["whole", "shortened", "summarized", "excluded"]
"""How the model sees a message."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answers a question; it is sent with the token of the question."""


@dataclass(frozen=True, slots=True)
class Refused(Answer):
    """A question could not be answered, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Planned(Answer):
    """What a compaction would do; `skip` says why there would be none."""

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
    `window` where that is unknown. At `limit` a compaction is due at the latest;
    `outlook` says what triggers the next one.
    """

    parts: tuple[Part, ...]
    total: Amount
    window: int | None
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
    """The summary of the first `covered` messages, its values and the facts.

    Values of facts have the position of their message in `data-position`. `kept`
    messages follow word for word.
    """

    html: Html
    values: tuple[MemoryValue, ...]
    facts: Html
    covered: Amount
    kept: Amount


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting; `scope` is that of its saved value, null without one."""

    name: str
    value: str
    help: str
    kind: SettingKind
    origin: str
    choices: tuple[str, ...]
    scope: str | None


@dataclass(frozen=True, slots=True)
class SettingsList(Answer):
    """The settings, and the provider and model a change can be limited to."""

    settings: tuple[Setting, ...]
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A provider with the variable that holds its key, and its default model."""

    provider: str
    variable: str
    model: str


@dataclass(frozen=True, slots=True)
class ModelsList(Answer):
    """Names that /model takes; `problem` says why the server listed none.

    `without_key` are providers whose key is neither set nor typed; `can_keep` says
    whether a keyring can keep one.
    """

    models: tuple[str, ...]
    problem: str
    without_key: tuple[ProviderKey, ...]
    can_keep: bool


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
class SessionRow:
    """A session; `snippet` is what a search found, or empty.

    `branches` counts the sessions of its family, this one included.
    """

    session: str
    title: str
    notebook: str
    model: str
    used_at: str
    messages: Amount
    snippet: str
    branches: Amount
    is_current: bool


@dataclass(frozen=True, slots=True)
class SessionsList(Answer):
    """The sessions used last, or the best matches, of `total`."""

    sessions: tuple[SessionRow, ...]
    total: Amount


@dataclass(frozen=True, slots=True)
class SessionText(Answer):
    """A session as `nbchat export` writes it in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A message with several versions; this session has version `number`, from 1.

    `position` is that of the message, or of the first of its attachments; `sessions`
    are a session with each version.
    """

    position: Amount
    number: Amount
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchSwitches(Answer):
    """The messages that have several versions, each in a session of its own."""

    switches: tuple[Switch, ...]


@dataclass(frozen=True, slots=True)
class Chip:
    """A mention with the key of its preview, or with a problem and no key.

    `hidden` is how many secrets were replaced in it: the mention with @! in place of @
    attaches them.
    """

    mention: str
    key: str
    tokens: Amount
    problem: str
    hidden: Amount


@dataclass(frozen=True, slots=True)
class Mentioned(Answer):
    """What a message attaches."""

    chips: tuple[Chip, ...]


@dataclass(frozen=True, slots=True)
class Previewed(Answer):
    """The text exactly as it will be sent, and the picture if it is one."""

    text: str
    tokens: Amount
    picture: Annotated[
        str, ("pattern", "^(data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+)?$")
    ]


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
class Trial:
    """The trial model, with 0 megabytes if nothing is to be fetched."""

    model: str
    megabytes: Amount
    is_installed: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A question about the notebook: what its button says, and what is sent."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class StartOptions(Answer):
    """What an empty chat offers; `can_keep` says whether a keyring can keep a key."""

    providers: tuple[ProviderKey, ...]
    can_keep: bool
    trial: Trial
    suggestions: Annotated[tuple[Suggestion, ...], ("maxItems", 3)]


@dataclass(frozen=True, slots=True)
class KeyUsed(Answer):
    """The key is in use, with this model."""

    model: str


def as_message(answer: Answer, token: str) -> dict[str, Any]:
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
        case bool() | int() | None:
            return value
    return {each.name: _encodable(getattr(value, each.name)) for each in fields(value)}
