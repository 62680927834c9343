"""How a session is kept small: when it is due, what the engine proposes, the commit.

The engine only proposes. Here, and nowhere else, its record joins the session, and it
does so in one append: before it the history is the old one, after it the new one.
"""

from collections.abc import Generator
from contextlib import closing
from threading import Event as Flag

from nbchat.compaction.engine import CompactionEngine
from nbchat.events import (
    Compacted,
    CompactionFailed,
    CompactionSkipped,
    CompactionUndone,
    Event,
)
from nbchat.history import Compaction, Session
from nbchat.providers.base import Provider

Events = Generator[Event, None, None]


class Upkeep:
    """The compactions of one agent, as events."""

    def __init__(self, engine: CompactionEngine) -> None:
        """`engine` decides and proposes."""
        self._engine = engine

    def compact_if_due(
        self, session: Session, provider: Provider, *, stop: Flag | None
    ) -> Events:
        """Compact when a meter says so; without a model where pruning is enough."""
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
    ) -> Events:
        """Plan, compact, commit; or say why not."""
        plan = self._engine.plan(session, trigger=trigger, focus=focus)
        if plan.skip:
            if trigger != "manual":
                self._engine.cool_down(session)
            yield CompactionSkipped(plan.skip)
            return
        work = self._engine.compact(session, provider, plan, stop=stop)
        with closing(work):
            record = yield from work
        yield self._commit(session, record)

    def undo(self, session: Session) -> Events:
        """Take back the compaction in force."""
        record = self._engine.undo(session)
        if record is None:
            yield CompactionSkipped("there is no compaction to undo")
            return
        session.compactions.append(record)
        self._engine.reset()
        yield CompactionUndone(record)

    def _commit(self, session: Session, record: Compaction) -> Event:
        session.compactions.append(record)
        if not record.is_in_force:
            self._engine.record_failure(session)
            return CompactionFailed(record)
        # A pruning says nothing of the summariser: if it fails, it goes on resting.
        is_pruning = record.kind == "pruning"
        self._engine.reset(failures=self._engine.failures if is_pruning else 0)
        return Compacted(record)
