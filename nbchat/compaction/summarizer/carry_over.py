"""Keep what an earlier summary or a person's message said and a new summary lacks.

Only what is probably in force is kept: sentences with ids, amounts or dates, open
questions, rules and decisions, and all that was below a heading for those. A sentence
ends when the new summary says it, or says something else of the same matter.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nbchat.compaction.facts.pasted_text import passages
from nbchat.compaction.facts.records import Call, Record, record_texts
from nbchat.compaction.facts.rule_patterns import read
from nbchat.compaction.facts.sentence_forms import plain, words_of
from nbchat.compaction.summarizer.unsupported_marks import without_marked
from nbchat.conversation.entries import Entry
from nbchat.conversation.values import Value, values

LONGEST, SHORTEST = 400, 12
"""Characters of a sentence that is kept."""

SAID, SAME_MATTER = 0.5, 0.7
"""Shares of a sentence's words in the new summary: from which it is said there when its
values are, too, and in one sentence with the same names, which replaces it."""

FEW_WORDS = 4
"""Words beside its values up to which a sentence says nothing more than them."""

MORE_WORDS = 2
"""Words, such as "sure" and "but", that an answer with what a call needs may say."""

LEAST_WORDS = 3
"""Words beside its values from which a statement can be replaced by its likeness."""

MOST_QUESTIONS = 10
"""Questions of people that are kept, the newest: most were answered."""

MOST_READ = 200
"""Messages of people and lines of summaries that are read, the newest."""

_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\s\d\.)(?<!\s\d\d\.)\s+|(?<=[。！？])"  # noqa: RUF001
)
_BULLET = re.compile(r"^(?:[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+)+")
_HEADING = re.compile(r"^[ \t]*(?:#{1,6} .*|\*\*[^*]+\*\*:?|[^.!?\n]{1,60}:)[ \t]*$")
_IN_FORCE = re.compile(
    r"open|unresolved|pending|question|next|to do|todo|decision|decided|agreed|rule"
    r"|constraint|requirement|preference|request|deadline|quote|offen|frage|entscheid"
    r"|regel|vorgabe|nächste|ouvert|question|décision|règle|prochain|abiert|pregunta"
    r"|decisi|regla|próxim|abert|pergunta|decisõ|regra|未决|问题|决定|规则|下一步|待办"
    r"|未解決|質問|次|вопрос|решени|правил|открыт|следующ|earlier",
    re.IGNORECASE,
)
_CLOSED = re.compile(
    r"^\W*(?:(?:already|recently|now|bereits|déjà|ya|já|уже|已)\W+)?"
    r"(?:closed|completed|concluded|done|ended(?! up)|finished|handed over"
    r"|no longer (?:active|in force|open)|past\b(?! due)|resolved(?! to)"
    r"|settled(?! on)|solved|transferred"
    r"|abgeschlossen|beendet|erledigt|gelöst|termin[ée]|résolu|réglé|finie?s?\b|clos\b"
    r"|cerrad|resuelt|completad|finalizad|fechad|encerrad|resolvid|concluíd"
    r"|已?(?:完成|解决|关闭|结束)|完了|終了|解決済|завершен|закрыт|решен|окончен"
    r"|مغلق|تم|انته|पूर्ण|समाप्त|완료|종료)",
    re.IGNORECASE,
)
"""How headings begin of what is no longer in force; alone, the label of an item."""
_OPEN = re.compile(
    r"[?？]|\b(?:unresolved|undecided|asked|asks|wants?|wishes|requested|needs?|must"  # noqa: RUF001
    r"|deadline|due|agreed|decided|chose|prefers?|promised|offen|möchte|soll|muss|veut"
    r"|doit|quiere|debe|quer|deve)\b|待|未|必须|想要|決定|希望",
    re.IGNORECASE,
)
_QUESTION = re.compile("[?\uff1f]$")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")
_NAME = re.compile(r"\b[A-Z]\w+")
_FULL_NAME = re.compile(r"\b[A-Z]\w+(?: [A-Z]\w+)+")

Keys = frozenset[str]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence or list item, what it names, and the words beside that."""

    text: str
    values: tuple[Value, ...]
    words: frozenset[str]
    names: frozenset[str]
    """Of its words, those with a capital letter."""
    is_open: bool
    """Whether it tells a rule, a decision, or something that is open."""

    @property
    def ids(self) -> Keys:
        """The ids that it names."""
        return frozenset().union(*(each.keys for each in self.values if each.is_id))

    @property
    def is_in_force(self) -> bool:
        """Whether it is worth keeping."""
        return bool(self.values) or self.is_open


def carried(earlier: str, messages: Sequence[Entry], story: str) -> list[str]:
    """The sentences that a new summary lacks, newest first.

    `earlier` is the text of the summary before, `messages` are what people wrote since.
    """
    said = [statement for each in messages[-MOST_READ:] for statement in _own(each)]
    asked = [each for each in said if _QUESTION.search(each.text)]
    old = {id(each) for each in asked[:-MOST_QUESTIONS]}  # most likely answered
    said = [each for each in said if id(each) not in old]
    before = list(statements(earlier))[:MOST_READ]
    new = _Story(list(statements(story, is_all=True)))
    kept: list[str] = []
    for each in [*reversed(said[-MOST_READ:]), *before]:
        if each.is_in_force and not new.says(each):
            kept.append(each.text)
            new.add(each)
    return kept


def not_in_rows(found: Iterable[str], rows: Sequence[str]) -> list[str]:
    """The sentences that say more than a row of facts, unlike "My user ID is ann_1"."""
    lines = [line.casefold() for line in rows]
    return [
        each for each in found if not _is_row(_statement(each, is_open=False), lines)
    ]


def not_named(found: Iterable[str], story: str) -> list[str]:
    """The sentences of matters that a summary does not name; it is right about others.

    It names one by all ids of a rule, decision, request or question, or by the first id
    of anything else. What it lists as ended has ended. Sentences without ids stay.
    """
    keys = {key for each in values(story) for key in each.keys | each.parts}
    ended = _Ended.of(story)
    read = ((each, _statement(each, is_open=False)) for each in found)
    return [
        text
        for text, said in read
        if not ended.has(said) and (not said.ids or _is_new(said, keys))
    ]


def _is_new(said: Statement, keys: set[str]) -> bool:
    new = [keys.isdisjoint(each.keys) for each in said.values if each.is_id]
    return any(new) if said.is_open else new[0]


@dataclass(frozen=True, slots=True)
class _Ended:
    """The ids and full names that a summary lists as ended, and all others."""

    ended: Keys
    others: Keys

    @classmethod
    def of(cls, story: str) -> "_Ended":
        """Those of a summary."""
        ended: set[str] = set()
        others: set[str] = set()
        for line, is_closed in _lines(story):
            found = _statement(line, is_open=False)
            (ended if is_closed else others).update(found.ids, _full_names(line))
        return cls(frozenset(ended), frozenset(others))

    def has(self, said: Statement) -> bool:
        """Whether a statement is of what has ended: by its ids, else by its names.

        A label such as "Ann Lee (A17):" decides. Without one, all ids of a rule,
        decision, request or question must have ended.
        """
        label, colon, _ = said.text.partition(": ")
        ids = _statement(label, is_open=False).ids if colon else said.ids
        known = self.ended | self.others
        if said.is_open and not colon and not ids <= known:
            return False
        marks = ids & known or known.intersection(_full_names(label))
        return bool(marks) and marks.isdisjoint(self.others)


def _full_names(text: str) -> list[str]:
    return [each.casefold() for each in _FULL_NAME.findall(text)]


def is_open(text: str) -> bool:
    """Whether a sentence tells a rule, a decision, a request or a question."""
    return _statement(text, is_open=False).is_open


def not_served(
    found: Iterable[str],
    entries: Sequence[Entry],
    *,
    calls: Iterable[Call],
    tools: Iterable[str] = (),
) -> list[str]:
    """The sentences of people that say more than what later calls were given.

    "Sure, my user ID is ann_1" has served when a call took `ann_1`; a request has when
    an action took all its values. `tools` are the names of all tools: a sentence that
    names one asks for it.
    """
    calls = [each for each in calls if each.status in ("called", "done")]
    takings = [_Taking.of(call) for call in calls]
    acts = words_of(
        " ".join([*tools, *(call.tool for call in calls)]).replace("_", " ")
    )
    if not takings:
        return list(found)
    prompts = _NewestPrompts(entries)
    kept: list[str] = []
    for text in found:
        said = prompts.index_of(text)
        later = [each for each in takings if said is not None and each.index > said]
        asked = _question_before(entries, said) if said is not None else ""
        if not _has_served(_statement(text, is_open=False), later, acts, asked):
            kept.append(text)
    return kept


@dataclass(frozen=True, slots=True)
class _Taking:
    """What a call was given, and what it returned."""

    index: int
    is_done: bool
    keys: Keys
    words: frozenset[str]
    returned: Record | None

    @classmethod
    def of(cls, call: Call) -> "_Taking":
        """What one call was given, its tool's name and its arguments' included."""
        given = " ".join(field.text for field in call.asked)
        keys = frozenset(key for value in values(given) for key in value.keys)
        names = " ".join([call.tool, *(field.name for field in call.asked)])
        words = _words(f"{names.replace('_', ' ')} {given}")
        return cls(call.index, call.status == "done", keys, words, call.record)

    def names_in(self, said: Statement) -> Keys:
        """The names in a statement that the call returned."""
        texts = record_texts(self.returned) if self.returned else ()
        return said.names & _words(" ".join(texts))


class _NewestPrompts:
    """Finds the newest message of a person with a text; older ones are read last."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._read: list[tuple[int, str]] = []
        indices = range(len(entries) - 1, -1, -1)
        self._unread = (
            (index, " ".join(entry.content.split()))
            for index, entry in zip(indices, reversed(entries), strict=True)
            if entry.is_prompt
        )

    def index_of(self, text: str) -> int | None:
        """The index of the message; None if there is none."""
        for index, prompt in self._read:
            if text in prompt:
                return index
        for index, prompt in self._unread:
            self._read.append((index, prompt))
            if text in prompt:
                return index
        return None


def _question_before(entries: Sequence[Entry], index: int) -> str:
    """The answer before a message, to which it may reply."""
    before = (entries[n] for n in range(index - 1, -1, -1))
    return next((entry.content for entry in before if entry.is_answer), "")


def _has_served(
    said: Statement, later: Sequence[_Taking], acts: set[str], asked: str
) -> bool:
    """Whether calls took all values of a statement, and it says hardly more."""
    if not said.values:
        return False
    keys = frozenset().union(*(value.keys for value in said.values))
    taking = [each for each in later if not keys.isdisjoint(each.keys)]
    if _are_taken(said, [each for each in taking if each.is_done]):
        return not said.is_open
    if said.is_open or not _are_taken(said, taking):
        return False
    given = _words(asked).union(*(each.words for each in taking))
    more = said.words - given.union(*(each.names_in(said) for each in taking))
    return len(more) <= MORE_WORDS and acts.isdisjoint(more)


def _are_taken(said: Statement, taking: Sequence[_Taking]) -> bool:
    taken = frozenset().union(*(each.keys for each in taking))
    return all(not taken.isdisjoint(value.keys) for value in said.values)


def _is_row(said: Statement, rows: Sequence[str]) -> bool:
    """Whether one row has all values and all words of a statement."""
    if not said.values or said.is_open:
        return False
    texts = [re.escape(value.text.casefold()) for value in said.values]
    return any(
        all(word in row for word in said.words)
        and all(re.search(rf"(?<!\w){text}(?!\w)", row) for text in texts)
        for row in rows
    )


def statements(text: str, *, is_all: bool = False) -> Iterator[Statement]:
    """The sentences and list items of a summary that may be in force.

    With `is_all` also short and long ones, and those under a heading such as "Closed".
    """
    is_open = False
    for line, is_closed in _lines(text):
        if _HEADING.match(line):
            is_open = _IN_FORCE.search(line) is not None
            continue
        if is_closed and not is_all:
            continue
        bare = _BULLET.sub("", line).strip()
        is_item = bare != line.strip() and len(bare) <= LONGEST
        for part in [bare] if is_item else map(_whole, _SENTENCE.split(bare)):
            if is_all or SHORTEST <= len(part) <= LONGEST:
                yield _statement(part, is_open=is_open and is_item)


def _whole(sentence: str) -> str:
    """A sentence without the mark of a quote that another sentence begins or ends."""
    return sentence.strip('"') if sentence.count('"') % 2 else sentence


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a summary, each with whether it is of what is no longer in force."""
    is_closed = False
    for line in filter(str.strip, text.splitlines()):
        if _HEADING.match(line):
            is_closed = _is_closed(line)
            yield line, False
        else:
            yield line, is_closed or _is_closed_item(line)


def _is_closed(title: str) -> bool:
    return _IN_FORCE.search(title) is None and _CLOSED.match(title) is not None


def _is_closed_item(line: str) -> bool:
    """Whether it is an item such as "- Done: W1, W2" that tells nothing open."""
    label, colon, rest = _BULLET.sub("", line).partition(":")
    found = _CLOSED.match(label) if colon and _BULLET.match(line) else None
    is_alone = found is not None and not label[found.end() :].strip("* ")
    return is_alone and not is_open(rest)


def in_force(text: str) -> set[Keys]:
    """The values in the statements of a summary that may be in force."""
    return {each.keys for part in statements(text) for each in part.values}


def _own(message: Entry) -> Iterator[Statement]:
    """The sentences in a person's message that are the person's own, with values."""
    for passage in passages(message.content, message.pasted):
        if not passage.is_list and SHORTEST <= len(passage.text) <= LONGEST:
            text = " ".join(passage.text.split())
            found = _statement(text, is_open=False)
            if found.values:
                yield found


def _statement(text: str, *, is_open: bool) -> Statement:
    bare = without_marked(text)
    found = tuple(each for each in values(bare) if not each.is_count)
    for each in reversed(found):
        bare = f"{bare[: each.start]} {bare[each.stop :]}"
    reading = read(text)
    stated = reading.kind is not None or _OPEN.search(text) is not None
    names = frozenset(map(str.casefold, _NAME.findall(bare)))
    return Statement(text, found, _words(bare), names, is_open or stated)


def _words(text: str) -> frozenset[str]:
    """The words of a text, and pairs of characters where there are no spaces."""
    low = plain(text)
    runs = _UNSPACED.findall(low)
    pairs = (run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1)))
    spaced = words_of(_UNSPACED.sub(" ", low))
    return frozenset(word for word in spaced if len(word) > 2).union(pairs)  # noqa: PLR2004


class _Story:
    """The statements of a new summary, to see what it says."""

    def __init__(self, parts: Iterable[Statement]) -> None:
        self._parts: list[Statement] = []
        self._keys: set[str] = set()
        for each in parts:
            self.add(each)

    def add(self, part: Statement) -> None:
        """Add a statement, such as one that is kept."""
        self._parts.append(part)
        for value in part.values:
            self._keys |= value.keys | value.parts

    def says(self, old: Statement) -> bool:
        """Whether an old statement is said, or replaced by another one."""
        near = [each for each in self._parts if _is_near(each, old)]
        if not self._has_values(old):
            return len(old.words) >= LEAST_WORDS and any(
                _replaces(e, old) for e in near
            )
        is_short = len(old.words) <= FEW_WORDS and not old.is_open
        together = frozenset().union(*(each.words for each in near))
        return bool(old.values and is_short) or _share(old, together) >= SAID

    def _has_values(self, old: Statement) -> bool:
        return all(not self._keys.isdisjoint(each.keys) for each in old.values)


def _is_near(new: Statement, old: Statement) -> bool:
    """Whether a statement may be of the same matter: it names one of the same ids."""
    if not old.ids:
        return True
    return any(not new.ids.isdisjoint(each.keys) for each in old.values if each.is_id)


def _replaces(new: Statement, old: Statement) -> bool:
    """Whether a statement says something else of the same matter and people."""
    is_same = old.names <= set(re.findall(r"\w+", new.text.casefold()))
    return is_same and _share(old, new.words) >= SAME_MATTER


def _share(old: Statement, words: frozenset[str]) -> float:
    """The share of a statement's words that are among others."""
    if not old.words:
        return 1.0
    return len(old.words & words) / len(old.words)
