"""Which cards of the transcript wait for a person's word, and how they change."""

from collections.abc import Sequence
from typing import Any

from nbchat.agent.approvals import PendingCall
from nbchat.conversation.entries import Entry
from nbchat.jupyter.panel.view_model.transcript import Operation, Transcript
from nbchat.rendering.entries import entry_html, waiting_html, with_invisibles_escaped


class WaitingCards:
    """The cards of calls that have no result yet, and of those the ones that wait."""

    def __init__(self, items: Transcript) -> None:
        """Nothing was called yet."""
        self._items = items
        self._open: dict[int, Entry] = {}
        self._questions: dict[int, PendingCall] = {}
        self._lone: set[int] = set()

    def see(self, key: int, entry: Entry) -> None:
        """An entry is in the transcript: a call, or the result that ends one."""
        if entry.is_call:
            self._open[key] = entry
        elif entry.role == "tool":
            named = [k for k, c in self._open.items() if c.tool_id == entry.tool_id]
            for answered in named[:1]:
                del self._open[answered]

    def clear(self) -> None:
        """The transcript is shown anew; what waits has to be told again."""
        self._open.clear()
        self._questions.clear()
        self._lone.clear()

    def show(self, questions: Sequence[PendingCall]) -> list[Operation]:
        """The operations after which these calls wait, and no other ones."""
        known = {question.ticket: question for question in self._questions.values()}
        tickets = {question.ticket for question in questions}
        gone = [k for k, q in self._questions.items() if q.ticket not in tickets]
        new = [question for question in questions if question.ticket not in known]
        closed = [operation for key in gone for operation in self._close(key)]
        return [*closed, *map(self._ask, new)]

    def state(self) -> list[dict[str, Any]]:
        """What waits, as views know it."""
        return [
            {
                "ticket": question.ticket,
                "key": key,
                "tool": with_invisibles_escaped(question.call.tool_name),
            }
            for key, question in self._questions.items()
        ]

    def _ask(self, question: PendingCall) -> Operation:
        """The call's card with the question; a cell's call gets a card of its own."""
        key = self._key_of(question.call)
        html = waiting_html(question.call, question.ticket)
        shown = self._items.add(html, key=key)
        if key is None:
            self._lone.add(shown)
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
        if key in self._lone:
            self._lone.remove(key)
            return self._items.dropped(key)
        return self._items.show(entry_html(question.call), key=key)
