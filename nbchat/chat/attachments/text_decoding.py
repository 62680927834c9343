"""Read the bytes of a file as text, whatever its encoding is.

UTF-8, and UTF-16 and 32 with a mark, are certain. Other encodings are guessed, which a
note says, and a byte that fits nowhere is replaced: one bad byte refuses no file.
"""

import codecs
import re

from charset_normalizer import from_bytes

SAMPLE_BYTES = 65_536
"""Bytes of the beginning from which an encoding is guessed."""

MOST_NULLS, MOST_CONTROLS, MOST_BAD = 0.3, 0.02, 0.005
"""Shares of null bytes, of control characters and of bad bytes in a text."""

MOST_ACCENTED = 0.3
"""Share of the letters that are not ASCII in languages written in Latin letters."""

_MARKS = (  # that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_KANA = re.compile(r"[\u3041-\u30fa]")
_IN_WORD = re.compile(r"(?<=[A-Za-z])[^\x00-\x7f]|[^\x00-\x7f](?=[A-Za-z])")
_SYMBOL_IN_WORD = re.compile(r"(?<=[A-Za-z])(?:[^\x00-\x7f\w\s'])(?=[A-Za-z])")


def decoded(content: bytes) -> tuple[str, str]:
    """The text of a file, and a note on how it was read; empty for plain UTF-8.

    Raises ValueError for what is no text.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.decode(encoding, "replace").removeprefix("\ufeff"), ""
    nulls = content.count(b"\0")
    if nulls > len(content) * MOST_NULLS:
        return _without_mark(content)
    text, note = _by_bytes(content.replace(b"\0", b""))
    if (
        len(_CONTROL.findall(text[:SAMPLE_BYTES]))
        > len(text[:SAMPLE_BYTES]) * MOST_CONTROLS
    ):
        raise ValueError("not a text file")
    notes = [note, f"{nulls:,} null bytes left out" if nulls else ""]
    return text, "; ".join(filter(None, notes))


def _without_mark(content: bytes) -> tuple[str, str]:
    """UTF-16 without a mark: every second byte of Latin letters is null."""
    sample = content[:SAMPLE_BYTES]
    for name, zeros, others in (
        ("utf-16-le", sample[1::2], sample[::2]),
        ("utf-16-be", sample[::2], sample[1::2]),
    ):
        is_wide = zeros.count(0) > len(zeros) / 2
        if is_wide and others.count(0) <= len(others) * MOST_CONTROLS:
            return content.decode(name, "replace"), f"read as {name}"
    raise ValueError("not a text file")


def _by_bytes(content: bytes) -> tuple[str, str]:
    try:
        return content.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        text = content.decode("utf-8-sig", "replace")
    bad = text.count("\ufffd")
    others = sum(character > "\x7f" for character in text) - bad
    replaced = f"{bad:,} bytes that are not UTF-8 are shown as \ufffd"
    if others >= bad:
        return text, replaced
    encoding = _guessed(content[:SAMPLE_BYTES], bad / len(text))
    if not encoding:
        return text, replaced
    return content.decode(encoding, "replace"), f"read as {encoding}, which is a guess"


def _guessed(sample: bytes, bad_share: float) -> str:
    """The likely encoding; empty where the bad bytes are only bad."""
    if _is_western(sample.decode("cp1252", "replace")):
        return "cp1252"
    if bad_share < MOST_BAD:
        return ""
    found = list(from_bytes(sample))
    kana = (each.encoding for each in found if _KANA.search(str(each)))
    first = (each.encoding for each in found)
    return next(kana, next(first, "cp1252"))


def _is_western(text: str) -> bool:
    """True if accented letters are in words, are few, and no symbols are in words."""
    letters = sum(map(str.isalpha, text))
    accented = sum(letter > "\x7f" and letter.isalpha() for letter in text)
    has_words = _IN_WORD.search(text) is not None and not _SYMBOL_IN_WORD.search(text)
    return has_words and accented <= letters * MOST_ACCENTED
