"""A conversation: its transcript, and the history that the model sees.

The transcript is append-only. A compaction is a record beside it, and
`Session.history` is computed from both; so nothing is ever lost.

What turns and sessions cost is at the end, in tokens and dollars. An unknown price is
not zero: only tokens are shown then, and "at least" before a sum that lacks a part.
"""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from nbchat.conversation.cell_changes import CellChange, CellChanges
from nbchat.conversation.entries import (
    Compaction,
    Entry,
    Usage,
    add_to_hash,
    html_table,
    prefix_hash,
    prefix_hashes,
)
from nbchat.conversation.search import SearchResults, find, ranked
from nbchat.conversation.search_index import SearchIndex
from nbchat.conversation.turns import count_messages, last_prompt, last_turn, turns
from nbchat.errors import HistoryError, NbchatError

CHECKPOINT = "Checkpoint: "
"""The prefix of the pin that holds the state of the work."""

PIN_LIMIT = 2_000
"""Tokens of one pin: it is in every request from now on, as a system prompt is."""

TITLE_LENGTH = 60

Ancestors = tuple[tuple[str, int], ...]
"""Of a branch: the ids of the sessions that it comes from, the oldest first, each with
the position from which the next one differs."""

CHANGED = "The messages it covers were changed."
NEVER_ENDED = "The kernel stopped while it ran."
"""Reasons why a loaded compaction is not active."""

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


def apply_compactions(
    entries: Sequence[Entry], compactions: Collection[Compaction]
) -> list[Entry]:
    """Entries as the model sees them under active compactions, oldest first.

    Pruned outputs are shortened, excluded entries replaced by a note, and the summary
    that covers most replaces the entries it covers.
    """
    summary = _farthest_summary([*compactions])
    start = summary.stop if summary else 0
    changes = _changes(entries, compactions, start)
    rest = enumerate(entries[start:], start)
    view = [changes.get(index, entry) for index, entry in rest]
    return [summary.entry, *view] if summary else view


def _changes(
    entries: Sequence[Entry], compactions: Iterable[Compaction], start: int = 0
) -> dict[int, Entry]:
    """The entries from `start` on that compactions shorten or exclude, changed."""
    changes: dict[int, Entry] = {}
    for record in sorted(compactions, key=lambda record: record.is_exclusion):
        for index, content in record.replacements:
            if start <= index < len(entries):
                entry = changes.get(index) or entries[index]
                changes[index] = entry.with_content(content)
    return changes


class UsageList(list[tuple[int, Usage]]):
    """The usage of each reply, with the length of the transcript after it."""

    def __init__(self, values: Iterable[tuple[int, Usage]] = ()) -> None:
        """Start with what a store has kept."""
        super().__init__(values)
        self._lengths = array("q", (length for length, _ in self))
        self.total = sum((usage for _, usage in self), Usage())
        """The usage of all replies."""

    def __reduce__(self) -> tuple[type["UsageList"], tuple[list[tuple[int, Usage]]]]:
        """Copied and pickled as the list of its values."""
        return UsageList, (list(self),)

    def append(self, value: tuple[int, Usage]) -> None:
        """Add the usage of a new reply."""
        super().append(value)
        length, usage = value
        self._lengths.append(length)
        self.total += usage

    def between(self, start: int, stop: int) -> list[Usage]:
        """The usage of the replies at the indices from `start` to before `stop`."""
        ends = (bisect_right(self._lengths, index) for index in (start, stop))
        return [usage for _, usage in self[slice(*ends)]]


@dataclass(frozen=True, slots=True)
class _View:
    """Cache of the history, computed with the first `records` compaction records."""

    records: int
    active: list[Compaction]
    offset: int
    """Index of an entry in the transcript, less its index in the history."""
    entries: list[Entry]
    """The history; grows with the transcript."""


class Session:
    """A conversation: transcript, compactions, usages, pins and dropped rules."""

    def __init__(
        self,
        transcript: Iterable[Sequence[str]] = (),
        *,
        session_id: str = "",
        compactions: Iterable[Compaction] = (),
        usages: Iterable[tuple[int, Usage]] = (),
        pins: Iterable[str] = (),
        dropped_rules: Iterable[str] = (),
        ancestors: Ancestors = (),
        cell_changes: Iterable[CellChange] = (),
    ) -> None:
        """Start empty, or with what a store has kept.

        Entries may come in any order: what servers would refuse is repaired in what is
        sent. Raises HistoryError for an invalid entry or an unknown role. Compactions
        whose covered entries changed are deactivated, and those still running have
        failed; the record's `reason` says so.
        """
        self.session_id = session_id
        self.transcript = Transcript(transcript)
        self.compactions = _checked(_ended(compactions), self.transcript)
        self.usages = UsageList(usages)
        self.pins = tuple(pins)
        """Rules that are sent verbatim with every request, and the state of the work;
        oldest first."""
        self.dropped_rules = tuple(dropped_rules)
        """Sentences in people's messages that were said to be no rules of theirs."""
        self.ancestors = ancestors
        """The sessions it is a branch of; empty for a conversation of its own."""
        self.cell_changes = CellChanges(cell_changes)
        """The model's changes of the notebook, to be undone."""
        self.newest_snapshot: int | None = None
        """The number of the newest change in the store; None if unknown."""
        self._view = _View(0, [], 0, [])
        self._search_index = SearchIndex()

    def __repr__(self) -> str:
        """Counts, never contents: a repr ends up in notebooks and logs."""
        messages = count_messages(self.transcript)
        made = len(self.active_compactions)
        return (
            f"<Session of {messages} message{'s' * (messages != 1)}, "
            f"{made} compaction{'s' * (made != 1)}>"
        )

    def _repr_html_(self) -> str:
        usage = self.usage
        rows = {
            "Messages": f"{count_messages(self.transcript):,}",
            "Active compactions": len(self.active_compactions),
            "Pinned rules": len(self.pins),
            "Model requests": f"{len(self.usages):,}",
            "Tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out",
            "Session id": self.session_id or "not saved",
        }
        return html_table("Session", rows)

    @property
    def finished_compactions(self) -> list[Compaction]:
        """The newest record of each compaction, without running and failed attempts."""
        finished = (record for record in self.compactions if not record.is_attempt)
        return list({record.id: record for record in finished}.values())

    @property
    def active_compactions(self) -> list[Compaction]:
        """The compactions that are in effect, oldest first."""
        return self._current_view().active.copy()

    @property
    def compaction(self) -> Compaction | None:
        """The compaction whose summary the model sees."""
        return _farthest_summary(self.active_compactions)

    @property
    def history(self) -> list[Entry]:
        """The entries that the model sees: the summary and those it does not cover.

        Cached: the cost grows with the new entries, not with the transcript.
        """
        return self._current_view().entries.copy()

    @property
    def replaced(self) -> list[tuple[Entry, Entry]]:
        """Entries after the summary that the model sees changed, and as it sees them.

        Those are shortened outputs and excluded messages.
        """
        view, summary = self._current_view(), self.compaction
        start = summary.stop if summary else 0
        length = len(view.entries) + view.offset
        changes = (change for record in view.active for change in record.replacements)
        indices = {index for index, _ in changes if start <= index < length}
        return [
            (self.transcript[index], view.entries[index - view.offset])
            for index in indices
        ]

    def _current_view(self) -> _View:
        """The cache, updated with new entries.

        Safe for threads that read at once: an update is one slice assignment, and all
        threads assign the same entries to the same indices.
        """
        view, records = self._view, len(self.compactions)
        if view.records != records:
            active = [each for each in self.finished_compactions if each.is_active]
            entries = apply_compactions(self.transcript, active)
            summary = _farthest_summary(active)
            covered = min(summary.stop, len(self.transcript)) if summary else 0
            offset = covered - 1 if summary else 0
            view = self._view = _View(records, active, offset, entries)
        known, length = len(view.entries), len(self.transcript)
        if known + view.offset < length:
            new = self.transcript[known + view.offset : length]
            view.entries[known : length - view.offset] = new
        return view

    def unpruned(self, start: int, stop: int) -> list[Entry]:
        """Entries without later pruning; excluded ones stay excluded.

        Outputs that were shortened on arrival, before the model saw them, stay so.
        """
        records = self.active_compactions
        kept = [each for each in records if each.is_immediate or each.is_exclusion]
        changes = _changes(self.transcript, kept, start)
        entries = enumerate(self.transcript[start:stop], start)
        return [changes.get(index, entry) for index, entry in entries]

    @property
    def excluded(self) -> dict[int, Compaction]:
        """Indices of excluded entries, each with its record."""
        records = (each for each in self.active_compactions if each.is_exclusion)
        return {index: each for each in records for index, _ in each.replacements}

    @property
    def included_transcript(self) -> list[Entry]:
        """The transcript of now without the content of excluded entries."""
        records = [each for each in self.active_compactions if each.is_exclusion]
        entries = self.transcript[:]
        for index, entry in _changes(entries, records).items():
            entries[index] = entry
        return entries

    def history_since(self, position: int) -> list[Entry]:
        """The history from a transcript index on."""
        view = self._current_view()
        return view.entries[max(position - view.offset, 0) :]

    @property
    def usage(self) -> Usage:
        """The usage of all requests, those for summaries included."""
        summaries = {record.id: record.cost for record in self.compactions}
        return sum(summaries.values(), self.usages.total)

    def compaction_cost(self, record_id: str) -> Usage:
        """The usage of all requests under the id of a compaction."""
        records = reversed(self.compactions)
        costs = (record.cost for record in records if record.id == record_id)
        return next(costs, Usage())

    @property
    def last_answer(self) -> str:
        """The text of the last turn's answer; empty if there is none.

        Of an answer that was written again, the last one.
        """
        turn = last_turn(self.transcript) or range(len(self.transcript))
        texts: list[str] = []
        for entry in map(self.transcript.__getitem__, turn):
            if entry.is_by_nbchat:
                texts.clear()
            elif entry.is_answer and entry.content:
                texts.append(entry.content)
        return "\n".join(texts)

    @property
    def title(self) -> str:
        """The beginning of the first prompt on one line; empty before it."""
        prompts = (entry for entry in self.transcript if entry.is_prompt)
        first = next(prompts, next(iter(self.transcript), None))
        return title_of(first.content) if first else ""

    @property
    def hidden_positions(self) -> set[int]:
        """Indices of entries that the model sees shortened or not at all."""
        covered = self.compaction.stop if self.compaction else 0
        records = self.active_compactions
        shortened = {index for each in records for index, _ in each.replacements}
        return shortened | set(range(covered))

    def recall(self, query: int | str) -> SearchResults:
        """The entry at an index, or the passages that match words of a text, ranked."""
        return find(self.transcript, query, index=self._search_index)

    def recall_hidden(self, query: str) -> SearchResults:
        """Like `recall`, limited to what the model may see but does not see now."""
        hidden = self.hidden_positions.difference(self.excluded)
        entries = self.included_transcript
        return find(entries, query, index=self._search_index, among=hidden)

    def search(self, query: str) -> list[int]:
        """Indices of the entries that match, thinking included, the best first."""
        return ranked(self.transcript, query, index=self._search_index)

    def fill_search_index(self) -> None:
        """Index all entries now; without it the first search does."""
        self._search_index.fill(self.transcript)

    def usage_at(self, position: int) -> Usage | None:
        """The usage that was reported with an entry, if one was."""
        return next(iter(self.usages.between(position, position + 1)), None)

    def append(self, entry: Entry, usage: Usage | None = None) -> int:
        """Add an entry with its reply's usage; returns its index."""
        self.transcript.append(entry)
        if usage is not None:
            self.usages.append((len(self.transcript), usage))
        return len(self.transcript) - 1

    def copy(self) -> "Session":
        """A session of its own with the same contents, which is in no store."""
        return Session(
            self.transcript[:],
            compactions=self.compactions,
            usages=self.usages,
            pins=self.pins,
            dropped_rules=self.dropped_rules,
        )

    def branch(self, position: int, stop: int | None = None) -> "Session":
        """A new session with the entries before `stop`, by default before `position`.

        Raises NbchatError unless there is a prompt at `position`.
        """
        entries = self.transcript[position : position + 1] if position >= 0 else []
        if not any(entry.is_prompt for entry in entries):
            raise NbchatError(
                f"Message {position} isn't yours. "
                f"Your last one is message {self.last_prompt}."
            )
        stop = position if stop is None else stop
        return Session(
            self.transcript[:stop],
            compactions=[r for r in self.compactions if r.committed_at <= stop],
            usages=[each for each in self.usages if each[0] <= stop],
            pins=self.pins,
            dropped_rules=self.dropped_rules,
            cell_changes=[each for each in self.cell_changes if each.turn < stop],
        )

    @property
    def last_prompt(self) -> int:
        """The index of the last prompt; raises NbchatError before the first one."""
        found = last_prompt(self.transcript)
        if found is None:
            raise NbchatError("There are no messages yet.")
        return found

    def pin(self, text: str) -> None:
        """Send a rule with every request; raises NbchatError for a blank one."""
        if not text.strip():
            raise NbchatError("There's no text to pin.")
        if text in self.pins:
            number = self.pins.index(text) + 1
            raise NbchatError(f"This is already pinned as number {number}.")
        self.pins = (*self.pins, text)

    def checkpoint(self, text: str) -> None:
        """Pin the state of the work in place of the last checkpoint."""
        if not text.strip():
            raise NbchatError("A checkpoint needs text.")
        rules = (each for each in self.pins if not each.startswith(CHECKPOINT))
        self.pins = (*rules, f"{CHECKPOINT}{text}")

    def unpin(self, number: int) -> str:
        """Remove a pin by its number from 1 and return it; raises NbchatError."""
        if not 1 <= number <= len(self.pins):
            raise NbchatError(f"There's no pin {number}. /pin lists them.")
        text = self.pins[number - 1]
        self.pins = (*self.pins[: number - 1], *self.pins[number:])
        return text


def check_pin(tokens: int) -> None:
    """Raise NbchatError for a pin, or a checkpoint, of too many tokens."""
    if tokens > PIN_LIMIT:
        raise NbchatError(
            f"This text has {tokens:,} tokens. A pin can have {PIN_LIMIT:,}, because "
            "it's sent with every request."
        )


def title_of(text: str) -> str:
    """The beginning of a text, on one line."""
    return " ".join(text.split())[:TITLE_LENGTH]


def _farthest_summary(active: Sequence[Compaction]) -> Compaction | None:
    """The active summary that covers most; of equals the newest."""
    summaries = (record for record in reversed(active) if record.kind == "summary")
    return max(summaries, key=lambda record: record.stop, default=None)


def _ended(compactions: Iterable[Compaction]) -> list[Compaction]:
    """Drop "running" records of compactions that ended; mark the others as failed."""
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
    """Deactivate compactions whose covered entries changed."""
    stops = {each.stop for each in records if each.prefix_hash and each.is_active}
    hashes = prefix_hashes(transcript, stops)
    return [
        replace(record, status="undone", reason=CHANGED)
        if _is_changed(record, hashes)
        else record
        for record in records
    ]


def _is_changed(record: Compaction, hashes: Mapping[int, str]) -> bool:
    is_known = record.prefix_hash and record.is_active
    return bool(is_known) and record.prefix_hash != hashes.get(record.stop)


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The usage of one turn, from index `start` to `stop` of the transcript."""

    start: int
    stop: int
    requests: int
    """Number of replies."""
    usage: Usage
    cache_losses: tuple[str, ...] = ()
    """Losses of the prompt cache, one line each."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """The usage of one model in a session, or of all compactions."""

    label: str
    requests: int | None
    """Number of replies; None for compactions."""
    usage: Usage


def turn_costs(session: Session) -> list[TurnCost]:
    """The cost of every turn, oldest first."""
    return [_turn_cost(session, turn) for turn in turns(session.transcript)]


def last_turn_cost(session: Session) -> TurnCost | None:
    """The cost of the last turn; None before the first one."""
    turn = last_turn(session.transcript)
    return None if turn is None else _turn_cost(session, turn)


def cost_rows(session: Session) -> list[CostRow]:
    """The usage of each model, then that of all compactions."""
    by_model: dict[str, list[Usage]] = {}
    for _, usage in session.usages:
        by_model.setdefault(usage.model, []).append(usage)
    found = [
        CostRow(model, len(usages), _total(usages))
        for model, usages in by_model.items()
    ]
    paid = compactions_usage(session)
    return [*found, CostRow("Compactions", None, paid)] if paid.total_tokens else found


def compactions_usage(session: Session) -> Usage:
    """The usage of all requests for summaries, including rejected ones."""
    return _total({each.id: each.cost for each in session.compactions}.values())


def usage_text(usage: Usage, *details: str) -> str:
    """Tokens, dollars if known, and `details`, on one line."""
    about = "about " if usage.is_estimated else ""
    read = usage.cache_read_tokens
    cached = f" ({read:,} cached)" if read else ""
    tokens = f"{about}{usage.input_tokens:,} in{cached}"
    output = f"{usage.output_tokens:,} out"
    return " · ".join(filter(None, (tokens, output, usage.dollars_text, *details)))


def _turn_cost(session: Session, turn: range) -> TurnCost:
    usages = session.usages.between(turn.start, turn.stop)
    losses = tuple(filter(None, (usage.cache_loss for usage in usages)))
    return TurnCost(turn.start, turn.stop, len(usages), _total(usages), losses)


def _total(usages: Iterable[Usage]) -> Usage:
    return sum(usages, Usage())
