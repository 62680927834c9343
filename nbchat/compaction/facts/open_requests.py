"""Quote what is open, word for word: requests, and questions that wait for an answer.

Gaps are marked.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import sqrt

from nbchat.compaction.facts.open_questions import ASKS, SENTENCE_END, Matters
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

_NUMBERED = re.compile(r"\W*\d{1,2}[.)]\s")
"""A line of a list from which people choose by number."""


def open_matters(
    transcript: Sequence[Entry],
    stop: int,
    matters: Matters,
    budget_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """Lines that quote the last request and what waits for an answer, newest first.

    First each has a fair share, then the newest have what is left.
    """
    fitting = max(1, budget_tokens // AROUND_TOKENS)
    found = list(islice(_quoted_entries(transcript, stop, matters), fitting))
    sizes = [_size(transcript[index].content, counter) for _, index in found]
    is_tight = sum(sizes) > budget_tokens
    brief = [
        is_tight and title in (WAITING_TITLE, ANSWERED_TITLE) for title, _ in found
    ]
    most = [
        SHORTEST_QUOTE if each and not _has_id(transcript[index].content) else longest
        for each, (_, index), longest in zip(brief, found, sizes, strict=True)
    ]

    def quoted(number: int, limit: int) -> str:
        text = transcript[found[number][1]].content
        limit = min(QUOTE_TOKENS, most[number], limit)
        return quote(text, limit, counter, with_questions=not brief[number])

    quotes: list[str] = []
    left = budget_tokens
    for number, (title, _) in enumerate(found):
        share = max(SHORTEST_QUOTE, _fair_share(left, most[number:]))
        limit = min(share, left - counter.count(title))
        if title == OPEN_TITLE:
            limit = max(limit, SHORTEST_QUOTE)
        quotes.append(quoted(number, limit) if limit >= SHORTEST_QUOTE else "")
        left -= _cost(title, quotes[-1], counter)
    for number, (title, _) in enumerate(found):
        if (before := quotes[number]) and left > 0:
            left += _cost(title, before, counter)
            quotes[number] = quoted(number, left - counter.count(title))
            left -= _cost(title, quotes[number], counter)
    lines: list[tuple[str, str]] = []
    for (title, index), text in zip(found, quotes, strict=True):
        owner = matters.owner(index) if title == WAITING_TITLE else None
        lines.append((title, quote_line(text, _whose(owner, text)) if text else ""))
    return _titled(lines)


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
    text: str, limit_tokens: int, counter: TokenCounter, *, with_questions: bool = True
) -> str:
    """A text within a limit: the parts with most ids for their size, in order.

    Gaps are marked. Without questions, what only asks is left out of a text with ids,
    unless nothing else fits.
    """
    whole = " ".join(text.split())
    is_known = not with_questions and _has_id(text)
    if counter.count(whole) <= limit_tokens and not is_known:
        return whole
    parts = _quotable(text, limit_tokens // 2, counter)
    if is_known:
        parts = [each for part in parts for each in _without_its_question(part)]
    sizes = [counter.count(part) + MARK_TOKENS for part in parts]
    said = [-1 if is_known and _only_asks(part) else _worth(part) for part in parts]
    wanted = sum(size for size, each in zip(sizes, said, strict=True) if each >= 0)
    is_cut = wanted > limit_tokens and max(said, default=0) >= NAME
    worth = [each + n / len(parts) / 10 for n, each in enumerate(said)]
    order = sorted(range(len(parts)), key=lambda n: -worth[n] / sqrt(sizes[n]))
    taken = set[int]()
    for least in (LEAST_WORTH if is_cut else 0, -1):
        left = limit_tokens
        for number in order:
            is_new = all(parts[number] != parts[each] for each in taken)
            if is_new and sizes[number] <= left and said[number] >= least:
                left -= sizes[number]
                taken.add(number)
        if taken:
            break
    shown: list[str] = []
    for number in sorted(taken):
        is_gap = bool(shown) and number - 1 not in taken
        shown.append((GAP if is_gap else " " if shown else "") + parts[number])
    return "".join(shown)


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
    return max(ids + bool(_NUMBERED.match(part)), asks)


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
