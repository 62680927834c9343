"""Distinguish a person's own paragraphs from unmarked text by others.

People paste a text and write a line above or below it, or none. Neither line says whose
the text is, but its form does. A text is taken for another author's where it has two
sentences or more, in none of which the person speaks ("I", "we"), and

- it begins as a letter or ends with a name,
- it tells people in general what they must do, and no request begins the message,
- the line above points at something that is not named ("saw this on the board"),
- the line below asks about it ("is that even allowed?"), or
- the line above has no full stop and the text has one after each sentence.

A line that asks for work ("Write the newsletter.") makes what follows the person's own.
The forms are data, in `authorship.toml`.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from nbchat.compaction.facts.sentence_forms import HIDDEN, any_of, plain
from nbchat.conversation.entries import Span

LONGEST_REMARK = 160
"""Characters of a line above or below a text; longer ones tell something."""

FEWEST_SENTENCES = 2
"""Of a text: one sentence after a remark is the person's own as likely as not."""

LONGEST_NAME, LONGEST_SIGNATURE = 4, 60
"""Words of a signature, and its characters."""

_PARAGRAPH = re.compile(r"\S(?:[^\n]|\n(?!\s*\n))*")
_END = "[.!?\u2026\u3002\uff01\uff1f\u0964\u061f]"
_SENTENCE_END = re.compile(
    rf"{_END}+[\"')\u00bb\u201d\u300d]*(?=\s|$)|[\u3002\uff01\uff1f]"
)
_FULL_STOP = re.compile(rf"(?:{_END}|[:\uff1a,;])[\"')\u00bb\u201d\u300d]*$")
_QUESTION = re.compile(r"[?\uff1f\u061f][\"')\u00bb\u201d]*(?:\s|$)")
_ASSENT = re.compile(
    r"\b(?:ok|okay|clear|understood|agreed?|deal|ready|alright|right|possible|yes"
    r"|please|klar|verstanden|einverstanden|gut|d'accord|compris|clair|vale|entendido"
    r"|claro|certo|capito|combinado|ладно|понятно|ясно)\b"
)
"""Asks whether what was said is accepted."""
_ITEM = re.compile(
    r"^[ \t]*(?:[-*+\u2022\u2023\u2013\u2014]|\(?\d{1,2}[.)])\s", re.MULTILINE
)
_LINE_END = re.compile(r"\n")
_ASIDE = re.compile(r"(?:\s[-\u2013\u2014]|\.\.\.|\u2026|:)\s(?=[^\sa-z])")
_NAME = re.compile(
    r"(?:[^\W\d_]+,\s)?(?:[^\W\d_a-z][^\W\d_]*\.?\s?){1,4}$",
)
_THANKS = re.compile(
    r"^(?:thanks?|thank you|thx|cheers|please|ok|danke|bitte|merci|gracias|obrigad[oa]"
    r"|grazie|спасибо|no exceptions)\W*$"
)


def without_unintroduced(mask: str) -> str:
    """The mask without texts that others wrote and nothing introduces."""
    hidden = [span for part in _messages(mask) for span in _shown(mask, part)]
    for start, stop in hidden:
        mask = mask[:start] + re.sub(r"[^\n]", HIDDEN, mask[start:stop]) + mask[stop:]
    return mask


def _messages(mask: str) -> Iterator[list[Span]]:
    """The ways to read a message: its paragraphs, and a remark before one of them."""
    paragraphs = [found.span() for found in _PARAGRAPH.finditer(mask)]
    if not paragraphs:
        return
    if len(paragraphs) > 1:
        yield paragraphs
    start, stop = paragraphs[0]
    for end in (_LINE_END, _ASIDE):
        found = end.search(mask, start, stop)
        if found and found.start() - start <= LONGEST_REMARK:
            yield [(start, found.end()), (found.end(), stop), *paragraphs[1:]]
    if len(paragraphs) == 1:
        yield paragraphs


def _shown(mask: str, parts: Sequence[Span]) -> Iterator[Span]:
    """The parts of a message that others wrote."""
    written = [mask[start:stop].replace(HIDDEN, "").strip() for start, stop in parts]
    texts = [plain(each) for each in written]
    remarks = [each if _is_remark(each) else "" for each in texts]
    asks_first = _asks(texts[0].partition("\n")[0])
    for number, part in enumerate(parts):
        above = remarks[0] if number else ""
        below = remarks[-1] if number + 1 < len(parts) else ""
        is_shown = _is_text(texts[number]) and (
            _is_pointed_at(above)
            or (not asks_first and _is_set_apart(texts[number], above, below))
        )
        if is_shown or _is_letter(texts[number], written[number]):
            yield part


def _is_pointed_at(above: str) -> bool:
    return bool(above) and _forms().points.search(above) is not None


def _is_set_apart(text: str, above: str, below: str) -> bool:
    """Whether a text without an introduction is not the person's."""
    forms = _forms()
    if forms.group.search(text):
        return False
    if below and (forms.closes.search(below) or _is_elliptical(below)):
        return True
    if above:
        return _FULL_STOP.search(above) is None and _is_punctuated(text)
    return forms.notice.search(text) is not None and not any(
        map(_asks, _SENTENCE_END.split(text))
    )


def _is_elliptical(below: str) -> bool:
    """Whether a question of one word ("safe?") can only be about the text above it."""
    is_word = len(below.split()) == 1 and _QUESTION.search(below) is not None
    return is_word and not _ASSENT.search(below)


def _is_remark(text: str) -> bool:
    return 0 < len(text) <= LONGEST_REMARK and not _ITEM.search(text)


def _is_punctuated(text: str) -> bool:
    """Whether it ends with a full stop, as those of a list need not."""
    lines = text.splitlines()
    return _FULL_STOP.search(text) is not None and not all(map(_ITEM.match, lines))


def _is_text(text: str) -> bool:
    """Whether it is long enough, and the person speaks in none of its sentences."""
    sentences = len(_SENTENCE_END.findall(text)) or len(_ITEM.findall(text))
    is_long = sentences >= FEWEST_SENTENCES
    return is_long and not _forms().voice.search(text) and not _QUESTION.search(text)


def _asks(line: str) -> bool:
    """Whether a line asks for work, or is a heading with a colon."""
    line = line.strip()
    return line.endswith((":", "\uff1a")) or _forms().request.search(line) is not None


def _is_letter(text: str, written: str) -> bool:
    return _forms().letter.search(text) is not None or _is_signed(written)


def _is_signed(text: str) -> bool:
    """Whether a text of several sentences ends with a name."""
    ends = list(_SENTENCE_END.finditer(text))
    if len(ends) < FEWEST_SENTENCES:
        return False
    last = text[ends[-1].end() :].strip()
    if not last or len(last) > LONGEST_SIGNATURE or len(last.split()) > LONGEST_NAME:
        return False
    is_name = _NAME.fullmatch(last) is not None and last != last.lower()
    return is_name and not _THANKS.search(plain(last))


class _Forms(NamedTuple):
    """The forms of all languages."""

    voice: re.Pattern[str]
    group: re.Pattern[str]
    request: re.Pattern[str]
    points: re.Pattern[str]
    closes: re.Pattern[str]
    notice: re.Pattern[str]
    letter: re.Pattern[str]


@cache
def _forms() -> _Forms:
    path = files("nbchat.compaction.facts") / "authorship.toml"
    languages = tomllib.loads(path.read_text(encoding="utf-8")).values()
    return _Forms(
        *(
            any_of([form for each in languages for form in each[name]])
            for name in _Forms._fields
        )
    )
