"""Items of the panel's transcript: their pages, banners and approval cards.

A conversation of a thousand messages takes seconds to render. So earlier messages stay
entries until a view asks for their page.
"""

from collections.abc import Sequence
from typing import Any

from nbchat.agent.approvals import PendingCall
from nbchat.chat.chat_events import RulesOffered
from nbchat.conversation.entries import EXCLUDED, Compaction, Entry
from nbchat.conversation.events import (
    EDIT,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionProposed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    Event,
)
from nbchat.rendering.arguments import with_invisibles_escaped
from nbchat.rendering.banners import divider_html, notice_html, proposal_html
from nbchat.rendering.entries import (
    beginning_html,
    entry_html,
    notice_line_html,
    rules_html,
    waiting_html,
)

Operation = dict[str, Any]
"""What a view does to come up to date; the module `protocol` describes each."""

PAGE_ITEMS = 20

PAGE_CHARACTERS = 100_000
"""Of HTML, after which a page ends early: a browser takes 50 ms for about as much."""


class Items:
    """Items by key; keys only grow, so an older item has a smaller one."""

    def __init__(self) -> None:
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
            item = self._items[key] = beginning_html(item)
        elif isinstance(item, Compaction):
            item = self._items[key] = divider_html(item)
        return item


class Banners:
    """Banners of compactions: a running one is replaced by its outcome.

    Without `notifies` automatic compactions have none, unless the summary is degraded.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self.keys: dict[str, int] = {}
        """The items that are banners, by the ids of their compactions."""
        self._records: dict[str, Compaction] = {}
        self.running: int | None = None
        """The item that says that a compaction runs, if one does."""
        self._proposed: int | None = None
        """The item that asks whether to compact, if one does."""
        self.notifies = True
        """Whether automatic compactions have a banner."""

    def clear(self) -> None:
        """Forget all."""
        self.keys.clear()
        self._records.clear()
        self.running = self._proposed = None

    def restore(self, compaction: Compaction) -> None:
        """Add a banner that is rendered when a view asks for it."""
        self._records[compaction.id] = compaction
        if not self._is_hidden(compaction):
            self.keys[compaction.id] = self._items.add(compaction)

    def update(self, compaction: Compaction) -> list[Operation]:
        """Show a compaction unless its banner shows it already."""
        is_known = self._records.get(compaction.id) == compaction
        return [] if is_known else self._add(compaction)

    def fold(self, event: Event) -> list[Operation]:
        """Operations that show an event of a compaction; none for other events."""
        if isinstance(event, CompactionProposed):
            return self._propose(event)
        dropped = self.drop_proposed() if isinstance(event, CompactionStarted) else []
        return [*dropped, *self._fold(event)]

    def _propose(self, event: CompactionProposed) -> list[Operation]:
        """Ask in a line whether to compact now."""
        shown = self._items.show(proposal_html(event))
        self._proposed = shown[0]["key"]
        return shown

    def _fold(self, event: Event) -> list[Operation]:
        match event:
            case CompactionStarted(trigger) if not self._is_quiet(trigger):
                shown = self._items.show(notice_html(event))
                self.running = shown[0]["key"]
                return shown
            case Compacted(compaction):
                return [*self.drop_proposed(), *self._add(compaction)]
            case CompactionUndone(compaction) | CompactionChanged(compaction):
                return self._change(compaction, notice_html(event))
            case CompactionSkipped(_, trigger) if self._is_quiet(trigger):
                return self.drop_running()
            case CompactionSkipped() | CompactionFailed():
                return self._end(notice_html(event))
        return []

    def _change(self, compaction: Compaction, notice: str) -> list[Operation]:
        """Show a change once: on the compaction's line, or below without one."""
        shown = self._redraw(compaction)
        has_line = compaction.id in self.keys
        return [*shown, *(self.drop_running() if has_line else self._end(notice))]

    def drop_proposed(self) -> list[Operation]:
        """Remove the line that asks whether to compact."""
        key, self._proposed = self._proposed, None
        return [] if key is None else self._items.drop(key)

    def drop_running(self) -> list[Operation]:
        """Remove the banner of a compaction that runs."""
        key, self.running = self.running, None
        return [] if key is None else self._items.drop(key)

    def _add(self, compaction: Compaction) -> list[Operation]:
        self._records[compaction.id] = compaction
        if self._is_hidden(compaction):
            return self.drop_running()
        key = self.keys.get(compaction.id, self.running)
        shown = self._items.show(divider_html(compaction), key=key)
        self.keys[compaction.id] = shown[0]["key"]
        self.running = None
        return shown

    def _redraw(self, compaction: Compaction) -> list[Operation]:
        """Show the compaction as it is now, unless its banner is hidden."""
        self._records[compaction.id] = compaction
        key = self.keys.get(compaction.id)
        if key is None and self._is_quiet(compaction.trigger):
            return []
        shown = self._items.show(divider_html(compaction), key=key)
        self.keys[compaction.id] = shown[0]["key"]
        return shown

    def _end(self, html: str) -> list[Operation]:
        key, self.running = self.running, None
        return self._items.show(html, key=key)

    def _is_quiet(self, trigger: str) -> bool:
        """True for triggers the user did not start and need not see."""
        return trigger not in ("manual", EXCLUDED, EDIT) and not self.notifies

    def _is_hidden(self, compaction: Compaction) -> bool:
        """Degraded compactions are shown: the summary was made without a model."""
        return self._is_quiet(compaction.trigger) and compaction.status != "degraded"


class RulesCard:
    """The card of rules from a file that wait for a yes, or why a file is not used."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._html = ""
        self._key: int | None = None

    def clear(self) -> None:
        """Forget the item; the same rules still wait."""
        self._key = None

    def offer(self, offered: RulesOffered) -> list[Operation]:
        """Show what waits instead of what did."""
        gone = [] if self._key is None else self._items.drop(self._key)
        notice = notice_line_html(offered.problem) if offered.problem else ""
        self._html = rules_html(offered.rules) if offered.rules else notice
        self._key = None
        return [*gone, *self.show()]

    def show(self) -> list[Operation]:
        """Operations after which the card is shown below what was said."""
        shown = self._items.show(self._html) if self._key is None else []
        self._key = shown[0]["key"] if shown else self._key
        return shown


class ApprovalCards:
    """Cards of tool calls without a result, and the buttons on those that wait."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._waiting: Sequence[PendingCall] = ()
        self._open: dict[int, Entry] = {}
        self._questions: dict[int, PendingCall] = {}
        self._extra: set[int] = set()
        """Cards of calls that have no item of their own: a cell's."""

    def clear(self) -> None:
        """Forget the cards; the same calls still wait."""
        self._open.clear()
        self._questions.clear()
        self._extra.clear()

    def follow(self, key: int, entry: Entry) -> None:
        """Note a call that has an item, or the result that ends one."""
        if entry.is_call:
            self._open[key] = entry
        elif entry.role == "tool":
            named = [k for k, c in self._open.items() if c.tool_id == entry.tool_id]
            for answered in named[:1]:
                del self._open[answered]

    def wait_for(self, questions: Sequence[PendingCall]) -> list[Operation]:
        """Let these calls wait for a decision, and no other ones."""
        self._waiting = questions
        return self.show()

    def show(self) -> list[Operation]:
        """Operations after which the cards show what waits."""
        known = {question.ticket for question in self._questions.values()}
        tickets = {question.ticket for question in self._waiting}
        gone = [k for k, q in self._questions.items() if q.ticket not in tickets]
        new = [question for question in self._waiting if question.ticket not in known]
        closed = [operation for key in gone for operation in self._close(key)]
        return [*closed, *map(self._ask, new)]

    def state(self) -> list[dict[str, Any]]:
        """The calls that wait, with the keys of their cards."""
        return [
            {
                "ticket": question.ticket,
                "key": key,
                "tool": with_invisibles_escaped(question.call.tool_name),
            }
            for key, question in self._questions.items()
        ]

    def _ask(self, question: PendingCall) -> Operation:
        """Put the buttons on the call's card, or add one for a cell's call."""
        key = self._key_of(question.call)
        html = waiting_html(question.call, question.ticket, question.preview)
        shown = self._items.add(html, key=key)
        if key is None:
            self._extra.add(shown)
        self._questions[shown] = question
        return {"op": "item", "key": shown, "html": html}

    def _key_of(self, call: Entry) -> int | None:
        """The card of this very call, or the oldest one of an equal call."""
        free = {k: c for k, c in self._open.items() if k not in self._questions}
        same = [key for key, other in free.items() if other is call]
        equal = [key for key, other in free.items() if other == call]
        return next(iter(same or equal), None)

    def _close(self, key: int) -> list[Operation]:
        question = self._questions.pop(key)
        if key in self._extra:
            self._extra.remove(key)
            return self._items.drop(key)
        return self._items.show(entry_html(question.call), key=key)
