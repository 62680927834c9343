"""Ask a server for its models' limits and prices; some of them list these.

Ollama and LM Studio load a model with a window of their own choice, which is often far
below what the model was trained with: https://docs.ollama.com/context-length.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from nbchat.providers.model_info import (
    MILLION,
    SERVER,
    ModelInfo,
    Prices,
    ServedModel,
)
from nbchat.providers.wire_format import Json, a_list, an_object, whole

Ask = Callable[[str, Json | None], Any]
"""Gets a path of the server, or posts a body to it; returns the JSON."""

OLLAMA_OWNERS = ("library", "ollama")
"""Owners of the models in Ollama's list."""

WINDOW_FIELDS = (
    "n_ctx",  # llama.cpp, inside `meta`
    "max_model_len",  # vLLM
    "context_length",  # OpenRouter
    "context_window",  # Groq
    "max_input_tokens",  # Anthropic
)
"""Names of a model's window in servers' lists of models."""

LM_STUDIO_OWNER = "organization_owner"

SERVERS = {
    "library": "Ollama",
    "ollama": "Ollama",
    LM_STUDIO_OWNER: "LM Studio",
    "vllm": "vLLM",
    "llamacpp": "llama.cpp",
    "sglang": "SGLang",
}
"""Servers by the owner of the models in their lists."""

MESSAGES_OWNER = "anthropic's api"
"""The owner of models whose list is one of Anthropic's API."""

OLLAMA_DEFAULT = 4_096
"""Ollama's window without a setting of its own; longer requests are cut silently."""


TOLD_SECONDS = 10.0
"""How long what a server reported is used for providers that are made later."""


class ReportedModels:
    """The reports of one server about its models: windows, limits and prices.

    A run makes a provider for each of its agents; one of them asks for all.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, int | None, ModelInfo]] = {}

    def of(self, model: str) -> tuple[int | None, ModelInfo] | None:
        """The window and the rest, if it was reported a short time ago."""
        told_at, window, info = self._known.get(model, (-TOLD_SECONDS, None, None))
        is_new = time.monotonic() - told_at < TOLD_SECONDS
        return (window, info) if is_new and info is not None else None

    def keep(self, model: str, window: int | None, info: ModelInfo) -> None:
        """Keep what it tells now."""
        self._known[model] = time.monotonic(), window, info


@cache
def reported_by(kind: str, address: str) -> ReportedModels:
    """The reports of a server, shared by all providers of this process."""
    del kind, address
    return ReportedModels()


def loaded_window(models: list[Json], name: str, ask: Ask) -> int | None:
    """The window with which a server has loaded, or will load, a model."""
    owners = {str(an_object(model).get("owned_by")) for model in models}
    if LM_STUDIO_OWNER in owners:
        return _lm_studio_window(an_object(ask("/api/v0/models", None)), name)
    if owners & {*OLLAMA_OWNERS}:
        running = _ollama_running(an_object(ask("/api/ps", None)), name)
        shown = None if running else ask("/api/show", {"model": name})
        return running or _ollama_window(an_object(shown))
    return _llama_window(an_object(ask("/props", None)))


def model_among(models: list[Json], name: str) -> Json:
    """A model in a list; a single one matches any name. Empty if there is none."""
    named = [model for model in models if model.get("id") == name]
    return next(iter(named or (models if len(models) == 1 else [])), {})


def listed_window(model: Json) -> int | None:
    """The window that a list of models states for one.

    OpenRouter's is that of the server which is usually asked.
    """
    fields = {**an_object(model.get("meta")), **model}
    for more in (an_object(model.get("top_provider")), fields):
        sizes = map(more.get, WINDOW_FIELDS)
        if found := next((size for size in sizes if isinstance(size, int)), None):
            return found
    return None


def with_listed(known: ModelInfo, model: Json, *, is_priced: bool) -> ModelInfo:
    """A model's information, completed by a server's list of models."""
    usual = an_object(model.get("top_provider"))  # OpenRouter's
    found: dict[str, Any] = {"output_limit": whole(usual.get("max_completion_tokens"))}
    prices = an_object(model.get("pricing")) if is_priced else {}
    found["prices"] = _openrouter_prices(prices)
    found = {name: each for name, each in found.items() if each}
    sources = {**known.sources, **dict.fromkeys(found, SERVER)}
    return replace(known, **found, sources=sources)


def _openrouter_prices(pricing: Json) -> Prices | None:
    """Prices of a token as text, each; https://openrouter.ai/docs/api-reference."""
    try:
        of = {name: float(each) * MILLION for name, each in pricing.items()}
        uncached, output = of["prompt"], of["completion"]
    except (ValueError, TypeError, KeyError):
        return None
    if not (uncached and output):
        return None
    read, write = of.get("input_cache_read"), of.get("input_cache_write")
    return Prices(uncached, read or uncached, write or uncached, output)


def _llama_window(answer: Json) -> int | None:
    """The window of llama.cpp's server, or of one that answers like it."""
    settings = an_object(answer.get("default_generation_settings"))
    return whole(settings.get("n_ctx")) or whole(answer.get("n_ctx")) or None


def _lm_studio_window(answer: Json, name: str) -> int | None:
    for model in map(an_object, a_list(answer.get("data"))):
        if model.get("id") == name:
            sizes = map(model.get, ("loaded_context_length", "max_context_length"))
            return next(filter(None, map(whole, sizes)), None)
    return None


def _ollama_running(answer: Json, name: str) -> int | None:
    """The window of a model that runs; its name may have a tag, such as `:latest`."""
    for model in map(an_object, a_list(answer.get("models"))):
        if name in (model.get("name"), str(model.get("name")).partition(":")[0]):
            return whole(model.get("context_length")) or None
    return None


def _ollama_window(shown: Json) -> int:
    """The window that is set for a model, else Ollama's default, or the model's own."""
    parameters = str(shown.get("parameters"))
    if found := re.search(r"^num_ctx\s+(\d+)", parameters, re.MULTILINE):
        return int(found[1])
    trained = (
        whole(size)
        for key, size in an_object(shown.get("model_info")).items()
        if key.endswith(".context_length")
    )
    return min(next(filter(None, trained), OLLAMA_DEFAULT), OLLAMA_DEFAULT)


def newest_first(models: Iterable[Mapping[str, Any]]) -> list[ServedModel]:
    """Listed models; those of one day, or without one, by name."""
    by_name = sorted(models, key=lambda model: str(model["id"]))
    newest = sorted(by_name, key=_made_at, reverse=True)
    return [
        ServedModel(str(model["id"]), listed_window(dict(model)), _owner(model))
        for model in newest
    ]


def server_named_by(models: Iterable[ServedModel]) -> str:
    """The software that serves models, by the owner it gives them; empty if unknown."""
    owners = {each.owner for each in models}
    return next((name for owner, name in SERVERS.items() if owner in owners), "")


def _owner(model: Mapping[str, Any]) -> str:
    """Who owns a model, as its server says; a list of Anthropic's API has no owners."""
    is_of_messages = model.get("type") == "model" and "display_name" in model
    return str(model.get("owned_by") or (MESSAGES_OWNER if is_of_messages else ""))


def _made_at(model: Mapping[str, Any]) -> float:
    """When a model was made, as a server lists it; 0 where it does not say."""
    value = model.get("created", model.get("created_at", 0))
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return value.timestamp() if isinstance(value, datetime) else float(value)
    except (TypeError, ValueError, OverflowError, OSError):
        return 0.0
