"""How long the meters rest: until more was spent, or the context has grown."""

from dataclasses import dataclass
from typing import Self

GROWTH_AFTER_SUCCESS, GROWTH_AFTER_REFUSAL = 1.25, 1.10
"""How far the context must grow before it is compacted again, or tried again."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Where the meters stood at the last attempt, to measure the next one from."""

    input_tokens: int = 0
    reread_cost: float = 0.0
    least_context: int = 0
    """What the context must have grown to before any meter fires."""
    window_limit: int = 0
    """What it must have grown to before the window's guard does."""

    @classmethod
    def after(cls, kept_tokens: int, room: int | None) -> Self:
        """The rest after a compaction, while the window has room to grow."""
        least = int(kept_tokens * GROWTH_AFTER_SUCCESS)
        return cls(least_context=least if room is None else min(least, room))

    @classmethod
    def at(
        cls,
        context_tokens: int,
        *,
        input_tokens: int = 0,
        reread_cost: float = 0.0,
        needs_growth: bool = False,
    ) -> Self:
        """The rest of a context that stays large; `needs_growth` is for all meters."""
        grown = int(context_tokens * GROWTH_AFTER_REFUSAL)
        least = grown if needs_growth else 0
        return cls(input_tokens, reread_cost, least, grown)
