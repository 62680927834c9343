"""An answer that broke off: all that had arrived, and about what it cost.

Whoever stops an answer, or loses its server, keeps what there was of it and pays for
it; what was paid no server tells any more, so it is estimated.
"""

from collections.abc import Callable, Generator, Iterator

from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import INCOMPLETE, Entry, Usage
from nbchat.conversation.events import Delta, Event, TextDelta, ThinkingDelta
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.providers.base import Reply, ReplyStream

Entries = tuple[Entry, ...]


def kept_if_broken_off(
    stream: ReplyStream,
    keep: Callable[[Entries], Iterator[Event]],
    tell: Callable[[Event], object],
) -> Generator[Event, None, Reply]:
    """The deltas and the reply of a stream; if it breaks off `keep` gets what there is.

    The events of keeping it are given out or, where the caller is leaving and would
    read none of them, told.
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
                tell(event)
        raise


def estimated_usage(
    entries: Entries, session: Session, engine: CompactionEngine
) -> Usage:
    """About what a response cost that brought these entries, before they are kept.

    What the response before had in the server's cache is taken to be read from there.
    """
    context_tokens, count = (
        engine.tracker.context_tokens(session),
        engine.tracker.counter.count,
    )
    usage = Usage(
        context_tokens,
        sum(count(entry.content) for entry in entries),
        min(_cached_tokens(session), context_tokens),
        is_estimated=True,
        dropped_tokens=sum(count(e.content) for e in entries if e.role == "thinking"),
    )
    return engine.tracker.info.priced(usage)


def incomplete(text: str) -> Entry:
    """An answer that was cut short."""
    return Entry("assistant", text, tool_args=INCOMPLETE)


def _entries(arrived: list[Delta]) -> Entries:
    """What to remember of an answer; nothing if nothing of it had arrived."""
    said = "".join(each.text for each in arrived if isinstance(each, TextDelta))
    thought = "".join(each.text for each in arrived if isinstance(each, ThinkingDelta))
    thinking = [Entry("thinking", thought)] if thought else []
    return (*thinking, incomplete(said)) if said or thought else ()


def _cached_tokens(session: Session) -> int:
    """What the last response has left in a cache; a compaction leaves nothing there."""
    since = session.compaction.committed_at if session.compaction else 0
    position, usage = session.usages[-1] if session.usages else (0, Usage())
    return usage.cache_read_tokens + usage.cache_write_tokens if position > since else 0
