"""Policies as data: what is kept and when, and what cannot work is refused when set."""

from dataclasses import replace

import pytest
from driving import finished
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS, Policy
from nbchat.compaction.pruning.outputs import newest_shortened
from nbchat.compaction.triggers.triggers import Limits
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import Compacted, CompactionFailed, TurnFailed
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError, ContextOverflow, Overloaded, RequestRefused
from nbchat.providers.base import Request
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import TokenCounter
from nbchat.testing import Line, ScriptedProvider, calls, fails, says

COUNTER = TokenCounter()
LONG = "The customer asks about order W100 and its parcel. " * 20
GOOD = says("<summary>The customer asked about an order.</summary>")


def chat(turns: int, text: str = LONG) -> Session:
    pairs = [("user", f"{n} {text}", "assistant", f"{n} ok") for n in range(turns)]
    flat = [each for a, b, c, d in pairs for each in ((a, b), (c, d))]
    return Session(flat)


def kept(policy: Policy, session: Session, **options) -> list[str]:
    """The first words of what a plan leaves as it is."""
    engine = CompactionEngine(policy=policy, info=options.pop("info", None))
    plan = engine.plan(session, **options)
    assert not plan.skip, plan.skip
    return [entry.content.split()[0] for entry in plan.recent]


@every(
    ("make", "said"),
    [
        (
            lambda: Policy("x", target_share=0.9),
            r"target_share 0.9 .* window_share, 0.8",
        ),
        (lambda: Policy("x", target_share=0.8), "must be below window_share"),
        (
            lambda: Policy("x", summarizer="poet"),
            "summarizer can't be 'poet'. Choose one of prose, ",
        ),
        (
            lambda: Policy("x", style="loud"),
            "style can't be 'loud'. Choose one of general, ",
        ),
        (
            lambda: Policy("x", keep_unit="words"),
            "keep_unit can't be 'words'. Choose one of messages",
        ),
        (lambda: Policy("x", on_failure="cry"), "on_failure can't be 'cry'"),
        (
            lambda: Policy("x", window_share=75),
            "window_share must be between 0 and 1, not 75",
        ),
        (lambda: Policy("x", margin_share=0.9), "margin_share 0.9 must be below"),
        (lambda: Policy("x", keep_by_hand=-1), "keep_by_hand can't be -1"),
        (lambda: Policy("x", bullets=-1), "bullets can't be -1"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(make, said):
    with pytest.raises(ConfigError, match=said) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_a_retention_above_the_window_is_refused_with_the_numbers():
    policy = replace(PRESETS["token-window"], keep=9_000)
    with pytest.raises(ConfigError, match=r"keeps 9,000 tokens .* compacts at 5,"):
        CompactionEngine(policy=policy, info=ModelInfo("m", window=8_000))


def test_a_limit_below_the_floor_is_refused_when_the_policy_is_set():
    provider = ScriptedProvider(window=2_000)
    agent = Agent(provider, system="word " * 1_200)
    with pytest.raises(
        ConfigError,
        match=r"early is 1,000 tokens, but the system prompt and tools alone take 1,2\d\d",
    ):
        agent.engine.tracker.use_policy("early")
    assert agent.engine.policy.name == "single-summary"
    with pytest.raises(ConfigError, match="limit of the policy early"):
        Agent(provider, system="word " * 1_200, engine=CompactionEngine(policy="early"))


def test_an_unknown_policy_changes_nothing():
    engine = CompactionEngine()
    with pytest.raises(
        ConfigError, match=r"No policy named 'teired'. Did you mean tiered\?"
    ):
        engine.tracker.use_policy("teired")
    assert engine.policy.name == "single-summary"


@every(
    ("name", "limit"),
    [
        ("single-summary", 156_723),  # 80 % of what the answer's 4,096 leave
        ("tiered", 150_000),
        ("recent-messages", 160_000),
        ("early", 100_000),
        ("token-window", 176_108),  # 95 % of that, less 5 % of the window
    ],
)
def test_each_policy_has_its_guard(name, limit):
    info = ModelInfo("m", window=200_000)
    assert Limits.of(PRESETS[name], info, None).guard == limit


def test_the_guard_never_uses_the_answers_reserve():
    info = ModelInfo("m", window=8_000, output_limit=4_000)
    policy = Policy("x", "window", window_share=0.95, share_of="window")
    assert Limits.of(policy, info, None).guard == 6_000


def test_messages_are_kept_with_the_calls_they_belong_to():
    session = Session(
        [
            ("user", LONG),
            ("assistant", "", "1", "look", "{}"),
            ("tool", "found", "1", "look"),
            ("assistant", "answer"),
        ]
    )
    assert kept(Policy("x", keep=1), session) == ["answer"]
    plan = CompactionEngine(policy=Policy("x", keep=2)).plan(session)
    assert [entry.role for entry in plan.recent] == ["assistant", "tool", "assistant"]


def test_exchanges_are_kept_whole_and_what_is_unanswered_is_none_of_them():
    session = chat(4)
    session.append(Entry("user", "new question"))
    policy = Policy("x", keep=2, keep_unit="exchanges")
    assert kept(policy, session) == ["2", "2", "3", "3", "new"]


def test_as_many_whole_messages_are_kept_as_fit_the_tokens():
    session = chat(4, "word " * 95)
    size = COUNTER.count_entries(session.transcript[-4:])
    policy = Policy("x", keep=size, keep_unit="tokens")
    assert kept(policy, session) == ["2", "2", "3", "3"]
    assert kept(replace(policy, keep=size - 1), session) == ["2", "3", "3"]


def test_a_person_may_keep_something_else_than_the_policy():
    session = chat(4, "word " * 95)
    assert kept(PRESETS["token-window"], session) == []
    assert kept(Policy("x"), session, keep=250) == ["1", "2", "2", "3", "3"]
    assert kept(Policy("x", keep=3), session, keep=0) == []


def test_a_policy_that_keeps_everything_says_how_to_compact_it():
    plan = CompactionEngine(policy="tiered").plan(chat(3))
    assert "tiered keeps the newest 10 exchanges" in plan.skip
    assert "keep=0" in plan.skip


def test_less_is_kept_where_it_would_not_fit_and_the_record_warns():
    info = ModelInfo("m", window=4_000, output_limit=500)
    session = chat(14)
    engine = CompactionEngine(policy=Policy("x", "window", keep=24), info=info)
    plan = engine.plan(session, trigger="window")
    assert plan.tokens_after <= engine.tracker.limits.guard
    assert plan.note.startswith("Only ")
    record = finished(engine.compact(session, ScriptedProvider(GOOD), plan))
    assert "newest messages are kept" in record.note


def test_a_summary_that_leaves_the_context_too_full_is_asked_for_shorter():
    info = ModelInfo("m", window=8_000, output_limit=500)
    session = chat(14)
    engine = CompactionEngine(policy=Policy("x", "window", keep=4), info=info)
    engine.tracker.set_fixed_texts((" word" * 5_200,))
    plan = engine.plan(session, trigger="window")
    wordy = says(f"<summary>{'They talked about W100. ' * 150}</summary>")
    provider = ScriptedProvider(wordy, GOOD, window=8_000)
    record = finished(engine.compact(session, provider, plan))
    assert record.status == "done"
    assert record.tokens_after <= engine.tracker.limits.guard
    assert "tokens with its facts, but only" in provider.requests[1].history[-1].content


def test_without_any_summary_the_conversation_is_cut_with_a_notice():
    session = Session([("user", "a " * 20), ("assistant", "b " * 15)])
    policy = Policy("x", "window", least_tokens=0)
    engine = CompactionEngine(policy=policy, live_variables=lambda _: ["x int"] * 9)
    plan = engine.plan(session, trigger="window")
    broken = ScriptedProvider(*[says("no")] * 5)
    record = finished(engine.compact(session, broken, plan))
    assert record.status == "degraded"
    assert record.summary == (
        "<summary>\n(2 earlier messages are omitted to save space; all are kept.)\n"
        "</summary>"
    )


def test_a_policy_that_waits_keeps_the_history_and_retries_with_growing_delays():
    policy = replace(PRESETS["token-window"], least_tokens=0)
    engine = CompactionEngine(policy=policy, info=ModelInfo("m", window=10_000))
    session = chat(60, "word " * 140)
    tries = []
    for request in range(1, 16):
        decision = engine.should_compact(session)
        if decision:
            tries.append(request)
            plan = engine.plan(session, trigger=decision.trigger)
            bad = ScriptedProvider(*[says("no")] * 5)
            record = finished(engine.compact(session, bad, plan))
            assert record.status == "failed"
            engine.tracker.record_failure(session)
        else:
            assert "nbchat tries again in" in decision.reason
        engine.update_token_count(Usage(9_000, 10))
    assert tries == [1, 2, 4, 8]


def test_a_policy_that_waits_still_compacts_when_the_server_refuses():
    policy = replace(PRESETS["token-window"], least_tokens=0)
    provider = ScriptedProvider(
        fails(ContextOverflow("too long")), *[says("no")] * 2, says("Here.")
    )
    agent = Agent(provider, engine=CompactionEngine(policy=policy), session=chat(10))
    events = list(agent.run("go on"))
    assert not [event for event in events if isinstance(event, TurnFailed)]
    assert agent.session.compaction.status == "degraded"
    assert agent.session.last_answer == "Here."


@pytest.mark.slow
def test_a_window_too_small_for_the_policy_is_compacted_further():
    window = 2_048

    def answer(request: Request) -> Line:
        size = provider.count_tokens(request) + (request.max_output_tokens or 0)
        if size > window:
            return fails(ContextOverflow("too long"))
        return GOOD if request.answer_tag else says("It is late. " * 20)

    provider = ScriptedProvider(*[answer] * 200, window=window)
    agent = Agent(provider, engine=CompactionEngine(policy="token-window"))
    events = [event for n in range(50) for event in agent.run(f"{n} " + LONG[:300])]
    assert any(isinstance(event, Compacted) for event in events)
    assert not any(isinstance(event, TurnFailed) for event in events)


def test_near_its_limit_the_provider_counts():
    class Counting(ScriptedProvider):
        def count_tokens(self, request):
            return 9_999

    policy = replace(PRESETS["token-window"], least_tokens=0)
    session = chat(30, "word " * 250)
    provider = Counting(GOOD, says("Here."), window=12_000)
    agent = Agent(provider, engine=CompactionEngine(policy=policy), session=session)
    events = list(agent.run("go on"))
    done = [event for event in events if isinstance(event, Compacted)]
    assert done[0].compaction.tokens_before == 9_999


def test_a_provider_that_cannot_count_stops_nothing():
    class Mute(ScriptedProvider):
        def count_tokens(self, request):
            raise Overloaded("busy")

    policy = replace(PRESETS["token-window"], least_tokens=0)
    good = says("<summary>There were 30 questions.</summary>", tokens=9_000)
    provider = Mute(good, good, says("Here.", tokens=600), window=12_000)
    agent = Agent(
        provider,
        engine=CompactionEngine(policy=policy),
        session=chat(40, "word " * 250),
    )
    list(agent.run("go on"))
    assert agent.session.last_answer == "Here."
    assert agent.session.compaction is not None


def rows(count: int = 400) -> str:
    """A table."""
    return "\n".join(f"{n},name {n},{n * 7}" for n in range(count))


def fetch(kind: str) -> str:
    """Fetch."""
    if kind == "fault":
        raise RuntimeError("word " * 1_000)
    return {"table": rows(), "small": rows(5), "guarded": rows()}[kind]


def agent_fetching(kind: str, policy: Policy) -> Agent:
    script = [calls("fetch", kind=kind), says("Done.")]
    return Agent(
        ScriptedProvider(*script),
        tools=[fetch],
        engine=CompactionEngine(policy=policy),
    )


def test_an_output_is_short_before_the_model_first_sees_it_and_whole_for_ever():
    agent = agent_fetching("table", PRESETS["early"])
    list(agent.run("Fetch."))
    shown = agent.provider.requests[1].history[-1].content
    assert len(shown) < len(rows()) / 4
    assert "recall(2) returns them" in shown
    assert agent.session.transcript[2].content == rows()
    sent = COUNTER.count_entries(agent.provider.requests[1].history)
    fixed = agent.engine.tracker.fixed_tokens  # with the tool recall
    assert agent.engine.tracker.context_tokens(agent.session) <= sent + fixed + 100


@pytest.mark.parametrize("kind", ["fault", "small"])
def test_errors_and_small_outputs_come_whole(kind):
    agent = agent_fetching(kind, PRESETS["early"])
    list(agent.run("Fetch."))
    assert agent.session.history == agent.session.transcript


@pytest.mark.parametrize(
    "change", [{"verbosity": "debug"}, {"protected_tools": ("fetch",)}]
)
def test_with_debug_and_for_protected_tools_outputs_come_whole(change):
    agent = agent_fetching("table", replace(PRESETS["early"], **change))
    list(agent.run("Fetch."))
    assert agent.session.history == agent.session.transcript


def test_what_the_model_has_recalled_is_not_shortened_again():
    said = Session([("tool", rows(), "1", "fetch"), ("tool", rows(), "2", "recall")])
    assert newest_shortened(said, PRESETS["early"], COUNTER) is None
    first = Session(said.transcript[:1])
    assert newest_shortened(first, PRESETS["early"], COUNTER) is not None


def test_undo_is_about_compactions_not_about_outputs_that_came_short():
    agent = agent_fetching("table", PRESETS["early"])
    list(agent.run("Fetch."))
    list(agent.undo_compaction())
    assert agent.session.history != agent.session.transcript


def test_an_output_that_came_short_ends_nothing_that_can_be_redone():
    agent = agent_fetching("table", PRESETS["early"])
    said = [("user", LONG), ("assistant", LONG)]
    folded = Compaction("c", 0, 2, "<summary>It is late.</summary>")
    agent.switch(Session(said, compactions=[folded]))
    list(agent.undo_compaction())
    list(agent.run("Fetch."))
    list(agent.redo_compaction())
    assert agent.session.history[0] == folded.entry


def test_a_reloaded_session_counts_on_though_outputs_came_short():
    agent = agent_fetching("table", PRESETS["early"])
    list(agent.run("Fetch."))
    other = CompactionEngine(policy="early")
    other.tracker.resume(agent.session)
    assert other.input_tokens == agent.engine.input_tokens
    assert other.tracker.context_tokens(
        agent.session
    ) == agent.engine.tracker.context_tokens(agent.session)


def test_a_failed_summary_by_hand_leaves_the_history_and_says_why():
    agent = Agent(
        ScriptedProvider(fails(RequestRefused("no such model"))),
        engine=CompactionEngine(policy="token-window"),
        session=chat(5),
    )
    events = list(agent.compact())
    assert isinstance(events[-1], CompactionFailed)
    assert "No such model" in events[-1].reason
    assert agent.session.history == agent.session.transcript
