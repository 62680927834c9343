"""Who writes a summary, in which shape first, and how many answers may be refused."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nbchat.compaction.summarizer.budgets import COUNT_ERROR, SHORTER, Sizes
from nbchat.compaction.summarizer.chunking import MOST_PARTS, Part, shortened, split
from nbchat.compaction.summarizer.prompts import (
    Assignment,
    Order,
    plain_request,
    recent_text,
    shared_request,
)
from nbchat.compaction.summarizer.validation import LARGEST_STORY_SHARE
from nbchat.conversation.entries import Entry, Usage
from nbchat.errors import CompactionError
from nbchat.providers.base import Provider, Request
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter

LEAST_ROOM = 100
"""Tokens of conversation that a request must hold to be worth sending."""

NOTES_TOKENS = 100
"""Of the tags and notes that say what is a part, a previous summary, what is recent."""

CUT = ("max-tokens", "unclosed")
"""Reasons for which the next answer may be longer before it is cut."""

TOO_LONG = (*CUT, "too-long", "not-smaller", "too-full")
"""Reasons for which a shorter summary is asked for."""

_EMPTY = Part(" ", 1, 0)


@dataclass(frozen=True, slots=True)
class Draft:
    """What is still to be told, cut into parts that each fit a request."""

    assignment: Assignment
    sizes: Sizes
    model: str
    parts: list[Part]
    recent: str
    previous_tokens: int | None
    """Room for the summary of what came before; None is no limit."""
    done: int = 0
    """Parts that were told already."""

    @property
    def total(self) -> int:
        """Parts of the whole conversation."""
        return self.done + len(self.parts)

    def request(
        self, place: int, previous: str, refusal: CompactionError | None = None
    ) -> Request:
        """The request for the part at `place`; `refusal` says why it is sent again."""
        is_last = place == len(self.parts) - 1
        request = plain_request(
            self.assignment,
            order(self.assignment, self.sizes, refusal, model=self.model),
            self.parts[place],
            previous=self.shown(previous),
            recent=self.recent if is_last else "",
            place=(self.done + place + 1, self.total),
        )
        return _with_room(request, self.assignment, self.sizes, refusal)

    def shown(self, previous: str) -> str:
        """As much of the previous summary as there is room for."""
        if self.previous_tokens is None:
            return previous
        return shortened(previous, self.previous_tokens, self.sizes.counter)


def make_draft(
    assignment: Assignment,
    sizes: Sizes,
    *,
    rest: Sequence[Entry],
    previous: str,
    model: str = "",
    done: int = 0,
    limit: int | None = None,
) -> Draft:
    """The plain requests for the `rest` of the covered entries, as few as can be.

    `limit` is a tighter one than the window's, in tokens of conversation. Raises
    CompactionError when not even a little of the conversation would fit.
    """
    frame = plain_request(assignment, order(assignment, sizes, None), _EMPTY)
    free = _least(sizes.room(frame), limit)
    recent = recent_text(assignment, free, sizes.counter)
    most = max(1, MOST_PARTS - done)
    if free is None:
        parts = split(rest, None, sizes.counter, most=most)
        return Draft(assignment, sizes, model, parts, recent, None, done)
    told = sizes.counter.count(previous)
    room = free - NOTES_TOKENS - sizes.counter.count(recent)
    reserve = min(told, max(0, free // 3))
    parts = split(rest, _worth(room - reserve, sizes), sizes.counter, most=most)
    if len(parts) > 1:
        summary_tokens = sizes.summary_tokens(assignment.max_tokens)
        reserve = min(max(told, summary_tokens), free // 3)
        parts = split(rest, _worth(room - reserve, sizes), sizes.counter, most=most)
    return Draft(assignment, sizes, model, parts, recent, reserve, done)


def shared_draft(
    assignment: Assignment, sizes: Sizes, refusal: CompactionError | None = None
) -> Request | None:
    """The request that shares the chat's prefix; None where there is or fits none."""
    if assignment.base is None:
        return None
    asked = order(assignment, sizes, refusal)
    request = shared_request(assignment, assignment.base, asked)
    request = _with_room(request, assignment, sizes, refusal)
    return request if sizes.fits(request) else None


def order(
    assignment: Assignment,
    sizes: Sizes,
    refusal: CompactionError | None,
    *,
    model: str = "",
) -> Order:
    """How an answer is wanted after a refusal, or at first."""
    limit = sizes.summary_tokens(assignment.max_tokens)
    tokens = min(limit, int(assignment.tokens * LARGEST_STORY_SHARE))
    if refusal is not None and refusal.reason in TOO_LONG:
        tokens = int(tokens * SHORTER)
    length = sizes.length(tokens, assignment.people)
    reason = "" if refusal is None else str(refusal)
    return Order(length, sizes.answer_tokens(limit), reason, model)


def _with_room(
    request: Request,
    assignment: Assignment,
    sizes: Sizes,
    refusal: CompactionError | None,
) -> Request:
    """The request, with more room for the answer when the last one was cut."""
    if refusal is None or refusal.reason not in CUT:
        return request
    limit = sizes.summary_tokens(assignment.max_tokens)
    return replace(request, max_output_tokens=sizes.large_answer_tokens(request, limit))


def _least(room: int | None, limit: int | None) -> int | None:
    return min((each for each in (room, limit) if each is not None), default=None)


def _worth(room_tokens: int, sizes: Sizes) -> int:
    if room_tokens < LEAST_ROOM:
        raise CompactionError(
            "no-room",
            f"the window of {sizes.info.window or 0:,} tokens leaves no room for a "
            "conversation beside the summary prompt; use another summary_model",
        )
    return room_tokens


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
