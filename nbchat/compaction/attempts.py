"""What is tried, in order, until there is a summary.

A model is asked; when its answer fails a gate it is asked once more and told why; and
where the conversation could not go on otherwise, code does without a model.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from threading import Event as Flag

from nbchat.compaction.summary import read_summary
from nbchat.errors import CompactionError, NbchatError, Stopped
from nbchat.events import RetryScheduled
from nbchat.history import Entry, Status, Usage
from nbchat.providers.base import Provider, Reply, ReplyStream, Request
from nbchat.providers.retry import stream_with_retries


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: an entry, or none and why; `cost` is of all answers together."""

    entry: Entry | None
    cost: Usage
    status: Status = "done"
    reason: str = ""
    code: str = ""


def write_summary(
    writer: Provider,
    *,
    request_for: Callable[[str], Request],
    entry_of: Callable[[str], Entry],
    without_model: Callable[[], str] | None,
    answers: int,
    stop: Flag | None,
) -> Generator[RetryScheduled, None, Outcome]:
    """The summary entry by whatever means; raises nothing but Stopped and interrupts.

    The model may give `answers` answers, the later ones told why the last was refused.
    `request_for` makes a request from that reason, `entry_of` the entry from a text or
    raises CompactionError, and `without_model` a text when no answer will do.
    """
    cost = Usage()
    refusal = NbchatError("the summariser has failed before and was not asked")
    for _ in range(answers):
        reason = str(refusal) if isinstance(refusal, CompactionError) else ""
        stream = stream_with_retries(writer, request_for(reason), stop=stop)
        try:
            reply = yield from _without_text(stream)
            cost += reply.usage
            return Outcome(entry_of(read_summary(reply)), cost)
        except CompactionError as error:
            refusal = error
        except Stopped:
            raise
        except NbchatError as error:
            refusal = error
            break
    if without_model is not None:
        try:
            entry = entry_of(without_model())
            return Outcome(entry, cost, "degraded", str(refusal), _code(refusal))
        except CompactionError as error:
            refusal = error
    return Outcome(None, cost, "failed", str(refusal), _code(refusal))


def _without_text(stream: ReplyStream) -> Generator[RetryScheduled, None, Reply]:
    """A summary's stream: its waits are shown, its text only when it has passed."""
    while True:
        try:
            delta = next(stream)
        except StopIteration as finished:
            reply: Reply = finished.value
            return reply
        if isinstance(delta, RetryScheduled):
            yield delta


def _code(error: NbchatError) -> str:
    return error.reason if isinstance(error, CompactionError) else type(error).__name__
