"""Find ids, numbers, dates and times in a text, and write each in one standard form.

    $1,299.00   1299   1.299,00 €   1 299 ₽          n:1299
    2024-05-16   May 16, 2024   16.05.2024   5月16日   d:2024-5-16, d:*-5-16
    2:30 pm   14:30                                  t:870
    #W123   SO-107   so_107   ann@example.com        i:w123, i:so107, i:annexamplecom

Numbers in English words are read as in transcripts of speech:

    twenty-five   25          twelve point five    12.5
    two hundred   200         twelve and a half    12.5
    twenty fifth  25          twelve fifty         12.50, 1250

Two texts name the same value where their keys meet. Dates that can be read in two ways
have the keys of both.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal

Kind = Literal["id", "number", "amount", "date", "time"]

SMALL = 20
"""Largest whole number that is taken for a count, as in "3 orders"."""

ID_DIGITS = 6
"""Digits from which a whole number may be an id, as in "item 4947717507"."""

CARD_DIGITS, LAST_DIGITS, PHONE_DIGITS = 8, 4, 9
"""Digits of a number whose last four may be said alone ("ending in 7447"), and the last
digits that two ways of writing a phone number share."""

LONGEST = 120
"""Characters of a value; longer runs are data, not something that a summary repeats."""

CACHED_TEXTS, CACHED_CHARACTERS = 4_000, 200
"""Texts whose values stay in memory, and characters of the longest: fields of records
and sentences are read for each compaction, and for each check of a summary."""

MOST_PARTS = 8
"""Parts of an id, as in `INV-2024-0001`, each run of which may be said alone."""

SPOKEN = 25
"""Characters around a month in which its day may be said."""

LONGEST_MONTH = 31
NO_YEAR = "0"

MONTHS = (
    "january|jan|januar|jänner|janvier|enero|ene|janeiro|gennaio|января|янв",
    "february|feb|februar|février|fevrier|febrero|fevereiro|febbraio|февраля|фев",
    "march|mar|märz|maerz|mars|marzo|março|marco|марта",
    "april|apr|avril|abril|aprile|апреля|апр",
    "may|mai|mayo|maio|maggio|мая",
    "june|jun|juni|juin|junio|junho|giugno|июня",
    "july|jul|juli|juillet|julio|julho|luglio|июля",
    "august|aug|août|aout|agosto|августа|авг",
    "september|sept|sep|septembre|septiembre|setembro|settembre|сентября|сен",
    "october|oct|oktober|okt|octobre|octubre|outubro|ottobre|октября|окт",
    "november|nov|novembre|noviembre|novembro|ноября|ноя",
    "december|dec|dezember|dez|décembre|diciembre|dic|dezembro|декабря|дек",
)
"""Names of the months in English, German, French, Spanish, Portuguese, Italian and
Russian."""

_NAMES = "|".join(sorted("|".join(MONTHS).split("|"), key=len, reverse=True))
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
_CURRENCY = r"[$€£¥₹₽₩₺₴₪฿]|\b(?:usd|eur|gbp|chf|jpy|cny|inr|rub|brl|cad|aud)\b"

_VALUE = re.compile(
    rf"""
    (?P<url>https?://[^\s<>"'()\[\]]+)
    | (?<![\w.+-])
      (?P<mail>[\w.+-]{{1,64}}@[a-z0-9-]{{1,63}}(?:\.[a-z0-9-]{{1,63}}){{1,5}})
    | (?=\d)(?:
      (?<![\w.])(?P<year>\d{{4}})(?:[-/.]|年)(?P<month>\d{{1,2}})(?:[-/.]|月)
      (?P<day>\d{{1,2}})日?(?:[t ](?P<clock>{_CLOCK}))?(?:z|[+-]\d\d:?\d\d)?(?![\w-])
    | (?P<cjk_month>\d{{1,2}})月(?P<cjk_day>\d{{1,2}})[日号號]?
    | (?<![\w./-])(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<second>\d{{1,2}})
      (?:(?P=mark)(?P<third>\d{{4}}|\d{{2}}))?(?![\w/-]|\.\d)
    | (?<![\w.:])(?P<day_first>\d{{1,2}})(?:st|nd|rd|th|er|[.ºª])?[ ](?:de[ ]|of[ ])?
      (?P<month_after>{_NAMES})(?!\w)\.?(?:,?[ ](?:de[ ])?(?P<year_after>\d{{4}})\b)?
    | (?<![\w.:])(?P<time>{_CLOCK})(?:[ ]?(?P<half>[ap]\.?m\b))?(?![\w:])
    | (?<![\w.])(?P<hour>\d{{1,2}})[ ]?(?P<hour_half>[ap]\.?m\b)
    | (?<![\w.,-])(?P<grouped>\d{{1,3}}(?:[ '\u2019]\d{{3}})+(?:[.,]\d{{1,2}})?)
      (?![\w.,]\d|\w)
    | (?P<card>(?<![\w-])\d{{4}}(?:[ -]\d{{4}}){{2,4}}(?![\w-]))
    )
    | (?<!\w)(?P<named>{_NAMES})\b\.?[ ]{{1,2}}(?P<named_day>\d{{1,2}})
      (?:st|nd|rd|th)?\b(?!:)(?:,?[ ](?P<named_year>\d{{4}})\b)?
    | (?P<phone>(?<!\w)(?:\+\d*\)?|\(\+?\d{{1,4}}\))[ -]?\d[\d ()-]{{5,18}}\d(?!\w))
    | (?P<token>(?<![a-z0-9_])(?=[a-z_./:@&-]{{0,80}}\d)
      [a-z0-9_]+(?:(?:[-./:@&]|,(?=\d))[a-z0-9_]+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HAS_VALUES = re.compile(r"[\d@]|://")
"""Each form of a value has a digit, but for addresses."""
_MONTH = re.compile(rf"\b(?:{_NAMES})\b")
_NUMBER = re.compile(r"\d[\d,.]*\Z")
_UNIT = re.compile(r"(\d[\d.,]*)(?:[a-z]{1,5}|[a-z]{0,5}/[a-z]{1,7})\Z", re.IGNORECASE)
_DURATION = re.compile(r"(?:\d+(?:h|m|s|d|min))+\d*\Z", re.IGNORECASE)
_SCALED = re.compile(r"[ ]?(k|thousand|mio|million|m|mn|bn|billion)\b", re.IGNORECASE)
_SCALES = {
    **dict.fromkeys(("k", "thousand"), 1_000),
    **dict.fromkeys(("mio", "million", "m", "mn"), 1_000_000),
    **dict.fromkeys(("bn", "billion"), 1_000_000_000),
}
_AMOUNT_BEFORE = re.compile(rf"(?:{_CURRENCY})[ ]?-?\Z", re.IGNORECASE)
_AMOUNT_AFTER = re.compile(rf"[ ]?(?:{_CURRENCY}|%|元|円|percent\b)", re.IGNORECASE)
_LIST_MARK = re.compile(r"(?:\A|\n)[ \t>*#-]*\Z")

_SPACES, _DASHES = "\u00a0\u2007\u2009\u202f", "\u2010\u2011\u2012\u2013\u2014\u2212"

ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen
fourteen fifteen sixteen seventeen eighteen nineteen
"""
ORDINALS = """
zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
"""
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"

_SMALL = {
    **{word: number for number, word in enumerate(ONES.split())},
    **{word: number for number, word in enumerate(ORDINALS.split())},
    **{word: 10 * number for number, word in enumerate(TENS.split(), 2)},
    **{f"{word[:-1]}ieth": 10 * number for number, word in enumerate(TENS.split(), 2)},
}
_WORD_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_WORD = "|".join(sorted([*_SMALL, *_WORD_SCALES], key=len, reverse=True))
_RUN = re.compile(
    rf"\b(?:{_WORD})(?:(?:[ -]{{1,3}}|,? and )(?:{_WORD}))*\b"
    r"(?P<half> and a half\b)?(?P<point> point\b)?"
)
_DIGITS = re.compile(rf"(?: (?:{'|'.join(ONES.split()[:10])})\b)+")


@dataclass(frozen=True, slots=True)
class Value:
    """One id, number, date or time of a text."""

    kind: Kind
    text: str
    start: int
    keys: frozenset[str]
    """Standard forms of which a source must hold one."""
    related: frozenset[str] = frozenset()
    """Parts and other forms, in which a summary may repeat this value."""
    known: frozenset[str] = frozenset()
    """Standard forms that this value makes known as a source; by default its keys. A
    date without a year makes it known with any."""
    stop: int = field(init=False)
    """The index after the value."""
    is_id: bool = field(init=False)
    """Whether this names an entity: an id, or a whole number as long as one."""
    is_count: bool = field(init=False)
    """Whether this is a small whole number, which may count anything."""

    def __post_init__(self) -> None:
        """Decide once what is asked of each value many times."""
        is_whole, is_number = self.text.isdecimal(), self.kind == "number"
        is_long = is_whole and len(self.text) >= ID_DIGITS
        is_small = is_whole and is_number and int(self.text) <= SMALL
        self._set("known", self.known or self.keys)
        self._set("stop", self.start + len(self.text))
        self._set("is_id", self.kind == "id" or is_long)
        self._set("is_count", is_small)

    _set = object.__setattr__


def values(text: str) -> list[Value]:
    """The values of a text, in order; numbers of lists are omitted."""
    plain = plain_digits(text)
    if not _HAS_VALUES.search(plain):
        return []
    is_short = len(text) <= CACHED_CHARACTERS
    return list((_values if is_short else _values.__wrapped__)(plain, text))


@lru_cache(CACHED_TEXTS)
def _values(plain: str, text: str) -> tuple[Value, ...]:
    return tuple(
        value
        for match in _VALUE.finditer(plain)
        if match.end() - match.start() <= LONGEST
        for value in _read(match, plain, text)
    )


def spoken_keys(text: str) -> Iterator[str]:
    """The keys of numbers that are written in words, and of days: "July fifth"."""
    text = text.casefold()
    yield from (f"n:{number}" for number in spoken_numbers(text))
    for month in _MONTH.finditer(text):
        near = text[max(0, month.start() - SPOKEN) : month.end() + SPOKEN]
        for day in spoken_numbers(near):
            yield f"d:*-{_month(month[0])}-{day}"


def plain_digits(text: str) -> str:
    """The text with ASCII digits, spaces and dashes, at the same length."""
    return text if text.isascii() else text.translate(_ascii_table())


@cache
def _ascii_table() -> dict[int, str]:
    every = map(chr, range(0x80, 0x20000))
    table = {ord(c): str(unicodedata.decimal(c)) for c in every if c.isdecimal()}
    table |= dict.fromkeys(map(ord, _SPACES), " ") | dict.fromkeys(
        map(ord, _DASHES), "-"
    )
    return table | {ord("\u066c"): ",", ord("\u066b"): ".", ord("\uff0c"): ";"}


def _read(match: re.Match[str], plain: str, text: str) -> Iterator[Value]:
    """The values of one match; a token may hold several."""
    group = match.groupdict()
    start, stop = match.span()
    if dates := _dates(group):
        numbers = {f"n:{int(n)}" for n in re.findall(r"\d+", match[0])}
        clock = {f"t:{m}" for m in _minutes(group["clock"] or "", "")}
        years = {f"n:{year}" for year, _, _ in dates if year != NO_YEAR}
        yield Value(
            "date",
            text[start:stop],
            start,
            frozenset(_date_keys(dates)),
            frozenset(numbers | clock | years),
            frozenset(f"d:{y}-{m}-{d}" for year, m, d in dates for y in (year, "*")),
        )
    elif group["time"] or group["hour"]:
        minutes = _minutes(
            group["time"] or f"{group['hour']}:00",
            (group["half"] or group["hour_half"] or ""),
        )
        yield Value(
            "time", text[start:stop], start, frozenset(f"t:{m}" for m in minutes)
        )
    elif group["grouped"] or group["phone"] or group["card"]:
        yield from _digit_groups(match[0], start, plain, text)
    elif group["url"] or group["mail"]:
        yield _id(match[0].rstrip(".,;:!?"), start, text)
    else:
        yield from _token(match[0], start, plain, text)


def _dates(group: dict[str, str | None]) -> list[tuple[str, int, int]]:
    """Year (or "0"), month and day, in each way in which they can be read."""
    found: list[tuple[str | None, int, int]] = []
    if year := group["year"]:
        found = [(year, int(group["month"] or 0), int(group["day"] or 0))]
    elif month := group["cjk_month"]:
        found = [(None, int(month), int(group["cjk_day"] or 0))]
    elif first := group["first"]:
        found = _numeric_dates(int(first), int(group["second"] or 0), group)
    elif named := group["named"]:
        day = int(group["named_day"] or 0)
        found = [(group["named_year"], _month(named), day)]
    elif after := group["month_after"]:
        day = int(group["day_first"] or 0)
        found = [(group["year_after"], _month(after), day)]
    return [
        (year or NO_YEAR, month, day)
        for year, month, day in found
        if 1 <= month <= len(MONTHS) and 1 <= day <= LONGEST_MONTH
    ]


def _numeric_dates(
    first: int, second: int, group: dict[str, str | None]
) -> list[tuple[str | None, int, int]]:
    """Day and month in both orders; `5-16` is a range and `5.16` a number."""
    year = group["third"]
    if year is None and group["mark"] != "/":
        return []
    if year is not None and len(year) == 2:  # noqa: PLR2004  # two digits of a year
        year = f"20{year}"
    return [(year, first, second), (year, second, first)]


@cache
def _months() -> dict[str, int]:
    return {name: n for n, names in enumerate(MONTHS, 1) for name in names.split("|")}


def _month(name: str) -> int:
    return _months().get(name.casefold(), 0)


def _date_keys(dates: list[tuple[str, int, int]]) -> Iterator[str]:
    """A date with a year is known where it occurs with this one or with none."""
    for year, month, day in dates:
        if year == NO_YEAR:
            yield f"d:*-{month}-{day}"
        else:
            yield f"d:{year}-{month}-{day}"
            yield f"d:{NO_YEAR}-{month}-{day}"


def _minutes(clock: str, half: str) -> set[int]:
    """Minutes since midnight; without am or pm, those of both halves of a day."""
    if not clock:
        return set()
    hour, minute = map(int, clock.split(":")[:2])
    if half.lower().startswith("p"):
        return {hour % 12 * 60 + 720 + minute}
    if half:
        return {hour % 12 * 60 + minute}
    return {hour * 60 + minute, (hour + 12) % 24 * 60 + minute}


def _digit_groups(written: str, start: int, plain: str, text: str) -> Iterator[Value]:
    """A number in groups of digits, such as `1 299.50` or a phone number."""
    digits = re.sub(r"\D", "", written)
    parts = {f"n:{int(part)}" for part in re.findall(r"\d+", written)}
    number = re.sub(r"[ '\u2019]", "", written)
    keys = {f"i:{digits[-PHONE_DIGITS:]}", f"i:{digits}"}
    if _NUMBER.match(number):
        keys |= _number_keys(number, plain, start + len(written))
    related = frozenset(parts | _endings(digits))
    shown = text[start : start + len(written)]
    yield Value("amount", shown, start, frozenset(keys), related)


def _token(written: str, start: int, plain: str, text: str) -> Iterator[Value]:
    """The values of a run of letters, digits and the signs inside of ids."""
    if not any(map(str.isdecimal, written)):
        return
    stop = start + len(written)
    shown = text[start:stop]
    if _NUMBER.match(written):
        if not _is_list_mark(plain, start, stop):
            yield _number(written, start, plain, shown)
    elif unit := _UNIT.match(written):
        yield _number(unit[1], start, plain, text[start : start + len(unit[1])])
    elif part := _part(written):
        for each in re.finditer(part, written):
            yield from _token(each[0], start + each.start(), plain, text)
    else:
        yield _id(written, start, text)


def _part(written: str) -> str:
    """A pattern for the parts of a token that holds several values, or nothing.

    Several are `T1-T5`, `10-20`, `W1/W2`, `W1,80.50`, `2h30m`, but not `SO-107`.
    """
    if _DURATION.match(written):
        return r"\d+"
    for separators in ("-/:&", ","):
        parts = re.split(f"[{separators}]", written)
        if len(parts) > 1 and all(any(map(str.isdecimal, part)) for part in parts):
            return f"[^{separators}]+"
    return ""


def _is_list_mark(plain: str, start: int, stop: int) -> bool:
    """Whether a number begins a line and numbers it: `21. First`, `21) First`."""
    is_marked = plain[stop : stop + 1] in (".", ")") and stop - start <= 3  # noqa: PLR2004
    return is_marked and _LIST_MARK.search(plain, max(0, start - 12), start) is not None


def _number(written: str, start: int, plain: str, shown: str) -> Value:
    stop = start + len(written)
    written, shown = written.rstrip(".,"), shown.rstrip(".,")
    is_amount = (
        _AMOUNT_BEFORE.search(plain[max(0, start - 5) : start]) is not None
        or _AMOUNT_AFTER.match(plain, stop) is not None
    )
    kind: Kind = "amount" if is_amount or not written.isdecimal() else "number"
    digits = re.sub(r"\D", "", written)
    keys = _number_keys(written, plain, stop)
    keys |= {f"i:{digits}"} if digits == written else set()
    return Value(kind, shown, start, frozenset(keys), frozenset(_endings(digits)))


def _number_keys(written: str, plain: str, stop: int) -> set[str]:
    """The number as it can be read, also scaled: `1.5k`, `12 %`."""
    readings = _readings(written)
    scaled = _SCALED.match(plain, stop)
    if scaled:
        factor = _SCALES[scaled[1].casefold()]
        readings |= {_times(each, factor) for each in readings}
    return {f"n:{each}" for each in readings}


def _readings(written: str) -> set[str]:
    """A number with its separators read as thousands and as decimals."""
    whole = re.sub(r"[.,]", "", written)
    mark = max(".,", key=written.rfind)
    head, _, tail = written.rpartition(mark)
    if not head:
        return {_standard(written, "")}
    decimal = _standard(re.sub(r"[.,]", "", head), tail)
    groups = re.split(r"[.,]", written)
    is_grouped = all(len(group) == 3 for group in groups[1:]) and len(groups[0]) <= 3  # noqa: PLR2004
    is_mixed = len(set(re.findall(r"[.,]", written))) > 1
    if is_grouped and not is_mixed:
        only = {_standard(whole, "")}
        return only | {decimal} if len(groups) == 2 else only  # noqa: PLR2004
    return {decimal}


def _standard(whole: str, decimals: str) -> str:
    decimals = decimals.rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{decimals}" if decimals else whole


def _times(number: str, factor: int) -> str:
    return f"{float(number) * factor:.6f}".rstrip("0").rstrip(".")


def _endings(digits: str) -> set[str]:
    """Of a card's or phone's number, the last four digits and the last nine."""
    if len(digits) < CARD_DIGITS:
        return set()
    last = digits[-LAST_DIGITS:]
    return {f"n:{int(last)}", f"i:{last}", f"i:{digits[-PHONE_DIGITS:]}"}


def _id(written: str, start: int, text: str) -> Value:
    keys = frozenset({f"i:{squeezed(written)}"})
    shown = text[start : start + len(written)]
    return Value("id", shown, start, keys, frozenset(_id_parts(written)))


def _id_parts(written: str) -> Iterator[str]:
    """Runs of an id's parts, and the numbers in it."""
    parts = re.findall(r"[a-z0-9]+", written.casefold())
    if len(parts) <= MOST_PARTS:
        for first in range(len(parts)):
            for last in range(first + 1, len(parts) + 1):
                yield f"i:{''.join(parts[first:last])}"
    for digits in re.findall(r"\d+(?:\.\d+)?", written):
        whole, _, decimals = digits.partition(".")
        yield f"n:{_standard(whole, decimals)}"
        yield from _endings(digits.replace(".", ""))


def squeezed(written: str) -> str:
    """An id in small letters, without the signs between its parts."""
    return re.sub(r"[^a-z0-9]", "", written.casefold())


def spoken_numbers(text: str) -> Iterator[str]:
    """The numbers written in words, and the smaller ones inside of them."""
    text = text.casefold()
    for run in _RUN.finditer(text):
        words = re.findall(_WORD, run[0])
        whole = _spoken_number(words)
        yield str(whole)
        if run["half"]:
            yield f"{whole}.5"
        if run["point"] and (digits := _DIGITS.match(text, run.end())):
            tail = "".join(str(_SMALL[word]) for word in digits[0].split())
            yield f"{whole}.{tail}".rstrip("0").rstrip(".")
        yield from _inside(words)


def _spoken_number(words: list[str]) -> int:
    total = current = 0
    for word in words:
        scale = _WORD_SCALES.get(word, 0)
        if scale > 100:  # noqa: PLR2004  # "two hundred thousand"
            total, current = total + max(current, 1) * scale, 0
        elif scale:
            current = max(current, 1) * scale
        else:
            current += _SMALL[word]
    return total + current


def _inside(words: list[str]) -> Iterator[str]:
    """Each word, tens with their ones, and prices such as "twelve fifty"."""
    numbers = [_SMALL.get(word, 0) for word in words]
    yield from map(str, filter(None, numbers))
    for first, second in pairwise(numbers):
        if first >= 20 and 0 < second < 10:  # noqa: PLR2004
            yield str(first + second)
        elif first and second >= 10:  # noqa: PLR2004
            yield f"{first}.{second:02}".rstrip("0")
            yield str(100 * first + second)
