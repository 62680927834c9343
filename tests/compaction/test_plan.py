"""How much room a summary and the memory beside it get."""

import json
import re
from dataclasses import replace
from itertools import cycle, product

import pytest
from cpu_time import CpuTime
from driving import finished
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.plan import Budget, budget_for
from nbchat.compaction.policies import PRESETS
from nbchat.compaction.summary_format import (
    summary_entry,
)
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.session import Session
from nbchat.providers.base import Request
from nbchat.providers.model_info import ModelInfo
from nbchat.testing import Line, ScriptedProvider, says

POLICIES = [name for name in PRESETS if name != "off"]


def records(count: int) -> list[Entry]:
    """Look-ups of so many orders, about 140 tokens each, all worth remembering."""
    return [entry for number in range(count) for entry in look_up(number)]


def look_up(number: int) -> list[Entry]:
    order = f"W{number:07d}"
    found = {
        "order": order,
        "status": "delivered",
        "address": f"{number} Oak Street, Denver, CO {80_000 + number}",
        "items": [
            {"sku": f"{number * 77_777}-{n}", "price": n + 0.5} for n in range(4)
        ],
    }
    call = Entry("assistant", "", f"c{number}", "get_order", f'{{"order": "{order}"}}')
    return [
        Entry("user", f"Where is {order}?"),
        call,
        Entry("tool", json.dumps(found), f"c{number}", "get_order"),
        Entry("assistant", f"{order} was delivered."),
    ]


def summarizing(request: Request) -> Line:
    if not request.answer_tag:
        return says("Fine.")
    orders = re.findall(r"W\d{7}", request.history[-1].content)
    told = f"The customer asked where many orders are, {orders[:1]} among them."
    return says(f"<summary>{told}</summary>")


def chat(session: Session, window: int, policy: str = "single-summary") -> Agent:
    engine = CompactionEngine(context_token_threshold=None, policy=policy)
    provider = ScriptedProvider(*[summarizing] * 60, window=window)
    return Agent(provider, engine=engine, session=session)


@pytest.mark.parametrize(
    ("covered", "ever", "window", "summary", "facts"),
    [
        pytest.param(400, 400, None, 100, 140, id="a quarter and six tenths"),
        pytest.param(1_000, 1_000, None, 200, 400, id="100 words and six tenths"),
        pytest.param(4_000, 4_000, None, 600, 1_500, id="the least memory"),
        pytest.param(12_000, 12_000, None, 1_800, 1_800, id="15 % of each"),
        pytest.param(5_000, 20_000, None, 750, 2_250, id="six tenths of the new"),
        pytest.param(50_000, 500_000, None, 2_000, 4_000, id="the most of each"),
        pytest.param(50_000, 500_000, 24_000, 750, 3_000, id="parts of the window"),
        pytest.param(50_000, 500_000, 4_000, 200, 500, id="a tiny window"),
        pytest.param(50_000, 500_000, 64_000, 2_000, 4_000, id="64,000 is not large"),
        pytest.param(50_000, 500_000, 200_000, 2_000, 12_500, id="a large window"),
        pytest.param(50_000, 50_000, 200_000, 2_000, 7_500, id="little ever compacted"),
    ],
)
def test_summary_and_memory_follow_what_is_compacted_up_to_limits(
    covered: int, ever: int, window: int | None, summary: int, facts: int
):
    policy = PRESETS["single-summary"]
    budget = budget_for(policy, covered, tokens_ever=ever, window=window)
    assert budget == Budget(summary, facts)


@every(("policy", "window"), product(POLICIES, [None, 2_000, 8_000, 32_000, 1_000_000]))
def test_no_budget_is_above_what_its_policy_and_the_window_allow(policy, window):
    for covered, ever in product((0, 1, 90, 700, 9_000, 200_000), repeat=2):
        budget = budget_for(PRESETS[policy], covered, tokens_ever=ever, window=window)
        assert min(budget.summary, budget.facts) >= 0
        assert budget.summary <= covered / 4
        assert budget.entry <= covered * 0.6
        assert window is None or budget.facts <= window / 8


@pytest.mark.slow
def test_what_was_compacted_before_counts_for_the_memory_of_the_next_compaction():
    session = Session(records(80))
    agent = chat(session, 200_000)
    list(agent.compact())
    before = agent.engine.tracker.counter.count_entries(session.transcript)
    list(map(session.append, records(40)))
    plan = agent.engine.plan(session)
    assert plan.tokens_covered < before
    assert plan.budget.facts > before * 0.15


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_chat_continues_with_a_model_of_a_much_smaller_window(policy: str):
    agent = chat(Session(records(40)), 200_000, policy)
    list(agent.compact())
    small = ScriptedProvider(*[summarizing] * 60, window=4_096)
    agent.use(small)
    assert [agent.ask(text) for text in ("Hello?", "And now?")] == ["Fine.", "Fine."]
    assert all(small.count_tokens(each) < 4_096 for each in small.requests)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_long_session_is_resumed_with_a_small_model(policy: str):
    agent = chat(Session(records(40)), 4_096, policy)
    assert agent.ask("Hello?") == "Fine."
    answered = [each for each in agent.provider.requests if not each.answer_tag]
    assert agent.provider.count_tokens(answered[-1]) < 4_096


def in_force(story: str, facts: list[str], *entries: Entry) -> Session:
    """A session whose summary, of many facts, is all that the model sees."""
    told = summary_entry(story, facts)
    length = len(entries)
    record = Compaction(id="a", start=0, stop=length, summary=told.content)
    return Session(entries, compactions=[record])


@pytest.mark.slow
def test_a_summary_that_is_too_large_by_itself_is_made_smaller_without_a_model():
    facts = [f"W{n:07d} delivered, {n} Oak Street, Denver" for n in range(400)]
    story = "The customer asked where many orders are."
    session = in_force(story, facts, *records(100))
    engine = CompactionEngine(info=ModelInfo("m", window=8_000))
    assert "nothing new" in engine_of(window=32_000).plan(session).skip
    plan = engine.plan(session, trigger="window")
    assert plan.is_resize
    record = finished(engine.compact(session, ScriptedProvider(), plan))
    session.compactions.append(record)
    assert (record.status, record.messages, record.cost) == ("done", 0, Usage())
    assert story in session.history[0].content
    assert engine.tracker.counter.count_entries(session.history) < 1_200


def test_a_summary_over_the_limit_is_shortened_with_the_gap_counted():
    session = in_force(
        "The customer asked about one more order. " * 900, [], *records(9)
    )
    engine = CompactionEngine(info=ModelInfo("m", window=8_000))
    plan = engine.plan(session, trigger="window")
    record = finished(engine.compact(session, ScriptedProvider(), plan))
    assert record.summary_tokens <= plan.budget.entry + 20
    assert "characters omitted]" in record.summary


def engine_of(window: int) -> CompactionEngine:
    return CompactionEngine(info=ModelInfo("m", window=window))


@pytest.mark.slow
def test_the_sums_of_a_long_transcript_are_counted_once():
    session = Session(records(1_000))
    tracker = engine_of(200_000).tracker
    sums = tracker.transcript_tokens(session)
    assert sums[-1] == tracker.counter.count_entries(session.transcript)
    begun = CpuTime()
    for entry in records(50):
        session.append(entry)
        sums = tracker.transcript_tokens(session)
    assert begun.spent() < 0.2
    assert sums[-1] == tracker.counter.count_entries(session.transcript)


@every(("policy", "index"), [*zip(POLICIES, cycle(range(4)))])
def test_a_person_compacts_up_to_a_message(policy: str, index: int):
    """With the results of its calls: they are one unit."""
    session = Session(records(12))
    agent = chat(session, 100_000, policy)
    at = 16 + index
    list(agent.compact(upto=at))
    stop = at + 1 if index != 1 else at + 2
    assert session.compaction.stop == stop
    assert session.history[1:] == session.transcript[stop:]


def test_up_to_a_message_that_is_compacted_or_not_there_nothing_is_compacted():
    session = Session(records(3))
    engine = engine_of(100_000)
    list(chat(session, 100_000).compact(upto=7))
    assert engine.plan(session, upto=3).skip == "Message 3 is already compacted."
    assert engine.plan(session, upto=12).skip.startswith("There's no message 12. ")
    assert engine.plan(session, upto=11).stop == 12


def test_what_the_model_must_read_stays_also_when_a_person_compacts_up_to_it():
    session = Session([*records(3), ("user", "And now?")])
    assert engine_of(100_000).plan(session, upto=12).stop == 12


@pytest.mark.slow
def test_a_long_summary_leaves_less_for_the_memory_of_a_long_session():
    session = Session(records(200))
    agent = chat(session, 200_000)
    list(agent.compact())
    for entry in records(212)[800:]:
        session.append(entry)
    covered = agent.engine.plan(session).tokens_covered
    told = "All of W0000205 was told again at length. " * 150
    agent.use(ScriptedProvider(*[says(f"<summary>{told}</summary>")] * 4))
    list(agent.compact())
    record = session.compactions[-1]
    assert record.status == "done", record
    assert agent.engine.tracker.counter.count(record.summary) <= covered * 0.6


@every("policy", sorted({*POLICIES} - {"tiered"}))
def test_a_short_conversation_keeps_its_rules(policy: str):
    """Word for word, also where no summary quotes them; not where bullets are asked."""
    rules = [
        "Never ship to Norway without asking me first.",
        "Always write prices in euros, never in dollars.",
        "You must not call the customer by the first name.",
        "Do not refund anything above 40 euros.",
    ]
    answer = "All right: I keep to that in every order of this shop. " * 14
    session = Session([Entry("user", " ".join(rules)), Entry("assistant", answer)])
    agent = chat(session, 200_000, policy)
    list(agent.compact(keep=0))
    assert session.compaction is not None
    assert all(rule in session.history[0].content for rule in rules)


@every("policy", POLICIES)
def test_no_secret_gets_into_a_summary_or_the_memory_beside_it(policy: str):
    key = "sk-ant-api03-" + "a1B2c3D4" * 4
    login = "postgres://ann:hunter2hunter2@db/orders"
    session = Session(
        [
            ("user", f"Never tell anybody {key}, and order W0000001 is mine."),
            ("assistant", "All right, I keep to that. " * 20),
            *look_up(1),
            Entry("assistant", "", "c9", "log_in", json.dumps({"key": key})),
            Entry("tool", json.dumps({"user": "ann", "session": key}), "c9", "log_in"),
            Entry("assistant", "", "c8", "open_db", json.dumps({"dsn": login})),
            Entry("tool", '{"status": "open"}', "c8", "open_db"),
            Entry("assistant", "You are logged in."),
        ]
    )
    engine = CompactionEngine(policy=policy)
    rule = f'"Never tell anybody {key}, and order W0000001 is mine."'
    told = f"The customer logs in with {key} for W0000001.\n{rule}"
    told = says(f"<summary>{told}</summary>")
    agent = Agent(ScriptedProvider(*[told] * 4), engine=engine, session=session)
    list(agent.compact(keep=0))
    record = session.compactions[-1]
    assert "W0000001" in record.summary
    kept = f"{record.summary}{record.facts}{record.memory}{record.rules}"
    assert key not in kept
    assert login not in kept
    assert key in str(list(session.transcript))


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [None, 5_000])
@pytest.mark.parametrize("window", [8_000, 32_000, 128_000])
def test_by_default_the_history_becomes_exactly_one_summary(window, threshold):
    """What comes next is in it, word for word: the newest answer and what was said."""
    size = window // 60

    def answer(request: Request) -> Line:
        if request.answer_tag:
            return says("<summary>All about order 100 of Ann.</summary>")
        said = request.history[-1].content
        return says(f"{said.split()[3]} was shipped. " + "It is on its way. " * size)

    provider = ScriptedProvider(*[answer] * 80, window=window)
    engine = CompactionEngine(context_token_threshold=threshold)
    agent = Agent(provider, engine=engine)
    for number in range(100, 160):
        agent.ask(f"Where is order {number}, please?")
        if agent.session.compaction is not None:
            break
    (entry,) = agent.session.history
    assert entry.role == "summary"
    assert f"Where is order {number}, please?" in entry.content
    assert f"assistant: {number}, was shipped." in entry.content


@pytest.mark.slow
def test_with_keep_the_newest_messages_stay_beside_the_summary():
    session = Session(records(40))
    policy = replace(PRESETS["single-summary"], keep=2)
    engine = CompactionEngine(policy=policy)
    agent = Agent(ScriptedProvider(summarizing), engine=engine, session=session)
    list(agent.compact())
    summary, *newest = session.history
    assert summary.role == "summary"
    assert newest == session.transcript[-len(newest) :]
    assert newest
