"""A message that a person keeps from the model: left out, and taken in again.

The transcript keeps it. The record is a pruning whose new content is a placeholder, so
that no tool's call loses its result. What a model thought goes with its answer.
"""

from collections.abc import Sequence
from dataclasses import replace

from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.choice import Pruning
from nbchat.compaction.pruning.proposals import record_of
from nbchat.errors import NbchatError
from nbchat.history import EXCLUDED, LEFT_OUT, Compaction, Entry
from nbchat.session import Session
from nbchat.ties import SPOKEN


def exclusion(session: Session, place: int, policy: Policy) -> Compaction:
    """The record that leaves out what stands at a place, its figures to come.

    Raises NbchatError for what the model does not see anyway, and for calls.
    """
    if not 0 <= place < len(session.transcript):
        raise NbchatError(f"nothing was said at {place}; /recall shows the places")
    if not session.transcript[place].can_be_left_out:
        raise NbchatError(
            f"at {place} stands a call or a thought; leave out the call's result, "
            "or the answer, with which its thoughts go"
        )
    _check_seen(session, place)
    if place in session.excluded:
        raise NbchatError(f"what stands at {place} is left out already")
    places = sorted([place, *_thoughts(session.transcript, place)])
    pruning = Pruning(tuple((each, LEFT_OUT) for each in places))
    record = record_of(session, pruning, policy, trigger=EXCLUDED)
    return replace(record, start=place)


def inclusion(session: Session, place: int) -> Compaction:
    """The record that takes it in again; raises NbchatError if it was not left out."""
    record = session.excluded.get(place)
    if record is None:
        raise NbchatError(f"what stands at {place} was not left out")
    _check_seen(session, place)
    return replace(record, status="undone", committed_at=len(session.transcript))


def _thoughts(transcript: Sequence[Entry], place: int) -> list[int]:
    """Where the thoughts stand of the message that an answer is part of."""
    if transcript[place].role != "assistant":
        return []
    start, stop = place, place + 1
    while start and transcript[start - 1].role in SPOKEN:
        start -= 1
    while stop < len(transcript) and transcript[stop].role in SPOKEN:
        stop += 1
    thoughts = (at for at in range(start, stop) if transcript[at].role == "thinking")
    return [at for at in thoughts if not _is_signature(transcript, at)]


def _is_signature(transcript: Sequence[Entry], place: int) -> bool:
    """Whether a thought has no words: it signs the call after it, which needs it."""
    after = transcript[place + 1 : place + 2]
    return not transcript[place].content and any(entry.is_call for entry in after)


def _check_seen(session: Session, place: int) -> None:
    if session.compaction is not None and place < session.compaction.stop:
        raise NbchatError(
            f"what stands at {place} is folded: the model sees the summary instead, "
            "which /edit changes and /undo takes back"
        )
