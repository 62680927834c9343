"""How a session is kept small: when it is due, what the engine proposes, the commit.

The engine only proposes. Here, and nowhere else, its record joins the session, and it
does so in one append: before it the history is the old one, after it the new one.
"""

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import replace
from threading import Event as Flag

from nbchat.compaction.engine import CompactionEngine, CompactionRun
from nbchat.conversation.entries import Compaction, Usage
from nbchat.conversation.events import (
    Change,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionSkipped,
    CompactionStarted,
    CompactionUndone,
    Event,
    PinsChanged,
)
from nbchat.conversation.session import Session
from nbchat.errors import CompactionError, NbchatError, Stopped
from nbchat.providers.base import Provider, Request

logger = logging.getLogger(__name__)

PIN_LIMIT = 2_000
"""Tokens of one pin: it is in every request from now on, as a system prompt is."""

Events = Generator[Event, None, None]


class Upkeep:
    """The compactions of one agent and what becomes of them, as events."""

    def __init__(
        self,
        engine: CompactionEngine,
        tell: Callable[[Event], object] = lambda _event: None,
        base: Callable[[], Request] | None = None,
    ) -> None:
        """`engine` decides and proposes; `base` is the chat's own request as of now.

        `tell` hears of a compaction that is interrupted: then nobody reads events.
        """
        self._engine = engine
        self._tell = tell
        self._base = base

    def compact_if_due(
        self, session: Session, provider: Provider, *, stop: Flag | None
    ) -> Events:
        """Compact when a meter says so; without a model where pruning is enough."""
        self._count_exactly(session, provider)
        decision = self._engine.should_compact(session)
        if not decision:
            return
        pruned = self._engine.prune(session, trigger=decision.trigger)
        if pruned is not None:
            yield self._commit(session, pruned)
            return
        yield from self.compact(session, provider, decision.trigger, stop=stop)

    def compact(
        self,
        session: Session,
        provider: Provider,
        trigger: str,
        *,
        stop: Flag | None,
        focus: str = "",
        keep: int | None = None,
    ) -> Events:
        """Plan, compact, commit; or say why not."""
        plan = self._engine.plan(session, trigger=trigger, focus=focus, keep=keep)
        if plan.skip:
            if trigger != "manual":
                self._engine.tracker.cool_down(session, trigger=trigger)
            yield CompactionSkipped(plan.skip, trigger)
            return
        base = self._base() if self._base is not None else None
        paid: list[Usage] = []
        work = self._engine.compact(
            session, provider, plan, stop=stop, base=base, on_usage=paid.append
        )
        record = yield from self._ended(session, work, paid)
        yield self._commit(session, record)

    def shorten(self, session: Session) -> Events:
        """Shorten the output that has just come, where the policy wants it."""
        record = self._engine.shorten(session)
        if record is not None:
            session.compactions.append(record)
            yield Compacted(record)

    def exclude(self, session: Session, place: int) -> Events:
        """Keep what stands at a place of the transcript from the model."""
        record = self._engine.exclude(session, place)
        self._append(session, record)
        yield Compacted(record)

    def include(self, session: Session, place: int) -> Events:
        """Let the model see again what was left out."""
        record = self._engine.include(session, place)
        self._append(session, record)
        yield CompactionUndone(record)

    def undo(self, session: Session) -> Events:
        """Take back the compaction in force."""
        record = self._engine.undo(session)
        if record is None:
            yield CompactionSkipped("there is no compaction to undo")
            return
        self._append(session, record)
        yield CompactionUndone(record)

    def redo(self, session: Session) -> Events:
        """Bring back what was undone last."""
        record = self._engine.redo(session)
        if record is None:
            yield CompactionSkipped("there is nothing to redo")
            return
        yield self._change(session, record, "redone")

    def edit(self, session: Session, text: str) -> Events:
        """Let a person's text tell the story."""
        try:
            record = self._engine.edit(session, text)
        except CompactionError as error:
            yield CompactionSkipped(str(error))
            return
        yield self._change(session, record, "edited")

    def regenerate(
        self, session: Session, provider: Provider, *, focus: str, stop: Flag | None
    ) -> Events:
        """Have the summary in force written anew; if that fails the old one stays."""
        if session.compaction is None:
            yield CompactionSkipped("there is no summary to write anew")
            return
        paid: list[Usage] = []
        work = self._engine.regenerate(
            session, provider, focus=focus, stop=stop, on_usage=paid.append
        )
        record = yield from self._ended(session, work, paid)
        if record.is_in_force:
            yield self._change(session, record, "regenerated")
        else:
            session.compactions.append(record)
            yield CompactionFailed(record)

    def pin(self, session: Session, text: str) -> Events:
        """Keep a rule through every compaction; raises NbchatError for a long one."""
        self._check_pin(text)
        session.pin(text)
        yield PinsChanged(session.pins)

    def checkpoint(self, session: Session, text: str) -> Events:
        """Keep the state of the work in the place of the last checkpoint."""
        self._check_pin(text)
        session.checkpoint(text)
        yield PinsChanged(session.pins)

    def unpin(self, session: Session, number: int) -> Events:
        """Let a pinned rule go; raises NbchatError if there is none of that number."""
        session.unpin(number)
        yield PinsChanged(session.pins)

    def _check_pin(self, text: str) -> None:
        size = self._engine.tracker.counter.count(text)
        if size > PIN_LIMIT:
            raise NbchatError(
                f"this text has {size:,} tokens, a pin may have {PIN_LIMIT:,}: "
                "it would be in every request from now on"
            )

    def _ended(
        self, session: Session, work: CompactionRun, paid: Iterable[Usage]
    ) -> Generator[Event, None, Compaction]:
        """The record that work ends in, a failed one also after a fault of our own.

        What is broken off, by a stop, an interrupt or a caller that leaves, joins the
        session as failed, so that no store and no banner shows it running for ever.
        `paid` is what it has cost by then.
        """
        started: list[Compaction] = []
        try:
            return (yield from _noting(work, started))
        except BaseException as error:
            if not started:
                raise
            cost = sum(paid, started[0].cost)
            record = replace(_failed(started[0], error), cost=cost)
            if isinstance(error, Exception) and not isinstance(error, Stopped):
                logger.exception("a compaction failed; the chat goes on without")
                return record
            session.compactions.append(record)
            if isinstance(error, Stopped):
                yield CompactionFailed(record)
            else:  # KeyboardInterrupt, or the caller left: nobody reads another event
                self._tell(CompactionFailed(record))
            raise

    def _count_exactly(self, session: Session, provider: Provider) -> None:
        """Let the provider count the next request where a policy wants it exact."""
        if self._base is None or not self._engine.tracker.wants_exact_count(session):
            return
        try:
            tokens = provider.count_tokens(self._base())
        except NbchatError as error:
            logger.warning("counting here, %s cannot: %s", provider.name, error)
            self._engine.tracker.assume_larger_context(session)
        else:
            self._engine.tracker.set_context_tokens(session, tokens)

    def _commit(self, session: Session, record: Compaction) -> Event:
        if not record.is_in_force:
            session.compactions.append(record)
            self._engine.tracker.record_failure(session)
            return CompactionFailed(record)
        self._append(session, record)
        return Compacted(record)

    def _change(self, session: Session, record: Compaction, change: Change) -> Event:
        self._append(session, record)
        return CompactionChanged(record, change)

    def _append(self, session: Session, record: Compaction) -> None:
        """Change the view; what was counted before it triggers nothing any more."""
        session.compactions.append(record)
        self._engine.tracker.committed(session, record)


def _noting(work: CompactionRun, started: list[Compaction]) -> CompactionRun:
    """The same work; `started` gets the record it begins with."""
    with closing(work):
        try:
            while True:
                event = next(work)
                if isinstance(event, CompactionStarted) and event.compaction:
                    started.append(event.compaction)
                yield event
        except StopIteration as finished:
            record: Compaction = finished.value
            return record


def _failed(running: Compaction, error: BaseException) -> Compaction:
    if isinstance(error, NbchatError):
        return replace(running, status="failed", reason=str(error), code=_name(error))
    if isinstance(error, Exception):
        return replace(running, status="failed", reason=repr(error), code=_name(error))
    return replace(running, status="failed", reason="interrupted", code="interrupted")


def _name(error: Exception) -> str:
    return type(error).__name__
