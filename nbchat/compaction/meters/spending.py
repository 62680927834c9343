"""What re-reading a conversation costs, and what compacting it would.

The meter *auto* weighs the two as one weighs renting against buying: it compacts when
what was paid for re-reading since the last compaction has reached the price of another.
That is never much dearer than twice the best that could have been done in hindsight
(the ski-rental bound), and it follows from real prices: where a cache makes re-reading
cheap, it compacts late or never.
"""

from nbchat.history import Usage
from nbchat.models import MILLION, Prices

RATIOS = Prices(input=1.0, cache_read=0.1, cache_write=1.25, output=5.0)
"""Prices when nobody knows a model's: Anthropic's ratios, in input tokens."""

EXPECTED_SUMMARY_TOKENS = 800
"""Tokens of a summary nobody has written yet: what they took in published runs."""

INSTRUCTION_TOKENS = 400
"""Tokens that ask for a summary, beside the conversation itself."""


class Spending:
    """What was paid for re-reading since the last compaction; one sum, kept running."""

    def __init__(self) -> None:
        """Begin with nothing paid."""
        self.reread_cost = 0.0
        self._last = Usage()

    def add(self, usage: Usage, prices: Prices, *, kept_tokens: int) -> None:
        """Add what a response paid beyond `kept_tokens`, which no compaction saves.

        What is new in it would have been paid for in any case.
        """
        self.reread_cost += reread_cost(
            usage, prices, start=kept_tokens, stop=self._last.context_tokens
        )
        self._last = usage

    def compaction_cost(
        self,
        prices: Prices,
        *,
        context_tokens: int,
        floor_tokens: int,
        summary_tokens: int,
        shares_prefix: bool,
    ) -> float:
        """The price of a compaction: its request, its answer, and the cache made anew.

        A request that `shares_prefix` with the last one reads the cache. Where there is
        a cache, the next request must write its shorter beginning to it, which would
        have been read; the last response shows whether there is one.
        """
        prices = prices.at(context_tokens)
        is_cached = self._last.cache_read_tokens or self._last.cache_write_tokens
        fresh = prices.cache_write if self._last.cache_write_tokens else prices.input
        asked = (context_tokens - floor_tokens) * fresh
        if shares_prefix and is_cached:
            asked = context_tokens * prices.cache_read
        answered = summary_tokens * prices.output
        prefix = floor_tokens + summary_tokens
        rewritten = prefix * (fresh - prices.cache_read) if is_cached else 0.0
        instruction = INSTRUCTION_TOKENS * fresh
        return (asked + instruction + answered + rewritten) / MILLION


def reread_cost(usage: Usage, prices: Prices, *, start: int, stop: int) -> float:
    """What a response paid for reading the tokens from `start` to `stop` again.

    What the cache held comes first in a request, then what was written to it, then the
    rest; each has its price.
    """
    prices = prices.at(usage.input_tokens)
    stop = min(stop, usage.input_tokens)
    read = usage.cache_read_tokens
    written = read + usage.cache_write_tokens
    spans = (
        (start, min(read, stop), prices.cache_read),
        (max(start, read), min(written, stop), prices.cache_write),
        (max(start, written), stop, prices.input),
    )
    return sum(max(end - begin, 0) * price for begin, end, price in spans) / MILLION
