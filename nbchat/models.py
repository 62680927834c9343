"""What is known of a model: its context window, output limit and encoding.

Windows come from the server where it tells, else from the package `genai-prices`; what
nobody knows stays None, and then no percentage is ever shown.
"""

from dataclasses import dataclass, replace

from genai_prices.data_snapshot import get_snapshot

DEFAULT_OUTPUT_LIMIT = 4_096
"""Tokens asked for when a model's own limit is unknown; every chat model allows it."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model as the engine needs to know it; sizes in tokens."""

    name: str
    window: int | None = None
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    encoding: str = "o200k_base"

    @property
    def output_reserve(self) -> int:
        """Tokens of the window kept free for the answer: a quarter of it at most."""
        if self.window is None:
            return self.output_limit
        return min(self.output_limit, self.window // 4)

    def with_window(self, window: int | None) -> "ModelInfo":
        """The same model with the window somebody knows better, if they do."""
        return replace(self, window=window) if window else self


def model_info(name: str, *, provider: str | None = None) -> ModelInfo:
    """What the price list knows of `name`, its window above all."""
    try:
        _, model = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        return ModelInfo(name, encoding=_encoding(name))
    return ModelInfo(name, window=model.context_window, encoding=_encoding(name))


def _encoding(name: str) -> str:
    """The tiktoken vocabulary nearest to a model's own."""
    old = name.startswith(("gpt-4-", "gpt-3.5", "text-")) or name == "gpt-4"
    return "cl100k_base" if old else "o200k_base"
