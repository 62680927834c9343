"""Tell rules, preferences, decisions and withdrawals from other sentences.

How they sound is data: `languages/*.toml` lists regular expressions of each language
for a sentence in lower case without quoted passages. They name forms of speech (a
negative imperative, "must", a limit), not topics.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal

HIDDEN = "\0"
"""In a mask, in place of each character that is not the person's own."""

CACHED_SENTENCES = 300
"""Sentences whose readings are kept, for each is read for several purposes."""

Kind = Literal["rule", "preference", "decision"]

START = (
    r"(?:^|[,;:(–—-]\s*|\b(?:please|and|but|so|then|just|absolutely|also|ok|okay|again"
    r"|yes|actually|instead|really|though|that|you|bitte|por favor|und|aber|et|mais"
    r"|y|pero|e|mas|и|но|пожалуйста),?\s)"
)
"""Where a clause may begin; `@start@` in the languages' files."""

SCRIPTS = (
    (re.compile("[\u3040-\u30ff]"), "japanese"),
    (re.compile("[\u4e00-\u9fff]"), "chinese"),
    (re.compile("[\uac00-\ud7af]"), "korean"),
    (re.compile("[\u0400-\u04ff]"), "russian"),
    (re.compile("[\u0600-\u06ff]"), "arabic"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
)
"""Characters that tell a language; Han characters are Japanese beside kana."""

SPOKEN_IN_LATIN = (
    "english",
    "german",
    "french",
    "spanish",
    "portuguese",
    "italian",
)

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LATIN = re.compile(r"[a-z\u00df-\u024f]{2,}")
_NAME = re.compile(r"@(\w+)@")
_QUESTION = re.compile(r"[?\uff1f\u061f][\"'\u00bb\u201d\u300d)]*\s*\Z")
_REQUEST = re.compile(
    r"\b(?:can|could|would|will) you (?:please |kindly )?(?:stop|avoid|always|never"
    r"|only|not\b|keep .*\b(?:short|brief|simple|under|in|to)|stick|refrain|leave out"
    r"|skip)|\bwould you mind not\b|\bfrom now on\b"
    r"|\b(?:kannst|könntest) du (?:bitte )?(?:aufhören|immer|nur|keine?|nicht)\b"
)
"""Questions that are requests."""


@dataclass(frozen=True, slots=True)
class _Forms:
    """The compiled forms of one language."""

    certain: re.Pattern[str]
    """Rules, whatever else the sentence looks like."""
    rule: re.Pattern[str]
    preference: re.Pattern[str]
    decision: re.Pattern[str]
    none: re.Pattern[str]
    """Questions, reports, narration and idioms, which ask for nothing."""
    withdrawal: re.Pattern[str]
    """Something said earlier does not hold any more."""
    change: re.Pattern[str]
    """What is said replaces something said earlier."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a sentence says, as far as its form tells."""

    text: str
    """The sentence as `plain` gives it."""
    kind: Kind | None
    """What it states, if it states a rule, a preference or a decision."""
    is_withdrawal: bool
    """Something said earlier does not hold any more."""
    is_change: bool
    """What it says replaces something said earlier."""


@lru_cache(CACHED_SENTENCES)
def read(sentence: str) -> Reading:
    """Read a sentence, or its mask, by the forms of its language."""
    text = plain(sentence)
    forms = _forms_for(text)
    return Reading(
        text,
        _kind(text, forms),
        any(each.withdrawal.search(text) for each in forms),
        any(each.change.search(text) for each in forms),
    )


def plain(sentence: str) -> str:
    """A sentence in lower case, with plain apostrophes, without hidden characters."""
    text = unicodedata.normalize("NFC", sentence.replace("\u2019", "'"))
    return text.lower().replace(HIDDEN, "")


def words_of(text: str) -> set[str]:
    """The words of a plain text."""
    return set(_WORD.findall(text))


def _kind(text: str, forms: Sequence[_Forms]) -> Kind | None:
    if _QUESTION.search(text):
        return "rule" if _REQUEST.search(text) else None
    if any(each.certain.search(text) for each in forms):
        return "rule"
    if any(each.none.search(text) for each in forms):
        return None
    return next(filter(None, (_stated(text, each) for each in forms)), None)


def _stated(text: str, forms: _Forms) -> Kind | None:
    if forms.decision.search(text):
        return "decision"
    if forms.rule.search(text):
        return "rule"
    return "preference" if forms.preference.search(text) else None


def _forms_for(text: str) -> list[_Forms]:
    """The forms of the languages a text may be in."""
    found = [] if text.isascii() else _by_script(text)
    if _LATIN.search(text):
        words = words_of(text)
        counts = [len(words & _frequent(each)) for each in SPOKEN_IN_LATIN]
        most = max(counts)
        if most or not found:
            best = zip(SPOKEN_IN_LATIN, counts, strict=True)
            found += [language for language, count in best if count == most]
    return [_compiled(language) for language in found]


def _by_script(text: str) -> list[str]:
    found = [language for script, language in SCRIPTS if script.search(text)]
    if "japanese" in found and "chinese" in found:
        found.remove("chinese")
    return found


@cache
def _language(name: str) -> dict[str, Any]:
    """What the file of a language says."""
    folder = files("nbchat.compaction.facts") / "languages"
    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def _frequent(language: str) -> frozenset[str]:
    """Frequent words of a language, by which it is recognized."""
    return frozenset(_language(language)["words"].split())


@cache
def _compiled(language: str) -> _Forms:
    """Compiled at first use: that takes longer than all other imports."""
    said = _language(language)
    names = {**said.get("names", {}), "start": START}

    def pattern(form: str) -> re.Pattern[str]:
        return any_of(
            _NAME.sub(lambda at: names[at[1]], each) for each in said.get(form, ())
        )

    return _Forms(*(pattern(each.name) for each in fields(_Forms)))


def any_of(forms: Iterable[str]) -> re.Pattern[str]:
    """One pattern; what alternatives begin with is tried once for all of them."""
    groups: dict[str, list[str]] = {}
    for each in (alternative for form in forms for alternative in _split(form)):
        opening = next((o for o in (START, r"\b", "^") if each.startswith(o)), "")
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
