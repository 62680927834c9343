"""Which of nbchat's errors a fault is: by status, error type, message and headers.

No SDK is needed here. An error event after HTTP 200 is judged by its type as if the
status had been an honest one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx2

from nbchat.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    Overloaded,
    ProtocolFault,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
)
from nbchat.providers.endpoint import Endpoint

UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
"""Raised when an answer is not JSON, not UTF-8, or not of the promised shape."""

FOREIGN = (
    *(httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError),
    *UNREADABLE,
)
"""Everything that can come out of a stream beside an SDK's own errors."""

OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|request_too_large|prompt is too long"
    r"|maximum context length|exceed\w* (the |model's )*(available )?context"
    r"|input token count .*exceeds"  # Gemini
    r"|context (the )?overflows|greater than the context length"  # LM Studio
    r"|maximum prompt length"  # xAI
    r"|inputs. tokens \+ .max_new_tokens|inputs. must have less than",  # TGI, Together
    re.IGNORECASE,
)
QUOTA = re.compile(
    r"insufficient_quota|billing_|spend.?limit|credit balance"
    r"|insufficient (credit|balance|funds)|credits are depleted",
    re.IGNORECASE,
)

BAD_KEY = re.compile(r"API_KEY_INVALID|API key not valid", re.IGNORECASE)
"""Gemini's words; its status is 400."""

CODE_FIELDS = ("error_code", "reason")
"""Where details of an error name its kind: Anthropic, Gemini."""

STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
}
"""The status an error event would have had; anything unknown broke the server: 500."""

ERROR_OF_STATUS: dict[int, type[ProviderError]] = {
    401: AuthenticationFailed,
    402: QuotaExhausted,
    403: AuthenticationFailed,
    408: Overloaded,
    413: ContextOverflow,
    429: RateLimited,
}

SENTENCES: dict[type[ProviderError], str] = {
    AuthenticationFailed: "{kind} does not accept the key; check {variable} ({seen})",
    RequestRefused: "{kind} refuses the request: {seen}",
    ContextOverflow: "the request is longer than {model}'s window; compact the "
    "conversation or leave something out ({seen})",
    QuotaExhausted: "the {kind} account has no credit left; add some, or use the model "
    "'local:smollm2' ({seen})",
    RateLimited: "{kind} wants fewer requests{wait} ({seen})",
    Overloaded: "{kind} is overloaded or broken{wait}; try again later ({seen})",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a server said instead of an answer."""

    status: int
    types: tuple[str, ...]
    message: str
    retry_after: float | None = None

    @property
    def error_class(self) -> type[ProviderError]:
        """The kind of error, the telling words before the status."""
        words = " ".join((*self.types, self.message))
        by_status = ERROR_OF_STATUS.get(self.status)
        if by_status in (None, ContextOverflow) and OVERFLOW.search(words):
            return ContextOverflow
        if by_status is None and BAD_KEY.search(words):
            return AuthenticationFailed
        if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Overloaded
        has_term = self.retry_after is not None and "insufficient_quota" not in words
        if QUOTA.search(words) and not has_term:
            return QuotaExhausted
        return by_status or RequestRefused


def provider_error(error: Exception, endpoint: Endpoint, model: str) -> ProviderError:
    """The error in nbchat's terms for whatever an SDK, httpx2 or a parser raised."""
    refusal = _refusal_of(error)
    if refusal is not None:
        return refused(refusal, endpoint, model)
    if isinstance(error, UNREADABLE):
        seen = endpoint.shown(f"{type(error).__name__}: {error}")
        return ProtocolFault(f"{endpoint.kind} sent what cannot be read ({seen})")
    return _unanswered(error, endpoint)


def refused(refusal: Refusal, endpoint: Endpoint, model: str) -> ProviderError:
    """The error for a server's refusal, with the wait it asked for."""
    if refusal.status == HTTPStatus.NOT_FOUND:
        return _not_found(refusal, endpoint, model)
    wait = refusal.retry_after
    sentence = SENTENCES[refusal.error_class].format(
        kind=endpoint.kind,
        model=model,
        variable=endpoint.key_variable,
        wait="" if wait is None else f" and asks to wait {wait:g} s",
        seen=f"{refusal.status}: {endpoint.shown(refusal.message) or 'no reason'}",
    )
    return refusal.error_class(sentence, retry_after=wait)


def _not_found(refusal: Refusal, endpoint: Endpoint, model: str) -> RequestRefused:
    words = f"{refusal.types} {refusal.message}".lower()
    if "model" in words:
        return RequestRefused(
            f"{endpoint.kind} has no model {model!r}; see /model for what it offers"
        )
    seen = endpoint.shown(refusal.message) or "no reason"
    return RequestRefused(f"{endpoint.url} answers 404 ({seen}); check base_url")


def refusal_in(status: int, body: object, headers: Mapping[str, str]) -> Refusal:
    """A refusal read from an error's body, which may be of any shape."""
    told = unlisted(body)
    told = told.get("error", told) if isinstance(told, dict) else told
    if not isinstance(told, dict):
        told = {"message": told if isinstance(told, str) else ""}
    details = _details(told)
    codes = [told.get("type"), told.get("code"), told.get("status")]
    codes += [detail.get(name) for detail in details for name in CODE_FIELDS]
    types = tuple(str(code) for code in codes if code)
    message = str(told.get("message") or told.get("detail") or "")
    if not _is_error(status):
        status = _honest_status(types)
    wait = retry_after(headers)
    return Refusal(status, types, message, _delay(details) if wait is None else wait)


def unlisted(body: object) -> object:
    """A body out of the list in which Gemini's compatible endpoint sends errors."""
    return body[0] if isinstance(body, list) and body else body


def wrong_body(text: str, endpoint: Endpoint) -> ProtocolFault:
    """A page where a stream was expected, as a proxy's login; waiting is useless."""
    fault = ProtocolFault(
        f"{endpoint.url} sent a page and no answer; check base_url and proxy "
        f"({endpoint.shown(text, 80)})"
    )
    fault.is_retryable = False
    return fault


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by Retry-After, which is a number or a date; None without one."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (until.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _refusal_of(error: Exception) -> Refusal | None:
    """SDK errors carry `body`, and status and response unless the status was 200."""
    if isinstance(error, httpx2.HTTPStatusError):
        return _refusal_of_response(error.response)
    body: Any = getattr(error, "body", None)
    status = getattr(error, "status_code", 0)
    if body is None and not status:
        return None
    response = getattr(error, "response", None)
    return refusal_in(status, body, response.headers if response is not None else {})


def _refusal_of_response(response: httpx2.Response) -> Refusal:
    try:
        body = response.json()
    except ValueError:
        body = response.text
    return refusal_in(response.status_code, body, response.headers)


def _details(told: dict[str, Any]) -> list[dict[str, Any]]:
    """What is told beside the message: one object by Anthropic, a list by Gemini."""
    found = told.get("details")
    each = found if isinstance(found, list) else [found]
    return [detail for detail in each if isinstance(detail, dict)]


def _delay(details: list[dict[str, Any]]) -> float | None:
    """Seconds to wait by Gemini's `"retryDelay": "34s"`, which has no header."""
    told = (str(detail.get("retryDelay", "")) for detail in details)
    found = (re.fullmatch(r"(\d+(?:\.\d+)?)s", text) for text in told)
    return next((float(match[1]) for match in found if match), None)


def _is_error(status: int) -> bool:
    error = httpx2.codes
    return error.is_client_error(status) or error.is_server_error(status)


def _honest_status(types: tuple[str, ...]) -> int:
    """The status that an error told after HTTP 200 stands for."""
    told = (
        int(name) if name.isdecimal() else STATUS_OF_TYPE.get(name, 0) for name in types
    )
    return next(filter(_is_error, told), int(HTTPStatus.INTERNAL_SERVER_ERROR))


def _unanswered(error: Exception, endpoint: Endpoint) -> ConnectionFailed:
    # The SDKs wrap some of httpx2's errors, not all; httpx2 itself wraps others.
    is_ours = isinstance(error, httpx2.HTTPError)
    cause = error if is_ours else error.__cause__ or error
    match cause:
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return ConnectionFailed(
                f"no server answers at {endpoint.url}: is it running? check base_url"
            )
        case httpx2.TimeoutException():
            return ConnectionFailed(f"{endpoint.kind} fell silent; try again")
        case _:
            seen = endpoint.shown(f"{type(cause).__name__}: {cause}")
            return ConnectionFailed(f"the line to {endpoint.kind} broke ({seen})")
