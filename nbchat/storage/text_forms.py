"""Find a text in every form in which a conversation may hold it, to remove it.

Word for word, escaped inside JSON, HTML or a URL, in base64, in another case, with
other Unicode forms of its letters, and broken by line ends. A text is searched as it
is first; only where a rough look finds more are its letters counted one by one.
"""

import json
import re
import unicodedata
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from html import escape
from urllib.parse import quote, quote_plus

from nbchat.conversation.entries import Span
from nbchat.storage.serialization import storable

MARK = "[redacted]"

SHORTEST = 4
"""Characters of a text that can be removed: a shorter one is in too many words."""

LONG_LINE = 8
"""Characters from which a line of a text is removed by itself, too."""

LEAST_BASE64 = 6
"""Characters of base64 that are searched for: fewer are in any text."""

NESTED = 3
"""How often JSON is searched inside JSON."""

_GAP = re.compile(r"(?:\s|\\{1,8}[nrt]|[\u00ad\u200b-\u200d\u2060\ufeff])+")
"""Between the letters of a text that is broken: space, escaped space, and signs that
nobody sees."""

_BREAK = re.compile(r"[\n\r]|\\{1,8}[nr]|[\u00ad\u200b-\u200d\u2060\ufeff]")
"""Signs of a gap that may be in the middle of a word."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_=-]")


class Remover:
    """Replaces a text in all of its forms; counts the places that it has changed."""

    def __init__(self, text: str) -> None:
        """Also each long line of the text: facts hold texts on one line."""
        lines = [line for line in text.splitlines() if len(line) >= LONG_LINE]
        self._parts = tuple(dict.fromkeys((text, " ".join(text.split()), *lines)))
        self.places = 0

    def __call__(self, content: str) -> str:
        """The content without the text."""
        for form in self._exact:
            if form in content:
                self.places += content.count(form)
                content = content.replace(form, MARK)
        spans = [*self._loose(content), *self._encoded(content)]
        if not spans:
            return content
        kept, end = list[str](), 0
        for start, stop in sorted(spans):
            if start >= end:
                kept += content[end:start], MARK
                self.places += 1
            end = max(end, stop)
        return "".join([*kept, content[end:]])

    @cached_property
    def _exact(self) -> list[str]:
        """The forms that are searched as they are, the longest first."""
        forms = {form for part in self._parts for form in _forms(part)}
        return sorted(filter(None, forms), key=len, reverse=True)

    @cached_property
    def _solid(self) -> dict[str, frozenset[int]]:
        """The forms without gaps and capitals, with where they have gaps."""
        return {
            solid: gaps
            for form in self._exact
            for solid, gaps in (_without_gaps(_small(form)),)
            if len(solid) >= SHORTEST
        }

    @cached_property
    def _codes(self) -> tuple[str, ...]:
        """The text in base64, wherever in what is encoded it begins."""
        codes = (code for part in self._parts for code in _base64_forms(part))
        return tuple({code for code in codes if len(code) >= LEAST_BASE64})

    def _loose(self, content: str) -> Iterator[Span]:
        """Where the text is in another case, or broken by line ends."""
        small = _small(content)
        solid = _GAP.sub("", small)
        found = [form for form in self._solid if form in solid]
        if not found:
            return
        places = _Places(small)
        for form in found:
            for start in _starts(solid, form):
                span = places[start], places[start + len(form) - 1] + 1
                if _gaps_fit(small[slice(*span)], self._solid[form]):
                    yield span

    def _encoded(self, content: str) -> Iterator[Span]:
        """Where the text is in base64, with all that is encoded with it."""
        solid = _GAP.sub("", content)
        found = [code for code in self._codes if code in solid]
        if not found:
            return
        places = _Places(content)
        for code in found:
            for start in _starts(solid, code):
                first, last = places[start], places[start + len(code) - 1] + 1
                while first and _BASE64.match(content[first - 1]):
                    first -= 1
                while last < len(content) and _BASE64.match(content[last]):
                    last += 1
                yield first, last


def _forms(part: str) -> Iterator[str]:
    """A text as JSON, HTML, URLs and Unicode write it."""
    for form in ("NFC", "NFD"):
        same = unicodedata.normalize(form, part)
        yield from (same, quote(same, safe="", errors="replace"))
        yield from (quote(same, errors="replace"), quote_plus(same, errors="replace"))
        yield from (escape(same), escape(same, quote=False))
        yield from (_numbered(same, "&#{}"), _numbered(same, "&#x{:x}"))
        yield same.encode("ascii", "xmlcharrefreplace").decode()
        yield escape(same).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    yield from (part, storable(part))
    written = {part}
    for _ in range(NESTED):
        written = {
            json.dumps(each, ensure_ascii=is_ascii)[1:-1]
            for each in written
            for is_ascii in (True, False)
        }
        yield from written


def _numbered(text: str, form: str) -> str:
    """A text whose characters are all written as numbers in HTML."""
    return "".join(f"{form.format(ord(each))};" for each in text)


def _base64_forms(part: str) -> Iterator[str]:
    """Certain characters of a text in base64, at each of three places in a group."""
    for encoding in ("utf-8", "utf-16-le"):
        raw = part.encode(encoding, "surrogatepass")
        for before in range(3):
            code = b64encode(b"\0" * before + raw).decode()
            sure = code[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
            yield from (sure, sure.replace("+", "-").replace("/", "_"))


def _small(text: str) -> str:
    """The text in small letters, as long as it was."""
    small = text.lower()
    return small if len(small) == len(text) else text.replace("\u0130", "i").lower()


def _without_gaps(text: str) -> tuple[str, frozenset[int]]:
    """A text without gaps, and after how many letters it has one."""
    letters, gaps = 0, set[int]()
    parts = list[str]()
    end = 0
    for gap in _GAP.finditer(text):
        parts.append(text[end : gap.start()])
        letters += gap.start() - end
        gaps.add(letters)
        end = gap.end()
    return "".join([*parts, text[end:]]), frozenset(gaps)


def _gaps_fit(found: str, gaps: frozenset[int]) -> bool:
    """True if a found text has gaps where the text has, and else only line ends."""
    letters, end, seen = 0, 0, set[int]()
    for gap in _GAP.finditer(found):
        letters += gap.start() - end
        end = gap.end()
        if letters not in gaps and not _BREAK.search(gap[0]):
            return False
        seen.add(letters)
    return gaps <= seen


class _Places:
    """Where each letter of a text without gaps is in the text."""

    def __init__(self, text: str) -> None:
        self._ends, self._shifts = [0], [0]
        for gap in _GAP.finditer(text):
            shift = self._shifts[-1] + len(gap[0])
            self._ends.append(gap.end() - shift)
            self._shifts.append(shift)

    def __getitem__(self, place: int) -> int:
        """The place in the text with its gaps."""
        at = bisect_right(self._ends, place) - 1
        return place + self._shifts[at]


def _starts(text: str, form: str) -> Iterator[int]:
    start = text.find(form)
    while start >= 0:
        yield start
        start = text.find(form, start + len(form))
