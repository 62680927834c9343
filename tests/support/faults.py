"""Faults of a model's server, as tables: each with the error that it must become."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fault_server import Response, answer, failure, page
from provider_kit import KEY, Dialect

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
    UnknownModel,
)


def overloaded(dialect: Dialect) -> bytes:
    name = "overloaded_error" if dialect.wire == "anthropic" else "server_error"
    return dialect.error_event(name, f"Overloaded {KEY}")


def too_long(dialect: Dialect) -> Response:
    if dialect.wire == "openai":
        return failure(400, {"code": "context_length_exceeded", "message": "too long"})
    message = "prompt is too long: 210000 tokens > 200000 maximum"
    return failure(400, {"type": "invalid_request_error", "message": message})


def no_credit(dialect: Dialect) -> Response:
    if dialect.wire == "openai":
        return failure(429, {"type": "insufficient_quota", "message": "quota"})
    details = {"error_code": "enforced_spend_limit_reached"}
    return failure(429, {"type": "rate_limit_error", "details": details})


def data_event(text: bytes) -> bytes:
    return b"event: content_block_delta\ndata: " + text + b"\n\n"


Fault = tuple[Response | Callable[[Dialect], Response], type[ProviderError], str]

MISSHAPEN = {
    "openai": b'{"choices": [{"delta": 5}]}',
    "responses": b'{"type": "response.output_text.delta", "delta": 5}',
    "anthropic": b'{"type": "content_block_delta"}',
}

FAULTS: dict[str, Fault] = {
    "401 quoting the key": (
        failure(401, {"message": f"Incorrect API key provided: {KEY}"}),
        AuthenticationFailed,
        "_API_KEY",
    ),
    "403": (failure(403), AuthenticationFailed, "_API_KEY"),
    "402": (failure(402), QuotaExhausted, "local:smollm2"),
    "404 model": (
        failure(404, {"message": "model: model-x"}),
        UnknownModel,
        "has no model named model-x",
    ),
    "404 path": (failure(404), RequestRefused, "Check base_url"),
    "400": (
        failure(400, {"message": "bad\nparameter"}),
        RequestRefused,
        "bad parameter",
    ),
    "400 body of text": (
        Response((b"no such thing",), 400),
        RequestRefused,
        "no such thing",
    ),
    "400 too long": (too_long, ContextOverflow, "Compact it"),
    "400 too long for llama.cpp": (
        failure(400, {"code": 400, "type": "exceed_context_size_error"}),
        ContextOverflow,
        "Compact it",
    ),
    "400 too long for vLLM": (
        answer({"message": "This model's maximum context length is 4096 tokens."}, 400),
        ContextOverflow,
        "4096",
    ),
    "413": (failure(413), ContextOverflow, "Compact it"),
    "429": (failure(429), RateLimited, "is rate-limiting"),
    "429 with a wait": (failure(429, Retry_After="3600"), RateLimited, "wait 3600 s"),
    "429 without money": (no_credit, QuotaExhausted, "credit"),
    "400 without money": (
        failure(400, {"message": "Your credit balance is too low"}),
        QuotaExhausted,
        "credit",
    ),
    "408": (failure(408), Overloaded, "overloaded"),
    "500": (failure(500), Overloaded, "overloaded"),
    "529": (failure(529), Overloaded, "overloaded"),
    "502 page": (
        Response((b"<html>Bad Gateway</html>",), 502),
        Overloaded,
        "Bad Gateway",
    ),
    "error event first": (
        lambda dialect: Response((overloaded(dialect),)),
        Overloaded,
        "***",
    ),
    "error event: rate": (
        lambda dialect: Response((dialect.error_event("rate_limit_error"),)),
        RateLimited,
        "429",
    ),
    "error event: request": (
        lambda dialect: Response((dialect.error_event("invalid_request_error"),)),
        RequestRefused,
        "400",
    ),
    "error event: key": (
        lambda dialect: Response((dialect.error_event("authentication_error"),)),
        AuthenticationFailed,
        "401",
    ),
    "error event: too long": (
        lambda dialect: Response((dialect.error_event("x", "prompt is too long"),)),
        ContextOverflow,
        "Compact it",
    ),
    "error event: a status": (
        lambda dialect: Response((dialect.error_event("503"),)),
        Overloaded,
        "503",
    ),
    "error as a 200": (
        answer({"error": {"type": "rate_limit_error", "message": "slow"}}),
        RateLimited,
        "slow",
    ),
    "200 page": (
        page(f"<html>\n<body>proxy login {KEY} {'x' * 99}"),
        ProtocolFault,
        "<html> <body>proxy login *** x",
    ),
    "200 with another JSON": (answer({"a": 1}), ProtocolFault, '{"a": 1}'),
    "200 empty": (Response(), ProtocolFault, "was cut off"),
    "reset before headers": (
        Response(ending="drop"),
        ConnectionFailed,
        "Lost the connection",
    ),
    "silence before headers": (
        Response(ending="silence"),
        ConnectionFailed,
        "didn't answer in time",
    ),
    "no choices, no blocks": (
        lambda dialect: dialect.stream(),
        ProtocolFault,
        "sent an empty answer",
    ),
    "not JSON": (Response((data_event(b'{"broken'),)), ProtocolFault, "can't be read"),
    "not UTF-8": (
        Response((data_event(b'{"x": "\xff\xfe"}'),)),
        ProtocolFault,
        "can't be read",
    ),
    "a list": (Response((data_event(b"[1]"),)), ProtocolFault, "read"),
    "of another shape": (
        lambda dialect: Response((data_event(MISSHAPEN[dialect.wire]),)),
        ProtocolFault,
        "can't be read",
    ),
}


def fault(name: str, dialect: Dialect) -> Response:
    made = FAULTS[name][0]
    return made if isinstance(made, Response) else made(dialect)


NOT_TRIED_AGAIN = ("200 page", "200 with another JSON", "silence before headers")
"""Faults that would come again; a slow server would compute a whole answer again."""

PERMANENT = (
    AuthenticationFailed,
    RequestRefused,
    UnknownModel,
    ContextOverflow,
    QuotaExhausted,
)


def begun(dialect: Dialect) -> Response:
    """An answer that has only just said Hello."""
    return dialect.text("Hello").after(1 if dialect.wire == "openai" else 4)


MID_STREAM: dict[str, tuple[Callable[[Dialect, Response], Response], Any]] = {
    "error event": (lambda d, begun: begun.plus(overloaded(d)), Overloaded),
    "reset": (lambda d, begun: replace(begun, ending="reset"), ConnectionFailed),
    "cut": (lambda d, begun: replace(begun, ending="cut"), ConnectionFailed),
    "stall": (lambda d, begun: replace(begun, ending="stall"), ConnectionFailed),
    "clean end": (lambda d, begun: begun, ProtocolFault),
    "not JSON": (lambda d, begun: begun.plus(data_event(b"{")), ProtocolFault),
    "not UTF-8": (lambda d, begun: begun.plus(data_event(b"\xff")), ProtocolFault),
}


def timeout_for(response: Response) -> float:
    """A short one where the server falls silent; else a busy machine may take longer."""
    if response.ending == "silence":
        return 0.1
    return 0.3 if response.ending == "stall" else 30.0
