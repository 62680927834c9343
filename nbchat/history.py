"""What is remembered: entries, usage, compactions, and the session that holds them.

The transcript is append-only. A compaction is a record beside it, and what the model
sees, `Session.history`, is computed from both; so nothing said is ever lost.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Literal, NamedTuple, Self, overload

from nbchat.errors import HistoryError, NbchatError

ROLES = ("user", "assistant", "tool", "thinking", "summary")

Status = Literal["running", "done", "degraded", "failed", "undone"]
Kind = Literal["summary", "pruning"]
Revision = Literal["", "edited", "regenerated"]

SHOWN_LENGTH = 60
"""Characters of a wrong entry that an error shows."""

INCOMPLETE = '{"incomplete": true}'
FAILED = '{"is_error": true}'

CHANGED = "the entries it covers were changed"
NEVER_ENDED = "the kernel ended while it ran"
"""Why a loaded compaction is not in force."""


class Entry(NamedTuple):
    """One part of a conversation; equals the plain tuple of its five strings.

    | role | content | tool_id | tool_name | tool_args |
    |---|---|---|---|---|
    | user | text | | | |
    | user (image, file) | caption | | image, file | JSON: media_type, data |
    | assistant | text | | | `{"incomplete": true}` when cut short |
    | assistant (a call) | | call id | tool | arguments, JSON |
    | tool | output | call id | tool | `{"is_error": true}` when it failed |
    | thinking | what may be shown | | provider | that provider's block, JSON |
    | summary | `<summary>...</summary>` and the facts | | | |
    """

    role: str
    content: str
    tool_id: str = ""
    tool_name: str = ""
    tool_args: str = ""

    @property
    def is_call(self) -> bool:
        """Whether this is the assistant asking for a tool."""
        return self.role == "assistant" and bool(self.tool_name)

    @property
    def arguments(self) -> dict[str, Any]:
        """`tool_args` as a dictionary; empty when it is not a JSON object."""
        try:
            value = json.loads(self.tool_args or "{}")
        except (ValueError, RecursionError):  # a hundred thousand brackets
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def is_error(self) -> bool:
        """Whether this is a tool's answer that reports a failure."""
        return self.role == "tool" and self.arguments.get("is_error") is True

    @property
    def is_incomplete(self) -> bool:
        """Whether this is an answer that was cut short."""
        return self.role == "assistant" and self.tool_args == INCOMPLETE


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more responses; `input_tokens` is all that was in the request.

    The cache figures are parts of `input_tokens`, not additions to it: providers that
    report them beside it (Anthropic, llama.cpp's Anthropic endpoint) are normalised.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_estimated: bool = False
    earlier_tokens: int = 0
    """Of rounds before the last, where a server compacted in the middle of a response:
    billed, but no longer part of the context."""

    def __add__(self, other: Self) -> "Usage":
        """Sums of all figures; an estimate stays an estimate."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.is_estimated or other.is_estimated,
            self.earlier_tokens + other.earlier_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """All that was billed, whatever it was billed as."""
        return self.input_tokens + self.output_tokens

    @property
    def context_tokens(self) -> int:
        """What the context held when the response ended."""
        return self.total_tokens - self.earlier_tokens


def now() -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Compaction:
    """A record that the transcript before `stop` is seen as one summary entry.

    `start` is where the newly folded entries begin; what lies before it came in through
    the previous summary. Token figures are of the context the model sees. A record of
    the kind "pruning" folds nothing: some entries before `stop` are seen shortened.

    Records are never rewritten. Of several with one id the newest counts, and those of
    attempts (running, failed) never count against one that succeeded.
    """

    id: str
    start: int
    stop: int
    summary: str
    tokens_before: int = 0
    tokens_after: int = 0
    cost: Usage = field(default_factory=Usage)
    """Of all requests under this id so far, the refused ones included."""
    model: str = ""
    trigger: str = "manual"
    policy: str = "single-summary"
    status: Status = "done"
    reason: str = ""
    code: str = ""
    """Which gate refused the summary, when `status` is failed."""
    prefix_hash: str = ""
    committed_at: int = 0
    """Length of the transcript at commit; usage reported before is history."""
    created_at: str = field(default_factory=now)
    kind: Kind = "summary"
    replacements: tuple[tuple[int, str], ...] = ()
    """Of a pruning: places in the transcript, and the content seen there instead."""
    revision: Revision = ""
    """Who wrote the summary, if not the compaction: a person, or a model once more."""

    @property
    def entry(self) -> Entry:
        """The entry that stands in for everything covered."""
        return Entry("summary", self.summary)

    @property
    def is_in_force(self) -> bool:
        """Whether the model sees this summary."""
        return self.status in ("done", "degraded")

    @property
    def is_attempt(self) -> bool:
        """Whether this record only says that something was tried."""
        return self.status in ("running", "failed")


def prefix_hash(entries: Sequence[Entry]) -> str:
    """A SHA-256 over entries as a store keeps them, to notice that they changed."""
    return _prefix_hashes(entries, (len(entries),))[len(entries)]


def seen(entries: Iterable[Entry], compactions: Iterable[Compaction]) -> list[Entry]:
    """Entries as a model sees them under the compactions in force, oldest first.

    That is the summary which reaches farthest and what it does not cover, with the
    outputs that were pruned seen shortened.
    """
    active, view = list(compactions), list(entries)
    for record in active:
        for place, content in record.replacements:
            if place < len(view):
                view[place] = view[place]._replace(content=content)
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
        """Rules that every compaction carries on byte by byte, oldest first."""
        self._view: list[Entry] = []
        self._viewed = (0, 0)

    def __repr__(self) -> str:
        """Counts, never contents: a repr ends up in saved notebooks and logs."""
        return (
            f"<Session of {len(self.transcript)} entries, "
            f"{len(self.active_compactions)} compactions>"
        )

    @property
    def decided_compactions(self) -> list[Compaction]:
        """The newest record of every compaction there was, the first one first.

        Attempts that still run or have failed are none.
        """
        decided = (record for record in self.compactions if not record.is_attempt)
        return list({record.id: record for record in decided}.values())

    @property
    def active_compactions(self) -> list[Compaction]:
        """The compactions in force, oldest first; the newest record of an id counts."""
        return [record for record in self.decided_compactions if record.is_in_force]

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
        records, said = self._viewed
        if records != len(self.compactions):
            self._view = seen(self.transcript, self.active_compactions)
            said = len(self.transcript)
        self._view += self.transcript[said:]
        self._viewed = (len(self.compactions), len(self.transcript))
        return self._view.copy()

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
        return "\n".join(reversed(answer))

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

    def pin(self, text: str) -> None:
        """Keep a rule through every compaction; raises NbchatError for a blank one."""
        if not text.strip():
            raise NbchatError("an empty text cannot be pinned")
        if text in self.pins:
            number = self.pins.index(text) + 1
            raise NbchatError(f"this is pinned already, as number {number}")
        self.pins = (*self.pins, text)

    def unpin(self, number: int) -> str:
        """Let a rule go, by its number from 1; raises NbchatError if there is none."""
        if not 1 <= number <= len(self.pins):
            raise NbchatError(f"there is no pin {number}; there are {len(self.pins)}")
        text = self.pins[number - 1]
        self.pins = (*self.pins[: number - 1], *self.pins[number:])
        return text


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
    hashes = _prefix_hashes(transcript, stops)
    return [
        replace(record, status="undone", reason=CHANGED)
        if _is_changed(record, hashes)
        else record
        for record in records
    ]


def _is_changed(record: Compaction, hashes: Mapping[int, str]) -> bool:
    is_known = record.prefix_hash and record.is_in_force
    return bool(is_known) and record.prefix_hash != hashes.get(record.stop)


def _prefix_hashes(entries: Iterable[Entry], stops: Collection[int]) -> dict[int, str]:
    """The hash of all entries before each of `stops`, in one pass."""
    digest, hashes = hashlib.sha256(), {}
    for place, entry in enumerate(chain(entries, (None,))):
        if place in stops:
            hashes[place] = digest.hexdigest()
        if entry is None or len(hashes) == len(stops):
            break
        digest.update(json.dumps(entry).encode())
    return hashes


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
