"""Anthropic's messages, and every server that speaks them."""

from functools import cached_property
from weakref import finalize

import anthropic

from nbchat.providers import anthropic_wire
from nbchat.providers.base import Request
from nbchat.providers.message_cache import Json
from nbchat.providers.sdk import (
    CONNECTIONS,
    QUESTION_TIMEOUT_SECONDS,
    SdkProvider,
    WireStream,
)


class AnthropicProvider(SdkProvider):
    """A model of Anthropic."""

    kind = "anthropic"
    default_url = "https://api.anthropic.com"
    url_variable = "ANTHROPIC_BASE_URL"
    key_variables = ("ANTHROPIC_API_KEY",)
    sdk_error = anthropic.AnthropicError
    format = anthropic_wire.FORMAT
    warm_up_events = anthropic_wire.SHORT_ANSWER

    @cached_property
    def _client(self) -> anthropic.Anthropic:
        client = anthropic.Anthropic(
            api_key=self.endpoint.key(),
            base_url=self.endpoint.address,
            timeout=self._timeout,
            http_client=anthropic.DefaultHttpxClient(limits=CONNECTIONS),
            max_retries=0,
        )
        finalize(self, client.close)
        return client

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request as Anthropic counts them."""
        return self._inquire(lambda: self._counted(request), request)

    def _counted(self, request: Request) -> int:
        count = self._client.messages.count_tokens(
            model=self._model_for(request),
            messages=[],
            extra_body=anthropic_wire.body(request, self._said(request)),
        )
        return int(count.input_tokens)

    def _new_reader(self) -> anthropic_wire.EventReader:
        return anthropic_wire.EventReader()

    def _open(self, request: Request) -> WireStream:
        return self._client.messages.create(
            model=self._model_for(request),
            max_tokens=request.max_output_tokens or self._known.output_limit,
            messages=[],
            stream=True,
            # Without a marker nothing is ever read from the cache.
            cache_control={"type": "ephemeral"},
            extra_body=self._extra_body(request),
        )

    def _extra_body(self, request: Request) -> Json:
        return {**anthropic_wire.body(request, self._said(request)), **self._sampling}

    def _served_models(self) -> list[Json]:
        page = self._client.models.list(timeout=QUESTION_TIMEOUT_SECONDS)
        return [model.to_dict(warnings=False) for model in page]

    def _served_window(self) -> int | None:
        if not self._is_home:
            return super()._served_window()
        model = self._client.models.retrieve(
            self._model, timeout=QUESTION_TIMEOUT_SECONDS
        )
        return model.max_input_tokens

    def _should_ask_window(self) -> bool:
        return self._known.window is None or not self._is_home
