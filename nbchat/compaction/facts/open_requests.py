"""Quote what is open, word for word: requests, and questions that wait for an answer.

Gaps are marked.
"""

import re
from collections.abc import Iterator, Sequence

from nbchat.compaction.facts.open_questions import ASKS, SENTENCE_END, Matters
from nbchat.compaction.facts.records import Field
from nbchat.compaction.facts.value_ranking import form_weight, names_of
from nbchat.compaction.summary_format import GAP, QUOTE_TOKENS, quote_line
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import last_prompt
from nbchat.providers.tokens import TokenCounter

OPEN_TITLE = "Open request, word for word:"
ASKED_TITLE = "Last request, word for word:"
ANSWERED_TITLE = "Last answer, word for word:"
WAITING_TITLE = "May wait for an answer, word for word:"
WHOSE_TITLE = "May wait for an answer ({}), word for word:"
"""The same where a record says whose it is, such as `user_id: ann_lee_12`."""

CHOSEN_TITLE = "Said before that, word for word:"
"""What the same person chose, below the question."""

_PLAIN_ID = re.compile(r"[\w.@#+-]{1,40}")

MARK_TOKENS = 3
"""What `GAP` costs."""

QUESTION_WORTH = 0.5
"""Ids that a question is worth: the title already says that an answer is awaited."""

HEADING_TOKENS = 12
"""The longest heading that is quoted with the line below it."""

SHORTEST_QUOTE = 40
"""Tokens that a quote must be allowed; the open request always is."""

_NUMBERED = re.compile(r"\W*\d{1,2}[.)]\s")
"""A line of a list from which people choose by number."""


def open_matters(
    transcript: Sequence[Entry],
    stop: int,
    matters: Matters,
    budget_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """Lines that quote the last request and what waits for an answer, newest first."""
    lines: list[str] = []
    latest = ""
    left = budget_tokens
    quoted = list(_quoted_entries(transcript, stop, matters))
    text = ""
    for number, (title, index) in enumerate(quoted):
        if title == CHOSEN_TITLE and not text:
            continue  # it would stand below another question
        fair = max(SHORTEST_QUOTE, left // (len(quoted) - number))
        limit = min(QUOTE_TOKENS, fair, left - counter.count(title))
        if title == OPEN_TITLE:
            limit = max(limit, SHORTEST_QUOTE)
        is_worth = limit >= SHORTEST_QUOTE
        text = quote(transcript[index].content, limit, counter) if is_worth else ""
        if not text:
            continue
        added = ([] if title == latest else [title]) + [quote_line(text)]
        lines += added
        latest = title
        left -= counter.count("\n".join(added)) + 1
    return lines


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
        yield _waiting_title(matters.owner(index), transcript[index].content), index
        yield from _choice(matters, index, but=asked)


def _choice(
    matters: Matters, index: int, *, but: int | None
) -> Iterator[tuple[str, int]]:
    chosen = matters.choice_before(index)
    if chosen is not None and chosen != but:
        yield CHOSEN_TITLE, chosen


def _waiting_title(owner: Field | None, text: str) -> str:
    """The title, with the person where the text does not say who it is."""
    if owner is None or owner.text.lower().strip("#") in names_of(text):
        return WAITING_TITLE
    if not _PLAIN_ID.fullmatch(owner.text):
        return WAITING_TITLE
    return WHOSE_TITLE.format(f"{owner.name}: {owner.text}")


def quote(text: str, limit_tokens: int, counter: TokenCounter) -> str:
    """A text within a limit: the parts with most ids per token, in order.

    Gaps are marked.
    """
    whole = " ".join(text.split())
    if counter.count(whole) <= limit_tokens:
        return whole
    parts = _quotable(text, limit_tokens // 2, counter)
    sizes = [counter.count(part) + MARK_TOKENS for part in parts]
    worth = [_worth(part) + n / len(parts) / 10 for n, part in enumerate(parts)]
    left, taken = limit_tokens, set[int]()
    for number in sorted(range(len(parts)), key=lambda n: -worth[n] / sizes[n]):
        is_new = all(parts[number] != parts[each] for each in taken)
        if is_new and sizes[number] <= left:
            left -= sizes[number]
            taken.add(number)
    shown: list[str] = []
    for number in sorted(taken):
        is_gap = bool(shown) and number - 1 not in taken
        shown.append((GAP if is_gap else " " if shown else "") + parts[number])
    return "".join(shown)


def _worth(part: str) -> float:
    """What a line or sentence says: ids, the number of an option, a question."""
    ids = sum(map(form_weight, names_of(part)))
    asks = QUESTION_WORTH * bool(ASKS.search(part))
    return ids + bool(_NUMBERED.match(part)) + asks


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
