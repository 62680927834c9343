"""Run compactions to their records, and report each record with its event."""

import logging
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace

from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation.entries import Compaction, Usage
from nbchat.conversation.events import (
    Change,
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionStarted,
    CompactionUndone,
    Event,
)
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, Stopped
from nbchat.providers.base import Provider, Request
from nbchat.providers.tokens import TokenCounter

logger = logging.getLogger(__name__)

PIN_LIMIT = 2_000
"""Tokens of one pin: it is in every request from now on, as a system prompt is."""

CompactionRun = Generator[Event, None, Compaction]
"""A running compaction: yields its events and returns its record."""


def run_to_record(
    start: Callable[..., CompactionRun],
    *,
    commit: Callable[[Compaction], Event],
    publish: Callable[[Event], object],
) -> CompactionRun:
    """Run what `start` begins and return its record, for the caller to commit.

    A fault of our own ends in a failed record. A stop, an interrupt or a closed turn
    passes through, but first a failed record with the cost so far is committed, so that
    no store and no banner shows the compaction running for ever. `publish` gets its
    event where the caller reads no more events.
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
            logger.exception("a compaction failed; the chat goes on without")
            return failed
        event = commit(failed)
        if isinstance(error, Stopped):
            yield event
        else:  # KeyboardInterrupt, or the caller closed the turn
            publish(event)
        raise


def event_of(record: Compaction, change: Change | None = None) -> Event:
    """The event that reports a committed record.

    `change` is what was done to an earlier compaction.
    """
    if record.status == "failed":
        return CompactionFailed(record)
    if record.status == "undone":
        return CompactionUndone(record)
    return CompactionChanged(record, change) if change else Compacted(record)


def count_exactly(
    tracker: ContextTracker, session: Session, provider: Provider, request: Request
) -> None:
    """Have the provider count the next request; if it cannot, assume a larger one."""
    try:
        tokens = provider.count_tokens(request)
    except NbchatError as error:
        logger.warning("counting here, %s cannot: %s", provider.name, error)
        tracker.assume_larger_context(session)
    else:
        tracker.set_context_tokens(session, tokens)


def check_pin(text: str, counter: TokenCounter) -> None:
    """Raise NbchatError for a pin of over 2,000 tokens."""
    size = counter.count(text)
    if size > PIN_LIMIT:
        raise NbchatError(
            f"this text has {size:,} tokens, a pin may have {PIN_LIMIT:,}: "
            "it would be in every request from now on"
        )


def _failed(running: Compaction, error: BaseException, paid: list[Usage]) -> Compaction:
    """The record of a compaction that an error ended, with what it cost."""
    reason = code = "interrupted"
    if isinstance(error, Exception):
        reason = str(error) if isinstance(error, NbchatError) else repr(error)
        code = type(error).__name__
    cost = sum(paid, running.cost)
    return replace(running, status="failed", reason=reason, code=code, cost=cost)
