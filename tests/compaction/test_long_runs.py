"""In long sessions, what a call needs can still be read when it is made.

`benchmarks/longrun.py` measures the same over more sessions, policies and domains.
"""

import random
import re

import pytest
from long_run import Measured, Script, replay, slide
from long_sessions import long_sessions, renamed
from needed_values import texts
from trajectories import read_trajectories

from nbchat.compaction.engine import CompactionEngine

RUNS = read_trajectories()
LONGEST_MEAN = 3_200
"""Tokens that the default may hold on average in a window of 24,000, in these four
sessions; over all of `benchmarks/longrun.py` it is at most 3,100."""


@pytest.mark.slow
def test_the_default_keeps_most_of_what_calls_need_in_a_small_context():
    kept, plain = Measured(), Measured()
    for session in long_sessions(RUNS, tokens=30_000, count=4):
        script = Script(session)
        replay(script, kept, CompactionEngine(None))
        slide(script, plain, tokens=LONGEST_MEAN)
    assert kept.compactions >= 25
    assert kept.mean_context <= LONGEST_MEAN
    assert kept.share() >= 0.66
    assert kept.share() > plain.share()


def test_a_conversation_that_comes_again_has_other_values_of_the_same_form():
    run = RUNS[0]
    again = renamed(run, frozenset(), random.Random(4))
    before, after = texts(run.entries), texts(again.entries)
    assert len(before) == len(after)
    assert re.sub(r"\d", "0", before).count("0") == re.sub(r"\d", "0", after).count("0")
    ids = set(re.findall(r"\b[a-z]+_[a-z]+_\d{4}\b", before))
    assert ids
    assert not any(each in after for each in ids)
