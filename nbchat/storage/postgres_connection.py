"""Connections to PostgreSQL with a timeout for a server that sends nothing.

A server that is stopped, or a proxy before it that hangs, still acknowledges what
arrives: no timeout of TCP ends the wait, and neither libpq nor psycopg has one.
"""

import math
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

SILENT_SECONDS = 30.0
"""How long a server may send nothing before its connection is given up."""

_is_patient: ContextVar[bool] = ContextVar("is_patient", default=False)


@contextmanager
def patience() -> Iterator[None]:
    """Let a statement take its time: others migrate, or a large table changes."""
    token = _is_patient.set(True)
    try:
        yield
    finally:
        _is_patient.reset(token)


def connect(
    _dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]
) -> Any:
    """Connect as SQLAlchemy would; for its event `do_connect`."""
    return _connection_class().connect(*arguments, **options)


@cache
def _connection_class() -> Any:
    # Not at the top: psycopg is installed for PostgreSQL alone.
    from psycopg import Connection, OperationalError  # noqa: PLC0415

    class Impatient(Connection[Any]):
        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_limited(gen), *arguments, **options)
            except TimeoutError as error:
                self.pgconn.finish()  # else it would be used again
                raise OperationalError(str(error)) from None

    return Impatient


def _limited(step: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """A step of psycopg; raises TimeoutError after `SILENT_SECONDS` without a byte.

    psycopg resumes it with 0 ten times a second meanwhile.
    """
    seconds = math.inf if _is_patient.get() else SILENT_SECONDS
    end = time.monotonic() + seconds
    try:
        wanted = next(step)
        while True:
            ready = yield wanted
            if ready:
                end = time.monotonic() + seconds
            elif time.monotonic() > end:
                raise TimeoutError(f"the server has sent nothing for {seconds:.0f} s")
            wanted = step.send(ready)
    except StopIteration as ended:
        return ended.value
