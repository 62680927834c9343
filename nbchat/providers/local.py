"""The embedded model: a small one, served in this process, when there is no key.

It is talked to with the OpenAI SDK like any other server. It chats and summarises
poorly; it is there so that everything runs on a fresh machine, offline.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from nbchat.errors import ConfigError, ModelFileError
from nbchat.providers.base import ReplyStream, Request
from nbchat.providers.grammar import (
    answer_grammar,
    as_call,
    call_grammar,
    is_forced,
    tag_grammar,
)
from nbchat.providers.model_download import WEIGHTS, model_file
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.openai import OpenAIProvider
from nbchat.providers.tokens import TokenCounter
from nbchat.providers.wire import estimated_tokens


class LocalServer:
    """llama.cpp serving one model file on 127.0.0.1 with a random key."""

    def __init__(self, file: Path, *, window: int, chat_template: str = "") -> None:
        """Load the model and listen on a free port; half a second for 135M."""
        try:
            import xllamacpp  # noqa: PLC0415  # an optional dependency of 100 MB
        except ImportError as error:
            raise ConfigError(
                "the embedded model needs xllamacpp; run: pip install xllamacpp"
            ) from error
        self.api_key = secrets.token_urlsafe(24)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(file)
        parameters.model_alias = {file.stem}  # otherwise answers name a private path
        parameters.n_ctx, parameters.n_parallel = window, 1
        parameters.port = 0  # a free one; the address is 127.0.0.1 by default
        parameters.verbosity = 0
        # Two threads wait on each other as soon as another process keeps a core busy.
        parameters.cpuparams.n_threads = 1
        parameters.cpuparams_batch.n_threads = 1
        parameters.api_keys = [self.api_key]
        if chat_template:
            parameters.chat_template = chat_template
        try:
            self._server = xllamacpp.Server(parameters)
        except RuntimeError as error:
            raise ModelFileError(
                f"llama.cpp cannot load {file.name}: is it a GGUF file?"
            ) from error

    @property
    def base_url(self) -> str:
        """Where it listens, without a path."""
        return str(self._server.listening_address)


DEFAULT_WINDOW = 8_192
OUTPUT_LIMIT = 320
"""Tokens of an answer: six seconds of a 135M model on one core."""

REPETITION_PENALTY = 0.6
"""Keeps a small model from saying one sentence for ever. An example in the request was
tried for summaries and is worse: the model then retells the example."""

READ_TIMEOUT_SECONDS = 600.0
"""A window full of new text takes a minute and more to read on one core."""


class LocalProvider:
    """A GGUF model served in this process: `local:smollm2` or `local:/path/to.gguf`.

    Forced tool calls and tagged answers are enforced by a grammar, so that they are
    valid however small the model is.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "",
        api_key: Callable[[], str] | None = None,
        window: int | None = None,
    ) -> None:
        """Nothing is fetched or loaded yet; raises ConfigError for an unknown name."""
        del base_url, api_key  # its own server, its own key
        is_file = Path(name).suffix == ".gguf"
        if name not in WEIGHTS and not is_file:
            raise ConfigError(
                f"there is no embedded model {name!r}; "
                f"use local:{', local:'.join(WEIGHTS)} or local:/path/to/a/file.gguf"
            )
        if is_file and not Path(name).exists():
            raise ConfigError(f"there is no model file {name}; check the path")
        self.name = f"local:{Path(name).stem if is_file else name}"
        self._model = name
        trained = WEIGHTS[name].window if name in WEIGHTS else DEFAULT_WINDOW
        wanted = window or trained
        self._window = wanted if is_file else min(wanted, trained)
        self._lock = threading.Lock()
        self._client: _GrammarClient | None = None
        self._server: LocalServer | None = None

    def __repr__(self) -> str:
        """The name; the key stays inside."""
        return f"<LocalProvider {self.name}>"

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        """The reply; a forced call comes without deltas, whole and valid."""
        if is_forced(request):
            return self._forced_call(request, stop)
        return self._connected().stream(request, stop=stop)

    def info(self) -> ModelInfo:
        """The window the server is started with; asking costs nothing."""
        return ModelInfo(self.name, self._window, OUTPUT_LIMIT)

    def count_tokens(self, request: Request) -> int:
        """An estimate by the local counter."""
        return estimated_tokens(request, TokenCounter())

    def models(self) -> list[str]:
        """The embedded models there are."""
        return list(WEIGHTS)

    def close(self) -> None:
        """Stop the server and free its memory."""
        with self._lock:
            self._client = self._server = None

    def _forced_call(
        self, request: Request, stop: threading.Event | None
    ) -> ReplyStream:
        stream = self._connected().stream(request, stop=stop)
        while True:
            try:
                next(stream)
            except StopIteration as finished:
                return as_call(finished.value, request)
        yield  # a generator, though it has nothing to show

    def _connected(self) -> "_GrammarClient":
        """The client of the running server; the first call fetches and starts it."""
        with self._lock:
            if self._client is None:
                is_file = self._model not in WEIGHTS
                file = Path(self._model) if is_file else model_file(self._model)
                template = "" if is_file else _template(self._model)
                server = LocalServer(file, window=self._window, chat_template=template)
                self._server = server
                self._client = _GrammarClient(server, file.stem)
            return self._client


class _GrammarClient(OpenAIProvider):
    """The OpenAI client with llama.cpp's grammars in the request body."""

    kind = "local"

    def __init__(self, server: LocalServer, model: str) -> None:
        super().__init__(
            model,
            base_url=f"{server.base_url}/v1",
            api_key=lambda: server.api_key,
            temperature=0.0,
            read_timeout_seconds=READ_TIMEOUT_SECONDS,
        )

    def _extra_body(self, request: Request) -> dict[str, Any]:
        limit = request.max_output_tokens or OUTPUT_LIMIT
        body = super()._extra_body(replace(request, max_output_tokens=limit))
        if is_forced(request):
            # llama.cpp takes a grammar beside tools only where none may be called.
            body |= {"grammar": call_grammar(request), "tool_choice": "none"}
            return body
        body["frequency_penalty"] = REPETITION_PENALTY
        if request.answer_tag:
            body["grammar"] = tag_grammar(request.answer_tag)
        elif request.tools and request.tool_choice == "none":
            body["grammar"] = answer_grammar()
        return body


def _template(name: str) -> str:
    return (files("nbchat.providers") / f"{name}.jinja").read_text(encoding="utf-8")
