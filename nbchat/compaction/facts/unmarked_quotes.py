"""Find where a person shows another author's text without marking it.

"Is this spam?" before a paragraph points at it, "my boss wrote:" says whose it is, and
"Tweet:" names where it is from. These forms are data, in `unmarked_quotes.toml`. They
say what is true of the text, not how likely it is: a request that points at no text
("Can you fix the login?") introduces nothing, and what follows it is the person's own.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import regex

from nbchat.compaction.facts.rule_model import rule_score
from nbchat.compaction.facts.sentence_forms import SPOKEN_IN_LATIN, plain

LONGEST_LINE = 240
"""Characters of a line that introduces or asks; longer ones tell something."""

CACHED_LINES = 2_000
"""Lines of which it stays in memory whether they introduce a text or point at one."""

SEARCH_SECONDS = 0.02
"""For one pattern in one line; an ordinary line takes a thousandth of it."""

_NAME = re.compile(r"@(\w+)@")
_COLON = re.compile(r"[:\uff1a](?=\s|$|[^\x00-\x7f])|(?<=\D):(?=[^\s\d/])")
_HEADER = re.compile(
    r"\d{1,2}[:.]\d\d(?: ?[ap]\.?m\.?)?(?: ?\w{2,4})?[\])]?[:\uff1a]\s*$"
)
"""A line that ends with a clock time and a colon heads a message of a chat."""
_SENTENCES = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|(?<=[\u3002\uff01\uff1f])")
_INTERRUPTED = re.compile(
    r"\b(?:with|saying|says|said|that|is|was|reads|the|of|like|named|called|as|mit|dass|ist"
    r"|avec|dit|que|est|con|dice|diz|com|é|è|что)\s*$"
)
_POLITE = re.compile(
    r"^(?:please|pls|can (?:you|u)|could you|would you|what|how|why|who|should|is|are"
    r"|do|does|draft|write|suggest|tell|give|help|bitte|kannst|was|wie|warum|soll"
    r"|peux|pouvez|que|comment|puedes|qué|cómo|podes|pode|puoi|cosa|можешь|что|как)\b"
)


_AUTHORITY = re.compile(
    r"(?:legal|compliance|security|management|finance|the (?:client|team|board))\b"
)
"""Whose demands a person passes on as their own."""


class _Form:
    """A compiled form that a hostile line cannot hold up for long.

    Forms have repeated choices, for which some lines take time without end. A line
    that takes so long counts as matching: it is no rule of a person. Each alternative
    is a pattern of its own, which takes a third of the time of one for all.
    """

    def __init__(self, latin: list[str], other: list[str]) -> None:
        """`other` are forms of languages that are not written in ASCII at all."""
        self._latin = [regex.compile(form) for form in latin]
        self._all = [*self._latin, *(regex.compile(form) for form in other)]

    def search(self, text: str) -> bool:
        """Whether the form is anywhere in a text."""
        return _found((each.search for each in self._patterns(text)), text)

    def match(self, text: str) -> bool:
        """Whether a text begins with the form."""
        return _found((each.match for each in self._patterns(text)), text)

    def fullmatch(self, text: str) -> bool:
        """Whether a text is of the form."""
        return _found((each.fullmatch for each in self._patterns(text)), text)

    def _patterns(self, text: str) -> list[regex.Pattern[str]]:
        return self._latin if text.isascii() else self._all


def _found(finds: Iterable[Callable[..., object]], text: str) -> bool:
    try:
        return any(find(text, timeout=SEARCH_SECONDS) is not None for find in finds)
    except TimeoutError:
        return True


class _Forms(NamedTuple):
    """The compiled forms of all languages; a line is too short to tell its own."""

    shows: _Form
    says: _Form
    label: _Form
    open: _Form
    above: _Form
    tasks: _Form


def shown_from(line: str, *, is_apart: bool) -> int | None:
    """Where in a line, or at its end, another author's text begins.

    `is_apart` for the first line of a message, and for one before an empty line.
    """
    if len(line) > LONGEST_LINE and not _COLON.search(line[:LONGEST_LINE]):
        return None
    said = plain(line[:LONGEST_LINE])
    for colon in _COLON.finditer(said):
        if _is_introduction(
            said[: colon.start()], is_last=not said[colon.end() :].strip()
        ):
            return colon.end()
    if _HEADER.search(said):
        return len(line)
    is_short = len(line) <= LONGEST_LINE
    return len(line) if is_apart and is_short and _points_on(said) else None


def asks(line: str) -> bool:
    """Whether a line asks for something, so that no request must follow the text."""
    said = plain(line)
    return "?" in said or _forms().tasks.search(said)


def is_interrupted(line: str) -> bool:
    """Whether a line stops where its sentence needs more: "a note with"."""
    return _INTERRUPTED.search(plain(line)) is not None


def is_closing(paragraph: str) -> bool:
    """Whether a paragraph after a shown text asks something about it."""
    first = _SENTENCES.split(plain(paragraph.strip()), maxsplit=1)[0]
    is_short = len(paragraph) <= LONGEST_LINE
    return is_short and _POLITE.search(first) is not None and _is_request(first)


def points_back(paragraph: str) -> bool:
    """Whether a paragraph asks about the text above it."""
    is_short = len(paragraph) <= LONGEST_LINE
    return is_short and _forms().above.search(plain(paragraph))


def _is_request(sentence: str) -> bool:
    is_question = sentence.endswith(("?", "\uff1f"))
    return is_question or (
        _forms().tasks.search(sentence)
        or re.search(r"\b(?:draft|write|suggest|tell|reply|answer)\b", sentence)
        is not None
    )


@lru_cache(CACHED_LINES)
def _is_introduction(before: str, *, is_last: bool) -> bool:
    """Whether what is before a colon introduces another's words."""
    said = _SENTENCES.split(before.strip())[-1]
    forms = _forms()
    if forms.label.fullmatch(said):
        return True
    if forms.says.search(said):
        return _AUTHORITY.match(said) is None
    return forms.shows.search(said) or (is_last and _is_open(said))


@lru_cache(CACHED_LINES)
def _points_on(said: str) -> bool:
    """Whether a line without a colon points at the text that follows."""
    forms = _forms()
    sentences = _SENTENCES.split(said.strip())
    asked = [each for each in sentences if _begins_with_task(each)]
    if any(rule_score(each) > 0 for each in sentences if each not in asked):
        return False
    is_shown = any(forms.shows.search(each) for each in sentences)
    return is_shown or _is_open(said)


def _begins_with_task(sentence: str) -> bool:
    """Whether it asks for work on a text; in some languages the verb comes last."""
    tasks = _forms().tasks
    return tasks.match(sentence) or (not sentence.isascii() and tasks.search(sentence))


def _is_open(said: str) -> bool:
    return _forms().open.search(said)


@cache
def _forms() -> _Forms:
    path = files("nbchat.compaction.facts") / "unmarked_quotes.toml"
    languages = tomllib.loads(path.read_text(encoding="utf-8"))
    return _Forms(*(_form(languages, name) for name in _Forms._fields))


def _form(languages: dict[str, dict[str, str | list[str]]], name: str) -> _Form:
    latin: list[str] = []
    other: list[str] = []
    for language, forms in languages.items():
        found = latin if language in SPOKEN_IN_LATIN else other
        found += _expanded(forms, name)
    return _Form(latin, other)


def _expanded(language: dict[str, str | list[str]], name: str) -> Iterator[str]:
    """The patterns of a form, with the patterns that they name."""
    said = language.get(name, [])
    for each in [said] if isinstance(said, str) else said:
        pattern = each
        while _NAME.search(pattern):
            pattern = _NAME.sub(lambda at: str(language[at[1]]), pattern)
        yield pattern
