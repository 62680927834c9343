"""How a session is kept small: when it is due, what the engine proposes, the commit.

The engine only proposes. Here, and nowhere else, its record joins the session, and it
does so in one append: before it the history is the old one, after it the new one.
"""

from collections.abc import Callable, Generator
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
from nbchat.providers.base import Provider, Request

Events = Generator[Event, None, None]


class Upkeep:
    """The compactions of one agent, as events."""

    def __init__(
        self, engine: CompactionEngine, base: Callable[[], Request] | None = None
    ) -> None:
        """`engine` decides and proposes; `base` is the chat's own request as of now."""
        self._engine = engine
        self._base = base

    def compact_if_due(
        self, session: Session, provider: Provider, *, stop: Flag | None
    ) -> Events:
        """Compact when a meter says so."""
        decision = self._engine.should_compact(session)
        if decision:
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
        base = self._base() if self._base is not None else None
        work = self._engine.compact(session, provider, plan, stop=stop, base=base)
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
        self._engine.reset()
        return Compacted(record)
