"""Where the finished blocks of a streaming answer end, and what is left to send."""

import re
from bisect import bisect_left
from typing import Any

from nbchat.rendering.entries import MARKDOWN_START

# A blank line ends a block, unless a list, quote or indented part goes on after it.
_BLOCK_END = re.compile(r"(?<!\n)\n{2,}+(?=\S)(?![-*+>|]|\d+(?:[.)]|\Z))")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


def without_blocks(streamed: str, item: dict[str, Any], kind: str) -> dict[str, Any]:
    """An item without the blocks that a view has, if it does begin with them.

    It need not: a block may refer to a link that is defined further down.
    """
    start, begins, rest = item["html"].partition(MARKDOWN_START)
    if not (streamed and begins and rest.startswith(streamed)):
        return item
    html = f"{start}{begins}{rest[len(streamed) :]}"
    return {**item, "html": html, "streamed": kind}


def block_end(text: str) -> int:
    """Where the last finished block of Markdown ends; 0 while none has."""
    fences = [found.start() for found in _FENCE.finditer(text)]
    end = 0
    for found in _BLOCK_END.finditer(text):
        is_in_code = bisect_left(fences, found.end()) % 2 == 1
        end = end if is_in_code else found.end()
    return end
