"""How a compaction is changed afterwards: undone, redone, edited, written anew.

A change is one more record of the same id, for the caller to append. The compactions in
force are a stack: what came last is undone first, and redone last.
"""

from collections.abc import Sequence
from dataclasses import replace

from nbchat.compaction.markup import escape
from nbchat.compaction.plan import Plan, budget_for
from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.pruner import Pruning, record_of
from nbchat.conversation.entries import (
    EXCLUDED,
    EXCLUDED_TEXT,
    Compaction,
    Entry,
    Usage,
    now,
)
from nbchat.conversation.session import Session, apply_compactions
from nbchat.conversation.turns import message_at
from nbchat.errors import CompactionError, NbchatError
from nbchat.providers.tokens import TokenCounter


def undo(session: Session) -> Compaction | None:
    """The record that takes back the newest compaction in force; None without one.

    Whatever was done to it, an edit or a summary written anew, goes with it.
    """
    active = [each for each in session.active_compactions if not each.is_immediate]
    if not active:
        return None
    return _as_of_now(session, replace(active[-1], status="undone", reason=""))


def redo(session: Session) -> Compaction | None:
    """The record that brings back what was undone last; None when there is nothing.

    Whatever was compacted or changed after the undo stands, and ends what can be
    redone; turns do not, nor outputs that came shortened. A compaction whose entries
    were changed cannot come back.
    """
    undone = _undone(session.compactions)
    versions = (
        record
        for record in reversed(session.compactions)
        if record.is_active and record.id == undone[-1]
    )
    newest = next(versions, None) if undone else None
    return _as_of_now(session, newest) if newest else None


def edit(
    session: Session, text: str, *, counter: TokenCounter, usable_tokens: int | None
) -> Compaction:
    """The record in which a person's text tells the story; the facts block stays.

    Its `reason` says so when the text is larger than what it replaces. Raises
    CompactionError when there is no summary, the text is blank, or it would leave the
    model nothing of the `usable_tokens` of its window.
    """
    record = summary_in_force(session)
    if not text.strip():
        raise CompactionError("empty", "the summary would be empty")
    entry = _with_story(record.entry, text)
    size = counter.count_entry(entry)
    before = counter.count_entries(_covered(session, record))
    if usable_tokens is not None and size >= usable_tokens:
        raise CompactionError(
            "too-long",
            f"the summary would have {size:,} tokens, "
            f"the model's window takes {usable_tokens:,}",
        )
    is_larger = size > before
    reason = f"with {size:,} tokens larger than the {before:,} it replaces"
    edited = replace(
        record,
        summary=entry.content,
        tokens_after=_tokens_after(record, entry, counter),
        summary_tokens=size,
        model="",
        status="done",
        reason=reason if is_larger else "",
        code="",
        revision="edited",
        created_at=now(),
    )
    return _as_of_now(session, edited)


def plan_again(
    session: Session, policy: Policy, *, focus: str, counter: TokenCounter
) -> Plan:
    """The plan to write the summary in force anew, from what its compaction saw.

    As in every plan, outputs that were pruned are whole in it.
    Raises CompactionError when there is none.
    """
    record = summary_in_force(session)
    covered = _covered(session, record)
    has_earlier = record.start and covered[0].role == "summary"
    earlier = covered[:1] if has_earlier else []
    size = counter.count_entries(covered)
    return Plan(
        "manual",
        (*earlier, *session.unpruned(record.start, record.stop)),
        record.start,
        record.stop,
        record.tokens_before,
        size,
        budget_for(policy, size),
        focus,
        id=record.id,
    )


def regenerated(
    session: Session, attempt: Compaction, *, counter: TokenCounter
) -> Compaction:
    """The record of a summary written anew; a failed attempt changes nothing."""
    if not attempt.is_active:
        return attempt
    record = summary_in_force(session)
    return replace(
        attempt,
        tokens_before=record.tokens_before,
        tokens_after=_tokens_after(record, attempt.entry, counter),
        trigger=record.trigger,
        revision="regenerated",
    )


def summary_in_force(session: Session) -> Compaction:
    """The compaction whose summary is seen; raises CompactionError without one."""
    if session.compaction is None:
        raise CompactionError("none", "there is no summary in force")
    return session.compaction


def paid(session: Session, record_id: str) -> Usage:
    """What all requests under an id have cost until now."""
    costs = (
        each.cost for each in reversed(session.compactions) if each.id == record_id
    )
    return next(costs, Usage())


def _with_story(entry: Entry, text: str) -> Entry:
    """A summary entry that tells another story and keeps its facts."""
    _, _, facts = entry.content.partition("</summary>")
    return entry._replace(content=f"<summary>\n{escape(text)}\n</summary>{facts}")


def _covered(session: Session, record: Compaction) -> list[Entry]:
    """What the model saw of the covered entries before this compaction."""
    others = [each for each in session.active_compactions if each.id != record.id]
    return apply_compactions(session.transcript[: record.stop], others)


def _as_of_now(session: Session, record: Compaction) -> Compaction:
    """One more record of a compaction: what was counted before it is history."""
    return replace(
        record, cost=paid(session, record.id), committed_at=len(session.transcript)
    )


def _undone(records: Sequence[Compaction]) -> list[str]:
    """The ids that can be redone, the last one first to come."""
    ids: list[str] = []
    for record in records:
        if record.is_immediate:
            continue
        if record.status == "undone":
            ids.append(record.id)
        elif record.is_active:
            ids = ids[:-1] if ids[-1:] == [record.id] else []
    return ids


def _tokens_after(record: Compaction, entry: Entry, counter: TokenCounter) -> int:
    grown = counter.count_entry(entry) - counter.count_entry(record.entry)
    return max(0, record.tokens_after + grown)


def exclude(session: Session, place: int, policy: Policy) -> Compaction:
    """The record that leaves out what stands at a place, its figures to come.

    Raises NbchatError for what the model does not see anyway, and for calls.
    """
    if not 0 <= place < len(session.transcript):
        raise NbchatError(f"nothing was said at {place}; /recall shows the places")
    if not session.transcript[place].can_be_excluded:
        raise NbchatError(
            f"at {place} stands a call or a thought; leave out the call's result, "
            "or the answer, with which its thoughts go"
        )
    _check_seen(session, place)
    if place in session.excluded:
        raise NbchatError(f"what stands at {place} is left out already")
    places = sorted([place, *_thoughts(session.transcript, place)])
    pruning = Pruning(tuple((each, EXCLUDED_TEXT) for each in places))
    record = record_of(session, pruning, policy, trigger=EXCLUDED)
    return replace(record, start=place)


def include(session: Session, place: int) -> Compaction:
    """The record that takes it in again; raises NbchatError if it was not left out."""
    record = session.excluded.get(place)
    if record is None:
        raise NbchatError(f"what stands at {place} was not left out")
    _check_seen(session, place)
    return replace(record, status="undone", committed_at=len(session.transcript))


def _thoughts(transcript: Sequence[Entry], place: int) -> list[int]:
    """Where the thoughts stand of the message that an answer is part of."""
    if not transcript[place].is_answer:
        return []
    message = message_at(transcript, place)
    thoughts = (at for at in message if transcript[at].role == "thinking")
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
