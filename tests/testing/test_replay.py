"""Recorded conversations, said again word for word."""

import pytest
from measures import Noting
from ticket_desk import ROUTES, recorded_decisions

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.providers.base import Request
from nbchat.providers.tokens import CHARACTERS, SPARE_SIZES
from nbchat.testing.replay import Replay, recorded_desk, turns_of

ENTRIES = [
    Entry("assistant", "Welcome."),
    Entry("user", "Where is W100?"),
    Entry("assistant", "", "1", "find", '{"order": "W100"}'),
    Entry("assistant", "", "2", "find", '{"order": "W200"}'),
    Entry("tool", "second", "2", "find"),
    Entry("tool", "first", "1", "find"),
    Entry("assistant", "Here."),
    Entry("user", "Thanks."),
    Entry("assistant", "Bye."),
]


def played(replay: Replay, policy: str = "off") -> Agent:
    agent = Agent(replay, tools=replay.tools, engine=CompactionEngine(policy=policy))
    for turn in replay.turns:
        agent.max_steps = len(turn.steps)
        list(agent.run(turn.text))
    return agent


def test_the_counter_of_a_replay_forgets_the_sizes_of_what_was_compacted():
    replay = Replay([])
    counter = vars(replay)["_counter"] = Noting(CHARACTERS)
    asked = [Entry("user", f"Is it {number}?") for number in range(SPARE_SIZES + 3)]
    for entry in [*asked, asked[-1], asked[0]]:
        replay.count_tokens(Request((entry,)))
    assert counter.seen.count("Is it 0?") == 2


def test_a_recording_is_split_into_turns_and_steps():
    turns = turns_of(ENTRIES)
    assert [turn.text for turn in turns] == ["Hello.", "Where is W100?", "Thanks."]
    assert turns[1].steps[0].results == ("first", "second")


def test_what_was_said_is_said_again():
    transcript = played(Replay(ENTRIES)).session.transcript
    said = [entry.content for entry in transcript]
    assert said == ["Hello.", "Welcome.", "Where is W100?", "", "", "first", "second", "Here.", "Thanks.", "Bye."]  # fmt: skip


def test_the_recorded_desk_is_the_same_every_time():
    desk = recorded_desk()
    assert len(desk) == 429
    assert recorded_desk() == desk
    calls = [entry.tool_id for entry in desk if entry.is_call]
    assert len(set(calls)) == len(calls)


@pytest.mark.slow
def test_asked_for_a_summary_it_tells_how_requests_began():
    agent = played(Replay(recorded_desk()[:40], window=8_000), "single-summary")
    agent.engine.tracker.set_threshold(5_000)
    list(agent.compact())
    assert "- The user said: " in agent.session.history[0].content


def test_there_is_a_recorded_decision_for_each_of_the_150_tickets():
    made = recorded_decisions()
    assert [each.ticket.id for each in made] == [f"T{n:03}" for n in range(1, 151)]
    assert {each.category for each in made} <= set(ROUTES)
    assert sum(each.category == each.ticket.true_category for each in made) == 115
    assert min(each.usage.input_tokens for each in made) > 100
