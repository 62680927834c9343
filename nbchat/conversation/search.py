"""How something said long ago is found again: by its place, or by its words.

Whatever a compaction folded or a pruning shortened is still in the transcript. A person
asks with `session.recall(...)` or `/recall`, a model with the tool `recall`; both get
data of a bounded size that says what it leaves out.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import calls_by_result

TOOL_NAME = "recall"

MOST_ENTRIES = 10
"""Entries found by their words that are brought back at once."""

BUDGET_TOKENS = 2_000
"""About as much as a recall puts into the context: two long outputs, or ten short."""

ASKED_SHARE, OTHER_SHARE = 0.75, 0.25
"""Of the budget: for the entry that was asked for by its place, and for any other."""

BEFORE_MATCH = 0.25
"""Of what is shown of a long entry, the part that comes before the words it was found
by."""

LONGEST_QUERY = 500
"""Characters of a query that are looked at."""

_PLACE = re.compile(r'(?:recall\()?"?(\d{1,12})(?::(\d{1,12}))?"?\)?')

Count = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Tokens of a text, roughly: a token has four characters in English."""
    return len(text) // 4 + 1


class Conversation(Protocol):
    """What can be searched: a session."""

    @property
    def transcript(self) -> Sequence[Entry]:
        """Every entry ever said."""

    @property
    def included_transcript(self) -> Sequence[Entry]:
        """The same, without the content of what a person left out."""

    @property
    def hidden_positions(self) -> Collection[int]:
        """Places in the transcript that the model sees shortened, or no more."""


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult:
    """Entries with their places in the transcript, the best match first."""

    found: tuple[tuple[int, Entry], ...] = ()
    missing: int = 0
    """Entries that match as well and are not among them."""
    place: int | None = None
    """The place that was asked for, when it was one."""
    start: int = 0
    """Where to begin in the entry that was asked for, in characters."""
    phrase: str = ""

    def __repr__(self) -> str:
        """Counts, never contents."""
        return f"<SearchResult of {len(self.found)} entries, {self.missing} more>"

    def _repr_html_(self) -> str:
        shown = self.text().encode(errors="replace").decode()  # no lone surrogates
        return f"<pre>{escape(shown)}</pre>"

    def text(
        self, *, budget_tokens: int = BUDGET_TOKENS, count: Count = estimate_tokens
    ) -> str:
        """What was found, within a budget; a long entry says how to get more of it."""
        shown: list[str] = []
        room = budget_tokens
        for place, entry in self.found:
            share = ASKED_SHARE if place == self.place else OTHER_SHARE
            limit = int(budget_tokens * share)
            drawn = self._drawn(place, entry, limit, count)
            room -= count(drawn)
            if room < 0 and shown:
                break
            shown.append(drawn)
        missing = self.missing + len(self.found) - len(shown)
        if missing:
            shown.append(f"[{missing:,} more entries match; more words find fewer]")
        return "\n\n".join(shown) or "nothing was found"

    def _drawn(self, place: int, entry: Entry, limit: int, count: Count) -> str:
        """One entry under its heading; of a long one the part that matters."""
        text = entry_text(entry)
        size = count(text)
        start = min(self.start, len(text)) if place == self.place else 0
        length = len(text) if size <= limit else len(text) * limit // size
        if length < len(text) and self.phrase:
            start = max(0, _first(text, self.phrase) - int(length * BEFORE_MATCH))
        stop = start + length
        before = [f"[{start:,} characters before this]"] if start else []
        after = (
            [f'[{len(text) - stop:,} characters more; recall("{place}:{stop}")]']
            if stop < len(text)
            else []
        )
        return "\n".join([_heading(place, entry), *before, text[start:stop], *after])


def find(
    entries: Sequence[Entry],
    query: int | str,
    *,
    among: Collection[int] | None = None,
) -> SearchResult:
    """The entry at a place, or those that hold all words of a text, wherever case.

    A place is a number, and "57:8000" begins at the 8,000th character there. The exact
    phrase comes first, then the newest. A call comes with its result, and a result with
    its call. What an earlier recall brought back is not found again. A text is looked
    for `among` some places, when they are given.
    """
    calls = calls_by_result(entries)
    pairs = calls | {call: result for result, call in calls.items()}
    asked = _PLACE.fullmatch(str(query).strip())
    if asked and int(asked[1]) < len(entries):
        place = int(asked[1])
        found = list(dict.fromkeys([place, pairs.get(place, place)]))
        return SearchResult(
            tuple((each, entries[each]) for each in found),
            place=place,
            start=int(asked[2] or 0),
        )
    phrase = " ".join(str(query)[:LONGEST_QUERY].casefold().split())
    matches = _matches(entries, phrase, among)
    best = matches[:MOST_ENTRIES]
    found = list(dict.fromkeys(e for m in best for e in sorted({m, pairs.get(m, m)})))
    return SearchResult(
        tuple((each, entries[each]) for each in found),
        missing=len(set(matches) - set(found)),
        phrase=phrase,
    )


def recall_tool(
    conversation: Callable[[], Conversation], *, count: Count = estimate_tokens
) -> Callable[[str], str]:
    """A tool that lets a model look up what left its context.

    `conversation` tells which one counts now, `count` measures tokens.
    """

    def recall(query: str) -> str:
        """Look up earlier parts of this conversation that were summarized or shortened.

        Args:
            query: The number in a note such as "recall(57) brings them back", or a few
                words that stood in what you look for.

        """
        now = conversation()
        if not now.hidden_positions:
            return "nothing was left out: all that was said is in front of you"
        found = find(now.included_transcript, query, among=now.hidden_positions)
        return found.text(count=count)

    return recall


def entry_text(entry: Entry) -> str:
    """The words of an entry: its text, or what a call was made with."""
    return entry.tool_args if entry.is_call else entry.content


def _matches(
    entries: Sequence[Entry], phrase: str, among: Collection[int] | None
) -> list[int]:
    words = phrase.split()
    ranked = []
    for place, entry in enumerate(entries):
        is_echo = entry.role == "thinking" or entry.tool_name == TOOL_NAME
        if is_echo or not words or (among is not None and place not in among):
            continue
        text = f"{entry.tool_name} {entry_text(entry)}".casefold()
        if all(word in text for word in words):
            is_exact = phrase in " ".join(text.split())
            ranked.append((is_exact, place))
    return [place for _, place in sorted(ranked, reverse=True)]


def _first(text: str, phrase: str) -> int:
    """Where the phrase stands in a text, else its first word; 0 for neither."""
    lower = text.casefold()
    places = (lower.find(phrase), *(lower.find(word) for word in phrase.split()))
    return min(next((place for place in places if place >= 0), 0), len(text))


def _heading(place: int, entry: Entry) -> str:
    if entry.is_call:
        return f"[{place}] call of {entry.tool_name}:"
    if entry.role == "tool":
        return f"[{place}] result of {entry.tool_name}:"
    return f"[{place}] {entry.role}:"
