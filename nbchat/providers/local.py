"""The embedded model: a small one, served in this process, when there is no key.

It is used with the OpenAI SDK like any other server. It chats and summarises poorly; it
is there so that everything runs on a fresh machine, offline.
"""

import json
import secrets
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Unpack

from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import Tool
from nbchat.errors import ConfigError, ModelFileError, ProtocolFault
from nbchat.providers.base import (
    Reply,
    ReplyStream,
    Request,
    RequestOptions,
    checked,
    estimated_tokens,
    merged,
)
from nbchat.providers.model_download import WEIGHTS, model_file
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.providers.provider_table import LOCAL, Service
from nbchat.providers.tokens import TokenCounter

DEFAULT_WINDOW = 8_192
OUTPUT_LIMIT = 320
"""Tokens of a reply: six seconds of a 135M model on one core."""

REPETITION_PENALTY = 0.6
"""Keeps a small model from repeating one sentence. An example in the request was tried
for summaries and is worse: the model then repeats the example."""

READ_TIMEOUT_SECONDS = 600.0
"""Reading a full window of new text takes over a minute on one core."""

STRING_LEAST, STRING_LIMIT = 3, 160
"""Characters of a free string in a call; without a limit the model does not end it."""

LIST_LIMIT = 8
"""Items of a list in a structured answer, for the same reason."""

SMALLER_LIMITS = (
    (6, 120),
    (4, 100),
    (3, 80),
    (2, 80),
    (1, 120),
    (1, 90),
    (1, 60),
    (1, 40),
)
"""Items of a list and characters of a string in forms that would not fit an answer."""

CHARACTERS_PER_TOKEN = 3
"""Of JSON, rather too few: it is 3.8 where the embedded model fills a form."""

NUMBER_LENGTH = 8

NESTED = 3
"""Strings in a list of objects, such as names, are so many times shorter."""

_COMPACT = {"x-guidance": {"whitespace_flexible": False, "lenient": True}}
"""For grammars: line breaks and indentation would be a third of a form's tokens."""

ANSWER_LIMIT = 1_200
"""Characters of an answer when tools must not be called."""

TAGGED_SENTENCES, SENTENCE_LIMIT = 4, 200
"""Sentences inside an answer tag and characters of each, for the same reason."""


class LocalProvider:
    """A GGUF model served in this process: `local:smollm2` or `local:/path/to.gguf`.

    Forced tool calls and tagged answers are enforced by a grammar, so that they are
    valid however small the model is.
    """

    def __init__(
        self,
        name: str,
        *,
        service: Service | None = None,
        base_url: str = "",
        api_key: Callable[[], str] | None = None,
        window: int | None = None,
        api_key_hosts: Collection[str] = (),
        headers: Mapping[str, str] | None = None,
        proxy: str = "",
        **options: Unpack[RequestOptions],
    ) -> None:
        """Load nothing yet; raises ConfigError for an unknown name or missing file."""
        # It has a server and key of its own.
        del service, base_url, api_key, api_key_hosts, headers, proxy
        self._options = checked(options)
        is_file = Path(name).suffix == ".gguf"
        if name not in WEIGHTS and not is_file:
            raise ConfigError(
                f"No embedded model named {name!r}. "
                f"Use local:{', local:'.join(WEIGHTS)} or local:/path/to/a/file.gguf."
            )
        if is_file and not Path(name).exists():
            raise ConfigError(f"No model file at {name}. Check the path.")
        self.name = f"local:{Path(name).stem if is_file else name}"
        self._model = name
        trained = WEIGHTS[name].window if name in WEIGHTS else DEFAULT_WINDOW
        wanted = window or trained
        self._window = wanted if is_file else min(wanted, trained)
        self._lock = threading.Lock()
        self._client: _GrammarClient | None = None
        self._server: LocalServer | None = None

    def __repr__(self) -> str:
        """The name, not the key."""
        return f"<LocalProvider {self.name}>"

    def __reduce__(self) -> Any:
        """Pickled by name; another process starts a server of its own."""
        return _local, (self._model, self._window, self._options)

    def stream(
        self, request: Request, *, stop: threading.Event | None = None
    ) -> ReplyStream:
        """Yield deltas and return the reply; a forced call has no deltas."""
        if is_forced(request):
            return self._forced_call(request, stop)
        return self._connected().stream(request, stop=stop)

    def info(self) -> ModelInfo:
        """The window with which the server is started."""
        return ModelInfo(self.name, self._window, OUTPUT_LIMIT)

    def count_tokens(self, request: Request) -> int:
        """An estimate by the local counter."""
        return estimated_tokens(request, TokenCounter())

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
        """The client of the server, which is started at the first request."""
        with self._lock:
            if self._client is None:
                is_file = self._model not in WEIGHTS
                file = Path(self._model) if is_file else model_file(self._model)
                template = "" if is_file else _template(self._model)
                server = LocalServer(file, window=self._window, chat_template=template)
                self._server = server
                self._client = _GrammarClient(server, file.stem, self._options)
            return self._client


class _GrammarClient(OpenAIProvider):
    """The OpenAI provider with llama.cpp's grammars in the request."""

    def __init__(
        self, server: "LocalServer", model: str, options: RequestOptions
    ) -> None:
        usual = RequestOptions(temperature=0.0, timeout_seconds=READ_TIMEOUT_SECONDS)
        super().__init__(
            model,
            service=LOCAL,
            base_url=f"{server.base_url}/v1",
            api_key=lambda: server.api_key,
            **merged(usual, options),
        )

    def _extra_body(self, request: Request) -> dict[str, Any]:
        limit = request.max_output_tokens or OUTPUT_LIMIT
        schema, grammar = request.output_schema, ""
        if request.tools and request.tool_choice != "none":
            schema = None  # llama.cpp takes no grammar while tools may be called
        elif schema is not None:
            # A longer summary takes minutes and says no more.
            most = min(limit, OUTPUT_LIMIT) if request.answer_tag else limit
            schema, grammar = enforced(schema, most * CHARACTERS_PER_TOKEN)
        request = replace(request, max_output_tokens=limit, output_schema=schema)
        body = super()._extra_body(request)
        if is_forced(request):
            # llama.cpp accepts a grammar with tools only if none may be called.
            body |= {"grammar": call_grammar(request), "tool_choice": "none"}
            return body
        body["frequency_penalty"] = REPETITION_PENALTY
        if grammar:
            return body | {"grammar": grammar}
        if request.output_schema is not None:
            return body  # the server makes a grammar of the schema, and takes only one
        if request.answer_tag:
            body["grammar"] = tag_grammar(request.answer_tag)
        elif request.tools and request.tool_choice == "none":
            body["grammar"] = answer_grammar()
        return body


def _local(name: str, window: int, options: RequestOptions) -> LocalProvider:
    return LocalProvider(name, window=window, **options)


def _template(name: str) -> str:
    return (files("nbchat.providers") / f"{name}.jinja").read_text(encoding="utf-8")


class LocalServer:
    """llama.cpp serving one model file on 127.0.0.1 with a random key."""

    def __init__(self, file: Path, *, window: int, chat_template: str = "") -> None:
        """Load the model (half a second for 135M) and listen on a free port."""
        try:
            import xllamacpp  # noqa: PLC0415  # an optional dependency of 100 MB
        except ImportError as error:
            raise ConfigError(
                "The embedded model needs xllamacpp. Run: pip install xllamacpp"
            ) from error
        self.api_key = secrets.token_urlsafe(24)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(file)
        parameters.model_alias = {file.stem}  # otherwise replies contain a path
        parameters.n_ctx, parameters.n_parallel = window, 1
        # A stopped request is noticed between batches; of 2,048 tokens, one takes 10 s.
        parameters.n_batch = parameters.n_ubatch = 128
        parameters.port = 0  # a free one; the address is 127.0.0.1 by default
        parameters.verbosity = 0
        # Two threads wait for each other when another process keeps a core busy.
        parameters.cpuparams.n_threads = 1
        parameters.cpuparams_batch.n_threads = 1
        parameters.api_keys = [self.api_key]
        if chat_template:
            parameters.chat_template = chat_template
        try:
            self._server = xllamacpp.Server(parameters)
        except RuntimeError as error:
            raise ModelFileError(
                f"llama.cpp can't load {file.name}. Is it a GGUF file?"
            ) from error

    @property
    def base_url(self) -> str:
        """The server's address without a path."""
        return str(self._server.listening_address)


def is_forced(request: Request) -> bool:
    """True if the reply must be a call."""
    return bool(request.tools) and request.tool_choice not in ("auto", "none")


def tag_grammar(tag: str) -> str:
    """A GBNF grammar for a few whole sentences inside `<tag>...</tag>`."""
    return (
        f'root ::= "<{tag}>" sentence{{1,{TAGGED_SENTENCES}}} "</{tag}>"\n'
        f"sentence ::= [^<.!?]{{8,{SENTENCE_LIMIT}}} [.!?]"
    )


def answer_grammar() -> str:
    """A GBNF grammar for plain text: nothing that could begin a call."""
    return f"root ::= [^<{{]{{2,{ANSWER_LIMIT}}}"


def call_grammar(request: Request) -> str:
    """A grammar for one call as the chat template writes it, or for `{}`.

    The latter where there is nothing to choose: 25 tokens of a certain text would take
    half a second.
    """
    allowed = _allowed(request)
    if _is_certain(allowed):
        return 'root ::= "{}"'
    schema = _COMPACT | {"anyOf": [_call_schema(tool) for tool in allowed]}
    return (
        "%llguidance {}\n"
        'start: "<tool_call>\\n" call "\\n</tool_call>"\n'
        f"call: %json {json.dumps(schema)}"
    )


def _allowed(request: Request) -> list[Tool]:
    """The tools of which the reply must call one."""
    return [t for t in request.tools if request.tool_choice in ("required", t.name)]


def _is_certain(allowed: Sequence[Tool]) -> bool:
    """True if only one call can be made: of one tool that takes no arguments."""
    return len(allowed) == 1 and not allowed[0].parameters.get("properties")


def _call_schema(tool: Tool) -> dict[str, Any]:
    properties = {
        name: _bounded(definition)
        for name, definition in tool.parameters["properties"].items()
    }
    return _closed(
        {
            "name": {"const": tool.name},
            "arguments": _closed(properties, tool.parameters.get("required", [])),
        }
    )


def _closed(
    properties: dict[str, Any], required: list[str] | None = None
) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def _bounded(
    definition: dict[str, Any], string_limit: int = STRING_LIMIT
) -> dict[str, Any]:
    is_free_string = definition.get("type") == "string" and "enum" not in definition
    limits = {"minLength": STRING_LEAST, "maxLength": string_limit}
    return limits | definition if is_free_string else definition


def enforced(
    schema: Mapping[str, Any], characters: int
) -> tuple[Mapping[str, Any] | None, str]:
    """A schema for the server, or a grammar where the answer could get too long.

    An answer that is cut is of no use, and small models write until they are cut. The
    grammar has limits that fit so many characters, or the least there are.
    """
    usual: Mapping[str, Any] = bounded_schema(schema)
    if longest_answer(usual) <= characters:
        return usual, ""
    for limits in SMALLER_LIMITS:
        smaller = bounded_schema(schema, *limits)
        if longest_answer(smaller) <= characters:
            break
    return None, "%llguidance {}\n" + f"start: %json {json.dumps(_COMPACT | smaller)}"


def bounded_schema(
    schema: Any, list_limit: int = LIST_LIMIT, string_limit: int = STRING_LIMIT
) -> Any:
    """A schema whose free strings and lists have a limit, at any depth."""
    if isinstance(schema, list):
        return [bounded_schema(each, list_limit, string_limit) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    is_list = schema.get("type") == "array"
    is_short = (
        is_list and string_limit < STRING_LIMIT and _is_object(schema.get("items"))
    )
    inner_limit = string_limit // NESTED if is_short else string_limit
    inner = {
        word: bounded_schema(each, list_limit, inner_limit)
        for word, each in schema.items()
    }
    if is_list:
        return {"maxItems": list_limit} | inner
    is_free = not {"format", "pattern"} & set(inner)
    return _bounded(inner, string_limit) if is_free else inner


def _is_object(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "object"


def longest_answer(schema: Any) -> int:
    """Characters of the longest answer to a bounded schema, without whitespace."""
    if not isinstance(schema, Mapping):
        return 0
    if "enum" in schema:
        return max(len(json.dumps(choice)) for choice in schema["enum"])
    if either := schema.get("anyOf") or schema.get("oneOf"):
        return max(map(longest_answer, either))
    longest = NUMBER_LENGTH
    match schema.get("type"):
        case "string":
            longest = int(schema.get("maxLength", STRING_LIMIT)) + len('""')
        case "array":
            each = longest_answer(schema.get("items")) + len(", ")
            longest = int(schema["maxItems"]) * each + len("[]")
        case "object":
            properties = schema.get("properties", {}).items()
            parts = (len(f'"{n}": , ') + longest_answer(p) for n, p in properties)
            longest = sum(parts) + len("{}")
    return longest


def as_call(reply: Reply, request: Request) -> Reply:
    """The reply with its text parsed as a call; raises ProtocolFault."""
    text = reply.text.strip()
    text = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
    allowed = _allowed(request)
    if _is_certain(allowed):
        text = json.dumps({"name": allowed[0].name, "arguments": {}})
    try:
        call = json.loads(text)
        entry = Entry(
            "assistant",
            "",
            f"call_{uuid.uuid4().hex[:8]}",
            call["name"],
            json.dumps(call["arguments"], ensure_ascii=False),
        )
    except (ValueError, KeyError, TypeError):
        raise ProtocolFault(
            f"The embedded model didn't finish its call of {request.tool_choice}. "
            f"Allow more output tokens.\n{text[:60]!r}"
        ) from None
    return Reply((entry,), reply.usage, "tool_use", reply.model)
