"""Where the meters begin to count: at the newest change of what the model sees.

What came shortened or was left out is no beginning: it changes the size alone.
"""

from dataclasses import replace

from nbchat.history import Compaction
from nbchat.session import CHANGED, Session


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
    first = session.compactions[_first_place(session, record)]
    return replace(record, committed_at=first.committed_at)


def was_taken_back(record: Compaction) -> bool:
    """Whether a person has undone it, other than a change of what it covers."""
    return record.status == "undone" and record.reason != CHANGED


def exclusions_since(session: Session, record: Compaction | None) -> list[Compaction]:
    """What a person left out or took in again after a compaction, in order."""
    first = 0 if record is None else _first_place(session, record)
    return [each for each in session.compactions[first:] if each.is_exclusion]


def _first_place(session: Session, record: Compaction) -> int:
    versions = (
        place
        for place, each in enumerate(session.compactions)
        if each.id == record.id and not each.is_attempt
    )
    return next(versions)
