r"""The values of a text: ids, numbers, amounts, dates, paths and quoted names.

    15GB   12,5   1e-5   $60,024,740   1.250,50 €   CHF 1'299   -12 %    n:60024740
    2026-11-29T10:00Z   29.11.2026   Nov 29, 2026   2:30 pm              d:2026-11-29
    #W123   T-17   DE89 3704 0044   3.11.4   f3a9c21d   ann@example.com   i:w123
    ./scripts/build.sh   C:\data   sales.csv   https://example.com/a     p:sales.csv
    "Growth Rate"   df["Growth Rate"]                                    s:growth rate

Two writings are the same value where their keys meet. What can be read in two ways has
the keys of both. Digits are grouped by signs in fixed places, or by spaces beside a
currency: "1,2,3" and "10, 20" are several numbers.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Literal

Kind = Literal["id", "number", "amount", "date", "path", "name"]
Keys = frozenset[str]
Date = tuple[str, str, str]

LONGEST = 120
"""Characters of an id or number; longer runs are data that nothing repeats."""

SMALL = 20
"""Largest whole number that is taken for a count, as in "3 orders"."""

CARD_DIGITS = 12
"""Digits from which a whole number may be that of a card, which is named by its last
four."""

CACHED = 10_000
"""Values whose forms stay in memory: those of tables are read again and again."""

NAME_WORDS = 5
"""Words of a quoted name; more are a quotation."""

_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
"""Names of months in English only: programs print them (`git log`, `ls`, mail)."""
_DIGITS = r"(?:0?[1-9]|[12]\d|3[01])"
_DAY = rf"{_DIGITS}(?:st|nd|rd|th)?"
_CLOCK = r"(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
_LATIN = r"[a-z0-9_\u00c0-\u024f]"
_SPACE = r"[ \u00a0]"
_SIGN = r"[$€£¥₹₽₩₺₴₪฿₫₱₦]"
_CODE = (
    r"(?-i:USD|EUR|GBP|CHF|JPY|CNY|INR|RUB|BRL|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|TRY"
    r"|ZAR|MXN|KRW|SGD|HKD)"
)
_GROUPS = rf"[1-9]\d{{0,2}}(?:{_SPACE}\d{{3}})+(?:[.,]\d{{1,2}})?"
_ENDINGS = (
    "csv|tsv|json|jsonl|xlsx|xls|parquet|feather|pkl|npy|npz|h5|db|sqlite|sql|txt|md|log"
    "|yaml|yml|toml|ini|cfg|xml|html|css|js|ts|py|ipynb|sh|bat|java|go|rs|c|cpp|h|pdf"
    "|docx|pptx|png|jpe?g|svg|gif|zip|gz|tar"
)
"""Of files, also without a folder; other words with a dot are attributes."""

_VALUE = re.compile(
    rf"""
    (?<![a-z0-9_])(?=[\w"'`“„«\\/~.#+(])(?:
    (?P<item>(?<!\.)[a-z_][\w.]{{0,60}}\[(?P<mark>["'])
      (?P<key>[^"'\[\]\n]{{1,60}})(?P=mark)\])
    | (?P<quoted>(?:"(?=\w)[^",\[\]\n]{{1,60}}(?<=[\w)%])"(?!\w)
      |'(?=\w)[^',\[\]\n]{{1,60}}(?<=[\w)%])'(?!\w)
      |`(?=\w)[^`\[\]\n]{{1,60}}(?<=[\w)%])`|[“„](?=\w)[^“”„,\[\]\n]{{1,60}}(?<=[\w)%])[”“]
      |«{_SPACE}?(?=\w)[^«»,\[\]\n]{{1,60}}»))
    | (?P<url>[a-z][a-z0-9+.-]{{1,15}}://[^\s<>"'`()\[\]{{}}]+)
    | (?P<mail>(?<![.+-])
      [a-z0-9_.+-]{{1,64}}@[a-z0-9-]{{1,63}}(?:\.[a-z0-9-]{{1,63}}){{1,5}})
    | (?P<drive>(?<!\\)(?:[a-z]:[\\/]|\\\\(?=\w))[^\s"'`<>|*?,;()\[\]。]*)
    | (?P<path>(?<![/.:<>\\~])(?:~|\.\.?)?/\.?[^\W\d][\w.@%+~/-]*)
    | (?P<file>(?<![./-])
      {_LATIN}(?:{_LATIN}|[./+-]){{0,150}}\.(?:{_ENDINGS})(?::\d+)?(?![a-z0-9_/]|[.-]\w))
    | (?P<iban>(?<!-)
      (?-i:[A-Z]{{2}}\d{{2}}(?:[ ][A-Z]{{4}})?(?:[ ]\d{{4}}){{2,7}})
      (?:(?<=(?:[ ]\d{{4}}){{3}})[ ]\d{{1,3}})?(?!\w))
    | (?=[\d+(])(?:
      (?P<year_first>(?<!\.)(?P<year>\d{{4}})(?P<between>[-/.年])(?P<month>0?[1-9]|1[0-2])
      (?:(?P=between)|月)(?P<day>{_DIGITS})日?
      (?:[t ](?P<clock>{_CLOCK})(?:z|[+-]\d\d:?\d\d)?)?(?![a-z0-9_-]|\.\d))
    | (?P<year_last>(?<![./-])(?P<first>{_DIGITS})(?P<sign>[./-])(?P<second>{_DIGITS})
      (?P=sign)(?P<last>\d{{4}}|\d{{2}})(?![a-z0-9_/-]|\.\d))
    | (?P<day_first>(?<![.:])(?P<day_before>{_DAY})[ ](?:of[ ])?
      (?P<month_after>{_MONTH})(?!\w)(?:\.?,?[ ](?P<year_after>\d{{4}})\b)?)
    | (?P<time>(?<![.:])
      (?:{_CLOCK}(?:{_SPACE}?[ap]\.?m\b)?|\d{{1,2}}[ ]?[ap]\.?m\b)(?![a-z0-9_:]))
    | (?P<spaced>(?<![.,])(?<![a-z0-9_]-)(?:(?:(?<={_SIGN})|(?<={_SIGN}{_SPACE})
      |(?<={_CODE}{_SPACE})){_GROUPS}
      |{_GROUPS}(?={_SPACE}?(?:{_SIGN}|(?:{_CODE}|kr)\b)))(?![a-z0-9_]))
    | (?P<card>(?<!-)(?!(?:(?:19|20)\d\d[ ]){{2}})\d{{4}}(?P<gap>[ -])
      (?:\d{{4}}(?P=gap)\d{{4}}(?P=gap)\d{{4}}|\d{{6}}(?P=gap)\d{{5}})(?![\w-]))
    | (?P<phone>(?:\+\d{{1,3}}[ -]\(?\d{{1,4}}\)?(?:[ -]\d{{2,5}}){{1,4}}
      |\(\d{{3}}\)[ ]?\d{{3}}-\d{{4}})(?!\w))
    )
    | (?P<month_first>(?P<named>{_MONTH})(?!\w)\.?[ ]
      (?:(?P<named_day>{_DAY})\b(?![:.,]\d)(?:,?[ ](?P<named_year>\d{{4}})\b)?
      |(?P<only_year>\d{{4}})\b))
    | (?P<run>\#?(?=[a-z_./:-]{{0,40}}\d)[a-z0-9_]+
      (?:(?:[-./:,]|(?<=\de)\+|(?<=\d)['\u2019\u00a0](?=\d{{3}}(?!\d)))[a-z0-9_]+)*)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_HAS_VALUES = re.compile(r"""[\d@"'`“„«/\\]|\.\w""")
_NUMBER = re.compile(
    r"""
    (?P<whole>[1-9]\d{0,2}(?P<group>[,.'\u2019_\u00a0 ])\d{3}(?:(?P=group)\d{3})*
      |\d{1,2}(?P<indian>,)\d{2}(?:,\d{2})*,\d{3}|\d+)
    (?:(?P<point>[.,])(?P<decimals>\d+))?(?:[eE](?P<exponent>[+-]?\d{1,2}))?
    """,
    re.VERBOSE,
)
_UNIT = re.compile(
    r"(?:[KMB]|[a-zµ]{1,5}|[KMGT]i?B|[A-Z]{2,4})?(?:/[A-Za-z]{1,7})?\Z",
)
_SCALES = {"k": 3, "K": 3, "M": 6, "B": 9, "bn": 9}
_RATIO = re.compile(r"(\d{1,2})/(\d{1,2})")
_WHOLE_ID = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*[a-f])[0-9a-f]{7,64}"
    r"|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|v?\d+(?:\.\d+){2,}(?:-[a-z][a-z0-9.]*)?",
    re.IGNORECASE,
)
"""UUIDs, hashes of commits, addresses in networks, versions."""
_BEFORE = re.compile(
    rf"(?:(?<![\w)\]%.,'\"-])-)?(?P<currency>(?:(?:us|c|a|r)?{_SIGN}|(?<![a-z]){_CODE})"
    rf"{_SPACE}?-?)?\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(
    rf"{_SPACE}?(?:%|‰|元|円|{_SIGN}(?!{_SPACE}?\d)|(?:{_CODE}|kr)\b)", re.IGNORECASE
)
_LIST_MARK = re.compile(r"(?:\A|\n)[ \t>*#-]*\Z")
_WORDS = re.compile(r"[^\W_]+(?:[.,'\u2019](?<=\d.)(?=\d)[^\W_]+)*")
_WIDE_COMMA = re.compile(r"(?<=[\uff10-\uff19])\uff0c(?=[\uff10-\uff19]{3})")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
COUNTS = frozenset(f"n:{number}" for number in range(SMALL + 1))


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a text."""

    kind: Kind
    text: str
    """As written, with sign, currency and percent; a name without its quotes."""
    start: int
    stop: int
    keys: Keys
    """Standard forms by which two writings are the same value."""
    parts: Keys = frozenset()
    """Keys of what else it states: the day and the time of a date; of digits grouped by
    commas alone, the numbers that they are as a list."""

    @property
    def is_count(self) -> bool:
        """True if this is a small whole number, which may count anything."""
        return self.kind == "number" and not self.keys.isdisjoint(COUNTS)


class ValueIndex:
    """Looks up values in a text."""

    def __init__(self, text: str, most_characters: int | None = None) -> None:
        """Read the values of the first characters only, but the words of all."""
        self._text, self._most = text, most_characters

    @cached_property
    def words(self) -> str:
        """The words and numbers of the text in small letters, each between spaces."""
        return plain_words(self._text)

    @cached_property
    def keys(self) -> Keys:
        """The keys of its values."""
        return frozenset().union(*(each.keys for each in self._values))

    @cached_property
    def parts(self) -> Keys:
        """The keys of what its values state besides."""
        return frozenset().union(*(each.parts for each in self._values))

    @cached_property
    def _values(self) -> list[Value]:
        return values(self._text[: self._most])

    def has(self, value: Value) -> bool:
        """True if the text states a value, in its words or in another writing."""
        words = _value_words(value.text)
        if value.kind == "name":
            words = "".join(f" {key[2:]} " for key in value.keys)
        if value.kind == "id" and _WHOLE_ID.fullmatch(value.text):
            words = words.rstrip()  # the beginning of a commit's hash
        elif not words.isascii():
            words = words.strip()  # some languages have no spaces
        if words.strip() and words in self.words:
            return True
        if not value.keys.isdisjoint(self.keys) or not value.keys.isdisjoint(
            self.parts
        ):
            return True
        days = {part for part in value.parts if part.startswith("d:")}
        return value.kind == "date" and not days.isdisjoint(self.keys)


def values(text: str) -> list[Value]:
    """The values of a text, in order; numbers of lists are omitted."""
    plain = plain_digits(text)
    if not _HAS_VALUES.search(plain):
        return []
    return list(_Reader(text, plain).read(0, len(text)))


def plain_words(text: str) -> str:
    """The words and numbers of a text in small letters, each between spaces."""
    return f" {' '.join(_WORDS.findall(plain_digits(text).casefold()))} "


@lru_cache(CACHED)
def _value_words(text: str) -> str:
    return plain_words(text)


def plain_digits(text: str) -> str:
    """The text with ASCII digits, letters, spaces and dashes, at the same length."""
    if text.isascii():
        return text
    text = _WIDE_COMMA.sub(",", text)
    return _NOT_ASCII.sub(lambda run: run[0].translate(_ascii_table()), text)


@cache
def _ascii_table() -> dict[int, str]:
    table = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    every = map(chr, range(0x80, 0x20000))
    table |= {ord(c): str(unicodedata.decimal(c)) for c in every if c.isdecimal()}
    table |= dict.fromkeys(map(ord, "\u2007\u2009\u202f"), "\u00a0")
    table |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-")
    return table | {0x066C: ",", 0x066B: ".", 0xFF0C: ";"}


class _Reader:
    """Reads the values of a text."""

    def __init__(self, text: str, plain: str) -> None:
        self._text, self._plain = text, plain
        self._read = 0
        """Index up to which the text is read: no sign belongs to two numbers."""

    def read(self, start: int, stop: int) -> Iterator[Value]:
        """The values between two indices."""
        for match in _VALUE.finditer(self._plain, start, stop):
            for value in self._match(match):
                self._read = value.stop
                yield value

    def _match(self, match: re.Match[str]) -> Iterator[Value]:
        start, stop = match.span()
        match match.lastgroup:
            case "item":
                yield self._value("name", start, stop, {name_key(match["key"])})
            case "quoted":
                yield from self._quoted(start, stop)
            case "url" | "path" | "drive" | "file":
                yield self._path(start, stop)
            case "mail" | "iban" | "card" | "phone":
                yield self._id(start, stop)
            case "time":
                yield self._value("date", start, stop, _times(match[0]))
            case "spaced" | "run":
                yield from self._run(start, stop)
            case _:
                dates = set(_dates(match.groupdict()))
                if dates:
                    yield self._date(match, dates)
                else:
                    yield from self._run(start, stop)

    def _value(
        self,
        kind: Kind,
        start: int,
        stop: int,
        keys: Iterable[str],
        parts: Iterable[str] = (),
    ) -> Value:
        text = self._text[start:stop]
        return Value(kind, text, start, stop, frozenset(keys), frozenset(parts))

    def _quoted(self, start: int, stop: int) -> Iterator[Value]:
        """The one value in quotes, or a name, or the values of a quotation."""
        inner = self._text[start + 1 : stop - 1]
        found = values(inner)
        if len(found) == 1 and found[0].text == inner:
            yield replace(found[0], start=start, stop=stop)
        elif len(inner.split()) <= NAME_WORDS and any(map(str.isalpha, inner)):
            parts = frozenset().union(*(each.keys | each.parts for each in found))
            keys = frozenset({name_key(inner)})
            yield Value("name", inner, start, stop, keys, parts)
        else:
            yield from self.read(start + 1, stop - 1)

    def _path(self, start: int, stop: int) -> Value:
        written = self._plain[start:stop].rstrip(".,;:!?-")
        key = written.replace("\\", "/").casefold().removeprefix("./").rstrip("/")
        return self._value("path", start, start + len(written), {f"p:{key}"})

    def _id(self, start: int, stop: int) -> Value:
        squeezed = re.sub(
            r"[^a-z0-9.]|\.(?!\d)", "", self._plain[start:stop].casefold()
        )
        number = {f"n:{_standard(squeezed)}"} if squeezed.isdecimal() else set()
        return self._value("id", start, stop, {f"i:{squeezed}"} | number)

    def _date(self, match: re.Match[str], dates: Collection[Date]) -> Value:
        times = _times(match["clock"] or "")
        days = {f"d:{'-'.join(filter(None, date))}" for date in dates}
        keys = {f"{day}T{times[0]}" for day in days} if times else days
        parts = {f"d:{month}-{day}" for _, month, day in dates}
        parts |= {f"d:{year}-{month}" for year, month, _ in dates}
        parts |= {f"n:{int(digits)}" for digits in re.findall(r"\d+", match[0])}
        return self._value(
            "date", *match.span(), keys, parts.union(days, times).difference(keys)
        )

    def _run(self, start: int, stop: int) -> Iterator[Value]:
        """The values of letters, digits and the signs between them."""
        run = self._plain[start:stop]
        is_short = stop - start <= LONGEST
        if is_short and (whole := self._whole(run, start, stop)):
            if not self._is_list_mark(start, stop):
                yield whole
            return
        for sign in ",:/-":
            pieces = run.split(sign)
            if _is_apart(pieces, sign):
                for piece in pieces:
                    yield from self.read(start, start + len(piece))
                    start += len(piece) + 1
                return
        if is_short:
            yield self._id(start, stop)

    def _whole(self, run: str, start: int, stop: int) -> Value | None:
        """The value that a run is by its form."""
        if _RATIO.fullmatch(run):
            return self._value("number", start, stop, {f"n:{run}"}, _ratio_parts(run))
        number = _NUMBER.match(run)
        if number is None or not _UNIT.match(run, number.end()):
            return self._id(start, stop) if _WHOLE_ID.fullmatch(run) else None
        if number["point"] == (number["group"] or number["indian"] or ""):
            return self._id(start, stop) if _WHOLE_ID.fullmatch(run) else None
        return self._number(number[0], run[number.end() :], start, stop)

    def _number(self, written: str, unit: str, start: int, stop: int) -> Value:
        """A number with its sign, its currency or percent."""
        before = _BEFORE.search(self._plain, max(self._read, start - 6), start)
        first = before.start() if before else start
        prefix = self._plain[first:start]
        has_currency = prefix not in ("", "-")
        after = None if unit else _AFTER.match(self._plain, stop)
        suffix = after[0] if after else ""
        if has_currency and "%" not in suffix:
            suffix = ""  # it belongs to the next number
        keys, parts = _number_keys(
            written, unit, is_negative="-" in prefix, is_percent="%" in suffix
        )
        if not (has_currency or unit or (suffix and " " not in written)):
            parts |= _listed(written) - keys
        kind: Kind = "amount" if has_currency or suffix else "number"
        return self._value(kind, first, stop + len(suffix), keys, parts)

    def _is_list_mark(self, start: int, stop: int) -> bool:
        """True if a number begins a line and numbers it: `21. First`, `21) First`."""
        is_marked = self._plain[stop : stop + 1] in (".", ")") and stop - start <= 3  # noqa: PLR2004
        before = _LIST_MARK.search(self._plain, max(0, start - 12), start)
        return is_marked and before is not None


def _is_apart(pieces: Sequence[str], sign: str) -> bool:
    """True if the parts of a run are values of their own: `W1,W2`, `T1-T5`, `W1/W2`."""
    if len(pieces) < 2 or sign in ",:":  # noqa: PLR2004
        return len(pieces) > 1
    shapes = {re.sub(r"[\d.]+", "0", piece) for piece in pieces}
    if sign == "/":
        return all("0" in shape for shape in shapes)
    return len(pieces) == 2 and len(shapes) == 1 and "0" in pieces[0] + str(shapes)  # noqa: PLR2004


@lru_cache(CACHED)
def _number_keys(
    written: str, unit: str, *, is_negative: bool, is_percent: bool
) -> tuple[Keys, Keys]:
    """The keys of a number in each way to read it, and those of its parts."""
    (number,) = _NUMBER.finditer(written)
    exponent = int(number["exponent"] or 0)
    shifts = {exponent, exponent + _SCALES.get(unit, 0), exponent - 2 * is_percent}
    sizes = {_standard(*each, by) for each in _readings(number) for by in shifts}
    keys = {f"n:-{size}" if is_negative else f"n:{size}" for size in sizes}
    digits = re.sub(r"\D", "", written)
    last = {_standard(digits[-4:])} if len(digits) >= CARD_DIGITS else set()
    return frozenset(keys), frozenset({f"n:{size}" for size in sizes | last} - keys)


def _readings(number: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Digits before and after the point, in each way to read them."""
    whole, group = number["whole"], number["group"]
    yield re.sub(r"\D", "", whole), number["decimals"] or ""
    if group in (".", ",") and whole.count(group) == 1 and not number["point"]:
        yield whole.split(group)[0], whole.split(group)[1]


def _listed(written: str) -> Keys:
    """The numbers that digits are if commas or spaces part them."""
    pieces = [] if written.isdecimal() else re.split(r"[, \u00a0]", written)
    is_list = len(pieces) > 1 and all(map(str.isdecimal, pieces))
    return frozenset(f"n:{_standard(each)}" for each in pieces if is_list)


def _ratio_parts(written: str) -> Keys:
    """The numbers of `5/16`, and the day that it may be."""
    first, second = written.split("/")
    numbers = {f"n:{_standard(first)}", f"n:{_standard(second)}"}
    first, second = first.zfill(2), second.zfill(2)
    return frozenset(numbers | {f"d:{first}-{second}", f"d:{second}-{first}"})


def _standard(whole: str, decimals: str = "", shift: int = 0) -> str:
    """A number without useless zeros, times ten to the power of `shift`."""
    digits, point = whole + decimals, len(whole) + shift
    digits, point = "0" * -point + digits, max(point, 0)
    digits = digits.ljust(point, "0")
    whole, decimals = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def _dates(group: dict[str, str | None]) -> Iterator[Date]:
    """Year, month and day in each way to read them; empty where there is none."""
    if group["first"]:
        first, second = (str(group[each]).zfill(2) for each in ("first", "second"))
        year = str(group["last"]).rjust(4, "0").replace("00", "20", 1)
        both = ((first, second), (second, first))
        yield from ((year, month, day) for month, day in both if month <= "12")
        return
    name = group["named"] or group["month_after"] or ""
    month = str(_MONTHS.index(name[:3].casefold()) // 3 + 1) if name else ""
    years = ("year", "year_after", "named_year", "only_year")
    year = next(filter(None, map(group.get, years)), "")
    days = ("day", "day_before", "named_day")
    day = re.sub(r"\D", "", next(filter(None, map(group.get, days)), ""))
    yield year, (month or str(group["month"])).zfill(2), day and day.zfill(2)


def _times(clock: str) -> list[str]:
    """Minutes since midnight as it reads, and in the other half of the day."""
    digits = re.findall(r"\d+", clock)
    if not digits:
        return []
    hour, minute = int(digits[0]), int(digits[1]) if ":" in clock else 0
    half = re.search(r"[ap]", clock.casefold())
    hours = [hour % 12 + 12 * (half[0] == "p")] if half else [hour, (hour + 12) % 24]
    return [f"t:{each * 60 + minute}" for each in hours]


def name_key(name: str) -> str:
    """The standard form of a name, or of other words."""
    return f"s:{plain_words(name).strip()}"
