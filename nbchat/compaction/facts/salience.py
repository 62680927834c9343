"""How telling a value is: by its form, by what it is called, by who has used it.

The figures are judgement, not theory: they were set so that what later calls of real
conversations need comes first (`tests/benchmarks/retention.py`), and only their order
matters.
"""

import re
from collections.abc import Iterable, Sequence

from nbchat.compaction.facts.tool_results import Record, Value
from nbchat.conversation.entries import Entry

NAME = 1.0
"""A value that names one thing: an id, a number of seven digits, an address."""

CODE, DATE, PHRASE, ADDRESS, WORD, NUMBER, PROSE = 0.8, 1.2, 1.2, 0.6, 0.3, 0.12, 0.05
"""Codes in capitals; dates; phrases with a number in them, as a street; plain words;
amounts and counts; and whatever is too long for a value."""

ASKED, IDENTITY, LISTED, SPOKEN = 1.5, 1.3, 1.5, 1.4
"""How much more a value counts that is called as an argument of some tool is, whose
name says that it names a thing, or that people or calls have used."""

LONGEST = 60
"""Characters of a value; longer ones are prose."""

SPOKEN_CHARACTERS = 20_000
"""Of one message, those in which words are looked for."""

_WORDS = re.compile(r"[^\s,;()\[\]{}\"'<>|=`*]{1,80}")
_TIME = re.compile(r".*\d\d:\d\d")
_MEASURE = re.compile(r"\d+([.-]\d+)?[- ]?[A-Za-z]{1,10}( [A-Z]{2,4})?$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d$|\d{1,2}/\d{1,4}(/\d{2,4})?$")
_NUMBER = re.compile(r"[-+$€£]?(\d{1,4}|\d{1,6}([.,]\d+)+)%?$")
_FORMS = ((_DATE, DATE), (_TIME, NUMBER), (_NUMBER, NUMBER), (_MEASURE, WORD))
_CODE = re.compile(r"[A-Z]{2,8}$")
_AFFIXES = re.compile(r"^new_|(?:_id|_number|_code|_no)?s?$")


def words(text: str) -> set[str]:
    """The words of a text in small letters, without the signs around them."""
    found = _WORDS.findall(text[:SPOKEN_CHARACTERS])
    return {word.strip(".:!?#").lower() for word in found}


class Scale:
    """Weighs values by what a conversation has made of them."""

    def __init__(self, entries: Sequence[Entry], records: Iterable[Record]) -> None:
        """Look through what was said and asked, once."""
        self._arguments: set[str] = set()
        self.used: set[str] = set()
        """What calls were made with."""
        for record in records:
            for value in record.asked:
                self._arguments.add(_stem(value.key))
                self.used.add(value.text)
        self._spoken = set[str]().union(*map(words, _said(entries)))

    def weight(self, value: Value) -> float:
        """How much it matters to keep a value; more is more."""
        weight = form_weight(value.text)
        is_argument = _stem(value.key) in self._arguments
        if is_argument and weight > NUMBER:
            weight *= ASKED
        elif value.is_identity:
            weight *= IDENTITY
        if value.is_listed and weight >= CODE:
            weight *= LISTED
        return weight * (SPOKEN if self.is_spoken(value.text) else 1)

    def is_spoken(self, text: str) -> bool:
        """Whether a person, the model or a call has used a value."""
        return text in self.used or text.strip("#").lower() in self._spoken


def form_weight(text: str) -> float:
    """How likely a text of this form names a thing."""
    if len(text) > LONGEST:
        return PROSE
    has_digit = any(map(str.isdigit, text))
    if has_digit:
        for form, weight in _FORMS:
            if form.match(text):
                return weight
    if " " in text:
        return PHRASE if has_digit else WORD
    if "@" in text:
        return ADDRESS
    if has_digit or "/" in text:
        return NAME
    return CODE if _CODE.match(text) else WORD


def _said(entries: Sequence[Entry]) -> Iterable[str]:
    return (
        entry.content for entry in entries if entry.role == "user" or entry.is_answer
    )


def _stem(key: str) -> str:
    """A field's name without what changes from tool to tool: `new_item_ids`, `item`."""
    return _AFFIXES.sub("", _AFFIXES.sub("", key.lower(), count=1), count=1)
