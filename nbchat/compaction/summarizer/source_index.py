"""What a summary covers, as an index of its values and of the ids they occur with.

A value *occurs with* the ids of its record: of its JSON object and the objects around
it, of the call that returned it, or of its sentence. So a program can see that 50.00
never occurred with order W1, only with W2.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

from nbchat.compaction.exact_json import Number, parsed
from nbchat.compaction.summarizer.unsupported_marks import without_marked
from nbchat.compaction.summarizer.value_extraction import (
    Value,
    spoken_keys,
    squeezed,
    values,
)
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import calls_by_result

READ_CHARACTERS = 1_000_000
"""Characters of an entry that are indexed (a second); the rest is searched as it is."""

CACHED_TEXTS, CACHED_CHARACTERS = 2_000, 2_000
"""Texts whose values stay in memory for the next compaction, and characters of the
longest. Longer ones are seldom read again: the summary before is another each time."""

MOST_RECORDS = 200
"""Records of one value that are kept apart; a value with more occurs with anything."""

MOST_IDS = 50
"""Ids of a record; what occurs with more occurs with anything."""

MOST_NODES = 200_000
"""Values of one JSON text that are read."""

MANY_NUMBERS = 12
"""Numbers that occur with one id; sums and differences of more meet any by chance."""

ROUGHLY = 0.05
"""How far a number after "about" may be from one that is known."""

SHORTEST_PREFIX = 6
"""Characters of an id that is written without its end, such as a commit's."""

Ids = frozenset[str]

_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\s\d\.)(?<!\s\d\d\.)\s+|(?<=;)\s+(?![^()\n]{0,200}\))"
    r"|[\n。！？；]+"  # noqa: RUF001
)
"""Ends of sentences and lines; "16. Mai" is none, nor a semicolon in parentheses."""

LONGEST_PREFIX = 4
"""Letters with which the ids of one kind begin; more are a name."""

_NAME = re.compile(rf"[a-z]{{{LONGEST_PREFIX + 1},}}")
_NO_IDS: Ids = frozenset()


def groups(text: str) -> Iterator[list[Value]]:
    """The values of a text by sentence, or by clause where each clause has its id.

    "W1 costs 80 and W2 50" has two groups.
    """
    found = values(text)
    stops = [gap.start() for gap in _SENTENCE.finditer(text)]
    sentences: dict[int, list[Value]] = {}
    for value in found:
        sentences.setdefault(bisect_left(stops, value.start), []).append(value)
    for sentence in sentences.values():
        yield from _clauses(sentence)


def _clauses(sentence: list[Value]) -> list[list[Value]]:
    clauses = [sentence[:1]]
    for value in sentence[1:]:
        if value.is_id:
            clauses.append([])
        clauses[-1].append(value)
    if min(map(len, clauses)) == 1 or not sentence[0].is_id:
        return [sentence]
    kinds = {shape(key) for clause in clauses for key in clause[0].keys}
    return clauses if len(kinds) == 1 else [sentence]


def shape(key: str) -> str:
    """The kind of an id: its first letters, and where its digits are.

    Behind a name it is the number of digits: `ann_lee_3067`, but `gift_card_2176570`.
    """
    written, names = _NAME.subn("a", key[2:])
    return re.sub(r"\d" if names else r"\d+", "0", written)


@dataclass(slots=True)
class Sources:
    """The values of what a summary covers; `other` is read only when it matters."""

    other: Sequence[Sequence[Entry]] = ()
    """All other entries, in pieces: an earlier summary covers them, and speaks of
    them."""
    known: set[str] = field(default_factory=set)
    records: dict[str, set[Ids]] = field(default_factory=dict)
    """Of each value's keys, the ids of every record in which it occurs."""
    totals: set[float] = field(default_factory=set)
    """The lengths of lists in results, and the sums of each field of their records, as
    of the prices of two flights."""
    _numbers: list[float] = field(default_factory=list)
    _unread: list[str] = field(default_factory=list)
    _searched: set[str] = field(default_factory=set)

    def add(self, entries: Iterable[Entry]) -> None:
        """Index entries: messages, calls with their results, attachments."""
        entries = list(entries)
        calls = calls_by_result(entries)
        for index, entry in enumerate(entries):
            call = entries[calls[index]] if index in calls else None
            self._add_entry(entry, call)
        self._numbers = sorted(
            float(key[2:]) for key in self.known if key.startswith("n:")
        )

    def knows(self, value: Value, *, is_rough: bool = False) -> bool:
        """Whether a value occurs; `is_rough` allows a rounded number."""
        if self._has(value, is_rough=is_rough):
            return True
        self._search(value)
        return self._has(value, is_rough=is_rough)

    def records_of(self, value: Value) -> set[Ids]:
        """The ids of every record in which a value occurs, also in other entries."""
        self._search(value)
        return set().union(*(self.records.get(key, set()) for key in value.keys))

    def numbers_with(self, entity: Value) -> list[float]:
        """The numbers that occur with an id; none where they are `MANY_NUMBERS`."""
        found = [
            float(key[2:])
            for key, records in self.records.items()
            if key.startswith("n:")
            and any(not entity.keys.isdisjoint(ids) for ids in records)
        ]
        return found if len(found) <= MANY_NUMBERS else []

    def _has(self, value: Value, *, is_rough: bool) -> bool:
        if not self.known.isdisjoint(value.keys):
            return True
        if any(value.text in text for text in self._unread):
            return True
        if value.kind in ("number", "amount"):
            return self._has_parts(value, " ") or any(
                self._is_rounded(key, is_rough=is_rough) for key in value.keys
            )
        if value.kind == "date":
            return self._has_parts(value, "/")
        return value.kind == "id" and self._is_prefix(squeezed(value.text))

    def _is_rounded(self, key: str, *, is_rough: bool) -> bool:
        """Whether a known number is this one when it is rounded."""
        if not key.startswith("n:"):
            return False
        number = float(key[2:])
        decimals = len(key.partition(".")[2])
        least = 0.5 * 10**-decimals
        reach = max(least, abs(number) * ROUGHLY) if is_rough else least
        first = bisect_left(self._numbers, number - reach)
        last = bisect_right(self._numbers, number + reach)
        found = self._numbers[first:last]
        return bool(found) if is_rough else any(each % 1 for each in found)

    def _has_parts(self, value: Value, sign: str) -> bool:
        """Whether `10/20` or `option 2 429` are two numbers that are known."""
        parts = re.fullmatch(rf"(\d+){sign}(\d+)", value.text)
        return parts is not None and all(
            f"n:{int(part)}" in self.known or int(part) in self.totals
            for part in parts.groups()
        )

    def _is_prefix(self, written: str) -> bool:
        if len(written) < SHORTEST_PREFIX:
            return False
        return any(key[2:].startswith(written) for key in self.known if key[0] == "i")

    def _search(self, value: Value) -> None:
        """Index the other entries that may hold a value."""
        probe = re.findall(r"\d+|[a-z]+", value.text.casefold())[-1:]
        for each in probe:
            part = each[-3:]
            if part in self._searched:
                continue
            self._searched.add(part)
            entries = chain.from_iterable(self.other)
            found = [e for e in entries if part in e.content or part in e.tool_args]
            if found:
                self.add(found)

    def _add_entry(self, entry: Entry, call: Entry | None) -> None:
        if entry.is_call:
            self._add_json_or_text(entry.tool_args, _NO_IDS)
            return
        if entry.role == "tool":
            asked = _ids(values(call.tool_args)) if call is not None else _NO_IDS
            self._add_json_or_text(entry.content, asked)
            return
        text = entry.attachment_text if entry.is_attachment else entry.content
        if entry.role == "summary":
            text = without_marked(text)
        self._add_text(text, _NO_IDS)

    def _add_json_or_text(self, text: str, asked: Ids) -> None:
        value = parsed(text[:READ_CHARACTERS])
        if value is None:
            self._add_text(text, asked)
            return
        self.totals.update(_totals(value))
        for leaf, ids in _leaves(value, asked):
            self.known.update(spoken_keys(leaf))
            self._add_record(values(leaf), ids)

    def _add_text(self, text: str, asked: Ids) -> None:
        if len(text) > READ_CHARACTERS:
            self._unread.append(text[READ_CHARACTERS:])
            text = text[:READ_CHARACTERS]
        is_short = len(text) <= CACHED_CHARACTERS
        spoken, found = (_read_text if is_short else _read_text.__wrapped__)(text)
        self.known.update(spoken)
        for group in found:
            self._add_record(group, asked | _ids(group))

    def _add_record(self, found: Iterable[Value], ids: Ids) -> None:
        for value in found:
            known = value.known
            self.known |= known | value.related
            for key in known:
                records = self.records.setdefault(key, set())
                records.add(ids if len(records) < MOST_RECORDS else _NO_IDS)


@lru_cache(CACHED_TEXTS)
def _read_text(text: str) -> tuple[frozenset[str], tuple[tuple[Value, ...], ...]]:
    """The numbers in words and the groups of values in a text, read once."""
    return frozenset(spoken_keys(text)), tuple(map(tuple, groups(text)))


def _ids(found: Iterable[Value]) -> Ids:
    ids = [value.keys for value in found if value.is_id]
    if len(ids) > MOST_IDS:
        return _NO_IDS
    return frozenset(key for keys in ids for key in keys if key.startswith("i:"))


def _leaves(value: object, asked: Ids) -> Iterator[tuple[str, Ids]]:
    """The texts and numbers inside a JSON value, with the ids of their records."""
    waiting: list[tuple[object, Ids]] = [(value, asked)]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        each, ids = waiting.pop()
        if isinstance(each, dict):
            scalars = [
                part for part in each.values() if not isinstance(part, dict | list)
            ]
            ids = ids.union(*(_ids(values(str(part))) for part in scalars[:MOST_IDS]))
            for name, part in each.items():
                waiting.append((name, ids))
                waiting.append((part, ids | _ids(values(name))))
        elif isinstance(each, list):
            waiting.extend((part, ids) for part in each)
        elif each is not None and not isinstance(each, bool):
            yield str(each), ids


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
            for name, cell in _cells(part):
                if isinstance(cell, Number) and math.isfinite(float(cell)):
                    columns.setdefault(name, []).append(float(cell))
        yield from (round(math.fsum(c), 2) for c in columns.values() if len(c) > 1)


def _cells(part: object) -> Iterator[tuple[str, object]]:
    """The fields of a record and of the objects in it: `prices.economy`."""
    fields = part.items() if isinstance(part, dict) else [("", part)]
    for name, cell in fields:
        inner = cell.items() if isinstance(cell, dict) else [("", cell)]
        yield from ((f"{name}.{each}", value) for each, value in inner)
