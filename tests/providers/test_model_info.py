"""What is known of a model: prices that agree with the list they come from."""

import random
from datetime import UTC, datetime

import pytest
from genai_prices import types
from genai_prices.data_snapshot import get_snapshot

from nbchat.conversation.entries import Usage
from nbchat.providers.model_info import ModelInfo, Prices, model_info

LIST = get_snapshot()


def test_each_kind_of_token_has_its_price():
    prices = Prices(input=1.0, cache_read=0.1, cache_write=1.25, output=5.0)
    usage = Usage(1_000_000, 200_000, 600_000, 300_000)
    assert prices.cost(usage) == pytest.approx(0.1 + 0.06 + 0.375 + 1.0)


def test_above_a_tier_every_token_of_the_request_costs_more():
    dear = Prices(2.0, 0.2, 2.5, 10.0)
    prices = Prices(1.0, 0.1, 1.25, 5.0, ((200_000, dear),))
    assert prices.cost(Usage(200_000, 0)) == pytest.approx(0.2)
    assert prices.cost(Usage(200_001, 0)) == pytest.approx(0.400002)


def test_known_models_have_the_prices_of_their_maker():
    info = model_info("claude-sonnet-4-5", provider="anthropic")
    assert (info.prices.input, info.prices.output) == (3.0, 15.0)
    assert (info.prices.cache_read, info.prices.cache_write) == (0.3, 3.75)
    assert [start for start, _ in info.prices.tiers] == [200_000]
    assert info.cost(Usage(1_000, 100)) == pytest.approx(0.0045)


def test_without_a_price_for_writing_the_cache_it_costs_what_reading_afresh_does():
    prices = model_info("gpt-5-mini", provider="openai").prices
    assert prices.cache_write == prices.input > prices.cache_read


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("smollm2", None),  # nobody sells it
        ("gpt-5-mini", None),  # somebody's own server has the name
        ("no-such-model", "openai"),
    ],
)
def test_an_unknown_price_is_none_and_never_zero_dollars(name, provider):
    assert model_info(name, provider=provider).cost(Usage(1_000, 10)) is None


def test_a_free_model_has_no_known_price():
    free = [
        (provider.id, model.id)
        for provider in LIST.providers
        for model in provider.models
        if model.id.endswith(":free")
    ]
    assert free
    assert {model_info(name, provider=maker).prices for maker, name in free} == {None}


@pytest.mark.slow
def test_every_price_agrees_with_the_packages_own_reckoning():
    """A third of the models that charge by the token, at sizes around their tiers."""
    chance = random.Random(1)
    compared = 0
    for provider, name in [(p.id, m.id) for p in LIST.providers for m in p.models][::3]:
        ours = model_info(name, provider=provider).prices
        if ours is None:
            continue
        _, model = LIST.find_provider_model(name, None, provider, None)
        prices = model.get_prices(datetime.now(UTC))
        for size in (10, 128_000, 128_001, 200_001, 1_000_000):
            read = chance.randint(0, size)
            usage = Usage(size, 700, read, chance.randint(0, size - read))
            fee = float(prices.requests_kcount or 0) / 1_000
            compared += 1
            assert ours.cost(usage) + fee == pytest.approx(theirs(prices, usage)), name
    assert compared > 1_700


def theirs(prices: types.ModelPrice, usage: Usage) -> float:
    told = types.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    return float(prices.calc_price(told)["total_price"])


def test_a_window_that_is_set_keeps_the_known_prices():
    info = model_info("gpt-5-mini", provider="openai").with_window(8_000)
    assert (info.window, info.prices is None) == (8_000, False)
    assert ModelInfo("m").with_window(None).window is None


@pytest.mark.parametrize(
    ("name", "provider", "input_limit", "output_limit"),
    [
        ("gpt-4o", "openai", None, 16_384),
        ("gpt-4o-mini", "openai", None, 16_384),
        ("gpt-5-mini", "openai", 272_000, 128_000),
        ("gpt-5.2", "openai", 272_000, 128_000),
        ("gpt-5.4-mini", "openai", 272_000, 128_000),
        ("gpt-5.6-luna", "openai", 922_000, 128_000),
        ("gpt-6-luna", "openai", 922_000, 128_000),
        ("claude-3-5-haiku-latest", "anthropic", None, 8_192),
        ("claude-opus-4-1", "anthropic", None, 32_000),
        ("claude-opus-4-6", "anthropic", None, 64_000),
        ("claude-haiku-5-5", "anthropic", None, 64_000),
        ("gemini-3.5-flash-lite", "gemini", None, 65_536),
        ("anthropic/claude-sonnet-5-5", None, None, 64_000),
        ("smollm2", None, None, 4_096),
    ],
)
def test_a_model_has_its_own_limits(name, provider, input_limit, output_limit):
    info = model_info(name, provider=provider)
    assert (info.input_limit, info.output_limit) == (input_limit, output_limit)


def test_the_space_for_input_is_what_the_model_accepts():
    """The price list gives 400,000 tokens for gpt-5, of which 272,000 are input."""
    info = model_info("gpt-5-mini", provider="openai")
    assert (info.window, info.output_reserve, info.usable_window) == (
        *(400_000, 100_000, 272_000),
    )
    old = model_info("claude-sonnet-4-0", provider="anthropic")
    assert (old.window, old.output_reserve) == (200_000, 50_000)
    assert ModelInfo("m").usable_window is None
    assert info.with_window(400_000).input_limit == 272_000
    assert info.with_window(500_000).input_limit is None


def test_a_lower_output_limit_leaves_more_of_the_window_for_input():
    info = model_info("claude-haiku-5-5", provider="anthropic")
    assert info.with_longest_answer(None) == info
    assert info.with_longest_answer(10_000).output_limit == 10_000
    assert info.with_longest_answer(5).output_limit == 4_096
