"""Build the requests for a summary, and keep them within the model's window.

*Plain*: the conversation is sent as data inside tags that its own text cannot forge, in
parts when it is too long for one request. *Shared*: the chat's own next request with
one more message, so that the provider reads the conversation from its prompt cache.

Every unit is in exactly one part. A unit is shortened when it is longer than a part, or
when there would be too many parts; the missing characters are counted. Local token
counts are scaled up, because servers count more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from nbchat.compaction.policies import LARGEST_SUMMARY_SHARE
from nbchat.compaction.shortening import SHORTEST, shorten, shorten_to_tokens
from nbchat.compaction.summarizer.prompts import (
    Assignment,
    plain_prompt,
    recent_text,
    shared_prompt,
    transcript,
)
from nbchat.compaction.summarizer.structured_summary import SCHEMA
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import safe_cuts
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

WORDS_PER_TOKEN, LEAST_WORDS = 0.5, 20
"""Summaries full of ids and numbers have 0.44 words a token, plain English 0.75; and
the fewest words that are asked for: two sentences."""

CHARACTERS_SHARE, CHARACTERS_OF_WORD = 0.8, 2
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

MAX_PARTS = 24
"""Takes an embedded model four minutes on one core, ten seconds a part; a chat that
fills the window of its own model needs two parts."""

LIMITS = (
    (8_000, None),
    (2_000, 8_000),
    (500, 4_000),
    (160, 2_000),
    (160, 1_000),
    (160, 500),
    (80, 250),
    (80, 80),
)
"""Characters kept of a tool call or output, and of any other text, tried in order until
it fits: messages are shortened last."""


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
        """True if a request and its answer are within the window."""
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
            return f"{max(LEAST_WORDS, int(tokens * WORDS_PER_TOKEN))} words"
        each = len(sample) / self.counter.count(sample)
        least = LEAST_WORDS * CHARACTERS_OF_WORD
        return f"{max(least, int(tokens * each * CHARACTERS_SHARE))} characters"


@dataclass(frozen=True, slots=True)
class SummaryStep:
    """One request for a summary: what it asks for."""

    assignment: Assignment
    sizes: Sizes
    model: str = ""
    refusal: CompactionError | None = None
    """Why the last answer was refused."""
    base: Request | None = None
    """The chat's own request, which this one shares; None for a plain one."""
    transcript: str = " "
    """The entries as data, or a part of them, of a plain request."""
    previous: str = ""
    """The summary of those before it."""
    recent: str = ""
    """The entries that stay, as data."""
    part: tuple[int, int] = (1, 1)
    """The number of this part, and of all parts."""

    @property
    def summary_tokens(self) -> int:
        """How long the summary may be."""
        return self.sizes.summary_tokens(self.assignment.max_tokens)

    @property
    def length(self) -> str:
        """The length to ask for; a shorter one after an answer that was too long."""
        most = int(self.assignment.tokens * LARGEST_SUMMARY_SHARE)
        tokens = min(self.summary_tokens, most)
        if self.refusal is not None and self.refusal.reason in TOO_LONG:
            tokens = int(tokens * SHORTER)
        return self.sizes.length(tokens, self.assignment.user_sample)


def summary_request(step: SummaryStep) -> Request:
    """Build the request of a step; its output limit is higher after a cut answer."""
    request = _plain(step) if step.base is None else _shared(step, step.base)
    request = replace(
        request,
        tool_choice="none",
        max_output_tokens=step.sizes.answer_tokens(step.summary_tokens),
        answer_tag="summary",
    )
    if step.refusal is None or step.refusal.reason not in CUT:
        return request
    limit = step.sizes.large_answer_tokens(request, step.summary_tokens)
    return replace(request, max_output_tokens=limit)


def _plain(step: SummaryStep) -> Request:
    assignment = step.assignment
    text = plain_prompt(
        assignment,
        step.transcript,
        length=step.length,
        refusal=str(step.refusal or ""),
        previous=step.previous,
        recent=step.recent,
        part=step.part,
    )
    return Request(
        (Entry("user", text),),
        system=assignment.instructions,
        model=step.model,
        output_schema=SCHEMA if assignment.is_structured else None,
    )


def _shared(step: SummaryStep, base: Request) -> Request:
    """The chat's own request with the instruction as one more user message.

    Tools are included, because servers refuse a history with calls without them; none
    may be called.
    """
    refusal = str(step.refusal or "")
    prompt = shared_prompt(step.assignment, length=step.length, refusal=refusal)
    return replace(base, history=(*base.history, Entry("user", prompt)))


@dataclass(frozen=True, slots=True)
class PlainSteps:
    """The plain requests for the entries to summarize, one for each part of them."""

    step: SummaryStep
    """The step that all of them share."""
    parts: "list[Part]"
    limit_tokens: int | None
    """For a part and the summary of those before it; None is no limit."""
    done: int = 0
    """Parts that are summarized already."""

    @property
    def total(self) -> int:
        """Parts of the whole conversation."""
        return self.done + len(self.parts)

    def at(
        self, index: int, previous: str, refusal: CompactionError | None = None
    ) -> SummaryStep:
        """The step for a part; `refusal` is why the last answer was refused."""
        is_last = index == len(self.parts) - 1
        return replace(
            self.step,
            refusal=refusal,
            transcript=self.parts[index].text,
            previous=self.shown(index, previous),
            recent=self.step.recent if is_last else "",
            part=(self.done + index + 1, self.total),
        )

    def shown(self, index: int, previous: str) -> str:
        """The previous summary, shortened where it does not fit beside a part."""
        if self.limit_tokens is None:
            return previous
        limit = self.limit_tokens - self.parts[index].tokens
        return shorten_to_tokens(previous, limit, self.step.sizes.counter.count)


def plain_steps(
    assignment: Assignment,
    sizes: Sizes,
    *,
    rest: Sequence[Entry] | None = None,
    previous: str | None = None,
    model: str = "",
    done: int = 0,
    limit: int | None = None,
) -> PlainSteps:
    """The steps of plain requests for an assignment, as few as possible.

    `rest` are the entries still to summarize and `previous` is the summary of those
    before, both of the whole assignment unless given. `limit` is a limit below the
    window's, in tokens of conversation. Raises CompactionError when not even a little
    of the conversation would fit.
    """
    rest = assignment.entries if rest is None else rest
    previous = assignment.previous if previous is None else previous
    counter = sizes.counter
    step = SummaryStep(assignment, sizes, model)
    free = _smaller(sizes.free_tokens(summary_request(step)), limit)
    recent = recent_text(assignment, free, counter)
    step = replace(step, recent=recent)
    most = max(1, MAX_PARTS - done)
    if free is None:
        parts = split(rest, None, counter, most=most)
        return PlainSteps(step, parts, None, done)
    budget = free - NOTES_TOKENS - counter.count(recent)
    known_tokens = counter.count(previous)
    reserve = min(known_tokens, max(0, free // 3))
    parts = split(rest, _checked(budget - reserve, sizes), counter, most=most)
    if len(parts) > 1:
        reserve = min(max(known_tokens, step.summary_tokens), free // 3)
        parts = split(rest, _checked(budget - reserve, sizes), counter, most=most)
    return PlainSteps(step, parts, budget, done)


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


@dataclass(frozen=True, slots=True)
class Part:
    """Entries as data for one request."""

    text: str
    tokens: int
    entries: int
    omitted: int = 0
    """Characters of the entries that are not in `text`, slightly under-counted."""


def split(
    entries: Sequence[Entry],
    budget_tokens: int | None,
    counter: TokenCounter,
    *,
    most: int = MAX_PARTS,
) -> list[Part]:
    """Split entries into as few parts of `budget_tokens` as possible, at most `most`.

    There is one part when there is no limit or no entry.
    """
    if not entries:
        return [Part("", 0, 0)]
    parts: list[Part] = []
    for step in range(len(LIMITS)):
        pieces = [_piece(u, budget_tokens, counter, step) for u in _units(entries)]
        parts = _packed(pieces, budget_tokens)
        if len(parts) <= most:
            return parts
    return _without_middle(parts, most)


def _units(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    edges = sorted({0, *safe_cuts(entries), len(entries)})
    for start, stop in pairwise(edges):
        yield entries[start:stop]


def _piece(
    unit: Sequence[Entry], budget_tokens: int | None, counter: TokenCounter, step: int
) -> Part:
    """A unit as a part of its own, shortened as little as possible."""
    omitted, text, tokens, whole = 0, "", 0, transcript(unit)
    for limits in LIMITS[step:]:
        kept = [_limited(entry, *limits) for entry in unit]
        text = whole if kept == list(unit) else transcript(kept)
        omitted = len(whole) - len(text)
        tokens = counter.count(text) + 1
        if budget_tokens is None or tokens <= budget_tokens:
            return Part(text, tokens, len(unit), omitted)
    short = shorten_to_tokens(text, (budget_tokens or 0) - 1, counter.count)
    omitted += len(text) - len(short)
    return Part(short, counter.count(short) + 1, len(unit), omitted)


def _limited(entry: Entry, output_limit: int, text_limit: int | None) -> Entry:
    is_tools = entry.is_call or entry.role == "tool"
    limit = output_limit if is_tools else text_limit
    if limit is None:
        return entry
    arguments = _cut(entry.tool_args, limit) if entry.is_call else entry.tool_args
    return entry._replace(content=_cut(entry.content, limit), tool_args=arguments)


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters, unless the note on what is missing costs as much."""
    return shorten(text, limit) if len(text) > limit + SHORTEST else text


def _packed(pieces: Sequence[Part], budget_tokens: int | None) -> list[Part]:
    """Fill each part, so that there are as few as possible."""
    groups: list[list[Part]] = []
    used = 0
    for piece in pieces:
        is_full = budget_tokens is not None and used + piece.tokens > budget_tokens
        if is_full or not groups:
            groups.append([])
            used = 0
        groups[-1].append(piece)
        used += piece.tokens
    return [_joined(group) for group in groups]


def _joined(pieces: Sequence[Part]) -> Part:
    return Part(
        "\n".join(piece.text for piece in pieces),
        sum(piece.tokens for piece in pieces),
        sum(piece.entries for piece in pieces),
        sum(piece.omitted for piece in pieces),
    )


def _without_middle(parts: Sequence[Part], most: int) -> list[Part]:
    """The first and the last parts; the newest count twice as much as the oldest."""
    head = most // 3
    tail = len(parts) - (most - head)
    gap = _joined(parts[head:tail])
    note = f"[{gap.entries:,} entries before this are omitted]\n"
    first = parts[tail]
    after = Part(
        note + first.text,
        first.tokens,
        gap.entries + first.entries,
        gap.omitted + len(gap.text) + first.omitted,
    )
    return [*parts[:head], after, *parts[tail + 1 :]]
