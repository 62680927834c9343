"""What facts are made of, read from each entry once and kept for the next compaction.

A transcript only grows, so that a compaction reads what is new. Where earlier entries
differ from those that were read, as after an exclusion, all are read again.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from heapq import nlargest
from itertools import islice

from nbchat.compaction.facts.open_questions import Matters
from nbchat.compaction.facts.read_calls import CallReader, judged
from nbchat.compaction.facts.records import Call, record_texts
from nbchat.compaction.facts.rules import Message, message_of
from nbchat.compaction.facts.statements import Statements, names_in
from nbchat.compaction.facts.summary_quotes import SummaryQuotes
from nbchat.compaction.facts.tables import Row
from nbchat.compaction.facts.tool_names import acts
from nbchat.compaction.facts.value_ranking import Taken, Uses, words
from nbchat.compaction.masked_entries import MaskedEntries
from nbchat.conversation.entries import Entry
from nbchat.conversation.search_index import TOOL_NAME

MOST_ABSENT = 10_000
"""Values that are remembered as absent."""

KEPT_NAMES = 2_000
"""The newest names that are remembered, at times twice as many: of `MOST_NAMED` that
nothing else has the best are shown."""

NOT_SAID = -1
"""In place of an index."""

_SMALL_WORD = re.compile(r"\b[a-z]{2,30}\b")


class SaidTexts:
    """Texts in which a value is searched for once; later only in those that are new."""

    def __init__(self) -> None:
        """Start without a text."""
        self._texts: list[str] = []
        self._found: set[str] = set()
        self._absent: dict[str, int] = {}
        """How many texts do not contain a value."""

    def add(self, text: str) -> None:
        """Add a text."""
        self._texts.append(text)

    def __contains__(self, value: object) -> bool:
        """Whether a text contains the value."""
        if not isinstance(value, str):
            return False
        if value in self._found:
            return True
        start = self._absent.get(value, 0)
        if any(value in text for text in islice(self._texts, start, None)):
            self._found.add(value)
            return True
        if len(self._absent) > MOST_ABSENT:
            self._absent.clear()
        self._absent[value] = len(self._texts)
        return False


class ReadEntries:
    """What was read of the first entries of a transcript."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        """Read entries; `update` reads what follows them."""
        self._entries: Sequence[Entry] = ()
        self._reader = CallReader()
        self._used: set[str] = set()
        self.known: set[str] = set()
        """All values of results and of what was done."""
        self._waiting: list[Call] = []
        self.calls: list[Call] = []
        """All calls but those of `recall`, in the order of their results."""
        self.uses = Uses()
        """Where people, the model and calls used each word last."""
        self.named: dict[str, tuple[int, int]] = {}
        """By name the newest message of a person, and of the model, or `NOT_SAID`."""
        self.small_words: set[str] = set()
        """The words of messages that are written without a capital letter."""
        self.messages: list[Message] = []
        """The messages of people that state a rule, or end one."""
        self.quoted = SummaryQuotes()
        """What summaries quote of people."""
        self.imported: Entry | None = None
        """The newest summary: of another session, for this one's are no entries."""
        self.statements = Statements()
        self.said = SaidTexts()
        """What people said, and what actions were asked with."""
        self.rows: dict[tuple[Taken | None, frozenset[str], bool], list[Row]] = {}
        """All rows of facts, by the names of the arguments that tools take, by the
        tools that say otherwise than their names whether they act, and whether the
        rows are short."""
        self.matters: dict[frozenset[str], Matters] = {}
        """Whose turns are and what waits, by the tools that say otherwise."""
        self._judged: dict[int, Call] = {}
        """Calls of tools that say otherwise, by their indices."""
        self.update(entries)

    def is_of(self, entries: Sequence[Entry]) -> bool:
        """Whether the entries begin with all that was read."""
        return self._entries == entries[: len(self._entries)]

    def update(self, entries: Sequence[Entry]) -> int:
        """Read what follows the entries that were read; returns how many these are."""
        start = len(self._entries)
        new = entries[start:]
        if not new:
            return 0
        self._entries = entries[:]
        self.rows, self.matters = {}, {}
        answered = [e for e in self._reader.update(new) if e.tool != TOOL_NAME]
        self.calls = [e for e in self._reader.calls if e.tool != TOOL_NAME]
        self._waiting = [e for e in self._reader.interrupted if e.tool != TOOL_NAME]
        for call in answered:
            said = used_words(call) - self._used
            self._used |= said
            self.statements.use(said)
            self.known.update(_known_texts(call))
        for call in (*answered, *self._waiting):
            for field in call.asked:
                self.uses.add_argument(call.tool, field.name, field.text, call.index)
        for index, entry in enumerate(new, start):
            self._say(index, entry)
        return len(new)

    def calls_by(self, unlike: Collection[str]) -> list[Call]:
        """All calls; `unlike` are the tools of which `acts` is wrong."""
        return [self._call_by(e) if e.tool in unlike else e for e in self.calls]

    def _call_by(self, call: Call) -> Call:
        result = self._entries[call.index]
        if result.role != "tool" or result.is_error:
            return call
        is_action = not acts(call.tool)
        if call.index not in self._judged:
            self._judged[call.index] = judged(call, result, is_action=is_action)
        return self._judged[call.index]

    def _say(self, index: int, entry: Entry) -> None:
        self.uses.add_entry(entry, index)
        if text := said_or_acted(entry):
            self.said.add(text)
        if entry.role == "summary":
            self.imported = entry
        is_prompt = entry.is_prompt
        if is_prompt or entry.is_answer:
            for name in names_in(entry.content):
                by_person, by_model = self.named.get(name, (NOT_SAID, NOT_SAID))
                said = (index, by_model) if is_prompt else (by_person, index)
                self.named[name] = said
            if len(self.named) > 2 * KEPT_NAMES:
                self._forget_names()
            self.small_words.update(_SMALL_WORD.findall(entry.content))
        if is_prompt:
            self.statements.add(entry, self._used)
            if entry.content:
                message = message_of(self._entries, index)
                self.messages += [] if message.is_silent else [message]

    def _forget_names(self) -> None:
        newest = nlargest(KEPT_NAMES, self.named.items(), key=lambda pair: max(pair[1]))
        self.named = dict(reversed(newest))

    def used_words(self) -> set[str]:
        """The words of all arguments and results, in small letters."""
        return self._used.union(*map(used_words, self._waiting))


class Readings:
    """Lends the reading of a transcript; only one compaction has it at a time."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._free: list[ReadEntries] = []
        self.masked = MaskedEntries()
        """The entries without secrets, of which all is read."""
        self.entries_read = 0
        """How many entries were read, those read again included."""

    def __reduce__(self) -> tuple[type["Readings"], tuple[()]]:
        """Without what was read: that is as large as the transcript."""
        return (Readings, ())

    @contextmanager
    def of(self, entries: Sequence[Entry]) -> Iterator[ReadEntries]:
        """The reading of these entries, of which only what is new is read."""
        try:
            reading = self._free.pop()
        except IndexError:  # the first one, or another compaction has it
            reading = ReadEntries()
        if not reading.is_of(entries):
            reading = ReadEntries()
        self.entries_read += reading.update(entries)
        yield reading
        self._free[:] = [reading]


def said_or_acted(entry: Entry) -> str:
    """A person's message, or what an action was asked with; empty of all else."""
    if entry.is_call:
        return entry.tool_args if acts(entry.tool_name) else ""
    return entry.content if entry.is_prompt else ""


def used_words(call: Call) -> set[str]:
    """The words of a call's arguments and result, in small letters."""
    texts = [field.text for field in call.asked] + [call.words]
    texts += record_texts(call.record) if call.record else []
    return set().union(*map(words, texts))


def _known_texts(call: Call) -> Iterator[str]:
    if call.status in ("done", "unconfirmed"):
        yield from (field.text for field in call.asked)
    if call.record:
        yield from record_texts(call.record)
