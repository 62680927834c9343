"""The names of things in what was said: ids, amounts, dates, addresses, people, titles.

Found by their form alone, so nothing is understood and nothing is invented. What a
person said counts more than what the model said, and most of all counts a name that a
person gave and nobody has used yet: that is a question still open.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from itertools import chain

from nbchat.compaction.facts.weights import CODE, NUMBER, form_weight
from nbchat.history import Entry

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
    if entry.role in ("user", "assistant") and not entry.is_call:
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
