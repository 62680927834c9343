"""The answers and outputs of tools: the newest word for word, others by a line.

    assistant: The mean is 41.2, without the 14 rows that have no region.
    call run_cell: {"code": "df.groupby('region').value.mean()"}
    result: region ...

The person's messages stand in a part of their own. Under a policy with bullets that
part has one line for each exchange instead: what was asked, what was called, what the
answer says, in the conversation's own words.

    - What is the total compensation of Tim Cook? [lookup] → It was $63,209,845 in 2023.

Long questions keep their beginning and end, of long answers the sentence with the most
values that the question does not name is kept.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from nbchat.compaction.memory.lines import Line
from nbchat.compaction.shortening import shorten_to_tokens, within
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import turns

LEAST_TOKENS = 60
"""Tokens of a text that is worth showing in part: two or three lines."""

WHOLE_SHARE, LARGEST_SHARE = 0.5, 0.5
"""Share of the room for the newest, word for word, and of it for one text, so that one
output is not all there is. Earlier answers have the rest, by their first words."""

FIRST_CHARACTERS = 160
"""Characters of an earlier answer: its first two lines say what it is about."""

QUESTION_LENGTHS, ANSWER_LENGTHS = (80, 60, 40), (160, 120, 90)
"""Characters kept of a question and of its answer, tried until all lines fit. The
answer is what was found out, so a question is cut first, and the lines may take more
room before an answer is. Where even the last do not fit, the oldest lines are omitted:
each line has its answer."""

OFTEN = 3
"""Answers with one and the same sentence from which on it is a phrase and tells
nothing: "Gladly, I have looked it up for you." """

OLDER_LENGTH = 160
"""Characters of an answer before the exchanges with a line of their own."""

SENTENCE_ENDS = re.compile(
    r"(?<=[.!?])(?<!^\d\.)(?<!\n\d\.)(?<![:.] \d\.)\s+"  # not the number of an item
    r"|(?<=[。！？])|\n+"  # noqa: RUF001  # Chinese, Japanese
)

ITEM = re.compile(r"\d{1,2}[.)]")
"""The number of an item in a list, which is no value."""

SIGNS = " \t*_#>`|-•"
"""The signs that Markdown puts around a sentence."""

PUNCTUATION = ".,;:!?()\"'"

TAIL = 1 / 3
"""Part of a shortened question that is its end."""

BEFORE = 3
"""Words before the first value of a sentence that is too long."""


def newest_lines(
    entries: Sequence[Entry],
    budget_tokens: int,
    count: Callable[[str], int],
    *,
    has_answers: bool = True,
) -> list[Line]:
    """The newest entries but those of the person, oldest first, within a budget.

    Without the last answer of each exchange where each has a line that says it.
    """
    lines: list[Line] = []
    left = budget_tokens
    least = budget_tokens - int(budget_tokens * WHOLE_SHARE)
    position = len(entries)
    for position, text in _newest_first(entries, has_answers=has_answers):
        is_first = not lines
        most = left if is_first else min(left - least, int(left * LARGEST_SHARE))
        if most < LEAST_TOKENS:
            break
        shown = shorten_to_tokens(text, most - 1, count).replace("\n", "\n  ")
        size = count(shown) + 1
        if size > left:
            break
        left -= size
        lines.append(Line(shown, position))
    before = reversed(range(min(position + 1, len(entries))))
    answers = (at for at in before if has_answers or not _is_last(entries, at))
    return [*_beginnings(entries, answers, left, count, lines), *lines[::-1]]


def _beginnings(
    entries: Sequence[Entry],
    positions: Iterable[int],
    budget_tokens: int,
    count: Callable[[str], int],
    shown: Sequence[Line],
) -> list[Line]:
    """The first words of earlier answers, as many as fit, oldest first."""
    lines: list[Line] = []
    known = {line.position for line in shown}
    for position in positions:
        entry = entries[position]
        if position in known or not (entry.is_answer and entry.content.strip()):
            continue
        first = " ".join(entry.content[: 2 * FIRST_CHARACTERS].split())
        cut = "" if len(entry.content) <= FIRST_CHARACTERS else " ..."
        text = f"assistant: {first[:FIRST_CHARACTERS]}{cut}"
        budget_tokens -= count(text) + 1
        if budget_tokens < 0:
            break
        lines.append(Line(text, position))
    return lines[::-1]


def _is_last(entries: Sequence[Entry], position: int) -> bool:
    """True if an entry is the last of its exchange."""
    return all(entry.is_of_user for entry in entries[position + 1 : position + 2])


def _newest_first(
    entries: Sequence[Entry], *, has_answers: bool
) -> Iterator[tuple[int, str]]:
    for position in range(len(entries) - 1, -1, -1):
        entry = entries[position]
        if entry.is_call:
            yield position, f"call {entry.tool_name}: {entry.tool_args}"
        elif entry.is_answer and entry.content.strip():
            if has_answers:
                yield position, f"assistant: {entry.content.strip()}"
        elif entry.role == "tool":
            mark = "failed result" if entry.is_error else "result"
            yield position, f"{mark}: {entry.content.strip()}"


def exchange_lines(
    entries: Sequence[Entry],
    most: int,
    budget_tokens: int,
    count: Callable[[str], int],
    *,
    most_tokens: int = 0,
) -> list[Line]:
    """One line for each of the newest `most` exchanges; the newest are kept first.

    They may take `most_tokens`, if that is more, before an answer is cut.
    """
    asked = _grouped(entries, turns(entries)[-most:])
    answers = _answers(entries)
    longest, shortest = ANSWER_LENGTHS[0], QUESTION_LENGTHS[-1]
    tried = [((each, longest), budget_tokens) for each in QUESTION_LENGTHS]
    room = max(budget_tokens, most_tokens)
    tried += [((shortest, each), room) for each in ANSWER_LENGTHS]
    kept: list[Line] = []
    for lengths, tokens in tried:
        lines = [_line(entries, same, answers, *lengths) for same in reversed(asked)]
        kept = within(lines, tokens, lambda line: count(line.text) + 1)
        if len(kept) == len(lines):
            break
    return kept[::-1]


def older_answers(entries: Sequence[Entry], most: int, summary: str) -> list[Line]:
    """Answers before the newest `most` exchanges that the summary doesn't say.

    None where exchanges have no lines of their own.
    """
    if not most:
        return []
    answers, found = _answers(entries), list[Line]()
    for each in turns(entries)[:-most]:
        question = _question(entries[each.start : each.stop])
        said = gist(answers[each], question, OLDER_LENGTH)
        if said and said not in summary:
            last = next(at for at in reversed(each) if _is_text(entries[at]))
            found.append(Line(f"- {said}", last))
    return found


def _answers(entries: Sequence[Entry]) -> dict[range, str]:
    """The last text of each exchange, without the phrases of many of them."""
    found = turns(entries)
    return _without_phrases(
        {each: _answer(entries[each.start : each.stop]) for each in found}
    )


def _without_phrases(answers: Mapping[range, str]) -> dict[range, str]:
    """Answers without the sentences that many have; whole if nothing is left."""
    parts = {
        place: dict.fromkeys(each for each in SENTENCE_ENDS.split(answer) if each)
        for place, answer in answers.items()
    }
    seen = Counter(each for sentences in parts.values() for each in sentences)
    kept = {
        place: " ".join(each for each in sentences if seen[each] < OFTEN)
        for place, sentences in parts.items()
    }
    return {
        place: kept[place]
        if kept[place] and any(seen[each] >= OFTEN for each in parts[place])
        else answer
        for place, answer in answers.items()
    }


def gist(answer: str, question: str, limit: int) -> str:
    """The core of an answer, within a limit: the sentence with the most new values.

    A value is a word with a digit or, where no sentence has one, a name in the middle
    of a sentence. Without either it is the sentence that shares most words with the
    question.
    """
    whole = " ".join(answer.split())
    if len(whole) <= limit:
        return whole
    known = set(question.casefold().split())
    parts = (part.strip(SIGNS) for part in SENTENCE_ENDS.split(answer))
    sentences = [" ".join(part.split()) for part in parts if part]
    best = max(sentences or [whole], key=lambda text: _weight(text, known))
    return best if len(best) <= limit else _around_values(best, known, limit)


def _grouped(entries: Sequence[Entry], exchanges: Sequence[range]) -> list[list[range]]:
    """The exchanges grouped by prompt, ordered by its last use."""
    by_question: dict[str, list[range]] = {}
    for exchange in exchanges:
        asked = _question(entries[exchange.start : exchange.stop])
        question = "".join(filter(str.isalnum, asked.casefold())) or asked
        same = by_question.pop(question, [])
        by_question[question] = [*same, exchange]
    return list(by_question.values())


def _line(
    entries: Sequence[Entry],
    same: Sequence[range],
    answers: Mapping[range, str],
    asked_limit: int,
    answered_limit: int,
) -> Line:
    newest = same[-1]
    exchange = entries[newest.start : newest.stop]
    answer = answers[newest]
    tools = list(dict.fromkeys(e.tool_name for e in exchange if e.is_call))
    called = f" [{', '.join(tools)}]" if tools else ""
    again = f" (asked {len(same)} times)" if len(same) > 1 else ""
    question = _question(exchange)
    answered = f" → {gist(answer, question, answered_limit)}" if answer else ""
    text = f"- {_ends(question, asked_limit)}{again}{called}{answered}"
    return Line(text, newest.start)


def _answer(exchange: Sequence[Entry]) -> str:
    """The last text of the assistant in an exchange."""
    return next((e.content for e in reversed(exchange) if _is_text(e)), "")


def _is_text(entry: Entry) -> bool:
    return entry.is_answer and bool(entry.content)


def _question(exchange: Sequence[Entry]) -> str:
    """The text of all user entries of an exchange."""
    return " ".join(e.content for e in exchange if e.is_of_user)


def _ends(text: str, limit: int) -> str:
    """A text on one line, its middle omitted where it is too long.

    Where that would cut out its only value, such as an order's number, its end is.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    tail = int(limit * TAIL)
    ends = f"{line[: limit - tail - 1].rstrip()}…{line[-tail:].lstrip()}"
    values = [word.strip(PUNCTUATION) for word in line.split() if _has_digit(word)]
    if not values or any(value in ends for value in values) or len(values[0]) > limit:
        return ends
    start = line.index(values[0])
    head = line[: min(start, limit - len(values[0]) - 2)]
    return f"{head}{'' if len(head) == start else '…'}{values[0]}…"


def _weight(sentence: str, known: set[str]) -> tuple[int, int, int]:
    """Its new words with digits, its new names, and its words of the question."""
    words, found = sentence.split(), _values(sentence, known)
    digits = sum(_has_digit(words[index]) for index in found)
    return digits, len(found) - digits, len(known & set(sentence.casefold().split()))


def _values(sentence: str, known: set[str]) -> list[int]:
    """The indices of a sentence's words that are values and not in the question."""
    return [
        index
        for index, word in enumerate(sentence.split())
        if word.casefold() not in known
        and (
            (_has_digit(word) and (index or not ITEM.fullmatch(word)))
            or (index and len(word) > 1 and word[0].isupper())
        )
    ]


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _around_values(sentence: str, known: set[str], limit: int) -> str:
    """As much of a long sentence as fits, from shortly before its first value on."""
    first = next(iter(_values(sentence, known)), 0)
    words = sentence.split()
    is_early = len(" ".join(words[: first + 1])) < limit
    start = 0 if is_early else max(first - BEFORE, 0)
    text = "…" * (start > 0) + " ".join(words[start:])
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
