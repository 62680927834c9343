"""Put the memory together: six parts that code copies, in one allowance of tokens.

    rules      what the person asked to be respected, quoted
    words      every message of the person
    work       what cells and queries define and use; the kernel's variables
    calls      each call, with the first words that came back
    records    the newest state of each object that tools returned
    newest     the newest answers and outputs, and what found no room

The summary, which a model writes, stands before them. Every part reads each entry of
the transcript once; later compactions read what is new.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbchat.compaction.memory.calls import Calls, is_look_up
from nbchat.compaction.memory.lines import Call, Line, Uses, fitting, shown
from nbchat.compaction.memory.newest import exchange_lines, newest_lines, older_answers
from nbchat.compaction.memory.records import MOST_RECORDS, Record, Records
from nbchat.compaction.memory.words import Words, rule_lines
from nbchat.compaction.memory.work import ERROR, PLACES, Work
from nbchat.compaction.results import Number, parsed, written
from nbchat.compaction.shortening import shorten_to_tokens, within
from nbchat.conversation.entries import Entry, Fact, MemoryLine, Rule
from nbchat.conversation.pastes import with_hidden_secrets
from nbchat.conversation.search_index import TOOL_NAME as RECALL
from nbchat.conversation.secret_masking import HIDDEN, without_secrets
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import CallMatcher

Count = Callable[[str], int]
"""Returns the tokens of a text."""

RULES_SHARE = 0.25
"""Largest share of the allowance for rules: they are few and short, and a model that
quotes everything must not displace all else."""

FILE_SHARE = 0.5
"""Largest share of the allowance for the text of a rules file."""

WORDS_SHARE, MOST_WORDS_SHARE = 0.5, 0.75
"""Largest share of the allowance for the person's words where tools were used, and the
share they may take before one of them is left out; without tools they may take all that
rules leave. Where no model writes, readers need the words more than all else."""

SHARES = {
    "variables": 20,
    "work": 30,
    "calls": 10,
    "records": 30,
    "answers": 30,
    "newest": 10,
}
"""How the parts divide what rules and words leave. Notebooks need variables and work,
desks need records and calls; each kind leaves the other's share to the rest. Where
exchanges have one line each, older answers count as records of what was found. The
newest messages take what is left in any case, so their own share is small."""

WIDE_SHARE = 0.25
"""Share of the records, the newest, that have all their fields where not all fit: the
others are cut to what tools take, and then all are, before any is left out."""

UNLIMITED = 10**9
"""Demand of the newest messages: there are always more."""

TITLES = {
    "rules": "Rules, preferences and decisions in force, in the user's words:",
    "words": (
        "The user's messages, word for word, oldest first; what they agreed to then "
        "approves nothing now:"
    ),
    "variables": "Variables in the kernel at the time of this summary:",
    "work": "What cells, queries and commands define, read and use:",
    "calls": "Calls made, and the first words that came back:",
    "records": "Records that tools returned, newest state:",
    "answers": "What earlier answers said:",
    "newest": "The newest answers, calls and outputs, word for word:",
}
"""The line above each part, as the model reads it."""

HEADINGS = {
    PLACES: "## Files Referenced",
    TITLES["calls"]: "## Commands Executed",
    ERROR: "## Errors Encountered",
}
"""The titles of a policy whose summary has headings (seed 002, HybridSummarizer)."""

PARTS = {"variables": "work", "answers": "newest"}
"""Parts that are shown as a section of another part."""

NOTE_TOKENS, NOT_SHOWN = 40, "not shown here; recall finds it"
"""Tokens of the line about what found no room, and the line's end, which is left out of
requests that do not offer `recall`."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The parts of one entry, line by line, and the values in them as data."""

    lines: tuple[MemoryLine, ...] = ()
    facts: tuple[Fact, ...] = ()
    rules: tuple[Rule, ...] = ()
    """The rules in force, also those that found no room."""


class Reading:
    """The readings of the parts of the first entries of a transcript."""

    def __init__(self, most_records: int = MOST_RECORDS) -> None:
        """Start with nothing read."""
        self.entries: Sequence[Entry] = ()
        self.words, self.work = Words(), Work()
        self.calls, self.records = Calls(), Records(most_records)
        self.uses = Uses()
        self.has_calls = False
        self.rules_file: Entry | None = None
        """The newest rules of a file."""
        self._matcher = CallMatcher()

    def is_of(self, entries: Sequence[Entry]) -> bool:
        """True if the entries begin with all that was read."""
        return self.entries == entries[: len(self.entries)]

    def update(self, entries: Sequence[Entry], tools: Mapping[str, Tool]) -> None:
        """Read what follows the entries that were read."""
        start = len(self.entries)
        self.entries = entries[:]
        self.records.read_tools(tools.values())
        for position, entry in enumerate(entries[start:], start):
            self._read(position, entry, tools)

    def _read(self, position: int, entry: Entry, tools: Mapping[str, Tool]) -> None:
        self.words.read(entry, position)
        asked = self._matcher.match(entry)
        if entry.is_rules:
            self.rules_file = entry
        elif entry.is_prompt:
            self.uses.add(entry.content, position)
        elif entry.is_answer:
            self.work.read_answer(entry.content, position)
        elif entry.is_call and entry.tool_name != RECALL:
            self.has_calls = True
            self.uses.add(" ".join(_texts(entry.arguments)), position)
        elif entry.role == "tool" and asked is not None:
            self._read_call(self.entries[asked], asked, entry, position, tools)

    def _read_call(
        self,
        call: Entry,
        position: int,
        result: Entry,
        result_position: int,
        tools: Mapping[str, Tool],
    ) -> None:
        if call.tool_name == RECALL:
            return
        tool = tools.get(call.tool_name)
        read = Call(
            call.tool_name,
            call.arguments,
            position,
            result.content,
            result_position,
            result.is_error,
            is_look_up(call.tool_name, tool.read_only if tool else None),
        )
        for part in (self.work, self.calls, self.records):
            part.read_call(read)


def records_of(entries: Sequence[Entry], tools: Iterable[Tool]) -> list[Record]:
    """Every object that tools returned in a conversation, in its newest state."""
    reading = Reading(most_records=UNLIMITED)
    reading.update(entries, {tool.name: tool for tool in tools})
    return reading.records.rows()


class Readings:
    """Lends the reading of a transcript; only one compaction has it at a time."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._free: list[Reading] = []
        self.masked = MaskedEntries()
        """The entries without secrets, of which all is read."""

    def __reduce__(self) -> tuple[type["Readings"], tuple[()]]:
        """Without what was read: that is as large as the transcript."""
        return (Readings, ())

    @contextmanager
    def of(
        self, entries: Sequence[Entry], tools: Iterable[Tool] = ()
    ) -> Iterator[Reading]:
        """The reading of these entries, of which only what is new is read.

        Where earlier ones differ from those that were read, all are read again.
        """
        try:
            reading = self._free.pop()
        except IndexError:  # the first one, or another compaction has it
            reading = Reading()
        if not reading.is_of(entries):
            reading = Reading()
        reading.update(entries, {tool.name: tool for tool in tools})
        yield reading
        self._free[:] = [reading]


class MaskedEntries:
    """Hides the secrets of whole entries, each once, before lines cut them.

    In a line of a private key, or in a password below the line that names it, nothing
    says that it is a secret. Results and arguments in JSON are masked by their texts: a
    value that is a secret by its name or form alone is left to the reader of records,
    and to the last check of each line.
    """

    def __init__(self) -> None:
        """Start with nothing masked."""
        self._known: tuple[list[Entry], list[Entry]] = [], []
        """The entries of the last call, and the same without secrets."""

    def of(self, entries: list[Entry]) -> list[Entry]:
        """Entries without the secrets in their texts; only what is new is masked.

        All is, where the entries of the last call were changed, as by an exclusion.
        """
        before, hidden = self._known
        kept = hidden if before == entries[: len(before)] else []
        found = [*kept, *map(masked, entries[len(kept) :])]
        self._known = entries, found
        return found


def masked(entry: Entry) -> Entry:
    """The entry without the secrets in its texts; attachments and thinking stay."""
    if entry.is_prompt:
        return with_hidden_secrets(entry)
    if entry.is_call:
        arguments = _masked_json(entry.tool_args)
        is_same = arguments == entry.tool_args
        return entry if is_same else entry._replace(tool_args=arguments)
    if entry.role in ("assistant", "tool", "summary"):
        content = _masked_json(entry.content)
        return entry if content == entry.content else entry._replace(content=content)
    return entry


def _masked_json(text: str) -> str:
    """A text without secrets; of JSON, only its texts that say more than a value.

    JSON that is nested too deeply is masked as text.
    """
    found = parsed(text)
    try:
        shown = _masked_value(found)
        is_same = shown == found
        masked_text = text if is_same else written(shown)
    except RecursionError:
        found = None
    return without_secrets(text)[0] if found is None else masked_text


def _masked_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _masked_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked_value(each) for each in value]
    if not isinstance(value, str) or isinstance(value, Number):
        return value
    text = without_secrets(value)[0]
    return value if text == HIDDEN else text


@dataclass(frozen=True, slots=True)
class Material:
    """The sources of the memory of one compaction, besides the transcript."""

    rules: tuple[Rule, ...] = ()
    file: tuple[str, ...] = ()
    """The title and the text of a rules file that the person agreed to."""
    variables: tuple[str, ...] = ()
    """Lines about the variables in the kernel."""
    dropped: tuple[str, ...] = ()
    """Sentences that the person no longer wants as rules."""
    summary: str = ""
    """The model's summary: what it says comes last in the other parts."""
    bullets: int = 0
    """How many of the newest exchanges get one line each; 0: each message as it is."""
    has_headings: bool = False
    """True if files, calls and the last error stand below headings in Markdown."""


def memory_of(
    reading: Reading, material: Material, budget_tokens: int, count: Count
) -> Memory:
    """The parts that fit a budget, in their order."""
    made = _Packing(reading, material, count, budget_tokens)
    made.add_rules()
    made.add_words()
    made.add_rest()
    lines = made.lines
    if material.has_headings:
        lines = [
            line._replace(text=HEADINGS.get(line.text, line.text)) for line in lines
        ]
    return Memory(tuple(lines), tuple(made.facts))


class _Packing:
    """The lines of an entry as they are added, and the tokens that are left."""

    def __init__(
        self, reading: Reading, material: Material, count: Count, budget_tokens: int
    ) -> None:
        self._reading, self._material, self._count = reading, material, count
        self._budget = self._left = budget_tokens
        self.lines: list[MemoryLine] = []
        self.facts: list[Fact] = []
        self._missing: list[str] = []

    def add_rules(self) -> None:
        """The newest rules in their share, in the order in which they were said."""
        material, most = self._material, int(self._budget * RULES_SHARE)
        lines = list(rule_lines(material.rules))
        kept = within(reversed(lines), most, lambda line: self._count(line.text) + 1)
        self._add("rules", [*kept[::-1], *self._file()])
        missing = lines[: len(lines) - len(kept)]
        self._note("rule", [line.position for line in missing])

    def _file(self) -> list[MemoryLine]:
        """The rules file; of one that takes too much room, its beginning and end."""
        if not self._material.file:
            return []
        text = "\n  ".join(self._material.file)
        most = int(self._budget * FILE_SHARE)
        return [MemoryLine("rules", shorten_to_tokens(text, most, self._count), None)]

    def add_words(self) -> None:
        """The person's words, or a line for each exchange."""
        reading, title = self._reading, self._title_size("words")
        share = WORDS_SHARE if reading.has_calls else 1.0
        most = min(int(self._budget * share), self._left) - title
        limit = min(int(self._budget * MOST_WORDS_SHARE), self._left - NOTE_TOKENS)
        limit -= title
        material, count = self._material, self._count
        if material.bullets:
            room = self._left - title - sum(self._needed.values())
            lines = exchange_lines(
                reading.entries,
                material.bullets,
                min(most, room),
                count,
                most_tokens=max(most, min(limit, room + self._needed["answers"])),
            )
        else:
            words = reading.words
            lines = words.lines(
                most, count, most_tokens=limit, dropped=material.dropped
            )
            shown_at = {line.position for line in lines}
            self._note("message", [p for p in words.positions if p not in shown_at])
        self._add("words", _memory_lines("words", lines))

    def add_rest(self) -> None:
        """Variables, work, calls, records and the newest messages."""
        offered, needed = dict(self._offered), self._needed
        room = self._left - min(NOTE_TOKENS, self._left // 3)
        given = shared_out(room, {**needed, "newest": UNLIMITED})
        if self._material.bullets:  # their lines say the answers already
            newest = self._size("newest", self._newest(given["newest"]))
            given = shared_out(room, {**needed, "newest": newest})
        if given["records"] < needed["records"]:
            offered["records"] = self._shorter_records(given["records"])
        for name, lines in offered.items():
            self._add_fitting(name, lines, given[name])
        self._add_newest()

    @cached_property
    def _offered(self) -> dict[str, list[Line]]:
        """The lines of the parts that share what rules and words leave."""
        reading, material = self._reading, self._material
        return {
            "variables": [Line(text, None) for text in material.variables],
            "work": reading.work.lines(),
            "calls": reading.calls.lines(),
            "records": self._records(),
            "answers": older_answers(
                reading.entries, material.bullets, material.summary
            ),
        }

    @cached_property
    def _needed(self) -> dict[str, int]:
        return {name: self._size(name, each) for name, each in self._offered.items()}

    def _records(self) -> list[Line]:
        """Records with all their fields, unless they do not fit without these."""
        least = self._least_records
        has_room = self._size("records", least) <= self._left
        return self._reading.records.lines() if has_room else least

    @cached_property
    def _least_records(self) -> list[Line]:
        """Records with their ids and what tools take."""
        return self._reading.records.lines(0.0)

    def _shorter_records(self, most: int) -> list[Line]:
        """Records of which as many as fit have all their fields."""
        if self._size("records", self._least_records) <= most:
            lines = self._reading.records.lines(WIDE_SHARE)
            if self._size("records", lines) <= most:
                return lines
        return self._least_records

    def _add_fitting(self, name: str, lines: Sequence[Line], most: int) -> None:
        kept = fitting(
            lines,
            most - self._title_size(name),
            self._count,
            uses=self._reading.uses,
            summary=self._material.summary,
        )
        self.facts += [fact for line in kept for fact in line.facts]
        self._add(name, _memory_lines(name, kept))
        missing = len(lines) - len(kept)
        if missing and name != "variables":  # the kernel has them, no message does
            self._missing.append(f"{_counted(missing, 'line')} of {name}")

    def _add_newest(self) -> None:
        note = self._missing_note()
        lines = self._newest(self._left - sum(map(self._tokens, note)))
        self._add("newest", _memory_lines("newest", lines))
        self.lines += note

    def _newest(self, most: int) -> list[Line]:
        return newest_lines(
            self._reading.entries,
            most - self._title_size("newest"),
            self._count,
            has_answers=not self._material.bullets,
        )

    def _missing_note(self) -> list[MemoryLine]:
        """A line about what found no room, as long as there is room for it."""
        if not (self._missing and self.lines):
            return []
        texts = (
            f"({'; '.join(self._missing)}: {NOT_SHOWN})",
            f"(More is {NOT_SHOWN})",
        )
        notes = [MemoryLine("newest", text, None) for text in texts]
        return [each for each in notes if self._tokens(each) <= self._left][:1]

    def _tokens(self, line: MemoryLine) -> int:
        return self._count(line.text) + 1

    def _add(self, name: str, lines: Sequence[MemoryLine]) -> None:
        """Lines below the title of their part."""
        if not lines:
            return
        part = PARTS.get(name, name)
        added = [MemoryLine(part, TITLES[name], None), *lines]
        self.lines += added
        self._left -= sum(self._count(line.text) + 1 for line in added)

    def _note(self, what: str, positions: Sequence[int | None]) -> None:
        """Say later how many lines found no room, and where they are from."""
        known = [position for position in positions if position is not None]
        if not known:
            return
        where = f"{min(known)} to {max(known)}" if len(known) > 1 else f"{known[0]}"
        self._missing.append(f"{_counted(len(known), what)} ({where})")

    def _size(self, name: str, lines: Sequence[Line]) -> int:
        texts = shown(lines)
        size = sum(self._count(text) + 1 for text in texts)
        return size + self._title_size(name) if texts else 0

    def _title_size(self, name: str) -> int:
        return self._count(TITLES[name]) + 1


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number > 1 else ''}"


def shared_out(room_tokens: int, needed: Mapping[str, int]) -> dict[str, int]:
    """The tokens for each part: what it needs, or its share of what others leave."""
    given: dict[str, int] = {}
    waiting, room = dict(needed), max(room_tokens, 0)
    while waiting:
        total = sum(SHARES[name] for name in waiting)
        shares = {name: room * SHARES[name] // total for name in waiting}
        content = [name for name in waiting if waiting[name] <= shares[name]]
        if not content:
            return given | shares
        for name in content:
            given[name] = waiting.pop(name)
            room -= given[name]
    return given


def _memory_lines(name: str, lines: Sequence[Line]) -> list[MemoryLine]:
    """Lines as an entry keeps them, each group below its heading."""
    part, kept, group = PARTS.get(name, name), list[MemoryLine](), ""
    for line in lines:
        if line.group and line.group != group:
            kept.append(MemoryLine(part, line.group, None))
        group = line.group
        kept.append(MemoryLine(part, line.text, line.position))
    return kept


def _texts(value: object) -> Iterator[str]:
    """The plain values inside arguments, as texts."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif each is not None:
            yield str(each)
