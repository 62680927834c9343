"""Sentences in the plain form in which rules are looked for, and forms to compare with.

A form is a regular expression; those of many languages become one pattern.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

HIDDEN = "\0"
"""In a mask, in place of each character that is not the person's own."""

SPOKEN_IN_LATIN = (
    "english",
    "german",
    "french",
    "spanish",
    "portuguese",
    "italian",
)

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def plain(sentence: str) -> str:
    """A sentence in lower case, with plain apostrophes, without hidden characters."""
    text = unicodedata.normalize("NFC", sentence.replace("\u2019", "'"))
    return text.lower().replace(HIDDEN, "")


def words_of(text: str) -> set[str]:
    """The words of a plain text."""
    return set(_WORD.findall(text))


def any_of(forms: Iterable[str]) -> re.Pattern[str]:
    """One pattern; what alternatives begin with is tried once for all of them."""
    groups: dict[str, list[str]] = {}
    for each in (alternative for form in forms for alternative in _split(form)):
        opening = next((o for o in (r"\b", "^") if each.startswith(o)), "")
        groups.setdefault(opening, []).append(each.removeprefix(opening))
    joined = (f"{opening}(?:{'|'.join(g)})" for opening, g in groups.items())
    return re.compile("|".join(joined) or r"(?!)")


def _split(form: str) -> Iterator[str]:
    """The alternatives of a form, at the bars that are in no brackets."""
    depth, begin = 0, 0
    for found in _SYNTAX.finditer(form):
        if found[0] == "|" and not depth:
            yield form[begin : found.start()]
            begin = found.end()
        depth += {"(": 1, ")": -1}.get(found[0], 0)
    yield form[begin:]


_SYNTAX = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)
"""What is escaped, a set of characters, or a sign that has a meaning."""
