"""Write a summary on a background thread, while the person reads.

The thread changes nothing: it makes a record, which the agent commits between two
units of a turn, or when no turn runs. The plan covers a beginning of the transcript,
so the record is still right when messages were added meanwhile, and worthless when
what it covers was changed.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from threading import Event as Flag
from threading import Thread

from nbchat.agent.interruptions import CompactionRun, run_to_record
from nbchat.compaction.plan import Plan
from nbchat.conversation import events
from nbchat.conversation.entries import Compaction
from nbchat.conversation.events import Event
from nbchat.conversation.session import Session
from nbchat.errors import Stopped

logger = logging.getLogger(__name__)

OUTDATED = "the conversation was changed while its summary was written"

OUTDATED_CODE = "outdated"


class BackgroundCompaction:
    """One summary that is being written, or its record."""

    def __init__(
        self,
        session: Session,
        plan: Plan,
        start: Callable[..., CompactionRun],
        on_ready: Callable[[], object],
    ) -> None:
        """Begin at once; `on_ready` is called on the thread when the record is there.

        `start` takes the arguments `stop` and `on_usage`.
        """
        self.session = session
        self.plan = plan
        self.record: Compaction | None = None
        """The finished or failed attempt; None while it is being written."""
        self._compactions = len(session.compactions)
        self._stop = Flag()
        self._on_ready = on_ready

        def begin(on_usage: Callable[..., object]) -> CompactionRun:
            return start(stop=self._stop, on_usage=on_usage)

        self._work = run_to_record(begin, self._keep, lambda _event: None)
        next(self._work)  # reads the agent's state here, while no turn runs
        self._thread = Thread(
            target=self._finish, name="nbchat-background", daemon=True
        )
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the summary is still being written."""
        return self.record is None and self._thread.is_alive()

    @property
    def is_outdated(self) -> bool:
        """Whether the covered part was changed, or compacted by another record."""
        since = self.session.compactions[self._compactions :]
        return not all(each.is_immediate or each.is_attempt for each in since)

    @property
    def is_cancelled(self) -> bool:
        """Whether it was asked to end."""
        return self._stop.is_set()

    def cancel(self) -> None:
        """End it; what it has cost is in its record."""
        self._stop.set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block until it ends; False after the timeout."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def outdated_record(self) -> Compaction | None:
        """The failed record with the cost of a summary that cannot be used."""
        if self.record is None or not self.record.cost.total_tokens:
            return None
        return replace(
            self.record,
            status="failed",
            summary="",
            tokens_after=0,
            summary_tokens=0,
            reason=OUTDATED,
            code=OUTDATED_CODE,
            note="",
        )

    def _finish(self) -> None:
        try:
            while True:
                next(self._work)
        except StopIteration as finished:
            self.record = finished.value
        except Stopped:
            pass  # `_keep` has the record
        self._on_ready()

    def _keep(self, record: Compaction) -> Event:
        """Take the record of an attempt that was stopped, for its cost."""
        self.record = record
        return events.CompactionFailed(record)
