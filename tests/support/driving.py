"""Run a compaction or a command to its end without a panel."""

from collections.abc import Iterable

from nbchat.chat.chat_events import ChatEvent, CommandReplied
from nbchat.compaction.engine import CompactionRun
from nbchat.conversation.entries import Compaction


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
