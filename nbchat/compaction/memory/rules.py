"""The rules in force: what a summary quotes of the person, found word for word.

A model says what is a rule, by quoting it; code looks for the quote in what the person
typed. What the person did not type is no rule. A rule ends where a summary
has the line `ended: "..."`, where the person drops it, or by undo.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from nbchat.conversation.entries import Entry, MemoryLine, Rule
from nbchat.conversation.pastes import SENTENCE_END, typed_text

SHORTEST, LONGEST = 4, 2_000
"""Characters of a quote without spaces and marks that is looked for, and of the longest
that is kept: shorter ones are found by chance, longer ones are documents."""

_MARKS = "\"'\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\u2018\u2019`*"
_QUOTED = re.compile(
    r"^[ \t]*(?:[-*\u2022\u2023]|\d{1,3}[.)])?[ \t]*"
    r"(?P<label>[\w *]{1,30}[:\uff1a][ *]*)?"
    r"[\"'\u201c\u201e\u00ab\u300c\u300e\u2018](?P<text>.{2,2000})"
    r"[\"'\u201c\u201d\u00bb\u300d\u300f\u2019](?:[ \t]*\([^()\n]{1,30}\))?[ \t.,;]*$",
    re.MULTILINE,
)
"""A quote on a line of its own, as summaries are asked for it; a label may stand before
it and a remark in parentheses after it."""

_ENDED = "ended"
_NOT_TYPED = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[^\n]*\n.*?(?:^[ \t]*(?P=fence)[ \t]*$|\Z)"
    r"|^[ \t]*>[^\n]*",
    re.MULTILINE | re.DOTALL,
)
"""Fenced blocks and quoted lines: a person shows them, and does not say them."""


def rules_in_force(
    before: Iterable[Rule],
    summary: str,
    entries: Sequence[Entry],
    dropped: Iterable[str] = (),
) -> list[Rule]:
    """The rules from before, less those that ended, and the new ones that are true.

    `entries` are all that the summary may quote.
    """
    quoted = list(_quotes(summary))
    ended = {bare for bare, label in quoted if label == _ENDED}
    gone = [*ended, *map(_bare, dropped)]
    found = {_bare(rule.text): rule for rule in before}
    wanted = (bare for bare, label in quoted if label != _ENDED)
    found |= _said([bare for bare in wanted if bare not in found], entries)
    kept = (r for bare, r in found.items() if not any(g in bare for g in gone if g))
    return sorted(kept, key=lambda rule: rule.position)


def rule_lines(rules: Iterable[Rule]) -> list[MemoryLine]:
    """The rules as lines that quote them."""
    return [
        MemoryLine("rules", f'- "{" ".join(rule.text.split())}"', rule.position)
        for rule in rules
    ]


def is_said(rule: Rule, entry: Entry) -> bool:
    """True if a message says a rule."""
    return entry.is_prompt and _bare(rule.text) in _bare(own_words(entry))


def own_words(entry: Entry) -> str:
    """The words that a person certainly typed, without quoted and fenced parts."""
    return _NOT_TYPED.sub("\n", typed_text(entry))


def _quotes(summary: str) -> Iterator[tuple[str, str]]:
    """The quotes of a summary without spaces and marks, each with its label."""
    for match in _QUOTED.finditer(summary):
        bare = _bare(match["text"])
        if len(bare) >= SHORTEST:
            yield bare, (match["label"] or "").strip(" *:\uff1a").lower()


def _said(wanted: Iterable[str], entries: Sequence[Entry]) -> dict[str, Rule]:
    """The wanted quotes that a person typed, each as the whole sentence of it.

    A part becomes the whole: "deploy on Fridays" may be half of "never deploy on
    Fridays".
    """
    found: dict[str, Rule] = {}
    missing = dict.fromkeys(wanted)
    for position in range(len(entries) - 1, -1, -1):
        if not missing:
            break
        if not entries[position].is_prompt:
            continue
        text = own_words(entries[position])
        whole = _bare(text)
        for bare in [each for each in missing if each in whole]:
            del missing[bare]
            sentence = _sentence_with(bare, text)
            found[_bare(sentence)] = Rule(sentence[:LONGEST], position)
    return found


def _sentence_with(bare: str, text: str) -> str:
    """The fewest sentences in a row of a text that hold a quote."""
    sentences = [each for each in SENTENCE_END.split(text) if each.strip()]
    sizes = [_bare(each, is_inner=True) for each in sentences]
    joined = "".join(sizes)
    start = joined.find(bare)
    if start < 0:
        return text.strip()
    stop, end, kept = start + len(bare), 0, list[str]()
    for sentence, size in zip(sentences, sizes, strict=True):
        begin, end = end, end + len(size)
        if begin < stop and end > start:
            kept.append(sentence.strip())
    return " ".join(kept)


def _bare(text: str, *, is_inner: bool = False) -> str:
    """A text in lower case without spaces, quotation marks and final stops."""
    plain = "".join(c for c in text.casefold() if not c.isspace() and c not in _MARKS)
    return plain if is_inner else plain.strip(".,;:!")
