"""Batch APIs of OpenAI and Anthropic: many requests at half the price, within a day.

https://developers.openai.com/api/docs/guides/batch
https://platform.claude.com/docs/en/build-with-claude/batch-processing
"""

# A part of the providers in a file of its own: it writes requests and reads replies
# with their methods.
# ruff: noqa: SLF001

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from nbchat.conversation.entries import Usage
from nbchat.errors import ConfigError, NbchatError, Overloaded
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Provider, Reply, Request
from nbchat.providers.error_mapping import Refusal, refusal_in, refused
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.providers.refused_content import Trial
from nbchat.providers.sdk_provider import SdkProvider
from nbchat.providers.wire_format import Json, an_object, finished_reply

logger = logging.getLogger(__name__)

PRICE = 0.5
"""Share of the usual price, at both providers."""

EXPIRED = "The batch ended before this request was answered."

Outcome = Reply | NbchatError


class Batches(ABC):
    """The batches of one provider."""

    def __init__(self, provider: Any) -> None:
        """`provider` writes the requests and reads the replies."""
        self.provider: Any = provider
        self._trials: dict[int, tuple[Request, Trial]] = {}
        """Requests that are being asked, by their `id`, with what was refused."""

    def submit(self, requests: Mapping[str, Request]) -> str:
        """Send requests, by their ids, as one batch; its id. Raises ProviderError."""
        bodies = {
            name: self._body(self._trial(each).request)
            for name, each in requests.items()
        }
        batch_id: str = self.provider._inquire(lambda: self._create(bodies))
        return batch_id

    def outcomes(self, batch_id: str) -> dict[str, Json] | None:
        """The outcome of each request of a batch; None while it is being worked on."""
        found: dict[str, Json] | None
        found = self.provider._inquire(lambda: self._results(batch_id))
        return found

    def reply(self, outcome: Json, request: Request) -> Outcome:
        """The reply of an outcome, or its error."""
        provider: SdkProvider = self.provider
        model = provider._model_for(request)
        status, body = self._status_and_body(outcome)
        if body is None:
            return Overloaded(EXPIRED)
        trial = self._trial(request)
        if status != 200:  # noqa: PLR2004  # the status of a success
            return self._refused(refusal_in(status, body, {}), trial, model)
        reader = provider._new_reader(trial.request)
        try:
            for event in self._events(body):
                for _ in reader.read(event):
                    pass
            reply = finished_reply(
                reader.answer(),
                trial.request,
                model=f"{provider.kind}:{model}",
                window=provider._window_of(trial.request),
                counter=provider._counter,
            )
        except NbchatError as error:
            return error
        except provider._sdk_errors as error:
            return provider._provider_error(error, request)
        reply = replace(reply, entries=trial.called(reply.entries))
        trial.accepted(reply.entries)
        self._trials.pop(id(request), None)
        for left_out in trial.news(provider.endpoint.shown):
            parts = ", ".join(left_out.parts)
            logger.warning("Requests to %s are sent without %s", left_out.model, parts)
        usage = provider._listed(request).priced(reply.usage)
        return replace(reply, usage=_at_half_price(usage))

    def _trial(self, request: Request) -> Trial:
        """The request as its model takes it; the same one while it is asked."""
        provider: SdkProvider = self.provider
        made = provider._refused.trial(provider._model_for(request), request)
        return self._trials.setdefault(id(request), (request, made))[1]

    def _refused(self, refusal: Refusal, trial: Trial, model: str) -> NbchatError:
        """The error of a refused request; to be sent again if it changes."""
        error = refused(refusal, self.provider.endpoint, model)
        body = partial(self.provider._extra_body, trial.request)
        if trial.learn(refusal, body):
            error.is_retryable = True
        return error

    @abstractmethod
    def _body(self, request: Request) -> Json:
        """The body of a request that is not streamed."""

    @abstractmethod
    def _create(self, bodies: Mapping[str, Json]) -> str:
        """Create a batch; its id."""

    @abstractmethod
    def _results(self, batch_id: str) -> dict[str, Json] | None:
        """The results of a batch that has ended, by the ids of requests."""

    @abstractmethod
    def _status_and_body(self, outcome: Json) -> tuple[int, Json | None]:
        """Status and body of a response; no body where none came."""

    @abstractmethod
    def _events(self, body: Json) -> Iterable[Json]:
        """The events of a stream that would have brought this body."""


class OpenAIBatches(Batches):
    """Batches of the Responses API."""

    path: ClassVar[str] = "/v1/responses"

    def _body(self, request: Request) -> Json:
        model = self.provider._model_for(request)
        return {"model": model, **self.provider._extra_body(request), "store": False}

    def _create(self, bodies: Mapping[str, Json]) -> str:
        client = self.provider._client
        lines = (
            json.dumps(
                {"custom_id": name, "method": "POST", "url": self.path, "body": body}
            )
            for name, body in bodies.items()
        )
        content = "\n".join(lines).encode()
        file = client.files.create(file=("nbchat.jsonl", content), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id, endpoint=self.path, completion_window="24h"
        )
        return str(batch.id)

    def _results(self, batch_id: str) -> dict[str, Json] | None:
        client = self.provider._client
        batch = client.batches.retrieve(batch_id)
        if batch.status not in ("completed", "failed", "expired", "cancelled"):
            return None
        found: dict[str, Json] = {}
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            for line in client.files.content(file).text.splitlines():
                result = json.loads(line)
                found[result["custom_id"]] = result
        if batch.status == "failed" and not found:
            faults = batch.errors.data if batch.errors else None
            said = "; ".join(str(each.message) for each in faults or [])
            raise ConfigError(f"The batch was refused: {said or 'no reason given'}")
        return found

    def _status_and_body(self, outcome: Json) -> tuple[int, Json | None]:
        response = an_object(outcome.get("response"))
        body = response.get("body")
        return int(response.get("status_code") or 0), body

    def _events(self, body: Json) -> Iterable[Json]:
        return [{"type": f"response.{body.get('status')}", "response": body}]


class AnthropicBatches(Batches):
    """Batches of messages."""

    def _body(self, request: Request) -> Json:
        limit = self.provider._output_limit(request)
        caching = {"type": "ephemeral"}
        fields = self.provider._extra_body(request)
        return {"max_tokens": limit, "cache_control": caching, **fields}

    def _create(self, bodies: Mapping[str, Json]) -> str:
        requests = [
            {"custom_id": name, "params": body} for name, body in bodies.items()
        ]
        # In extra_body, for the SDK would walk each message through typed unions.
        batch = self.provider._client.messages.batches.create(
            requests=[], extra_body={"requests": requests}
        )
        return str(batch.id)

    def _results(self, batch_id: str) -> dict[str, Json] | None:
        batches = self.provider._client.messages.batches
        if batches.retrieve(batch_id).processing_status != "ended":
            return None
        return {
            each.custom_id: each.to_dict(mode="json")
            for each in batches.results(batch_id)
        }

    def _status_and_body(self, outcome: Json) -> tuple[int, Json | None]:
        result = an_object(outcome.get("result"))
        if result.get("type") == "succeeded":
            return 200, result["message"]
        return 0, result.get("error")

    def _events(self, body: Json) -> Iterator[Json]:
        yield {"type": "message_start", "message": body}
        for index, block in enumerate(body.get("content") or []):
            yield {
                "type": "content_block_start",
                "index": index,
                "content_block": block,
            }
        ending = {"stop_reason": body.get("stop_reason")}
        yield {"type": "message_delta", "delta": ending, "usage": body.get("usage")}
        yield {"type": "message_stop"}


def batches_of(provider: Provider) -> Batches:
    """The batches of a provider; raises ConfigError if it has none."""
    if isinstance(provider, ResponsesProvider):
        return OpenAIBatches(provider)
    if isinstance(provider, AnthropicProvider):
        return AnthropicBatches(provider)
    raise ConfigError(
        f"Can't send batches to {provider.name}. Use a model of OpenAI or Anthropic, "
        "or leave out batch=True."
    )


def _at_half_price(usage: Usage) -> Usage:
    return replace(usage, dollars=usage.dollars * PRICE)
