"""Search a transcript by index or by words, for `/recall` and the tool `recall`.

What a compaction covers or a pruning shortened stays in the transcript. Results have a
bounded size and say what they omit.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from nbchat.conversation.entries import Entry

TOOL_NAME = "recall"

MOST_ENTRIES = 10
"""Entries that a search for words returns."""

BUDGET_TOKENS = 2_000
"""Tokens of a result: two long outputs, or ten short ones."""

ASKED_SHARE, OTHER_SHARE = 0.75, 0.25
"""Shares of the budget for the entry at the index asked for, and for any other."""

BEFORE_MATCH = 0.25
"""Share of an excerpt that precedes the matching words."""

LONGEST_QUERY = 500
"""Characters of a query; the rest is ignored."""

_POSITION = re.compile(r'(?:recall\()?"?(\d{1,12})(?::(\d{1,12}))?"?\)?')

Count = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Tokens of a text at four characters each, as in English."""
    return len(text) // 4 + 1


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult:
    """Entries with their indices in the transcript, the best match first."""

    entries: tuple[tuple[int, Entry], ...] = ()
    missing: int = 0
    """Number of matches that are not in `entries`."""
    position: int | None = None
    """The index that was asked for, if one was."""
    start: int = 0
    """First character to show of the entry at `position`."""
    phrase: str = ""

    def __repr__(self) -> str:
        """Counts, never contents."""
        return f"<SearchResult of {len(self.entries)} entries, {self.missing} more>"

    def _repr_html_(self) -> str:
        shown = self.text().encode(errors="replace").decode()  # no lone surrogates
        return f"<pre>{escape(shown)}</pre>"

    def text(
        self, *, budget_tokens: int = BUDGET_TOKENS, count: Count = estimate_tokens
    ) -> str:
        """The entries within a budget; an excerpt says how to get the rest."""
        shown: list[str] = []
        left = budget_tokens
        for index, entry in self.entries:
            share = ASKED_SHARE if index == self.position else OTHER_SHARE
            limit = int(budget_tokens * share)
            excerpt = self._excerpt(index, entry, limit, count)
            left -= count(excerpt)
            if left < 0 and shown:
                break
            shown.append(excerpt)
        missing = self.missing + len(self.entries) - len(shown)
        if missing:
            shown.append(f"[{missing:,} more messages match; add words to find fewer]")
        return "\n\n".join(shown) or "nothing was found"

    def _excerpt(self, index: int, entry: Entry, limit: int, count: Count) -> str:
        """An entry under its heading; of a long one the part around the match."""
        text = entry_text(entry)
        size = count(text)
        start = min(self.start, len(text)) if index == self.position else 0
        length = len(text) if size <= limit else len(text) * limit // size
        if length < len(text) and self.phrase:
            start = max(0, _first(text, self.phrase) - int(length * BEFORE_MATCH))
        stop = start + length
        before = [f"[{start:,} characters before this]"] if start else []
        after = (
            [f'[{len(text) - stop:,} characters more; recall("{index}:{stop}")]']
            if stop < len(text)
            else []
        )
        return "\n".join([_heading(index, entry), *before, text[start:stop], *after])


def find(
    entries: Sequence[Entry],
    query: int | str,
    *,
    pairs: Mapping[int, int] | None = None,
    among: Collection[int] | None = None,
) -> SearchResult:
    """The entry at an index, or those that contain all words, ignoring case.

    "57:8000" is the entry at index 57 from its 8,000th character on. The exact phrase
    comes first, then the newest. `pairs` are calls and results that are found together.
    Results of earlier recalls are not searched. `among` limits a search for words.
    """
    pairs = pairs or {}
    asked = _POSITION.fullmatch(str(query).strip())
    if asked and int(asked[1]) < len(entries):
        position = int(asked[1])
        found = list(dict.fromkeys([position, pairs.get(position, position)]))
        return SearchResult(
            tuple((index, entries[index]) for index in found),
            position=position,
            start=int(asked[2] or 0),
        )
    phrase = " ".join(str(query)[:LONGEST_QUERY].casefold().split())
    matches = _matches(entries, phrase, among)
    best = matches[:MOST_ENTRIES]
    found = list(dict.fromkeys(e for m in best for e in sorted({m, pairs.get(m, m)})))
    return SearchResult(
        tuple((index, entries[index]) for index in found),
        missing=len(set(matches) - set(found)),
        phrase=phrase,
    )


class Searchable(Protocol):
    """A conversation that can be searched: a session."""

    @property
    def hidden_positions(self) -> Collection[int]:
        """Indices of entries that the model sees shortened or not at all."""

    def recall_hidden(self, query: str) -> SearchResult:
        """Search what the model may see but does not see now."""


def recall_tool(
    conversation: Callable[[], Searchable], *, count: Count = estimate_tokens
) -> Callable[[str], str]:
    """A tool that lets a model search what left its context.

    `conversation` returns the current one, `count` measures tokens.
    """

    def recall(query: str) -> str:
        """Look up earlier parts of this conversation that were summarized or shortened.

        Args:
            query: The number in a note such as "recall(57) brings them back", or a few
                words that occur in what you look for.

        """
        current = conversation()
        if not current.hidden_positions:
            return "nothing is hidden: you see the whole conversation"
        return current.recall_hidden(query).text(count=count)

    return recall


def entry_text(entry: Entry) -> str:
    """The text of an entry; of a call its arguments."""
    return entry.tool_args if entry.is_call else entry.content


def _matches(
    entries: Sequence[Entry], phrase: str, among: Collection[int] | None
) -> list[int]:
    words = phrase.split()
    ranked = []
    for index, entry in enumerate(entries):
        is_echo = entry.role == "thinking" or entry.tool_name == TOOL_NAME
        if is_echo or not words or (among is not None and index not in among):
            continue
        text = f"{entry.tool_name} {entry_text(entry)}".casefold()
        if all(word in text for word in words):
            is_exact = phrase in " ".join(text.split())
            ranked.append((is_exact, index))
    return [index for _, index in sorted(ranked, reverse=True)]


def _first(text: str, phrase: str) -> int:
    """Offset of the phrase in a text, else of its first word that occurs, else 0."""
    lower = text.casefold()
    offsets = (lower.find(phrase), *(lower.find(word) for word in phrase.split()))
    return min(next((offset for offset in offsets if offset >= 0), 0), len(text))


def _heading(index: int, entry: Entry) -> str:
    if entry.is_call:
        return f"[{index}] call of {entry.tool_name}:"
    if entry.role == "tool":
        return f"[{index}] result of {entry.tool_name}:"
    return f"[{index}] {entry.role}:"
