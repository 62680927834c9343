"""The items of the transcript: all of them by key, as HTML only what a view has needed.

A conversation of a thousand entries takes seconds to render. So what was said before
waits as it is, and views get the newest page first and earlier ones as they ask.
"""

from typing import Any

from nbchat.conversation.entries import Compaction, Entry
from nbchat.rendering.banners import compaction_html
from nbchat.rendering.entries import entry_html

Operation = dict[str, Any]
"""What a view does to come up to date; `protocol.json` describes each."""

PAGE_ITEMS = 20

PAGE_CHARACTERS = 100_000
"""Of HTML, after which a page ends early: a browser takes 50 ms for about as much."""


class Transcript:
    """Items by key; keys only grow, so an older item has a smaller one."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._items: dict[int, str | Entry | Compaction] = {}
        self._places: dict[int, int] = {}
        self._next_key = 0

    def add(
        self,
        item: str | Entry | Compaction,
        *,
        key: int | None = None,
        place: int | None = None,
    ) -> int:
        """A new item, or a new face of an old one; its key.

        `place` is the transcript's of what can be gone back to, or be left out.
        """
        if key is None:
            key, self._next_key = self._next_key, self._next_key + 1
        self._items[key] = item
        if place is not None:
            self._places[key] = place
        return key

    def show(
        self, html: str, *, key: int | None = None, place: int | None = None
    ) -> list[Operation]:
        """A new item, or a new face of an old one; nothing for empty HTML."""
        if not html:
            return []
        key = self.add(html, key=key, place=place)
        return [{"op": "item", **self.named(key), "html": html}]

    def named(self, key: int) -> dict[str, int]:
        """The key of an item, and its place if it has one."""
        place = self._places.get(key)
        return {"key": key} if place is None else {"key": key, "place": place}

    def dropped(self, key: int) -> list[Operation]:
        """Forget an item."""
        del self._items[key]
        return [{"op": "drop", "key": key}]

    def clear(self) -> None:
        """Forget all items; their keys do not come again."""
        self._items.clear()
        self._places.clear()

    def page(self, before: int | None = None) -> dict[str, Any]:
        """The newest items before a key, oldest first, and the key to go on before."""
        page: list[dict[str, Any]] = []
        size = 0
        for key in [key for key in self._items if before is None or key < before][::-1]:
            if len(page) == PAGE_ITEMS or size > PAGE_CHARACTERS:
                return {"items": page[::-1], "before": page[-1]["key"]}
            if html := self._html(key):
                page.append({**self.named(key), "html": html})
                size += len(html)
        return {"items": page[::-1], "before": None}

    def _html(self, key: int) -> str:
        item = self._items[key]
        if isinstance(item, Entry):
            item = self._items[key] = entry_html(item)
        elif isinstance(item, Compaction):
            item = self._items[key] = compaction_html(item)
        return item
