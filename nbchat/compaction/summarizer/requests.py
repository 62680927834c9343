"""Build the requests for a summary, and keep them within the model's window.

*Plain*: the conversation is sent as data inside tags that its own text cannot forge, in
parts when it is too long for one request. *Shared*: the chat's own next request with
one more message, so that the provider reads the conversation from its prompt cache.

Local token counts are scaled up, because servers count more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from nbchat.compaction.policies import LARGEST_SUMMARY_SHARE
from nbchat.compaction.shortening import shorten_to_tokens
from nbchat.compaction.summarizer.chunking import (
    MAX_PARTS,
    Part,
    split,
)
from nbchat.compaction.summarizer.prompts import (
    Assignment,
    plain_prompt,
    recent_text,
    shared_prompt,
)
from nbchat.compaction.summarizer.structured_summary import SCHEMA
from nbchat.conversation.entries import Entry
from nbchat.errors import CompactionError
from nbchat.providers.base import Request, estimated_tokens
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter

COUNT_ERROR = 1.3
"""Local counts are up to 28 % below other vendors' own (measured on real usage)."""

COUNT_MARGIN = 1.05
"""The same where the server's own count of the conversation is known."""

WINDOW_SHARE = 8
"""A summary takes at most this part of a window: a conversation in several parts needs
it in the next request and in the answer, too."""

SLACK, LARGE_SLACK, LARGE_ANSWER = 1.5, 4, 4_096
"""The limit of an answer as a factor of the length asked for, and the factor and the
least figure after an answer was cut, which leave enough for hidden thinking."""

WORDS_PER_TOKEN = 0.4
"""Summaries full of ids and numbers have 0.44 words a token, plain English 0.75. Fewer
words are asked for than fit, because the facts beside them take tokens, too: with 0.47
strong writers left 1,088 tokens of entry for 17,900 of conversation and 1,447 after
four folds, with 0.4 about 850 and 1,150, and as many values of the next calls could be
read: 98 % and 91 % with both (`tests/benchmarks/reader.py`, the same desks)."""

CHARACTERS_SHARE = 0.8
"""The same for languages without spaces, whose length is stated in characters."""

LONGEST_WORD = 12
"""Average characters between spaces; above it a language is taken to have none."""

SHORTER = 0.6
"""Factor of the stated length after an answer that was too long."""

LEAST_CONVERSATION = 100
"""Tokens of conversation that a request must hold to be worth sending."""

NOTES_TOKENS = 100
"""For the tags and notes around a part, a previous summary and recent messages."""

CUT = ("max-tokens", "unclosed")
"""Codes of refused answers after which the next may be longer before it is cut."""

TOO_LONG = (*CUT, "too-long", "not-smaller", "too-full")
"""Codes of refused answers after which a shorter summary is asked for."""

_EMPTY = Part(" ", 1, 0)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits of the requests to one model."""

    info: ModelInfo
    counter: TokenCounter
    count_error: float = COUNT_ERROR

    def summary_tokens(self, wanted: int) -> int:
        """How long a summary may be."""
        limit = min(wanted, self.info.output_reserve)
        if self.info.window is None:
            return limit
        return min(limit, self.info.window // WINDOW_SHARE)

    def answer_tokens(self, summary_tokens: int) -> int:
        """Where an answer is cut, thinking and tags included."""
        return min(int(summary_tokens * SLACK), self.info.output_reserve)

    def large_answer_tokens(self, request: Request, summary_tokens: int) -> int:
        """Where an answer is cut after one was cut: as late as the window allows."""
        wanted = max(summary_tokens * LARGE_SLACK, LARGE_ANSWER)
        if self.info.window is not None:
            wanted = min(wanted, self.info.window - self.tokens(request))
        least = self.answer_tokens(summary_tokens)
        return max(least, min(wanted, self.info.output_reserve))

    def tokens(self, request: Request) -> int:
        """Input tokens of a request, rather too many than too few."""
        return ceil(estimated_tokens(request, self.counter) * self.count_error)

    def fits(self, request: Request) -> bool:
        """Whether a request and its answer are within the window."""
        window = self.info.window
        answer = request.max_output_tokens or self.info.output_reserve
        return window is None or self.tokens(request) + answer <= window

    def free_tokens(self, frame: Request) -> int | None:
        """Local tokens that a request can hold beside its frame; may be negative.

        None is no limit.
        """
        if self.info.window is None:
            return None
        free = self.info.window - (frame.max_output_tokens or 0) - self.tokens(frame)
        return int(free / self.count_error)

    def length(self, tokens: int, sample: str) -> str:
        """A length in words or, for a language without spaces, in characters."""
        words = max(1, len(sample.split()))
        if len(sample) <= LONGEST_WORD * words:
            return f"{max(1, int(tokens * WORDS_PER_TOKEN))} words"
        each = len(sample) / self.counter.count(sample)
        return f"{max(1, int(tokens * each * CHARACTERS_SHARE))} characters"


@dataclass(frozen=True, slots=True)
class PlainRequests:
    """The plain requests for the entries to summarize, one for each part of them."""

    assignment: Assignment
    sizes: Sizes
    model: str
    parts: list[Part]
    recent: str
    limit_tokens: int | None
    """For a part and the summary of those before it; None is no limit."""
    done: int = 0
    """Parts that are summarized already."""

    @property
    def total(self) -> int:
        """Parts of the whole conversation."""
        return self.done + len(self.parts)

    def request(
        self, index: int, previous: str, refusal: CompactionError | None = None
    ) -> Request:
        """The request for a part; `refusal` is why the last answer was refused."""
        is_last = index == len(self.parts) - 1
        text = plain_prompt(
            self.assignment,
            self.parts[index].text,
            length=_length(self.assignment, self.sizes, refusal),
            refusal="" if refusal is None else str(refusal),
            previous=self.shown(index, previous),
            recent=self.recent if is_last else "",
            part=(self.done + index + 1, self.total),
        )
        request = _plain(text, self.assignment, self.sizes, self.model)
        return _enlarged(request, self.assignment, self.sizes, refusal)

    def shown(self, index: int, previous: str) -> str:
        """The previous summary, shortened where it does not fit beside a part."""
        if self.limit_tokens is None:
            return previous
        limit = self.limit_tokens - self.parts[index].tokens
        return shorten_to_tokens(previous, limit, self.sizes.counter.count)


def plain_requests(
    assignment: Assignment,
    sizes: Sizes,
    *,
    rest: Sequence[Entry] | None = None,
    previous: str | None = None,
    model: str = "",
    done: int = 0,
    limit: int | None = None,
) -> PlainRequests:
    """The plain requests for an assignment, as few as possible.

    `rest` are the entries still to summarize and `previous` is the summary of those
    before, both of the whole assignment unless given. `limit` is a limit below the
    window's, in tokens of conversation. Raises CompactionError when not even a little
    of the conversation would fit.
    """
    rest = assignment.entries if rest is None else rest
    previous = assignment.previous if previous is None else previous
    counter = sizes.counter
    length = _length(assignment, sizes)
    frame = plain_prompt(assignment, _EMPTY.text, length=length)
    free = sizes.free_tokens(_plain(frame, assignment, sizes))
    free = _smaller(free, limit)
    recent = recent_text(assignment, free, counter)
    most = max(1, MAX_PARTS - done)
    if free is None:
        parts = split(rest, None, counter, most=most)
        return PlainRequests(assignment, sizes, model, parts, recent, None, done)
    budget = free - NOTES_TOKENS - counter.count(recent)
    known_tokens = counter.count(previous)
    reserve = min(known_tokens, max(0, free // 3))
    parts = split(rest, _checked(budget - reserve, sizes), counter, most=most)
    if len(parts) > 1:
        summary_tokens = sizes.summary_tokens(assignment.max_tokens)
        reserve = min(max(known_tokens, summary_tokens), free // 3)
        parts = split(rest, _checked(budget - reserve, sizes), counter, most=most)
    return PlainRequests(assignment, sizes, model, parts, recent, budget, done)


def shared_request(
    assignment: Assignment,
    base: Request,
    sizes: Sizes,
    refusal: CompactionError | None = None,
) -> Request | None:
    """The chat's own request with the instruction as one more user message.

    Tools are included, because servers refuse a history with calls without them; none
    may be called. None where it would not fit the window.
    """
    prompt = shared_prompt(
        assignment,
        length=_length(assignment, sizes, refusal),
        refusal="" if refusal is None else str(refusal),
    )
    request = replace(
        base,
        history=(*base.history, Entry("user", prompt)),
        tool_choice="none",
        max_output_tokens=_answer_tokens(assignment, sizes),
        answer_tag="summary",
    )
    request = _enlarged(request, assignment, sizes, refusal)
    return request if sizes.fits(request) else None


def _plain(text: str, assignment: Assignment, sizes: Sizes, model: str = "") -> Request:
    return Request(
        (Entry("user", text),),
        system=assignment.instructions,
        tool_choice="none",
        max_output_tokens=_answer_tokens(assignment, sizes),
        answer_tag="summary",
        model=model,
        output_schema=SCHEMA if assignment.is_structured else None,
    )


def _answer_tokens(assignment: Assignment, sizes: Sizes) -> int:
    return sizes.answer_tokens(sizes.summary_tokens(assignment.max_tokens))


def _length(
    assignment: Assignment, sizes: Sizes, refusal: CompactionError | None = None
) -> str:
    """The length to ask for; a shorter one after an answer that was too long."""
    limit = sizes.summary_tokens(assignment.max_tokens)
    tokens = min(limit, int(assignment.tokens * LARGEST_SUMMARY_SHARE))
    if refusal is not None and refusal.reason in TOO_LONG:
        tokens = int(tokens * SHORTER)
    return sizes.length(tokens, assignment.user_sample)


def _enlarged(
    request: Request,
    assignment: Assignment,
    sizes: Sizes,
    refusal: CompactionError | None,
) -> Request:
    """The request with a higher output limit when the last answer was cut."""
    if refusal is None or refusal.reason not in CUT:
        return request
    limit = sizes.summary_tokens(assignment.max_tokens)
    return replace(request, max_output_tokens=sizes.large_answer_tokens(request, limit))


def _smaller(first: int | None, second: int | None) -> int | None:
    return min((each for each in (first, second) if each is not None), default=None)


def _checked(conversation_tokens: int, sizes: Sizes) -> int:
    if conversation_tokens < LEAST_CONVERSATION:
        raise CompactionError(
            "no-space",
            f"the window of {sizes.info.window or 0:,} tokens is too small for the "
            "summary prompt and a conversation; use another summary_model",
        )
    return conversation_tokens
