"""A connection to PostgreSQL that gives up where the server sends nothing.

A server that is stopped, or a proxy before it that hangs, still acknowledges what
arrives: no timeout of TCP ends the wait, and neither libpq nor psycopg has one.
"""

import math
import time
from collections.abc import Generator
from typing import Any

import psycopg
from psycopg.abc import PQGen

from nbchat.storage import database


class Connection(psycopg.Connection[Any]):
    """As psycopg's; a wait for the server ends after `SILENT_SECONDS`."""

    def wait(self, gen: PQGen[Any], *arguments: Any, **options: Any) -> Any:
        """Run a step; raises OperationalError if the server does not answer."""
        try:
            return super().wait(_limited(gen), *arguments, **options)
        except _Silence:
            self.pgconn.finish()  # else it would be used again
            raise


class _Silence(psycopg.OperationalError):
    """The server has sent nothing for too long."""


def _limited(step: PQGen[Any]) -> Generator[Any, Any, Any]:
    """The step, ended after `SILENT_SECONDS` in which nothing could be sent or read.

    psycopg resumes it with 0 ten times a second meanwhile.
    """
    seconds = math.inf if database.is_patient.get() else database.SILENT_SECONDS
    end = time.monotonic() + seconds
    try:
        wanted = next(step)
        while True:
            ready = yield wanted
            if ready:
                end = time.monotonic() + seconds
            elif time.monotonic() > end:
                raise _Silence(f"the server has sent nothing for {seconds:.0f} s")
            wanted = step.send(ready)
    except StopIteration as ended:
        return ended.value
