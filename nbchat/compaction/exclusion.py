"""A message that a person keeps from the model: left out, and taken in again.

The transcript keeps it. The record is a pruning whose new content is a placeholder, so
that no tool's call loses its result.
"""

from dataclasses import replace

from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.choice import Pruning
from nbchat.compaction.pruning.proposals import record_of
from nbchat.errors import NbchatError
from nbchat.history import EXCLUDED, LEFT_OUT, Compaction
from nbchat.session import Session


def exclusion(session: Session, place: int, policy: Policy) -> Compaction:
    """The record that leaves out what stands at a place, its figures to come.

    Raises NbchatError for what the model does not see anyway, and for calls.
    """
    if not 0 <= place < len(session.transcript):
        raise NbchatError(f"nothing was said at {place}; /recall shows the places")
    if not session.transcript[place].can_be_left_out:
        raise NbchatError(
            f"at {place} stands a call or a thought; leave out the call's result"
        )
    _check_seen(session, place)
    if place in session.excluded:
        raise NbchatError(f"what stands at {place} is left out already")
    return record_of(session, Pruning(((place, LEFT_OUT),)), policy, trigger=EXCLUDED)


def inclusion(session: Session, place: int) -> Compaction:
    """The record that takes it in again; raises NbchatError if it was not left out."""
    record = session.excluded.get(place)
    if record is None:
        raise NbchatError(f"what stands at {place} was not left out")
    _check_seen(session, place)
    return replace(record, status="undone", committed_at=len(session.transcript))


def _check_seen(session: Session, place: int) -> None:
    if session.compaction is not None and place < session.compaction.stop:
        raise NbchatError(
            f"what stands at {place} is folded: the model sees the summary instead, "
            "which /edit changes and /undo takes back"
        )
