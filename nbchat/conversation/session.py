"""One conversation: all that was said, and what the model sees of it.

The transcript is append-only. A compaction is a record beside it, and what the model
sees, `Session.history`, is computed from both; so nothing said is ever lost.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

from nbchat.conversation.entries import (
    Compaction,
    Entry,
    Usage,
    html_table,
    prefix_hashes,
)
from nbchat.conversation.search import SearchResult, find
from nbchat.conversation.turns import begins_message
from nbchat.errors import HistoryError, NbchatError

ROLES = ("user", "assistant", "tool", "thinking", "summary")

CHECKPOINT = "Checkpoint: "
"""How the pin begins that holds the state of the work."""

TITLE_LENGTH = 60

SHOWN_LENGTH = 60
"""Characters of a wrong entry that an error shows."""

CHANGED = "the entries it covers were changed"
NEVER_ENDED = "the kernel ended while it ran"
"""Why a loaded compaction is not in force."""


def apply_compactions(
    entries: Iterable[Entry], compactions: Iterable[Compaction]
) -> list[Entry]:
    """Entries as a model sees them under the compactions in force, oldest first.

    That is the summary which reaches farthest and what it does not cover, with the
    outputs that were pruned seen shortened, and without what a person left out.
    """
    active = sorted(compactions, key=lambda record: record.is_exclusion)
    view = list(entries)
    for record in active:
        for place, content in record.replacements:
            if place < len(view):
                view[place] = view[place].with_content(content)
    summary = _farthest_summary(active)
    return [summary.entry, *view[summary.stop :]] if summary else view


class Transcript(Sequence[Entry]):
    """Every entry ever said, in order; grows at its end and never changes."""

    def __init__(self, entries: Iterable[Sequence[str]] = ()) -> None:
        """Begin with entries, or with the plain tuples they equal."""
        self._entries = [_entry(*pair) for pair in enumerate(entries)]

    def __repr__(self) -> str:
        """The length, never the contents."""
        return f"<Transcript of {len(self)} entries>"

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of equal entries."""
        return isinstance(other, Sequence) and self._entries == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """How many entries."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Oldest first."""
        return iter(self._entries)

    @overload
    def __getitem__(self, place: int) -> Entry: ...

    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...

    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        """One entry, or a run of them as a list."""
        return self._entries[place]

    def append(self, entry: Entry) -> None:
        """Say one more; raises HistoryError when it is none."""
        self._entries.append(_entry(len(self._entries), entry))


@dataclass(frozen=True, slots=True)
class _View:
    """What the model sees under the first so many records."""

    records: int
    hidden: int
    """By how much a place in the transcript exceeds its place here."""
    entries: list[Entry]
    """Grows at its end with the transcript."""


class Session:
    """One conversation: all that was said, and the compactions and pins beside it."""

    def __init__(
        self,
        transcript: Iterable[Sequence[str]] = (),
        *,
        session_id: str = "",
        compactions: Iterable[Compaction] = (),
        usages: Iterable[tuple[int, Usage]] = (),
        pins: Iterable[str] = (),
    ) -> None:
        """Begin empty, or go on from what a store has kept.

        Any order of entries will do: what no server would accept is repaired in what is
        sent. Raises HistoryError for what is no entry, or has a role nobody has. A
        compaction whose covered entries were changed meanwhile is out of force, and one
        that never came to its end has failed; the record's `reason` says so.
        """
        self.session_id = session_id
        self.transcript = Transcript(transcript)
        self.compactions = _checked(_ended(compactions), self.transcript)
        self.usages = list(usages)
        self.pins = tuple(pins)
        """Rules that go with every request, byte by byte, oldest first."""
        self.newest_snapshot: int | None = None
        """The number of the newest change that a store keeps; None: nobody knows."""
        self._view = _View(0, 0, [])

    def __repr__(self) -> str:
        """Counts, never contents: a repr ends up in saved notebooks and logs."""
        messages, made = self._message_count, len(self.active_compactions)
        return (
            f"<Session of {messages} message{'s' * (messages != 1)}, "
            f"{made} compaction{'s' * (made != 1)}>"
        )

    def _repr_html_(self) -> str:
        usage = self.usage
        rows = {
            "Messages": f"{self._message_count:,}",
            "Compactions in force": len(self.active_compactions),
            "Pinned rules": len(self.pins),
            "Model requests": f"{len(self.usages):,}",
            "Tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out",
            "Session id": self.session_id or "not saved",
        }
        return html_table("Session", rows)

    @property
    def _message_count(self) -> int:
        said = [entry for entry in self.transcript if not entry.is_attachment]
        return sum(map(begins_message, said, (None, *said)))

    @property
    def finished_compactions(self) -> list[Compaction]:
        """The newest record of every compaction there was, the first one first.

        Attempts that still run or have failed are none.
        """
        decided = (record for record in self.compactions if not record.is_attempt)
        return list({record.id: record for record in decided}.values())

    @property
    def active_compactions(self) -> list[Compaction]:
        """The compactions in force, oldest first; the newest record of an id counts."""
        return [record for record in self.finished_compactions if record.is_in_force]

    @property
    def compaction(self) -> Compaction | None:
        """The compaction whose summary the model sees now."""
        return _farthest_summary(self.active_compactions)

    @property
    def history(self) -> list[Entry]:
        """What the model sees: the newest summary and the entries it does not cover.

        Where outputs were pruned they are seen shortened. Costs what is new, not what
        there is.
        """
        return self._current_view().entries.copy()

    def _current_view(self) -> _View:
        """The view, grown by what is new.

        Several threads may look at once: each growth is one assignment, of the same
        entries to the same places whoever makes it, so none is lost or comes twice.
        """
        view, records = self._view, len(self.compactions)
        if view.records != records:
            active = self.active_compactions
            said = self.transcript[:]
            entries = apply_compactions(said, active)
            view = self._view = _View(records, len(said) - len(entries), entries)
        known, said_now = len(view.entries), len(self.transcript)
        new = self.transcript[known + view.hidden : said_now]
        view.entries[known : said_now - view.hidden] = new
        return view

    def unpruned(self, start: int, stop: int) -> list[Entry]:
        """Entries as the model saw them first: some outputs came shortened.

        What a person has left out since is left out here, too.
        """
        records = self.active_compactions
        kept = [each for each in records if each.is_immediate or each.is_exclusion]
        return apply_compactions(self.transcript[:stop], kept)[start:]

    @property
    def excluded(self) -> dict[int, Compaction]:
        """Places in the transcript that a person left out, each with its record."""
        left_out = (each for each in self.active_compactions if each.is_exclusion)
        return {place: each for each in left_out for place, _ in each.replacements}

    @property
    def included_transcript(self) -> list[Entry]:
        """Every entry ever said, without the content of what a person left out."""
        records = self.active_compactions
        return apply_compactions(
            self.transcript, [each for each in records if each.is_exclusion]
        )

    def history_since(self, position: int) -> list[Entry]:
        """What the model sees of the entries from a place of the transcript on."""
        view = self._current_view()
        return view.entries[max(position - view.hidden, 0) :]

    @property
    def usage(self) -> Usage:
        """Everything this session was billed for, summaries included."""
        spent = [usage for _, usage in self.usages]
        paid = {record.id: record.cost for record in self.compactions}
        return sum([*spent, *paid.values()], Usage())

    @property
    def last_answer(self) -> str:
        """The text of the newest answer; empty when there is none."""
        answer: list[str] = []
        for entry in reversed(self.transcript):
            if entry.role == "user":
                break
            if entry.role == "assistant" and not entry.is_call:
                answer.append(entry.content)
        return "\n".join(filter(None, reversed(answer)))

    @property
    def title(self) -> str:
        """How the conversation begins, on one line; empty when nothing was said."""
        places = range(len(self.transcript))
        first = next(filter(self._is_prompt, places), 0)
        return title_of(self.transcript[first].content) if places else ""

    @property
    def hidden_positions(self) -> set[int]:
        """Places in the transcript that the model sees shortened, or no more."""
        covered = self.compaction.stop if self.compaction else 0
        records = self.active_compactions
        shortened = {place for each in records for place, _ in each.replacements}
        return shortened | set(range(covered))

    def recall(self, query: int | str) -> SearchResult:
        """What was said at a place of the transcript, or wherever all words occur."""
        return find(self.transcript, query)

    def usage_at(self, position: int) -> Usage | None:
        """The usage that came with the entry at `position`, if one did."""
        place = bisect_left(self.usages, position + 1, key=lambda pair: pair[0])
        if place < len(self.usages) and self.usages[place][0] == position + 1:
            return self.usages[place][1]
        return None

    def append(self, entry: Entry, usage: Usage | None = None) -> int:
        """Remember an entry, with its response's usage; its place in the transcript."""
        self.transcript.append(entry)
        if usage is not None:
            self.usages.append((len(self.transcript), usage))
        return len(self.transcript) - 1

    def attachments_start(self, position: int) -> int:
        """Where the pictures and files begin that came with a person's words."""
        while position and self.transcript[position - 1].is_attachment:
            position -= 1
        return position

    def branch(self, position: int, stop: int | None = None) -> "Session":
        """A new session that is this one up to a place, to go on another way.

        `stop` is where to end instead, so that what came with the words goes, too.
        Raises NbchatError when nothing a person said stands there.
        """
        if not self._is_prompt(position):
            raise NbchatError(
                f"at {position} there is nothing that a person said; "
                f"the last such place is {self.last_prompt}"
            )
        stop = position if stop is None else stop
        return Session(
            self.transcript[:stop],
            compactions=[r for r in self.compactions if r.committed_at <= stop],
            usages=[each for each in self.usages if each[0] <= stop],
            pins=self.pins,
        )

    @property
    def last_prompt(self) -> int:
        """Where a person spoke last; raises NbchatError when nobody has."""
        places = range(len(self.transcript) - 1, -1, -1)
        found = next(filter(self._is_prompt, places), None)
        if found is None:
            raise NbchatError("nobody has said anything yet")
        return found

    def _is_prompt(self, position: int) -> bool:
        if not 0 <= position < len(self.transcript):
            return False
        entry = self.transcript[position]
        return entry.role == "user" and not entry.is_attachment

    def pin(self, text: str) -> None:
        """Keep a rule through every compaction; raises NbchatError for a blank one."""
        if not text.strip():
            raise NbchatError("an empty text cannot be pinned")
        if text in self.pins:
            number = self.pins.index(text) + 1
            raise NbchatError(f"this is pinned already, as number {number}")
        self.pins = (*self.pins, text)

    def checkpoint(self, text: str) -> None:
        """Keep the state of the work; the newest checkpoint replaces the one before."""
        if not text.strip():
            raise NbchatError("an empty text is no checkpoint")
        rules = (each for each in self.pins if not each.startswith(CHECKPOINT))
        self.pins = (*rules, f"{CHECKPOINT}{text}")

    def unpin(self, number: int) -> str:
        """Let a rule go, by its number from 1; raises NbchatError if there is none."""
        if not 1 <= number <= len(self.pins):
            raise NbchatError(f"there is no pin {number}; there are {len(self.pins)}")
        text = self.pins[number - 1]
        self.pins = (*self.pins[: number - 1], *self.pins[number:])
        return text


def title_of(text: str) -> str:
    """The beginning of a text, on one line."""
    return " ".join(text.split())[:TITLE_LENGTH]


def _farthest_summary(active: Sequence[Compaction]) -> Compaction | None:
    """Of the compactions in force the one that covers most; of equals the newest."""
    summaries = (record for record in reversed(active) if record.kind == "summary")
    return max(summaries, key=lambda record: record.stop, default=None)


def _ended(compactions: Iterable[Compaction]) -> list[Compaction]:
    """The records without the beginnings of what ended; what did not, has failed."""
    records = list(compactions)
    newest = {record.id: record for record in records}
    return [
        replace(record, status="failed", reason=NEVER_ENDED, code="interrupted")
        if record.status == "running"
        else record
        for record in records
        if record.status != "running" or record is newest[record.id]
    ]


def _checked(
    records: Sequence[Compaction], transcript: Sequence[Entry]
) -> list[Compaction]:
    """The records, out of force where what they cover is not what they covered."""
    stops = {each.stop for each in records if each.prefix_hash and each.is_in_force}
    hashes = prefix_hashes(transcript, stops)
    return [
        replace(record, status="undone", reason=CHANGED)
        if _is_changed(record, hashes)
        else record
        for record in records
    ]


def _is_changed(record: Compaction, hashes: Mapping[int, str]) -> bool:
    is_known = record.prefix_hash and record.is_in_force
    return bool(is_known) and record.prefix_hash != hashes.get(record.stop)


def _entry(position: int, fields: Sequence[str]) -> Entry:
    """An entry from its fields, so that a mistake shows where it is made."""
    is_tuple = isinstance(fields, tuple | list)
    if not is_tuple or len(fields) not in (2, 3, 4, 5) or not _are_texts(fields):
        raise HistoryError(
            f"entry {position} is no entry: {_brief(fields)}; use a tuple of strings "
            f"({', '.join(Entry._fields)}), the last three may be left out"
        )
    if fields[0] not in ROLES:
        raise HistoryError(
            f"entry {position} has the unknown role {_brief(fields[0])}; use one of "
            f"{', '.join(ROLES)} (a system prompt goes to Agent(system=...))"
        )
    return fields if isinstance(fields, Entry) else Entry(*fields)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _brief(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN_LENGTH else f"{shown[:SHOWN_LENGTH]}..."
