"""Compare what a call asked for with the record that came back.

A record confirms a change by the values that were asked for, in any form, and denies it
by another value in the same field, by a smaller count, or by nothing where the thing
that was asked for should be.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbchat.compaction.facts.outcome_words import completed
from nbchat.compaction.facts.tool_names import (
    DONE_FORMS,
    fold,
    singular,
    snake,
    word_set,
)

MOST_VALUES, LONGEST_VALUE = 500, 200
"""Values of a result that are compared, and characters of one."""

CENTS = 100
"""Amounts are asked for in cents and answered in units, or the reverse."""

_ID = re.compile(r"(?:^|_)(?:ids?|number|no|key|uuid|sku|ref|code|user|from|name)$")
"""Ends of the names of arguments that say what is acted on, not what it becomes."""

_NAME = re.compile(r"(?:^|_)name$")
"""Those that are new values where something else is named first."""

_COUNT = re.compile(
    r"(?:.*_)?(?:copies|count|expected|items|n|num|number_of_\w+|qty|quantity"
    r"|rows|total)"
)
"""Names of arguments that say how many."""

TOTALS = word_set(
    """
    attempted expected found items matched matched_count received requested rows
    selected submitted total
    """
)
"""Fields that say how many there were."""

_NEW_VALUES = word_set(
    """
    actual applied current current_value level new_value setpoint target value
    """
)
"""Fields that say what a changed value is now."""

_ED = re.compile(r"[a-z]{3,}(?<!e)ed")
_NOT_DONE = word_set(
    """
    dropped failed feed ignored limited needed rejected required skipped speed
    unaffected unchanged unprocessed
    """
)
"""Fields that say what was not done."""

_NOW = word_set("actual current observed status")
"""Objects that hold what is true now, beside what shall be."""

_PHONE = re.compile(r"\+?[\d() /-]+")
LEAST_PHONE = 7
"""Digits of a phone number."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")

_ABOUT_CALL = word_set("code message mode result state status type")
"""Fields that often tell of the call, not of what was asked for."""

_DIGITS = re.compile(r"\d{1,9}")

_MEASURES = word_set(
    "bytes ms seconds minutes hours days tokens retries credits points"
)


@dataclass(frozen=True, slots=True)
class _Value:
    """A plain value of a result, and the last name on the way to it."""

    name: str
    text: str
    is_state: bool = False
    """Whether it is what is true now, beside what shall be."""


@dataclass(frozen=True)
class Asked:
    """The arguments of a call, by their names."""

    pairs: tuple[tuple[str, str], ...]

    @cached_property
    def plain(self) -> tuple[tuple[str, str], ...]:
        """The plain values, those of lists and objects included."""
        return tuple(
            found for name, text in self.pairs for found in _leaves(name, text)
        )

    @cached_property
    def texts(self) -> frozenset[str]:
        """The values as they were written."""
        own = (text for _, text in (*self.pairs, *self.plain))
        return frozenset(own)

    @cached_property
    def forms(self) -> frozenset[str]:
        """The values in the form in which they are compared."""
        return frozenset(_form(text) for _, text in self.plain)

    def is_asked(self, text: str) -> bool:
        """Whether a text is one of the values, in any form."""
        return _form(text) in self.forms

    @cached_property
    def counts(self) -> list[int]:
        """How many things the call was about, as its arguments say."""
        listed = Counter(name for name, _ in self.plain)
        named = [
            int(text)
            for name, text in self.plain
            if listed[name] == 1
            and _DIGITS.fullmatch(text)
            and (_COUNT.fullmatch(name) or _is_plural(name))
        ]
        return named or [count for count in listed.values() if count > 1]

    def is_repeated_in(
        self, answer: Any, things: Collection[str], *, has_subject: bool
    ) -> bool:
        """Whether a result holds a value that was asked for and names nothing.

        With `has_subject` the first of several arguments is what is acted on.
        `things` are the words of a tool that does not change values: what they name is
        what is acted on, as is the only argument in words.
        """
        changed = [e for e in self.plain if not _ID.search(e[0]) and e[0] not in things]
        if has_subject and len({name for name, _ in self.plain}) > 1:
            if not things:  # a tool that changes values
                changed += [each for each in self.plain if _NAME.search(each[0])]
            changed = [each for each in changed if each[0] != self.plain[0][0]]
        values = [text for _, text in self.plain]
        is_one = len(values) == 1 and not (_number(values[0]) or _DAY.match(values[0]))
        is_subject = is_one and bool(things)
        texts = [text for _, text in changed if not is_subject]
        texts += [text[:10] for text in texts if _DAY.match(text)]
        wanted = {_form(text) for text in texts}
        wanted -= {"true", "false", ""}
        found = [_form(each.text) for each in _values(answer)]
        return any(text in wanted for text in found) or any(
            len(text) > 1 and text in each.split(".")
            for text in wanted
            for each in found
        )

    def contradicted_in(self, answer: Any, things: Collection[str]) -> tuple[str, ...]:
        """The fields in which a result has another value than was asked for.

        `things` are what the tool's name says that is changed.
        """
        values = _values(answer)
        changed = [each for each in self.plain if not _ID.search(each[0])]
        numbers = [text for _, text in changed if _number(text) is not None]
        names = _NEW_VALUES.union(things)
        now = [v for v in values if v.name in names and _number(v.text) is not None]
        if len(numbers) == len(now) == 1 and not _agrees(numbers[0], now[0].text):
            return (now[0].name,)
        wanted: dict[str, list[str]] = {}
        for name, text in changed:
            if name not in _ABOUT_CALL:
                wanted.setdefault(name, []).append(text)
        return tuple(n for n, texts in wanted.items() if _is_denied(n, texts, values))

    def is_partly_in(self, fields: Mapping[str, Any]) -> bool:
        """Whether an object counts less done than was asked for, or than there was."""
        found = {name: _count(value) for name, value in fields.items()}
        counts = {name: count for name, count in found.items() if count is not None}
        done = [count for name, count in counts.items() if is_done_name(name)]
        totals = [count for name, count in counts.items() if name in TOTALS]
        if not done:
            return False
        things = [n for name, n in counts.items() if _is_plural(name) and n not in done]
        others = [*totals, *(things if len(done) == 1 else [])]
        is_part = bool(others) and max(done) < max(others)
        is_short = len(self.counts) == 1 and sum(done) < self.counts[0]
        return is_part or is_short


def _is_denied(name: str, texts: Sequence[str], values: Sequence[_Value]) -> bool:
    """Whether the fields of one name have none of the values that were asked for."""
    same = [each for each in values if each.name == name]
    if not same:  # `delivery_date` of `date`
        same = [v for v in values if v.name.endswith(f"_{name}")]
        same = [each for each in same if not is_done_name(each.name)]
        same = same if len(same) == 1 else []
    now = [each for each in same if each.is_state]
    found = [each.text for each in now or same]
    return bool(found) and not any(_agrees(t, each) for t in texts for each in found)


def is_done_name(name: str) -> bool:
    """Whether a field's name says what was done: `moved`, `rows_updated`, `created`."""
    if name in TOTALS or name in _NOT_DONE:
        return False
    words = name.split("_")
    is_english = any(e in DONE_FORMS or _ED.fullmatch(e) for e in (words[0], words[-1]))
    return is_english or bool(completed(name) and len(words) == 1)


def _is_plural(name: str) -> bool:
    last = name.rpartition("_")[2]
    is_other = last in _MEASURES or last in DONE_FORMS
    return singular(last) != last and not is_other


def _count(value: Any) -> int | None:
    """A number of things, or of the items of a list."""
    if isinstance(value, list):
        return len(value)
    text = "" if isinstance(value, bool | dict) else str(value)
    return int(text) if _DIGITS.fullmatch(text) else None


def _values(answer: Any) -> list[_Value]:
    """The plain values of a result, nothing included."""
    found: list[_Value] = []
    waiting: list[tuple[str, Any, bool]] = [("", answer, False)]
    while waiting and len(found) < MOST_VALUES:
        name, value, is_state = waiting.pop()
        is_state = is_state or name in _NOW
        if isinstance(value, dict):
            waiting += [(snake(str(key)), e, is_state) for key, e in value.items()]
        elif isinstance(value, list) and value:
            waiting += [(name, each, is_state) for each in value[:MOST_VALUES]]
        elif len(str(value)) <= LONGEST_VALUE:
            text = "" if value is None or value == [] else str(value)
            found.append(_Value(name, text, is_state))
    return found


def _leaves(name: str, text: str) -> Iterator[tuple[str, str]]:
    own = snake(name.rpartition(".")[2])
    if text[:1] in ("[", "{"):
        try:
            found = [
                (each.name or own, each.text) for each in _values(json.loads(text))
            ]
        except (ValueError, RecursionError):
            found = []
        yield from found
        if found:
            return
    yield own, text


def _form(text: str) -> str:
    """A value without its case, signs between digits, and zeros after the point."""
    number = _number(text)
    if number is not None:
        return f"{number:g}"
    if _is_phone(text):
        return re.sub(r"\D", "", text)
    return re.sub(r"[\s_-]+", " ", fold(text)).strip()


def _number(text: str) -> float | None:
    is_number = re.fullmatch(r"-?\d{1,12}(?:\.\d{1,6})?", text.strip())
    return float(text) if is_number else None


def _is_phone(text: str) -> bool:
    is_long = len(re.sub(r"\D", "", text)) >= LEAST_PHONE
    return is_long and _PHONE.fullmatch(text) is not None and not _DAY.match(text)


def _agrees(asked: str, found: str) -> bool:
    """Whether a value can be the one that was asked for, in whatever form.

    Only another number and another word are certain to be another value.
    """
    one, other = _number(asked), _number(found)
    if one is not None and other is not None:
        return one == other or one * CENTS == other or one == other * CENTS
    if _DAY.match(asked) and _DAY.fullmatch(found):
        return asked[:10] == found[:10]
    if not found:
        return not asked
    first, second = _form(asked), _form(found)
    digits = [re.sub(r"\D", "", text) for text in (asked, found)]
    if _is_phone(asked) and _is_phone(found):
        return digits[0].endswith(digits[1]) or digits[1].endswith(digits[0])
    are_words = first.isalpha() and second.isalpha()
    return not are_words or first in second or second in first
