"""Verify what summaries quote of people, in their own messages.

A summary is asked to quote rules, preferences and decisions, each on a line of its own.
What a person did not write is no rule of that person, whatever a model says.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from nbchat.compaction.facts.pasted_text import (
    READ_CHARACTERS,
    Passage,
    own_mask,
    passages,
)
from nbchat.compaction.facts.quotes import (
    LONGEST_LIST,
    SHORTEST,
    Quote,
    opening_line,
)
from nbchat.compaction.facts.rule_patterns import Kind, read
from nbchat.compaction.facts.sentence_forms import plain, words_of
from nbchat.compaction.summary_format import summary_text
from nbchat.conversation.entries import Compaction, Entry

_QUOTED_LINE = re.compile(
    r"^[ \t]*(?:[-*\u2022\u2023]|\d{1,3}[.)])?[ \t]*(?:[\w *]{1,30}[:\uff1a][ *]*)?"
    r"[\"'\u201c\u201e\u00ab\u300c\u300e\u2018](.{2,2000})"
    r"[\"'\u201c\u201d\u00bb\u300d\u300f\u2019](?:[ \t]*\([^()\n]{1,30}\))?[ \t.,;]*$",
    re.MULTILINE,
)
"""A quote as summaries are asked for it: a line of its own; a label may come before it,
and a remark in parentheses after it."""

_MARKS = frozenset(
    "\"'\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\u2018\u2019`*"
)


class SummaryQuotes:
    """The verified quotes of all summaries of a transcript that only grows.

    Each summary is read once, and each entry once for all that was quoted before it
    came; what no person had written when a summary quoted it is forgotten.
    """

    def __init__(self) -> None:
        """Start with no summary read."""
        self._records: dict[int, Compaction] = {}
        """The records whose summaries were read; held, so that their ids are unique."""
        self._words: dict[str, str] = {}
        """A word of each quote that was found, to look for first."""
        self._found: dict[str, Quote] = {}
        self._length = 0

    def of(
        self, records: Sequence[Compaction], entries: Sequence[Entry], summary: str = ""
    ) -> list[Quote]:
        """The quotes in the summaries of active records, and in one more summary.

        `entries` begin with those of the last call. Where a record is no longer active,
        all are read again.
        """
        active = {id(record): record for record in records}
        if not self._records.keys() <= active.keys() or len(entries) < self._length:
            self._records, self._words, self._found = {}, {}, {}
        else:
            self._found |= _newest(self._words, entries, self._length)
        self._length = len(entries)
        stories = [
            summary_text(record.summary)
            for key, record in active.items()
            if key not in self._records
        ]
        self._records = active
        words = _quoted_in("\n".join(stories))
        found = _newest(words, entries)
        self._words |= {bare: words[bare] for bare in found}
        self._found |= found
        return _sorted({**self._found, **_newest(_quoted_in(summary), entries)})


def verified_quotes(story: str, entries: Sequence[Entry]) -> list[Quote]:
    """The quotes in a summary that people did write, as the sentences they wrote.

    A summary quotes on lines of their own, in quotation marks. What does not occur in a
    person's own words is omitted, spaces, quotation marks and case aside. A quote of a
    part becomes the whole sentence: "deploy on Fridays" may be half of "never deploy on
    Fridays".
    """
    return _sorted(_newest(_quoted_in(story), entries))


def not_quoted(quotes: Sequence[Quote], story: str) -> list[Quote]:
    """The quotes that a summary does not hold as quotes, word for word."""
    said = [_bare(each) for each in _QUOTED_LINE.findall(story)]
    return [q for q in quotes if not any(_bare(q.text) in each for each in said)]


def _sorted(found: Mapping[str, Quote]) -> list[Quote]:
    """The quotes, each once, the oldest first."""
    return sorted(dict.fromkeys(found.values()), key=lambda quote: quote.index)


def _quoted_in(story: str) -> dict[str, str]:
    """The quotes of a summary without spaces and marks, each with its longest word."""
    lines = dict.fromkeys(_QUOTED_LINE.findall(story))
    wanted = {_bare(line): _longest_word(line) for line in lines}
    return {bare: word for bare, word in wanted.items() if len(bare) >= SHORTEST}


def _newest(
    wanted: Mapping[str, str], entries: Sequence[Entry], start: int = 0
) -> dict[str, Quote]:
    """The quotes that are in messages from an index on; of equal ones the newest."""
    found: dict[str, Quote] = {}
    for index in range(len(entries) - 1, start - 1, -1):
        missing = [each for each in wanted if each not in found]
        if not missing:
            break
        if entries[index].is_prompt:
            text = entries[index].content.lower()
            likely = [each for each in missing if wanted[each] in text]
            found.update(_quotes_in(entries[index], index, likely))
    return found


def _longest_word(line: str) -> str:
    """A word to look for first, which is quicker than a comparison."""
    return max(words_of(plain(line)), key=len, default="")


def _quotes_in(
    entry: Entry, index: int, wanted: Sequence[str]
) -> Iterator[tuple[str, Quote]]:
    """The wanted quotes that are in a message, with their whole sentences."""
    content, pasted = entry.content, entry.pasted
    own_text = _bare(own_mask(content[:READ_CHARACTERS], pasted)) if wanted else ""
    wanted = [each for each in wanted if each in own_text]
    own = passages(content, pasted, whole=True) if wanted else []
    sentences = [(_bare(passage.mask), passage) for passage in own]
    for each in wanted:
        for said, passage in sentences:
            if each in said or (len(said) >= SHORTEST and said in each):
                if kind := _kind_of_quoted(passage):
                    text = passage.text[:LONGEST_LIST]
                    yield each, Quote(text, index, kind, opening_line(content, text))
                break


def _kind_of_quoted(passage: Passage) -> Kind | None:
    """What a summary says is in force; None for a question, which states nothing."""
    said = read(passage.mask)
    is_question = said.text.endswith(("?", "\uff1f", "\u061f"))
    return said.kind or (None if is_question else "preference")


def _bare(text: str) -> str:
    """A text in lower case without spaces, quotation marks and final stops."""
    return "".join(filter(_is_bare, plain(text))).strip(".,;:!")


def _is_bare(character: str) -> bool:
    return not character.isspace() and character not in _MARKS
