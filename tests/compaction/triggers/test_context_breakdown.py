"""What a look at the context costs, however long the conversation is."""

import gc
import sys
from collections.abc import Callable
from types import FrameType

from nbchat import Agent
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.jupyter.panel.queries import context_parts
from nbchat.testing import ScriptedProvider


def calls_of(act: Callable[[], object]) -> int:
    """How many Python functions run."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    gc.disable()  # finalizers of other tests' objects would be counted
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def test_a_look_at_the_context_copies_and_counts_nothing_again():
    session = Session([("user", "Hi"), ("assistant", "Hello.")] * 50)
    agent = Agent(ScriptedProvider(window=10**6), session=session)
    looks = (agent.context_usage, lambda: context_parts(agent))
    for look in looks:
        look()
    short = [calls_of(look) for look in looks]
    for _ in range(2_000):
        session.append(Entry("assistant", "more"))
    for look in looks:
        look()
    assert len(session.history) == 2_100
    assert [calls_of(look) for look in looks] == short


def test_the_parts_follow_a_session_that_grows():
    session = Session([("user", "Hi"), ("assistant", "Hello.")])
    agent = Agent(ScriptedProvider(), session=session)
    count = agent.engine.tracker.counter.count_entries
    for number in range(20):
        session.append(Entry("user", f"question {number}"))
        usage = agent.context_usage()
        assert usage.input == count(session.history[-1:])
        assert usage.history == count(session.history[:-1])
        session.append(Entry("assistant", f"answer {number}"))
