"""Remember what people said with names and ids that no call has used yet.

A sentence with such a name may be needed long after it was said, as nothing else has
it. A call that uses the name has it from then on.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from nbchat.compaction.facts.value_ranking import (
    CACHED_TEXTS,
    NAME,
    form_weight,
    names_of,
    words,
)
from nbchat.compaction.summary_format import GAP, QUOTE_TOKENS, UNUSED_TITLE, quote_line
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import parts_of
from nbchat.conversation.secret_masking import HIDDEN
from nbchat.providers.tokens import TokenCounter

_PEOPLE = re.compile(r"(?<=[a-z,:] )[A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,3}")
"""Words in capitals where no sentence begins: people, cities, products."""

_ID = re.compile(
    r"(?<![\w.,])\d{1,3}(?:[ \xa0\u202f]\d{3})+(?:[.,]\d\d)?(?=[ \xa0\u202f]?"
    r"(?:[€₽£$₴]|\u0440\u0443\u0431|eur|usd|kr\b|zł|Kč|Ft\b))"
    r"|[#$€£]?[A-Za-z0-9][\w.@/:+-]*",
    re.ASCII,
)
"""Ids and numbers; "1 299 ₽" is one number, "option 2 429" is none."""

_TITLES = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{2,40})[\"\u201d]")

_BEGINNING = re.compile("This|That|These|Those|It|The|There|Here|You|We|They")
"""Words with which a sentence begins, and no name."""

MOST_MISSES = 50
"""Quotes in a row that did not fit, after which none is tried."""

MOST_STATEMENTS = 500
"""The newest messages with unused names that are looked at."""

KEPT_STATEMENTS = 4 * MOST_STATEMENTS
"""The newest of these messages that are remembered, as calls may use their names."""

LEAST_DIGITS = 5
"""Digits of a number that identifies something, such as a zip code."""

LONGEST_ID = 60
"""Characters of an id."""

READ_CHARACTERS = 20_000
"""Characters of a message that are read."""

PASTED = "[pasted] "
"""Before a sentence that a person did not write."""

_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


class Statement(NamedTuple):
    """A message of a person: its sentences with their names, and the unused names."""

    parts: dict[str, frozenset[str]]
    names: frozenset[str]

    def news(self, used: set[str]) -> tuple[list[str], frozenset[str]]:
        """The sentences with names that are not used, and these names."""
        news = [part for part, names in self.parts.items() if not names <= used]
        return news, self.names - used


class Statements:
    """Messages of people with names and ids that no call has used."""

    def __init__(self) -> None:
        """Start before the first message."""
        self._count = 0
        self._said: dict[int, Statement] = {}
        self._with_ids: dict[int, Statement] = {}
        self._by_name: dict[str, list[int]] = {}

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._said)

    def add(self, entry: Entry, used: Collection[str] = ()) -> None:
        """Add a message; `used` are the words of calls so far."""
        parts = {part: _new_names(part) for part in _parts(entry) if part}
        names = frozenset[str]().union(*parts.values()).difference(used)
        for name in names:
            self._by_name.setdefault(name, []).append(self._count)
        self._keep(self._count, Statement(parts, names))
        self._count += 1

    def use(self, words_of_call: Collection[str]) -> None:
        """Remove what a call has used, permanently: only what is new is looked at."""
        for name in words_of_call:
            for number in self._by_name.pop(name, ()):
                said = self._said[number]
                self._keep(number, said._replace(names=said.names - {name}))

    def _keep(self, number: int, said: Statement) -> None:
        has_id = any(map(_is_id, said.names))
        for kept, is_kept in ((self._said, bool(said.names)), (self._with_ids, has_id)):
            if is_kept:
                kept[number] = said
            else:
                kept.pop(number, None)
        if len(self._said) > KEPT_STATEMENTS:
            self._forget(next(iter(self._said)))

    def _forget(self, number: int) -> None:
        self._with_ids.pop(number, None)
        for name in self._said.pop(number).names:
            numbers = self._by_name[name]
            numbers.remove(number)
            if not numbers:
                del self._by_name[name]

    def newest_first(self, *, has_id: bool) -> Iterator[Statement]:
        """The newest messages; with `has_id` those of which an id is not used."""
        found = self._with_ids if has_id else self._said
        return islice(reversed(found.values()), MOST_STATEMENTS)


def _parts(entry: Entry) -> dict[str, None]:
    """The sentences of a message, each once; pasted ones say that they are."""
    parts: dict[str, None] = {}
    for text, is_pasted in parts_of(entry, READ_CHARACTERS):
        mark = PASTED if is_pasted else ""
        for each in _SENTENCE.split(text):
            if bare := " ".join(each.split()):
                parts[f"{mark}{bare}"] = None
    return parts


def unused_statements(
    statements: Statements,
    used: set[str],
    budget_tokens: int,
    counter: TokenCounter,
    *,
    quoted: Sequence[str] = (),
) -> list[str]:
    """Sentences of people with names or ids that no call has used, newest first.

    `used` are the words of arguments and results. Sentences with ids come before
    others and may take twice the budget: an id is what a record is found by. A sentence
    in the lines `quoted` is not quoted again.
    """
    used = set(used)
    lines: list[str] = []
    taken = counter.count(UNUSED_TITLE)
    for has_id, most in ((True, 2 * budget_tokens), (False, budget_tokens)):
        misses = 0
        for said in statements.newest_first(has_id=has_id):
            if taken >= most or misses > MOST_MISSES:
                break
            news, names = said.news(used)
            news = [part for part in news if not any(part in line for line in quoted)]
            if not (news and names) or (has_id and not any(map(_is_id, names))):
                continue
            line = quote_line(GAP.join(news))
            size = counter.count(line) + 1
            used |= names
            if size <= min(most - taken, QUOTE_TOKENS):
                lines.append(line)
                taken += size
                misses = 0
            else:
                misses += 1
    return [UNUSED_TITLE, *lines] if lines else []


@lru_cache(CACHED_TEXTS)
def names_in(text: str) -> tuple[str, ...]:
    """The ids, numbers, addresses, names and quoted terms in a text."""
    text = text[:READ_CHARACTERS]
    ids = (each.rstrip(".:/-") for each in _ID.findall(text))
    found = [each for each in ids if any(map(str.isdigit, each)) or "@" in each]
    found += [each[0] for each in _PEOPLE.finditer(text) if not _begins(text, each)]
    found += _TITLES.findall(text)
    shown = (each for each in found if HIDDEN not in each)
    return tuple(each for each in shown if 1 < len(each) <= LONGEST_ID)


def _begins(text: str, name: re.Match[str]) -> bool:
    """Whether a sentence begins there, after a colon: "Analysis: This shows ..."."""
    first = name[0].partition(" ")[0]
    return text[name.start() - 2] == ":" and bool(_BEGINNING.fullmatch(first))


def _is_id(name: str) -> bool:
    """Whether a name identifies something: a zip code does, "$40" and "2 GB" do not."""
    return form_weight(name) >= NAME or (name.isdigit() and len(name) >= LEAST_DIGITS)


def _new_names(text: str) -> frozenset[str]:
    people = {
        word.lower()
        for name in _PEOPLE.findall(text)
        if " " in name
        for word in name.split()
    }
    ids = {name for name in names_of(text) if len(name) > 3}  # noqa: PLR2004
    return frozenset(ids | people | {w for w in words(text) if "@" in w})
