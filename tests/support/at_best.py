"""Bounds of real time that other work on the machine doesn't break.

CPU time has its own measure, `cpu_time`; this one is for waits, such as until Stop ends a
request. A bound that is kept once in a few tries is one that the code can keep.
"""

import time
from collections.abc import Callable

TRIES = 12
"""A wrong bound fails all of them; a machine with five times its work, hardly ever."""


def assert_within(limit: float, seconds: Callable[[], float]) -> None:
    """Try something until it takes less than the limit; `seconds` does it and says."""
    taken: list[float] = []
    while len(taken) < TRIES:
        taken.append(seconds())
        if taken[-1] < limit:
            return
    raise AssertionError(f"never within {limit} s: {taken}")


def seconds_of(step: Callable[[], object]) -> float:
    """How long a step takes."""
    began = time.monotonic()
    step()
    return time.monotonic() - began
