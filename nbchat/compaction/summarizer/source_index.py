"""The values that a summary may state: those of the entries that it covers."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from nbchat.compaction.exact_json import Number, parsed
from nbchat.compaction.summarizer.unsupported_marks import without_marked
from nbchat.conversation.entries import Entry
from nbchat.conversation.values import Value, ValueIndex

READ_CHARACTERS = 300_000
"""Characters whose values are read, some 75,000 tokens; the words are read of all."""

MOST_NODES = 200_000
"""Values of one JSON text that are read."""

PROBE = 3
"""Last characters of a value by which other entries are searched: `1,299` and `1299`
end alike."""

ROUNDED_SHARE = 0.001
"""How far a number that ends in zeros may be from the one that it rounds."""


@dataclass(slots=True)
class Sources:
    """The values of what a summary covers; `other` is read only when it matters."""

    other: Sequence[Sequence[Entry]] = ()
    """All other entries, in pieces: an earlier summary covers them, and speaks of
    them."""
    totals: set[float] = field(default_factory=set)
    """The lengths of lists in results, and the sums of each field of their records."""
    _indexes: list["_Index"] = field(default_factory=list)
    _searched: set[str] = field(default_factory=set)

    def add(self, entries: Iterable[Entry]) -> None:
        """Read entries: messages, calls with their results, attachments."""
        texts = list(chain.from_iterable(map(self._texts, entries)))
        self._indexes.append(_Index("\n".join(texts), READ_CHARACTERS))

    def knows(self, value: Value) -> bool:
        """True if a value occurs, also rounded, also in other entries."""
        return self._occurs(value) or (self._search(value) and self._occurs(value))

    def states(self, key: str) -> bool:
        """True if what was read has a value with this key."""
        return any(key in index.keys or key in index.parts for index in self._indexes)

    def _occurs(self, value: Value) -> bool:
        if any(index.has(value) for index in self._indexes):
            return True
        if value.kind not in ("number", "amount"):
            return False
        return any(
            index.has_rounded(key) for index in self._indexes for key in value.keys
        )

    def _search(self, value: Value) -> bool:
        """Read the other entries that may state a value; whether there are any."""
        words = re.findall(r"\d+|[^\W\d_]+", value.text.casefold())
        probe = words[-1][-PROBE:] if words else ""
        if not probe or probe in self._searched:
            return False
        self._searched.add(probe)
        found = [
            entry
            for entry in chain.from_iterable(self.other)
            if probe in entry.content.casefold() or probe in entry.tool_args.casefold()
        ]
        if found:
            self.add(found)
        return bool(found)

    def _texts(self, entry: Entry) -> Iterator[str]:
        if entry.role == "summary":
            yield without_marked(entry.content)
            return
        text = entry.attachment_text if entry.is_attachment else entry.content
        text = entry.tool_args if entry.is_call else text
        value = parsed(text)
        if value is None:
            yield text
            return
        yield from _leaves(value)
        if entry.role == "tool":
            self.totals.update(_totals(value))


class _Index(ValueIndex):
    """Also finds the numbers that one may round."""

    @cached_property
    def _numbers(self) -> list[float]:
        keys = self.keys | self.parts
        return sorted(float(k[2:]) for k in keys if re.fullmatch(r"n:-?[\d.]+", k))

    def has_rounded(self, key: str) -> bool:
        """True if a number of the text, rounded, has this key: 87.6 is about 88."""
        written = re.fullmatch(r"n:(-?\d+?)(0*)(?:\.(\d+))?", key)
        if written is None:
            return False
        number, decimals = float(key[2:]), len(written[3] or "")
        reach = 0.5 * 10**-decimals
        if written[2] and not decimals:
            digit = 0.5 * 10 ** len(written[2])
            reach = max(reach, min(digit, abs(number) * ROUNDED_SHARE))
        first = bisect_left(self._numbers, number - reach)
        near = self._numbers[first : first + 2]
        return any(each <= number + reach for each in near)


def _leaves(value: dict[str, Any] | list[Any]) -> Iterator[str]:
    """The names, texts and numbers inside a JSON value."""
    waiting: list[object] = [value]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += chain.from_iterable(each.items())
        elif isinstance(each, list):
            waiting += each
        elif each is not None and not isinstance(each, bool):
            yield str(each)


def _totals(value: dict[str, Any] | list[Any]) -> Iterator[float]:
    """The length of each list inside a JSON value, and the sums of its numbers."""
    waiting: list[dict[str, Any] | list[Any]] = [value]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        each = waiting.pop()
        parts = list(each.values() if isinstance(each, dict) else each)
        waiting += [part for part in parts if isinstance(part, dict | list)]
        yield float(len(parts))
        columns: dict[str, list[float]] = {}
        for part in parts:
            for name, cell in part.items() if isinstance(part, dict) else [("", part)]:
                if isinstance(cell, Number) and math.isfinite(float(cell)):
                    columns.setdefault(name, []).append(float(cell))
        yield from (round(math.fsum(c), 2) for c in columns.values() if len(c) > 1)
