"""The entries of a conversation in order, and views of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import overload

from nbchat.conversation.entries import Entry, add_to_hash, prefix_hash
from nbchat.errors import HistoryError

ROLES = ("user", "assistant", "tool", "thinking", "summary")

SHOWN_LENGTH = 60
"""Characters of an invalid entry that an error shows."""


class Transcript(list[Entry]):
    """All entries in order; append-only."""

    def __init__(self, entries: Iterable[Sequence[str]] = ()) -> None:
        """Start with entries, or with the plain tuples they equal."""
        super().__init__(_entry(*pair) for pair in enumerate(entries))
        self._hashed = 0, sha256()
        """How many entries were hashed, and their digest."""

    def __reduce__(self) -> tuple[type["Transcript"], tuple[list[Entry]]]:
        """Copied and pickled as the list of its entries."""
        return Transcript, (list(self),)

    def __repr__(self) -> str:
        """The length, never the contents."""
        return f"<Transcript of {len(self)} entries>"

    def append(self, entry: Entry) -> None:
        """Add an entry; raises HistoryError for an invalid one."""
        super().append(_entry(len(self), entry))

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
