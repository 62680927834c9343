"""Google's Gemini: a chat by its OpenAI-compatible endpoint, a count by its own API."""

from typing import Any

import httpx2

from nbchat.providers import gemini_wire
from nbchat.providers.base import Request
from nbchat.providers.message_cache import Json
from nbchat.providers.openai import OpenAIProvider
from nbchat.providers.sdk import QUESTION_TIMEOUT_SECONDS

COMPATIBLE_PATH = "/openai"
"""The compatible endpoint's last step; without it the address is that of Gemini's own.
https://ai.google.dev/gemini-api/docs/openai"""

MODEL_PREFIX = "models/"


class GeminiProvider(OpenAIProvider):
    """A model of Google."""

    kind = "gemini"
    default_url = "https://generativelanguage.googleapis.com/v1beta/openai"
    url_variable = "GEMINI_BASE_URL"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    format = gemini_wire.FORMAT

    def count_tokens(self, request: Request) -> int:
        """Input tokens of a request as Gemini counts them.

        Counted here where a compatible server is not Gemini's own.
        """
        if not self._native_address:
            return super().count_tokens(request)
        return self._inquire(lambda: self._counted(request), request)

    def _counted(self, request: Request) -> int:
        model = self._model_for(request).removeprefix(MODEL_PREFIX)
        body = {"generateContentRequest": gemini_wire.native_request(request, model)}
        counted = self._native("POST", f"{model}:countTokens", self._timeout, body)
        return int(counted["totalTokens"])

    def _new_reader(self) -> gemini_wire.SignedReader:
        return gemini_wire.SignedReader()

    def _extra_body(self, request: Request) -> Json:
        fields = super()._extra_body(request)
        if request.tools:
            functions = gemini_wire.functions(request.tools)
            tools = [{"type": "function", "function": each} for each in functions]
            fields["tools"] = tools
        return fields

    def _served_models(self) -> list[Json]:
        return list(map(_plainly_named, super()._served_models()))

    def _served_window(self) -> int | None:
        if not (self._is_home and self._native_address):
            return super()._served_window()
        name = self._model.removeprefix(MODEL_PREFIX)
        window = self._native("GET", name, QUESTION_TIMEOUT_SECONDS)["inputTokenLimit"]
        return int(window)

    def _should_ask_window(self) -> bool:
        return self._known.window is None or not self._is_home

    @property
    def _native_address(self) -> str:
        """Where Gemini's own API stands; empty where only the compatible one does."""
        address = self.endpoint.address.rstrip("/")
        is_gemini = address.endswith(COMPATIBLE_PATH)
        return address.removesuffix(COMPATIBLE_PATH) if is_gemini else ""

    def _native(
        self,
        method: str,
        path: str,
        timeout: float | httpx2.Timeout,
        body: Json | None = None,
    ) -> Any:
        """What Gemini's own API says of a model.

        The key is in no local variable, for tracebacks may show those.
        """
        response = httpx2.request(
            method,
            f"{self._native_address}/{MODEL_PREFIX}{path}",
            headers={"x-goog-api-key": self.endpoint.key()},
            json=body,
            timeout=timeout,
        )
        response.raise_for_status()
        return response.json()


def _plainly_named(model: Json) -> Json:
    """A model of the list under the name by which it is asked for here."""
    if "id" not in model:
        return model
    return {**model, "id": str(model["id"]).removeprefix(MODEL_PREFIX)}
