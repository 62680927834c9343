"""A few seconds of fuzzing with a fresh seed; `fuzz.py` goes on for as long as asked."""

import random
import secrets

import pytest
from fuzz import TARGETS, fuzz, history

SECONDS = 0.4
"""For each target. CI runs `fuzz.py` for 20 s more, beside its checks."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_random_input_ends_in_a_result_or_a_named_error(name: str):
    seed = secrets.randbits(48)
    print(f"seed {seed}")  # shown where it fails
    assert fuzz([name], SECONDS, seed)[name] > 0


def test_a_case_is_the_same_for_the_same_seed():
    again, other = history(random.Random(7)), history(random.Random(8))
    assert history(random.Random(7)) == again != other
