"""When it is time, when it is of no use, and what that costs (gates C3, C4)."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from nbchat.agent.agent import Agent
from nbchat.chat.context_commands import _threshold
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.compaction.summary_format import summary_entry
from nbchat.compaction.triggers.context_tracker import ContextTracker
from nbchat.compaction.triggers.triggers import RATIOS, Spending, reread_cost
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.events import (
    Compacted,
    CompactionChanged,
    CompactionFailed,
    CompactionSkipped,
    Event,
)
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError, ContextOverflow
from nbchat.providers.base import Request
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.tokens import SPARE_SIZES, TokenCounter
from nbchat.rendering.banners import compaction_text, notice_text
from nbchat.testing import Line, ScriptedProvider, fails, says

STORY = "The customer asks about order W100 and its parcel. " * 20
SHORT = "<summary>The parcel of W100 is late.</summary>"


def chatting(
    summary: str = SHORT, *, overhead: int = 0, window: int | None = 100_000
) -> ScriptedProvider:
    """Tells the story again and again; `overhead` is what only the server sees."""

    def answer(request: Request) -> Line:
        text = summary if request.answer_tag else STORY
        counted = provider.count_tokens(request) + overhead
        return Line(text, usage=Usage(counted, COUNTER.count(text)))

    provider = ScriptedProvider(*[answer] * 1_000, window=window)
    return provider


COUNTER = TokenCounter()


def turns(agent: Agent, number: int) -> list[Event]:
    return [event for place in range(number) for event in agent.run(f"Turn {place}.")]


def of(kind: type, events: list[Event]) -> list:
    return [event for event in events if isinstance(event, kind)]


def summary_calls(provider: ScriptedProvider) -> int:
    return sum(bool(request.answer_tag) for request in provider.requests)


# What automatic compaction costs where it cannot help.


@pytest.mark.slow
def test_an_overhead_only_the_server_sees_costs_two_summaries_in_fifty_turns():
    """Gate C4: the meter would fire at every turn."""
    provider = chatting(overhead=6_000)
    agent = Agent(provider, engine=CompactionEngine(5_000))
    events = turns(agent, 50)
    assert 1 <= summary_calls(provider) <= 2
    notices = [skipped.reason for skipped in of(CompactionSkipped, events)]
    (notice,) = [text for text in notices if "is paused until" in text]
    assert "above the threshold of 5,000" in notice
    assert len(notices) <= 2
    assert "\n" not in notice


@pytest.mark.slow
def test_tools_that_outgrow_the_threshold_cost_one_notice_and_no_summary():
    """Gate C4, where the overhead is known: a smaller window after a change of model."""
    provider = chatting()
    agent = Agent(provider, system="Be kind. " * 1_400, max_output_tokens=10)
    turns(agent, 3)
    small = chatting(window=5_000)
    agent.use(small)
    assert agent.engine.tracker.fixed_tokens > 3_750
    events = turns(agent, 50)
    assert summary_calls(small) == 0
    (skipped,) = of(CompactionSkipped, events)
    assert "alone take 4,201 tokens, above the limit of 3,000" in skipped.reason
    assert "is paused until" in skipped.reason


@pytest.mark.slow
@pytest.mark.parametrize("tokens_each_turn", [60, 600])
@pytest.mark.parametrize("policy", ["single-summary", "auto"])
def test_a_model_that_never_writes_a_summary_is_asked_less_and_less_often(
    policy: str, tokens_each_turn: int
):
    """Gate C4, however fast the meter runs."""
    provider = chatting("no tags", overhead=tokens_each_turn)
    agent = Agent(provider, engine=CompactionEngine(100, policy=policy))
    events = turns(agent, 50)
    assert summary_calls(provider) <= 7  # 2, then 1 after 1, 2, 4, 8 and 16 requests
    failures = of(CompactionFailed, events)
    assert 4 <= len(failures) <= 6
    for wait, failure in zip((1, 2, 4, 8), failures, strict=False):
        requests = "1 request" if wait == 1 else f"{wait} requests"
        expected = (
            f" nbchat tries again after {requests}. The conversation is unchanged."
        )
        assert notice_text(failure).endswith(expected)
    assert agent.session.history == agent.session.transcript


@pytest.mark.slow
def test_without_summaries_the_guard_retries_less_and_less_often():
    provider = chatting("no tags", window=4_000)
    agent = Agent(provider, engine=CompactionEngine(policy=Policy("g", "window")))
    events = turns(agent, 50)
    made = of(Compacted, events)
    assert len(made) > 3
    assert {event.compaction.status for event in made} == {"degraded"}
    assert 5 <= summary_calls(provider) <= 8
    assert agent.engine.tracker.context_tokens(agent.session) < 4_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda agent: agent.engine.tracker.set_threshold(5_500),
        lambda agent: agent.engine.tracker.use_policy(Policy("mine")),
        lambda agent: agent.use(chatting(window=90_000)),
        lambda agent: list(agent.compact()),
        lambda agent: list(agent.undo_compaction()),
    ],
    ids=["threshold", "policy", "model", "by hand", "undo"],
)
def test_automatic_compaction_tries_again_when_something_changes(
    change: Callable[[Agent], object],
):
    agent = Agent(chatting(overhead=6_000), engine=CompactionEngine(5_000))
    turns(agent, 50)
    assert of(Compacted, turns(agent, 20)) == []
    change(agent)
    agent.provider = chatting(overhead=6_000)
    assert of(Compacted, turns(agent, 30)) != []


def test_a_compaction_that_helps_resets_the_failures():
    engine = CompactionEngine(100)
    session = Session([("user", "Hi"), ("assistant", STORY)])
    for kept in (400, 20, 400, 20):
        record = Compaction(
            "c", 0, 2, "", 600, kept, trigger="cumulative", committed_at=2
        )
        engine.tracker.reset(record)
        engine.update_token_count(Usage(kept, 0), position=2)
        engine.should_compact(session)
        assert engine.tracker.reason_to_skip("cumulative") == ""


def test_a_pruning_does_not_reset_the_failures():
    engine = CompactionEngine(100)
    session = Session([("user", "Hi"), ("assistant", STORY)])
    engine.should_compact(session)
    engine.tracker.record_failure(session)
    pruned = Compaction("p", 0, 2, "", 300, 100, trigger="cumulative", kind="pruning")
    engine.tracker.reset(pruned)
    assert (engine.tracker.failures, engine.tracker.may_ask("cumulative")) == (1, False)
    engine.tracker.reset(
        Compaction("c", 0, 2, "<summary>x</summary>", 300, 100, trigger="auto")
    )
    assert (engine.tracker.failures, engine.tracker.may_ask("cumulative")) == (0, True)


# When the next one comes.


def test_after_a_success_the_context_must_grow_by_a_quarter():
    provider = chatting()
    agent = Agent(provider, engine=CompactionEngine(1_000), system="Be kind. " * 300)
    sizes = []
    for place in range(12):
        made = of(Compacted, list(agent.run(f"Turn {place}.")))
        sizes += [(e.compaction.tokens_before, e.compaction.tokens_after) for e in made]
    assert len(sizes) >= 2
    for (_, after), (before, _) in pairwise(sizes):
        assert before >= after * 1.25


def test_growth_is_waited_for_only_within_the_window():
    info = ModelInfo("m", window=10_000, output_limit=0)
    engine = CompactionEngine(
        policy=Policy("w", "window", window_share=0.95), info=info
    )
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    engine.tracker.reset(Compaction("c", 0, 2, "", 9_600, 9_000, committed_at=2))
    engine.update_token_count(Usage(9_990, 0), position=2)
    assert not engine.should_compact(kept)
    engine.update_token_count(Usage(10_000, 0), position=2)
    assert engine.should_compact(kept).trigger == "window"


def test_too_little_to_compact_is_reported_once_and_waited_out():
    """A tenth of the context must be new: less would not pay for the summary."""
    provider = chatting(overhead=20_000)
    agent = Agent(provider, engine=CompactionEngine(30_000))
    events = turns(agent, 6)
    (skipped,) = of(CompactionSkipped, events)
    assert "tokens could be compacted" in skipped.reason
    assert summary_calls(provider) == 0


def test_the_least_that_pays_is_the_policys():
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    some = CompactionEngine(policy=Policy("some", least_tokens=200))
    more = CompactionEngine(policy=Policy("more", least_tokens=2_000))
    assert some.plan(kept, trigger="cumulative").skip == ""
    assert "could be compacted" in more.plan(kept, trigger="cumulative").skip
    assert more.plan(kept, trigger="manual").skip == ""


def test_a_refused_request_compacts_less_than_the_policys_least():
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    more = CompactionEngine(policy=Policy("more", least_tokens=2_000))
    assert more.plan(kept, trigger="overflow").skip == ""
    tiny = Session([("user", "Hi"), ("assistant", "Hello.")])
    assert "could be compacted" in more.plan(tiny, trigger="overflow").skip


def test_an_earlier_summary_is_nothing_new_to_compact():
    long_ago = Compaction("c", 0, 2, f"<summary>{STORY}</summary>")
    transcript = [
        ("user", "Hi"),
        ("assistant", "Yes?"),
        ("user", "a"),
        ("assistant", "b"),
    ]
    kept = Session(transcript, compactions=[long_ago])
    skip = CompactionEngine().plan(kept, trigger="cumulative").skip
    assert skip.startswith("Only 10 of")


def test_after_a_failure_the_meters_wait_and_a_new_threshold_ends_the_wait():
    engine = CompactionEngine(100, info=ModelInfo("m", window=1_000, output_limit=0))
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    engine.update_token_count(Usage(800, 0), position=2)
    for failures in (1, 2):
        assert engine.should_compact(kept).trigger == "cumulative"
        engine.tracker.record_failure(kept)
        for _ in range(failures):
            assert not engine.should_compact(kept)
            engine.update_token_count(Usage(100, 700), position=2)
    assert engine.should_compact(kept).trigger == "cumulative"
    engine.tracker.record_failure(kept)
    assert not engine.should_compact(kept)
    engine.tracker.set_threshold(101)
    assert engine.should_compact(kept).trigger == "cumulative"


def test_while_a_failed_summary_waits_a_context_that_grows_is_compacted_by_code():
    engine = CompactionEngine(100, info=ModelInfo("m", window=1_000, output_limit=0))
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    engine.update_token_count(Usage(800, 0), position=2)
    engine.tracker.record_failure(kept)
    engine.tracker.record_failure(kept)
    engine.update_token_count(Usage(100, 779), position=2)
    assert not engine.should_compact(kept)
    engine.tracker.record_failure(kept)
    engine.update_token_count(Usage(100, 868), position=2)
    assert engine.should_compact(kept).trigger == "window"
    assert not engine.tracker.may_ask("window")


def test_a_summary_that_code_wrote_is_replaced_by_one_of_a_model():
    replies = iter(["no tags", "no tags", "no tags", "no tags", SHORT])

    def answer(request: Request) -> Line:
        return says(next(replies, SHORT) if request.answer_tag else STORY)

    provider = ScriptedProvider(*[answer] * 99, window=4_000)
    agent = Agent(provider, engine=CompactionEngine(policy=Policy("g", "window")))
    states, told = [], []
    for number in range(40):
        for event in agent.run(f"Turn {number}."):
            if isinstance(event, Compacted | CompactionFailed | CompactionChanged):
                states.append((event.compaction.status, event.compaction.revision))
                told.append(compaction_text(event.compaction))
        if states and states[-1][1]:
            break
    assert states == [("degraded", ""), ("failed", ""), ("failed", ""), DONE_AGAIN]
    assert " nbchat tries again after 1 request." in told[0]
    assert " nbchat tries again after 2 requests." in told[1]
    assert " nbchat tries again after 4 requests." in told[2]
    assert agent.session.compaction.trigger == "window"
    assert "The parcel of W100 is late." in agent.session.history[0].content


DONE_AGAIN = ("done", "regenerated")


@pytest.mark.parametrize("policy", ["token-window", "recent-messages", "tiered"])
def test_a_resumed_summary_of_code_is_replaced_in_every_policy(policy: str):
    by_code = Compaction(
        "c", 0, 4, summary_entry("By code.", []).content, 900, 60, status="degraded"
    )
    said = [
        ("user", "Hi"),
        ("assistant", STORY),
        ("user", "And?"),
        ("assistant", STORY),
    ]
    kept = Session(
        [*said, ("user", "So?"), ("assistant", "Well.")], compactions=[by_code]
    )
    told = '{"overview": "W100 is late."}' if policy == "tiered" else "W100 is late."
    provider = ScriptedProvider(says(f"<summary>{told}</summary>"), says("Yes."))
    agent = Agent(provider, engine=CompactionEngine(policy=policy), session=kept)
    assert agent.ask("Is it late?") == "Yes."
    assert kept.compaction.status == "done"
    assert "W100 is late." in kept.history[0].content


def test_a_system_prompt_that_grows_is_part_of_the_context_at_once():
    engine = CompactionEngine()
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    engine.tracker.use_model(ModelInfo("m"), fixed_texts=(" word" * 100,))
    engine.update_token_count(Usage(800, 50), position=2)
    engine.tracker.use_model(ModelInfo("m"), fixed_texts=(" word" * 400,))
    assert engine.tracker.context_tokens(kept) == 1_150


def test_what_is_pinned_is_part_of_the_context_at_once():
    agent = Agent(ScriptedProvider(says("Hi.", tokens=800)))
    turns(agent, 1)
    before = agent.engine.tracker.context_tokens(agent.session)
    next(agent.pin("word " * 1_000))
    grown = agent.engine.tracker.context_tokens(agent.session) - before
    assert 1_000 <= grown == agent.engine.tracker.fixed_tokens <= 1_050
    list(agent.unpin(1))
    assert agent.engine.tracker.context_tokens(agent.session) == before


def test_another_session_has_its_own_pins():
    agent = Agent(ScriptedProvider())
    agent.switch(Session(pins=["word " * 1_000]))
    assert agent.engine.tracker.fixed_tokens >= 1_000
    agent.switch(Session())
    assert agent.engine.tracker.fixed_tokens == 0


def test_a_compaction_that_was_cut_short_is_no_new_beginning():
    cut = Compaction("c", 0, 2, "", status="running", committed_at=2)
    kept = Session(
        [("user", "Hi"), ("assistant", STORY)],
        usages=[(2, Usage(90, 1))],
        compactions=[cut],
    )
    engine = CompactionEngine(100)
    engine.tracker.resume(kept)
    assert engine.input_tokens == 90


# Off is off.


def test_off_means_off_on_overflow_too_and_by_hand_it_still_works():
    """Mode 9."""
    provider = ScriptedProvider(
        *[says(STORY, tokens=99_000)] * 3,
        fails(ContextOverflow("too long")),
        says(SHORT),
    )
    agent = Agent(provider, engine=CompactionEngine(100, policy="off"))
    assert of(CompactionSkipped, turns(agent, 3)) == []
    events = turns(agent, 1)
    assert events[-1].message.startswith("too long")
    assert len(provider.requests) == 4
    assert agent.session.compactions == []
    (skipped,) = of(CompactionSkipped, events)
    assert skipped.reason == "The policy off compacts only on request."
    assert of(Compacted, list(agent.compact())) != []


def test_a_policy_without_a_threshold_says_so_and_needs_none():
    engine = CompactionEngine(100, policy="auto")
    engine.tracker.use_model(ModelInfo("m"), fixed_texts=(" word" * 6_000,))
    assert engine.context_token_threshold is None
    with pytest.raises(ConfigError):
        engine.tracker.set_threshold(0)
    agent = Agent(chatting(), engine=CompactionEngine(policy="off"))
    assert "no threshold" in _threshold(agent, "2000", None)


def test_a_refused_model_leaves_the_tracker_unchanged():
    engine = CompactionEngine(5_000, info=ModelInfo("old", window=8_000))
    with pytest.raises(ConfigError, match="tools alone take 6,000"):
        engine.tracker.use_model(ModelInfo("new"), fixed_texts=(" word" * 6_000,))
    assert (engine.tracker.info.name, engine.tracker.fixed_tokens) == ("old", 0)


def test_the_window_alone_is_a_policy_too():
    engine = CompactionEngine(
        100, policy=Policy("w", "window"), info=ModelInfo("m", window=1_000)
    )
    kept = Session([("user", STORY), ("assistant", STORY)])
    engine.update_token_count(Usage(500, 0), position=2)
    assert not engine.should_compact(kept)
    engine.update_token_count(Usage(700, 0), position=2)
    assert engine.should_compact(kept).trigger == "window"


# Auto: what re-reading has cost against what compacting would.


def ticket_run(*, is_cached: bool, policy: str | Policy = "auto") -> list[int]:
    """Requests of the published ticket run after which `auto` would compact first.

    37 requests grow from 1,537 to 9,475 tokens, of which 1,500 are system and tools.
    """
    engine = CompactionEngine(policy=policy)
    engine.tracker.use_model(ModelInfo("m"), fixed_texts=(" word" * 1_500,))
    kept = Session()
    due, before = [], 0
    for number in range(37):
        size = 1_537 + round((9_475 - 1_537) / 36 * number)
        read = before if is_cached else 0
        written = size - before if is_cached else 0
        usage = Usage(size, 60, read, written)
        kept.append(Entry("user", "x"))
        kept.append(Entry("assistant", "y"), usage)
        engine.update_token_count(usage, position=len(kept.transcript))
        before = size
        if engine.should_compact(kept):
            due.append(number)
    return due


def test_auto_compacts_early_without_a_cache_and_late_or_never_with_one():
    without, cached = ticket_run(is_cached=False), ticket_run(is_cached=True)
    assert 5 <= without[0] <= 20
    assert cached[:1] >= [25] or cached == []


def test_what_a_response_reads_for_the_first_time_is_not_reread():
    spending = Spending()
    spending.add(Usage(9_000, 100), RATIOS)
    assert spending.reread_cost(2_000) == 0
    spending.add(Usage(9_500, 100), RATIOS)
    assert spending.reread_cost(2_000) * 1e6 == pytest.approx(9_100 - 2_000)


def test_a_cold_cache_makes_a_compaction_free():
    """After five minutes the whole context is read at the full price in any case."""
    now = 0.0
    tracker = ContextTracker(None, "auto", ModelInfo("m"), clock=lambda: now)
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    for size in range(20_000, 22_500, 500):
        used = Usage(size, 100, cache_read_tokens=size - 500, cache_write_tokens=500)
        tracker.update_token_count(used, position=2)
    assert not tracker.should_compact(kept)
    now = 299.0
    assert not tracker.should_compact(kept)
    now = 301.0
    assert tracker.should_compact(kept).trigger == "auto"


def test_a_session_that_was_resumed_has_a_cold_cache():
    used = [Usage(n, 100, n - 500, 500) for n in range(20_000, 22_500, 500)]
    kept = Session(
        [("user", "Hi"), ("assistant", STORY)], usages=[(2, usage) for usage in used]
    )
    tracker = ContextTracker(None, "auto", ModelInfo("m"))
    tracker.resume(kept)
    assert tracker.should_compact(kept).trigger == "auto"


def test_what_is_reread_costs_what_the_cache_makes_of_it():
    usage = Usage(1_000, 0, cache_read_tokens=600, cache_write_tokens=300)
    spans = {
        (0, 600): 60,
        (600, 900): 375,
        (900, 1_000): 100,
        (500, 950): 10 + 375 + 50,
    }
    for (start, stop), worth in spans.items():
        assert reread_cost(
            usage, RATIOS, start=start, stop=stop
        ) * 1e6 == pytest.approx(worth)
    assert reread_cost(usage, RATIOS, start=2_000, stop=3_000) == 0
    assert reread_cost(usage, RATIOS, start=900, stop=3_000) * 1e6 == pytest.approx(100)


def test_a_compaction_is_cheaper_where_its_request_reads_the_cache():
    spending = Spending()
    sizes = {"context_tokens": 9_000, "fixed_tokens": 1_500, "summary_tokens": 800}
    alone = spending.compaction_cost(RATIOS, **sizes, shares_prefix=False)
    assert alone * 1e6 == pytest.approx(7_500 + 400 + 4_000)
    assert spending.compaction_cost(RATIOS, **sizes, shares_prefix=True) == alone
    spending.add(Usage(9_000, 0, 8_800, 200), RATIOS, kept_tokens=0)
    rewritten = 2_300 * 1.15
    apart = spending.compaction_cost(RATIOS, **sizes, shares_prefix=False)
    assert apart * 1e6 == pytest.approx(7_900 * 1.25 + 4_000 + rewritten)
    shared = spending.compaction_cost(RATIOS, **sizes, shares_prefix=True)
    assert shared * 1e6 == pytest.approx(900 + 400 * 1.25 + 4_000 + rewritten)


def requests_until_due(usage: Usage, threshold: int | None, policy: str) -> int:
    info = ModelInfo("m", window=16_000)
    engine = CompactionEngine(threshold, policy=policy, info=info)
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    for number in range(1, 100):
        engine.update_token_count(usage, position=2)
        if engine.should_compact(kept):
            return number
    raise AssertionError("it was never due")


@pytest.mark.parametrize(
    ("threshold", "policy", "fresh", "cached"),
    [
        (12_000, "single-summary", 3, 3),
        (None, "single-summary", 3, 10),  # three quarters of the window, and it pays
        (None, "extractive", 3, 3),  # by code it costs next to nothing
    ],
)
def test_where_no_threshold_is_set_a_compaction_waits_until_it_pays(
    threshold: int | None, policy: str, fresh: int, cached: int
):
    assert requests_until_due(Usage(4_000, 10), threshold, policy) == fresh
    read = Usage(4_000, 10, cache_read_tokens=3_900)
    assert requests_until_due(read, threshold, policy) == cached


def test_while_a_compaction_does_not_pay_it_is_told_to_come_later():
    engine = CompactionEngine(None, info=ModelInfo("m", window=16_000))
    kept = Session([("user", "Hi"), ("assistant", STORY)])
    for _ in range(4):
        engine.update_token_count(Usage(4_000, 10, 3_900), position=2)
    due = engine.tracker.due_at(kept)
    assert due is not None
    assert 20_000 < due < 60_000
    shown = engine.tracker.outlook(kept)
    assert f"Compacts after {round(due / 1_000)}k input tokens. So far: 16k." in shown


@pytest.mark.parametrize("name", ["cumulative", "auto"])
def test_a_decision_counts_what_is_new_however_long_the_conversation(name: str):
    def counted(length: int) -> int:
        engine = CompactionEngine(policy=Policy("p", meter=name))
        engine.tracker.counter = CountingCounter()
        kept = Session([("user", "x"), ("assistant", "y")] * length)
        engine.update_token_count(Usage(9_000, 9), position=len(kept.transcript))
        kept.append(Entry("user", "new"))
        engine.should_compact(kept)
        return engine.tracker.counter.counted

    assert counted(10) == counted(5_000) == 1


def test_of_what_was_compacted_only_sums_of_tokens_are_kept():
    agent = Agent(chatting())
    tracker = agent.engine.tracker
    tracker.counter = counter = NotingCounter()
    turns(agent, 10)
    sums = list(tracker.transcript_tokens(agent.session))
    counter.count_entries(Entry("tool", f"{n}") for n in range(2 * SPARE_SIZES))
    for _ in agent.compact():
        pass
    assert agent.session.compaction is not None
    counter.looked_at.clear()
    assert list(tracker.transcript_tokens(agent.session)) == sums
    assert counter.looked_at == []
    covered = agent.session.transcript[: agent.session.compaction.stop]
    assert counter.count_entries(covered) == sums[len(covered)]
    assert len(counter.looked_at) == len({*covered})


class NotingCounter(TokenCounter):
    """Notes each entry that is counted and not found in the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[Entry] = []

    def count_entry_once(self, entry: Entry) -> int:
        self.looked_at.append(entry)
        return super().count_entry_once(entry)


class CountingCounter(TokenCounter):
    counted = 0

    def count_entry(self, entry: Entry) -> int:
        self.counted += 1
        return super().count_entry(entry)


@pytest.mark.slow
def test_auto_runs_through_the_agent_and_names_its_price():
    provider = chatting()
    agent = Agent(provider, engine=CompactionEngine(policy="auto"))
    events, reasons = list[Event](), list[str]()
    for _ in range(40):
        events += turns(agent, 1)
        reasons.append(agent.engine.should_compact(agent.session).reason)
    made = [event.compaction for event in of(Compacted, events)]
    assert {record.trigger for record in made} == {"auto"}
    assert 1 <= len(made) <= 10
    assert any("sending everything again has cost" in reason for reason in reasons)
