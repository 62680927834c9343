"""Keep a partial answer after Stop or a broken stream, with its estimated usage."""

from collections.abc import Callable, Generator, Iterator

from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.conversation.entries import INCOMPLETE, Entry, Usage
from nbchat.conversation.events import Delta, Event, TextDelta, ThinkingDelta
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.providers.base import Reply, ReplyStream

Entries = tuple[Entry, ...]


def keep_partial(
    stream: ReplyStream,
    keep: Callable[[Entries], Iterator[Event]],
    publish: Callable[[Event], object],
) -> Generator[Event, None, Reply]:
    """The deltas and the reply of a stream; `keep` gets the partial reply if it breaks.

    The events of keeping it are yielded or, after an interrupt, when the caller reads
    no more events, passed to `publish`.
    """
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
