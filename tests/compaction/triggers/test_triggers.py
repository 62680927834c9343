"""When to compact: what a reading of the meters leads to."""

import pytest
from tables import every

from nbchat.compaction.policies import PRESETS, Policy, policy_named
from nbchat.compaction.triggers.triggers import MeterReadings, decide
from nbchat.errors import ConfigError


def reading(**changed) -> MeterReadings:
    nothing = {"threshold": None, "context_tokens": 1_000, "window_limit": None}
    return MeterReadings(**({"input_tokens": 5_000} | nothing | changed))


@every(
    ("changed", "trigger"),
    [
        ({"threshold": 5_000}, "cumulative"),
        ({"threshold": 5_001}, ""),
        ({"window_limit": 1_000}, "window"),
        ({"window_limit": 1_001}, ""),
        ({"reread_cost": 0.02, "compaction_cost": 0.02}, "auto"),
        ({"reread_cost": 0.01, "compaction_cost": 0.02}, ""),
        ({"threshold": 5_000, "window_limit": 1_000}, "cumulative"),
        (
            {"reread_cost": 0.0, "compaction_cost": 0.02, "window_limit": 1_000},
            "window",
        ),
        ({}, ""),
    ],
)
def test_the_first_meter_at_its_limit_fires(changed, trigger: str):
    decision = decide(reading(**changed))
    assert decision.trigger == trigger
    assert bool(decision) is bool(trigger)


def test_no_meter_fires_before_the_context_has_grown():
    full = {"threshold": 1, "window_limit": 1, "compaction_cost": 0.0}
    decision = decide(reading(**full, least_context=1_001))
    assert not decision
    assert "reaches about 1k tokens" in decision.reason


def test_a_meter_at_rest_leaves_the_guard_on():
    full = reading(threshold=1, window_limit=900, paused=frozenset({"cumulative"}))
    assert decide(full).trigger == "window"
    silent = reading(threshold=1, paused=frozenset({"cumulative"}))
    assert not decide(silent)


def test_the_reason_says_how_far_each_meter_is():
    told = decide(reading(threshold=9_000, window_limit=8_000)).reason
    assert "Compacts after 9k input tokens. So far: 5k." in told
    assert "Compacts at about 8k tokens." in told
    priced = reading(reread_cost=0.0101, compaction_cost=0.02, is_priced=True)
    assert "$0.0101 of $0.0200" in decide(priced).reason
    unpriced = reading(reread_cost=0.0101, compaction_cost=0.02)
    assert "10,100 tokens of 20,000 tokens" in decide(unpriced).reason


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: Policy("x", meter="windwo"),
            "meter can't be 'windwo'. Choose one of cumulative",
        ),
        (lambda: Policy("x", least_tokens=-1), "least_tokens can't be -1"),
        (lambda: policy_named("atuo"), "Choose one of single-summary, "),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(make, said: str):
    with pytest.raises(ConfigError, match=said) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_the_presets_differ_in_what_triggers_them():
    meters = {name: policy.meter for name, policy in PRESETS.items()}
    assert meters == {
        "single-summary": "cumulative",
        "tiered": "window",
        "recent-messages": "window",
        "early": "window",
        "token-window": "window",
        "extractive": "cumulative",
        "auto": "auto",
        "off": "off",
    }
