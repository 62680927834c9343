"""Mark values in a summary that the conversation does not support."""

import re
from itertools import pairwise

from nbchat.conversation.values import values

INVENTED = " [not in the conversation]"
"""Follows a value that nothing in the conversation holds."""


def is_marked(text: str, stop: int) -> bool:
    """True if a mark follows at an index."""
    return text.startswith(INVENTED, stop)


def without_marked(text: str) -> str:
    """The text without its marked values and their marks."""
    marks = list(re.finditer(re.escape(INVENTED), text))
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
