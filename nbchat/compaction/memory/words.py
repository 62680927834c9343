"""The person's words: every message, word for word, and which of them are rules.

    - (assistant: Shall I drop the 14 rows without a region?) Yes, and tell me which.
    - From now on use the median, not the mean.
    - Look at this log. [pasted, 41,200 characters: 2026-11-29 10:00 start ...; 12]

No message is judged. Where not all fit, long ones are cut to their first words, then
the first and the newest stay.

A model says what is a rule, by quoting it; code looks for the quote in what the person
typed. What the person did not type is no rule. A rule ends where a summary
has the line `ended: "..."`, where the person drops it, or by undo.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from nbchat.compaction.memory.lines import Line
from nbchat.compaction.shortening import within
from nbchat.conversation.entries import Entry, MemoryLine, Rule
from nbchat.conversation.pastes import SENTENCE_END, parts_of, typed_text

SHORT_WORDS = 40
"""A message of fewer words may answer a question, so the question stands before it."""

QUESTION_CHARACTERS = 200
"""Characters of the assistant's last line before a short message: two lines of a
screen."""

LENGTHS = ((400, 200), (200, 200), (100, 120), (60, 80), (30, 60), (30, 0))
"""Words that are kept of a message, and characters of the line before it, tried until
all messages fit. One of more words than the first is a document, and the last are two
sentences."""

ONLY_QUESTIONS = 60
"""Words kept of a message from which on only lines with a question mark stand before
messages: "Here it is." before each would take a fifth of the space."""

TAIL_SHARE, LEAST_TAIL = 1 / 3, 60
"""Share of a cut message that is its end, where a long task has its question; and the
words of a cut from which an end is kept."""

PASTED_CHARACTERS = 200
"""Characters of a pasted part."""

FIRST_SHARE = 0.25
"""Share of the space for the first messages, which say what the work is about, where
not all fit."""

FENCE = "```"
"""Begins and ends code in Markdown."""

DROPPED = " (The user says: no longer a rule.)"

_WORD = re.compile(r"\S+")
_QUESTION = re.compile("[?\uff1f\u061f]")

_Lengths = tuple[int, int]


@dataclass(frozen=True)
class _Message:
    """A message of the person, and what it may answer."""

    position: int
    entry: Entry
    question: str

    @cached_property
    def text(self) -> str:
        """What was typed, and the beginnings of what was pasted."""
        return "".join(_parts(self.entry, self.position)).strip()

    @cached_property
    def words(self) -> int:
        """How many words the text has."""
        return len(self.text.split())


class Words:
    """Reads the messages of the person."""

    def __init__(self) -> None:
        """Start with no message read."""
        self._messages: list[_Message] = []
        self._question = ""

    def read(self, entry: Entry, position: int) -> None:
        """Read the next entry of the transcript."""
        if entry.is_answer:
            self._question = last_line(entry.content)
        elif entry.is_rules:
            return  # they stand in a part of their own
        elif entry.is_of_user and (entry.content.strip() or entry.is_attachment):
            self._messages.append(_Message(position, entry, self._question))
            if entry.is_prompt:
                self._question = ""

    def lines(
        self,
        budget_tokens: int,
        count: Callable[[str], int],
        *,
        most_tokens: int | None = None,
        dropped: Collection[str] = (),
    ) -> list[Line]:
        """The messages that fit a budget, each as whole as they do together.

        Where they do not, though cut, they may take `most_tokens` before any is left
        out. `dropped` are sentences that are no rules any more.
        """

        def size(line: Line) -> int:
            return count(line.text) + 1

        def shown(messages: Iterable[_Message], lengths: _Lengths) -> Iterator[Line]:
            return (_line(each, lengths, dropped) for each in messages)

        messages, shortest = self._messages, LENGTHS[-1]
        for lengths in LENGTHS:
            lines = within(shown(messages, lengths), budget_tokens, size)
            if len(lines) == len(messages):
                return lines
        most = max(budget_tokens, most_tokens or 0)
        first = within(shown(messages, shortest), int(most * FIRST_SHARE), size)
        rest = shown(reversed(messages[len(first) :]), shortest)
        newest = within(rest, most - sum(map(size, first)), size)
        return [*first, *reversed(newest)]

    @property
    def positions(self) -> list[int]:
        """Where the messages are in the transcript."""
        return [message.position for message in self._messages]


def last_line(text: str) -> str:
    """The last line of a text that has words and isn't code, as far as it is shown."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    is_code = sum(line.startswith(FENCE) for line in lines) % 2 == 1  # to the end
    for line in reversed(lines):
        if line.startswith(FENCE):
            is_code = not is_code
        elif not is_code and any(map(str.isalnum, line)):
            return _end(line, QUESTION_CHARACTERS)
    return ""


def _end(text: str, most_characters: int) -> str:
    """The last words of a text, whole where it has spaces."""
    if len(text) <= most_characters or not most_characters:
        return text[:most_characters]
    cut = text[-most_characters:]
    return cut.partition(" ")[2] or cut


def _line(message: _Message, lengths: _Lengths, dropped: Collection[str]) -> Line:
    return Line(_marked(_shown(message, lengths), dropped), message.position)


def _shown(message: _Message, lengths: _Lengths) -> str:
    """A message as one line of the list; its own lines are indented below it."""
    entry, text, question = message.entry, message.text, message.question
    most_words, most_characters = lengths
    if entry.is_attachment:
        name = f"{entry.tool_name} {message.position}"
        return f"- [{name}: {_one_line(entry.content)}]"
    if message.words > most_words:
        gap = f" [... {message.words:,} words; {message.position}] "
        text = _cut(text, most_words, gap).strip()
    is_short = message.words < SHORT_WORDS
    is_needed = most_words > ONLY_QUESTIONS or _QUESTION.search(question)
    asked = _end(question, most_characters) if is_needed else ""
    before = f"(assistant: {asked}) " if asked and is_short else ""
    return "- " + f"{before}{text}".replace("\n", "\n  ")


def _parts(entry: Entry, position: int) -> Iterator[str]:
    parts = list(parts_of(entry))
    has_own = any(text.strip() for text, is_pasted in parts if not is_pasted)
    for text, is_pasted in parts:
        if not has_own:  # a ticket, for example: it is all that was asked
            yield text
        elif is_pasted and len(text) > PASTED_CHARACTERS:
            first = _one_line(text[:PASTED_CHARACTERS])
            yield f"[pasted, {len(text):,} characters: {first} ...; {position}]"
        elif is_pasted:
            yield f"[pasted: {_one_line(text)}]"
        else:
            yield text


def _cut(text: str, most: int, gap: str) -> str:
    """The first words of a text and, of a longer cut, the last ones."""
    words = list(_WORD.finditer(text))
    tail = int(most * TAIL_SHARE) if most >= LEAST_TAIL else 0
    end = text[words[-tail].start() :] if tail else ""
    return f"{text[: words[most - tail - 1].end()]}{gap}{end}"


def _marked(text: str, dropped: Collection[str]) -> str:
    if not dropped:
        return text
    plain = _one_line(text)
    is_dropped = any(_one_line(each) in plain for each in dropped)
    return text + DROPPED if is_dropped else text


def _one_line(text: str) -> str:
    return " ".join(text.split())


SHORTEST, LONGEST = 4, 2_000
"""Characters of a quote without spaces and marks that is looked for, and of the longest
that is kept: shorter ones are found by chance, longer ones are documents."""

_MARKS = "\"'\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\u2018\u2019`*"
QUOTED = re.compile(
    r"^[ \t]*(?:[-*\u2022\u2023]|\d{1,3}[.)])?[ \t]*"
    r"(?P<label>[\w *]{1,30}[:\uff1a][ *]*)?"
    r"[\"'\u201c\u201e\u00ab\u300c\u300e\u2018](?P<text>.{2,2000})"
    r"[\"'\u201c\u201d\u00bb\u300d\u300f\u2019]"
    r"(?:[ \t]*[(\[][^()\[\]\n]{1,30}[)\]])?[ \t.,;]*$",
    re.MULTILINE,
)
"""A quote on a line of its own, as summaries are asked for it; a label may stand before
it and a remark in brackets after it."""

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
    for match in QUOTED.finditer(summary):
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
