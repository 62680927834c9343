"""How long a summary may be, and how much of a conversation one request can hold.

All local counts are set in proportion: they fall short of what a server counts.
"""

from dataclasses import dataclass
from math import ceil

from nbchat.providers.base import Request, estimated_tokens
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter

COUNT_ERROR = 1.3
"""Local counts fall up to 28 % short of other vendors' own (measured on real usage)."""

COUNT_MARGIN = 1.05
"""The same where the server's own count of the conversation is known."""

WINDOW_SHARE = 8
"""A summary takes at most this part of a window: where a conversation goes in several
requests it stands in the next request and in the answer, too."""

SLACK, LARGE_SLACK, LARGE_ANSWER = 1.5, 4, 4_096
"""How much longer than asked for an answer may be before it is cut, and how much after
one was; the least figure then leaves room for what a model thinks unseen."""

WORDS_PER_TOKEN = 0.6
"""Safely below the 0.75 English words of a token, so that the tag still gets closed."""

LETTERS_SHARE = 0.8
"""The same for languages without spaces, whose length is stated in characters."""

LONGEST_WORD = 12
"""Characters between spaces, on average; a text with more is of such a language."""

SHORTER = 0.6
"""What is left of the stated length after an answer that was too long."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The measures of one writer's requests."""

    info: ModelInfo
    counter: TokenCounter
    count_error: float = COUNT_ERROR

    def summary_tokens(self, wanted: int) -> int:
        """How long its summaries may be."""
        limit = min(wanted, self.info.output_reserve)
        if self.info.window is None:
            return limit
        return min(limit, self.info.window // WINDOW_SHARE)

    def answer_tokens(self, summary_tokens: int) -> int:
        """Where an answer is cut, thinking and tags included."""
        return min(int(summary_tokens * SLACK), self.info.output_reserve)

    def large_answer_tokens(self, request: Request, summary_tokens: int) -> int:
        """Where the answer is cut after one was cut: as late as the window allows."""
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

    def room(self, frame: Request) -> int | None:
        """Tokens, as counted here, that a request can hold beside its frame.

        None is no limit; it may be negative.
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
        return f"{max(1, int(tokens * each * LETTERS_SHARE))} characters"
