"""What is remembered: entries, usage, compactions, and the session that holds them.

The transcript is append-only. A compaction is a record beside it, and what the model
sees, `Session.history`, is computed from both; so nothing said is ever lost.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self

Status = Literal["done", "degraded", "failed", "undone"]

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
    the previous summary. Token figures are of the context the model sees.
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
        """Begin empty, or go on from what a store has kept."""
        self.session_id = session_id
        self.transcript = [Entry(*entry) for entry in transcript]
        self.compactions = list(compactions)
        self.usages = list(usages)

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
        return max(self.active_compactions, key=lambda c: c.stop, default=None)

    @property
    def history(self) -> list[Entry]:
        """What the model sees: the newest summary and the entries it does not cover."""
        compaction = self.compaction
        if compaction is None:
            return list(self.transcript)
        return [compaction.entry, *self.transcript[compaction.stop :]]

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
