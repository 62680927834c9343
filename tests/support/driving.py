"""Run a compaction, a command or the saving of a session to its end without a panel."""

import time
from collections.abc import Callable, Iterable

from nbchat.chat.chat_events import ChatEvent, CommandReplied
from nbchat.compaction.engine import CompactionRun
from nbchat.conversation.entries import Compaction
from nbchat.errors import StoreError
from nbchat.storage.autosave import Autosave


def finished(work: CompactionRun) -> Compaction:
    """The record that a compaction ends in."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        record: Compaction = end.value
        return record


def replied(events: Iterable[ChatEvent]) -> str:
    """The text that a command replied."""
    (reply,) = [event for event in events if isinstance(event, CommandReplied)]
    return reply.text


def await_that(condition: Callable[[], bool]) -> None:
    """Wait until something is true that another thread brings about."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def save_when_repaired(autosave: Autosave) -> None:
    """Save in a store that was broken; each call waits for it only a moment."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return autosave.save()
        except StoreError:
            if time.monotonic() > deadline:
                raise
