"""llama.cpp's own HTTP server, run inside this process on loopback."""

import secrets
from pathlib import Path

from nbchat.errors import ConfigError, ModelFileError


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
