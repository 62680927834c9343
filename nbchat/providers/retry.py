"""How a failed request is tried again: only while nothing has been shown."""

import random
import time
from threading import Event as Flag

from nbchat.conversation.events import RetryScheduled
from nbchat.errors import ProviderError, Stopped
from nbchat.providers.base import Provider, Reply, ReplyStream, Request

ATTEMPTS = 4
LONGEST_WAIT_SECONDS = 60.0
FIRST_WAIT_SECONDS = 0.5


def stream_with_retries(
    provider: Provider, request: Request, *, stop: Flag | None = None
) -> ReplyStream:
    """The provider's stream, sent again after passing faults with a visible wait.

    Full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"); a server's
    Retry-After is honoured up to a minute, a longer one is an error at once.
    """
    for attempt in range(1, ATTEMPTS + 1):
        has_shown = False
        stream = provider.stream(request, stop=stop)
        try:
            while True:
                try:
                    delta = next(stream)
                except StopIteration as finished:
                    reply: Reply = finished.value
                    return reply
                has_shown = True
                yield delta
        except ProviderError as error:
            if has_shown or not _may_retry(error, attempt):
                raise
            wait = _wait_seconds(error, attempt)
            yield RetryScheduled(attempt, wait, str(error))
            _pause(wait, stop)
        finally:
            stream.close()
    raise AssertionError("unreachable: the last attempt returns or raises")


def _may_retry(error: ProviderError, attempt: int) -> bool:
    is_too_long = (error.retry_after or 0) > LONGEST_WAIT_SECONDS
    return error.is_retryable and attempt < ATTEMPTS and not is_too_long


def _wait_seconds(error: ProviderError, attempt: int) -> float:
    if error.retry_after is not None:
        return error.retry_after
    return random.uniform(0, FIRST_WAIT_SECONDS * 2**attempt)  # noqa: S311  # jitter


def _pause(seconds: float, stop: Flag | None) -> None:
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Stopped("stopped while waiting to try again")
