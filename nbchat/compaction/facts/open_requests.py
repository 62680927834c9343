"""Quote what is open, word for word: requests, and questions that wait for an answer.

Gaps are marked.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from math import sqrt

from nbchat.compaction.facts.open_questions import (
    AGREES,
    ASKING_CHARACTERS,
    ASKS,
    SENTENCE_END,
    Matters,
)
from nbchat.compaction.facts.records import Field
from nbchat.compaction.facts.value_ranking import NAME, form_weight, names_of
from nbchat.compaction.summary_format import GAP, QUOTE_TOKENS, quote_line
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import last_prompt
from nbchat.providers.tokens import TokenCounter

OPEN_TITLE = "Open request:"
ASKED_TITLE = "Last request:"
ANSWERED_TITLE = "Last answer:"
WAITING_TITLE = "May wait for an answer:"
CHOSEN_TITLE = "Said before that:"
"""What the same person chose, below the question."""

_PLAIN_ID = re.compile(r"[\w.@#+-]{1,40}")

MARK_TOKENS = 3
"""What `GAP` costs."""

QUESTION_WORTH, LEAST_WORTH = 0.5, 0.5
"""Ids that a question is worth, and that a part of a message must be worth beside one
with an id: the title already says that an answer is awaited."""

HEADING_TOKENS = 12
"""The longest heading that is quoted with the line below it."""

SHORTEST_QUOTE = 40
"""Tokens that a quote must be allowed; the open request always is."""

AROUND_TOKENS = 8
"""Of the title and the marks around a quote."""

READ_CHARACTERS = 2_000
"""Characters of a message by which it is known whether it is short."""

_NUMBERED = re.compile(r"(?:[^\n]{0,80}:)?\W*\d{1,2}[.)]\s")
"""A point of a list, from which people choose by number; a heading may be before it."""

AGREED_WORTH = 3.0
"""Ids that each point is worth where a "yes" agrees to all; no part is worth more."""


def open_matters(
    transcript: Sequence[Entry],
    stop: int,
    matters: Matters,
    budget_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """Lines that quote the last request and what waits for an answer, newest first.

    Where not all fits, questions without ids of unknown people are omitted. First each
    has a fair share, of which a proposal then takes only its best parts. The best parts
    of all have what is left.
    """
    fitting = max(1, budget_tokens // AROUND_TOKENS)
    found = list(islice(_quoted_entries(transcript, stop, matters), fitting))
    sizes = [_size(transcript[index].content, counter) for _, index in found]
    is_tight = sum(sizes) > budget_tokens
    if is_tight:
        found = list(_named(found, matters))
        sizes = [_size(transcript[index].content, counter) for _, index in found]
    quotations: list[Quotation] = []
    left = budget_tokens
    for number, (title, index) in enumerate(found):
        text = transcript[index].content
        is_brief = is_tight and title in (WAITING_TITLE, ANSWERED_TITLE)
        most = sizes[number]
        if is_brief and not _has_id(text):
            most = SHORTEST_QUOTE
        each = Quotation(text, min(QUOTE_TOKENS, most), counter, is_brief=is_brief)
        share = max(SHORTEST_QUOTE, _fair_share(left, sizes[number:]))
        limit = min(share, left - counter.count(title))
        if title == OPEN_TITLE:
            limit = max(limit, SHORTEST_QUOTE)
        if limit >= SHORTEST_QUOTE:
            each.take(SHORTEST_QUOTE if is_brief else limit)
            if not each.text:
                each.take(limit)
        left -= _cost(title, each.text, counter)
        quotations.append(each)
    _extend(quotations, left)
    lines: list[tuple[str, str]] = []
    for (title, index), each in zip(found, quotations, strict=True):
        owner = matters.owner(index) if title == WAITING_TITLE else None
        text = each.text
        lines.append((title, quote_line(text, _whose(owner, text)) if text else ""))
    return _titled(lines)


def _named(
    found: Sequence[tuple[str, int]], matters: Matters
) -> Iterator[tuple[str, int]]:
    """All but questions of which neither they nor a choice says what they are about."""
    for (title, index), (following, _) in pairwise([*found, ("", -1)]):
        is_question = title == WAITING_TITLE and following != CHOSEN_TITLE
        if not is_question or matters.is_named(index):
            yield title, index


def _extend(quotations: Sequence["Quotation"], budget_tokens: int) -> None:
    """Add the parts with ids, or a number in a list, that are best for their size."""
    parts = (
        (-density, number, at, size)
        for number, each in enumerate(quotations)
        for density, at, size in each.more()
    )
    for _, number, at, size in sorted(parts):
        if size <= budget_tokens and quotations[number].add(at):
            budget_tokens -= size


def _has_id(text: str) -> bool:
    return any(form_weight(word) >= NAME for word in names_of(text))


def _cost(title: str, text: str, counter: TokenCounter) -> int:
    """Tokens of a quote below its title."""
    return counter.count(f"{title}\n{quote_line(text)}") + 1 if text else 0


def _titled(quotes: Iterable[tuple[str, str]]) -> list[str]:
    """The quotes below their titles; no choice without the question it is about."""
    lines: list[str] = []
    latest, before = "", ""
    for title, line in quotes:
        if line and (before or title != CHOSEN_TITLE):
            lines += [line] if title == latest else [title, line]
            latest = title
        before = line
    return lines


def _size(text: str, counter: TokenCounter) -> int:
    """Tokens that a quote of a text may take, with what stands around it."""
    whole = " ".join(text[:READ_CHARACTERS].split())
    return min(QUOTE_TOKENS, counter.count(whole)) + AROUND_TOKENS


def _fair_share(budget_tokens: int, wanted: Iterable[int]) -> int:
    """The most that each may take: what short ones leave goes to the long ones."""
    sizes = sorted(wanted)
    for number, size in enumerate(sizes):
        share = budget_tokens // (len(sizes) - number)
        if size > share:
            return share - AROUND_TOKENS
        budget_tokens -= size
    return QUOTE_TOKENS


def _quoted_entries(
    transcript: Sequence[Entry], stop: int, matters: Matters
) -> Iterator[tuple[str, int]]:
    asked = last_prompt(transcript)
    if asked is not None and asked < stop:
        is_open = transcript[-1].role == "tool"
        yield (OPEN_TITLE if is_open else ASKED_TITLE), asked
        answers = [n for n in range(asked, stop) if transcript[n].is_answer]
        answer = next((n for n in reversed(answers) if transcript[n].content), None)
        if answer is not None:
            yield ANSWERED_TITLE, answer
            yield from _choice(matters, answer, but=asked)
    for index in matters.waiting:
        yield WAITING_TITLE, index
        yield from _choice(matters, index, but=asked)


def _choice(
    matters: Matters, index: int, *, but: int | None
) -> Iterator[tuple[str, int]]:
    chosen = matters.choice_before(index)
    if chosen is not None and chosen != but:
        yield CHOSEN_TITLE, chosen


def _whose(owner: Field | None, text: str) -> str:
    """The person a message was written to, where its text does not say who it is."""
    if owner is None or owner.text.lower().strip("#") in names_of(text):
        return ""
    is_plain = _PLAIN_ID.fullmatch(owner.text)
    return f"{owner.name}: {owner.text}" if is_plain else ""


def quote(
    text: str, limit_tokens: int, counter: TokenCounter, *, is_brief: bool = False
) -> str:
    """A text within a limit: the whole, or its best parts."""
    found = Quotation(text, limit_tokens, counter, is_brief=is_brief)
    found.take(limit_tokens)
    return found.text


class Quotation:
    """A message that is quoted by the parts with most ids for their size, in order.

    Gaps are marked. Where it is brief, what only asks is omitted from a text with ids,
    unless nothing else fits.
    """

    def __init__(
        self, text: str, longest: int, counter: TokenCounter, *, is_brief: bool = False
    ) -> None:
        """Split a text into lines; those of over half of `longest` into sentences."""
        self._whole = " ".join(text.split())
        self._whole_size = counter.count(self._whole)
        self._is_whole = False
        self._has_gaps = is_brief and _has_id(text)
        self._longest = longest
        parts = _quotable(text, longest // 2, counter)
        if self._has_gaps:
            parts = [each for part in parts for each in _without_its_question(part)]
        self._parts = parts
        is_agreed = AGREES.search(text[-ASKING_CHARACTERS:]) is not None
        sizes = {part: counter.count(part) + MARK_TOKENS for part in set(parts)}
        worth = {part: self._worth_of(part, is_agreed=is_agreed) for part in sizes}
        self._sizes = [sizes[part] for part in parts]
        self._worth = [worth[part] for part in parts]
        self._taken: set[int] = set()

    def _worth_of(self, part: str, *, is_agreed: bool) -> float:
        if self._has_gaps and _only_asks(part):
            return -1
        if is_agreed and (_is_point(part) or _has_id(part)):
            return AGREED_WORTH
        return min(_worth(part), AGREED_WORTH)

    @property
    def text(self) -> str:
        """The parts that were taken; empty where none fitted."""
        if self._is_whole:
            return self._whole
        shown: list[str] = []
        for number in sorted(self._taken):
            is_gap = bool(shown) and number - 1 not in self._taken
            shown.append(
                (GAP if is_gap else " " if shown else "") + self._parts[number]
            )
        return "".join(shown)

    def take(self, limit_tokens: int) -> None:
        """Take the whole, or the best parts, within a limit."""
        limit_tokens = min(limit_tokens, self._longest)
        if self._whole_size <= limit_tokens and not self._has_gaps:
            self._is_whole = True
            return
        sized = zip(self._sizes, self._worth, strict=True)
        wanted = sum(size for size, worth in sized if worth >= 0)
        is_cut = wanted > limit_tokens and max(self._worth, default=0) >= NAME
        for least in (LEAST_WORTH if is_cut else 0, -1):
            left = limit_tokens
            for _, number, size in self._best(least):
                if size <= left and self.add(number):
                    left -= size
            if self._taken:
                break

    def more(self) -> list[tuple[float, int, int]]:
        """Parts besides those taken that have ids: worth for the size, number, size."""
        return self._best(NAME) if self._taken else []

    def add(self, number: int) -> bool:
        """Take a part; False where an equal one is taken."""
        is_new = all(self._parts[number] != self._parts[each] for each in self._taken)
        self._taken |= {number} if is_new else set()
        return is_new

    def _best(self, least: float) -> list[tuple[float, int, int]]:
        """Parts that are worth enough, the best for their size first.

        Of equal ones the later: a text mostly ends with what it proposes.
        """
        found = [
            ((worth + number / len(self._parts) / 10) / sqrt(size), number, size)
            for number, (size, worth) in enumerate(
                zip(self._sizes, self._worth, strict=True)
            )
            if worth >= least and number not in self._taken
        ]
        return sorted(found, key=lambda each: -each[0])


def _only_asks(part: str) -> bool:
    return bool(ASKS.search(part)) and not names_of(part)


def _without_its_question(line: str) -> list[str]:
    """A line, or its sentences where one of them only asks."""
    sentences = SENTENCE_END.split(line)
    has_question = any(map(_only_asks, sentences))
    return list(filter(None, sentences)) if has_question else [line]


def _worth(part: str) -> float:
    """What a line or sentence says: ids, the number of an option, a question."""
    ids = sum(map(form_weight, names_of(part)))
    asks = QUESTION_WORTH * bool(ASKS.search(part))
    return max(ids + _is_point(part), asks)


def _is_point(part: str) -> bool:
    return _NUMBERED.match(part) is not None


def _quotable(text: str, longest: int, counter: TokenCounter) -> list[str]:
    """The lines of a text; a short heading is one part with the line below it.

    A line of more than `longest` tokens is split into sentences.
    """
    parts: list[str] = []
    heading = ""
    for line in filter(str.strip, text.splitlines()):
        bare = " ".join([heading, *line.split()]).strip()
        heading = ""
        if bare.rstrip("*_").endswith(":") and counter.count(bare) <= HEADING_TOKENS:
            heading = bare
        elif counter.count(bare) > longest:
            parts += filter(None, SENTENCE_END.split(bare))
        else:
            parts.append(bare)
    return [*parts, heading] if heading else parts
