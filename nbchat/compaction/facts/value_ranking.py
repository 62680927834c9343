"""Weigh values by their form and by their use in the conversation.

Four rules decide what a later call is likely to need: a value in a field that some
tool takes as an argument, before all one that changes something, for what is looked up
can be looked up again; a value that people or calls have used; one that names a thing;
and what was mentioned lately. The factors are judgement and few; only their
order matters (`tests/benchmarks/longrun.py` measures them on held-out domains).
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nbchat.compaction.facts.tool_names import CACHED_NAMES, acts, snake
from nbchat.conversation.entries import Entry

NAME, PHRASE, WORD, NUMBER = 1.0, 0.5, 0.3, 0.15
"""Ids, dates and addresses; words with a number, such as a street; plain words; amounts
and counts."""

AUDIT = 0.2
"""How much a value counts that tells when or by whom a record was last changed."""

NEEDED, SPOKEN = 2.0, 1.5
"""How much more a value counts that a tool may take, and one that people or calls have
used. While no tools are known, any id may be taken."""

UNTAKEN = 0.5
"""The same of an id in a field that no tool takes, such as `tracking_id`."""

LISTED = 2.0
"""How much more an id counts in a list of ids, such as a customer's orders or cards: it
refers to something that is looked up or chosen."""

RECENT, DECAY = 20, 0.5
"""Messages that count as new, and the power of their age by which the need for what
they say declines: 0.5 is Anderson and Schooler's ("Reflections of the environment in
memory", 1991) and was not fitted to these conversations. Falling evenly with the share
of the conversation instead, 78 % of what is needed is readable in sessions of 300,000
tokens; with the power of age, 89 %."""

WAITING = 0.6
"""The same of what waits for an answer, however old: less than what was said just now.
With 1, one value in a hundred is lost that a desk of six needs next."""

UNASKED = 0.5
"""How much a part counts of what a question waits on, such as an item of an order, that
the question does not name; and an order, where it names another of the customer."""

LEAST_ACTION_WORD = 4
"""Letters of a word in the name of an action that may be a value, such as `pending`."""

SHORT_WORD = 3
"""Letters of a word that may be inside another: the size L is not in "helmet"."""

SPOKEN_CHARACTERS, CACHED_TEXTS = 20_000, 2_000
"""Characters of a message that are read, and messages whose words stay in memory."""

_AUDIT_FIELD = re.compile(
    r"last_(?:\w+_)?(?:at|by|date|on|time)|date_(?:changed|created|modified|updated)"
    r"|(?:changed|created|edited|fetched|inserted|modified|synced|updated)"
    r"(?:_(?:at|by|date|on|time|timestamp))?"
    r"|(?:change|creation|modification|update)_(?:date|time|timestamp)"
)
_POSTAL_CODE = re.compile(r"plz|zip(?:_?code)?|post(?:al)?_?code")
_WORDS = re.compile(r"[^\s,;()\[\]{}\"'<>|=`*]{1,80}")
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:T.*)?$|\d{1,2}/\d{1,4}(?:/\d{2,4})?$"
    r"|\d{1,2}\.\d{1,2}\.(?:\d{2,4})?$"
)
"""24.12. and 24.12.2026 are dates; 24.12 is an amount."""
_TIME = re.compile(r"[\d: -]*\d\d:\d\d")
_NUMBER = re.compile(r"[-+$€£]?(?:\d{1,6}(?:[.,]\d+)*)%?$")
_MEASURE = re.compile(r"\d+(?:[.-]\d+)?[- ]?[A-Za-z]{1,10}(?: [A-Z]{2,4})?$")
_CODE = re.compile(r"[A-Z]{2,8}$")
_AFFIXES = re.compile(r"^(?:new|old|from|to)_|_?(?:ids?|number|no|code)$|s$")


def form_weight(text: str) -> float:
    """The weight of a value by its form alone."""
    has_digit = any(map(str.isdigit, text))
    if has_digit and _DATE.match(text):
        return NAME
    if has_digit and (_TIME.match(text) or _NUMBER.match(text)):
        return NUMBER
    if has_digit and _MEASURE.match(text):
        return WORD
    if " " in text:
        return PHRASE if has_digit else WORD
    if has_digit or any(sign in text for sign in "@/_"):
        return NAME
    return PHRASE if _CODE.match(text) else WORD


@lru_cache(CACHED_TEXTS)
def words(text: str) -> frozenset[str]:
    """The words of a text in small letters, without the signs around them."""
    found = _WORDS.findall(text[:SPOKEN_CHARACTERS])
    return frozenset(word.strip(".:!?#").lower() for word in found)


def names_of(text: str) -> frozenset[str]:
    """The ids, dates and amounts in a text."""
    return frozenset(
        word for word in words(text) if any(map(str.isdigit, word)) and len(word) > 1
    )


class Uses:
    """Where people, the model and calls used each word last."""

    def __init__(self) -> None:
        """Start before the first entry."""
        self.last: dict[str, int] = {}
        """Indices of entries, by words in small letters."""
        self.arguments: dict[str, set[str]] = {}
        """Stems of the names of arguments, by tool."""

    def add_entry(self, entry: Entry, index: int) -> None:
        """Add the words of a message."""
        if entry.role == "user" or entry.is_answer:
            for word in words(entry.content):
                self._add(word, index)

    def add_argument(self, tool: str, name: str, text: str, index: int) -> None:
        """Add an argument of a call."""
        self.arguments.setdefault(tool, set()).add(stem(name))
        self._add(text.strip("#").lower(), index)

    def _add(self, word: str, index: int) -> None:
        self.last[word] = max(index, self.last.get(word, 0))


@dataclass(frozen=True, slots=True)
class Taken:
    """What the tools of a chat take: names of arguments, nested ones included."""

    by_actions: frozenset[str] = frozenset()
    """By tools that change something."""
    by_lookups: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()


class Weights:
    """What the conversation says about the importance of values."""

    def __init__(
        self,
        length: int,
        uses: Uses,
        taken: Taken | None = None,
        waiting: Collection[int] = (),
        questions: Sequence[str] = (),
    ) -> None:
        """Weigh by the uses in a conversation of `length` entries.

        `taken` is None while no tools are known; `waiting` are the indices of results
        on which one of the `questions` waits.
        """
        self._length = max(length, 1)
        self._are_tools_known = taken is not None
        taken = taken or Taken()
        actions = set(map(stem, taken.by_actions))
        lookups = set(map(stem, taken.by_lookups))
        for tool, stems in uses.arguments.items():
            if tool not in taken.tools:
                (actions if acts(tool) else lookups).update(stems)
        is_certain = self._are_tools_known and actions
        self._needed = actions if is_certain else actions | lookups
        self._looked_up = lookups
        self._last_used = uses.last
        self._waiting = waiting
        self._questions = [text.lower() for text in questions]
        acting = (snake(tool).split("_") for tool in taken.tools if acts(tool))
        self._action_words = {
            word for name in acting for word in name if len(word) >= LEAST_ACTION_WORD
        }

    def weight(self, name: str, text: str) -> float:
        """The weight of a value in a field of this name."""
        weight = form_weight(text)
        own = snake(name.rpartition(".")[2])
        if weight == NUMBER and _POSTAL_CODE.fullmatch(own):
            weight = NAME
        if _AUDIT_FIELD.fullmatch(own):
            weight *= AUDIT
        weight *= self._need(name, is_name=weight >= NAME)
        return weight * (SPOKEN if weight >= PHRASE and self.is_used(text) else 1)

    def _need(self, name: str, *, is_name: bool) -> float:
        """How much more a field's value counts for what tools take."""
        own = stem(name)
        is_id = _is_id(name)
        if own in self._needed or (is_id and not self._are_tools_known):
            return NEEDED if is_name else SPOKEN
        return UNTAKEN if is_id and own not in self._looked_up else 1

    def is_used(self, text: str) -> bool:
        """Whether a person, the model or a call has used a value."""
        return text.strip("#").lower() in self._last_used

    def is_for_lookups(self, name: str) -> bool:
        """Whether only tools that look something up take the id in a field."""
        own = stem(name)
        is_taken = own in self._looked_up and own not in self._needed
        return self._are_tools_known and is_taken and _is_id(name)

    def names_action(self, text: str) -> bool:
        """Whether an action is for this value: `pending` for `modify_pending_order`."""
        return text.lower() in self._action_words

    def is_in_question(self, name: str) -> bool:
        """Whether a question that waits for an answer names a thing.

        "W-1" is not named by "W-188"; "E-Reader" is by "e-readers".
        """
        return any(_names(text, name) for text in self._questions)

    def is_described(self, values: Collection[str]) -> bool:
        """Whether one such question has all these values."""
        return any(
            all(_names(text, each) for each in values) for text in self._questions
        )

    def waits(self, index: int) -> bool:
        """Whether a question waits on the result at an index."""
        return index in self._waiting

    def freshness(self, text: str, index: int) -> float:
        """How likely a value is needed that was last used, or returned at `index`.

        1 is now; it declines with a power of the age, fast at first, then slowly. What
        waits for an answer does not age.
        """
        used = self._last_used.get(text.strip("#").lower(), 0)
        age = self._length - 1 - max(used, index)
        fresh = float((1 + age / RECENT) ** -DECAY)
        return max(fresh, WAITING) if self.waits(index) else fresh


def _names(text: str, name: str) -> bool:
    own = name.lower()
    if own not in text:  # most are not, and a search takes longer
        return False
    beside = r"[\da-z]" if len(own) <= SHORT_WORD and own.isascii() else r"\d"
    return re.search(rf"(?<!{beside}){re.escape(own)}s?(?!{beside})", text) is not None


@lru_cache(CACHED_NAMES)
def stem(name: str) -> str:
    """A field's name without what differs between tools: `new_item_ids`, `item`."""
    own = snake(name.rpartition(".")[2])
    for _ in range(3):
        own = _AFFIXES.sub("", own) or own
    return own


def _is_id(name: str) -> bool:
    return stem(name) != snake(name.rpartition(".")[2]).rstrip("s")
