"""Long sessions of recorded conversations, and what each of their calls needs.

A session interleaves conversations, unit by unit, six at a time; where one ends another
begins. A conversation that comes again has other ids, numbers, dates and names, so that
none of its values is known from before, and the same form.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from measures import COUNTER, known_of, units_of
from memory_cases import Recorded, notebook_work, numbered
from needed_values import texts
from trajectories import Trajectory

from nbchat.conversation.entries import Entry

AT_ONCE = 6
"""Conversations that take turns."""

DOMAINS = ("airline", "retail", "telecom", "coding")
"""Of conversations that take turns."""

WORK = {"notebook": ("insight-bench", "dseval"), "science": ("mini-swe-agent",)}
"""Notebooks and scientific coding, which come one after the other, by their sources."""

_DATE = re.compile(r"(?:19|20)\d\d-[01]\d-[0-3]\d")
_YEAR = re.compile(r"(?:19|20)\d\d")
_PHONE = re.compile(r"\d{3}-\d{3}-\d{4}\b")
_TOKEN = re.compile(rf"{_DATE.pattern}|\b{_PHONE.pattern}|[^\W_]+")
_PERSON_ID = re.compile(r"\b([a-z]{2,})_([a-z]{2,})_\d{3,}")
_NAME_FIELD = re.compile(r'"(?:first_name|last_name|full_name)": ?"([^"]+)"')
_CODE_FIELD = re.compile(r'"\w*_id": ?"([A-Z0-9]{5,})"')
"""Ids of capital letters and digits, such as the reservation M05KNL."""
_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxyz"


def domain_of(run: Trajectory) -> str:
    """The domain of a recorded conversation."""
    return next((name for name in DOMAINS if name in run.name), "coding")


@dataclass(frozen=True)
class LongSession:
    """Conversations in turns, and where each entry comes from."""

    entries: tuple[Entry, ...]
    domains: dict[str, str]
    """Domains by call id."""
    known: str
    """System prompts and tools of all conversations: what need not be remembered."""


def long_sessions(
    runs: Sequence[Trajectory], *, tokens: int, count: int, seed: int = 3
) -> Iterator[LongSession]:
    """Sessions of so many tokens each, built of recorded conversations."""
    known = "\n".join(dict.fromkeys(map(known_of, runs)))
    words = frozenset(_TOKEN.findall(known))
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        yield _session(_copies(runs, words, chance), known, tokens, chance)


def work_sessions(domain: str, *, tokens: int, count: int) -> Iterator[LongSession]:
    """At most so many sessions of at least so many tokens, in each work of its own."""
    waiting = [each for source in WORK[domain] for each in notebook_work(source)]
    for _ in range(count):
        chosen, size = list[Recorded](), 0
        while waiting and size < tokens:
            chosen.append(numbered(waiting.pop(0), len(chosen)))
            size += chosen[-1].tokens
        if size < tokens:
            return
        entries = tuple(entry for each in chosen for entry in each.entries)
        known = "\n".join(dict.fromkeys(each.known for each in chosen))
        yield LongSession(entries, {e.tool_id: domain for e in entries}, known)


def _session(
    copies: Iterator[Trajectory], known: str, tokens: int, chance: random.Random
) -> LongSession:
    """Take conversations until the session is as long as wanted."""
    merged: list[Entry] = []
    domains: dict[str, str] = {}
    waiting: list[list[list[Entry]]] = []
    size = number = 0
    while size < tokens:
        while len(waiting) < AT_ONCE:
            run, number = next(copies), number + 1
            waiting.append(units_of(run.entries, number))
            domains |= {f"{number}_{e.tool_id}": domain_of(run) for e in run.entries}
        units = chance.choice(waiting)
        for _ in range(min(chance.randint(1, 6), len(units))):
            merged += units[0]
            size += COUNTER.count_entries(units.pop(0))
        waiting = [units for units in waiting if units]
    return LongSession(tuple(merged), domains, known)


def _copies(
    runs: Sequence[Trajectory], known: frozenset[str], chance: random.Random
) -> Iterator[Trajectory]:
    """All conversations in random order, then all again with other values, ..."""
    first = True
    while True:
        for run in chance.sample(list(runs), len(runs)):
            yield run if first else renamed(run, known, chance)
        first = False


def renamed(
    run: Trajectory, known: frozenset[str], chance: random.Random
) -> Trajectory:
    """The conversation with other ids, numbers, dates and names of the same form.

    Words in `known` stay, as do years and numbers below 100: quantities and steps. A
    phone number changes even if the rules of the desk have it as an example, so that no
    two customers share one.
    """
    change = _substitution(run, known, chance)
    entries = tuple(
        entry._replace(content=change(entry.content), tool_args=change(entry.tool_args))
        for entry in run.entries
    )
    return Trajectory(run.name, run.system, entries, run.tools)


def _substitution(
    run: Trajectory, known: frozenset[str], chance: random.Random
) -> Callable[[str], str]:
    """A function that replaces each word by the same other word everywhere."""
    said = texts(run.entries)
    names = _names(said) - {word.lower() for word in known}
    codes = set(_CODE_FIELD.findall(said)) - known
    digits = _shuffled("123456789", chance)
    letters = _shuffled(_VOWELS, chance) | _shuffled(_CONSONANTS, chance)
    letters |= {a.upper(): b.upper() for a, b in letters.items()}
    letter_table, digit_table = str.maketrans(letters), str.maketrans(digits)
    days = timedelta(chance.randint(30, 330))

    def other(found: re.Match[str]) -> str:
        word = found[0]
        if word in codes or _PHONE.fullmatch(word):
            return word.translate(letter_table | digit_table)
        if word.lower() in names:
            return word.translate(letter_table)
        if _DATE.fullmatch(word):
            return _shifted(word, days)
        if word in known or _YEAR.fullmatch(word):
            return word
        is_number = sum(map(str.isdigit, word)) >= 3
        return word.translate(digit_table) if is_number else word

    return lambda text: _TOKEN.sub(other, text)


def _names(text: str) -> set[str]:
    """Names of people, in lower case."""
    words = [word for pair in _PERSON_ID.findall(text) for word in pair]
    words += [w for name in _NAME_FIELD.findall(text) for w in name.lower().split()]
    return set(words)


def _shuffled(letters: str, chance: random.Random) -> dict[str, str]:
    return dict(zip(letters, chance.sample(letters, len(letters)), strict=True))


def _shifted(text: str, days: timedelta) -> str:
    try:
        return (date.fromisoformat(text) + days).isoformat()
    except ValueError:
        return text
