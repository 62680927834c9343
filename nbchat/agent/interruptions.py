"""Keep what a stopped or broken reply or compaction produced, and what it cost.

Stop and a broken stream raise NbchatError: events of what is kept are yielded. After
KeyboardInterrupt, or when the caller closes the turn, events go to `publish` instead.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace

from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation.entries import INCOMPLETE, Compaction, Entry, Usage
from nbchat.conversation.events import (
    CompactionStarted,
    Delta,
    Event,
    TextDelta,
    ThinkingDelta,
)
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError, Stopped
from nbchat.providers.base import Reply, ReplyStream

logger = logging.getLogger(__name__)

Entries = tuple[Entry, ...]

CompactionRun = Generator[Event, None, Compaction]
"""A running compaction: yields its events and returns its record."""


def keep_partial(
    stream: ReplyStream,
    keep: Callable[[Entries], Iterator[Event]],
    publish: Callable[[Event], object],
) -> Generator[Event, None, Reply]:
    """The deltas and reply of a stream; `keep` gets the entries of a partial reply."""
    arrived: list[Delta] = []
    try:
        while True:
            delta = next(stream)
            arrived.append(delta)
            yield delta
    except StopIteration as finished:
        reply: Reply = finished.value
        return reply
    except BaseException as error:
        stream.close()
        kept = keep(_entries(arrived))
        if isinstance(error, NbchatError):
            yield from kept
        else:
            for event in kept:
                publish(event)
        raise


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
            logger.exception("a compaction failed; the chat continues without it")
            return failed
        event = commit(failed)
        if isinstance(error, Stopped):
            yield event
        else:  # KeyboardInterrupt, or the caller closed the turn
            publish(event)
        raise


def estimated_usage(
    entries: Entries, session: Session, tracker: ContextTracker
) -> Usage:
    """The estimated usage of a response with these entries, before they are appended.

    Assumes that what the last response left in the server's cache was read from there.
    """
    context_tokens, count = tracker.context_tokens(session), tracker.counter.count
    usage = Usage(
        context_tokens,
        sum(count(entry.content) for entry in entries),
        min(_cached_tokens(session), context_tokens),
        is_estimated=True,
        dropped_tokens=sum(count(e.content) for e in entries if e.role == "thinking"),
    )
    return tracker.info.priced(usage)


def incomplete(text: str) -> Entry:
    """The entry of an answer that was cut short."""
    return Entry("assistant", text, tool_args=INCOMPLETE)


def _entries(arrived: list[Delta]) -> Entries:
    """The entries of a partial answer; empty if nothing had arrived."""
    text = "".join(each.text for each in arrived if isinstance(each, TextDelta))
    thought = "".join(each.text for each in arrived if isinstance(each, ThinkingDelta))
    thinking = [Entry("thinking", thought)] if thought else []
    return (*thinking, incomplete(text)) if text or thought else ()


def _cached_tokens(session: Session) -> int:
    """Tokens that the last response left in a cache; none after a compaction."""
    since = session.compaction.committed_at if session.compaction else 0
    position, usage = session.usages[-1] if session.usages else (0, Usage())
    return usage.cache_read_tokens + usage.cache_write_tokens if position > since else 0


def _failed(running: Compaction, error: BaseException, paid: list[Usage]) -> Compaction:
    """The record of a compaction that an error ended, with what it cost."""
    reason = code = "interrupted"
    if isinstance(error, Exception):
        reason = str(error) if isinstance(error, NbchatError) else repr(error)
        code = type(error).__name__
    cost = sum(paid, running.cost)
    return replace(running, status="failed", reason=reason, code=code, cost=cost)
