"""What is remembered: entries, usage, compactions, and the session that holds them.

The transcript is append-only. A compaction is a record beside it, and what the model
sees, `Session.history`, is computed from both; so nothing said is ever lost.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self, overload

Status = Literal["running", "done", "degraded", "failed", "undone"]
Kind = Literal["summary", "pruning"]

INCOMPLETE = '{"incomplete": true}'
FAILED = '{"is_error": true}'


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
        except ValueError:
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

    def __add__(self, other: Self) -> "Usage":
        """Sums of all figures; an estimate stays an estimate."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.is_estimated or other.is_estimated,
        )

    @property
    def total_tokens(self) -> int:
        """What the context held when the response ended."""
        return self.input_tokens + self.output_tokens


def now() -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Compaction:
    """A record that the transcript before `stop` is seen as one summary entry.

    `start` is where the newly folded entries begin; what lies before it came in through
    the previous summary. Token figures are of the context the model sees. A record of
    the kind "pruning" folds nothing: some entries before `stop` are seen shortened.
    Of several records with one id the newest counts.
    """

    id: str
    start: int
    stop: int
    summary: str
    tokens_before: int = 0
    tokens_after: int = 0
    cost: Usage = field(default_factory=Usage)
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
    note: str = ""
    """What was not as usual in a summary that is in force: told in parts, cut short."""

    @property
    def entry(self) -> Entry:
        """The entry that stands in for everything covered."""
        return Entry("summary", self.summary)

    @property
    def is_in_force(self) -> bool:
        """Whether the model sees this summary."""
        return self.status in ("done", "degraded")


def prefix_hash(entries: Iterable[Entry]) -> str:
    """A SHA-256 over entries, to notice when covered ones were changed."""
    digest = hashlib.sha256()
    for entry in entries:
        digest.update(json.dumps(entry).encode())
    return digest.hexdigest()


class Transcript(Sequence[Entry]):
    """Every entry ever said, in order; grows at its end and never changes."""

    def __init__(self, entries: Iterable[Sequence[str]] = ()) -> None:
        """Begin with entries, or with the plain tuples they equal."""
        self._entries = [Entry(*entry) for entry in entries]

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
        """Say one more."""
        self._entries.append(entry)


class Session:
    """One conversation: all that was said, and the compactions beside it."""

    def __init__(
        self,
        transcript: Iterable[Sequence[str]] = (),
        *,
        session_id: str = "",
        compactions: Iterable[Compaction] = (),
        usages: Iterable[tuple[int, Usage]] = (),
    ) -> None:
        """Begin empty, or go on from what a store has kept.

        A compaction whose covered entries were changed meanwhile is out of force.
        """
        self.session_id = session_id
        self.transcript = Transcript(transcript)
        self.compactions = [_checked(each, self.transcript) for each in compactions]
        self.usages = list(usages)
        self._view: list[Entry] = []
        self._viewed = (0, 0)

    def __repr__(self) -> str:
        """Counts, never contents: a repr ends up in saved notebooks and logs."""
        return (
            f"<Session of {len(self.transcript)} entries, "
            f"{len(self.active_compactions)} compactions>"
        )

    @property
    def active_compactions(self) -> list[Compaction]:
        """The compactions in force, oldest first; the newest record of an id counts."""
        newest = {record.id: record for record in self.compactions}
        return [record for record in newest.values() if record.is_in_force]

    @property
    def compaction(self) -> Compaction | None:
        """The compaction whose summary the model sees now."""
        newest_first = reversed(self.active_compactions)
        summaries = (c for c in newest_first if c.kind == "summary")
        return max(summaries, key=lambda c: c.stop, default=None)

    @property
    def history(self) -> list[Entry]:
        """What the model sees: the newest summary and the entries it does not cover.

        Where outputs were pruned they are seen shortened. Costs what is new, not what
        there is.
        """
        records, said = self._viewed
        if records != len(self.compactions):
            self._view, said = self._viewed_anew(), len(self.transcript)
        self._view += self.transcript[said:]
        self._viewed = (len(self.compactions), len(self.transcript))
        return self._view.copy()

    def _viewed_anew(self) -> list[Entry]:
        summary = self.compaction
        entries = list(self.transcript)
        for record in self.active_compactions:
            for place, content in record.replacements:
                entries[place] = entries[place]._replace(content=content)
        return [summary.entry, *entries[summary.stop :]] if summary else entries

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


def _checked(record: Compaction, transcript: Transcript) -> Compaction:
    """The record, out of force if what it covers is not what it covered."""
    if not record.prefix_hash or not record.is_in_force:
        return record
    if record.prefix_hash == prefix_hash(transcript[: record.stop]):
        return record
    return replace(record, status="undone", reason="the entries it covers were changed")
