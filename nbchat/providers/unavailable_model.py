"""A model that cannot be asked yet: its key is missing, or its name is wrong.

A chat is built with it all the same, so that everything but an answer works: commands,
the list of models, the settings and the stored messages. Each request connects again,
for a key may have been set meanwhile; until then it fails with the reason.
"""

import threading
from collections.abc import Callable

from nbchat.errors import ConfigError
from nbchat.providers.base import Provider, ReplyStream, Request, estimated_tokens
from nbchat.providers.model_info import ModelInfo, model_info
from nbchat.providers.tokens import TokenCounter


class Unconnected:
    """A model by its name, the reason why it is not connected, and how to connect."""

    def __init__(
        self, name: str, problem: str, connect: Callable[[], Provider]
    ) -> None:
        """Ask nothing; `connect` returns the real provider or raises ConfigError."""
        self.name = name
        self.problem = problem
        """Why it cannot answer; empty since a request was connected."""
        self._connect = connect
        self._provider: Provider | None = None

    def __repr__(self) -> str:
        """The model and the reason."""
        return f"<Unconnected {self.name}: {self.problem}>"

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        """The real provider's reply; raises ConfigError while there is none."""
        return (yield from self._connected().stream(request, stop=stop))

    def info(self) -> ModelInfo:
        """What the price list knows of the model."""
        return model_info(self.name.partition(":")[2])

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request, counted here."""
        return estimated_tokens(request, TokenCounter())

    def models(self) -> list[str]:
        """The models of the real provider; raises ConfigError while there is none."""
        return self._connected().models()

    def _connected(self) -> Provider:
        if self._provider is None:
            self._provider = self._connect()
            self.problem = ""
        return self._provider


def connected_or_not(name: str, connect: Callable[[], Provider]) -> Provider:
    """The provider that `connect` returns, or one that says why it cannot."""
    try:
        return connect()
    except ConfigError as error:
        return Unconnected(name, str(error), connect)


def problem_of(provider: Provider) -> str:
    """Why a model cannot answer; empty if it can, as far as is known."""
    return provider.problem if isinstance(provider, Unconnected) else ""
