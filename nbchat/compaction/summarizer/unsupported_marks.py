"""Mark values in a summary that the conversation does not support."""

import re

from nbchat.compaction.summarizer.value_extraction import values

INVENTED = " [not in the conversation]"
"""Follows a value that nothing in the conversation holds."""

MISPLACED = " [not with {id} in the conversation]"
"""Follows a value that occurs with other entities only."""

_MARK = re.compile(r" \[not (?:with [^\]\n]{1,130} )?in the conversation\]")


def is_marked(text: str, stop: int) -> bool:
    """Whether a mark follows at an index."""
    return _MARK.match(text, stop) is not None


def without_marked(text: str) -> str:
    """The text without its marked values and their marks."""
    if not _MARK.search(text):
        return text
    kept, index = [], 0
    for value in values(text):
        if is_marked(text, value.stop):
            kept.append(text[index : value.start])
            index = value.stop
    return _MARK.sub("", "".join([*kept, text[index:]]))


def with_marks(text: str, marks: dict[int, str]) -> str:
    """The text with each mark inserted at its index."""
    pieces, index = [], 0
    for stop in sorted(marks):
        pieces += [text[index:stop], marks[stop]]
        index = stop
    return "".join([*pieces, text[index:]])
