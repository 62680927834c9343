"""A summary that comes as JSON, however badly it is written."""

import json

import pytest
from cpu_time import CpuTime
from driving import finished
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.compaction.summarizer.structured_summary import as_text, read_answer
from nbchat.conversation.entries import SummaryFields
from nbchat.conversation.session import Session
from nbchat.errors import RequestRefused
from nbchat.storage.serialization import compaction_from_json, compaction_json
from nbchat.testing import ScriptedProvider, fails, says

FIELDS = {
    "overview": "They looked for order W100.",
    "key_facts": ["W100 was shipped on May 3"],
    "decisions": ["Refund to the card"],
    "entities": {"orders": ["W100", "W200"], "people": []},
    "unresolved_questions": ["Who pays?"],
    "conversation_flow": ["The user asked", "The desk answered"],
}
STORY = """They looked for order W100.

## Key facts
- W100 was shipped on May 3

## Decisions made
- Refund to the card

## Entities
- orders: W100, W200

## Unresolved questions
- Who pays?

## What happened, in order
- The user asked
- The desk answered"""


def rendered(text: str) -> str:
    answer = read_answer(text)
    return text if answer is None else as_text(answer.fields)


@every(
    "written",
    [
        json.dumps(FIELDS),
        f"```json\n{json.dumps(FIELDS, indent=2)}\n```",
        f"Here it is:\n{json.dumps(FIELDS)}\nI hope this helps.",
        json.dumps(FIELDS).replace("]}", "],}"),
        json.dumps(FIELDS)[:-1],
        json.dumps(FIELDS).replace('"', "'"),
        json.dumps(FIELDS).replace('"overview"', '"summary"'),
    ],
)
def test_every_form_of_the_json_gives_the_same_summary(written):
    assert rendered(written) == STORY


@every("text", ["A story in prose.", "{}", '{"x": 1}', "{", "[1, 2]"])
def test_what_is_no_such_object_stays_as_it_is(text):
    assert rendered(text) == text


def test_values_of_other_shapes_are_read_too():
    odd = {"overview": ["a"], "key_facts": "one", "entities": ["W1"], "decisions": {}}
    assert "## Key facts\n- one" in rendered(json.dumps(odd))
    assert "- W1" in rendered(json.dumps(odd))
    facts = rendered(json.dumps({"key_facts": [{"id": "W1", "state": "sent"}, 7]}))
    assert facts == "## Key facts\n- id: W1; state: sent\n- 7"


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["{", "[{", '{"a":'])
def test_brackets_without_end_take_no_time(piece):
    began = CpuTime()
    for count in (450, 9_999 // len(piece), 40_000):
        assert rendered(piece * count) == piece * count
    assert began.spent() < 0.3


def test_no_list_grows_without_bound():
    story = rendered(json.dumps({"key_facts": ["x" * 5_000] * 500}))
    assert len(story) < 60 * 610


@pytest.mark.parametrize("tags", ["<summary>{}</summary>", "{}"])
def test_the_engine_asks_for_json_and_keeps_what_it_says(tags):
    said = Session([("user", "W100? W200? " * 150), ("assistant", "On May 3. " * 300)])
    provider = ScriptedProvider(says(tags.replace("{}", json.dumps(FIELDS))))
    policy = Policy("x", summarizer="structured")
    agent = Agent(provider, engine=CompactionEngine(policy=policy), session=said)
    list(agent.compact())
    assert '"conversation_flow"' in provider.requests[0].history[-1].content
    assert f"<summary>\n{STORY}\n</summary>" in agent.session.history[0].content


def structured(*answers: object, said: str = "Ann asks about W1. ") -> Agent:
    """An agent that was compacted once for each answer, without keeping anything."""
    lines = [each if callable(each) else says(json.dumps(each)) for each in answers]
    policy = Policy("x", summarizer="structured")
    agent = Agent(ScriptedProvider(*lines), engine=CompactionEngine(policy=policy))
    for _ in answers:
        agent.session.append(("user", said * 100))
        agent.session.append(("assistant", "Let me see. " * 200))
        list(agent.compact())
    return agent


FIRST = {
    "overview": "Ann asks about W1.",
    "decisions": ["Ship by rail", "Refund to the card"],
    "unresolved_questions": ["Who pays?", "When does it arrive?"],
    "entities": {"orders": ["W1"]},
    "conversation_flow": ["Ann asked"],
}


def test_the_next_request_can_be_seen_before_with_the_open_items_of_the_last_summary():
    agent = structured(FIRST)
    agent.session.append(("user", "Ann asks about W2. " * 100))
    agent.session.append(("assistant", "Let me see. " * 200))
    expected = agent.engine.create_summary_request(agent.engine.plan(agent.session))
    list(agent.compact())
    assert agent.provider.requests[1] == expected
    assert "3. Who pays?" in expected.history[0].content


def test_decisions_and_questions_hold_until_an_answer_ends_them():
    second = {
        "overview": "Ann waits.",
        "decisions": ["Ship by road"],
        "resolved": [1, 3],
    }
    agent = structured(FIRST, second, {"overview": "Ann left."})
    fields = agent.session.compaction.fields
    assert fields.decisions == ("Refund to the card", "Ship by road")
    assert fields.unresolved_questions == ("When does it arrive?",)
    assert fields.entities == (("orders", ("W1",)),)
    assert (fields.overview, fields.conversation_flow) == ("Ann left.", ("Ann asked",))
    assert "- Refund to the card" in agent.session.compaction.summary


def test_open_items_are_numbered_in_the_next_request_and_the_form_is_one():
    agent = structured(FIRST, FIRST)
    first, second = agent.provider.requests
    assert "Open items" not in first.history[-1].content
    assert "1. Ship by rail\n2. Refund to the card\n3. Who pays?" in (
        second.history[-1].content
    )
    for request in (first, second):
        assert "<summary></summary>" not in request.history[-1].content
        assert "headings" not in request.system
        assert "one JSON object" in request.system.replace("exactly one", "one")
        assert set(request.output_schema["properties"]) >= set(FIRST)
    assert agent.session.compaction.fields.decisions == tuple(FIRST["decisions"])


def test_a_server_without_schemas_is_asked_without_one():
    refused = fails(RequestRefused("response_format is not supported"))
    said = Session(
        [("user", "Ann asks about W1. " * 200), ("assistant", "Yes. " * 200)]
    )
    provider = ScriptedProvider(refused, says(json.dumps(FIRST)))
    policy = Policy("x", summarizer="structured")
    agent = Agent(provider, engine=CompactionEngine(policy=policy), session=said)
    list(agent.compact())
    assert [each.output_schema is None for each in provider.requests] == [False, True]
    assert agent.session.compaction.fields.overview == FIRST["overview"]


def test_fields_are_stored_with_their_record_and_end_with_an_edit():
    agent = structured(FIRST)
    record = agent.session.compaction
    loaded = compaction_from_json(json.dumps(compaction_json("s", record)))
    assert loaded == record
    assert isinstance(loaded.fields, SummaryFields)
    list(agent.edit_compaction("All is well."))
    assert agent.session.compaction.fields is None


def test_an_invented_value_is_marked_in_the_fields_too():
    invented = {**FIRST, "key_facts": ["W1 cost 4711.20"]}
    provider = ScriptedProvider(*[says(json.dumps(invented))] * 2)
    said = Session(
        [("user", "Ann asks about W1. " * 200), ("assistant", "Yes. " * 200)]
    )
    policy = Policy("x", summarizer="structured")
    agent = Agent(provider, engine=CompactionEngine(policy=policy), session=said)
    list(agent.compact())
    assert agent.session.compaction.fields.key_facts == (
        "W1 cost 4711.20 [not in the conversation]",
    )


def test_new_facts_replace_earlier_ones_and_decisions_stay():
    many = {**FIRST, "key_facts": [f"A fact of note, {'x' * 90}{n}" for n in range(9)]}
    answers = [many, *[{"overview": "On.", "key_facts": ["New"]}] * 3]
    fields = structured(*answers).session.compaction.fields
    assert fields.key_facts[-1] == "New"
    assert fields.decisions == tuple(FIRST["decisions"])


KEPT = ("Ship by rail", "Refund to the card")


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(says("<summary>Ann called about W1.</summary>"), id="prose"),
        pytest.param({"overview": "On.", "decisions": []}, id="an empty list"),
        pytest.param({"overview": "On.", "decisions": None}, id="no list"),
        pytest.param({"decisions": ["Ship by rail", "Refund to the card"]}, id="same"),
    ],
)
def test_no_answer_removes_what_was_decided_before(second):
    line = second if isinstance(second, dict) else lambda _request: second
    fields = structured(FIRST, line).session.compaction.fields
    assert fields.decisions == KEPT
    assert fields.unresolved_questions == tuple(FIRST["unresolved_questions"])
    assert fields.conversation_flow == ("Ann asked",)


def test_a_prose_answer_is_the_overview():
    prose = says("<summary>Ann called about W1.</summary>")
    agent = structured(FIRST, lambda _request: prose)
    assert agent.session.compaction.fields.overview == "Ann called about W1."
    assert "- Ship by rail" in agent.session.compaction.summary


@pytest.mark.parametrize("trigger", ["manual", "window"])
def test_refused_answers_leave_what_was_decided_before(trigger: str):
    """Where the window is full the entry is made without a model, else none is."""
    agent = structured(FIRST)
    agent.session.append(("user", "Ann asks about W1. " * 100))
    agent.session.append(("assistant", "Let me see. " * 200))
    plan = agent.engine.plan(agent.session, trigger=trigger)
    refused = ScriptedProvider(*[says("I can't help with that.")] * 9)
    record = finished(agent.engine.compact(agent.session, refused, plan))
    assert record.status == ("failed" if trigger == "manual" else "degraded")
    agent.session.compactions.append(record)
    assert agent.session.compaction.fields.decisions == KEPT
    assert "Refund to the card" in agent.session.history[0].content
