"""Read numbers that are written in English words, as in transcripts of speech.

twenty-five   25          twelve point five    12.5
two hundred   200         twelve and a half    12.5
twenty fifth  25          twelve fifty         12.50, 1250
"""

import re
from collections.abc import Iterator
from itertools import pairwise

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
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_WORD = "|".join(sorted([*_SMALL, *_SCALES], key=len, reverse=True))
_RUN = re.compile(
    rf"\b(?:{_WORD})(?:(?:[ -]{{1,3}}|,? and )(?:{_WORD}))*\b"
    r"(?P<half> and a half\b)?(?P<point> point\b)?"
)
_DIGITS = re.compile(rf"(?: (?:{'|'.join(ONES.split()[:10])})\b)+")


def spoken_numbers(text: str) -> Iterator[str]:
    """The numbers written in words, and the smaller ones inside of them."""
    text = text.casefold()
    for run in _RUN.finditer(text):
        words = re.findall(_WORD, run[0])
        whole = _number(words)
        yield str(whole)
        if run["half"]:
            yield f"{whole}.5"
        if run["point"] and (digits := _DIGITS.match(text, run.end())):
            tail = "".join(str(_SMALL[word]) for word in digits[0].split())
            yield f"{whole}.{tail}".rstrip("0").rstrip(".")
        yield from _inside(words)


def _number(words: list[str]) -> int:
    total = current = 0
    for word in words:
        scale = _SCALES.get(word, 0)
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
