"""Items that a view shows, rendered when first needed, and the text that streams in.

A conversation of a thousand messages takes seconds to render. So earlier messages stay
entries until a view asks for their page.
"""

import re
from bisect import bisect_left
from html import escape
from typing import Any

from nbchat.conversation.entries import Compaction, Entry
from nbchat.rendering.banners import compaction_html
from nbchat.rendering.entries import MARKDOWN_START, TEXT_START, entry_html
from nbchat.rendering.markdown import displayable, markdown_html

Operation = dict[str, Any]
"""What a view does to come up to date; `protocol.json` describes each."""

PAGE_ITEMS = 20

PAGE_CHARACTERS = 100_000
"""Of HTML, after which a page ends early: a browser takes 50 ms for about as much."""

# A blank line ends a block, unless a list, quote or indented part goes on after it.
_BLOCK_END = re.compile(r"(?<!\n)\n{2,}+(?=\S)(?![-*+>|]|\d+(?:[.)]|\Z))")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


class Items:
    """Items by key; keys only grow, so an older item has a smaller one."""

    def __init__(self) -> None:
        """Start empty."""
        self._items: dict[int, str | Entry | Compaction] = {}
        self._positions: dict[int, int] = {}
        self._next_key = 0

    def add(
        self,
        item: str | Entry | Compaction,
        *,
        key: int | None = None,
        position: int | None = None,
    ) -> int:
        """Add an item, or replace the one with this key; return its key.

        `position` is the transcript index of a message that can be edited or excluded.
        """
        if key is None:
            key, self._next_key = self._next_key, self._next_key + 1
        self._items[key] = item
        if position is not None:
            self._positions[key] = position
        return key

    def show(
        self, html: str, *, key: int | None = None, position: int | None = None
    ) -> list[Operation]:
        """Add or replace an item of HTML; nothing when that is empty."""
        if not html:
            return []
        key = self.add(html, key=key, position=position)
        return [{"op": "item", **self._identity(key), "html": html}]

    def drop(self, key: int) -> list[Operation]:
        """Remove an item."""
        del self._items[key]
        return [{"op": "drop", "key": key}]

    def clear(self) -> None:
        """Remove all items; their keys are not used again."""
        self._items.clear()
        self._positions.clear()

    def page(self, before: int | None = None) -> dict[str, Any]:
        """The newest items before a key, oldest first, and the next page's `before`."""
        page: list[dict[str, Any]] = []
        size = 0
        for key in [key for key in self._items if before is None or key < before][::-1]:
            if len(page) == PAGE_ITEMS or size > PAGE_CHARACTERS:
                return {"items": page[::-1], "before": page[-1]["key"]}
            if html := self._html(key):
                page.append({**self._identity(key), "html": html})
                size += len(html)
        return {"items": page[::-1], "before": None}

    def _identity(self, key: int) -> dict[str, int]:
        position = self._positions.get(key)
        return {"key": key} if position is None else {"key": key, "position": position}

    def _html(self, key: int) -> str:
        item = self._items[key]
        if isinstance(item, Entry):
            item = self._items[key] = entry_html(item)
        elif isinstance(item, Compaction):
            item = self._items[key] = compaction_html(item)
        return item


class LiveText:
    """Answer and thinking that stream in: finished blocks as HTML, the rest as text.

    Nothing is sent twice: the item of the finished entry reuses what was streamed.
    """

    def __init__(self) -> None:
        """Start with no stream."""
        self._streams: dict[str, dict[str, str]] = {}

    def snapshot(self) -> dict[str, dict[str, str]]:
        """All streams, for a view that opens later."""
        return {kind: dict(stream) for kind, stream in self._streams.items()}

    def write(self, text: str) -> list[Operation]:
        """Add to the answer; finished blocks become HTML while it goes on."""
        appended = self.append("assistant", text)
        live = self._streams["assistant"]
        cut = _block_end(live["text"]) if "\n" in live["text"][-len(text) - 3 :] else 0
        if not cut:
            return appended
        html, rest = markdown_html(live["text"][:cut]), live["text"][cut:]
        self._streams["assistant"] = {"html": live["html"] + html, "text": rest}
        return [{"op": "block", "kind": "assistant", "html": html, "text": rest}]

    def append(self, kind: str, text: str) -> list[Operation]:
        """Add text to a stream as it is."""
        shown = displayable(text)
        live = self._streams.setdefault(kind, {"html": "", "text": ""})
        live["text"] += shown
        return [{"op": "text", "kind": kind, "text": shown}]

    def finish(self, kind: str, added: list[Operation]) -> list[Operation]:
        """End a stream; the items of its entry leave out what a view has already."""
        if kind not in self._streams:
            return added
        reused = [self._reusing(item, kind) for item in added]
        del self._streams[kind]
        return [*reused, {"op": "settle", "kind": kind}]

    def stop(self) -> list[Operation]:
        """End all streams."""
        return [op for kind in list(self._streams) for op in self.finish(kind, [])]

    def _reusing(self, item: Operation, kind: str) -> Operation:
        """The item without its streamed beginning, if it does begin with that.

        It may not: a block can refer to a link that is defined further down.
        """
        live = self._streams[kind]
        streamed, mark = live["html"], MARKDOWN_START
        if kind == "thinking":
            streamed, mark = escape(live["text"]), TEXT_START
        start, begins, rest = item["html"].partition(mark)
        if not (streamed and begins and rest.startswith(streamed)):
            return item
        html = f"{start}{begins}{rest[len(streamed) :]}"
        return {**item, "html": html, "streamed": kind}


def _block_end(text: str) -> int:
    """Index at which the last finished block of Markdown ends; 0 without one."""
    fences = [found.start() for found in _FENCE.finditer(text)]
    end = 0
    for found in _BLOCK_END.finditer(text):
        is_in_code = bisect_left(fences, found.end()) % 2 == 1
        end = end if is_in_code else found.end()
    return end
