"""What is known of a model: prices that agree with the list they come from."""

import random
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from anthropic.resources.messages.messages import DEPRECATED_MODELS
from fault_server import FaultServer, failure
from genai_prices import types
from genai_prices.data_snapshot import get_snapshot
from openai.types.chat import completion_create_params
from tables import every

from nbchat.config.settings import NbChat
from nbchat.conversation.entries import Entry, Usage
from nbchat.errors import RequestRefused
from nbchat.providers.base import Request
from nbchat.providers.connect import DEFAULT_MODELS, connect
from nbchat.providers.model_info import (
    LISTED,
    RETIREMENTS,
    ModelInfo,
    Prices,
    chat_models,
    is_retired,
    model_info,
    retirement,
)
from nbchat.providers.openai_chat import OpenAIProvider

LIST = get_snapshot()

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
HELP = str(NbChat.class_traits()["model"].help)
NAMED = {
    *DEFAULT_MODELS.values(),
    *re.findall(r"(?:anthropic|openai|gemini):[\w.-]+\w", HELP),
}


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


@pytest.mark.slow
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


@every(
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


@pytest.mark.parametrize("model", sorted(NAMED))
def test_a_model_that_we_choose_or_recommend_is_not_retired_soon(model):
    name = model.partition(":")[2]
    ending = retirement(name)
    if ending is not None and ending.is_near():
        pytest.fail(
            f"{ending.line(name)}: put it into DEFAULT_MODELS (connect.py), the help of "
            "the setting `model`, the README and the docs"
        )


def test_the_docs_name_no_model_that_is_retired_soon():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = re.findall(r"(?:anthropic|openai|gemini):([\w.-]+\w)", text)
    assert names
    endings = [(name, retirement(name)) for name in names]
    assert [name for name, ending in endings if ending and ending.is_near()] == []


@pytest.mark.parametrize("model", sorted(DEFAULT_MODELS.values()))
def test_of_a_default_model_all_limits_and_prices_are_known(model):
    kind, _, name = model.partition(":")
    info = model_info(name, provider=kind)
    assert info.window
    assert info.prices
    assert info.output_limit >= 64_000


def test_the_dates_of_anthropic_are_those_of_its_sdk():
    for name, day in DEPRECATED_MODELS.items():
        plain = re.sub(r"(\d)(st|nd|rd|th),", r"\1,", day)
        expected = datetime.strptime(plain, "%B %d, %Y").replace(tzinfo=UTC).date()
        assert retirement(name), name
        assert retirement(name).day == expected, name


def test_the_dates_of_openai_are_those_of_its_sdk():
    text = Path(completion_create_params.__file__).read_text(encoding="utf-8")
    text = " ".join(text.partition("Deprecated values:")[2].partition('"""')[0].split())
    found = re.findall(
        r"- ((?:\"[\w.-]+\",? ?)+): Announced shutdown date: (\S+)\.", text
    )
    assert len(found) > 10
    for names, day in found:
        for name in re.findall(r'"([\w.-]+)"', names):
            if "audio" in name or re.match(r"gpt-(4-|3\.5)", name):
                continue  # not offered here
            assert retirement(name), name
            assert str(retirement(name).day) == day, name


def test_a_successor_is_known_and_current():
    current = {name for kind in LISTED for name in chat_models(kind)}
    successors = {each.successor for each in RETIREMENTS.values()}
    assert successors <= current
    assert not any(map(retirement, successors))


@every(
    ("name", "is_known"),
    [
        ("gpt-5-mini", True),
        ("gpt-5-mini-2025-08-07", True),
        ("gpt-5.4-mini", False),
        ("gpt-5-pro", False),
        ("claude-sonnet-4-5@20250929", True),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-1", False),
        ("gemini-2.5-flash-lite", False),
        ("gemini-2.5-flash-preview-09-2025", True),
    ],
)
def test_a_date_holds_for_the_versions_of_a_model_and_for_no_other(name, is_known):
    assert (retirement(name) is not None) == is_known


def test_a_model_that_is_retired_soon_is_connected_with_one_line(caplog):
    connect("openai:gpt-5-mini", api_key=lambda: "k")
    [line] = caplog.messages
    assert re.fullmatch(
        r"gpt-5-mini w.* retired on 2026-12-11. Use gpt-6-luna .*", line
    )
    caplog.clear()
    connect("openai:gpt-6-luna", api_key=lambda: "k")
    assert caplog.messages == []


def test_the_line_says_whether_it_has_happened():
    ending = RETIREMENTS["gpt-5-mini"]
    later, earlier = ending.day, ending.day - timedelta(days=89)
    assert "gpt-5-mini was retired" in ending.line("gpt-5-mini", later)
    assert "will be retired" in ending.line("gpt-5-mini", earlier)
    assert ending.is_near(earlier)
    assert not ending.is_near(ending.day - timedelta(days=90))
    assert is_retired("gpt-5-mini", later)
    assert not is_retired("gpt-5-mini", earlier)
    assert not is_retired("gpt-6-luna", date(2999, 1, 1))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-4-turbo", "It was retired on 2026-10-23. Use gpt-6-luna"),
        ("gpt-6-lunar", "Did you mean gpt-6-luna"),
        ("my-own-model", "Choose another with /model"),
    ],
)
def test_a_model_that_the_server_has_not_gets_a_name_that_it_has(model, words):
    server = FaultServer()
    server.script(failure(404, {"message": f"The model `{model}` does not exist"}))
    provider = OpenAIProvider(model, base_url=f"{server.url}/v1")
    with pytest.raises(RequestRefused, match=words):
        list(provider.stream(Request((Entry("user", "Hi"),))))
    server.close()


def test_retired_models_are_not_offered():
    assert "gpt-4-turbo" not in chat_models("openai")
    assert "claude-opus-4-0" not in chat_models("anthropic")


@every(
    ("name", "window"),
    [
        ("qwen3:8b", 32_768),
        ("gpt-oss:20b", 131_072),
        ("llama3.1:70b", 131_072),
        ("mistral-small", 32_768),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
        ("Qwen/Qwen3-32B", 32_768),
        ("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", 32_768),
        ("accounts/fireworks/models/llama-v3p1-70b-instruct", 131_072),
        ("meta-llama-3.1-8b-instruct", 131_072),
        ("meta-llama/Meta-Llama-3-8B", 8_192),
        ("my-company-model", None),
        ("not-llama3", None),
    ],
)
def test_a_model_has_the_window_of_its_family_wherever_it_is_served(
    name: str, window: int | None
):
    info = model_info(name)
    assert info.window == window
    assumed = info.or_assumed()
    assert assumed.window == (window or 32_000)
    assert assumed.is_assumed == (window is None)
    assert not assumed.with_window(8_192).is_assumed


@every(
    ("refusal", "window"),
    [
        (
            "maximum context length is 8192 tokens. You requested 9000 (8000 + 1000).",
            8_192,
        ),
        ("prompt is too long: 18310 tokens > 16000 maximum", 16_000),
        ("request (9,100 tokens) exceeds the context size (8,192 tokens)", 8_192),
        ("exceeds the context size of 4096", 4_096),
        ("the input is too long", 8_100),
        ("too long for gpt-6.5-2026 (status 400)", 8_100),
    ],
)
def test_a_refusal_corrects_a_window_that_was_assumed(refusal: str, window: int):
    assumed = ModelInfo("m").or_assumed()
    assert assumed.corrected(refusal, 9_000).window == window
    told = ModelInfo("m", window=32_000)
    assert told.corrected(refusal, 9_000) is told
