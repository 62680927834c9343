"""What is being written, as views have it: finished blocks as HTML, the rest as text.

Nothing is sent twice: the entry that ends a stream takes its blocks, or its text, over.
"""

import re
from bisect import bisect_left
from html import escape

from nbchat.jupyter.panel.view_model.transcript import Operation
from nbchat.rendering.entries import MARKDOWN_START, TEXT_START
from nbchat.rendering.markdown import displayable, markdown_html

# A blank line ends a block, unless a list, quote or indented part goes on after it.
_BLOCK_END = re.compile(r"(?<!\n)\n{2,}+(?=\S)(?![-*+>|]|\d+(?:[.)]|\Z))")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


class Live:
    """The answer and the thoughts that stream in, by their kind."""

    def __init__(self) -> None:
        """Nothing streams."""
        self._parts: dict[str, dict[str, str]] = {}

    def snapshot(self) -> dict[str, dict[str, str]]:
        """All of it, for a view that comes later."""
        return {kind: dict(parts) for kind, parts in self._parts.items()}

    def write(self, text: str) -> list[Operation]:
        """More of an answer; its finished blocks become HTML while it goes on."""
        appended = self._stream("assistant", displayable(text))
        live = self._parts["assistant"]
        cut = _block_end(live["text"]) if "\n" in live["text"][-len(text) - 3 :] else 0
        if not cut:
            return appended
        html, rest = markdown_html(live["text"][:cut]), live["text"][cut:]
        self._parts["assistant"] = {"html": live["html"] + html, "text": rest}
        return [{"op": "block", "kind": "assistant", "html": html, "text": rest}]

    def think(self, text: str) -> list[Operation]:
        """More of what the model thinks."""
        return self._stream("thinking", displayable(text))

    def taken_over(self, item: Operation, kind: str) -> Operation:
        """An item without what a view has of it already, if it does begin with that.

        It need not: a block may refer to a link that is defined further down.
        """
        live = self._parts.get(kind, {"html": "", "text": ""})
        streamed, mark = live["html"], MARKDOWN_START
        if kind == "thinking":
            streamed, mark = escape(live["text"]), TEXT_START
        start, begins, rest = item["html"].partition(mark)
        if not (streamed and begins and rest.startswith(streamed)):
            return item
        html = f"{start}{begins}{rest[len(streamed) :]}"
        return {**item, "html": html, "streamed": kind}

    def settle(self, kind: str) -> list[Operation]:
        """The stream of a kind is over; its element goes, the entry has come."""
        if self._parts.pop(kind, None) is None:
            return []
        return [{"op": "settle", "kind": kind}]

    def settle_all(self) -> list[Operation]:
        """All streams are over."""
        return [op for kind in list(self._parts) for op in self.settle(kind)]

    def _stream(self, kind: str, text: str) -> list[Operation]:
        live = self._parts.setdefault(kind, {"html": "", "text": ""})
        live["text"] += text
        return [{"op": "text", "kind": kind, "text": text}]


def _block_end(text: str) -> int:
    """Where the last finished block of Markdown ends; 0 while none has."""
    fences = [found.start() for found in _FENCE.finditer(text)]
    end = 0
    for found in _BLOCK_END.finditer(text):
        is_in_code = bisect_left(fences, found.end()) % 2 == 1
        end = end if is_in_code else found.end()
    return end
