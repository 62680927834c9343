"""A compaction driven to its end without an agent."""

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
