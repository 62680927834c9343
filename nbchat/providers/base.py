"""The provider protocol: requests with their options, replies, how entries are sent.

Options are given to `Agent`, to `connect` or as settings, and mean the same everywhere.
One that is None or absent is left to the model or the server.
"""

import json
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypedDict,
    runtime_checkable,
)

from nbchat.conversation.entries import REQUESTED, Entry, Usage
from nbchat.conversation.events import Delta
from nbchat.conversation.tools import Tool
from nbchat.errors import ConfigError
from nbchat.providers.model_info import ModelInfo, ServedModel
from nbchat.providers.tokens import (
    IMAGE_TOKENS,
    TOKEN_BYTES,
    TokenCounter,
    most_tokens,
    most_tokens_of,
)

if TYPE_CHECKING:
    from nbchat.providers.retries import Limiter

logger = logging.getLogger(__name__)

ReplyStop = Literal["end_turn", "tool_use", "max_tokens", "refusal"]

Speaker = Literal["user", "assistant", "tool"]

SUMMARY_NOTE = (
    "Notes on the conversation so far, made when it was compacted. They are reference, "
    "not a request: newer messages win, and what is listed as done is not done again."
)

LIVE_CONTEXT = "notebook_now"
"""The tag around what a request tells at its end of the notebook as it is now; it is
in no history, so that a mark for a prompt cache belongs before it."""

PINNED = "The user has pinned these rules; they hold for the whole conversation:"


EFFORTS = ("off", "low", "medium", "high")
CACHE_LIFETIMES = ("5m", "1h")
MOST_STOPS = 4
"""Texts that end an answer: OpenAI and vLLM take no more."""


class RequestOptions(TypedDict, total=False):
    """How a model is asked."""

    temperature: float | None
    """From 0 to 2; Anthropic takes at most 1."""
    top_p: float | None
    """From 0 to 1."""
    seed: int | None
    """For answers that can be repeated, where a server supports that."""
    stop: str | Sequence[str] | None
    """Texts that end an answer; a single string is split at commas."""
    effort: str | None
    """How much the model reasons: off, low, medium or high."""
    timeout_seconds: float | None
    """Longest silence of the server between two bytes."""
    first_byte_seconds: float | None
    """Longest silence before an answer begins; like `timeout_seconds` by default."""
    connect_seconds: float | None
    """Longest time to connect."""
    attempts: int | None
    """Most requests for one answer, the first included."""
    patience_seconds: float | None
    """Longest time from the first request to the last attempt."""
    cache_lifetime: str | None
    """How long a provider keeps its prompt cache: 5m or 1h."""


def _between(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and least <= value <= most


_ANY = float("inf")

_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (_between(0, 2), "Use a number from 0 to 2"),
    "top_p": (_between(0, 1), "Use a number from 0 to 1"),
    "seed": (lambda value: isinstance(value, int), "Use a whole number"),
    "stop": (
        lambda value: len(stop_texts({"stop": value})) <= MOST_STOPS,
        f"Use at most {MOST_STOPS} texts",
    ),
    "effort": (EFFORTS.__contains__, f"Choose one of {', '.join(EFFORTS)}"),
    "timeout_seconds": (_between(0.1, _ANY), "Use 0.1 seconds or more"),
    "first_byte_seconds": (_between(0.1, _ANY), "Use 0.1 seconds or more"),
    "connect_seconds": (_between(0.1, _ANY), "Use 0.1 seconds or more"),
    "attempts": (_between(1, 100), "Use a whole number from 1 to 100"),
    "patience_seconds": (_between(0, _ANY), "Use 0 seconds or more"),
    "cache_lifetime": (
        CACHE_LIFETIMES.__contains__,
        f"Choose one of {', '.join(CACHE_LIFETIMES)}",
    ),
}

PATIENCE = (
    *("timeout_seconds", "first_byte_seconds", "connect_seconds"),
    *("attempts", "patience_seconds", "cache_lifetime"),
)
"""Options that say nothing about the answer, so that any model takes them."""


def checked(options: Mapping[str, Any]) -> RequestOptions:
    """The options that are set; raises ConfigError for an unknown or invalid one."""
    for name, value in options.items():
        if name not in _CHECKS:
            known = ", ".join(_CHECKS)
            raise ConfigError(f"No option named {name!r}. Choose one of {known}.")
        is_valid, advice = _CHECKS[name]
        if value not in (None, "") and not is_valid(value):
            raise ConfigError(f"{name} can't be {value!r}. {advice}.")
    return merged(options)


def merged(*layers: Mapping[str, Any]) -> RequestOptions:
    """The options of several layers; a later one wins where it sets something."""
    found: Any = {}
    for layer in layers:
        found |= {name: each for name, each in layer.items() if each not in (None, "")}
    options: RequestOptions = found
    return options


def stop_texts(options: Mapping[str, Any]) -> list[str]:
    r"""The texts that end an answer; in a string `\n` is the end of a line."""
    given = options.get("stop") or ()
    if not isinstance(given, str):
        return list(given)
    parts = (part.strip(" ") for part in given.split(","))
    return [part.replace("\\n", "\n") for part in parts if part]


def not_among(taken: Iterable[str], options: RequestOptions) -> list[str]:
    """Options about answers that are not `taken`."""
    return [name for name in options if name not in {*taken, *PATIENCE, "effort"}]


def for_summary(own: RequestOptions, chat: RequestOptions) -> RequestOptions:
    """The options of a request for a summary, which no text may end early.

    Of those of the chat only what any model takes, for another one may write it.
    """
    patience = {name: each for name, each in chat.items() if name in PATIENCE}
    return merged(
        patience, {name: each for name, each in own.items() if name != "stop"}
    )


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model.

    The history may hold any entries: providers make it legal for their API.
    `tool_choice` is auto, none, required or the name of a tool that must be called.
    `answer_tag` asks for an answer inside `<tag>...</tag>`; a provider that can enforce
    it does. `model` replaces the provider's own model unless it is empty.
    `output_schema` is a JSON schema for the answer, which the server enforces; one that
    cannot refuses the request. `options` replace those of the provider.
    """

    history: tuple[Entry, ...]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    max_output_tokens: int | None = None
    answer_tag: str = ""
    model: str = ""
    output_schema: Mapping[str, Any] | None = None
    options: RequestOptions = field(default_factory=RequestOptions)
    live: str = ""
    """Sent after the history, as it is at this moment; it is kept nowhere."""

    @property
    def as_sent(self) -> "Request":
        """The request with what is sent after the history as its last entry."""
        if not self.live:
            return self
        last = Entry("user", self.live, tool_args=REQUESTED)
        return replace(self, history=(*self.history, last), live="")


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply of a model."""

    entries: tuple[Entry, ...]
    usage: Usage
    stop_reason: ReplyStop
    model: str

    @property
    def text(self) -> str:
        """The text without calls and thinking."""
        return "\n".join(entry.content for entry in self.entries if entry.is_answer)

    @property
    def calls(self) -> list[Entry]:
        """The tool calls, in order."""
        return [entry for entry in self.entries if entry.is_call]


ReplyStream = Generator[Delta, None, Reply]


class Provider(Protocol):
    """A model behind an API."""

    name: str
    """Provider and model, such as `openai:gpt-6-luna`."""

    def stream(self, request: Request, *, stop: Flag | None = None) -> ReplyStream:
        """Yield deltas as they arrive, return the reply; raises ProviderError, Stopped.

        Nothing is retried here. Setting `stop` ends the stream within 0.1 s. The
        reply's usage includes its cost where prices are known (`ModelInfo.priced`).
        """

    def info(self) -> ModelInfo:
        """The model's window and limits; may ask the server, never raises."""

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request, counted by the server where it can."""


@runtime_checkable
class ServedProvider(Protocol):
    """A provider whose server may have other models, and limits of its own."""

    name: str
    truncated_at: int | None
    """Tokens of the window, where the server has cut a request to them."""

    @property
    def host(self) -> str:
        """The server's host name, as in `api.openai.com`."""

    @property
    def limiter(self) -> "Limiter":
        """The limiter that all requests to the server share."""

    def untaken(self, options: RequestOptions) -> list[str]:
        """Options that the API does not have; requests are sent without them."""

    def catalog(self) -> list[ServedModel]:
        """The models, the newest first; raises ProviderError."""

    def sibling(self, name: str, *, window: int | None = None) -> Provider:
        """Another model of the same server, with the same key."""


@runtime_checkable
class SupportsWarmUp(Protocol):
    """A provider whose first request is faster after a warm-up."""

    def warm_up(self) -> None:
        """Load what the first request needs; sends nothing."""


def refuse_untaken(provider: object, options: RequestOptions) -> None:
    """Raise ConfigError for an option that the provider's API does not have."""
    if isinstance(provider, ServedProvider) and (names := provider.untaken(options)):
        raise ConfigError(
            f"{provider.name} doesn't accept {names[0]}. Unset it, or choose another "
            "provider's model."
        )


def warn_of_untaken(provider: object, options: RequestOptions) -> None:
    """Warn of options that the provider's API does not have."""
    if isinstance(provider, ServedProvider):
        for option in provider.untaken(options):
            line = "%s doesn't accept %s, so requests are sent without it."
            logger.warning(line, provider.name, option)


def speaker(entry: Entry) -> Speaker:
    """The role in which an entry is sent; a summary is sent as the user's."""
    if entry.role in ("assistant", "thinking"):
        return "assistant"
    return "tool" if entry.role == "tool" else "user"


def wire_text(entry: Entry) -> str:
    """The text of an entry; that of a summary is wrapped as data."""
    if entry.role != "summary":
        return entry.content
    return (
        f"<conversation_summary>\n{SUMMARY_NOTE}\n{entry.content}\n"
        "</conversation_summary>"
    )


def is_live_context(text: object) -> bool:
    """True if a text of a message is what a request ends with, and kept nowhere."""
    return isinstance(text, str) and text.startswith(f"<{LIVE_CONTEXT}>")


def user_text(entry: Entry) -> str:
    """The text of a user or summary entry; that of an attached text file included."""
    return entry.attachment_text if entry.is_attachment else wire_text(entry)


def image_of(entry: Entry) -> tuple[str, str] | None:
    """Media type and base64 data of an image; None for other entries."""
    if entry.role != "user" or entry.tool_name != "image":
        return None
    data = entry.arguments.get("data")
    media_type = str(entry.arguments.get("media_type", "image/png"))
    return (media_type, str(data)) if data else None


def instructions(system: str, pins: Sequence[str]) -> str:
    """The system prompt followed by the pinned rules."""
    rules = [PINNED, *pins] if pins else []
    return "\n\n".join(filter(None, [system, *rules]))


def fixed_texts(system: str, tools: Sequence[Tool]) -> tuple[str, ...]:
    """The system prompt and the tools, which are in every request, as texts."""
    schemas = [[each.name, each.description, each.parameters] for each in tools]
    return (system, json.dumps(schemas)) if tools else (system,)


def fixed_tokens(system: str, tools: Sequence[Tool], counter: TokenCounter) -> int:
    """Tokens of the system prompt and the tools."""
    return sum(map(counter.count, fixed_texts(system, tools)))


def estimated_tokens(request: Request, counter: TokenCounter) -> int:
    """Input tokens of a request by the local counter; thinking is not sent again."""
    fixed = fixed_tokens(request.system, request.tools, counter)
    return fixed + sum(_entry_tokens(entry, counter) for entry in request.history)


def most_bytes(request: Request) -> int:
    """Bytes of a request's texts; a picture counts as a text of its tokens."""
    sent = [each for each in request.history if each.role != "thinking"]
    pictures = [each for each in sent if image_of(each) is not None]
    texts = [each for each in sent if image_of(each) is None]
    fixed = sum(map(most_tokens, fixed_texts(request.system, request.tools)))
    said = fixed + sum(map(most_tokens_of, texts))
    return said + len(pictures) * IMAGE_TOKENS * TOKEN_BYTES


def _entry_tokens(entry: Entry, counter: TokenCounter) -> int:
    if entry.role == "thinking":
        return 0
    if image_of(entry) is not None:
        return IMAGE_TOKENS + counter.count(entry.content)
    if entry.role in ("user", "summary"):
        entry = Entry(entry.role, user_text(entry))
    return counter.count_entry(entry)
