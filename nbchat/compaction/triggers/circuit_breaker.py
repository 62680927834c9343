"""When automatic compaction gives up: after two in a row that did not help.

Then it rests, with one notice, until something changes: a setting, the model, a
compaction by hand, an undo. So neither a summariser that never succeeds nor a context
that cannot shrink costs more than a few requests.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
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


STRIKES = 2
"""Compactions in a row without success after which there is no third (opencode's users
report 35 in a row)."""

MOST_DOUBLINGS = 6
"""After that it stays at 64 requests between two tries."""

UNTIL = (
    "automatic compaction rests until the threshold, the policy or the model changes, "
    "or someone compacts by hand or undoes a compaction"
)

LIMITS = {"cumulative": "threshold", "window": "window's guard"}


class Breaker:
    """Counts what did not help, and remembers which meters rest."""

    def __init__(self) -> None:
        """Begin without a strike."""
        self.failures = 0
        """Compactions in a row for which no summary could be had."""
        self._in_vain: Counter[str] = Counter()
        self.resting: frozenset[str] = frozenset()
        """The meters that stay silent until something changes; people were told why."""
        self._settings: Hashable = None
        self.waits_for = 0
        """Requests to let pass before the next try."""

    def clear(self) -> None:
        """Something has changed: all may try again."""
        self.failures = 0
        self._in_vain.clear()
        self.resting = frozenset()
        self.waits_for = 0

    @property
    def waiting(self) -> str:
        """Why nothing is tried now."""
        return (
            f"no summary could be had {self.failures} times in a row; "
            f"the next try comes after {self.waits_for} more requests"
        )

    def back_off(self) -> None:
        """Let twice as many requests pass as after the last failure, one at first."""
        self.waits_for = 2 ** min(self.failures - 1, MOST_DOUBLINGS)

    def count_request(self) -> None:
        """One more request was answered."""
        self.waits_for = max(0, self.waits_for - 1)

    def is_new(self, settings: Hashable) -> bool:
        """Whether the settings changed since the last look; all may try again then."""
        is_new = self._settings not in (None, settings)
        self._settings = settings
        if is_new:
            self.clear()
        return is_new

    def judge(self, trigger: str, *, has_helped: bool) -> None:
        """Count a compaction that did not get below what had set it off."""
        self._in_vain[trigger] = 0 if has_helped else self._in_vain[trigger] + 1

    def objection(
        self, trigger: str, *, floor_tokens: int, kept_tokens: int, limit: int | None
    ) -> str:
        """Why another compaction would be no use; empty when it may be tried.

        The window's guard goes on without a summariser: code can stand in for it.
        """
        floor = f"system prompt and tools alone take {floor_tokens:,} tokens"
        goal = "hardly fewer than before"
        if limit is not None:
            goal = f"not below the {LIMITS[trigger]} of {limit:,}"
            if floor_tokens >= limit:
                return f"{floor}, {goal}, and no compaction removes them; {UNTIL}"
        if self._in_vain[trigger] >= STRIKES:
            left = f"two compactions in a row left {kept_tokens:,} tokens, {goal}"
            return f"{left} ({floor}); {UNTIL}"
        if self.failures >= STRIKES and trigger != "window":
            return f"no summary could be had twice in a row; {UNTIL}"
        return ""

    def rest(self, triggers: Iterable[str]) -> None:
        """Keep meters from firing until something changes."""
        self.resting |= set(triggers)
