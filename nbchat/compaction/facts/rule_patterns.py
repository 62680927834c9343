"""Tell rules, decisions and withdrawals from other sentences.

Whether a sentence states something to keep is what `rule_model` scores. Whether that
decides, or ends something said earlier, depends on its form: `languages/*.toml` lists
regular expressions of each language for a sentence in lower case without quoted
passages. They name forms of speech, not topics.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal

from nbchat.compaction.facts.rule_model import rule_score
from nbchat.compaction.facts.sentence_forms import (
    SPOKEN_IN_LATIN,
    any_of,
    plain,
    words_of,
)

CACHED_SENTENCES = 300
"""Sentences whose readings are kept, for each is read for several purposes."""

Kind = Literal["rule", "preference", "decision"]

SCRIPTS = (
    (re.compile("[\u3040-\u30ff]"), "japanese"),
    (re.compile("[\u4e00-\u9fff]"), "chinese"),
    (re.compile("[\uac00-\ud7af]"), "korean"),
    (re.compile("[\u0400-\u04ff]"), "russian"),
    (re.compile("[\u0600-\u06ff]"), "arabic"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
)
"""Characters that tell a language; Han characters are Japanese beside kana."""


_QUESTION = re.compile(r"[?\uff1f\u061f]\W*$")
_LATIN = re.compile(r"[a-z\u00df-\u024f]{2,}")

LIKELY = -1.0
"""Score of a sentence in the form of a decision or a rule from which it is taken for
one."""


@dataclass(frozen=True, slots=True)
class _Forms:
    """The compiled forms of one language."""

    decision: re.Pattern[str]
    clear: re.Pattern[str]
    """Rules that say what they are, as in "never do", "must not" and "Constraint:"."""
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


def _kind(text: str, forms: Sequence[_Forms]) -> Kind | None:
    score = rule_score(text)
    if score > LIKELY and any(each.decision.search(text) for each in forms):
        return "decision"
    is_likely = score > LIKELY and not _QUESTION.search(text)
    is_clear = is_likely and any(each.clear.search(text) for each in forms)
    return "rule" if score > 0 or is_clear else None


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
    return _Forms(*(any_of(said.get(each.name, ())) for each in fields(_Forms)))
