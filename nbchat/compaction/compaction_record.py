"""Make the record of a compaction: as it begins, as it ends, and its sizes."""

from dataclasses import dataclass, replace

from nbchat.compaction.plan import Plan
from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation.entries import (
    Compaction,
    Entry,
    Status,
    SummaryFields,
    Usage,
)
from nbchat.conversation.session import Session
from nbchat.conversation.turns import count_messages


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of writing a summary: an entry, or none and the reason."""

    entry: Entry | None
    cost: Usage
    """Usage of all answers."""
    model: str
    status: Status = "done"
    reason: str = ""
    code: str = ""
    note: str = ""
    """A note on a summary that was accepted."""
    fields: SummaryFields | None = None
    """The fields of a structured summary."""


def running_record(
    session: Session, plan: Plan, *, policy: str, model: str
) -> Compaction:
    """The record of a compaction that begins."""
    return Compaction(
        id=plan.id,
        start=plan.start,
        stop=plan.stop,
        summary="",
        tokens_before=plan.tokens_before,
        cost=session.compaction_cost(plan.id),
        model=model,
        trigger=plan.trigger,
        policy=policy,
        status="running",
        prefix_hash=session.transcript.prefix_hash(plan.stop),
        committed_at=len(session.transcript),
        messages=count_messages(session.transcript[plan.start : plan.stop]),
    )


def ended_record(
    session: Session,
    plan: Plan,
    running: Compaction,
    outcome: Outcome,
    tracker: ContextTracker,
) -> Compaction:
    """The record of a compaction that has ended."""
    entry = outcome.entry
    size = tracker.counter.count_entry(entry) if entry else 0
    saved = plan.tokens_covered - size
    after = tracker.scaled(session, plan.tokens_before, saved) if entry else 0
    is_retried = outcome.status != "done" and plan.trigger != "manual"
    notes = (sentence(outcome.note), plan.note, tracker.next_wait if is_retried else "")
    return replace(
        running,
        summary=entry.content if entry else "",
        tokens_after=after,
        summary_tokens=size,
        cost=running.cost + outcome.cost,
        status=outcome.status,
        reason=sentence(outcome.reason),
        code=outcome.code,
        note=" ".join(filter(None, notes)),
        fields=outcome.fields,
        model=outcome.model or running.model,
    )


def sentence(text: str) -> str:
    """A reason as people read it: with a capital and a period."""
    end = "" if not text or text.endswith((".", "?", "!", "…")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def as_of_now(
    session: Session, plan: Plan, record: Compaction, tracker: ContextTracker
) -> Compaction:
    """A record of a summary that was written while messages were added."""
    before = tracker.context_tokens(session)
    saved = plan.tokens_covered - record.summary_tokens
    after = tracker.scaled(session, before, saved) if record.is_active else 0
    return replace(
        record,
        tokens_before=before,
        tokens_after=after,
        committed_at=len(session.transcript),
    )


def with_sizes(
    session: Session, record: Compaction, tracker: ContextTracker
) -> Compaction:
    """A record that replaces contents, with the context before and after."""
    count, before = tracker.counter.count_entry, tracker.context_tokens(session)
    saved = sum(
        count(session.history_since(index)[0])
        - count(session.transcript[index].with_content(text))
        for index, text in record.replacements
    )
    after = tracker.scaled(session, before, saved)
    return replace(record, tokens_before=before, tokens_after=after)
