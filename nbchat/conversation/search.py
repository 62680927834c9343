"""Search a transcript by index or by words, for `/recall` and the tool `recall`.

What a compaction covers or a pruning shortened stays in the transcript. Results are
passages of consecutive entries, have a bounded size and say what they omit.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, islice
from typing import TYPE_CHECKING

from nbchat.conversation.entries import Entry
from nbchat.conversation.search_index import (
    TOOL_NAME,
    Match,
    SearchIndex,
    entry_text,
    words_of,
)
from nbchat.conversation.turns import call_pairs

if TYPE_CHECKING:
    from nbchat.conversation.session import Session

MOST_RESULTS = 10
"""Passages that a search for words returns."""

TOOL_TOKENS = 110
"""Tokens of the tool's definition at most: 84 on OpenAI's models."""

BUDGET_TOKENS = 2_000
"""Tokens of the shown results: five passages of 300 words, or more short ones."""

ASKED_SHARE, OTHER_SHARE = 0.75, 0.2
"""Shares of the budget for the entry at the index asked for, and for any other."""

BEFORE_MATCH = 0.25
"""Share of an excerpt that precedes the matching words."""

LONGEST_QUERY = 500
"""Characters of a query; the rest is ignored."""

SNIPPET_LENGTH = 160
"""Characters of a snippet: about two lines."""

PHRASES_CHECKED = 200
"""Entries with the words of a query in a row that are compared with it exactly."""

PAIR_REACH = 200
"""Entries between a call and its result at most, in a search for either."""

OCCURRENCES = 200
"""Occurrences of a word in a text that are looked at for its best part."""

ENDING = 3
"""Letters at the end of a word that may differ in another form of it."""

_POSITION = re.compile(r'(?:recall\()?"?(\d{1,12})(?::(\d{1,12}))?"?\)?')

Count = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Tokens of a text at four characters each, as in English."""
    return len(text) // 4 + 1


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A passage of a conversation, and the entry in it that matches best."""

    position: int
    """Index of the best entry in the transcript."""
    passage: range
    """Indices of the passage around it."""
    entries: tuple[tuple[int, Entry], ...]
    """Entries to show with their indices: the best one, the call or result that belongs
    to it, other matches in the passage, and its other entries from the nearest on."""
    kept: int = 1
    """How many of them are shown in any case, shortened if they are long."""


@dataclass(frozen=True, slots=True, repr=False)
class SearchResults:
    """Results of a search, the best first."""

    results: tuple[SearchResult, ...] = ()
    query: str = ""
    """The query; empty if an index was asked for."""
    start: int = 0
    """First character to show of the entry at the index that was asked for."""

    def __repr__(self) -> str:
        """Counts, never contents."""
        return f"<SearchResults: {len(self.results)} passages>"

    def _repr_html_(self) -> str:
        shown = self.text().encode(errors="replace").decode()  # no lone surrogates
        return f"<pre>{escape(shown)}</pre>"

    @property
    def entries(self) -> tuple[tuple[int, Entry], ...]:
        """The best entry of each result with its index, and its call or result."""
        kept = (result.entries[: result.kept] for result in self.results)
        return tuple(chain.from_iterable(kept))

    def text(
        self, *, budget_tokens: int = BUDGET_TOKENS, count: Count = estimate_tokens
    ) -> str:
        """The passages within a budget; an excerpt says how to get the rest."""
        limit = int(budget_tokens * (OTHER_SHARE if self.query else ASKED_SHARE))
        shown: list[str] = []
        left = budget_tokens
        for result in self.results:
            passage = self._passage(result, limit, count)
            left -= count(passage)
            if left < 0 and shown:
                break
            shown.append(passage)
        if omitted := self.results[len(shown) :]:
            positions = ", ".join(str(result.position) for result in omitted)
            shown.append(f"[more matches: {positions}; recall one by its number]")
        return "\n\n---\n\n".join(shown) or "Nothing was found."

    def _passage(self, result: SearchResult, limit: int, count: Count) -> str:
        """As many entries of a result as fit the limit, in their order."""
        shown: dict[int, str] = {}
        left = limit
        for index, entry in result.entries[: result.kept]:
            shown[index] = self._excerpt(index, entry, limit, count)
            left -= count(shown[index])
        for index, entry in result.entries[result.kept :]:
            text = f"{_heading(index, entry)}\n{entry_text(entry)}"
            left -= count(text)
            if left < 0:
                break
            shown[index] = text
        order = sorted(shown) if self.query else shown
        return "\n\n".join(map(shown.__getitem__, order))

    def _excerpt(self, index: int, entry: Entry, limit: int, count: Count) -> str:
        """An entry under its heading; of a long one the part around the match."""
        text = entry_text(entry)
        size = count(text)
        start = 0 if self.query else min(self.start, len(text))
        length = len(text) if size <= limit else len(text) * limit // size
        if length < len(text) and self.query:
            start = best_part(text, self.query, length)
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
    index: SearchIndex | None = None,
    among: Collection[int] | None = None,
) -> SearchResults:
    """The entry at an index, or the passages that match any words of a text, ranked.

    "57:8000" is the entry at index 57 from its 8,000th character on. Entries with the
    exact phrase come first, the newest before the others. A call is found with its
    result. Earlier recalls and thinking are not searched. `among` limits a search for
    words to some positions; `index` is the one of these entries, kept between searches.
    """
    asked = _POSITION.fullmatch(str(query).strip())
    if asked and int(asked[1]) < len(entries):
        position = int(asked[1])
        pair = _pair(entries, position)
        shown = tuple((each, entries[each]) for each in pair)
        result = SearchResult(position, range(position, position + 1), shown, len(pair))
        return SearchResults((result,), start=int(asked[2] or 0))
    phrase = " ".join(str(query)[:LONGEST_QUERY].split())
    index = index or SearchIndex()
    matches = index.search(entries, phrase, among=among)
    exact = _exact(entries, phrase, index, among) if matches else ()
    best = _apart(chain(exact, matches)) or _apart(
        Match(each, index.passage(each), 0)
        for each in _containing(entries, phrase)
        if _may_be_found(entries, each, among)
    )
    scores = {match.position: match.score for match in matches}
    found = (_result(entries, match, scores, among) for match in best)
    return SearchResults(tuple(found), query=phrase)


def ranked(entries: Sequence[Entry], query: str, *, index: SearchIndex) -> list[int]:
    """Indices of all entries with any word of a query, the best first.

    Thinking is included. If there are none, those that contain the query inside a word.
    """
    phrase = " ".join(query[:LONGEST_QUERY].split())
    matches = index.search(entries, phrase, thinking=True)
    return [match.position for match in matches] or [*_containing(entries, phrase)]


def recall_tool(
    conversation: Callable[[], "Session"], *, count: Count = estimate_tokens
) -> Callable[[str], str]:
    """A tool that lets a model search what left its context.

    `conversation` returns the current one, `count` measures tokens.
    """

    def recall(query: str) -> str:
        """Look up earlier parts of this conversation that were summarized or shortened.

        Args:
            query: The number in a note such as "recall(57) returns them", or a few
                words that occur in what you look for.

        """
        current = conversation()
        if not current.hidden_positions:
            return "nothing is hidden: you see the whole conversation"
        return current.recall_hidden(query).text(count=count)

    return recall


def best_part(text: str, query: str, length: int) -> int:
    """Where the part of a text begins that matches a query best.

    The exact phrase counts most, then the number of different words of the query, and
    of these the ones that are rare in this text.
    """
    lower = text.lower()
    room = int(length * BEFORE_MATCH)
    if (exact := lower.find(query.lower())) >= 0:
        return _within(exact - room, text, length)
    found: list[tuple[int, int, float]] = []
    for number, word in enumerate(words_of(query)):
        stem = word[: max(len(word) - ENDING, ENDING)]
        offsets = list(islice(_offsets(lower, stem), OCCURRENCES))
        found += ((offset, number, 1 / len(offsets)) for offset in offsets)
    return _within(_densest(sorted(found), length - room) - room, text, length)


def _apart(matches: Iterable[Match]) -> list[Match]:
    """The first matches whose passages do not overlap."""
    best: list[Match] = []
    for match in matches:
        if len(best) == MOST_RESULTS:
            break
        if not any(_overlap(match.passage, other.passage) for other in best):
            best.append(match)
    return best


def excerpt(text: str, query: str, length: int) -> str:
    """The part of a text that matches a query best, with marks where it is cut."""
    start = best_part(text, query, length) if len(text) > length else 0
    before, after = "…" * (start > 0), "…" * (start + length < len(text))
    return f"{before}{text[start : start + length]}{after}"


def snippet(text: str, query: str) -> str:
    """An excerpt of two lines, as one."""
    return excerpt(" ".join(text.split()), query, SNIPPET_LENGTH)


def _exact(
    entries: Sequence[Entry],
    phrase: str,
    index: SearchIndex,
    among: Collection[int] | None,
) -> Iterator[Match]:
    """Entries that contain a phrase of several words, the newest first."""
    if " " not in phrase:
        return
    lower = phrase.casefold()
    for each in islice(index.containing(phrase), PHRASES_CHECKED):
        text = " ".join(entry_text(entries[each]).casefold().split())
        if lower in text and _may_be_found(entries, each, among):
            yield Match(each, index.passage(each), 0)


def _containing(entries: Sequence[Entry], phrase: str) -> Iterator[int]:
    """Entries with a text inside words or without any word, the newest first."""
    lower = phrase.casefold()
    has_case = lower != phrase.upper()
    known = list(entries) if phrase else []
    for each in range(len(known) - 1, -1, -1):  # quick: there may be 100,000
        entry = known[each]
        text, args = entry.content, entry.tool_args
        if lower in (text.casefold() if has_case else text) or (
            args
            and lower in (args.casefold() if has_case else args)
            and not (entry.is_prompt or entry.is_by_nbchat)
        ):
            yield each


def _may_be_found(
    entries: Sequence[Entry], position: int, among: Collection[int] | None
) -> bool:
    entry = entries[position]
    is_echo = entry.role == "thinking" or entry.tool_name == TOOL_NAME
    return not is_echo and (among is None or position in among)


def _result(
    entries: Sequence[Entry],
    match: Match,
    scores: dict[int, float],
    among: Collection[int] | None,
) -> SearchResult:
    """A match with its call or result, and the entries around it, best first."""
    pair = _pair(entries, match.position)
    around = [each for each in match.passage if _may_be_found(entries, each, among)]
    around.sort(key=lambda each: (-scores.get(each, 0), abs(each - match.position)))
    shown = dict.fromkeys([*pair, *around])
    return SearchResult(
        match.position,
        match.passage,
        tuple((each, entries[each]) for each in shown),
        len(pair),
    )


def _pair(entries: Sequence[Entry], position: int) -> list[int]:
    """An index, and that of the call or result that belongs to its entry."""
    if not entries[position].tool_id:
        return [position]
    start = max(position - PAIR_REACH, 0)
    pairs = call_pairs(entries[start : position + PAIR_REACH])
    other = pairs.get(position - start)
    return [position] if other is None else [position, start + other]


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _offsets(text: str, part: str) -> Iterator[int]:
    """Where a part occurs in a text."""
    offset = text.find(part)
    while offset >= 0:
        yield offset
        offset = text.find(part, offset + len(part))


def _densest(found: Sequence[tuple[int, int, float]], length: int) -> int:
    """The offset from which on the different words within a length weigh most."""
    best, begin = 0.0, 0
    for index, (offset, _, _) in enumerate(found):
        stop = bisect_left(found, (offset + length,), index)
        weights = {number: weight for _, number, weight in found[index:stop]}
        if (total := sum(weights.values())) > best:
            best, begin = total, offset
    return begin


def _within(start: int, text: str, length: int) -> int:
    return max(min(start, len(text) - length), 0)


def _heading(index: int, entry: Entry) -> str:
    if entry.is_call:
        return f"[{index}] call of {entry.tool_name}:"
    if entry.role == "tool":
        return f"[{index}] result of {entry.tool_name}:"
    return f"[{index}] {entry.role}:"
