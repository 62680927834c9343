"""Who writes a summary, in which shape first, and how many answers may be refused."""

from dataclasses import dataclass, replace
from typing import Literal

from nbchat.compaction.story.sizes import COUNT_ERROR, Sizes
from nbchat.history import Usage
from nbchat.models import ModelInfo
from nbchat.providers.base import Provider
from nbchat.tokens import TokenCounter

Shape = Literal["plain", "shared"]
ShapeChoice = Literal["auto", "shared", "plain"]
Model = str | Provider | None
"""Another model of the chat's provider by name, a provider, or the chat's own model."""

HARD_TRIGGERS = ("window", "overflow")
"""Causes for which a failed summary would leave a conversation that cannot go on."""

SOFT_REFUSALS, MOST_REFUSALS = 2, 4
"""Answers of one writer that may be refused where nobody waits for a summary, and where
a person asked for one: each shape, and each once more. The first is one after a
failure, and for a second model, so that a writer who always fails costs little."""

SMALL_WINDOW = 16_000
"""Tokens; models with less are small ones. In the chat's place they tend to go on with
it, and there is little to read anew (tried with SmolLM2-135M)."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A model that may write the summary."""

    provider: Provider
    sizes: Sizes
    model: str = ""
    """Another model of the same provider; empty for its own."""
    shapes: tuple[Shape, ...] = ("plain",)
    """In which order they are tried."""
    refusals: int = MOST_REFUSALS
    """Answers that may be refused before the next writer is asked."""

    @property
    def name(self) -> str:
        """Provider and model."""
        kind = self.provider.name.partition(":")[0]
        return f"{kind}:{self.model}" if self.model else self.provider.name


@dataclass(frozen=True, slots=True)
class Chat:
    """What is known of the chat that is to be summarised."""

    provider: Provider
    info: ModelInfo
    counter: TokenCounter
    trigger: str
    failures: int = 0
    """Compactions of it that failed in a row."""
    usage: Usage | None = None
    """Of its last answer, if the model still sees what it saw then."""
    count_error: float = COUNT_ERROR
    """By what the server counts more than is counted here."""

    @property
    def is_asked_for(self) -> bool:
        """Whether a person waits for this summary."""
        return self.trigger == "manual"


def writer(chat: Chat, model: Model, shape: ShapeChoice = "auto") -> Writer:
    """The writer that a model is; the chat's own may share the chat's prompt."""
    if isinstance(model, str):
        return Writer(chat.provider, Sizes(chat.info, chat.counter), model)
    if model is not None:
        return Writer(model, Sizes(model.info(), chat.counter))
    sizes = Sizes(chat.info, chat.counter, chat.count_error)
    return Writer(chat.provider, sizes, shapes=_shapes(chat, shape))


def writers(
    chat: Chat, summary_model: Model, fallback_model: Model, shape: ShapeChoice
) -> list[Writer]:
    """Whom to ask, in order; for a person it is tried harder."""
    soft = 1 if chat.failures else SOFT_REFUSALS
    first = writer(chat, summary_model, shape)
    asked = [replace(first, refusals=MOST_REFUSALS if chat.is_asked_for else soft)]
    if fallback_model is not None:
        second = writer(chat, fallback_model)
        last = SOFT_REFUSALS if chat.is_asked_for else 1
        asked.append(replace(second, refusals=last))
    return asked


def _shapes(chat: Chat, shape: ShapeChoice) -> tuple[Shape, ...]:
    if chat.trigger == "overflow":
        return ("plain",)  # the server has just called the other one too long
    is_warm = chat.usage is not None and chat.usage.cache_read_tokens > 0
    is_small = chat.info.window is not None and chat.info.window < SMALL_WINDOW
    pays = is_warm and not is_small
    wants_shared = shape == "shared" or (shape == "auto" and pays)
    return ("shared", "plain") if wants_shared else ("plain", "shared")
