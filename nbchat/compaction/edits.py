"""Change compactions: undo, redo, edit, regenerate; exclude and include messages.

Each function returns one more record with the same id, for the agent to append. The
compactions in force are a stack: the last one is undone first and redone last.
"""

from collections.abc import Sequence
from dataclasses import replace

from nbchat.compaction.plan import Headroom, Plan, fields_before
from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.outputs import record_of
from nbchat.compaction.summary_format import escape
from nbchat.conversation.entries import (
    EXCLUDED,
    EXCLUDED_TEXT,
    Compaction,
    Entry,
    now,
)
from nbchat.conversation.session import Session, apply_compactions
from nbchat.conversation.turns import message_at
from nbchat.errors import CompactionError, NbchatError
from nbchat.providers.tokens import TokenCounter


def undo(session: Session) -> Compaction | None:
    """The record that undoes the newest compaction in force; None without one.

    Its edits and regenerated summaries are undone with it.
    """
    active = [each for each in session.active_compactions if not each.is_immediate]
    if not active:
        return None
    return _as_of_now(session, replace(active[-1], status="undone", reason=""))


def redo(session: Session) -> Compaction | None:
    """The record that redoes the last undone compaction; None when there is none.

    A compaction or a change after the undo ends what can be redone; turns do not, nor
    do outputs that were shortened at once. A compaction whose entries were changed
    cannot be redone.
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
    """The record in which `text` replaces the summary; the facts stay.

    Its `reason` says so when the text is larger than what it replaces. Raises
    CompactionError when there is no summary, when the text is blank, or when it would
    fill the `usable_tokens` of the window.
    """
    record = summary_in_force(session)
    if not text.strip():
        raise CompactionError("empty", "The summary would be empty.")
    entry = _with_summary(record.entry, text)
    size = counter.count_entry(entry)
    before = counter.count_entries(_covered(session, record))
    if usable_tokens is not None and size >= usable_tokens:
        raise CompactionError(
            "too-long",
            f"The summary would have {size:,} tokens, but the model's window allows "
            f"{usable_tokens:,}.",
        )
    is_larger = size > before
    reason = f"It's larger than what it replaces: {size:,} against {before:,} tokens."
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
        fields=None,
        created_at=now(),
    )
    return _as_of_now(session, edited)


def plan_again(
    session: Session,
    policy: Policy,
    *,
    focus: str,
    trigger: str,
    counter: TokenCounter,
    headroom: Headroom,
) -> Plan:
    """The plan to regenerate the current summary from the same entries.

    Like every plan it covers pruned outputs whole. Raises CompactionError without a
    summary.
    """
    record = summary_in_force(session)
    covered = _covered(session, record)
    has_earlier = record.start and covered[0].role == "summary"
    earlier = covered[:1] if has_earlier else []
    size = counter.count_entries(covered)
    in_force = counter.count_entry(record.entry)
    headroom = replace(headroom, tokens_before=headroom.tokens_before - in_force + size)
    return Plan(
        trigger,
        (*earlier, *session.unpruned(record.start, record.stop)),
        record.start,
        record.stop,
        record.tokens_before,
        size,
        headroom.budget(policy, covered=size, stop=record.stop),
        focus,
        id=record.id,
        earlier=fields_before(session, record.start),
    )


def regenerated(
    session: Session, attempt: Compaction, *, counter: TokenCounter
) -> Compaction:
    """The record of a regenerated summary; a failed attempt is returned as it is."""
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


def exclude(session: Session, index: int, policy: Policy) -> Compaction:
    """The record that excludes the message at an index, without token figures.

    Raises NbchatError for what the model does not see anyway, and for calls.
    """
    if not 0 <= index < len(session.transcript):
        raise NbchatError(f"There's no message {index}. /recall shows the numbers.")
    if not session.transcript[index].can_be_excluded:
        raise NbchatError(
            f"Message {index} is a tool call or thinking, which can't be excluded "
            "alone. Exclude the call's result or the answer."
        )
    _check_visible(session, index)
    if index in session.excluded:
        raise NbchatError(f"Message {index} is already excluded.")
    indices = sorted([index, *_thinking(session.transcript, index)])
    hidden = [(each, EXCLUDED_TEXT) for each in indices]
    record = record_of(session, hidden, policy, trigger=EXCLUDED)
    return replace(record, start=index)


def include(session: Session, index: int) -> Compaction:
    """The record that includes an excluded message again; raises NbchatError."""
    record = session.excluded.get(index)
    if record is None:
        raise NbchatError(f"Message {index} isn't excluded.")
    _check_visible(session, index)
    return replace(record, status="undone", committed_at=len(session.transcript))


def summary_in_force(session: Session) -> Compaction:
    """The compaction whose summary the model sees; raises CompactionError."""
    if session.compaction is None:
        raise CompactionError("none", "There's no summary.")
    return session.compaction


def _with_summary(entry: Entry, text: str) -> Entry:
    """A summary entry with another summary and the same facts."""
    _, _, facts = entry.content.partition("</summary>")
    return entry._replace(content=f"<summary>\n{escape(text)}\n</summary>{facts}")


def _covered(session: Session, record: Compaction) -> list[Entry]:
    """The covered entries as the model saw them before this compaction."""
    others = [each for each in session.active_compactions if each.id != record.id]
    return apply_compactions(session.transcript[: record.stop], others)


def _as_of_now(session: Session, record: Compaction) -> Compaction:
    """The record committed now, so that earlier usage does not count."""
    cost = session.compaction_cost(record.id)
    return replace(record, cost=cost, committed_at=len(session.transcript))


def _undone(records: Sequence[Compaction]) -> list[str]:
    """The ids that can be redone, the next one last."""
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


def _thinking(transcript: Sequence[Entry], index: int) -> list[int]:
    """Indices of the thinking in the message of an answer."""
    if not transcript[index].is_answer:
        return []
    message = message_at(transcript, index)
    thinking = (at for at in message if transcript[at].role == "thinking")
    return [at for at in thinking if not _is_signature(transcript, at)]


def _is_signature(transcript: Sequence[Entry], index: int) -> bool:
    """True if thinking without text signs the call after it, which needs it."""
    after = transcript[index + 1 : index + 2]
    return not transcript[index].content and any(entry.is_call for entry in after)


def _check_visible(session: Session, index: int) -> None:
    if session.compaction is not None and index < session.compaction.stop:
        raise NbchatError(
            f"Message {index} is compacted. The model sees the summary instead, which "
            "/edit changes and /undo removes."
        )
