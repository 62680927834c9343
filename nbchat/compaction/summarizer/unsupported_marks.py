"""Mark values in a summary that the conversation does not support."""

import re
from itertools import pairwise

from nbchat.conversation.values import values

INVENTED = " [not in the conversation]"
"""Follows a value that nothing in the conversation holds."""

_MARK = re.compile(r" \[not (?:with [^\]\n]{1,130} )?in the conversation\]")
"""Also the marks that older versions put behind a value beside the wrong id."""


def is_marked(text: str, stop: int) -> bool:
    """Whether a mark follows at an index."""
    return _MARK.match(text, stop) is not None


def without_marked(text: str) -> str:
    """The text without its marked values and their marks."""
    marks = list(_MARK.finditer(text))
    if not marks:
        return text
    starts = {value.stop: value.start for value in values(text)}
    kept, index = [], 0
    for mark in marks:
        word = max(text.rfind(sign, index, mark.start()) for sign in " \n") + 1
        kept.append(text[index : starts.get(mark.start(), max(index, word))])
        index = mark.end()
    return "".join([*kept, text[index:]])


def with_marks(text: str, stops: set[int]) -> str:
    """The text with a mark inserted at each index."""
    places = [0, *sorted(stops), len(text)]
    return INVENTED.join(text[a:b] for a, b in pairwise(places))
