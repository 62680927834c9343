"""Map errors of SDKs and HTTP to nbchat's errors, by status, type and message.

For an error event after HTTP 200 the status is derived from its type. No SDK is needed
here.
"""

import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx2

from nbchat.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    KeyWithheld,
    Overloaded,
    ProtocolFault,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
    UnknownModel,
    with_details,
)
from nbchat.providers.closable_http import RedirectRefused
from nbchat.providers.endpoint import Endpoint
from nbchat.providers.model_info import nearest_models, retirement
from nbchat.providers.retries import retry_after

UNREADABLE = (
    *(ValueError, TypeError, AttributeError, LookupError),
    *(ArithmeticError, RecursionError),
)
"""Raised when a response is not JSON, not UTF-8, or not of the expected shape."""

FOREIGN = (
    *(httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError),
    *UNREADABLE,
)
"""Errors of a stream besides the SDK's own."""

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

TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
"""OpenAI's 429 for a request that is larger than a minute's tokens: waiting is useless,
a shorter request is not."""

BAD_KEY = re.compile(r"API_KEY_INVALID|API key not valid", re.IGNORECASE)
"""Gemini's messages for a bad key; the status is 400."""

PROXY_ADVICE = "Check the setting proxy, or HTTPS_PROXY and NO_PROXY."

NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""OpenSSL's reasons where the other side does not speak TLS."""

OTHER_APIS = {
    "anthropic": "Anthropic's, anthropic:MODEL with the address before /v1",
    "openai": "OpenAI's, openai:MODEL with an address that ends in /v1",
}

CODE_FIELDS = ("error_code", "reason")
"""Fields with an error code in the details of Anthropic and Gemini."""

STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "bio_policy": 400,
    "misalignment_policy_violation": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
}
"""The status for an error event; 500 for unknown types."""

ERROR_OF_STATUS: dict[int, type[ProviderError]] = {
    401: AuthenticationFailed,
    402: QuotaExhausted,
    403: AuthenticationFailed,
    408: Overloaded,
    413: ContextOverflow,
    429: RateLimited,
}

SENTENCES: dict[type[ProviderError], str] = {
    AuthenticationFailed: "{name} rejected the API key.",
    RequestRefused: "{name} rejected the request: {reason}",
    ContextOverflow: "The conversation is too long for {model}. Compact it, or exclude "
    "messages.",
    QuotaExhausted: "{name} says that your account has no credit left. Add credit, or "
    "use local:smollm2.",
    RateLimited: "{name} is rate-limiting {limited}.",
    Overloaded: "{name} is overloaded or has an internal error.",
}
"""The line for the person; what the server said follows as details."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error response of a server."""

    status: int
    types: tuple[str, ...]
    message: str
    retry_after: float | None = None
    api: str = ""
    """The API in whose words it is, `anthropic` or `openai`; empty if unknown."""
    parameter: str = ""
    """The part of the request that it names, as OpenAI does in a field."""

    @property
    def error_class(self) -> type[ProviderError]:
        """The class of the error: specific messages count more than the status."""
        words = " ".join((*self.types, self.message))
        by_status = ERROR_OF_STATUS.get(self.status)
        if by_status is RateLimited and TOO_LARGE.search(words):
            return ContextOverflow
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
    """The ProviderError for an error of an SDK, of httpx2 or of a parser."""
    if isinstance(error.__cause__, ProviderError):  # of ours, wrapped by an SDK
        return error.__cause__
    refusal = refusal_of(error)
    if refusal is not None:
        return refused(refusal, endpoint, model)
    if isinstance(error, UNREADABLE):
        seen = endpoint.shown(f"{type(error).__name__}: {error}")
        return ProtocolFault(
            with_details(f"{endpoint.name} sent an answer that can't be read.", seen)
        )
    return _connection_error(error, endpoint)


def refused(refusal: Refusal, endpoint: Endpoint, model: str) -> ProviderError:
    """The error for an error response, with the wait that the server asks for."""
    if refusal.status == HTTPStatus.NOT_FOUND:
        return _not_found(refusal, endpoint, model)
    if endpoint.is_withheld and refusal.error_class is AuthenticationFailed:
        return _withheld(refusal, endpoint)
    wait = refusal.retry_after
    line = SENTENCES[refusal.error_class].format(
        name=endpoint.name,
        model=model,
        reason=endpoint.shown(refusal.message) or "it gave no reason.",
        limited="this key" if endpoint.needs_key else "your requests",
    )
    is_refused = refusal.error_class is RequestRefused  # the line has its words
    is_key_wrong = refusal.error_class is AuthenticationFailed
    has_variable = is_key_wrong and endpoint.key_variable
    told = with_details(
        line,
        f"Check {endpoint.key_variable}." if has_variable else "",
        "" if wait is None else f"The server asks to wait {wait:g} s.",
        f"Status {refusal.status}" if is_refused else _seen(refusal, endpoint),
    )
    return refusal.error_class(told, retry_after=wait)


def _seen(refusal: Refusal, endpoint: Endpoint) -> str:
    """The status and the server's words."""
    return f"{refusal.status}: {endpoint.shown(refusal.message) or 'no reason given'}"


def _withheld(refusal: Refusal, endpoint: Endpoint) -> AuthenticationFailed:
    product = endpoint.product
    article = "an" if product.startswith((*"AEIO", "LM")) else "a"
    line = (
        f"{endpoint.name} isn't {article} {product} server, so your {product} key "
        "wasn't sent."
    )
    if not endpoint.is_encrypted:
        more = "Plain HTTP isn't safe for a key. Use https:// to send it."
        seen = _seen(refusal, endpoint)
        return AuthenticationFailed(with_details(line, more, seen))
    more = (
        f"To always send {endpoint.key_variable} to it, add {endpoint.host} to the "
        "setting api_key_hosts."
    )
    return KeyWithheld(
        with_details(line, more, _seen(refusal, endpoint)), endpoint.server
    )


def _not_found(refusal: Refusal, endpoint: Endpoint, model: str) -> RequestRefused:
    words = f"{refusal.types} {refusal.message}".lower()
    if other := _other_api(refusal, endpoint):
        return RequestRefused(other)
    if "model" in words:
        return UnknownModel(
            with_details(
                f"{endpoint.name} has no model named {model}. "
                f"{_instead_of(model, endpoint)}",
                _seen(refusal, endpoint),
            )
        )
    return RequestRefused(
        with_details(
            f"There's no API at {endpoint.shown_url}. Check base_url, or update the "
            "server.",
            _seen(refusal, endpoint),
        )
    )


def _other_api(refusal: Refusal, endpoint: Endpoint) -> str:
    """One line about a server that speaks another API; empty if it may be this one.

    A path that is not found is answered in the words of the server's own API.
    """
    speaks = "anthropic" if endpoint.speaks_messages else "openai"
    if endpoint.is_own or refusal.api in ("", speaks):
        return ""
    maker, _, name = OTHER_APIS[refusal.api].partition(", ")
    return f"{endpoint.shown_url} speaks {maker} API. Use {name}."


def _instead_of(model: str, endpoint: Endpoint) -> str:
    """Advice about an unknown model: its successor, or the nearest names."""
    if ending := retirement(model):
        return ending.line("It")
    if nearest := nearest_models(model, endpoint.kind):
        return f"Did you mean {' or '.join(nearest)}? /model changes it."
    return "Choose another with /model."


def refusal_in(status: int, body: object, headers: Mapping[str, str]) -> Refusal:
    """Parse the body of an error response, which may be of any shape."""
    error = unlisted(body)
    error = error.get("error", error) if isinstance(error, dict) else error
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else ""}
    details = _details(error)
    codes = [error.get("type"), error.get("code"), error.get("status")]
    codes += [detail.get(name) for detail in details for name in CODE_FIELDS]
    types = tuple(str(code) for code in codes if code)
    message = str(error.get("message") or error.get("detail") or "")
    if not _is_error(status):
        status = _status_of_types(types)
    wait = retry_after(headers)
    wait = _delay(details) if wait is None else wait
    parameter = str(error.get("param") or "")
    return Refusal(status, types, message, wait, _api_of(error), parameter)


def _api_of(error: dict[str, Any]) -> str:
    """Whose words an error is in: OpenAI's have a `param` and a `code`."""
    if {"param", "code"} & {*error}:
        return "openai"
    return "anthropic" if str(error.get("type")).endswith("_error") else ""


def unlisted(body: object) -> object:
    """The body without the list in which Gemini's compatible API wraps errors."""
    return body[0] if isinstance(body, list) and body else body


def error_fields(body: object) -> dict[str, Any]:
    """The error in the body of a response of any shape, with its message."""
    found = unlisted(body)
    if isinstance(found, dict) and isinstance(found.get("error"), dict):
        return dict(found["error"])
    return found if isinstance(found, dict) else {"message": str(found or "")}


def wrong_body(text: str, endpoint: Endpoint) -> ProtocolFault:
    """The error for a page instead of a stream, such as a proxy's login."""
    error = ProtocolFault(
        with_details(
            f"{endpoint.shown_url} sent a web page, not an answer. Check base_url and "
            "proxy.",
            endpoint.shown(text, 80),
        )
    )
    error.is_retryable = False  # the page would be the same again
    return error


def refusal_of(error: Exception) -> Refusal | None:
    """The response of an SDK's error: `body`, with status unless it was 200."""
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


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    """The details of an error: Anthropic sends an object, Gemini a list."""
    found = error.get("details")
    each = found if isinstance(found, list) else [found]
    return [detail for detail in each if isinstance(detail, dict)]


def _delay(details: list[dict[str, Any]]) -> float | None:
    """Seconds to wait by Gemini's `"retryDelay": "34s"`, which has no header."""
    texts = (str(detail.get("retryDelay", "")) for detail in details)
    found = (re.fullmatch(r"(\d+(?:\.\d+)?)s", text) for text in texts)
    return next((float(match[1]) for match in found if match), None)


def _is_error(status: int) -> bool:
    error = httpx2.codes
    return error.is_client_error(status) or error.is_server_error(status)


def _status_of_types(types: tuple[str, ...]) -> int:
    """The status for an error that was sent after HTTP 200."""
    statuses = (
        int(name) if name.isdecimal() else STATUS_OF_TYPE.get(name, 0) for name in types
    )
    return next(filter(_is_error, statuses), int(HTTPStatus.INTERNAL_SERVER_ERROR))


def _connection_error(error: Exception, endpoint: Endpoint) -> ConnectionFailed:
    """The failure in its own words: name, proxy, TLS, server, silence."""
    chain = list(_causes(error))
    found = next(filter(None, (_in_words(each, endpoint) for each in chain)), None)
    if found is not None:
        words, is_retryable = found
        failed = ConnectionFailed(words)
        failed.is_retryable = is_retryable
        return failed
    # The SDKs wrap some of httpx2's errors, and httpx2 wraps others.
    is_ours = isinstance(error, httpx2.HTTPError)
    cause = error if is_ours else error.__cause__ or error
    seen = endpoint.shown(f"{type(cause).__name__}: {cause}")
    return ConnectionFailed(
        with_details(f"Lost the connection to {endpoint.name}.", seen)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The causes of an error, the innermost first: it says most."""
    within = error.__cause__ or error.__context__
    if within is not None:
        yield from _causes(within)
    yield error


def _in_words(error: BaseException, endpoint: Endpoint) -> tuple[str, bool] | None:
    """The meaning of an error, and whether another attempt can help."""
    host, words, may_pass = endpoint.host, "", False
    match error:
        case ssl.SSLCertVerificationError():
            words = with_details(
                f"Can't verify the certificate of {host}. If a proxy or your "
                "organization signs it, set SSL_CERT_FILE.",
                error.verify_message,
            )
        case ssl.SSLError():
            may_pass = error.reason not in NO_TLS
            failed = with_details(
                f"The encrypted connection to {host} failed.", str(error.reason)
            )
            no_tls = f"{endpoint.name} doesn't use HTTPS. Use http:// in base_url."
            words = failed if may_pass else no_tls
        case socket.gaierror():
            words = f"Can't find the server {host}. Check base_url and your network."
            may_pass = True
        case RedirectRefused() | httpx2.TooManyRedirects():
            words = _redirected(error, host)
        case httpx2.ProxyError():
            refused_by_proxy = f"The proxy refused the connection. {PROXY_ADVICE}"
            words = with_details(refused_by_proxy, endpoint.shown(str(error)))
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            words, may_pass = _not_connected(endpoint), True
        case httpx2.TimeoutException():  # a slow server would compute it all again
            words = with_details(
                f"{endpoint.name} didn't answer in time.",
                "To wait longer, set timeout_seconds.",
            )
    return (words, may_pass) if words else None


def _redirected(error: httpx2.RequestError, host: str) -> str:
    if isinstance(error, httpx2.TooManyRedirects):
        return f"{host} redirects in a loop. Check base_url."
    return (
        f"{host} redirects to {error}, which is another server, so nothing was sent "
        "there. If you trust that server, set base_url to it."
    )


def _not_connected(endpoint: Endpoint) -> str:
    if proxy := endpoint.shown_proxy:
        return with_details(
            f"Can't connect to {endpoint.name} through the proxy {proxy}. Is the proxy "
            "running?",
            PROXY_ADVICE,
        )
    cause = "Is the server running?"
    if endpoint.name == endpoint.product:
        cause = "Check your network connection."
    return with_details(
        f"Can't connect to {endpoint.name}. {cause}",
        f"The address (base_url) is {endpoint.shown_url}.",
    )
