"""CPU time of a piece of work that a slow or busy machine does not lengthen."""

import gc
import time

NOMINAL = 0.008
"""Seconds of the reference work on the machine for which the limits were written."""

SHORT = 0.05
"""Seconds that are below every limit on any machine, and compared with nothing."""


class CpuTime:
    """Seconds of this thread's CPU since it was made, as on the reference machine.

    Objects that other tests left behind are collected before, and a machine or
    a moment that is slower at the reference work has proportionally more time.
    """

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()
        self._began = time.thread_time()

    def spent(self) -> float:
        """Seconds until now."""
        spent = time.thread_time() - self._began
        if spent < SHORT:
            return spent
        slowest = max(_reference_work(), _reference_work())
        return spent / max(1.0, slowest / NOMINAL)


def _reference_work() -> float:
    """Seconds that a fixed piece of work takes now."""
    began = time.thread_time()
    words: dict[str, int] = {}
    for number in range(60_000):
        word = str(number % 997)
        words[word] = words.get(word, 0) + 1
    return time.thread_time() - began
