"""Context window, output limit, encoding, prices and retirement of models.

Windows come from the server if it reports them, else from the package `genai-prices`,
like prices, else from the name of its family, else 32,000 tokens are assumed, which is
said. An unknown price is None, and then no $0 is shown.

Sources of the dates of retirement, read in November 2026: openai 3.57
(`completion_create_params.py`), anthropic 2.13 (`DEPRECATED_MODELS`),
https://ai.google.dev/gemini-api/docs/deprecations.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from difflib import get_close_matches

from genai_prices import types
from genai_prices.data_snapshot import get_snapshot

from nbchat.conversation.entries import Usage

DEFAULT_OUTPUT_LIMIT = 4_096
"""Output tokens if a model's own limit is unknown; every chat model allows them."""

LIMITS: tuple[tuple[str, int | None, int], ...] = (
    (r"(chat)?gpt-4o", None, 16_384),
    (r"gpt-4\.1", None, 32_768),
    (r"gpt-5(\.\d)?-chat", None, 16_384),
    (r"gpt-5\.4-(mini|nano)|gpt-5(\.[1-3])?(-|$)", 272_000, 128_000),
    (r"gpt-5\.|gpt-[6-9]", 922_000, 128_000),
    (r"o[134]($|-)", None, 100_000),
    (r"claude-3-[hos]", None, 4_096),
    (r"claude-3-5", None, 8_192),
    (r"claude-opus-4(-[01])?($|-20)", None, 32_000),
    (r"claude-", None, 64_000),
    (r"gemini-(1\.5|2\.0)", None, 8_192),
    (r"gemini-", None, 65_536),
)
"""Names of models, the most input tokens if that is less than the window, and the most
output tokens: https://developers.openai.com/api/docs/models,
https://platform.claude.com/docs/en/about-claude/models/overview,
https://ai.google.dev/gemini-api/docs/models. The price list has only windows."""

CLOUD_PREFIX = re.compile(r"^([a-z]+\.)*(anthropic|openai)\.")
"""Before a model's name on Amazon Bedrock."""

PRICE_LIST = "the package genai-prices"
DOCUMENTATION = "the provider's documentation"
SERVER = "the model's server"
FAMILY = "the model's family, by its name"
ASSUMED = "an assumption, because the server doesn't say"
REFUSAL = "a request that the server refused as too long"
"""Sources of what is known of a model."""

ASSUMED_WINDOW = 32_000
"""The window of a model that nothing is known of: most that people serve themselves
have this or more. The first refusal or cut request corrects it."""

SMALLER = 0.9
"""The window as a share of a refused request's size, if no number is given."""

LEAST_LIMIT = 1_024
"""Tokens: no model that chats has a smaller window."""

_TOKENS = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+|\d{4,8})(?![\w.]?\d)")

FAMILIES: tuple[tuple[str, int], ...] = (
    (r"gemini-[23]", 1_048_576),  # of 2.5 Pro the price list has no window
    (r"gpt-?oss", 131_072),
    (r"qwen-?3-?coder", 262_144),
    (r"(qwen-?[23]|qwq)", 32_768),
    (r"(meta-)?llama-?(guard-?)?v?3[.p][123]", 131_072),
    (r"llama-?4", 131_072),
    (r"(meta-)?llama-?v?3", 8_192),
    (r"(codellama|phi-?4|phind)", 16_384),
    (r"llama-?2|phi-?3|vicuna|zephyr", 4_096),
    (r"(mistral|mixtral|ministral|magistral|codestral|devstral)", 32_768),
    (r"gemma-?[34]", 32_768),
    (r"gemma|smollm|starcoder", 8_192),
    (r"deepseek", 65_536),
    (r"(command-?[ar]|glm-?[45]|kimi|granite-?[34]|nemotron)", 131_072),
)
"""Beginnings of names that families of models have, wherever they are served, and the
window of the smallest model in it, from their model cards."""

LONG_WRITE = 2.0 / 1.25
"""Price of writing Anthropic's cache for an hour, by that for five minutes:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing"""

NEWER_OPENAI = re.compile(r"gpt-(5\.[6-9]|[6-9])")
"""Models of OpenAI whose prompt cache takes marks and is kept for half an hour."""

MILLION = 1_000_000

LISTED = {"anthropic": "anthropic", "openai": "openai", "gemini": "google"}
"""Names of the providers in the price list."""

NEAR_NAME = 0.75
"""Similarity from which a model's name is taken for another's with a typo."""

LEAST_WINDOW = 128_000
"""Smallest window of a model to offer from the price list: others are old."""

_CHAT_NAME = re.compile(r"claude-|gpt-|o\d|gemini-")
_SPECIAL = re.compile(r"image|audio|tts|live|search|vision|research|transcribe|-20\d\d")

DATES = "the SDK and the provider's documentation"

NOTICE_DAYS = 90
"""Days before its retirement from which a model is warned of."""

DATED = ("-20", "@20", "-latest", "-preview")
"""Begin what may follow a model's name: a date of its version."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens, in dollars."""

    input: float
    cache_read: float
    cache_write: float
    output: float
    tiers: tuple[tuple[int, "Prices"], ...] = ()
    """Prices of requests with more input tokens than a limit, smallest limit first.

    They apply to all tokens of such a request, not only to those above the limit.
    """

    def at(self, input_tokens: int) -> "Prices":
        """The prices of a request with so many input tokens."""
        reached = [prices for start, prices in self.tiers if input_tokens > start]
        return reached[-1] if reached else self

    def with_writes(self, factor: float) -> "Prices":
        """The same with other prices of writing the cache."""
        tiers = tuple((start, each.with_writes(factor)) for start, each in self.tiers)
        return replace(self, cache_write=self.cache_write * factor, tiers=tiers)

    def cost(self, usage: Usage) -> float:
        """Dollars of one reply; add up the costs of several, for their tiers differ."""
        prices = self.at(usage.input_tokens)
        read, write = usage.cache_read_tokens, usage.cache_write_tokens
        uncached = max(usage.input_tokens - read - write, 0)
        dollars = (
            uncached * prices.input
            + read * prices.cache_read
            + write * prices.cache_write
            + usage.output_tokens * prices.output
        )
        return dollars / MILLION


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The limits and prices of a model; sizes in tokens."""

    name: str
    window: int | None = None
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    encoding: str = "o200k_base"
    prices: Prices | None = None
    input_limit: int | None = None
    """Most input tokens, where that is less than the window leaves."""
    cache_seconds: float = 300.0
    """How long an unused prompt cache is kept."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where window, input_limit, output_limit and prices are from."""

    @property
    def is_assumed(self) -> bool:
        """True if the window is an assumption."""
        return self.sources.get("window") == ASSUMED

    def or_assumed(self) -> "ModelInfo":
        """The model, with an assumed window where nothing tells it."""
        if self.window is not None or self.input_limit is not None:
            return self
        return self.with_window(ASSUMED_WINDOW, ASSUMED)

    def corrected(self, refusal: str, tokens: int) -> "ModelInfo":
        """The model after a request of so many tokens was refused as too long.

        Only a window that was assumed, or is that of the family, is corrected: by the
        number in the refusal, else to less than the request had.
        """
        window = self.window
        if window is None or self.sources.get("window") not in (ASSUMED, FAMILY):
            return self
        told = window_in(refusal, tokens) or int(tokens * SMALLER)
        return self.with_window(told, REFUSAL) if 0 < told < window else self

    @property
    def usable_window(self) -> int | None:
        """Input tokens that a request may have; the rest is reserved for the reply."""
        if self.window is None:
            return self.input_limit
        rest = self.window - self.output_reserve
        return rest if self.input_limit is None else min(rest, self.input_limit)

    @property
    def output_reserve(self) -> int:
        """Tokens of the window reserved for the reply: at most a quarter of it."""
        if self.window is None:
            return self.output_limit
        return min(self.output_limit, self.window // 4)

    def with_window(
        self, window: int | None, source: str = "the setting window"
    ) -> "ModelInfo":
        """The same model with another window, unless that is None."""
        if not window or window == self.window:
            return self
        sources = {**self.sources, "window": source}
        return replace(self, window=window, input_limit=None, sources=sources)

    def with_longest_answer(self, tokens: int | None) -> "ModelInfo":
        """The model when answers of so many tokens are asked for, unless that is None.

        Summaries may be longer: their reserve stays.
        """
        if tokens is None:
            return self
        least = min(self.output_limit, DEFAULT_OUTPUT_LIMIT)
        return replace(self, output_limit=max(tokens, least))

    def with_cache_lifetime(self, lifetime: str | None) -> "ModelInfo":
        """The model with a prompt cache that is kept for longer, for its price."""
        seconds, factor = 300.0, 1.0
        name = CLOUD_PREFIX.sub("", self.name.partition(":")[2] or self.name)
        if name.startswith("claude") and lifetime == "1h":
            seconds, factor = 3_600.0, LONG_WRITE
        elif NEWER_OPENAI.match(name):
            seconds = 43_200.0 if lifetime == "1h" else 1_800.0
        prices = self.prices and self.prices.with_writes(factor)
        return replace(self, cache_seconds=seconds, prices=prices)

    def cost(self, usage: Usage) -> float | None:
        """Dollars of one reply; None if prices are unknown."""
        return None if self.prices is None else self.prices.cost(usage)

    def priced(self, usage: Usage) -> Usage:
        """The usage of one reply with its cost; unchanged if prices are unknown."""
        dollars = self.cost(usage)
        if dollars is None:
            return usage
        return replace(usage, dollars=dollars, priced_tokens=usage.total_tokens)


def model_info(name: str, *, provider: str | None = None) -> ModelInfo:
    """The limits of a model from the price list, and its prices with a `provider`.

    Without a provider prices are unknown: a private server may serve a model under a
    name that costs money elsewhere.
    """
    try:
        _, model = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        found = ModelInfo(name, encoding=_encoding(name))
        return _with_limits(found.with_window(family_window(name), FAMILY))
    listed = ModelInfo(
        name,
        window=model.context_window,
        encoding=_encoding(name),
        prices=_prices(model.get_prices(datetime.now(UTC))) if provider else None,
        sources={"window": PRICE_LIST, "prices": PRICE_LIST},
    )
    if listed.window is None:
        listed = listed.with_window(family_window(name), FAMILY)
    return _with_limits(listed)


def window_in(refusal: str, tokens: int) -> int | None:
    """The window that a refusal of a request names, whatever its words are.

    The largest number is what was asked for, and the next one the limit: "maximum
    context length is 8192 tokens, you requested 9000". A single number is the limit.
    """
    found = {int(each.replace(",", "")) for each in _TOKENS.findall(refusal)}
    numbers = sorted(each for each in found if each >= LEAST_LIMIT)
    if len(numbers) > 1:
        return numbers[-2]
    return numbers[0] if numbers and numbers[0] < tokens else None


def family_window(name: str) -> int | None:
    """The window of a model by the family that its name begins with.

    What names the server or the owner does not count: `hf.co/unsloth/Qwen3-8B`.
    """
    last = name.lower().rpartition("/")[2]
    found = (window for start, window in FAMILIES if re.match(start, last))
    return next(found, None)


def _with_limits(info: ModelInfo) -> ModelInfo:
    """The model with its own limits of input and output, if they are known."""
    name = CLOUD_PREFIX.sub("", info.name.rpartition("/")[2])
    for pattern, input_limit, output_limit in LIMITS:
        if re.match(pattern, name):
            limit = input_limit if info.window else None
            found = {"output_limit": DOCUMENTATION}
            found |= {"input_limit": DOCUMENTATION} if limit else {}
            return replace(
                info,
                input_limit=limit,
                output_limit=output_limit,
                sources={**info.sources, **found},
            )
    return info


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as its server lists it."""

    name: str
    window: int | None
    owner: str


def chat_models(kind: str) -> list[str]:
    """The current chat models of a provider in the price list."""
    listed = LISTED.get(kind)
    provider = next((p for p in get_snapshot().providers if p.id == listed), None)
    return sorted(
        model.id
        for model in (provider.models if provider else ())
        if (model.context_window or 0) >= LEAST_WINDOW
        and _CHAT_NAME.match(model.id)
        and not (model.deprecated or _SPECIAL.search(model.id))
        and not is_retired(model.id)
    )


def nearest_models(name: str, kind: str) -> list[str]:
    """The names in the price list that a model's name may be a typo of."""
    known = chat_models(kind)
    return (
        [] if name in known else get_close_matches(name, known, n=3, cutoff=NEAR_NAME)
    )


def _prices(listed: types.ModelPrice) -> Prices | None:
    """Prices with a tier for each limit; None if they are unknown or zero."""
    base, *tiers = (
        (start, _prices_above(listed, start)) for start in [0, *_limits(listed)]
    )
    known = replace(base[1], tiers=tuple(tiers))
    return known if known.input and known.output else None


def _limits(listed: types.ModelPrice) -> list[int]:
    """Numbers of input tokens above which a price changes."""
    each = (listed.input_mtok, listed.cache_read_mtok, listed.cache_write_mtok)
    tiered = (
        price
        for price in (*each, listed.output_mtok)
        if isinstance(price, types.TieredPrices)
    )
    return sorted({tier.start for price in tiered for tier in price.tiers})


def _prices_above(listed: types.ModelPrice, start: int) -> Prices:
    """Cached tokens without a price of their own cost as much as uncached ones."""
    uncached = _price(listed.input_mtok, start)
    return Prices(
        input=uncached,
        cache_read=_price(listed.cache_read_mtok, start, default=uncached),
        cache_write=_price(listed.cache_write_mtok, start, default=uncached),
        output=_price(listed.output_mtok, start),
    )


def _price(
    price: Decimal | types.TieredPrices | None, start: int, *, default: float = 0.0
) -> float:
    """The price just above `start` input tokens; `default` if there is none."""
    if isinstance(price, types.TieredPrices):
        reached = [tier.price for tier in price.tiers if start and tier.start <= start]
        return float(reached[-1] if reached else price.base)
    return default if price is None else float(price)


def _encoding(name: str) -> str:
    """The tiktoken vocabulary that is most similar to a model's own."""
    old = name.startswith(("gpt-4-", "gpt-3.5", "text-")) or name == "gpt-4"
    return "cl100k_base" if old else "o200k_base"


@dataclass(frozen=True, slots=True)
class Retirement:
    """The day from which a model is not served, and its successor."""

    day: date
    successor: str

    def is_near(self, today: date | None = None) -> bool:
        """True if the model is retired, or will be within 90 days."""
        today = today or datetime.now(UTC).date()
        return (self.day - today).days < NOTICE_DAYS

    def line(self, name: str, today: date | None = None) -> str:
        """Two sentences about a model: when it is retired, and what to use."""
        today = today or datetime.now(UTC).date()
        verb = "was retired" if self.day <= today else "will be retired"
        return f"{name} {verb} on {self.day}. Use {self.successor} instead."


def retirement(name: str) -> Retirement | None:
    """When a model is retired; None if no date is known. `name` has no provider."""
    if name in RETIREMENTS:
        return RETIREMENTS[name]
    stems = (stem for stem in RETIREMENTS if name.startswith(stem))
    versions = [stem for stem in stems if name[len(stem) :].startswith(DATED)]
    return RETIREMENTS[max(versions, key=len)] if versions else None


def is_retired(name: str, today: date | None = None) -> bool:
    """True if a model is no longer served."""
    found = retirement(name)
    return found is not None and found.day <= (today or datetime.now(UTC).date())


_TABLE: tuple[tuple[str, str, str], ...] = (
    ("2026-12-11", "gpt-6-luna", "gpt-5-mini gpt-5-nano"),
    ("2026-12-11", "gpt-6-sol", "gpt-5 o3"),
    ("2027-04-01", "gpt-6-luna", "gpt-5.4-nano"),
    ("2027-04-01", "gpt-6-sol", "gpt-5.1"),
    ("2026-08-10", "gpt-6-luna", "gpt-5.2-chat-latest gpt-5.3-chat-latest"),
    (
        "2026-07-23",
        "gpt-6-luna",
        (
            "gpt-5-chat-latest gpt-5.1-chat-latest gpt-5.1-codex gpt-4o-search-preview "
            "gpt-4o-mini-search-preview"
        ),
    ),
    ("2027-01-14", "gpt-6-luna", "gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini"),
    (
        "2026-10-23",
        "gpt-6-luna",
        (
            "gpt-4.1-nano o4-mini o3-mini o1 gpt-4-turbo gpt-4 gpt-3.5-turbo "
            "gpt-4o-2024-05-13 gpt-4-1106-preview gpt-4-0613 gpt-3.5-turbo-0125"
        ),
    ),
    ("2026-02-17", "gpt-6-luna", "chatgpt-4o-latest"),
    ("2026-02-12", "gpt-6-sol", "codex-mini-latest"),
    ("2025-10-27", "gpt-6-luna", "o1-mini"),
    ("2025-07-28", "gpt-6-luna", "o1-preview"),
    ("2027-01-22", "claude-opus-5-5", "claude-opus-4-5"),
    ("2026-11-30", "claude-sonnet-5-5", "claude-sonnet-4-5"),
    ("2026-06-30", "claude-opus-5-5", "claude-mythos-preview"),
    ("2026-06-15", "claude-opus-5-5", "claude-opus-4-0 claude-opus-4"),
    ("2026-06-15", "claude-sonnet-5-5", "claude-sonnet-4-0 claude-sonnet-4"),
    ("2026-02-19", "claude-sonnet-5-5", "claude-3-7-sonnet"),
    ("2026-02-19", "claude-haiku-5-5", "claude-3-5-haiku"),
    ("2026-01-05", "claude-opus-5-5", "claude-3-opus"),
    ("2025-07-21", "claude-sonnet-5-5", "claude-3-sonnet claude-2.1 claude-2.0"),
    (
        "2024-11-06",
        "claude-haiku-5-5",
        (
            "claude-1.3 claude-1.3-100k claude-instant-1.1 claude-instant-1.1-100k "
            "claude-instant-1.2"
        ),
    ),
    ("2026-12-01", "gemini-3.5-flash-lite", "gemini-2.5-flash"),
)
"""Days, successors and names; a name means its dated versions, too."""

RETIREMENTS = {
    name: Retirement(date.fromisoformat(day), successor)
    for day, successor, names in _TABLE
    for name in names.split()
}
