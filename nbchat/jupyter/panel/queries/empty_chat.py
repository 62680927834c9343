"""Query for an empty chat: how to get a model, and what to ask about the notebook."""

from importlib.util import find_spec
from typing import Any

from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.attachments.value_preview import comes_from
from nbchat.config.api_keys import KEY_VARIABLES
from nbchat.config.policy_and_models import model_of
from nbchat.conversation.live_variables import is_fit
from nbchat.jupyter.panel.answers import (
    ProviderKey,
    StartOptions,
    Suggestion,
    Trial,
)
from nbchat.providers.connect import EMBEDDED_MODEL
from nbchat.providers.model_download import WEIGHTS, is_fetched

FIX = "@error\n\nWhat went wrong here, and how do I fix it?"
"""The message of `%chat fix`."""

MOST_SUGGESTIONS = 3


def start_options(resolver: Resolver | None) -> StartOptions:
    """Providers with their keys' variables, the trial model, and suggestions."""
    name = EMBEDDED_MODEL.partition(":")[2]
    return StartOptions(
        providers=tuple(
            ProviderKey(kind, variable, model_of(kind))
            for kind, variable in KEY_VARIABLES.items()
        ),
        can_keep=find_spec("keyring") is not None,
        trial=Trial(
            model=EMBEDDED_MODEL,
            megabytes=0 if is_fetched(name) else WEIGHTS[name].megabytes,
            is_installed=find_spec("xllamacpp") is not None,
        ),
        suggestions=tuple(suggestions(resolver) if resolver else ()),
    )


def suggestions(resolver: Resolver) -> list[Suggestion]:
    """Up to three questions about the last error, the newest table, the last cell."""
    found = []
    if resolver.error():
        found.append(Suggestion("Explain the last error", FIX))
    for name, size in _frames(resolver)[:2]:
        found += [
            Suggestion(
                f"Describe {name} ({size})",
                f"Describe @{name}: what does it contain, and what is unusual in it?",
            ),
            Suggestion(
                f"Plot {name}", f"Write code that plots what matters most in @{name}."
            ),
        ]
    if resolver.cell(None) is not None:
        text = "@cell\n\nExplain what this cell does, and what could be better."
        found.append(Suggestion("Explain the last cell", text))
    return found[:MOST_SUGGESTIONS]


def _frames(resolver: Resolver) -> list[tuple[str, str]]:
    """Data frames of the notebook, the newest first, each with its size."""
    values = resolver.variables()
    names = [name for name in values if is_fit(name, values[name])]
    frames: dict[str, Any] = {n: values[n] for n in reversed(names)}
    return [(n, _size(frame)) for n, frame in frames.items() if _is_frame(frame)]


def _is_frame(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "DataFrame" and comes_from(kind, "pandas", "polars")


def _size(frame: Any) -> str:
    rows, columns = frame.shape
    return f"{rows:,} x {columns:,}"
