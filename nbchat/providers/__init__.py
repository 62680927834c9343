"""Models behind APIs: `connect("openai:gpt-5-mini")` gives one to talk to.

A provider's module, and with it the SDK, is imported when one of its models is asked
for and not before.
"""

import os
from collections.abc import Callable
from importlib import import_module

from nbchat.errors import ConfigError
from nbchat.providers.base import Provider

KINDS = {
    "anthropic": "AnthropicProvider",
    "openai": "OpenAIProvider",
    "gemini": "GeminiProvider",
    "local": "LocalProvider",
}

# A key in the environment chooses the model when none is named: small, current, cheap.
DEFAULT_MODELS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "GEMINI_API_KEY": "gemini:gemini-2.5-flash",
}
EMBEDDED_MODEL = "local:smollm2"


def default_model() -> str:
    """The model when none is named: by the key in the environment, else embedded."""
    for variable, model in DEFAULT_MODELS.items():
        if os.environ.get(variable):
            return model
    return EMBEDDED_MODEL


def connect(
    model: str = "",
    *,
    base_url: str = "",
    api_key: Callable[[], str] | None = None,
    window: int | None = None,
) -> Provider:
    """The provider for `provider:model`; nothing is sent yet.

    `api_key` is called when a client is built; without it the key comes from the
    environment. `window` overrides what is known of the model's context window.
    Raises ConfigError for an unknown provider or a missing key.
    """
    kind, _, name = (model or default_model()).partition(":")
    if kind not in KINDS or not name:
        known = ", ".join(f"{each}:..." for each in KINDS)
        raise ConfigError(
            f"model {model!r} names no known provider; use one of {known}"
        )
    provider = getattr(import_module(f"nbchat.providers.{kind}"), KINDS[kind])
    connected: Provider = provider(
        name, base_url=base_url, api_key=api_key, window=window
    )
    return connected
