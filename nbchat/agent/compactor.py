"""Run the compactions that the engine plans, and commit their records.

What the model sees changes in `commit` and `change_pins` only, but for the checkpoints
that it writes itself. All methods run while the agent's lock is held, and yield the
events of what they do.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from nbchat.compaction.engine import sentence
from nbchat.compaction.plan import Plan
from nbchat.compaction.pruning.outputs import with_largest_message
from nbchat.compaction.triggers.context_tracker import RETRY
from nbchat.conversation import events
from nbchat.conversation.entries import BY_MODEL, Compaction, Usage
from nbchat.conversation.events import Change, CompactionStarted, Event
from nbchat.conversation.session import Session, check_pin
from nbchat.errors import (
    CompactionError,
    ConfigError,
    ContextOverflow,
    NbchatError,
    Stopped,
)
from nbchat.providers.base import Reply, Request, ServedProvider
from nbchat.providers.closable_http import until_stopped

if TYPE_CHECKING:
    from nbchat.agent.agent import Agent

logger = logging.getLogger(__name__)

BACKGROUND = "background"
"""The trigger of a compaction before one is due."""

ASKED_ABOUT = ("cumulative", "auto")
"""Triggers that can wait for a person: the window is not full yet."""

SHORTENINGS = 2
"""Number of times that results are shortened for one request, to a third each."""

PinOrNumber = TypeVar("PinOrNumber", str, int)

Events = Generator[Event, None, None]

CompactionRun = Generator[Event, None, Compaction]
"""A running compaction: yields its events and returns its record."""

Step = Callable[[Flag | None], Events]
"""Work that the given flag stops."""

Ask = Callable[[], Generator[Event, None, Reply]]


OUTDATED = "The conversation changed while the summary was being written."

OUTDATED_CODE = "outdated"


class Compactor:
    """Compacts the conversation of an agent."""

    def __init__(
        self,
        agent: "Agent",
        base_request: Callable[[], Request],
        publish: Callable[[Event], object],
    ) -> None:
        """`base_request` returns the next request without its options.

        `publish` passes on the events that cannot be yielded after an interrupt.
        """
        self._agent = agent
        self._base_request = base_request
        self._publish = publish
        self._background: BackgroundCompaction | None = None
        self._asked: _AskedFor | None = None
        self._proposed: tuple[Session, int] | None = None
        """The session and its number of compactions when one was proposed last."""

    def when_read(self, focus: str) -> None:
        """Compact once the model has read what is in the conversation by then."""
        session = self._agent.session
        self._asked = _AskedFor(session, len(session.transcript), focus)

    def if_due(
        self, stop: Flag | None, *, is_turn_over: bool = False, later: bool = False
    ) -> Events:
        """Compact when a trigger fires or the model has asked for it.

        With `later` a summary is left to `begin_in_background`, which comes next. While
        one is being written there no other is begun; a request waits for it where the
        window is full or the sum of input tokens is far above the threshold.
        """
        yield from self.commit_ready()
        engine, session = self._agent.engine, self._agent.session
        yield from self._if_asked(stop)
        self._use_smaller_window()
        if engine.tracker.is_far_from_due(session):
            return
        engine.tracker.count_exactly(
            session, lambda: until_stopped(self._count_request, stop)
        )
        decision = engine.should_compact(session)
        if decision.trigger == RETRY:
            yield from self.regenerate("", stop, RETRY)
        if not decision or decision.trigger == RETRY:
            return
        if decision.trigger in ASKED_ABOUT and self._asks_first():
            yield from self._propose(decision.trigger)
            return
        if (later and self._ahead() is not None) or self._can_wait(is_turn_over):
            return
        if (background := self._background) is not None and background.is_running:
            until_stopped(background.wait, stop)
            yield from self.if_due(stop, is_turn_over=is_turn_over, later=later)
        else:
            yield from self._compact(decision.trigger, stop)

    def begin_in_background(self, on_ready: Callable[[], object]) -> bool:
        """Begin to write the summary of a context that is nearly full; True if so.

        `on_ready` is called on a thread when `commit_ready` has something to commit.
        """
        if self._background is not None or self._agent.engine.policy.asks_first:
            return False
        plan = self._ahead()
        if plan is None:
            return False
        start = self._start(plan)
        session = self._agent.session
        self._background = BackgroundCompaction(session, plan, start, on_ready)
        return True

    def commit_ready(self) -> Events:
        """Commit the record made in the background, if it's there and still fits.

        What an outdated one has cost is kept.
        """
        background, engine = self._background, self._agent.engine
        if background is None or background.is_running:
            return
        self._background, record = None, background.record
        if record is None or background.session is not self._agent.session:
            return
        if background.is_outdated or (not record.is_active and background.is_cancelled):
            outdated = background.outdated_record()
            if outdated is not None:
                yield self.commit(outdated)
            return
        record = engine.as_of_now(background.session, background.plan, record)
        if record.status == "failed":
            engine.tracker.record_failure(background.session)
        yield self.commit(record)

    def cancel_background(self) -> None:
        """Cancel a summary that is being written; its cost is committed later."""
        if self._background is not None:
            self._background.cancel()

    def wait_for_background(self, timeout_seconds: float | None = None) -> bool:
        """Block until no summary is being written; False after the timeout."""
        background = self._background
        return background is None or background.wait(timeout_seconds)

    def within_window(
        self, ask: Ask, stop: Flag | None
    ) -> Generator[Event, None, Reply]:
        """A reply; a request that was too long is made shorter and sent again.

        First by a compaction, then by shortening what the model has not read yet.
        """
        steps: Iterator[Step] = chain(
            [partial(self._compact, "overflow")],
            repeat(self._shorten_unread, SHORTENINGS),
        )
        while True:
            try:
                return (yield from ask())
            except ContextOverflow as error:
                self._learn_from_refusal(str(error))
                if not (yield from self._has_shrunk(steps, stop)):
                    raise self._named(error) from error

    def run(self, plan: Plan, stop: Flag | None) -> Events:
        """Run and commit a planned compaction, or yield the reason to skip it."""
        if plan.skip:
            yield events.CompactionSkipped(plan.skip, plan.trigger)
            return
        self.cancel_background()
        start = partial(self._start(plan), stop=stop)
        record = yield from run_to_record(start, self.commit, self._publish)
        event = self.commit(record)
        if isinstance(event, events.CompactionFailed):
            self._agent.engine.tracker.record_failure(self._agent.session)
        yield event

    def shorten_newest(self, shown: str) -> Events:
        """Shorten the newest output if it is too long; `shown` is shown instead."""
        engine, session = self._agent.engine, self._agent.session
        if record := engine.shorten(session, shown=shown):
            yield self.commit(record)

    def regenerate(
        self, focus: str, stop: Flag | None, trigger: str = "manual"
    ) -> Events:
        """Write the current summary again, and commit it if a model wrote it."""
        engine, session = self._agent.engine, self._agent.session
        engine.tracker.request_options = self._agent.options
        start = partial(
            partial(engine.regenerate, focus=focus, trigger=trigger, stop=stop),
            session,
            self._agent.provider,
            system=self._base_request().system,
        )
        try:
            record = yield from run_to_record(start, self.commit, self._publish)
        except CompactionError as error:  # there is no summary
            yield events.CompactionSkipped(str(error), events.EDIT)
        else:
            if trigger == RETRY and record.status == "failed":
                engine.tracker.record_failure(session)
            yield self.commit(record, "regenerated")

    def change(
        self,
        propose: Callable[[Session], Compaction | None],
        change: Change | None = None,
        nothing: str = "",
    ) -> Events:
        """Commit the record that the engine proposes, or yield why there's none."""
        try:
            record = propose(self._agent.session)
        except CompactionError as error:
            yield events.CompactionSkipped(str(error), events.EDIT)
            return
        if record is None:
            yield events.CompactionSkipped(nothing, events.EDIT)
        else:
            yield self.commit(record, change)

    def commit(self, record: Compaction, change: Change | None = None) -> Event:
        """Append a record to the session: what the model sees changes here only.

        `change` is what was done to an earlier compaction. Returns the record's event.
        """
        record = self._agent.with_recall(record)
        self._agent.session.compactions.append(record)
        self._agent.count_fixed_tokens()
        self._agent.engine.tracker.committed(self._agent.session, record)
        if record.status == "failed":
            return events.CompactionFailed(record)
        if record.status == "undone":
            return events.CompactionUndone(record)
        if change is not None:
            return events.CompactionChanged(record, change)
        return events.Compacted(record)

    def change_pins(
        self, change: Callable[[Session, PinOrNumber], object], value: PinOrNumber
    ) -> Events:
        """Change the pins, with which every request begins."""
        if isinstance(value, str):
            check_pin(self._agent.engine.tracker.counter.count(value))
        change(self._agent.session, value)
        self._agent.count_fixed_tokens()
        yield self._pins_changed()

    def drop_rules(self, texts: Iterable[str]) -> Events:
        """Set which sentences of people are no rules."""
        self._agent.session.dropped_rules = tuple(texts)
        yield self._pins_changed()

    def _pins_changed(self) -> events.PinsChanged:
        session = self._agent.session
        return events.PinsChanged(session.pins, session.dropped_rules)

    def _asks_first(self) -> bool:
        """True if a person decides, except at the guard, where the window is full."""
        engine, session = self._agent.engine, self._agent.session
        guard = engine.tracker.limits.guard
        is_full = guard is not None and engine.tracker.context_tokens(session) >= guard
        return engine.policy.asks_first and not is_full

    def _propose(self, trigger: str) -> Events:
        """Ask a person, once until the next compaction, if one saves anything."""
        engine, session = self._agent.engine, self._agent.session
        now = (session, len(session.compactions))
        if now == self._proposed:
            return
        plan = engine.plan(session, trigger=trigger)
        before = engine.tracker.context_tokens(session)
        after = max(0, plan.tokens_after)
        if plan.skip or after >= before:
            return
        self._proposed = now
        start = session.compaction.stop if session.compaction else 0
        yield events.CompactionProposed(plan.stop - start, before, after)

    def _if_asked(self, stop: Flag | None) -> Events:
        """Compact if the model has asked for it and has answered since."""
        asked, session = self._asked, self._agent.session
        if asked is None or not asked.is_over(session):
            return
        self._asked = None
        if asked.session is session:
            plan = self._agent.engine.plan(session, trigger=BY_MODEL, focus=asked.focus)
            yield from self.run(plan, stop)

    def _start(self, plan: Plan) -> Callable[..., CompactionRun]:
        """Function that starts a plan, with the arguments `stop` and `on_usage`."""
        base, agent = self._base_request(), self._agent
        agent.engine.tracker.request_options = agent.options
        return partial(
            agent.engine.compact,
            agent.session,
            agent.provider,
            plan,
            base=base,
            system=base.system,
        )

    def _ahead(self) -> Plan | None:
        """The plan of a compaction that will be due soon; None without one."""
        engine, session = self._agent.engine, self._agent.session
        is_by_code = engine.policy.summarizer == "extractive"
        if is_by_code or not engine.tracker.is_nearly_due(session):
            return None
        plan = engine.plan(session, trigger=BACKGROUND)
        return None if plan.skip or plan.is_resize else plan

    def _can_wait(self, is_turn_over: bool) -> bool:  # noqa: FBT001  # as above
        """True while a summary is written during which the chat may go on."""
        background, tracker = self._background, self._agent.engine.tracker
        if background is None or not background.is_running:
            return False
        if not is_turn_over and tracker.is_overdue(self._agent.session):
            return False
        usable = tracker.limits.usable_window
        return usable is None or tracker.context_tokens(self._agent.session) < usable

    def _compact(self, trigger: str, stop: Flag | None) -> Events:
        """Compact because a meter fired, or a request was refused as too long."""
        engine, session = self._agent.engine, self._agent.session
        if record := engine.shorten_unread(session):
            yield self.commit(record)
        plan = engine.plan(session, trigger=trigger)
        if plan.skip:
            engine.tracker.cool_down(session, trigger=trigger)
        yield from self.run(plan, stop)

    def _has_shrunk(
        self, steps: Iterator[Step], stop: Flag | None
    ) -> Generator[Event, None, bool]:
        """Take steps until one has changed the history; True if one has."""
        before = self._agent.session.history
        for step in steps:
            yield from step(stop)
            if self._agent.session.history != before:
                return True
        return False

    def _shorten_unread(self, _stop: Flag | None) -> Events:
        """Shorten results that the model has not read, after a refusal."""
        engine, session = self._agent.engine, self._agent.session
        record = engine.shorten_unread(session, is_refused=True)
        if record is not None:
            yield self.commit(record)

    def _named(self, error: ContextOverflow) -> ContextOverflow:
        """The error, with the largest message and how to exclude it."""
        counter = self._agent.engine.tracker.counter
        session = self._agent.session
        return ContextOverflow(with_largest_message(str(error), session, counter))

    def _learn_from_refusal(self, text: str) -> None:
        """Correct an unknown window after a request that was too long."""
        tracker = self._agent.engine.tracker
        refused = tracker.context_tokens(self._agent.session)
        info = tracker.info.corrected(text, refused)
        if info is not tracker.info:
            with suppress(ConfigError):  # too small for anything
                tracker.use_model(info, fixed_texts=tracker.fixed_texts)

    def _use_smaller_window(self) -> None:
        """Use the window that a server has shown by cutting a request."""
        provider, tracker = self._agent.provider, self._agent.engine.tracker
        cut = provider.truncated_at if isinstance(provider, ServedProvider) else None
        window = tracker.info.window
        if cut is None or (window is not None and window <= cut):
            return
        info, texts = tracker.info.with_window(cut), tracker.fixed_texts
        with suppress(ConfigError):  # too small for anything
            tracker.use_model(info, fixed_texts=texts)

    def _count_request(self) -> int:
        return self._agent.provider.count_tokens(self._base_request())


@dataclass(frozen=True, slots=True)
class _AskedFor:
    """A compaction that waits until the model has read the result of asking for it."""

    session: Session
    position: int
    focus: str

    def is_over(self, session: Session) -> bool:
        """True if the model has answered since, or another session is open."""
        return session is not self.session or any(
            session.usages.between(self.position, len(session.transcript))
        )


class BackgroundCompaction:
    """One summary that is being written while the person reads, or its record.

    The thread changes nothing: it makes a record, which the agent commits between two
    units of a turn, or when no turn runs. The plan covers a beginning of the
    transcript, so the record is still right when messages were added meanwhile, and
    worthless when what it covers was changed.
    """

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
        """True while the summary is being written."""
        return self.record is None and self._thread.is_alive()

    @property
    def is_outdated(self) -> bool:
        """True if the covered part was changed, or compacted by another record."""
        since = self.session.compactions[self._compactions :]
        return not all(each.is_immediate or each.is_attempt for each in since)

    @property
    def is_cancelled(self) -> bool:
        """True if it was asked to end."""
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


def run_to_record(
    start: Callable[..., CompactionRun],
    commit: Callable[[Compaction], Event],
    publish: Callable[[Event], object],
) -> CompactionRun:
    """Run what `start` begins and return its record, for the caller to commit.

    A fault of our own ends in a failed record. A stop, an interrupt or a closed turn
    passes through, but first a failed record with the cost so far is committed, so that
    no store and no banner shows the compaction running for ever.
    """
    paid: list[Usage] = []
    running: Compaction | None = None
    try:
        with closing(start(on_usage=paid.append)) as run:
            while True:
                event = next(run)
                if isinstance(event, CompactionStarted):
                    running = event.compaction
                yield event
    except StopIteration as finished:
        record: Compaction = finished.value
        return record
    except BaseException as error:
        if running is None:
            raise
        failed = _failed(running, error, paid)
        if isinstance(error, Exception) and not isinstance(error, Stopped):
            logger.exception("A compaction failed. The chat continues without it.")
            return failed
        event = commit(failed)
        if isinstance(error, Stopped):
            yield event
        else:  # KeyboardInterrupt, or the caller closed the turn
            publish(event)
        raise


def _failed(running: Compaction, error: BaseException, paid: list[Usage]) -> Compaction:
    """The record of a compaction that an error ended, with what it cost."""
    reason = code = "interrupted"
    if isinstance(error, Exception):
        reason = sentence(error.line) if isinstance(error, NbchatError) else repr(error)
        code = type(error).__name__
    cost = sum(paid, running.cost)
    return replace(running, status="failed", reason=reason, code=code, cost=cost)
