"""When the engine compacts, what it proposes, and that it never harms a history."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from driving import finished
from tables import every

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS, Policy
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError, ModelFileError, Overloaded, RequestRefused
from nbchat.providers.model_info import ModelInfo
from nbchat.testing import Line, ScriptedProvider, calls, fails, says

LONG = "The customer asks about order W100 and its parcel. " * 20


def session(*contents: str) -> Session:
    roles = ["user", "assistant"] * len(contents)
    return Session(list(zip(roles, contents, strict=False)))


def compact(
    engine: CompactionEngine, kept: Session, *lines: Line, trigger: str = "manual"
) -> Compaction:
    plan = engine.plan(kept, trigger=trigger)
    return finished(engine.compact(kept, ScriptedProvider(*lines), plan))


def test_the_defaults_are_those_of_the_design():
    engine = CompactionEngine()
    assert engine.context_token_threshold == 5_000
    assert engine.policy.name == "single-summary"
    assert (engine.summary_prompt, engine.summary_model) == (None, None)


def test_without_a_set_threshold_it_is_three_quarters_of_the_window():
    engine = CompactionEngine(None, info=ModelInfo("m", window=8_000))
    assert engine.context_token_threshold == 6_000
    assumed = CompactionEngine(None, info=ModelInfo("m"))
    assert assumed.context_token_threshold == 24_000


def test_the_window_guard_fires_when_the_context_fills_whatever_the_sum_is():
    info = ModelInfo("m", window=1_000, output_limit=200)
    engine = CompactionEngine(1_000_000, info=info)
    kept = session("hello", "hi")
    engine.update_token_count(Usage(630, 5), position=2)
    assert not engine.should_compact(kept)
    kept.append(Entry("user", "x"))
    assert engine.should_compact(kept).trigger == "window"


def test_usage_from_before_a_compaction_does_not_trigger_the_next():
    engine = CompactionEngine(100)
    kept = Session(
        [("user", LONG), ("assistant", "a"), ("user", "b"), ("assistant", "c")],
        usages=[(2, Usage(90, 1)), (4, Usage(30, 1))],
        compactions=[Compaction("c", 0, 2, "<summary>x</summary>", committed_at=2)],
    )
    engine.tracker.resume(kept)
    assert engine.input_tokens == 30


def test_a_plan_is_a_dry_run_with_the_reason_to_skip():
    engine = CompactionEngine()
    assert engine.plan(Session()).skip == "There's nothing new to compact."
    waiting = Session([("user", LONG), ("assistant", "", "1", "look", "{}")])
    assert "still waiting" in engine.plan(waiting).skip
    assert (
        "tokens could be compacted"
        in engine.plan(session("a", "b"), trigger="cumulative").skip
    )
    plan = engine.plan(session(LONG, LONG))
    assert (plan.skip, plan.start, plan.stop) == ("", 0, 2)
    assert plan.tokens_after < plan.tokens_before


def test_the_newest_entries_stay_when_the_policy_keeps_them_in_whole_units():
    kept = Session(
        [("user", LONG), ("assistant", LONG), ("user", "and now?")]
        + [("assistant", "", "1", "look", "{}"), ("tool", "found", "1", "look")]
    )
    engine = CompactionEngine(policy=Policy("tail", keep=1))
    plan = engine.plan(kept)
    assert plan.stop == 3


@every(
    ("line", "code"),
    [
        (says(""), "no-tags"),
        (says("   "), "no-tags"),
        (says("I can't help with that.", stop_reason="refusal"), "refusal"),
        (says("They talked about a parcel."), "no-tags"),
        (says("<summary>They talked ab", stop_reason="max_tokens"), "max-tokens"),
        (says(f"<summary>{LONG * 5}</summary>"), "not-smaller"),
        (calls("look"), "tool-call"),
        (fails(RequestRefused("no such model")), "RequestRefused"),
    ],
)
def test_a_bad_summary_leaves_the_history_untouched_and_says_why(line: Line, code: str):
    kept = session(LONG, LONG)
    before = list(kept.history)
    record = compact(CompactionEngine(), kept, line, line)
    assert (record.status, record.code) == ("failed", code)
    assert record.reason
    kept.compactions.append(record)
    assert kept.history == before


def test_a_refused_answer_is_asked_for_once_more_with_the_reason():
    kept = session(LONG, LONG)
    provider = ScriptedProvider(says("no tags"), says("<summary>Short.</summary>"))
    engine = CompactionEngine()
    work = engine.compact(kept, provider, engine.plan(kept))
    record = finished(work)
    assert record.status == "done"
    again = provider.requests[1].history[0].content
    assert "refused: the answer has no summary (no <summary>" not in again  # escaped
    assert "refused: the answer has no summary (no &lt;summary>" in again
    assert record.cost.input_tokens > provider.count_tokens(provider.requests[0])


@pytest.mark.parametrize("trigger", ["window", "overflow"])
def test_where_the_window_is_full_code_does_without_a_model(trigger: str):
    kept = session(LONG, f"W100 is in Lisbon. {LONG}", "And W200?", f"In Oslo. {LONG}")
    broken = fails(RequestRefused("the summariser is gone"))
    record = compact(CompactionEngine(), kept, broken, trigger=trigger)
    assert (record.status, record.reason) == ("degraded", "The summariser is gone.")
    assert "And W200?" in record.summary
    kept.compactions.append(record)
    assert [entry.role for entry in kept.history] == ["summary"]


def test_a_failed_summary_changes_nothing_while_the_window_is_not_full():
    kept = session(LONG, LONG)
    broken = fails(RequestRefused("the summariser is gone"))
    record = compact(CompactionEngine(), kept, broken, trigger="cumulative")
    assert (record.status, record.summary) == ("failed", "")


def test_a_failed_compaction_is_no_new_beginning_for_the_meter():
    engine = CompactionEngine(100)
    kept = Session(
        [("user", LONG), ("assistant", "a")],
        usages=[(2, Usage(90, 1))],
        compactions=[Compaction("c", 0, 2, "", status="failed", committed_at=2)],
    )
    engine.tracker.resume(kept)
    assert engine.input_tokens == 90


def test_a_refused_compaction_is_not_tried_again_at_once():
    engine = CompactionEngine(100)
    kept = session(LONG, LONG)
    engine.update_token_count(Usage(120, 1))
    engine.tracker.cool_down(kept)
    assert not engine.should_compact(kept)
    engine.update_token_count(Usage(100, 1))
    assert engine.should_compact(kept)


def test_an_unanswered_prompt_is_never_compacted():
    kept = session(LONG, LONG, "What about W200?")
    record = compact(CompactionEngine(), kept, says("<summary>Short.</summary>"))
    kept.compactions.append(record)
    assert kept.history[1:] == [Entry("user", "What about W200?")]


def tool_work(*results: str) -> list[Entry]:
    """The calls of one request; the model has read all results but the last."""
    numbered = list(enumerate(results))
    made = [
        (
            Entry("assistant", "", f"c{n}", "close", f'{{"ticket": "T{n}"}}'),
            Entry("tool", text, f"c{n}", "close"),
        )
        for n, text in numbered
    ]
    return [entry for pair in made for entry in pair]


def test_in_the_middle_of_tool_work_the_request_is_kept_word_for_word():
    asked = [("user", "Close T0 and T1, never T3."), ("assistant", LONG)]
    kept = Session([*asked, *tool_work("closed", "closed")])
    record = compact(CompactionEngine(), kept, says("<summary>T0 is closed.</summary>"))
    assert "\n- Close T0 and T1, never T3.\n" in record.summary


@every(
    ("policy", "trigger"),
    [*zip(sorted({*PRESETS} - {"off"}), cycle(["manual", "window", "overflow"]))],
)
def test_an_output_is_not_compacted_before_the_model_has_read_it(
    policy: str, trigger: str
):
    unread = tool_work(LONG * 10, LONG * 20)[2:]
    kept = Session([("user", "Close all."), *tool_work(LONG * 10), *unread])
    engine = CompactionEngine(policy=policy, info=ModelInfo("m", window=8_000))
    closed = says("<summary>T0 is closed.</summary>")
    record = compact(engine, kept, closed, trigger=trigger)
    kept.compactions.append(record)
    assert kept.history[1:] == unread


def test_an_output_that_came_before_a_newer_message_is_not_compacted_either():
    unread = [*tool_work(LONG * 10, LONG * 20)[2:], Entry("user", "Go on, please.")]
    kept = Session([("user", "Close all."), *tool_work(LONG * 10), *unread])
    record = compact(CompactionEngine(), kept, says("<summary>T0 is closed.</summary>"))
    kept.compactions.append(record)
    assert kept.history[1:] == unread


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name in PRESETS if name != "off"])
def test_of_messages_without_an_answer_only_the_newest_has_to_stay(policy: str):
    failed = [Entry("user", f"{n}: {LONG * 10}") for n in range(8)]
    kept = Session([*failed, ("user", "What about W200?")])
    engine = CompactionEngine(policy=policy, info=ModelInfo("m", window=8_000))
    told = "The customer sent the description of order W100 eight times."
    answer = says(f"<summary>{told}</summary>")
    record = compact(engine, kept, *[answer] * 4, trigger="overflow")
    assert record.stop >= 4
    kept.compactions.append(record)
    assert kept.history[-1] == Entry("user", "What about W200?")
    assert engine.tracker.counter.count_entries(kept.history) < 6_000


@pytest.mark.parametrize("size", [1, 20])
def test_the_request_fits_a_small_window_and_counts_what_it_omits(size: int):
    info = ModelInfo("m", window=2_000, output_limit=400)
    engine = CompactionEngine(info=info)
    kept = session(*(f"{n}: {LONG * size}" for n in range(40 // size)))
    text = engine.create_summary_request(engine.plan(kept)).history[0].content
    assert engine.tracker.counter.count(text) < 1_600
    assert f"The transcript is part 1 of {20 if size == 1 else 2}" in text
    assert ("characters omitted]" in text) == (size == 20)


def test_a_plan_to_skip_still_has_a_request_to_look_at():
    engine = CompactionEngine()
    request = engine.create_summary_request(engine.plan(Session()), refusal="too dull")
    assert "An earlier answer was refused: too dull." in request.history[0].content


def test_a_summary_model_that_cannot_be_had_fails_the_compaction_and_no_more():
    kept = session(LONG, LONG)
    broken = ScriptedProvider(fails(ModelFileError("no such file")))
    record = compact(CompactionEngine(summary_model=broken), kept)
    assert (record.status, record.reason) == ("failed", "No such file.")


def test_another_summary_model_writes_within_its_own_window():
    kept = session(*(f"{n}: {LONG}" for n in range(40)))
    said = says("<summary>Parcel 39 of W100 is late.</summary>")
    small = ScriptedProvider(*[said] * 20, window=2_000)
    record = compact(CompactionEngine(summary_model=small), kept)
    assert record.status == "done"
    for request in small.requests:
        assert small.count_tokens(request) + request.max_output_tokens < 2_000


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CompactionEngine(0), "above 0, not 0"),
        (lambda: CompactionEngine(policy="tierd"), "No policy named 'tierd'"),
        (lambda: Policy("x", window_share=80), "between 0 and 1"),
        (lambda: Policy("x", keep=-1), "Use 0 or more"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_set(make, said: str):
    with pytest.raises(ConfigError, match=said):
        make()


def test_a_threshold_below_the_floor_is_refused_with_the_numbers():
    engine = CompactionEngine(5_000)
    with pytest.raises(ConfigError, match="tools alone take 6,000"):
        engine.tracker.use_model(ModelInfo("m"), fixed_texts=(" word" * 6_000,))


def test_passing_faults_of_the_summariser_are_waited_out():
    kept = session(LONG, LONG)
    lines = (
        fails(Overloaded("busy", retry_after=0.0)),
        says("<summary>Short.</summary>"),
    )
    assert compact(CompactionEngine(), kept, *lines).status == "done"


def test_an_extract_that_is_no_smaller_is_refused_too():
    kept = session("W100?", "W100 is in Lisbon.")
    record = compact(CompactionEngine(policy="extractive"), kept)
    assert (record.status, record.code) == ("failed", "not-smaller")
    kept.compactions.append(record)
    assert kept.history == kept.transcript


def test_an_extract_of_an_extract_says_once_that_no_model_wrote_it():
    kept, engine = session(LONG, LONG), CompactionEngine(policy="extractive")
    for _ in range(2):
        kept.append(Entry("user", LONG))
        kept.append(Entry("assistant", LONG))
        kept.compactions.append(compact(engine, kept))
    assert kept.history[0].content.count("(Written without a model") == 1


def test_the_first_request_for_a_summary_is_the_one_the_engine_creates():
    """Also through the agent, and for another model of the same provider."""
    for model in (None, "small"):
        engine = CompactionEngine(summary_model=model, summary_prompt="List refunds.")
        provider = ScriptedProvider(says("<summary>W100 is late.</summary>"))
        agent = Agent(provider, engine=engine, session=session(LONG, LONG))
        expected = engine.create_summary_request(engine.plan(agent.session))
        list(agent.compact())
        assert provider.requests == [expected]
        assert expected.model == (model or "")


class SigningEngine(CompactionEngine):
    """Adds a line of its own to each request for a summary."""

    def create_summary_request(self, *arguments: Any, **options: Any) -> Any:
        request = super().create_summary_request(*arguments, **options)
        return replace(request, system=f"{request.system} Signed.")


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted({*PRESETS} - {"off", "extractive"}))
def test_each_request_for_a_summary_is_created_by_the_engine(policy: str):
    """Plain, shared, in parts, after a refusal, of the fallback model and again."""
    refused, good = says("No."), says("<summary>The parcel of W100 is late.</summary>")
    info = ModelInfo("m", window=3_000, output_limit=400)
    fallback = ScriptedProvider(*[good] * 99)
    engine = SigningEngine(fallback_model=fallback, policy=policy, info=info)
    provider = ScriptedProvider(refused, good, *[refused] * 9, window=3_000)
    agent = Agent(provider, engine=engine, session=session(*[LONG] * 40))
    list(agent.compact())
    list(agent.regenerate_compaction())
    sent = [*provider.requests, *fallback.requests]
    assert len(provider.requests) > 2
    assert fallback.requests
    assert all(request.system.endswith("Signed.") for request in sent)


def test_the_engine_offers_a_small_set_of_names():
    assert {name for name in dir(CompactionEngine()) if not name.startswith("_")} == {
        *("policy", "tracker", "summary_prompt", "summary_model", "fallback_model"),
        *("shares_prefix", "live_variables"),
        *("update_token_count", "input_tokens", "context_token_threshold"),
        *("should_compact", "plan", "create_summary_request", "compact"),
        *("shorten", "shorten_unread", "exclude", "include", "undo", "redo"),
        *("edit", "regenerate", "as_of_now", "threshold", "replace_history"),
    }
