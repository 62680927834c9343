"""Tell whose each exchange is and which questions of the assistant are open.

A chat may serve several people in turn. Records say whose they are (`user_id:
ann_lee_12`), and so does a call that asks for a person's records; by these ids an
exchange belongs to one person. A question waits until its conversation goes on
(`threads.py`), an answer to it, or an action on what it names.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise

from nbchat.compaction.facts.records import Call, Field, Record, record_texts
from nbchat.compaction.facts.sentence_forms import content_of
from nbchat.compaction.facts.threads import Assignment, Exchange, assigned
from nbchat.compaction.facts.tool_names import snake
from nbchat.compaction.facts.value_ranking import NAME, form_weight, names_of, words
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import begins_turn

SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b\d\.)(?<!\b\d\d\.)\s+|(?<=[\u3002\uff01\uff1f])"
)
_PERSON = re.compile(
    r"(?:account|buyer|client|customer|employee|guest|member|owner|passenger|patient"
    r"|student|subscriber|tenant|user)_?(?:ids?|number|no|key|uuid)"
)
"""Fields that say whose a record is."""

_QUESTION = re.compile("[?\uff1f\u061f]")
_CONFIRM = (
    r"\b(?:please confirm|(?:reply|answer|say|type|respond)(?: with)?"
    r" [\"'\u201c]?yes|yes[\"'\u201d]? or [\"'\u201c]?no|bestätigen sie|bitte bestätige"
    r"|confirmez|confirme|confirma|подтвердите)\b|请确认|請確認|ご確認ください|확인해"
    r"|يرجى التأكيد|पुष्टि करें"
)
ASKS = re.compile(
    f"{_QUESTION.pattern}|{_CONFIRM}"
    r"|\blet (?:me|us) know (?:which|what|whether|how|your|once|when|as soon as)\b",
    re.IGNORECASE,
)
"""A question, or another request for an answer."""

AGREES = re.compile(
    rf"{_CONFIRM}|\b(?:once (?:you )?confirm|proceed with (?:all|the|these|this)\b)",
    re.IGNORECASE,
)
"""A request for a "yes" to all that a message proposes."""

_REFUSES = re.compile(
    r"\s*(?:(?:no|nope|nah|never mind|nevermind|forget (?:it|that)|don't|do not|please"
    r" don't|nein|lieber nicht|lass es|non|laisse|não|deixa|нет|не надо|ni hablar|mejor"
    r" no)\b|不用|不要|不行|算了|いいえ|やめ|結構です|아니|됐어|لا\b|नहीं)",
    re.IGNORECASE,
)
"""How a message begins that answers with "no"."""

_GREETS = re.compile(
    r"\W*(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|hallo|moin|guten"
    r" (?:tag|morgen|abend)|bonjour|bonsoir|salut|hola|buen[oa]s (?:d[ií]as|tardes)"
    r"|ol[áa]|bom dia|boa tarde|ciao|buongiorno|здравствуйте|привет|добрый день|नमस्ते)\b"
    r"|你好|您好|こんにちは|안녕|مرحبا|السلام)",
    re.IGNORECASE,
)
"""How the first message of a conversation begins."""

MOST_REFUSING = 60
"""Characters of a message that only refuses."""

SHORT_WORDS = 4
"""Words of an answer such as "the second one, please" that need not name anything."""

READ_CHARACTERS, CACHED_TEXTS = 4_000, 2_000
"""Characters of a message that are compared, and messages whose words are kept."""

MOST_BETWEEN, MOST_CHOOSING = 60, 200
"""Turns before a question in which a person may have chosen what it is about, or which
may have asked what the next message answers; and characters of a choice: a request is
longer."""

MOST_TURNS = 600
"""The newest turns that are looked at."""

MOST_OPEN_CALLS = 130
"""Calls of open conversations that come first. With 100 after ten compactions 3 %
fewer of the values of next calls are kept, with 160 after 300,000 tokens 1 %
(`tests/benchmarks/reader.py --folds 10`, `longrun.py --tokens 300000`)."""

ASKING_CHARACTERS = 400
"""The end of a message, in which it asks."""

SAME_SHARE = 0.5
"""Two proposals are about the same when they share this part of their names."""


SHARED_WORDS = 2
"""Words by which an answer speaks of a result."""

_WORD = re.compile(r"[^\W\d_]{4,30}")


class Matters:
    """Whose the newest turns of a transcript are, and what waits for an answer."""

    def __init__(self, entries: Sequence[Entry], calls: Sequence[Call]) -> None:
        """Read the newest turns; `calls` are those of the whole transcript."""
        self._entries, self._calls = entries, calls
        self._turns = _newest_exchanges(entries)
        self._starts = [turn.start for turn in self._turns]
        first = self._turns[0].start
        self._newest = dict(enumerate(entries[first:], first))
        self._owners = _owners(calls)
        self._called = self._calls_by_turn()
        self._prompts = [self._prompt_in(turn) for turn in self._turns]
        self._people = [self._person_of(number) for number in range(len(self._turns))]
        exchanges = list(map(self._exchange, range(len(self._turns))))
        self._ids = [each.ids for each in exchanges]
        self._assigned = assigned(exchanges)
        self._with_records = {
            given.thread
            for given, each in zip(self._assigned, exchanges, strict=True)
            if each.person or each.found
        }
        self.waiting = list(self._waiting())
        """The messages that wait for an answer, newest first."""
        newest = self._answer_in(self._turns[-1])
        asking = self.waiting if newest is None else [*self.waiting, newest]
        self.questions = [entries[index].content for index in asking]
        """The texts of what waits, and of the newest answer, which may."""
        self.open_calls = self._open_calls()
        """The indices of the calls of conversations that wait, and for their people."""

    def _entry(self, index: int) -> Entry:
        return self._newest.get(index) or self._entries[index]

    def owner(self, index: int) -> Field | None:
        """The person a message was written to; None where that is not certain."""
        number = self._turn_at(index)
        is_last = number >= 0 and index == self._answer_in(self._turns[number])
        return self._people[number] if is_last else None

    def is_named(self, index: int) -> bool:
        """Whether a message names ids, or its person is known."""
        return bool(self._named_in(index)) or self.owner(index) is not None

    def choice_before(self, index: int) -> int | None:
        """The message in which a person chose what a question does not name.

        The newest of the same conversation, up to the question, with an id that no call
        has taken since.
        """
        number = self._turn_at(index)
        person = self._people[number]
        named = self._named_in(index) | ({_bare(person.text)} if person else set())
        taken: set[str] = set()
        for each in range(number, max(-1, number - MOST_BETWEEN), -1):
            tried = (c for c in self._called[each] if c.status != "failed")
            taken |= {_bare(field.text) for call in tried for field in call.asked}
            if each != number and not self._is_same(each, number):
                continue
            at = self._prompt_at(self._turns[each])
            if at is None or len(self._entry(at).content) > MOST_CHOOSING:
                continue
            if self._named_in(at) - taken - named:
                return at
        return None

    def _named_in(self, index: int) -> frozenset[str]:
        return frozenset(filter(_is_id, names_of(self._entry(index).content)))

    def _is_same(self, number: int, other: int) -> bool:
        """Whether two exchanges are of one conversation by their person or ids."""
        if self._assigned[number].thread != self._assigned[other].thread:
            return False
        person = self._people[number]
        is_one = person is not None and person == self._people[other]
        return is_one or not self._ids[number].isdisjoint(self._ids[other])

    def _prompt_at(self, turn: range) -> int | None:
        return next((n for n in turn if self._entry(n).is_prompt), None)

    def _turn_at(self, index: int) -> int:
        """The turn with an index; -1 before the turns that are looked at."""
        return bisect_right(self._starts, index) - 1

    def _answer_in(self, turn: range) -> int | None:
        """The last answer of an exchange; text before a call may be another's."""
        return next((n for n in reversed(turn) if self._entry(n).is_answer), None)

    def _calls_by_turn(self) -> list[list[Call]]:
        found: list[list[Call]] = [[] for _ in self._turns]
        for call in self._calls:
            if (number := self._turn_at(call.index)) >= 0:
                found[number].append(call)
        return found

    def _person_of(self, number: int) -> Field | None:
        """The only person whose ids the answer of an exchange names.

        Where it names none, whose records its calls found, if it or the question speaks
        of these.
        """
        turn, calls = self._turns[number], self._called[number]
        at = self._answer_in(turn)
        answer = self._entry(at).content if at is not None else ""
        found = self._named([answer])
        if not found and calls:
            texts = "\n".join([self._prompts[number] or "", answer])
            spoken = [call for call in calls if not answer or _speaks_of(texts, call)]
            found = {p for call in spoken for p in self._people_in(call)}
        return min(found) if len(found) == 1 else None

    def _people_in(self, call: Call) -> Iterator[Field]:
        texts = [field.text for field in call.asked]
        texts += [call.words] if call.words else []
        texts += [call.record.label] if call.record else []
        for text in texts:
            if person := self._owners.get(_bare(text)):
                yield person

    def _named(self, texts: Iterable[str]) -> set[Field]:
        names = {name for text in texts for name in words(text)}
        return {self._owners[name] for name in names if name in self._owners}

    def _prompt_in(self, turn: range) -> str | None:
        at = self._prompt_at(turn)
        return None if at is None else self._entry(at).content

    def _exchange(self, number: int) -> Exchange:
        calls = self._called[number]
        said = (self._entry(n) for n in self._turns[number])
        texts = [each.content for each in said if each.is_prompt or each.is_answer]
        names = {name for text in texts for name in names_of(text)}
        names = names.union(*map(_asked, calls))
        found = {_bare(t) for c in calls if c.record for t in record_texts(c.record)}
        about = {word for text in texts for word in _content(text[:READ_CHARACTERS])}
        prompt = self._prompts[number] or ""
        return Exchange(
            self._people[number],
            frozenset(filter(_is_id, names)),
            frozenset(filter(_is_id, found)),
            frozenset(about) | {call.tool for call in calls},
            begins=not prompt or _GREETS.match(prompt) is not None,
        )

    def _asks(self, index: int) -> str:
        """The end of a message in which it asks; empty if it does not."""
        end = self._entry(index).content[-ASKING_CHARACTERS:]
        return end if ASKS.search(end) else ""

    def _waiting(self) -> Iterator[int]:
        """Proposals that were not answered, carried out or replaced, newest first.

        A call about it was tried after a "yes", whatever became of it. One that names
        nothing waits only where its person is known, where it is the last of a
        conversation that has records, or where a question came in place of an answer.
        """
        later = _Later()
        people = self._people_of_threads()
        seen: set[int] = set()
        going_on: set[int] = set()
        reply = None
        for number in range(len(self._turns) - 1, -1, -1):
            thread = self._assigned[number].thread
            whose = people[thread]
            is_over = thread in going_on or self._is_followed(number)
            for index in reversed(self._turns[number]):
                entry = self._entry(index)
                if not entry.is_answer:
                    continue
                names = self._named_in(index)
                asks = bool(self._asks(index))
                is_last = thread in self._with_records and thread not in seen
                is_known = self.owner(index) is not None or is_last
                if (
                    asks
                    and not is_over
                    and _is_open(names, reply, later, is_known=is_known, whose=whose)
                ):
                    yield index
                if names or asks:
                    later.add(names, whose)
            seen.add(thread)
            if self._goes_on(number):
                going_on.add(thread)
            for call in filter(_is_try, self._called[number]):
                later.add(_asked(call), whose)
            reply = self._prompts[number] or reply

    def _people_of_threads(self) -> dict[int, frozenset[Field]]:
        """The people of each conversation."""
        found: dict[int, set[Field]] = defaultdict(set)
        for given, person in zip(self._assigned, self._people, strict=True):
            found[given.thread] |= {person} if person else set()
        return {thread: frozenset(people) for thread, people in found.items()}

    def _is_followed(self, number: int) -> bool:
        """Whether the next message answers an exchange, though it names nothing."""
        following = Assignment(self._assigned[number].thread, is_certain=False)
        if self._assigned[number + 1 : number + 2] != [following]:
            return False
        answer = self._answer_in(self._turns[number])
        reply = self._prompts[number + 1]
        if answer is None or not reply:
            return False
        asked = self._entry(answer).content
        return _answers(reply, asked) and not self._fits_another(reply, asked, number)

    def _fits_another(self, reply: str, asked: str, number: int) -> bool:
        """Whether a reply speaks as much of what another conversation asked before.

        Of two people who were asked to confirm a change either may say "yes".
        """
        said = _content(reply[:READ_CHARACTERS])
        own = len(said & _content(asked[:READ_CHARACTERS]))
        seen = {self._assigned[number].thread}
        for each in reversed(range(max(0, number - MOST_BETWEEN), number)):
            thread = self._assigned[each].thread
            at = self._answer_in(self._turns[each])
            if thread in seen or at is None:
                continue
            seen.add(thread)
            shared = said & _content(self._entry(at).content[:READ_CHARACTERS])
            if self._asks(at) and len(shared) >= max(1, own):
                return True
        return False

    def _goes_on(self, number: int) -> bool:
        """Whether an exchange is an answer to what its conversation asked before."""
        if not self._assigned[number].is_certain:
            return False
        answer = self._answer_in(self._turns[number])
        asks = answer is not None and self._asks(answer)
        return bool(asks) or not _only_asks(self._prompts[number] or "?")

    def _open_calls(self) -> set[int]:
        """The calls of conversations that wait, their repetitions for others included.

        The newest conversation comes first. One whose calls are too many beside those
        of newer ones is passed over: its person may have been served all day.
        """
        same: dict[str, set[int]] = defaultdict(set)
        theirs: dict[Field | None, set[str]] = defaultdict(set)
        for call in self._calls:
            same[call.scope].add(call.index)
            for owner in self._people_in(call):
                theirs[owner].add(call.scope)
        for number, person in enumerate(self._people):
            theirs[person].update(call.scope for call in self._called[number])
        theirs[None] = set()
        found = set[int]()
        for turns in self._open_turns():
            scopes = {call.scope for number in turns for call in self._called[number]}
            scopes = scopes.union(*(theirs[self._people[number]] for number in turns))
            wider = found.union(*map(same.__getitem__, scopes))
            found = wider if len(wider) <= MOST_OPEN_CALLS else found
        return found

    def _open_turns(self) -> Iterator[list[int]]:
        """The exchanges of each conversation that waits, the newest conversation first.

        Of several people the newest waits, too. A question without ids of an unknown
        person is quoted, but is too uncertain to keep records for it.
        """
        if len(set(self._people) - {None}) > 1:
            yield [len(self._turns) - 1]
        turns: dict[int, list[int]] = defaultdict(list)
        for number, given in enumerate(self._assigned):
            turns[given.thread].append(number)
        named = filter(self.is_named, self.waiting)
        threads = (self._assigned[self._turn_at(index)].thread for index in named)
        yield from map(turns.__getitem__, dict.fromkeys(threads))


@lru_cache(CACHED_TEXTS)
def _content(text: str) -> frozenset[str]:
    """The words that say what a message is about; ids are compared apart."""
    return frozenset(filter(str.isalpha, content_of(text.lower())))


def _newest_exchanges(entries: Sequence[Entry]) -> list[range]:
    """A prompt, or what follows an answer, up to the next answer: the newest of these.

    Of two answers in a row the second may begin another conversation.
    """
    count = len(entries)
    found = (
        count - age
        for age, (entry, before) in enumerate(pairwise(reversed(entries)), 1)
        if (before.is_answer and not entry.is_call) or begins_turn((before, entry), 1)
    )
    starts = [*islice(found, MOST_TURNS)]
    starts += [] if len(starts) == MOST_TURNS else [0]
    return [range(*pair) for pair in pairwise([*reversed(starts), count])]


def _speaks_of(text: str, call: Call) -> bool:
    """Whether a text has an id, or several words, of what a call said or returned."""
    values = [field.text for field in call.asked]
    values += record_texts(call.record) if call.record is not None else [call.words]
    ids = {_bare(value) for value in values if _is_id(value)}
    if not ids.isdisjoint(names_of(text)):
        return True
    said = {word for value in values for word in _plain_words(value)}
    return len(said & set(_plain_words(text))) >= SHARED_WORDS


def _plain_words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _is_try(call: Call) -> bool:
    return call.status in ("done", "unconfirmed", "failed")


def _asked(call: Call) -> frozenset[str]:
    return frozenset(field.text.lower() for field in call.asked)


def _is_id(name: str) -> bool:
    return form_weight(name) >= NAME


def _owners(calls: Iterable[Call]) -> dict[str, Field]:
    """The person whose each id is, as far as records and calls say one alone."""
    found: dict[str, set[Field]] = {}
    by_word: list[tuple[str, Call]] = []
    for call in calls:
        if call.status == "failed":
            continue
        asked = [f for f in call.asked if is_person(f)]
        if len(asked) == 1:
            _add(found, _single(call.asked), asked[0])
        by_word += [(call.words, call)] if " " not in call.words else []
        for record in _records_of(call):
            _read(found, record)
    people = {field.text: field for each in found.values() for field in each}
    for word, call in by_word:
        if word in people:
            _add(found, call.asked, people[word])
    return {name: min(each) for name, each in found.items() if len(each) == 1}


def _read(found: dict[str, set[Field]], record: Record) -> None:
    own = Field(record.label_field, record.label)
    said = [f for f in record.fields if is_person(f)]
    if record.label and is_person(own):
        _add(found, [own, *record.fields], own)
        parts = (p for _, p in record.parts if p.label)
        _add(found, (Field(p.label_field, p.label) for p in parts), own)
    elif record.label and len(said) == 1:
        _add(found, [own, said[0]], said[0])


def _single(asked: Sequence[Field]) -> Iterator[Field]:
    """The arguments that are neither nested nor one of a list."""
    counts = Counter(field.name for field in asked)
    return (f for f in asked if "." not in f.name and counts[f.name] == 1)


def _add(found: dict[str, set[Field]], fields: Iterable[Field], person: Field) -> None:
    """Add that ids are a person's: a number or a word may be anybody's."""
    for field in fields:
        if form_weight(field.text) >= NAME and not field.text.isdigit():
            found.setdefault(_bare(field.text), set()).add(person)


def is_person(field: Field) -> bool:
    """Whether a field says whose a record is."""
    return _PERSON.fullmatch(snake(field.name.rpartition(".")[2])) is not None


def _bare(text: str) -> str:
    return text.strip("#").lower()


def _records_of(call: Call) -> Iterator[Record]:
    """The record of a result, and those of its list."""
    if call.record is not None and call.status != "failed":
        yield call.record
        yield from (part for _, part in call.record.parts)


class _Later:
    """The ids in what was said and done after a message, found by each id."""

    def __init__(self) -> None:
        self.count = 0
        """How many texts and calls there are."""
        self._places = defaultdict[str, list[int]](list)
        self._whose: list[frozenset[Field]] = []

    def add(self, names: Iterable[str], whose: frozenset[Field]) -> None:
        """Add the ids of a text or a call in a conversation of some people."""
        for name in names:
            self._places[name].append(self.count)
        self._whose.append(whose)
        self.count += 1

    def is_about(self, names: Collection[str], whose: frozenset[Field]) -> bool:
        """Whether one of them has as many of these ids as speak of the same.

        Two customers may be offered one flight: what is said to another is not counted.
        """
        shared = Counter(n for name in names for n in self._places.get(name, ()))
        enough = max(1, SAME_SHARE * len(names))
        return any(
            count >= enough and not _are_others(whose, self._whose[place])
            for place, count in shared.items()
        )


def _are_others(people: frozenset[Field], others: frozenset[Field]) -> bool:
    return bool(people and others) and people.isdisjoint(others)


def _is_open(
    names: frozenset[str],
    reply: str | None,
    later: _Later,
    *,
    is_known: bool,
    whose: frozenset[Field],
) -> bool:
    """Whether nothing that came later answers, carries out or replaces a proposal.

    `reply` is the next message of a person; without one the proposal is in the newest
    exchange, which is kept whole.
    """
    if reply is None or _is_answer(reply, names) or later.is_about(names, whose):
        return False
    is_asked = not later.count and _QUESTION.search(reply) is not None
    return bool(names) or is_known or is_asked


def _is_answer(reply: str, names: frozenset[str]) -> bool:
    """Whether a message is no question, and says "no" or names what was proposed."""
    if _QUESTION.search(reply):
        return False
    is_short = len(reply) <= MOST_REFUSING
    is_refusal = is_short and _REFUSES.match(reply.replace("\u2019", "'")) is not None
    return is_refusal or not names.isdisjoint(names_of(reply))


def _only_asks(text: str) -> bool:
    """Whether all sentences of a text are questions."""
    sentences = filter(None, map(str.strip, SENTENCE_END.split(text)))
    return all(map(_QUESTION.search, sentences))


def _answers(reply: str, asked: str) -> bool:
    """Whether what follows a question answers it: it is short, or about the same."""
    if _only_asks(reply):
        return False
    is_short = len(reply.split()) <= SHORT_WORDS
    return is_short or not content_of(reply.lower()).isdisjoint(
        content_of(asked.lower())
    )
