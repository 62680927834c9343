"""How much room a summary and its facts get."""

import json
from dataclasses import replace
from itertools import cycle

import pytest
from cpu_time import CpuTime
from driving import finished

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.plan import FACTS_TOKENS, budget_for
from nbchat.compaction.policies import PRESETS
from nbchat.compaction.summarizer.coverage import LEAST_VALUES, Coverage
from nbchat.compaction.summary_entry import SummaryBuilder
from nbchat.compaction.summary_format import carried_list, summary_entry, summary_facts
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
    told = "The customer asked where many orders are; all of them were delivered."
    return says(f"<summary>{told}</summary>" if request.answer_tag else "Fine.")


def chat(session: Session, window: int, policy: str = "single-summary") -> Agent:
    engine = CompactionEngine(context_token_threshold=None, policy=policy)
    provider = ScriptedProvider(*[summarizing] * 60, window=window)
    return Agent(provider, engine=engine, session=session)


@pytest.mark.parametrize(
    ("covered", "ever", "window", "facts"),
    [
        (2_000, 2_000, None, FACTS_TOKENS),
        (12_000, 12_000, None, 1_800),
        (5_000, 20_000, None, 3_000),
        (5_000, 500_000, None, 3_900),
        (50_000, 500_000, None, 4_000),
        (50_000, 500_000, 24_000, 3_000),
        (50_000, 500_000, 4_000, FACTS_TOKENS),
    ],
)
def test_the_facts_may_grow_with_all_that_was_ever_compacted_up_to_a_limit(
    covered: int, ever: int, window: int | None, facts: int
):
    policy = PRESETS["single-summary"]
    budget = budget_for(policy, covered, tokens_ever=ever, window=window)
    assert budget.facts == facts


@pytest.mark.slow
def test_what_was_compacted_before_counts_for_the_facts_of_the_next_compaction():
    session = Session(records(80))
    agent = chat(session, 200_000)
    list(agent.compact())
    before = agent.engine.tracker.counter.count_entries(session.transcript)
    list(map(session.append, records(40)))
    plan = agent.engine.plan(session)
    assert plan.tokens_covered < before
    assert plan.budget.facts > before * 0.15


@pytest.mark.parametrize("policy", POLICIES)
def test_a_chat_continues_with_a_model_of_a_much_smaller_window(policy: str):
    agent = chat(Session(records(40)), 200_000, policy)
    list(agent.compact())
    small = ScriptedProvider(*[summarizing] * 60, window=4_096)
    agent.use(small)
    assert [agent.ask(text) for text in ("Hello?", "And now?")] == ["Fine.", "Fine."]
    assert all(small.count_tokens(each) < 4_096 for each in small.requests)


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


def test_what_was_carried_over_stays_when_the_summary_is_made_smaller():
    rows = [f"W{n:07d} delivered, {n} Oak Street, Denver" for n in range(400)]
    kept = carried_list(["Never ship before May 16.", "Ann waits for order W17."])
    session = in_force("* They talked about orders.", [*kept, *rows], *records(100))
    engine = engine_of(window=8_000)
    plan = engine.plan(session, trigger="window")
    session.compactions.append(
        finished(engine.compact(session, ScriptedProvider(), plan))
    )
    lines = summary_facts(session.history[0].content)
    assert lines[:3] == kept
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


@pytest.mark.parametrize(("policy", "index"), [*zip(POLICIES, cycle(range(4)))])
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
    assert engine.plan(session, upto=3).skip == "message 3 is compacted already"
    assert engine.plan(session, upto=12).skip.startswith("there is no message 12; ")
    assert engine.plan(session, upto=11).stop == 12


def test_what_the_model_must_read_stays_also_when_a_person_compacts_up_to_it():
    session = Session([*records(3), ("user", "And now?")])
    assert engine_of(100_000).plan(session, upto=12).stop == 12


@pytest.mark.slow
def test_a_long_summary_leaves_less_for_the_facts_of_a_long_session():
    session = Session(records(200))
    agent = chat(session, 200_000)
    list(agent.compact())
    for entry in records(212)[800:]:
        session.append(entry)
    covered = agent.engine.plan(session).tokens_covered
    story = says(f"<summary>{'All of it was told again at length. ' * 250}</summary>")
    agent.use(ScriptedProvider(*[story] * 4, window=200_000))
    list(agent.compact())
    record = session.compactions[-1]
    assert record.status == "done", record
    assert agent.engine.tracker.counter.count(record.summary) < covered * 0.9


def story_of(*numbers: int) -> Line:
    said = [
        f"The customer asked for W{n:07d}: delivered, {n} Oak Street, Denver."
        for n in numbers
    ]
    return says(f"<summary>{' '.join(said)}</summary>")


@pytest.mark.parametrize("are_told", [False, True])
def test_facts_stay_until_summaries_tell_what_they_say(are_told: bool):  # noqa: FBT001
    session = Session(look_up(7))
    first, second = (7,) if are_told else (), (7, 8) if are_told else (8,)
    agent = Agent(
        ScriptedProvider(
            story_of(*first) if first else summarizing,
            story_of(*second),
            window=200_000,
        ),
        engine=CompactionEngine(),
        session=session,
    )
    list(agent.compact())
    for entry in look_up(8):
        session.append(entry)
    list(agent.compact())
    lines = "\n".join(summary_facts(session.history[0].content))
    assert ("order: W0000007" in lines) != are_told, lines


def two_folds(first: str, second: str) -> Coverage:
    """What a summary of one short message says, judged with the one before it."""
    session = Session([entry for n in range(1, 21) for entry in look_up(n)])
    agent = Agent(
        ScriptedProvider(says(f"<summary>{first}</summary>"), window=200_000),
        session=session,
    )
    list(agent.compact())
    for entry in look_up(21):
        session.append(entry)
    plan, engine = agent.engine.plan(session, trigger="manual"), agent.engine
    builder = SummaryBuilder(session, plan, engine.policy, engine.tracker.counter)
    assert LEAST_VALUES <= 20
    return builder.coverage(second)


def asked(first: int, last: int) -> str:
    return "\n".join(f"- Order W{n:07d} was asked for." for n in range(first, last + 1))


@pytest.mark.parametrize(
    ("first", "second", "is_good"),
    [
        pytest.param((1, 20), (1, 21), True, id="keeps what the good one said"),
        pytest.param((1, 20), (1, 5), False, id="forgets most of it"),
        pytest.param((1, 4), (1, 4), False, id="copies a poor one"),
        pytest.param((1, 4), (1, 21), True, id="says more than a poor one"),
        pytest.param((1, 20), (21, 21), False, id="forgets all of it"),
    ],
)
def test_a_summary_of_little_is_as_good_as_the_one_before_and_what_it_keeps_of_it(
    first: tuple[int, int],
    second: tuple[int, int],
    is_good: bool,  # noqa: FBT001
):
    assert two_folds(asked(*first), asked(*second)).is_good == is_good


def test_a_dense_summary_chose_itself_what_is_needed():
    """It says 9 of 20 new orders: a third is enough with what else it says."""
    other = "\n".join(f"- CO {80_000 + n}" for n in range(12, 32))
    session = Session([entry for n in range(1, 21) for entry in look_up(n)])
    engine = engine_of(200_000)
    plan = engine.plan(session, trigger="manual")
    builder = SummaryBuilder(session, plan, engine.policy, engine.tracker.counter)
    few = builder.coverage(asked(1, 9))
    many = builder.coverage(f"{asked(1, 9)}\n{other}")
    assert few.share == many.share == 9 / 20
    assert (few.is_good, many.is_good) == (False, True)


@pytest.mark.parametrize(
    ("first", "second", "is_good"),
    [
        pytest.param(12, 6, True, id="a good writer says less"),
        pytest.param(12, 3, False, id="a good writer says next to nothing"),
        pytest.param(6, 6, False, id="a poor writer"),
    ],
)
def test_a_writers_summaries_are_judged_together(
    first: int,
    second: int,
    is_good: bool,  # noqa: FBT001
):
    """Each covers 20 new orders and says some of them."""
    agent = Agent(
        ScriptedProvider(says(f"<summary>{asked(1, first)}</summary>"), window=200_000),
        session=Session([entry for n in range(1, 21) for entry in look_up(n)]),
    )
    list(agent.compact())
    for entry in (entry for n in range(21, 41) for entry in look_up(n)):
        agent.session.append(entry)
    engine = agent.engine
    plan = engine.plan(agent.session, trigger="manual")
    builder = SummaryBuilder(agent.session, plan, engine.policy, engine.tracker.counter)
    found = builder.coverage(asked(21, 20 + second))
    assert found.share == second / 20
    assert found.is_good == is_good


def test_matters_that_are_closed_are_not_missed_in_a_summary():
    first = f"Open:\n{asked(1, 10)}\nClosed:\n{asked(11, 20)}"
    assert two_folds(first, asked(1, 10)).is_good


@pytest.mark.parametrize("policy", POLICIES)
def test_a_short_conversation_keeps_its_rules(policy: str):
    rules = [
        "Never ship to Norway without asking me first.",
        "Always write prices in euros, never in dollars.",
        "You must not call the customer by the first name.",
        "Do not refund anything above 40 euros.",
    ]
    answer = "All right: I keep to that in every order of this shop. " * 7
    session = Session([Entry("user", " ".join(rules)), Entry("assistant", answer)])
    agent = chat(session, 200_000, policy)
    list(agent.compact(keep=0))
    assert session.compaction is not None
    assert all(rule in session.history[0].content for rule in rules)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_secret_gets_into_a_summary_or_its_facts(policy: str):
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
    told = says(f"<summary>The customer logs in with {key} for W0000001.</summary>")
    agent = Agent(ScriptedProvider(*[told] * 4), engine=engine, session=session)
    list(agent.compact(keep=0))
    record = session.compactions[-1]
    assert "W0000001" in record.summary
    assert key not in record.summary + str(record.facts)
    assert login not in record.summary + str(record.facts)
    assert key in str(list(session.transcript))


@pytest.mark.parametrize(
    ("keep", "threshold", "kept"),
    [(None, None, ["user", "assistant"]), (0, None, []), (None, 5_000, [])],
)
def test_by_default_the_newest_messages_stay_and_with_keep_0_none(
    keep, threshold, kept
):
    story = says("<summary>All about the orders of Ann.</summary>")
    said = [says(f"Order {number} was shipped. " * 8) for number in range(60)]
    lines = iter(said)

    def answer(request: Request) -> Line:
        return story if "<summary>" in request.history[-1].content else next(lines)

    policy = replace(PRESETS["single-summary"], keep=keep)
    provider = ScriptedProvider(*[answer] * 80, window=32_000)
    engine = CompactionEngine(policy=policy, context_token_threshold=threshold)
    agent = Agent(provider, engine=engine)
    for number in range(60):
        agent.ask(f"Where is order {number}? " * 4)
        if agent.session.compaction is not None:
            break
    summary, *newest = agent.session.history
    assert summary.role == "summary"
    assert [entry.role for entry in newest[:2]] == kept
    assert agent.engine.tracker.counter.count_entries(newest) <= 32_000 // 160
