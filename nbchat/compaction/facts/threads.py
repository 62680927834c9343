"""Tell which exchanges belong together where several conversations take turns.

An exchange belongs to the conversation of its person, or to the one with which it has
most ids in common. Where it names none, people are taken to go on with what was said
just now. Who greets begins a conversation.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

Person = tuple[str, str]
"""A field that says whose a record is, and its value."""

COMMON_WORDS = 3
"""Words of a question by which a later message answers it."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What an exchange says of the conversation to which it belongs."""

    person: Person | None
    """Whose it is; None where that is not certain."""
    ids: frozenset[str]
    """The ids that messages and calls name."""
    said: frozenset[str] = frozenset()
    """What the person's message is about, in stems of words."""
    asked: frozenset[str] = frozenset()
    """The same of what the answer asks."""
    begins: bool = False
    """Whether it begins without a person's message, or with a greeting."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The conversation of an exchange, by number."""

    thread: int
    is_certain: bool
    """Whether its person or its ids say so; else it only follows."""


class _Threads:
    """The conversations so far."""

    def __init__(self) -> None:
        self.people: list[Person | None] = []
        self.ids: list[set[str]] = []
        self.asked: list[frozenset[str]] = []
        self._by_person: dict[Person, int] = {}
        self._by_id: dict[str, set[int]] = defaultdict(set)

    def add(self, exchange: Exchange, latest: int | None) -> Assignment:
        """Find the conversation of an exchange, or begin one."""
        given = self._assign(exchange, latest)
        if given is None:
            self.people.append(None)
            self.ids.append(set())
            self.asked.append(frozenset())
            given = Assignment(len(self.ids) - 1, is_certain=True)
        self._join(exchange, given.thread)
        return given

    def _assign(self, exchange: Exchange, latest: int | None) -> Assignment | None:
        person = exchange.person
        if person is not None and person in self._by_person:
            return Assignment(self._by_person[person], is_certain=True)
        if exchange.begins and person is None:
            return None
        common = Counter(
            thread
            for name in exchange.ids
            for thread in self._by_id.get(name, ())
            if self._may_be(person, thread)
        )
        if common:
            most = max(common, key=lambda n: (common[n], n == latest, n))
            return Assignment(most, is_certain=True)
        if (spoken := self._spoken_of(exchange, latest)) is not None:
            return Assignment(spoken, is_certain=True)
        if latest is None or not self._may_follow(exchange, latest):
            return None
        return Assignment(latest, is_certain=False)

    def _may_follow(self, exchange: Exchange, thread: int) -> bool:
        """Whether an exchange that shares nothing may go on with what was said."""
        person = exchange.person
        if exchange.begins or not self._may_be(person, thread):
            return False
        is_known = person is None or self.people[thread] is not None
        return not (exchange.ids and self.ids[thread] and is_known)

    def _spoken_of(self, exchange: Exchange, latest: int | None) -> int | None:
        """The conversation whose last question the message repeats most words of."""
        if exchange.begins:
            return None
        common = [
            (len(exchange.said & asked), thread == latest, thread)
            for thread, asked in enumerate(self.asked)
            if asked
            and self._may_be(exchange.person, thread)
            and not (exchange.ids and self.ids[thread])
        ]
        count, _, thread = max(common, default=(0, False, 0))
        return thread if count >= COMMON_WORDS else None

    def _may_be(self, person: Person | None, thread: int) -> bool:
        """Whether a conversation is not known to be of another person."""
        return person is None or self.people[thread] in (None, person)

    def _join(self, exchange: Exchange, thread: int) -> None:
        self.ids[thread] |= exchange.ids
        self.asked[thread] = exchange.asked
        for name in exchange.ids:
            self._by_id[name].add(thread)
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
        count = len(threads.ids)
        given = threads.add(exchange, found[-1].thread if found else None)
        is_new = exchange.person is not None and given.thread == count
        if is_new and found and not found[-1].is_certain:
            found[-1] = given
        found.append(given)
    return found
