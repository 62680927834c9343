"""Every message of the person, word for word: where definitions and decisions are.

    - (assistant: Shall I drop the 14 rows without a region?) Yes, and tell me which.
    - From now on use the median, not the mean.
    - Look at this log. [pasted, 41,200 characters: 2026-11-29 10:00 start ...; 12]

No message is judged. Where not all fit, long ones are cut to their first words, then
the first and the newest stay.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from nbchat.compaction.memory.lines import Line
from nbchat.compaction.shortening import within
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import parts_of

SHORT_WORDS = 40
"""A message of fewer words may answer a question, so the question stands before it."""

QUESTION_CHARACTERS = 200
"""Of the last line of the assistant's message before a short one: two lines of a
screen."""

LONG_WORDS, FIRST_WORDS = 400, 30
"""A message of more words is a document: its first lines stand for it. Where not all
fit, others are cut to as many words as two sentences have."""

PASTED_CHARACTERS = 200
"""Of a pasted part."""

FIRST_SHARE = 0.25
"""Share of the space for the first messages, which say what the work is about, where
not all fit."""

DROPPED = " (The user says: no longer a rule.)"


class Words:
    """Reads the messages of the person."""

    def __init__(self) -> None:
        """Start with no message read."""
        self._messages: list[tuple[int, Entry, str]] = []
        self._question = ""

    def read(self, entry: Entry, position: int) -> None:
        """Read the next entry of the transcript."""
        if entry.is_answer:
            self._question = last_line(entry.content)
        elif entry.is_rules:
            return  # they stand in a part of their own
        elif entry.is_of_user and (entry.content.strip() or entry.is_attachment):
            self._messages.append((position, entry, self._question))
            if entry.is_prompt:
                self._question = ""

    def lines(
        self,
        budget_tokens: int,
        count: Callable[[str], int],
        *,
        dropped: Collection[str] = (),
    ) -> list[Line]:
        """The messages that fit a budget, each as whole as they do together.

        `dropped` are sentences that are no rules any more.
        """
        lines: list[Line] = []
        for most in (LONG_WORDS, FIRST_WORDS):
            lines = [
                Line(_marked(_shown(entry, position, most, before), dropped), position)
                for position, entry, before in self._messages
            ]
            if sum(count(line.text) + 1 for line in lines) <= budget_tokens:
                return lines
        return _ends(lines, budget_tokens, count)

    @property
    def positions(self) -> list[int]:
        """Where the messages are in the transcript."""
        return [position for position, _, _ in self._messages]


def last_line(text: str) -> str:
    """The last line of a text that has words, as far as it is shown."""
    lines = (" ".join(line.split()) for line in reversed(text.splitlines()[-20:]))
    found = next((line for line in lines if any(map(str.isalnum, line))), "")
    return found[-QUESTION_CHARACTERS:]


def _shown(entry: Entry, position: int, most_words: int, question: str) -> str:
    """A message as one line of the list; its own lines are indented below it."""
    if entry.is_attachment:
        return f"- [{entry.tool_name} {position}: {_one_line(entry.content)}]"
    text = "".join(_parts(entry, position)).strip()
    words = len(text.split())
    if words > most_words:
        text = f"{_first_words(text, most_words)} [... {words:,} words; {position}]"
    is_short = words < SHORT_WORDS
    before = f"(assistant: {question}) " if question and is_short else ""
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


def _first_words(text: str, most: int) -> str:
    """The first lines of a text, of at most so many words."""
    kept, left = list[str](), most
    for line in text.split("\n"):
        words = line.split(" ")
        kept.append(" ".join(words[:left]))
        left -= sum(map(bool, words))
        if left <= 0:
            break
    return "\n".join(kept)


def _marked(text: str, dropped: Collection[str]) -> str:
    plain = _one_line(text)
    is_dropped = any(_one_line(each) in plain for each in dropped)
    return text + DROPPED if is_dropped else text


def _ends(
    lines: Sequence[Line], budget_tokens: int, count: Callable[[str], int]
) -> list[Line]:
    """The first and the newest lines that fit."""

    def size(line: Line) -> int:
        return count(line.text) + 1

    first = within(lines, int(budget_tokens * FIRST_SHARE), size)
    left = budget_tokens - sum(map(size, first))
    newest = within(reversed(lines[len(first) :]), left, size)
    return [*first, *reversed(newest)]


def _one_line(text: str) -> str:
    return " ".join(text.split())
