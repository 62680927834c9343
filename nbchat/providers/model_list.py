"""Which models can be chosen: those a server lists, and some of others with a key.

A server that is slow or wrong costs a few seconds and one line; the rest is offered.
"""

import os
import threading
from dataclasses import dataclass
from importlib.util import find_spec

from nbchat.errors import NbchatError
from nbchat.providers import DEFAULT_MODELS, EMBEDDED_MODEL
from nbchat.providers.base import Provider
from nbchat.providers.model_info import chat_models

TIMEOUT_SECONDS = 6.0
"""For all of a server's list, whatever its pages; twice the time for one of them."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """Names as `/model` takes them, the present server's first."""

    models: tuple[str, ...]
    problem: str = ""
    """Why the present server's own list is missing, in a line."""


def list_models(
    provider: Provider, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> ModelList:
    """What can be chosen beside a provider; asks its server, never raises."""
    kind = provider.name.partition(":")[0]
    asked = _Asked(provider)
    asked.start()
    asked.join(timeout_seconds)
    problem = asked.problem
    if not (problem or asked.models):
        problem = f"the server of {kind} lists no models: name one"
    if asked.is_alive():
        problem = f"no list from {kind} within {timeout_seconds:.0f} s: name a model"
    listed = [_named(kind, model) for model in asked.models]
    others = [*_with_keys(besides=kind), *_embedded()]
    names = dict.fromkeys([*sorted(listed), *others])
    return ModelList(tuple(names), problem)


class _Asked(threading.Thread):
    """A server is asked for its list, on a thread that may be left behind."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(name="nbchat-catalog", daemon=True)
        self._provider = provider
        self.models: list[str] = []
        self.problem = ""

    def run(self) -> None:
        try:
            self.models = self._provider.models()
        except NbchatError as error:
            self.problem = str(error)


def _named(kind: str, model: str) -> str:
    return model if model.startswith(f"{kind}:") else f"{kind}:{model}"


def _with_keys(*, besides: str) -> list[str]:
    """Models of other providers whose key is in the environment."""
    kinds = {
        model.partition(":")[0]: model
        for variable, model in DEFAULT_MODELS.items()
        if os.environ.get(variable, "").strip()
    }
    return [
        f"{kind}:{name}"
        for kind, usual in kinds.items()
        if kind != besides
        for name in dict.fromkeys([usual.partition(":")[2], *chat_models(kind)])
    ]


def _embedded() -> list[str]:
    return [EMBEDDED_MODEL] if find_spec("xllamacpp") else []
