"""Tell which exchanges belong together where several conversations take turns.

An exchange belongs to the conversation of its person, or to the one with which it has
most in common: ids, and words that few conversations have. Where it has nothing in
common with any, people are taken to go on with what was said just now. Who greets
begins a conversation.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

Person = tuple[str, str]
"""A field that says whose a record is, and its value."""

ID_WORTH = 4
"""What an id counts that one conversation alone has; all words count about 1."""

NEAR = 0.1
"""What it counts to be the conversation of just now."""

MOST_SHARING = 30
"""Conversations with a word, beyond which it tells none of them from the others."""

CLEAR = 2
"""How many times as much as the next best a conversation must have in common, to be
certain."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What an exchange says of the conversation to which it belongs."""

    person: Person | None
    """Whose it is; None where that is not certain."""
    ids: frozenset[str]
    """The ids that messages and calls name."""
    found: frozenset[str] = frozenset()
    """The ids of records that its calls found."""
    about: frozenset[str] = frozenset()
    """What messages and calls are about, in stems of words."""
    begins: bool = False
    """Whether it begins without a person's message, or with a greeting."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The conversation of an exchange, by number."""

    thread: int
    is_certain: bool
    """Whether its person, its ids or its words clearly say so."""


class _Threads:
    """The conversations so far."""

    def __init__(self) -> None:
        self.people: list[Person | None] = []
        self._ids: list[set[str]] = []
        self._about: list[set[str]] = []
        self._by_person: dict[Person, int] = {}
        self._by_id: dict[str, set[int]] = defaultdict(set)
        self._by_word: dict[str, set[int]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self.people)

    def add(self, exchange: Exchange, latest: int | None) -> Assignment:
        """Find the conversation of an exchange, or begin one."""
        given = self._assign(exchange, latest)
        if given is None:
            self.people.append(None)
            self._ids.append(set())
            self._about.append(set())
            given = Assignment(len(self) - 1, is_certain=True)
        self._join(exchange, given.thread)
        return given

    def _assign(self, exchange: Exchange, latest: int | None) -> Assignment | None:
        person = exchange.person
        if person is not None and person in self._by_person:
            return Assignment(self._by_person[person], is_certain=True)
        if latest is None or (exchange.begins and person is None):
            return None
        common = self._common(exchange)
        if latest in common:
            common[latest] += NEAR
        most = max(common, key=lambda n: (common[n], n == latest, n), default=None)
        if most is not None:
            ids = self._ids[most]
            if exchange.ids and ids and ids.isdisjoint(exchange.ids):
                return None  # alike in words, but about other records
            rest = max((c for n, c in common.items() if n != most), default=0)
            is_certain = common[most] >= CLEAR * rest
            return Assignment(most, is_certain=is_certain)
        if not self._may_follow(exchange, latest):
            return None
        return Assignment(latest, is_certain=False)

    def _common(self, exchange: Exchange) -> dict[int, float]:
        """How much each conversation has in common with an exchange: ids, and words.

        A word counts more the fewer conversations have it (inverse document frequency).
        """
        common: dict[int, float] = defaultdict(float)
        for name in sorted(exchange.ids):  # in an order, for sums of floats differ
            threads = self._by_id.get(name, ())
            for thread in threads:
                common[thread] += ID_WORTH / len(threads)
        rarity = {
            word: log((len(self) + 1) / (len(threads) + 0.5))
            for word in sorted(exchange.about)
            if 0 < len(threads := self._by_word.get(word, ())) <= MOST_SHARING
        }
        size = sum(rarity.values())
        for word, rare in rarity.items():
            for thread in self._by_word[word]:
                common[thread] += rare / sqrt(size * len(self._about[thread]))
        return {n: c for n, c in common.items() if self._may_be(exchange.person, n)}

    def _may_follow(self, exchange: Exchange, thread: int) -> bool:
        """Whether an exchange that shares nothing may go on with what was said."""
        person = exchange.person
        if exchange.begins or not self._may_be(person, thread):
            return False
        is_known = person is None or self.people[thread] is not None
        return not (exchange.ids and self._ids[thread] and is_known)

    def _may_be(self, person: Person | None, thread: int) -> bool:
        """Whether a conversation is not known to be of another person."""
        return person is None or self.people[thread] in (None, person)

    def _join(self, exchange: Exchange, thread: int) -> None:
        names = exchange.ids | exchange.found
        self._ids[thread] |= names
        self._about[thread] |= exchange.about
        for name in names:
            self._by_id[name].add(thread)
        for word in exchange.about:
            self._by_word[word].add(thread)
        if exchange.person is not None:
            self.people[thread] = exchange.person
            self._by_person[exchange.person] = thread


def assigned(exchanges: Sequence[Exchange]) -> list[Assignment]:
    """The conversation of each exchange.

    One that only follows, and after which a person comes for the first time, is that
    person's: people say who they are when they are asked.
    """
    threads = _Threads()
    found: list[Assignment] = []
    for exchange in exchanges:
        count = len(threads)
        given = threads.add(exchange, found[-1].thread if found else None)
        is_new = exchange.person is not None and given.thread == count
        if is_new and found and not found[-1].is_certain:
            found[-1] = given
        found.append(given)
    return found
