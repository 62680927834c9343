"""Which banners of compactions stand in the transcript, and what becomes of each.

One says that a compaction is under way; what it ends in takes its place. A panel that
does not notify leaves out the automatic ones, unless somebody should know.
"""

from collections.abc import Mapping

from nbchat.conversation.entries import EXCLUDED, Compaction
from nbchat.conversation.events import (
    CompactionChanged,
    CompactionFailed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
)
from nbchat.jupyter.panel.view_model.transcript import Operation, Transcript
from nbchat.rendering.banners import compaction_html, notice_html


class Banners:
    """The banners in one transcript, by the compactions they are of."""

    def __init__(self, items: Transcript) -> None:
        """None stands there yet."""
        self._items = items
        self._keys: dict[str, int] = {}
        self._running: int | None = None
        self.notifies = True
        """Whether automatic compactions have a banner."""

    @property
    def keys(self) -> Mapping[str, int]:
        """The items that are banners, by the ids of their compactions."""
        return self._keys

    def clear(self) -> None:
        """Forget all; the transcript begins anew."""
        self._keys.clear()
        self._running = None

    def restore(self, compaction: Compaction) -> None:
        """Let a banner stand that is drawn when a view comes to it."""
        if not self._is_silent(compaction):
            self._keys[compaction.id] = self._items.add(compaction)

    def begin(self, event: CompactionStarted) -> list[Operation]:
        """A compaction is under way."""
        if self._is_quiet(event.trigger):
            return []
        shown = self._items.show(notice_html(event))
        self._running = shown[0]["key"]
        return shown

    def add(self, compaction: Compaction) -> list[Operation]:
        """The banner takes the place of the one that said it was under way."""
        if self._is_silent(compaction):
            return self.drop_running()
        key = self._keys.get(compaction.id, self._running)
        shown = self._items.show(compaction_html(compaction), key=key)
        self._keys[compaction.id] = shown[0]["key"]
        self._running = None
        return shown

    def change(self, event: CompactionUndone | CompactionChanged) -> list[Operation]:
        """The banner as the compaction is now, and below what has happened."""
        return [*self.redraw(event.compaction), *self._end(notice_html(event))]

    def end(self, event: CompactionSkipped | CompactionFailed) -> list[Operation]:
        """What came instead of a compaction; a failure is always told."""
        if isinstance(event, CompactionSkipped) and self._is_quiet(event.trigger):
            return self.drop_running()
        return self._end(notice_html(event))

    def redraw(self, compaction: Compaction) -> list[Operation]:
        """The banner as the compaction is now, unless it has had none on purpose."""
        key = self._keys.get(compaction.id)
        if key is None and self._is_quiet(compaction.trigger):
            return []
        return self._items.show(compaction_html(compaction), key=key)

    def drop_running(self) -> list[Operation]:
        """Nothing is under way any more."""
        key, self._running = self._running, None
        return [] if key is None else self._items.dropped(key)

    def _end(self, html: str) -> list[Operation]:
        key, self._running = self._running, None
        return self._items.show(html, key=key)

    def _is_quiet(self, trigger: str) -> bool:
        """Whether a compaction with this trigger is none of the person's business."""
        return trigger not in ("manual", EXCLUDED) and not self.notifies

    def _is_silent(self, compaction: Compaction) -> bool:
        """Where no model could be had somebody should know, so that is never quiet."""
        return self._is_quiet(compaction.trigger) and compaction.status != "degraded"
