"""Options of a request: sampling, effort, time limits, attempts and caching.

They are given to `Agent`, to `connect` or as settings, and mean the same everywhere.
One that is None or absent is left to the model or the server.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from nbchat.errors import ConfigError

EFFORTS = ("off", "low", "medium", "high")
CACHE_LIFETIMES = ("5m", "1h")
MOST_STOPS = 4
"""Texts that end an answer: OpenAI and vLLM take no more."""


class RequestOptions(TypedDict, total=False):
    """How a model is asked."""

    temperature: float | None
    """From 0 to 2; Anthropic takes at most 1."""
    top_p: float | None
    """From 0 to 1."""
    seed: int | None
    """For answers that can be repeated, where a server supports that."""
    stop: str | Sequence[str] | None
    """Texts that end an answer; a single string is split at commas."""
    effort: str | None
    """How much the model reasons: off, low, medium or high."""
    timeout_seconds: float | None
    """Longest silence of the server between two bytes."""
    first_byte_seconds: float | None
    """Longest silence before an answer begins; like `timeout_seconds` by default."""
    connect_seconds: float | None
    """Longest time to connect."""
    attempts: int | None
    """Most requests for one answer, the first included."""
    patience_seconds: float | None
    """Longest time from the first request to the last attempt."""
    cache_lifetime: str | None
    """How long a provider keeps its prompt cache: 5m or 1h."""


def _between(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and least <= value <= most


_ANY = float("inf")

_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (_between(0, 2), "Use a number from 0 to 2"),
    "top_p": (_between(0, 1), "Use a number from 0 to 1"),
    "seed": (lambda value: isinstance(value, int), "Use a whole number"),
    "stop": (
        lambda value: len(stop_texts({"stop": value})) <= MOST_STOPS,
        f"Use at most {MOST_STOPS} texts",
    ),
    "effort": (EFFORTS.__contains__, f"Choose one of {', '.join(EFFORTS)}"),
    "timeout_seconds": (_between(0.1, _ANY), "Use 0.1 seconds or more"),
    "first_byte_seconds": (_between(0.1, _ANY), "Use 0.1 seconds or more"),
    "connect_seconds": (_between(0.1, _ANY), "Use 0.1 seconds or more"),
    "attempts": (_between(1, 100), "Use a whole number from 1 to 100"),
    "patience_seconds": (_between(0, _ANY), "Use 0 seconds or more"),
    "cache_lifetime": (
        CACHE_LIFETIMES.__contains__,
        f"Choose one of {', '.join(CACHE_LIFETIMES)}",
    ),
}

PATIENCE = (
    *("timeout_seconds", "first_byte_seconds", "connect_seconds"),
    *("attempts", "patience_seconds", "cache_lifetime"),
)
"""Options that say nothing about the answer, so that any model takes them."""


def checked(options: Mapping[str, Any]) -> RequestOptions:
    """The options that are set; raises ConfigError for an unknown or invalid one."""
    for name, value in options.items():
        if name not in _CHECKS:
            known = ", ".join(_CHECKS)
            raise ConfigError(f"No option named {name!r}. Choose one of {known}.")
        is_valid, advice = _CHECKS[name]
        if value not in (None, "") and not is_valid(value):
            raise ConfigError(f"{name} can't be {value!r}. {advice}.")
    return merged(options)


def merged(*layers: Mapping[str, Any]) -> RequestOptions:
    """The options of several layers; a later one wins where it sets something."""
    found: Any = {}
    for layer in layers:
        found |= {name: each for name, each in layer.items() if each not in (None, "")}
    options: RequestOptions = found
    return options


def stop_texts(options: Mapping[str, Any]) -> list[str]:
    r"""The texts that end an answer; in a string `\n` is the end of a line."""
    given = options.get("stop") or ()
    if not isinstance(given, str):
        return list(given)
    parts = (part.strip(" ") for part in given.split(","))
    return [part.replace("\\n", "\n") for part in parts if part]


def not_among(taken: Iterable[str], options: RequestOptions) -> list[str]:
    """Options about answers that are not `taken`."""
    return [name for name in options if name not in {*taken, *PATIENCE, "effort"}]


def for_summary(own: RequestOptions, chat: RequestOptions) -> RequestOptions:
    """The options of a request for a summary, which no text may end early.

    Of those of the chat only what any model takes, for another one may write it.
    """
    patience = {name: each for name, each in chat.items() if name in PATIENCE}
    return merged(
        patience, {name: each for name, each in own.items() if name != "stop"}
    )
