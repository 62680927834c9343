"""Where the meters begin to count: at the newest change of what the model sees.

What came shortened or was left out is no beginning: it changes the size alone.
"""

from dataclasses import replace

from nbchat.history import Compaction
from nbchat.session import Session


def newest_change(session: Session) -> Compaction | None:
    """The record from which the meters count anew; None where nothing has changed."""
    changes = (
        record
        for record in reversed(session.compactions)
        if not (record.is_attempt or record.is_immediate or record.is_exclusion)
    )
    return max(changes, key=lambda record: record.committed_at, default=None)


def as_committed(session: Session, record: Compaction) -> Compaction:
    """The same record, at the place where its compaction was committed first.

    What a compaction has left it left there, however late it was redone, edited or
    written anew.
    """
    versions = (each for each in session.compactions if each.id == record.id)
    first = next(each for each in versions if not each.is_attempt)
    return replace(record, committed_at=first.committed_at)
