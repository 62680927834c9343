"""The entries of a conversation in order, the older ones compressed in memory.

A chat of a day has tens of thousands of entries, and only the newest are read often.
"""

import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, TypeVar, overload

from nbchat.conversation.entries import Entry, add_to_hash, prefix_hash
from nbchat.errors import HistoryError

ROLES = ("user", "assistant", "tool", "thinking", "summary")

PART = 256
"""Values that are compressed together: 0.2 ms to read one message of them again."""

KEPT_PARTS = 4
"""Parts that stay as they were read, the newest first."""

LONG = 20_000
"""Characters from which an entry is not compressed: an image would be again and again
for its neighbours."""

SHOWN_LENGTH = 60
"""Characters of an invalid entry that an error shows."""

T = TypeVar("T")


class _Packed(NamedTuple):
    """A compressed part of a list."""

    data: bytes
    long: dict[int, Any]
    """Values that are not compressed, by their indices in the part."""


class PackedList(Sequence[T]):
    """An append-only list in memory whose older values are compressed.

    Those it begins with are left as they are: to compress all that a store has would
    take longer than to load it. Safe for threads that read while one appends.
    """

    def __init__(self, values: Iterable[T] = ()) -> None:
        """Start with values."""
        all_values = list(values)
        starts = range(0, len(all_values) or 1, PART)
        self._parts: list[list[T] | _Packed] = [
            all_values[start : start + PART] for start in starts
        ]
        """All but the last have `PART` values; each is replaced when it is packed."""
        self._recent: tuple[tuple[int, list[T]], ...] = ()
        """Parts that were unpacked, with their numbers, the newest first."""

    def __reduce__(self) -> tuple[object, tuple[list[T]]]:
        """Copied and pickled as the list of its values."""
        return type(self), (list(self),)

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of equal values."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(a == b for a, b in zip(self, other, strict=False))

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """How many values."""
        last = len(self._parts) - 1
        return last * PART + len(self._values(last))

    def __iter__(self) -> Iterator[T]:
        """Oldest first; also those that are appended meanwhile."""
        number = 0
        while number < len(self._parts):
            yield from self._values(number)
            number += 1

    def __reversed__(self) -> Iterator[T]:
        """Newest first."""
        for number in reversed(range(len(self._parts))):
            yield from reversed(self._values(number))

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        """One value, or a slice as a list."""
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        number, at = divmod(index, PART)
        return self._unpacked(number)[at]

    def _slice(self, start: int, stop: int, step: int) -> list[T]:
        if step != 1:
            return [self[index] for index in range(start, stop, step)]
        found: list[T] = []
        for number in range(start // PART, -(-stop // PART)):
            first = number * PART
            found += self._values(number)[max(start - first, 0) : stop - first]
        return found

    def append(self, value: T) -> None:
        """Add a value; each `PART` of them compress the part before the last two."""
        last = self._parts[-1]
        if len(last) < PART and isinstance(last, list):
            last.append(value)
            return
        self._parts.append([value])
        number = len(self._parts) - 3
        old = self._parts[number] if number >= 0 else None
        if isinstance(old, list):
            self._parts[number] = self._packed(old)

    def _packed(self, values: list[T]) -> _Packed:
        long = {n: value for n, value in enumerate(values) if self._is_long(value)}
        short = [None if index in long else each for index, each in enumerate(values)]
        return _Packed(zlib.compress(pickle.dumps(short)), long)

    @staticmethod
    def _is_long(value: T) -> bool:  # noqa: ARG004 - a subclass tells
        """Whether a value stays as it is."""
        return False

    def _values(self, number: int) -> list[T]:
        """The values of a part, for one look at all of them."""
        part = self._parts[number]
        if isinstance(part, list):
            return part
        for recent, found in self._recent:
            if recent == number:
                return found
        data = zlib.decompress(part.data)
        values: list[T] = pickle.loads(data)  # noqa: S301 - packed above
        for index, value in part.long.items():
            values[index] = value
        return values

    def _unpacked(self, number: int) -> list[T]:
        """The values of a part, which is likely to be read again."""
        values = self._values(number)
        if not isinstance(self._parts[number], list):
            recent = [each for each in self._recent if each[0] != number]
            self._recent = ((number, values), *recent[: KEPT_PARTS - 1])
        return values


class Transcript(PackedList[Entry]):
    """All entries in order; append-only."""

    def __init__(self, entries: Iterable[Sequence[str]] = ()) -> None:
        """Start with entries, or with the plain tuples they equal."""
        super().__init__(_entry(*pair) for pair in enumerate(entries))
        self._hashed = 0, sha256()
        """How many entries were hashed, and their digest."""

    def __repr__(self) -> str:
        """The length, never the contents."""
        return f"<Transcript of {len(self)} entries>"

    def append(self, entry: Entry) -> None:
        """Add an entry; raises HistoryError for an invalid one."""
        super().append(_entry(len(self), entry))

    @staticmethod
    def _is_long(entry: Entry) -> bool:
        return len(entry.content) + len(entry.tool_args) >= LONG

    def prefix_hash(self, stop: int) -> str:
        """The `prefix_hash` of the entries before an index.

        Hashes those after the index of the last call, or all before an earlier one.
        """
        count, digest = self._hashed
        if stop < count:
            return prefix_hash(self[:stop])
        digest = digest.copy()
        add_to_hash(digest, self[count:stop])
        self._hashed = min(stop, len(self)), digest
        return digest.hexdigest()


class TranscriptView(Sequence[Entry]):
    """The first entries of a transcript, some of them changed; it copies none.

    A view of its first entries is a view again, any other slice is a list.
    """

    def __init__(
        self, entries: Sequence[Entry], changes: Mapping[int, Entry], stop: int
    ) -> None:
        """View the entries before `stop`, with `changes` by their indices."""
        self.source, self.changes = entries, changes
        self._stop = stop

    def __repr__(self) -> str:
        """The length, never the contents."""
        return f"<TranscriptView of {len(self)} entries>"

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of equal entries; quick for views of one transcript."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        if isinstance(other, TranscriptView) and self.source is other.source:
            changed = self.changes.keys() | other.changes.keys()
            return all(self[n] == other[n] for n in changed if n < len(self))
        return all(a == b for a, b in zip(self, other, strict=False))

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """How many entries; those that are appended later do not count."""
        return self._stop

    def __iter__(self) -> Iterator[Entry]:
        """Oldest first."""
        entries = islice(self.source, self._stop)
        changes = self.changes
        if not changes:
            return entries
        return (changes.get(index, each) for index, each in enumerate(entries))

    def __reversed__(self) -> Iterator[Entry]:
        """Newest first."""
        return map(self.__getitem__, reversed(range(self._stop)))

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...

    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        """One entry, a view of the first ones, or a list of others."""
        if isinstance(index, slice):
            start, stop, step = index.indices(self._stop)
            if step != 1:
                return [self[each] for each in range(start, stop, step)]
            if not start:
                return TranscriptView(self.source, self.changes, max(stop, 0))
            found = enumerate(self.source[start:stop], start)
            return [self.changes.get(number, each) for number, each in found]
        if index < 0:
            index += self._stop
        if not 0 <= index < self._stop:
            raise IndexError(index)
        changed = self.changes.get(index)
        return self.source[index] if changed is None else changed


def _entry(position: int, fields: Sequence[str]) -> Entry:
    """An entry from its fields; raises HistoryError for invalid ones."""
    if type(fields) is Entry and fields[0] in ROLES:
        for each in fields:  # a loop: a stored session has a hundred thousand
            if type(each) is not str:
                break
        else:
            return fields
    is_tuple = isinstance(fields, tuple | list)
    if not is_tuple or len(fields) not in (2, 3, 4, 5) or not _are_texts(fields):
        raise HistoryError(
            f"Entry {position} is invalid: {_brief(fields)}. Use a tuple of strings "
            f"({', '.join(Entry._fields)}), of which the last three are optional."
        )
    if fields[0] not in ROLES:
        raise HistoryError(
            f"Entry {position} has the unknown role {_brief(fields[0])}. Use one of "
            f"{', '.join(ROLES)}. A system prompt goes to Agent(system=...)."
        )
    return fields if isinstance(fields, Entry) else Entry(*fields)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _brief(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN_LENGTH else f"{shown[:SHOWN_LENGTH]}..."
