"""Collect what is known about each entity in one row: fields, parts, state.

    lei_wilson_4541 Lei Wilson 32255 #W3826449 #W2905754; credit_card_3677959
    #W2905754 delivered credit_card_3677959; Laptop 3478699712; 9844888101 i7 8GB 1TB

Values of one entity stay in one row, because later calls need them together. Parts of a
long list, such as a catalogue, are kept when the conversation mentions them.
"""

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice

from nbchat.compaction.facts.row_packing import Cell, Row
from nbchat.compaction.facts.tool_results import (
    CODE,
    DATE,
    NUMBER,
    PHRASE,
    WORD,
    Part,
    Record,
    Scale,
    Value,
    form_weight,
    words,
)
from nbchat.conversation.entries import Entry

SHORTEST, LONGEST = 2, 60
"""Characters of a name; longer texts are prose."""

USER, MODEL, TOOL, UNUSED, MONEY, QUOTED = 3.0, 0.5, 0.25, 3.0, 8.0, 2.0
"""How much more a name counts that a person said, or less one that only the model or
a tool said; and more one that no call has used, that is an amount of money, or that
stands in quotation marks."""

READ_CHARACTERS, READ_OF_TOOLS = 200_000, 4_000
"""Of one message, those in which names are looked for; of an answer in words, those."""

_CHUNK = re.compile(r"[^\s\"'<>()\[\]{}|;*`]{1,100}")
"""Forms are looked for in short pieces: in a megabyte without a space the search would
take a time that grows with the square of the length."""

_FORMS = re.compile(
    r"""
    https?://[^\s"'<>)\]]+          # addresses of pages
    | [\w.+-]+@[\w-]+\.[\w.-]*\w    # addresses of people
    | (?:[\w.-]*/){2,}[\w.-]+       # paths
    | [#$€£]?\w*\d[\w,.:/#%-]*\w    # ids, amounts, dates, times
    | [$€£]\d | \b\d\d\b
    | \w+(?:_\w+)+ | \w*[a-z][A-Z]\w*  # names as programs write them
    | \b[A-Z]{2,8}\b                # codes
    """,
    re.VERBOSE,
)
_PEOPLE = re.compile(r"(?<=[a-z,:] )[A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,3}")
"""Words in capitals where no sentence begins: people, places, products."""

_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|"
    "December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_DAYS = re.compile(
    rf"\b(?:(?:{_MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b"
    rf"|\d{{1,2}}\.? (?:{_MONTHS})\b(?: \d{{4}})?)"
)
"""Days as people write them in English; other forms have digits and signs alone."""

_TITLES = re.compile(r"[\"“]([^\"“”\n]{2,40})[\"”]")


def spoken_names(
    entries: Sequence[Entry], *, used: Container[str] = ()
) -> dict[str, float]:
    """What people, the model and answers in words have named, and how telling it is.

    `used` holds what calls were made with: a person's name in it is no open question.
    """
    weights: dict[str, float] = defaultdict(float)
    for age, entry in enumerate(reversed(entries)):
        text = _words_of(entry)
        fresh = 1 - age / (2 * len(entries))
        quoted = set(_TITLES.findall(text))
        for name in dict.fromkeys(names(text)):
            if entry.role == "tool" and form_weight(name) <= NUMBER:
                continue  # line numbers, sizes: a name is what may be needed again
            weight = form_weight(name) * _factor(name, entry.role, used)
            weight *= QUOTED if name in quoted else 1
            weights[name] = max(weights[name], weight * fresh)
    return weights


def _words_of(entry: Entry) -> str:
    """What is searched of an entry; a JSON answer is read as records, not as words."""
    if entry.role == "user" or entry.is_answer:
        return entry.content[:READ_CHARACTERS]
    is_words = entry.role == "tool" and entry.content[:1] not in ("{", "[")
    return entry.content[:READ_OF_TOOLS] if is_words else ""


def names(text: str) -> Iterator[str]:
    """The names in a text, in no order; some more than once."""
    forms = chain.from_iterable(map(_FORMS.findall, _CHUNK.findall(text)))
    people = (each for each in _PEOPLE.findall(text) if each not in _MONTHS.split("|"))
    for name in chain(forms, people, _DAYS.findall(text), _TITLES.findall(text)):
        name = name.strip(" .,:;!?-")  # noqa: PLW2901  # the same name, trimmed
        if SHORTEST <= len(name) <= LONGEST:
            yield name


def _factor(name: str, role: str, used: Container[str]) -> float:
    factor = MONEY if name[0] in "$€£" else 1.0
    if role == "user":
        is_open = name not in used and (form_weight(name) >= CODE or " " in name)
        return factor * USER * (UNUSED if is_open else 1)
    return factor * (MODEL if role == "assistant" else TOOL)


MOST_THINGS = 500
"""Things that rows are made for, the newest; earlier ones are in the transcript."""

MANY = 6
"""From more parts than this a choice is offered, as by a catalogue: what was spoken of
comes in, the rest waits."""

BEST, LEAST_TALK = 3, 0.3
"""Of a choice, the parts that come in, and the least share of a part's words that one
message must have used."""

TALK_BEFORE, TALK_AFTER = 3, 30
"""Messages before and after an answer in which people may have spoken of its parts."""

TOGETHER, ADDRESS_PARTS = 3, 8
"""Names of one part that come in together, where a longer list comes one by one, and
the values that an address may have."""

OFFER_FORMS, OFFER_VALUES, OFFER_WORDS = (WORD, PHRASE, DATE), 6, 0.5
"""Of something offered, what describes it (words and dates, no amounts), how much of
it, and what that counts beside its names."""

PARENTS = 2
"""Of the things that named a thing, the newest that its row tells."""

WAITING, IMPLIED, OF = 0.3, 0.2, 0.7
"""How much less a value counts of a part that was not chosen, a name in a row that its
own row names already, and how much it counts whom a thing belongs to."""

TELLING, FRESH = 1.0, 0.5
"""How much more a thing counts that people have spoken of, and the newest one."""

KNOWN_TITLE = "Known of each thing, newest state:"


def thing_rows(
    records: Sequence[Record], entries: Sequence[Entry], scale: Scale
) -> list[Row]:
    """A row for each thing that tools told of, in its newest state."""
    things = dict(islice(reversed(_things(records).items()), MOST_THINGS))
    things = dict(reversed(things.items()))
    parents = _parents(things)
    offers = _offers(things)
    offered = {offer for each in offers.values() for offer in each}
    choices = {label: _chosen_parts(each, entries) for label, each in things.items()}
    rows = []
    for label, record in things.items():
        spoken = TELLING if scale.is_spoken(label) else 0
        score = 1 + FRESH * record.index / max(len(entries), 1) + spoken
        row = Row(label, score, _title(record), index=record.index)
        row.implied.update(parents[label])
        own = {value.text for value in _values(record)}
        for parent in [each for each in parents[label] if each not in own][-PARENTS:]:
            row.cells.append(Cell((f"of {parent}",), OF, is_link=True))
        _add_part(row, record.own, scale, 1.0)
        chosen = () if label in offered else choices[label]
        for index, part in enumerate(record.parts):
            _add_part(row, part, scale, 1.0 if index in chosen else WAITING)
        for offer in offers[label]:
            _add_part(row, things[offer].asked, scale, 1.0)
            for index in sorted(choices[offer]):
                _add_offer(row, things[offer].parts[index], scale)
        rows.append(row)
    return rows


def _title(record: Record) -> str:
    """What the numbers in a row are, where a part has several names."""
    keys = Counter(
        tuple(v.key for v in part if v.is_identity or v.key == "name")
        for part in record.parts
    )
    names = max(keys, key=lambda each: keys[each], default=())
    if len(set(names)) < 3 or len(record.parts) < 2:  # noqa: PLR2004  # a title and two numbers
        return KNOWN_TITLE
    return f"From {record.tool}, parts as {' '.join(dict.fromkeys(names))}:"


def _things(records: Sequence[Record]) -> dict[str, Record]:
    """What is known of each thing: of every field the newest that was answered."""
    things: dict[str, Record] = {}
    for record in records:
        if record.own or record.parts:
            asked = " ".join(value.text for value in record.asked)
            label = record.subject or f"{record.tool} {asked}".strip()
            things[label] = _updated(things.get(label, record), record)
    return things


def _updated(known: Record, newer: Record) -> Record:
    """A record with the fields and parts of an older one that it does not tell anew."""
    keys = {value.key for value in newer.own}
    names = {part[0].text for part in newer.parts}
    own = (*newer.own, *(value for value in known.own if value.key not in keys))
    older = tuple(part for part in known.parts if part[0].text not in names)
    is_state = len(newer.parts) >= len(known.parts) or newer.tool == known.tool
    return replace(
        newer, own=own, parts=newer.parts if is_state else newer.parts + older
    )


def _values(record: Record) -> Iterator[Value]:
    yield from record.own
    for part in record.parts:
        yield from part


def _parents(things: dict[str, Record]) -> dict[str, list[str]]:
    """The things whose answers named a thing."""
    parents: dict[str, list[str]] = defaultdict(list)
    for label, record in things.items():
        if record.subject and len(record.parts) <= MANY * 2:
            for text in {value.text for value in _values(record)} - {label}:
                if text in things:
                    parents[text].append(label)
    return parents


def _offers(things: dict[str, Record]) -> dict[str, list[str]]:
    """The catalogues that offer something for a thing.

    An offer is about something the thing holds, or was asked for with its values.
    """
    holders: dict[str, set[str]] = defaultdict(set)
    for label, record in things.items():
        if len(record.parts) <= MANY * 2:
            for value in _values(record):
                holders[value.text].add(label)
    offers: dict[str, list[str]] = defaultdict(list)
    for label, record in things.items():
        if record.subject and len(record.parts) <= MANY:
            continue
        asked = {value.text for value in record.asked} | {record.subject} - {""}
        held = Counter(h for text in asked for h in holders[text] if h != label)
        for holder, count in held.items():
            if count * 2 >= len(asked):
                offers[holder].append(label)
    return offers


def _chosen_parts(record: Record, entries: Sequence[Entry]) -> set[int]:
    """The parts that people have spoken of; all of them when they are few.

    The sums are exact (`fsum`), so that the order of a set, another one in every
    process, does not decide between parts that are nearly as good.
    """
    if len(record.parts) <= MANY:
        return set(range(len(record.parts)))
    part_words = [_part_words(part) for part in record.parts]
    spread = Counter(word for each in part_words for word in each)
    weigh = {word: math.log(1 + len(part_words) / n) for word, n in spread.items()}
    totals = [math.fsum(weigh[word] for word in each) or 1 for each in part_words]
    names = [{v.text.lower() for v in p if v.is_identity} for p in record.parts]
    best: dict[int, float] = defaultdict(float)
    for age, said in enumerate(_talk_around(record.index, entries)):
        for index, each in enumerate(part_words):
            share = math.fsum(weigh[word] for word in each & said) / totals[index]
            if share > LEAST_TALK or names[index] & said:
                named = bool(names[index] & said)
                best[index] = max(best[index], share + named + age / 100)
    return set(heapq.nlargest(BEST, best, key=lambda index: best[index]))


def _part_words(part: Part) -> set[str]:
    return set[str]().union(*(words(value.text) for value in part))


def _talk_around(index: int, entries: Sequence[Entry]) -> Iterator[set[str]]:
    """What people and the model said shortly before an answer, and after it."""
    asked = (entries[n] for n in range(index - 1, -1, -1) if entries[n].role == "user")
    before = reversed(list(islice(asked, TALK_BEFORE)))
    later = (entries[n] for n in range(index + 1, len(entries)))
    after = (e for e in later if e.role == "user" or e.is_answer)
    for entry in [*before, *islice(after, TALK_AFTER)]:
        yield words(entry.content)


def _add_part(row: Row, part: Part, scale: Scale, factor: float) -> None:
    """Cells for a part: its names together, then everything else it says."""
    row.breaks.add(len(row.cells))
    seen = {"", row.label, *(text for cell in row.cells for text in cell.texts)}
    named = [value for value in part if value.is_identity]
    if len(named) <= TOGETHER:
        title = [value for value in part if value.key == "name"]
        _add_cell(row, [*title, *named], scale, factor, seen, is_link=bool(named))
    for _, values in groupby(part, lambda value: value.group):
        together = list(values)
        if _is_one(together):
            _add_cell(row, together, scale, factor, seen)
        for value in together:
            _add_cell(row, [value], scale, factor, seen, is_link=value.is_identity)


def _add_offer(row: Row, part: Part, scale: Scale) -> None:
    """One cell for what is offered: a bare number would be nothing to choose by."""
    row.breaks.add(len(row.cells))
    named = [value for value in part if value.is_identity]
    told = [value for value in part if form_weight(value.text) in OFFER_FORMS]
    held = {text for cell in row.cells for text in cell.texts}
    if not named or not held.issuperset(value.text for value in named):
        texts = dict.fromkeys(v.text for v in [*named, *told[:OFFER_VALUES]])
        weight = sum(map(scale.weight, named)) + OFFER_WORDS * sum(
            map(scale.weight, told[:OFFER_VALUES])
        )
        row.cells.append(Cell(tuple(texts), weight, is_link=True))


def _add_cell(
    row: Row,
    values: Sequence[Value],
    scale: Scale,
    factor: float,
    seen: set[str],
    *,
    is_link: bool = False,
) -> None:
    """A cell with what of some values the row does not have yet."""
    new = {value.text: value for value in values if value.text not in seen}
    if new:
        seen.update(new)
        weight = sum(map(scale.weight, new.values())) * factor
        weight *= IMPLIED if row.implied.issuperset(new) else 1
        row.cells.append(Cell(tuple(new), weight, is_link=is_link))


def _is_one(values: Sequence[Value]) -> bool:
    """Whether a description is taken as one: a name, or an address with its number."""
    if not values[0].group or len(values) > ADDRESS_PARTS:
        return False
    phrases = sum(form_weight(value.text) == PHRASE for value in values)
    return phrases > 0 or all("name" in value.key for value in values)
