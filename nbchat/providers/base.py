"""What every provider speaks: a request goes in, deltas and one reply come out."""

import re
from collections.abc import Generator
from dataclasses import dataclass
from threading import Event as Flag
from typing import Literal, Protocol, runtime_checkable

from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import Delta
from nbchat.conversation.tools import Tool
from nbchat.providers.model_info import ModelInfo

ReplyStop = Literal["end_turn", "tool_use", "max_tokens", "refusal"]

Speaker = Literal["user", "assistant", "tool"]

SUMMARY_NOTE = (
    "Notes on the conversation so far, made when it was compacted. They are reference, "
    "not a request: newer messages win, and what is listed as done is not done again."
)


@dataclass(frozen=True, slots=True)
class Request:
    """Everything one response is made from.

    `tool_choice` is auto, none, required or the name of the one tool to call.
    `answer_tag` asks for an answer inside `<tag>...</tag>`; a provider that can enforce
    it does. `model` stands in for the provider's own model when it is not empty.
    """

    history: tuple[Entry, ...]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    max_output_tokens: int | None = None
    answer_tag: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One complete response."""

    entries: tuple[Entry, ...]
    usage: Usage
    stop_reason: ReplyStop
    model: str

    @property
    def text(self) -> str:
        """What was said, calls and thinking left out."""
        return "\n".join(entry.content for entry in self.entries if entry.is_answer)

    @property
    def calls(self) -> list[Entry]:
        """The tools asked for, in order."""
        return [entry for entry in self.entries if entry.is_call]


ReplyStream = Generator[Delta, None, Reply]


class Provider(Protocol):
    """A model behind an API."""

    name: str
    """Provider and model, as in `openai:gpt-5-mini`."""

    def stream(self, request: Request, *, stop: Flag | None = None) -> ReplyStream:
        """Deltas as they arrive, then the reply; raises ProviderError or Stopped.

        Nothing is retried here. Setting `stop` ends the stream within 0.1 s. The
        reply's usage says what it cost, if the provider knows (`ModelInfo.priced`).
        """

    def info(self) -> ModelInfo:
        """The model's window and limits; may ask the server, never raises."""

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request by the provider's own count, where it has one."""

    def models(self) -> list[str]:
        """The models this server offers."""


@runtime_checkable
class SupportsWarmUp(Protocol):
    """A provider whose first request takes longer, unless it could prepare for it."""

    def warm_up(self) -> None:
        """Load what the first request needs; nothing leaves this process."""


@runtime_checkable
class SupportsSiblings(Protocol):
    """A provider whose server has other models, too."""

    @property
    def host(self) -> str:
        """The server's host name, as in `api.openai.com`."""

    def sibling(self, name: str, *, window: int | None = None) -> Provider:
        """Another model of the same server, asked with the same key."""


def speaker(entry: Entry) -> Speaker:
    """Who says an entry on the wire: a summary is told in the user's voice."""
    if entry.role in ("assistant", "thinking"):
        return "assistant"
    return "tool" if entry.role == "tool" else "user"


def wire_text(entry: Entry) -> str:
    """An entry's text as the model reads it; a summary comes in a data envelope."""
    if entry.role != "summary":
        return entry.content
    return (
        f"<conversation_summary>\n{SUMMARY_NOTE}\n{entry.content}\n"
        "</conversation_summary>"
    )


def wire_name(text: str) -> str:
    """An id or a tool's name in the letters both APIs allow; others become `_`."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)


def redact(text: str, secret: str) -> str:
    """A text without the key; error messages of servers quote it."""
    return text.replace(secret, "***") if secret else text
