"""What of a growing history is written already: only what is new is written anew."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import eq
from typing import Any

from nbchat.conversation.entries import Entry

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How a wire format writes a run of entries by one speaker, run by run."""

    speaker: Callable[[Entry], str]
    messages: Callable[[list[Entry]], list[Json]]


@dataclass(frozen=True, slots=True)
class WireMessages:
    """A history and its messages, which are shared and never changed.

    `run_ends` says for every run of one speaker where it ends: in the history, and in
    the messages.
    """

    history: tuple[Entry, ...] = ()
    messages: tuple[Json, ...] = ()
    run_ends: tuple[tuple[int, int], ...] = ()

    def extended_to(
        self, history: tuple[Entry, ...], form: WireFormat
    ) -> "WireMessages":
        """A history written down; what this one begins with too is taken from here.

        The last run that both share is written anew: it may have become longer.
        """
        same = _common_length(self.history, history)
        run_ends = list(self.run_ends[: bisect_left(self.run_ends, (same, 0))])
        said, written = run_ends[-1] if run_ends else (0, 0)
        messages = list(self.messages[:written])
        for _, run in groupby(history[said:], form.speaker):
            entries = list(run)
            messages += form.messages(entries)
            said += len(entries)
            run_ends.append((said, len(messages)))
        return WireMessages(history, tuple(messages), tuple(run_ends))


def _common_length(one: tuple[Entry, ...], other: tuple[Entry, ...]) -> int:
    """How many entries two histories begin with in common."""
    if one == other[: len(one)]:  # the usual case, compared by identity, in C
        return len(one)
    return sum(takewhile(bool, map(eq, one, other)))
