"""Find the rules, preferences and decisions of people that are in force, word for word.

They are read from people's own messages alone: what was pasted or quoted, what tools
returned and what the model wrote is none of them. A later decision replaces the earlier
one on the same question, and a rule ends when it is withdrawn.

    Rules and decisions in force, quoted from the user:
    - "Never deploy on Fridays."
    - "Scrap that, we'll use SQLite."
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, zip_longest

from nbchat.compaction.facts.pasted_text import (
    Passage,
    passages,
    without_shown_text,
)
from nbchat.compaction.facts.quotes import (
    LONGEST,
    LONGEST_LIST,
    SHORTEST,
    Quote,
    opening_line,
)
from nbchat.compaction.facts.rule_model import rule_score
from nbchat.compaction.facts.rule_patterns import LIKELY, Kind, Reading, read
from nbchat.compaction.facts.sentence_forms import HIDDEN, content_of, plain
from nbchat.compaction.shortening import within
from nbchat.compaction.summary_format import GAP, quote_line
from nbchat.conversation.entries import Entry, Span
from nbchat.providers.tokens import TokenCounter

TITLE = "Rules and decisions in force, quoted from the user:"

MOST_OF_ONE = 12
"""Quotes of one message; a message with more is a document."""

REMEMBERED = 2_000
"""Characters of the longest message whose reading is kept."""

CACHED_MESSAGES = 2_000
"""Of which readings are kept, for sessions that are read again from the beginning."""

_REPORTS = re.compile(
    r"(?:here(?:['\u2019]s| is)|this is) what (?:i|we) "
    r"(?:did|found|get|got|have tried|noticed|saw|see|tried)\b"
    r"|(?:here(?:['\u2019]s| is) )?what (?:happened|happens|i tried)\b",
    re.IGNORECASE,
)
"""How a line begins below which a report follows, and no rules."""
NEAR = 2
"""Messages of the person that "scrap that" may refer back to."""


def rules_in_force(
    entries: Sequence[Entry],
    *,
    verified: Iterable[Quote] = (),
    messages: Sequence["Message"] | None = None,
) -> list[Quote]:
    """The quotes in force after all entries, oldest first.

    `verified` is what summaries quote of people: it is in force, too, until it is
    withdrawn. `messages` are those of people in the entries, if they were read before;
    silent ones may be left out.
    """
    messages = messages_in(entries) if messages is None else messages
    by_index: dict[int, list[Quote]] = {}
    for quote in verified:
        by_index.setdefault(quote.index, []).append(quote)
    read = {message.index for message in messages}
    others = [Message(index) for index in by_index if index not in read]
    quotes: list[Quote] = []
    for message in sorted((*messages, *others), key=lambda each: each.index):
        verified = by_index.get(message.index, ())
        quotes = _after(quotes, message.with_quotes(verified) if verified else message)
    return quotes


def ended_rules(messages: Sequence["Message"]) -> set[str]:
    """Sentences of people that were replaced or withdrawn later, in lower case."""
    stated = {plain(quote.text) for each in messages for quote in each.quotes}
    in_force = rules_in_force((), messages=messages)
    return stated - {plain(quote.text) for quote in in_force}


def rule_lines(
    quotes: Sequence[Quote], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """The quotes under their title, oldest first; empty when there is none.

    Where not all fit, rules come before decisions, and the newest of each first.
    """
    limit = budget_tokens - counter.count(TITLE)
    by_need = sorted(
        quotes, key=lambda q: (q.kind != "decision", q.index), reverse=True
    )
    kept = within(by_need, limit, lambda each: counter.count(each.line) + 1)
    lines = [
        _together(list(alike))
        for _, alike in groupby((q for q in quotes if q in kept), key=_introduction)
    ]
    return [TITLE, *lines] if lines else []


def _introduction(quote: Quote) -> tuple[int, str]:
    return quote.index, quote.lead or quote.text


def _together(alike: Sequence[Quote]) -> str:
    """The line of quotes that one opening line introduces."""
    parts = (alike[0].lead, *(quote.text for quote in alike))
    return quote_line(GAP.join(filter(None, parts)))


@dataclass(frozen=True, slots=True)
class Message:
    """A person's message: its quotes, and what it says about earlier ones."""

    index: int
    quotes: tuple[Quote, ...] = ()
    withdrawals: tuple[str, ...] = ()
    """Sentences by which something said earlier ends."""
    is_change: bool = False
    """Whether its decisions replace earlier ones."""
    changes: tuple[Quote, ...] = ()
    """Other sentences that change something: decisions where one is about the same."""
    recent: tuple[int, ...] = ()
    """Indices of the person's messages shortly before."""

    @property
    def is_silent(self) -> bool:
        """Whether it states nothing, and changes nothing that was stated."""
        return not (self.quotes or self.withdrawals or self.is_change)

    def with_quotes(self, verified: Iterable[Quote]) -> "Message":
        """The message with the quotes that a summary found in it, too."""
        held = {quote.text for quote in self.quotes}
        more = (quote for quote in verified if quote.text not in held)
        return replace(self, quotes=(*self.quotes, *more))


def messages_in(entries: Sequence[Entry]) -> list[Message]:
    """What the messages of people in entries state."""
    prompts = (n for n, e in enumerate(entries) if e.is_prompt and e.content)
    return [message_of(entries, index) for index in prompts]


def message_of(entries: Sequence[Entry], index: int) -> Message:
    """Read the message of a person at an index."""
    is_answer = index > 0 and _asks_for_rules(entries[index - 1])
    content, pasted = entries[index].content, entries[index].pasted
    reader = _read if len(content) <= REMEMBERED else _read.__wrapped__
    said = reader(content, pasted, is_answer=is_answer)
    found = (
        Quote(text, index, kind, opening_line(content, text))
        for text, kind in said.quotes
    )
    quotes = tuple(quote for quote in found if not _REPORTS.match(quote.lead))
    before = tuple(_before(entries, index)) if said.withdrawals else ()
    changes = tuple(
        Quote(text, index, "decision", opening_line(content, text))
        for text in said.changes
    )
    return Message(index, quotes, said.withdrawals, said.is_change, changes, before)


@dataclass(frozen=True, slots=True)
class _Said:
    """What a message says, wherever it is."""

    quotes: tuple[tuple[str, Kind], ...]
    withdrawals: tuple[str, ...]
    is_change: bool
    changes: tuple[str, ...]


@lru_cache(CACHED_MESSAGES)
def _read(content: str, pasted: tuple[Span, ...], *, is_answer: bool) -> _Said:
    """Read a message; kept, so that a compaction reads only what is new."""
    text = without_shown_text(content)
    own = [each for each in passages(text, pasted) if _is_readable(each)]
    readings = [read("" if each.is_list else each.mask) for each in own]
    quotes = tuple(_quotes(own, readings, is_answer=is_answer))[:MOST_OF_ONE]
    quoted = {text for text, _ in quotes}
    changes = (
        passage.text
        for passage, said in zip(own, readings, strict=True)
        if said.is_change and passage.text not in quoted and _may_decide(said.text)
    )
    return _Said(
        quotes,
        tuple(each.text for each in readings if each.is_withdrawal),
        any(each.is_change or each.is_withdrawal for each in readings),
        tuple(changes)[:MOST_OF_ONE],
    )


def _before(entries: Sequence[Entry], index: int) -> Iterator[int]:
    """The person's messages shortly before."""
    left = NEAR
    for earlier in range(index - 1, -1, -1):
        if left and entries[earlier].is_prompt:
            left -= 1
            yield earlier
        elif not left:
            return


def _is_readable(passage: Passage) -> bool:
    """Whether it is long and short enough; a sentence with a colon only introduces."""
    if not passage.is_list and passage.mask.endswith((":", "\uff1a")):
        return False
    longest = LONGEST_LIST if passage.is_list else LONGEST
    own = len(passage.mask) - passage.mask.count(HIDDEN)
    return own >= SHORTEST and len(passage.text) <= longest


_ASKS = re.compile(
    r"\b(?:constraints?|requirements?|rules|preferences?|keep in mind|should i know"
    r"|restrictions|limits|boundaries|ground rules|should i (?:avoid|respect|follow)"
    r"|vorgaben|einschränkungen|regeln|wünsche|beachten|contraintes|exigences|règles"
    r"|préférences|restricciones|requisitos|preferencias|reglas|restrições|regras"
    r"|preferências|ограничения|требования|правила|предпочтения)\b[^?\n]*\?"
    r"|(?:要求|限制|规则|偏好|注意).{0,12}[吗?？]|(?:条件|制約|希望|要望).{0,12}(?:か|[?？])"
)
_NONE = re.compile(
    r"^(?:no|nope|none|nothing|not really|nein|keine|non|aucune?|ninguna?|nenhuma?|нет"
    r"|没有|ない|特に)\b.{0,30}$"
)


def _asks_for_rules(entry: Entry) -> bool:
    """Whether the model has asked which rules there are."""
    return entry.is_answer and _ASKS.search(plain(entry.content[-LONGEST:])) is not None


_EMPHASIS = re.compile(
    r"^(?:and )?(?:that|this|it|these|treat (?:that|this|it)|consider (?:that|this|it))"
    r"(?:'s| is| are| was)? .{0,40}?(?:rule|non-?negotiable|red line|requirement|line"
    r"|important|a must|final|settled|absolute|mandatory|serious|constraint|firm|fixed"
    r"|always|decided|law|critical|essential|holds)\b"
    r"|^(?:no exceptions?|non-?negotiable|hard line|full stop|period|no discussion"
    r"|compliance requirement|this is important|i mean it|keine ausnahmen?"
    r"|sans exception|sin excepciones|sem exceções|без исключений|没有例外|例外なし)\b"
    r"[^:]{0,40}$"
)
"""Sentences that make a rule of the sentence before."""

EMPHASIS_WORDS = 5
"""Words of such a sentence that say anything."""


SAME_SHARE = 0.5
"""Share of a change's words that a decision has which it replaces."""

ANNOUNCING_WORDS = 1
"""Words that say anything in "Change of plans." and "No, wait."."""


def _is_emphasis(text: str) -> bool:
    return bool(_EMPHASIS.search(text)) and len(content_of(text)) <= EMPHASIS_WORDS


def _quotes(
    own: Sequence[Passage], readings: Sequence[Reading], *, is_answer: bool
) -> Iterator[tuple[str, Kind]]:
    """The quotes of one message; `is_answer` after a question for rules."""
    follows = False
    for passage, said, after in zip_longest(own, readings, readings[1:]):
        is_stressed = after is not None and _is_emphasis(after.text)
        changes = follows
        follows = said.is_withdrawal or _only_changes(said)
        if passage.is_list:
            yield passage.text, "rule"
        elif _is_emphasis(said.text) or _only_withdraws(said):
            continue
        elif said.kind or said.is_withdrawal:
            yield passage.text, said.kind or "decision"
        elif (is_answer or is_stressed) and _is_statement(said.text):
            yield passage.text, "rule"
        elif changes and _is_statement(said.text) and _says_instead(said.text):
            yield passage.text, "decision"


def _may_decide(text: str) -> bool:
    """Whether a sentence may be a decision, if it is about the same as another one."""
    return rule_score(text) > LIKELY and _is_statement(text)


def _is_statement(text: str) -> bool:
    """Whether a plain sentence states enough to be a rule."""
    is_open = text.endswith(("?", "\uff1f", "\u061f")) or _NONE.search(text)
    return not is_open and len(content_of(text)) > 1


def _only_withdraws(said: Reading) -> bool:
    """Whether a sentence ends something and says nothing else in its place."""
    if not said.is_withdrawal or said.kind == "decision":
        return False
    return not _says_instead(said.text)


def _only_changes(said: Reading) -> bool:
    """Whether a sentence announces a change and does not say which."""
    return said.is_change and len(content_of(said.text)) <= ANNOUNCING_WORDS


def _says_instead(text: str) -> bool:
    """Whether a sentence that comes with a change says what to do from then on."""
    clauses = (each.strip() for each in _CLAUSE.split(text))
    readings = [read(each) for each in clauses if each]
    kept = [each for each in readings if not each.is_withdrawal]
    if _ENGLISH.search(text):
        return any(each.kind or _REPLACES.match(each.text) for each in kept)
    return any(each.kind or rule_score(each.text) > LIKELY for each in kept)


_ENGLISH = re.compile(
    r"\b(?:the|to|we|that|let's|with|this|my|of|on|in|it|do|use|what|i|new|old|plan"
    r"|decision|final|and|is)\b"
)
_REPLACES = re.compile(
    r"(?:the )?(?:right |new |better |final )?"
    r"(?:call|plan|choice|decision|idea) is to \w"
    r"|(?!(?:i|it|that|this|they|he|she|you|the|a|an|my|our|is|was|and|thanks?|sorry|not"
    r"|no|please|actually|wait|ok|okay|yes)\b|i')[\w']+ \w"
)
"""How a clause begins that says what to do instead: with a verb, or with "we"."""


def _after(quotes: list[Quote], message: Message) -> list[Quote]:
    """The quotes in force after one more message."""
    if decided := [each for each in message.changes if _is_decided(quotes, each)]:
        message = replace(message, quotes=(*message.quotes, *decided))
    if not (message.quotes or message.withdrawals):
        return quotes
    for sentence in message.withdrawals:
        quotes = _without_withdrawn(quotes, sentence, message)
    for quote in message.quotes:
        quotes = _without_replaced(quotes, quote, message)
    held = {plain(quote.text) for quote in quotes}
    return quotes + [q for q in message.quotes if plain(q.text) not in held]


def _is_decided(quotes: Sequence[Quote], change: Quote) -> bool:
    """Whether a decision is in force about what a change is about."""
    named = content_of(plain(change.text))
    decisions = (each for each in quotes if each.kind == "decision")
    return any(named and _share(named, each) >= SAME_SHARE for each in decisions)


def _without_withdrawn(
    quotes: list[Quote], sentence: str, message: Message
) -> list[Quote]:
    """Without what a sentence withdraws: what it names, or what was just said."""
    named = content_of(_withdrawn_part(sentence))
    if named:
        shares = [_share(named, quote) for quote in quotes]
        best = max(shares, default=0.0)
        if best > 1 / 2:
            return [q for q, share in zip(quotes, shares, strict=True) if share < best]
        return quotes
    recent = [quote for quote in quotes if quote.index in message.recent]
    decided = [quote for quote in recent if quote.kind == "decision"]
    just_said = [q for q in recent if q.index == message.recent[0]]
    ended = decided[-1:] or just_said[-1:]
    return [quote for quote in quotes if quote not in ended]


_CLAUSE = re.compile(
    r"[,;:.\u2013\u2014\u3002\uff0c]| but | and (?=let|use|go|take)|\binstead\b"
)


def _withdrawn_part(said: str) -> str:
    """The clause that withdraws: "scrap the first plan, use B" is about the plan."""
    clauses = [each for each in _CLAUSE.split(said) if read(each).is_withdrawal]
    return clauses[0] if clauses else said


def _share(named: set[str], quote: Quote) -> float:
    """The share of what is named that a quote is about."""
    return len(named & content_of(plain(quote.text))) / len(named)


_OLD = re.compile(
    r"\b(?:instead of|rather than|not|replaces?|replacing|supersedes|switch from|statt"
    r"|anstatt|au lieu d[e']|en (?:vez|lugar) de|em vez de|вместо|invece di)"
    r"\s+([^,.;]+)"
    r"|(?:代替|取代)([^,。]+)|([^、。]+)の代わり"
)
"""What is replaced, as a sentence names it."""

_VALUE = re.compile(
    r"[$€£¥₹] ?\d[\d.,]*"
    r"|(?<![\w#-])\d[\d.,:]*(?= ?(?:%|[€£¥₹]|(?:euros?|dollars?|pounds?|usd|eur"
    r"|gbp|yen|yuan|words?|sentences?|pages?|minutes?|hours?|days?|weeks?"
    r"|guests?|people|gb|mb|kg|km|am|pm)\b))"
    r"|\b(?:euros?|dollars?|pounds?|usd|eur|gbp|yen|yuan"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|noon|english|german"
    r"|french|spanish|portuguese|italian|chinese|japanese|korean|russian|arabic|hindi"
    r"|dutch|polish|deutsch|englisch|französisch|français|anglais|español|inglés"
    r"|português|inglês)\b"
)
"""Amounts, days and languages; a bare number may be an id, and so another matter."""

_FORBIDS = re.compile(
    r"\b(?:never|not|\w+n't|no|avoid|nie|nicht|kein\w*|jamais|pas|nunca|não|не)\b|不|ない"
)


def _without_replaced(quotes: list[Quote], new: Quote, message: Message) -> list[Quote]:
    """Without the earlier quotes that a new one replaces."""
    limited = _limited(new.text)
    if not (limited or message.is_change):
        return quotes
    earlier = [quote for quote in quotes if quote.index < message.index]
    ended = [q for q in earlier if limited and _limited(q.text) == limited]
    if message.is_change:
        said = plain(new.text)
        ended += _named_as_old(earlier, said) or _same_question(earlier, new, said)
    return [quote for quote in quotes if quote not in ended] if ended else quotes


@lru_cache(CACHED_MESSAGES)
def _limited(text: str) -> frozenset[str]:
    """What an amount, a day or a language is said of; empty where there is none.

    Two sentences with the same differ only in that value: the later one replaces the
    earlier. "Never on Mondays" and "never on Fridays" both hold.
    """
    said = plain(text)
    if _FORBIDS.search(said) or not _VALUE.search(said):
        return frozenset()
    return frozenset(content_of(_VALUE.sub(" ", said)))


def _named_as_old(earlier: Sequence[Quote], said: str) -> list[Quote]:
    """The quotes about what a sentence names as replaced."""
    names = (content_of(" ".join(groups)) for groups in _OLD.findall(said))
    old = next(filter(None, names), None)
    return [quote for quote in earlier if old and _share(old, quote) == 1]


def _same_question(earlier: Sequence[Quote], new: Quote, said: str) -> list[Quote]:
    """The decisions that a decision replaces: on the same matter, else the newest."""
    decisions = [quote for quote in earlier if quote.kind == "decision"]
    if new.kind != "decision" and _FORBIDS.search(said.replace("no longer", "")):
        return []
    about = content_of(said)
    same = [quote for quote in decisions if about & content_of(plain(quote.text))]
    return same or decisions[-1:]
