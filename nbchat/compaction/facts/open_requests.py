"""Quote what is open: the newest request, and proposals that wait for an answer.

A question of the assistant waits until a person answers it; of proposals about the same
things the newest counts, and one that was carried out is closed. Everything is quoted
word for word, with gaps marked.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from nbchat.compaction.facts.records import Call, Field, Record
from nbchat.compaction.facts.tool_names import snake
from nbchat.compaction.facts.value_ranking import CACHED_TEXTS, NAME, form_weight, words
from nbchat.compaction.summary_format import GAP, UNUSED_TITLE, quote_line
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import parts_of
from nbchat.conversation.secret_masking import HIDDEN
from nbchat.conversation.turns import last_prompt
from nbchat.providers.tokens import TokenCounter

OPEN_TITLE = "Open request, word for word:"
ASKED_TITLE = "Last request, word for word:"
ANSWERED_TITLE = "Last answer, word for word:"
WAITING_TITLE = "Waits for an answer, word for word:"
WHOSE_TITLE = "Waits for an answer ({}), word for word:"
"""The same where a record says whose it is, such as `user_id: ann_lee_12`."""

_PERSON = re.compile(
    r"(?:account|buyer|client|customer|employee|guest|member|owner|passenger|patient"
    r"|student|subscriber|tenant|user)_?(?:ids?|number|no|key|uuid)"
)
"""Fields that say whose a record is."""

_PLAIN_ID = re.compile(r"[\w.@#+-]{1,40}")

_PEOPLE = re.compile(r"(?<=[a-z,:] )[A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,3}")
"""Words in capitals where no sentence begins: people, cities, products."""

_ID = re.compile(
    r"(?<![\w.,])\d{1,3}(?:[ \xa0\u202f]\d{3})+(?:[.,]\d\d)?(?=[ \xa0\u202f]?"
    r"(?:[€₽£$₴]|\u0440\u0443\u0431|eur|usd|kr\b|zł|Kč|Ft\b))"
    r"|[#$€£]?[A-Za-z0-9][\w.@/:+-]*",
    re.ASCII,
)
"""Ids and numbers; "1 299 ₽" is one number, "option 2 429" is none."""

_TITLES = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{2,40})[\"\u201d]")

QUOTE_TOKENS = 110
"""The longest quote."""

MARK_TOKENS = 3
"""What `GAP` costs."""

QUESTION_WORTH = 0.5
"""Ids that a question is worth: the title already says that an answer is awaited."""

HEADING_TOKENS = 12
"""The longest heading that is quoted with the line below it."""

MOST_MISSES = 50
"""Quotes in a row that did not fit, after which none is tried."""

MOST_STATEMENTS = 500
"""The newest messages with unused names that are looked at."""

KEPT_STATEMENTS = 4 * MOST_STATEMENTS
"""The newest of these messages that are remembered, as calls may use their names."""

MOST_WAITING, LOOKED_AT = 6, 60
"""Proposals that are quoted, and messages of the assistant that are looked at."""

SAME_SHARE = 0.5
"""Two proposals are about the same when they share this part of their names."""

LEAST_DIGITS = 5
"""Digits of a number that identifies something, such as a zip code."""

LONGEST_ID = 60
"""Characters of an id."""

READ_CHARACTERS = 20_000
"""Characters of a message that are read."""

SHORTEST_QUOTE = 40
"""Tokens that a quote must be allowed; the open request always is."""

PASTED = "[pasted] "
"""Before a sentence that a person did not write."""

_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b\d\.)(?<!\b\d\d\.)\s+|(?<=[\u3002\uff01\uff1f])"
)
_NUMBERED = re.compile(r"\W*\d{1,2}[.)]\s")
"""A line of a list from which people choose by number."""
_QUESTION = re.compile("[?\uff1f\u061f]")
_ASKS = re.compile(
    _QUESTION.pattern
    + r"|\b(?:please confirm|(?:reply|answer|say|type|respond)(?: with)?"
    r" [\"'\u201c]?yes|yes[\"'\u201d]? or [\"'\u201c]?no|bestätigen sie|bitte bestätige"
    r"|confirmez|confirme|confirma|подтвердите)\b|请确认|請確認|ご確認ください|확인해"
    r"|let (?:me|us) know (?:which|what|whether|how|your)\b"
    r"|يرجى التأكيد|पुष्टि करें",
    re.IGNORECASE,
)
"""A question, or another request for a "yes"."""

_REFUSES = re.compile(
    r"\s*(?:(?:no|nope|nah|never mind|nevermind|forget (?:it|that)|don't|do not|please"
    r" don't|nein|lieber nicht|lass es|non|laisse|não|deixa|нет|не надо|ni hablar|mejor"
    r" no)\b|不用|不要|不行|算了|いいえ|やめ|結構です|아니|됐어|لا\b|नहीं)",
    re.IGNORECASE,
)
"""How a message begins that answers with "no"."""

MOST_REFUSING = 60
"""Characters of a message that only refuses."""


def open_matters(
    transcript: Sequence[Entry],
    stop: int,
    calls: Sequence[Call],
    budget_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """Lines that quote the last request and what waits for an answer, newest first."""
    lines: list[str] = []
    latest = ""
    left = budget_tokens
    quoted = list(_quoted_entries(transcript, stop, calls))
    for number, (title, index) in enumerate(quoted):
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
    transcript: Sequence[Entry], stop: int, calls: Sequence[Call]
) -> Iterator[tuple[str, int]]:
    asked = last_prompt(transcript)
    if asked is not None and asked < stop:
        is_open = transcript[-1].role == "tool"
        yield (OPEN_TITLE if is_open else ASKED_TITLE), asked
        answers = [n for n in range(asked, stop) if transcript[n].is_answer]
        answer = next((n for n in reversed(answers) if transcript[n].content), None)
        if answer is not None:
            yield ANSWERED_TITLE, answer
    for index in _waiting(transcript[:stop], calls, asked or 0):
        owner = _owner(_names(transcript[index].content), calls)
        yield (WHOSE_TITLE.format(owner) if owner else WAITING_TITLE), index


class Statement(NamedTuple):
    """A message of a person: its sentences with their names, and the unused names."""

    parts: dict[str, frozenset[str]]
    names: frozenset[str]

    def news(self, used: set[str]) -> tuple[list[str], frozenset[str]]:
        """The sentences with names that are not used, and these names."""
        news = [part for part, names in self.parts.items() if not names <= used]
        return news, self.names - used


class Statements:
    """Messages of people with names and ids that no call has used."""

    def __init__(self) -> None:
        """Start before the first message."""
        self._count = 0
        self._said: dict[int, Statement] = {}
        self._with_ids: dict[int, Statement] = {}
        self._by_name: dict[str, list[int]] = {}

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._said)

    def add(self, entry: Entry, used: Collection[str] = ()) -> None:
        """Add a message; `used` are the words of calls so far."""
        parts = {part: _new_names(part) for part in _parts(entry) if part}
        names = frozenset[str]().union(*parts.values()).difference(used)
        for name in names:
            self._by_name.setdefault(name, []).append(self._count)
        self._keep(self._count, Statement(parts, names))
        self._count += 1

    def use(self, words_of_call: Collection[str]) -> None:
        """Remove what a call has used, permanently: only what is new is looked at."""
        for name in words_of_call:
            for number in self._by_name.pop(name, ()):
                said = self._said[number]
                self._keep(number, said._replace(names=said.names - {name}))

    def _keep(self, number: int, said: Statement) -> None:
        has_id = any(map(_is_id, said.names))
        for kept, is_kept in ((self._said, bool(said.names)), (self._with_ids, has_id)):
            if is_kept:
                kept[number] = said
            else:
                kept.pop(number, None)
        if len(self._said) > KEPT_STATEMENTS:
            self._forget(next(iter(self._said)))

    def _forget(self, number: int) -> None:
        self._with_ids.pop(number, None)
        for name in self._said.pop(number).names:
            numbers = self._by_name[name]
            numbers.remove(number)
            if not numbers:
                del self._by_name[name]

    def newest_first(self, *, has_id: bool) -> Iterator[Statement]:
        """The newest messages; with `has_id` those of which an id is not used."""
        found = self._with_ids if has_id else self._said
        return islice(reversed(found.values()), MOST_STATEMENTS)


def _parts(entry: Entry) -> dict[str, None]:
    """The sentences of a message, each once; pasted ones say that they are."""
    parts: dict[str, None] = {}
    for text, is_pasted in parts_of(entry, READ_CHARACTERS):
        mark = PASTED if is_pasted else ""
        for each in _SENTENCE.split(text):
            if bare := " ".join(each.split()):
                parts[f"{mark}{bare}"] = None
    return parts


def unused_statements(
    statements: Statements,
    used: set[str],
    budget_tokens: int,
    counter: TokenCounter,
    *,
    quoted: Sequence[str] = (),
) -> list[str]:
    """Sentences of people with names or ids that no call has used, newest first.

    `used` are the words of arguments and results. Sentences with ids come before
    others and may take twice the budget: an id is what a record is found by. A sentence
    in the lines `quoted` is not quoted again.
    """
    used = set(used)
    lines: list[str] = []
    taken = counter.count(UNUSED_TITLE)
    for has_id, most in ((True, 2 * budget_tokens), (False, budget_tokens)):
        misses = 0
        for said in statements.newest_first(has_id=has_id):
            if taken >= most or misses > MOST_MISSES:
                break
            news, names = said.news(used)
            news = [part for part in news if not any(part in line for line in quoted)]
            if not (news and names) or (has_id and not any(map(_is_id, names))):
                continue
            line = quote_line(GAP.join(news))
            size = counter.count(line) + 1
            used |= names
            if size <= min(most - taken, QUOTE_TOKENS):
                lines.append(line)
                taken += size
                misses = 0
            else:
                misses += 1
    return [UNUSED_TITLE, *lines] if lines else []


@lru_cache(CACHED_TEXTS)
def names_in(text: str) -> tuple[str, ...]:
    """The ids, numbers, addresses, names and quoted terms in a text."""
    text = text[:READ_CHARACTERS]
    ids = (each.rstrip(".:/-") for each in _ID.findall(text))
    found = [each for each in ids if any(map(str.isdigit, each)) or "@" in each]
    found += _PEOPLE.findall(text) + _TITLES.findall(text)
    shown = (each for each in found if HIDDEN not in each)
    return tuple(each for each in shown if 1 < len(each) <= LONGEST_ID)


def _is_id(name: str) -> bool:
    """Whether a name identifies something: a zip code does, "$40" and "2 GB" do not."""
    return form_weight(name) >= NAME or (name.isdigit() and len(name) >= LEAST_DIGITS)


def _new_names(text: str) -> frozenset[str]:
    people = {
        word.lower()
        for name in _PEOPLE.findall(text)
        if " " in name
        for word in name.split()
    }
    ids = {name for name in _names(text) if len(name) > 3}  # noqa: PLR2004
    return frozenset(ids | people | {w for w in words(text) if "@" in w})


def _waiting(
    entries: Sequence[Entry], calls: Sequence[Call], before: int
) -> Iterator[int]:
    """Proposals that were not answered, carried out or replaced, newest first.

    A call about it was tried after a "yes", whatever became of it. One that names
    nothing waits only where a question came in place of an answer.
    """
    answers = (n for n in range(len(entries) - 1, -1, -1) if entries[n].is_answer)
    looked_at = list(islice(answers, LOOKED_AT))
    first = looked_at[-1] if looked_at else len(entries)
    tried = ("done", "unconfirmed", "failed")
    done = [call for call in calls if call.status in tried and call.index > first]
    later = [frozenset(field.text.lower() for field in call.asked) for call in done]
    done_at = [call.index for call in done]
    known: list[frozenset[str]] = []
    found = 0
    for index in looked_at:
        text = entries[index].content
        names = frozenset(n for n in _names(text) if form_weight(n) >= NAME)
        if not _ASKS.search(text[-400:]):
            known += [names] if names else []
            continue
        carried_out = [
            each for at, each in zip(done_at, later, strict=True) if at > index
        ]
        reply = _reply_to(entries, index)
        is_closed = any(_is_about(names, each) for each in [*known, *carried_out])
        if not names:
            is_closed = bool(known or carried_out) or not _QUESTION.search(reply)
        known.append(names)
        if not (is_closed or _is_answer(reply, names)) and index < before:
            yield index
            found += 1
        if found == MOST_WAITING:
            return


def _reply_to(entries: Sequence[Entry], index: int) -> str:
    """The next message of a person after an entry."""
    later = islice(entries, index + 1, None)
    return next((each.content for each in later if each.is_prompt), "")


def _is_answer(reply: str, names: frozenset[str]) -> bool:
    """Whether a message is no question, and says "no" or names what was proposed."""
    if _QUESTION.search(reply):
        return False
    is_short = len(reply) <= MOST_REFUSING
    is_refusal = is_short and _REFUSES.match(reply.replace("\u2019", "'")) is not None
    return is_refusal or not names.isdisjoint(_names(reply))


def _owner(names: frozenset[str], calls: Sequence[Call]) -> str:
    """Whose the records are that a proposal names, as `user_id: ann_lee_12`.

    Empty where no record says it, where records of several people are named, and where
    the proposal itself says it.
    """
    owners: dict[str, Field] = {}
    for call in calls:
        for record in _records_of(call):
            label = record.label.lower().strip("#")
            if label not in names:
                continue
            said = [f for f in record.fields if _PERSON.fullmatch(snake(f.name))]
            if len(said) == 1:
                owners[label] = said[0]
    found = set(owners.values())
    if len({each.text for each in found}) != 1:
        return ""
    owner = min(found)
    is_said = owner.text.lower().strip("#") in names
    is_plain = _PLAIN_ID.fullmatch(owner.text)
    return f"{owner.name}: {owner.text}" if is_plain and not is_said else ""


def _records_of(call: Call) -> Iterator[Record]:
    """The record of a result, and those of its list."""
    if call.record is not None and call.status != "failed":
        yield call.record
        yield from (part for _, part in call.record.parts)


def _names(text: str) -> frozenset[str]:
    """The ids, dates and amounts in a text."""
    return frozenset(
        word for word in words(text) if any(map(str.isdigit, word)) and len(word) > 1
    )


def _is_about(names: frozenset[str], others: frozenset[str]) -> bool:
    common = {name for name in names & others if form_weight(name) >= NAME}
    own = [name for name in names if form_weight(name) >= NAME]
    return len(common) >= max(1, SAME_SHARE * len(own)) if own else names <= others


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
    ids = sum(map(form_weight, _names(part)))
    asks = QUESTION_WORTH * bool(_ASKS.search(part))
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
            parts += filter(None, _SENTENCE_END.split(bare))
        else:
            parts.append(bare)
    return [*parts, heading] if heading else parts
